/* links: rendezvous/proto/c10d rendezvous/store/{store,table,wait} */
/* links: rendezvous/base/{buf,err,siphash} */
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

#include "rendezvous/store/store.h"
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
    if (len > 0)
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
    unsigned items;
    size_t item_len[INPUT_MAX];
    const uint8_t *item[INPUT_MAX]; /* in the input */
};

struct model_conn {
    bool waits;
    bool missing[KEYS];
    uint64_t since[KEYS]; /* which wait for a key came first */
    bool woken;           /* for an item of this key: */
    unsigned woken_key;
    unsigned watches[KEYS]; /* how many times */
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

static uint64_t turn; /* counts waits */

/* The key has come for this connection; true: its wait has ended with that. */
static bool model_come(uint32_t conn, unsigned key)
{
    bool left = false;
    conns[conn].missing[key] = false;
    for (unsigned i = 0; i < KEYS; i++)
        left |= conns[conn].missing[i];
    conns[conn].waits = left;
    if (!left)
        due_byte(conn, C10D_STOP_WAITING);
    return !left;
}

static void model_wake_all(unsigned key)
{
    for (uint32_t c = 0; c < CONNS; c++)
        if (conns[c].waits && conns[c].missing[key])
            (void)model_come(c, key); /* all the same to the others */
}

/* Until one wait has ended, the oldest first. */
static void model_wake_one(unsigned key)
{
    for (;;) {
        uint32_t first = CONNS;
        for (uint32_t c = 0; c < CONNS; c++)
            if (conns[c].waits && conns[c].missing[key] &&
                (first == CONNS ||
                 conns[c].since[key] < conns[first].since[key]))
                first = c;
        if (first == CONNS)
            return;
        if (model_come(first, key)) {
            conns[first].woken = true;
            conns[first].woken_key = key;
            return;
        }
    }
}

static void model_pass_on(uint32_t conn)
{
    conns[conn].woken = false;
    if (keys[conns[conn].woken_key].items > 0)
        model_wake_one(conns[conn].woken_key);
}

static void
model_tell(unsigned key, uint8_t what, const uint8_t *now, size_t now_len)
{
    const struct model_key *k = &keys[key];
    for (uint32_t c = 0; c < CONNS; c++) {
        for (unsigned i = 0; i < conns[c].watches[key]; i++) {
            due_byte(c, what);
            due_value(c, names[key].data, names[key].len);
            due_value(c, k->value, k->there ? k->len : 0);
            due_value(c, now, now_len);
        }
    }
}

/* Nobody is woken yet. */
static void
model_write(unsigned key, size_t at, const uint8_t *data, size_t len)
{
    static uint8_t now[INPUT_MAX + 32];
    struct model_key *k = &keys[key];
    ddp_assert(at + len <= sizeof(now));
    memcpy(now, k->value, at);
    if (len > 0)
        memcpy(now + at, data, len);
    model_tell(key,
               !k->there ? C10D_KEY_CREATED
               : at > 0  ? C10D_KEY_APPENDED
                         : C10D_KEY_UPDATED,
               now, at + len);
    k->there = true;
    k->len = at + len;
    memcpy(k->value, now, k->len);
}

static void model_set(unsigned key, size_t at, const uint8_t *data, size_t len)
{
    model_write(key, at, data, len);
    model_wake_all(key);
}

/* Nobody is woken yet. False: the store must refuse. */
static bool model_sum(unsigned key, int64_t delta, int64_t *n)
{
    const struct model_key *k = &keys[key];
    char text[sizeof(k->value) + 1];
    *n = 0;
    if (k->there) {
        char *end;
        memcpy(text, k->value, k->len);
        text[k->len] = '\0';
        errno = 0;
        *n = strtoll(text, &end, 10);
        if (end == text || errno != 0)
            return false;
    }
    if (__builtin_add_overflow(*n, delta, n))
        return false;
    int len = snprintf(text, sizeof(text), "%" PRId64, *n);
    model_write(key, 0, (const uint8_t *)text, (size_t)len);
    return true;
}

static bool model_add(uint32_t conn, unsigned key, int64_t delta)
{
    int64_t n;
    if (!model_sum(key, delta, &n))
        return false;
    due_number(conn, n);
    model_wake_all(key);
    return true;
}

static void model_await(uint32_t conn, unsigned key)
{
    conns[conn].waits = true;
    conns[conn].missing[key] = true;
    conns[conn].since[key] = turn++;
}

static bool model_barrier(uint32_t conn, unsigned key, int64_t world)
{
    int64_t n;
    if (!model_sum(key, 1, &n))
        return false;
    if (n < world) {
        memset(conns[conn].missing, 0, sizeof(conns[conn].missing));
        model_await(conn, key);
        return true;
    }
    model_wake_all(key);
    due_byte(conn, C10D_STOP_WAITING);
    return true;
}

static void model_push(unsigned key, struct c10d_slice item)
{
    struct model_key *k = &keys[key];
    ddp_assert(k->items < INPUT_MAX);
    k->item[k->items] = item.data;
    k->item_len[k->items++] = item.len;
    model_wake_one(key);
}

static void model_pop(uint32_t conn, unsigned key)
{
    struct model_key *k = &keys[key];
    due_number(conn, k->items);
    if (k->items == 0)
        return;
    due_value(conn, k->item[0], k->item_len[0]);
    k->items--;
    memmove(k->item, k->item + 1, k->items * sizeof(*k->item));
    memmove(k->item_len, k->item_len + 1, k->items * sizeof(*k->item_len));
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

static bool has_come(unsigned key)
{
    return keys[key].there || keys[key].items > 0;
}

static void
model_wait(uint32_t conn, const unsigned *list, unsigned n, bool wait)
{
    bool missing = false;
    for (unsigned i = 0; i < n; i++)
        missing |= !has_come(list[i]);
    if (!wait) {
        due_byte(conn, missing ? C10D_NOT_READY : C10D_READY);
        return;
    }
    if (!missing) {
        due_byte(conn, C10D_STOP_WAITING);
        return;
    }
    memset(conns[conn].missing, 0, sizeof(conns[conn].missing));
    for (unsigned i = 0; i < n; i++)
        if (!has_come(list[i]) && !conns[conn].missing[list[i]])
            model_await(conn, list[i]);
}

static int64_t model_count(void)
{
    int64_t n = 0;
    for (unsigned i = 0; i < KEYS; i++)
        n += keys[i].there;
    return n;
}

static bool
model_serve(uint32_t conn, const struct c10d_request *r, const unsigned *list)
{
    unsigned key = list[0];
    struct model_key *k = &keys[key];
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
    case C10D_BARRIER:
        return model_barrier(conn, key, r->number);
    case C10D_COMPARE_SET:
        model_compare_set(conn, r, key);
        return true;
    case C10D_DELETE_KEY:
        if (k->there)
            model_tell(key, C10D_KEY_DELETED, NULL, 0);
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
    case C10D_MULTI_GET:
        for (size_t i = 0; i < r->count; i++)
            due_value(conn, keys[list[i]].value,
                      keys[list[i]].there ? keys[list[i]].len : 0);
        return true;
    case C10D_MULTI_SET:
        for (size_t i = 0; i < r->count; i++)
            model_set(list[i], 0, r->value.data, r->value.len);
        return true;
    case C10D_QUEUE_PUSH:
        model_push(key, r->value);
        return true;
    case C10D_QUEUE_POP:
        model_pop(conn, key);
        return true;
    case C10D_QUEUE_LEN:
        due_number(conn, k->items);
        return true;
    case C10D_WATCH_KEY:
        conns[conn].watches[key]++;
        due_byte(conn, C10D_KEY_CALLBACK_REGISTERED);
        return true;
    case C10D_PING: {
        uint8_t nonce[4];
        c10d_pack_u32(nonce, (uint32_t)r->number);
        append(&due[conn], nonce, sizeof(nonce));
        return true;
    }
    default:
        DDP_WRONG("an operation that the model does not have");
    }
}

/* What one request does. False: the store must refuse. */
static bool
model_step(uint32_t conn, const struct c10d_request *r, const unsigned *list)
{
    struct model_conn *c = &conns[conn];
    if (c->waits && r->op != C10D_CANCEL_WAIT) {
        if (conn < OLD_FROM)
            return false;
        c->waits = false;
    }
    bool passes =
        c->woken && !(r->op == C10D_QUEUE_POP && list[0] == c->woken_key);
    c->woken = false;
    bool fine = model_serve(conn, r, list);
    if (passes)
        model_pass_on(conn);
    return fine;
}

/* -- operations ------------------------------------------------------------ */

/* One request, what it is made of. */
struct op {
    struct c10d_request req;
    unsigned list[3];
    struct c10d_slice slices[6];
};

/* Up to three keys; for MULTI_SET all with the same value. */
static void take_list(struct fuzz_in *in, struct op *o)
{
    struct c10d_request *r = &o->req;
    bool pairs = r->op == C10D_MULTI_SET;
    r->count = fuzz_u8(in) % 4;
    for (size_t i = 1; i < r->count; i++)
        o->list[i] = fuzz_u8(in) % KEYS;
    if (pairs)
        r->value.data = fuzz_bytes(in, fuzz_u8(in) % 32, &r->value.len);
    for (size_t i = 0; i < r->count; i++) {
        o->slices[pairs ? 2 * i : i] = names[o->list[i]];
        if (pairs)
            o->slices[2 * i + 1] = r->value;
    }
}

static int64_t take_number(struct fuzz_in *in)
{
    uint8_t how = fuzz_u8(in);
    return how == 255 ? INT64_MAX : how == 254 ? INT64_MIN : (int64_t)how - 100;
}

static void take_op(struct fuzz_in *in, struct op *o)
{
    static const enum c10d_op ops[] = {
        C10D_SET,         C10D_GET,        C10D_ADD,       C10D_CHECK,
        C10D_WAIT,        C10D_DELETE_KEY, C10D_APPEND,    C10D_COMPARE_SET,
        C10D_CANCEL_WAIT, C10D_GETNUMKEYS, C10D_MULTI_GET, C10D_MULTI_SET,
        C10D_QUEUE_PUSH,  C10D_QUEUE_POP,  C10D_QUEUE_LEN, C10D_BARRIER,
        C10D_WATCH_KEY,   C10D_PING,
    };
    *o = (struct op){.req.op = ops[fuzz_u8(in) % 18]};
    o->list[0] = fuzz_u8(in) % KEYS;
    struct c10d_request *r = &o->req;
    switch (r->op) {
    case C10D_CHECK:
    case C10D_WAIT:
    case C10D_MULTI_GET:
    case C10D_MULTI_SET:
        take_list(in, o);
        return;
    case C10D_CANCEL_WAIT:
    case C10D_GETNUMKEYS:
        return;
    case C10D_PING:
        r->number = fuzz_u16(in);
        return;
    case C10D_ADD:
        r->number = take_number(in);
        break;
    case C10D_BARRIER:
        r->number = fuzz_u8(in) % 5;
        break;
    case C10D_SET:
    case C10D_APPEND:
    case C10D_QUEUE_PUSH:
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
    struct c10d_request req = o->req;
    req.list = o->slices;
    return c10d_put(b, &req, err);
}

/* The client's bytes through the server's decoder, to the store. */
static int serve(struct store *s, uint32_t conn, const struct op *o)
{
    struct model_conn *c = &conns[conn];
    const struct c10d_request hello = {.op = C10D_VALIDATE};
    struct c10d_request req;
    struct ddp_err err;
    struct buf b;
    size_t used;
    buf_init(&b, C10D_REQUEST_MAX);
    if (c->decoder.family == C10D_UNDECIDED) {
        ddp_assert(c10d_put(&b, &hello, &err) == 0);
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
               (req.op == C10D_MULTI_SET || req.value.len == o->req.value.len));
    int rc = store_step(s, conn, C10D_NEW, &req, &err);
    ddp_assert(rc == 0 || err.code == DDP_E_PROTO);
    buf_free(&b);
    return rc;
}

/* What has no encoder here: the old family, and what only it or nobody asks. */
static int serve_old(struct store *s, uint32_t conn, const struct op *o)
{
    enum c10d_family family = conn < OLD_FROM ? C10D_NEW : C10D_OLD;
    struct ddp_err err;
    struct c10d_request req = o->req;
    uint8_t items[3 * (8 + 3 + 8 + 32)];
    size_t len = 0, strings = (size_t)req.count;
    if (req.op == C10D_MULTI_SET) {
        strings *= 2;
        req.value = (struct c10d_slice){0};
    }
    for (size_t i = 0; i < strings; i++) {
        c10d_pack_u64(items + len, o->slices[i].len);
        if (o->slices[i].len > 0)
            memcpy(items + len + 8, o->slices[i].data, o->slices[i].len);
        len += 8 + o->slices[i].len;
    }
    req.items = (struct c10d_slice){items, len};
    return store_step(s, conn, family, &req, &err);
}

static bool is_encoded(uint32_t conn, enum c10d_op op)
{
    return conn < OLD_FROM && op != C10D_WATCH_KEY && op != C10D_PING;
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
    bool woken = conns[conn].woken;
    unsigned key = conns[conn].woken_key;
    store_gone(s, conn);
    conns[conn] = (struct model_conn){.woken_key = key};
    if (woken)
        model_pass_on(conn);
    compare();
}

static void check_operations(struct fuzz_in in)
{
    struct store *s = new_store((size_t)64 << 20, &sent);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i].there = false;
        keys[i].items = 0;
    }
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
        int rc = is_encoded(conn, o.req.op) ? serve(s, conn, &o)
                                            : serve_old(s, conn, &o);
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
