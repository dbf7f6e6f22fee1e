/*
 * worker_rt/snapshot/pieces: geometry of boxes in up to DDP_DIMS_MAX dims, and
 * hashes that say which piece is which.
 *
 * Failure modes: a piece that reaches beyond its whole (USAGE), the text of a
 * header that no libddp has written (CORRUPT), parts that overlap (CORRUPT), no
 * memory for a sorted list.
 */
#include "worker_rt/snapshot/pieces.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "worker_rt/snapshot/safetensors.h"
#include "worker_rt/snapshot/snapshot.h"

/* -- where a piece lies ---------------------------------------------------- */

int piece_check(const struct ddp_piece *p, struct ddp_err *err)
{
    const struct ddp_tensor *t = &p->local;
    uint64_t len;
    if (t->name == NULL)
        return ddp_err_set(err, DDP_E_USAGE, "a piece has no name");
    if (safetensors_len(t->dtype, t->dims, p->whole, &len) != 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "tensor '%.80s' has a bad dtype or whole shape",
                           t->name);
    for (int i = 0; i < t->dims; i++)
        if (t->shape[i] > p->whole[i] ||
            p->offset[i] > p->whole[i] - t->shape[i])
            return ddp_err_set(
                err, DDP_E_USAGE,
                "tensor '%.80s': a piece of %" PRIu64 " from %" PRIu64
                " on does not lie in dimension %d, which has %" PRIu64,
                t->name, t->shape[i], p->offset[i], i, p->whole[i]);
    return 0;
}

struct ddp_piece piece_of_tensor(const struct ddp_tensor *t)
{
    struct ddp_piece p = {.local = *t};
    _Static_assert(sizeof(p.whole) == sizeof(t->shape), "all dims");
    memcpy(p.whole, t->shape, sizeof(p.whole));
    return p;
}

/* Of a tensor that is none, or has no dtype, there is one. */
size_t piece_parts(const struct ddp_tensor *t)
{
    uint64_t len = ddp_tensor_len(t);
    uint64_t parts = (len + PIECE_PART_MAX - 1) / PIECE_PART_MAX;
    if (len == 0 || t->dims == 0)
        return 1;
    return (size_t)(parts < t->shape[0] ? parts : t->shape[0]);
}

struct ddp_piece piece_part(const struct ddp_tensor *t, size_t i)
{
    struct ddp_piece p = piece_of_tensor(t);
    uint64_t parts = piece_parts(t);
    ddp_assert(i < parts);
    if (parts == 1)
        return p;
    uint64_t rows = t->shape[0], first = rows * i / parts;
    p.offset[0] = first;
    p.local.shape[0] = rows * (i + 1) / parts - first;
    if (t->data != NULL)
        p.local.data = (uint8_t *)t->data + ddp_tensor_len(t) / rows * first;
    return p;
}

/* What holds for pieces that have been checked. */
static int dims_of(const struct ddp_piece *p)
{
    ddp_assert(p->local.dims >= 0 && p->local.dims <= DDP_DIMS_MAX);
    return p->local.dims;
}

static bool same(const uint64_t *a, const uint64_t *b, int dims)
{
    return memcmp(a, b, (size_t)dims * sizeof(*a)) == 0;
}

bool piece_is_whole(const struct ddp_piece *p)
{
    return same(p->local.shape, p->whole, dims_of(p));
}

static uint64_t product(const uint64_t *shape, int dims)
{
    uint64_t n = 1;
    for (int i = 0; i < dims; i++)
        n *= shape[i];
    return n;
}

uint64_t piece_count(const struct ddp_piece *p)
{
    return product(p->local.shape, dims_of(p));
}

bool piece_same_whole(const struct ddp_piece *a, const struct ddp_piece *b)
{
    return a->local.dtype == b->local.dtype && dims_of(a) == dims_of(b) &&
           same(a->whole, b->whole, a->local.dims);
}

int piece_order(const struct ddp_piece *a, const struct ddp_piece *b)
{
    ddp_assert(dims_of(a) == dims_of(b));
    for (int i = 0; i < a->local.dims; i++)
        if (a->offset[i] != b->offset[i])
            return a->offset[i] < b->offset[i] ? -1 : 1;
    for (int i = 0; i < a->local.dims; i++)
        if (a->local.shape[i] != b->local.shape[i])
            return a->local.shape[i] < b->local.shape[i] ? -1 : 1;
    return 0;
}

bool piece_same_part(const struct ddp_piece *a, const struct ddp_piece *b)
{
    return piece_order(a, b) == 0;
}

bool piece_meet(const struct ddp_piece *a,
                const struct ddp_piece *b,
                struct piece_box *both)
{
    ddp_assert(dims_of(a) == dims_of(b));
    *both = (struct piece_box){.dims = a->local.dims};
    for (int i = 0; i < both->dims; i++) {
        uint64_t a_end = a->offset[i] + a->local.shape[i];
        uint64_t b_end = b->offset[i] + b->local.shape[i];
        uint64_t end = a_end < b_end ? a_end : b_end;
        uint64_t at = a->offset[i] > b->offset[i] ? a->offset[i] : b->offset[i];
        if (at >= end)
            return false;
        both->offset[i] = at;
        both->shape[i] = end - at;
    }
    return true;
}

/* -- copies ---------------------------------------------------------------- */

/* How many of the inner dims lie in one run in a piece: all that it has whole,
 * and the next one. */
static int run_begin(const struct ddp_piece *p, const struct piece_box *box)
{
    int d = box->dims;
    while (d > 0 && box->shape[d - 1] == p->local.shape[d - 1])
        d--;
    return d > 0 ? d - 1 : 0;
}

/* Where an element lies in a piece, counted in elements. */
static uint64_t index_in(const struct ddp_piece *p, const uint64_t *at)
{
    uint64_t n = 0;
    for (int i = 0; i < p->local.dims; i++)
        n = n * p->local.shape[i] + (at[i] - p->offset[i]);
    return n;
}

/* To the next run, as an odometer counts; false: that was the last. */
static bool step_on(uint64_t *at, const struct piece_box *box, int dims)
{
    for (int i = dims - 1; i >= 0; i--) {
        if (++at[i] < box->offset[i] + box->shape[i])
            return true;
        at[i] = box->offset[i];
    }
    return false;
}

void piece_copy(const struct ddp_piece *to,
                const struct ddp_piece *from,
                const struct piece_box *both)
{
    int outer = run_begin(to, both), other = run_begin(from, both);
    outer = other > outer ? other : outer;
    size_t elem = ddp_dtype_size(to->local.dtype);
    size_t run =
        elem * (size_t)product(both->shape + outer, both->dims - outer);
    uint64_t at[DDP_DIMS_MAX];
    memcpy(at, both->offset, sizeof(at));
    do
        memcpy((uint8_t *)to->local.data + index_in(to, at) * elem,
               (const uint8_t *)from->local.data + index_in(from, at) * elem,
               run);
    while (step_on(at, both, outer));
}

/* -- what is there --------------------------------------------------------- */

/* Whether one of the parts behind the i-th has an element of it and of `want`.
 * They begin further and further out in the first dim. */
static bool overlaps(const struct ddp_piece *want,
                     const struct ddp_piece *const *parts,
                     size_t n,
                     size_t i)
{
    const struct ddp_piece *p = parts[i];
    struct piece_box box;
    if (p->local.dims == 0)
        return false;
    uint64_t end = p->offset[0] + p->local.shape[0];
    for (size_t j = i + 1; j < n && parts[j]->offset[0] < end; j++)
        if (!piece_same_part(p, parts[j]) && piece_meet(p, parts[j], &box) &&
            piece_meet(want, parts[j], &box))
            return true;
    return false;
}

int piece_missing(const struct ddp_piece *want,
                  const struct ddp_piece *const *parts,
                  size_t n,
                  uint64_t *missing,
                  struct ddp_err *err)
{
    *missing = piece_count(want);
    for (size_t i = 0; i < n; i++) {
        struct piece_box box;
        ddp_assert(i == 0 || piece_order(parts[i - 1], parts[i]) <= 0);
        if ((i > 0 && piece_same_part(parts[i - 1], parts[i])) ||
            !piece_meet(want, parts[i], &box))
            continue;
        uint64_t got = product(box.shape, box.dims);
        if (got > *missing || overlaps(want, parts, n, i))
            return ddp_err_set(err, DDP_E_CORRUPT,
                               "different pieces of '%.80s' overlap",
                               want->local.name);
        *missing -= got;
    }
    return 0;
}

/* -- text ------------------------------------------------------------------ */

static size_t write_list(char *to, const uint64_t *list, int n)
{
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(to + len, PIECE_TEXT_MAX / 2 - len, /* fits */
                                "%s%" PRIu64, i == 0 ? "" : ",", list[i]);
    return len;
}

void piece_write(char text[PIECE_TEXT_MAX],
                 const struct ddp_piece *p,
                 unsigned nth)
{
    _Static_assert(DDP_DIMS_MAX * 21 < PIECE_TEXT_MAX / 2 - 16, "both lists");
    size_t len = write_list(text, p->whole, dims_of(p));
    text[len++] = '@';
    len += write_list(text + len, p->offset, p->local.dims);
    text[len] = '\0';
    if (nth > 0)
        (void)snprintf(text + len, PIECE_TEXT_MAX - len, "#%u", nth); /* fits */
}

/* False: there are not so many numbers. */
static bool read_list(const char **text, uint64_t *list, int n)
{
    for (int i = 0; i < n; i++) {
        char *end;
        const char *at = *text + (i > 0);
        if ((i > 0 && **text != ',') || *at < '0' || *at > '9')
            return false;
        errno = 0;
        list[i] = strtoull(at, &end, 10);
        if (errno != 0)
            return false;
        *text = end;
    }
    return true;
}

/* The suffix of value and name, "#1"; 0: they have none. */
static bool read_nth(const char *text, unsigned *nth)
{
    *nth = 0;
    return *text == '\0' || (*text == '#' && sscanf(text, "#%9u", nth) == 1);
}

/* How much of the name is that of the tensor; false: it lacks the suffix. */
static bool cut_name(const char *name, unsigned nth, size_t *len)
{
    char suffix[16];
    *len = strlen(name);
    int n = snprintf(suffix, sizeof(suffix), "#%u", nth); /* fits */
    if (nth == 0)
        return true;
    if (*len < (size_t)n || strcmp(name + *len - (size_t)n, suffix) != 0)
        return false;
    *len -= (size_t)n;
    return true;
}

/* Only what piece_write would have made: it is written again and compared. */
int piece_read(struct ddp_piece *p,
               const char *text,
               size_t *name_len,
               struct ddp_err *err)
{
    char again[PIECE_TEXT_MAX];
    const char *at = text;
    unsigned nth = 0;
    struct ddp_err why;
    *name_len = strlen(p->local.name);
    if (text == NULL) {
        *p = piece_of_tensor(&p->local);
        return 0;
    }
    bool reads = read_list(&at, p->whole, dims_of(p)) && *at++ == '@' &&
                 read_list(&at, p->offset, p->local.dims) &&
                 read_nth(at, &nth) && cut_name(p->local.name, nth, name_len) &&
                 p->local.dims > 0;
    if (reads)
        piece_write(again, p, nth);
    if (reads && strcmp(again, text) == 0 && piece_check(p, &why) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CORRUPT,
                       "header: '%.60s' says of no piece of '%.80s' where it "
                       "lies",
                       text, p->local.name);
}

/* -- keys ------------------------------------------------------------------ */

struct piece_key piece_key_of(const struct ddp_piece *p)
{
    const struct ddp_tensor *t = &p->local;
    size_t dims = (size_t)dims_of(p);
    uint64_t of[4 + 3 * DDP_DIMS_MAX] = {0};
    struct piece_key k = {.name = XXH3_64bits(t->name, strlen(t->name)),
                          .len = ddp_tensor_len(t)};
    of[0] = k.name;
    of[1] = (uint64_t)t->dtype;
    of[2] = dims;
    memcpy(of + 3, p->whole, dims * sizeof(of[0]));
    k.whole = XXH3_64bits(of, sizeof(of));
    memcpy(of + 3 + DDP_DIMS_MAX, p->offset, dims * sizeof(of[0]));
    memcpy(of + 3 + 2 * DDP_DIMS_MAX, t->shape, dims * sizeof(of[0]));
    XXH128_hash_t part = XXH3_128bits(of, sizeof(of));
    k.part[0] = part.high64;
    k.part[1] = part.low64;
    return k;
}

/* A key in a sorted list. */
struct piece_entry {
    struct piece_key key;
    size_t at; /* its index in the caller's array */
    int rank;
};

static int by_number(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_name(const void *a, const void *b)
{
    const struct piece_entry *x = a, *y = b;
    int order = by_number(x->key.name, y->key.name);
    return order != 0 ? order : by_number(x->at, y->at);
}

/* The longest first: those behind them make up for what they left uneven. */
static int by_part(const void *a, const void *b)
{
    const struct piece_entry *x = a, *y = b;
    int order = by_number(y->key.len, x->key.len);
    if (order == 0)
        order = piece_part_order(x->key.part, y->key.part);
    return order != 0 ? order : by_number(x->at, y->at);
}

static struct piece_entry *make_list(const struct piece_key *keys, size_t n)
{
    struct piece_entry *list = calloc(n + 1, sizeof(*list));
    for (size_t i = 0; list != NULL && i < n; i++)
        list[i] = (struct piece_entry){.key = keys[i], .at = i};
    return list;
}

int pieces_survey(const struct piece_key *keys,
                  size_t n,
                  size_t *bad,
                  uint64_t *names,
                  struct ddp_err *err)
{
    struct piece_entry *list = make_list(keys, n);
    *bad = n;
    *names = 0;
    if (list == NULL)
        return snapshot_no_memory(err);
    qsort(list, n, sizeof(*list), by_name);
    const struct piece_key *first = NULL; /* of this name */
    for (size_t i = 0; i < n; i++) {
        const struct piece_key *k = &list[i].key;
        if (first == NULL || k->name != first->name) {
            first = k;
            *names ^= k->whole;
        } else if (k->whole != first->whole && list[i].at < *bad) {
            *bad = list[i].at;
        }
    }
    free(list);
    return 0;
}

static bool same_key(const struct piece_entry *a, const struct piece_entry *b)
{
    return piece_part_order(a->key.part, b->key.part) == 0 &&
           a->key.len == b->key.len;
}

/* Which of the holders, sorted by rank, stores the piece that they all hold. A
 * rank that has the piece twice counts once. */
static const struct piece_entry *
choose(const struct piece_entry *holders, size_t n, const uint64_t *bytes)
{
    uint64_t least = UINT64_MAX, equals = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t has = bytes[holders[i].rank];
        if (i > 0 && holders[i].rank == holders[i - 1].rank)
            continue;
        equals = has < least ? 1 : equals + (has == least);
        least = has < least ? has : least;
    }
    uint64_t left = holders[0].key.part[1] % equals;
    for (size_t i = 0;; i++) {
        ddp_assert(i < n);
        if ((i == 0 || holders[i].rank != holders[i - 1].rank) &&
            bytes[holders[i].rank] == least && left-- == 0)
            return &holders[i];
    }
}

int pieces_choose(const struct piece_key *keys,
                  const size_t *counts,
                  int ranks,
                  bool *stores,
                  struct ddp_err *err)
{
    size_t n = 0;
    ddp_assert(ranks > 0);
    for (int r = 0; r < ranks; r++)
        n += counts[r];
    struct piece_entry *list = make_list(keys, n);
    uint64_t *bytes = calloc((size_t)ranks, sizeof(*bytes));
    if (list == NULL || bytes == NULL) {
        free(list);
        free(bytes);
        return snapshot_no_memory(err);
    }
    size_t i = 0, behind;
    for (int r = 0; r < ranks; r++)
        for (size_t left = counts[r]; left > 0; left--)
            list[i++].rank = r;
    qsort(list, n, sizeof(*list), by_part);
    memset(stores, 0, n * sizeof(*stores));
    for (i = 0; i < n; i = behind) {
        for (behind = i + 1; behind < n && same_key(&list[i], &list[behind]);)
            behind++;
        const struct piece_entry *e = choose(list + i, behind - i, bytes);
        stores[e->at] = true;
        bytes[e->rank] += e->key.len;
    }
    free(list);
    free(bytes);
    return 0;
}

int pieces_find_alone(const struct piece_key *keys,
                      const int64_t *nodes,
                      size_t n,
                      bool *alone,
                      struct ddp_err *err)
{
    struct piece_entry *list = make_list(keys, n);
    size_t behind;
    if (list == NULL)
        return snapshot_no_memory(err);
    qsort(list, n, sizeof(*list), by_part);
    for (size_t i = 0; i < n; i = behind) {
        bool one = true;
        for (behind = i + 1; behind < n && same_key(&list[i], &list[behind]);
             behind++)
            one &= nodes[list[behind].at] == nodes[list[i].at];
        for (size_t j = i; j < behind; j++)
            alone[list[j].at] = one;
    }
    free(list);
    return 0;
}

/* By what makes two keys the same piece. */
static int by_same(const void *a, const void *b)
{
    const struct piece_key *x = a, *y = b;
    return piece_part_order(x->part, y->part);
}

bool pieces_within(const struct piece_key *keys,
                   const bool *which,
                   size_t n,
                   struct piece_key *among,
                   size_t namong)
{
    bool within = true;
    qsort(among, namong, sizeof(*among), by_same);
    for (size_t i = 0; i < n; i++)
        within &= !which[i] || bsearch(&keys[i], among, namong, sizeof(*among),
                                       by_same) != NULL;
    return within;
}
