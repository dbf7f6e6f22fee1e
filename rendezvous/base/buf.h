/*
 * base/buf: a growing byte buffer with a limit, written at its end and read
 * from its front. For bytes from a peer, and for bytes that wait to be sent.
 */
#ifndef RENDEZVOUS_BASE_BUF_H
#define RENDEZVOUS_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data; /* owned; NULL while nothing was written */
    size_t start;  /* first unread byte */
    size_t end;    /* behind the last one */
    size_t cap;
    size_t max; /* the most unread bytes */
};

/* A buffer that never holds more than `max` bytes; allocates nothing yet. */
void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);

size_t buf_len(const struct buf *b);

/* The unread bytes; valid until the next call that writes. */
const uint8_t *buf_head(const struct buf *b);

/*
 * Room for `len` bytes behind the end, to be filled by the caller and then
 * taken over with buf_commit. NULL: over `max`, or out of memory.
 */
uint8_t *buf_reserve(struct buf *b, size_t len);
void buf_commit(struct buf *b, size_t len);

/* Appends a copy. Returns 0, or -1 with nothing changed: over `max`, or out
 * of memory. */
int buf_put(struct buf *b, const void *data, size_t len);

/* How many bytes have room behind the end as it is. */
size_t buf_room(const struct buf *b);

/* By how much its memory would grow to take `len` bytes more. */
size_t buf_growth(const struct buf *b, size_t len);

/* Gives memory back if much more was taken than the unread bytes need. */
void buf_trim(struct buf *b);

/* Drops all but the first `len` unread bytes; len <= buf_len(). */
void buf_cut(struct buf *b, size_t len);

/* Drops `len` bytes from the front; len <= buf_len(). Gives memory back when
 * the buffer is empty and had grown large. */
void buf_take(struct buf *b, size_t len);

#endif
