/*
 * worker_rt/snapshot/image: the layout and the header of a file to be.
 *
 * Happy path: init checks the names, places the tensors and writes the header
 * once with zeros for checksums, to know its length; hash_end notes each sum;
 * header writes it again, with the sums, and puts its own sum into it.
 *
 * Failure modes: names, dtypes, shapes or pairs that no file can have (USAGE)
 * and no memory, both in init. Later only `header` can fail, for want of
 * memory: its length cannot change, since every checksum has as many digits.
 */
#include "worker_rt/snapshot/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_rt/rt.h"
#include "worker_rt/snapshot/snapshot.h"

/* A tensor's checksum as a pair; its name stands behind the key's prefix. */
struct image_sum {
    char key[SNAPSHOT_KEY_MAX];
    char digits[SNAPSHOT_DIGITS + 1];
};
#define PREFIX_LEN (sizeof(SNAPSHOT_DATA_KEY) - 1)

struct image_pair {
    char key[DDP_NAME_MAX];
    char value[DDP_KV_MAX];
};

static int check_meta(const struct ddp_kv *meta, size_t n, struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (meta[i].key == NULL || strlen(meta[i].key) >= DDP_NAME_MAX ||
            strncmp(meta[i].key, "ddp.", 4) == 0)
            return ddp_err_set(
                err, DDP_E_USAGE,
                "key %zu of the metadata is missing, too long or "
                "begins with 'ddp.'",
                i);
        if (memchr(meta[i].value, '\0', sizeof(meta[i].value)) == NULL)
            return ddp_err_set(err, DDP_E_USAGE,
                               "the value of %s does not end with a NUL",
                               meta[i].key);
    }
    return 0;
}

/* Those of libddp in `meta`. */
#define OWN_META 4

static int
reserve(struct image *m, size_t nmeta, size_t npairs, struct ddp_err *err)
{
    size_t n = m->ntensors + 1; /* a size of 0 might give NULL */
    m->tensors = calloc(n, sizeof(*m->tensors));
    m->order = calloc(n, sizeof(*m->order));
    m->sums = calloc(n, sizeof(*m->sums));
    m->meta = calloc(nmeta + OWN_META, sizeof(*m->meta));
    m->pairs = calloc(n + nmeta + OWN_META + 2 + npairs, sizeof(*m->pairs));
    m->hash = XXH3_createState();
    if (m->tensors == NULL || m->order == NULL || m->sums == NULL ||
        m->meta == NULL || m->pairs == NULL || m->hash == NULL)
        return snapshot_no_memory(err);
    return 0;
}

/* The names go over to the image once the order is known. */
static int
place(struct image *m, const struct ddp_tensor *from, struct ddp_err *err)
{
    for (size_t i = 0; i < m->ntensors; i++) {
        const struct ddp_tensor *t = &from[i];
        m->tensors[i] = (struct safetensor){
            .name = t->name, .dtype = t->dtype, .dims = t->dims};
        memcpy(m->tensors[i].shape, t->shape, sizeof(t->shape));
    }
    if (safetensors_place(m->tensors, m->order, m->ntensors, err) != 0)
        return -1;
    for (size_t i = 0; i < m->ntensors; i++) {
        struct image_sum *sum = &m->sums[i];
        (void)snprintf(sum->key, /* fits: snapshot_check_tensors */
                       sizeof(sum->key), SNAPSHOT_DATA_KEY "%s",
                       m->tensors[i].name);
        memcpy(sum->digits, SNAPSHOT_NO_DIGITS, sizeof(sum->digits));
        m->tensors[i].name = sum->key + PREFIX_LEN;
    }
    if (m->ntensors > 0)
        m->data_len = m->tensors[m->ntensors - 1].end;
    return 0;
}

static void add_pair(struct image *m, const char *key, const char *value)
{
    m->pairs[m->npairs++] = (struct safetensors_pair){key, value};
}

/* All text on the heap: the image may be moved. */
static void add_meta(struct image *m, const char *key, const char *value)
{
    struct image_pair *to = &m->meta[m->nmeta++];
    (void)snprintf(to->key, sizeof(to->key), "%s", key);       /* measured */
    (void)snprintf(to->value, sizeof(to->value), "%s", value); /* measured */
    add_pair(m, to->key, to->value);
}

static void add_number(struct image *m, const char *key, int64_t value)
{
    char number[24];
    (void)snprintf(number, sizeof(number), "%lld", (long long)value); /* fits */
    add_meta(m, key, number);
}

static void fill_pairs(struct image *m,
                       const struct ddp *d,
                       const struct image_about *about,
                       const struct ddp_kv *meta,
                       size_t nmeta)
{
    add_pair(m, SNAPSHOT_HEADER_KEY, SNAPSHOT_NO_DIGITS);
    add_pair(m, SNAPSHOT_FORMAT_KEY, SNAPSHOT_FORMAT);
    add_meta(m, "ddp.instance", d->instance);
    add_number(m, "ddp.round", d->fence);
    if (about->step >= 0)
        add_number(m, "ddp.step", about->step);
    if (about->save > 0)
        add_number(m, SNAPSHOT_SAVE_KEY, about->save);
    for (size_t i = 0; i < about->npairs; i++)
        add_pair(m, about->pairs[i].key, about->pairs[i].value);
    for (size_t i = 0; i < nmeta; i++)
        add_meta(m, meta[i].key, meta[i].value);
    for (size_t i = 0; i < m->ntensors; i++)
        add_pair(m, m->sums[i].key, m->sums[i].digits);
    ddp_assert(m->nmeta <= nmeta + OWN_META); /* as reserved */
    ddp_assert(m->npairs <= m->ntensors + nmeta + OWN_META + 2 + about->npairs);
}

/* As the checksums stand now: its length never depends on them. */
static int write_header(struct image *m, struct ddp_err *err)
{
    buf_free(&m->header);
    return safetensors_write(&m->header, m->tensors, m->ntensors, m->pairs,
                             m->npairs, err);
}

int image_init(struct image *m,
               const struct ddp *d,
               const struct image_about *about,
               const struct ddp_tensor *tensors,
               size_t ntensors,
               const struct ddp_kv *meta,
               size_t nmeta,
               struct ddp_err *err)
{
    *m = (struct image){.ntensors = ntensors};
    buf_init(&m->header, SAFETENSORS_HEADER_MAX);
    if (check_meta(meta, nmeta, err) != 0 ||
        snapshot_check_tensors(tensors, ntensors, err) != 0 ||
        reserve(m, nmeta, about->npairs, err) != 0 ||
        place(m, tensors, err) != 0)
        return -1;
    fill_pairs(m, d, about, meta, nmeta);
    if (write_header(m, err) != 0)
        return -1;
    m->header_len = buf_len(&m->header);
    return 0;
}

void image_free(struct image *m)
{
    buf_free(&m->header);
    if (m->hash != NULL)
        (void)XXH3_freeState(m->hash); /* cannot fail */
    free(m->tensors);
    free(m->order);
    free(m->sums);
    free(m->meta);
    free(m->pairs);
    *m = (struct image){0};
}

uint64_t image_len(const struct image *m)
{
    return m->header_len + m->data_len;
}

uint64_t image_at(const struct image *m, size_t i)
{
    ddp_assert(i < m->ntensors && m->header_len > 0);
    return m->header_len + m->tensors[i].begin;
}

uint64_t image_size(const struct image *m, size_t i)
{
    ddp_assert(i < m->ntensors);
    return m->tensors[i].end - m->tensors[i].begin;
}

void image_hash_begin(struct image *m)
{
    (void)XXH3_128bits_reset(m->hash); /* these cannot fail */
}

void image_hash(struct image *m, const uint8_t *data, size_t len)
{
    (void)XXH3_128bits_update(m->hash, data, len);
}

void image_hash_end(struct image *m, size_t i)
{
    ddp_assert(i < m->ntensors);
    snapshot_hex(m->sums[i].digits, XXH3_128bits_digest(m->hash));
}

const uint8_t *image_header(struct image *m, struct ddp_err *err)
{
    char digits[SNAPSHOT_DIGITS + 1];
    if (write_header(m, err) != 0)
        return NULL;
    ddp_assert(buf_len(&m->header) == m->header_len);
    uint8_t *header = m->header.data + m->header.start;
    ddp_assert(memcmp(header + 8, SNAPSHOT_BEGIN, SNAPSHOT_BEGIN_LEN) == 0);
    snapshot_header_hex(digits, m->hash, header, m->header_len);
    memcpy(header + SNAPSHOT_DIGITS_AT, digits, SNAPSHOT_DIGITS);
    return header;
}
