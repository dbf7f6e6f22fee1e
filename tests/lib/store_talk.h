/*
 * tests/lib/store_talk: talk with store/store in words.
 *
 * A request is "CONN OP ARGUMENT...", where connections 0 to 4 are of the new
 * family, 5 to 7 of the old one, and "-" is an empty string; "CONN GONE" closes
 * the connection. What is expected: words "CONN=b:N" (a byte), "CONN=i:N" (an
 * i64), "CONN=u:N" (a u32) and "CONN=v:TEXT" (a value), in this order.
 */
#ifndef STORE_TALK_H
#define STORE_TALK_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/store/store.h"

#define CONNS 8

/* What the store has sent: each byte with the connection it went to. */
struct sent {
    size_t len;
    uint32_t conn[1 << 16];
    uint8_t byte[1 << 16];
};
extern struct sent sent;

/* The store's callback, with &sent as its context. */
store_send on_send;

/* A store that sends to `sent`, where nothing is yet. The caller frees it. */
struct store *new_store(size_t byte_max);

/* Returns what store_step does. */
int step(struct store *s, const char *text, struct ddp_err *err);

/* Exactly this was sent since the last time, by what `after` names. */
void expect_sent(const char *want, const char *after);

#endif
