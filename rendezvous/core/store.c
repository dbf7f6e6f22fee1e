/*
 * One hash table holds the keys that are there and those that are awaited.
 * An entry is `there` or has waits, never both: the moment it is set, its
 * waits are served; without either it is removed.
 *
 * A WAIT is one array with a node per missing key, each linked into its key's
 * entry. The array is freed when the last node was served, or when the wait is
 * dropped.
 */
#include "rendezvous/core/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN ((size_t)256)
#define MALLOC_COST ((size_t)16) /* of an allocation, beyond its size */

struct wait {
    struct wait *prev;
    struct wait *next;
    struct entry *entry; /* NULL: has come */
    uint32_t conn;
};

struct entry {
    struct entry *next; /* in its bucket */
    uint64_t hash;
    struct wait *waits;
    uint8_t *value;
    size_t value_len;
    size_t key_len;
    bool there;
    uint8_t key[];
};

struct waiter {
    struct wait *waits; /* NULL: waits for nothing */
    size_t count;
    size_t missing;
};

struct store {
    struct store_config cf;
    size_t bytes;
    struct entry **buckets;
    size_t bucket_count; /* a power of two */
    size_t entries;
    uint64_t keys;          /* entries that are there */
    struct waiter *waiters; /* by connection */
};

/* -- memory, counted ------------------------------------------------------- */

/* Zeroed, or NULL: over the limit, or out of memory. */
static void *take(struct store *s, size_t len)
{
    size_t room = s->cf.byte_max - s->bytes;
    if (room < MALLOC_COST || len > room - MALLOC_COST)
        return NULL;
    void *p = calloc(1, len > 0 ? len : 1);
    if (p != NULL)
        s->bytes += len + MALLOC_COST;
    return p;
}

static void give(struct store *s, void *p, size_t len)
{
    if (p == NULL)
        return;
    ddp_assert(s->bytes >= len + MALLOC_COST);
    s->bytes -= len + MALLOC_COST;
    free(p);
}

static int full(const struct store *s, enum c10d_op op, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_NOMEM,
                       "no room for %s: the store holds %zu of %zu bytes",
                       c10d_op_name(op), s->bytes, s->cf.byte_max);
}

/* -- the table ------------------------------------------------------------- */

static uint64_t rotl(uint64_t x, unsigned n)
{
    return (x << n) | (x >> (64 - n));
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

/*
 * SipHash-1-3: Aumasson and Bernstein, "SipHash: a fast short-input PRF",
 * 2012, with one round per word and three at the end, which is what hash
 * tables take.
 */
static uint64_t hash_of(const struct store *s, struct c10d_slice key)
{
    uint64_t k0 = s->cf.hash_key[0], k1 = s->cf.hash_key[1];
    uint64_t v[4] = {
        k0 ^ UINT64_C(0x736f6d6570736575),
        k1 ^ UINT64_C(0x646f72616e646f6d),
        k0 ^ UINT64_C(0x6c7967656e657261),
        k1 ^ UINT64_C(0x7465646279746573),
    };
    for (size_t at = 0;; at += 8) {
        size_t n = key.len - at < 8 ? key.len - at : 8;
        uint64_t word = n < 8 ? (uint64_t)key.len << 56 : 0;
        if (n > 0)
            memcpy(&word, key.data + at, n);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
        if (n < 8)
            break;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct entry **bucket_of(struct store *s, uint64_t hash)
{
    return &s->buckets[hash & (s->bucket_count - 1)];
}

static bool same(const void *a, size_t a_len, const void *b, size_t b_len)
{
    return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

static struct entry *
find_hashed(struct store *s, struct c10d_slice key, uint64_t hash)
{
    struct entry *e = *bucket_of(s, hash);
    while (e != NULL &&
           (e->hash != hash || !same(e->key, e->key_len, key.data, key.len)))
        e = e->next;
    return e;
}

/* The entry of a key that is there, or NULL. */
static struct entry *find(struct store *s, struct c10d_slice key)
{
    struct entry *e = find_hashed(s, key, hash_of(s, key));
    return e != NULL && e->there ? e : NULL;
}

/* Without memory for more buckets the chains grow longer, that is all. */
static void grow(struct store *s)
{
    size_t count = 2 * s->bucket_count;
    struct entry **old = s->buckets;
    struct entry **buckets = take(s, count * sizeof(struct entry *));
    if (buckets == NULL)
        return;
    for (size_t i = 0; i < s->bucket_count; i++) {
        for (struct entry *e = old[i], *next; e != NULL; e = next) {
            next = e->next;
            struct entry **head = &buckets[e->hash & (count - 1)];
            e->next = *head;
            *head = e;
        }
    }
    give(s, old, s->bucket_count * sizeof(struct entry *));
    s->buckets = buckets;
    s->bucket_count = count;
}

/* Finds or makes the entry; NULL where there is no room. */
static struct entry *need(struct store *s, struct c10d_slice key)
{
    uint64_t hash = hash_of(s, key);
    struct entry *e = find_hashed(s, key, hash);
    if (e != NULL)
        return e;
    if (s->entries >= s->bucket_count)
        grow(s);
    e = take(s, sizeof(*e) + key.len);
    if (e == NULL)
        return NULL;
    e->hash = hash;
    e->key_len = key.len;
    if (key.len > 0)
        memcpy(e->key, key.data, key.len);
    struct entry **head = bucket_of(s, hash);
    e->next = *head;
    *head = e;
    s->entries++;
    return e;
}

static void free_entry(struct store *s, struct entry *e)
{
    give(s, e->value, e->value_len);
    give(s, e, sizeof(*e) + e->key_len);
}

/* Forgets an entry that is neither there nor awaited. */
static void prune(struct store *s, struct entry *e)
{
    if (e->there || e->waits != NULL)
        return;
    struct entry **at = bucket_of(s, e->hash);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    s->entries--;
    free_entry(s, e);
}

/* -- waits ----------------------------------------------------------------- */

static void send_byte(struct store *s, uint32_t conn, uint8_t byte)
{
    s->cf.send(s->cf.ctx, conn, &byte, 1);
}

static void link_wait(struct wait *w, struct entry *e, uint32_t conn)
{
    *w = (struct wait){.entry = e, .conn = conn, .next = e->waits};
    if (w->next != NULL)
        w->next->prev = w;
    e->waits = w;
}

static void unlink_wait(struct wait *w)
{
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        w->entry->waits = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    w->entry = NULL;
}

static void end_wait(struct store *s, struct waiter *who)
{
    give(s, who->waits, who->count * sizeof(*who->waits));
    *who = (struct waiter){0};
}

/* Also what is left of a wait that could not be registered whole. */
static void drop_wait(struct store *s, uint32_t conn)
{
    struct waiter *who = &s->waiters[conn];
    for (size_t i = 0; i < who->count; i++) {
        struct entry *e = who->waits[i].entry;
        if (e == NULL)
            continue;
        unlink_wait(&who->waits[i]);
        prune(s, e);
    }
    end_wait(s, who);
}

static void wake(struct store *s, struct entry *e)
{
    while (e->waits != NULL) {
        struct wait *w = e->waits;
        uint32_t conn = w->conn;
        struct waiter *who = &s->waiters[conn];
        unlink_wait(w);
        ddp_assert(who->missing > 0);
        if (--who->missing > 0)
            continue;
        end_wait(s, who);
        send_byte(s, conn, C10D_STOP_WAITING);
    }
}

/* -- values ---------------------------------------------------------------- */

/* Makes the value `len` bytes long, its start kept; -1: no room. */
static int resize(struct store *s, struct entry *e, size_t len)
{
    if (e->value != NULL && e->value_len == len)
        return 0;
    uint8_t *value = take(s, len);
    if (value == NULL)
        return -1;
    if (e->value_len > 0)
        memcpy(value, e->value, len < e->value_len ? len : e->value_len);
    give(s, e->value, e->value_len);
    e->value = value;
    e->value_len = len;
    return 0;
}

/* Writes `data` at `at` and ends the value behind it. Whoever waits for the
 * key is to be woken after this: publish(). */
static int
write_value(struct store *s, struct entry *e, size_t at, struct c10d_slice data)
{
    if (resize(s, e, at + data.len) != 0) {
        prune(s, e);
        return -1;
    }
    if (data.len > 0)
        memcpy(e->value + at, data.data, data.len);
    return 0;
}

static void publish(struct store *s, struct entry *e)
{
    if (e->there)
        return;
    e->there = true;
    s->keys++;
    wake(s, e);
}

static int set(struct store *s, struct c10d_slice key, struct c10d_slice value)
{
    struct entry *e = need(s, key);
    if (e == NULL || write_value(s, e, 0, value) != 0)
        return -1;
    publish(s, e);
    return 0;
}

static void
send_value(struct store *s, uint32_t conn, const uint8_t *data, size_t len)
{
    uint8_t head[8];
    c10d_pack_u64(head, len);
    s->cf.send(s->cf.ctx, conn, head, sizeof(head));
    if (len > 0)
        s->cf.send(s->cf.ctx, conn, data, len);
}

static void send_number(struct store *s, uint32_t conn, int64_t n)
{
    uint8_t bytes[8];
    c10d_pack_u64(bytes, (uint64_t)n);
    s->cf.send(s->cf.ctx, conn, bytes, sizeof(bytes));
}

static void send_key(struct store *s, uint32_t conn, struct c10d_slice key)
{
    const struct entry *e = find(s, key);
    send_value(s, conn, e ? e->value : NULL, e ? e->value_len : 0);
}

/* -- requests -------------------------------------------------------------- */

static int
do_compare_set(struct store *s, uint32_t conn, const struct c10d_request *req)
{
    const struct entry *e = find(s, req->key);
    const struct c10d_slice *answer = &req->desired;
    if (e == NULL && req->value.len > 0) {
        /* What PyTorch answers, though it is stored nowhere. */
        answer = &req->value;
    } else if (e != NULL &&
               !same(e->value, e->value_len, req->value.data, req->value.len)) {
        send_value(s, conn, e->value, e->value_len);
        return 0;
    } else if (set(s, req->key, req->desired) != 0) {
        return -1;
    }
    send_value(s, conn, answer->data, answer->len);
    return 0;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* As strtoll in the C locale; -1: no digits, or out of range. */
static int parse_number(const uint8_t *text, size_t len, int64_t *n)
{
    size_t i = 0;
    while (i < len && is_blank(text[i]))
        i++;
    bool negative = i < len && text[i] == '-';
    if (i < len && (text[i] == '-' || text[i] == '+'))
        i++;
    size_t first = i;
    int64_t sum = 0;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
        int digit = text[i] - '0';
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, negative ? -digit : digit, &sum))
            return -1;
    }
    *n = sum;
    return i > first ? 0 : -1;
}

static int do_add(struct store *s,
                  uint32_t conn,
                  const struct c10d_request *req,
                  struct ddp_err *err)
{
    int64_t n = 0;
    struct entry *e = find(s, req->key);
    if (e != NULL && parse_number(e->value, e->value_len, &n) != 0)
        return ddp_err_set(err, DDP_E_PROTO,
                           "ADD to a value that is not a number");
    if (__builtin_add_overflow(n, req->number, &n))
        return ddp_err_set(err, DDP_E_PROTO,
                           "ADD takes the number out of its range");
    uint8_t text[24];
    int len = snprintf((char *)text, sizeof(text), "%" PRId64, n);
    ddp_assert(len > 0 && (size_t)len < sizeof(text));
    if (e == NULL)
        e = need(s, req->key);
    if (e == NULL ||
        write_value(s, e, 0, (struct c10d_slice){text, (size_t)len}) != 0)
        return full(s, req->op, err);
    send_number(s, conn, n); /* the adder first, then who waits for it */
    publish(s, e);
    return 0;
}

static int
do_append(struct store *s, const struct c10d_request *req, struct ddp_err *err)
{
    struct entry *e = need(s, req->key);
    if (e == NULL)
        return full(s, req->op, err);
    if (req->value.len > C10D_VALUE_MAX - e->value_len)
        return ddp_err_set(err, DDP_E_PROTO,
                           "APPEND takes the value over %zu bytes",
                           C10D_VALUE_MAX);
    if (write_value(s, e, e->value_len, req->value) != 0)
        return full(s, req->op, err);
    publish(s, e);
    return 0;
}

static size_t count_missing(struct store *s, const struct c10d_request *req)
{
    size_t missing = 0;
    struct c10d_slice items = req->items;
    for (uint64_t i = 0; i < req->count; i++)
        missing += find(s, c10d_next(&items)) == NULL;
    return missing;
}

static int do_wait(struct store *s,
                   uint32_t conn,
                   const struct c10d_request *req,
                   struct ddp_err *err)
{
    size_t missing = count_missing(s, req);
    if (missing == 0) {
        send_byte(s, conn, C10D_STOP_WAITING);
        return 0;
    }
    struct waiter *who = &s->waiters[conn];
    who->waits = take(s, missing * sizeof(*who->waits));
    if (who->waits == NULL)
        return full(s, req->op, err);
    who->count = missing;
    struct c10d_slice items = req->items;
    for (uint64_t i = 0; i < req->count; i++) {
        struct entry *e = need(s, c10d_next(&items));
        if (e == NULL) {
            drop_wait(s, conn);
            return full(s, req->op, err);
        }
        if (!e->there)
            link_wait(&who->waits[who->missing++], e, conn);
    }
    ddp_assert(who->missing == missing);
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

static void
do_delete(struct store *s, uint32_t conn, const struct c10d_request *req)
{
    struct entry *e = find(s, req->key);
    if (e != NULL) {
        e->there = false;
        s->keys--;
        prune(s, e);
    }
    send_number(s, conn, e != NULL);
}

static void do_list_keys(struct store *s, uint32_t conn)
{
    send_number(s, conn, (int64_t)s->keys);
    for (size_t i = 0; i < s->bucket_count; i++)
        for (const struct entry *e = s->buckets[i]; e != NULL; e = e->next)
            if (e->there)
                send_value(s, conn, e->key, e->key_len);
}

static void do_ping(struct store *s, uint32_t conn, uint32_t nonce)
{
    uint8_t bytes[4];
    c10d_pack_u32(bytes, nonce);
    s->cf.send(s->cf.ctx, conn, bytes, sizeof(bytes));
}

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
        send_byte(s, conn,
                  count_missing(s, req) > 0 ? C10D_NOT_READY : C10D_READY);
        return 0;
    case C10D_WAIT:
        return do_wait(s, conn, req, err);
    case C10D_CANCEL_WAIT:
        drop_wait(s, conn);
        send_byte(s, conn, C10D_WAIT_CANCELED);
        return 0;
    case C10D_GETNUMKEYS:
        send_number(s, conn, (int64_t)s->keys);
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
    case C10D_QUEUE_PUSH:
    case C10D_QUEUE_POP:
    case C10D_QUEUE_LEN:
    case C10D_BARRIER:
        return ddp_err_set(err, DDP_E_PROTO, "%s is not served by this store",
                           c10d_op_name(req->op));
    }
    DDP_WRONG("an operation that the codec does not know");
}

int store_step(struct store *s,
               uint32_t conn,
               enum c10d_family family,
               const struct c10d_request *req,
               struct ddp_err *err)
{
    ddp_assert(conn < s->cf.conn_max && family != C10D_UNDECIDED);
    if (s->waiters[conn].waits != NULL && req->op != C10D_CANCEL_WAIT) {
        if (family == C10D_NEW)
            return ddp_err_set(err, DDP_E_PROTO, "%s while its WAIT is pending",
                               c10d_op_name(req->op));
        drop_wait(s, conn);
    }
    return serve(s, conn, req, err);
}

void store_gone(struct store *s, uint32_t conn)
{
    ddp_assert(conn < s->cf.conn_max);
    drop_wait(s, conn);
}

size_t store_bytes(const struct store *s)
{
    return s->bytes;
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
        s->cf = *cf;
        s->bucket_count = BUCKETS_MIN;
        s->waiters = calloc(cf->conn_max, sizeof(*s->waiters));
        s->buckets = take(s, BUCKETS_MIN * sizeof(struct entry *));
    }
    if (s == NULL || s->waiters == NULL || s->buckets == NULL) {
        store_del(s);
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a store of %u connections",
                    (unsigned)cf->conn_max);
        return NULL;
    }
    return s;
}

void store_del(struct store *s)
{
    if (s == NULL)
        return;
    if (s->waiters != NULL && s->buckets != NULL) {
        for (uint32_t i = 0; i < s->cf.conn_max; i++)
            drop_wait(s, i);
        for (size_t i = 0; i < s->bucket_count; i++)
            for (struct entry *e = s->buckets[i], *next; e; e = next) {
                next = e->next;
                free_entry(s, e);
            }
    }
    free(s->buckets);
    free(s->waiters);
    free(s);
}
