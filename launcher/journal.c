#include "launcher/journal.h"

#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launcher/signals.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

static const char *const names[] = {
#define JOURNAL(name, meaning) #name,
#include "launcher/journal.def"
#undef JOURNAL
};

void journal_init(struct journal *j,
                  const struct conf *conf,
                  struct output *output,
                  const char *node,
                  int64_t now_us)
{
    *j = (struct journal){
        .conf = conf, .output = output, .start_us = now_us, .since_us = now_us};
    msg_set(j->node, node);
    j->pids = calloc((size_t)conf->nproc, sizeof(*j->pids));
    if (j->pids == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %d workers",
               conf->nproc);
}

/* -- lines ------------------------------------------------------------------
 */

static void utc_now(char text[40])
{
    struct timespec now;
    struct tm tm;
    char day[24] = "";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &tm) != NULL)
        (void)strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(text, 40, "%s.%06ldZ", day, now.tv_nsec / 1000);
}

/* NULL where nobody wants events, or there is no memory for one. */
static cJSON *
begin(const struct journal *j, enum journal_kind kind, int64_t now_us)
{
    char when[40];
    cJSON *o = j->conf->output.events[0] != '\0' ? cJSON_CreateObject() : NULL;
    if (o == NULL)
        return NULL;
    utc_now(when);
    cJSON_AddStringToObject(o, "time", when);
    cJSON_AddNumberToObject(o, "up_s",
                            (double)(now_us - j->start_us) / (double)MONO_S);
    cJSON_AddStringToObject(o, "event", names[kind]);
    cJSON_AddStringToObject(o, "run", j->conf->run_id);
    cJSON_AddStringToObject(o, "node", j->node);
    if (j->round > 0)
        cJSON_AddNumberToObject(o, "round", (double)j->round);
    return o;
}

static void put(const struct journal *j, cJSON *o)
{
    char *line = o != NULL ? cJSON_PrintUnformatted(o) : NULL;
    if (line != NULL)
        output_event(j->output, line);
    free(line);
    cJSON_Delete(o);
}

static void
add_worker(const struct journal *j, cJSON *o, int local_rank, int64_t pid)
{
    if (o == NULL)
        return;
    cJSON_AddNumberToObject(o, "rank", (double)(j->base_rank + local_rank));
    cJSON_AddNumberToObject(o, "local_rank", local_rank);
    cJSON_AddNumberToObject(o, "pid", (double)pid);
}

void journal_add_end(cJSON *o, int code, int signal)
{
    if (o == NULL)
        return;
    if (signal == 0) {
        cJSON_AddNumberToObject(o, "exit_code", code);
        return;
    }
    cJSON_AddNumberToObject(o, "signal", signal);
    cJSON_AddStringToObject(o, "signal_name", signals_name(signal));
}

/* -- sums -------------------------------------------------------------------
 */

static void count_time(struct journal *j, int64_t now_us)
{
    int64_t us = now_us - j->since_us;
    if (j->running)
        j->running_us += us;
    else if (j->rounds == 0)
        j->waiting_us += us;
    else
        j->restarting_us += us;
    j->since_us = now_us;
}

static void set_running(struct journal *j, bool running, int64_t now_us)
{
    count_time(j, now_us);
    j->running = running;
}

/* -- events -----------------------------------------------------------------
 */

static int kind_of(enum note_kind kind)
{
    switch (kind) {
    case NOTE_connecting:
        return JOURNAL_connecting;
    case NOTE_wait:
        return JOURNAL_waiting;
    case NOTE_set_aside:
        return JOURNAL_set_aside;
    case NOTE_worker_failed:
        return JOURNAL_failed;
    case NOTE_stopping:
        return JOURNAL_stopped;
    case NOTE_killing:
        return JOURNAL_killing;
    case NOTE_fenced:
        return JOURNAL_fenced;
    case NOTE_finished:
        return JOURNAL_done;
    case NOTE_link_lost:
        return JOURNAL_disconnected;
    case NOTE_link_back:
        return JOURNAL_reconnected;
    case NOTE_unreachable:
        return JOURNAL_unreachable;
    case NOTE_leaving:
        return JOURNAL_leaving;
    default: /* the server's, or told in another way */
        return -1;
    }
}

void journal_note(struct journal *j, const struct note *n, int64_t now_us)
{
    int kind = kind_of(n->kind);
    if (kind == JOURNAL_failed || kind == JOURNAL_stopped ||
        kind == JOURNAL_fenced || kind == JOURNAL_leaving)
        set_running(j, false, now_us);
    if (kind < 0)
        return;
    cJSON *o = begin(j, (enum journal_kind)kind, now_us);
    if (o != NULL && n->text[0] != '\0')
        cJSON_AddStringToObject(o, "text", n->text);
    if (kind == JOURNAL_failed && j->last.pid > 0) {
        add_worker(j, o, j->last.local_rank, j->last.pid);
        journal_add_end(o, j->last.code, j->last.signal);
    }
    put(j, o);
}

void journal_joined(struct journal *j, int64_t now_us)
{
    put(j, begin(j, JOURNAL_joined, now_us));
}

void journal_world(struct journal *j, const struct msg_world *w, int64_t now_us)
{
    bool again = w->restarts > j->restarts;
    set_running(j, true, now_us);
    j->round = w->round;
    j->base_rank = w->base_rank;
    j->restarts = w->restarts;
    j->rounds++;
    j->ends.n = 0;
    j->last.pid = 0;
    j->stopped = 0;
    memset(j->pids, 0, (size_t)j->conf->nproc * sizeof(*j->pids));
    cJSON *o = begin(j, JOURNAL_sealed, now_us);
    if (o != NULL) {
        cJSON_AddNumberToObject(o, "group_rank", (double)w->group_rank);
        cJSON_AddNumberToObject(o, "nodes", (double)w->group_world);
        cJSON_AddNumberToObject(o, "world_size", (double)w->world_size);
        cJSON_AddNumberToObject(o, "restarts", (double)w->restarts);
    }
    put(j, o);
    if (!again)
        return;
    o = begin(j, JOURNAL_restarted, now_us);
    if (o != NULL)
        cJSON_AddNumberToObject(o, "restarts", (double)w->restarts);
    put(j, o);
}

void journal_started(struct journal *j, int local_rank, int64_t pid)
{
    j->pids[local_rank] = pid;
    cJSON *o = begin(j, JOURNAL_started, mono_now_us());
    add_worker(j, o, local_rank, pid);
    put(j, o);
}

void journal_first_beat(struct journal *j,
                        int local_rank,
                        int64_t pid,
                        int64_t step)
{
    cJSON *o = begin(j, JOURNAL_first_beat, mono_now_us());
    add_worker(j, o, local_rank, pid);
    if (o != NULL && step >= 0)
        cJSON_AddNumberToObject(o, "step", (double)step);
    put(j, o);
}

void journal_exited(struct journal *j, const struct agent_worker *w)
{
    bool stopped = w->signal == SIGTERM && !j->running;
    bool ok = w->code == 0 && w->signal == 0;
    j->stopped += stopped;
    if (!ok)
        ends_add(&j->ends, w->local_rank,
                 w->signal != 0 ? -w->signal : w->code);
    if (!ok && !stopped)
        j->last = (struct journal_end){
            .local_rank = w->local_rank,
            .pid = w->pid,
            .code = w->code,
            .signal = w->signal,
        };
    cJSON *o = begin(j, JOURNAL_exited, mono_now_us());
    add_worker(j, o, w->local_rank, w->pid);
    journal_add_end(o, w->code, w->signal);
    put(j, o);
}

void journal_finish(struct journal *j, int status, int64_t now_us)
{
    if (j->running || j->rounds == 0) /* else nothing was started again */
        count_time(j, now_us);
    cJSON *o = begin(j, JOURNAL_end, now_us);
    if (o != NULL)
        cJSON_AddNumberToObject(o, "exit_code", status);
    put(j, o);
}
