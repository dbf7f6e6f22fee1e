#include "rendezvous/ctl/view.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/ctl/facts.h"
#include "rendezvous/ctl/table.h"

/* cJSON takes some hundred bytes for each value, however short it is. */
#define VALUES_MAX 4000000
/* Nodes shown of a run: if it is the only one, and if there are others. */
#define NODES_ALONE 16
#define NODES_MANY  4

/* -- reading --------------------------------------------------------------- */

cJSON *ctl_view_parse(const char *json, size_t len, struct ddp_err *err)
{
    size_t values = 0;
    const char *end = NULL;
    for (size_t i = 0; i < len; i++)
        values += json[i] == ',' || json[i] == '[' || json[i] == '{';
    cJSON *status = values > VALUES_MAX
                        ? NULL
                        : cJSON_ParseWithLengthOpts(json, len, &end, 0);
    if (cJSON_IsObject(status) &&
        cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(status, "runs")))
        return status;
    cJSON_Delete(status);
    ddp_err_set(err, DDP_E_PROTO,
                "the answer is not the status of a ddprun rendezvous");
    return NULL;
}

/* -- a run ----------------------------------------------------------------- */

static void add_fact(struct ctl_table *t,
                     void (*fact)(const cJSON *, struct fact *),
                     const cJSON *obj)
{
    struct fact cell;
    fact(obj, &cell);
    ctl_table_add(t, cell.tint, "%s", cell.text);
}

static void add_run(struct ctl_table *t, const cJSON *run)
{
    char up[24];
    ctl_span(field_number(run, "uptime_s", 0), up);
    ctl_table_add(t, TINT_BOLD, "%s", field_text(run, "id"));
    add_fact(t, fact_state, run);
    ctl_table_add(t, TINT_NONE, "%lld",
                  (long long)field_whole(run, "round", 0));
    add_fact(t, fact_nodes, run);
    add_fact(t, fact_world, run);
    add_fact(t, fact_restarts, run);
    ctl_table_add(t, TINT_NONE, "%s", up);
}

static const struct ctl_column run_columns[] = {
    {"RUN", false, true},   {"STATE", false, false},
    {"ROUND", true, false}, {"NODES", false, false},
    {"WORLD", true, false}, {"RESTARTS", false, false},
    {"UP", false, false},
};

static void put_facts(const struct ctl_view *v, const cJSON *run, FILE *f)
{
    static const struct {
        bool (*say)(const cJSON *run, struct fact *out);
        bool live;   /* only of a run that has not ended */
        bool detail; /* only with --all, if nothing is amiss */
    } facts[] = {
        {fact_end, false, false},     {fact_what, true, false},
        {fact_failover, true, true},  {fact_successors, true, true},
        {fact_waiting, true, false},  {fact_progress, true, false},
        {fact_goodput, false, false}, {fact_repeated, false, false},
        {fact_failure, false, false},
    };
    bool live = !field_is(run, "state", "ended");
    struct fact fact;
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        if ((!live && facts[i].live) || !facts[i].say(run, &fact))
            continue;
        if (v->all || !facts[i].detail || fact.tint != TINT_NONE)
            ctl_put(&v->style, f, fact.tint, "  %s", fact.text);
    }
}

/* -- its nodes ------------------------------------------------------------- */

/* "running", "absent, 4 s" or "quarantined, 3 strikes". */
static void add_state(struct ctl_table *t, const cJSON *node)
{
    char more[40] = "";
    int64_t strikes = field_whole(node, "strikes", 0);
    if (field_is(node, "state", "absent")) {
        char span[24];
        ctl_span(field_number(node, "lease_s", 0), span);
        (void)snprintf(more, sizeof(more), ", %s", span); /* fits */
    } else if (strikes > 0) {
        (void)snprintf(more, /* fits */ sizeof(more), ", %lld strike%s",
                       (long long)strikes, strikes == 1 ? "" : "s");
    }
    ctl_table_add(t, fact_node_tint(node), "%s%s", field_text(node, "state"),
                  more);
}

static void add_node(struct ctl_table *t, const cJSON *node, bool with_agent)
{
    char span[24];
    int64_t rank = field_whole(node, "group_rank", -1);
    if (rank >= 0)
        ctl_table_add(t, TINT_NONE, "%lld", (long long)rank);
    else
        ctl_table_add(t, TINT_NONE, "-");
    ctl_table_add(t, TINT_NONE, "%s", field_text(node, "name"));
    if (with_agent)
        add_fact(t, fact_agent, node);
    add_state(t, node);
    add_fact(t, fact_ranks, node);
    ctl_table_add(t, TINT_NONE, "%s", field_text(node, "addr"));
    ctl_span(field_number(node, "uptime_s", 0), span);
    ctl_table_add(t, TINT_NONE, "%s", span);
}

/* With the agent's id only if two nodes have one name. */
static const struct ctl_column node_columns[] = {
    {"RANK", true, false},   {"NODE", false, true},    {"STATE", false, false},
    {"RANKS", false, false}, {"ADDRESS", false, true}, {"UP", false, false},
};
static const struct ctl_column node_columns_agent[] = {
    {"RANK", true, false},   {"NODE", false, true},   {"AGENT", false, false},
    {"STATE", false, false}, {"RANKS", false, false}, {"ADDRESS", false, true},
    {"UP", false, false},
};

/* Whether it is among those for which there is room: so many that are not well,
 * and so many that are. */
static bool is_shown(const cJSON *node, size_t *ill, size_t *well)
{
    size_t *left = fact_well(node) ? well : ill;
    if (*left == 0)
        return false;
    (*left)--;
    return true;
}

/* "..., all running" or "..., 3 running, 2 spare" of those that are not shown;
 * `first` is the state of the first of them. */
struct rest {
    size_t n;
    const char *first;
    bool mixed;
};

static void put_rest(const struct ctl_view *v,
                     const struct rest *rest,
                     int64_t left_out,
                     FILE *f)
{
    char count[32];
    if (rest->n == 0 && left_out <= 0)
        return;
    const char *dots = v->style.utf8 ? "\xe2\x80\xa6" : "...";
    ctl_number((int64_t)rest->n + (left_out > 0 ? left_out : 0), count);
    if (left_out <= 0 && !rest->mixed)
        ctl_put(&v->style, f, TINT_DIM, "  %s %s more, all %s", dots, count,
                rest->first);
    else
        ctl_put(&v->style, f, TINT_DIM, "  %s %s more (--all shows each)", dots,
                count);
}

static void
put_nodes(const struct ctl_view *v, const cJSON *run, size_t room, FILE *f)
{
    struct ctl_table t;
    struct rest rest = {.n = 0};
    const cJSON *list = field_of(run, "nodes_list");
    const cJSON *node;
    size_t n = field_count(list);
    size_t ill = 0;
    bool agents = fact_namesakes(list);
    cJSON_ArrayForEach(node, list) ill += !fact_well(node);
    if (v->all || n <= room + 1) /* the line that it would take says more */
        room = n;
    ill = ill < room ? ill : room;
    size_t well = room - ill;
    if (agents)
        ctl_table_init(&t, &v->style, node_columns_agent, 7);
    else
        ctl_table_init(&t, &v->style, node_columns, 6);
    cJSON_ArrayForEach(node, list)
    {
        if (is_shown(node, &ill, &well)) {
            add_node(&t, node, agents);
            continue;
        }
        if (rest.n++ == 0)
            rest.first = field_text(node, "state");
        rest.mixed |= strcmp(rest.first, field_text(node, "state")) != 0;
    }
    ctl_table_fit(&t, 2);
    if (n > 0)
        ctl_table_head(&t, f);
    for (size_t i = 0; i < ctl_table_rows(&t); i++)
        ctl_table_row(&t, i, f);
    ctl_table_free(&t);
    put_rest(v, &rest, field_whole(run, "nodes_left_out", 0), f);
}

/* -- the listing ----------------------------------------------------------- */

static bool is_meant(const struct ctl_view *v, const cJSON *run)
{
    return v->run == NULL || field_is(run, "id", v->run);
}

static void put_title(
    const struct ctl_view *v, const cJSON *status, int live, int ended, FILE *f)
{
    char up[24], over[48] = "";
    ctl_span(field_number(status, "uptime_s", 0), up);
    if (live + ended == 0 && v->run != NULL) {
        ctl_put(&v->style, f, TINT_NONE,
                "there is no run '%.60s' on %s; rendezvous up %s", v->run,
                v->where, up);
        return;
    }
    if (ended > 0 && live > 0)
        (void)snprintf(over, sizeof(over), ", and %d that ended", ended);
    else if (ended > 0)
        (void)snprintf(over, sizeof(over), "; %d run%s that ended", ended,
                       fact_plural(ended));
    if (live == 0)
        ctl_put(&v->style, f, TINT_BOLD,
                "nothing runs on %s; rendezvous up %s%s", v->where, up, over);
    else
        ctl_put(&v->style, f, TINT_BOLD,
                "%s: rendezvous %.20s, up %s; %d run%s%s", v->where,
                field_text(status, "version"), up, live, fact_plural(live),
                over);
}

/* A launcher, which knows one run. */
static void put_stand_in(const struct ctl_view *v, const cJSON *status, FILE *f)
{
    const char *run = field_text(status, "serves_only");
    if (run[0] != '\0')
        ctl_put(&v->style, f, TINT_NONE,
                "a launcher serves here in the place of the daemon, for run "
                "'%.60s' only",
                run);
}

static bool has_ended(const cJSON *run)
{
    return field_is(run, "state", "ended");
}

static void put_run(const struct ctl_view *v,
                    const struct ctl_table *t,
                    size_t row,
                    const cJSON *run,
                    FILE *f)
{
    bool alone = ctl_table_rows(t) == 1;
    ctl_table_row(t, row, f);
    put_facts(v, run, f);
    put_nodes(v, run, alone ? NODES_ALONE : NODES_MANY, f);
}

/* A block for each run, and one for all that ended, if `ended`. */
static void put_runs(const struct ctl_view *v,
                     const struct ctl_table *t,
                     const cJSON *runs,
                     bool ended,
                     FILE *f)
{
    const cJSON *run;
    size_t row = 0;
    bool first = true;
    cJSON_ArrayForEach(run, runs)
    {
        if (!is_meant(v, run))
            continue;
        if (has_ended(run) != ended) {
            row++;
            continue;
        }
        if (first || !ended) {
            fputc('\n', f);
            ctl_table_head(t, f);
        }
        first = false;
        put_run(v, t, row++, run, f);
    }
}

int ctl_view_print(const struct ctl_view *v, const cJSON *status, FILE *f)
{
    struct ctl_table t;
    const cJSON *runs = field_of(status, "runs");
    const cJSON *run;
    int live = 0, ended = 0;
    ctl_table_init(&t, &v->style, run_columns, 7);
    cJSON_ArrayForEach(run, runs)
    {
        if (!is_meant(v, run))
            continue;
        add_run(&t, run);
        *(has_ended(run) ? &ended : &live) += 1;
    }
    put_title(v, status, live, ended, f);
    put_stand_in(v, status, f);
    ctl_table_fit(&t, 0);
    put_runs(v, &t, runs, false, f);
    put_runs(v, &t, runs, true, f);
    ctl_table_free(&t);
    return live + ended;
}

/* Lines and tabs are the printer's own: in texts they are escaped. */
int ctl_view_json(const struct ctl_style *style, const cJSON *status, FILE *f)
{
    char *json = cJSON_Print(status);
    if (json == NULL)
        return -1;
    for (char *save, *at = strtok_r(json, "\n", &save); at != NULL;
         at = strtok_r(NULL, "\n", &save)) {
        size_t tabs = strspn(at, "\t");
        size_t size = strlen(at) + 1;
        char *clean = malloc(size);
        if (clean == NULL)
            break;
        for (char *p = at + tabs; (p = strchr(p, '\t')) != NULL;)
            *p = ' '; /* behind a name */
        ctl_clean(style, at + tabs, clean, size);
        fprintf(f, "%*s%s\n", (int)(2 * tabs), "", clean);
        free(clean);
    }
    cJSON_free(json);
    return 0;
}
