/*
 * The layout of the requests is a table: one row per operation with its codes
 * and a word of letters, one per field. The decoder walks that word and
 * remembers where it stopped: a request that comes byte by byte costs no more
 * than one that comes at once, and a length is checked when it arrives. The
 * encoder walks the same word.
 */
#include "rendezvous/proto/c10d.h"

#include <string.h>

#define HELLO     UINT32_C(0x3c85f7ce)
#define HELLO_LEN 5 /* the operation's byte and the magic */

/*
 * Fields: k key, v value, i i64, n nonce (u32), h the hello's magic (u32),
 *         # count of the list that follows: K of keys, P of pairs.
 */
struct row {
    const char *name;
    int old_code; /* -1: not in this family */
    int new_code;
    const char *fields;
};

/* clang-format off */
static const struct row rows[] = {
    /*                     name           old new fields */
    [C10D_VALIDATE]    = {"VALIDATE",     -1,  0, "h"},
    [C10D_SET]         = {"SET",           0,  1, "kv"},
    [C10D_COMPARE_SET] = {"COMPARE_SET",   1,  2, "kvv"},
    [C10D_GET]         = {"GET",           2,  3, "k"},
    [C10D_ADD]         = {"ADD",           3,  4, "ki"},
    [C10D_CHECK]       = {"CHECK",         4,  5, "#K"},
    [C10D_WAIT]        = {"WAIT",          5,  6, "#K"},
    [C10D_GETNUMKEYS]  = {"GETNUMKEYS",    6,  7, ""},
    [C10D_WATCH_KEY]   = {"WATCH_KEY",     7, -1, "k"},
    [C10D_DELETE_KEY]  = {"DELETE_KEY",    8,  8, "k"},
    [C10D_APPEND]      = {"APPEND",        9,  9, "kv"},
    [C10D_MULTI_GET]   = {"MULTI_GET",    10, 10, "#K"},
    [C10D_MULTI_SET]   = {"MULTI_SET",    11, 11, "#P"},
    [C10D_CANCEL_WAIT] = {"CANCEL_WAIT",  12, 12, ""},
    [C10D_PING]        = {"PING",         -1, 13, "n"},
    [C10D_QUEUE_PUSH]  = {"QUEUE_PUSH",   -1, 14, "kv"},
    [C10D_QUEUE_POP]   = {"QUEUE_POP",    -1, 15, "k"},
    [C10D_QUEUE_LEN]   = {"QUEUE_LEN",    -1, 16, "k"},
    [C10D_LIST_KEYS]   = {"LIST_KEYS",    -1, 17, ""},
    [C10D_BARRIER]     = {"BARRIER",      -1, 18, "ki"},
};
/* clang-format on */
_Static_assert(sizeof(rows) / sizeof(rows[0]) == C10D_OPS, "one row per op");

const char *c10d_op_name(enum c10d_op op)
{
    ddp_assert((unsigned)op < C10D_OPS);
    return rows[op].name;
}

/* -- integers -------------------------------------------------------------- */

static void pack(uint8_t *out, uint64_t n, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(n >> (8 * i));
}

static uint64_t unpack(const uint8_t *in, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n |= (uint64_t)in[i] << (8 * i);
    return n;
}

void c10d_pack_u32(uint8_t out[4], uint32_t n)
{
    pack(out, n, 4);
}

void c10d_pack_u64(uint8_t out[8], uint64_t n)
{
    pack(out, n, 8);
}

/* -- requests, decoded ----------------------------------------------------- */

/*
 * Only the new family's hello starts with 0 and the magic: for an old client
 * these would be a SET of a key of about a gigabyte.
 */
static enum c10d_status
tell_family(struct c10d_decoder *d, const uint8_t *data, size_t len)
{
    uint8_t hello[HELLO_LEN] = {0};
    c10d_pack_u32(hello + 1, HELLO);
    size_t same = 0;
    while (same < len && same < HELLO_LEN && data[same] == hello[same])
        same++;
    if (same == HELLO_LEN)
        d->family = C10D_NEW;
    else if (same < len)
        d->family = C10D_OLD;
    return d->family == C10D_UNDECIDED ? C10D_MORE : C10D_DONE;
}

static enum c10d_status
take_op(struct c10d_decoder *d, uint8_t code, struct ddp_err *err)
{
    for (unsigned op = 0; op < C10D_OPS; op++) {
        int have =
            d->family == C10D_OLD ? rows[op].old_code : rows[op].new_code;
        if (have == code) {
            *d = (struct c10d_decoder){
                .family = d->family, .op = op, .step = 1, .scan = 1};
            return C10D_DONE;
        }
    }
    ddp_err_set(err, DDP_E_PROTO, "no c10d operation starts with byte 0x%02x",
                (unsigned)code);
    return C10D_BAD;
}

/* An integer of `bytes` at the scan, which moves behind it. */
static enum c10d_status take_int(struct c10d_decoder *d,
                                 const uint8_t *data,
                                 size_t len,
                                 size_t bytes,
                                 uint64_t *n)
{
    if (len - d->scan < bytes)
        return C10D_MORE;
    *n = unpack(data + d->scan, bytes);
    d->scan += bytes;
    return C10D_DONE;
}

static enum c10d_status too_long(const struct c10d_decoder *d,
                                 const char *what,
                                 uint64_t n,
                                 uint64_t max,
                                 struct ddp_err *err)
{
    ddp_err_set(err, DDP_E_PROTO, "%s of %llu %s is over the limit of %llu",
                rows[d->op].name, (unsigned long long)n, what,
                (unsigned long long)max);
    return C10D_BAD;
}

/* A string at the scan, which moves behind it once all of it is there. */
static enum c10d_status take_string(struct c10d_decoder *d,
                                    bool is_key,
                                    const uint8_t *data,
                                    size_t len,
                                    size_t *string_len,
                                    struct ddp_err *err)
{
    if (len - d->scan < 8)
        return C10D_MORE;
    uint64_t n = unpack(data + d->scan, 8);
    size_t max = is_key ? C10D_KEY_MAX : C10D_VALUE_MAX;
    if (n > max)
        return too_long(d, is_key ? "key bytes" : "value bytes", n, max, err);
    uint64_t whole = d->scan + 8 + n;
    if (whole > C10D_REQUEST_MAX)
        return too_long(d, "bytes in all", whole, C10D_REQUEST_MAX, err);
    d->need = (size_t)whole;
    if (len < whole)
        return C10D_MORE;
    d->scan = (size_t)whole;
    *string_len = (size_t)n;
    return C10D_DONE;
}

static enum c10d_status take_field(struct c10d_decoder *d,
                                   bool is_key,
                                   const uint8_t *data,
                                   size_t len,
                                   struct ddp_err *err)
{
    size_t n = 0;
    enum c10d_status st = take_string(d, is_key, data, len, &n, err);
    if (st != C10D_DONE)
        return st;
    d->string_len[d->strings] = n;
    d->string_at[d->strings++] = d->scan - n;
    return C10D_DONE;
}

static enum c10d_status take_count(struct c10d_decoder *d,
                                   const uint8_t *data,
                                   size_t len,
                                   struct ddp_err *err)
{
    enum c10d_status st = take_int(d, data, len, 8, &d->count);
    if (st != C10D_DONE)
        return st;
    if (d->count > C10D_KEYS_MAX)
        return too_long(d, "keys", d->count, C10D_KEYS_MAX, err);
    d->left = d->op == C10D_MULTI_SET ? 2 * d->count : d->count;
    d->items_at = d->scan;
    return C10D_DONE;
}

/* In a list of pairs, an even number of strings to go means a key. */
static enum c10d_status take_list(struct c10d_decoder *d,
                                  bool pairs,
                                  const uint8_t *data,
                                  size_t len,
                                  struct ddp_err *err)
{
    while (d->left > 0) {
        size_t n = 0;
        bool is_key = !pairs || d->left % 2 == 0;
        enum c10d_status st = take_string(d, is_key, data, len, &n, err);
        if (st != C10D_DONE)
            return st;
        d->left--;
    }
    return C10D_DONE;
}

static enum c10d_status take_hello(struct c10d_decoder *d,
                                   const uint8_t *data,
                                   size_t len,
                                   struct ddp_err *err)
{
    uint64_t magic = 0;
    enum c10d_status st = take_int(d, data, len, 4, &magic);
    if (st != C10D_DONE || magic == HELLO)
        return st;
    ddp_err_set(err, DDP_E_PROTO, "VALIDATE has a wrong magic number");
    return C10D_BAD;
}

static enum c10d_status take(struct c10d_decoder *d,
                             char field,
                             const uint8_t *data,
                             size_t len,
                             struct ddp_err *err)
{
    uint64_t n = 0;
    enum c10d_status st;
    switch (field) {
    case 'k':
    case 'v':
        return take_field(d, field == 'k', data, len, err);
    case '#':
        return take_count(d, data, len, err);
    case 'K':
    case 'P':
        return take_list(d, field == 'P', data, len, err);
    case 'h':
        return take_hello(d, data, len, err);
    case 'i':
    case 'n':
        st = take_int(d, data, len, field == 'i' ? 8 : 4, &n);
        d->number = (int64_t)n;
        return st;
    default:
        DDP_WRONG("a letter that the table does not explain");
    }
}

static struct c10d_slice
string_of(const struct c10d_decoder *d, unsigned i, const uint8_t *data)
{
    if (i >= d->strings)
        return (struct c10d_slice){0};
    return (struct c10d_slice){data + d->string_at[i], d->string_len[i]};
}

static void
finish(struct c10d_decoder *d, const uint8_t *data, struct c10d_request *req)
{
    *req = (struct c10d_request){
        .op = d->op,
        .key = string_of(d, 0, data),
        .value = string_of(d, 1, data),
        .desired = string_of(d, 2, data),
        .number = d->number,
        .count = d->count,
    };
    if (d->count > 0)
        req->items =
            (struct c10d_slice){data + d->items_at, d->scan - d->items_at};
    *d = (struct c10d_decoder){.family = d->family};
}

enum c10d_status c10d_decode(struct c10d_decoder *d,
                             const uint8_t *data,
                             size_t len,
                             struct c10d_request *req,
                             size_t *used,
                             struct ddp_err *err)
{
    enum c10d_status st;
    if (len == 0)
        return C10D_MORE;
    if (d->family == C10D_UNDECIDED) {
        st = tell_family(d, data, len);
        if (st != C10D_DONE)
            return st;
    }
    if (d->step == 0) {
        st = take_op(d, data[0], err);
        if (st != C10D_DONE)
            return st;
    }
    ddp_assert(d->scan <= len);
    for (; rows[d->op].fields[d->step - 1] != '\0'; d->step++) {
        st = take(d, rows[d->op].fields[d->step - 1], data, len, err);
        if (st != C10D_DONE)
            return st;
    }
    *used = d->scan;
    finish(d, data, req);
    return C10D_DONE;
}

struct c10d_slice c10d_next(struct c10d_slice *items)
{
    ddp_assert(items->len >= 8);
    uint64_t n = unpack(items->data, 8);
    ddp_assert(n <= items->len - 8); /* c10d_decode has looked at all of it */
    struct c10d_slice s = {items->data + 8, (size_t)n};
    items->data += 8 + n;
    items->len -= 8 + (size_t)n;
    return s;
}

/* -- requests, encoded ----------------------------------------------------- */

/* Where a request is written to; without `out` it is measured only. */
struct pen {
    uint8_t *out;
    size_t len;
};

static void write_number(struct pen *p, uint64_t n, size_t bytes)
{
    if (p->out != NULL)
        pack(p->out + p->len, n, bytes);
    p->len += bytes;
}

static int write_string(struct pen *p,
                        struct c10d_slice s,
                        bool is_key,
                        struct ddp_err *err)
{
    size_t max = is_key ? C10D_KEY_MAX : C10D_VALUE_MAX;
    if (s.len > max)
        return ddp_err_set(err, DDP_E_USAGE,
                           "store: a %s of %zu bytes is over the limit of %zu",
                           is_key ? "key" : "value", s.len, max);
    write_number(p, s.len, 8);
    if (p->out != NULL && s.len > 0)
        memcpy(p->out + p->len, s.data, s.len);
    p->len += s.len;
    return 0;
}

/* Keys; or pairs, in which every other string is a value. */
static int write_list(struct pen *p,
                      const struct c10d_request *req,
                      size_t each,
                      struct ddp_err *err)
{
    if (req->count > C10D_KEYS_MAX)
        return ddp_err_set(
            /* messages: ok, it is above C10D_KEYS_MAX */
            err, DDP_E_USAGE,
            "store: %s of %llu keys is over the limit of %llu",
            rows[req->op].name, (unsigned long long)req->count,
            (unsigned long long)C10D_KEYS_MAX);
    write_number(p, req->count, 8);
    for (size_t i = 0; i < each * req->count; i++)
        if (write_string(p, req->list[i], i % each == 0, err) != 0)
            return -1;
    return 0;
}

static int write_field(struct pen *p,
                       const struct c10d_request *req,
                       size_t field,
                       struct ddp_err *err)
{
    switch (rows[req->op].fields[field]) {
    case 'k':
        return write_string(p, req->key, true, err);
    case 'v':
        return write_string(p, field == 1 ? req->value : req->desired, false,
                            err);
    case 'i':
        write_number(p, (uint64_t)req->number, 8);
        return 0;
    case 'n':
        write_number(p, (uint64_t)req->number, 4);
        return 0;
    case 'h':
        write_number(p, HELLO, 4);
        return 0;
    case '#': /* written with the list */
        return 0;
    case 'K':
        return write_list(p, req, 1, err);
    default:
        return write_list(p, req, 2, err);
    }
}

static int write_request(struct pen *p,
                         const struct c10d_request *req,
                         struct ddp_err *err)
{
    const struct row *row = &rows[req->op];
    write_number(p, (uint64_t)row->new_code, 1);
    for (size_t i = 0; row->fields[i] != '\0'; i++)
        if (write_field(p, req, i, err) != 0)
            return -1;
    return 0;
}

int c10d_put(struct buf *b, const struct c10d_request *req, struct ddp_err *err)
{
    struct pen measured = {.out = NULL};
    ddp_assert((unsigned)req->op < C10D_OPS && rows[req->op].new_code >= 0);
    if (write_request(&measured, req, err) != 0)
        return -1;
    size_t len = measured.len;
    if (len > C10D_REQUEST_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "store: %s of %zu bytes is over the limit of %zu",
                           rows[req->op].name, len, C10D_REQUEST_MAX);
    struct pen pen = {.out = buf_reserve(b, len)};
    if (pen.out == NULL)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "store: no memory for %s of %zu bytes",
                           rows[req->op].name, len);
    (void)write_request(&pen, req, err); /* was measured */
    buf_commit(b, len);
    return 0;
}

/* -- replies, decoded ------------------------------------------------------ */

enum c10d_status c10d_reply_value(const uint8_t *data,
                                  size_t len,
                                  struct c10d_slice *value,
                                  size_t *used,
                                  struct ddp_err *err)
{
    *used = 8;
    if (len < 8)
        return C10D_MORE;
    uint64_t n = unpack(data, 8);
    if (n > C10D_VALUE_MAX) {
        ddp_err_set(err, DDP_E_PROTO,
                    "the store sent a value of %llu bytes, the limit is %zu",
                    (unsigned long long)n, C10D_VALUE_MAX);
        return C10D_BAD;
    }
    *used = 8 + (size_t)n;
    if (len < *used)
        return C10D_MORE;
    *value = (struct c10d_slice){data + 8, (size_t)n};
    return C10D_DONE;
}

enum c10d_status c10d_reply_number(const uint8_t *data,
                                   size_t len,
                                   int64_t *number,
                                   size_t *used)
{
    *used = 8;
    if (len < 8)
        return C10D_MORE;
    *number = (int64_t)unpack(data, 8);
    return C10D_DONE;
}

enum c10d_status c10d_reply_byte(const uint8_t *data,
                                 size_t len,
                                 uint8_t *byte,
                                 size_t *used,
                                 struct ddp_err *err)
{
    *used = 1;
    if (len < 1)
        return C10D_MORE;
    if (data[0] > 1) {
        ddp_err_set(err, DDP_E_PROTO,
                    "the store sent byte 0x%02x instead of 0 or 1",
                    (unsigned)data[0]);
        return C10D_BAD;
    }
    *byte = data[0];
    return C10D_DONE;
}
