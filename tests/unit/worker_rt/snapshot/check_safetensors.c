/* links: worker_rt/snapshot/safetensors */
/* links: rendezvous/base/{err,utf8,buf,rng,json} worker_rt/comm/reduce */
/* libs: -lcjson */
/*
 * The header of a safetensors file: what is written is read again, and what no
 * writer writes is refused with a reason.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/suite.h"
#include "worker_rt/snapshot/safetensors.h"

static const struct safetensors_pair pairs[] = {
    {"step", "4111120135943610118"},
    {"said", "quote \" backslash \\ line\n tab\t bell\a end"},
    {"name", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"", ""},
};

/* -- writing, and reading it again ----------------------------------------- */

static uint64_t size_of(const struct buf *b)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | buf_head(b)[i];
    return n;
}

static size_t
write_some(struct buf *out, struct safetensor *t, size_t n, size_t *order)
{
    struct ddp_err err;
    buf_init(out, SAFETENSORS_HEADER_MAX);
    ck_assert_int_eq(safetensors_place(t, order, n, &err), 0);
    ck_assert_msg(safetensors_write(out, t, n, pairs, 4, &err) == 0, "%s",
                  err.text);
    ck_assert_uint_eq(size_of(out) + 8, buf_len(out));
    ck_assert_uint_eq(buf_len(out) % SAFETENSORS_ALIGN, 0);
    return n == 0 ? 0 : (size_t)t[n - 1].end;
}

/* Names, shapes, dtypes, offsets and pairs come back; the largest elements lie
 * first. */
TEST(test_safetensors_written_header_is_read_back)
{
    struct safetensor t[] = {
        {.name = "bytes", .dtype = DDP_U8, .dims = 1, .shape = {7}},
        {.name = "w \"1\"", .dtype = DDP_F32, .dims = 2, .shape = {3, 5}},
        {.name = "scalar", .dtype = DDP_I64},
        {.name = "empty", .dtype = DDP_F64, .dims = 2, .shape = {4, 0}},
        {.name = "half", .dtype = DDP_BF16, .dims = 1, .shape = {3}},
    };
    struct buf b;
    struct safetensors st;
    struct ddp_err err;
    size_t order[5];
    size_t len = write_some(&b, t, 5, order);
    ck_assert_uint_eq(len, 7 + 60 + 8 + 0 + 6);
    ck_assert_uint_eq(order[0], 2);
    ck_assert_uint_eq(order[1], 3);
    ck_assert_uint_eq(order[2], 1);
    ck_assert_uint_eq(order[4], 0);
    ck_assert_msg(safetensors_parse(buf_head(&b) + 8, buf_len(&b) - 8, len, &st,
                                    &err) == 0,
                  "%s", err.text);
    ck_assert_uint_eq(st.ntensors, 5);
    ck_assert_uint_eq(st.npairs, 4);
    const struct safetensor *w = &st.tensors[2];
    ck_assert_str_eq(w->name, "w \"1\"");
    ck_assert_int_eq(w->dtype, DDP_F32);
    ck_assert_int_eq(w->dims, 2);
    ck_assert_uint_eq(w->shape[1], 5);
    ck_assert_uint_eq(w->begin, 8);
    ck_assert_uint_eq(w->end, 68);
    ck_assert_int_eq(st.tensors[0].dims, 0);
    ck_assert_uint_eq(st.tensors[1].shape[0], 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(safetensors_value(&st, pairs[i].key), pairs[i].value);
    ck_assert_ptr_null(safetensors_value(&st, "none"));
    safetensors_free(&st);
    buf_free(&b);
}

/* No tensors at all is a file too. */
TEST(test_safetensors_without_tensors_is_read_back)
{
    struct buf b;
    struct safetensors st;
    struct ddp_err err;
    size_t order[1];
    struct safetensor none[1];
    ck_assert_uint_eq(write_some(&b, none, 0, order), 0);
    ck_assert_int_eq(
        safetensors_parse(buf_head(&b) + 8, buf_len(&b) - 8, 0, &st, &err), 0);
    ck_assert_uint_eq(st.ntensors, 0);
    safetensors_free(&st);
    buf_free(&b);
}

static const struct {
    struct safetensor t[2];
    struct safetensors_pair p[2];
} unwritable[] = {
    {{{.name = "a", .dtype = DDP_U8}, {.name = "a", .dtype = DDP_U8}}, {{0}}},
    {{{.name = "a", .dtype = DDP_U8},
      {.name = "__metadata__", .dtype = DDP_U8}},
     {{0}}},
    {{{.name = "a", .dtype = DDP_U8}, {.name = "\xff", .dtype = DDP_U8}},
     {{0}}},
    {{{.name = "a", .dtype = DDP_U8}, {.name = "\xc0\x80", .dtype = DDP_U8}},
     {{0}}},
    {{{.name = "a", .dtype = DDP_U8},
      {.name = "\xed\xa0\x80", .dtype = DDP_U8}},
     {{0}}},
    {{{.name = "a", .dtype = DDP_U8}, {.name = "\xe2\x82", .dtype = DDP_U8}},
     {{0}}},
    {{{.name = "a", .dtype = DDP_U8}, {.name = "b", .dtype = DDP_U8}},
     {{"k", "1"}, {"k", "2"}}},
    {{{.name = "a", .dtype = DDP_U8}, {.name = "b", .dtype = DDP_U8}},
     {{"k", "\x80"}, {"l", ""}}},
};

/* What no reader would take is not written. */
TEST_EACH(test_safetensors_write_refuses_bad_names_and_texts, unwritable)
{
    struct buf b;
    struct ddp_err err;
    size_t npairs = unwritable[_i].p[0].key == NULL ? 0 : 2;
    buf_init(&b, SAFETENSORS_HEADER_MAX);
    ck_assert_int_eq(safetensors_write(&b, unwritable[_i].t, 2,
                                       unwritable[_i].p, npairs, &err),
                     -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    buf_free(&b);
}

/* Sizes that overflow, dtypes and dims that do not exist. */
TEST(test_safetensors_len_refuses_what_is_no_tensor)
{
    uint64_t len;
    uint64_t huge[DDP_DIMS_MAX] = {UINT64_C(1) << 40, UINT64_C(1) << 40, 0};
    ck_assert_int_eq(safetensors_len(DDP_F32, 2, huge, &len), -1);
    ck_assert_int_eq(safetensors_len(DDP_F32, 3, huge, &len), -1);
    ck_assert_int_eq(safetensors_len((enum ddp_dtype)0, 1, huge, &len), -1);
    ck_assert_int_eq(safetensors_len((enum ddp_dtype)99, 1, huge, &len), -1);
    ck_assert_int_eq(safetensors_len(DDP_U8, -1, huge, &len), -1);
    ck_assert_int_eq(safetensors_len(DDP_U8, DDP_DIMS_MAX + 1, huge, &len), -1);
    ck_assert_int_eq(safetensors_len(DDP_U8, 1, huge, &len), 0);
    ck_assert_uint_eq(len, UINT64_C(1) << 40);
    ck_assert_int_eq(safetensors_len(DDP_F64, 0, NULL, &len), 0);
    ck_assert_uint_eq(len, 8);
}

/* -- hostile headers ------------------------------------------------------- */

#define T4 "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"

static const struct {
    const char *json;
    uint64_t data_len;
    const char *why;
} refused[] = {
    {"", 0, "empty"},
    {"[]", 0, "does not begin"},
    {" {}", 0, "does not begin"},
    {"{", 0, "not JSON"},
    {"{}x", 0, "not JSON"},
    {"{} {}", 0, "not JSON"},
    {"{\"a\":" T4 "", 4, "not JSON"},
    {"{}", 1, "bytes of data"},
    {"{\"a\":" T4 "}", 3, "bytes of data"},
    {"{\"a\":" T4 "}", 5, "bytes of data"},
    {"{\"a\":" T4 ",\"a\":" T4 "}", 4, "overlap"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0, "twice"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
     "\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0, "twice"},
    {"{\"a\":" T4
     ",\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}",
     6, "hole"},
    {"{\"a\":" T4
     ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
     5, "overlap"},
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
     "hole"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "do not fit"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
     "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
     "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4,
     "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4,
     "offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4,
     "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
     "shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551617],"
     "\"data_offsets\":[0,1]}}",
     1, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
     "\"data_offsets\":[0,0]}}",
     0, "shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],"
     "\"data_offsets\":[0,1]}}",
     1, "dimensions"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":\"1\",\"data_offsets\":[0,1]}}", 1,
     "shape"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "fields"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[0,4]}}",
     4, "fields"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],"
     "\"more\":1}}",
     4, "fields"},
    {"{\"a\":[]}", 0, "description"},
    {"{\"a\":null}", 0, "description"},
    {"{\"__metadata__\":[]}", 0, "object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "string"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
    {"{\"__metadata__\":{\"a\\u0000b\":\"1\"}}", 0, "NUL"},
    {"{\"__metadata__\":{\"a\":\"\xff\"}}", 0, "UTF-8"},
    {"{\"__metadata__\":{\"a\":\"\xc0\xaf\"}}", 0, "UTF-8"}, /* overlong */
    {"{\"__metadata__\":{\"a\":\"\xed\xa0\x80\"}}", 0,
     "UTF-8"},                                               /* half a pair */
    {"{\"__metadata__\":{\"a\":\"\xe2\x82\"}}", 0, "UTF-8"}, /* cut */
};

CASE("reading")

/* Each is refused, and the reason says what is wrong. */
TEST_EACH(test_safetensors_hostile_header_is_refused, refused)
{
    struct safetensors st;
    struct ddp_err err;
    const char *json = refused[_i].json;
    ck_assert_msg(safetensors_parse((const uint8_t *)json, strlen(json),
                                    refused[_i].data_len, &st, &err) == -1,
                  "taken: %s", json);
    ck_assert_int_eq(err.code, DDP_E_CORRUPT);
    ck_assert_msg(strstr(err.text, refused[_i].why) != NULL, "%s: %s", json,
                  err.text);
}

static const struct {
    const char *name;
    enum ddp_dtype dtype; /* 0: none of ours */
    size_t size;
} dtypes[] = {
    {"F64", DDP_F64, 8},          {"F32", DDP_F32, 4},
    {"F16", DDP_F16, 2},          {"BF16", DDP_BF16, 2},
    {"F8_E4M3", DDP_F8_E4M3, 1},  {"F8_E5M2", DDP_F8_E5M2, 1},
    {"I64", DDP_I64, 8},          {"I32", DDP_I32, 4},
    {"I16", DDP_I16, 2},          {"I8", DDP_I8, 1},
    {"U64", DDP_U64, 8},          {"U32", DDP_U32, 4},
    {"U16", DDP_U16, 2},          {"U8", DDP_U8, 1},
    {"BOOL", DDP_BOOL, 1},        {"F33", (enum ddp_dtype)0, 4},
    {"F4", (enum ddp_dtype)0, 1}, {"", (enum ddp_dtype)0, 1},
};

/* All dtypes of the format are read and written; another one is no damage, but
 * what only a newer version can read, and the reason names it. */
TEST_EACH(test_safetensors_dtypes, dtypes)
{
    struct ddp_err err;
    struct safetensors st;
    char json[160];
    size_t size = dtypes[_i].size, order[1];
    (void)snprintf(json, sizeof(json),
                   "{\"a\":{\"dtype\":\"%s\",\"shape\":[3],"
                   "\"data_offsets\":[0,%zu]}}",
                   dtypes[_i].name, 3 * size); /* fits */
    int rc =
        safetensors_parse((uint8_t *)json, strlen(json), 3 * size, &st, &err);
    if (dtypes[_i].dtype == 0) {
        ck_assert_int_eq(rc, -1);
        ck_assert_int_eq(err.code, DDP_E_CONFIG);
        (void)snprintf(json, sizeof(json), "tensor 'a' has the dtype '%s',",
                       dtypes[_i].name); /* fits */
        ck_assert_ptr_nonnull(strstr(err.text, json));
        return;
    }
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_int_eq(st.tensors[0].dtype, dtypes[_i].dtype);
    ck_assert_uint_eq(ddp_dtype_size(dtypes[_i].dtype), size);
    struct buf b;
    ck_assert_uint_eq(write_some(&b, st.tensors, 1, order), 3 * size);
    (void)snprintf(json, sizeof(json), "\"dtype\":\"%s\"",
                   dtypes[_i].name); /* fits */
    ck_assert_ptr_nonnull(
        memmem(buf_head(&b), buf_len(&b), json, strlen(json)));
    safetensors_free(&st);
    buf_free(&b);
}

static const char *const taken[] = {
    "{\"a\":" T4 "}   \n ",
    "{ \"a\" : {\"data_offsets\":[0,4], \"shape\":[ ],\"dtype\":\"F32\"} }",
    "{\"__metadata__\":{},\"a\":" T4 "}",
    "{\"e\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
    "\"a\":" T4
    ",\"b\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}",
};

/* What other writers write: other orders, spaces, scalars, empty tensors. */
TEST_EACH(test_safetensors_other_writers_are_read, taken)
{
    struct safetensors st;
    struct ddp_err err;
    ck_assert_msg(safetensors_parse((const uint8_t *)taken[_i],
                                    strlen(taken[_i]), 4, &st, &err) == 0,
                  "%s", err.text);
    bool found = false;
    for (size_t i = 0; i < st.ntensors; i++)
        found |= strcmp(st.tensors[i].name, "a") == 0 && st.tensors[i].end == 4;
    ck_assert(found);
    safetensors_free(&st);
}

/* Depth and number of values are bounded before they cost memory. */
TEST(test_safetensors_bombs_are_refused)
{
    size_t len = 4000000;
    char *json = malloc(len);
    struct safetensors st;
    struct ddp_err err;
    ck_assert_ptr_nonnull(json);
    memset(json, '[', len);
    memcpy(json, "{\"a\":", 5);
    ck_assert_int_eq(safetensors_parse((uint8_t *)json, len, 0, &st, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "too many values"));
    ck_assert_int_eq(safetensors_parse((uint8_t *)json, 100000, 0, &st, &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.text, "not JSON"));
    ck_assert_int_eq(safetensors_parse((uint8_t *)json,
                                       SAFETENSORS_HEADER_MAX + 1, 0, &st,
                                       &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.text, "100 MB"));
    free(json);
}

/* Any one byte changed, or the text cut anywhere: refused or read, never more
 * than that. What is read keeps its promises. */
TEST(test_safetensors_mutations_never_break_the_reader)
{
    struct safetensor t[] = {
        {.name = "x", .dtype = DDP_F32, .dims = 2, .shape = {3, 5}},
        {.name = "y", .dtype = DDP_U8, .dims = 1, .shape = {9}},
    };
    struct buf b;
    struct safetensors st;
    struct rng r;
    size_t order[2];
    uint64_t data_len = write_some(&b, t, 2, order);
    size_t len = buf_len(&b) - 8, read = 0;
    uint8_t *json = malloc(len);
    ck_assert_ptr_nonnull(json);
    rng_init(&r, 6);
    for (int i = 0; i < 20000; i++) {
        memcpy(json, buf_head(&b) + 8, len);
        for (uint32_t k = rng_below(&r, 4); k > 0; k--)
            json[rng_below(&r, (uint32_t)len)] = (uint8_t)rng_next(&r);
        size_t n = i % 3 == 0 ? rng_below(&r, (uint32_t)len) : len;
        if (safetensors_parse(json, n, data_len, &st, NULL) != 0)
            continue;
        read++;
        uint64_t at = 0;
        for (size_t k = 0; k < st.ntensors; k++) {
            ck_assert_uint_eq(st.tensors[k].begin, at);
            at = st.tensors[k].end;
        }
        ck_assert_uint_eq(at, data_len);
        safetensors_free(&st);
    }
    ck_assert_uint_gt(read, 3000);
    free(json);
    buf_free(&b);
}

SUITE("safetensors", "writing")
