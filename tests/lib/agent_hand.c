/* links: launcher/agent/{agent,session,work,state,tell,vote,candidates,end} */
/* links: launcher/agent/search */
/* links: rendezvous/base/{signals_name,err,mono,rng,json,utf8,buf} */
/* links: rendezvous/core/note rendezvous/proto/{msg,exits,term} */
#include "tests/lib/agent_hand.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"

struct agent agent;
int64_t now_us;
char did[4000];
struct msg last;
struct msg joined;
struct msg voted;
struct agent_verdict verdict;
char fenced[512];
char noted[512];
char told[512];
int64_t detect_us;
char looked[200];
bool exited;

static void write_down(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static void write_down(const char *fmt, ...)
{
    size_t len = strlen(did);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(did + len, sizeof(did) - len, fmt, ap);
    va_end(ap);
}

/* What tests call it: some kinds say several things. */
static const char *name_of(const struct msg *m)
{
    if (m->kind == MSG_KIND_ready && m->ready.done)
        return "done";
    if (m->kind == MSG_KIND_leave && m->leave.what == MSG_LEAVE_ENDED)
        return "bye";
    return msg_name(m->kind);
}

static void on_send(const struct msg *m)
{
    last = *m;
    if (m->kind == MSG_KIND_join)
        joined = *m;
    if (m->kind == MSG_KIND_vote)
        voted = *m;
    write_down("send:%s ", name_of(m));
}

static void on_look(const struct agent_action *a)
{
    char one[CANDIDATES_ADDR_MAX + 16];
    if (a->place == 0) {
        looked[0] = '\0';
        write_down("look ");
    }
    (void)snprintf(one, sizeof(one), "%d:%s ", a->which, a->target);
    ck_assert_uint_lt(strlen(looked) + strlen(one), sizeof(looked));
    strcat(looked, one);
}

static void emit(void *ctx, const struct agent_action *a)
{
    (void)ctx;
    ck_assert_msg(!exited, "an action after EXIT");
    switch (a->kind) {
    case AGENT_CONNECT:
        if (a->target[0] != '\0')
            write_down("connect:%s ", a->target);
        else if (a->which > 0)
            write_down("connect:%d ", a->which);
        else
            write_down("connect ");
        return;
    case AGENT_LOOK:
        on_look(a);
        return;
    case AGENT_LOOK_OVER:
        write_down("found ");
        return;
    case AGENT_DISCONNECT:
        write_down("disconnect ");
        return;
    case AGENT_RECORD:
        return;
    case AGENT_SEND:
        on_send(a->msg);
        return;
    case AGENT_SPAWN:
        write_down("spawn ");
        return;
    case AGENT_KILL:
        write_down(a->why == STOP_PAGE_FAILED ? "kill:%d:failed "
                   : a->why == STOP_PAGE_NOT  ? "pass:%d "
                                              : "kill:%d ",
                   a->signo);
        return;
    case AGENT_ASK:
        write_down("ask:%d ", (int)a->graceful);
        return;
    case AGENT_CHECK:
        write_down("check ");
        return;
    case AGENT_SWEEP:
        write_down(a->gentle ? "sweep:gently " : "sweep ");
        return;
    case AGENT_NOTE:
        if (a->note->kind == NOTE_killing)
            (void)snprintf(noted, sizeof(noted), "%s", a->note->text);
        if (a->note->kind == NOTE_stopping)
            detect_us = a->note->detect_us;
        if (a->note->kind == NOTE_fenced)
            (void)snprintf(fenced, sizeof(fenced), "%s", a->note->text);
        if (a->note->kind == NOTE_wait || a->note->kind == NOTE_link_back)
            (void)snprintf(told, sizeof(told), "%s", a->note->text);
        return;
    case AGENT_EXIT:
        write_down("exit:%d ", a->verdict->status);
        verdict = *a->verdict;
        exited = true;
        return;
    }
}

void step(struct agent_event ev)
{
    struct agent_actions out = {.emit = emit};
    ev.now_us = now_us;
    did[0] = '\0';
    agent_step(&agent, &ev, &out);
    agent_check(&agent);
}

void tick(void)
{
    step((struct agent_event){.kind = AGENT_TICK});
}

void pass(int64_t us)
{
    static char all[4000];
    int64_t end_us = now_us + us;
    all[0] = '\0';
    for (int turns = 0; agent_deadline(&agent) <= end_us; turns++) {
        ck_assert_int_lt(turns, 5000);
        if (agent_deadline(&agent) > now_us)
            now_us = agent_deadline(&agent);
        tick();
        if (strlen(all) + strlen(did) < sizeof(all))
            strcat(all, did);
    }
    now_us = end_us;
    memcpy(did, all, sizeof(all));
}

void hear(const struct msg *m)
{
    step((struct agent_event){.kind = AGENT_MSG, .msg = m});
}

/* The pause before the next try to connect is cut short. */
static void try_now(void)
{
    if (agent.session.state != AGENT_SESSION_DOWN ||
        agent.session.retry_at_us == MONO_NEVER)
        return;
    agent.session.retry_at_us = now_us;
    tick();
}

void connected(void)
{
    try_now();
    step((struct agent_event){.kind = AGENT_CONNECTED});
}

void disconnected(void)
{
    try_now();
    step((struct agent_event){.kind = AGENT_DISCONNECTED, .text = "test"});
}

void lease(int64_t seq, int64_t grant_ms)
{
    struct msg m = {.kind = MSG_KIND_lease};
    m.lease.seq = seq;
    m.lease.grant_ms = grant_ms;
    hear(&m);
}

void world(const char *instance, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_world,
                    .world = {.round = round,
                              .group_rank = 1,
                              .group_world = 2,
                              .base_rank = 2,
                              .world_size = 4,
                              .restarts = 3}};
    msg_set(m.world.instance, instance);
    hear(&m);
}

void stop(int64_t round)
{
    struct msg m = {.kind = MSG_KIND_stop, .stop.round = round};
    hear(&m);
}

void end(int status)
{
    struct msg m = {.kind = MSG_KIND_end, .end.status = status};
    hear(&m);
}

void worker_exits(int local, int code, int signo)
{
    step((struct agent_event){.kind = AGENT_WORKER_EXIT,
                              .worker = {.local_rank = local,
                                         .pid = 100 + local,
                                         .code = code,
                                         .signal = signo}});
}

void signal_comes(int signo)
{
    step((struct agent_event){.kind = AGENT_SIGNAL, .signo = signo});
}
/* -- worlds ---------------------------------------------------------------- */

/* Two workers, heartbeat 1 s, so a beat each 200 ms and leases of 800 ms. */
void agent_hand_setup(void)
{
    struct agent_conf conf = {.shutdown_us = 500 * MONO_MS,
                              .failure_us = 200 * MONO_MS,
                              .death_us = 200 * MONO_MS,
                              .seed = 1};
    conf.join = (struct msg_join){.nproc = 2,
                                  .heartbeat_ms = 1000,
                                  .reconnect_ms = 20000,
                                  .join_ms = 60000,
                                  .group_rank = -1};
    msg_set(conf.join.name, "n");
    msg_set(conf.join.agent, AGENT_HAND_VOTE "0000000000000000");
    agent_init(&agent, &conf);
    now_us = 1000 * MONO_S;
    exited = false;
    did[0] = '\0';
    noted[0] = fenced[0] = '\0';
    told[0] = '\0';
}

void start(void)
{
    step((struct agent_event){.kind = AGENT_START});
    ck_assert_str_eq(did, "connect ");
    connected();
    ck_assert_str_eq(did, "send:join ");
    lease(0, 800);
}

void run(void)
{
    start();
    world("i", 1);
    ck_assert_str_eq(did, "spawn send:beat ");
}

void both_die(int signo)
{
    worker_exits(0, 0, signo);
    worker_exits(1, 0, signo);
}

void worker_hangs(int local, int64_t silent_us)
{
    step((struct agent_event){.kind = AGENT_WORKER_HUNG,
                              .silent_us = silent_us,
                              .worker = {.local_rank = local,
                                         .pid = 100 + local,
                                         .code = 80,
                                         .text = "no beat for 7 s"}});
}

void worker_aborts(int local, int code)
{
    step((struct agent_event){.kind = AGENT_WORKER_FAILED,
                              .worker = {.local_rank = local,
                                         .pid = 100 + local,
                                         .code = code,
                                         .text = "MPI_Abort"}});
}

void worker_dies(int local, int signo)
{
    step((struct agent_event){
        .kind = AGENT_WORKER_FAILED,
        .worker = {.local_rank = local, .pid = 100 + local, .signal = signo}});
}
