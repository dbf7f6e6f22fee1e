#include "rendezvous/base/buf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define KEEP_MAX    (64u * 1024u) /* an empty buffer larger than this is freed */
#define CAP_MIN     256u
#define DOUBLES_MAX (1024u * 1024u) /* a larger one grows by a quarter */
#define TRIM_MIN    4096u

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

/* need <= max, and max is far below SIZE_MAX / 2 */
static size_t cap_for(const struct buf *b, size_t need)
{
    size_t cap = b->cap < CAP_MIN ? CAP_MIN : b->cap;
    while (cap < need)
        cap += cap < DOUBLES_MAX ? cap : cap / 4;
    return cap;
}

static int set_cap(struct buf *b, size_t cap)
{
    uint8_t *data = realloc(b->data, cap);
    if (data == NULL)
        return -1;
    b->data = data;
    b->cap = cap;
    return 0;
}

/* Unread bytes to the front: the room is behind them. */
static void move_to_front(struct buf *b)
{
    size_t used = buf_len(b);
    if (b->start > 0 && used > 0)
        memmove(b->data, b->data + b->start, used);
    b->start = 0;
    b->end = used;
}

size_t buf_room(const struct buf *b)
{
    return b->cap - b->end;
}

static bool has_room(const struct buf *b, size_t len)
{
    return b->data != NULL && buf_room(b) >= len;
}

size_t buf_growth(const struct buf *b, size_t len)
{
    return has_room(b, len) ? 0 : cap_for(b, buf_len(b) + len) - b->cap;
}

void buf_trim(struct buf *b)
{
    if (b->cap <= TRIM_MIN || buf_len(b) > b->cap / 4)
        return;
    move_to_front(b);
    (void)set_cap(b, buf_len(b) + 1); /* smaller, or as it was */
}

uint8_t *buf_reserve(struct buf *b, size_t len)
{
    size_t used = buf_len(b);
    if (len > b->max || used > b->max - len)
        return NULL;
    if (has_room(b, len))
        return b->data + b->end;
    move_to_front(b);
    if (b->cap - b->end < len && set_cap(b, cap_for(b, used + len)) != 0)
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

void buf_cut(struct buf *b, size_t len)
{
    ddp_assert(len <= buf_len(b));
    b->end = b->start + len;
}
