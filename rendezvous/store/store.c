/*
 * Each request is a small function. Waits and watches are store/wait's, keys
 * and their memory store/table's. A value is changed in one place, change();
 * its callers then wake the waits for the key, except a BARRIER that is not
 * full.
 */
#include "rendezvous/store/store.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/table.h"
#include "rendezvous/store/wait.h"

#define NUMBER_MAX 20 /* digits of an i64 and its sign */

struct store {
    struct table t;
    struct waiting w;
    struct reply_way way;
    uint32_t conn_max;
    uint64_t keys;                 /* entries with a value ... */
    struct table_entry *first_key; /* ... and a list of them */
};

static int full(const struct store *s, enum c10d_op op, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_NOMEM,
                       "%s: the store is full, it holds %zu of %zu bytes",
                       c10d_op_name(op), s->t.bytes, s->t.byte_max);
}

/* The entry of a key that has a value, or NULL. */
static struct table_entry *find(const struct store *s, struct c10d_slice key)
{
    struct table_entry *e = table_find(&s->t, key);
    return e != NULL && e->there ? e : NULL;
}

/* What counts for WAIT and CHECK: a value, or an item of a queue. */
static bool has_come(const struct table_entry *e)
{
    return e != NULL && (e->there || e->items > 0);
}

static bool same(struct c10d_slice a, struct c10d_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static void send_key(struct store *s, uint32_t conn, struct c10d_slice key)
{
    const struct table_entry *e = find(s, key);
    reply_value(&s->way, conn,
                e != NULL ? entry_value(e) : (struct c10d_slice){0});
}

/* -- values ---------------------------------------------------------------- */

/* Watchers are told the old value, so the new one is a new buffer. */
static int write_watched(struct store *s,
                         struct table_entry *e,
                         size_t at,
                         struct c10d_slice data)
{
    size_t len = at + data.len;
    uint8_t *fresh = table_take(&s->t, len);
    if (fresh == NULL)
        return -1;
    if (at > 0)
        memcpy(fresh, e->value, at);
    if (data.len > 0)
        memcpy(fresh + at, data.data, data.len);
    uint8_t what = !e->there ? C10D_KEY_CREATED
                   : at > 0  ? C10D_KEY_APPENDED
                             : C10D_KEY_UPDATED;
    watch_tell(&s->w, e, what, (struct c10d_slice){fresh, len});
    table_clear(&s->t, e);
    e->value = fresh;
    e->value_len = e->value_cap = len;
    return 0;
}

/* The keys with a value are in a list, the newest first: to list them must cost
 * what the answer costs, however large the table once was. */
static void list_key(struct store *s, struct table_entry *e)
{
    e->there = true;
    e->key_prev = NULL;
    e->key_next = s->first_key;
    if (s->first_key != NULL)
        s->first_key->key_prev = e;
    s->first_key = e;
    s->keys++;
}

static void unlist_key(struct store *s, struct table_entry *e)
{
    e->there = false;
    if (e->key_prev != NULL)
        e->key_prev->key_next = e->key_next;
    else
        s->first_key = e->key_next;
    if (e->key_next != NULL)
        e->key_next->key_prev = e->key_prev;
    s->keys--;
}

/* The value from `at` on; wakes no wait. -1: no room, nothing changed. */
static int change(struct store *s,
                  struct table_entry *e,
                  size_t at,
                  struct c10d_slice data)
{
    int rc = e->watches != NULL ? write_watched(s, e, at, data)
                                : table_write(&s->t, e, at, data);
    if (rc != 0) {
        table_prune(&s->t, e);
        return -1;
    }
    if (!e->there)
        list_key(s, e);
    return 0;
}

static int set(struct store *s, struct c10d_slice key, struct c10d_slice value)
{
    struct table_entry *e = table_need(&s->t, key);
    if (e == NULL || change(s, e, 0, value) != 0)
        return -1;
    wait_wake_all(&s->w, e);
    return 0;
}

static int
do_compare_set(struct store *s, uint32_t conn, const struct c10d_request *req)
{
    const struct table_entry *e = find(s, req->key);
    struct c10d_slice answer = req->desired;
    if (e == NULL && req->value.len > 0) {
        /* What PyTorch answers, though it is stored nowhere. */
        answer = req->value;
    } else if (e != NULL && !same(entry_value(e), req->value)) {
        answer = entry_value(e);
    } else if (set(s, req->key, req->desired) != 0) {
        return -1;
    }
    reply_value(&s->way, conn, answer);
    return 0;
}

static int
do_append(struct store *s, const struct c10d_request *req, struct ddp_err *err)
{
    struct table_entry *e = table_need(&s->t, req->key);
    if (e == NULL)
        return full(s, req->op, err);
    if (req->value.len > C10D_VALUE_MAX - e->value_len)
        return ddp_err_set(err, DDP_E_PROTO,
                           "APPEND makes the value longer than %zu bytes",
                           C10D_VALUE_MAX);
    if (change(s, e, e->value_len, req->value) != 0)
        return full(s, req->op, err);
    wait_wake_all(&s->w, e);
    return 0;
}

static void
do_delete(struct store *s, uint32_t conn, const struct c10d_request *req)
{
    struct table_entry *e = find(s, req->key);
    if (e != NULL) {
        watch_tell(&s->w, e, C10D_KEY_DELETED, (struct c10d_slice){0});
        unlist_key(s, e);
        table_clear(&s->t, e);
        table_prune(&s->t, e);
    }
    reply_number(&s->way, conn, e != NULL);
}

/* -- numbers --------------------------------------------------------------- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* As strtoll in the C locale; -1: no digits, or out of range. */
static int parse_number(struct c10d_slice text, int64_t *n)
{
    size_t i = 0;
    while (i < text.len && is_blank(text.data[i]))
        i++;
    bool negative = i < text.len && text.data[i] == '-';
    if (i < text.len && (text.data[i] == '-' || text.data[i] == '+'))
        i++;
    size_t first = i;
    int64_t sum = 0;
    for (; i < text.len && text.data[i] >= '0' && text.data[i] <= '9'; i++) {
        int digit = text.data[i] - '0';
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, negative ? -digit : digit, &sum))
            return -1;
    }
    *n = sum;
    return i > first ? 0 : -1;
}

/* As printf would, without its cost; borrows from `text`. */
static struct c10d_slice number_text(uint8_t text[NUMBER_MAX], int64_t n)
{
    uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    size_t at = NUMBER_MAX;
    do {
        text[--at] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (n < 0)
        text[--at] = '-';
    return (struct c10d_slice){text + at, NUMBER_MAX - at};
}

/* Stores the sum as text; wakes no wait. */
static int add_to(struct store *s,
                  const struct c10d_request *req,
                  int64_t delta,
                  struct table_entry **at,
                  int64_t *sum,
                  struct ddp_err *err)
{
    int64_t n = 0;
    struct table_entry *e = table_need(&s->t, req->key);
    if (e == NULL)
        return full(s, req->op, err);
    if (e->there && parse_number(entry_value(e), &n) != 0)
        return ddp_err_set(err, DDP_E_PROTO, "%s: the value is not a number",
                           c10d_op_name(req->op));
    if (__builtin_add_overflow(n, delta, &n)) /* never with a fresh entry */
        return ddp_err_set(err, DDP_E_PROTO, "%s: the sum is out of range",
                           c10d_op_name(req->op));
    uint8_t text[NUMBER_MAX];
    if (change(s, e, 0, number_text(text, n)) != 0)
        return full(s, req->op, err);
    *at = e;
    *sum = n;
    return 0;
}

static int do_add(struct store *s,
                  uint32_t conn,
                  const struct c10d_request *req,
                  struct ddp_err *err)
{
    struct table_entry *e;
    int64_t sum;
    if (add_to(s, req, req->number, &e, &sum, err) != 0)
        return -1;
    reply_number(&s->way, conn, sum); /* before the waits are told */
    wait_wake_all(&s->w, e);
    return 0;
}

static int do_barrier(struct store *s,
                      uint32_t conn,
                      const struct c10d_request *req,
                      struct ddp_err *err)
{
    struct table_entry *e;
    int64_t came;
    if (add_to(s, req, 1, &e, &came, err) != 0)
        return -1;
    if (came >= req->number) {
        wait_wake_all(&s->w, e);
        reply_byte(&s->way, conn, C10D_STOP_WAITING);
        return 0;
    }
    if (wait_begin(&s->w, conn, 1) != 0)
        return full(s, req->op, err);
    wait_add(&s->w, conn, e);
    return 0;
}

/* -- lists of keys --------------------------------------------------------- */

static size_t count_missing(struct store *s, const struct c10d_request *req)
{
    size_t missing = 0;
    struct c10d_slice items = req->items;
    for (uint64_t i = 0; i < req->count; i++)
        missing += !has_come(table_find(&s->t, c10d_next(&items)));
    return missing;
}

static int do_wait(struct store *s,
                   uint32_t conn,
                   const struct c10d_request *req,
                   struct ddp_err *err)
{
    size_t missing = count_missing(s, req);
    if (missing == 0) {
        reply_byte(&s->way, conn, C10D_STOP_WAITING);
        return 0;
    }
    if (wait_begin(&s->w, conn, missing) != 0)
        return full(s, req->op, err);
    struct c10d_slice items = req->items;
    for (uint64_t i = 0; i < req->count; i++) {
        struct table_entry *e = table_need(&s->t, c10d_next(&items));
        if (e == NULL) {
            wait_drop(&s->w, conn);
            return full(s, req->op, err);
        }
        if (!has_come(e)) {
            wait_add(&s->w, conn, e);
            missing--;
        }
    }
    ddp_assert(missing == 0);
    return 0;
}

static void
do_multi_get(struct store *s, uint32_t conn, const struct c10d_request *req)
{
    struct c10d_slice items = req->items;
    for (uint64_t i = 0; i < req->count; i++)
        send_key(s, conn, c10d_next(&items));
}

static int do_multi_set(struct store *s, const struct c10d_request *req)
{
    struct c10d_slice items = req->items;
    for (uint64_t i = 0; i < req->count; i++) {
        struct c10d_slice key = c10d_next(&items);
        if (set(s, key, c10d_next(&items)) != 0)
            return -1;
    }
    return 0;
}

static void do_list_keys(struct store *s, uint32_t conn)
{
    reply_number(&s->way, conn, (int64_t)s->keys);
    for (const struct table_entry *e = s->first_key; e != NULL; e = e->key_next)
        reply_value(&s->way, conn, (struct c10d_slice){e->key, e->key_len});
}

/* -- queues ---------------------------------------------------------------- */

static int do_push(struct store *s, const struct c10d_request *req)
{
    struct table_entry *e = table_need(&s->t, req->key);
    if (e == NULL)
        return -1;
    if (table_push(&s->t, e, req->value) != 0) {
        table_prune(&s->t, e);
        return -1;
    }
    wait_wake_one(&s->w, e);
    return 0;
}

static void
do_pop(struct store *s, uint32_t conn, const struct c10d_request *req)
{
    struct table_entry *e = table_find(&s->t, req->key);
    if (e == NULL || e->items == 0) {
        reply_number(&s->way, conn, 0);
        return;
    }
    reply_number(&s->way, conn, (int64_t)e->items);
    reply_value(&s->way, conn,
                (struct c10d_slice){e->item_first->data, e->item_first->len});
    table_pop(&s->t, e);
    table_prune(&s->t, e);
}

static void
do_queue_len(struct store *s, uint32_t conn, const struct c10d_request *req)
{
    const struct table_entry *e = table_find(&s->t, req->key);
    reply_number(&s->way, conn, e != NULL ? (int64_t)e->items : 0);
}

/* -- the rest -------------------------------------------------------------- */

static int do_watch(struct store *s,
                    uint32_t conn,
                    const struct c10d_request *req,
                    struct ddp_err *err)
{
    struct table_entry *e = table_need(&s->t, req->key);
    if (e == NULL)
        return full(s, req->op, err);
    if (watch_add(&s->w, conn, e) != 0) {
        table_prune(&s->t, e);
        return full(s, req->op, err);
    }
    reply_byte(&s->way, conn, C10D_KEY_CALLBACK_REGISTERED);
    return 0;
}

static void do_ping(struct store *s, uint32_t conn, uint32_t nonce)
{
    uint8_t bytes[4];
    c10d_pack_u32(bytes, nonce);
    reply_bytes(&s->way, conn, bytes, sizeof(bytes));
}

/* -- requests -------------------------------------------------------------- */

static int serve(struct store *s,
                 uint32_t conn,
                 const struct c10d_request *req,
                 struct ddp_err *err)
{
    switch (req->op) {
    case C10D_VALIDATE:
        return 0;
    case C10D_PING:
        do_ping(s, conn, (uint32_t)req->number);
        return 0;
    case C10D_SET:
        return set(s, req->key, req->value) ? full(s, req->op, err) : 0;
    case C10D_COMPARE_SET:
        return do_compare_set(s, conn, req) ? full(s, req->op, err) : 0;
    case C10D_MULTI_SET:
        return do_multi_set(s, req) ? full(s, req->op, err) : 0;
    case C10D_GET:
        send_key(s, conn, req->key);
        return 0;
    case C10D_ADD:
        return do_add(s, conn, req, err);
    case C10D_APPEND:
        return do_append(s, req, err);
    case C10D_CHECK:
        reply_byte(&s->way, conn,
                   count_missing(s, req) > 0 ? C10D_NOT_READY : C10D_READY);
        return 0;
    case C10D_WAIT:
        return do_wait(s, conn, req, err);
    case C10D_CANCEL_WAIT:
        wait_drop(&s->w, conn);
        reply_byte(&s->way, conn, C10D_WAIT_CANCELED);
        return 0;
    case C10D_GETNUMKEYS:
        reply_number(&s->way, conn, (int64_t)s->keys);
        return 0;
    case C10D_DELETE_KEY:
        do_delete(s, conn, req);
        return 0;
    case C10D_MULTI_GET:
        do_multi_get(s, conn, req);
        return 0;
    case C10D_LIST_KEYS:
        do_list_keys(s, conn);
        return 0;
    case C10D_WATCH_KEY:
        return do_watch(s, conn, req, err);
    case C10D_QUEUE_PUSH:
        return do_push(s, req) ? full(s, req->op, err) : 0;
    case C10D_QUEUE_POP:
        do_pop(s, conn, req);
        return 0;
    case C10D_QUEUE_LEN:
        do_queue_len(s, conn, req);
        return 0;
    case C10D_BARRIER:
        return do_barrier(s, conn, req, err);
    }
    DDP_WRONG("an operation that the codec does not know");
}

/* Whether this request takes the item of the queue with that hash. */
static bool
takes_item(const struct store *s, uint64_t hash, const struct c10d_request *req)
{
    return req->op == C10D_QUEUE_POP && table_hash(&s->t, req->key) == hash;
}

int store_step(struct store *s,
               uint32_t conn,
               enum c10d_family family,
               const struct c10d_request *req,
               struct ddp_err *err)
{
    uint64_t hash;
    ddp_assert(conn < s->conn_max && family != C10D_UNDECIDED);
    if (wait_is_pending(&s->w, conn) && req->op != C10D_CANCEL_WAIT) {
        if (family == C10D_NEW)
            return ddp_err_set(err, DDP_E_PROTO, "%s while its WAIT is pending",
                               c10d_op_name(req->op));
        wait_drop(&s->w, conn);
    }
    bool passes =
        wait_take_wake(&s->w, conn, &hash) && !takes_item(s, hash, req);
    int rc = serve(s, conn, req, err);
    if (passes)
        wait_pass_on(&s->w, hash);
    return rc;
}

void store_gone(struct store *s, uint32_t conn)
{
    uint64_t hash;
    ddp_assert(conn < s->conn_max);
    wait_drop(&s->w, conn);
    watch_drop_all(&s->w, conn);
    if (wait_take_wake(&s->w, conn, &hash))
        wait_pass_on(&s->w, hash);
}

size_t store_bytes(const struct store *s)
{
    return s->t.bytes;
}

uint64_t store_keys(const struct store *s)
{
    return s->keys;
}

/* -- life ------------------------------------------------------------------ */

struct store *store_new(const struct store_config *cf, struct ddp_err *err)
{
    struct store *s = calloc(1, sizeof(*s));
    if (s != NULL) {
        s->way = (struct reply_way){cf->send, cf->ctx};
        s->conn_max = cf->conn_max;
    }
    if (s == NULL || table_init(&s->t, cf->byte_max, cf->hash_key) != 0 ||
        waiting_init(&s->w, &s->t, s->way, cf->conn_max) != 0) {
        store_del(s);
        ddp_err_set(err, DDP_E_NOMEM, "no memory for the store");
        return NULL;
    }
    return s;
}

void store_del(struct store *s)
{
    if (s == NULL)
        return;
    waiting_free(&s->w);
    table_free(&s->t);
    free(s);
}
