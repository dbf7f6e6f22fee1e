/*
 * Happy path: a watch on each worker's progress file; the first write wakes
 * on_events, look() finds who it was, and all watches are taken away, so that a
 * worker which beats a thousand times a second wakes this process once.
 *
 * Failure modes:
 *   - A worker writes before it is watched: first_progress_watch looks at once.
 *   - It ends before the event is read: its exit tells that it had progressed.
 *   - There is no inotify (max_user_instances): said once, at the start; then
 *     there is no such event.
 */
#include "launcher/worker/first_progress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "launcher/worker/mailbox.h"
#include "rendezvous/base/log.h"

#define FIRST_PROGRESS_MAGIC 0x66697273u

struct first_progress {
    unsigned magic;
    uv_poll_t poll;
    int fd;
    const struct workers *workers;
    int nproc;
    const struct first_progress_handler *handler;
    void *ctx;
    int *watches; /* by local rank, -1: none */
    bool waits;   /* nobody has beaten in this round */
    bool told;    /* that a file cannot be watched */
};

static void forget(struct first_progress *f)
{
    f->waits = false;
    for (int i = 0; i < f->nproc; i++) {
        if (f->watches[i] >= 0) /* gone already with its file, perhaps */
            (void)inotify_rm_watch(f->fd, f->watches[i]);
        f->watches[i] = -1;
    }
}

void first_progress_exited(struct first_progress *f,
                           const struct agent_worker *w)
{
    if (f == NULL || !f->waits || !w->progressed)
        return;
    forget(f);
    f->handler->on_beat(f->ctx, w->local_rank, w->pid, -1); /* not kept */
}

static void look(struct first_progress *f)
{
    struct hang_sample sample;
    for (int i = 0; f->waits && i < f->nproc; i++) {
        if (!workers_look(f->workers, i, &sample) || sample.written == 0)
            continue;
        forget(f);
        f->handler->on_beat(f->ctx, i, workers_pid(f->workers, i), sample.step);
    }
}

/* The events do not say which worker wrote; look() finds it. */
static void on_events(uv_poll_t *poll, int status, int events)
{
    char room[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct first_progress *f = poll->data;
    ddp_assert(f->magic == FIRST_PROGRESS_MAGIC);
    (void)events;
    if (status < 0)
        return;
    while (read(f->fd, room, sizeof(room)) > 0)
        ;
    look(f);
}

struct first_progress *
first_progress_new(uv_loop_t *loop,
                   const struct workers *workers,
                   int nproc,
                   const struct first_progress_handler *handler,
                   void *ctx)
{
    struct first_progress *f = calloc(1, sizeof(*f));
    int *watches = calloc((size_t)nproc, sizeof(*watches));
    if (f == NULL || watches == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %d worker%s", nproc,
               nproc == 1 ? "" : "s");
    *f = (struct first_progress){.magic = FIRST_PROGRESS_MAGIC,
                                 .workers = workers,
                                 .nproc = nproc,
                                 .handler = handler,
                                 .ctx = ctx,
                                 .watches = watches};
    for (int i = 0; i < nproc; i++)
        watches[i] = -1;
    f->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int rc = f->fd < 0 ? uv_translate_sys_error(errno)
                       : uv_poll_init(loop, &f->poll, f->fd);
    if (rc == 0) {
        f->poll.data = f;
        (void)uv_poll_start(&f->poll, UV_READABLE, on_events); /* cannot fail */
        return f;
    }
    errno = -rc;
    log_warn("cannot watch the workers' progress files (inotify), so no event "
             "first_beat is written, and standbys are made later");
    if (f->fd >= 0)
        (void)close(f->fd); /* never used */
    free(watches);
    free(f);
    return NULL;
}

void first_progress_watch(struct first_progress *f)
{
    char path[MAILBOX_PATH_MAX];
    if (f == NULL)
        return;
    forget(f);
    f->waits = true;
    for (int i = 0; i < f->nproc; i++) {
        workers_progress_path(f->workers, i, path);
        if (path[0] == '\0')
            continue;
        f->watches[i] = inotify_add_watch(f->fd, path, IN_MODIFY);
        if (f->watches[i] < 0 && !f->told)
            log_warn("cannot watch the progress file of the worker with local "
                     "rank %d (inotify), so its event first_beat is written "
                     "when it ends",
                     i);
        f->told |= f->watches[i] < 0;
    }
    look(f); /* a worker may have been faster */
}
