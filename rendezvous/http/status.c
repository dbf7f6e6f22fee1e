/*
 * The parts of the document (http/overview), from the core's own view
 * (core/status) and the account of a run.
 */
#include "rendezvous/http/status.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/json.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/account/account_json.h"
#include "rendezvous/core/status.h"
#include "rendezvous/http/status_priv.h"

#define INSTANCE_SHOWN 12 /* digits: 48 of its 128 bits */

void status_count_http(struct status_counts *counts, int code)
{
    for (int i = 0; i < HTTP_STATUSES; i++) {
        if (counts->http[i].code != 0 && counts->http[i].code != code)
            continue;
        counts->http[i].code = code;
        counts->http[i].answers++;
        return;
    }
    DDP_WRONG("more codes than http_reason knows");
}

/* Its last lines, the end of a text that its agent sent. */
#define TAIL_LINES 10
#define TAIL_BYTES 200

static void write_line(struct json *j, const char *from, size_t len)
{
    char line[TAIL_BYTES + 1], text[4 * TAIL_BYTES];
    size_t n = len < sizeof(text) ? len : sizeof(text) - 1;
    memcpy(text, from, n);
    text[n] = '\0';
    msg_set(line, text); /* cut where a character ends */
    json_text(j, NULL, line);
}

static void write_tail(struct json *j, const char *tail)
{
    const char *from = tail + strlen(tail);
    if (tail[0] == '\0')
        return;
    if (from[-1] == '\n')
        from--;
    for (int lines = 0; from > tail; from--)
        if (from[-1] == '\n' && ++lines == TAIL_LINES)
            break;
    json_open(j, "tail", '[');
    while (*from != '\0') {
        size_t len = strcspn(from, "\n");
        write_line(j, from, len);
        from += len + (from[len] == '\n');
    }
    json_close(j, ']');
}

static void write_failure(struct json *j, const struct status_failure *f)
{
    if (!f->known)
        return;
    json_open(j, "last_failure", '{');
    json_int(j, "round", f->round);
    json_text(j, "node", f->node);
    json_int(j, "rank", f->what->rank);
    json_int(j, "local_rank", f->what->local_rank);
    json_int(j, "pid", f->what->pid);
    json_int(j, "code", f->what->code);
    json_int(j, "signal", f->what->signal);
    json_seconds(j, "age_s", f->age_us);
    json_text(j, "text", f->what->text);
    write_tail(j, f->what->tail);
    json_close(j, '}');
}

static void write_waiting(struct json *j, const struct status_run *run)
{
    if (run->state != STATUS_GATHER)
        return;
    json_open(j, "waiting", '{');
    json_int(j, "have", run->have);
    json_int(j, "min", run->nodes_min);
    json_seconds(j, "left_s", run->left_us);
    json_close(j, '}');
}

static void write_authority(struct json *j, const struct status_authority *o)
{
    json_open(j, "authority", '{');
    json_int(j, "term", o->term);
    json_bool(j, "leads", o->leads);
    json_bool(j, "may_act", o->may_act);
    json_int(j, "voters", o->voters);
    json_int(j, "here", o->here);
    json_int(j, "answer", o->answer);
    json_close(j, '}');
}

static void write_end(struct json *j, const struct status_run *run)
{
    if (run->end == NULL)
        return;
    json_open(j, "end", '{');
    json_int(j, "status", run->end->status);
    json_text(j, "text", run->end->text);
    json_seconds(j, "age_s", run->end_age_us);
    json_close(j, '}');
}

/* -- what was, and how it goes --------------------------------------------- */

static void write_round(struct json *j,
                        const struct timeline_round *t,
                        int64_t age_us,
                        int64_t unix_us)
{
    json_open(j, NULL, '{');
    json_int(j, "round", t->number);
    if (t->term > 0) {
        json_int(j, "term", t->term);
        json_int(j, "epoch", t->term); /* the old name */
    }
    json_seconds(j, "sealed_unix", unix_us - age_us);
    json_int(j, "nodes", t->nodes);
    if (t->world_size > 0)
        json_int(j, "world_size", t->world_size);
    if (t->end == ROUND_OPEN) {
        json_micros(j, "ran_s", t->cost.ran_us);
    } else {
        account_json_parts(j, &t->cost);
        json_text(j, "ended", timeline_word(t->end));
        json_text(j, "text", t->text);
    }
    json_close(j, '}');
}

/* The newest ones, the last one last. */
static void write_timeline(struct json *j,
                           const struct account *account,
                           const struct status_when *when,
                           int rounds_max)
{
    int n = timeline_len(&account->timeline);
    int64_t left_out = account->timeline.known - n;
    int first = n > rounds_max ? n - rounds_max : 0;
    json_open(j, "timeline", '[');
    for (int i = first; i < n && !j->full; i++) {
        const struct timeline_round t = account_round(account, i, when->now_us);
        write_round(j, &t, when->now_us - t.sealed_us, when->unix_us);
    }
    json_close(j, ']');
    json_int(j, "timeline_left_out", left_out + first);
}

/* What is lost with a node: the steps since the newest one on two nodes. */
static void write_mirrored(struct json *j, const struct status_progress *p)
{
    if (!p->keeps)
        return;
    json_int(j, "mirrored", p->mirrored);
    if (p->mirrored >= 0)
        json_int(j, "mirrored_behind",
                 p->least > p->mirrored ? p->least - p->mirrored : 0);
}

/* A node that has gone since it was looked at has no name any more. */
static void write_laggards(struct json *j,
                           const struct rdzv *r,
                           int run,
                           const struct status_progress *p,
                           int64_t now_us)
{
    if (p->n_laggards == 0)
        return;
    json_open(j, "slow", '[');
    for (int i = 0; i < p->n_laggards; i++) {
        const struct status_laggard *l = &p->laggards[i];
        if (status_place_run(r, l->node) != run)
            continue;
        json_open(j, NULL, '{');
        if (l->rank >= 0)
            json_int(j, "rank", l->rank);
        json_text(j, "node", status_node_name(r, l->node));
        json_int(j, "local_rank", l->local_rank);
        json_int(j, "slower_permille", l->permille);
        json_micros(j, "part_s", l->part_us);
        json_seconds(j, "since_s", now_us - l->since_us);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_progress(struct json *j,
                           const struct rdzv *r,
                           int run,
                           const struct status_progress *p,
                           int64_t now_us)
{
    if (!p->known)
        return;
    json_open(j, "progress", '{');
    json_int(j, "step", p->least);
    json_int(j, "step_max", p->most);
    json_micros(j, "steps_per_s", p->micro);
    write_mirrored(j, p);
    write_laggards(j, r, run, p, now_us);
    json_open(j, "slowest", '[');
    for (int i = 0; i < p->n_slow; i++) {
        const struct status_slow *slow = &p->slow[i];
        if (status_place_run(r, slow->node) != run)
            continue;
        json_open(j, NULL, '{');
        if (slow->rank >= 0)
            json_int(j, "rank", slow->rank);
        json_text(j, "node", status_node_name(r, slow->node));
        json_int(j, "step", slow->step);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

/* -- nodes ----------------------------------------------------------------- */

/* A peer that knows an agent's whole id can join as it and take its node's
 * place. What is shown is enough to tell nodes apart, and proves nothing. */
#define AGENT_SHOWN 12 /* digits of 32 */

void status_write_node(struct json *j, const struct status_node *n)
{
    char agent[AGENT_SHOWN + 1];
    (void)snprintf(agent, /* is to be cut */
                   sizeof(agent), "%.*s", AGENT_SHOWN, n->agent);
    json_open(j, NULL, '{');
    json_text(j, "name", n->name);
    json_text(j, "agent", agent);
    json_text(j, "state", status_node_word(n->state));
    json_int(j, "group_rank", n->group_rank);
    json_int(j, "base_rank", n->base_rank);
    json_int(j, "nproc", n->nproc);
    json_int(j, "strikes", n->strikes);
    json_text(j, "addr", n->addr);
    json_bool(j, "connected", n->connected);
    json_seconds(j, "lease_s", n->lease_us);
    json_seconds(j, "uptime_s", n->uptime_us);
    json_bool(j, "hosts", n->hosts);
    json_text(j, "role", n->role);
    if (n->step >= 0)
        json_int(j, "step", n->step);
    if (n->failed_first)
        json_bool(j, "failed_first", true);
    if (n->votes)
        json_bool(j, "votes", true);
    if (n->serve_port > 0)
        json_int(j, "serve_port", n->serve_port);
    json_close(j, '}');
}

static void write_stands(struct json *j, const struct status_run *run)
{
    if (run->stands.node[0] == '\0')
        return;
    json_open(j, "stands", '{');
    json_text(j, "node", run->stands.node);
    json_text(j, "text", run->stands.text);
    json_seconds(j, "age_s", run->stands.age_us);
    json_close(j, '}');
}

/*
 * Only its first digits, which tell it from others. Whoever bears the whole of
 * it, in a join, is believed to be a member: that the run has ended, for
 * example. Anybody can read this page.
 */
static void write_instance(struct json *j, const char *instance)
{
    char shown[INSTANCE_SHOWN + 1];
    (void)snprintf(shown, sizeof(shown), "%s", instance); /* is cut */
    json_text(j, "instance", shown);
}

void status_write_run(struct json *j, const struct status_run *run)
{
    json_text(j, "id", run->id);
    write_instance(j, run->instance);
    json_text(j, "state", status_run_word(run->state));
    json_int(j, "round", run->round);
    json_text(j, "prog", run->prog);
    json_int(j, "nodes_min", run->nodes_min);
    json_int(j, "nodes_max", run->nodes_max);
    json_int(j, "nodes", run->nodes);
    json_int(j, "spares", run->spares);
    json_int(j, "absent", run->absent);
    json_int(j, "world_size", run->world_size);
    json_text(j, "master_addr", run->master_addr);
    json_int(j, "master_port", run->master_port);
    json_int(j, "restarts", run->restarts);
    json_int(j, "max_restarts", run->max_restarts);
    json_seconds(j, "window_s", run->window_us);
    json_int(j, "restarts_in_window", run->restarts_counting);
    json_seconds(j, "uptime_s", run->uptime_us);
    json_seconds(j, "round_uptime_s", run->round_uptime_us);
    write_authority(j, &run->authority);
    write_waiting(j, run);
    write_stands(j, run);
    write_failure(j, &run->last);
    write_end(j, run);
}

void status_write_history(struct json *j,
                          const struct rdzv *r,
                          const struct account *account,
                          int run,
                          const struct status_when *when,
                          int rounds_max,
                          const struct status_progress *progress)
{
    account_json(j, account, when->now_us);
    write_timeline(j, account, when, rounds_max);
    write_progress(j, r, run, progress, when->now_us);
}
