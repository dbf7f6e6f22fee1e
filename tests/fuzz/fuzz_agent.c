/* links: launcher/agent/{agent,session,work,state,tell,vote,end,candidates} */
/* links: launcher/agent/search */
/* links: rendezvous/base/{signals_name,err,mono,rng,json,utf8,buf} */
/* links: tests/fuzz/gen rendezvous/core/note */
/* links: rendezvous/proto/{msg,term,exits} */
/* libs: -lcjson -lm */
/*
 * The agent's core against a hostile server and workers that end as they like.
 * The events keep to the order that the shell keeps to; what the server says
 * is free. No worker runs beyond the lease, none is left at the end, nothing is
 * done after it, and a deadline that has come is dealt with.
 */
#include <signal.h>

#include "launcher/agent/agent.h"
#include "rendezvous/base/mono.h"
#include "tests/fuzz/gen.h"

#define STEPS_MAX 400
#define PROCS_MAX 4

struct play {
    struct agent agent;
    int64_t now_us;
    int nproc;
    bool connecting, up, checking;
    int looks; /* at places below that number; 0: at none */
    bool alive[PROCS_MAX];
    int n_alive;
    bool asked;   /* a SIGKILL is under way to all ... */
    bool held;    /* ... and has no effect on one */
    bool spawned; /* by the step that runs */
    bool exited;
    int64_t promised;     /* the count of the term that it obeys */
    char promised_in[33]; /* and the instance */
    struct gen_hints hints;
    char instance[33];
};

static void do_spawn(struct play *p, const struct msg_world *w)
{
    ddp_assert(p->n_alive == 0);
    for (int i = 0; i < p->nproc; i++)
        p->alive[i] = true;
    p->n_alive = p->nproc;
    p->asked = false;
    p->spawned = true;
    p->hints.round = w->round;
    memcpy(p->instance, w->instance, sizeof(p->instance));
}

static void emit(void *ctx, const struct agent_action *a)
{
    struct play *p = ctx;
    ddp_assert(!p->exited);
    switch (a->kind) {
    case AGENT_CONNECT:
        ddp_assert(!p->up && !p->connecting);
        p->connecting = true;
        return;
    case AGENT_DISCONNECT:
        ddp_assert(p->up || p->connecting);
        p->up = p->connecting = false;
        return;
    case AGENT_LOOK:
        ddp_assert(a->place >= 0 && a->place < CANDIDATES_MAX);
        gen_check_sent(a->msg);
        if (a->place >= p->looks)
            p->looks = a->place + 1;
        return;
    case AGENT_LOOK_OVER:
        ddp_assert(p->looks > 0);
        p->looks = 0;
        return;
    case AGENT_RECORD:
        return;
    case AGENT_SEND:
        ddp_assert(p->up && msg_is_from(a->msg->kind, MSG_AGENT));
        gen_check_sent(a->msg);
        if (a->msg->kind == MSG_KIND_beat)
            p->hints.seq = a->msg->beat.seq;
        return;
    case AGENT_SPAWN:
        do_spawn(p, a->world);
        return;
    case AGENT_KILL:
        ddp_assert(a->signo > 0); /* the last may just have ended */
        p->asked |= a->signo == SIGKILL;
        return;
    case AGENT_ASK:
        ddp_assert(a->graceful != MSG_AT_ONCE); /* nobody looks for it here */
        return;
    case AGENT_CHECK:
        ddp_assert(p->n_alive == 0 && !p->checking);
        p->checking = true;
        return;
    case AGENT_SWEEP:
        ddp_assert(p->n_alive == 0);
        return;
    case AGENT_NOTE: {
        char text[2000];
        note_format(a->note, text, sizeof(text));
        return;
    }
    case AGENT_EXIT:
        ddp_assert(p->n_alive == 0 || p->held);
        ddp_assert(a->verdict->status >= 0 && a->verdict->status <= 255);
        p->exited = true;
        return;
    }
    DDP_WRONG("action kind");
}

/* A promise is kept, but by a newcomer, which has none yet, and by a node that
 * gives its instance up for an older one. */
static void check_promise(struct play *p)
{
    const struct agent_vote *v = &p->agent.vote;
    bool is_anew = v->promised_in[0] == '\0' ||
                   strcmp(v->promised_in, p->promised_in) != 0;
    ddp_assert(v->promised.count >= p->promised || is_anew);
    p->promised = v->promised.count;
    memcpy(p->promised_in, v->promised_in, sizeof(p->promised_in));
}

static void step(struct play *p, struct agent_event ev)
{
    struct agent_actions out = {.emit = emit, .ctx = p};
    ev.now_us = p->now_us;
    p->spawned = false;
    agent_step(&p->agent, &ev, &out);
    agent_check(&p->agent); /* also once it is GONE */
    check_promise(p);
    if (p->exited) {
        ddp_assert(agent_deadline(&p->agent) == MONO_NEVER);
        return;
    }
    ddp_assert(p->agent.alive == p->n_alive);
    /* Decision 5: none beyond the lease but those that are being killed, or
     * that will be by the tick which is due at once. */
    if (p->n_alive > 0 && !p->asked && p->agent.lease_until_us <= p->now_us)
        ddp_assert(agent_deadline(&p->agent) <= p->now_us);
    ddp_assert((agent_lease_until_us(&p->agent) == MONO_NEVER) ==
               (p->n_alive == 0));
}

static void settle(struct play *p)
{
    for (int i = 0; !p->exited && agent_deadline(&p->agent) <= p->now_us; i++) {
        ddp_assert(i < 10);
        step(p, (struct agent_event){.kind = AGENT_TICK});
    }
}

static struct agent_worker worker_ends(int i, uint8_t how)
{
    return (struct agent_worker){
        .local_rank = i,
        .pid = 1000 + i,
        .code = how < 128 ? how % 5 : 0,
        .signal = how < 128 ? 0 : 1 + how % 64,
        .permanent = how == 127,
        .text = how % 3 == 0 ? "its last words" : NULL,
    };
}

static void worker_exits(struct play *p, uint8_t which, uint8_t how)
{
    int i = which % p->nproc;
    if (!p->alive[i])
        return;
    p->alive[i] = false;
    p->n_alive--;
    step(p, (struct agent_event){.kind = AGENT_WORKER_EXIT,
                                 .worker = worker_ends(i, how)});
}

/* It may be said again, and end in another way. */
static void worker_is_dying(struct play *p, uint8_t which, uint8_t how)
{
    int i = which % p->nproc;
    if (p->alive[i])
        step(p, (struct agent_event){.kind = AGENT_WORKER_FAILED,
                                     .worker = worker_ends(i, how)});
}

/* The shell says so before anything else comes after SPAWN. */
static void spawn_fails(struct play *p, uint8_t how)
{
    int started = how % p->nproc;
    for (int i = started; i < p->nproc; i++)
        p->alive[i] = false;
    p->n_alive = started;
    struct agent_worker w = {
        .local_rank = started, .code = 126, .permanent = true, .text = "no"};
    step(p, (struct agent_event){
                .kind = AGENT_SPAWN_FAILED, .worker = w, .started = started});
}

static void hear(struct play *p, struct fuzz_in *in)
{
    static struct msg m;
    uint8_t kind = fuzz_u8(in);
    if (!gen_msg(in,
                 kind >= 240 ? gen_kind(MSG_AGENT, kind)
                             : gen_kind(MSG_SERVER, kind),
                 &p->hints, &m) ||
        !p->up)
        return;
    step(p, (struct agent_event){.kind = AGENT_MSG, .msg = &m});
    if (p->spawned && !p->exited && in->left > 0 && *in->at == 251) {
        (void)fuzz_u8(in);
        spawn_fails(p, fuzz_u8(in));
    }
}

/* A place that was looked at answers, or is not reached. */
static void look_event(struct play *p, uint8_t how, struct fuzz_in *in)
{
    static struct msg m;
    int place = how % p->looks;
    if (how % 2 == 0)
        step(p, (struct agent_event){.kind = AGENT_SEEN, .place = place});
    else if (gen_msg(in, gen_kind(MSG_SERVER, how), &p->hints, &m))
        step(p, (struct agent_event){
                    .kind = AGENT_SEEN, .place = place, .msg = &m});
}

static void connection_event(struct play *p, uint8_t how)
{
    if (p->connecting && how % 4 != 0) {
        p->connecting = false;
        p->up = true;
        step(p, (struct agent_event){.kind = AGENT_CONNECTED});
    } else if (p->connecting || p->up) {
        p->connecting = p->up = false;
        step(p, (struct agent_event){.kind = AGENT_DISCONNECTED,
                                     .text = "it broke"});
    }
}

static void play(struct play *p, struct fuzz_in *in)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGQUIT};
    uint8_t what = fuzz_u8(in);
    switch (what % 8) {
    case 0:
    case 1:
    case 2:
        hear(p, in);
        return;
    case 3:
        worker_exits(p, what / 8, fuzz_u8(in));
        return;
    case 4:
        connection_event(p, what / 8);
        return;
    case 5: /* to the next deadline */
        if (agent_deadline(&p->agent) != MONO_NEVER &&
            agent_deadline(&p->agent) > p->now_us)
            p->now_us = agent_deadline(&p->agent);
        settle(p);
        return;
    case 6: /* some milliseconds, and perhaps a tick that came too late */
        p->now_us += fuzz_u8(in) * 11 * MONO_MS;
        if (what < 128)
            settle(p);
        return;
    case 7:
        if (what / 8 < 20 && p->looks > 0)
            look_event(p, fuzz_u8(in), in);
        else if (what / 8 >= 20 && what / 8 < 24)
            worker_is_dying(p, what / 8, fuzz_u8(in));
        else if (what / 8 == 31)
            step(p, (struct agent_event){.kind = AGENT_GUARD_DIED});
        else if (what / 8 > 28 && p->checking) {
            p->checking = false;
            step(p, (struct agent_event){.kind = AGENT_CHECKED,
                                         .fit = what / 8 == 29,
                                         .text = "unfit"});
        } else if (what / 8 == 30 && p->asked && p->n_alive > 0) {
            p->held = true;
            step(p, (struct agent_event){.kind = AGENT_CHECKED,
                                         .text = "SIGKILL has no effect"});
        } else if (what / 8 > 24)
            step(p, (struct agent_event){.kind = AGENT_SIGNAL,
                                         .signo = signals[what / 8 % 5]});
        return;
    }
}

/* A user asks twice, workers that are killed die: the launcher ends. */
static void finish(struct play *p)
{
    for (int i = 0; i < 2 && !p->exited; i++)
        step(p, (struct agent_event){.kind = AGENT_SIGNAL, .signo = SIGTERM});
    for (int i = 0; !p->exited && i < 2 * PROCS_MAX; i++)
        worker_exits(p, (uint8_t)i, 128 + SIGKILL - 1);
    for (int i = 0; !p->exited; i++) {
        ddp_assert(i < 100 && agent_deadline(&p->agent) != MONO_NEVER);
        if (agent_deadline(&p->agent) > p->now_us)
            p->now_us = agent_deadline(&p->agent);
        step(p, (struct agent_event){.kind = AGENT_TICK});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play p;
    static struct msg join;
    struct fuzz_in in = {data, size};
    struct gen_hints none = {.instance = ""};
    if (!gen_msg(&in, MSG_KIND_join, &none, &join) ||
        join.kind != MSG_KIND_join)
        return 0;
    join.join.nproc = 1 + (join.join.nproc - 1) % PROCS_MAX;
    struct agent_conf conf = {.join = join.join,
                              .shutdown_us = fuzz_u8(&in) * 100 * MONO_MS,
                              .seed = fuzz_u8(&in)};
    conf.checks = conf.seed % 4 == 3;
    conf.endpoints = (int)(conf.seed / 16 % 4);
    conf.failure_us = (int64_t)(conf.seed / 4) * 100 * MONO_MS;
    conf.death_us = conf.failure_us / 2;
    p = (struct play){.now_us = 1000 * MONO_S, .nproc = (int)join.join.nproc};
    p.hints.instance = p.instance;
    agent_init(&p.agent, &conf);
    step(&p, (struct agent_event){.kind = AGENT_START});
    for (int i = 0; in.left > 0 && i < STEPS_MAX && !p.exited; i++)
        play(&p, &in);
    finish(&p);
    return 0;
}
