/*
 * worker_rt/comm/nccl_wait: waiting for NCCL and the GPU, and giving up.
 *
 * A wait looks at the GPU, at NCCL's own errors and, once in WATCH_US, at the
 * control. It does so without a pause for SPIN_US: a small collective on GPUs
 * of one machine is over by then, and a nap of the kernel's is longer than it.
 * Then it naps in between, since what takes that long is not made longer by it.
 *
 * Whatever goes wrong, the peers are told first over the control, then NCCL is
 * aborted, which ends its kernels: with a dead peer they would spin for ever.
 */
#include "worker_rt/comm/nccl.h"

#include "rendezvous/base/mono.h"

int64_t comm_nccl_abort_us = 2 * MONO_S;

#ifdef DDP_NCCL /* the Makefile found nccl.h */

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker_rt/comm/nccl_wait.h"

#define SPIN_US  (1 * MONO_MS)
#define WATCH_US (1 * MONO_MS) /* how often the control is looked at */
/* For the control to know whose fault it is. */
#define BLAME_US (100 * MONO_MS)
#define NAP_NS   (20 * 1000)

/* All of this process. The lock is held for each call on a `comm`, since the
 * failure of another communicator aborts it, too; none of these calls blocks.
 */
static pthread_mutex_t nccl_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct comm_nccl *all;

/* What went wrong in NCCL, on one line. */
int nccl_failed(struct comm_nccl *c,
                ncclResult_t rc,
                const char *what,
                struct ddp_err *err)
{
    enum ddp_code code = rc == ncclRemoteError ? DDP_E_PEER : DDP_E_IO;
    char last[160];
    (void)pthread_mutex_lock(&nccl_mutex);
    const char *text = c->nccl->GetLastError(c->comm);
    (void)snprintf(last, sizeof(last), "%s", text == NULL ? "" : text);
    (void)pthread_mutex_unlock(&nccl_mutex);
    for (char *p = last; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    return ddp_err_set(err, code, "%s: NCCL: %s%s%s", what,
                       c->nccl->GetErrorString(rc), last[0] == '\0' ? "" : ": ",
                       last);
}

static void nap(void)
{
    const struct timespec t = {.tv_nsec = NAP_NS};
    (void)nanosleep(&t, NULL); /* a signal may cut it short */
}

/* Whether the control knows better whose fault it is: then `err` is replaced.
 */
static void ask_control(struct comm_nccl *c, struct ddp_err *err)
{
    struct ddp_err better;
    int64_t until_us = mono_now_us() + BLAME_US;
    while (mono_now_us() < until_us) {
        if (wire_watch(c->wire, &better) != 0) {
            *err = better;
            return;
        }
        nap();
    }
}

/* -- abort ----------------------------------------------------------------- */

/* Takes communicators out of use: `last`, behind all the others of this process
 * if `every`. NULL: no memory. */
static ncclComm_t *collect(struct comm_nccl *last, bool every, size_t *n)
{
    *n = 1;
    for (const struct comm_nccl *c = all; c != NULL; c = c->next)
        *n += every && c != last && c->comm != NULL;
    ncclComm_t *comms = calloc(*n, sizeof(ncclComm_t));
    if (comms == NULL)
        return NULL;
    size_t i = 0;
    for (struct comm_nccl *c = all; every && c != NULL; c = c->next) {
        if (c->comm == NULL || c == last)
            continue;
        comms[i++] = c->comm;
        c->comm = NULL;
    }
    comms[i++] = last->comm;
    last->comm = NULL;
    ddp_assert(i == *n);
    return comms;
}

/*
 * An abort ends the kernels that wait for a peer, and what lies behind them on
 * the stream goes on with data that was never summed. If something was enqueued
 * there, a collective of another communicator may be among it, and must not
 * carry that to other ranks: so all of this process are aborted (`every`). NCCL
 * notes each abort when it is called, and waits when the group ends; the one
 * whose kernels wait comes last. false: NCCL has not come to an end in time.
 */
static bool abort_nccl(struct comm_nccl *c, bool every)
{
    size_t n = 0;
    ncclComm_t *comms = NULL;
    (void)pthread_mutex_lock(&nccl_mutex);
    if (c->comm != NULL && (comms = collect(c, every, &n)) == NULL) {
        (void)c->nccl->CommAbort(c->comm);
        c->comm = NULL;
    }
    (void)pthread_mutex_unlock(&nccl_mutex);
    return comms == NULL || nccl_lib_abort(comms, n, comm_nccl_abort_us);
}

/* Ends what was begun on the control. A failure of any kind ends NCCL too, and
 * the proof learns of it before any stream goes on. */
int nccl_end(struct comm_nccl *c, int rc, struct ddp_err *err)
{
    if (rc == 0)
        return 0;
    bool open = c->base.proof.oldest != 0;
    wire_tell_proof(c->wire, &c->base.proof, err);
    (void)wire_end(c->wire, rc, err);
    if (abort_nccl(c, open))
        return rc;
    /* The text is the most that can be done: the GPU's work cannot be taken
     * back. */
    size_t n = strlen(err->text);
    (void)snprintf(err->text + n, sizeof(err->text) - n,
                   " (NCCL does not come to an end: the GPU may be busy until "
                   "this process ends)");
    return rc;
}

int nccl_lock(struct comm_nccl *c, struct ddp_err *err)
{
    (void)pthread_mutex_lock(&nccl_mutex);
    if (c->comm != NULL)
        return 0;
    (void)pthread_mutex_unlock(&nccl_mutex);
    return ddp_err_set(err, DDP_E_ABORTED,
                       "NCCL was aborted, since another communicator of this "
                       "process failed");
}

void nccl_lock_any(void)
{
    (void)pthread_mutex_lock(&nccl_mutex);
}

void nccl_unlock(void)
{
    (void)pthread_mutex_unlock(&nccl_mutex);
}

/* NCCL's own state; an error is in `state`, too. */
static int
ask_nccl(struct comm_nccl *c, ncclResult_t *state, struct ddp_err *err)
{
    if (nccl_lock(c, err) != 0)
        return -1;
    ncclResult_t rc = c->nccl->CommGetAsyncError(c->comm, state);
    nccl_unlock();
    if (rc != ncclSuccess)
        *state = rc;
    return 0;
}

/* When to look at what, while polling. */
struct patience {
    int64_t start_us;
    int64_t watch_us; /* when the control is looked at next */
};

static struct patience patience_new(void)
{
    int64_t now_us = mono_now_us();
    return (struct patience){now_us, now_us + WATCH_US};
}

/* Between two looks at the GPU. */
static int
wait_a_little(struct comm_nccl *c, struct patience *p, struct ddp_err *err)
{
    int64_t now_us = mono_now_us();
    if (now_us >= p->watch_us) {
        p->watch_us = now_us + WATCH_US;
        if (wire_watch(c->wire, err) != 0)
            return -1;
    }
    if (now_us - p->start_us > SPIN_US)
        nap();
    else
        (void)sched_yield(); /* cannot fail */
    return 0;
}

/* Nothing blocks: what NCCL has begun with `rc` is finished in its own threads,
 * and until then it may be given nothing else. */
int nccl_settle(struct comm_nccl *c,
                ncclResult_t rc,
                const char *what,
                struct ddp_err *err)
{
    struct patience p = patience_new();
    while (rc == ncclInProgress) {
        if (ask_nccl(c, &rc, err) != 0 ||
            (rc == ncclInProgress && wait_a_little(c, &p, err) != 0))
            return -1;
    }
    if (rc == ncclSuccess)
        return 0;
    (void)nccl_failed(c, rc, what, err);
    ask_control(c, err);
    return -1;
}

/* NCCL has no error of its own. */
static int
check_nccl(struct comm_nccl *c, const char *what, struct ddp_err *err)
{
    ncclResult_t state = ncclSuccess;
    if (c->base.world == 1)
        return 0;
    if (ask_nccl(c, &state, err) != 0)
        return -1;
    return state == ncclInProgress ? 0 : nccl_settle(c, state, what, err);
}

/*
 * Until the event is reached, or the stream is empty (NULL). NCCL is asked once
 * more behind that: only what came to its end before NCCL had an error, and
 * before it was aborted, is known to be right.
 */
int nccl_poll(struct comm_nccl *c,
              void *event,
              const char *what,
              struct ddp_err *err)
{
    struct patience p = patience_new();
    for (;;) {
        int rc = event != NULL ? c->gpu->event_query(event)
                               : c->gpu->stream_query(c->stream);
        if (rc != 0 && rc != GPU_NOT_READY)
            return ddp_err_set(err, DDP_E_IO, "%s: the GPU failed: %s", what,
                               gpu_text(c->gpu, rc));
        if (check_nccl(c, what, err) != 0)
            return -1;
        if (rc == 0)
            return 0;
        if (wait_a_little(c, &p, err) != 0)
            return -1;
    }
}

/* Until the stream is empty. */
int nccl_drain(struct comm_nccl *c, const char *what, struct ddp_err *err)
{
    if (nccl_poll(c, NULL, what, err) != 0)
        return -1;
    c->pending = false;
    c->marked = 0;
    proof_done(&c->base.proof, c->base.proof.newest);
    return 0;
}

int nccl_begin(struct comm_nccl *c,
               const struct comm_call *call,
               struct ddp_err *err)
{
    ddp_assert(c->control != NULL && c->wire != NULL);
    if (wire_begin(c->wire, call, c->base.timeout_us, err) != 0)
        return -1;
    if (wire_ask_proof(c->wire, &c->base.proof, err) != 0)
        return -1;
    return wire_watch(c->wire, err); /* has a peer given up already? */
}

int nccl_attend(struct comm_nccl *c, struct ddp_err *err)
{
    if (wire_attend(c->wire, c->base.timeout_us, err) != 0)
        return -1;
    return wire_ask_proof(c->wire, &c->base.proof, err);
}

struct ddp_comm *nccl_control(struct comm_nccl *c)
{
    c->control->timeout_us = c->base.timeout_us;
    return c->control;
}

void nccl_note(struct comm_nccl *c)
{
    c->pending = true;
    if (c->async)
        proof_draw(&c->base.proof);
}

void nccl_register(struct comm_nccl *c)
{
    c->next = all;
    all = c;
}

void nccl_forget(struct comm_nccl *c)
{
    (void)pthread_mutex_lock(&nccl_mutex);
    struct comm_nccl **at = &all;
    while (*at != NULL && *at != c)
        at = &(*at)->next;
    if (*at != NULL)
        *at = c->next;
    if (c->comm != NULL)
        (void)c->nccl->CommAbort(c->comm); /* it never came to be used */
    c->comm = NULL;
    (void)pthread_mutex_unlock(&nccl_mutex);
}

#endif
