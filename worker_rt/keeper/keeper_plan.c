/*
 * worker_rt/keeper/keeper_plan: what this rank wants of a save, and which image
 * is read for what.
 *
 * Happy path: ask lets the program say what it wants of the tensors that are
 * known, make finds that all of it is there. When more headers are known
 * (keeper_headers), both are done again, ask for what is new.
 *
 * Each image has a hash of the names of all tensors of its save, so a rank
 * knows whether it knows all of them: nobody misses a tensor that nobody told
 * of.
 *
 * Failure modes. A wanted element is in no image: NOINPUT. The images do not
 * agree about a tensor, or pieces of it overlap: CORRUPT. In both cases the
 * save is not whole. The program wants what the save never had: USAGE.
 */
#include "worker_rt/keeper/keeper_gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/comm/comm.h"

/* -- begin and end --------------------------------------------------------- */

static int by_named(const void *a, const void *b)
{
    const struct plan_named *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

/* What the program names itself, sorted. */
static int list_named(struct keeper_plan *p, struct ddp_err *err)
{
    const struct snapshot_wanted *w = p->wanted->whole;
    p->named = calloc(w->ntensors + 1, sizeof(*p->named));
    if (p->named == NULL)
        return snapshot_no_memory(err);
    for (size_t i = 0; i < w->ntensors; i++)
        p->named[i].tensor = &w->tensors[i];
    qsort(p->named, w->ntensors, sizeof(*p->named), by_named);
    for (size_t i = 1; i < w->ntensors; i++)
        if (by_named(&p->named[i - 1], &p->named[i]) == 0)
            return ddp_err_set(err, DDP_E_USAGE,
                               "tensor '%.80s' is asked for twice",
                               p->named[i].tensor->name);
    return 0;
}

/* The copies of one image stand side by side. */
static int list_images(struct keeper_plan *p, struct ddp_err *err)
{
    const struct image_copy *c = &p->all->list[p->first];
    p->images = calloc(p->n, sizeof(*p->images));
    if (p->images == NULL)
        return snapshot_no_memory(err);
    for (size_t i = 0; i < p->n; i++) {
        if (i == 0 || !keeper_images_same(&c[i - 1], &c[i]))
            p->images[p->nimages++] =
                (struct plan_image){.first = p->first + i,
                                    .rank = c[i].offer.rank,
                                    .world = c[i].offer.world,
                                    .near = SIZE_MAX};
        p->images[p->nimages - 1].copies++;
    }
    return 0;
}

int keeper_plan_init(struct keeper_plan *p,
                     struct keeper_images *all,
                     const struct gather_wanted *wanted,
                     size_t first,
                     struct ddp_err *err)
{
    const struct snapshot_wanted *w = wanted->whole;
    *p = (struct keeper_plan){.all = all,
                              .wanted = wanted,
                              .first = first,
                              .n = keeper_images_of_save(all, first),
                              .meta_rank = INT64_MAX};
    p->meta = calloc(w->nmeta + 1, sizeof(*p->meta));
    if (p->meta == NULL)
        return snapshot_no_memory(err);
    for (size_t i = 0; i < w->nmeta; i++)
        p->meta[i].key = w->meta[i].key;
    return list_images(p, err) == 0 ? list_named(p, err) : -1;
}

void keeper_plan_free(struct keeper_plan *p)
{
    for (size_t i = 0; i < p->nimages; i++) {
        free(p->images[i].pieces);
        free(p->images[i].names);
    }
    free(p->images);
    free(p->sorted);
    free(p->usable);
    free(p->named);
    free(p->wants);
    free(p->fetches);
    free(p->room);
    free(p->meta);
    *p = (struct keeper_plan){.n = 0};
}

size_t keeper_plan_far(const struct keeper_plan *p, const struct plan_image *m)
{
    for (size_t c = m->first; c < m->first + m->copies; c++)
        if (!p->all->list[c].struck)
            return c;
    return SIZE_MAX;
}

/* -- what is wanted -------------------------------------------------------- */

static int by_tensor(const void *a, const void *b)
{
    const struct ddp_piece *const *x = a, *const *y = b;
    int order = strcmp((*x)->local.name, (*y)->local.name);
    if (order == 0)
        order = (*x)->local.dims - (*y)->local.dims;
    return order != 0 ? order : piece_order(*x, *y);
}

static struct plan_piece *owner(const struct ddp_piece *p)
{
    return comm_unconst(p); /* its first member */
}

static int sort_pieces(struct keeper_plan *p, struct ddp_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < p->nimages; i++)
        n += p->images[i].n;
    free(p->sorted);
    free(p->usable);
    p->sorted = calloc(n + 1, sizeof(*p->sorted));
    p->usable = calloc(n + 1, sizeof(*p->usable));
    p->nsorted = 0;
    if (p->sorted == NULL || p->usable == NULL)
        return snapshot_no_memory(err);
    for (size_t i = 0; i < p->nimages; i++)
        for (size_t j = 0; j < p->images[i].n; j++)
            p->sorted[p->nsorted++] = &p->images[i].pieces[j].piece;
    qsort(p->sorted, n, sizeof(*p->sorted), by_tensor);
    return 0;
}

/* Behind the pieces of the tensor of the i-th one. CORRUPT: they are not of
 * one. */
static int end_of_tensor(const struct keeper_plan *p,
                         size_t i,
                         size_t *end,
                         struct ddp_err *err)
{
    const struct ddp_piece *first = p->sorted[i];
    for (*end = i + 1; *end < p->nsorted; (*end)++) {
        const struct ddp_piece *next = p->sorted[*end];
        if (strcmp(first->local.name, next->local.name) != 0)
            break;
        if (!piece_same_whole(first, next))
            return ddp_err_set(err, DDP_E_CORRUPT,
                               "images do not agree about dtype and shape of "
                               "tensor '%.80s'",
                               first->local.name);
    }
    return 0;
}

/* 1: this is the i-th piece of the tensor that is wanted; 0: no more. */
static int ask(struct keeper_plan *p,
               const struct ddp_tensor *whole,
               size_t i,
               struct plan_want *want,
               struct ddp_err *err)
{
    const struct snapshot_wanted *w = p->wanted->whole;
    const struct plan_named key = {.tensor = whole};
    struct plan_named *named =
        bsearch(&key, p->named, w->ntensors, sizeof(key), by_named);
    want->piece = piece_of_tensor(whole);
    want->optional = strcmp(whole->name, SNAPSHOT_RANKS) == 0;
    if (named != NULL) {
        named->found = true;
        want->piece.local.data = named->tensor->data;
        return i > 0                                                 ? 0
               : snapshot_check_fits(named->tensor, whole, err) != 0 ? -1
                                                                     : 1;
    }
    if (i == 0 && w->place != NULL)
        want->piece.local.data = w->place(w->place_ctx, whole);
    if (want->piece.local.data != NULL)
        return 1;
    if (p->wanted->fn == NULL || want->optional ||
        !p->wanted->fn(p->wanted->ctx, whole, i, &want->piece))
        return 0;
    /* Nothing of the rest is the program's to change. */
    struct ddp_piece *piece = &want->piece;
    piece->local.name = whole->name;
    piece->local.dtype = whole->dtype;
    piece->local.dims = whole->dims;
    memcpy(piece->whole, whole->shape, sizeof(piece->whole));
    if (piece_check(piece, err) != 0)
        return -1;
    if (piece->local.data == NULL && piece_count(piece) > 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "a wanted piece of tensor '%.80s' has no data",
                           whole->name);
    return 1;
}

/* All that is wanted of one tensor, or nothing of it. */
static int
ask_all(struct keeper_plan *p, const struct ddp_piece *of, struct ddp_err *err)
{
    struct ddp_tensor whole = of->local;
    size_t before = p->nwants;
    int rc = 1;
    memcpy(whole.shape, of->whole, sizeof(whole.shape));
    whole.data = NULL;
    for (size_t i = 0; rc == 1; i++) {
        rc = snapshot_grow(&p->wants, p->nwants, &p->wants_cap,
                           sizeof(*p->wants), err);
        if (rc == 0)
            rc = ask(p, &whole, i, &p->wants[p->nwants], err);
        p->nwants += rc == 1;
    }
    if (rc != 0)
        p->nwants = before;
    return rc;
}

int keeper_plan_ask(struct keeper_plan *p, struct ddp_err *err)
{
    size_t end;
    if (sort_pieces(p, err) != 0)
        return -1;
    for (size_t i = 0; i < p->nsorted; i = end) {
        bool asked = false;
        if (end_of_tensor(p, i, &end, err) != 0)
            return -1;
        for (size_t j = i; j < end; j++)
            asked |= owner(p->sorted[j])->asked;
        if (!asked && ask_all(p, p->sorted[i], err) != 0)
            return -1;
        for (size_t j = i; j < end; j++)
            owner(p->sorted[j])->asked = true;
    }
    return 0;
}

/* -- what is read from where ----------------------------------------------- */

static bool is_usable(const struct keeper_plan *p,
                      const struct plan_image *m,
                      bool near_only)
{
    if (!m->known)
        return false;
    return m->near != SIZE_MAX ||
           (!near_only && keeper_plan_far(p, m) != SIZE_MAX);
}

/* The ranks of which there is no image, as text: " of rank 2, 3". */
static void
list_lost(const struct keeper_plan *p, bool near_only, char *text, size_t size)
{
    int64_t world = p->images[0].world;
    size_t len = 0, lost = 0, i = 0;
    text[0] = '\0';
    for (int64_t r = 0; r < world && lost < 8; r++) {
        while (i < p->nimages && p->images[i].rank < r)
            i++;
        if (i < p->nimages && p->images[i].rank == r &&
            is_usable(p, &p->images[i], near_only))
            continue;
        int n = snprintf(text + len, size - len, "%s%lld",
                         lost++ == 0 ? ": there is no image of rank " : ", ",
                         (long long)r); /* fits */
        len += (size_t)n;
    }
}

/* Whether all tensors of the save are known. NOINPUT. */
static int
check_names(const struct keeper_plan *p, bool near_only, struct ddp_err *err)
{
    uint64_t known = 0;
    char lost[160];
    bool all = true;
    for (size_t i = 0; i < p->nsorted; i++)
        if (i == 0 ||
            strcmp(p->sorted[i - 1]->local.name, p->sorted[i]->local.name) != 0)
            known ^= piece_key_of(p->sorted[i]).whole;
    size_t images = 0;
    for (size_t i = 0; i < p->nimages; i++) {
        images += p->images[i].known;
        all &= !p->images[i].known || p->images[i].all_names == known;
    }
    if (all && images > 0)
        return 0;
    list_lost(p, near_only, lost, sizeof(lost));
    return ddp_err_set(err, DDP_E_NOINPUT,
                       "some tensors are in no image that is left%s", lost);
}

/* The pieces of a tensor from images that can be read, in `usable`. */
static size_t
list_usable(struct keeper_plan *p, const struct ddp_piece *want, bool near_only)
{
    size_t low = 0, high = p->nsorted, n = 0;
    const char *name = want->local.name;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(p->sorted[middle]->local.name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->nsorted && strcmp(p->sorted[low]->local.name, name) == 0;
         low++)
        if (is_usable(p, &p->images[owner(p->sorted[low])->image], near_only))
            p->usable[n++] = p->sorted[low];
    return n;
}

static bool is_near(const struct keeper_plan *p, const struct ddp_piece *piece)
{
    return p->images[owner(piece)->image].near != SIZE_MAX;
}

/* Of the same part in several images the first that is near is taken, if its
 * bytes are those of the first; else the first. So all ranks end with the same
 * bytes, also where copies differ that should not. */
static int
add_fetches(struct keeper_plan *p, size_t want, size_t n, struct ddp_err *err)
{
    struct piece_box box;
    size_t behind;
    for (size_t i = 0; i < n; i = behind) {
        const struct ddp_piece *from = p->usable[i];
        for (behind = i + 1;
             behind < n && piece_same_part(p->usable[i], p->usable[behind]);
             behind++)
            if (!is_near(p, from) && is_near(p, p->usable[behind]) &&
                owner(from)->sum == owner(p->usable[behind])->sum)
                from = p->usable[behind];
        if (!piece_meet(&p->wants[want].piece, from, &box))
            continue;
        if (snapshot_grow(&p->fetches, p->nfetches, &p->fetches_cap,
                          sizeof(*p->fetches), err) != 0)
            return -1;
        p->fetches[p->nfetches++] =
            (struct plan_fetch){.from = owner(from), .want = want, .box = box};
    }
    return 0;
}

static int
plan_want(struct keeper_plan *p, size_t i, bool near_only, struct ddp_err *err)
{
    struct plan_want *w = &p->wants[i];
    char lost[160];
    uint64_t missing;
    if (w->optional && w->piece.local.data == NULL)
        return 0;
    size_t n = list_usable(p, &w->piece, near_only);
    if (piece_missing(&w->piece, p->usable, n, &missing, err) != 0)
        return -1;
    if (missing == 0)
        return add_fetches(p, i, n, err);
    if (w->optional && !near_only) {
        keeper_ranks_begin(p->all->k); /* they have none, then */
        w->piece.local.data = NULL;
        return 0;
    }
    list_lost(p, near_only, lost, sizeof(lost));
    return ddp_err_set(err, DDP_E_NOINPUT,
                       "tensor '%.80s': what rank %d wants is in no image, "
                       "%" PRIu64 " of %" PRIu64
                       " elements of it%s", /* messages: ok */
                       w->piece.local.name, p->all->k->comm->rank, missing,
                       piece_count(&w->piece), lost);
}

static int by_image(const void *a, const void *b)
{
    const struct plan_fetch *x = a, *y = b;
    if (x->from->image != y->from->image)
        return x->from->image < y->from->image ? -1 : 1;
    if (x->from->at != y->from->at)
        return x->from->at < y->from->at ? -1 : 1;
    return (x->want > y->want) - (x->want < y->want);
}

uint64_t keeper_plan_digest(const struct keeper_plan *p)
{
    uint64_t all = 0;
    for (size_t i = 0; i < p->nfetches; i++) {
        const struct plan_piece *from = p->fetches[i].from;
        const uint64_t one[2] = {piece_key_of(&from->piece).part[0], from->sum};
        all ^= XXH3_64bits(one, sizeof(one));
    }
    return all;
}

size_t keeper_plan_same(const struct keeper_plan *p, size_t i)
{
    size_t n = 1;
    while (i + n < p->nfetches && p->fetches[i].from == p->fetches[i + n].from)
        n++;
    return n;
}

bool keeper_plan_is_straight(const struct keeper_plan *p,
                             size_t i,
                             const struct ddp_piece *part)
{
    return keeper_plan_same(p, i) == 1 &&
           piece_same_part(part, &p->wants[p->fetches[i].want].piece);
}

struct ddp_piece
keeper_plan_rows(const struct keeper_plan *p, size_t i, uint64_t *begin)
{
    struct ddp_piece rows = p->fetches[i].from->piece;
    size_t behind = i + keeper_plan_same(p, i);
    uint64_t first = UINT64_MAX, end = 0;
    *begin = 0;
    if (rows.local.dims == 0)
        return rows;
    for (size_t j = i; j < behind; j++) {
        const struct piece_box *box = &p->fetches[j].box;
        uint64_t last = box->offset[0] + box->shape[0];
        first = box->offset[0] < first ? box->offset[0] : first;
        end = last > end ? last : end;
    }
    ddp_assert(first >= rows.offset[0] && end > first); /* they met */
    *begin = (first - rows.offset[0]) *
             (ddp_tensor_len(&rows.local) / rows.local.shape[0]);
    rows.offset[0] = first;
    rows.local.shape[0] = end - first;
    return rows;
}

/* What must be read before it goes where it is wanted. */
static uint64_t room_for(const struct keeper_plan *p, size_t i)
{
    uint64_t begin;
    const struct plan_piece *from = p->fetches[i].from;
    size_t near = p->images[from->image].near;
    if (near != SIZE_MAX && p->all->list[near].offer.memory)
        return 0;
    const struct ddp_piece part =
        near != SIZE_MAX ? from->piece : keeper_plan_rows(p, i, &begin);
    return keeper_plan_is_straight(p, i, &part) ? 0
                                                : ddp_tensor_len(&part.local);
}

static int take_room(struct keeper_plan *p, struct ddp_err *err)
{
    uint64_t most = 0;
    for (size_t i = 0; i < p->nfetches; i += keeper_plan_same(p, i)) {
        uint64_t len = room_for(p, i);
        most = len > most ? len : most;
    }
    if (most <= p->room_len)
        return 0;
    free(p->room);
    p->room_len = 0;
    p->room = malloc((size_t)most);
    if (p->room == NULL)
        return snapshot_no_memory(err);
    p->room_len = (size_t)most;
    return 0;
}

int keeper_plan_make(struct keeper_plan *p, bool near_only, struct ddp_err *err)
{
    p->nfetches = 0;
    if (check_names(p, near_only, err) != 0)
        return -1;
    for (size_t i = 0; i < p->wanted->whole->ntensors; i++)
        if (!p->named[i].found)
            return snapshot_check_fits(p->named[i].tensor, NULL, err);
    for (size_t i = 0; i < p->nwants; i++)
        if (plan_want(p, i, near_only, err) != 0)
            return -1;
    if (p->nfetches > 1)
        qsort(p->fetches, p->nfetches, sizeof(*p->fetches), by_image);
    return take_room(p, err);
}
