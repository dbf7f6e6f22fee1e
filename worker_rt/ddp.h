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
#define DDP_VERSION_MINOR 3
#define DDP_VERSION_PATCH 0
#define DDP_VERSION                                                            \
    (DDP_VERSION_MAJOR * 10000 + DDP_VERSION_MINOR * 100 + DDP_VERSION_PATCH)

/* That of the library which is loaded, as a number like DDP_VERSION and, in
 * `*text` (may be NULL), as "0.3.0". A library runs programs that were built
 * for it or an older one with the same number behind libddp.so. */
DDP_API int ddp_version(const char **text);

/*
 * Structs that may grow in later versions begin with their size: set it to
 * sizeof of the struct, so that members which this program does not know, or
 * the library does not, are left alone. 0 means the struct of version 0.3.0,
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
    DDP_ERR_CORRUPT = 67,     /* a file, or this rank's state, is damaged */
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
 * TORCHELASTIC_RUN_ID, DDP_INSTANCE, DDP_ROUND, DDP_ROUND_KEY,
 * DDP_PROGRESS_FILE, DDP_STOP_FILE, DDP_SNAPSHOT_MEMORY. If none of the first
 * five is set, there is no launcher, and the world has one rank. Does not
 * connect yet.
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

/*
 * "", or a line without a full stop: how many connections to this rank were
 * turned away, since no rank of its round made them, and what the first of them
 * was. They got nothing. It lives until the next call.
 */
DDP_API const char *ddp_strangers(struct ddp *d);

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

/*
 * Returns when `count` processes have called it with this key. Use a key once:
 * later callers pass at once. A caller whose time ran out (TIMEOUT) is counted
 * too. Some stores of PyTorch do not have this operation (LOST).
 * ddp_comm_barrier needs no key.
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
 * --hang_timeout), and how much of a step it does not wait for other ranks, as
 * far as the calling thread waits in collectives of libddp. Cheap: writes at
 * most ten times a second, and nothing if the launcher does not listen. */
DDP_API void ddp_beat(struct ddp *d, int64_t step);

/* More reasons come with later versions: test for != DDP_STOP_NO. */
enum ddp_stop {
    DDP_STOP_NO = 0,
    DDP_STOP_SIGNAL = 1,   /* a signal given to ddp_stop_on_signal came, or the
                              launcher sends one that asks to end */
    DDP_STOP_SCALE_UP = 2, /* a node joins: the workers will start again */
    DDP_STOP_SCALE_DOWN = 3, /* a node leaves: the workers will start again */
};

/*
 * Why this worker should save and leave at the next step. The ranks may learn
 * it at different steps: agree over a communicator before you act on it. The
 * call costs one load from memory: make it at every step. If a node joins or
 * leaves, and a worker has called it, the launcher asks it this way and waits
 * for --shutdown_timeout before it sends SIGTERM; every other worker gets
 * SIGTERM at once. If the launcher ends, it tells it this way as well as by the
 * signal, which a handler of the program's own may hide. A worker that was
 * asked counts as stopped, whatever its exit status.
 */
DDP_API enum ddp_stop ddp_should_stop(const struct ddp *d);

/*
 * Installs a handler for `signo` (SIGTERM for example) that only notes the
 * signal for ddp_should_stop. It stays for the life of the process. SIGTERM
 * still ends the process at once after a rank died, where the launcher could
 * tell it so: no step comes then at which all could leave. After the
 * signal, a collective in which nothing moves for half of the time to SIGKILL
 * (DDP_SHUTDOWN_TIMEOUT, ddprun's --shutdown_timeout; two seconds if it is not
 * set) fails with ABORTED: a rank that was asked to stop must not wait for one
 * that does not go on. If a peer's host is silent it fails with PEER, after
 * three or four seconds.
 * USAGE: the signal cannot be caught.
 */
DDP_API int ddp_stop_on_signal(struct ddp *d, int signo, struct ddp_error *err);

/* -- snapshots ------------------------------------------------------------- */

/* In a file of its own, which is installed beside this one. */
#include "ddp_snapshot.h"

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
