#include "worker_rt/comm/same_call.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/head.h"
#include "worker_rt/comm/reduce.h"
#include "worker_rt/comm/wire.h"

/* What must be the same on all ranks; 64-bit members only. */
struct same_call {
    int64_t kind; /* enum wire_kind */
    int64_t dtype;
    int64_t op;
    int64_t root;
    int64_t len; /* elements, or bytes */
};
_Static_assert(sizeof(struct same_call) == 40, "no gaps");

bool same_call_wanted(void)
{
    const char *text = getenv("DDP_CHECK");
    return text != NULL && strcmp(text, "1") == 0;
}

static struct same_call tell(const struct comm_call *call)
{
    return (struct same_call){.kind = call->kind,
                              .dtype = (int64_t)call->dtype,
                              .op = (int64_t)call->op,
                              .root = call->peer,
                              .len = (int64_t)call->count};
}

static const char *type_of(int64_t dtype)
{
    return dtype == 0 ? "bytes" : reduce_dtype_name(dtype);
}

static int differ(int rank,
                  const struct same_call *zero,
                  const struct same_call *r,
                  struct ddp_err *err)
{
    return ddp_err_set(
        err, DDP_E_CONFLICT,
        "rank 0 and rank %d are in different calls: %s of length %lld (%s, %s, "
        "root %lld), and %s of length %lld (%s, %s, root %lld)",
        rank, head_kind_name(zero->kind), (long long)zero->len,
        type_of(zero->dtype), reduce_op_name(zero->op), (long long)zero->root,
        head_kind_name(r->kind), (long long)r->len, type_of(r->dtype),
        reduce_op_name(r->op), (long long)r->root);
}

/* All ranks find the same one, from the same numbers. */
int same_call_check(struct ddp_comm *control,
                    const struct comm_call *mine,
                    struct ddp_err *err)
{
    const struct same_call own = tell(mine);
    struct same_call *all = calloc((size_t)control->world, sizeof(*all));
    if (all == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the ranks");
    int rc = comm_allgather(control, &own, sizeof(own), all, err);
    for (int r = 1; rc == 0 && r < control->world; r++)
        if (memcmp(&all[r], &all[0], sizeof(all[0])) != 0)
            rc = differ(r, &all[0], &all[r], err);
    free(all);
    return rc;
}

/* -- between two ranks ----------------------------------------------------- */

/* A send or receive, and what the two ranks say of it. */
struct talk {
    struct comm_call call; /* on the control: of `said` or `heard` */
    const struct comm_call *about;
    struct same_call said;
    struct same_call heard;
};

static void prepare(struct talk *t, const struct comm_call *about)
{
    t->about = about;
    t->said = tell(about);
    t->call = (struct comm_call){.kind = about->kind,
                                 .count = sizeof(t->said),
                                 .elem = 1,
                                 .peer = about->peer};
    if (about->kind == WIRE_SEND)
        t->call.in = &t->said;
    else
        t->call.out = &t->heard;
}

static int
compare(struct ddp_comm *control, const struct talk *t, struct ddp_err *err)
{
    const struct comm_call *own = t->about;
    const struct same_call *sent = &t->heard;
    if (own->kind == WIRE_SEND || (sent->dtype == (int64_t)own->dtype &&
                                   sent->len == (int64_t)own->count))
        return 0;
    wire_blame_conflict(comm_cpu_wire(control));
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "rank %d sends count %lld of dtype %s, rank %d receives "
                       "count %zu of dtype %s",
                       own->peer, (long long)sent->len,
                       reduce_dtype_name(sent->dtype), control->rank,
                       own->count, reduce_dtype_name((int64_t)own->dtype));
}

int same_call_between(struct ddp_comm *control,
                      const struct comm_call *calls,
                      size_t n,
                      struct ddp_err *err)
{
    size_t m = 0;
    struct talk *talks = calloc(n, sizeof(*talks));
    struct comm_call *both = calloc(n, sizeof(*both));
    int rc = 0;
    if (talks == NULL || both == NULL)
        rc = ddp_err_set(err, DDP_E_NOMEM, "no memory for a group");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!control->ops->reaches(control, calls[i].peer))
            continue;
        prepare(&talks[m], &calls[i]);
        both[m] = talks[m].call;
        m++;
    }
    if (rc == 0 && m > 0)
        rc = control->ops->exchange(control, both, m, err);
    for (size_t i = 0; rc == 0 && i < m; i++)
        rc = compare(control, &talks[i], err);
    free(talks);
    free(both);
    return rc;
}
