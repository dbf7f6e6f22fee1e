/* links: worker_rt/snapshot/{snapshot,load,image,safetensors} */
/* links: rendezvous/base/{utf8,dial,err,mono,rng,buf,json} */
/* links: worker_rt/{env,proof,fork,abi,death_sign} rendezvous/proto/c10d */
/* links: rendezvous/client/store worker_rt/comm/reduce */
/* libs: -lcjson -lxxhash */
/*
 * Images of snapshots: whole or refused.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/rt.h"
#include "worker_rt/snapshot/image.h"
#include "worker_rt/snapshot/snapshot.h"

#define INSTANCE "000102030405060708090a0b0c0d0e0f"

static const struct ddp d = {.instance = INSTANCE, .fence = 3};

/* -- a small model --------------------------------------------------------- */

struct model {
    float w[5][3];
    double bias;
    int64_t ids[4];
    uint8_t bytes[7];
    struct ddp_tensor t[5];
    struct ddp_kv kv[3];
};
#define TENSORS 5

static void shape_model(struct model *m)
{
    memset(m, 0, sizeof(*m));
    m->t[0] = (struct ddp_tensor){"bytes", DDP_U8, 1, {7}, m->bytes};
    m->t[1] = (struct ddp_tensor){"w", DDP_F32, 2, {5, 3}, m->w};
    m->t[2] = (struct ddp_tensor){"bias", DDP_F64, 0, {0}, &m->bias};
    m->t[3] = (struct ddp_tensor){"ids \"x\"", DDP_I64, 1, {4}, m->ids};
    m->t[4] = (struct ddp_tensor){"none", DDP_F32, 1, {0}, NULL};
    m->kv[0].key = "step";
    m->kv[1].key = "epoch";
    m->kv[2].key = "note";
}

static void fill_model(struct model *m, int seed)
{
    shape_model(m);
    for (int i = 0; i < 15; i++)
        m->w[i / 3][i % 3] = (float)(seed * 100 + i) / 7;
    m->bias = seed;
    for (int i = 0; i < 4; i++)
        m->ids[i] = seed - i;
    memset(m->bytes, seed, sizeof(m->bytes));
    ddp_kv_set_i64(&m->kv[0], "step", INT64_C(4111120135943610118) + seed);
    ddp_kv_set_i64(&m->kv[1], "epoch", -seed);
    (void)snprintf(m->kv[2].value, DDP_KV_MAX, "\"quoted\" %d", seed);
}

/* -- its image ------------------------------------------------------------- */

static uint8_t bytes[16384];
static size_t len;

static void make(int seed)
{
    struct model m;
    struct image image;
    struct ddp_err e;
    const struct image_about about = {.step = 7, .save = 2};
    fill_model(&m, seed);
    ck_assert_int_eq(image_init(&image, &d, &about, m.t, TENSORS, m.kv, 3, &e),
                     0);
    len = (size_t)image_len(&image);
    ck_assert_uint_lt(len, sizeof(bytes));
    for (size_t i = 0; i < TENSORS; i++) {
        const uint8_t *data = m.t[image.order[i]].data;
        size_t n = (size_t)image_size(&image, i);
        image_hash_begin(&image);
        image_hash(&image, data, n);
        image_hash_end(&image, i);
        if (n > 0)
            memcpy(bytes + image_at(&image, i), data, n);
    }
    const uint8_t *header = image_header(&image, &e);
    ck_assert_ptr_nonnull(header);
    memcpy(bytes, header, image.header_len);
    image_free(&image);
}

/* 0: it is whole. */
static int read_code(struct ddp_err *e)
{
    struct snapshot_opened o;
    struct snapshot_fence f;
    snapshot_open_memory(&o, bytes, len);
    return snapshot_read(&o.from, &f, e) == 0 ? 0 : (int)e->code;
}

/* Tensors, pairs and fence come back. */
TEST(test_snapshot_image_comes_back)
{
    struct model want, got;
    struct snapshot_opened o;
    struct snapshot_reader r;
    struct ddp_kv none = {.key = "absent", .value = "x"};
    struct ddp_err e;
    int64_t step;
    fill_model(&want, 1);
    shape_model(&got);
    make(1);
    ck_assert_int_eq(read_code(&e), 0);
    snapshot_open_memory(&o, bytes, len);
    ck_assert_int_eq(snapshot_reader_open(&r, &o.from, &e), 0);
    const struct safetensors *st = &r.header.parsed;
    ck_assert_uint_eq(st->ntensors, TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        const struct safetensor *have = st->tensors;
        while (strcmp(have->name, got.t[i].name) != 0)
            ck_assert(++have < st->tensors + TENSORS);
        const struct ddp_tensor is = snapshot_tensor(have);
        ck_assert_int_eq(snapshot_check_fits(&got.t[i], &is, &e), 0);
        ck_assert_int_eq(snapshot_reader_tensor(&r,
                                                (size_t)(have - st->tensors),
                                                got.t[i].data, &e),
                         0);
    }
    ck_assert_mem_eq(got.w, want.w, sizeof(got.w));
    ck_assert_mem_eq(&got.bias, &want.bias, sizeof(got.bias));
    ck_assert_mem_eq(got.ids, want.ids, sizeof(got.ids));
    ck_assert_mem_eq(got.bytes, want.bytes, sizeof(got.bytes));
    ck_assert_int_eq(snapshot_read_meta(&r.header, got.kv, 3, &e), 0);
    ck_assert_int_eq(ddp_kv_get_i64(&got.kv[0], &step, NULL), 0);
    ck_assert_int_eq(step, INT64_C(4111120135943610118) + 1);
    ck_assert_str_eq(got.kv[2].value, want.kv[2].value);
    ck_assert_int_eq(snapshot_read_meta(&r.header, &none, 1, &e), 0);
    ck_assert_str_eq(none.value, "");
    const struct snapshot_fence *f = &r.header.fence;
    ck_assert_str_eq(f->instance, INSTANCE);
    ck_assert(f->round == 3 && f->step == 7 && f->save == 2);
    snapshot_reader_close(&r);
}

/* Arguments that make no image. */
TEST(test_snapshot_image_refuses_bad_arguments)
{
    struct ddp_err e;
    for (int k = 0; k < 8; k++) {
        const struct image_about about = {.step = 1};
        struct image image;
        struct model m;
        char longer[DDP_NAME_MAX + 1];
        fill_model(&m, 1);
        memset(longer, 'n', DDP_NAME_MAX);
        longer[DDP_NAME_MAX] = '\0';
        if (k == 0)
            m.t[0].name = longer;
        if (k == 1)
            m.t[0].name = "w";
        if (k == 2)
            m.t[0].dims = 9;
        if (k == 3)
            m.t[0].data = NULL;
        if (k == 4)
            m.kv[0].key = "ddp.round";
        if (k == 5)
            m.kv[0].key = "epoch";
        if (k == 6)
            memset(m.kv[0].value, 'v', DDP_KV_MAX);
        if (k == 7)
            m.t[0].dtype = (enum ddp_dtype)0;
        ck_assert_int_eq(
            image_init(&image, &d, &about, m.t, TENSORS, m.kv, 3, &e), -1);
        ck_assert_msg(e.code == DDP_E_USAGE, "case %d: %s", k, e.text);
        image_free(&image);
    }
}

/* A name of libddp's own, and a pair without a key: the program's errors. */
TEST(test_snapshot_wanted_is_looked_at)
{
    struct ddp_err e;
    struct ddp_tensor own = {.name = SNAPSHOT_RANKS, .dtype = DDP_U8};
    struct ddp_kv kv[2] = {{.key = "step"}, {.key = NULL}};
    const struct snapshot_wanted names = {.tensors = &own, .ntensors = 1};
    const struct snapshot_wanted pairs = {.meta = kv, .nmeta = 2};
    ck_assert_int_eq(snapshot_check_wanted(&names, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_USAGE);
    ck_assert_int_eq(snapshot_check_wanted(&pairs, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "key 1 "));
}

/* What is no file is told apart. */
TEST(test_snapshot_open_tells_what_is_wrong)
{
    struct ddp_err e;
    struct snapshot_opened o;
    ck_assert_int_eq(snapshot_open(&o, AT_FDCWD, "/no/such/file", &e), -1);
    ck_assert_int_eq(e.code, DDP_E_NOINPUT);
    ck_assert_int_eq(snapshot_open(&o, AT_FDCWD, "/dev/null/x", &e), -1);
    ck_assert_int_eq(e.code, DDP_E_IO);
    ck_assert_int_eq(snapshot_open(&o, AT_FDCWD, "/", &e), -1);
    ck_assert_int_eq(e.code, DDP_E_CORRUPT);
}

/* -- damage ---------------------------------------------------------------- */

/* Cut at every length, and one byte too many: refused. */
TEST(test_snapshot_truncated_anywhere_is_refused)
{
    struct ddp_err e;
    make(1);
    size_t whole = len;
    for (len = 0; len < whole; len++)
        ck_assert_int_eq(read_code(&e), DDP_E_CORRUPT);
    ck_assert_int_eq(read_code(&e), 0);
    len++;
    ck_assert_int_eq(read_code(&e), DDP_E_CORRUPT);
}

/* Every single bit, in header and data: refused. */
TEST(test_snapshot_any_flipped_bit_is_refused)
{
    struct ddp_err e;
    make(1);
    for (size_t i = 0; i < len * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
        ck_assert_int_eq(read_code(&e), DDP_E_CORRUPT);
        bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    ck_assert_int_eq(read_code(&e), 0);
}

/* The text names the tensor whose data is damaged. */
TEST(test_snapshot_damaged_tensor_is_named)
{
    struct ddp_err e;
    make(1);
    bytes[len - 7 - 30] ^= 4; /* behind w come the 7 bytes */
    ck_assert_int_eq(read_code(&e), DDP_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "tensor 'w' has a wrong checksum"));
}

/* Puts `to` in the place of `from`, which is as long, into the header, whose
 * sum is right again. */
static void edit_header(const char *from, const char *to)
{
    char digits[SNAPSHOT_DIGITS + 1];
    size_t header = 8 + (size_t)bytes[0] + ((size_t)bytes[1] << 8);
    ck_assert_uint_lt(header, len);
    uint8_t *at = memmem(bytes, header, from, strlen(from));
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(from));
    XXH3_state_t *state = XXH3_createState();
    snapshot_header_hex(digits, state, bytes, header);
    (void)XXH3_freeState(state);
    memcpy(bytes + SNAPSHOT_DIGITS_AT, digits, SNAPSHOT_DIGITS);
}

/* An image of a newer format is refused; one from before there was a version is
 * read. */
TEST(test_snapshot_format_is_asked_for)
{
    struct ddp_err e;
    make(1);
    edit_header("\"ddp.format\":\"1\"", "\"xxx.format\":\"1\"");
    ck_assert_int_eq(read_code(&e), 0);
    edit_header("\"xxx.format\":\"1\"", "\"ddp.format\":\"2\"");
    ck_assert_int_eq(read_code(&e), DDP_E_CONFIG);
    ck_assert_str_eq(e.text,
                     "it has format 2, and this libddp reads format 1: use the "
                     "version that wrote it, or a newer one");
}

/* -- numbers as text ------------------------------------------------------- */

static const struct {
    const char *text;
    bool good;
    int64_t value;
} numbers[] = {
    {"0", true, 0},
    {"-5", true, -5},
    {"9223372036854775807", true, INT64_MAX},
    {"-9223372036854775808", true, INT64_MIN},
    {"9223372036854775808", false, 0},
    {"", false, 0},
    {"-", false, 0},
    {" 1", false, 0},
    {"+1", false, 0},
    {"1x", false, 0},
    {"0x10", false, 0},
};

CASE("numbers")

/* All 64 bits and nothing else. */
TEST_EACH(test_snapshot_kv_numbers, numbers)
{
    struct ddp_kv kv = {.key = "k"};
    struct ddp_error e;
    int64_t value = 0;
    (void)snprintf(kv.value, DDP_KV_MAX, "%s", numbers[_i].text); /* fits */
    int rc = ddp_kv_get_i64(&kv, &value, &e);
    ck_assert_int_eq(rc, numbers[_i].good ? 0 : -1);
    if (rc == 0)
        ck_assert_int_eq(value, numbers[_i].value);
    else
        ck_assert_int_eq(e.code, DDP_ERR_USAGE);
}

SUITE("snapshot", "images")
