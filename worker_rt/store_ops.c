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
#include "rendezvous/client/store.h"
#include "worker_rt/rt.h"

_Static_assert(DDP_STORE_KEY_MAX <= STORE_CLIENT_KEY_MAX, "as ddp.h promises");
_Static_assert(DDP_STORE_VALUE_MAX <= C10D_VALUE_MAX, "as ddp.h promises");

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

/* The request is sent, and one reply is read: a byte or a number. */
static int talk(struct op *o, struct store_reply *r)
{
    if (store_client_talk(o->s, r, o->deadline_us, &o->why) != 0)
        return -1;
    buf_take(&o->s->in, r->used);
    return 0;
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
                       "it ended the wait before all had come");
}

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
