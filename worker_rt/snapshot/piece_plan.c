/*
 * worker_rt/snapshot/piece_plan: sorting by name brings the pieces of one
 * tensor together, so that all but the first of them get a suffix, and a piece
 * that is there twice is found.
 */
#include "worker_rt/snapshot/piece_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/json.h"
#include "worker_rt/snapshot/snapshot.h"

/* The pair that torch.distributed.checkpoint looks for: JSON with the offset of
 * each tensor of the file. */
#define PIECE_TORCH_KEY "DCP_SHARDING_INFO"

/* A tensor of the image; its name stands behind the key's prefix. */
struct piece_plan_tensor {
    size_t of; /* the piece's index */
    bool is_part;
    char key[sizeof(PIECE_WHOLE_KEY) + DDP_NAME_MAX];
    char whole[PIECE_TEXT_MAX];
};
#define PREFIX_LEN (sizeof(PIECE_WHOLE_KEY) - 1)

static int by_name(const void *a, const void *b)
{
    const struct ddp_piece *const *x = a, *const *y = b;
    int names = strcmp((*x)->local.name, (*y)->local.name);
    return names != 0 ? names : piece_order(*x, *y);
}

/* Those of `stores`, NULL: all, sorted by name. NULL: no memory. */
static const struct ddp_piece **sort(const struct ddp_piece *pieces,
                                     size_t n,
                                     const bool *stores,
                                     size_t *chosen)
{
    const struct ddp_piece **sorted = calloc(n + 1, sizeof(*sorted));
    *chosen = 0;
    for (size_t i = 0; sorted != NULL && i < n; i++)
        if (stores == NULL || stores[i])
            sorted[(*chosen)++] = &pieces[i];
    if (sorted != NULL)
        qsort(sorted, *chosen, sizeof(*sorted), by_name);
    return sorted;
}

/* -- check ----------------------------------------------------------------- */

int piece_plan_check(const struct ddp_piece *pieces,
                     size_t n,
                     struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct ddp_tensor *t = &pieces[i].local;
        if (snapshot_check_tensors(t, 1, err) != 0 ||
            safetensors_check_name(t->name, err) != 0 ||
            piece_check(&pieces[i], err) != 0)
            return ddp_err_wrap(err, "piece %zu", i);
    }
    return 0;
}

int piece_plan_check_twice(const struct ddp_piece *pieces,
                           size_t n,
                           struct ddp_err *err)
{
    size_t count;
    const struct ddp_piece **sorted = sort(pieces, n, NULL, &count);
    if (sorted == NULL)
        return snapshot_no_memory(err);
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < n; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            rc = ddp_err_set(err, DDP_E_USAGE,
                             "the same piece of tensor '%.80s' is there twice",
                             sorted[i]->local.name);
    free(sorted);
    return rc;
}

/* -- make ------------------------------------------------------------------ */

static const char *name_of(const struct piece_plan_tensor *t)
{
    return t->key + PREFIX_LEN;
}

/* `nth`: how many pieces of that tensor come before it. */
static int name_tensor(struct piece_plan_tensor *t,
                       const struct ddp_piece *p,
                       unsigned nth,
                       struct ddp_err *err)
{
    char suffix[16] = "";
    if (nth > 0)
        (void)snprintf(suffix, sizeof(suffix), "#%u", nth); /* fits */
    int len = snprintf(t->key, sizeof(t->key), PIECE_WHOLE_KEY "%s%s",
                       p->local.name, suffix);
    if (len < 0 || (size_t)len - PREFIX_LEN >= DDP_NAME_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the name of tensor '%.80s', of which a rank has "
                           "several pieces, is too long with '%s' behind it",
                           p->local.name, suffix);
    t->is_part = nth > 0 || !piece_is_whole(p);
    if (t->is_part)
        piece_write(t->whole, p, nth);
    return 0;
}

static int name_tensors(struct piece_plan *p,
                        const struct ddp_piece *pieces,
                        const struct ddp_piece *const *sorted,
                        struct ddp_err *err)
{
    unsigned nth = 0;
    for (size_t i = 0; i < p->n; i++) {
        bool first = i == 0 || strcmp(sorted[i - 1]->local.name,
                                      sorted[i]->local.name) != 0;
        nth = first ? 0 : nth + 1;
        p->tensors[i].of = (size_t)(sorted[i] - pieces);
        if (name_tensor(&p->tensors[i], sorted[i], nth, err) != 0)
            return -1;
    }
    return 0;
}

/* {"NAME":{"saved_offsets":[0,32]},..}
 * torch: distributed/checkpoint/_hf_utils.py, hf_storage.py */
static int put_torch(struct piece_plan *p, const struct ddp_piece *pieces)
{
    struct json j;
    json_init(&j, &p->torch);
    json_open(&j, NULL, '{');
    for (size_t i = 0; i < p->n; i++) {
        const struct ddp_piece *piece = &pieces[p->tensors[i].of];
        json_open(&j, name_of(&p->tensors[i]), '{');
        json_open(&j, "saved_offsets", '[');
        for (int d = 0; d < piece->local.dims; d++)
            json_int(&j, NULL, (int64_t)piece->offset[d]);
        json_close(&j, ']');
        json_close(&j, '}');
    }
    json_close(&j, '}');
    return j.full ? -1 : buf_put(&p->torch, "", 1); /* its NUL */
}

static void add_pair(struct piece_plan *p, const char *key, const char *value)
{
    p->pairs[p->npairs++] = (struct safetensors_pair){key, value};
}

static int add_pairs(struct piece_plan *p,
                     const struct ddp_piece *pieces,
                     struct ddp_err *err)
{
    if (put_torch(p, pieces) != 0)
        return snapshot_no_memory(err);
    add_pair(p, PIECE_RANK_KEY, p->rank);
    add_pair(p, PIECE_NAMES_KEY, p->names);
    add_pair(p, PIECE_TORCH_KEY, (const char *)buf_head(&p->torch));
    for (size_t i = 0; i < p->n; i++)
        if (p->tensors[i].is_part)
            add_pair(p, p->tensors[i].key, p->tensors[i].whole);
    return 0;
}

int piece_plan_make(struct piece_plan *p,
                    const struct ddp_piece *pieces,
                    size_t n,
                    const bool *stores,
                    int rank,
                    int world,
                    uint64_t names,
                    struct ddp_err *err)
{
    *p = (struct piece_plan){.n = 0};
    buf_init(&p->torch, SAFETENSORS_HEADER_MAX);
    const struct ddp_piece **sorted = sort(pieces, n, stores, &p->n);
    p->tensors = calloc(p->n + 1, sizeof(*p->tensors));
    p->pairs = calloc(p->n + 3, sizeof(*p->pairs));
    (void)snprintf(p->rank, sizeof(p->rank), "%d/%d", rank, world); /* fits */
    (void)snprintf(p->names, sizeof(p->names), "%016" PRIx64, names);
    int rc = 0;
    if (sorted == NULL || p->tensors == NULL || p->pairs == NULL)
        rc = snapshot_no_memory(err);
    if (rc == 0)
        rc = name_tensors(p, pieces, sorted, err);
    if (rc == 0)
        rc = add_pairs(p, pieces, err);
    free(sorted);
    return rc;
}

void piece_plan_free(struct piece_plan *p)
{
    free(p->tensors);
    free(p->pairs);
    buf_free(&p->torch);
    *p = (struct piece_plan){.n = 0};
}

void piece_plan_fill(const struct piece_plan *p,
                     const struct ddp_piece *pieces,
                     struct ddp_tensor *tensors)
{
    for (size_t i = 0; i < p->n; i++) {
        tensors[i] = pieces[p->tensors[i].of].local;
        tensors[i].name = name_of(&p->tensors[i]);
    }
}
