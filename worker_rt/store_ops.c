/*
 * worker_rt/store_ops: the store's operations of ddp.h, one function each, on
 * the connection of client/store: first those that stand there, since other
 * files need them too, then the others.
 *
 * Happy path: begin connects and makes the key, ask writes the request, talk
 * sends it and reads the reply, end says that all is well.
 * Failure modes: those of client/store; every failure but USAGE closes the
 * connection there, so that a late reply is never taken for another request's.
 */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/client/store.h"
#include "worker_rt/rt.h"

_Static_assert(DDP_STORE_KEY_MAX <= STORE_CLIENT_KEY_MAX, "as ddp.h promises");
_Static_assert(DDP_STORE_VALUE_MAX <= C10D_VALUE_MAX, "as ddp.h promises");
_Static_assert(DDP_STORE_KEYS_MAX <= C10D_KEYS_MAX, "as ddp.h promises");

/* -- those that stand in client/store -------------------------------------- */

int ddp_store_set(struct ddp *d,
                  const char *key,
                  const void *value,
                  size_t len,
                  int64_t timeout_ms,
                  struct ddp_error *err)
{
    struct ddp_err why;
    int64_t deadline_us = rt_deadline(timeout_ms);
    if (store_client_set(&d->store, key, value, len, deadline_us, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

int ddp_store_get(struct ddp *d,
                  const char *key,
                  void *value,
                  size_t cap,
                  size_t *len,
                  int64_t timeout_ms,
                  struct ddp_error *err)
{
    struct ddp_err why;
    int64_t deadline_us = rt_deadline(timeout_ms);
    if (store_client_get(&d->store, key, value, cap, len, deadline_us, &why) ==
        0)
        return 0;
    return rt_fail(err, &why);
}

int ddp_store_wait(struct ddp *d,
                   const char *key,
                   int64_t timeout_ms,
                   struct ddp_error *err)
{
    struct ddp_err why;
    int64_t deadline_us = rt_deadline(timeout_ms);
    if (store_client_wait(&d->store, key, deadline_us, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

int ddp_store_check(struct ddp *d,
                    const char *key,
                    bool *there,
                    int64_t timeout_ms,
                    struct ddp_error *err)
{
    struct ddp_err why;
    int64_t deadline_us = rt_deadline(timeout_ms);
    if (store_client_check(&d->store, key, there, deadline_us, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

/* -- a request ------------------------------------------------------------- */

/* One request on its way. */
struct op {
    struct store_client *s;
    enum c10d_op op;
    const char *key; /* for errors */
    int64_t deadline_us;
    struct ddp_err why;
    struct c10d_slice slice; /* the key on the wire */
    char wire[C10D_KEY_MAX + 1];
};

static const struct c10d_request plain; /* a key, or nothing */

/* Connected, with a key to send. -1 with o->why. */
static int begin(struct op *o,
                 struct ddp *d,
                 enum c10d_op op,
                 const char *key,
                 int64_t timeout_ms)
{
    o->s = &d->store;
    o->op = op;
    o->key = key;
    o->deadline_us = rt_deadline(timeout_ms);
    if (store_client_key(o->wire, key, &o->slice, &o->why) != 0)
        return -1;
    return store_client_ready(o->s, o->deadline_us, &o->why);
}

/* Writes the request of `o`, with what it has besides the key. */
static int ask(struct op *o, struct c10d_request with)
{
    with.op = o->op;
    with.key = o->slice;
    return c10d_put(&o->s->out, &with, &o->why);
}

/* The request is sent, and one reply is read; a value stays in s->in. */
static int talk(struct op *o, struct store_reply *r)
{
    if (store_client_talk(o->s, r, o->deadline_us, &o->why) != 0)
        return -1;
    if (r->kind == REPLY_BYTE || r->kind == REPLY_NUMBER)
        buf_take(&o->s->in, r->used);
    return 0;
}

/* A value to the caller. */
static int
keep(struct op *o, struct store_reply *r, void *value, size_t cap, size_t *len)
{
    ddp_assert(r->kind == REPLY_VALUE);
    *len = r->value.len;
    bool fits = *len <= cap;
    if (fits && *len > 0)
        memcpy(value, r->value.data, *len);
    buf_take(&o->s->in, r->used);
    if (fits)
        return 0;
    return ddp_err_set(&o->why, DDP_E_USAGE,
                       "the value has %zu bytes, and there is room for %zu",
                       *len, cap);
}

static int end(struct op *o, bool failed, struct ddp_error *err)
{
    if (!failed)
        return 0;
    (void)store_client_fail(o->s, o->op, o->key, &o->why);
    return rt_fail(err, &o->why);
}

/* Until a byte says that the wait is over. */
static int talk_wait(struct op *o)
{
    struct store_reply r = {.kind = REPLY_BYTE};
    if (talk(o, &r) != 0)
        return -1;
    if (r.byte == C10D_STOP_WAITING)
        return 0;
    return ddp_err_set(&o->why, DDP_E_PROTO,
                       "it ended the wait before all keys were set");
}

static int wait_for(struct op *o, const struct c10d_slice *keys, size_t count)
{
    const struct c10d_request req = {
        .op = C10D_WAIT, .count = count, .list = keys};
    return c10d_put(&o->s->out, &req, &o->why) != 0 ? -1 : talk_wait(o);
}

/* -- one key --------------------------------------------------------------- */

int ddp_store_add(struct ddp *d,
                  const char *key,
                  int64_t delta,
                  int64_t *sum,
                  int64_t timeout_ms,
                  struct ddp_error *err)
{
    struct op o;
    struct store_reply r = {.kind = REPLY_NUMBER};
    bool failed = begin(&o, d, C10D_ADD, key, timeout_ms) ||
                  ask(&o, (struct c10d_request){.number = delta}) ||
                  talk(&o, &r);
    if (!failed && sum != NULL)
        *sum = r.number;
    return end(&o, failed, err);
}

int ddp_store_append(struct ddp *d,
                     const char *key,
                     const void *value,
                     size_t len,
                     int64_t timeout_ms,
                     struct ddp_error *err)
{
    struct op o;
    struct store_reply r = {.kind = REPLY_NONE};
    struct c10d_slice v = {value, len};
    bool failed = begin(&o, d, C10D_APPEND, key, timeout_ms) ||
                  ask(&o, (struct c10d_request){.value = v}) || talk(&o, &r);
    return end(&o, failed, err);
}

int ddp_store_compare_set(struct ddp *d,
                          const char *key,
                          const void *expected,
                          size_t expected_len,
                          const void *desired,
                          size_t desired_len,
                          void *value,
                          size_t cap,
                          size_t *len,
                          int64_t timeout_ms,
                          struct ddp_error *err)
{
    struct op o;
    struct store_reply r = {.kind = REPLY_VALUE};
    const struct c10d_request swap = {.value = {expected, expected_len},
                                      .desired = {desired, desired_len}};
    bool failed = begin(&o, d, C10D_COMPARE_SET, key, timeout_ms) ||
                  ask(&o, swap) || talk(&o, &r) ||
                  keep(&o, &r, value, cap, len);
    return end(&o, failed, err);
}

int ddp_store_delete(struct ddp *d,
                     const char *key,
                     bool *was_there,
                     int64_t timeout_ms,
                     struct ddp_error *err)
{
    struct op o;
    struct store_reply r = {.kind = REPLY_NUMBER};
    bool failed = begin(&o, d, C10D_DELETE_KEY, key, timeout_ms) ||
                  ask(&o, plain) || talk(&o, &r);
    if (!failed && was_there != NULL)
        *was_there = r.number > 0;
    return end(&o, failed, err);
}

int ddp_store_num_keys(struct ddp *d,
                       int64_t *count,
                       int64_t timeout_ms,
                       struct ddp_error *err)
{
    struct op o;
    struct store_reply r = {.kind = REPLY_NUMBER};
    bool failed = begin(&o, d, C10D_GETNUMKEYS, "(all)", timeout_ms) ||
                  ask(&o, plain) || talk(&o, &r);
    if (!failed)
        *count = r.number;
    return end(&o, failed, err);
}

int ddp_store_barrier(struct ddp *d,
                      const char *key,
                      int64_t count,
                      int64_t timeout_ms,
                      struct ddp_error *err)
{
    struct op o;
    bool failed = begin(&o, d, C10D_BARRIER, key, timeout_ms) ||
                  ask(&o, (struct c10d_request){.number = count}) ||
                  talk_wait(&o);
    return end(&o, failed, err);
}

/* -- queues ---------------------------------------------------------------- */

int ddp_store_queue_push(struct ddp *d,
                         const char *key,
                         const void *value,
                         size_t len,
                         int64_t timeout_ms,
                         struct ddp_error *err)
{
    struct op o;
    struct store_reply r = {.kind = REPLY_NONE};
    struct c10d_slice v = {value, len};
    bool failed = begin(&o, d, C10D_QUEUE_PUSH, key, timeout_ms) ||
                  ask(&o, (struct c10d_request){.value = v}) || talk(&o, &r);
    return end(&o, failed, err);
}

int ddp_store_queue_len(struct ddp *d,
                        const char *key,
                        int64_t *items,
                        int64_t timeout_ms,
                        struct ddp_error *err)
{
    struct op o;
    struct store_reply r = {.kind = REPLY_NUMBER};
    bool failed = begin(&o, d, C10D_QUEUE_LEN, key, timeout_ms) ||
                  ask(&o, plain) || talk(&o, &r);
    if (!failed)
        *items = r.number;
    return end(&o, failed, err);
}

/* Whether there was an item: another may have been faster. */
static int
try_pop(struct op *o, void *value, size_t cap, size_t *len, bool *was_there)
{
    struct store_reply before = {.kind = REPLY_NUMBER};
    struct store_reply item = {.kind = REPLY_VALUE};
    if (wait_for(o, &o->slice, 1) != 0 || ask(o, plain) != 0 ||
        talk(o, &before) != 0)
        return -1;
    *was_there = before.number > 0;
    if (!*was_there)
        return 0;
    return talk(o, &item) != 0 ? -1 : keep(o, &item, value, cap, len);
}

int ddp_store_queue_pop(struct ddp *d,
                        const char *key,
                        void *value,
                        size_t cap,
                        size_t *len,
                        int64_t timeout_ms,
                        struct ddp_error *err)
{
    struct op o;
    bool popped = false;
    bool failed = begin(&o, d, C10D_QUEUE_POP, key, timeout_ms);
    while (!failed && !popped)
        failed = try_pop(&o, value, cap, len, &popped);
    return end(&o, failed, err);
}

/* -- many keys ------------------------------------------------------------- */

/* Keys as they are on the wire, and for MULTI_SET values between them. */
struct key_list {
    struct c10d_slice *slices;
    char *bytes;
};

typedef const char *key_at(const void *from, size_t i);

static const char *key_of_name(const void *from, size_t i)
{
    const char *const *names = from;
    return names[i];
}

static const char *key_of_item(const void *from, size_t i)
{
    const struct ddp_store_item *items = from;
    return items[i].key;
}

static void list_free(struct key_list *l)
{
    free(l->slices);
    free(l->bytes);
}

/* Every `each`-th slice is a key, the others are the caller's. */
static int list_make(struct key_list *l,
                     const void *from,
                     key_at *key,
                     size_t count,
                     size_t each,
                     struct ddp_err *why)
{
    size_t len = 0;
    *l = (struct key_list){.slices = NULL};
    if (count > DDP_STORE_KEYS_MAX)
        return ddp_err_set(why, DDP_E_USAGE, /* messages: ok, more than 1 */
                           "%zu keys are over the limit of %u", count,
                           DDP_STORE_KEYS_MAX);
    for (size_t i = 0; i < count; i++)
        len += strlen(key(from, i)) + 1;
    l->slices = calloc(each * count, sizeof(*l->slices));
    l->bytes = malloc(len);
    if (l->slices == NULL || l->bytes == NULL)
        return ddp_err_set(why, DDP_E_NOMEM, "no memory for the keys");
    char *at = l->bytes;
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(key(from, i));
        if (n > DDP_STORE_KEY_MAX)
            return ddp_err_set(why, DDP_E_USAGE,
                               "a key of %zu bytes is over the limit of %d", n,
                               DDP_STORE_KEY_MAX);
        at[0] = '/';
        memcpy(at + 1, key(from, i), n);
        l->slices[each * i] = (struct c10d_slice){(uint8_t *)at, n + 1};
        at += n + 1;
    }
    ddp_assert((size_t)(at - l->bytes) == len);
    return 0;
}

int ddp_store_wait_all(struct ddp *d,
                       const char *const *keys,
                       size_t count,
                       int64_t timeout_ms,
                       struct ddp_error *err)
{
    struct op o;
    struct key_list l = {.slices = NULL};
    if (count == 0)
        return 0;
    bool failed = begin(&o, d, C10D_WAIT, keys[0], timeout_ms) ||
                  list_make(&l, keys, key_of_name, count, 1, &o.why) ||
                  wait_for(&o, l.slices, count);
    list_free(&l);
    return end(&o, failed, err);
}

/* All of one request is in memory once. */
static int
check_sum(const struct ddp_store_item *items, size_t count, struct ddp_err *why)
{
    size_t sum = 0;
    for (size_t i = 0; i < count && sum <= DDP_STORE_VALUE_MAX; i++)
        sum += items[i].len + strlen(items[i].key) + 17;
    if (sum <= DDP_STORE_VALUE_MAX)
        return 0;
    return ddp_err_set(
        why, DDP_E_USAGE,
        "keys and values together are over the limit of %u bytes",
        DDP_STORE_VALUE_MAX);
}

int ddp_store_multi_set(struct ddp *d,
                        const struct ddp_store_item *items,
                        size_t count,
                        int64_t timeout_ms,
                        struct ddp_error *err)
{
    struct op o;
    struct key_list l = {.slices = NULL};
    struct store_reply r = {.kind = REPLY_NONE};
    if (count == 0)
        return 0;
    bool failed = begin(&o, d, C10D_MULTI_SET, items[0].key, timeout_ms) ||
                  check_sum(items, count, &o.why) ||
                  list_make(&l, items, key_of_item, count, 2, &o.why);
    for (size_t i = 0; !failed && i < count; i++)
        l.slices[2 * i + 1] = (struct c10d_slice){items[i].value, items[i].len};
    failed = failed ||
             ask(&o, (struct c10d_request){.count = count, .list = l.slices}) ||
             talk(&o, &r);
    list_free(&l);
    return end(&o, failed, err);
}

/* Each value is taken off before the next is read. */
static int read_items(struct op *o, struct ddp_store_item *items, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        struct store_reply r = {.kind = REPLY_VALUE};
        if (talk(o, &r) != 0)
            return -1;
        if (keep(o, &r, items[i].value, items[i].cap, &items[i].len) != 0)
            rc = -1; /* the others are read all the same */
    }
    return rc;
}

int ddp_store_multi_get(struct ddp *d,
                        struct ddp_store_item *items,
                        size_t count,
                        int64_t timeout_ms,
                        struct ddp_error *err)
{
    struct op o;
    struct key_list l = {.slices = NULL};
    if (count == 0)
        return 0;
    bool failed =
        begin(&o, d, C10D_MULTI_GET, items[0].key, timeout_ms) ||
        list_make(&l, items, key_of_item, count, 1, &o.why) ||
        wait_for(&o, l.slices, count) ||
        ask(&o, (struct c10d_request){.count = count, .list = l.slices}) ||
        read_items(&o, items, count);
    list_free(&l);
    return end(&o, failed, err);
}
