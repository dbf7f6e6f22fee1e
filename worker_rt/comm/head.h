/*
 * worker_rt/comm/head: what stands before the data of each message between
 * ranks, so that ranks which are in different calls find out instead of adding
 * up garbage, or waiting for ever.
 */
#ifndef WORKER_RT_COMM_HEAD_H
#define WORKER_RT_COMM_HEAD_H

#include "worker_rt/comm/comm.h"

/* Little-endian as all our machines are. */
struct wire_head {
    uint32_t seq;  /* of the collective */
    uint16_t kind; /* enum wire_kind */
    uint8_t dtype;
    uint8_t op;
    uint32_t step; /* of the collective, with HEAD_RING */
    uint32_t root;
    uint64_t len; /* of the data behind it */
};
_Static_assert(sizeof(struct wire_head) == 24, "no padding on the wire");

/* In each step of a collective that goes round the ring, not over the
 * hypercube: which way it goes depends on its length. */
#define HEAD_RING 0x80000000u

/* The text of an enum wire_kind, or of any number: "all-reduce". */
const char *head_kind_name(int64_t kind);

/* Whether it is the message that was awaited. */
bool head_fits(const struct wire_head *got, const struct wire_head *awaited);

/* Whether a rank that is in the call `own` will never ask for a message that
 * has come. */
bool head_is_stray(const struct wire_head *got, const struct wire_head *own);

/* For people: "all-reduce number 3 with length 8 (F32, SUM)". The length is
 * in bytes. */
#define HEAD_TEXT 128
void head_describe(char text[HEAD_TEXT], const struct wire_head *h);

#endif
