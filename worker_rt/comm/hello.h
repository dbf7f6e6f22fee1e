/*
 * worker_rt/comm/hello: the first words between two ranks, by which each proves
 * to the other that it has the key of the round. Pure: no I/O, no state.
 *
 *     caller                                listener
 *     hello: who, to whom, for what, nonce ─►
 *                    ◄─ reply: an answer, its nonce, the listener's proof
 *     proof ─►
 *
 * A proof is a SipHash of all that was said before it, both nonces included, by
 * the key. So a recorded one proves nothing to another rank, for another
 * purpose, in another round, or on another connection. A refusal has none: it
 * goes to callers that need not have the key.
 *
 * Each rank signs its addresses in the store, too: the store has no password.
 *
 * What comes behind these words is neither encrypted nor signed: somebody who
 * can change packets on their way between two ranks is not kept out.
 */
#ifndef WORKER_RT_COMM_HELLO_H
#define WORKER_RT_COMM_HELLO_H

#include "rendezvous/base/rng.h"
#include "worker_rt/comm/comm.h"

struct hello {
    uint8_t magic[8];
    char instance[RNG_ID_LEN];
    int64_t round;
    uint32_t comm;
    uint32_t world;
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    uint32_t zero;
    uint64_t nonce[2];
};
_Static_assert(sizeof(struct hello) == 88, "no padding on the wire");

enum hello_answer {
    HELLO_TAKEN = 1,
    HELLO_OTHER_INSTANCE,
    HELLO_OTHER_ROUND,
    HELLO_OTHER_COMM,
    HELLO_OTHER_WORLD,
    HELLO_NO_SUCH_PLACE,
    HELLO_OTHER_KEY,     /* the listener's proof is wrong; never sent */
    HELLO_OTHER_PROTOCOL /* never sent either */
};

struct hello_reply {
    uint8_t magic[8];
    uint32_t answer; /* enum hello_answer */
    uint32_t zero;
    uint64_t nonce[2];
    uint64_t proof; /* 0 in a refusal, as the nonce */
};
_Static_assert(sizeof(struct hello_reply) == 40, "no padding on the wire");

/* Whether the first `have` bytes of what came can be those of a hello. */
bool hello_begins(const struct hello *h, size_t have);

/* The caller's, with a nonce of the kernel's. */
void hello_make(struct hello *h,
                const struct comm_place *place,
                uint32_t to,
                uint32_t lane);

/* Whether a whole one belongs to the listener's place: what is said, not yet
 * what is proven. */
enum hello_answer hello_check(const struct comm_place *place,
                              const struct hello *h);

/* The listener's. With HELLO_TAKEN the caller's proof has to follow. */
void hello_reply_make(struct hello_reply *r,
                      const struct comm_place *place,
                      const struct hello *h,
                      enum hello_answer answer);

/* What the caller of `h` is to think of a whole reply. HELLO_TAKEN: the
 * listener has the key. */
enum hello_answer hello_reply_check(const struct comm_place *place,
                                    const struct hello *h,
                                    const struct hello_reply *r);

/* The caller's proof, which it sends; the listener makes it as well, and
 * compares: one word, in one step. */
uint64_t hello_proof(const struct comm_place *place,
                     const struct hello *h,
                     const struct hello_reply *r);

/* A sum of the addresses that this rank of the place has in the store. */
uint64_t
hello_sign_address(const struct comm_place *place, int rank, const char *text);

/* Takes that sum, behind a blank, off what the rank has put there. False: it is
 * not the rank's. */
bool hello_unsign_address(const struct comm_place *place, int rank, char *text);

/* Why: a clause behind a colon. */
const char *hello_answer_text(enum hello_answer answer);

#endif
