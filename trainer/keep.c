/*
 * trainer/keep: between the keeper of libddp, which saves in the background,
 * and the person at the terminal.
 *
 * Happy path: keep_save orders a save and returns; after a later step keep_tell
 * finds that all ranks have written their parts to the disk, and prints the
 * line; keep_finish waits for the last one.
 *
 * Failure modes. The disk is full or fails: each rank that it fails says so in
 * one line, training goes on, and the next save tries again; `unsaved` makes
 * the end of training an error on all ranks if the last save failed on one.
 * There is no memory from the launcher: one line says what a failure will cost.
 */
#include "trainer/keep.h"

#include <stdio.h>
#include <stdlib.h>

bool keep_saves(const struct options *o)
{
    return o->save_every > 0 || o->save_steps > 0;
}

int keep_open(struct keep *k, struct ddp_comm *comm, struct ddp_error *err)
{
    const struct options *o = k->resume.o;
    struct ddp_keeper_conf conf = {
        .folder = o->snapshot_path,
        .keep = (int)o->keep,
        .no_memory = o->memory_steps == 0,
        .load_only = !keep_saves(o),
        .gpu = k->resume.optim->dev->gpu,
        .stream = k->resume.optim->dev->stream,
        .later = true, /* nothing changes the tensors until it settles */
    };
    k->ordered.step = -1;
    k->resume.keeper = ddp_keeper_new(k->resume.ddp, comm, &conf, err);
    return k->resume.keeper != NULL ? 0 : -1;
}

void keep_close(struct keep *k)
{
    ddp_keeper_free(k->resume.keeper);
    k->resume.keeper = NULL;
}

/* -- load ------------------------------------------------------------------ */

static void tell_resumed(const struct keep *k,
                         const struct train_place *at,
                         const struct resume_found *f)
{
    struct progress *p = k->progress;
    const struct options *o = k->resume.o;
    const struct ddp_kept *kept = &f->kept;
    char from[64] = "";
    /* The epoch in which it was taken, from 1, as it was told then. */
    long long epoch = (long long)at->epoch + (at->position > 0);
    if (kept->why[0] != '\0')
        progress_line(p,
                      "a newer snapshot is not whole, and the one before it is "
                      "loaded: %s",
                      kept->why);
    if (kept->rank != 0)
        (void)snprintf(from, sizeof(from), "rank %d's ", kept->rank);
    progress_line(p,
                  "resuming from epoch %lld, step %lld (%s%s, written in "
                  "round %lld%s)",
                  epoch, (long long)at->step, from,
                  kept->memory ? "memory" : o->snapshot_path,
                  (long long)kept->round,
                  kept->foreign ? " of another run" : "");
    if (f->world != ddp_world(k->resume.ddp) || f->batch_size != o->batch_size)
        progress_line(
            p,
            "this snapshot was written by %lld rank%s with batches of %lld: no "
            "sample is lost, but the result will not be the same bit "
            "by bit",
            (long long)f->world, f->world == 1 ? "" : "s",
            (long long)f->batch_size);
}

int keep_load(struct keep *k, struct train_place *at, struct ddp_error *err)
{
    struct resume_found f = {0};
    if (resume_load(&k->resume, at, &f, err) != 0) {
        if (err->code == DDP_ERR_NOINPUT && f.kept.why[0] != '\0')
            progress_line(k->progress,
                          "no snapshot is whole, and training begins anew: %s",
                          f.kept.why);
        return -1;
    }
    tell_resumed(k, at, &f);
    return 0;
}

/* -- save ------------------------------------------------------------------ */

/* Once for each kind of failure, until a save succeeds: a disk that stays full
 * would say the same at each step. */
static void tell_unsaved(struct keep *k, const struct ddp_error *err)
{
    bool known = k->told_code == err->code;
    k->told_code = err->code;
    if (known)
        return;
    progress_clear(k->progress);
    fprintf(stderr, "ddptrain: snapshot not saved, training goes on: %s\n",
            err->text);
}

bool keep_writes(const struct keep *k)
{
    return k->ordered.step >= 0 &&
           ddp_keeper_saved(k->resume.keeper) != k->ordered.step;
}

static void tell_saved(struct keep *k)
{
    if (k->ordered.step < 0 || keep_writes(k))
        return;
    progress_line(k->progress, "snapshot saved: epoch %lld, step %lld → %s",
                  (long long)k->ordered.epoch + 1, (long long)k->ordered.step,
                  k->resume.o->snapshot_path);
    k->ordered.step = -1;
}

/* Only if the launcher meant to give memory, and the options want it. */
static void tell_no_memory(struct keep *k)
{
    const char *given = getenv("DDP_SNAPSHOT_MEMORY");
    const char *why = ddp_keeper_no_memory(k->resume.keeper);
    if (k->told_memory || *why == '\0' || given == NULL || *given == '\0' ||
        k->resume.o->memory_steps == 0)
        return;
    k->told_memory = true;
    progress_line(k->progress,
                  "no snapshots in memory (%s): if a worker fails, all steps "
                  "since the last snapshot on the disk are lost",
                  why);
}

void keep_tell(struct keep *k, bool all_wrote)
{
    if (all_wrote && k->ordered.step >= 0) {
        tell_saved(k);
        k->told_code = 0;
    }
    tell_no_memory(k);
}

int keep_save(struct keep *k,
              const struct train_place *next,
              int64_t epoch,
              bool to_disk,
              struct ddp_error *err)
{
    int rc = resume_save(&k->resume, next, to_disk, err);
    if (rc != 0 && (err->code == DDP_ERR_CORRUPT || err->code == DDP_ERR_PEER))
        return -1;
    if (to_disk)
        tell_saved(k); /* what was before this one is on the disk now */
    if (rc != 0)
        tell_unsaved(k, err);
    if (!to_disk)
        return 0;
    k->ordered.epoch = epoch;
    k->ordered.step = next->step;
    return 0;
}

void keep_finish(struct keep *k, struct ddp_comm *comm)
{
    struct ddp_error err;
    int rc = ddp_keeper_wait(k->resume.keeper, &err);
    if (rc != 0)
        tell_unsaved(k, &err);
    uint8_t unsaved = rc != 0 || keep_writes(k);
    rc =
        ddp_comm_all_reduce(comm, &unsaved, &unsaved, 1, DDP_U8, DDP_MAX, &err);
    if (rc != 0)
        tell_unsaved(k, &err);
    k->unsaved = rc != 0 || unsaved;
    if (!k->unsaved)
        tell_saved(k);
}
