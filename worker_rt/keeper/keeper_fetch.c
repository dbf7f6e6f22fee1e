/*
 * worker_rt/keeper/keeper_fetch: the bytes that a plan says, from the images
 * into the wanted buffers.
 *
 * Happy path. The ranks tell each other of which images they need something
 * that they cannot open, and what, as a hash. Ranks that need the same of an
 * image meet the rank that holds it, which sends them that and no more
 * (keeper_send): of each piece the rows from the first to the last that are
 * wanted. Then each rank reads its pieces from the images at hand.
 *
 * What is wanted as it comes goes straight into its buffer. Anything else is
 * read into a room of its own, unless the image lies in memory; then the wanted
 * part is copied.
 *
 * Failure modes. A checksum is wrong, a disk fails: the copy is struck, and the
 * caller plans anew. A rank dies, or has no memory: an error there, and on
 * those that read with it.
 */
#include "worker_rt/keeper/keeper_gather.h"

#include <stdlib.h>

#include "worker_rt/comm/comm.h"

/* -- one image ------------------------------------------------------------- */

/* What has come of a piece, its sum compared, to where it is wanted: that of
 * the `n` fetches from the i-th on. */
static void copy_out(const struct keeper_plan *p,
                     size_t i,
                     size_t n,
                     const struct ddp_piece *part,
                     const uint8_t *data)
{
    struct ddp_piece from = *part;
    from.local.data = comm_unconst(data);
    for (size_t j = i; j < i + n; j++)
        piece_copy(&p->wants[p->fetches[j].want].piece, &from,
                   &p->fetches[j].box);
}

/* Behind the fetches of the image of the first one. */
static size_t end_of_image(const struct keeper_plan *p, size_t first)
{
    size_t i = first + 1;
    while (i < p->nfetches &&
           p->fetches[i].from->image == p->fetches[first].from->image)
        i++;
    return i;
}

/* The first of the fetches of an image. */
static size_t first_of(const struct keeper_plan *p, size_t image)
{
    size_t i = 0;
    while (i < p->nfetches && p->fetches[i].from->image < image)
        i++;
    return i;
}

/* Strikes a copy if it is damaged; else the error counts. */
static int strike(struct keeper_plan *p, size_t copy, struct ddp_err *err)
{
    const struct ddp_err why = *err;
    if (!keeper_images_is_damage(&why))
        return -1;
    return keeper_images_strike(p->all, copy, &why, err);
}

/* -- images at hand -------------------------------------------------------- */

/* The piece of the i-th fetch, and of those behind it that are of that piece.
 */
static int read_piece(struct keeper_plan *p,
                      const struct snapshot_reader *r,
                      size_t i,
                      struct ddp_err *err)
{
    const struct plan_fetch *f = &p->fetches[i];
    bool straight = keeper_plan_is_straight(p, i, &f->from->piece);
    const struct safetensor *t = &r->header.parsed.tensors[f->from->at];
    uint8_t *to = straight           ? p->wants[f->want].piece.local.data
                  : r->bytes != NULL ? NULL
                                     : p->room;
    ddp_assert(straight || to == NULL || t->end - t->begin <= p->room_len);
    if (snapshot_reader_tensor(r, f->from->at, to, err) != 0)
        return -1;
    if (!straight)
        copy_out(p, i, keeper_plan_same(p, i), &f->from->piece,
                 to != NULL ? to : r->bytes + r->header.len + t->begin);
    return 0;
}

/* A copy that is opened, and read as a plan says whose header has that sum. */
static int open_copy(struct keeper_plan *p,
                     size_t copy,
                     const char sum[SNAPSHOT_DIGITS],
                     struct snapshot_opened *o,
                     struct snapshot_reader *r,
                     struct ddp_err *err)
{
    int rc = keeper_images_open(p->all, copy, o, err);
    if (rc == 1)
        rc = ddp_err_set(err, DDP_E_NOINPUT, "it has gone");
    if (rc != 0 || snapshot_reader_open(r, &o->from, err) != 0)
        return -1;
    r->bytes = p->all->list[copy].offer.memory ? o->from.ctx : NULL;
    if (memcmp(r->header.fence.sum, sum, SNAPSHOT_DIGITS) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CORRUPT,
                       "its header is not that which was looked at");
}

static int fetch_near(struct keeper_plan *p, size_t first, struct ddp_err *err)
{
    const struct plan_image *m = &p->images[p->fetches[first].from->image];
    size_t end = end_of_image(p, first);
    struct snapshot_opened o = {.fd = -1};
    struct snapshot_reader r = {.from = NULL};
    int rc = open_copy(p, m->near, m->sum, &o, &r, err);
    for (size_t i = first; rc == 0 && i < end; i += keeper_plan_same(p, i))
        rc = read_piece(p, &r, i, err);
    snapshot_reader_close(&r);
    snapshot_close(&o);
    return rc == 0 ? 0 : strike(p, m->near, err);
}

/* -- images of other nodes ------------------------------------------------- */

/* What a rank needs of an image that it cannot open. It travels. */
struct fetch_need {
    int64_t image;
    uint64_t what; /* a hash of the ranges */
    int64_t rank;  /* each hears it from the rank itself */
};

/* Those that read the same of an image, by their order in the world. */
struct fetch_few {
    int rank, world, root; /* rank -1: not this one */
};

/* Of the image of the first fetch: (number of fetches, at most). Returns how
 * many. */
static size_t list_ranges(const struct keeper_plan *p,
                          size_t first,
                          struct image_range *ranges)
{
    size_t n = 0, end = end_of_image(p, first);
    for (size_t i = first; i < end; i += keeper_plan_same(p, i)) {
        uint64_t begin;
        const struct ddp_piece rows = keeper_plan_rows(p, i, &begin);
        ranges[n++] =
            (struct image_range){.tensor = p->fetches[i].from->at,
                                 .begin = begin,
                                 .end = begin + ddp_tensor_len(&rows.local)};
    }
    return n;
}

/* A piece that came whole must have the sum that its header says. */
static int check_piece(const struct plan_piece *from,
                       const struct image_range *range,
                       const uint8_t *data,
                       struct ddp_err *err)
{
    char digits[SNAPSHOT_DIGITS + 1];
    uint64_t len = ddp_tensor_len(&from->piece.local);
    if (range->end - range->begin < len)
        return 0;
    snapshot_hex(digits, XXH3_128bits(data, (size_t)len));
    if (XXH3_64bits(digits, SNAPSHOT_DIGITS) == from->sum)
        return 0;
    return ddp_err_set(err, DDP_E_CORRUPT,
                       "tensor '%.80s' came with a wrong checksum",
                       from->piece.local.name);
}

/* -1: nothing more comes. What is wrong with the piece alone goes to `wrong`,
 * if that is still empty. */
static int receive_piece(struct keeper_plan *p,
                         struct keeper_talk *t,
                         size_t i,
                         const struct image_range *range,
                         struct ddp_err *wrong,
                         struct ddp_err *err)
{
    uint64_t begin;
    struct ddp_err why;
    const struct plan_fetch *f = &p->fetches[i];
    const struct ddp_piece rows = keeper_plan_rows(p, i, &begin);
    bool straight = keeper_plan_is_straight(p, i, &rows);
    uint8_t *to = straight ? p->wants[f->want].piece.local.data : p->room;
    uint64_t len = range->end - range->begin;
    ddp_assert(straight || len <= p->room_len);
    if (keeper_get_range(t, to, len, err) != 0)
        return -1;
    if (check_piece(f->from, range, to, &why) != 0 && wrong->code == DDP_E_OK)
        *wrong = why;
    if (!straight)
        copy_out(p, i, keeper_plan_same(p, i), &rows, to);
    return 0;
}

/* On a rank that needs something of an image, of which `first` is the first
 * fetch. */
static int receive(struct keeper_plan *p,
                   struct keeper_talk *t,
                   size_t first,
                   struct ddp_err *err)
{
    struct ddp_err wrong = {.code = DDP_E_OK};
    struct image_range *ranges = calloc(p->nfetches + 1, sizeof(*ranges));
    size_t n = ranges == NULL ? 0 : list_ranges(p, first, ranges), at = first;
    struct ranges_ask ask = {.n = (int64_t)n};
    memcpy(ask.sum, p->images[p->fetches[first].from->image].sum,
           sizeof(ask.sum));
    int rc = ranges == NULL ? snapshot_no_memory(err)
                            : keeper_ask(t, &ask, ranges, err);
    t->is_lost = rc != 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = receive_piece(p, t, at, &ranges[i], &wrong, err);
        at += keeper_plan_same(p, at);
    }
    free(ranges);
    if (rc != 0 || wrong.code == DDP_E_OK)
        return rc;
    *err = wrong;
    return -1;
}

/* -- on the rank that has the image ---------------------------------------- */

/* One after the other. CORRUPT, IO: `bad` is set, and the others do not know
 * yet. */
static int send_ranges(struct keeper_talk *t,
                       const struct snapshot_reader *r,
                       const struct image_range *ranges,
                       size_t n,
                       bool *bad,
                       struct ddp_err *err)
{
    const struct safetensor *tensors = r->header.parsed.tensors;
    uint8_t *room = NULL; /* for the longest tensor, if the image is a file */
    uint64_t most = 1;
    for (size_t i = 0; i < n; i++) {
        const struct safetensor *tensor = &tensors[ranges[i].tensor];
        uint64_t len = tensor->end - tensor->begin;
        most = len > most ? len : most;
    }
    if (r->bytes == NULL && (room = malloc((size_t)most)) == NULL)
        return snapshot_no_memory(err);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct safetensor *tensor = &tensors[ranges[i].tensor];
        rc = snapshot_reader_tensor(r, ranges[i].tensor, room, err);
        *bad = rc != 0;
        if (rc == 0)
            rc = keeper_put_range(
                t,
                (room != NULL ? room
                              : r->bytes + r->header.len + tensor->begin) +
                    ranges[i].begin,
                ranges[i].end - ranges[i].begin, err);
    }
    free(room);
    return rc;
}

static int send_copy(struct keeper_plan *p,
                     struct keeper_talk *t,
                     size_t copy,
                     struct ddp_err *err)
{
    struct ranges_ask ask;
    struct image_range *ranges;
    struct snapshot_opened o = {.fd = -1};
    struct snapshot_reader r = {.from = NULL};
    struct ddp_err lost;
    bool bad = false;
    int rc = keeper_hear(t, &ask, &ranges, err);
    t->is_lost = rc != 0;
    if (rc == 0) {
        rc = open_copy(p, copy, ask.sum, &o, &r, err);
        bad = rc != 0 && keeper_images_is_damage(err);
    }
    if (rc == 0) {
        rc = ranges_check(ranges, (size_t)ask.n, &r.header.parsed, err);
        t->is_lost = rc != 0;
    }
    if (rc == 0)
        rc = send_ranges(t, &r, ranges, (size_t)ask.n, &bad, err);
    if (bad && keeper_put_damage(t, err, &lost) != 0)
        *err = lost;
    free(ranges);
    snapshot_reader_close(&r);
    snapshot_close(&o);
    return rc;
}

/* -- among a few ----------------------------------------------------------- */

/* On the holder and on all that need the same of an image. */
static int fetch_among(struct keeper_plan *p,
                       struct ddp_comm *few,
                       int root,
                       size_t image,
                       size_t copy,
                       struct ddp_err *err)
{
    struct keeper_talk t = {.few = few, .root = root, .asker = root == 0};
    int rc = keeper_talk_open(&t, err);
    t.is_lost = rc != 0;
    if (rc == 0 && few->rank == root)
        rc = send_copy(p, &t, copy, err);
    else if (rc == 0)
        rc = receive(p, &t, first_of(p, image), err);
    keeper_talk_close(&t);
    return rc == 0 || t.is_lost ? rc : strike(p, copy, err);
}

/* On the ranks of `few`, of which this is one. */
static int fetch_one(struct keeper_plan *p,
                     const struct fetch_few *few,
                     uint32_t id,
                     int turn,
                     size_t image,
                     size_t copy,
                     struct ddp_err *err)
{
    struct ddp_keeper *k = p->all->k;
    if (few->world == k->comm->world)
        return fetch_among(p, k->comm, few->root, image, copy, err);
    struct ddp_comm *comm =
        keeper_meet_few(k, id, few->rank, few->world, turn, err);
    if (comm == NULL)
        return -1;
    int rc = fetch_among(p, comm, few->root, image, copy, err);
    keeper_leave_few(comm);
    return rc;
}

/* The needs of all ranks, those of the same of one image side by side. */
struct fetch_needs {
    struct fetch_need *list;
    size_t n;
};

static int by_need(const void *a, const void *b)
{
    const struct fetch_need *x = a, *y = b;
    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    if (x->what != y->what)
        return x->what < y->what ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Those of the first need, up to `end`, with the holder of the copy. */
static struct fetch_few count_few(const struct fetch_needs *needs,
                                  size_t first,
                                  size_t end,
                                  int rank,
                                  int holder)
{
    struct fetch_few few = {.rank = -1};
    for (size_t i = first; i < end; i++) {
        int r = (int)needs->list[i].rank;
        if (r == rank)
            few.rank = few.world + (r > holder);
        if (r < holder)
            few.root++;
        few.world++;
    }
    if (rank == holder)
        few.rank = few.root;
    few.world++;
    return few;
}

/* One after the other, in the same order on all ranks. A rank that failed does
 * not come any more; those that would wait for it are told. */
static int fetch_far(struct keeper_plan *p,
                     const struct fetch_needs *needs,
                     struct ddp_err *err)
{
    struct ddp_keeper *k = p->all->k;
    int turn = 0, rc = 0;
    size_t end;
    for (size_t i = 0; i < needs->n; i = end) {
        const struct fetch_need *need = &needs->list[i];
        end = i + 1;
        while (end < needs->n && needs->list[end].image == need->image &&
               needs->list[end].what == need->what)
            end++;
        size_t image = (size_t)need->image;
        size_t copy = keeper_plan_far(p, &p->images[image]);
        struct fetch_few few =
            count_few(needs, i, end, k->comm->rank, p->all->list[copy].holder);
        /* Ranks count their communicators alike, those that they are not in,
         * too. */
        bool all = few.world == k->comm->world;
        uint32_t id = all ? 0 : k->d->comms++;
        turn++;
        if (few.rank < 0)
            continue;
        if (rc == 0)
            rc = fetch_one(p, &few, id, turn, image, copy, err);
        else if (!all)
            keeper_miss_few(k, id, few.rank, few.world, err);
    }
    return rc;
}

/* -- who needs what -------------------------------------------------------- */

/* This rank's, of images that it cannot open. NULL: NOMEM. */
static struct fetch_need *list_needs(struct keeper_plan *p, size_t *n)
{
    struct fetch_need *list = calloc(p->nimages + 1, sizeof(*list));
    struct image_range *ranges = calloc(p->nfetches + 1, sizeof(*ranges));
    *n = 0;
    for (size_t i = 0; list != NULL && ranges != NULL && i < p->nfetches;
         i = end_of_image(p, i)) {
        size_t image = p->fetches[i].from->image;
        if (p->images[image].near != SIZE_MAX)
            continue;
        size_t len = list_ranges(p, i, ranges) * sizeof(*ranges);
        list[(*n)++] = (struct fetch_need){.image = (int64_t)image,
                                           .what = XXH3_64bits(ranges, len),
                                           .rank = p->all->k->comm->rank};
    }
    if (ranges == NULL) {
        free(list);
        list = NULL;
    }
    free(ranges);
    return list;
}

/* Whether rank r may need that: a peer's words. What the holder itself needs it
 * has. */
static bool
may_need(const struct keeper_plan *p, const struct fetch_need *need, int r)
{
    if (need->rank != r || need->image < 0 ||
        (uint64_t)need->image >= p->nimages)
        return false;
    size_t copy = keeper_plan_far(p, &p->images[need->image]);
    return copy != SIZE_MAX && p->all->list[copy].holder != r;
}

/* In order, each once. */
static void take_needs(const struct keeper_plan *p,
                       const struct keeper_words *w,
                       struct fetch_needs *needs)
{
    size_t n = 0;
    const uint8_t *words = w->all;
    for (int r = 0; r < p->all->k->comm->world; words += w->lens[r++])
        for (uint64_t at = 0; at + sizeof(*needs->list) <= w->lens[r];
             at += sizeof(*needs->list)) {
            memcpy(&needs->list[n], words + at, sizeof(*needs->list));
            n += may_need(p, &needs->list[n], r);
        }
    if (n > 1)
        qsort(needs->list, n, sizeof(*needs->list), by_need);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_need(&needs->list[i - 1], &needs->list[i]) != 0)
            needs->list[needs->n++] = needs->list[i];
}

/* Collective. The caller frees the list. */
static int tell_needs(struct keeper_plan *p,
                      struct fetch_needs *needs,
                      struct ddp_err *err)
{
    struct ddp_comm *comm = p->all->k->comm;
    struct keeper_words w;
    size_t n;
    struct fetch_need *mine = list_needs(p, &n);
    int rc = mine == NULL ? snapshot_no_memory(err) : 0;
    rc = keeper_collect(comm, rc, mine, n * sizeof(*mine), &w, err);
    if (rc == 0) {
        needs->list = malloc((size_t)w.total + sizeof(*mine));
        rc = needs->list == NULL ? snapshot_no_memory(err) : 0;
        rc = keeper_agree(comm, rc, err);
    }
    if (rc == 0)
        take_needs(p, &w, needs);
    free(mine);
    keeper_words_free(&w);
    return rc;
}

int keeper_fetch(struct keeper_plan *p, bool near_only, struct ddp_err *err)
{
    int rc = 0;
    if (!near_only) {
        struct fetch_needs needs = {.n = 0};
        rc = tell_needs(p, &needs, err);
        if (rc == 0)
            rc = fetch_far(p, &needs, err);
        free(needs.list);
    }
    for (size_t i = 0; rc == 0 && i < p->nfetches; i = end_of_image(p, i))
        if (p->images[p->fetches[i].from->image].near != SIZE_MAX)
            rc = fetch_near(p, i, err);
    return rc;
}
