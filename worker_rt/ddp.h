/*
 * libddp: the worker's side of ddprun. A C or C++ program that links it learns
 * its place in the job, meets its peers through the job's store, reduces and
 * broadcasts over a communicator, tells that it is alive, and keeps snapshots
 * that are never torn.
 *
 * libddp is a guest: it prints nothing, never ends the process, installs no
 * signal handler unless asked to (ddp_stop_on_signal), starts no thread but
 * those of a keeper, and raises no SIGPIPE.
 *
 * Errors: a function that can fail returns 0 or -1, or a pointer or NULL, and
 * takes `struct ddp_error *err` last. It is the caller's storage, filled on
 * failure only, with nothing to free; NULL where nobody wants to know.
 *
 * Threads: one thread at a time may use one handle (ddp, comm, keeper,
 * sampler), but ddp_comm_abort, ddp_beat and ddp_should_stop may be called from
 * any.
 *
 * Time-outs are in milliseconds; 0 means none, the call waits as long as it
 * takes.
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

/* -- errors ---------------------------------------------------------------- */

/*
 * What went wrong, by kind. The number is also the exit status with which a
 * program should end if this error ends it: ddprun knows from it whether
 * trying again is worth the while.
 */
enum ddp_status {
    DDP_OK = 0,
    DDP_ERR_USAGE = 2,        /* an argument or a variable is wrong */
    DDP_ERR_CONFLICT = 65,    /* the ranks of one job disagree */
    DDP_ERR_NOINPUT = 66,     /* a file is not there or cannot be read */
    DDP_ERR_CORRUPT = 67,     /* a file is damaged */
    DDP_ERR_UNREACHABLE = 69, /* the store cannot be reached */
    DDP_ERR_BUG = 70,         /* libddp's own fault */
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
    int sys_errno;  /* 0 where no system call was involved */
    char text[512]; /* one line without a full stop */
};

/* -- its place ------------------------------------------------------------- */

struct ddp;

/*
 * Reads the place of this process from the environment that ddprun (or
 * torchrun) gave it: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * GROUP_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RESTART_COUNT,
 * TORCHELASTIC_RUN_ID, DDP_INSTANCE, DDP_ROUND, DDP_PROGRESS_FILE,
 * DDP_STOP_FILE, DDP_SNAPSHOT_MEMORY. With none of the first five set there is
 * no launcher: a world of one. Connects to nothing yet.
 *
 * Returns a handle that the caller ends with ddp_free, or NULL: USAGE (a
 * variable is missing or has a bad value; the text names it), CONFIG (the
 * progress file cannot be opened), NOMEM.
 */
DDP_API struct ddp *ddp_init(struct ddp_error *err);

/* Ends the connection to the store too. NULL is fine. Communicators made from
 * it must have been freed before. */
DDP_API void ddp_free(struct ddp *d);

DDP_API int ddp_rank(const struct ddp *d);       /* 0 .. world - 1 */
DDP_API int ddp_world(const struct ddp *d);      /* all workers of the job */
DDP_API int ddp_local_rank(const struct ddp *d); /* on this node */
DDP_API int ddp_local_world(const struct ddp *d);
DDP_API int ddp_group_rank(const struct ddp *d); /* the node's number */
DDP_API int ddp_restart_count(const struct ddp *d);
DDP_API int64_t ddp_round(const struct ddp *d); /* from 1; 0 if alone */

/* Both live as long as `d`. The instance is 32 hexadecimal digits, zeros where
 * the launcher gave none; the run id is "none" then. */
DDP_API const char *ddp_instance(const struct ddp *d);
DDP_API const char *ddp_run_id(const struct ddp *d);

/* -- the store ------------------------------------------------------------- */

/*
 * The key-value store of this round at MASTER_ADDR:MASTER_PORT, the one that
 * PyTorch's processes know as TCPStore (a key is shared with them as it is).
 * The first call connects. A world of one without MASTER_ADDR has no store:
 * UNREACHABLE. Further errors of every call: TIMEOUT, LOST (the store broke
 * off), PROTO (it answered nonsense), USAGE (a key or value over the limits),
 * NOMEM.
 *
 * After TIMEOUT the connection is dropped and the next call makes a new one.
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

/* Waits until the key is there, then copies its value; `*len` is its length.
 * USAGE if it is longer than `cap`: nothing is copied, `*len` says how long. */
DDP_API int ddp_store_get(struct ddp *d,
                          const char *key,
                          void *value,
                          size_t cap,
                          size_t *len,
                          int64_t timeout_ms,
                          struct ddp_error *err);

/* Adds to a decimal counter, 0 where there is none yet; `*sum` is the new
 * value and may be NULL. */
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

/* Adds bytes at the end of the value, "" where there is none yet; the value may
 * become DDP_STORE_VALUE_MAX long. */
DDP_API int ddp_store_append(struct ddp *d,
                             const char *key,
                             const void *value,
                             size_t len,
                             int64_t timeout_ms,
                             struct ddp_error *err);

/*
 * Sets the value to `desired` if it is `expected`, or if there is none and
 * nothing (length 0) is expected. What the value is then comes as from
 * ddp_store_get. As with PyTorch, a key that is missing while something is
 * expected stays missing, and the answer is `expected`.
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

/* Removes the key; `*was_there` may be NULL. */
DDP_API int ddp_store_delete(struct ddp *d,
                             const char *key,
                             bool *was_there,
                             int64_t timeout_ms,
                             struct ddp_error *err);

/* How many keys the whole store has, those of others included. */
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

/* All of them at once; together they may be DDP_STORE_VALUE_MAX long. */
DDP_API int ddp_store_multi_set(struct ddp *d,
                                const struct ddp_store_item *items,
                                size_t count,
                                int64_t timeout_ms,
                                struct ddp_error *err);

/* Waits until all keys are there. USAGE if a value is longer than its `cap`:
 * its `len` says so, and the others are there. */
DDP_API int ddp_store_multi_get(struct ddp *d,
                                struct ddp_store_item *items,
                                size_t count,
                                int64_t timeout_ms,
                                struct ddp_error *err);

/*
 * Queues: what is pushed is popped once, first in, first out; pop waits for an
 * item. Their names are not keys: neither get nor delete nor num_keys sees
 * them, though wait and check take a queue with an item for a key that is
 * there. A pop that finds no room (USAGE) has taken the item. PyTorch's store
 * has queues since 2.8, on libuv; one that has not closes the connection: LOST.
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
 * Returns when `count` have called it with this key, which is to be used once:
 * who comes later passes. One that gave up (TIMEOUT) has been counted. The
 * oldest stores of PyTorch that have the other operations have not this one:
 * LOST. (ddp_comm_barrier needs no key.)
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
};

/* Bytes of one element; 0 for what is no dtype. */
DDP_API size_t ddp_dtype_size(enum ddp_dtype dtype);

/* -- communicators --------------------------------------------------------- */

struct ddp_comm;

enum ddp_comm_kind {
    DDP_COMM_CPU = 0,  /* host memory, over TCP */
    DDP_COMM_NCCL = 1, /* GPU memory by NCCL, host memory over TCP */
};

/*
 * All zero is a good choice.
 *
 * DDP_COMM_NCCL wants a GPU of its own for each rank, chosen before by
 * cudaSetDevice in the calling thread. libnccl.so.2 and the driver are loaded
 * then ($DDP_NCCL_LIBRARY names another file). What the calls below are given
 * may lie in GPU memory or in host memory, on all ranks alike. What lies in GPU
 * memory is taken and changed in the order of `stream`. A TCP connection
 * between neighbours tells of a peer's death, so nobody waits for NCCL's own
 * time-outs.
 */
struct ddp_comm_opts {
    enum ddp_comm_kind kind;
    int64_t init_timeout_ms; /* for all ranks to meet; 0: five minutes */
    int64_t timeout_ms;      /* for each collective; 0: none */
    void *stream;            /* NCCL: a cudaStream_t, borrowed; NULL: default */
    bool async;              /* NCCL: return when enqueued, see ddp_comm_wait */
};

/*
 * Makes a communicator of all ranks: collective, every rank makes its
 * communicators in the same order. Borrows `d` until ddp_comm_free; `opts`
 * for the call, NULL for defaults. In a world of one it needs no store.
 *
 * NULL on error: those of the store, TIMEOUT (not all ranks came; the text
 * names them), PEER, PROTO, NOMEM, USAGE; for NCCL also CONFIG (no driver, no
 * NCCL, no GPU chosen, libddp was built without it) and IO (NCCL failed).
 *
 * A rank that dies before all have met may be noticed by the time-out only:
 * until then nobody knows it. Under a launcher that is no matter, since it ends
 * the others itself; so let SIGTERM kill the process until this has returned
 * (ddp_stop_on_signal later).
 */
DDP_API struct ddp_comm *ddp_comm_new(struct ddp *d,
                                      const struct ddp_comm_opts *opts,
                                      struct ddp_error *err);

/*
 * The collectives. All ranks call the same ones in the same order with the
 * same sizes; each returns when this rank's part is done.
 *
 * Errors: PEER (a rank died, left, gave up or called it off), ABORTED, TIMEOUT,
 * CONFLICT (the ranks are in different collectives), NOMEM, USAGE; IO (the GPU
 * or NCCL failed). After any of them but USAGE the communicator is broken on
 * this rank, and the failure spreads to the others, which blocked calls notice
 * within 100 ms; every later call fails at once. The buffer's content is
 * undefined then.
 *
 * The text of PEER says which rank is to blame: "all-reduce: rank 5 died". A
 * rank that gives up tells its neighbours first whom it blames, and they pass
 * that on; a rank counts as dead when its connections end without such a word.
 * So one rank's death is told alike by all. When several die at once, each
 * survivor names one of them. A word can be lost only where the connection
 * itself is (cut, or reset after a loss on the network) or where its speaker is
 * killed before it speaks: that speaker is blamed then. A host that falls
 * silent is noticed after some ten seconds and told as such.
 */

/* Sums `count` elements of F32, F64 or I64 over all ranks, in place. The
 * result has the same bits on all ranks, and in every run with the same world
 * and input (in GPU memory as far as NCCL takes the same algorithm, as it does
 * on the same machines). I64 wraps around. */
DDP_API int ddp_comm_allreduce(struct ddp_comm *c,
                               void *data,
                               size_t count,
                               enum ddp_dtype dtype,
                               struct ddp_error *err);

/* Copies `len` bytes from rank `root` to all. */
DDP_API int ddp_comm_broadcast(struct ddp_comm *c,
                               void *data,
                               size_t len,
                               int root,
                               struct ddp_error *err);

/* Each rank gives `len` bytes; `all` (world x len) gets them in the order of
 * ranks. `mine` may lie in its place in `all`, or apart from it. */
DDP_API int ddp_comm_allgather(struct ddp_comm *c,
                               const void *mine,
                               size_t len,
                               void *all,
                               struct ddp_error *err);

/* Returns when all ranks have called it. */
DDP_API int ddp_comm_barrier(struct ddp_comm *c, struct ddp_error *err);

/*
 * With `async`, collectives on GPU memory return when they are enqueued. This
 * waits until all of them are done, and watches the peers meanwhile: use it
 * instead of cudaStreamSynchronize, which would wait for a dead peer for ever.
 * `timeout_ms` of the communicator counts for it. Otherwise there is nothing
 * to wait for. Errors: those of the collectives.
 */
DDP_API int ddp_comm_wait(struct ddp_comm *c, struct ddp_error *err);

/* Makes a call that is blocked in `c` and all later ones fail with ABORTED,
 * and those of the other ranks with PEER ("rank 5 called it off"), when this
 * one has failed. From any thread, but not from a signal handler; not after
 * ddp_comm_free. */
DDP_API void ddp_comm_abort(struct ddp_comm *c);

/*
 * Leaves and frees. Collective: call it on all ranks before they end, so that
 * nobody takes an early end for a death; it waits for the others, a second at
 * most. On a broken communicator it does not wait. NULL is fine.
 */
DDP_API void ddp_comm_free(struct ddp_comm *c);

/* -- alive, and asked to stop ---------------------------------------------- */

/* Tells the launcher that this worker makes progress (ddprun's
 * --hang_timeout). Cheap: writes at most ten times a second, nothing where the
 * launcher does not listen. */
DDP_API void ddp_beat(struct ddp *d, int64_t step);

/* More reasons come with later versions: test for != DDP_STOP_NO. */
enum ddp_stop {
    DDP_STOP_NO = 0,
    DDP_STOP_SIGNAL = 1,     /* one of those given to ddp_stop_on_signal came */
    DDP_STOP_SCALE_UP = 2,   /* nodes join: the workers will start again */
    DDP_STOP_SCALE_DOWN = 3, /* a node leaves: the same */
};

/*
 * Why this worker should save and leave at the next step. The ranks may learn
 * it at different steps: agree over a communicator before acting on it. A load
 * from memory: call it at every step. A launcher asks a worker that has called
 * it, and gives it --shutdown_timeout to leave, before it sends SIGTERM; any
 * other one gets SIGTERM at once. However it ends then, it counts as stopped.
 */
DDP_API enum ddp_stop ddp_should_stop(const struct ddp *d);

/*
 * Installs a handler for `signo` (SIGTERM, say) that only notes the signal for
 * ddp_should_stop, in this process and for its whole life. Once it has come, a
 * collective in which nothing moves for two seconds fails with ABORTED: a rank
 * that was asked to stop must not wait for one that is cut off.
 */
DDP_API int ddp_stop_on_signal(struct ddp *d, int signo, struct ddp_error *err);

/* -- snapshots ------------------------------------------------------------- */

/*
 * A snapshot is a safetensors file: tensors by name, and pairs of strings.
 * PyTorch opens it. It is replaced as a whole or not at all, and the one
 * before it is kept as <path>.prev.
 */

#define DDP_DIMS_MAX 8
#define DDP_KV_MAX   256 /* bytes of a value with its NUL */
#define DDP_NAME_MAX 256 /* bytes of a tensor's or key's name with its NUL */

/* Borrowed for the call. C order, no gaps. ddp_snapshot_save only reads
 * `data`. A scalar has 0 dims; a dim of 0 makes an empty tensor. */
struct ddp_tensor {
    const char *name; /* UTF-8, not "__metadata__" */
    enum ddp_dtype dtype;
    int dims;
    uint64_t shape[DDP_DIMS_MAX];
    void *data;
};

/* Bytes of the tensor's data; 0 also for what is no valid tensor. */
DDP_API uint64_t ddp_tensor_len(const struct ddp_tensor *t);

/* One pair. Keys that begin with "ddp." are libddp's own. */
struct ddp_kv {
    const char *key; /* UTF-8, borrowed */
    char value[DDP_KV_MAX];
};

/* A 64-bit integer as a pair; it travels as decimal text, since JSON numbers
 * lose digits. ddp_kv_get_i64: USAGE if the value is no such number (an absent
 * key is ""). */
DDP_API void ddp_kv_set_i64(struct ddp_kv *kv, const char *key, int64_t value);
DDP_API int
ddp_kv_get_i64(const struct ddp_kv *kv, int64_t *value, struct ddp_error *err);

/*
 * Writes a snapshot: to a temporary file beside `path`, synced, renamed, the
 * folder synced. When it returns 0 the snapshot survives a power cut. On
 * failure `path` holds what it held (the whole new snapshot if only the last
 * sync failed), and no temporary file is left. What a killed writer left over
 * the next one removes. One rank saves; two writers on one path are the
 * caller's mistake. The instance and the round of `d` go into the file.
 *
 * What stood at `path` becomes <path>.prev, but a damaged one never takes the
 * place of another: so whenever a writer stops, there is a whole snapshot that
 * is not older than the last one saved. To know that, the old one is read once
 * where `d` has neither saved nor loaded it. A file system without hard links
 * keeps no .prev.
 *
 * Errors: IO (with the reason, a full disk for one), USAGE (names twice, too
 * long, not UTF-8; a bad dtype or shape), NOMEM.
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
    bool from_prev;    /* `path` was refused, .prev was taken */
    char why[512];     /* why `path` was refused; "" if it was not */
    char instance[33]; /* who wrote it */
    int64_t round;
    bool foreign; /* written by another instance than that of `d` */
};

/*
 * Loads the tensors that are named into the caller's buffers, and the values
 * of the keys that are named ("" where the file has none). Dtype and shape
 * must be those of the file; tensors of the file that nobody asked for are
 * checked and skipped. Everything in the file is verified by checksum. Where
 * `path` is unreadable or damaged, <path>.prev is taken, and `info` (may be
 * NULL) says so.
 *
 * Errors: NOINPUT (there is no file at `path`: a fresh start), CORRUPT (what
 * is there is damaged, and so is .prev if there is one; the text says what is
 * wrong with which file), USAGE (a tensor is not in the file, or has another
 * dtype or shape; names twice), IO, NOMEM. After NOINPUT the buffers are as
 * they were, after the others their content is undefined.
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
 * Keeps the snapshots of a whole job, so that it loses no step: in memory that
 * survives the worker (ddprun holds it, and it vanishes with the launch), and
 * in a folder. All ranks are taken to hold the same state, as in data-parallel
 * training; the first rank of each node holds its memory, and one rank writes
 * to each folder, be it shared by the nodes or each node's own.
 *
 * A save waits for the copy only, with `later` not even for that. Two threads,
 * which take no signals, do the rest: at most three copies of the state in the
 * launcher's memory, or two of our own where there is none.
 *
 * With `later` the state is copied while the program goes on, which must leave
 * it as it is until ddp_keeper_settle has returned. A step of training only
 * reads its parameters until the optimizer takes its turn, so a program that
 * settles between the gradients and their sum waits for nothing as long as the
 * gradients take longer than the copy. No rank can then be more than one step
 * ahead of what is held, so that a worker that dies costs one step at most.
 *
 * With `gpu` a GPU must have been chosen by cudaSetDevice, and the tensors of a
 * save may be anywhere. Those in GPU memory are copied within the device, where
 * it has room for them once more, in the order of `stream`, and from there on a
 * stream of libddp's own to pages that are locked: the caller waits for none of
 * it. Without that room it waits for the copy. What is loaded comes into host
 * memory.
 *
 * In the folder each snapshot is a file of its own whose name bears its step
 * and its round (see ddp_snapshot(5)); the newest few are kept. The file
 * `owner` names the run whose folder it is.
 */
struct ddp_keeper;

/* All zero: no folder, memory where the launcher gave some. */
struct ddp_keeper_conf {
    const char *folder; /* made where there is none; NULL: no disk */
    int keep;           /* files in the folder; 0: two */
    bool no_memory;     /* do without the launcher's memory */
    bool load_only; /* nothing is written to the folder; it need not be there */
    bool gpu;       /* tensors that are saved may lie in GPU memory (say so on
                     * all ranks) .. */
    void *stream;   /* .. and are written in this cudaStream_t; borrowed */
    bool later;     /* what is saved does not change before it is settled */
};

/*
 * Collective. Borrows `d` and `comm` until ddp_keeper_free. NULL on error, then
 * on all ranks: IO (the folder cannot be made or written), CONFLICT (a file
 * stands in its place), NOMEM, USAGE, CONFIG (`gpu` without a driver, or where
 * no GPU was chosen), and those of the collectives.
 */
DDP_API struct ddp_keeper *ddp_keeper_new(struct ddp *d,
                                          struct ddp_comm *comm,
                                          const struct ddp_keeper_conf *conf,
                                          struct ddp_error *err);

/*
 * Saves the state after `step` (0 or more): to memory, and to the disk too if
 * `to_disk`. Call it on all ranks alike; those that hold nothing return at
 * once. The tensors may be changed when it has returned, with `later` when
 * ddp_keeper_settle has, or this with an error; they are borrowed that long. It
 * waits only where the snapshot before has not been sealed, or the one for the
 * disk not written, so whatever happens at most one step saved is lost with a
 * worker.
 *
 * Errors are this rank's own, and no reason to end: IO, CONFLICT (another run
 * took the folder over) of an earlier save to the disk, told once, while this
 * one is on its way; NOMEM, USAGE (as for ddp_snapshot_save) of this one. Where
 * memory does not do, ddp_keeper_no_memory says why from then on, and the disk
 * is used alone.
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
 * Waits until what was saved last is copied and sealed: a worker that dies now
 * loses no step that was saved. The disk is not waited for. What goes wrong the
 * next save tells.
 */
DDP_API void ddp_keeper_settle(struct ddp_keeper *k);

/* Waits until everything is sealed and on the disk. Errors: as of a save. */
DDP_API int ddp_keeper_wait(struct ddp_keeper *k, struct ddp_error *err);

/* The newest step that this rank wrote to the disk, which survives a power
 * cut; -1: none yet, or another rank writes. */
DDP_API int64_t ddp_keeper_saved(struct ddp_keeper *k);

/* Why this rank holds nothing in memory; "" where it does, or another rank of
 * its node should. Lives as long as `k`. */
DDP_API const char *ddp_keeper_no_memory(const struct ddp_keeper *k);

/* What was loaded. */
struct ddp_kept {
    int64_t step;
    int64_t round;
    char instance[33]; /* who wrote it */
    bool foreign;      /* another instance than that of `d` */
    bool memory;       /* it lay in memory, not on a disk */
    int rank;          /* that held it */
    char why[512];     /* what was refused before it, and why; "": nothing */
};

/*
 * Collective: all ranks load the newest whole snapshot that any of them holds.
 * Who lacks it gets it from the one that has it over the communicator. Names,
 * dtypes and shapes are those of ddp_snapshot_load, the same on all ranks.
 * Then the folder belongs to this run.
 *
 * The newest is the one of the highest step of the highest round of this run;
 * where it has written none, the newest of the run that owned the folder.
 *
 * Errors, on all ranks: NOINPUT (nobody has any: a fresh start, the buffers are
 * as they were), CORRUPT (there are some, but none is whole), USAGE (it is of
 * another model), PROTO (what a rank offers is never what it has), IO, NOMEM,
 * and those of the collectives.
 */
DDP_API int ddp_keeper_load(struct ddp_keeper *k,
                            const struct ddp_tensor *tensors,
                            size_t ntensors,
                            struct ddp_kv *meta,
                            size_t nmeta,
                            struct ddp_kept *info,
                            struct ddp_error *err);

/* A file that is being written is given up: ddp_keeper_wait before, where it
 * matters. NULL is fine. */
DDP_API void ddp_keeper_free(struct ddp_keeper *k);

/* -- sampler --------------------------------------------------------------- */

/*
 * Which samples this rank takes, with the meaning of PyTorch's
 * DistributedSampler: an epoch is a shuffle of all samples by (seed, epoch),
 * dealt out to the ranks in turn; its end is filled up by wrapping around to
 * the beginning, or cut off, so that all ranks get equally many. The shuffle
 * is libddp's own and the same on every machine and in every version.
 *
 * The position counts the samples of the epoch that all ranks together have
 * taken, each as many as this one. To resume, seek to the position that was
 * saved: the rest of the epoch is dealt out from there, also to another number
 * of ranks.
 */
struct ddp_sampler;

struct ddp_sampler_conf {
    uint64_t samples; /* 1 .. 2^32 - 1 */
    int rank;
    int world;
    uint64_t seed; /* the same on all ranks */
    bool shuffle;
    bool drop_last; /* cut the end off instead of filling it up */
};

/* Stands at epoch 0, position 0. NULL: USAGE, NOMEM. */
DDP_API struct ddp_sampler *ddp_sampler_new(const struct ddp_sampler_conf *conf,
                                            struct ddp_error *err);
DDP_API void ddp_sampler_free(struct ddp_sampler *s);

/* Goes to a position of an epoch; 0 for its beginning. At or behind the number
 * of samples the epoch is over. USAGE: a negative number. */
DDP_API int ddp_sampler_seek(struct ddp_sampler *s,
                             int64_t epoch,
                             int64_t position,
                             struct ddp_error *err);

/* Up to `max` indices of samples for this rank; returns how many, 0 at the
 * epoch's end. */
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
