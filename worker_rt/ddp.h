/*
 * libddp: the worker's side of ddprun. A C or C++ program that links it learns
 * its place in the job, meets its peers through the job's store, reduces and
 * broadcasts over a communicator, reports progress, and keeps snapshots that
 * are never torn.
 *
 * libddp is a guest. It prints nothing and does not end the process, except if
 * it finds a bug of its own. It installs no signal handler unless asked to
 * (ddp_stop_on_signal), starts no thread except those of a keeper, and raises
 * no SIGPIPE.
 *
 * Errors: a function that can fail returns 0 or -1, or a pointer or NULL, and
 * takes `struct ddp_error *err` last. It is the caller's storage, is filled on
 * failure only, and has nothing to free. NULL is allowed: the caller does not
 * need the reason.
 *
 * Threads: one thread at a time may use one handle (ddp, comm, keeper,
 * sampler). Any thread may call ddp_comm_abort, ddp_beat and ddp_should_stop.
 * Saving, ddp_keeper_settle and ddp_keeper_wait use the communicators with
 * `async` of the same ddp handle, too.
 *
 * fork: a child must not use any handle. It gets /dev/null for libddp's
 * connections, so that it does not hide its parent's death from other ranks.
 *
 * Time-outs are in milliseconds; 0 means no time-out.
 */
#ifndef DDP_H
#define DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_API __attribute__((visibility("default")))

/* -- versions -------------------------------------------------------------- */

/* The version of this header. */
#define DDP_VERSION_MAJOR 0
#define DDP_VERSION_MINOR 2
#define DDP_VERSION_PATCH 0
#define DDP_VERSION                                                            \
    (DDP_VERSION_MAJOR * 10000 + DDP_VERSION_MINOR * 100 + DDP_VERSION_PATCH)

/* That of the library which is loaded, as a number like DDP_VERSION and, in
 * `*text` (may be NULL), as "0.2.0". A library runs programs that were built
 * for it or an older one of the same major version. */
DDP_API int ddp_version(const char **text);

/*
 * Structs that may grow in later versions begin with their size: set it to
 * sizeof of the struct, so that members which this program does not know, or
 * the library does not, are left alone. 0 means the struct of version 0.2.0,
 * the oldest: initialise such a struct, at least with zeros.
 */

/* -- errors ---------------------------------------------------------------- */

/*
 * What went wrong, by kind. The number is also the exit status with which a
 * program should end if this error ends it: it tells ddprun whether another
 * attempt can help.
 */
enum ddp_status {
    DDP_OK = 0,
    DDP_ERR_USAGE = 2,        /* an argument or a variable is wrong */
    DDP_ERR_CONFLICT = 65,    /* the ranks of one job disagree */
    DDP_ERR_NOINPUT = 66,     /* a file is missing or cannot be read */
    DDP_ERR_CORRUPT = 67,     /* a file is damaged */
    DDP_ERR_UNREACHABLE = 69, /* the store cannot be reached */
    DDP_ERR_BUG = 70,         /* a bug of libddp */
    DDP_ERR_NOMEM = 71,       /* memory or descriptors ran out */
    DDP_ERR_LOST = 72,        /* the store went away */
    DDP_ERR_IO = 74,          /* reading or writing failed */
    DDP_ERR_TIMEOUT = 75,     /* the time given was not enough */
    DDP_ERR_PROTO = 76,       /* a peer broke the protocol */
    DDP_ERR_PEER = 77,        /* a peer died or closed the connection */
    DDP_ERR_CONFIG = 78,      /* this machine cannot do what was asked */
    DDP_ERR_ABORTED = 79,     /* ddp_comm_abort was called */
};

struct ddp_error {
    int code;       /* enum ddp_status */
    int sys_errno;  /* 0 if no system call was involved */
    char text[512]; /* one line without a full stop */
};

/* -- the place of this process --------------------------------------------- */

struct ddp;

/*
 * Reads the place of this process from the environment that ddprun (or
 * torchrun) gave it: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * GROUP_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RESTART_COUNT,
 * TORCHELASTIC_RUN_ID, DDP_INSTANCE, DDP_ROUND, DDP_PROGRESS_FILE,
 * DDP_STOP_FILE, DDP_SNAPSHOT_MEMORY. If none of the first five is set, there
 * is no launcher, and the world has one rank. Does not connect yet.
 *
 * Returns a handle that the caller frees with ddp_free, or NULL: USAGE (a
 * variable is missing or has a bad value; the text names it), CONFIG (the
 * progress file cannot be opened), NOMEM.
 */
DDP_API struct ddp *ddp_init(struct ddp_error *err);

/* Also closes the connection to the store. NULL is allowed. Free communicators
 * and keepers that were made from it before. */
DDP_API void ddp_free(struct ddp *d);

DDP_API int ddp_rank(const struct ddp *d);       /* 0 .. world - 1 */
DDP_API int ddp_world(const struct ddp *d);      /* all workers of the job */
DDP_API int ddp_local_rank(const struct ddp *d); /* on this node */
DDP_API int ddp_local_world(const struct ddp *d);
DDP_API int ddp_group_rank(const struct ddp *d); /* the node's number */
DDP_API int ddp_restart_count(const struct ddp *d);
DDP_API int64_t ddp_round(const struct ddp *d); /* from 1; 0 if alone */

/* Both live as long as `d`. The instance has 32 hexadecimal digits, all zero if
 * the launcher gave none; then the run id is "none". */
DDP_API const char *ddp_instance(const struct ddp *d);
DDP_API const char *ddp_run_id(const struct ddp *d);

/* -- the store ------------------------------------------------------------- */

/*
 * The key-value store of this round at MASTER_ADDR:MASTER_PORT. PyTorch's
 * processes know it as TCPStore, and share its keys. The first call connects.
 *
 * Errors of every call: UNREACHABLE (no connection; in a world of one without
 * MASTER_ADDR there is no store), TIMEOUT, LOST (the connection broke), PROTO
 * (the answer makes no sense), USAGE (a key or value is over the limits),
 * NOMEM. After every error except USAGE the connection is closed, and the next
 * call makes a new one.
 */
#define DDP_STORE_KEY_MAX   8000            /* bytes */
#define DDP_STORE_VALUE_MAX (8u * 1048576u) /* bytes */

/* Returns when the value has been handed to the kernel. */
DDP_API int ddp_store_set(struct ddp *d,
                          const char *key,
                          const void *value,
                          size_t len,
                          int64_t timeout_ms,
                          struct ddp_error *err);

/* Waits until the key is there, then copies its value of `*len` bytes. USAGE if
 * the value is longer than `cap`: then `*len` is set and nothing is copied. */
DDP_API int ddp_store_get(struct ddp *d,
                          const char *key,
                          void *value,
                          size_t cap,
                          size_t *len,
                          int64_t timeout_ms,
                          struct ddp_error *err);

/* Adds to a decimal counter; one that does not exist counts from 0. `*sum` is
 * the new value; `sum` may be NULL. */
DDP_API int ddp_store_add(struct ddp *d,
                          const char *key,
                          int64_t delta,
                          int64_t *sum,
                          int64_t timeout_ms,
                          struct ddp_error *err);

/* Waits until the key is there. */
DDP_API int ddp_store_wait(struct ddp *d,
                           const char *key,
                           int64_t timeout_ms,
                           struct ddp_error *err);

/* Whether the key is there now. */
DDP_API int ddp_store_check(struct ddp *d,
                            const char *key,
                            bool *there,
                            int64_t timeout_ms,
                            struct ddp_error *err);

/* Waits until all of the keys are there. */
DDP_API int ddp_store_wait_all(struct ddp *d,
                               const char *const *keys,
                               size_t count,
                               int64_t timeout_ms,
                               struct ddp_error *err);

/* Appends bytes to the value; one that does not exist is empty. The value may
 * grow to DDP_STORE_VALUE_MAX bytes. */
DDP_API int ddp_store_append(struct ddp *d,
                             const char *key,
                             const void *value,
                             size_t len,
                             int64_t timeout_ms,
                             struct ddp_error *err);

/*
 * Sets the value to `desired` if it equals `expected`, or if there is no value
 * and `expected_len` is 0. Then returns the current value as ddp_store_get
 * does. As with PyTorch, if the key is missing and `expected_len` is not 0, it
 * stays missing, and the answer is `expected`.
 */
DDP_API int ddp_store_compare_set(struct ddp *d,
                                  const char *key,
                                  const void *expected,
                                  size_t expected_len,
                                  const void *desired,
                                  size_t desired_len,
                                  void *value,
                                  size_t cap,
                                  size_t *len,
                                  int64_t timeout_ms,
                                  struct ddp_error *err);

/* Removes the key; `was_there` may be NULL. */
DDP_API int ddp_store_delete(struct ddp *d,
                             const char *key,
                             bool *was_there,
                             int64_t timeout_ms,
                             struct ddp_error *err);

/* The number of keys in the store, those of other processes included. */
DDP_API int ddp_store_num_keys(struct ddp *d,
                               int64_t *count,
                               int64_t timeout_ms,
                               struct ddp_error *err);

/* One key of many, in one request. */
struct ddp_store_item {
    const char *key;
    void *value; /* multi_set reads it, multi_get writes it */
    size_t len;  /* multi_set: of the value; multi_get: of what came */
    size_t cap;  /* multi_get: room for the value */
};
#define DDP_STORE_KEYS_MAX 131072u

/* Sets all of them in one request. Keys and values together may have
 * DDP_STORE_VALUE_MAX bytes. */
DDP_API int ddp_store_multi_set(struct ddp *d,
                                const struct ddp_store_item *items,
                                size_t count,
                                int64_t timeout_ms,
                                struct ddp_error *err);

/* Waits until all keys are there. USAGE if a value is longer than its `cap`:
 * its `len` is set, and all other values are copied. */
DDP_API int ddp_store_multi_get(struct ddp *d,
                                struct ddp_store_item *items,
                                size_t count,
                                int64_t timeout_ms,
                                struct ddp_error *err);

/*
 * Queues: each item that is pushed is popped once, first in, first out; pop
 * waits for an item. The name of a queue is not a key: get, delete and num_keys
 * do not see it, but wait and check see a queue that has an item as a key. If a
 * popped item is longer than `cap` (USAGE), it is lost. PyTorch's store has
 * queues since 2.8, on libuv; an older one closes the connection (LOST).
 */
DDP_API int ddp_store_queue_push(struct ddp *d,
                                 const char *key,
                                 const void *value,
                                 size_t len,
                                 int64_t timeout_ms,
                                 struct ddp_error *err);
DDP_API int ddp_store_queue_pop(struct ddp *d,
                                const char *key,
                                void *value,
                                size_t cap,
                                size_t *len,
                                int64_t timeout_ms,
                                struct ddp_error *err);
DDP_API int ddp_store_queue_len(struct ddp *d,
                                const char *key,
                                int64_t *items,
                                int64_t timeout_ms,
                                struct ddp_error *err);

/*
 * Returns when `count` processes have called it with this key. Use a key once:
 * later callers pass at once. A caller whose time ran out (TIMEOUT) is counted
 * too. Some stores of PyTorch have the other operations and not this one
 * (LOST). ddp_comm_barrier needs no key.
 */
DDP_API int ddp_store_barrier(struct ddp *d,
                              const char *key,
                              int64_t count,
                              int64_t timeout_ms,
                              struct ddp_error *err);

/* -- element types --------------------------------------------------------- */

enum ddp_dtype {
    DDP_F64 = 1,
    DDP_F32,
    DDP_F16,
    DDP_BF16,
    DDP_I64,
    DDP_I32,
    DDP_I16,
    DDP_I8,
    DDP_U8,
    DDP_BOOL,
    DDP_F8_E4M3,
    DDP_F8_E5M2,
    DDP_U64,
    DDP_U32,
    DDP_U16,
};

/* Bytes of one element; 0 if `dtype` is none of the above. */
DDP_API size_t ddp_dtype_size(enum ddp_dtype dtype);

/* -- communicators --------------------------------------------------------- */

#include "ddp_comm.h" /* installed beside this one */

/* -- progress, and requests to stop ---------------------------------------- */

/* Tells the launcher that this worker makes progress (ddprun's
 * --hang_timeout). Cheap: writes at most ten times a second, and nothing if the
 * launcher does not listen. */
DDP_API void ddp_beat(struct ddp *d, int64_t step);

/* More reasons come with later versions: test for != DDP_STOP_NO. */
enum ddp_stop {
    DDP_STOP_NO = 0,
    DDP_STOP_SIGNAL = 1,     /* a signal given to ddp_stop_on_signal came */
    DDP_STOP_SCALE_UP = 2,   /* a node joins: the workers will start again */
    DDP_STOP_SCALE_DOWN = 3, /* a node leaves: the workers will start again */
};

/*
 * Why this worker should save and leave at the next step. The ranks may learn
 * it at different steps: agree over a communicator before you act on it. The
 * call costs one load from memory: make it at every step. If a worker has
 * called it, the launcher asks it this way and waits for --shutdown_timeout
 * before it sends SIGTERM; every other worker gets SIGTERM at once. A worker
 * that was asked counts as stopped, whatever its exit status.
 */
DDP_API enum ddp_stop ddp_should_stop(const struct ddp *d);

/*
 * Installs a handler for `signo` (SIGTERM for example) that only notes the
 * signal for ddp_should_stop. It stays for the life of the process. After the
 * signal, a collective in which nothing moves for half of the time to SIGKILL
 * (DDP_SHUTDOWN_TIMEOUT, ddprun's --shutdown_timeout; two seconds if it is not
 * set) fails with ABORTED: a rank that was asked to stop must not wait for one
 * that is cut off.
 * USAGE: the signal cannot be caught.
 */
DDP_API int ddp_stop_on_signal(struct ddp *d, int signo, struct ddp_error *err);

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
    const char *name; /* UTF-8, not "__metadata__" */
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
 * writer is killed, the next one removes its temporary file. Only one process
 * may save to a path at a time. The instance and the round of `d` are stored.
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
 * shape, or is named twice), CONFIG (a newer libddp wrote it, in a format that
 * this one does not know), IO, NOMEM. After NOINPUT the buffers are
 * unchanged; after the other errors their content is undefined.
 */
DDP_API int ddp_snapshot_load(struct ddp *d,
                              const char *path,
                              const struct ddp_tensor *tensors,
                              size_t ntensors,
                              struct ddp_kv *meta,
                              size_t nmeta,
                              struct ddp_snapshot_info *info,
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
 * pages: the caller does not wait. If the device has no room for the copy, the
 * caller waits. Loaded tensors come into host memory.
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
 * the disk too. Call it on all ranks; a rank that neither has memory nor writes
 * returns at once. Borrows the tensors for the call; with `later`, until
 * ddp_keeper_settle has returned or this has returned an error. It waits only
 * if the snapshot before is not sealed yet, or the one before for the disk is
 * not written yet. So a worker that dies loses one saved step at most.
 *
 * Errors are this rank's own, and training may go on: IO, CONFLICT (another run
 * has taken the folder over) of an earlier save to the disk, reported once,
 * while this save goes on; NOMEM, USAGE (as for ddp_snapshot_save) of this
 * save; PEER, ABORTED, TIMEOUT: a collective that it rests on failed, and
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
 * The rank that holds it sends it to the others over the communicator. The
 * rules for names, dtypes and shapes are those of ddp_snapshot_load; they must
 * be the same on all ranks. Afterwards the folder belongs to this run.
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

/* Gives up a file that is being written: call ddp_keeper_wait before to finish
 * it. NULL is allowed. */
DDP_API void ddp_keeper_free(struct ddp_keeper *k);

/* -- sampler --------------------------------------------------------------- */

/*
 * Which samples this rank takes, with the meaning of PyTorch's
 * DistributedSampler: an epoch is a shuffle of all samples by (seed, epoch),
 * dealt to the ranks in turn. Its end is filled up from its beginning, or cut
 * off, so that all ranks get the same number. The shuffle is libddp's own and
 * the same on every machine and in every version.
 *
 * The position is the number of samples of the epoch that all ranks together
 * have taken, if each has taken as many as this one. To resume, seek to the
 * saved position: the rest of the epoch is dealt from there, also to another
 * number of ranks.
 */
struct ddp_sampler;

struct ddp_sampler_conf {
    size_t size;      /* of this struct, or 0; see versions */
    uint64_t samples; /* 1 .. 2^32 - 1 */
    int rank;
    int world;
    uint64_t seed; /* the same on all ranks */
    bool shuffle;
    bool drop_last; /* cut the end of an epoch off, do not fill it up */
};

/* At epoch 0, position 0. Borrows `conf` for the call; ddp_sampler_free frees
 * it (NULL is allowed). NULL on error: USAGE, NOMEM. */
DDP_API struct ddp_sampler *ddp_sampler_new(const struct ddp_sampler_conf *conf,
                                            struct ddp_error *err);
DDP_API void ddp_sampler_free(struct ddp_sampler *s);

/* Goes to a position of an epoch; 0 is its beginning. From the number of
 * samples on, the epoch is over. USAGE: a negative number. */
DDP_API int ddp_sampler_seek(struct ddp_sampler *s,
                             int64_t epoch,
                             int64_t position,
                             struct ddp_error *err);

/* Writes up to `max` indices of samples for this rank; returns how many, 0 at
 * the end of the epoch. */
DDP_API size_t ddp_sampler_next(struct ddp_sampler *s,
                                uint32_t *indices,
                                size_t max);

DDP_API int64_t ddp_sampler_epoch(const struct ddp_sampler *s);
DDP_API int64_t ddp_sampler_position(const struct ddp_sampler *s);

/* How many samples this rank still gets in this epoch. */
DDP_API uint64_t ddp_sampler_left(const struct ddp_sampler *s);

#ifdef __cplusplus
}
#endif

#endif
