/*
 * worker_rt/snapshot/list: which snapshots are there, and what is in them, by
 * their headers alone.
 *
 * Happy path of snapshot_tell: the header is read, its tensors and pairs become
 * the program's structs, and the program is told.
 *
 * Failure modes. The header is damaged, or of a newer libddp: the program is
 * told of the snapshot all the same, and why it cannot be read. The data is not
 * looked at: a load may find it damaged.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "worker_rt/rt.h"
#include "worker_rt/snapshot/piece_plan.h"
#include "worker_rt/snapshot/snapshot.h"

/* The program's pairs; libddp's own are told in other ways. A value that no
 * libddp can have written is left out. */
static size_t list_pairs(const struct safetensors *st, struct ddp_kv *meta)
{
    size_t n = 0;
    for (size_t i = 0; i < st->npairs; i++) {
        const struct safetensors_pair *p = &st->pairs[i];
        size_t len = strlen(p->value);
        if (strncmp(p->key, "ddp.", 4) == 0 || len >= DDP_KV_MAX ||
            strcmp(p->key, PIECE_TORCH_KEY) == 0)
            continue;
        meta[n].key = p->key;
        memcpy(meta[n++].value, p->value, len + 1);
    }
    return n;
}

static void fill(struct ddp_listed *s,
                 const struct ddp *d,
                 const struct snapshot_header *h,
                 struct ddp_tensor *tensors,
                 struct ddp_kv *meta)
{
    const struct snapshot_fence *f = &h->fence;
    for (size_t i = 0; i < h->parsed.ntensors; i++)
        tensors[i] = snapshot_tensor(&h->parsed.tensors[i]);
    s->tensors = tensors;
    s->ntensors = h->parsed.ntensors;
    s->nmeta = list_pairs(&h->parsed, meta);
    s->meta = meta;
    s->step = f->step;
    s->round = rt_fence_round(f->round);
    memcpy(s->instance, f->instance, sizeof(s->instance));
    s->foreign = strcmp(f->instance, d->instance) != 0;
}

int snapshot_tell(const struct ddp *d,
                  struct ddp_listed *s,
                  const struct snapshot_source *from,
                  ddp_list_fn *fn,
                  void *ctx,
                  bool *more,
                  struct ddp_err *err)
{
    struct snapshot_header h;
    struct ddp_err why;
    int rc = 0;
    s->size = sizeof(*s);
    s->len = from->size;
    s->why = "";
    if (snapshot_header_read(&h, from, &why) != 0) {
        s->why = why.text;
        *more = fn(ctx, s);
        return 0;
    }
    struct ddp_tensor *tensors =
        calloc(h.parsed.ntensors + 1, sizeof(*tensors));
    struct ddp_kv *meta = calloc(h.parsed.npairs + 1, sizeof(*meta));
    if (tensors == NULL || meta == NULL) {
        rc = snapshot_no_memory(err);
    } else {
        fill(s, d, &h, tensors, meta);
        *more = fn(ctx, s);
    }
    free(tensors);
    free(meta);
    snapshot_header_free(&h);
    return rc;
}

/* -- one file and the one before it ---------------------------------------- */

/* One that cannot be opened is told as well, if it is there. */
static int list_file(const struct ddp *d,
                     const char *path,
                     ddp_list_fn *fn,
                     void *ctx,
                     bool *more,
                     struct ddp_err *err)
{
    struct snapshot_opened o;
    struct ddp_err why;
    struct ddp_listed s = {.size = sizeof(s), .path = path, .step = -1};
    if (snapshot_open(&o, AT_FDCWD, path, &why) != 0) {
        s.why = why.text;
        *more = why.code == DDP_E_NOINPUT || fn(ctx, &s);
        return 0;
    }
    int rc = snapshot_tell(d, &s, &o.from, fn, ctx, more, err);
    snapshot_close(&o);
    return rc;
}

int ddp_snapshot_list(struct ddp *d,
                      const char *path,
                      ddp_list_fn *fn,
                      void *ctx,
                      struct ddp_error *err)
{
    struct ddp_err why;
    bool more = true;
    char *prev = snapshot_prev_path(path);
    if (prev == NULL) {
        (void)snapshot_no_memory(&why);
        return rt_fail(err, &why);
    }
    int rc = list_file(d, path, fn, ctx, &more, &why);
    if (rc == 0 && more)
        rc = list_file(d, prev, fn, ctx, &more, &why);
    free(prev);
    return rc == 0 ? 0 : rt_fail(err, &why);
}
