#include "tests/bench/rdzv/speak.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/proto/frame.h"

#define LEASE_LEFT_MS 4000 /* of the last one, which came a moment ago */

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "load: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    exit(1);
}

static int frame(const struct msg *m, char *out, size_t cap)
{
    int len = msg_encode(m, out + 4, cap - 4);
    if (len < 0)
        die("a message of more than %zu bytes", cap);
    for (int i = 0; i < 4; i++)
        out[i] = (char)(len >> (8 * i));
    return len + 4;
}

static struct msg_join join_of(const struct speak_conf *conf, int id)
{
    struct msg_join j = {
        .version = MSG_VERSION,
        .nodes_min = conf->agents > 1 ? conf->agents - 1 : 1,
        .nodes_max = conf->agents,
        .nproc = 8,
        .max_restarts = 3,
        .node_rank = -1,
        .group_rank = -1,
        .port = 29500,
        .join_ms = 600000,
        .last_call_ms = 30000,
        .heartbeat_ms = conf->heartbeat_ms,
        .reconnect_ms = 30000,
        .serve_port = 29501,
    };
    msg_set(j.run, "bench");
    msg_set(j.options, "train");
    msg_set(j.role, "default");
    (void)snprintf(j.agent, sizeof(j.agent), "%016x%016x", id, id);
    (void)snprintf(j.name, sizeof(j.name), "node%05d", id);
    return j;
}

static int hello_and(const struct msg_join *j, char *out)
{
    struct msg m = {.kind = MSG_KIND_join, .join = *j};
    memcpy(out, FRAME_HELLO, FRAME_HELLO_LEN);
    return (int)FRAME_HELLO_LEN +
           frame(&m, out + FRAME_HELLO_LEN, SPEAK_JOIN_MAX - FRAME_HELLO_LEN);
}

int speak_join(const struct speak_conf *conf, int id, char *out)
{
    struct msg_join j = join_of(conf, id);
    return hello_and(&j, out);
}

int speak_join_again(const struct speak_conf *conf,
                     int id,
                     const struct ballot *b,
                     const struct msg_world *world,
                     char *out)
{
    struct msg_join j = join_of(conf, id);
    msg_set(j.instance, world->instance);
    j.instance_ms = world->instance_ms;
    j.round = world->round;
    j.state = MSG_STATE_RUNNING;
    j.group_rank = world->group_rank;
    j.restarts = world->restarts;
    j.lease_ms = LEASE_LEFT_MS;
    j.term = b->term;
    j.via = 1;
    return hello_and(&j, out);
}

int speak_beat(int64_t seq, int64_t heard, int64_t round, char *out)
{
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = seq;
    m.beat.heard = heard;
    m.beat.round = round;
    return frame(&m, out, SPEAK_MAX);
}

int speak_ready(int64_t round, char *out)
{
    struct msg m = {.kind = MSG_KIND_ready, .ready.round = round};
    return frame(&m, out, SPEAK_MAX);
}

/* -- the vote -------------------------------------------------------------- */

static void decode(const char *json, int len, struct msg *m)
{
    struct ddp_err err;
    if (msg_decode(json, (size_t)len, m, &err) != 0)
        die("%s", err.text);
}

int speak_promise(struct ballot *b, const char *json, int len, char *out)
{
    static char last[SPEAK_MAX], answer[SPEAK_MAX];
    static struct msg_prepare prepare;
    static int last_len, answer_len;
    if (len > (int)sizeof(last))
        die("a prepare of %d bytes", len);
    if (len != last_len || memcmp(json, last, (size_t)len) != 0) {
        struct msg m;
        decode(json, len, &m);
        prepare = m.prepare;
        m = (struct msg){.kind = MSG_KIND_promise,
                         .promise.term = prepare.term};
        answer_len = frame(&m, answer, sizeof(answer));
        memcpy(last, json, (size_t)len);
        last_len = len;
    }
    b->term = prepare.term;
    memcpy(out, answer, (size_t)answer_len);
    return answer_len;
}

int speak_accept(struct ballot *b, const char *json, int len, char *out)
{
    static const char none[] = "\"ids\":\"\"";
    struct msg m;
    if (memmem(json, (size_t)len, none, sizeof(none) - 1) != NULL)
        return 0; /* this node has no vote */
    decode(json, len, &m);
    if (b->voters == NULL && (b->voters = malloc(sizeof(m.voters))) == NULL)
        die("out of memory");
    *b->voters = m.voters;
    if (!m.voters.pending)
        return 0;
    m = (struct msg){.kind = MSG_KIND_accept,
                     .accept.round = b->voters->round,
                     .accept.term = b->voters->term};
    return frame(&m, out, SPEAK_MAX);
}

int speak_voted(const struct ballot *b,
                const struct msg_world *world,
                char *out)
{
    struct msg m = {.kind = MSG_KIND_vote};
    if (b->voters == NULL)
        return 0;
    m.vote.version = MSG_VERSION;
    msg_set(m.vote.instance, world->instance);
    m.vote.round = b->voters->round;
    m.vote.round_term = b->voters->term;
    m.vote.group_rank = world->group_rank;
    m.vote.group_world = world->group_world;
    m.vote.restarts = world->restarts;
    msg_set(m.vote.voters, b->voters->ids);
    return frame(&m, out, SPEAK_VOTE_MAX);
}
