#include "launcher/report.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

/* At the start a wait shorter than this is not worth a line; once a round has
 * been there, every wait is: a node is missing, or this one is a spare. */
#define WAIT_WORTH_US (2 * MONO_S)

void report_how(int64_t code, int64_t signal, char *text, size_t size)
{
    const char *name = sigabbrev_np((int)signal);
    if (signal == 0)
        (void)snprintf(text, size, "exit code %d", (int)code);
    else
        (void)snprintf(text, size, "signal %d (SIG%s)", (int)signal,
                       name != NULL ? name : "?");
}

static void say_unreachable(const struct conf *conf, const char *text)
{
    log_warnx("the rendezvous at %s port %d: %s. Check that ddprun runs on "
              "that host with the same line, that the name leads to it, and "
              "that no firewall closes the port",
              conf->endpoint_host, conf->endpoint_port, text);
}

/* Of no use where the worker is a probe, which tells more. */
static bool is_of_workers(enum note_kind kind)
{
    return kind == NOTE_spawn || kind == NOTE_worker_failed ||
           kind == NOTE_stopping;
}

void report_note(const struct conf *conf,
                 const struct note *n,
                 int64_t up_us,
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
    case NOTE_set_aside:
        log_warnx("%s", n->text);
        return;
    case NOTE_wait:
        if (n->round > 0 || up_us >= WAIT_WORTH_US)
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
        log_info("round %lld is over: %s", (long long)n->round, n->text);
        return;
    case NOTE_link_lost:
        log_warnx("the connection to the rendezvous is lost (%s); workers run "
                  "on, trying again",
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
        log_info("%s: asking this node's workers to stop; a signal kills them",
                 n->text);
        return;
    case NOTE_leaving:
        log_info("%s: stopping this node's workers; once more kills them",
                 n->text);
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

/* -- the end ----------------------------------------------------------------
 */

/* The text without what speaks to a terminal: escape sequences of ECMA-48, and
 * what a progress bar has overwritten; a tab is blanks. */
static void plain(const char *text, size_t len, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n + 4 < size; i++) {
        if (text[i] == '\033' && i + 1 < len && text[i + 1] == '[') {
            for (i += 2; i < len && (text[i] < '@' || text[i] > '~'); i++)
                ;
        } else if (text[i] == '\r') {
            n = i + 1 < len ? 0 : n;
        } else if (text[i] == '\t') {
            memcpy(out + n, "    ", 4);
            n += 4;
        } else {
            out[n++] = text[i];
        }
    }
    out[n] = '\0';
}

static void report_tail(const char *tail)
{
    char line[1024];
    log_warnx("  its last lines on stderr:");
    while (*tail != '\0') {
        size_t len = strcspn(tail, "\n");
        plain(tail, len, line, sizeof(line)); /* a long one is cut */
        log_warnx("    | %s", line);
        tail += len + (tail[len] == '\n');
    }
}

/* What ended here after the first failure, and mostly because of it. */
static void report_consequences(const struct journal *j,
                                const struct msg_end *e)
{
    int kept = j->ends_len < JOURNAL_ENDS ? j->ends_len : JOURNAL_ENDS;
    int told = 0;
    int64_t first = e->rank - j->base_rank;
    if (j->round != e->round)
        return;
    /* One that hung was stopped as well. */
    int stopped =
        j->stopped - (e->hung && first >= 0 && first < j->conf->nproc);
    for (int i = 0; i < kept; i++) {
        const struct journal_end *w =
            &j->ends[(j->ends_len - kept + i) % JOURNAL_ENDS];
        char how[64];
        if (w->rank == e->rank)
            continue;
        report_how(w->code, w->signal, how, sizeof(how));
        log_warnx("  %-15s rank %lld (local rank %d, pid %lld): %s",
                  told++ == 0 ? "then, here" : "", (long long)w->rank,
                  w->local_rank, (long long)w->pid, how);
    }
    if (j->ends_len > kept)
        log_warnx("  %-15s and %d more", "", j->ends_len - kept);
    if (stopped > 0)
        log_warnx("  %-15s %d worker%s stopped by ddprun",
                  told > 0 ? "" : "then, here", stopped,
                  stopped > 1 ? "s" : "");
}

/* ", 3 by SIGTERM", or nothing. */
static const char *count_of(int64_t n, const char *by, char text[48])
{
    text[0] = '\0';
    if (n > 0)
        (void)snprintf(text, 48, ", %lld by %.20s", (long long)n,
                       by); /* fits */
    return text;
}

/* The same of all nodes, as the server counted: those that were lost said
 * nothing. */
static void report_ends(const struct msg_end *e)
{
    char text[200], term[48], kill[48], other[48], code[48];
    (void)snprintf(text, sizeof(text), "%s%s%s%s", /* fits */
                   count_of(e->by_term, "SIGTERM", term),
                   count_of(e->by_kill, "SIGKILL", kill),
                   count_of(e->by_signal, "other signals", other),
                   count_of(e->by_code, "exit code", code));
    if (text[0] != '\0')
        log_warnx("  %-15s %s", "then, in all", text + 2);
}

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
static void report_times(const struct conf *conf, const struct journal *j)
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
static void report_rounds(const struct conf *conf, const struct journal *j)
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
    report_how(e->code, e->signal, how, sizeof(how));
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
        report_how(e->code, e->signal, how, sizeof(how));
    report_time(ago_us, when, sizeof(when));
    if (e->pid > 0)
        (void)snprintf(pid, sizeof(pid), ", pid %lld", (long long)e->pid);
    log_warnx("  first failure   rank %lld on %s (local rank %lld%s): %s%s",
              (long long)e->rank, e->node, (long long)e->local_rank, pid, how,
              e->oom ? ", by the kernel: memory had run out" : "");
    log_warnx("  when            %s, in round %lld", when, (long long)e->round);
    if (e->error[0] != '\0')
        log_warnx("  error           %s", e->error);
    if (e->tail[0] != '\0')
        report_tail(e->tail);
}

static void report_failure(const struct conf *conf,
                           const struct agent_verdict *v,
                           const struct journal *j,
                           const char *logs)
{
    const struct msg_end *e = &v->end;
    log_warnx("run '%s' failed", conf->run_id);
    report_worker(e, e->age_us + mono_now_us() - v->heard_us);
    report_consequences(j, e);
    report_ends(e);
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
                const struct journal *j,
                const char *logs)
{
    if (v->ended && v->end.node[0] != '\0' && conf->preflight) {
        report_preflight(v);
        return;
    }
    if (v->ended && v->end.node[0] != '\0') {
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
