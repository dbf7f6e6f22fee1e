/*
 * IDX, as LeCun's page of MNIST describes it: two zero bytes, the type (8 is
 * unsigned byte), the number of dimensions, each dimension as 32 bits
 * big-endian, the elements in row-major order, nothing behind them. zlib's
 * gzread reads a plain file as it is.
 *
 * A header may claim anything, so sizes are bounded before memory is asked
 * for, and a file must end where its header says.
 */
#include "trainer/data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "trainer/ops/fail.h"
#include "trainer/ops/random.h"

#define IDX_TYPE_UBYTE 8
#define IDX_DIMS_MAX   3
#define IDX_SAMPLES    10000000u  /* at most */
#define IDX_SIDE       4096u      /* pixels, at most */
#define IDX_BYTES      (1u << 30) /* at most */
#define PATH_SIZE      4096
#define READ_MAX       (1u << 20) /* gzread counts in int */
#define REMEDY                                                                 \
    "run `apt install dataset-fashion-mnist`, or give a folder of IDX files "  \
    "with --data=FOLDER"

struct idx {
    uint32_t dim[IDX_DIMS_MAX];
    uint8_t *bytes; /* owned */
};

/* Finds the file with or without ".gz"; if there is neither, says where it
 * looked. */
static gzFile idx_open(char path[PATH_SIZE],
                       const char *dir,
                       const char *name,
                       struct ddp_error *err)
{
    static const char *const endings[] = {".gz", ""};
    for (size_t i = 0; i < 2; i++) {
        int n = snprintf(path, PATH_SIZE, "%s/%s%s", dir, name, endings[i]);
        if (n < 0 || n >= PATH_SIZE) {
            fail_set(err, DDP_ERR_NOINPUT, "the path of --data is too long");
            return NULL;
        }
        gzFile f = gzopen(path, "rb");
        if (f != NULL)
            return f;
        if (errno != ENOENT && errno != ENOTDIR) {
            fail_sys(err, DDP_ERR_NOINPUT, "cannot open %s", path);
            return NULL;
        }
    }
    fail_set(err, DDP_ERR_NOINPUT, "there is no file %s[.gz]; %s", path,
             REMEDY);
    return NULL;
}

/* Reads `len` bytes or says why there are fewer. */
static int idx_read(
    gzFile f, const char *path, uint8_t *to, size_t len, struct ddp_error *err)
{
    size_t got = 0;
    while (got < len) {
        size_t want = len - got < READ_MAX ? len - got : READ_MAX;
        int n = gzread(f, to + got, (unsigned)want);
        if (n > 0) {
            got += (size_t)n;
            continue;
        }
        int code = Z_OK;
        const char *why = gzerror(f, &code);
        if (n < 0 && code == Z_ERRNO)
            return fail_sys(err, DDP_ERR_NOINPUT, "cannot read %s", path);
        if (n < 0 && code != Z_BUF_ERROR)
            return fail_set(err, DDP_ERR_CORRUPT, "%s is damaged: %s; %s", path,
                            why, REMEDY);
        return fail_set(err, DDP_ERR_CORRUPT,
                        "%s is cut short, %zu bytes are missing; %s", path,
                        len - got, REMEDY);
    }
    return 0;
}

/* Reads and judges the header. */
static int idx_header(gzFile f,
                      const char *path,
                      struct idx *idx,
                      unsigned dims,
                      struct ddp_error *err)
{
    uint8_t head[4 + 4 * IDX_DIMS_MAX];
    if (idx_read(f, path, head, 4 + 4 * (size_t)dims, err) != 0)
        return -1;
    if (head[0] != 0 || head[1] != 0 || head[2] != IDX_TYPE_UBYTE ||
        head[3] != dims)
        return fail_set(
            err, DDP_ERR_CORRUPT,
            "%s is not an IDX file of bytes with %u dimension%s: it "
            "starts with %02x%02x%02x%02x, not 0000%02x%02x; %s",
            path, dims, dims == 1 ? "" : "s", head[0], head[1], head[2],
            head[3], IDX_TYPE_UBYTE, dims, REMEDY);
    for (unsigned i = 0; i < dims; i++) {
        const uint8_t *p = head + 4 + 4 * (size_t)i;
        uint32_t max = i == 0 ? IDX_SAMPLES : IDX_SIDE;
        idx->dim[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
                      (uint32_t)p[2] << 8 | (uint32_t)p[3];
        if (idx->dim[i] < 1 || idx->dim[i] > max)
            return fail_set(err, DDP_ERR_CORRUPT,
                            "%s: dimension %u is %u, must be 1 to %u", path,
                            i + 1, (unsigned)idx->dim[i], (unsigned)max);
    }
    return 0;
}

/* The elements, and that nothing comes behind them. */
static int idx_body(gzFile f,
                    const char *path,
                    struct idx *idx,
                    unsigned dims,
                    struct ddp_error *err)
{
    uint64_t len = 1; /* < 10^7 * 2^24, cannot overflow */
    for (unsigned i = 0; i < dims; i++)
        len *= idx->dim[i];
    if (len > IDX_BYTES)
        return fail_set(err, DDP_ERR_CORRUPT,
                        "the header of %s says %llu bytes, the limit is %u",
                        path, (unsigned long long)len, IDX_BYTES);
    idx->bytes = malloc((size_t)len);
    if (idx->bytes == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %s", path);
    if (idx_read(f, path, idx->bytes, (size_t)len, err) != 0)
        return -1;
    uint8_t more = 0;
    int code = Z_OK;
    int n = gzread(f, &more, 1);
    if (n > 0)
        return fail_set(err, DDP_ERR_CORRUPT,
                        "%s is longer than its header says", path);
    if (n < 0)
        return fail_set(err, DDP_ERR_CORRUPT,
                        "the end of %s is damaged: %s; %s", path,
                        gzerror(f, &code), REMEDY);
    return 0;
}

static int idx_load(struct idx *idx,
                    const char *dir,
                    const char *name,
                    unsigned dims,
                    struct ddp_error *err)
{
    char path[PATH_SIZE];
    *idx = (struct idx){0};
    gzFile f = idx_open(path, dir, name, err);
    if (f == NULL)
        return -1;
    (void)gzbuffer(f, 128 * 1024); /* faster; the default works too */
    int rc = idx_header(f, path, idx, dims, err);
    if (rc == 0)
        rc = idx_body(f, path, idx, dims, err);
    if (gzclose(f) != Z_OK && rc == 0)
        rc = fail_set(err, DDP_ERR_CORRUPT,
                      "%s ends in the middle of its last block; %s", path,
                      REMEDY);
    if (rc != 0) {
        free(idx->bytes);
        *idx = (struct idx){0};
    }
    return rc;
}

/* One half of the data: `part` is "train" or "t10k". */
static int load_part(struct dataset *s,
                     const char *dir,
                     const char *part,
                     struct ddp_error *err)
{
    char images_name[64], labels_name[64];
    struct idx images, labels;
    (void)snprintf(images_name, sizeof(images_name), "%s-images-idx3-ubyte",
                   part);
    (void)snprintf(labels_name, sizeof(labels_name), "%s-labels-idx1-ubyte",
                   part);
    if (idx_load(&images, dir, images_name, 3, err) != 0)
        return -1;
    s->pixels = images.bytes;
    s->N = images.dim[0];
    s->F = (size_t)images.dim[1] * images.dim[2];
    if (idx_load(&labels, dir, labels_name, 1, err) != 0)
        return -1;
    s->labels = labels.bytes;
    if (labels.dim[0] != images.dim[0])
        return fail_set(err, DDP_ERR_CORRUPT,
                        "in %s, the number of images in %s is %u, but that of "
                        "labels in %s is %u",
                        dir, images_name, (unsigned)images.dim[0], labels_name,
                        (unsigned)labels.dim[0]);
    for (size_t i = 0; i < s->N; i++)
        if (s->labels[i] >= s->C)
            s->C = s->labels[i] + (size_t)1;
    return 0;
}

/* Mean and deviation of the training set's pixels, for both sets: the model
 * must see test images as it saw those of its training. Integer sums are exact,
 * so all ranks find the same bits. */
static void measure_pixels(struct data *d)
{
    const struct dataset *s = &d->train;
    uint64_t sum = 0, squares = 0; /* < 2^30 * 2^16 */
    for (size_t i = 0; i < s->N * s->F; i++) {
        unsigned p = s->pixels[i];
        sum += p;
        squares += p * p;
    }
    double n = (double)(s->N * s->F);
    double mean = (double)sum / n;
    double variance = (double)squares / n - mean * mean;
    /* Images that are all of one grey have none: divide by 1 then. */
    float deviation = variance > 1e-6 ? (float)sqrt(variance) : 1.0f;
    d->train.mean = d->test.mean = (float)mean;
    d->train.deviation = d->test.deviation = deviation;
}

int data_load_idx(struct data *d, const char *dir, struct ddp_error *err)
{
    *d = (struct data){0};
    if (load_part(&d->train, dir, "train", err) != 0 ||
        load_part(&d->test, dir, "t10k", err) != 0)
        goto fail;
    if (d->test.F != d->train.F) {
        fail_set(err, DDP_ERR_CORRUPT,
                 "in %s, images have %zu pixels for training and %zu for "
                 "the test",
                 dir, d->train.F, d->test.F);
        goto fail;
    }
    if (d->train.C < 2 || d->test.C > d->train.C) {
        fail_set(err, DDP_ERR_CORRUPT,
                 "in %s, the number of classes is %zu for training and %zu for "
                 "the test",
                 dir, d->train.C, d->test.C);
        goto fail;
    }
    d->test.C = d->train.C;
    measure_pixels(d);
    return 0;
fail:
    data_free(d);
    return -1;
}

static int
make_room(struct dataset *s, size_t N, size_t F, struct ddp_error *err)
{
    *s = (struct dataset){.N = N, .F = F, .T = 1};
    s->x = malloc(N * F * sizeof(*s->x));
    s->y = malloc(N * sizeof(*s->y));
    if (s->x == NULL || s->y == NULL)
        return fail_sys(err, DDP_ERR_NOMEM, "no memory for %zu sample%s", N,
                        N == 1 ? "" : "s");
    return 0;
}

int data_make_linear(struct data *d, uint64_t seed, struct ddp_error *err)
{
    struct dataset *s = &d->train;
    *d = (struct data){0};
    if (make_room(s, 2048, 20, err) != 0) {
        data_free(d);
        return -1;
    }
    random_uniform(s->x, s->N * s->F, 0.0f, 1.0f, &seed);
    random_uniform(s->y, s->N * s->T, 0.0f, 1.0f, &seed);
    return 0;
}

int data_make_regression(struct data *d, uint64_t seed, struct ddp_error *err)
{
    *d = (struct data){0};
    if (make_room(&d->train, 100000, 1, err) != 0 ||
        make_room(&d->test, 10000, 1, err) != 0) {
        data_free(d);
        return -1;
    }
    float a;
    random_uniform(&a, 1, 1.0f, 10.0f, &seed);
    struct dataset *sets[] = {&d->train, &d->test};
    for (size_t k = 0; k < 2; k++) {
        struct dataset *s = sets[k];
        random_normal(s->x, s->N, &seed);
        random_normal(s->y, s->N, &seed); /* the noise */
        for (size_t i = 0; i < s->N; i++)
            s->y[i] += a * s->x[i];
    }
    return 0;
}

static void dataset_free(struct dataset *s)
{
    free(s->pixels);
    free(s->labels);
    free(s->x);
    free(s->y);
    *s = (struct dataset){0};
}

void data_free(struct data *d)
{
    dataset_free(&d->train);
    dataset_free(&d->test);
}

void data_gather(const struct dataset *d,
                 const uint32_t *index,
                 size_t B,
                 struct data_batch *out)
{
    size_t F = d->F;
    float scale = d->C > 0 ? 1.0f / d->deviation : 0.0f;
    for (size_t s = 0; s < B; s++) {
        size_t i = index[s];
        if (d->C > 0) {
            const uint8_t *from = d->pixels + i * F;
            for (size_t f = 0; f < F; f++)
                out->x[s * F + f] = ((float)from[f] - d->mean) * scale;
            out->labels[s] = d->labels[i];
        } else {
            memcpy(out->x + s * F, d->x + i * F, F * sizeof(float));
            memcpy(out->y + s * d->T, d->y + i * d->T, d->T * sizeof(float));
        }
    }
}
