#include "worker_rt/keeper/compare.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/snapshot/snapshot.h"

_Static_assert(sizeof(struct compare_row) == 4 * sizeof(uint64_t), "no gaps");

/* -- weights --------------------------------------------------------------- */

/* Keys by piece, those of one piece by rank, which is their order. */
static int by_piece(const void *a, const void *b)
{
    const struct piece_key *x = *(const struct piece_key *const *)a;
    const struct piece_key *y = *(const struct piece_key *const *)b;
    int order = piece_part_order(x->part, y->part);
    return order != 0 ? order : (x > y) - (x < y);
}

int compare_weigh(const struct piece_key *keys,
                  size_t n,
                  size_t first,
                  size_t mine,
                  uint64_t *weights,
                  struct ddp_err *err)
{
    ddp_assert(first <= n && mine <= n - first);
    const struct piece_key **sorted = calloc(n + 1, sizeof(*sorted));
    if (sorted == NULL)
        return snapshot_no_memory(err);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &keys[i];
    qsort(sorted, n, sizeof(*sorted), by_piece);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n; end++)
            if (piece_part_order(sorted[i]->part, sorted[end]->part) != 0)
                break;
        for (size_t j = i; j < end; j++) {
            size_t at = (size_t)(sorted[j] - keys);
            if (at >= first && at - first < mine)
                weights[at - first] = j == i ? end - i - 1 : UINT64_MAX;
        }
    }
    free(sorted);
    return 0;
}

size_t compare_bucket(const uint64_t part[2])
{
    return (size_t)(part[0] % COMPARE_BUCKETS);
}

/* -- pieces ---------------------------------------------------------------- */

static int by_known(const void *a, const void *b)
{
    const struct compare_piece *x = a, *y = b;
    return piece_part_order(x->part, y->part);
}

void compare_carry_over(struct compare_piece *now,
                        size_t n,
                        struct compare_piece *before,
                        size_t nbefore)
{
    if (nbefore == 0)
        return;
    qsort(before, nbefore, sizeof(*before), by_known);
    for (size_t i = 0; i < n; i++) {
        const struct compare_piece *known =
            bsearch(&now[i], before, nbefore, sizeof(*before), by_known);
        if (known == NULL)
            continue;
        now[i].fresh = known->fresh;
        now[i].left_out = known->left_out;
    }
}

/* -- judgement ------------------------------------------------------------- */

struct held {
    const struct compare_row *row;
    int rank;
};

/* By piece, equal ones together. */
static int by_sum(const void *a, const void *b)
{
    const struct held *x = a, *y = b;
    int order = piece_part_order(x->row->part, y->row->part);
    if (order != 0)
        return order;
    if (x->row->sum != y->row->sum)
        return x->row->sum < y->row->sum ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static struct held *sort_rows(const struct compare_row *rows,
                              size_t n,
                              const size_t *counts,
                              int world)
{
    size_t at = 0;
    struct held *sorted = calloc(n + 1, sizeof(*sorted));
    for (int r = 0; sorted != NULL && r < world; r++)
        for (size_t i = 0; i < counts[r]; i++, at++)
            sorted[at] = (struct held){&rows[at], r};
    if (sorted != NULL)
        qsort(sorted, n, sizeof(*sorted), by_sum);
    return sorted;
}

/* How many from the first on are equal to it, and lie before `end`. */
static size_t run_of(const struct held *h, size_t n)
{
    size_t i = 1;
    while (i < n && h[i].row->sum == h->row->sum)
        i++;
    return i;
}

/* What there is to say of the `n` holders of one piece, which differ; at most
 * `n` findings. */
static size_t
judge_piece(const struct held *h, size_t n, struct compare_finding *found)
{
    size_t most = 0, most_at = 0, count = 0;
    bool fresh = false;
    const struct held *first = h;
    for (size_t i = 0, run; i < n; i += run) {
        run = run_of(&h[i], n - i);
        if (run > most) {
            most = run;
            most_at = i;
        }
    }
    for (size_t i = 0; i < n; i++) {
        fresh |= h[i].row->fresh != 0;
        first = h[i].rank < first->rank ? &h[i] : first;
    }
    /* The first and the last of them differ. */
    int other = h->row->sum == first->row->sum ? h[n - 1].rank : h->rank;
    struct compare_finding f = {.kind = fresh ? COMPARE_LEFT_OUT : COMPARE_TIE,
                                .part = {h->row->part[0], h->row->part[1]},
                                .rank = first->rank,
                                .other = other,
                                .holders = (int)n,
                                .alike = (int)most};
    if (fresh || 2 * most <= n) {
        found[0] = f;
        return 1;
    }
    f.kind = COMPARE_ODD;
    f.other = h[most_at].rank;
    for (size_t i = 0; i < n; i++) {
        f.rank = h[i].rank;
        if (i < most_at || i >= most_at + most)
            found[count++] = f;
    }
    return count;
}

int compare_judge(const struct compare_row *rows,
                  const size_t *counts,
                  int world,
                  struct compare_finding **found,
                  size_t *n,
                  struct ddp_err *err)
{
    size_t all = 0;
    for (int r = 0; r < world; r++)
        all += counts[r];
    struct held *sorted = sort_rows(rows, all, counts, world);
    *n = 0;
    *found = calloc(all + 1, sizeof(**found));
    if (sorted == NULL || *found == NULL) {
        free(sorted);
        free(*found);
        *found = NULL;
        return snapshot_no_memory(err);
    }
    for (size_t i = 0, end; i < all; i = end) {
        for (end = i + 1; end < all; end++)
            if (piece_part_order(sorted[i].row->part, sorted[end].row->part) !=
                0)
                break;
        if (run_of(&sorted[i], end - i) < end - i)
            *n += judge_piece(&sorted[i], end - i, &(*found)[*n]);
    }
    free(sorted);
    return 0;
}

const struct compare_finding *compare_worst(const struct compare_finding *found,
                                            size_t n)
{
    const struct compare_finding *worst = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct compare_finding *f = &found[i];
        if (f->kind == COMPARE_LEFT_OUT)
            continue;
        if (worst == NULL ||
            (f->kind == COMPARE_ODD &&
             (worst->kind != COMPARE_ODD || f->rank < worst->rank)))
            worst = f;
    }
    return worst;
}

const struct compare_finding *compare_find(const struct compare_finding *found,
                                           size_t n,
                                           const uint64_t part[2])
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (piece_part_order(found[mid].part, part) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && piece_part_order(found[low].part, part) == 0 ? &found[low]
                                                                   : NULL;
}
