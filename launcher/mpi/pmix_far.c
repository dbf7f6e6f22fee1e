/*
 * Happy path: each node brings its line, and all have met. A fence is a
 * gathering; the parts are frames. If a rank wants what a rank of another node
 * has put (direct modex), a frame goes into the box of the other node. The
 * launcher there asks its own server, and posts the answer to the box of the
 * node with the first rank.
 *
 * Failure modes:
 *  - The store is lost: who waits for it is told, now or when it asks.
 *  - Another node says what cannot be: a fence breaks; mail is dropped, and the
 *    rank that waits for it has a timeout of its own, or is found by
 *    --hang_timeout.
 *  - Others want more than WANTS_MAX things at a time, or more than QUEUED_MAX
 *    bytes that the store does not take yet: they are told that there are none,
 *    and nothing at all once that does not fit in NONES_MAX.
 *  - A fence begins before the one before it is over: it breaks, since nodes
 *    could take them in different orders.
 */
#include "launcher/mpi/pmix_far.h"

#include <stdio.h>

#define FAR_MAGIC 0x66617220u

static struct pmix_far *far_of(void *data)
{
    struct pmix_far *f = data;
    ddp_assert(f != NULL && f->magic == FAR_MAGIC);
    return f;
}

/* To this node's server. */
static void answer(
    struct pmix_far *f, int64_t ticket, bool done, const char *data, size_t len)
{
    struct pmix_frame a = {.kind = PMIX_ANSWER,
                           .number = ticket,
                           .rank = done,
                           .data = data,
                           .len = len};
    f->handler->on_frame(f->ctx, &a);
}

/* Whether nothing can be asked of the others any more; the round fails then. */
static bool is_cut_off(struct pmix_far *f)
{
    if (f->cut_off[0] != '\0')
        f->handler->on_broken(f->ctx, f->cut_off);
    return f->cut_off[0] != '\0';
}

/* A frame as bytes, to be freed; empty: no memory. */
static void pack(struct buf *bytes, const struct pmix_frame *frame)
{
    buf_init(bytes, PMIX_FRAME_MAX + 64);
    (void)pmix_frame_put(bytes, frame); /* then it stays empty */
}

/* -- fences ---------------------------------------------------------------- */

static bool
bring(struct pmix_far *f, enum pmix_kind kind, const char *data, size_t len)
{
    struct pmix_frame part = {.kind = kind, .data = data, .len = len};
    char name[32];
    struct buf bytes;
    pack(&bytes, &part);
    bool ok = buf_len(&bytes) > 0;
    (void)snprintf(name, sizeof(name), "pmix/%lld", (long long)f->brought);
    if (ok) {
        f->brought++;
        exchange_gather(&f->fences, name, buf_head(&bytes), buf_len(&bytes));
    }
    buf_free(&bytes);
    return ok;
}

static void on_fence(struct pmix_far *f, const struct pmix_frame *frame)
{
    if (is_cut_off(f))
        return;
    if (f->fence_open) {
        f->handler->on_broken(f->ctx, "a PMIx fence of all ranks began while "
                                      "another one was not over");
        return;
    }
    if (!bring(f, PMIX_FENCE, frame->data, frame->len)) {
        answer(f, frame->number, false, NULL, 0);
        return;
    }
    f->fence_open = true;
    f->ticket = frame->number;
}

void pmix_far_refuse(struct pmix_far *f)
{
    if (f->brought == 0 && f->maps != NULL)
        (void)bring(f, PMIX_FAILED, NULL, 0);
}

/* All nodes' data behind each other. NULL, or why there is none. */
static const char *read_parts(const char *data, size_t len, struct buf *all)
{
    struct pmix_frame part;
    size_t used;
    for (; len > 0; data += used, len -= used) {
        if (pmix_frame_get(data, len, &part, &used) != PMIX_FRAME_DONE ||
            (part.kind != PMIX_FENCE && part.kind != PMIX_FAILED) ||
            (part.len > 0 && buf_put(all, part.data, part.len) != 0))
            return "the data of the other nodes cannot be read, or is too much";
        if (part.kind == PMIX_FAILED)
            return "a rank of another node ended without MPI_Init";
    }
    return NULL;
}

static void told_parts(struct pmix_far *f, const char *data, size_t len)
{
    struct buf all;
    if (!f->fence_open)
        return; /* this node has refused */
    buf_init(&all, PMIX_FRAME_MAX);
    const char *why = read_parts(data, len, &all);
    if (why != NULL) {
        f->handler->on_broken(f->ctx, why);
    } else {
        f->fence_open = false;
        answer(f, f->ticket, true, (const char *)buf_head(&all), buf_len(&all));
    }
    buf_free(&all);
}

static void on_gathered(void *ctx, const char *data, size_t len)
{
    struct pmix_far *f = far_of(ctx);
    if (f->maps == NULL)
        f->handler->on_met(f->ctx, data, len);
    else
        told_parts(f, data, len);
}

/* -- mail ------------------------------------------------------------------ */

static struct exchange *mail_of(struct pmix_far *f)
{
    if (f->mail.state == EXCHANGE_CLOSED)
        exchange_open(&f->mail, f->host, f->port, f->nodes, f->round);
    return &f->mail;
}

static void name_box(char name[32], int64_t node)
{
    (void)snprintf(name, 32, "pmix/box/%lld", (long long)node); /* fits */
}

static void
post(struct pmix_far *f, int64_t node, const struct pmix_frame *frame)
{
    char name[32];
    struct buf bytes;
    pack(&bytes, frame);
    name_box(name, node);
    if (buf_len(&bytes) > 0)
        exchange_post(mail_of(f), name, buf_head(&bytes), buf_len(&bytes));
    buf_free(&bytes);
}

static void take_mail(struct pmix_far *f)
{
    char name[32];
    name_box(name, f->group_rank);
    exchange_take(&f->box, name);
}

/* A rank here wants to know what one of another node has put. */
static void on_modex(struct pmix_far *f, const struct pmix_frame *frame)
{
    struct pmix_frame ask = {.kind = PMIX_MODEX,
                             .rank = (int32_t)f->group_rank,
                             .number = frame->number};
    if (is_cut_off(f))
        return;
    f->asks++;
    post(f, pmix_nodes_of(f->maps, f->nodes, pmix_frame_other(frame->number)),
         &ask);
}

/* The server knows what another node wants to know, or that there is none: the
 * number says which node that is, and its ticket. */
static void on_held(struct pmix_far *f, const struct pmix_frame *frame)
{
    struct pmix_frame a = {.kind = PMIX_ANSWER,
                           .number = pmix_frame_other(frame->number),
                           .rank = frame->rank,
                           .data = frame->data,
                           .len = frame->len};
    size_t queued = exchange_queued(mail_of(f));
    f->wants--;
    if (queued + frame->len > PMIX_FAR_QUEUED_MAX) {
        a.rank = 0;
        a.len = 0;
    }
    if (pmix_frame_small(frame->number) < f->nodes &&
        queued < PMIX_FAR_QUEUED_MAX + PMIX_FAR_NONES_MAX)
        post(f, pmix_frame_small(frame->number), &a);
}

/* Another node wants to know what a rank here has put. */
static void on_asked(struct pmix_far *f, const struct pmix_frame *frame)
{
    int64_t rank = (int64_t)pmix_frame_other(frame->number);
    struct pmix_frame want = {.kind = PMIX_WANTED};
    if (frame->rank < 0 || frame->rank >= f->nodes)
        return;
    want.number =
        pmix_frame_pair(frame->rank, (uint32_t)pmix_frame_small(frame->number));
    f->wants++;
    if (rank < f->world_size &&
        pmix_nodes_of(f->maps, f->nodes, rank) == f->group_rank &&
        f->wants <= PMIX_FAR_WANTS_MAX) {
        want.rank = (int32_t)(rank - f->maps->base_rank);
        f->handler->on_frame(f->ctx, &want);
    } else {
        on_held(f, &want);
    }
}

static void on_mail(void *ctx, const char *data, size_t len)
{
    struct pmix_far *f = far_of(ctx);
    struct pmix_frame frame;
    size_t used;
    take_mail(f); /* the next one, while this one is read */
    if (pmix_frame_get(data, len, &frame, &used) != PMIX_FRAME_DONE)
        return;
    if (frame.kind == PMIX_MODEX) {
        on_asked(f, &frame);
    } else if (frame.kind == PMIX_ANSWER && f->asks > 0) {
        f->asks--;
        answer(f, frame.number, frame.rank != 0, frame.data, frame.len);
    }
}

/* -- names ----------------------------------------------------------------- */

static enum pmi_op op_of(enum pmix_kind kind)
{
    return kind == PMIX_PUBLISH  ? PMI_PUBLISH_NAME
           : kind == PMIX_LOOKUP ? PMI_LOOKUP_NAME
                                 : PMI_UNPUBLISH_NAME;
}

static void on_name(struct pmix_far *f, const struct pmix_frame *frame)
{
    struct pmi_text name, value;
    if (is_cut_off(f))
        return;
    if (!pmix_frame_name(frame, &name.at, &name.len, &value.at, &value.len) ||
        name.len >= PMI_KVSNAME_MAX || frame->number < 0 ||
        frame->number > INT32_MAX) {
        answer(f, frame->number, false, NULL, 0);
        return;
    }
    f->asks++;
    exchange_name(mail_of(f), (int)frame->number, op_of(frame->kind), name,
                  value);
}

static void on_named(void *ctx, int ticket, bool found, struct pmi_text value)
{
    struct pmix_far *f = far_of(ctx);
    f->asks--;
    answer(f, ticket, found, value.at, value.len);
}

/* -- rounds ---------------------------------------------------------------- */

void pmix_far_frame(struct pmix_far *f, const struct pmix_frame *frame)
{
    ddp_assert(f->maps != NULL);
    if (frame->kind == PMIX_FENCE)
        on_fence(f, frame);
    else if (frame->kind == PMIX_MODEX)
        on_modex(f, frame);
    else if (frame->kind == PMIX_HELD)
        on_held(f, frame);
    else
        on_name(f, frame);
}

static void on_lost(void *ctx, const char *why)
{
    struct pmix_far *f = far_of(ctx);
    (void)snprintf(f->cut_off, sizeof(f->cut_off), "%s", why); /* may be cut */
    if (f->maps == NULL || f->fence_open || f->asks > 0)
        f->handler->on_broken(f->ctx, why);
}

static const struct exchange_handler fences_handler = {
    .on_gathered = on_gathered, .on_lost = on_lost};
static const struct exchange_handler box_handler = {.on_gathered = on_mail,
                                                    .on_lost = on_lost};
static const struct exchange_handler mail_handler = {.on_named = on_named,
                                                     .on_lost = on_lost};

int pmix_far_init(struct pmix_far *f,
                  uv_loop_t *loop,
                  const struct pmix_far_handler *handler,
                  void *ctx,
                  struct ddp_err *err)
{
    f->magic = FAR_MAGIC;
    f->handler = handler;
    f->ctx = ctx;
    if (exchange_init(&f->fences, loop, &fences_handler, f, err) != 0 ||
        exchange_init(&f->box, loop, &box_handler, f, err) != 0)
        return -1;
    return exchange_init(&f->mail, loop, &mail_handler, f, err);
}

void pmix_far_open(struct pmix_far *f,
                   const struct msg_world *w,
                   const char *line,
                   size_t len)
{
    ddp_assert(f->maps == NULL && w->group_world > 1);
    (void)snprintf(f->host, sizeof(f->host), "%s", w->master_addr); /* fits */
    f->port = (int)w->master_port;
    f->nodes = w->group_world;
    f->group_rank = w->group_rank;
    f->world_size = w->world_size;
    f->round = w->round;
    exchange_open(&f->fences, f->host, f->port, f->nodes, f->round);
    exchange_gather(&f->fences, "pmix/nodes", line, len);
}

void pmix_far_begin(struct pmix_far *f, const struct pmix_nodes *maps)
{
    f->maps = maps;
    exchange_open(&f->box, f->host, f->port, f->nodes, f->round);
    take_mail(f);
}

void pmix_far_close(struct pmix_far *f)
{
    exchange_close(&f->fences);
    exchange_close(&f->box);
    exchange_close(&f->mail);
    f->maps = NULL;
    f->brought = 0;
    f->fence_open = false;
    f->asks = f->wants = 0;
    f->cut_off[0] = '\0';
}
