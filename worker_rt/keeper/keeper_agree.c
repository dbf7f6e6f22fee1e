/*
 * worker_rt/keeper/keeper_agree: all ranks fail if one does; and what each has
 * to say, told to all.
 *
 * Failure modes: a rank dies, and the collective fails on all of them; a rank
 * says that it failed, and nothing that makes sense of why; the ranks have more
 * to say than there can be.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"

#define SHORT_MAX                                                              \
    ((uint64_t)4096) /* bytes of a rank that go to all at once                 \
                      */
#define WORDS_MAX ((uint64_t)1 << 32) /* of all ranks */

/* A peer's words: a code that there is, and a line that ends. */
static void tidy(struct ddp_err *err)
{
    unsigned code = (unsigned)err->code;
    if (code == DDP_E_OK || code >= DDP_E_COUNT)
        (void)ddp_err_set(err, DDP_E_PROTO, "it failed and does not say why");
    rt_make_line(err->text, sizeof(err->text));
}

/* The lowest rank that failed; the world's size: none did. Nothing is
 * allocated: a rank that has no memory must be able to say so. */
static int find_failed(struct ddp_comm *comm, bool failed, struct ddp_err *err)
{
    int64_t first = failed ? comm->rank : comm->world;
    if (comm_allreduce(comm, &first, 1, DDP_I64, DDP_MIN, err) != 0)
        return -1;
    if (first >= 0 && first <= comm->world && (!failed || first <= comm->rank))
        return (int)first;
    return ddp_err_set(err, DDP_E_PROTO,
                       "the ranks do not say which of them failed");
}

/* Two collectives at most: the first that failed, and its words. If all is
 * well, the second is not needed. */
int keeper_agree(struct ddp_comm *comm, int rc, struct ddp_err *err)
{
    struct ddp_err own;
    ddp_assert(rc == 0 || err->code != DDP_E_OK);
    int first = find_failed(comm, rc != 0, &own);
    if (first == comm->world)
        return 0;
    if (rc == 0)
        memset(err, 0, sizeof(*err)); /* of another rank */
    /* What is in memory behind the words is sent to nobody. */
    size_t len = strnlen(err->text, sizeof(err->text));
    memset(err->text + len, 0, sizeof(err->text) - len);
    if (first < 0 ||
        comm_broadcast(comm, err, sizeof(*err), first, &own) != 0) {
        if (rc == 0 || err->code != DDP_E_NOMEM)
            *err = own;
        return -1;
    }
    if (first != comm->rank || rc == 0) {
        tidy(err);
        (void)ddp_err_wrap(err, "rank %d", first);
    }
    return -1;
}

/* -- what each has to say -------------------------------------------------- */

/* Long words go one rank after the other: many ranks have none, and room for
 * the longest of each would be too much. */
static int tell_in_turn(struct ddp_comm *comm,
                        const void *mine,
                        struct keeper_words *w,
                        struct ddp_err *err)
{
    const uint64_t *lens = w->lens;
    uint8_t *all = w->all;
    for (int r = 0; r < comm->world; r++) {
        if (r == comm->rank && lens[r] > 0)
            memcpy(all, mine, (size_t)lens[r]);
        if (lens[r] > 0 &&
            comm_broadcast(comm, all, (size_t)lens[r], r, err) != 0)
            return -1;
        all += lens[r];
    }
    return 0;
}

/* `padded` has room for as much as the longest of each rank, and once more. */
static int tell_at_once(struct ddp_comm *comm,
                        uint8_t *padded,
                        uint64_t most,
                        const void *mine,
                        struct keeper_words *w,
                        struct ddp_err *err)
{
    const uint64_t *lens = w->lens;
    uint8_t *all = w->all, *own = padded + (size_t)comm->world * most;
    if (lens[comm->rank] > 0)
        memcpy(own, mine, (size_t)lens[comm->rank]);
    if (comm_allgather(comm, own, (size_t)most, padded, err) != 0)
        return -1;
    for (int r = 0; r < comm->world; r++) {
        memcpy(all, padded + (size_t)r * most, (size_t)lens[r]);
        all += lens[r];
    }
    return 0;
}

/* The sum and the longest. PROTO: a peer says that it has more than it can, or
 * that this rank has something else. */
static int add_up(const struct ddp_comm *comm,
                  uint64_t own,
                  struct keeper_words *w,
                  uint64_t *most,
                  struct ddp_err *err)
{
    *most = 0;
    for (int r = 0; r < comm->world; r++) {
        uint64_t len = w->lens[r];
        if (len > WORDS_MAX - w->total)
            return ddp_err_set(err, DDP_E_PROTO,
                               "rank %d has too much to say: %llu bytes", r,
                               (unsigned long long)len);
        w->total += len;
        *most = len > *most ? len : *most;
    }
    if (w->lens[comm->rank] == own)
        return 0;
    return ddp_err_set(err, DDP_E_PROTO,
                       "the ranks do not agree about what rank %d has to say",
                       comm->rank);
}

int keeper_collect(struct ddp_comm *comm,
                   int rc,
                   const void *mine,
                   size_t len,
                   struct keeper_words *w,
                   struct ddp_err *err)
{
    uint64_t own = len, most;
    uint8_t *padded = NULL;
    *w = (struct keeper_words){.total = 0};
    if (rc == 0) {
        w->lens = calloc((size_t)comm->world, sizeof(*w->lens));
        rc = w->lens == NULL ? snapshot_no_memory(err) : 0;
    }
    if (keeper_agree(comm, rc, err) != 0 ||
        comm_allgather(comm, &own, sizeof(own), w->lens, err) != 0 ||
        add_up(comm, own, w, &most, err) != 0)
        return -1;
    if (w->total == 0)
        return 0;
    bool at_once = most <= SHORT_MAX;
    w->all = malloc((size_t)w->total);
    if (at_once)
        padded = calloc((size_t)comm->world + 1, (size_t)most);
    bool none = w->all == NULL || (at_once && padded == NULL);
    rc = keeper_agree(comm, none ? snapshot_no_memory(err) : 0, err);
    if (rc == 0)
        rc = at_once ? tell_at_once(comm, padded, most, mine, w, err)
                     : tell_in_turn(comm, mine, w, err);
    free(padded);
    return rc;
}

void keeper_words_free(struct keeper_words *w)
{
    free(w->all);
    free(w->lens);
}
