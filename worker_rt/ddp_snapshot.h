/*
 * The part of ddp.h that is about snapshots: files, and the keeper of those of
 * a whole job. Include ddp.h.
 */
#ifndef DDP_SNAPSHOT_H
#define DDP_SNAPSHOT_H

#ifndef DDP_H
#error "include ddp.h, which includes this"
#endif

/* -- snapshots ------------------------------------------------------------- */

/*
 * A snapshot is a safetensors file: named tensors, and pairs of strings.
 * PyTorch can open it. A save replaces it as a whole or not at all, and keeps
 * the one before it as <path>.prev.
 */

#define DDP_DIMS_MAX 8
#define DDP_KV_MAX   256 /* bytes of a value with its NUL */
#define DDP_NAME_MAX 256 /* bytes of a tensor's or key's name with its NUL */

/* Borrowed for the call. `data` is in C order without gaps; a save only reads
 * it. A scalar has 0 dims; a tensor with a dim of 0 is empty. */
struct ddp_tensor {
    const char *name; /* UTF-8, not "__metadata__" or "ddp.ranks" */
    enum ddp_dtype dtype;
    int dims;
    uint64_t shape[DDP_DIMS_MAX];
    void *data;
};

/* Bytes of the tensor's data; 0 also if dtype or shape is not valid. */
DDP_API uint64_t ddp_tensor_len(const struct ddp_tensor *t);

/* One pair. Keys that begin with "ddp." are libddp's own. */
struct ddp_kv {
    const char *key; /* UTF-8, borrowed */
    char value[DDP_KV_MAX];
};

/* A 64-bit integer as a pair. It is stored as decimal text, since JSON numbers
 * lose digits. ddp_kv_get_i64: USAGE if the value is not such a number; the
 * value of a missing key is "". */
DDP_API void ddp_kv_set_i64(struct ddp_kv *kv, const char *key, int64_t value);
DDP_API int
ddp_kv_get_i64(const struct ddp_kv *kv, int64_t *value, struct ddp_error *err);

/*
 * Writes a snapshot: to a temporary file beside `path`, which is synced and
 * renamed; then the folder is synced. When it returns 0, the snapshot survives
 * a power cut. On failure `path` holds what it held before (the whole new
 * snapshot if only the last sync failed), and no temporary file is left. If a
 * writer is killed, the next one removes its temporary file (an hour later, if
 * it ran on another host). Only one process may save to a path at a time. The
 * instance and the round of `d` are stored.
 *
 * As with a keeper, nothing is saved if a collective failed before.
 *
 * The old file becomes <path>.prev, unless it is damaged and there is a .prev:
 * so at every moment there is a whole snapshot that is not older than the last
 * one saved. The old file is read once to know that, unless `d` has saved or
 * loaded it. Without hard links in the file system there is no .prev.
 *
 * Errors: IO (with the reason, such as a full disk), USAGE (names that occur
 * twice, are too long or not UTF-8; a bad dtype or shape), NOMEM.
 */
DDP_API int ddp_snapshot_save(struct ddp *d,
                              const char *path,
                              const struct ddp_tensor *tensors,
                              size_t ntensors,
                              const struct ddp_kv *meta,
                              size_t nmeta,
                              struct ddp_error *err);

/* What was loaded. */
struct ddp_snapshot_info {
    size_t size;       /* set it, or 0; see versions */
    bool from_prev;    /* `path` was refused, .prev was taken */
    char why[512];     /* why `path` was refused; "" if it was not */
    char instance[33]; /* who wrote it */
    int64_t round;
    bool foreign; /* the instance is not that of `d` */
};

/*
 * Loads the named tensors into the caller's buffers, and the values of the
 * named keys ("" if the file has no such key). Dtype and shape must be those of
 * the file. Other tensors of the file are checked and skipped. Every byte of
 * the file is verified by checksum. If `path` cannot be read or is damaged,
 * <path>.prev is loaded, and `info` (may be NULL) says so.
 *
 * Errors: NOINPUT (there is no file at `path`: a fresh start), CORRUPT (the
 * file is damaged, and so is .prev if there is one; the text says what is wrong
 * with which file), USAGE (a tensor is not in the file, has another dtype or
 * shape, or is named twice), CONFIG (a newer libddp wrote it, in a format or
 * with a dtype that this one does not know), IO, NOMEM. After NOINPUT the
 * buffers are unchanged; after the other errors their content is undefined.
 */
DDP_API int ddp_snapshot_load(struct ddp *d,
                              const char *path,
                              const struct ddp_tensor *tensors,
                              size_t ntensors,
                              struct ddp_kv *meta,
                              size_t nmeta,
                              struct ddp_snapshot_info *info,
                              struct ddp_error *err);

/*
 * Says where a tensor of a snapshot goes: `t` has its name, dtype and shape,
 * and no data. It returns room for ddp_tensor_len(t) bytes in host memory, or
 * NULL: the tensor is verified and skipped. It is asked for all tensors before
 * any data is read, and again if that snapshot proves damaged and another one
 * is loaded. It must not call libddp, except for ddp_tensor_len and
 * ddp_dtype_size. `t` and its name are borrowed for the call.
 */
typedef void *ddp_place_fn(void *ctx, const struct ddp_tensor *t);

/* As ddp_snapshot_load, for a program that does not know what is in the file:
 * `place` says where each tensor goes. */
DDP_API int ddp_snapshot_load_into(struct ddp *d,
                                   const char *path,
                                   ddp_place_fn *place,
                                   void *ctx,
                                   struct ddp_kv *meta,
                                   size_t nmeta,
                                   struct ddp_snapshot_info *info,
                                   struct ddp_error *err);

/* A snapshot that is there, by its header. The data was not looked at. All of
 * it is borrowed for the call of a ddp_list_fn. */
struct ddp_listed {
    size_t size;      /* of the library's struct; see versions */
    const char *path; /* of the file; NULL: it is in memory */
    int64_t step;     /* -1: ddp_snapshot_save wrote it, or see `why` */
    int64_t round;
    uint64_t len;                     /* bytes of header and data */
    const struct ddp_tensor *tensors; /* `data` is NULL */
    size_t ntensors;
    const struct ddp_kv *meta; /* the program's pairs */
    size_t nmeta;
    const char *why;   /* why the header cannot be read; then there are no
                        * tensors and pairs, and step and round are those of
                        * the file's name, if it has them; "": it was read */
    char instance[33]; /* who wrote it; "" if the header cannot be read */
    bool foreign;      /* the instance is not that of `d` */
};

/* False: it wants to be told of no more. */
typedef bool ddp_list_fn(void *ctx, const struct ddp_listed *s);

/* Tells of the snapshots at `path` and <path>.prev, as far as they are there.
 * NOMEM. */
DDP_API int ddp_snapshot_list(struct ddp *d,
                              const char *path,
                              ddp_list_fn *fn,
                              void *ctx,
                              struct ddp_error *err);

/* -- the keeper ------------------------------------------------------------ */

/*
 * Keeps the snapshots of a whole job: in memory that survives the worker
 * (ddprun holds it until it ends), and in a folder. It expects that all ranks
 * hold the same state, as in data-parallel training. The first rank of each
 * node uses the node's memory, and one rank writes to each folder, whether the
 * nodes share one folder or each has its own.
 *
 * A save waits for the copy only; with `later` it does not wait for that
 * either. Two threads, which block all signals, do the rest. They need three
 * copies of the state in the launcher's memory, or two in the process's own if
 * the launcher gives none.
 *
 * What was saved counts when it is sealed: when it is copied and summed, and
 * when all collectives that any communicator of `d` began before the save have
 * completed here, without an error. With `async` they may still be under way
 * when ddp_keeper_save is called: enqueue the collectives, the optimizer and
 * the save in this order, and go on. The next call that saves, settles or waits
 * finds out. If one of them failed, the snapshot is dropped, and every later
 * save fails with its error: a state that was made of unsummed gradients is
 * never loaded.
 *
 * With `later` the state is copied while the program goes on, and the program
 * must not change it until ddp_keeper_settle has returned. A training step only
 * reads its parameters until the optimizer runs. So call ddp_keeper_settle
 * between the computation of the gradients and their sum: it does not wait if
 * the gradients take longer than the copy. Then no rank is more than one step
 * ahead of what is held, and a worker that dies costs one step at most.
 *
 * With `gpu`, choose a GPU with cudaSetDevice first. The tensors of a save may
 * lie in GPU or host memory. Those in GPU memory are copied within the device,
 * in the order of `stream`, and from there, on a stream of libddp, to locked
 * pages: the caller does not wait. The copy takes as much GPU memory as the
 * tensors, for as long as the keeper lives. With `room_len` it takes less: the
 * tensors go through in turns, and the stream, not the caller, waits until the
 * last of them is on its way, so for about as long as the copy to host memory
 * takes. If the device has no room at all, the caller waits. Loaded tensors
 * come into host memory.
 *
 * With `stripes` each rank of a node copies some of the tensors to the
 * launcher's memory and sums them up, over its own GPU's link and with its own
 * core: for large states and several GPUs. Then saving, settling and waiting
 * are collective: all ranks make the same calls, and a save counts when the
 * next of them has begun on all. A tensor is one rank's: a state that is a
 * single tensor gains nothing there. All of them write the file, too, a part
 * each, and read it into that memory when it is loaded. If a rank fails to
 * write its part there is no file, and all ranks of the node report the same
 * error. Without the launcher's memory `stripes` changes nothing.
 *
 * In the folder each snapshot is a file of its own, named for its step and its
 * round (see ddp_snapshot(5)); the newest few are kept. The file `owner` names
 * the run that the folder belongs to.
 */
struct ddp_keeper;

/* All zero: no folder, and the launcher's memory if there is any. */
struct ddp_keeper_conf {
    size_t size;        /* of this struct, or 0; see versions */
    const char *folder; /* created if it does not exist; NULL: no disk */
    int keep;       /* files to keep in the folder, at most 1000; 0 means 2 */
    bool no_memory; /* do without the launcher's memory */
    bool load_only; /* never write to the folder; it need not exist */
    bool gpu;       /* saved tensors may lie in GPU memory (the same on all
                     * ranks) .. */
    void *stream;   /* .. and are written in this cudaStream_t; borrowed */
    bool later;     /* copy after the save has returned, see above */
    /* Set `size` for what follows. */
    void *room; /* GPU memory of the program for the copy within the device,
                 * borrowed until ddp_keeper_free; NULL: libddp's own */
    size_t room_len; /* its bytes; without `room` the most that libddp takes,
                      * 0: as much as the tensors have */
    size_t rank_state_max; /* bytes that each rank may have for itself, see
                            * ddp_keeper_set_rank_state; the same on all */
    bool stripes; /* all ranks of a node copy and sum up, a part each; the same
                   * on all, see above */
};

/*
 * Collective. Borrows `conf` for the call, `d` and `comm` until
 * ddp_keeper_free. NULL on error, on all ranks: IO (the folder cannot be
 * created or written), CONFLICT (there is a file in its place), NOMEM, USAGE,
 * CONFIG (`gpu` without a driver or a chosen GPU), and the errors of the
 * collectives.
 */
DDP_API struct ddp_keeper *ddp_keeper_new(struct ddp *d,
                                          struct ddp_comm *comm,
                                          const struct ddp_keeper_conf *conf,
                                          struct ddp_error *err);

/*
 * Saves the state after `step` (0 or more): to memory, and with `to_disk` to
 * the disk too. Call it on all ranks. With `stripes` or `rank_state_max` it is
 * a collective; else a rank that neither has memory nor writes returns at once.
 * Borrows the tensors for the call; with `later`, until ddp_keeper_settle has
 * returned or this has returned an error. Besides, it waits only if the
 * snapshot before is not sealed yet, or the one before for the disk is not
 * written yet. So a worker that dies loses one saved step at most.
 *
 * Errors are this rank's own, and training may go on: IO, CONFLICT (another run
 * has taken the folder over) of an earlier save to the disk, reported once,
 * with a text that begins with "snapshot of step", while this save goes on;
 * NOMEM, USAGE (as for ddp_snapshot_save) of this save; CONFLICT, on all ranks,
 * if this save is a collective and the ranks save different steps: nothing is
 * saved; PEER, ABORTED, TIMEOUT: a collective that it rests on failed, and
 * nothing can be saved any more. If memory cannot be used any more,
 * ddp_keeper_no_memory says why from then on, and only the disk is used.
 */
DDP_API int ddp_keeper_save(struct ddp_keeper *k,
                            int64_t step,
                            const struct ddp_tensor *tensors,
                            size_t ntensors,
                            const struct ddp_kv *meta,
                            size_t nmeta,
                            bool to_disk,
                            struct ddp_error *err);

/*
 * Waits until the last save is copied and sealed: a worker that dies now loses
 * no saved step. Does not wait for the disk. The next save reports errors.
 */
DDP_API void ddp_keeper_settle(struct ddp_keeper *k);

/* Waits until everything is sealed and on the disk. Errors: those of a save. */
DDP_API int ddp_keeper_wait(struct ddp_keeper *k, struct ddp_error *err);

/* The newest step that this rank wrote to the disk, which survives a power
 * cut; -1: none yet, or another rank writes. */
DDP_API int64_t ddp_keeper_saved(struct ddp_keeper *k);

/* Why this rank does not save to memory; "" if it does, or if another rank of
 * its node does. Lives as long as `k`. */
DDP_API const char *ddp_keeper_no_memory(const struct ddp_keeper *k);

/* What was loaded. */
struct ddp_kept {
    size_t size; /* set it, or 0; see versions */
    int64_t step;
    int64_t round;
    char instance[33]; /* who wrote it */
    bool foreign;      /* the instance is not that of `d` */
    bool memory;       /* from memory, not from a disk */
    int rank;          /* the rank that held it */
    char why[512];     /* which newer one was refused, and why; "": none */
};

/*
 * Collective: all ranks load the newest whole snapshot that any of them holds.
 * A node whose memory has the same bytes loads the snapshot from there. A rank
 * that holds the snapshot sends it to the other ranks, over connections of
 * their own unless all lack it. The rules for names, dtypes and shapes are
 * those of ddp_snapshot_load; they must be the same on all ranks. Afterwards
 * the folder belongs to this run.
 *
 * The newest is the one of the highest step of the highest round of this run.
 * If this run has none, it is the newest of the run that owned the folder.
 *
 * Errors, on all ranks: NOINPUT (no rank has any: a fresh start, the buffers
 * are unchanged), CORRUPT (there are some, but none is whole), USAGE (it is of
 * another model), CONFIG (a newer libddp wrote one), PROTO (a rank offers
 * snapshots that it does not have), IO, NOMEM, and the errors of the
 * collectives.
 */
DDP_API int ddp_keeper_load(struct ddp_keeper *k,
                            const struct ddp_tensor *tensors,
                            size_t ntensors,
                            struct ddp_kv *meta,
                            size_t nmeta,
                            struct ddp_kept *info,
                            struct ddp_error *err);

/* As ddp_keeper_load; `place` says where each tensor goes (ddp_place_fn), and
 * is not asked for the states of the ranks. Ranks need not want the same
 * tensors.
 */
DDP_API int ddp_keeper_load_into(struct ddp_keeper *k,
                                 ddp_place_fn *place,
                                 void *ctx,
                                 struct ddp_kv *meta,
                                 size_t nmeta,
                                 struct ddp_kept *info,
                                 struct ddp_error *err);

/*
 * Tells of the snapshots that this rank holds, those that it would load first
 * come first: a node's first rank has those of its memory, and the rank that
 * writes to a folder those of the folder; with `load_only` the first rank of
 * each node. Not collective. IO, NOMEM.
 */
DDP_API int ddp_keeper_list(struct ddp_keeper *k,
                            ddp_list_fn *fn,
                            void *ctx,
                            struct ddp_error *err);

/*
 * State that this rank has for itself: that of its random generator, its place
 * in the data. It is copied, and goes into every later save. A keeper with
 * `rank_state_max` gathers the states of all ranks in each save, which is a
 * collective then: so all ranks have to save the same steps. USAGE: it is
 * longer than `rank_state_max`.
 */
DDP_API int ddp_keeper_set_rank_state(struct ddp_keeper *k,
                                      const void *data,
                                      size_t len,
                                      struct ddp_error *err);

/*
 * What rank `rank` had set when the snapshot was saved that was loaded last,
 * and its length; on any rank, for any rank of the world that saved it. NULL:
 * it had set none, there was no such rank, or the last load failed. Lives until
 * the next load. A keeper without `rank_state_max` has none.
 */
DDP_API const void *
ddp_keeper_rank_state(const struct ddp_keeper *k, int rank, size_t *len);

/* Gives up a file that is being written: call ddp_keeper_wait before to finish
 * it. NULL is allowed. */
DDP_API void ddp_keeper_free(struct ddp_keeper *k);

#endif
