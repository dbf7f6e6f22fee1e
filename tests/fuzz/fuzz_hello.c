/* links: worker_rt/comm/hello rendezvous/base/{siphash,rng,err} */
/*
 * The first words between two ranks, with somebody between them: the input says
 * which bits change on their way, of the hello, of the reply, and of the proof,
 * one after the other. What is left is what a stranger says in the place of a
 * proof. Both ranks let the other in if nothing has changed, and else neither
 * does, or the one that hears the other last.
 */
#include "tests/fuzz/fuzz.h"
#include "worker_rt/comm/hello.h"

static const struct comm_place caller = {
    .instance = "0123456789abcdef0123456789abcdef",
    .round = 7,
    .key = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)},
    .id = 3,
    .rank = 3,
    .world = 4};

/* Returns whether a bit changed. */
static bool change(struct fuzz_in *in, void *words, size_t len)
{
    size_t got;
    bool any = false;
    const uint8_t *bits = fuzz_bytes(in, len, &got);
    for (size_t i = 0; i < got; i++) {
        ((uint8_t *)words)[i] ^= bits[i];
        any |= bits[i] != 0;
    }
    return any;
}

/* Four bytes of a reply mean nothing. */
static bool change_reply(struct fuzz_in *in, struct hello_reply *r)
{
    struct hello_reply sound = *r;
    (void)change(in, r, sizeof(*r));
    sound.zero = r->zero;
    return memcmp(&sound, r, sizeof(sound)) != 0;
}

static void check_stranger(struct fuzz_in *in,
                           const struct comm_place *listener,
                           const struct hello *h,
                           const struct hello_reply *r)
{
    size_t got;
    uint64_t proof = 0;
    const uint8_t *said = fuzz_bytes(in, sizeof(proof), &got);
    memcpy(&proof, said, got);
    ddp_assert(proof != hello_proof(listener, h, r));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    struct comm_place listener = caller;
    struct hello said, heard;
    struct hello_reply reply, back;
    listener.rank = 1;
    hello_make(&said, &caller, 1, 0);
    heard = said;
    bool changed = change(&in, &heard, sizeof(heard));
    enum hello_answer answer = hello_check(&listener, &heard);
    ddp_assert(changed || answer == HELLO_TAKEN);
    if (answer == HELLO_OTHER_PROTOCOL)
        return 0; /* no more is said */
    hello_reply_make(&reply, &listener, &heard, answer);
    back = reply;
    bool reply_changed = change_reply(&in, &back);
    answer = hello_reply_check(&caller, &said, &back);
    ddp_assert((answer == HELLO_TAKEN) == (!changed && !reply_changed));
    if (answer != HELLO_TAKEN) {
        (void)hello_answer_text(answer);
        check_stranger(&in, &listener, &heard, &reply);
        return 0;
    }
    uint64_t proof = hello_proof(&caller, &said, &back);
    bool proof_changed = change(&in, &proof, sizeof(proof));
    ddp_assert((proof == hello_proof(&listener, &heard, &reply)) ==
               !proof_changed);
    check_stranger(&in, &listener, &heard, &reply);
    return 0;
}
