#include "rendezvous/ctl/command.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/net/token.h"
#include "rendezvous/proto/frame.h"

#define PIECE 4096

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
            return msg_decode(payload, len, m, err);
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

int ctl_order(const struct ctl_peer *peer,
              const struct msg *order,
              int64_t deadline_us,
              char text[512],
              struct ddp_err *err)
{
    struct msg m;
    struct buf in;
    struct ctl_line *line = ctl_line_open(peer, deadline_us, err);
    if (line == NULL)
        return -1;
    buf_init(&in, FRAME_MAX + 2 * PIECE);
    int rc = say(line, order, err);
    if (rc == 0)
        rc = hear_hello(line, &in, err);
    if (rc == 0)
        rc = hear_msg(line, &in, &m, err);
    if (rc == 0 && m.kind == MSG_KIND_refused)
        rc = take_refusal(peer, &m.refused, err);
    else if (rc == 0 && m.kind == MSG_KIND_answered)
        (void)snprintf(text, 512, "%s", m.answered.text); /* fits */
    else if (rc == 0)
        rc = foreign(err);
    buf_free(&in);
    ctl_line_close(line);
    return rc;
}
