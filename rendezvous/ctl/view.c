#include "rendezvous/ctl/view.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/signals_name.h"
#include "rendezvous/ctl/table.h"

/* cJSON takes some hundred bytes for each value, however short it is. */
#define VALUES_MAX 4000000
#define TEXT_MAX   512
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

static const cJSON *get(const cJSON *obj, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(obj, name);
}

/* A number; `none` if there is none. */
static double number(const cJSON *obj, const char *name, double none)
{
    const cJSON *item = get(obj, name);
    return cJSON_IsNumber(item) ? item->valuedouble : none;
}

/* A whole number, within what an int64_t, and a page, can take. */
static int64_t whole(const cJSON *obj, const char *name, int64_t none)
{
    double d = number(obj, name, (double)none);
    return d >= -1e15 && d <= 1e15 ? (int64_t)d : none;
}

static const char *text(const cJSON *obj, const char *name)
{
    const cJSON *item = get(obj, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static bool is(const cJSON *obj, const char *name, const char *value)
{
    return strcmp(text(obj, name), value) == 0;
}

static size_t length(const cJSON *array)
{
    size_t n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) n++;
    return n;
}

/* -- lines ----------------------------------------------------------------- */

/* One line, cut at its end if it is too long. */
__attribute__((format(printf, 4, 5))) static void line(
    const struct ctl_view *v, FILE *f, enum ctl_tint tint, const char *fmt, ...)
{
    char raw[2 * TEXT_MAX];
    char clean[2 * TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(raw, sizeof(raw), fmt, ap); /* may be cut */
    va_end(ap);
    ctl_clean(&v->style, raw, clean, sizeof(clean));
    ctl_fit_end(&v->style, clean, sizeof(clean), v->style.width);
    fprintf(f, "%s%s%s\n", ctl_on(&v->style, tint), clean,
            ctl_off(&v->style, tint));
}

/* Adds to a list of parts, a comma between. */
__attribute__((format(printf, 3, 4))) static void
part(char *list, size_t size, const char *fmt, ...)
{
    size_t len = strlen(list);
    va_list ap;
    if (len > 0 && len + 2 < size) {
        memcpy(list + len, ", ", 3);
        len += 2;
    }
    va_start(ap, fmt);
    (void)vsnprintf(list + len, size - len, fmt, ap); /* may be cut */
    va_end(ap);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* -- a run ----------------------------------------------------------------- */

static enum ctl_tint run_tint(const cJSON *run)
{
    if (is(run, "state", "active"))
        return TINT_GOOD;
    if (!is(run, "state", "ended"))
        return TINT_WARN;
    return whole(get(run, "end"), "status", 0) == 0 ? TINT_DIM : TINT_BAD;
}

static void add_nodes_cell(struct ctl_table *t, const cJSON *run)
{
    int64_t min = whole(run, "nodes_min", 0);
    int64_t max = whole(run, "nodes_max", 0);
    const cJSON *waiting = get(run, "waiting");
    int64_t have = whole(waiting, "have", whole(run, "nodes", 0));
    if (is(run, "state", "ended"))
        ctl_table_add(t, TINT_NONE, "-");
    else if (min == max)
        ctl_table_add(t, TINT_NONE, "%lld of %lld", (long long)have,
                      (long long)max);
    else
        ctl_table_add(t, TINT_NONE, "%lld of %lld:%lld", (long long)have,
                      (long long)min, (long long)max);
}

static void add_restarts_cell(struct ctl_table *t, const cJSON *run)
{
    char window[24];
    double window_s = number(run, "window_s", 0);
    int64_t max = whole(run, "max_restarts", 0);
    int64_t used = whole(run, "restarts", 0);
    enum ctl_tint tint = used > 0 ? TINT_WARN : TINT_NONE;
    ctl_span(window_s, window);
    if (window_s > 0)
        ctl_table_add(t, tint, "%lld of %lld in %s",
                      (long long)whole(run, "restarts_in_window", used),
                      (long long)max, window);
    else
        ctl_table_add(t, tint, "%lld of %lld", (long long)used, (long long)max);
}

static void add_run(struct ctl_table *t, const cJSON *run)
{
    char up[24];
    int64_t world = whole(run, "world_size", 0);
    ctl_span(number(run, "uptime_s", 0), up);
    ctl_table_add(t, TINT_BOLD, "%s", text(run, "id"));
    ctl_table_add(t, run_tint(run), "%s", text(run, "state"));
    ctl_table_add(t, TINT_NONE, "%lld", (long long)whole(run, "round", 0));
    add_nodes_cell(t, run);
    if (world > 0 && (is(run, "state", "active") || is(run, "state", "drain")))
        ctl_table_add(t, TINT_NONE, "%lld", (long long)world);
    else
        ctl_table_add(t, TINT_NONE, "-");
    add_restarts_cell(t, run);
    ctl_table_add(t, TINT_NONE, "%s", up);
}

static const struct ctl_column run_columns[] = {
    {"RUN", false, true},   {"STATE", false, false},
    {"ROUND", true, false}, {"NODES", false, false},
    {"WORLD", true, false}, {"RESTARTS", false, false},
    {"UP", false, false},
};

static void put_what(const struct ctl_view *v, const cJSON *run, FILE *f)
{
    char list[TEXT_MAX] = "";
    char up[24];
    int64_t spares = whole(run, "spares", 0);
    int64_t absent = whole(run, "absent", 0);
    const cJSON *node;
    if (text(run, "prog")[0] != '\0')
        part(list, sizeof(list), "%.100s", text(run, "prog"));
    if (whole(run, "round", 0) > 0 && is(run, "state", "active")) {
        ctl_span(number(run, "round_uptime_s", 0), up);
        part(list, sizeof(list), "round %lld up %s",
             (long long)whole(run, "round", 0), up);
    } else if (is(run, "state", "drain")) {
        part(list, sizeof(list), "round %lld is being stopped",
             (long long)whole(run, "round", 0));
    }
    if (spares > 0)
        part(list, sizeof(list), "%lld spare%s", (long long)spares,
             plural(spares));
    if (absent > 0)
        part(list, sizeof(list), "%lld absent", (long long)absent);
    if (is(run, "state", "active") && text(run, "master_addr")[0] != '\0')
        part(list, sizeof(list), "master %.64s:%lld", text(run, "master_addr"),
             (long long)whole(run, "master_port", 0));
    cJSON_ArrayForEach(node, get(run, "nodes_list"))
    {
        if (cJSON_IsTrue(get(node, "hosts")))
            part(list, sizeof(list), "%.64s serves the rendezvous",
                 text(node, "name"));
    }
    if (list[0] != '\0')
        line(v, f, TINT_NONE, "  %s", list);
}

/* With failover: who has the authority. Nothing is amiss as long as it may act.
 */
/* Where the nodes would go on if this server were lost: the first few voters
 * that would serve. */
#define SUCCESSORS_SHOWN 3
static void put_successors(const struct ctl_view *v, const cJSON *run, FILE *f)
{
    char list[200] = "";
    int n = 0;
    const cJSON *node;
    cJSON_ArrayForEach(node, get(run, "nodes_list"))
    {
        int64_t port = whole(node, "serve_port", 0);
        if (!cJSON_IsTrue(get(node, "votes")) || port <= 0 ||
            cJSON_IsTrue(get(node, "hosts")))
            continue;
        if (n++ == SUCCESSORS_SHOWN) {
            part(list, sizeof(list), "...");
            break;
        }
        const char *addr = text(node, "addr");
        bool v6 = strchr(addr, ':') != NULL;
        part(list, sizeof(list), "%s%.45s%s:%lld", v6 ? "[" : "", addr,
             v6 ? "]" : "", (long long)port);
    }
    if (n > 0)
        line(v, f, TINT_NONE, "  would be served next at %s", list);
}

static void put_failover(const struct ctl_view *v, const cJSON *run, FILE *f)
{
    const cJSON *x = get(run, "failover");
    if (!cJSON_IsObject(x))
        return;
    int64_t voters = whole(x, "voters", 0);
    int64_t here = whole(x, "here", 0);
    int64_t answer = whole(x, "answer", 0);
    if (cJSON_IsTrue(get(x, "may_act")) && voters == 0)
        line(v, f, TINT_NONE, "  epoch %lld, no round has voters yet",
             (long long)whole(x, "epoch", 0));
    else if (cJSON_IsTrue(get(x, "may_act")))
        line(v, f, TINT_NONE, "  epoch %lld, %lld of %lld voter%s answer%s",
             (long long)whole(x, "epoch", 0), (long long)answer,
             (long long)voters, plural(voters), voters == 1 ? "s" : "");
    else if (cJSON_IsTrue(get(x, "in_office")))
        line(v, f, TINT_BAD,
             "  no majority: %lld of %lld voter%s answer%s, half are needed",
             (long long)answer, (long long)voters, plural(voters),
             voters == 1 ? "s" : "");
    else
        line(v, f, TINT_WARN,
             "  this server does not have the run: %lld of %lld voter%s here, "
             "more than half are needed",
             (long long)here, (long long)voters, voters == 1 ? " is" : "s are");
}

static void put_waiting(const struct ctl_view *v, const cJSON *run, FILE *f)
{
    const cJSON *w = get(run, "waiting");
    char left[24];
    if (!cJSON_IsObject(w))
        return;
    int64_t have = whole(w, "have", 0);
    int64_t min = whole(w, "min", 0);
    ctl_span(number(w, "left_s", 0), left);
    if (have < min)
        line(v, f, TINT_WARN,
             "  waiting for nodes: %lld of at least %lld have joined, gives up "
             "in %s",
             (long long)have, (long long)min, left);
    else
        line(v, f, TINT_WARN, "  %lld node%s joined; last call for %s more",
             (long long)have, have == 1 ? "" : "s", left);
}

static void put_failure(const struct ctl_view *v, const cJSON *run, FILE *f)
{
    const cJSON *x = get(run, "last_failure");
    char how[80], age[24];
    if (!cJSON_IsObject(x))
        return;
    int64_t signal = whole(x, "signal", 0);
    /* Only a number that is one: the daemon may be anything. */
    if (signal > 0 && signal < NSIG)
        (void)snprintf(how, sizeof(how), "killed by %s",
                       signals_name((int)signal));
    else if (signal != 0)
        (void)snprintf(how, sizeof(how), /* messages: ok, it has no name */
                       "killed by signal %lld", (long long)signal);
    else
        (void)snprintf(how, sizeof(how), "ended with exit code %lld",
                       (long long)whole(x, "code", 0));
    ctl_span(number(x, "age_s", 0), age);
    const char *said = text(x, "text");
    line(v, f, TINT_BAD, "  last failure: rank %lld on %.64s %s, %s ago%s%s",
         (long long)whole(x, "rank", -1), text(x, "node"), how, age,
         said[0] != '\0' ? ": " : "", said);
}

static void put_end(const struct ctl_view *v, const cJSON *run, FILE *f)
{
    const cJSON *end = get(run, "end");
    char age[24];
    int64_t status = whole(end, "status", 0);
    ctl_span(number(end, "age_s", 0), age);
    if (status == 0)
        line(v, f, TINT_NONE, "  ended %s ago: all workers succeeded (%.100s)",
             age, text(run, "prog"));
    else
        line(v, f, TINT_BAD, "  ended %s ago with status %lld: %s (%.100s)",
             age, (long long)status, text(end, "text"), text(run, "prog"));
}

/* -- its nodes ------------------------------------------------------------- */

static bool is_well(const cJSON *node)
{
    return is(node, "state", "running") || is(node, "state", "done") ||
           is(node, "state", "spare");
}

static enum ctl_tint node_tint(const cJSON *node)
{
    if (is(node, "state", "running") || is(node, "state", "done"))
        return TINT_GOOD;
    return is(node, "state", "absent") ? TINT_BAD : TINT_WARN;
}

static void add_ranks(struct ctl_table *t, const cJSON *node)
{
    int64_t base = whole(node, "base_rank", -1);
    int64_t nproc = whole(node, "nproc", 0);
    if (whole(node, "group_rank", -1) < 0 || base < 0 || nproc < 1)
        ctl_table_add(t, TINT_NONE, "-");
    else if (nproc == 1)
        ctl_table_add(t, TINT_NONE, "%lld", (long long)base);
    else
        ctl_table_add(t, TINT_NONE, "%lld-%lld", (long long)base,
                      (long long)(base + nproc - 1));
}

/* "running", "absent, 4 s" or "quarantined, 3 strikes". */
static void add_state(struct ctl_table *t, const cJSON *node)
{
    char more[40] = "";
    int64_t strikes = whole(node, "strikes", 0);
    if (is(node, "state", "absent")) {
        char span[24];
        ctl_span(number(node, "lease_s", 0), span);
        (void)snprintf(more, sizeof(more), ", %s", span); /* fits */
    } else if (strikes > 0) {
        (void)snprintf(more, /* fits */ sizeof(more), ", %lld strike%s",
                       (long long)strikes, strikes == 1 ? "" : "s");
    }
    ctl_table_add(t, node_tint(node), "%s%s", text(node, "state"), more);
}

static void add_node(struct ctl_table *t, const cJSON *node, bool with_agent)
{
    char span[24];
    int64_t rank = whole(node, "group_rank", -1);
    if (rank >= 0)
        ctl_table_add(t, TINT_NONE, "%lld", (long long)rank);
    else
        ctl_table_add(t, TINT_NONE, "-");
    ctl_table_add(t, TINT_NONE, "%s", text(node, "name"));
    if (with_agent)
        ctl_table_add(t, TINT_NONE, "%.8s", text(node, "agent"));
    add_state(t, node);
    add_ranks(t, node);
    ctl_table_add(t, TINT_NONE, "%s", text(node, "addr"));
    ctl_span(number(node, "uptime_s", 0), span);
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

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_namesakes(const cJSON *list, size_t n)
{
    const char **names = calloc(n + 1, sizeof(names[0]));
    size_t i = 0;
    bool found = false;
    const cJSON *node;
    if (names == NULL)
        return true; /* no harm: the ids are shown */
    cJSON_ArrayForEach(node, list) names[i++] = text(node, "name");
    qsort(names, n, sizeof(names[0]), compare_texts);
    for (i = 1; i < n; i++)
        found |= strcmp(names[i - 1], names[i]) == 0;
    free(names);
    return found;
}

/* Whether it is among those for which there is room: so many that are not well,
 * and so many that are. */
static bool is_shown(const cJSON *node, size_t *ill, size_t *well)
{
    size_t *left = is_well(node) ? well : ill;
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
        line(v, f, TINT_DIM, "  %s %s more, all %s", dots, count, rest->first);
    else
        line(v, f, TINT_DIM, "  %s %s more (--all shows each)", dots, count);
}

static void
put_nodes(const struct ctl_view *v, const cJSON *run, size_t room, FILE *f)
{
    struct ctl_table t;
    struct rest rest = {.n = 0};
    const cJSON *list = get(run, "nodes_list");
    const cJSON *node;
    size_t n = length(list);
    size_t ill = 0;
    bool agents = has_namesakes(list, n);
    cJSON_ArrayForEach(node, list) ill += !is_well(node);
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
            rest.first = text(node, "state");
        rest.mixed |= strcmp(rest.first, text(node, "state")) != 0;
    }
    ctl_table_fit(&t, 2);
    if (n > 0)
        ctl_table_head(&t, f);
    for (size_t i = 0; i < ctl_table_rows(&t); i++)
        ctl_table_row(&t, i, f);
    ctl_table_free(&t);
    put_rest(v, &rest, whole(run, "nodes_left_out", 0), f);
}

/* -- the page -------------------------------------------------------------- */

static bool is_meant(const struct ctl_view *v, const cJSON *run)
{
    return v->run == NULL || is(run, "id", v->run);
}

static void put_title(
    const struct ctl_view *v, const cJSON *status, int live, int ended, FILE *f)
{
    char up[24], over[48] = "";
    ctl_span(number(status, "uptime_s", 0), up);
    if (live + ended == 0 && v->run != NULL) {
        line(v, f, TINT_NONE, "there is no run '%.60s' on %s; rendezvous up %s",
             v->run, v->where, up);
        return;
    }
    if (ended > 0 && live > 0)
        (void)snprintf(over, sizeof(over), ", and %d that ended", ended);
    else if (ended > 0)
        (void)snprintf(over, sizeof(over), "; %d run%s that ended", ended,
                       plural(ended));
    if (live == 0)
        line(v, f, TINT_BOLD, "nothing runs on %s; rendezvous up %s%s",
             v->where, up, over);
    else
        line(v, f, TINT_BOLD, "%s: rendezvous %.20s, up %s; %d run%s%s",
             v->where, text(status, "version"), up, live, plural(live), over);
}

/* A launcher, which knows one run. */
static void put_stand_in(const struct ctl_view *v, const cJSON *status, FILE *f)
{
    const char *run = text(status, "serves_only");
    if (run[0] != '\0')
        line(v, f, TINT_NONE,
             "a launcher serves here in the place of the daemon, for run "
             "'%.60s' only",
             run);
}

static bool has_ended(const cJSON *run)
{
    return is(run, "state", "ended");
}

static void put_run(const struct ctl_view *v,
                    const struct ctl_table *t,
                    size_t row,
                    const cJSON *run,
                    FILE *f)
{
    bool alone = ctl_table_rows(t) == 1;
    ctl_table_row(t, row, f);
    if (has_ended(run)) {
        put_end(v, run, f);
    } else {
        put_what(v, run, f);
        put_failover(v, run, f);
        put_successors(v, run, f);
        put_waiting(v, run, f);
    }
    put_failure(v, run, f);
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
    const cJSON *runs = get(status, "runs");
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
