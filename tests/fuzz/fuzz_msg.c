/* links: rendezvous/proto/{frame,msg,term} */
/* links: rendezvous/base/{buf,err,json,utf8} */
/* libs: -lcjson -lm */
/*
 * The bytes of a connection as they come from a peer: hello, frames, messages.
 * What decodes must encode, and decode to the same again; and the way in which
 * the bytes arrive (all at once, or cut at any place) must not matter.
 */
#include "rendezvous/base/err.h"
#include "rendezvous/proto/frame.h"
#include "rendezvous/proto/msg.h"
#include "tests/fuzz/fuzz.h"

#define IN_MAX (FRAME_HELLO_LEN + 4u * FRAME_MAX)

static void check_msg(const uint8_t *json, size_t len)
{
    static struct msg m, again;
    char text[MSG_JSON_MAX];
    struct ddp_err err;
    if (msg_decode(json, len, &m, &err) != 0) {
        ddp_assert(err.code == DDP_E_PROTO && err.text[0] != '\0');
        return;
    }
    ddp_assert(m.kind < MSG_KIND_COUNT);
    int n = msg_encode(&m, text, sizeof(text));
    ddp_assert(n > 0);
    ddp_assert(msg_decode(text, (size_t)n, &again, &err) == 0);
    /* Both were cleared before they were filled: padding is equal too. */
    ddp_assert(memcmp(&m, &again, sizeof(m)) == 0);
    ddp_assert(msg_encode(&m, text, (size_t)n) < 0);
    struct buf out;
    const uint8_t *payload;
    size_t got;
    buf_init(&out, IN_MAX);
    ddp_assert(frame_put(&out, text, (size_t)n) == 0);
    ddp_assert(frame_peek(&out, &payload, &got) == FRAME_OK);
    ddp_assert(got == (size_t)n && memcmp(payload, text, got) == 0);
    frame_drop(&out, got);
    ddp_assert(buf_len(&out) == 0);
    buf_free(&out);
}

/* What a reader found, as numbers: equal for equal bytes. */
struct found {
    enum frame_result end;
    size_t frames, bytes;
};

/* Reads what is there; `said_hello` is kept between the calls. */
static void
read_frames(struct buf *in, bool *said_hello, bool decode, struct found *f)
{
    const uint8_t *payload;
    size_t len;
    if (!*said_hello)
        f->end = frame_take_hello(in);
    if (!*said_hello && f->end != FRAME_OK)
        return;
    *said_hello = true;
    while ((f->end = frame_peek(in, &payload, &len)) == FRAME_OK) {
        ddp_assert(len > 0 && len <= FRAME_MAX);
        if (decode)
            check_msg(payload, len);
        frame_drop(in, len);
        f->frames++;
        f->bytes += len;
    }
}

static struct found read_all(const uint8_t *data, size_t size, size_t step)
{
    struct found f = {.end = FRAME_MORE};
    struct buf in;
    bool said_hello = false;
    buf_init(&in, IN_MAX);
    for (size_t at = 0; at < size && f.end != FRAME_BAD; at += step) {
        size_t n = size - at < step ? size - at : step;
        if (buf_put(&in, data + at, n) != 0)
            break;
        read_frames(&in, &said_hello, step == size, &f);
    }
    buf_free(&in);
    return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > IN_MAX)
        return 0;
    /* Also as a bare message: so the JSON is reached without a length. */
    if (data[0] == '{') {
        check_msg(data, size);
        return 0;
    }
    struct found whole = read_all(data, size, size);
    struct found pieces = read_all(data, size, 1 + size / 7);
    ddp_assert(whole.end == pieces.end && whole.frames == pieces.frames &&
               whole.bytes == pieces.bytes);
    return 0;
}
