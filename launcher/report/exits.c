/*
 * The exits that followed the first failure: from the lists in the server's
 * `end` message (rendezvous/proto/exits), or, if it has none, from those of
 * this node alone. The lists are cut by the server for large jobs, and its
 * counts tell how many exits there were in all: report_exits() adds the
 * difference as "and 3000 more", by signal and exit code.
 */
#include "launcher/report/exits.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/signals_name.h"

#define LINES_MAX 16
#define HOWS      (255 + 127 + 1) /* -127 (a signal) to 255 (an exit code) */
#define HOW_ZERO  127
#define HOW_MAX   80 /* how one ended, as text */

/* The worker whose failure the report names first; it is not listed again. */
struct first_exit {
    bool known;
    int64_t rank;
};

/* -- which workers --------------------------------------------------------- */

struct walk {
    const struct event_log *j;
    struct first_exit first;
    bool this_round; /* the exits are those of this node's last round */
    void (*each)(void *ctx, const struct report_end *e);
    void *ctx;
};

static void
give(const struct walk *w, const struct exits_found *f, int a, int b)
{
    ddp_assert(a >= 0 && b <= EXITS_LOCAL_MAX);
    struct report_end e = {
        .node = f->node,
        .rank = f->base_rank + a,
        .local_rank = a,
        .count = b - a + 1,
        .code = f->run.how > 0 ? f->run.how : 0,
        .signal = f->run.how < 0 ? -f->run.how : 0,
    };
    if (f->run.how == EXITS_UNSTOPPED) {
        e.signal = SIGKILL;
        e.unstopped = true;
    }
    int64_t here = e.rank - w->j->base_rank; /* its place, if it ran here */
    ddp_assert(e.code == 0 || e.signal == 0);
    if (w->this_round && here >= 0 && here + e.count <= w->j->conf->nproc)
        e.pids = w->j->pids + here;
    if (e.count > 0)
        w->each(w->ctx, &e);
}

/* A run of workers with the first failure among them becomes two. */
static void walk_list(const struct walk *w, const char *list)
{
    struct exits_found f = {0};
    while (exits_next(&list, &f)) {
        int64_t at = w->first.rank - f.base_rank;
        if (!w->first.known || at < f.run.first || at > f.run.last) {
            give(w, &f, f.run.first, f.run.last);
        } else {
            give(w, &f, f.run.first, (int)at - 1);
            give(w, &f, (int)at + 1, f.run.last);
        }
    }
}

void report_exits_each(const struct agent_verdict *v,
                       const struct event_log *j,
                       void (*each)(void *ctx, const struct report_end *e),
                       void *ctx)
{
    const struct msg_end *end = &v->end;
    struct walk w = {
        .j = j,
        .first = {.known = v->ended && end->node[0] != '\0', .rank = end->rank},
        .this_round = !v->ended || j->round == end->round,
        .each = each,
        .ctx = ctx,
    };
    walk_list(&w, end->ends);
    walk_list(&w, end->stopped);
    if (end->ends[0] == '\0' && end->stopped[0] == '\0' && w.this_round) {
        /* The exits of this node, if the server sent none. */
        char list[EXITS_LIST_MAX + 1] = "", stopped[EXITS_LIST_MAX + 1] = "";
        struct exits part;
        exits_filter(&w.j->ends, -SIGTERM, true, &part);
        exits_merge(list, w.j->base_rank, w.j->node, &part);
        exits_filter(&w.j->ends, -SIGTERM, false, &part);
        exits_merge(stopped, w.j->base_rank, w.j->node, &part);
        walk_list(&w, list);
        walk_list(&w, stopped);
    }
}

/* -- as lines -------------------------------------------------------------- */

void report_exits_how(int64_t code, int64_t signal, char *text, size_t size)
{
    if (signal == 0)
        (void)snprintf(text, size, "exit code %d", (int)code);
    else
        (void)snprintf(text, size, "signal %d (%s)", (int)signal,
                       signals_name((int)signal));
}

struct telling {
    int lines;
    int64_t rest[HOWS];  /* workers without a line, by how they ended */
    int64_t known[HOWS]; /* all workers of the lists, by how they ended */
};

static void describe(const struct report_end *e, char how[HOW_MAX])
{
    if (e->signal == SIGTERM)
        (void)snprintf(how, HOW_MAX, "%s", "stopped (SIGTERM)");
    else if (e->unstopped)
        (void)snprintf(
            how, HOW_MAX, "%s",
            "killed by ddprun, since it did not stop in time (SIGKILL)");
    else
        report_exits_how(e->code, e->signal, how, HOW_MAX);
    if (e->code == ddp_code_exit(DDP_E_PEER))
        (void)snprintf(how, HOW_MAX, "exit code %d (lost a peer)", e->code);
}

static void tell_one(void *ctx, const struct report_end *e)
{
    struct telling *t = ctx;
    int at = HOW_ZERO + (e->signal != 0 ? -e->signal : e->code);
    ddp_assert(at >= 0 && at < HOWS);
    char how[HOW_MAX], pid[32] = "";
    t->known[at] += e->count;
    if (t->lines == LINES_MAX) {
        t->rest[at] += e->count;
        return;
    }
    const char *label = t->lines++ == 0 ? "then" : "";
    describe(e, how);
    if (e->pids != NULL)
        (void)snprintf(pid, sizeof(pid), ", pid %lld", (long long)e->pids[0]);
    if (e->count == 1)
        log_warnx("  %-15s rank %lld on %s (local rank %d%s): %s", label,
                  (long long)e->rank, e->node, e->local_rank, pid, how);
    else
        log_warnx("  %-15s ranks %lld-%lld on %s (local %d-%d): %s", label,
                  (long long)e->rank, (long long)e->rank + e->count - 1,
                  e->node, e->local_rank, e->local_rank + e->count - 1, how);
}

/* Appends ", 40 by SIGTERM"; left out if it does not fit. */
static void add_count(char *text, size_t size, int64_t n, const char *by)
{
    char part[80];
    size_t len = strlen(text);
    int part_len = snprintf(part, sizeof(part), "%s%lld by %.32s",
                            len > 0 ? ", " : "", (long long)n, by);
    if (n > 0 && len + (size_t)part_len < size)
        memcpy(text + len, part, (size_t)part_len + 1);
}

/* How many more of a class the server counted than it listed. */
static int64_t
beyond(int64_t counted, const int64_t known[HOWS], int from, int to)
{
    for (int i = from; i <= to; i++)
        counted -= known[HOW_ZERO + i];
    return counted > 0 ? counted : 0;
}

/* One line for all workers without a line of their own: those that the lists
 * name beyond LINES_MAX, and those that the server only counted. */
static void tell_rest(struct telling *t, const struct msg_end *e)
{
    char text[400] = "", by[32];
    struct exits_counts all = {.by_term = 0};
    exits_add_counts(&all, e->counts);
    int64_t listed = all.by_signal + t->known[HOW_ZERO - SIGTERM] +
                     t->known[HOW_ZERO - SIGKILL];
    int64_t others = beyond(listed, t->known, -127, -1);
    int64_t codes = beyond(all.by_code, t->known, 1, 255);
    t->rest[HOW_ZERO - SIGTERM] +=
        beyond(all.by_term, t->known, -SIGTERM, -SIGTERM);
    t->rest[HOW_ZERO - SIGKILL] +=
        beyond(all.by_kill, t->known, -SIGKILL, -SIGKILL);
    int64_t n = others + codes;
    for (int how = -127; how <= 255; how++) {
        if (how < 0)
            (void)snprintf(by, sizeof(by), "%s", signals_name(-how));
        else
            (void)snprintf(by, sizeof(by), "exit code %d", how);
        n += t->rest[HOW_ZERO + how];
        add_count(text, sizeof(text), t->rest[HOW_ZERO + how], by);
    }
    add_count(text, sizeof(text), others, "other signals");
    add_count(text, sizeof(text), codes, "other exit codes");
    if (n > 0)
        log_warnx("  %-15s %s%lld more: %s", t->lines == 0 ? "then" : "",
                  t->lines == 0 ? "" : "and ", (long long)n, text);
}

void report_exits(const struct agent_verdict *v, const struct event_log *j)
{
    struct telling t = {.lines = 0};
    report_exits_each(v, j, tell_one, &t);
    tell_rest(&t, &v->end);
}
