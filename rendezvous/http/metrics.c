/*
 * GET /metrics: Prometheus' text format, version 0.0.4, or OpenMetrics 1.0, in
 * which a counter is declared without "_total" and the text has an end. Each
 * metric is a row of metrics.def; its lines stand together behind its HELP and
 * TYPE. Runs that have ended are counted and have no lines of their own.
 *
 * Failure modes: as in status.c.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/utf8.h"
#include "rendezvous/core/status.h"
#include "rendezvous/http/status.h"

enum metric {
#define METRIC(name, type, labels, help) METRIC_##name,
#include "rendezvous/http/metrics.def"
#undef METRIC
};

static const struct {
    const char *name, *type, *help;
} rows[] = {
#define METRIC(name, type, labels, help) {"ddprun_" #name, #type, help},
#include "rendezvous/http/metrics.def"
#undef METRIC
};

struct metrics_writer {
    struct buf *out;
    bool full;
    bool openmetrics;
    enum metric metric;
};

__attribute__((format(printf, 2, 3))) static void
put(struct metrics_writer *w, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ddp_assert(n >= 0 && (size_t)n < sizeof(text));
    w->full |= buf_put(w->out, text, (size_t)n) != 0;
}

/* All lines of one metric stand together, behind these two. */
static void head(struct metrics_writer *w, enum metric metric)
{
    static const char total[] = "_total";
    bool counter = strcmp(rows[metric].type, "counter") == 0;
    int len = (int)strlen(rows[metric].name);
    if (w->openmetrics && counter)
        len -= (int)sizeof(total) - 1;
    w->metric = metric;
    put(w, "# HELP %.*s %s\n", len, rows[metric].name, rows[metric].help);
    put(w, "# TYPE %.*s %s\n", len, rows[metric].name, rows[metric].type);
}

/* A label's value: quote and newline are escaped, as the format wants it; what
 * no terminal should be sent is shown as \xNN, and so is a backslash, so that
 * no two names become one. */
static void put_value(struct metrics_writer *w, const char *text)
{
    while (*text != '\0') {
        bool control;
        size_t len = utf8_char(text, &control);
        if (*text == '\n')
            put(w, "\\n");
        else if (*text == '"')
            put(w, "\\\"");
        else if (len > 0 && !control && *text != '\\')
            put(w, "%.*s", (int)len, text);
        else
            put(w, "\\\\x%02x", (unsigned char)*text);
        text += len == 0 || control ? 1 : len;
    }
}

static void
put_labels(struct metrics_writer *w, const char *key, const char *value)
{
    put(w, "%s{%s=\"", rows[w->metric].name, key);
    put_value(w, value);
    put(w, "\"} ");
}

static void sample(struct metrics_writer *w,
                   const char *key,
                   const char *value,
                   int64_t number)
{
    put_labels(w, key, value);
    put(w, "%" PRId64 "\n", number);
}

static void only(struct metrics_writer *w, enum metric metric, int64_t number)
{
    head(w, metric);
    put(w, "%s %" PRId64 "\n", rows[metric].name, number);
}

static void put_seconds(struct metrics_writer *w, int64_t us)
{
    if (us < 0)
        us = 0;
    put(w, "%" PRId64 ".%06d\n", us / MONO_S, (int)(us % MONO_S));
}

static void
only_seconds(struct metrics_writer *w, enum metric metric, int64_t us)
{
    head(w, metric);
    put(w, "%s ", rows[metric].name);
    put_seconds(w, us);
}

/* -- the daemon ------------------------------------------------------------ */

static void write_rejected(struct metrics_writer *w,
                           const struct status_counts *c)
{
    static const char *const reasons[REJECT_COUNT] = {
        [REJECT_TOKEN] = "token",
        [REJECT_PROTOCOL] = "protocol",
        [REJECT_SILENT] = "silent",
        [REJECT_NO_ROOM] = "no_room",
        [REJECT_NOT_ACCEPTED] = "not_accepted",
    };
    head(w, METRIC_connections_rejected_total);
    for (int i = 0; i < REJECT_COUNT; i++)
        sample(w, "reason", reasons[i], c->rejected[i]);
}

static void write_http(struct metrics_writer *w, const struct status_counts *c)
{
    head(w, METRIC_http_requests_total);
    for (int i = 0; i < HTTP_STATUSES && c->http[i].code != 0; i++) {
        char code[12];
        (void)snprintf(code, /* fits */ sizeof(code), "%d", c->http[i].code);
        sample(w, "code", code, c->http[i].answers);
    }
}

static void write_traffic(struct metrics_writer *w,
                          const struct status_counts *c)
{
    only(w, METRIC_connections_accepted_total, c->accepted);
    write_rejected(w, c);
    only(w, METRIC_broken_total, c->broken);
    only(w, METRIC_messages_received_total, c->conn.messages_in);
    only(w, METRIC_messages_sent_total, c->conn.messages_out);
    only(w, METRIC_received_bytes_total, c->conn.bytes_in);
    only(w, METRIC_sent_bytes_total, c->conn.bytes_out);
    write_http(w, c);
    only_seconds(w, METRIC_tick_lag_seconds_max, c->lag_max_us);
    only_seconds(w, METRIC_tick_lag_seconds_total, c->lag_us);
    only(w, METRIC_ticks_total, c->ticks);
}

static void write_daemon(struct metrics_writer *w,
                         const struct rdzv_limits *limits,
                         const struct status_daemon *d)
{
    head(w, METRIC_build_info);
    sample(w, "version", DDPRUN_VERSION, 1);
    only_seconds(w, METRIC_uptime_seconds, d->uptime_us);
    head(w, METRIC_limit);
    sample(w, "of", "runs", limits->runs_max);
    sample(w, "of", "nodes", limits->nodes_max);
    sample(w, "of", "connections", d->conns_max);
    sample(w, "of", "http", d->http_max);
    head(w, METRIC_connections);
    sample(w, "of", "nodes", d->nodes);
    sample(w, "of", "pending", d->pending);
    sample(w, "of", "http", d->http);
    write_traffic(w, d->counts);
}

static void write_total(struct metrics_writer *w, const struct status_total *t)
{
    head(w, METRIC_runs);
    for (unsigned i = 0; i < STATUS_RUN_STATES; i++)
        sample(w, "state", status_run_word(i), t->runs[i]);
    head(w, METRIC_nodes);
    for (unsigned i = 0; i < STATUS_NODE_STATES; i++)
        sample(w, "state", status_node_word(i), t->nodes[i]);
    only(w, METRIC_joins_total, t->joins);
    only(w, METRIC_rejoins_total, t->rejoins);
    only(w, METRIC_refusals_total, t->refusals);
    only(w, METRIC_rounds_sealed_total, t->rounds);
    only(w, METRIC_rounds_inherited_total, t->inherited);
    only(w, METRIC_takeovers_total, t->takeovers);
    only(w, METRIC_failures_total, t->failures);
    only(w, METRIC_restarts_charged_total, t->restarts);
    only(w, METRIC_restarts_refunded_total, t->refunds);
    only(w, METRIC_nodes_lost_total, t->lost);
    only(w, METRIC_orders_total, t->orders);
    only(w, METRIC_runs_ended_total, t->ended);
}

/* -- the runs -------------------------------------------------------------- */

static void
write_states(struct metrics_writer *w, const struct status_run *runs, int n)
{
    head(w, METRIC_run_state);
    for (int i = 0; i < n; i++) {
        put(w, "%s{run=\"", rows[w->metric].name);
        put_value(w, runs[i].id);
        put(w, "\",state=\"%s\"} 1\n", status_run_word(runs[i].state));
    }
}

static void
write_ages(struct metrics_writer *w, const struct status_run *runs, int n)
{
    head(w, METRIC_run_failure_age_seconds);
    for (int i = 0; i < n; i++) {
        if (!runs[i].last.known)
            continue;
        put_labels(w, "run", runs[i].id);
        put_seconds(w, runs[i].last.age_us);
    }
}

/* Those that have not ended: of them, an id stands for one run. */
struct live_runs {
    int n;
    struct status_run *runs;
    struct live_more {
        struct goodput_parts goodput;
        struct status_progress progress;
    } * more;
};

static void free_live(struct live_runs *live)
{
    free(live->runs);
    free(live->more);
}

/* -1: no memory. Either way free_live is to be called. */
static int find_live(const struct rdzv *r,
                     const struct account *accounts,
                     int64_t now_us,
                     struct live_runs *live)
{
    size_t n_max = (size_t)status_limits(r)->runs_max;
    int *order = calloc(n_max, sizeof(*order));
    *live = (struct live_runs){
        .runs = calloc(n_max, sizeof(live->runs[0])),
        .more = calloc(n_max, sizeof(live->more[0])),
    };
    bool room = order != NULL && live->runs != NULL && live->more != NULL;
    int n = room ? status_runs(r, order) : 0;
    for (int i = 0; i < n; i++) {
        status_run(r, order[i], now_us, &live->runs[live->n]);
        if (live->runs[live->n].state == STATUS_ENDED)
            continue;
        live->more[live->n].goodput =
            account_goodput(&accounts[order[i]], now_us);
        status_progress(r, order[i], &live->more[live->n].progress);
        live->n++;
    }
    free(order);
    return room ? 0 : -1;
}

static void put_fraction(struct metrics_writer *w, double number)
{
    put(w, "%.6f\n", number);
}

static void write_parts(struct metrics_writer *w,
                        const struct live_runs *live,
                        int i,
                        const char *part,
                        int64_t us)
{
    put(w, "%s{run=\"", rows[w->metric].name);
    put_value(w, live->runs[i].id);
    put(w, "\",part=\"%s\"} ", part);
    put_seconds(w, us);
}

static void write_goodput(struct metrics_writer *w,
                          const struct live_runs *live)
{
    head(w, METRIC_run_goodput_ratio);
    for (int i = 0; i < live->n; i++) {
        const struct goodput_parts *g = &live->more[i].goodput;
        put_labels(w, "run", live->runs[i].id);
        put_fraction(w, goodput_share(g));
    }
    head(w, METRIC_run_seconds);
    for (int i = 0; i < live->n; i++) {
        const struct goodput_parts *g = &live->more[i].goodput;
        write_parts(w, live, i, "ran", g->ran_us);
        write_parts(w, live, i, "waited", g->waited_us);
        write_parts(w, live, i, "detect", g->detect_us);
        write_parts(w, live, i, "restart", g->restart_us);
    }
    head(w, METRIC_run_repeated_steps_total);
    for (int i = 0; i < live->n; i++)
        sample(w, "run", live->runs[i].id,
               live->more[i].goodput.repeated_steps);
}

/* Of an inherited round ranks are not known at first. */
static void write_laggard(struct metrics_writer *w,
                          const struct live_runs *live,
                          const struct rdzv *r,
                          int i,
                          const struct status_laggard *l)
{
    if (l->rank < 0)
        return;
    put(w, "%s{run=\"", rows[w->metric].name);
    put_value(w, live->runs[i].id);
    put(w, "\",node=\"");
    put_value(w, status_node_name(r, l->node));
    put(w, "\",rank=\"%" PRId64 "\"} ", l->rank);
    put_fraction(w, l->permille / 1000.0);
}

/* A run whose workers tell no steps has no lines of these. */
static void write_progress(struct metrics_writer *w,
                           const struct rdzv *r,
                           const struct live_runs *live)
{
    head(w, METRIC_run_step);
    for (int i = 0; i < live->n; i++)
        if (live->more[i].progress.known)
            sample(w, "run", live->runs[i].id, live->more[i].progress.least);
    head(w, METRIC_run_steps_per_second);
    for (int i = 0; i < live->n; i++) {
        if (!live->more[i].progress.known)
            continue;
        put_labels(w, "run", live->runs[i].id);
        put_seconds(w, live->more[i].progress.micro);
    }
    head(w, METRIC_run_mirrored_step);
    for (int i = 0; i < live->n; i++)
        if (live->more[i].progress.keeps)
            sample(w, "run", live->runs[i].id, live->more[i].progress.mirrored);
    head(w, METRIC_run_slow_rank_ratio);
    for (int i = 0; i < live->n; i++)
        for (int k = 0; k < live->more[i].progress.n_laggards; k++)
            write_laggard(w, live, r, i, &live->more[i].progress.laggards[k]);
}

static void
write_runs(struct metrics_writer *w, const struct status_run *runs, int n)
{
    write_states(w, runs, n);
#define EACH(name, field)                                                      \
    head(w, METRIC_##name);                                                    \
    for (int i = 0; i < n; i++)                                                \
    sample(w, "run", runs[i].id, runs[i].field)
    EACH(run_round, round);
    EACH(run_nodes, nodes);
    EACH(run_nodes_min, nodes_min);
    EACH(run_nodes_max, nodes_max);
    EACH(run_nodes_absent, absent);
    EACH(run_spares, spares);
    EACH(run_world_size, world_size);
    EACH(run_restarts, restarts);
    EACH(run_restarts_max, max_restarts);
#undef EACH
#define EACH_SECONDS(name, field)                                              \
    head(w, METRIC_##name);                                                    \
    for (int i = 0; i < n; i++) {                                              \
        put_labels(w, "run", runs[i].id);                                      \
        put_seconds(w, runs[i].field);                                         \
    }
    EACH_SECONDS(run_uptime_seconds, uptime_us)
    EACH_SECONDS(run_round_uptime_seconds, round_uptime_us)
#undef EACH_SECONDS
    write_ages(w, runs, n);
}

int status_metrics(struct buf *out,
                   const struct rdzv *r,
                   const struct status_daemon *d,
                   int64_t now_us,
                   bool openmetrics)
{
    struct metrics_writer w = {.out = out, .openmetrics = openmetrics};
    struct status_total total;
    struct live_runs live;
    int rc = find_live(r, d->accounts, now_us, &live);
    if (rc == 0) {
        status_total(r, &total);
        write_daemon(&w, status_limits(r), d);
        write_total(&w, &total);
        write_runs(&w, live.runs, live.n);
        write_goodput(&w, &live);
        write_progress(&w, r, &live);
        if (openmetrics)
            put(&w, "# EOF\n");
    }
    free_live(&live);
    return w.full ? -1 : rc;
}
