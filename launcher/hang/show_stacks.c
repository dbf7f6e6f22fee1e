/*
 * Happy path: a helper process writes the stacks of the worker into memory, as
 * for a hang (launcher/hang/stacks); once it has ended they go out, without
 * what a debugger tells of itself.
 *
 * Failure modes:
 * - There is no such worker any more, or the helper cannot be started: that is
 *   what is sent.
 * - A debugger hangs on the worker: stacks ends it when its time is over.
 * - /proc of the worker does not answer (it maps memory on a file system that
 *   does not): the helper is given up, and what it wrote is sent.
 * - The round ends meanwhile: the helper is killed, and that is said.
 * - The stacks are long: what does not fit into the connection's queue, beside
 *   the beats, is left out, and that is said.
 */
#include "launcher/hang/show_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher/hang/rank_look.h"
#include "launcher/hang/stacks.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

#define SHOW_STACKS_MAGIC 0x73686f77u
#define TOOL_S            20 /* for a debugger, and for all of them: */
#define ALL_US            (40 * MONO_S)
#define HELPER_MS         (45 * 1000) /* with what /proc says */
#define ALL_BYTES         (64 * 1024) /* a quarter of a connection's queue */

struct show_stacks {
    unsigned magic;
    const struct workers *workers;
    int nproc;
    show_stacks_send send;
    void *ctx;
    uv_timer_t limit;
    pid_t helper;   /* 0: none */
    int fd;         /* what it writes to; -1: none */
    int64_t number; /* of the order */
    struct msg part;
};

struct show_stacks *show_stacks_new(uv_loop_t *loop,
                                    const struct workers *workers,
                                    int nproc,
                                    show_stacks_send send,
                                    void *ctx)
{
    struct show_stacks *s = calloc(1, sizeof(*s));
    if (s == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory");
    s->magic = SHOW_STACKS_MAGIC;
    s->workers = workers;
    s->nproc = nproc;
    s->send = send;
    s->ctx = ctx;
    s->fd = -1;
    (void)uv_timer_init(loop, &s->limit); /* cannot fail */
    s->limit.data = s;
    return s;
}

/* -- what is sent ---------------------------------------------------------- */

static void begin_part(struct show_stacks *s, int64_t number)
{
    s->part =
        (struct msg){.kind = MSG_KIND_answered, .answered.number = number};
}

static void send_part(struct show_stacks *s, bool last)
{
    s->part.answered.more = !last;
    s->send(s->ctx, &s->part);
    s->part.answered.text[0] = '\0';
}

/* A line, cut to a part. */
static void add_line(struct show_stacks *s, const char *line)
{
    char *text = s->part.answered.text;
    char whole[sizeof(s->part.answered.text) - 1]; /* a newline follows */
    msg_set(whole, line);
    size_t len = strlen(text), more = strlen(whole);
    if (len + more + 2 > sizeof(s->part.answered.text)) {
        send_part(s, false);
        len = 0;
    }
    memcpy(text + len, whole, more);
    text[len + more] = '\n';
    text[len + more + 1] = '\0';
}

static void say(struct show_stacks *s, int64_t number, const char *text)
{
    begin_part(s, number);
    add_line(s, text);
    send_part(s, true);
}

/* Without what a debugger tells of itself. */
static void send_lines(struct show_stacks *s, FILE *f)
{
    char *line = NULL;
    const char *text;
    size_t room = 0, sent = 0;
    while ((text = stacks_next(f, &line, &room)) != NULL) {
        sent += strlen(text) + 1;
        if (sent > ALL_BYTES) {
            add_line(s, "... (more than fits: the rest is left out)");
            break;
        }
        add_line(s, text);
    }
    free(line);
}

static void send_all(struct show_stacks *s, bool whole)
{
    FILE *f = fdopen(s->fd, "r");
    begin_part(s, s->number);
    if (f == NULL) {
        add_line(s, "no stacks: no memory to read them");
        (void)close(s->fd); /* only to be read */
    } else {
        rewind(f);
        send_lines(s, f);
        (void)fclose(f); /* only read */
    }
    if (!whole)
        add_line(s, "... (the rest is missing: it took too long; the kernel "
                    "may hold the worker, such as for a disk)");
    s->fd = -1;
    send_part(s, true);
}

/* -- taking them ----------------------------------------------------------- */

static void run_helper(const struct helper_fds *fds, const void *arg)
{
    static struct stacks_of of; /* large */
    of = *(const struct stacks_of *)arg;
    rank_look_all(of.pids, of.looks, of.n);
    stacks_write(fds->chan, &of);
    _exit(0);
}

static void on_limit(uv_timer_t *timer)
{
    struct show_stacks *s = timer->data;
    ddp_assert(s->magic == SHOW_STACKS_MAGIC && s->helper > 0);
    helper_abandon(&s->helper);
    send_all(s, false);
}

static int
start(struct show_stacks *s, pid_t pid, int64_t rank, struct ddp_err *err)
{
    static struct stacks_of of; /* large */
    of = (struct stacks_of){.n = 1,
                            .tool_s = TOOL_S,
                            .go_on = true,
                            .until_us = mono_after(mono_now_us(), ALL_US),
                            .pids = {pid},
                            .looks = {{.rank = rank, .doing = RANK_UNSEEN}}};
    s->fd = memfd_create("ddprun-stacks", MFD_CLOEXEC);
    if (s->fd < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "memfd_create");
    const struct helper_fds fds = {.listener = -1, .chan = s->fd};
    if (helper_start(&s->helper, &fds, run_helper, &of, err) != 0)
        return -1;
    uv_update_time(s->limit.loop);
    (void)uv_timer_start(&s->limit, on_limit, HELPER_MS, 0);
    return 0;
}

static void drop(struct show_stacks *s)
{
    (void)uv_timer_stop(&s->limit);
    helper_abandon(&s->helper);
    if (s->fd >= 0)
        (void)close(s->fd); /* another process wrote it */
    s->fd = -1;
}

void show_stacks_begin(struct show_stacks *s,
                       const struct msg_look *look,
                       const struct msg_world *world)
{
    struct ddp_err err;
    char text[sizeof(err.text) + 32];
    int i = (int)look->local_rank;
    bool here = look->round == world->round && i < s->nproc;
    pid_t pid = here ? workers_pid(s->workers, i) : 0;
    if (s->helper != 0) {
        say(s, look->number,
            "no stacks: another operator asks for some on this node; ask "
            "again");
    } else if (pid == 0) {
        say(s, look->number, "no stacks: the worker does not run any more");
    } else if (start(s, pid, world->base_rank + i, &err) == 0) {
        s->number = look->number;
    } else {
        drop(s);
        (void)snprintf(text, sizeof(text), "no stacks: %s",
                       err.text); /* fits */
        say(s, look->number, text);
    }
}

void show_stacks_stop(struct show_stacks *s)
{
    bool busy = s->helper != 0;
    drop(s);
    if (busy)
        say(s, s->number, "no stacks: the workers are being stopped");
}

pid_t show_stacks_helper(const struct show_stacks *s)
{
    return s->helper;
}

void show_stacks_helper_ended(struct show_stacks *s)
{
    (void)uv_timer_stop(&s->limit);
    helper_abandon(&s->helper); /* reaps it */
    send_all(s, true);
}
