/* links: tests/fuzz/gen CORE rendezvous/proto/{msg,exits,term} */
/* links: rendezvous/base/{err,mono,rng,json,utf8,buf} */
/* libs: -lcjson -lm */
/*
 * The server's core against hostile agents: messages, closes and ticks of
 * several connections in any order. After each step rdzv_check holds; what it
 * sends is decodable and goes to connections that are open; and a deadline that
 * has come is dealt with.
 */
#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/rdzv.h"
#include "tests/fuzz/gen.h"

#define CONNS     8
#define STEPS_MAX 400

struct play {
    struct rdzv *r;
    int64_t now_us;
    bool open[CONNS];
    struct gen_hints hints;
    char instance[33];
};

static void watch_world(struct play *p, const struct msg_world *w)
{
    ddp_assert(w->group_rank < w->group_world);
    ddp_assert(w->base_rank < w->world_size);
    ddp_assert(w->role_rank < w->role_world);
    p->hints.round = w->round;
    (void)snprintf(p->instance, sizeof(p->instance), "%s", w->instance);
}

static void emit(void *ctx, const struct rdzv_action *a)
{
    struct play *p = ctx;
    switch (a->kind) {
    case RDZV_SEND:
        ddp_assert(a->conn >= 0 && a->conn < CONNS && p->open[a->conn]);
        ddp_assert(msg_is_from(a->msg->kind, MSG_SERVER));
        gen_check_sent(a->msg);
        if (a->msg->kind == MSG_KIND_world)
            watch_world(p, &a->msg->world);
        return;
    case RDZV_DROP:
        ddp_assert(a->conn >= 0 && a->conn < CONNS && p->open[a->conn]);
        p->open[a->conn] = false;
        return;
    case RDZV_NOTE: {
        char text[2000];
        note_format(a->note, text, sizeof(text));
        ddp_assert(text[0] != '\0');
        return;
    }
    }
    DDP_WRONG("action kind");
}

static void step(struct play *p, struct rdzv_event ev)
{
    struct rdzv_actions out = {.emit = emit, .ctx = p};
    ev.now_us = p->now_us;
    rdzv_step(p->r, &ev, &out);
    rdzv_check(p->r);
    ddp_assert(rdzv_nodes(p->r) >= 0 && rdzv_nodes(p->r) <= 6);
}

/* All that is due now is dealt with by a bounded number of ticks. */
static void settle(struct play *p, int64_t lag_us)
{
    step(p, (struct rdzv_event){.kind = RDZV_TICK, .lag_us = lag_us});
    for (int i = 0; rdzv_deadline(p->r) <= p->now_us; i++) {
        ddp_assert(i < 10);
        step(p, (struct rdzv_event){.kind = RDZV_TICK});
    }
}

static void say(struct play *p, struct fuzz_in *in)
{
    static const char *const addrs[] = {"127.0.0.1", "10.0.0.1", "::1"};
    static struct msg m;
    uint8_t who = fuzz_u8(in);
    int conn = who % CONNS;
    uint8_t kind = fuzz_u8(in);
    enum msg_sender sender = kind >= 240   ? MSG_SERVER
                             : kind >= 224 ? MSG_CTL
                                           : MSG_AGENT;
    if (!gen_msg(in, gen_kind(sender, kind), &p->hints, &m))
        return;
    p->open[conn] = true;
    step(p, (struct rdzv_event){
                .kind = RDZV_MSG,
                .conn = conn,
                .msg = &m,
                .peer_addr = addrs[who / CONNS % 3],
                .here_addr = addrs[who / CONNS / 3 % 3],
            });
}

static void play(struct play *p, struct fuzz_in *in)
{
    uint8_t what = fuzz_u8(in);
    switch (what % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
        say(p, in);
        return;
    case 4: {
        int conn = fuzz_u8(in) % CONNS;
        if (!p->open[conn])
            return;
        p->open[conn] = false;
        step(p, (struct rdzv_event){.kind = RDZV_CLOSED, .conn = conn});
        return;
    }
    case 5: /* to the next deadline */
        if (rdzv_deadline(p->r) != MONO_NEVER &&
            rdzv_deadline(p->r) > p->now_us)
            p->now_us = rdzv_deadline(p->r);
        settle(p, 0);
        return;
    case 6: /* some milliseconds */
        p->now_us += fuzz_u8(in) * 7 * MONO_MS;
        if (rdzv_deadline(p->r) <= p->now_us)
            settle(p, 0);
        return;
    case 7: /* the server was held up */
        p->now_us += fuzz_u8(in) * 100 * MONO_MS;
        settle(p, fuzz_u8(in) * 100 * MONO_MS);
        return;
    }
}

/* Nobody says anything any more: all leases run out and all runs end and are
 * forgotten. They may be of a thousand days, during which those who wait are
 * told every 30 s, so after some of these the clock goes in leaps. */
static void fall_silent(struct play *p)
{
    for (int i = 0; rdzv_deadline(p->r) != MONO_NEVER; i++) {
        ddp_assert(i < 1000);
        if (rdzv_deadline(p->r) > p->now_us)
            p->now_us = rdzv_deadline(p->r);
        if (i > 500)
            p->now_us += INT64_C(30) * 24 * 3600 * MONO_S;
        step(p, (struct rdzv_event){.kind = RDZV_TICK});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play p;
    struct fuzz_in in = {data, size};
    struct rdzv_limits limits = {.runs_max = 3,
                                 .nodes_max = 6,
                                 .conns_max = CONNS,
                                 .trusted = size % 2 == 0};
    limits.embedded = size % 3 == 0;
    msg_set(limits.server, "0000000000000001");
    p = (struct play){.now_us = 1000 * MONO_S};
    p.hints.instance = p.instance;
    p.r = rdzv_new(&limits, 1);
    for (int i = 0; in.left > 0 && i < STEPS_MAX; i++)
        play(&p, &in);
    fall_silent(&p);
    ddp_assert(rdzv_nodes(p.r) == 0 && rdzv_live_runs(p.r) == 0);
    rdzv_del(p.r);
    return 0;
}
