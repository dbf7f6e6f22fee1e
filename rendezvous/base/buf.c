#include "rendezvous/base/buf.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define KEEP_MAX (64u * 1024u) /* an empty buffer larger than this is freed */

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max = b->max};
}

size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}

const uint8_t *buf_head(const struct buf *b)
{
    return b->data == NULL ? NULL : b->data + b->start;
}

static int grow(struct buf *b, size_t need)
{
    size_t cap = b->cap < 256 ? 256 : b->cap;
    while (cap < need)
        cap += cap; /* need <= max, and max is far below SIZE_MAX / 2 */
    uint8_t *data = realloc(b->data, cap);
    if (data == NULL)
        return -1;
    b->data = data;
    b->cap = cap;
    return 0;
}

uint8_t *buf_reserve(struct buf *b, size_t len)
{
    size_t used = buf_len(b);
    if (len > b->max || used > b->max - len)
        return NULL;
    if (b->cap - b->end >= len && b->data != NULL)
        return b->data + b->end;
    if (b->start > 0) {
        memmove(b->data, b->data + b->start, used);
        b->start = 0;
        b->end = used;
    }
    if (b->cap - b->end < len && grow(b, used + len) != 0)
        return NULL;
    return b->data == NULL ? NULL : b->data + b->end;
}

void buf_commit(struct buf *b, size_t len)
{
    ddp_assert(b->cap - b->end >= len);
    b->end += len;
}

int buf_put(struct buf *b, const void *data, size_t len)
{
    if (len == 0)
        return 0;
    uint8_t *room = buf_reserve(b, len);
    if (room == NULL)
        return -1;
    memcpy(room, data, len);
    buf_commit(b, len);
    return 0;
}

void buf_take(struct buf *b, size_t len)
{
    ddp_assert(len <= buf_len(b));
    b->start += len;
    if (b->start < b->end)
        return;
    b->start = b->end = 0;
    if (b->cap > KEEP_MAX)
        buf_free(b);
}
