/*
 * Happy path: the store's name is resolved, it is dialled, and the orders go
 * out one after the other. A gathering is three requests: APPEND of this node's
 * bytes to one value, BARRIER of the nodes, GET of the value. So what travels
 * grows with the data and not with the number of nodes, and no node needs to
 * know the others. A name is published by a SET and a GET behind it: once that
 * is answered everyone finds it. A box is a queue of the store,
 * which one node alone takes from: WAIT, and then QUEUE_POP.
 *
 * A node that comes late serves the store of a round with the listener of the
 * one before, where another node may have said already what was of that one:
 * keys have the round in them. Keys here have no '/' before them, which
 * PyTorch's clients put before theirs: a program that uses the store as well
 * cannot meet them.
 *
 * Failure modes:
 *  - Nobody answers yet: tried again, each address in turn and for at most
 *    EXCHANGE_DIAL_MS, for EXCHANGE_FIRST_MS.
 *  - A node does not bring its part, since its --mpi is another: given up after
 *    that time as well. Later gatherings take as long as the workers take.
 *  - The connection breaks, or the store answers nonsense: it is not tried
 *    again, since what the store has taken is unknown. It is mostly the end of
 *    the round, of which this node is about to hear: on_lost waits.
 *  - Bytes over the store's limits: it closes the connection.
 */
#include "launcher/mpi/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/proto/c10d.h"

#define EXCHANGE_MAGIC   0x65786368u
#define ORDER_MAGIC      0x6f726472u
#define PAUSE_MS         50
#define PREFIX           "ddprun/pmi/"
#define KEY_MAX          (sizeof(PREFIX) + 20 + 8 + PMI_KVSNAME_MAX)
#define ORDERS_BYTES_MAX ((size_t)32 << 20)

struct exchange_order {
    unsigned magic;
    struct exchange_order *next;
    enum order_what {
        ORDER_GATHER,
        ORDER_NAME,
        ORDER_POST,
        ORDER_TAKE
    } what;
    bool met; /* GATHER: the other nodes have come; TAKE: it is not empty */
    int local_rank; /* NAME: whose it is */
    enum pmi_op op;
    char key[KEY_MAX];
    size_t len;
    uint8_t data[]; /* to be brought, or published */
};

static struct exchange *exchange_of(void *data)
{
    struct exchange *x = data;
    ddp_assert(x != NULL && x->magic == EXCHANGE_MAGIC);
    return x;
}

/* -- the end --------------------------------------------------------------- */

static void drop_first(struct exchange *x)
{
    struct exchange_order *o = x->first;
    ddp_assert(o->magic == ORDER_MAGIC);
    x->first = o->next;
    if (x->first == NULL)
        x->last = NULL;
    x->queued -= sizeof(*o) + o->len;
    o->magic = 0;
    free(o);
}

static void hang_up(struct exchange *x)
{
    if (x->conn != NULL)
        conn_close(x->conn);
    x->conn = NULL;
    buf_take(&x->in, buf_len(&x->in));
    buf_take(&x->out, buf_len(&x->out));
}

static void on_timer(uv_timer_t *timer);

static void lose(struct exchange *x, const char *why)
{
    (void)snprintf(x->why, sizeof(x->why), /* may be cut */
                   "the store of the round at %.100s port %d: %.150s", x->host,
                   x->port, why);
    hang_up(x);
    x->state = EXCHANGE_BROKEN;
    (void)uv_timer_start(&x->timer, on_timer, EXCHANGE_LOST_MS, 0);
}

void exchange_close(struct exchange *x)
{
    hang_up(x);
    (void)uv_timer_stop(&x->timer);
    while (x->first != NULL)
        drop_first(x);
    x->state = EXCHANGE_CLOSED;
}

/* -- requests -------------------------------------------------------------- */

static struct c10d_slice key_of(const struct exchange_order *o)
{
    return (struct c10d_slice){(const uint8_t *)o->key, strlen(o->key)};
}

/* With the key of `o`, and what it says. */
static int put(struct exchange *x,
               enum c10d_op op,
               const struct exchange_order *o,
               struct ddp_err *err)
{
    struct c10d_slice key = key_of(o);
    const struct c10d_request req = {.op = op,
                                     .key = key,
                                     .value = {o->data, o->len},
                                     .count = 1,
                                     .list = &key};
    return c10d_put(&x->out, &req, err);
}

static int put_gather(struct exchange *x,
                      const struct exchange_order *o,
                      struct ddp_err *err)
{
    char gate[KEY_MAX + 3];
    (void)snprintf(gate, sizeof(gate), "%s/in", o->key); /* fits */
    const struct c10d_request meet = {
        .op = C10D_BARRIER,
        .key = {(const uint8_t *)gate, strlen(gate)},
        .number = x->nodes,
    };
    if (o->len > 0 && put(x, C10D_APPEND, o, err) != 0)
        return -1;
    return c10d_put(&x->out, &meet, err);
}

/* What is behind a post that has no answer shows that it was heard. */
static int put_post(struct exchange *x,
                    const struct exchange_order *o,
                    struct ddp_err *err)
{
    return put(x, C10D_QUEUE_PUSH, o, err) != 0
               ? -1
               : put(x, C10D_QUEUE_LEN, o, err);
}

static int put_name(struct exchange *x,
                    const struct exchange_order *o,
                    struct ddp_err *err)
{
    if (o->op == PMI_UNPUBLISH_NAME)
        return put(x, C10D_DELETE_KEY, o, err);
    if (o->op == PMI_PUBLISH_NAME && put(x, C10D_SET, o, err) != 0)
        return -1;
    return put(x, C10D_GET, o, err);
}

static int put_order(struct exchange *x,
                     const struct exchange_order *o,
                     struct ddp_err *err)
{
    switch (o->what) {
    case ORDER_GATHER:
        return o->met ? put(x, C10D_GET, o, err) : put_gather(x, o, err);
    case ORDER_NAME:
        return put_name(x, o, err);
    case ORDER_POST:
        return put_post(x, o, err);
    case ORDER_TAKE:
        return put(x, o->met ? C10D_QUEUE_POP : C10D_WAIT, o, err);
    }
    DDP_WRONG("order");
}

/* As much as the connection takes; on_drained goes on. */
static void flush(struct exchange *x)
{
    while (buf_len(&x->out) > 0 && conn_queued(x->conn) == 0) {
        size_t len = buf_len(&x->out);
        size_t n = len < CONN_QUEUE_MAX / 2 ? len : CONN_QUEUE_MAX / 2;
        conn_send_bytes(x->conn, buf_head(&x->out), n);
        buf_take(&x->out, n);
    }
}

static void begin_first(struct exchange *x)
{
    struct ddp_err err = {.text = ""};
    if (x->state != EXCHANGE_UP || x->first == NULL)
        return;
    if (put_order(x, x->first, &err) != 0)
        lose(x, err.text);
    else
        flush(x);
}

static void add(struct exchange *x, struct exchange_order *o)
{
    bool alone = x->first == NULL;
    if (alone)
        x->first = o;
    else
        x->last->next = o;
    x->last = o;
    if (alone)
        begin_first(x);
}

static struct exchange_order *
make(struct exchange *x, const void *data, size_t len)
{
    struct exchange_order *o =
        x->state == EXCHANGE_BROKEN ? NULL : calloc(1, sizeof(*o) + len);
    if (o == NULL && x->state != EXCHANGE_BROKEN)
        lose(x, "no memory for a request");
    if (o == NULL)
        return NULL;
    o->magic = ORDER_MAGIC;
    o->len = len;
    x->queued += sizeof(*o) + len;
    if (len > 0)
        memcpy(o->data, data, len);
    return o;
}

static void order(struct exchange *x,
                  enum order_what what,
                  const char *name,
                  const void *data,
                  size_t len)
{
    ddp_assert(x->state != EXCHANGE_CLOSED && strlen(name) <= 32);
    struct exchange_order *o = make(x, data, len);
    if (o == NULL)
        return;
    o->what = what;
    (void)snprintf(o->key, sizeof(o->key), PREFIX "%lld/%s", /* fits */
                   (long long)x->round, name);
    add(x, o);
}

void exchange_gather(struct exchange *x,
                     const char *name,
                     const void *data,
                     size_t len)
{
    order(x, ORDER_GATHER, name, data, len);
}

void exchange_post(struct exchange *x,
                   const char *box,
                   const void *data,
                   size_t len)
{
    order(x, ORDER_POST, box, data, len);
}

void exchange_take(struct exchange *x, const char *box)
{
    order(x, ORDER_TAKE, box, NULL, 0);
}

void exchange_name(struct exchange *x,
                   int local_rank,
                   enum pmi_op op,
                   struct pmi_text name,
                   struct pmi_text value)
{
    ddp_assert(x->state != EXCHANGE_CLOSED && name.len < PMI_KVSNAME_MAX);
    struct exchange_order *o = make(x, value.at, value.len);
    if (o == NULL)
        return;
    o->what = ORDER_NAME;
    o->local_rank = local_rank;
    o->op = op;
    (void)snprintf(o->key, sizeof(o->key), PREFIX "%lld/name/%.*s", /* fits */
                   (long long)x->round, (int)name.len, name.at);
    add(x, o);
}

size_t exchange_queued(const struct exchange *x)
{
    return x->queued;
}

/* -- answers --------------------------------------------------------------- */

/* The first order is answered by `value`, if it has one. */
static void
tell(struct exchange *x, const struct c10d_slice *value, int64_t number)
{
    struct exchange_order *o = x->first;
    struct pmi_text text = {(const char *)value->data, value->len};
    if (o->what == ORDER_GATHER)
        (void)uv_timer_stop(&x->timer); /* all are there */
    if (o->what == ORDER_GATHER || o->what == ORDER_TAKE)
        x->handler->on_gathered(x->ctx, text.at, text.len);
    else if (o->what == ORDER_POST)
        return;
    else if (o->op == PMI_LOOKUP_NAME)
        x->handler->on_named(x->ctx, o->local_rank, text.len > 0, text);
    else
        x->handler->on_named(x->ctx, o->local_rank,
                             o->op == PMI_PUBLISH_NAME || number == 1, text);
}

/* What a queue gives: how many there were, and the first of them. */
static enum c10d_status take_item(struct exchange *x,
                                  struct c10d_slice *value,
                                  size_t *used,
                                  struct ddp_err *err)
{
    const uint8_t *at = buf_head(&x->in);
    size_t len = buf_len(&x->in), before;
    int64_t number;
    enum c10d_status status = c10d_reply_number(at, len, &number, &before);
    if (status != C10D_DONE)
        return status;
    if (number < 1) {
        ddp_err_set(err, DDP_E_PROTO, "a box is empty that was not");
        return C10D_BAD;
    }
    status = c10d_reply_value(at + before, len - before, value, used, err);
    *used += before;
    return status;
}

/* Reads the answer that is due, if it is all there. */
static enum c10d_status take_answer(struct exchange *x, struct ddp_err *err)
{
    struct exchange_order *o = x->first;
    struct c10d_slice value = {(const uint8_t *)"", 0};
    int64_t number = 0;
    uint8_t byte;
    size_t used;
    enum c10d_status status;
    bool meets = (o->what == ORDER_GATHER || o->what == ORDER_TAKE) && !o->met;
    bool counts = o->what == ORDER_POST ||
                  (o->what == ORDER_NAME && o->op == PMI_UNPUBLISH_NAME);
    if (meets)
        status = c10d_reply_byte(buf_head(&x->in), buf_len(&x->in), &byte,
                                 &used, err);
    else if (o->what == ORDER_TAKE)
        status = take_item(x, &value, &used, err);
    else if (counts)
        status = c10d_reply_number(buf_head(&x->in), buf_len(&x->in), &number,
                                   &used);
    else
        status = c10d_reply_value(buf_head(&x->in), buf_len(&x->in), &value,
                                  &used, err);
    if (status != C10D_DONE)
        return status;
    if (meets)
        o->met = true;
    else
        tell(x, &value, number);
    buf_take(&x->in, used);
    if (!meets)
        drop_first(x);
    begin_first(x);
    return C10D_DONE;
}

static void on_bytes(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    struct exchange *x = exchange_of(ctx);
    struct ddp_err err = {.text = ""};
    ddp_assert(x->conn == c && x->state == EXCHANGE_UP);
    if (buf_put(&x->in, data, len) != 0) {
        lose(x, "it answers more than was asked for");
        return;
    }
    while (x->state == EXCHANGE_UP && buf_len(&x->in) > 0) {
        if (x->first == NULL) {
            lose(x, "it says what it was not asked for");
            return;
        }
        enum c10d_status status = take_answer(x, &err);
        if (status == C10D_BAD)
            lose(x, err.text);
        if (status != C10D_DONE)
            return;
    }
}

/* -- the connection -------------------------------------------------------- */

static void on_up(void *ctx, struct conn *c)
{
    struct exchange *x = exchange_of(ctx);
    struct ddp_err err = {.text = ""};
    ddp_assert(x->conn == c);
    x->state = EXCHANGE_UP;
    (void)uv_timer_stop(&x->timer);
    if (x->first != NULL && x->first->what == ORDER_GATHER)
        (void)uv_timer_start(&x->timer, on_timer, (uint64_t)x->first_ms, 0);
    if (c10d_put(&x->out, &(struct c10d_request){.op = C10D_VALIDATE}, &err) !=
        0)
        lose(x, err.text);
    begin_first(x);
}

static void on_drained(void *ctx, struct conn *c)
{
    struct exchange *x = exchange_of(ctx);
    ddp_assert(x->conn == c);
    flush(x);
}

/* Not up: another address may do, or a later time. */
static void try_again(struct exchange *x, const char *why)
{
    if (mono_now_us() >= x->until_us) {
        lose(x, why);
        return;
    }
    x->state = EXCHANGE_FINDING;
    (void)uv_timer_start(&x->timer, on_timer, PAUSE_MS, 0);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    struct exchange *x = exchange_of(ctx);
    ddp_assert(x->conn == c);
    x->conn = NULL;
    if (x->state == EXCHANGE_UP)
        lose(x, why);
    else
        try_again(x, why);
}

static const struct conn_handler conn_handler = {
    .on_up = on_up,
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

static void dial(struct exchange *x)
{
    struct ddp_err err = {.text = ""};
    struct sockaddr_storage *to =
        &x->addrs.at[(unsigned)x->next_addr++ % (unsigned)x->addrs.n];
    x->conn =
        conn_dial(x->loop, (const struct sockaddr *)to, &conn_handler, x, &err);
    if (x->conn == NULL) {
        lose(x, err.text);
        return;
    }
    conn_raw(x->conn, &conn_handler, x);
    x->state = EXCHANGE_DIALLING;
    (void)uv_timer_start(&x->timer, on_timer, (uint64_t)x->dial_ms, 0);
}

static void
on_resolved(void *ctx, const struct addr_list *list, const struct ddp_err *err)
{
    struct exchange *x = exchange_of(ctx);
    if (x->state != EXCHANGE_FINDING)
        return;
    if (list != NULL && list->n > 0 && strcmp(x->resolver.host, x->host) == 0) {
        x->addrs = *list;
        dial(x);
    } else if (list == NULL && mono_now_us() >= x->until_us) {
        lose(x, err->text);
    } else { /* the name of a round before, or not known yet */
        (void)uv_timer_start(&x->timer, on_timer, PAUSE_MS, 0);
    }
}

/* Not known yet, or the address is gone: asked again each time. */
static void find(struct exchange *x)
{
    struct ddp_err err = {.text = ""};
    if (resolver_is_needless(x->host, x->port, &x->addrs))
        dial(x);
    else if (!resolver_is_busy(&x->resolver) &&
             resolver_start(&x->resolver, x->host, x->port, &err) != 0)
        lose(x, err.text);
}

static void on_timer(uv_timer_t *timer)
{
    struct exchange *x = exchange_of(timer->data);
    switch (x->state) {
    case EXCHANGE_CLOSED:
        return;
    case EXCHANGE_FINDING:
        find(x);
        return;
    case EXCHANGE_DIALLING:
        hang_up(x);
        try_again(x, "it does not answer");
        return;
    case EXCHANGE_UP:
        lose(x, "not all nodes have told it how many workers they have; is "
                "--mpi the same on all of them?");
        return;
    case EXCHANGE_BROKEN:
        x->handler->on_lost(x->ctx, x->why);
        return;
    }
    DDP_WRONG("state of an exchange");
}

int exchange_init(struct exchange *x,
                  uv_loop_t *loop,
                  const struct exchange_handler *handler,
                  void *ctx,
                  struct ddp_err *err)
{
    *x = (struct exchange){.magic = EXCHANGE_MAGIC,
                           .loop = loop,
                           .handler = handler,
                           .ctx = ctx,
                           .state = EXCHANGE_CLOSED,
                           .first_ms = EXCHANGE_FIRST_MS,
                           .dial_ms = EXCHANGE_DIAL_MS};
    buf_init(&x->in, C10D_VALUE_MAX + 64);
    buf_init(&x->out, ORDERS_BYTES_MAX);
    (void)uv_timer_init(loop, &x->timer); /* cannot fail */
    x->timer.data = x;
    return resolver_init(&x->resolver, loop, on_resolved, x, err);
}

void exchange_open(struct exchange *x,
                   const char *host,
                   int port,
                   int64_t nodes,
                   int64_t round)
{
    exchange_close(x);
    (void)snprintf(x->host, sizeof(x->host), "%s", host); /* as long as there */
    x->port = port;
    x->nodes = nodes;
    x->round = round;
    x->next_addr = 0;
    x->until_us = mono_after(mono_now_us(), x->first_ms * MONO_MS);
    x->state = EXCHANGE_FINDING;
    (void)uv_timer_start(&x->timer, on_timer, 0, 0);
}
