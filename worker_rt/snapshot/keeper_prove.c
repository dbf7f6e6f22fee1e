/*
 * worker_rt/snapshot/keeper_prove: what a keeper waits for before a label.
 *
 * Happy path: the sealer waits for the device, sums up, and waits for the proof
 * (worker_rt/proof), which the caller's thread brings with keeper_prove in its
 * next call.
 *
 * Failure modes. A collective failed: no label, and the copy is waited for as
 * long as NCCL's abort may take. The program ends: it brings no proof any more,
 * so there is no label either. The device never comes to an end: the copy is
 * left alone, with the memory that it may still write to.
 */
#include "worker_rt/snapshot/keeper.h"

int64_t keeper_lost_us = 3 * MONO_S;

/* A wait for the device, behind work that may never end. */
struct patience {
    struct ddp_keeper *k;
    uint64_t mark;    /* of what is copied */
    int64_t until_us; /* 0: it will end, as far as is known */
};

/* A collective that failed ends when NCCL is aborted, mostly; a program that
 * ends brings no proof any more. In both cases the device gets some time. */
static bool goes_on(void *ctx)
{
    struct patience *p = ctx;
    struct ddp_err why;
    enum proof_state state = proof_look(&p->k->d->proof, p->mark, &why);
    if (state == PROOF_SOUND ||
        (state == PROOF_OPEN && !atomic_load(&p->k->quit)))
        return true;
    if (p->until_us == 0)
        p->until_us = mono_now_us() + keeper_lost_us;
    return mono_now_us() < p->until_us;
}

/* If it is given up, the reason counts that the collective had, not that the
 * device waits for it. */
int keeper_wait_copied(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    struct patience p = {.k = k, .mark = k->slot[i].mark};
    struct ddp_err better;
    if (device_copy_wait(&k->device, goes_on, &p, err) == 0)
        return 0;
    if (err->code == DDP_E_ABORTED &&
        proof_look(&k->d->proof, p.mark, &better) == PROOF_BROKEN)
        *err = better;
    return -1;
}

int keeper_wait_proven(struct ddp_keeper *k, int i, struct ddp_err *err)
{
    struct proof *p = &k->d->proof;
    enum proof_state state = proof_wait(p, k->slot[i].mark, &k->quit, err);
    if (state != PROOF_OPEN)
        return state == PROOF_SOUND ? 0 : -1;
    return ddp_err_set(err, DDP_E_ABORTED,
                       "the program ended before it was known whether the "
                       "collectives that it rests on completed");
}

void keeper_prove(struct ddp_keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool sealing = k->sealing >= 0;
    uint64_t mark = sealing ? k->slot[k->sealing].mark : 0;
    (void)pthread_mutex_unlock(&k->lock);
    if (sealing)
        proof_prove(&k->d->proof, mark);
}
