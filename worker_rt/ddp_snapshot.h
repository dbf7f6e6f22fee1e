/*
 * The part of ddp.h that is about snapshots, and the keeper of those of a whole
 * job. Include ddp.h.
 */
#ifndef DDP_SNAPSHOT_H
#define DDP_SNAPSHOT_H

#ifndef DDP_H
#error "include ddp.h, which includes this"
#endif

/* -- snapshots ------------------------------------------------------------- */

/*
 * A snapshot is a safetensors file of each rank: named tensors, and pairs of
 * strings. PyTorch can open it.
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
 * Says where a tensor of a snapshot goes: `t` has its name, dtype and shape,
 * and no data. It returns room for ddp_tensor_len(t) bytes in host memory, or
 * NULL: the tensor is skipped. It is asked for all tensors before any data is
 * read, and again if that snapshot proves damaged and another one is loaded. It
 * must not call libddp, except for ddp_tensor_len and ddp_dtype_size. `t` and
 * its name are borrowed for the call.
 */
typedef void *ddp_place_fn(void *ctx, const struct ddp_tensor *t);

/* -- the keeper ------------------------------------------------------------ */

/*
 * Keeps the snapshots of a whole job: in memory that survives the worker
 * (ddprun holds it until it ends), and in a folder. Each rank copies, sums up
 * and writes a part of the state, over its own GPU's link and with its own
 * core: if all ranks have the same state, as in data-parallel training, those
 * of a node share it; if each has pieces of it (struct ddp_piece), its own.
 *
 * Saves are collective: all ranks of the communicator make the same ones, of
 * the same steps. A step counts when all ranks have sealed it, which the next
 * save finds out; until then the step before it is kept. So if ranks die, at
 * whatever moment, the job loses one saved step at most.
 *
 * A save waits for the other ranks to come to it and for the copy; with `later`
 * it does not wait for the copy. Two threads, which block all signals, do the
 * rest. They need three copies of the state in the launcher's memory, and use a
 * fourth if there is room, of which
 * each worker of a node has an equal part, or two in the process's own if the
 * launcher gives none.
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
 * In the folder each step is a folder of its own, named for the step and its
 * round, with a file of each rank (see ddp_snapshot(5)). Nodes may share a
 * folder, or each may have its own; what several nodes have is written to a
 * folder once. The newest few steps are kept. The file `owner` names the run
 * that the folder belongs to.
 */
struct ddp_keeper;

/* All zero: no folder, and the launcher's memory if there is any. */
struct ddp_keeper_conf {
    size_t size;        /* of this struct, or 0; see versions */
    const char *folder; /* created if it does not exist; NULL: no disk */
    int keep;           /* steps to keep in the folder, at most 1000; 0 means 2.
                         * Besides them the last one is there, until the next save
                         * finds that all ranks have written it */
    bool no_memory;     /* do without the launcher's memory */
    bool load_only;     /* never write to the folder; it need not exist */
    bool gpu;           /* saved tensors may lie in GPU memory (the same on all
                         * ranks) .. */
    void *stream;       /* .. and are written in this cudaStream_t; borrowed */
    bool later;         /* copy after the save has returned, see above */
    /* Set `size` for what follows. */
    void *room; /* GPU memory of the program for the copy within the device,
                 * borrowed until ddp_keeper_free; NULL: libddp's own */
    size_t room_len; /* its bytes; without `room` the most that libddp takes,
                      * 0: as much as the tensors have */
    size_t rank_state_max; /* bytes that each rank may have for itself, see
                            * ddp_keeper_set_rank_state; the same on all */
    int copies; /* on how many nodes each piece is kept in memory, 1 or 2; 0
                 * means 2; the same on all, see below */
    int check_every; /* what several ranks have is compared every so many saves;
                      * 0 means 50; -1: never; the same on all, see below */
    const char *const *may_differ; /* except for tensors whose names begin with
                                    * one of these, the last of which is NULL;
                                    * borrowed until ddp_keeper_free, and the
                                    * same on all; NULL: there are none */
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
 * Collective. Saves the state after `step` (0 or more), which is the same on
 * all ranks: to memory, and with `to_disk` to the disk too. Borrows the tensors
 * for the call; with `later`, until ddp_keeper_settle has returned or this has
 * returned an error. Besides, it waits only if the snapshot before is not
 * sealed yet, or the one before for the disk is not written yet. It is fastest
 * if the tensors are those of the save before, in the same order; their data
 * may lie elsewhere.
 *
 * Errors of this rank alone, and training may go on: IO, CONFLICT (another run
 * has taken the folder over) of an earlier save to the disk, reported once,
 * with a text that begins with "snapshot of step", while this save goes on;
 * NOMEM.
 *
 * Errors on all ranks: if one rank cannot begin the save, its error, such as
 * USAGE (names that occur twice, are too long or not UTF-8; a bad dtype, shape
 * or key), and nothing is saved; USAGE: the ranks do
 * not agree about dtype or shape of a tensor; CONFLICT: they save different
 * steps, or not all of them to the disk; PEER, ABORTED, TIMEOUT: a collective
 * failed, this one or one that the state rests on, and nothing can be saved any
 * more; CORRUPT, PEER: ranks have different bits where they ought to be the
 * same, see `check_every` below.
 *
 * If memory cannot be used any more, ddp_keeper_no_memory says why from then
 * on, and this rank uses the disk only: no step in memory counts then.
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
 * The ranks need not hold the same state, as in sharded or tensor-parallel
 * training. The job's state are whole tensors, and each rank has pieces of
 * them. A step is whole if the pieces of all images that are found cover the
 * tensors; so any world of ranks loads what any other one saved.
 *
 * Pieces of one tensor with the same offset and shape are copies: their bytes
 * must be equal, and each node keeps one of them; of a large one that is the
 * whole tensor, parts on several ranks. Other pieces of one tensor
 * must not overlap. All ranks agree about dtype and whole shape of a tensor. A
 * rank may hold several pieces of one tensor, or none.
 *
 * In a job of several nodes each piece is kept in the memory of two of them, so
 * that a node may be lost, and its launcher with it. Where pieces are on one
 * node only, a rank's image goes to a rank of another node, while the program
 * goes on, over a connection of their own and over half of the link at most. If
 * all nodes have as many ranks, that is the rank of the same place on the next
 * node; if one has more than all others together, a rank of these gets the
 * images of several, of eight at most. The next save finds out that they are
 * there, and then the newest one that is whole is sent. A rank needs three
 * times the memory of its own image and twice that of each other one. If there
 * is not so much, or if a connection breaks, there are no mirrors any more,
 * ddp_keeper_no_mirrors says why, and all else goes on. State that all nodes
 * have alike needs none, and nothing is sent.
 *
 * No save waits for a transfer. If one takes longer than the steps between two
 * saves, and all memory is needed, a save that does not go to the disk is
 * skipped.
 *
 * Memory, processors and wires sometimes change a bit, and nothing tells. So
 * the copies that ranks have of a piece are compared, over the bytes
 * themselves: at every `check_every`th save, before each save to the disk, and
 * at the first two saves. Copies that differ in the first two comparisons of
 * their piece may always differ, as what a batch norm counts on each rank;
 * ddp_keeper_unequal tells. Later ones must not: then nothing is saved, all
 * saves in memory since the last comparison count no more, and the call fails
 * on all ranks. Where most holders of a piece are alike, the others are wrong;
 * those fail with CORRUPT, and all others, up to ten seconds later, with PEER.
 * If no more than half are alike, all fail with PEER. The text names rank, node
 * and tensor, and the step from which the job goes on if all ranks end with
 * that status: the last that was compared. That one stays in memory if a fourth
 * image has room there (a sixth with mirrors of one rank). Each rank reads all
 * its pieces that others have, too, for a comparison. With `gpu` the call waits
 * until these have come to the host; that has never run on a card.
 */
struct ddp_piece {
    struct ddp_tensor local; /* name and dtype: the whole tensor's; shape and
                              * data: this piece's */
    uint64_t whole[DDP_DIMS_MAX];  /* the whole tensor's shape, local.dims .. */
    uint64_t offset[DDP_DIMS_MAX]; /* .. and where in it the piece begins */
};

/*
 * As ddp_keeper_save, which does the same with whole tensors: saves this rank's
 * pieces. `meta` is the same on all ranks. Besides, USAGE, on all ranks: a
 * piece reaches beyond its whole or is there twice.
 */
DDP_API int ddp_keeper_save_pieces(struct ddp_keeper *k,
                                   int64_t step,
                                   const struct ddp_piece *pieces,
                                   size_t npieces,
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

/* The newest step for the disk of which this rank has nothing more to write:
 * its part, if it has one, survives a power cut. The step is whole there if
 * that holds on all ranks. -1: none yet. */
DDP_API int64_t ddp_keeper_saved(struct ddp_keeper *k);

/* The newest step that all ranks know to be in the memory of two nodes; -1:
 * none yet. How many saves were skipped here, see above. */
DDP_API int64_t ddp_keeper_mirrored(const struct ddp_keeper *k);
DDP_API int64_t ddp_keeper_skipped(const struct ddp_keeper *k);

/* Why there are no mirrors any more, if something is wrong; else "". It changes
 * in a save: first on the ranks that find it, in the next save on all of them,
 * so that one rank can say it. Lives as long as `k`. */
DDP_API const char *ddp_keeper_no_mirrors(const struct ddp_keeper *k);

/* Which tensors are not compared, and why, if this rank is to tell it; else "".
 * It changes in a save. Lives as long as `k`. */
DDP_API const char *ddp_keeper_unequal(const struct ddp_keeper *k);

/* Why this rank does not save to memory; "" if it does. Lives as long as `k`.
 */
DDP_API const char *ddp_keeper_no_memory(const struct ddp_keeper *k);

/* What was loaded. */
struct ddp_kept {
    size_t size; /* set it, or 0; see versions */
    int64_t step;
    int64_t round;
    char instance[33]; /* who wrote it */
    bool foreign;      /* the instance is not that of `d` */
    bool memory;       /* all of it from memory, nothing from a disk */
    int rank;          /* a rank that held some of it */
    char why[512];     /* which newer one was refused, and why; with NOINPUT,
                        * what is missing of the newest; "": none */
};

/*
 * Collective: all ranks load the newest step of which the images that any of
 * them finds, in memory or on a disk, have all that any rank wants. What lies
 * in the memory of a node, or in a folder that it sees, is read there; what a
 * node lacks is sent, over connections of their own, by a rank that holds it.
 * Every byte that is used is verified. The tensors go to the caller's buffers,
 * the values of the named keys to `meta` ("" if there is no such key). Names,
 * dtypes and shapes must be those of the snapshot, and the same on all ranks;
 * other tensors of it are skipped.
 * Afterwards the folder belongs to this run.
 *
 * The newest is the one of the highest step of the highest round of this run.
 * If this run has none, it is the newest of the run that owned the folder.
 *
 * Errors, on all ranks: NOINPUT (no rank has any: a fresh start, the buffers
 * are unchanged; or only such as ranks may have died in, in the first save of a
 * round: `info->why` says what is missing, and the program should say it),
 * CORRUPT (there are others, but none is whole), USAGE (it is of another
 * model), CONFIG (a newer libddp wrote one), PROTO (a rank offers snapshots
 * that it does not have), IO, NOMEM, and the errors of the collectives.
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
 * Says which pieces this rank wants. `whole` is a tensor that was saved: name,
 * dtype and whole shape, without data. True: the i-th piece that is wanted of
 * the tensor has `want->local.shape` and begins at `want->offset`; its data
 * goes to `want->local.data`, in host memory. The rest of `want` is set
 * already. False: no more of this tensor. The function is asked with i = 0, 1,
 * .. for each tensor before any data is read, and again if another snapshot is
 * tried. The rules for a ddp_place_fn hold.
 */
typedef bool ddp_want_fn(void *ctx,
                         const struct ddp_tensor *whole,
                         size_t i,
                         struct ddp_piece *want);

/*
 * As ddp_keeper_load_into, which does the same with whole tensors: each rank
 * gets the pieces that it wants. A step whose images do not agree about a
 * tensor, or have different pieces that overlap, is not whole. The pairs are
 * those of the lowest rank whose image was found. Also USAGE: a wanted piece
 * reaches beyond its whole.
 */
DDP_API int ddp_keeper_load_pieces(struct ddp_keeper *k,
                                   ddp_want_fn *fn,
                                   void *ctx,
                                   struct ddp_kv *meta,
                                   size_t nmeta,
                                   struct ddp_kept *info,
                                   struct ddp_error *err);

/*
 * State that this rank has for itself: that of its random generator, its place
 * in the data. It is copied, and goes into every later save. A keeper with
 * `rank_state_max` gathers the states of all ranks in each save. USAGE: it is
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
