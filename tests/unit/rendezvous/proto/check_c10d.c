/* links: rendezvous/proto/c10d rendezvous/base/{err,buf} */
/*
 * The codec of the TCPStore protocol. The bytes that go in are built here from
 * the protocol's description, not by the encoder, so that the two sides cannot
 * agree on a common mistake.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/proto/c10d.h"
#include "tests/lib/suite.h"

static const uint8_t hello[] = {0x00, 0xce, 0xf7, 0x85, 0x3c};

/* A request put together by hand. */
struct bytes {
    uint8_t at[256];
    size_t len;
};

static void put_int(struct bytes *b, uint64_t n, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        b->at[b->len++] = (uint8_t)(n >> (8 * i));
}

static void put_str(struct bytes *b, const char *s)
{
    put_int(b, strlen(s), 8);
    memcpy(b->at + b->len, s, strlen(s));
    b->len += strlen(s);
}

static struct c10d_slice slice(const char *s)
{
    return (struct c10d_slice){(const uint8_t *)s, strlen(s)};
}

static void expect_slice(struct c10d_slice s, const char *want)
{
    want = want == NULL ? "" : want;
    ck_assert_uint_eq(s.len, strlen(want));
    if (s.len > 0)
        ck_assert_mem_eq(s.data, want, s.len);
}

/* -- requests of both families --------------------------------------------- */

/*
 * Fields in their order on the wire: strings of `strings`, then the number of
 * `width` bytes; or a list.
 */
static const struct request {
    enum c10d_op op;
    int old_code;
    int new_code;
    const char *strings[3];
    size_t width;
    int64_t number;
    uint64_t count;
    const char *list[6];
} requests[] = {
    {C10D_SET, 0, 1, .strings = {"/k", "value"}},
    {C10D_SET, 0, 1, .strings = {"", ""}},
    {C10D_COMPARE_SET, 1, 2, .strings = {"/key", "old", "new"}},
    {C10D_COMPARE_SET, 1, 2, .strings = {"/key", "", "new"}},
    {C10D_GET, 2, 3, .strings = {"//worker/attempt_3/default_pg/0/0/1"}},
    {C10D_ADD, 3, 4, .strings = {"init/"}, .width = 8, .number = 1},
    {C10D_ADD, 3, 4, .strings = {"n"}, .width = 8, .number = INT64_MIN},
    {C10D_CHECK, 4, 5, .count = 2, .list = {"/a", "/bc"}},
    {C10D_CHECK, 4, 5, .list = {NULL}},
    {C10D_WAIT, 5, 6, .count = 3, .list = {"/a", "", "/bc"}},
    {C10D_GETNUMKEYS, 6, 7, .count = 0},
    {C10D_WATCH_KEY, 7, -1, .strings = {"/watched"}},
    {C10D_DELETE_KEY, 8, 8, .strings = {"/gone"}},
    {C10D_APPEND, 9, 9, .strings = {"/k", "more"}},
    {C10D_MULTI_GET, 10, 10, .count = 1, .list = {"/a"}},
    {C10D_MULTI_SET, 11, 11, .count = 2, .list = {"/a", "1", "/b", ""}},
    {C10D_CANCEL_WAIT, 12, 12, .count = 0},
    {C10D_VALIDATE, -1, 0, .width = 4, .number = 0x3c85f7ce},
    {C10D_PING, -1, 13, .width = 4, .number = 0xfedcba98},
    {C10D_QUEUE_PUSH, -1, 14, .strings = {"/q", "job"}},
    {C10D_QUEUE_POP, -1, 15, .strings = {"/q"}},
    {C10D_QUEUE_LEN, -1, 16, .strings = {"/q"}},
    {C10D_LIST_KEYS, -1, 17, .count = 0},
    {C10D_BARRIER, -1, 18, .strings = {"/b"}, .width = 8, .number = 8},
};
#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

static int code_of(const struct request *r, enum c10d_family family)
{
    return family == C10D_OLD ? r->old_code : r->new_code;
}

static bool is_list(const struct request *r)
{
    return r->op == C10D_CHECK || r->op == C10D_WAIT ||
           r->op == C10D_MULTI_GET || r->op == C10D_MULTI_SET;
}

static size_t strings_of_list(const struct request *r)
{
    return (size_t)(r->op == C10D_MULTI_SET ? 2 * r->count : r->count);
}

static void build(struct bytes *b, const struct request *r, int code)
{
    put_int(b, (uint64_t)code, 1);
    for (size_t i = 0; i < 3 && r->strings[i] != NULL; i++)
        put_str(b, r->strings[i]);
    put_int(b, (uint64_t)r->number, r->width);
    if (!is_list(r))
        return;
    put_int(b, r->count, 8);
    for (size_t i = 0; i < strings_of_list(r); i++)
        put_str(b, r->list[i]);
}

static void expect_request(const struct c10d_request *got,
                           const struct request *want)
{
    ck_assert_int_eq(got->op, want->op);
    expect_slice(got->key, want->strings[0]);
    expect_slice(got->value, want->strings[1]);
    expect_slice(got->desired, want->strings[2]);
    if (want->op != C10D_VALIDATE)
        ck_assert_int_eq(got->number, want->number);
    ck_assert_uint_eq(got->count, want->count);
    struct c10d_slice items = got->items;
    for (size_t i = 0; i < strings_of_list(want); i++)
        expect_slice(c10d_next(&items), want->list[i]);
    ck_assert_uint_eq(items.len, 0);
}

/* A decoder that knows its family already. */
static struct c10d_decoder decoder(enum c10d_family family)
{
    return (struct c10d_decoder){.family = family};
}

/* Feeds all but the last byte in pieces of `step`: never done before all is
 * there, done then, and nothing beyond it is used. */
static void feed_in_steps(struct c10d_decoder *d,
                          const struct request *r,
                          enum c10d_family family,
                          size_t step)
{
    struct bytes b = {.len = 0};
    struct c10d_request req;
    size_t used = 0;
    build(&b, r, code_of(r, family));
    size_t whole = b.len;
    b.at[b.len++] = 0xff; /* of what comes next */
    for (size_t len = 0; len < whole; len += step) {
        /* Memory of exactly this size, so that ASan sees a byte too far. */
        uint8_t *copy = malloc(len + 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, b.at, len);
        ck_assert_int_eq(c10d_decode(d, copy, len, &req, &used, NULL),
                         C10D_MORE);
        free(copy);
    }
    ck_assert_int_eq(c10d_decode(d, b.at, b.len, &req, &used, NULL), C10D_DONE);
    ck_assert_uint_eq(used, whole);
    expect_request(&req, r);
}

/* Every request of each family, in pieces of 1, 2, 3 and 1000 bytes, one
 * behind the other on the same connection. */
TEST_LOOP(test_decode_in_pieces_gives_the_request, 0, 2)
{
    static const size_t steps[] = {1, 2, 3, 1000};
    enum c10d_family family = _i == 0 ? C10D_OLD : C10D_NEW;
    struct c10d_decoder d = decoder(family);
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++)
        for (size_t i = 0; i < REQUESTS; i++)
            if (code_of(&requests[i], family) >= 0)
                feed_in_steps(&d, &requests[i], family, steps[s]);
    ck_assert_int_eq(d.family, family);
}

/* All requests of a family in one piece come out one after the other. */
TEST_LOOP(test_decode_of_a_batch_gives_every_request, 0, 2)
{
    enum c10d_family family = _i == 0 ? C10D_OLD : C10D_NEW;
    struct c10d_decoder d = decoder(family);
    struct buf all;
    struct c10d_request req;
    size_t used = 0;
    buf_init(&all, 1 << 20);
    for (size_t i = 0; i < REQUESTS; i++) {
        struct bytes b = {.len = 0};
        if (code_of(&requests[i], family) < 0)
            continue;
        build(&b, &requests[i], code_of(&requests[i], family));
        ck_assert_int_eq(buf_put(&all, b.at, b.len), 0);
    }
    for (size_t i = 0; i < REQUESTS; i++) {
        if (code_of(&requests[i], family) < 0)
            continue;
        ck_assert_int_eq(
            c10d_decode(&d, buf_head(&all), buf_len(&all), &req, &used, NULL),
            C10D_DONE);
        expect_request(&req, &requests[i]);
        buf_take(&all, used);
    }
    ck_assert_uint_eq(buf_len(&all), 0);
    buf_free(&all);
}

/* -- the family ------------------------------------------------------------ */

static const struct {
    uint8_t bytes[6];
    size_t len;
    enum c10d_status status;
    enum c10d_family family;
} openings[] = {
    {{0}, 0, C10D_MORE, C10D_UNDECIDED},
    {{0x00}, 1, C10D_MORE, C10D_UNDECIDED},
    {{0x00, 0xce}, 2, C10D_MORE, C10D_UNDECIDED},
    {{0x00, 0xce, 0xf7, 0x85}, 4, C10D_MORE, C10D_UNDECIDED},
    {{0x00, 0xce, 0xf7, 0x85, 0x3c}, 5, C10D_DONE, C10D_NEW},
    {{0x00, 0x05}, 2, C10D_MORE, C10D_OLD},
    {{0x00, 0xce, 0xf7, 0x00, 0x00}, 5, C10D_MORE, C10D_OLD},
    {{0x00, 0xce, 0xf7, 0x85, 0x00}, 5, C10D_MORE, C10D_OLD},
    {{0x02}, 1, C10D_MORE, C10D_OLD},
    {{0x06}, 1, C10D_DONE, C10D_OLD},
    {{0x0c}, 1, C10D_DONE, C10D_OLD},
    {{0x0d}, 1, C10D_BAD, C10D_OLD},
    {{'G', 'E', 'T', ' ', '/'}, 5, C10D_BAD, C10D_OLD},
    {{0x80}, 1, C10D_BAD, C10D_OLD},
    {{0xff, 0xff}, 2, C10D_BAD, C10D_OLD},
};
#define OPENINGS (int)(sizeof(openings) / sizeof(openings[0]))

/* The first bytes of a connection tell the family, and no sooner. */
TEST_LOOP(test_opening_tells_the_family, 0, OPENINGS)
{
    struct c10d_decoder d = {0};
    struct c10d_request req;
    struct ddp_err err = {0};
    size_t used = 0;
    ck_assert_int_eq(c10d_decode(&d, openings[_i].bytes, openings[_i].len, &req,
                                 &used, &err),
                     openings[_i].status);
    ck_assert_int_eq(d.family, openings[_i].family);
    if (openings[_i].status == C10D_BAD) {
        ck_assert_int_eq(err.code, DDP_E_PROTO);
        ck_assert_ptr_nonnull(strstr(err.text, "no c10d operation"));
    }
}

/* The hello is a request of its own; what follows is of the new family. */
TEST(test_hello_then_set_is_of_the_new_family)
{
    struct c10d_decoder d = {0};
    struct c10d_request req;
    struct bytes b = {.len = 0};
    size_t used = 0;
    memcpy(b.at, hello, sizeof(hello));
    b.len = sizeof(hello);
    build(&b, &requests[0], requests[0].new_code);
    ck_assert_int_eq(c10d_decode(&d, b.at, b.len, &req, &used, NULL),
                     C10D_DONE);
    ck_assert_int_eq(req.op, C10D_VALIDATE);
    ck_assert_uint_eq(used, sizeof(hello));
    ck_assert_int_eq(
        c10d_decode(&d, b.at + used, b.len - used, &req, &used, NULL),
        C10D_DONE);
    expect_request(&req, &requests[0]);
}

/* -- what is refused ------------------------------------------------------- */

#define MIB UINT64_C(1048576)

/* An operation's byte and a u64, then nothing: the limit must be seen without
 * what the length announces. */
static const struct {
    enum c10d_family family;
    uint8_t code;
    uint64_t first;
    enum c10d_status status;
} lengths[] = {
    {C10D_OLD, 0, 8192, C10D_MORE},
    {C10D_OLD, 0, 8193, C10D_BAD},
    {C10D_NEW, 1, 8192, C10D_MORE},
    {C10D_NEW, 1, 8193, C10D_BAD},
    {C10D_NEW, 3, UINT64_MAX, C10D_BAD},
    {C10D_NEW, 4, UINT64_MAX - 7, C10D_BAD},
    {C10D_NEW, 4, INT64_MAX, C10D_BAD},
    {C10D_OLD, 5, 131072, C10D_MORE},
    {C10D_OLD, 5, 131073, C10D_BAD},
    {C10D_NEW, 5, 131073, C10D_BAD},
    {C10D_NEW, 10, 131073, C10D_BAD},
    {C10D_NEW, 11, 131072, C10D_MORE},
    {C10D_NEW, 11, 131073, C10D_BAD},
    {C10D_NEW, 11, UINT64_MAX, C10D_BAD}, /* its count is signed: -1 */
    {C10D_NEW, 11, UINT64_C(1) << 63, C10D_BAD},
};
#define LENGTHS (int)(sizeof(lengths) / sizeof(lengths[0]))

CASE("refused")

TEST_LOOP(test_length_over_the_limit_is_refused_at_once, 0, LENGTHS)
{
    struct c10d_decoder d = decoder(lengths[_i].family);
    struct c10d_request req;
    struct bytes b = {.len = 0};
    struct ddp_err err = {0};
    size_t used = 0;
    put_int(&b, lengths[_i].code, 1);
    put_int(&b, lengths[_i].first, 8);
    ck_assert_int_eq(c10d_decode(&d, b.at, b.len, &req, &used, &err),
                     lengths[_i].status);
    if (lengths[_i].status == C10D_BAD) {
        ck_assert_int_eq(err.code, DDP_E_PROTO);
        ck_assert_ptr_nonnull(strstr(err.text, "over the limit"));
    }
}

/* A value may have 8 MiB, and not one byte more. */
TEST(test_value_over_the_limit_is_refused)
{
    static const uint64_t sizes[] = {8 * MIB, 8 * MIB + 1};
    for (size_t i = 0; i < 2; i++) {
        struct c10d_decoder d = decoder(C10D_NEW);
        struct c10d_request req;
        struct bytes b = {.len = 0};
        size_t used = 0;
        put_int(&b, 1, 1);
        put_str(&b, "/k");
        put_int(&b, sizes[i], 8);
        ck_assert_int_eq(c10d_decode(&d, b.at, b.len, &req, &used, NULL),
                         i == 0 ? C10D_MORE : C10D_BAD);
    }
}

/* In a MULTI_SET the limits of keys and of values are not mixed up. */
TEST(test_multi_set_limits_keys_and_values_apart)
{
    struct c10d_decoder d = decoder(C10D_NEW);
    struct c10d_request req;
    struct bytes b = {.len = 0};
    size_t used = 0;
    put_int(&b, 11, 1);
    put_int(&b, 2, 8);
    put_str(&b, "/k");
    size_t value_at = b.len;
    put_int(&b, 8193, 8);
    ck_assert_int_eq(c10d_decode(&d, b.at, b.len, &req, &used, NULL),
                     C10D_MORE);
    b.len = value_at;
    d = decoder(C10D_NEW);
    put_str(&b, "v");
    put_int(&b, 8193, 8);
    ck_assert_int_eq(c10d_decode(&d, b.at, b.len, &req, &used, NULL), C10D_BAD);
}

/* Many values that are each small enough make one request that is not. */
TEST(test_request_over_the_limit_is_refused)
{
    struct c10d_decoder d = decoder(C10D_NEW);
    struct c10d_request req;
    struct ddp_err err = {0};
    size_t used = 0, len = 9, values = 0;
    uint8_t *data = calloc(1, C10D_REQUEST_MAX + C10D_VALUE_MAX);
    ck_assert_ptr_nonnull(data);
    data[0] = 11;
    data[1] = 100;
    enum c10d_status st = C10D_MORE;
    while (st == C10D_MORE && len < C10D_REQUEST_MAX) {
        len += 8; /* the empty key */
        c10d_pack_u64(data + len, C10D_VALUE_MAX);
        st = c10d_decode(&d, data, len + 8, &req, &used, &err);
        len += 8 + C10D_VALUE_MAX;
        values++;
    }
    ck_assert_int_eq(st, C10D_BAD);
    ck_assert_uint_eq(values, C10D_REQUEST_MAX / C10D_VALUE_MAX);
    ck_assert_ptr_nonnull(strstr(err.text, "MULTI_SET"));
    free(data);
}

static const struct {
    enum c10d_family family;
    uint8_t code;
    uint32_t word;
} wrong[] = {
    {C10D_OLD, 13, 0},  {C10D_OLD, 255, 0},        {C10D_NEW, 19, 0},
    {C10D_NEW, 128, 0}, {C10D_NEW, 0, 0x3c85f7cf}, /* a hello that is none */
};
#define WRONG (int)(sizeof(wrong) / sizeof(wrong[0]))

/* An operation that the family does not have, a hello with another magic. */
TEST_LOOP(test_unknown_operation_is_refused, 0, WRONG)
{
    struct c10d_decoder d = decoder(wrong[_i].family);
    struct c10d_request req;
    struct bytes b = {.len = 0};
    struct ddp_err err = {0};
    size_t used = 0;
    put_int(&b, wrong[_i].code, 1);
    put_int(&b, wrong[_i].word, 4);
    ck_assert_int_eq(c10d_decode(&d, b.at, b.len, &req, &used, &err), C10D_BAD);
    ck_assert_int_eq(err.code, DDP_E_PROTO);
}

/* A list that comes byte by byte is not walked again from its start: this
 * would take minutes. */
TEST(test_longest_list_byte_by_byte_is_linear)
{
    struct c10d_decoder d = decoder(C10D_NEW);
    struct c10d_request req;
    size_t used = 0, len = 9 + C10D_KEYS_MAX * 9;
    uint8_t *data = calloc(1, len);
    ck_assert_ptr_nonnull(data);
    data[0] = 6;
    c10d_pack_u64(data + 1, C10D_KEYS_MAX);
    for (size_t i = 0; i < C10D_KEYS_MAX; i++) {
        data[9 + 9 * i] = 1;
        data[9 + 9 * i + 8] = 'k';
    }
    size_t more = 0; /* Check's own assertions cost a system call each */
    for (size_t n = 1; n < len; n++)
        more += c10d_decode(&d, data, n, &req, &used, NULL) == C10D_MORE;
    ck_assert_uint_eq(more, len - 1);
    ck_assert_int_eq(c10d_decode(&d, data, len, &req, &used, NULL), C10D_DONE);
    ck_assert_uint_eq(req.count, C10D_KEYS_MAX);
    size_t bytes = 0;
    for (size_t i = 0; i < C10D_KEYS_MAX; i++)
        bytes += c10d_next(&req.items).len;
    ck_assert_uint_eq(bytes, C10D_KEYS_MAX);
    free(data);
}

/* Whatever comes, the decoder stays within the bytes it was given: each input
 * has memory of its exact size (seen by ASan), and what is done is inside. */
TEST(test_random_bytes_never_lead_outside)
{
    unsigned seed = 12345;
    for (int round = 0; round < 20000; round++) {
        struct c10d_decoder d =
            decoder(round % 2 == 0 ? C10D_NEW : C10D_UNDECIDED);
        struct c10d_request req;
        size_t used = 0, len = (size_t)(rand_r(&seed) % 60) + 1;
        uint8_t *data = malloc(len);
        ck_assert_ptr_nonnull(data);
        for (size_t i = 0; i < len; i++)
            data[i] =
                (uint8_t)(rand_r(&seed) % 3 != 0 ? 0 : rand_r(&seed) % 24);
        for (size_t n = 1, at = 0; n <= len; n++) {
            enum c10d_status st =
                c10d_decode(&d, data + at, n - at, &req, &used, NULL);
            if (st == C10D_BAD)
                break;
            if (st == C10D_DONE) {
                ck_assert_uint_ge(used, 1);
                ck_assert_uint_le(used, n - at);
                for (uint64_t i = 0; i < req.count; i++)
                    (void)c10d_next(&req.items);
                at += used;
            }
        }
        free(data);
    }
}

/* -- the client's side ----------------------------------------------------- */

/* What each encoder is to have written. */
static void expect_written(struct buf *b, const char *what, size_t len)
{
    ck_assert_uint_eq(buf_len(b), len);
    ck_assert_mem_eq(buf_head(b), what, len);
    buf_take(b, len);
}
#define PUT(b, err, ...) c10d_put(b, &(struct c10d_request){__VA_ARGS__}, err)
#define EXPECT(b, text)  expect_written((b), (text), sizeof(text) - 1)
#define L(n)             n "\0\0\0\0\0\0\0"

CASE("client")

TEST(test_encoders_write_what_the_protocol_says)
{
    struct buf b;
    const struct c10d_slice keys[] = {slice("/a"), slice("/bc")};
    buf_init(&b, 1 << 16);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_VALIDATE), 0);
    EXPECT(&b, "\0\xce\xf7\x85\x3c");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_SET, .key = slice("/k"),
                         .value = slice("val")),
                     0);
    EXPECT(&b, "\x01" L("\x02") "/k" L("\x03") "val");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_COMPARE_SET, .key = slice("/k"),
                         .value = slice(""), .desired = slice("d")),
                     0);
    EXPECT(&b, "\x02" L("\x02") "/k" L("\0") L("\x01") "d");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GET, .key = slice("/k")), 0);
    EXPECT(&b, "\x03" L("\x02") "/k");
    ck_assert_int_eq(
        PUT(&b, NULL, .op = C10D_ADD, .key = slice("/k"), .number = -2), 0);
    EXPECT(&b, "\x04" L("\x02") "/k\xfe\xff\xff\xff\xff\xff\xff\xff");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_CHECK, .list = keys, .count = 2),
                     0);
    EXPECT(&b, "\x05" L("\x02") L("\x02") "/a" L("\x03") "/bc");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_WAIT, .list = keys, .count = 1),
                     0);
    EXPECT(&b, "\x06" L("\x01") L("\x02") "/a");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GETNUMKEYS), 0);
    EXPECT(&b, "\x07");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_DELETE_KEY, .key = slice("/k")),
                     0);
    EXPECT(&b, "\x08" L("\x02") "/k");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_APPEND, .key = slice("/k"),
                         .value = slice("m")),
                     0);
    EXPECT(&b, "\x09" L("\x02") "/k" L("\x01") "m");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_CANCEL_WAIT), 0);
    EXPECT(&b, "\x0c");
    ck_assert_int_eq(
        PUT(&b, NULL, .op = C10D_MULTI_GET, .list = keys, .count = 2), 0);
    EXPECT(&b, "\x0a" L("\x02") L("\x02") "/a" L("\x03") "/bc");
    ck_assert_int_eq(
        PUT(&b, NULL, .op = C10D_MULTI_SET, .list = keys, .count = 1), 0);
    EXPECT(&b, "\x0b" L("\x01") L("\x02") "/a" L("\x03") "/bc");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_QUEUE_PUSH, .key = slice("/q"),
                         .value = slice("v")),
                     0);
    EXPECT(&b, "\x0e" L("\x02") "/q" L("\x01") "v");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_QUEUE_POP, .key = slice("/q")),
                     0);
    EXPECT(&b, "\x0f" L("\x02") "/q");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_QUEUE_LEN, .key = slice("/q")),
                     0);
    EXPECT(&b, "\x10" L("\x02") "/q");
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_LIST_KEYS), 0);
    EXPECT(&b, "\x11");
    ck_assert_int_eq(
        PUT(&b, NULL, .op = C10D_BARRIER, .key = slice("/b"), .number = 8), 0);
    EXPECT(&b, "\x12" L("\x02") "/b" L("\x08"));
    buf_free(&b);
}

/* What the store would close the connection for is not even written. */
TEST(test_encoder_refuses_what_is_over_a_limit)
{
    static const uint8_t big[1];
    const struct c10d_slice key = {big, C10D_KEY_MAX + 1};
    const struct c10d_slice value = {big, C10D_VALUE_MAX + 1};
    const struct c10d_slice pair[] = {slice("/k"), value};
    struct ddp_err err[7] = {0};
    struct buf b;
    buf_init(&b, 1 << 16);
    ck_assert_int_eq(PUT(&b, &err[0], .op = C10D_GET, .key = key), -1);
    ck_assert_int_eq(
        PUT(&b, &err[1], .op = C10D_SET, .key = slice("/k"), .value = value),
        -1);
    ck_assert_int_eq(PUT(&b, &err[2], .op = C10D_ADD, .key = key, .number = 1),
                     -1);
    ck_assert_int_eq(
        PUT(&b, &err[3], .op = C10D_WAIT, .list = &key, .count = 1), -1);
    ck_assert_int_eq(PUT(&b, &err[4], .op = C10D_CHECK, .list = NULL,
                         .count = C10D_KEYS_MAX + 1),
                     -1);
    ck_assert_int_eq(
        PUT(&b, &err[5], .op = C10D_MULTI_SET, .list = pair, .count = 1), -1);
    ck_assert_int_eq(
        PUT(&b, &err[6], .op = C10D_BARRIER, .key = key, .number = 1), -1);
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(err[i].code, DDP_E_USAGE);
    ck_assert_uint_eq(buf_len(&b), 0);
    buf_free(&b);
}

/* A full buffer is an error and stays as it was. */
TEST(test_encoder_into_a_full_buffer_appends_nothing)
{
    struct ddp_err err = {0};
    struct buf b;
    buf_init(&b, 16);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GET, .key = slice("/k")), 0);
    ck_assert_int_eq(PUT(&b, &err, .op = C10D_GET, .key = slice("/k")), -1);
    ck_assert_int_eq(err.code, DDP_E_NOMEM);
    EXPECT(&b, "\x03" L("\x02") "/k");
    buf_free(&b);
}

/* Replies that come byte by byte; `used` tells how much to wait for. */
TEST(test_replies_byte_by_byte)
{
    static const uint8_t data[] = "\x03\0\0\0\0\0\0\0abc\xff";
    struct c10d_slice value;
    int64_t number = 0;
    uint8_t byte = 9;
    size_t used = 0;
    for (size_t n = 0; n < 11; n++) {
        ck_assert_int_eq(c10d_reply_value(data, n, &value, &used, NULL),
                         C10D_MORE);
        ck_assert_uint_eq(used, n < 8 ? 8 : 11);
    }
    ck_assert_int_eq(c10d_reply_value(data, 12, &value, &used, NULL),
                     C10D_DONE);
    ck_assert_uint_eq(used, 11);
    expect_slice(value, "abc");
    for (size_t n = 0; n < 8; n++)
        ck_assert_int_eq(c10d_reply_number(data, n, &number, &used), C10D_MORE);
    ck_assert_int_eq(c10d_reply_number(data, 8, &number, &used), C10D_DONE);
    ck_assert_int_eq(number, 3);
    ck_assert_int_eq(c10d_reply_byte(data, 0, &byte, &used, NULL), C10D_MORE);
    ck_assert_int_eq(c10d_reply_byte(data + 1, 1, &byte, &used, NULL),
                     C10D_DONE);
    ck_assert_uint_eq(byte, 0);
    ck_assert_uint_eq(used, 1);
}

/* A server that is none: a length and a byte that cannot be. */
TEST(test_reply_that_cannot_be_is_refused)
{
    uint8_t data[8];
    struct ddp_err err = {0};
    struct c10d_slice value;
    size_t used = 0;
    uint8_t byte = 0;
    c10d_pack_u64(data, C10D_VALUE_MAX + 1);
    ck_assert_int_eq(c10d_reply_value(data, 8, &value, &used, &err), C10D_BAD);
    ck_assert_int_eq(err.code, DDP_E_PROTO);
    ck_assert_int_eq(
        c10d_reply_byte((const uint8_t *)"H", 1, &byte, &used, &err), C10D_BAD);
}

SUITE("c10d", "requests")
