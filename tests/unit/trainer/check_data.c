/* links: trainer/data trainer/ops/random */
/* libs: -lz -lm */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/lib/suite.h"
#include "trainer/data.h"

/* Each test has a folder of its own with four small IDX files: 6 images of 2x3
 * pixels to train, 4 to test, 3 classes. */

#define TRAIN  6
#define TESTED 4
#define PIXELS 6

static char folder[64];
static const char *const names[] = {
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
};
enum {
    TRAIN_IMAGES,
    TRAIN_LABELS,
    TEST_IMAGES,
    TEST_LABELS
};

struct bytes {
    size_t len;
    uint8_t b[128];
};

/* The file as it should be: the pixels count up from 0, the labels go 0, 1, 2,
 * 0, ... */
static struct bytes good(int file)
{
    uint8_t n = file < TEST_IMAGES ? TRAIN : TESTED;
    bool images = file == TRAIN_IMAGES || file == TEST_IMAGES;
    struct bytes f = {.len = 8, .b = {0, 0, 8, images ? 3 : 1, 0, 0, 0, n}};
    if (images) {
        f.b[11] = 2;
        f.b[15] = 3;
        f.len = 16;
    }
    for (uint8_t i = 0; i < (images ? n * PIXELS : n); i++)
        f.b[f.len++] = images ? i : i % 3;
    return f;
}

static void path_of(char path[256], int file, const char *ending)
{
    (void)snprintf(path, 256, "%s/%s%s", folder, names[file], ending);
}

static void put(int file, const struct bytes *f)
{
    char path[256];
    path_of(path, file, "");
    FILE *out = fopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(f->b, 1, f->len, out), f->len);
    ck_assert_int_eq(fclose(out), 0);
}

static void put_gzip(int file, const struct bytes *f)
{
    char path[256];
    path_of(path, file, ".gz");
    gzFile out = gzopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(gzwrite(out, f->b, (unsigned)f->len), (int)f->len);
    ck_assert_int_eq(gzclose(out), Z_OK);
}

static void setup(void)
{
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%.40s/check_data.XXXXXX",
                   tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < 4; i++) {
        struct bytes f = good(i);
        put(i, &f);
    }
}

static void teardown(void)
{
    char path[256];
    for (int i = 0; i < 4; i++) {
        path_of(path, i, "");
        (void)remove(path); /* may not be there */
        path_of(path, i, ".gz");
        (void)remove(path);
    }
    (void)rmdir(folder); /* left over only if a test failed */
}

/* Fails with that code, names `file` and says `words`; nothing is left. */
static void
refused(int code, const char *file, const char *words, struct ddp_error *err)
{
    struct data d;
    memset(&d, 0xff, sizeof(d));
    ck_assert_int_eq(data_load_idx(&d, folder, err), -1);
    ck_assert_int_eq(err->code, code);
    ck_assert_msg(strstr(err->text, file) != NULL, "%s: not in: %s", file,
                  err->text);
    ck_assert_msg(strstr(err->text, words) != NULL, "%s: not in: %s", words,
                  err->text);
    ck_assert_ptr_null(d.train.pixels);
    ck_assert_ptr_null(d.test.labels);
}

static void whole(const struct data *d)
{
    ck_assert_uint_eq(d->train.N, TRAIN);
    ck_assert_uint_eq(d->test.N, TESTED);
    ck_assert_uint_eq(d->train.F, PIXELS);
    ck_assert_uint_eq(d->train.C, 3);
    ck_assert_uint_eq(d->test.C, 3);
    ck_assert_uint_eq(d->train.T, 0);
    for (size_t i = 0; i < TRAIN * PIXELS; i++)
        ck_assert_uint_eq(d->train.pixels[i], i);
    for (size_t i = 0; i < TESTED; i++)
        ck_assert_uint_eq(d->test.labels[i], i % 3);
}

TEST(test_idx_plain_loads)
{
    struct data d;
    struct ddp_error err;
    ck_assert_msg(data_load_idx(&d, folder, &err) == 0, "%s", err.text);
    whole(&d);
    data_free(&d);
    ck_assert_ptr_null(d.train.pixels);
}

TEST(test_idx_gzip_loads)
{
    struct data d;
    struct ddp_error err;
    char path[256];
    for (int i = 0; i < 4; i++) {
        struct bytes f = good(i);
        put_gzip(i, &f);
        path_of(path, i, "");
        ck_assert_int_eq(remove(path), 0);
    }
    ck_assert_msg(data_load_idx(&d, folder, &err) == 0, "%s", err.text);
    whole(&d);
    data_free(&d);
}

/* Pixels are 0..35: mean 17.5, variance (36*36-1)/12. A batch comes out with
 * the mean taken off and the deviation divided out, in the order asked for. */
TEST(test_idx_gather_normalizes)
{
    struct data d;
    struct ddp_error err;
    const uint32_t index[] = {5, 0, 5};
    float x[3 * PIXELS];
    uint8_t labels[3];
    struct data_batch batch = {.x = x, .labels = labels};
    ck_assert_int_eq(data_load_idx(&d, folder, &err), 0);
    data_gather(&d.train, index, 3, &batch);
    double deviation = sqrt((36.0 * 36.0 - 1.0) / 12.0);
    for (size_t s = 0; s < 3; s++) {
        ck_assert_uint_eq(labels[s], index[s] % 3);
        for (size_t f = 0; f < PIXELS; f++)
            ck_assert_double_eq_tol(
                (double)x[s * PIXELS + f],
                ((double)(index[s] * PIXELS + f) - 17.5) / deviation, 1e-6);
    }
    ck_assert(d.test.mean == d.train.mean);
    data_free(&d);
}

/* One byte or the length of one file changed: what must be said. */
static const struct damage {
    int file;
    size_t at; /* byte that is overwritten, */
    uint8_t with;
    int longer; /* and bytes added or cut off at the end */
    const char *words;
} damages[] = {
    {TRAIN_IMAGES, 0, 1, 0, "starts with 01000803, not 00000803"},
    {TRAIN_IMAGES, 2, 9, 0, "starts with 00000903"},
    {TRAIN_IMAGES, 3, 1, 0, "starts with 00000801"},
    {TEST_LABELS, 3, 3, 0, "starts with 00000803, not 00000801"},
    {TRAIN_IMAGES, 7, 0, 0, "dimension 1 is 0"},
    {TRAIN_IMAGES, 4, 255, 0, "dimension 1 is 4278190086"},
    {TRAIN_IMAGES, 15, 0, 0, "dimension 3 is 0"},
    {TRAIN_IMAGES, 8, 1, 0, "dimension 2 is 16777218"},
    {TRAIN_IMAGES, 7, 7, 0, "is cut short, 6 bytes are missing"},
    {TRAIN_IMAGES, 7, 5, 0, "is longer than its header says"},
    {TRAIN_IMAGES, 0, 0, -1, "is cut short, 1 bytes are missing"},
    {TRAIN_IMAGES, 0, 0, -36, "is cut short, 36 bytes are missing"},
    {TRAIN_IMAGES, 0, 0, -37, "is cut short, 1 bytes are missing"},
    {TRAIN_IMAGES, 0, 0, -52, "is cut short, 16 bytes are missing"},
    {TEST_LABELS, 0, 0, 1, "is longer than its header says"},
};
#define DAMAGES ((int)(sizeof(damages) / sizeof(damages[0])))

static struct bytes damaged(const struct damage *k)
{
    struct bytes f = good(k->file);
    f.b[k->at] = k->with;
    f.len = (size_t)((int)f.len + k->longer);
    return f;
}

TEST_LOOP(test_idx_damaged_is_refused, 0, DAMAGES)
{
    const struct damage *k = &damages[_i];
    struct bytes f = damaged(k);
    struct ddp_error err;
    put(k->file, &f);
    refused(DDP_ERR_CORRUPT, names[k->file], k->words, &err);
}

TEST_LOOP(test_idx_damaged_inside_gzip_is_refused, 0, DAMAGES)
{
    const struct damage *k = &damages[_i];
    struct bytes f = damaged(k);
    struct ddp_error err;
    put_gzip(k->file, &f);
    refused(DDP_ERR_CORRUPT, names[k->file], k->words, &err);
}

/* A gzip file cut off anywhere is refused, whatever still came out of it. */
TEST(test_idx_gzip_cut_short_is_refused)
{
    struct bytes f = good(TRAIN_IMAGES);
    struct ddp_error err;
    struct stat st;
    char path[256];
    put_gzip(TRAIN_IMAGES, &f);
    path_of(path, TRAIN_IMAGES, ".gz");
    ck_assert_int_eq(stat(path, &st), 0);
    for (off_t len = st.st_size - 1; len > 0; len--) {
        ck_assert_int_eq(truncate(path, len), 0);
        refused(DDP_ERR_CORRUPT, names[TRAIN_IMAGES], ".gz", &err);
    }
}

/* A flipped bit that the format itself does not show: gzip's checksum does. */
TEST(test_idx_gzip_flipped_bit_is_refused)
{
    struct bytes f = good(TRAIN_IMAGES);
    struct ddp_error err;
    struct stat st;
    char path[256];
    uint8_t crc;
    put_gzip(TRAIN_IMAGES, &f);
    path_of(path, TRAIN_IMAGES, ".gz");
    int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(pread(fd, &crc, 1, st.st_size - 8), 1);
    crc ^= 4;
    ck_assert_int_eq(pwrite(fd, &crc, 1, st.st_size - 8), 1);
    ck_assert_int_eq(close(fd), 0);
    refused(DDP_ERR_CORRUPT, names[TRAIN_IMAGES], "damaged", &err);
}

/* The file is named, and the way to get it. */
TEST_LOOP(test_idx_missing_says_what_to_do, 0, 4)
{
    struct ddp_error err;
    char path[256];
    path_of(path, _i, "");
    ck_assert_int_eq(remove(path), 0);
    refused(DDP_ERR_NOINPUT, names[_i], "apt install dataset-fashion-mnist",
            &err);
    ck_assert_ptr_nonnull(strstr(err.text, "--data="));
    ck_assert_ptr_nonnull(strstr(err.text, folder));
}

TEST(test_idx_folder_in_place_of_file_is_refused)
{
    struct ddp_error err;
    char path[256];
    path_of(path, TRAIN_LABELS, "");
    ck_assert_int_eq(remove(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    refused(DDP_ERR_NOINPUT, names[TRAIN_LABELS], "Is a directory", &err);
}

/* Two files that are each right, but do not go together. */
TEST(test_idx_files_that_disagree_are_refused)
{
    struct ddp_error err;
    struct bytes f = good(TRAIN_LABELS);
    f.b[7]--;
    f.len--;
    put(TRAIN_LABELS, &f);
    refused(DDP_ERR_CORRUPT, names[TRAIN_LABELS],
            "that of labels in train-labels-idx1-ubyte is 5", &err);

    f = good(TRAIN_LABELS);
    put(TRAIN_LABELS, &f);
    f = good(TEST_IMAGES);
    f.b[15] = 2;
    f.len -= (size_t)2 * TESTED;
    put(TEST_IMAGES, &f);
    refused(DDP_ERR_CORRUPT, folder, "6 pixels for training and 4", &err);

    f = good(TEST_IMAGES);
    put(TEST_IMAGES, &f);
    f = good(TEST_LABELS);
    f.b[8] = 3;
    put(TEST_LABELS, &f);
    refused(DDP_ERR_CORRUPT, folder, "is 3 for training and 4", &err);
}

CASE("made up", .tags = "fast")

/* The same seed, the same samples, on whichever rank. */
TEST(test_linear_is_the_seeds)
{
    struct data a, b, c;
    struct ddp_error err;
    ck_assert_int_eq(data_make_linear(&a, 1, &err), 0);
    ck_assert_int_eq(data_make_linear(&b, 1, &err), 0);
    ck_assert_int_eq(data_make_linear(&c, 2, &err), 0);
    ck_assert_uint_eq(a.train.N, 2048);
    ck_assert_uint_eq(a.train.F, 20);
    ck_assert_uint_eq(a.train.T, 1);
    ck_assert_uint_eq(a.train.C, 0);
    ck_assert_uint_eq(a.test.N, 0);
    size_t x_len = 2048 * 20 * sizeof(float), y_len = 2048 * sizeof(float);
    ck_assert_mem_eq(a.train.x, b.train.x, x_len);
    ck_assert_mem_eq(a.train.y, b.train.y, y_len);
    ck_assert_mem_ne(a.train.x, c.train.x, x_len);
    data_free(&a);
    data_free(&b);
    data_free(&c);
}

/* The least-squares slope, and what is left over as variance. */
static void fit(const struct dataset *s, double *slope, double *rest)
{
    double xx = 0.0, xy = 0.0, yy = 0.0;
    for (size_t i = 0; i < s->N; i++) {
        double x = (double)s->x[i], y = (double)s->y[i];
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    *slope = xy / xx;
    *rest = (yy - xy * xy / xx) / (double)s->N;
}

/* Training and test set lie on one line, with noise of deviation 1. */
TEST_LOOP(test_regression_is_a_line_with_noise, 0, 4)
{
    struct data d;
    struct ddp_error err;
    double a, b, rest_a, rest_b;
    ck_assert_int_eq(data_make_regression(&d, (uint64_t)_i, &err), 0);
    ck_assert_uint_eq(d.train.N, 100000);
    ck_assert_uint_eq(d.test.N, 10000);
    fit(&d.train, &a, &rest_a);
    fit(&d.test, &b, &rest_b);
    ck_assert(a > 0.9 && a < 10.1);
    ck_assert_double_eq_tol(a, b, 0.05);
    ck_assert_double_eq_tol(rest_a, 1.0, 0.05);
    ck_assert_double_eq_tol(rest_b, 1.0, 0.1);

    const uint32_t index[] = {99999, 3};
    float x[2], y[2];
    struct data_batch batch = {.x = x, .y = y};
    data_gather(&d.train, index, 2, &batch);
    ck_assert(x[0] == d.train.x[99999]);
    ck_assert(y[1] == d.train.y[3]);
    data_free(&d);
}

SUITE("data", "idx", .tags = "fast", FIXTURE(setup, teardown))
