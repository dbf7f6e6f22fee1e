/*
 * http/viewers: the connections that look on: each is sent a document as a
 * Server-Sent Event when it comes, and again when something has changed, until
 * it goes. A document is made once for all of them, VIEWERS_PACE_US after the
 * one before at the earliest, and none is made while nobody looks. It is made
 * in steps, one in each turn of the loop: nothing waits for the whole of it.
 *
 * Time and memory are bounded: a viewer that has not taken a document within
 * VIEWERS_TAKE_US is dropped; one that is slow misses documents and gets the
 * newest. There are at most `max` viewers.
 */
#ifndef RENDEZVOUS_HTTP_VIEWERS_H
#define RENDEZVOUS_HTTP_VIEWERS_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/conn.h"

#define VIEWERS_MAX      16
#define VIEWERS_PACE_US  MONO_S
#define VIEWERS_TAKE_US  (10 * MONO_S)
#define VIEWERS_QUIET_US (15 * MONO_S) /* a line of comment after that */
#define VIEWERS_DOC_MAX  (2u * 1024u * 1024u)

/* How many of so many HTTP connections may look on. */
int viewers_share(int http_max);

struct viewers_conf {
    int max; /* 0 to VIEWERS_MAX */
    /* Takes a step of the document, a line without its end, which is appended
     * to `out`, empty but for a few bytes at the first step. 1: there is more
     * to do; 0: that was all of it; -1: it does not fit or there is no memory:
     * the viewers keep what they have. After 0 and -1 the next step is the
     * first one of another document. */
    int (*document)(void *ctx, struct buf *out);
    void *ctx;
    int64_t pace_us, take_us, quiet_us; /* 0: as above; for tests */
};

struct viewers;

/* Owned by the caller, given back by viewers_close. Dies out of memory. */
struct viewers *viewers_open(uv_loop_t *loop, const struct viewers_conf *conf);

/* Takes over a raw connection, to which nothing was sent yet. False: there is
 * no place, nothing has happened. */
bool viewers_take(struct viewers *v, struct conn *c);

/* The document would be another one now. Costs nothing while nobody looks. */
void viewers_changed(struct viewers *v);

int viewers_count(const struct viewers *v);

/* Closes all connections, and makes no further step; memory goes as the loop
 * runs on. */
void viewers_close(struct viewers *v);

#endif
