#include "launcher/report/report.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "launcher/report/exits.h"
#include "launcher/report/words.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

/* At the start a wait shorter than this is not worth a line; once a round has
 * been there, every wait is: a node is missing, or this one is a spare. */
#define WAIT_WORTH_US (2 * MONO_S)

static void say_unreachable(const struct conf *conf, const char *text)
{
    log_warnx("the rendezvous at %s port %d: %s. Check that ddprun with the "
              "same line, or ddprdzvd, runs on that host, that the name leads "
              "to it, and that no firewall closes the port",
              conf->endpoint_host, conf->endpoint_port, text);
}

/* Of no use where the worker is a probe, which tells more. */
static bool is_of_workers(enum note_kind kind)
{
    return kind == NOTE_spawn || kind == NOTE_worker_failed ||
           kind == NOTE_stopping;
}

/* Whether the round is over for what a line about this node's own worker has
 * just told (cause_describe() in rendezvous/core). */
static bool is_told(const struct event_log *j, const char *why)
{
    char own[192];
    if (j->last.pid <= 0)
        return false;
    bool killed = j->last.signal != 0;
    (void)snprintf(own, sizeof(own), "rank %lld on %s %s %d",
                   (long long)j->base_rank + j->last.local_rank, j->node,
                   killed ? "was killed by signal" : "ended with exit code",
                   killed ? j->last.signal : j->last.code);
    return strcmp(own, why) == 0;
}

void report_note(const struct conf *conf,
                 const struct note *n,
                 const struct event_log *j,
                 bool debug)
{
    char line[1024];
    if (debug) {
        note_format(n, line, sizeof(line));
        log_info("debug: %s", line);
    }
    if (conf->preflight && is_of_workers(n->kind))
        return;
    switch (n->kind) {
    case NOTE_quarantined:
        log_warnx("%s", n->text);
        return;
    case NOTE_wait:
        if (n->round > 0 || mono_now_us() - j->start_us >= WAIT_WORTH_US)
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
    case NOTE_link_lost:
        log_warnx("the connection to the rendezvous is lost: %s; trying "
                  "again",
                  n->text);
        return;
    case NOTE_link_back:
        log_info("connected to the rendezvous again");
        return;
    case NOTE_unreachable:
        say_unreachable(conf, n->text);
        return;
    case NOTE_fenced:
        log_warnx("%s", n->text);
        return;
    case NOTE_killing:
        log_warnx("killing workers that did not go: %s", n->text);
        return;
    case NOTE_drained:
    case NOTE_leaving:
        log_info("%s", n->text);
        return;
    default: /* the others are the server's, or for debugging */
        return;
    }
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

/* Two lines on 80 columns; the second one where there is something in it. */
static void report_times(const struct conf *conf, const struct event_log *j)
{
    char wall[40], ran[40], waited[40], lost[40];
    int64_t wall_us = mono_now_us() - j->start_us;
    int percent = wall_us > 0 ? (int)(100 * j->running_us / wall_us) : 0;
    log_warnx("  time            %s in all; workers ran %s (%d %%)",
              seconds(wall_us, wall), seconds(j->running_us, ran), percent);
    if (conf->nnodes_max > 1 || j->rounds > 1)
        log_warnx("  %-15s waiting for nodes %s, lost to restarts %s", "",
                  seconds(j->waiting_us, waited),
                  seconds(j->restarting_us, lost));
}

/* Of a run that did not fail, and was not quiet either. */
static void report_rounds(const struct conf *conf, const struct event_log *j)
{
    char wall[40], lost[40];
    log_info("run '%s': %lld restart%s, %d rounds here; %s in all, lost to "
             "restarts %s",
             conf->run_id, (long long)j->restarts, j->restarts == 1 ? "" : "s",
             j->rounds, seconds(mono_now_us() - j->start_us, wall),
             seconds(j->restarting_us, lost));
}

/* The probes have said all themselves; the others' launchers hear only this. */
static void report_preflight(const struct agent_verdict *v)
{
    const struct msg_end *e = &v->end;
    char how[64];
    report_exits_how(e->code, e->signal, how, sizeof(how));
    log_warnx("preflight: not all is well, says %s: %s (status %d)", e->node,
              e->error[0] != '\0' ? e->error : how, v->status);
}

static void report_worker(const struct msg_end *e, int64_t ago_us)
{
    char how[64];
    char when[64];
    char pid[32] = "";
    if (e->hung)
        (void)snprintf(how, sizeof(how), "made no progress");
    else if (e->pid <= 0)
        (void)snprintf(how, sizeof(how), "could not be started");
    else
        report_exits_how(e->code, e->signal, how, sizeof(how));
    report_time(ago_us, when, sizeof(when));
    if (e->pid > 0)
        (void)snprintf(pid, sizeof(pid), ", pid %lld", (long long)e->pid);
    log_warnx("  first failure   rank %lld on %s (local rank %lld%s): %s%s",
              (long long)e->rank, e->node, (long long)e->local_rank, pid, how,
              e->oom ? ", by the kernel: memory had run out" : "");
    log_warnx("  when            %s, in round %lld", when, (long long)e->round);
    if (e->error[0] != '\0')
        log_warnx("  error           %s", e->error);
    report_words(e->tail, e->trace);
}

/* Where a node was lost and none came in its place: what its peers ended with
 * is no failure of theirs. */
static void report_loss(const struct msg_end *e, int64_t ago_us)
{
    char when[64];
    report_time(ago_us, when, sizeof(when));
    log_warnx("  node lost       %s %s", e->lost, e->lost_how);
    log_warnx("  when            %s, in round %lld", when, (long long)e->round);
}

static void report_failure(const struct conf *conf,
                           const struct agent_verdict *v,
                           const struct event_log *j,
                           const char *logs)
{
    const struct msg_end *e = &v->end;
    int64_t ago_us = e->age_us + mono_now_us() - v->heard_us;
    log_warnx("run '%s' failed", conf->run_id);
    if (e->node[0] != '\0')
        report_worker(e, ago_us);
    else
        report_loss(e, ago_us);
    report_exits(v, j);
    if (e->node[0] == '\0')
        log_warnx("  why it ended    %s", e->text);
    if (conf->restart_window_us > 0)
        log_warnx("  restarts used   %lld, at most %s", (long long)e->restarts,
                  conf->max_restarts_text);
    else
        log_warnx("  restarts used   %lld of %d", (long long)e->restarts,
                  conf->max_restarts);
    if (e->crash_loop > 0)
        log_warnx("  crash loop      the last %lld rounds all failed before "
                  "any worker made progress",
                  (long long)e->crash_loop);
    report_times(conf, j);
    if (logs[0] != '\0')
        log_warnx("  logs            %s on %s", logs, j->node);
    log_warnx("  exit status     %d%s", v->status,
              conf->nnodes_max > 1 ? ", on every node" : "");
}

void report_end(const struct conf *conf,
                const struct agent_verdict *v,
                const struct event_log *j,
                const char *logs)
{
    if (v->ended && v->end.node[0] != '\0' && conf->preflight) {
        report_preflight(v);
        return;
    }
    if (v->ended && (v->end.node[0] != '\0' || v->end.lost[0] != '\0')) {
        report_failure(conf, v, j, logs);
        return;
    }
    if (v->ended && v->end.text[0] != '\0')
        log_warnx("run '%s': %s", conf->run_id, v->end.text);
    else if (v->text[0] != '\0')
        log_warnx("%s", v->text);
    else if (v->ended && v->status == 0 && j->rounds == 0)
        log_info("run '%s' has succeeded; this node was not needed",
                 conf->run_id);
    if (j->rounds > 1)
        report_rounds(conf, j);
    if (conf->output.files && conf->log_dir[0] == '\0' && logs[0] != '\0')
        log_info("log files are in %s", logs); /* nobody named the folder */
}
