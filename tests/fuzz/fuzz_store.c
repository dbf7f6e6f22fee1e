/* links: rendezvous/proto/c10d rendezvous/core/store */
/* links: rendezvous/core/store_table rendezvous/core/store_wait */
/* links: rendezvous/base/buf rendezvous/base/err */
/*
 * The c10d codec and what the store makes of it. The first byte says how the
 * rest is read: an even one, as the bytes of one connection, whole and in
 * pieces; an odd one, as operations of several connections, which go through
 * the client's encoder, the server's decoder and the store, beside a model
 * that is too simple to be wrong.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/core/store.h"
#include "tests/fuzz/fuzz.h"

#define CONNS     6
#define OLD_FROM  4u /* connections from here on are of the old family */
#define KEYS      6u
#define INPUT_MAX 4096u
#define REPLY_MAX 65536u

/* Bytes that went to one connection, or were to go there, in one step. */
struct sent {
    size_t len;
    uint8_t bytes[REPLY_MAX];
};

static struct sent sent[CONNS], due[CONNS];
static uint64_t sent_total;

static void append(struct sent *to, const void *data, size_t len)
{
    ddp_assert(len <= REPLY_MAX - to->len);
    memcpy(to->bytes + to->len, data, len);
    to->len += len;
}

static void on_send(void *ctx, uint32_t conn, const void *data, size_t len)
{
    ddp_assert(conn < CONNS && len > 0);
    sent_total += len;
    if (ctx == &sent)
        append(&sent[conn], data, len);
}

static struct store *new_store(size_t byte_max, void *ctx)
{
    struct store_config cf = {
        .conn_max = CONNS,
        .byte_max = byte_max,
        .hash_key = {1, 2},
        .send = on_send,
        .ctx = ctx,
    };
    struct store *s = store_new(&cf, NULL);
    ddp_assert(s != NULL);
    return s;
}

/* -- bytes ----------------------------------------------------------------- */

static uint64_t mix(uint64_t sum, const void *data, size_t len)
{
    const uint8_t *p = data;
    sum = (sum ^ len) * UINT64_C(1099511628211);
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ p[i]) * UINT64_C(1099511628211);
    return sum;
}

static uint64_t mix_request(uint64_t sum, const struct c10d_request *req)
{
    uint64_t numbers[3] = {(uint64_t)req->op, (uint64_t)req->number,
                           req->count};
    sum = mix(sum, numbers, sizeof(numbers));
    sum = mix(sum, req->key.data, req->key.len);
    sum = mix(sum, req->value.data, req->value.len);
    sum = mix(sum, req->desired.data, req->desired.len);
    struct c10d_slice items = req->items;
    size_t strings = 0;
    while (items.len > 0) {
        struct c10d_slice item = c10d_next(&items);
        sum = mix(sum, item.data, item.len);
        strings++;
    }
    ddp_assert(strings == req->count * (req->op == C10D_MULTI_SET ? 2 : 1));
    return sum;
}

/* What came of it, whatever the pieces were. */
struct outcome {
    enum c10d_status status;
    bool refused; /* by the store */
    uint64_t sum;
    size_t used;
};

static struct outcome read_bytes(const uint8_t *data, size_t size, size_t step)
{
    struct outcome o = {.status = C10D_MORE, .sum = 1};
    struct c10d_decoder d = {0};
    struct store *s = new_store(20000, NULL);
    struct ddp_err err;
    size_t have = 0;
    while (o.status != C10D_BAD && !o.refused && have < size) {
        have = size - have < step ? size : have + step;
        for (;;) {
            struct c10d_request req;
            size_t used;
            o.status = c10d_decode(&d, data + o.used, have - o.used, &req,
                                   &used, &err);
            if (o.status != C10D_DONE)
                break;
            ddp_assert(used > 0 && used <= have - o.used);
            o.sum = mix_request(o.sum, &req);
            o.used += used;
            o.refused = store_step(s, 0, d.family, &req, &err) != 0;
            ddp_assert(store_bytes(s) <= 20000);
            if (o.refused)
                break;
        }
        if (o.status == C10D_BAD)
            ddp_assert(err.code == DDP_E_PROTO && err.text[0] != '\0');
    }
    store_gone(s, 0);
    store_del(s);
    return o;
}

static void check_bytes(const uint8_t *data, size_t size)
{
    sent_total = 0;
    struct outcome whole = read_bytes(data, size, size);
    uint64_t answered = sent_total;
    sent_total = 0;
    struct outcome pieces = read_bytes(data, size, 1 + size / 23);
    ddp_assert(whole.status == pieces.status && whole.used == pieces.used &&
               whole.refused == pieces.refused && whole.sum == pieces.sum &&
               answered == sent_total);
}

/* -- replies, as a client reads them --------------------------------------- */

static void check_replies(const uint8_t *data, size_t size)
{
    struct c10d_slice value;
    struct ddp_err err;
    int64_t number;
    uint8_t byte;
    size_t used;
    if (c10d_reply_value(data, size, &value, &used, &err) == C10D_DONE)
        ddp_assert(used <= size && value.len + 8 == used);
    if (c10d_reply_number(data, size, &number, &used) == C10D_DONE)
        ddp_assert(used == 8 && size >= 8);
    if (c10d_reply_byte(data, size, &byte, &used, &err) == C10D_DONE)
        ddp_assert(used == 1 && byte == data[0]);
}

/* -- the model ------------------------------------------------------------- */

struct model_key {
    bool there;
    size_t len;
    uint8_t value[INPUT_MAX + 32];
};

struct model_conn {
    bool waits;
    bool missing[KEYS];
    struct c10d_decoder decoder;
};

static struct model_key keys[KEYS];
static struct model_conn conns[CONNS];

static const struct c10d_slice names[KEYS] = {
    {(const uint8_t *)"", 0},     {(const uint8_t *)"/", 1},
    {(const uint8_t *)"/a", 2},   {(const uint8_t *)"/ab", 3},
    {(const uint8_t *)"/a\0", 3}, {(const uint8_t *)"/b", 2},
};

static void due_value(uint32_t conn, const uint8_t *data, size_t len)
{
    uint8_t head[8];
    c10d_pack_u64(head, len);
    append(&due[conn], head, sizeof(head));
    append(&due[conn], data, len);
}

static void due_number(uint32_t conn, int64_t n)
{
    uint8_t bytes[8];
    c10d_pack_u64(bytes, (uint64_t)n);
    append(&due[conn], bytes, sizeof(bytes));
}

static void due_byte(uint32_t conn, uint8_t byte)
{
    append(&due[conn], &byte, 1);
}

static void model_set(unsigned key, size_t at, const uint8_t *data, size_t len)
{
    struct model_key *k = &keys[key];
    ddp_assert(at + len <= sizeof(k->value));
    memcpy(k->value + at, data, len);
    k->len = at + len;
    if (k->there)
        return;
    k->there = true;
    for (uint32_t c = 0; c < CONNS; c++) {
        bool left = false;
        if (!conns[c].waits)
            continue;
        conns[c].missing[key] = false;
        for (unsigned i = 0; i < KEYS; i++)
            left |= conns[c].missing[i];
        conns[c].waits = left;
        if (!left)
            due_byte(c, C10D_STOP_WAITING);
    }
}

/* False: the store must refuse. */
static bool model_add(uint32_t conn, unsigned key, int64_t delta)
{
    struct model_key *k = &keys[key];
    char text[sizeof(k->value) + 1];
    int64_t n = 0;
    if (k->there) {
        char *end;
        memcpy(text, k->value, k->len);
        text[k->len] = '\0';
        errno = 0;
        n = strtoll(text, &end, 10);
        if (end == text || errno != 0)
            return false;
    }
    if (__builtin_add_overflow(n, delta, &n))
        return false;
    int len = snprintf(text, sizeof(text), "%" PRId64, n);
    due_number(conn, n);
    model_set(key, 0, (const uint8_t *)text, (size_t)len);
    return true;
}

static void
model_compare_set(uint32_t conn, const struct c10d_request *r, unsigned key)
{
    const struct model_key *k = &keys[key];
    struct c10d_slice answer = r->desired;
    bool equal = k->len == r->value.len &&
                 (k->len == 0 || memcmp(k->value, r->value.data, k->len) == 0);
    if (!k->there && r->value.len > 0)
        answer = r->value;
    else if (k->there && !equal)
        answer = (struct c10d_slice){k->value, k->len};
    else
        model_set(key, 0, r->desired.data, r->desired.len);
    due_value(conn, answer.data, answer.len);
}

static void
model_wait(uint32_t conn, const unsigned *list, unsigned n, bool wait)
{
    bool missing = false;
    for (unsigned i = 0; i < n; i++)
        missing |= !keys[list[i]].there;
    if (!wait) {
        due_byte(conn, missing ? C10D_NOT_READY : C10D_READY);
        return;
    }
    if (!missing) {
        due_byte(conn, C10D_STOP_WAITING);
        return;
    }
    memset(conns[conn].missing, 0, sizeof(conns[conn].missing));
    conns[conn].waits = true;
    for (unsigned i = 0; i < n; i++)
        conns[conn].missing[list[i]] = !keys[list[i]].there;
}

static int64_t model_count(void)
{
    int64_t n = 0;
    for (unsigned i = 0; i < KEYS; i++)
        n += keys[i].there;
    return n;
}

/* What one request does. False: the store must refuse. */
static bool
model_step(uint32_t conn, const struct c10d_request *r, const unsigned *list)
{
    unsigned key = list[0];
    struct model_key *k = &keys[key];
    if (conns[conn].waits && r->op != C10D_CANCEL_WAIT) {
        if (conn < OLD_FROM)
            return false;
        conns[conn].waits = false;
    }
    switch (r->op) {
    case C10D_SET:
        model_set(key, 0, r->value.data, r->value.len);
        return true;
    case C10D_APPEND:
        model_set(key, k->there ? k->len : 0, r->value.data, r->value.len);
        return true;
    case C10D_GET:
        due_value(conn, k->value, k->there ? k->len : 0);
        return true;
    case C10D_ADD:
        return model_add(conn, key, r->number);
    case C10D_COMPARE_SET:
        model_compare_set(conn, r, key);
        return true;
    case C10D_DELETE_KEY:
        due_number(conn, k->there);
        k->there = false;
        return true;
    case C10D_GETNUMKEYS:
        due_number(conn, model_count());
        return true;
    case C10D_CANCEL_WAIT:
        conns[conn].waits = false;
        due_byte(conn, C10D_WAIT_CANCELED);
        return true;
    case C10D_CHECK:
    case C10D_WAIT:
        model_wait(conn, list, (unsigned)r->count, r->op == C10D_WAIT);
        return true;
    default:
        DDP_WRONG("an operation that the model does not have");
    }
}

/* -- operations ------------------------------------------------------------ */

/* One request, what it is made of. */
struct op {
    struct c10d_request req;
    unsigned list[3];
    struct c10d_slice slices[3];
};

static void take_op(struct fuzz_in *in, struct op *o)
{
    static const enum c10d_op ops[] = {
        C10D_SET,         C10D_GET,        C10D_ADD,    C10D_CHECK,
        C10D_WAIT,        C10D_DELETE_KEY, C10D_APPEND, C10D_COMPARE_SET,
        C10D_CANCEL_WAIT, C10D_GETNUMKEYS,
    };
    *o = (struct op){.req.op = ops[fuzz_u8(in) % 10]};
    o->list[0] = fuzz_u8(in) % KEYS;
    struct c10d_request *r = &o->req;
    switch (r->op) {
    case C10D_CHECK:
    case C10D_WAIT:
        r->count = fuzz_u8(in) % 4;
        for (size_t i = 0; i < r->count; i++) {
            o->list[i] = i == 0 ? o->list[0] : fuzz_u8(in) % KEYS;
            o->slices[i] = names[o->list[i]];
        }
        return;
    case C10D_CANCEL_WAIT:
    case C10D_GETNUMKEYS:
        return;
    case C10D_ADD: {
        uint8_t how = fuzz_u8(in);
        r->number = how == 255   ? INT64_MAX
                    : how == 254 ? INT64_MIN
                                 : (int64_t)how - 100;
        break;
    }
    case C10D_SET:
    case C10D_APPEND:
        r->value.data = fuzz_bytes(in, fuzz_u8(in), &r->value.len);
        break;
    case C10D_COMPARE_SET:
        r->value.data = fuzz_bytes(in, fuzz_u8(in) % 8, &r->value.len);
        r->desired.data = fuzz_bytes(in, fuzz_u8(in), &r->desired.len);
        break;
    default:
        break;
    }
    r->key = names[o->list[0]];
}

static int encode(struct buf *b, const struct op *o, struct ddp_err *err)
{
    const struct c10d_request *r = &o->req;
    switch (r->op) {
    case C10D_SET:
        return c10d_put_set(b, r->key, r->value, err);
    case C10D_APPEND:
        return c10d_put_append(b, r->key, r->value, err);
    case C10D_GET:
        return c10d_put_get(b, r->key, err);
    case C10D_ADD:
        return c10d_put_add(b, r->key, r->number, err);
    case C10D_COMPARE_SET:
        return c10d_put_compare_set(b, r->key, r->value, r->desired, err);
    case C10D_DELETE_KEY:
        return c10d_put_delete_key(b, r->key, err);
    case C10D_GETNUMKEYS:
        return c10d_put_num_keys(b, err);
    case C10D_CANCEL_WAIT:
        return c10d_put_cancel_wait(b, err);
    case C10D_CHECK:
        return c10d_put_check(b, o->slices, (size_t)r->count, err);
    case C10D_WAIT:
        return c10d_put_wait(b, o->slices, (size_t)r->count, err);
    default:
        DDP_WRONG("an operation that is not made here");
    }
}

/* The client's bytes through the server's decoder, to the store. */
static int serve(struct store *s, uint32_t conn, const struct op *o)
{
    struct model_conn *c = &conns[conn];
    struct c10d_request req;
    struct ddp_err err;
    struct buf b;
    size_t used;
    buf_init(&b, C10D_REQUEST_MAX);
    if (c->decoder.family == C10D_UNDECIDED) {
        ddp_assert(c10d_put_hello(&b, &err) == 0);
        ddp_assert(c10d_decode(&c->decoder, buf_head(&b), buf_len(&b), &req,
                               &used, &err) == C10D_DONE);
        ddp_assert(req.op == C10D_VALIDATE && used == buf_len(&b) &&
                   c->decoder.family == C10D_NEW);
        buf_take(&b, used);
        ddp_assert(store_step(s, conn, C10D_NEW, &req, &err) == 0);
    }
    ddp_assert(encode(&b, o, &err) == 0);
    ddp_assert(c10d_decode(&c->decoder, buf_head(&b), buf_len(&b), &req, &used,
                           &err) == C10D_DONE);
    ddp_assert(used == buf_len(&b) && req.op == o->req.op &&
               req.number == o->req.number && req.count == o->req.count &&
               req.value.len == o->req.value.len);
    int rc = store_step(s, conn, C10D_NEW, &req, &err);
    ddp_assert(rc == 0 || err.code == DDP_E_PROTO);
    buf_free(&b);
    return rc;
}

/* The old family has no encoder here: a request without a list, as decoded. */
static int serve_old(struct store *s, uint32_t conn, const struct op *o)
{
    struct ddp_err err;
    if (o->req.op != C10D_CHECK && o->req.op != C10D_WAIT)
        return store_step(s, conn, C10D_OLD, &o->req, &err);
    struct c10d_request req = o->req;
    uint8_t items[3 * (8 + 3)];
    size_t len = 0;
    for (size_t i = 0; i < req.count; i++) {
        c10d_pack_u64(items + len, o->slices[i].len);
        memcpy(items + len + 8, o->slices[i].data, o->slices[i].len);
        len += 8 + o->slices[i].len;
    }
    req.items = (struct c10d_slice){items, len};
    return store_step(s, conn, C10D_OLD, &req, &err);
}

static void compare(void)
{
    for (size_t c = 0; c < CONNS; c++) {
        ddp_assert(sent[c].len == due[c].len);
        ddp_assert(memcmp(sent[c].bytes, due[c].bytes, sent[c].len) == 0);
        sent[c].len = due[c].len = 0;
    }
}

static void hang_up(struct store *s, uint32_t conn)
{
    store_gone(s, conn);
    conns[conn] = (struct model_conn){.waits = false};
}

static void check_operations(struct fuzz_in in)
{
    struct store *s = new_store((size_t)64 << 20, &sent);
    for (size_t i = 0; i < KEYS; i++)
        keys[i].there = false;
    memset(conns, 0, sizeof(conns));
    while (in.left > 0) {
        uint8_t who = fuzz_u8(&in);
        uint32_t conn = who % CONNS;
        if (who >= 240) {
            hang_up(s, conn);
            continue;
        }
        struct op o;
        take_op(&in, &o);
        bool fine = model_step(conn, &o.req, o.list);
        int rc = conn < OLD_FROM ? serve(s, conn, &o) : serve_old(s, conn, &o);
        ddp_assert((rc == 0) == fine);
        ddp_assert((int64_t)store_keys(s) == model_count());
        compare();
        if (rc != 0)
            hang_up(s, conn);
    }
    store_del(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > INPUT_MAX)
        return 0;
    if (data[0] % 2 == 0) {
        check_bytes(data + 1, size - 1);
        check_replies(data + 1, size - 1);
    } else {
        check_operations((struct fuzz_in){data + 1, size - 1});
    }
    return 0;
}
