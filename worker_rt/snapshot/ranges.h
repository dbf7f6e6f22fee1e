/*
 * worker_rt/snapshot/ranges: some bytes of an image, for ranks that cannot open
 * the image. What they ask for, and how the answer is cut up and summed. Pure:
 * no I/O, no state.
 *
 * A rank asks for one range of each tensor of which it wants something. The
 * rank that has the image compares the checksum of each of these tensors, all
 * of it, before it sends the range. The answer is all ranges, one behind the
 * other, cut into parts; each part has a checksum of its own.
 */
#ifndef WORKER_RT_SNAPSHOT_RANGES_H
#define WORKER_RT_SNAPSHOT_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "worker_rt/snapshot/safetensors.h"
#include "worker_rt/snapshot/snapshot.h"

/* It travels, as all below: no gaps. */
struct image_range {
    uint64_t tensor;     /* its index in the image's header */
    uint64_t begin, end; /* bytes of its data */
};
_Static_assert(sizeof(struct image_range) == 24, "no gaps");

/* Before the ranges. */
struct ranges_ask {
    int64_t n;                 /* ranges */
    char sum[SNAPSHOT_DIGITS]; /* of the header that the indexes are of */
};
_Static_assert(sizeof(struct ranges_ask) == 40, "no gaps");

#define RANGES_PART                                                            \
    SNAPSHOT_PIECE /* bytes of data in a part; the last: less                  \
                    */

struct ranges_part {
    int64_t whole;   /* 1. 0: the image is damaged, and there is no more .. */
    uint64_t sum[2]; /* over all that follows */
    char why[232];   /* .. and this is why; else zeros */
    uint8_t data[];
};
_Static_assert(sizeof(struct ranges_part) == 256, "no gaps");

/* The bytes of an answer. PROTO: the tensors do not rise, or a range has no
 * bytes, or there is no such number. */
int ranges_count(const struct image_range *ranges,
                 size_t n,
                 uint64_t *bytes,
                 struct ddp_err *err);

/* Whether an image with that header has them. PROTO. */
int ranges_check(const struct image_range *ranges,
                 size_t n,
                 const struct safetensors *header,
                 struct ddp_err *err);

/* A part with `n` bytes of data becomes one that is sent: whole, or with the
 * reason why it is not, NULL else. Open: what came. CORRUPT: the sum is wrong;
 * or it is not whole, and the text is the sender's reason. */
void ranges_seal(struct ranges_part *p, size_t n, const struct ddp_err *why);
int ranges_open(const struct ranges_part *p, size_t n, struct ddp_err *err);

#endif
