/* links: RT */
/* libs: -lcjson -lxxhash */
/*
 * A rank that has an image is asked for ranges of it: the input is what the
 * other one says. If the ranges are there, their bytes go to a rank that asks
 * for the same; what is left of the input says which bits change on the way,
 * two bytes for the place of each, one for the bit. That rank gets what it
 * asked for or an error, and an error if a bit changed.
 */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/keeper/keeper.h"

#define BYTES ((size_t)3 << 19) /* of the image; a part and a half */
#define SENT  (2 * BYTES)
#define STEP  509 /* between the places of two bits that may change */

static struct safetensor tensors[3] = {
    {.begin = 0, .end = 1000},
    {.begin = 1000, .end = 1000},
    {.begin = 1000, .end = BYTES},
};
static const struct safetensors header = {.tensors = tensors, .ntensors = 3};

static uint8_t image[BYTES];
static struct fuzz_in in;
static uint8_t sent[SENT]; /* by the rank that has the image */
static size_t nsent, nheard;
static bool changed;

/* -- the rank that has the image ------------------------------------------- */

static int call_holder(struct ddp_comm *c,
                       const struct comm_call *call,
                       struct ddp_err *err)
{
    size_t len = comm_call_len(call), got;
    (void)err;
    if (c->rank == call->root) {
        ddp_assert(len <= SENT - nsent);
        memcpy(sent + nsent, call->in, len);
        nsent += len;
        return 0;
    }
    const uint8_t *said = fuzz_bytes(&in, len, &got);
    memset(call->out, 0, len);
    memcpy(call->out, said, got);
    return 0;
}

/* False: what was asked for is not there. */
static bool answer(struct ranges_ask *ask, struct image_range **ranges)
{
    static const struct comm_ops ops = {.call = call_holder};
    struct ddp_comm few = {.ops = &ops, .rank = 0, .world = 2};
    struct keeper_talk t = {.few = &few, .root = 0, .asker = 1};
    struct ddp_err err;
    ddp_assert(keeper_talk_open(&t, &err) == 0);
    int rc = keeper_hear(&t, ask, ranges, &err);
    if (rc == 0)
        rc = ranges_check(*ranges, (size_t)ask->n, &header, &err);
    ddp_assert(rc == 0 || err.code == DDP_E_PROTO);
    for (int64_t i = 0; rc == 0 && i < ask->n; i++) {
        const struct image_range *r = &(*ranges)[i];
        ddp_assert(keeper_put_range(&t,
                                    image + tensors[r->tensor].begin + r->begin,
                                    r->end - r->begin, &err) == 0);
    }
    ddp_assert(rc != 0 || t.left == 0);
    keeper_talk_close(&t);
    return rc == 0;
}

/* -- the rank that asks ---------------------------------------------------- */

static void change(uint8_t *data, size_t len)
{
    size_t at = (size_t)fuzz_u16(&in) * STEP % len;
    data[at] ^= (uint8_t)(1 << fuzz_u8(&in) % 8);
    changed = true;
}

static int call_asker(struct ddp_comm *c,
                      const struct comm_call *call,
                      struct ddp_err *err)
{
    size_t len = comm_call_len(call);
    if (c->rank == call->root)
        return 0;
    if (len > nsent - nheard)
        return ddp_err_set(err, DDP_E_PEER, "the other rank is gone");
    memcpy(call->out, sent + nheard, len);
    nheard += len;
    if (in.left > 0)
        change(call->out, len);
    return 0;
}

static void ask_for(const struct ranges_ask *ask,
                    const struct image_range *ranges)
{
    static const struct comm_ops ops = {.call = call_asker};
    struct ddp_comm few = {.ops = &ops, .rank = 1, .world = 2};
    struct keeper_talk t = {.few = &few, .root = 0, .asker = 1};
    struct ddp_err err;
    uint8_t *got = malloc(BYTES);
    ddp_assert(got != NULL && keeper_talk_open(&t, &err) == 0);
    ddp_assert(keeper_ask(&t, ask, ranges, &err) == 0);
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < ask->n; i++) {
        const struct image_range *r = &ranges[i];
        const size_t len = (size_t)(r->end - r->begin);
        rc = keeper_get_range(&t, got, len, &err);
        ddp_assert(
            rc != 0 ||
            memcmp(got, image + tensors[r->tensor].begin + r->begin, len) == 0);
    }
    ddp_assert((rc != 0) == changed);
    ddp_assert(rc == 0 || err.code == DDP_E_CORRUPT || err.code == DDP_E_PEER);
    keeper_talk_close(&t);
    free(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ranges_ask ask;
    struct image_range *ranges;
    for (size_t i = 0; image[1] == 0 && i < BYTES; i++)
        image[i] = (uint8_t)(i * 31 + i / 251);
    in = (struct fuzz_in){data, size};
    nsent = nheard = 0;
    changed = false;
    if (answer(&ask, &ranges))
        ask_for(&ask, ranges);
    free(ranges);
    return 0;
}
