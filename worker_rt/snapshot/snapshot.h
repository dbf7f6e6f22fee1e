/*
 * worker_rt/snapshot/snapshot: what a snapshot is beyond safetensors, for those
 * that make one and read one.
 *
 * Its __metadata__ begins with the pair "ddp.header", whose value is the
 * xxh3_128 (32 hexadecimal digits) of the file up to the data, with zeros in
 * the place of these digits. "ddp.data.<tensor>" is that of a tensor's data,
 * "ddp.instance" and "ddp.round" are the fence, and "ddp.step" is what the
 * keeper took it for. So every byte of the file stands under a checksum.
 */
#ifndef WORKER_RT_SNAPSHOT_SNAPSHOT_H
#define WORKER_RT_SNAPSHOT_SNAPSHOT_H

#include <xxhash.h>

#include "rendezvous/base/err.h"
#include "worker_rt/ddp.h"
#include "worker_rt/snapshot/safetensors.h"

#define SNAPSHOT_HEADER_KEY "ddp.header"
#define SNAPSHOT_DATA_KEY   "ddp.data."
#define SNAPSHOT_KEY_MAX    (sizeof(SNAPSHOT_DATA_KEY) + DDP_NAME_MAX)

/* What a header begins with, before the checksum's digits; 8 bytes of length
 * stand before it. */
#define SNAPSHOT_BEGIN     "{\"__metadata__\":{\"" SNAPSHOT_HEADER_KEY "\":\""
#define SNAPSHOT_BEGIN_LEN (sizeof(SNAPSHOT_BEGIN) - 1)
#define SNAPSHOT_DIGITS    32
#define SNAPSHOT_DIGITS_AT (8 + SNAPSHOT_BEGIN_LEN)
#define SNAPSHOT_NO_DIGITS "00000000000000000000000000000000"

/* The version of what libddp means by its own pairs. It grows if a reader of
 * this version would take a file for something else than it is; a pair more
 * is no reason. Files without it are of version 1. */
#define SNAPSHOT_FORMAT_KEY "ddp.format"
#define SNAPSHOT_FORMAT     "1"

/* Of a rank's pieces: the number of their save, which the images of one save
 * have in common. A step may be saved twice in a round. */
#define SNAPSHOT_SAVE_KEY "ddp.save"

/* Data is hashed in pieces of this size, while they are in the cache. */
#define SNAPSHOT_PIECE ((size_t)1 << 20)

/* A checksum as text. */
void snapshot_hex(char out[SNAPSHOT_DIGITS + 1], XXH128_hash_t hash);

/* A header's checksum, see above. `data` begins with the 8 bytes of length and
 * has more than SNAPSHOT_DIGITS_AT + SNAPSHOT_DIGITS. */
void snapshot_header_hex(char out[SNAPSHOT_DIGITS + 1],
                         XXH3_state_t *state,
                         const uint8_t *data,
                         size_t len);

/* The tensor with what each rank has for itself (keeper_ranks.c). */
#define SNAPSHOT_RANKS "ddp.ranks"

/* USAGE: one of the program's tensors has the name of libddp's own. */
int snapshot_check_names(const struct ddp_tensor *tensors,
                         size_t n,
                         struct ddp_err *err);

/* USAGE: a tensor has no usable name, or no data though it is not empty. */
int snapshot_check_tensors(const struct ddp_tensor *tensors,
                           size_t n,
                           struct ddp_err *err);

int snapshot_no_memory(struct ddp_err *err);

/* Room for one more behind `n` items of so many bytes each: `*list` is from
 * malloc, or NULL, and has room for `*cap`. NOMEM. */
int snapshot_grow(
    void *list, size_t n, size_t *cap, size_t each, struct ddp_err *err);

/* Where an image is read from: `len` bytes at `at`, all of them or an error.
 * The order of the reads depends on the image alone. */
struct snapshot_source {
    int (*read)(
        void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err);
    void *ctx;
    uint64_t size;
};

/* What the caller wants to load. */
struct snapshot_wanted {
    const struct ddp_tensor *tensors; /* all of them must be there */
    struct ddp_kv *meta;
    size_t ntensors;
    size_t nmeta;
    ddp_place_fn *place; /* says where the others go; NULL: nowhere */
    void *place_ctx;
};

/* USAGE: the two above, or a pair has no key. */
int snapshot_check_wanted(const struct snapshot_wanted *wanted,
                          struct ddp_err *err);

/* USAGE: a wanted tensor is not that of the snapshot, or there is none, NULL.
 */
int snapshot_check_fits(const struct ddp_tensor *t,
                        const struct ddp_tensor *have,
                        struct ddp_err *err);

/* The run and the round that wrote it. */
struct snapshot_fence {
    char instance[33];
    int64_t round;
    int64_t step;              /* -1: it does not say */
    int64_t save;              /* see SNAPSHOT_SAVE_KEY; 0: of a whole state */
    char sum[SNAPSHOT_DIGITS]; /* the header's checksum: as the header has those
                                * of all tensors, it tells whole images apart */
};

/* A header that has been read. All zero: nothing to free. */
struct snapshot_header {
    uint8_t *bytes; /* with the 8 of its length */
    size_t len;
    struct safetensors parsed;
    struct snapshot_fence fence;
};

/* Reads the header only, and compares its checksum. CORRUPT, CONFIG (of a newer
 * libddp), NOMEM, what `read` says. On success the caller frees it. */
int snapshot_header_read(struct snapshot_header *h,
                         const struct snapshot_source *from,
                         struct ddp_err *err);
void snapshot_header_free(struct snapshot_header *h);

/* The values of the pairs with these keys; a pair that is not there is an empty
 * text: older snapshots may lack it. CORRUPT: it is too long. */
int snapshot_read_meta(const struct snapshot_header *h,
                       struct ddp_kv *meta,
                       size_t nmeta,
                       struct ddp_err *err);

/* An image that is read tensor by tensor. */
struct snapshot_reader {
    const struct snapshot_source *from; /* borrowed */
    struct snapshot_header header;
    const uint8_t *bytes; /* the source, where it lies in memory; NULL, as after
                           * open: it does not, or nobody has said so */
    uint8_t *scratch;     /* for what goes nowhere, and lies nowhere */
    XXH3_state_t *state;
};

/* Reads the header; the errors of snapshot_header_read. On success the caller
 * closes it. */
int snapshot_reader_open(struct snapshot_reader *r,
                         const struct snapshot_source *from,
                         struct ddp_err *err);
void snapshot_reader_close(struct snapshot_reader *r);

/* The i-th tensor of the header, every byte once, into `to`, or nowhere if that
 * is NULL. CORRUPT (its checksum is wrong: what is in `to` is not it), what
 * `read` says. */
int snapshot_reader_tensor(const struct snapshot_reader *r,
                           size_t i,
                           uint8_t *to,
                           struct ddp_err *err);

/* Every byte once, its checksums compared. CORRUPT, NOMEM, what `read` says. */
int snapshot_read(const struct snapshot_source *from,
                  struct snapshot_fence *fence,
                  struct ddp_err *err);

/* Makes a tensor of the program's from one of a file; without data. */
struct ddp_tensor snapshot_tensor(const struct safetensor *t);

/* An image that is open; it must stay where it is until snapshot_close. */
struct snapshot_opened {
    int fd; /* -1: it lies in memory */
    struct snapshot_source from;
};

/* A regular file, for reading: NOINPUT, IO, CORRUPT. The second: memory, whose
 * bytes are read as they are. */
int snapshot_open(struct snapshot_opened *o,
                  int dir,
                  const char *name,
                  struct ddp_err *err);
void snapshot_open_memory(struct snapshot_opened *o,
                          uint8_t *image,
                          uint64_t len);
void snapshot_close(struct snapshot_opened *o);

#endif
