/*
 * What a person reads on stderr: one line for each event on the way that
 * matters to a user, and at the end the failure report.
 *
 * A good run is silent. A run that failed ends with a block of lines that have
 * the same labels each time (first failure, when, error, stderr, then,
 * restarts, taken over, time, logs, exit status), so that it can be found in a
 * log of thousands. The facts come from the server's `end` message, which is
 * the same on all nodes: every launcher names the same first failure. If the
 * server's message never came, the launcher prints what the agent itself
 * concluded (verdict.text).
 *
 * Nothing is said twice: a failure of this node's own worker is reported when
 * it happens, so the end of the round that it causes is not (is_told).
 */
#include "launcher/report/report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launcher/report/exits.h"
#include "launcher/report/words.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/account/goodput.h"

/* A wait at the start that is shorter than this gets no line. After the first
 * round every wait does: a node is missing, or this one is a spare. */
#define WAIT_WORTH_US (2 * MONO_S)
/* The same one gets no other line so soon. A server says it every 30 s. */
#define WAIT_AGAIN_US (25 * MONO_S)

#define CHECK_ENDPOINT                                                         \
    "Check that ddprun with the same options, or ddprdzvd, runs on that "      \
    "host, that the name resolves to it, that no other program has the port, " \
    "and that no firewall blocks it"

/* Whether the round is over because of a worker of this node whose failure has
 * just been reported: `why` begins with its rank, this node, and how it failed
 * (cause_describe() in rendezvous/core). What follows a semicolon is news. */
static bool is_told(const struct event_log *j, const char *why)
{
    char own[128], *rest;
    if (strncmp(why, "rank ", 5) != 0)
        return false;
    int64_t local_rank = strtoll(why + 5, &rest, 10) - j->base_rank;
    int len = snprintf(own, sizeof(own), " on %s ", j->node); /* fits */
    return local_rank >= 0 && local_rank < j->conf->nproc &&
           j->failed[local_rank] && strncmp(rest, own, (size_t)len) == 0 &&
           strchr(rest + len, ';') == NULL;
}

/* Not the same wait again: a server says who is here whenever a node comes or
 * goes, be it one that only looks for the rest of the run. */
static bool is_news(const struct note *wait, struct event_log *j)
{
    int64_t now_us = mono_now_us();
    bool is_same = wait->round == j->wait.round &&
                   strcmp(wait->text, j->wait.text) == 0 &&
                   now_us < mono_after(j->wait.told_us, WAIT_AGAIN_US);
    if (is_same || (wait->round == 0 && now_us - j->start_us < WAIT_WORTH_US))
        return false;
    j->wait.told_us = now_us;
    j->wait.round = wait->round;
    msg_set(j->wait.text, wait->text);
    return true;
}

/* Kinds of notes that are a line as they are, behind these words. */
static const struct {
    void (*log)(const char *fmt, ...);
    const char *before;
} lines[NOTE_COUNT] = {
    [NOTE_quarantined] = {log_warnx, ""},
    [NOTE_refused] = {log_warnx, ""},
    [NOTE_by_count] = {log_warnx, ""},
    [NOTE_fenced] = {log_warnx, ""},
    [NOTE_killing] = {log_warnx, "killing workers that did not stop: "},
    [NOTE_drained] = {log_info, ""},
    [NOTE_leaving] = {log_info, ""},
};

static void tell_of_link(const struct conf *conf, const struct note *n)
{
    char endpoints[CONF_ENDPOINTS_TEXT_MAX];
    if (n->kind == NOTE_link_lost) {
        log_warnx("lost the connection to the rendezvous: %s; trying again",
                  n->text);
    } else if (n->kind == NOTE_link_back) {
        log_info("connected to the rendezvous again%s%s",
                 n->text[0] != '\0' ? ": " : "", n->text);
    } else {
        conf_endpoints_text(conf, endpoints);
        log_warnx("cannot reach the rendezvous at %s: %s. " CHECK_ENDPOINT,
                  endpoints, n->text);
    }
}

/* Other kinds are the server's, or for debugging. */
static void
tell(const struct conf *conf, const struct note *n, struct event_log *j)
{
    switch (n->kind) {
    case NOTE_wait:
        if (is_news(n, j))
            log_info("waiting: %s", n->text);
        return;
    case NOTE_spawn:
        if (n->round > 1 || conf->nnodes_max > 1)
            log_info("round %lld: %s", (long long)n->round, n->text);
        return;
    case NOTE_worker_failed:
        log_warnx("round %lld: %s%s", (long long)n->round, n->text,
                  conf->nproc > 1 || conf->nnodes_max > 1
                      ? "; stopping the others"
                      : "");
        return;
    case NOTE_stopping:
        if (!is_told(j, n->text))
            log_info("round %lld is over: %s", (long long)n->round, n->text);
        return;
    case NOTE_ended:
        log_info("run '%s' ends: %s", conf->run_id, n->text);
        return;
    case NOTE_link_lost:
    case NOTE_link_back:
    case NOTE_unreachable:
        tell_of_link(conf, n);
        return;
    default:
        if (lines[n->kind].log != NULL)
            lines[n->kind].log("%s%s", lines[n->kind].before, n->text);
    }
}

void report_note(const struct conf *conf,
                 const struct note *n,
                 struct event_log *j,
                 bool debug)
{
    char line[1024];
    if (debug) {
        note_format(n, line, sizeof(line));
        log_info("debug: %s", line);
    }
    if (conf->preflight &&
        (n->kind == NOTE_spawn || n->kind == NOTE_worker_failed ||
         n->kind == NOTE_stopping))
        return; /* its worker is the probe, which prints better lines */
    tell(conf, n, j);
}

void report_time(int64_t ago_us, char *text, size_t size)
{
    time_t at = time(NULL) - (time_t)(ago_us / MONO_S);
    struct tm tm;
    if (localtime_r(&at, &tm) == NULL ||
        strftime(text, size, "%Y-%m-%dT%H:%M:%S%z", &tm) == 0)
        text[0] = '\0';
}

/* -- the end --------------------------------------------------------------- */

#define GOODPUT_BLIND "the program tells no steps: its own start counts as ran"

/* "12.3 s"; "0.017 s" */
static const char *seconds(int64_t us, char text[40])
{
    int64_t ms = us / MONO_MS;
    if (ms < 10000)
        (void)snprintf(text, 40, "%d.%03d s", (int)(ms / 1000),
                       (int)(ms % 1000));
    else
        (void)snprintf(text, 40, "%lld.%d s", (long long)(ms / 1000),
                       (int)(ms % 1000 / 100));
    return text;
}

/* Of this node. */
static void report_times(const struct event_log *j)
{
    char wall[40], ran[40];
    int64_t wall_us = mono_now_us() - j->start_us;
    int percent = wall_us > 0 ? (int)(100 * j->running_us / wall_us) : 0;
    log_warnx("  time            %s in all; workers ran %s (%d %%)",
              seconds(wall_us, wall), seconds(j->running_us, ran), percent);
}

/* What nodes and restarts cost: the whole run, as the server told it with the
 * end; else this node. Lines of 80 columns at most. */
static void report_goodput(const struct agent_verdict *v,
                           const struct event_log *j)
{
    struct goodput_sums g;
    char wall[40], waited[40], detect[40], restart[40], again[80] = "";
    if (!v->ended || !goodput_parse(&g, v->end.spent) || g.parts.ran_us == 0) {
        log_warnx("  %-15s waiting for nodes %s, lost to restarts %s", "",
                  seconds(j->waiting_us, waited),
                  seconds(j->restarting_us, restart));
        return;
    }
    const struct goodput_parts *p = &g.parts;
    int64_t wall_us = goodput_wall_us(p);
    if (p->repeated_steps > 0)
        (void)snprintf(again, sizeof(again), /* fits */
                       "; %lld step%s done twice", (long long)p->repeated_steps,
                       p->repeated_steps == 1 ? "" : "s");
    log_warnx("  goodput         all ranks of the run ran %d %% of %s%s",
              (int)(100 * p->ran_us / wall_us), seconds(wall_us, wall), again);
    log_warnx("  %-15s waiting for nodes %s, detection %s, restarts %s", "",
              seconds(p->waited_us, waited), seconds(p->detect_us, detect),
              seconds(p->restart_us, restart));
    if (g.steps == 0)
        log_warnx("  %-15s " GOODPUT_BLIND, "");
}

/* That the server changed, and what it cost; of several ones, the last. False:
 * it did not. */
static bool describe_takeover(const struct conf *conf,
                              const struct event_log *j,
                              char *text,
                              size_t size)
{
    const struct agent_takeover *t = &j->takeover;
    char to[CONF_PLACE_MAX], from[CONF_PLACE_MAX], gap[40];
    char times[40] = "";
    if (t->count == 0)
        return false;
    conf_place_text(conf, t->to.target, t->to.which, to);
    conf_place_text(conf, t->from.target, t->from.which, from);
    if (t->count > 1)
        (void)snprintf(times, sizeof(times), /* messages: ok, 2 or more */
                       "%d times, at last ", t->count);
    (void)snprintf(text, size, /* may be cut */
                   "%sfrom %s by %s (term %lld), after %s without a server",
                   times, from, to, (long long)t->to.term.count,
                   seconds(t->gap_us, gap));
    return true;
}

/* The sums of a run that succeeded after restarts: what was lost is the whole
 * run's, as the server told it; else this node's. */
static void report_rounds(const struct conf *conf,
                          const struct agent_verdict *v,
                          const struct event_log *j)
{
    char wall[40], lost[40], share[40] = "";
    const char *blind = "";
    int64_t lost_us = j->restarting_us;
    struct goodput_sums g;
    if (v->ended && goodput_parse(&g, v->end.spent) && g.parts.ran_us > 0) {
        (void)snprintf(share, sizeof(share), /* fits */ ", goodput %d %%",
                       (int)(100 * g.parts.ran_us / goodput_wall_us(&g.parts)));
        lost_us = g.parts.detect_us + g.parts.restart_us;
        blind = g.steps == 0 ? "; " GOODPUT_BLIND : "";
    }
    log_info("run '%s': %lld restart%s, %d round%s here; %s in all%s, lost to "
             "starts and restarts %s%s",
             conf->run_id, (long long)j->restarts, j->restarts == 1 ? "" : "s",
             j->rounds, j->rounds == 1 ? "" : "s",
             seconds(mono_now_us() - j->start_us, wall), share,
             seconds(lost_us, lost), blind);
}

/* The probe of one node has printed the details; the launchers of all nodes
 * print this line. */
static void report_preflight(const struct agent_verdict *v)
{
    const struct msg_end *e = &v->end;
    char how[64];
    report_exits_how(e->code, e->signal, how, sizeof(how));
    log_warnx("preflight failed; %s reports: %s (status %d)", e->node,
              e->error[0] != '\0' ? e->error : how, v->status);
}

#define HANG_MAX 440 /* any text of `end`, and what stands before it */

/* What libstdc++ says of a thread that is still there at the end: gloo's, of a
 * program that ends with its process group. */
static bool ended_with_group(const struct msg_end *e)
{
    static const char last[] = "terminate called without an active exception";
    size_t len = strlen(e->tail);
    while (len > 0 && e->tail[len - 1] == '\n')
        len--;
    return e->signal == SIGABRT && len >= sizeof(last) - 1 &&
           strncmp(e->tail + len - (sizeof(last) - 1), last,
                   sizeof(last) - 1) == 0;
}

/* What the rank does is the first clause of the text
 * (launcher/hang/odd_rank); the rest, which is returned, has a line of its
 * own. */
static const char *describe_hang(const char *text, char how[HANG_MAX])
{
    size_t len = strcspn(text, ";");
    (void)snprintf(how, /* fits */ HANG_MAX, "made no progress%s%.*s",
                   len > 0 ? ": " : "", (int)len, text);
    text += len;
    return text + strspn(text, "; ");
}

static void report_worker(const struct msg_end *e, int64_t ago_us)
{
    char how[HANG_MAX];
    const char *error = e->error;
    char when[64];
    char pid[32] = "";
    if (e->how == MSG_FAILED_HUNG)
        error = describe_hang(error, how);
    else if (e->pid <= 0)
        (void)snprintf(how, sizeof(how), "could not be started");
    else
        report_exits_how(e->code, e->signal, how, sizeof(how));
    report_time(ago_us, when, sizeof(when));
    if (e->pid > 0)
        (void)snprintf(pid, sizeof(pid), ", pid %lld", (long long)e->pid);
    log_warnx("  first failure   rank %lld on %s (local rank %lld%s): %s%s",
              (long long)e->rank, e->node, (long long)e->local_rank, pid, how,
              e->how == MSG_FAILED_OOM ? ", by the kernel: out of memory" : "");
    log_warnx("  when            %s, in round %lld", when, (long long)e->round);
    if (error[0] != '\0')
        log_warnx("  error           %s", error);
    else if (ended_with_group(e))
        log_warnx(
            "  error           likely PyTorch's, at the end of a program that "
            "was done: on gloo some abort that do not call "
            "torch.distributed.destroy_process_group()");
    report_words(e->tail, e->trace);
}

static void report_failure(const struct conf *conf,
                           const struct agent_verdict *v,
                           const struct event_log *j,
                           const char *logs)
{
    const struct msg_end *e = &v->end;
    int64_t ago_us = e->age_us + mono_now_us() - v->heard_us;
    char taken[800];
    ddp_assert(v->ended && (e->node[0] != '\0' || e->lost[0] != '\0'));
    log_warnx("run '%s' failed", conf->run_id);
    if (e->node[0] != '\0') {
        report_worker(e, ago_us);
    } else {
        /* A node was lost and no other took its place: the exits of its peers
         * are no failures of theirs. */
        char when[64];
        report_time(ago_us, when, sizeof(when));
        log_warnx("  node lost       %s %s", e->lost, e->lost_how);
        log_warnx("  when            %s, in round %lld", when,
                  (long long)e->round);
    }
    report_exits(v, j);
    if (j->killed[0] != '\0')
        log_warnx("  killed          on %s: %s", j->node, j->killed);
    if (e->node[0] == '\0')
        log_warnx("  why it ended    %s", e->text);
    if (conf->restart_window_us > 0)
        log_warnx("  restarts used   %lld, at most %s", (long long)e->restarts,
                  conf->max_restarts_text);
    else
        log_warnx("  restarts used   %lld of %d", (long long)e->restarts,
                  conf->max_restarts);
    if (e->crash_loop > 0)
        log_warnx("  crash loop      %lld round%s in a row failed before any "
                  "worker made progress",
                  (long long)e->crash_loop, e->crash_loop == 1 ? "" : "s");
    if (describe_takeover(conf, j, taken, sizeof(taken)))
        log_warnx("  taken over      %s", taken);
    report_times(j);
    if (conf->nnodes_max > 1 || j->rounds > 1)
        report_goodput(v, j);
    if (logs[0] != '\0')
        log_warnx("  logs            %s on %s", logs, j->node);
    log_warnx("  exit status     %d%s", v->status,
              conf->nnodes_max > 1 ? ", on every node" : "");
}

/* What a person can do about an end that this launcher or the server decided.
 */
static const char *next_step(const struct agent_verdict *v)
{
    if (v->ended && v->status == ddp_code_exit(DDP_E_TIMEOUT))
        return ". Run ddprun with the same command line on the missing nodes, "
               "or wait longer for them (--rdzv_conf=join_timeout=SECONDS)";
    if (!v->ended && v->status == ddp_code_exit(DDP_E_UNREACHABLE))
        return ". " CHECK_ENDPOINT;
    if (!v->ended && v->status == ddp_code_exit(DDP_E_LOST))
        return ". Look at that host why its ddprun or ddprdzvd ended, or wait "
               "longer for it (--rdzv_conf=reconnect_timeout=SECONDS, and "
               "join_timeout before the first round)";
    return "";
}

void report_end(const struct conf *conf,
                const struct agent_verdict *v,
                const struct event_log *j,
                const char *logs)
{
    char taken[800];
    if (v->ended && v->end.node[0] != '\0' && conf->preflight) {
        report_preflight(v);
        return;
    }
    if (v->ended && (v->end.node[0] != '\0' || v->end.lost[0] != '\0')) {
        report_failure(conf, v, j, logs);
        return;
    }
    if (v->ended && v->end.text[0] != '\0')
        log_warnx("run '%s': %s%s", conf->run_id, v->end.text, next_step(v));
    else if (v->text[0] != '\0')
        log_warnx("%s%s", v->text, next_step(v));
    else if (v->ended && v->status == ddp_code_exit(DDP_E_UNNEEDED))
        log_warnx("run '%s' succeeded without this node, which never had a "
                  "place in it. If that was another job, give each job a "
                  "--rdzv_id of its own; exit status %d",
                  conf->run_id, v->status);
    if (j->rounds > 1)
        report_rounds(conf, v, j);
    if (describe_takeover(conf, j, taken, sizeof(taken)))
        log_info("the rendezvous was taken over %s", taken);
    if (conf->output.files && conf->log_dir[0] == '\0' && logs[0] != '\0')
        log_info("log files are in %s", logs); /* the user did not choose it */
}
