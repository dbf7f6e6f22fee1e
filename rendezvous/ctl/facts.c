#include "rendezvous/ctl/facts.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/signals_name.h"

/* -- texts ----------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static bool
say(struct fact *out, enum ctl_tint tint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out->text, sizeof(out->text), fmt, ap); /* may be cut */
    va_end(ap);
    out->tint = tint;
    return true;
}

/* Adds to a list of parts, a comma between. */
__attribute__((format(printf, 2, 3))) static void
add(struct fact *out, const char *fmt, ...)
{
    size_t len = strlen(out->text);
    va_list ap;
    if (len > 0 && len + 2 < sizeof(out->text)) {
        memcpy(out->text + len, ", ", 3);
        len += 2;
    }
    va_start(ap, fmt);
    (void)vsnprintf(/* may be cut */ out->text + len, sizeof(out->text) - len,
                    fmt, ap);
    va_end(ap);
}

const char *fact_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* -- cells of a run -------------------------------------------------------- */

void fact_state(const cJSON *run, struct fact *out)
{
    enum ctl_tint tint = TINT_WARN;
    if (field_is(run, "state", "active"))
        tint = TINT_GOOD;
    else if (field_is(run, "state", "ended"))
        tint = field_whole(field_of(run, "end"), "status", 0) == 0 ? TINT_DIM
                                                                   : TINT_BAD;
    (void)say(out, tint, "%s", field_text(run, "state"));
}

void fact_nodes(const cJSON *run, struct fact *out)
{
    int64_t min = field_whole(run, "nodes_min", 0);
    int64_t max = field_whole(run, "nodes_max", 0);
    const cJSON *waiting = field_of(run, "waiting");
    int64_t have = field_whole(waiting, "have", field_whole(run, "nodes", 0));
    if (field_is(run, "state", "ended"))
        (void)say(out, TINT_NONE, "-");
    else if (min == max)
        (void)say(out, TINT_NONE, "%lld of %lld", (long long)have,
                  (long long)max);
    else
        (void)say(out, TINT_NONE, "%lld of %lld:%lld", (long long)have,
                  (long long)min, (long long)max);
}

void fact_world(const cJSON *run, struct fact *out)
{
    int64_t world = field_whole(run, "world_size", 0);
    bool has_round =
        field_is(run, "state", "active") || field_is(run, "state", "drain");
    if (world > 0 && has_round)
        (void)say(out, TINT_NONE, "%lld", (long long)world);
    else
        (void)say(out, TINT_NONE, "-");
}

void fact_restarts(const cJSON *run, struct fact *out)
{
    char window[24];
    double window_s = field_number(run, "window_s", 0);
    int64_t max = field_whole(run, "max_restarts", 0);
    int64_t used = field_whole(run, "restarts", 0);
    enum ctl_tint tint = used > 0 ? TINT_WARN : TINT_NONE;
    ctl_span(window_s, window);
    if (window_s > 0)
        (void)say(out, tint, "%lld of %lld in %s",
                  (long long)field_whole(run, "restarts_in_window", used),
                  (long long)max, window);
    else
        (void)say(out, tint, "%lld of %lld", (long long)used, (long long)max);
}

void fact_rate(const cJSON *run, struct fact *out)
{
    double rate = field_number(field_of(run, "progress"), "steps_per_s", -1);
    if (rate >= 0 && rate < 1e9)
        (void)say(out, TINT_NONE, "%.3g", rate);
    else
        (void)say(out, TINT_NONE, "-");
}

void fact_share(const cJSON *run, struct fact *out)
{
    double share = field_number(field_of(run, "goodput"), "share", -1);
    if (share >= 0 && share <= 1)
        (void)say(out, TINT_NONE, "%.1f %%", 100 * share);
    else
        (void)say(out, TINT_NONE, "-");
}

/* -- cells of a node ------------------------------------------------------- */

void fact_agent(const cJSON *node, struct fact *out)
{
    (void)say(out, TINT_NONE, "%.8s", field_text(node, "agent"));
}

enum ctl_tint fact_node_tint(const cJSON *node)
{
    if (field_is(node, "state", "running") || field_is(node, "state", "done"))
        return TINT_GOOD;
    return field_is(node, "state", "absent") ? TINT_BAD : TINT_WARN;
}

void fact_ranks(const cJSON *node, struct fact *out)
{
    int64_t base = field_whole(node, "base_rank", -1);
    int64_t nproc = field_whole(node, "nproc", 0);
    if (field_whole(node, "group_rank", -1) < 0 || base < 0 || nproc < 1)
        (void)say(out, TINT_NONE, "-");
    else if (nproc == 1)
        (void)say(out, TINT_NONE, "%lld", (long long)base);
    else
        (void)say(out, TINT_NONE, "%lld-%lld", (long long)base,
                  (long long)(base + nproc - 1));
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool fact_namesakes(const cJSON *nodes)
{
    size_t n = field_count(nodes), i = 0;
    const char **names = calloc(n + 1, sizeof(names[0]));
    bool found = false;
    const cJSON *node;
    if (names == NULL)
        return true; /* no harm: the ids are shown */
    cJSON_ArrayForEach(node, nodes) names[i++] = field_text(node, "name");
    qsort(names, n, sizeof(names[0]), compare_texts);
    for (i = 1; i < n; i++)
        found |= strcmp(names[i - 1], names[i]) == 0;
    free(names);
    return found;
}

/* -- sentences ------------------------------------------------------------- */

bool fact_what(const cJSON *run, struct fact *out)
{
    char up[24];
    bool active = field_is(run, "state", "active");
    int64_t round = field_whole(run, "round", 0);
    int64_t spares = field_whole(run, "spares", 0);
    int64_t absent = field_whole(run, "absent", 0);
    const cJSON *nodes = field_of(run, "nodes_list"), *node;
    *out = (struct fact){.text = "", .tint = TINT_NONE};
    if (field_text(run, "prog")[0] != '\0')
        add(out, "%.100s", field_text(run, "prog"));
    if (round > 0 && active) {
        ctl_span(field_number(run, "round_uptime_s", 0), up);
        add(out, "round %lld up %s", (long long)round, up);
    } else if (field_is(run, "state", "drain")) {
        add(out, "round %lld is being stopped", (long long)round);
    }
    if (spares > 0)
        add(out, "%lld spare%s", (long long)spares, fact_plural(spares));
    if (absent > 0)
        add(out, "%lld absent", (long long)absent);
    if (active && field_text(run, "master_addr")[0] != '\0')
        add(out, "master %.64s:%lld", field_text(run, "master_addr"),
            (long long)field_whole(run, "master_port", 0));
    bool twice = fact_namesakes(nodes);
    cJSON_ArrayForEach(node, nodes)
    {
        if (field_true(node, "hosts"))
            add(out, "%.64s%s%.8s serves the rendezvous",
                field_text(node, "name"), twice ? " " : "",
                twice ? field_text(node, "agent") : "");
    }
    return out->text[0] != '\0';
}

#define SUCCESSORS_SHOWN 3

bool fact_successors(const cJSON *run, struct fact *out)
{
    int n = 0;
    const cJSON *node;
    *out = (struct fact){.text = "", .tint = TINT_NONE};
    cJSON_ArrayForEach(node, field_of(run, "nodes_list"))
    {
        int64_t port = field_whole(node, "serve_port", 0);
        if (!field_true(node, "votes") || port <= 0 ||
            field_true(node, "hosts"))
            continue;
        if (n++ == SUCCESSORS_SHOWN) {
            add(out, "...");
            break;
        }
        const char *addr = field_text(node, "addr");
        bool v6 = strchr(addr, ':') != NULL;
        add(out, "%s%s%.45s%s:%lld", n == 1 ? "would be served next at " : "",
            v6 ? "[" : "", addr, v6 ? "]" : "", (long long)port);
    }
    return n > 0;
}

bool fact_authority(const cJSON *run, struct fact *out)
{
    const cJSON *x = field_of(run, "authority");
    long long voters = field_whole(x, "voters", 0);
    long long here = field_whole(x, "here", 0);
    long long answer = field_whole(x, "answer", 0);
    long long term = field_whole(x, "term", 0);
    const char *s = voters == 1 ? "s" : "";
    if (!cJSON_IsObject(x))
        return false;
    if (field_true(x, "may_act") && voters == 0)
        return say(out, TINT_NONE, "term %lld, no round has voters yet", term);
    if (field_true(x, "may_act"))
        return say(out, TINT_NONE, "term %lld, %lld of %lld voter%s answer%s",
                   term, answer, voters, fact_plural(voters), s);
    if (field_true(x, "leads"))
        return say(out, TINT_BAD,
                   "no majority: %lld of %lld voter%s answer%s, half are "
                   "needed",
                   answer, voters, fact_plural(voters), s);
    return say(out, TINT_WARN,
               "this server does not have the run: %lld of %lld voter%s here, "
               "more than half are needed",
               here, voters, voters == 1 ? " is" : "s are");
}

bool fact_groups(const cJSON *run, struct fact *out)
{
    static const char *const states[] = {"running",     "done",     "spare",
                                         "waiting",     "stopping", "leaving",
                                         "quarantined", "absent"};
    const cJSON *group;
    char count[32];
    int64_t nodes = 0;
    cJSON_ArrayForEach(group, field_of(run, "groups")) nodes +=
        field_whole(group, "nodes", 0);
    if (nodes == 0)
        return false;
    ctl_number(nodes, count);
    (void)say(out, TINT_NONE, "%s nodes", count);
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        int64_t n = 0;
        cJSON_ArrayForEach(group, field_of(run, "groups")) n +=
            field_whole(group, states[i], 0);
        ctl_number(n, count);
        if (n > 0)
            add(out, "%s %s", count, states[i]);
    }
    add(out, "those that are not well are listed");
    return true;
}

bool fact_waiting(const cJSON *run, struct fact *out)
{
    const cJSON *w = field_of(run, "waiting");
    char left[24];
    if (!cJSON_IsObject(w))
        return false;
    int64_t have = field_whole(w, "have", 0);
    int64_t min = field_whole(w, "min", 0);
    ctl_span(field_number(w, "left_s", 0), left);
    if (have < min)
        return say(out, TINT_WARN,
                   "waiting for nodes: %lld of at least %lld have joined, "
                   "gives up in %s",
                   (long long)have, (long long)min, left);
    return say(out, TINT_WARN, "%lld node%s joined; last call for %s more",
               (long long)have, have == 1 ? "" : "s", left);
}

bool fact_stands(const cJSON *run, struct fact *out)
{
    const cJSON *x = field_of(run, "stands");
    char age[24];
    if (!cJSON_IsObject(x))
        return false;
    ctl_span(field_number(x, "age_s", 0), age);
    return say(out, TINT_BAD, "stands still, as %.64s tells for %s: %s",
               field_text(x, "node"), age, field_text(x, "text"));
}

bool fact_failure(const cJSON *run, struct fact *out)
{
    const cJSON *x = field_of(run, "last_failure");
    char how[80], age[24];
    if (!cJSON_IsObject(x))
        return false;
    int64_t signal = field_whole(x, "signal", 0);
    /* Only a number that is one: the daemon may be anything. */
    if (signal > 0 && signal < NSIG)
        (void)snprintf(how, sizeof(how), "killed by %s",
                       signals_name((int)signal));
    else if (signal != 0)
        (void)snprintf(how, sizeof(how), /* messages: ok, it has no name */
                       "killed by signal %lld", (long long)signal);
    else
        (void)snprintf(how, sizeof(how), "ended with exit code %lld",
                       (long long)field_whole(x, "code", 0));
    ctl_span(field_number(x, "age_s", 0), age);
    const char *said = field_text(x, "text");
    return say(out, TINT_BAD, "last failure: rank %lld on %.64s %s, %s ago%s%s",
               (long long)field_whole(x, "rank", -1), field_text(x, "node"),
               how, age, said[0] != '\0' ? ": " : "", said);
}

bool fact_end(const cJSON *run, struct fact *out)
{
    const cJSON *end = field_of(run, "end");
    char age[24];
    int64_t status = field_whole(end, "status", 0);
    if (!field_is(run, "state", "ended"))
        return false;
    ctl_span(field_number(end, "age_s", 0), age);
    if (status == 0)
        return say(out, TINT_NONE,
                   "ended %s ago: all workers succeeded (%.100s)", age,
                   field_text(run, "prog"));
    return say(out, TINT_BAD, "ended %s ago with status %lld: %s (%.100s)", age,
               (long long)status, field_text(end, "text"),
               field_text(run, "prog"));
}

#define SLOWEST_SHOWN 3

bool fact_progress(const cJSON *run, struct fact *out)
{
    const cJSON *x = field_of(run, "progress");
    const cJSON *rank;
    char least[32], most[32];
    int64_t step = field_whole(x, "step", -1);
    int64_t step_max = field_whole(x, "step_max", step);
    double rate = field_number(x, "steps_per_s", -1);
    int n = 0;
    *out = (struct fact){.text = "", .tint = TINT_NONE};
    if (step < 0)
        return false;
    ctl_number(step, least);
    ctl_number(step_max, most);
    if (step_max > step)
        add(out, "steps %s to %s", least, most);
    else
        add(out, "step %s", least);
    if (rate >= 0 && rate < 1e9)
        add(out, "%.3g a second", rate);
    cJSON_ArrayForEach(rank, field_of(x, "slowest"))
    {
        if (n == SLOWEST_SHOWN)
            break;
        ctl_number(field_whole(rank, "step", 0), least);
        add(out, "%srank %lld on %.64s (%s)", n++ == 0 ? "slowest: " : "",
            (long long)field_whole(rank, "rank", -1), field_text(rank, "node"),
            least);
    }
    return true;
}

bool fact_mirrored(const cJSON *run, struct fact *out)
{
    const cJSON *x = field_of(run, "progress");
    char step[32], behind[32];
    int64_t mirrored = field_whole(x, "mirrored", -2);
    if (mirrored == -1)
        return say(out, TINT_NONE, "no step is on two nodes");
    if (mirrored < 0)
        return false;
    ctl_number(mirrored, step);
    ctl_number(field_whole(x, "mirrored_behind", 0), behind);
    return say(out, TINT_NONE, "newest step on two nodes: %s, %s behind", step,
               behind);
}

bool fact_slow(const cJSON *run, struct fact *out)
{
    const cJSON *rank;
    char since[24];
    int n = 0;
    *out = (struct fact){.text = "", .tint = TINT_WARN};
    cJSON_ArrayForEach(rank, field_of(field_of(run, "progress"), "slow"))
    {
        if (n == SLOWEST_SHOWN)
            break;
        ctl_span(field_number(rank, "since_s", 0), since);
        add(out,
            "%srank %lld (local rank %lld) on %.64s is %.1f %% slower for %s",
            n++ == 0 ? "slow: " : "", (long long)field_whole(rank, "rank", -1),
            (long long)field_whole(rank, "local_rank", -1),
            field_text(rank, "node"),
            (double)field_whole(rank, "slower_permille", 0) / 10, since);
    }
    return n > 0;
}

/* A part of the time. Restarts take milliseconds, which ctl_span calls 0 s. */
static void part_span(double seconds, char text[24])
{
    if (seconds >= 0.0005 && seconds < 10)
        (void)snprintf(text, 24, "%.2g s", seconds); /* fits */
    else
        ctl_span(seconds, text);
}

/* Adds a part of the time, if there is one. */
static void add_part(struct fact *out, const char *what, double seconds)
{
    char span[24];
    if (!(seconds > 0))
        return;
    part_span(seconds, span);
    add(out, "%s %s", what, span);
}

bool fact_goodput(const cJSON *run, struct fact *out)
{
    const cJSON *g = field_of(run, "goodput");
    char wall[24], waited[24], detect[24], restart[24];
    double share = field_number(g, "share", 0);
    if (!(share > 0 && share <= 1))
        return false;
    ctl_span(field_number(g, "wall_s", 0), wall);
    part_span(field_number(g, "waited_s", 0), waited);
    part_span(field_number(g, "detect_s", 0), detect);
    part_span(field_number(g, "restart_s", 0), restart);
    return say(out, TINT_NONE,
               "goodput %.1f %% of %s; waiting %s, detection %s, restarts %s",
               100 * share, wall, waited, detect, restart);
}

bool fact_repeated(const cJSON *run, struct fact *out)
{
    const cJSON *g = field_of(run, "goodput");
    int64_t steps = field_whole(g, "repeated_steps", 0);
    if (cJSON_IsFalse(field_of(g, "knows_start")))
        return say(out, TINT_NONE,
                   "the program's own start counts as ran: its workers tell no "
                   "steps");
    return steps > 0 && say(out, TINT_NONE, "%lld step%s done twice",
                            (long long)steps, fact_plural(steps));
}

bool fact_last_round(const cJSON *run, struct fact *out)
{
    const cJSON *round;
    const cJSON *last = NULL;
    char ran[24];
    cJSON_ArrayForEach(round, field_of(run, "timeline"))
    {
        if (field_text(round, "ended")[0] != '\0')
            last = round;
    }
    if (last == NULL)
        return false;
    ctl_span(field_number(last, "ran_s", 0), ran);
    const char *said = field_text(last, "text");
    (void)say(out, TINT_NONE, "round %lld ran %s, then: %.40s%s%.300s",
              (long long)field_whole(last, "round", 0), ran,
              field_text(last, "ended"), said[0] != '\0' ? ": " : "", said);
    add_part(out, "detection", field_number(last, "detect_s", 0));
    add_part(out, "waited", field_number(last, "waited_s", 0));
    add_part(out, "restart", field_number(last, "restart_s", 0));
    return true;
}
