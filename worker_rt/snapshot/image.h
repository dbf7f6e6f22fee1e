/*
 * worker_rt/snapshot/image: a snapshot's bytes in the making: which tensor lies
 * where, the checksums, the header. It owns all but the tensors' data, so that
 * a thread can finish it while the program trains on. No I/O.
 *
 * Order of work: image_init; image_hash for each tensor's data, as it lies in
 * the file; image_header last, since the checksums stand in it.
 */
#ifndef WORKER_RT_SNAPSHOT_IMAGE_H
#define WORKER_RT_SNAPSHOT_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"
#include "worker_rt/ddp.h"
#include "worker_rt/snapshot/safetensors.h"

struct image_sum;
struct image_pair;

/* What a header says of the image besides the program's pairs. All zero but for
 * `step`: nothing more. */
struct image_about {
    int64_t step;                         /* "ddp.step"; -1: none */
    int64_t save;                         /* "ddp.save"; 0: none */
    const struct safetensors_pair *pairs; /* borrowed until the last
                                           * image_header */
    size_t npairs;
};

/* All zero: nothing to free. It may be moved. */
struct image {
    size_t ntensors;
    struct safetensor *tensors; /* in the order of the file .. */
    size_t *order;              /* .. each one's index in the caller's array */
    struct image_sum *sums;
    struct image_pair *meta; /* libddp's pairs and the caller's */
    size_t nmeta;
    struct safetensors_pair *pairs;
    size_t npairs;
    struct buf header;
    size_t header_len;  /* never changes once the image has been made */
    uint64_t data_len;  /* behind it */
    XXH3_state_t *hash; /* of the tensor that is being hashed */
};

/*
 * Lays the tensors out. Borrows everything else for the call. Errors: USAGE
 * (names twice, too long, not UTF-8; a bad dtype, shape or key), NOMEM;
 * image_free in either case.
 */
int image_init(struct image *m,
               const struct ddp *d,
               const struct image_about *about,
               const struct ddp_tensor *tensors,
               size_t ntensors,
               const struct ddp_kv *meta,
               size_t nmeta,
               struct ddp_err *err);
void image_free(struct image *m);

/* Bytes of the whole file. */
uint64_t image_len(const struct image *m);

/* Where the i-th tensor's data begins in the file, and how long it is. */
uint64_t image_at(const struct image *m, size_t i);
uint64_t image_size(const struct image *m, size_t i);

/* The checksum of the i-th tensor: begun, fed in order, noted. */
void image_hash_begin(struct image *m);
void image_hash(struct image *m, const uint8_t *data, size_t len);
void image_hash_end(struct image *m, size_t i);

/* The finished header, `m->header_len` bytes that live as long as the image;
 * NULL: NOMEM. */
const uint8_t *image_header(struct image *m, struct ddp_err *err);

#endif
