/*
 * store/reply: sends a reply to a connection, in the forms that the protocol
 * has. For store/store and its parts only.
 */
#ifndef RENDEZVOUS_STORE_REPLY_H
#define RENDEZVOUS_STORE_REPLY_H

#include "rendezvous/proto/c10d.h"

/*
 * Takes bytes of a reply to connection `conn`; a reply may come in several
 * calls. Borrows `data` for the call. Must not call back into the store. It
 * cannot fail: if the bytes cannot be passed on, the owner of the connection
 * closes it later.
 */
typedef void store_send(void *ctx, uint32_t conn, const void *data, size_t len);

struct reply_way {
    store_send *send;
    void *ctx; /* borrowed */
};

static inline void
reply_bytes(const struct reply_way *way, uint32_t conn, const void *p, size_t n)
{
    if (n > 0)
        way->send(way->ctx, conn, p, n);
}

static inline void
reply_byte(const struct reply_way *way, uint32_t conn, uint8_t byte)
{
    reply_bytes(way, conn, &byte, 1);
}

static inline void
reply_number(const struct reply_way *way, uint32_t conn, int64_t n)
{
    uint8_t bytes[8];
    c10d_pack_u64(bytes, (uint64_t)n);
    reply_bytes(way, conn, bytes, sizeof(bytes));
}

/* Its length, then it. */
static inline void
reply_value(const struct reply_way *way, uint32_t conn, struct c10d_slice value)
{
    reply_number(way, conn, (int64_t)value.len);
    reply_bytes(way, conn, value.data, value.len);
}

#endif
