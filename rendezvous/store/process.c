/*
 * Happy path: a loop that serves until the process is killed. Connections come
 * from the listener, or over the channel with the bytes that were read of them.
 *
 * Failure modes: what the store needs cannot be had at the start: the process
 * ends with a line and an errors.def status. The channel's other end is gone:
 * it is not looked at again, the store serves on. A connection comes over the
 * channel and there is no descriptor for it: it is lost, which is logged once.
 */
#include "rendezvous/store/process.h"

#include <signal.h>
#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/open_files.h"
#include "rendezvous/net/allow.h"
#include "rendezvous/net/fd_pass.h"
#include "rendezvous/store/server.h"

#define PROCESS_MAGIC 0x70726f63u
#define TAKEN_MAX     64 /* from the channel in one turn of the loop */

struct store_process {
    unsigned magic;
    struct store_server *store;
    uv_poll_t poll;
    int chan;
    bool complained;
};

static struct store_process *process_of(const uv_handle_t *h)
{
    struct store_process *p = h->data;
    ddp_assert(p->magic == PROCESS_MAGIC && p->chan >= 0);
    return p;
}

static void on_chan(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct store_process *p = process_of((uv_handle_t *)poll);
    uint8_t data[FD_PASS_BYTES_MAX];
    size_t len;
    int fd;
    for (int i = 0; i < TAKEN_MAX; i++) {
        int got = fd_pass_take(p->chan, &fd, data, &len);
        if (got < 0)
            (void)uv_poll_stop(poll); /* the other end is gone for good */
        if (got <= 0)
            return;
        if (fd >= 0)
            store_server_adopt(p->store, fd, data, len);
        else if (!p->complained)
            log_warnx("store: a connection is lost: no descriptor for it "
                      "(ulimit -n)");
        p->complained |= fd < 0;
    }
}

static bool admits(void *ctx, const struct sockaddr *peer)
{
    return allow_has(ctx, peer);
}

void store_process_main(const struct helper_fds *fds, struct allow *allow)
{
    static struct store_process p = {.magic = PROCESS_MAGIC};
    struct ddp_err err;
    uv_loop_t loop;
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this signal */
    (void)open_files_raise();
    struct store_server_limits limits = store_server_limits_default();
    if (allow != NULL)
        limits.admits = admits;
    limits.ctx = allow;
    int rc = uv_loop_init(&loop);
    if (rc == 0 && fds->chan >= 0)
        rc = uv_poll_init(&loop, &p.poll, fds->chan);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM),
               "cannot start the store: no event loop: %s", uv_strerror(rc));
    if (store_server_open(&p.store, &loop, fds->listener, &limits, &err) != 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    p.chan = fds->chan;
    p.poll.data = &p;
    if (fds->chan >= 0)
        (void)uv_poll_start(&p.poll, UV_READABLE, on_chan);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* its handles keep it running */
    fatalx(ddp_code_exit(DDP_E_BUG), "store: the event loop has ended");
}
