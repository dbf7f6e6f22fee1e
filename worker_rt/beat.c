/*
 * worker_rt/beat: the way out (this worker is alive, how well its state is
 * kept, how long its own part of a step takes) and the way in (it should stop).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "rendezvous/base/signals_name.h"
#include "worker_rt/own_part.h"
#include "worker_rt/rt.h"

#define BEAT_EVERY_US (100 * MONO_MS)

/* Two lines in one write, each of one width. */
static void tell_own_part(const struct ddp *d, const struct own_part *own)
{
    char lines[2 * PROGRESS_LINE] = "";
    int64_t mean_us, noise_us;
    if (!own_part_usual(own, &mean_us, &noise_us))
        return;
    (void)snprintf(lines, PROGRESS_LINE, PROGRESS_OWN " %20lld\n", /* fits */
                   (long long)mean_us);
    (void)snprintf(lines + PROGRESS_LINE, PROGRESS_LINE, /* fits */
                   PROGRESS_NOISE " %20lld\n", (long long)noise_us);
    if (pwrite(d->progress_fd, lines, sizeof(lines), PROGRESS_OWN_AT) < 0)
        errno = 0; /* as a beat that cannot be written */
}

void ddp_beat(struct ddp *d, int64_t step)
{
    if (d->progress_fd < 0)
        return;
    int64_t now_us = mono_now_us();
    struct own_part *own = own_part_here();
    own_part_step(own, step, now_us);
    int64_t due_us = atomic_load(&d->beat_due);
    if (now_us < due_us || !atomic_compare_exchange_strong(
                               &d->beat_due, &due_us, now_us + BEAT_EVERY_US))
        return;
    /* One line of one width, so that no older digits stay behind it. A disk
     * that is full must not end the training: the result is not looked at. */
    char line[32];
    int len = snprintf(line, sizeof(line), "%20lld\n", (long long)step);
    if (len > 0 && pwrite(d->progress_fd, line, (size_t)len, 0) < 0)
        errno = 0;
    tell_own_part(d, own);
}

static void
tell(const struct ddp *d, off_t at, const char *word, int64_t number)
{
    char line[40];
    int len =
        snprintf(line, sizeof(line), "%s %20lld\n", word, (long long)number);
    if (d->progress_fd >= 0 && len > 0 &&
        pwrite(d->progress_fd, line, (size_t)len, at) < 0)
        errno = 0; /* as a beat that cannot be written */
}

void rt_tell_mirrored(const struct ddp *d, int64_t step)
{
    ddp_assert(step >= -1);
    tell(d, PROGRESS_MIRRORED_AT, PROGRESS_MIRRORED, step);
}

void rt_tell_barren(const struct ddp *d, int64_t launches)
{
    if (launches >= 0)
        tell(d, PROGRESS_BARREN_AT, PROGRESS_BARREN, launches);
}

/* One for the process, as signals are; lock-free, so a handler may write it. */
static atomic_int stop_signal;
static _Atomic int64_t stop_since_us = MONO_NEVER;
static struct stop_page *_Atomic told_by; /* NULL: by signals alone */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "always");
_Static_assert(ATOMIC_LONG_LOCK_FREE == 2, "always");
_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2, "always");

/* A rank died: no step comes at which all could leave, and an interpreter that
 * unwinds keeps the next round waiting for seconds. */
static bool has_failed(void)
{
    const struct stop_page *page = atomic_load(&told_by);
    return page != NULL && atomic_load(&page->why) == STOP_PAGE_FAILED;
}

static void note_stop(int signo)
{
    if (atomic_exchange(&stop_signal, signo) == 0)
        atomic_store(&stop_since_us, mono_now_us());
}

/* All that it calls may be called here (signal-safety(7)), clock_gettime behind
 * mono_now_us included. What is raised comes when it returns. */
static void on_stop_signal(int signo)
{
    note_stop(signo);
    if (signo == SIGTERM && has_failed() && signal(SIGTERM, SIG_DFL) != SIG_ERR)
        (void)raise(SIGTERM); /* cannot fail for a valid signal */
}

int64_t rt_stop_since_us(void)
{
    return atomic_load(&stop_since_us);
}

enum ddp_stop ddp_should_stop(const struct ddp *d)
{
    uint32_t why = STOP_PAGE_NOT;
    if (d->stop_page != NULL) {
        why = atomic_load(&d->stop_page->why);
        if (atomic_load(&d->stop_page->looks) == 0)
            atomic_store(&d->stop_page->looks, 1);
    }
    if (why == STOP_PAGE_SIGNAL)
        note_stop(SIGTERM); /* which one it is nobody asks */
    else if (why == STOP_PAGE_SCALE_DOWN)
        return DDP_STOP_SCALE_DOWN;
    else if (why != STOP_PAGE_NOT && why != STOP_PAGE_FAILED)
        return DDP_STOP_SCALE_UP;
    return atomic_load(&stop_signal) == 0 ? DDP_STOP_NO : DDP_STOP_SIGNAL;
}

int ddp_stop_on_signal(struct ddp *d, int signo, struct ddp_error *err)
{
    struct stop_page *none = NULL;
    if (atomic_compare_exchange_strong(&told_by, &none, d->stop_page))
        d->stop_page_stays = true;
    struct sigaction sa = {.sa_handler = on_stop_signal,
                           .sa_flags = SA_RESTART};
    (void)sigemptyset(&sa.sa_mask); /* cannot fail on a valid set */
    if (sigaction(signo, &sa, NULL) == 0)
        return 0;
    struct ddp_err why;
    (void)ddp_err_sys(&why, DDP_E_USAGE, "cannot catch signal %d (%s)", signo,
                      signals_name(signo));
    return rt_fail(err, &why);
}
