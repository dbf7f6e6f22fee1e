#include "rendezvous/proto/frame.h"

#include <string.h>

#define HEAD_LEN 4u

enum frame_result frame_take_hello(struct buf *in)
{
    size_t len = buf_len(in);
    size_t part = len < FRAME_HELLO_LEN ? len : FRAME_HELLO_LEN;
    if (part > 0 && memcmp(buf_head(in), FRAME_HELLO, part) != 0)
        return FRAME_BAD;
    if (part < FRAME_HELLO_LEN)
        return FRAME_MORE;
    buf_take(in, FRAME_HELLO_LEN);
    return FRAME_OK;
}

size_t frame_announced(const struct buf *in)
{
    if (buf_len(in) < HEAD_LEN)
        return 0;
    const uint8_t *p = buf_head(in);
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

enum frame_result
frame_peek(const struct buf *in, const uint8_t **payload, size_t *len)
{
    size_t have = buf_len(in);
    if (have < HEAD_LEN)
        return FRAME_MORE;
    size_t n = frame_announced(in);
    if (n == 0 || n > FRAME_MAX)
        return FRAME_BAD;
    if (have - HEAD_LEN < n)
        return FRAME_MORE;
    *payload = buf_head(in) + HEAD_LEN;
    *len = n;
    return FRAME_OK;
}

void frame_drop(struct buf *in, size_t payload_len)
{
    buf_take(in, HEAD_LEN + payload_len);
}

int frame_put(struct buf *out, const void *payload, size_t len)
{
    if (len == 0 || len > FRAME_MAX)
        return -1;
    uint8_t *p = buf_reserve(out, HEAD_LEN + len);
    if (p == NULL)
        return -1;
    for (unsigned i = 0; i < HEAD_LEN; i++)
        p[i] = (uint8_t)(len >> (8 * i));
    memcpy(p + HEAD_LEN, payload, len);
    buf_commit(out, HEAD_LEN + len);
    return 0;
}
