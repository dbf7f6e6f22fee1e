/*
 * tests/fuzz/gen: a message out of a few bytes, by the table messages.def: one
 * byte for each field, biased to what gets far (the current round, instances
 * and agents that exist). What comes out went through the codec, so that it is
 * what a shell would hand to a core. Byte 250 asks for raw JSON instead.
 */
#ifndef GEN_H
#define GEN_H

#include "rendezvous/proto/msg.h"
#include "tests/fuzz/fuzz.h"

struct gen_hints {
    int64_t round;        /* the last that was seen ... */
    const char *instance; /* ... and of which run's instance */
    int64_t seq;          /* of the last beat */
};

/* Reads a message of one kind. False: the bytes make none. */
bool gen_msg(struct fuzz_in *in,
             enum msg_kind kind,
             const struct gen_hints *hints,
             struct msg *out);

/* The kind that a sender may say, by a byte. */
enum msg_kind gen_kind(enum msg_sender sender, uint8_t byte);

/* Asserts that what a core sends is what the other side can decode. */
void gen_check_sent(const struct msg *m);

#endif
