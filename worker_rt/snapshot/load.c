/*
 * worker_rt/snapshot/load: every byte of an image is read once, into the
 * caller's buffer if the tensor is wanted, and its checksum compared. So damage
 * is found at the end at the latest; the snapshot before then overwrites what
 * was read.
 *
 * Happy path of snapshot_read: the header's length, the header and its sum, the
 * fence, each tensor's bytes and their sum. Failure modes: an image that is
 * cut, damaged or foreign (CORRUPT), a disk that fails (IO). Sizes from the
 * file are checked before memory is spent on them.
 */
#include "worker_rt/snapshot/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker_rt/rt.h"

/* -- the header ------------------------------------------------------------ */

/* The length is a stranger's word: it is compared with the size of the file
 * before memory is spent on it. */
static int read_bytes(struct snapshot_header *h,
                      const struct snapshot_source *from,
                      struct ddp_err *err)
{
    uint8_t first[8];
    uint64_t size = from->size, len = 0;
    if (size < sizeof(first))
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "the file has %llu bytes, too few for a snapshot",
                           (unsigned long long)size);
    if (from->read(from->ctx, first, sizeof(first), 0, err) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(first); i++)
        len |= (uint64_t)first[i] << (8 * i);
    if (len > size - sizeof(first) || len > SAFETENSORS_HEADER_MAX ||
        len < SNAPSHOT_DIGITS_AT + SNAPSHOT_DIGITS)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: its length is %llu, but the file has %llu "
                           "bytes",
                           (unsigned long long)len, (unsigned long long)size);
    h->len = sizeof(first) + (size_t)len;
    h->bytes = malloc(h->len);
    if (h->bytes == NULL)
        return snapshot_no_memory(err);
    return from->read(from->ctx, h->bytes, h->len, 0, err);
}

/* The checksum before the parser: what it has to understand is then what a
 * libddp has written, or was made to look like it on purpose. */
static int
parse_header(struct snapshot_header *h, uint64_t size, struct ddp_err *err)
{
    char digits[SNAPSHOT_DIGITS + 1];
    if (memcmp(h->bytes + 8, SNAPSHOT_BEGIN, SNAPSHOT_BEGIN_LEN) != 0)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: libddp did not write it, or its beginning "
                           "is damaged");
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL)
        return snapshot_no_memory(err);
    snapshot_header_hex(digits, state, h->bytes, h->len);
    (void)XXH3_freeState(state); /* cannot fail */
    if (memcmp(digits, h->bytes + SNAPSHOT_DIGITS_AT, SNAPSHOT_DIGITS) != 0)
        return ddp_err_set(err, DDP_E_CORRUPT, "header: wrong checksum");
    return safetensors_parse(h->bytes + 8, h->len - 8, size - h->len,
                             &h->parsed, err);
}

/* A file of a newer libddp is as good as any, but not for this one: no older
 * one may be taken for it in silence. */
static int check_format(const struct snapshot_header *h, struct ddp_err *err)
{
    const char *format = safetensors_value(&h->parsed, SNAPSHOT_FORMAT_KEY);
    if (format == NULL || strcmp(format, SNAPSHOT_FORMAT) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CONFIG,
                       "it has format %.16s, and this libddp reads format "
                       "%s: use the version that wrote it, or a newer one",
                       format, SNAPSHOT_FORMAT);
}

/* A number of libddp's own, which is more than `missing`, if that stands for
 * one that is not there. */
static int read_number(const struct snapshot_header *h,
                       const char *key,
                       int64_t missing,
                       int64_t *value,
                       struct ddp_err *err)
{
    struct ddp_kv kv = {.key = key};
    const char *text = safetensors_value(&h->parsed, key);
    *value = missing;
    if (text == NULL)
        return 0;
    if (strlen(text) < sizeof(kv.value)) {
        memcpy(kv.value, text, strlen(text) + 1);
        if (ddp_kv_get_i64(&kv, value, NULL) == 0 && *value > missing)
            return 0;
    }
    return ddp_err_set(err, DDP_E_CORRUPT, "header: %s is not a number", key);
}

/* Who wrote it: the fence tells a snapshot of this run from one of a run that
 * was here before. */
static int read_fence(struct snapshot_header *h, struct ddp_err *err)
{
    struct snapshot_fence *f = &h->fence;
    const char *instance = safetensors_value(&h->parsed, "ddp.instance");
    if (read_number(h, "ddp.round", -1, &f->round, err) != 0 ||
        read_number(h, "ddp.step", -1, &f->step, err) != 0 ||
        read_number(h, SNAPSHOT_SAVE_KEY, 0, &f->save, err) != 0)
        return -1;
    if (instance == NULL || strlen(instance) != RNG_ID_LEN || f->round < 0)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: ddp.instance or ddp.round is missing");
    memcpy(f->instance, instance, RNG_ID_LEN + 1);
    memcpy(f->sum, h->bytes + SNAPSHOT_DIGITS_AT, SNAPSHOT_DIGITS);
    return 0;
}

int snapshot_header_read(struct snapshot_header *h,
                         const struct snapshot_source *from,
                         struct ddp_err *err)
{
    *h = (struct snapshot_header){0};
    if (read_bytes(h, from, err) == 0 &&
        parse_header(h, from->size, err) == 0 && check_format(h, err) == 0 &&
        read_fence(h, err) == 0)
        return 0;
    snapshot_header_free(h);
    return -1;
}

void snapshot_header_free(struct snapshot_header *h)
{
    safetensors_free(&h->parsed);
    free(h->bytes);
    *h = (struct snapshot_header){0};
}

/* -- what is wanted -------------------------------------------------------- */

int snapshot_check_wanted(const struct snapshot_wanted *wanted,
                          struct ddp_err *err)
{
    for (size_t i = 0; i < wanted->nmeta; i++)
        if (wanted->meta[i].key == NULL)
            return ddp_err_set(err, DDP_E_USAGE,
                               "key %zu of the metadata is missing", i);
    if (snapshot_check_names(wanted->tensors, wanted->ntensors, err) != 0)
        return -1;
    return snapshot_check_tensors(wanted->tensors, wanted->ntensors, err);
}

/* -- tensor by tensor ------------------------------------------------------ */

int snapshot_reader_open(struct snapshot_reader *r,
                         const struct snapshot_source *from,
                         struct ddp_err *err)
{
    *r = (struct snapshot_reader){.from = from};
    r->state = XXH3_createState();
    r->scratch = malloc(SNAPSHOT_PIECE);
    if (r->state == NULL || r->scratch == NULL)
        (void)snapshot_no_memory(err);
    else if (snapshot_header_read(&r->header, from, err) == 0)
        return 0;
    snapshot_reader_close(r);
    return -1;
}

void snapshot_reader_close(struct snapshot_reader *r)
{
    snapshot_header_free(&r->header);
    if (r->state != NULL)
        (void)XXH3_freeState(r->state); /* cannot fail */
    free(r->scratch);
    *r = (struct snapshot_reader){.from = NULL};
}

static int check_sum(const struct snapshot_reader *r,
                     const struct safetensor *t,
                     struct ddp_err *err)
{
    char key[SNAPSHOT_KEY_MAX], digits[SNAPSHOT_DIGITS + 1];
    snapshot_hex(digits, XXH3_128bits_digest(r->state));
    int len = snprintf(key, sizeof(key), SNAPSHOT_DATA_KEY "%s", t->name);
    const char *sum = len < 0 || (size_t)len >= sizeof(key)
                          ? NULL
                          : safetensors_value(&r->header.parsed, key);
    if (sum != NULL && strcmp(sum, digits) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CORRUPT, "tensor '%.80s' has %s checksum",
                       t->name, sum == NULL ? "no" : "a wrong");
}

/*
 * The sum is compared when the data is in the caller's buffer already. A copy
 * beside it would need as much memory again; a caller that gets CORRUPT loads
 * an older snapshot over the data, or ends.
 */
int snapshot_reader_tensor(const struct snapshot_reader *r,
                           size_t i,
                           uint8_t *to,
                           struct ddp_err *err)
{
    ddp_assert(i < r->header.parsed.ntensors);
    const struct safetensor *t = &r->header.parsed.tensors[i];
    uint64_t at = r->header.len + t->begin;
    uint64_t left = t->end - t->begin;
    ddp_assert(t->begin <= t->end && r->header.len <= r->from->size &&
               t->end <= r->from->size - r->header.len); /* safetensors_parse */
    (void)XXH3_128bits_reset(r->state);
    while (left > 0) {
        size_t n = left < SNAPSHOT_PIECE ? (size_t)left : SNAPSHOT_PIECE;
        uint8_t *piece = to == NULL ? r->scratch : to;
        bool lies = to == NULL && r->bytes != NULL;
        if (!lies && r->from->read(r->from->ctx, piece, n, at, err) != 0)
            return -1;
        (void)XXH3_128bits_update(r->state, lies ? r->bytes + at : piece, n);
        to = to == NULL ? NULL : to + n;
        at += n;
        left -= n;
    }
    return check_sum(r, t, err);
}

/* -- one image ------------------------------------------------------------- */

int snapshot_check_fits(const struct ddp_tensor *t,
                        const struct ddp_tensor *have,
                        struct ddp_err *err)
{
    if (have == NULL)
        return ddp_err_set(err, DDP_E_USAGE,
                           "tensor '%.80s' is not in the snapshot", t->name);
    if (have->dtype != t->dtype || have->dims != t->dims ||
        memcmp(have->shape, t->shape, (size_t)t->dims * sizeof(t->shape[0])) !=
            0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "tensor '%.80s' has another dtype or shape in "
                           "the snapshot than in the program",
                           t->name);
    return 0;
}

int snapshot_read_meta(const struct snapshot_header *h,
                       struct ddp_kv *meta,
                       size_t nmeta,
                       struct ddp_err *err)
{
    for (size_t i = 0; i < nmeta; i++) {
        struct ddp_kv *kv = &meta[i];
        const char *value = safetensors_value(&h->parsed, kv->key);
        size_t len = value == NULL ? 0 : strlen(value);
        if (len >= sizeof(kv->value))
            return ddp_err_set(err, DDP_E_CORRUPT,
                               "the value of %.80s is too long: %zu bytes",
                               kv->key, len);
        memcpy(kv->value, value == NULL ? "" : value, len + 1);
    }
    return 0;
}

int snapshot_read(const struct snapshot_source *from,
                  struct snapshot_fence *fence,
                  struct ddp_err *err)
{
    struct snapshot_reader r;
    *fence = (struct snapshot_fence){.round = 0};
    if (snapshot_reader_open(&r, from, err) != 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r.header.parsed.ntensors; i++)
        rc = snapshot_reader_tensor(&r, i, NULL, err);
    *fence = r.header.fence;
    snapshot_reader_close(&r);
    return rc;
}

/* -- one file -------------------------------------------------------------- */

static int read_file(
    void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    const int *fd = ctx;
    while (len > 0) {
        ssize_t n = pread(*fd, data, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ddp_err_sys(err, DDP_E_IO, "cannot read the file");
        if (n == 0)
            return ddp_err_set(err, DDP_E_CORRUPT, "the file ends too early");
        data += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int snapshot_open(struct snapshot_opened *o,
                  int dir,
                  const char *name,
                  struct ddp_err *err)
{
    struct stat st;
    /* Not to wait where somebody has put a FIFO under that name. */
    o->fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (o->fd < 0)
        return ddp_err_sys(err, errno == ENOENT ? DDP_E_NOINPUT : DDP_E_IO,
                           "cannot open the file");
    if (fstat(o->fd, &st) != 0) {
        (void)ddp_err_sys(err, DDP_E_IO, "cannot stat the file");
    } else if (!S_ISREG(st.st_mode)) {
        (void)ddp_err_set(err, DDP_E_CORRUPT, "it is not a regular file");
    } else {
        o->from =
            (struct snapshot_source){read_file, &o->fd, (uint64_t)st.st_size};
        return 0;
    }
    snapshot_close(o);
    return -1;
}

static int read_memory(
    void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    const uint8_t *image = ctx;
    (void)err;
    memcpy(data, image + at, len); /* within `size`: snapshot_read asks so */
    return 0;
}

void snapshot_open_memory(struct snapshot_opened *o,
                          uint8_t *image,
                          uint64_t len)
{
    o->fd = -1;
    o->from = (struct snapshot_source){read_memory, image, len};
}

void snapshot_close(struct snapshot_opened *o)
{
    if (o->fd >= 0)
        (void)close(o->fd); /* only read */
    o->fd = -1;
}
