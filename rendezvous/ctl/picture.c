/*
 * From the top: a title, the runs, what there is to say of the chosen one, its
 * nodes, a line of keys. Each part has so many lines that the next ones keep
 * some: runs take a third, sentences (the most important first) leave a third
 * to the nodes. On a pipe nothing is limited, and each run has its sentences
 * and nodes below it.
 *
 * A column is shown from some width on, and if one of its cells says something.
 */
#include "rendezvous/ctl/picture.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/ctl/facts.h"
#include "rendezvous/ctl/table.h"

#define INDENT 2 /* of tables; a mark stands there */

/* Lines that are left for what comes. */
struct sheet {
    const struct ctl_style *style;
    FILE *f;
    int left;
};

static bool has_room(struct sheet *s)
{
    return s->left > 0 && s->left-- > 0;
}

static void put(struct sheet *s, enum ctl_tint tint, const char *text)
{
    if (has_room(s))
        ctl_put(s->style, s->f, tint, "%s", text);
}

/* -- cells ----------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void
cell(struct fact *out, enum ctl_tint tint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out->text, sizeof(out->text), fmt, ap); /* may be cut */
    va_end(ap);
    out->tint = tint;
}

/* A number with commas; "-" if it is less than `least`. */
static void
number_cell(const cJSON *obj, const char *name, int64_t least, struct fact *out)
{
    char text[32];
    int64_t n = field_whole(obj, name, least - 1);
    ctl_number(n, text);
    cell(out, TINT_NONE, "%s", n < least ? "-" : text);
}

static void cell_up(const cJSON *obj, struct fact *out)
{
    char up[24];
    ctl_span(field_number(obj, "uptime_s", 0), up);
    cell(out, TINT_NONE, "%s", up);
}

static void cell_id(const cJSON *run, struct fact *out)
{
    cell(out, TINT_BOLD, "%s", field_text(run, "id"));
}

static void cell_round(const cJSON *run, struct fact *out)
{
    number_cell(run, "round", 0, out);
}

static void cell_run_step(const cJSON *run, struct fact *out)
{
    number_cell(field_of(run, "progress"), "step", 0, out);
}

static void cell_rank(const cJSON *node, struct fact *out)
{
    number_cell(node, "group_rank", 0, out);
}

static void cell_name(const cJSON *node, struct fact *out)
{
    cell(out, TINT_NONE, "%s", field_text(node, "name"));
}

static bool has_failed_first(const cJSON *node)
{
    return field_true(node, "failed_first");
}

static void cell_state(const cJSON *node, struct fact *out)
{
    cell(out, fact_node_tint(node), "%s", field_text(node, "state"));
}

static void cell_note(const cJSON *node, struct fact *out)
{
    if (has_failed_first(node))
        cell(out, TINT_WARN, "failed first");
    else
        cell(out, TINT_NONE, "-");
}

static void cell_step(const cJSON *node, struct fact *out)
{
    number_cell(node, "step", 0, out);
}

static void cell_strikes(const cJSON *node, struct fact *out)
{
    number_cell(node, "strikes", 1, out);
    if (strcmp(out->text, "-") != 0)
        out->tint = TINT_WARN;
}

/* Of nodes that are here it is renewed all the time. */
static void cell_lease(const cJSON *node, struct fact *out)
{
    double left = field_number(node, "lease_s", -1);
    if (left > 0)
        cell(out, TINT_NONE, "%.1f s", left < 1e6 ? left : 1e6);
    else
        cell(out, TINT_NONE, "-");
}

static void cell_addr(const cJSON *node, struct fact *out)
{
    cell(out, TINT_NONE, "%s", field_text(node, "addr"));
}

/* -- tables ---------------------------------------------------------------- */

struct column {
    struct ctl_column shown;
    int width; /* of the least terminal that shows it */
    void (*cell)(const cJSON *obj, struct fact *out);
};

static const struct column run_columns[] = {
    {{"RUN", false, true}, 0, cell_id},
    {{"STATE", false, false}, 0, fact_state},
    {{"ROUND", true, false}, 60, cell_round},
    {{"NODES", false, false}, 0, fact_nodes},
    {{"WORLD", true, false}, 60, fact_world},
    {{"STEP", true, false}, 0, cell_run_step},
    {{"STEPS/S", true, false}, 72, fact_rate},
    {{"GOODPUT", true, false}, 56, fact_share},
    {{"RESTARTS", false, false}, 72, fact_restarts},
    {{"UP", false, false}, 90, cell_up},
};
#define RUN_COLUMNS (int)(sizeof(run_columns) / sizeof(run_columns[0]))

static const struct column node_columns[] = {
    {{"RANK", true, false}, 0, cell_rank},
    {{"NODE", false, true}, 0, cell_name},
    {{"AGENT", false, false}, 0, fact_agent},
    {{"STATE", false, false}, 0, cell_state},
    {{"NOTE", false, false}, 60, cell_note},
    {{"RANKS", false, false}, 0, fact_ranks},
    {{"STEP", true, false}, 0, cell_step},
    {{"STRIKES", true, false}, 60, cell_strikes},
    {{"LEASE", true, false}, 60, cell_lease},
    {{"ADDRESS", false, true}, 84, cell_addr},
    {{"UP", false, false}, 60, cell_up},
};
#define NODE_COLUMNS (int)(sizeof(node_columns) / sizeof(node_columns[0]))

/* A table of objects, and which columns of `all` it has. */
struct list {
    const cJSON **objs;
    size_t n;
    struct ctl_column columns[CTL_COLUMNS_MAX];
    void (*cells[CTL_COLUMNS_MAX])(const cJSON *obj, struct fact *out);
    int n_columns;
};

static bool says_something(const struct list *l, const struct column *c)
{
    struct fact text;
    for (size_t i = 0; i < l->n; i++) {
        c->cell(l->objs[i], &text);
        if (strcmp(text.text, "-") != 0)
            return true;
    }
    return false;
}

static void
choose_columns(struct list *l, const struct column *all, int n, int width)
{
    l->n_columns = 0;
    for (int i = 0; i < n; i++) {
        if (width < all[i].width || !says_something(l, &all[i]))
            continue;
        l->columns[l->n_columns] = all[i].shown;
        l->cells[l->n_columns++] = all[i].cell;
    }
}

/* Names that two nodes have need more. */
static void choose_node_columns(struct list *l, const cJSON *nodes, int width)
{
    struct column some[NODE_COLUMNS];
    bool agents = fact_namesakes(nodes);
    int n = 0;
    for (int i = 0; i < NODE_COLUMNS; i++)
        if (agents || node_columns[i].cell != fact_agent)
            some[n++] = node_columns[i];
    choose_columns(l, some, n, width);
}

/* The rows from `first` on, as many as there is room for but `most` at most,
 * with a mark before `marked`. The widths are those of what is shown. */
static void put_list(struct sheet *s,
                     const struct list *l,
                     size_t first,
                     size_t most,
                     const cJSON *marked)
{
    struct ctl_table t;
    ctl_table_init(&t, s->style, l->columns, l->n_columns);
    for (size_t i = first; i < l->n && i - first < most; i++)
        for (int c = 0; c < l->n_columns; c++) {
            struct fact text;
            l->cells[c](l->objs[i], &text);
            ctl_table_add(&t, text.tint, "%s", text.text);
        }
    ctl_table_fit(&t, INDENT);
    if (has_room(s))
        ctl_table_head(&t, s->f);
    t.indent = 0;
    for (size_t i = 0; i < ctl_table_rows(&t) && has_room(s); i++) {
        bool mark = marked != NULL && l->objs[first + i] == marked;
        fprintf(s->f, "%-*s", INDENT, mark ? ">" : "");
        ctl_table_row(&t, i, s->f);
    }
    ctl_table_free(&t);
}

/* `n` objects of an array; the caller frees it. */
static void *room_for(size_t n, size_t size)
{
    void *objs = calloc(n + 1, size);
    if (objs == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for a picture");
    return objs;
}

/* -- nodes in order -------------------------------------------------------- */

struct sorted_node {
    const cJSON *node;
    size_t at; /* in the daemon's order */
    int badness;
};

/* What is wrong, what waits, what is done, what runs. */
static int badness_of(const cJSON *node)
{
    if (field_is(node, "state", "running"))
        return has_failed_first(node) ? 2 : 5;
    if (field_is(node, "state", "done"))
        return 4;
    if (field_is(node, "state", "spare"))
        return 3;
    return field_is(node, "state", "absent") ? 0 : 1;
}

static int compare_places(const void *a, const void *b)
{
    const struct sorted_node *x = a;
    const struct sorted_node *y = b;
    int order = x->badness - y->badness;
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static void sort_nodes(struct list *l, const cJSON *nodes)
{
    size_t n = field_count(nodes);
    struct sorted_node *places = room_for(n, sizeof(places[0]));
    const cJSON *node;
    l->objs = room_for(n, sizeof(l->objs[0]));
    cJSON_ArrayForEach(node, nodes)
    {
        places[l->n] = (struct sorted_node){
            .node = node, .at = l->n, .badness = badness_of(node)};
        l->n++;
    }
    qsort(places, n, sizeof(places[0]), compare_places);
    for (size_t i = 0; i < n; i++)
        l->objs[i] = places[i].node;
    free(places);
}

/* -- runs ------------------------------------------------------------------ */

static void list_runs(struct list *l, const cJSON *status)
{
    const cJSON *runs = field_of(status, "runs");
    const cJSON *run;
    l->objs = room_for(field_count(runs), sizeof(l->objs[0]));
    cJSON_ArrayForEach(run, runs) l->objs[l->n++] = run;
}

/* Where the chosen run is; the first one if it is not there. */
static size_t find_run(const struct picture *p, const struct list *runs)
{
    for (size_t i = 0; i < runs->n; i++)
        if (field_is(runs->objs[i], "id", p->run))
            return i;
    return 0;
}

/* Only the chosen one; none if it is not there. */
static void keep_one(const struct picture *p, struct list *runs)
{
    size_t at = find_run(p, runs);
    if (runs->n == 0)
        return;
    runs->objs[0] = runs->objs[at];
    runs->n = p->run[0] == '\0' || field_is(runs->objs[0], "id", p->run);
}

/* -- sentences ------------------------------------------------------------- */

/* Columns of a bar: what ran, what waited, what was lost to failures. */
static void make_bar(const struct ctl_style *style,
                     const cJSON *goodput,
                     int columns,
                     char *bar,
                     size_t size)
{
    static const char *const names[] = {"ran_s", "waited_s", "detect_s",
                                        "restart_s"};
    static const char *const wide[] = {"\xe2\x96\x88", "\xe2\x96\x92",
                                       "\xe2\x96\x91", "\xe2\x96\x91"};
    static const char *const plain[] = {"#", "=", ".", "."};
    double sum = 0, so_far = 0;
    int done = 0;
    bar[0] = '\0';
    for (int i = 0; i < 4; i++)
        sum += field_number(goodput, names[i], 0);
    for (int i = 0; i < 4 && sum > 0; i++) {
        so_far += field_number(goodput, names[i], 0);
        for (; done < columns && done + 0.5 <= so_far / sum * columns; done++)
            (void)strncat(bar, style->utf8 ? wide[i] : plain[i],
                          size - strlen(bar) - 1);
    }
}

#define BAR_LEAST 5 /* columns; a shorter one says nothing */

/* The bar takes what the numbers behind it leave. */
static void put_goodput(struct sheet *s, const cJSON *run)
{
    struct fact fact;
    char bar[128];
    char all[sizeof(fact.text) + sizeof(bar) + 8];
    if (!fact_goodput(run, &fact))
        return;
    int columns = s->style->width < 160 ? s->style->width / 6 : 26;
    int room = s->style->width - ctl_columns(s->style, fact.text) -
               (int)strlen("  [] ");
    if (room < columns)
        columns = room;
    make_bar(s->style, field_of(run, "goodput"), columns, bar, sizeof(bar));
    if (columns < BAR_LEAST)
        (void)snprintf(all, sizeof(all), "  %s", fact.text); /* fits */
    else
        (void)snprintf(all, sizeof(all), "  [%s] %s", bar, fact.text);
    put(s, TINT_NONE, all);
}

static void put_fact(struct sheet *s,
                     bool (*say)(const cJSON *, struct fact *),
                     const cJSON *run)
{
    struct fact fact;
    char all[sizeof(fact.text) + 4];
    if (!say(run, &fact))
        return;
    (void)snprintf(all, sizeof(all), "  %s", fact.text); /* fits */
    put(s, fact.tint, all);
}

/* The worker's last lines, the newest of them if there is no room for all. */
static void put_tail(struct sheet *s, const cJSON *run, int most)
{
    const cJSON *tail = field_of(field_of(run, "last_failure"), "tail");
    const cJSON *item;
    int skip = (int)field_count(tail) - most;
    cJSON_ArrayForEach(item, tail)
    {
        char text[256];
        if (skip-- > 0 || !cJSON_IsString(item))
            continue;
        (void)snprintf(text, sizeof(text), /* may be cut */
                       "    | %s", item->valuestring);
        put(s, TINT_NONE, text);
    }
}

#define TAIL_ROOM  12 /* lines for sentences of which some are the worker's */
#define TAIL_LINES 3

static void put_sentences(struct sheet *s, const cJSON *run, bool all)
{
    struct fact authority;
    bool amiss = fact_authority(run, &authority) && authority.tint != TINT_NONE;
    int tail = all ? INT16_MAX : s->left >= TAIL_ROOM ? TAIL_LINES : 0;
    put_fact(s, fact_end, run);
    put_fact(s, fact_waiting, run);
    put_fact(s, fact_groups, run);
    if (amiss)
        put_fact(s, fact_authority, run);
    put_fact(s, fact_stands, run);
    put_fact(s, fact_failure, run);
    put_tail(s, run, tail);
    if (!field_is(run, "state", "ended"))
        put_fact(s, fact_what, run);
    put_goodput(s, run);
    put_fact(s, fact_repeated, run);
    put_fact(s, fact_progress, run);
    put_fact(s, fact_slow, run);
    put_fact(s, fact_mirrored, run);
    put_fact(s, fact_last_round, run);
    if (all && !amiss)
        put_fact(s, fact_authority, run);
    if (all)
        put_fact(s, fact_successors, run);
}

/* -- the picture ----------------------------------------------------------- */

static void
put_title(const struct picture *p, const cJSON *status, struct sheet *s)
{
    const cJSON *run;
    char up[24], over[40] = "", title[300];
    int live = 0, ended = 0;
    cJSON_ArrayForEach(run, field_of(status, "runs")) *
        (field_is(run, "state", "ended") ? &ended : &live) += 1;
    ctl_span(field_number(status, "uptime_s", 0), up);
    if (ended > 0)
        (void)snprintf(over, sizeof(over), ", %d that ended", ended);
    (void)snprintf(title, sizeof(title), /* may be cut */
                   "%s%.80s: rendezvous %.20s, up %s; %d run%s%s",
                   p->paused ? "[paused] " : "", p->where,
                   field_text(status, "version"), up, live, fact_plural(live),
                   over);
    if (p->news[0] == '\0') {
        put(s, TINT_BOLD, title);
        return;
    }
    struct ctl_style loud = *s->style; /* not grey: this is news */
    loud.grey = false;
    if (has_room(s))
        ctl_put(&loud, s->f, TINT_BAD, "%s", p->news);
}

static const char *const help[] = {
    "  q            quit",
    "  Enter, r     the chosen run only, or all runs",
    "  Up, Down     choose a run; of one run, move its nodes by a line",
    "  PgUp, PgDn   move the nodes by a page; Home and End, to the ends",
    "  p, Space     pause and go on: nothing is asked meanwhile",
    "  ?, h         this help",
    "",
    "  Goodput is the share of the time in which the run made new steps. In",
    "  its bar that stands first, then the wait for nodes, then what failures",
    "  took: their detection, and restarts.",
};

static void put_help(struct sheet *s)
{
    put(s, TINT_NONE, "");
    for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
        put(s, TINT_NONE, help[i]);
}

/* Nodes of the run, from p->first on, in the lines that are left. */
static void put_nodes(struct picture *p, const cJSON *run, struct sheet *s)
{
    struct list nodes = {.n = 0};
    sort_nodes(&nodes, field_of(run, "nodes_list"));
    choose_node_columns(&nodes, field_of(run, "nodes_list"), s->style->width);
    p->page = s->left > 2 ? (size_t)s->left - 1 : 1;
    size_t most = nodes.n > p->page ? nodes.n - p->page : 0;
    if (p->first > most)
        p->first = most;
    if (nodes.n > 0)
        put_list(s, &nodes, p->first, p->page, NULL);
    free(nodes.objs);
}

/* Which nodes are on the screen, if not all are. */
static void say_part(const struct picture *p, const cJSON *run, char text[120])
{
    char last[32], all[32];
    int64_t n = (int64_t)field_count(field_of(run, "nodes_list"));
    int64_t left_out = field_whole(run, "unwell", n) - n;
    text[0] = '\0';
    if (n <= (int64_t)p->page && left_out <= 0)
        return;
    int64_t end = (int64_t)(p->first + p->page);
    ctl_number(end < n ? end : n, last);
    ctl_number(n + (left_out > 0 ? left_out : 0), all);
    (void)snprintf(text, 120, "; nodes %zu-%s of %s", p->first + 1, last, all);
}

static void put_keys(const struct picture *p, const cJSON *run, struct sheet *s)
{
    char part[120], text[240];
    say_part(p, run, part);
    if (s->style->width < 60)
        (void)snprintf(text, sizeof(text), "q ?%s", part);
    else
        (void)snprintf(text, sizeof(text), /* fits */
                       "q quit  ? help  r %s  p %s%s",
                       p->one ? "all runs" : "one run",
                       p->paused ? "go on" : "pause", part);
    put(s, TINT_DIM, text);
}

/* A third of the screen, but one; so that the chosen one is among them. */
static void
put_runs(struct sheet *s, const struct list *runs, size_t chosen, int rows)
{
    size_t room = rows / 3 > 2 ? (size_t)(rows / 3 - 1) : 1;
    size_t first = chosen < room ? 0 : chosen + 1 - room;
    put_list(s, runs, first, room, runs->n > 1 ? runs->objs[chosen] : NULL);
}

static const char *nothing(const struct picture *p)
{
    return p->one && p->run[0] != '\0' ? "  this run is not there any more"
                                       : "  nothing runs here";
}

/* The sentences leave a third of the screen to the nodes, but there is at least
 * one of them. */
static void put_run(struct picture *p, const cJSON *run, struct sheet *s)
{
    int nodes = (int)field_count(field_of(run, "nodes_list"));
    int keep = nodes + 1 < p->rows / 3 ? nodes + 1 : p->rows / 3;
    struct sheet said = *s;
    if (said.left > 1)
        said.left = s->left - keep > 1 ? s->left - keep : 1;
    int room = said.left;
    put_sentences(&said, run, false);
    s->left -= room - said.left;
    put_nodes(p, run, s);
}

static void draw_screen(struct picture *p,
                        const cJSON *status,
                        const struct list *runs,
                        FILE *f)
{
    size_t chosen = find_run(p, runs);
    const cJSON *run = runs->n > 0 ? runs->objs[chosen] : NULL;
    struct sheet s = {.style = &p->style, .f = f, .left = p->rows - 1};
    put_title(p, status, &s);
    if (p->help) {
        put_help(&s);
    } else if (run == NULL) {
        put(&s, TINT_NONE, "");
        put(&s, TINT_NONE, nothing(p));
    } else {
        (void)snprintf(p->run, sizeof(p->run), "%s", field_text(run, "id"));
        put_runs(&s, runs, chosen, p->rows);
        put_run(p, run, &s);
    }
    while (s.left > 0)
        put(&s, TINT_NONE, "");
    s.left = 1;
    put_keys(p, run, &s);
}

static void draw_all(struct picture *p,
                     const cJSON *status,
                     const struct list *runs,
                     FILE *f)
{
    struct sheet s = {.style = &p->style, .f = f, .left = INT32_MAX};
    put_title(p, status, &s);
    for (size_t i = 0; i < runs->n; i++) {
        struct list one = *runs;
        one.objs = &runs->objs[i];
        one.n = 1;
        put(&s, TINT_NONE, "");
        put_list(&s, &one, 0, 1, NULL);
        put_sentences(&s, one.objs[0], true);
        put_nodes(p, one.objs[0], &s);
    }
    if (runs->n == 0)
        put(&s, TINT_NONE, nothing(p));
}

void picture_draw(struct picture *p, const cJSON *status, FILE *f)
{
    struct list runs = {.n = 0};
    list_runs(&runs, status);
    if (p->one)
        keep_one(p, &runs);
    choose_columns(&runs, run_columns, RUN_COLUMNS, p->style.width);
    if (p->rows > 0)
        draw_screen(p, status, &runs, f);
    else
        draw_all(p, status, &runs, f);
    free(runs.objs);
}

/* -- keys ------------------------------------------------------------------ */

static const struct {
    const char *bytes;
    enum picture_key key;
} key_names[] = {
    {"q", KEY_QUIT},
    {"Q", KEY_QUIT},
    {"\033[A", KEY_UP},
    {"\033OA", KEY_UP},
    {"\033[B", KEY_DOWN},
    {"\033OB", KEY_DOWN},
    {"\033[5~", KEY_PAGE_UP},
    {"\033[6~", KEY_PAGE_DOWN},
    {"\033[H", KEY_HOME},
    {"\033[1~", KEY_HOME},
    {"\033OH", KEY_HOME},
    {"\033[F", KEY_END},
    {"\033[4~", KEY_END},
    {"\033OF", KEY_END},
    {"k", KEY_UP},
    {"j", KEY_DOWN},
    {"r", KEY_ONE},
    {"\r", KEY_ONE},
    {"\n", KEY_ONE},
    {"?", KEY_HELP},
    {"h", KEY_HELP},
    {"p", KEY_PAUSE},
    {" ", KEY_PAUSE},
};

/* Of a sequence that is not known: ESC, a bracket, numbers, a letter. Its
 * letters must not act as keys. */
static size_t sequence_len(const char *bytes, size_t len)
{
    size_t at = 1;
    if (bytes[0] != '\033' || len < 2 || (bytes[1] != '[' && bytes[1] != 'O'))
        return 1;
    for (at = 2; at < len && (unsigned char)bytes[at] < 0x40;)
        at++;
    return at < len ? at + 1 : at;
}

enum picture_key picture_key_of(const char *bytes, size_t len, size_t *used)
{
    *used = 0;
    if (len == 0)
        return KEY_NONE;
    for (size_t i = 0; i < sizeof(key_names) / sizeof(key_names[0]); i++) {
        size_t n = strlen(key_names[i].bytes);
        if (n <= len && memcmp(bytes, key_names[i].bytes, n) == 0) {
            *used = n;
            return key_names[i].key;
        }
    }
    *used = sequence_len(bytes, len);
    return KEY_NONE;
}

/* The next run, or the one before. */
static void choose_run(struct picture *p, const cJSON *status, bool next)
{
    struct list runs = {.n = 0};
    list_runs(&runs, status);
    size_t at = find_run(p, &runs);
    if (next && at + 1 < runs.n)
        at++;
    else if (!next && at > 0)
        at--;
    if (runs.n > 0)
        (void)snprintf(p->run, sizeof(p->run), "%s",
                       field_text(runs.objs[at], "id"));
    p->first = 0;
    free(runs.objs);
}

static void move(struct picture *p, const cJSON *status, bool down, size_t by)
{
    bool many = field_count(field_of(status, "runs")) > 1;
    if (by == 1 && many && !p->one)
        choose_run(p, status, down);
    else if (down)
        p->first += by; /* picture_draw knows where it ends */
    else
        p->first = p->first > by ? p->first - by : 0;
}

void picture_press(struct picture *p, enum picture_key key, const cJSON *status)
{
    switch (key) {
    case KEY_UP:
    case KEY_DOWN:
        move(p, status, key == KEY_DOWN, 1);
        break;
    case KEY_PAGE_UP:
    case KEY_PAGE_DOWN:
        move(p, status, key == KEY_PAGE_DOWN, p->page > 1 ? p->page : 2);
        break;
    case KEY_HOME:
        p->first = 0;
        break;
    case KEY_END:
        p->first = SIZE_MAX / 2;
        break;
    case KEY_ONE:
        p->one = !p->one;
        p->first = 0;
        break;
    case KEY_HELP:
        p->help = !p->help;
        break;
    case KEY_PAUSE:
        p->paused = !p->paused;
        break;
    case KEY_NONE:
    case KEY_QUIT:
        break;
    }
}
