/*
 * What happens on this node, as events and as sums.
 *
 * Events go to --events as lines of JSON. They are handed to the output process
 * (launcher/output/relay), so that a full or slow disk never blocks the agent;
 * a line that has no room there is lost, as is one that is too long or finds no
 * memory. Without --events nothing is formatted.
 *
 * The sums are for the report: from one change of `running` to the next the
 * time is added to running_us, to waiting_us (before the first round) or to
 * restarting_us. `running` ends with the first failure on this node, the stop
 * of the round, the fence, or the order to leave, whichever comes first.
 */
#include "launcher/report/event_log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/account/goodput.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/base/utc.h"

static const char *const names[] = {
#define EVENT_LOG(name, meaning) #name,
#include "launcher/report/event_log.def"
#undef EVENT_LOG
};

_Static_assert(sizeof(names) / sizeof(names[0]) == EVENT_LOG_COUNT,
               "a name for each event");

void event_log_init(struct event_log *j,
                    const struct conf *conf,
                    struct output *output,
                    const char *node,
                    int64_t now_us)
{
    *j = (struct event_log){
        .conf = conf, .output = output, .start_us = now_us, .since_us = now_us};
    msg_set(j->node, node);
    j->pids = calloc((size_t)conf->nproc, sizeof(*j->pids));
    j->failed = calloc((size_t)conf->nproc, sizeof(*j->failed));
    if (j->pids == NULL || j->failed == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the workers");
}

/* -- lines ----------------------------------------------------------------- */

/* A line that is being written. */
struct event {
    struct json json;
    struct buf line;
    bool wanted; /* false: there is no --events, and no line is made */
};

/* Less than launcher/output/relay takes in one piece. */
#define LINE_MAX_BYTES 4000
/* What stands around the last lines of a worker. */
#define TAIL_REST 100

static void begin(const struct event_log *j,
                  struct event *e,
                  enum event_log_kind kind,
                  int64_t now_us)
{
    char when[UTC_MAX];
    ddp_assert(kind < EVENT_LOG_COUNT);
    e->wanted = j->conf->output.events[0] != '\0';
    buf_init(&e->line, LINE_MAX_BYTES);
    json_init(&e->json, &e->line);
    if (!e->wanted)
        return;
    utc_now(when, UTC_MICROS);
    json_open(&e->json, NULL, '{');
    json_text(&e->json, "time", when);
    json_micros(&e->json, "up_s", now_us - j->start_us);
    json_text(&e->json, "event", names[kind]);
    json_text(&e->json, "run", j->conf->run_id);
    json_text(&e->json, "node", j->node);
    if (j->round > 0)
        json_int(&e->json, "round", j->round);
}

/* Hands the line to the output process. It is lost if it is too long, or if
 * there is no memory. */
static void end(const struct event_log *j, struct event *e)
{
    if (e->wanted) {
        json_close(&e->json, '}');
        (void)buf_put(&e->line, "", 1);
        if (!e->json.full && buf_len(&e->line) <= LINE_MAX_BYTES)
            output_event(j->output, (const char *)buf_head(&e->line));
    }
    buf_free(&e->line);
}

static void add_int(struct event *e, const char *key, int64_t number)
{
    if (e->wanted)
        json_int(&e->json, key, number);
}

static void add_text(struct event *e, const char *key, const char *text)
{
    if (e->wanted)
        json_text(&e->json, key, text);
}

static void add_worker(const struct event_log *j,
                       struct event *e,
                       int local_rank,
                       int64_t pid)
{
    add_int(e, "rank", j->base_rank + local_rank);
    add_int(e, "local_rank", local_rank);
    add_int(e, "pid", pid);
}

void event_log_add_end(struct json *json, int code, int signal)
{
    if (signal == 0) {
        json_int(json, "exit_code", code);
        return;
    }
    json_int(json, "signal", signal);
    json_text(json, "signal_name", signals_name(signal));
}

static void add_end(struct event *e, int code, int signal)
{
    if (e->wanted)
        event_log_add_end(&e->json, code, signal);
}

/* -- sums ------------------------------------------------------------------ */

static void count_time(struct event_log *j, int64_t now_us)
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

static void set_running(struct event_log *j, bool running, int64_t now_us)
{
    count_time(j, now_us);
    j->running = running;
}

/* -- events ---------------------------------------------------------------- */

/* Other notes are the server's, or written by other functions. */
static const struct {
    enum note_kind note;
    int event;
} written[] = {
    {NOTE_connecting, EVENT_LOG_connecting},
    {NOTE_wait, EVENT_LOG_waiting},
    {NOTE_refused, EVENT_LOG_waiting},
    {NOTE_quarantined, EVENT_LOG_quarantined},
    {NOTE_stopping, EVENT_LOG_stopped},
    {NOTE_ended, EVENT_LOG_stopped},
    {NOTE_killing, EVENT_LOG_killing},
    {NOTE_fenced, EVENT_LOG_fenced},
    {NOTE_finished, EVENT_LOG_done},
    {NOTE_link_lost, EVENT_LOG_disconnected},
    {NOTE_link_back, EVENT_LOG_reconnected},
    {NOTE_unreachable, EVENT_LOG_unreachable},
    {NOTE_leaving, EVENT_LOG_leaving},
};

/* -1: it is not written. */
static int kind_of(enum note_kind kind)
{
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
        if (written[i].note == kind)
            return written[i].event;
    return -1;
}

void event_log_note(struct event_log *j, const struct note *n, int64_t now_us)
{
    int kind = kind_of(n->kind);
    ddp_assert(n->kind != NOTE_worker_failed);
    if (kind == EVENT_LOG_stopped || kind == EVENT_LOG_fenced ||
        kind == EVENT_LOG_leaving)
        set_running(j, false, now_us);
    if (kind < 0)
        return;
    if (kind == EVENT_LOG_killing)
        (void)snprintf(j->killed, /* may be cut */ sizeof(j->killed), "%s",
                       n->text);
    struct event e;
    begin(j, &e, (enum event_log_kind)kind, now_us);
    if (n->text[0] != '\0')
        add_text(&e, "text", n->text);
    if (e.wanted && n->detect_us > 0)
        json_micros(&e.json, "detect_s", n->detect_us);
    end(j, &e);
}

/* Bytes that a byte takes in JSON, at most. */
static size_t escaped_len(char c)
{
    bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    return plain ? 1 : JSON_ESCAPE_SIZE;
}

/* The last lines of a worker: as many of the last bytes as certainly fit. */
static void add_tail(struct event *e, const char *tail)
{
    size_t room = LINE_MAX_BYTES - TAIL_REST;
    size_t from = strlen(tail);
    if (!e->wanted || from == 0 || buf_len(&e->line) >= room)
        return;
    for (room -= buf_len(&e->line); from > 0; from--) {
        size_t len = escaped_len(tail[from - 1]);
        if (len > room)
            break;
        room -= len;
    }
    json_text(&e->json, "tail", tail + from);
}

/* One that hangs has not ended, and one that could not be started has no pid.
 */
void event_log_failed(struct event_log *j,
                      const struct msg_failed *f,
                      const char *text,
                      int64_t now_us)
{
    struct event e;
    ddp_assert(f->local_rank >= 0 && f->local_rank < j->conf->nproc);
    set_running(j, false, now_us);
    j->failed[f->local_rank] = true;
    begin(j, &e, EVENT_LOG_failed, now_us);
    add_text(&e, "text", text);
    if (f->pid > 0)
        add_worker(j, &e, (int)f->local_rank, f->pid);
    if (f->pid > 0 && f->how != MSG_FAILED_HUNG)
        add_end(&e, (int)f->code, (int)f->signal);
    add_tail(&e, f->tail);
    end(j, &e);
}

void event_log_stands(struct event_log *j, const char *text, int64_t now_us)
{
    struct event e;
    begin(j, &e, text[0] != '\0' ? EVENT_LOG_stands : EVENT_LOG_goes_on,
          now_us);
    if (text[0] != '\0')
        add_text(&e, "text", text);
    end(j, &e);
}

void event_log_joined(struct event_log *j, int64_t now_us)
{
    struct event e;
    begin(j, &e, EVENT_LOG_joined, now_us);
    end(j, &e);
}

/* What the run's time went to, as the server counted it; "": it told none. */
static void add_spent(struct event *e, const char *spent)
{
    if (spent[0] != '\0')
        add_text(e, "spent", spent);
}

void event_log_world(struct event_log *j,
                     const struct msg_world *w,
                     int64_t now_us)
{
    bool again = w->restarts > j->restarts;
    struct goodput_sums sums;
    set_running(j, true, now_us);
    j->round = w->round;
    j->base_rank = w->base_rank;
    j->restarts = w->restarts;
    if (goodput_parse(&sums, w->spent) && sums.steps > j->reached)
        j->reached = sums.steps;
    j->rounds++;
    j->stopped = 0;
    j->killed[0] = '\0';
    memset(j->pids, 0, (size_t)j->conf->nproc * sizeof(*j->pids));
    memset(j->failed, 0, (size_t)j->conf->nproc * sizeof(*j->failed));
    struct event e;
    begin(j, &e, EVENT_LOG_sealed, now_us);
    add_int(&e, "group_rank", w->group_rank);
    add_int(&e, "nodes", w->group_world);
    add_int(&e, "world_size", w->world_size);
    add_int(&e, "restarts", w->restarts);
    add_spent(&e, w->spent);
    end(j, &e);
    if (!again)
        return;
    begin(j, &e, EVENT_LOG_restarted, now_us);
    add_int(&e, "restarts", w->restarts);
    end(j, &e);
}

void event_log_taken_over(struct event_log *j,
                          const struct agent_takeover *t,
                          int64_t now_us)
{
    char server[CONF_PLACE_MAX], before[CONF_PLACE_MAX];
    if (t->count == j->takeover.count)
        return;
    j->takeover = *t;
    conf_place_text(j->conf, t->to.target, t->to.which, server);
    conf_place_text(j->conf, t->from.target, t->from.which, before);
    struct event e;
    begin(j, &e, EVENT_LOG_taken_over, now_us);
    add_int(&e, "term", t->to.term.count);
    add_int(&e, "epoch", t->to.term.count); /* the old name */
    add_text(&e, "server", server);
    add_text(&e, "before", before);
    if (e.wanted)
        json_micros(&e.json, "gap_s", t->gap_us);
    end(j, &e);
}

void event_log_started(struct event_log *j, int local_rank, int64_t pid)
{
    ddp_assert(local_rank >= 0 && local_rank < j->conf->nproc && pid > 0);
    j->pids[local_rank] = pid;
    struct event e;
    begin(j, &e, EVENT_LOG_started, mono_now_us());
    add_worker(j, &e, local_rank, pid);
    end(j, &e);
}

void event_log_first_progress(struct event_log *j,
                              int local_rank,
                              int64_t pid,
                              int64_t step)
{
    struct event e;
    begin(j, &e, EVENT_LOG_first_beat, mono_now_us());
    add_worker(j, &e, local_rank, pid);
    if (step >= 0)
        add_int(&e, "step", step);
    end(j, &e);
}

void event_log_steps(struct event_log *j, int64_t steps, int64_t now_us)
{
    struct event e;
    if (steps <= j->reached)
        return;
    j->reached = steps;
    if (j->new_round == j->round)
        return;
    j->new_round = j->round;
    begin(j, &e, EVENT_LOG_new_step, now_us);
    add_int(&e, "step", steps - 1);
    end(j, &e);
}

void event_log_exited(struct event_log *j, const struct agent_worker *w)
{
    ddp_assert(w->local_rank >= 0 && w->local_rank < j->conf->nproc);
    j->stopped += w->signal == SIGTERM && !j->running;
    struct event e;
    begin(j, &e, EVENT_LOG_exited, mono_now_us());
    add_worker(j, &e, w->local_rank, w->pid);
    add_end(&e, w->code, w->signal);
    end(j, &e);
}

void event_log_finish(struct event_log *j,
                      const struct exits *ends,
                      int status,
                      const char *spent,
                      int64_t now_us)
{
    j->ends = *ends;
    if (j->running || j->rounds == 0) /* else no round came after it */
        count_time(j, now_us);
    struct event e;
    begin(j, &e, EVENT_LOG_end, now_us);
    add_int(&e, "exit_code", status);
    add_spent(&e, spent);
    end(j, &e);
}
