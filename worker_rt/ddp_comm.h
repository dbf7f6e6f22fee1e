/*
 * libddp: communicators, over which the ranks of a job combine and move data.
 * A part of ddp.h, which includes it: include that one.
 */
#ifndef DDP_COMM_H
#define DDP_COMM_H

#ifndef DDP_H
#error "include ddp.h, which includes this"
#endif

struct ddp_comm;

enum ddp_comm_kind {
    DDP_COMM_CPU = 0,  /* host memory, over TCP */
    DDP_COMM_NCCL = 1, /* GPU memory by NCCL, host memory over TCP */
};

/*
 * All zero is a good choice.
 *
 * DDP_COMM_NCCL needs one GPU for each rank. Choose it with cudaSetDevice in
 * the calling thread first. libnccl.so.2 (or $DDP_NCCL_LIBRARY) and the driver
 * are loaded at run time. Buffers may lie in GPU memory or in host memory, but
 * alike on all ranks. Buffers in GPU memory are read and written in the order
 * of `stream`. TCP connections between neighbours detect a peer's death, so no
 * rank waits for NCCL's own time-outs.
 */
struct ddp_comm_opts {
    size_t size; /* of this struct, or 0; see versions */
    enum ddp_comm_kind kind;
    int64_t init_timeout_ms; /* for all ranks to meet; 0: five minutes */
    int64_t timeout_ms;      /* for each call; 0: none */
    void *stream;            /* NCCL: a cudaStream_t, borrowed; NULL: default */
    bool async;              /* NCCL: return when enqueued, see ddp_comm_wait */
};

/*
 * Makes a communicator of all ranks. Collective: every rank makes its
 * communicators in the same order. Borrows `d` until ddp_comm_free, and `opts`
 * for the call; NULL means defaults. In a world of one it needs no store.
 *
 * Ranks call each other at the address by which the store sees them. A rank
 * that the store sees at a loopback address, in a job of several nodes, can be
 * called at every address of its machine. DDP_LOCAL_ADDR (an address) or
 * DDP_SOCKET_IFNAME (interfaces, with commas) say something else.
 *
 * NULL on error: those of the store, TIMEOUT (not all ranks came; the text
 * names them), PEER, PROTO, NOMEM, USAGE; for NCCL also CONFIG (no driver, no
 * NCCL, no GPU chosen, libddp was built without it) and IO (NCCL failed). If
 * one rank has an error of its own, the others get PEER with its reason, and do
 * not wait for it.
 *
 * If a rank dies before all have met, the others may notice it by the time-out
 * only. A launcher ends them earlier, by SIGTERM; so call ddp_stop_on_signal
 * after this function has returned, not before.
 */
DDP_API struct ddp_comm *ddp_comm_new(struct ddp *d,
                                      const struct ddp_comm_opts *opts,
                                      struct ddp_error *err);

/*
 * The collectives. All ranks call the same ones in the same order with the
 * same sizes; each returns when this rank's part is done.
 *
 * Errors: PEER (a rank died, left, failed or aborted), ABORTED, TIMEOUT,
 * CONFLICT (the ranks are in different calls: the kind, the count, the dtype,
 * the operation or the root differs; NCCL does not notice that), NOMEM, USAGE;
 * IO (the GPU or NCCL failed). After every error except USAGE the communicator
 * is broken on this rank, and every later call fails at once. The failure
 * spreads to the other ranks; blocked calls notice it within 100 ms. The
 * content of the buffer is undefined then.
 *
 * The text of PEER names the rank that is to blame: "all-reduce: rank 5 died".
 * A rank that fails first tells its neighbours which rank it blames, and they
 * pass that on. A rank counts as dead if its connections end without such a
 * message. So all ranks name the same rank; if several die at once, each
 * survivor names one of them. The message is lost only if the connection is cut
 * or the sender is killed before it sends: then the sender is blamed. A host
 * that is silent is noticed, and named, after about ten seconds.
 *
 * Buffers are the caller's, aligned to their elements, and are borrowed for the
 * call; with `async`, those in GPU memory until ddp_comm_wait has returned.
 * `count` is in elements, and is 0 or more. Shapes are written (W,count), with
 * W for the world size: rank r's part begins at element r * count. USAGE: a
 * dtype or an operation that the call does not take, a buffer that is NULL,
 * not aligned or too long, no such rank.
 */

/*
 * How elements of all ranks become one. All of them take all dtypes but I16,
 * U16 and BOOL.
 *
 * Whole numbers wrap around; their average is cut towards zero. F16, BF16 and
 * F8 are combined in F32 and rounded, half to even, after each step; a number
 * beyond the largest F8 becomes the largest F8. MAX and MIN take a number
 * before a NaN. AVG is the sum, divided by W; NCCL may divide floating-point
 * numbers before it adds them.
 */
enum ddp_op {
    DDP_SUM = 0,
    DDP_AVG = 1,
    DDP_MAX = 2,
    DDP_MIN = 3,
    DDP_PROD = 4,
};

/* Combines `count` elements of all ranks; all ranks get the result in `out`,
 * which may be `in`. The result has the same bits on all ranks, and in every
 * run with the same world and input (in GPU memory as far as NCCL takes the
 * same algorithm, as it does on the same machines). */
DDP_API int ddp_comm_all_reduce(struct ddp_comm *c,
                                const void *in,
                                void *out,
                                size_t count,
                                enum ddp_dtype dtype,
                                enum ddp_op op,
                                struct ddp_error *err);

/* The same with DDP_SUM, in place. */
DDP_API int ddp_comm_allreduce(struct ddp_comm *c,
                               void *data,
                               size_t count,
                               enum ddp_dtype dtype,
                               struct ddp_error *err);

/* Combines `in` (W,count) of all ranks; this rank gets its part of the result
 * in `out` (count), which may be this rank's part of `in`. */
DDP_API int ddp_comm_reduce_scatter(struct ddp_comm *c,
                                    const void *in,
                                    void *out,
                                    size_t count,
                                    enum ddp_dtype dtype,
                                    enum ddp_op op,
                                    struct ddp_error *err);

/* All ranks get `in` (count) of each in `out` (W,count). `in` may be this
 * rank's part of `out`. Takes all dtypes. */
DDP_API int ddp_comm_all_gather(struct ddp_comm *c,
                                const void *in,
                                void *out,
                                size_t count,
                                enum ddp_dtype dtype,
                                struct ddp_error *err);

/* The same with bytes: `mine` (len), `all` (W,len). */
DDP_API int ddp_comm_allgather(struct ddp_comm *c,
                               const void *mine,
                               size_t len,
                               void *all,
                               struct ddp_error *err);

/* Copies `len` bytes from rank `root` to all. */
DDP_API int ddp_comm_broadcast(struct ddp_comm *c,
                               void *data,
                               size_t len,
                               int root,
                               struct ddp_error *err);

/*
 * NCCL's own communicator (an ncclComm_t), for what libddp does not have: sends
 * and receives, all-to-all, parts of the world (ncclCommSplit). NULL: the
 * communicator has none, since its kind is DDP_COMM_CPU, the world is one rank,
 * or it failed.
 *
 * It is one that does not block: a call of NCCL may return ncclInProgress, then
 * ask ncclCommGetAsyncError until it does not. Enqueue on the communicator's
 * stream, in the order in which all ranks do, in the thread that uses `c`, and
 * call this before each time: ddp_comm_wait, and the snapshots saved from then
 * on, then wait for what was enqueued. libddp keeps the communicator, and
 * aborts it when `c` fails: do not use it after an error of libddp's.
 */
DDP_API void *ddp_comm_nccl(struct ddp_comm *c);

/* Returns when all ranks have called it. */
DDP_API int ddp_comm_barrier(struct ddp_comm *c, struct ddp_error *err);

/*
 * With `async`, collectives on GPU memory return when they are enqueued. This
 * waits until all of them are done, and watches the peers meanwhile. Use it
 * instead of cudaStreamSynchronize, which would wait for a dead peer for ever.
 * The communicator's `timeout_ms` applies. Without `async` it returns at once.
 * Errors: those of the collectives. Other ranks need not call it.
 *
 * When a communicator breaks while something is enqueued, what lies behind it
 * on the stream goes on with data that was never summed. So that it reaches no
 * other rank, all communicators of this ddp handle, and all of NCCL in this
 * process, break with it: each fails at its next call. NCCL may be stuck while
 * it is aborted; after two seconds the call returns, and its text says so: then
 * end the process.
 */
DDP_API int ddp_comm_wait(struct ddp_comm *c, struct ddp_error *err);

/* Makes a call that is blocked in `c`, and every later one, fail with ABORTED.
 * Then those of the other ranks fail with PEER ("rank 5 aborted it"). May be
 * called from any thread, but not from a signal handler and not after
 * ddp_comm_free. */
DDP_API void ddp_comm_abort(struct ddp_comm *c);

/*
 * Leaves and frees. Collective: call it on all ranks before they end, so that
 * no rank takes an early end for a death. It waits for the other ranks, for one
 * second at most, and not at all if the communicator is broken. NULL is
 * allowed.
 */
DDP_API void ddp_comm_free(struct ddp_comm *c);

#endif
