#include "rendezvous/ctl/command.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/token.h"
#include "rendezvous/proto/frame.h"

#define PIECE    4096
#define SHOWN_US (60 * MONO_S)

static int foreign(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_PROTO,
                       "the answer is not from a ddprun rendezvous");
}

/* Reads on; the end is an error here. */
static int more(struct ctl_line *line, struct buf *in, struct ddp_err *err)
{
    uint8_t *room = buf_reserve(in, PIECE);
    if (room == NULL)
        return foreign(err);
    long n = ctl_line_read(line, room, PIECE, err);
    if (n < 0)
        return -1;
    if (n == 0)
        return ddp_err_set(err, DDP_E_UNREACHABLE,
                           "the connection was closed without an answer, as "
                           "by a rendezvous of another version of ddprun");
    buf_commit(in, (size_t)n);
    return 0;
}

static int
hear_hello(struct ctl_line *line, struct buf *in, struct ddp_err *err)
{
    for (;;) {
        switch (frame_take_hello(in)) {
        case FRAME_OK:
            return 0;
        case FRAME_BAD:
            return foreign(err);
        case FRAME_MORE:
            break;
        }
        if (more(line, in, err) != 0)
            return -1;
    }
}

static int take_msg(struct buf *in,
                    const uint8_t *payload,
                    size_t len,
                    struct msg *m,
                    struct ddp_err *err)
{
    int rc = msg_decode(payload, len, m, err);
    frame_drop(in, len);
    return rc;
}

static int hear_msg(struct ctl_line *line,
                    struct buf *in,
                    struct msg *m,
                    struct ddp_err *err)
{
    const uint8_t *payload;
    size_t len;
    for (;;) {
        switch (frame_peek(in, &payload, &len)) {
        case FRAME_OK:
            return take_msg(in, payload, len, m, err);
        case FRAME_BAD:
            return foreign(err);
        case FRAME_MORE:
            break;
        }
        if (more(line, in, err) != 0)
            return -1;
    }
}

/* The words for launchers that lack a token are not right for us. */
static int take_refusal(const struct ctl_peer *peer,
                        const struct msg_refused *no,
                        struct ddp_err *err)
{
    bool known = no->code > 0 && no->code < DDP_E_COUNT;
    const size_t len = sizeof(TOKEN_REQUIRED) - 1;
    if (peer->key == NULL && strncmp(no->text, TOKEN_REQUIRED, len) == 0)
        return ctl_token_missing(err);
    return ddp_err_set(err, known ? (enum ddp_code)no->code : DDP_E_PROTO, "%s",
                       no->text);
}

static int
say(struct ctl_line *line, const struct msg *order, struct ddp_err *err)
{
    static char json[MSG_JSON_MAX]; /* the stack may be as small */
    struct buf out;
    int len = msg_encode(order, json, sizeof(json));
    ddp_assert(len > 0);
    buf_init(&out, FRAME_MAX);
    int rc = buf_put(&out, FRAME_HELLO, FRAME_HELLO_LEN);
    if (rc == 0)
        rc = frame_put(&out, json, (size_t)len);
    rc = rc != 0 ? ddp_err_set(err, DDP_E_NOMEM, "no memory for the order")
                 : ctl_line_write(line, buf_head(&out), buf_len(&out), err);
    buf_free(&out);
    return rc;
}

/* A conversation: one order, and what is said to it. */
struct ordering {
    const struct ctl_peer *peer;
    struct ctl_line *line;
    struct buf in;
    struct msg m; /* what was said last */
};

static struct ordering *
begin(const struct ctl_peer *peer, int64_t deadline_us, struct ddp_err *err)
{
    static struct ordering o; /* large */
    o.peer = peer;
    o.line = ctl_line_open(peer, deadline_us, err);
    if (o.line == NULL)
        return NULL;
    buf_init(&o.in, FRAME_MAX + 2 * PIECE);
    return &o;
}

static void end(struct ordering *o)
{
    buf_free(&o->in);
    ctl_line_close(o->line);
}

/* 0: it is carried out. */
static int
give(struct ordering *o, const struct msg *order, struct ddp_err *err)
{
    if (say(o->line, order, err) != 0 ||
        hear_hello(o->line, &o->in, err) != 0 ||
        hear_msg(o->line, &o->in, &o->m, err) != 0)
        return -1;
    if (o->m.kind == MSG_KIND_refused)
        return take_refusal(o->peer, &o->m.refused, err);
    return o->m.kind == MSG_KIND_answered ? 0 : foreign(err);
}

int ctl_order(const struct ctl_peer *peer,
              const struct msg *order,
              int64_t deadline_us,
              char text[512],
              struct ddp_err *err)
{
    struct ordering *o = begin(peer, deadline_us, err);
    if (o == NULL)
        return -1;
    int rc = give(o, order, err);
    if (rc == 0)
        msg_set_text(text, 512, o->m.answered.text);
    end(o);
    return rc;
}

/* The rendezvous is there: it answered before. */
static int fell_silent(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_PEER, "its node has said nothing for %lld s",
                       (long long)(SHOWN_US / MONO_S));
}

static int
hear_more(struct ordering *o, ctl_take take, void *ctx, struct ddp_err *err)
{
    while (o->m.answered.more) {
        /* As long as debuggers may take for a worker, and some more. */
        int64_t end_us = mono_now_us() + SHOWN_US;
        ctl_line_renew(o->line, end_us);
        if (hear_msg(o->line, &o->in, &o->m, err) != 0)
            return err->code == DDP_E_UNREACHABLE && mono_now_us() >= end_us
                       ? fell_silent(err)
                       : -1;
        if (o->m.kind != MSG_KIND_answered)
            return foreign(err);
        take(ctx, o->m.answered.text);
    }
    return 0;
}

int ctl_order_shown(const struct ctl_peer *peer,
                    const struct msg *order,
                    int64_t deadline_us,
                    ctl_take take,
                    void *ctx,
                    struct ddp_err *err)
{
    char of[512];
    struct ordering *o = begin(peer, deadline_us, err);
    if (o == NULL)
        return -1;
    int rc = give(o, order, err);
    if (rc == 0) {
        (void)snprintf(of, sizeof(of),
                       "%.500s:", o->m.answered.text); /* fits */
        take(ctx, of);
        rc = hear_more(o, take, ctx, err);
    }
    end(o);
    return rc;
}
