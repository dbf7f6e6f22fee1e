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
    switch (n->kind) {
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

/* The local time of something so long ago, as ISO 8601. */
static void local_time(int64_t ago_us, char *text, size_t size)
{
    time_t at = time(NULL) - (time_t)(ago_us / MONO_S);
    struct tm tm;
    if (localtime_r(&at, &tm) == NULL ||
        strftime(text, size, "%Y-%m-%dT%H:%M:%S%z", &tm) == 0)
        text[0] = '\0';
}

static void report_failure(const struct conf *conf,
                           const struct agent_verdict *v)
{
    const struct msg_end *e = &v->end;
    char how[64];
    char when[64];
    report_how(e->code, e->signal, how, sizeof(how));
    local_time(e->age_us + mono_now_us() - v->heard_us, when, sizeof(when));
    log_warnx("run '%s' failed", conf->run_id);
    log_warnx("  first failure   rank %lld on %s (local rank %lld, pid %lld): "
              "%s",
              (long long)e->rank, e->node, (long long)e->local_rank,
              (long long)e->pid, how);
    log_warnx("  when            %s, in round %lld", when, (long long)e->round);
    if (e->error[0] != '\0')
        log_warnx("  error           %s", e->error);
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
    log_warnx("  exit status     %d, on every node", v->status);
}

void report_end(const struct conf *conf, const struct agent_verdict *v)
{
    if (v->ended && v->end.node[0] != '\0')
        report_failure(conf, v);
    else if (v->ended && v->end.text[0] != '\0')
        log_warnx("run '%s': %s", conf->run_id, v->end.text);
    else if (v->text[0] != '\0')
        log_warnx("%s", v->text);
}
