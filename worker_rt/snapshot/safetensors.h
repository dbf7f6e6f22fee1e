/*
 * worker_rt/snapshot/safetensors: the header of a safetensors file, to and from
 * memory; no I/O. A file is: 8 bytes N (little-endian), N bytes of JSON, then
 * the data of all tensors without a gap. Ours pads the JSON with spaces so that
 * the data begins at a multiple of 64.
 *
 * The reader believes nothing: sizes, counts and depths are bounded before
 * memory is spent on them, a key that comes twice, an offset that overlaps,
 * leaves a hole or does not fit dtype and shape is refused (CORRUPT).
 */
#ifndef WORKER_RT_SNAPSHOT_SAFETENSORS_H
#define WORKER_RT_SNAPSHOT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"
#include "worker_rt/ddp.h"

/* Bytes of a header, the format's own limit; and how many tensors, ours. */
#define SAFETENSORS_HEADER_MAX  ((size_t)100000000)
#define SAFETENSORS_TENSORS_MAX ((size_t)65536)
#define SAFETENSORS_ALIGN       ((size_t)64)

struct safetensor {
    const char *name; /* not "__metadata__" */
    enum ddp_dtype dtype;
    int dims;
    uint64_t shape[DDP_DIMS_MAX];
    uint64_t begin; /* in the data .. */
    uint64_t end;   /* .. one behind */
};

/* An entry of __metadata__. */
struct safetensors_pair {
    const char *key;
    const char *value;
};

struct safetensors {
    struct safetensor *tensors; /* in the order of their data */
    size_t ntensors;
    struct safetensors_pair *pairs; /* in the order of their keys */
    size_t npairs;
    void *json; /* owns the strings */
};

/*
 * Understands a header of `len` bytes (without the 8 before it) whose file has
 * `data_len` bytes of data. CORRUPT, CONFIG (a dtype that is not known), NOMEM.
 * On success the caller frees with
 * safetensors_free.
 */
int safetensors_parse(const uint8_t *json,
                      size_t len,
                      uint64_t data_len,
                      struct safetensors *out,
                      struct ddp_err *err);
void safetensors_free(struct safetensors *st);

/* By key; NULL: not there. */
const char *safetensors_value(const struct safetensors *st, const char *key);

/* USAGE: no tensor of a header can have that name. */
int safetensors_check_name(const char *name, struct ddp_err *err);

/*
 * Appends a whole header, its 8 bytes and the padding included, to `out`.
 * Pairs and tensors are written in the order given; the offsets must be set,
 * see safetensors_place. USAGE (a name or text that is not UTF-8, names twice,
 * keys twice), NOMEM (`out` is full).
 */
int safetensors_write(struct buf *out,
                      const struct safetensor *tensors,
                      size_t ntensors,
                      const struct safetensors_pair *pairs,
                      size_t npairs,
                      struct ddp_err *err);

/*
 * Orders the tensors by the size of their elements, the largest first, so that
 * each lies aligned in the file, and sets their offsets one behind the other.
 * `order[i]` becomes the index that the i-th tensor had before. USAGE: a bad
 * dtype or shape.
 */
int safetensors_place(struct safetensor *tensors,
                      size_t *order,
                      size_t n,
                      struct ddp_err *err);

/* Bytes of a tensor; -1 for what is none (dtype, dims, overflow). */
int safetensors_len(enum ddp_dtype dtype,
                    int dims,
                    const uint64_t *shape,
                    uint64_t *len);

#endif
