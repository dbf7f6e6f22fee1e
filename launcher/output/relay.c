/*
 * Happy path: one epoll loop. The agent's socket brings workers, each with its
 * pipes; what can be read from a pipe goes to relay_intake; what the consoles
 * did not take at once is shown in turns (catch_up), the streams that had a
 * turn last. After RELAY_FINISH everything is read, shown and written, and the
 * process ends.
 *
 * Failure modes:
 * - The agent is gone: its socket has an end. The same as RELAY_FINISH.
 * - A console takes nothing: streams with a log file go on, the others wait. At
 *   the end it is waited for as long as it takes something at least every
 *   RELAY_STUCK_MS, after a signal RELAY_HURRY_MS in all; what is not shown
 *   then is counted, and said.
 * - A console has no reader any more: no event tells of streams that waited for
 *   it. Whatever the reason, the loop never sleeps for long while a stream
 *   waits that could go on (can_go_on).
 * - A console cannot be polled, or took less than it said: tried again after
 *   RETRY_MS.
 * - No descriptor is free for a worker's pipes, since consoles that stand still
 *   keep log files of older rounds open: this process says so, ends, and the
 *   agent starts another one.
 * - A stream is busy: STREAM_READS reads, then the others have their turn.
 * - This process is killed: the agent holds copies of all pipes and starts
 *   another one (output_restart). What was in memory is lost.
 */
#include "launcher/output/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/output/relay_priv.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define EVENTS   64
#define RETRY_MS 20 /* for a console that cannot be polled */

/* -- the agent ------------------------------------------------------------- */

static void answer_tail(struct relay *r, int local_rank)
{
    char text[LINES_TAIL_BYTES] = "";
    size_t len = relay_tail(r, local_rank, text);
    /* "Nothing" is one NUL: Linux sends no empty datagram on such a socket. */
    (void)send(r->ctl, text, len > 0 ? len : 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void write_event(struct relay *r, const char *line)
{
    char of_fd[32];
    const char *path = r->conf->output.events;
    if (r->events_fd >= 0) {
        (void)snprintf(of_fd, sizeof(of_fd), "/dev/fd/%d", r->events_fd);
        path = of_fd;
    }
    if (r->events.path == NULL && path[0] != '\0') {
        r->events =
            (struct logfile){.fd = -1, .append = true, .path = strdup(path)};
        if (r->events.path == NULL)
            return;
    }
    (void)relay_log(r, &r->events, line, strlen(line));
}

static void obey(struct relay *r, const struct relay_msg *w, int fds[2])
{
    ddp_assert(r->phase == RELAY_RUNNING);
    switch ((enum relay_kind)w->kind) {
    case RELAY_OPEN:
        relay_open_worker(r, w, fds);
        return;
    case RELAY_TAIL:
        answer_tail(r, w->local_rank);
        return;
    case RELAY_EVENT:
        write_event(r, w->text);
        return;
    case RELAY_INTERRUPTED:
        r->interrupted = true;
        return;
    case RELAY_FINISH:
        r->phase = w->line ? RELAY_FINISHING_LINE : RELAY_FINISHING;
        r->hurry = w->hurry != 0;
        return;
    }
    DDP_WRONG("kind of relay_msg");
}

/* The agent keeps copies: the next relay reads on in these pipes. */
static void give_up(struct relay *r, int local_rank)
{
    (void)console_say(&r->consoles[1],
                      "no file descriptor is free for the output of the "
                      "worker with local rank %d (ulimit -n)",
                      local_rank);
    r->phase = RELAY_FINISHING;
    r->hurry = true;
    r->status = ddp_code_exit(DDP_E_NOMEM);
}

/* Takes the descriptors that came along, and returns how many there are. Those
 * that this process has no room for are missing (MSG_CTRUNC). */
static size_t take_fds(struct msghdr *m, int fds[2])
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(m);
    if (c == NULL || c->cmsg_type != SCM_RIGHTS)
        return 0;
    size_t bytes = c->cmsg_len - CMSG_LEN(0);
    ddp_assert(bytes <= 2 * sizeof(fds[0]));
    memcpy(fds, CMSG_DATA(c), bytes);
    return bytes / sizeof(fds[0]);
}

/* Returns whether there may be another one. */
static bool hear_agent(struct relay *r)
{
    struct relay_msg w;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = &w, .iov_len = sizeof(w) - 1};
    struct msghdr m = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    int fds[2] = {-1, -1};
    ssize_t n = recvmsg(r->ctl, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < (ssize_t)RELAY_MSG_SIZE(0)) {
        r->phase = RELAY_FINISHING; /* it is gone */
        return false;
    }
    *((char *)&w + n) = '\0';
    size_t wanted = (w.piped & 1u) + (w.piped >> 1 & 1u);
    if (take_fds(&m, fds) < wanted) {
        give_up(r, w.local_rank); /* and what came goes with this process */
        return false;
    }
    obey(r, &w, fds);
    return r->phase == RELAY_RUNNING;
}

/* -- time ------------------------------------------------------------------ */

static bool has_unfinished(const struct relay *r)
{
    for (const struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->console != NULL && s->console->kind != CONSOLE_DEAD &&
            (buf_len(&s->part) > 0 || s->console->owner == s->id))
            return true;
    return false;
}

static int look_at_quiet(struct relay *r)
{
    if (!has_unfinished(r)) {
        r->quiet_at_us = MONO_NEVER;
        return -1;
    }
    int64_t now = mono_now_us();
    if (r->quiet_at_us == MONO_NEVER)
        r->quiet_at_us = now + RELAY_QUIET_MS * MONO_MS;
    if (now >= r->quiet_at_us) {
        for (struct stream *s = r->streams; s != NULL; s = s->next)
            stream_show_quiet(s, now);
        r->quiet_at_us = now + RELAY_QUIET_MS * MONO_MS;
    }
    return (int)mono_ms_until(now, r->quiet_at_us);
}

/* -- the loop -------------------------------------------------------------- */

/* Shows what waits. A stream that had a turn goes to the end of the list. */
static void catch_up(struct relay *r)
{
    struct stream *served = NULL, **last = &served, **at = &r->streams;
    while (*at != NULL) {
        struct stream *s = *at;
        bool waits = s->console != NULL && stream_is_behind(s);
        bool had_turn = waits && stream_catch_up(s, r->chunk, STREAM_CHUNK);
        if (!had_turn) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->next = NULL;
        *last = s;
        last = &s->next;
    }
    *at = served;
}

static bool is_behind(const struct relay *r)
{
    for (const struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->console != NULL && stream_is_behind(s))
            return true;
    return false;
}

/* What waits for the consoles; true: they are full. */
static bool push(struct relay *r)
{
    catch_up(r);
    for (int i = 0; i < 2; i++)
        console_flush(&r->consoles[i]);
    relay_drop_ended(r);
    return is_behind(r) || console_waiting(&r->consoles[0]) > 0 ||
           console_waiting(&r->consoles[1]) > 0;
}

/* EPOLLONESHOT, since it is asked for only while something waits. False: epoll
 * cannot tell when there is room. */
static bool wait_for_consoles(struct relay *r)
{
    bool tells = true;
    for (int i = 0; i < 2; i++) {
        struct console *c = &r->consoles[i];
        struct epoll_event ev = {.events = EPOLLOUT | EPOLLONESHOT,
                                 .data.ptr = c};
        if (console_waiting(c) == 0)
            continue;
        if (console_rests(c)) {
            tells = false;
            continue;
        }
        if (c->pollable &&
            epoll_ctl(r->epoll, EPOLL_CTL_MOD, c->fd, &ev) != 0 &&
            epoll_ctl(r->epoll, EPOLL_CTL_ADD, c->fd, &ev) != 0)
            c->pollable = false;
        tells &= c->pollable;
    }
    return tells;
}

static uint64_t gone(const struct relay *r)
{
    return r->consoles[0].gone + r->consoles[1].gone;
}

/* Whether a stream is behind, but nothing waits in its console: it has taken
 * all there was, or died. No event will come for that stream. */
static bool can_go_on(const struct relay *r)
{
    for (const struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->console != NULL && console_waiting(s->console) == 0 &&
            stream_may_catch_up(s))
            return true;
    return false;
}

/* stdout is a file on a full disk: said once, where stderr is another one. */
static void tell_full(struct relay *r)
{
    const struct console *out = &r->consoles[0];
    if (out->lost > 0 && !r->told_full)
        r->told_full = console_say(
            &r->consoles[1],
            "cannot write to stdout: %s; output that does not fit is lost "
            "there, the workers keep running",
            strerror(out->sys_errno));
}

/* One round of the loop; `wait_ms` -1: until something happens. */
static void turn(struct relay *r, int wait_ms)
{
    struct epoll_event evs[EVENTS];
    uint64_t before = gone(r);
    bool full = push(r);
    tell_full(r);
    int quiet_ms = look_at_quiet(r);
    if (full && !wait_for_consoles(r))
        wait_ms = RETRY_MS;
    if (full && can_go_on(r)) /* not at once again if memory is short */
        wait_ms = gone(r) != before ? 0 : RETRY_MS;
    if (quiet_ms >= 0 && (wait_ms < 0 || quiet_ms < wait_ms))
        wait_ms = quiet_ms;
    int n = epoll_wait(r->epoll, evs, EVENTS, wait_ms);
    for (int i = 0; i < 2; i++)
        console_revive(&r->consoles[i]);
    /* What the agent says comes first: that there was Ctrl-C it says before the
     * workers get theirs. Its messages make and free streams, to which `evs`
     * points, so these are read in the next turn. */
    bool spoken = false;
    for (int i = 0; i < n; i++)
        spoken |= r->phase == RELAY_RUNNING && evs[i].data.ptr == NULL;
    while (spoken && r->phase == RELAY_RUNNING && hear_agent(r))
        ;
    for (int i = 0; i < n && !spoken; i++) {
        void *p = evs[i].data.ptr; /* NULL: the agent */
        if (p != NULL && p != &r->consoles[0] && p != &r->consoles[1])
            relay_read(r, stream_of(p));
    }
}

/* The folders of all attempts are in one. */
static void tell_hidden(struct relay *r)
{
    int64_t n = r->hidden + r->partly;
    const char *slash = strrchr(r->attempt, '/');
    const char *what = n == 1 ? "it" : "them";
    if (n > 0)
        (void)console_say(
            &r->consoles[1],
            "%lld byte%s of output not shown here; the log files in %.*s have "
            "%s",
            (long long)n, n == 1 ? "" : "s",
            slash != NULL ? (int)(slash - r->attempt) : 0, r->attempt,
            r->partly > 0 ? "a part of it" : what);
}

static void tell_interrupted(struct relay *r)
{
    int workers = 0;
    int64_t lines = 0;
    for (int i = 0; i < r->conf->nproc; i++) {
        workers += r->hushed[i] > 0;
        lines += r->hushed[i];
    }
    if (workers > 0)
        (void)console_say(
            &r->consoles[1],
            "%lld more line%s on stderr after Ctrl-C, of %d other "
            "worker%s%s",
            (long long)lines, lines == 1 ? "" : "s", workers,
            workers == 1 ? "" : "s",
            r->conf->output.files
                ? ": in the log files"
                : " (--redirects and --tee keep them in files)");
}

/* What the consoles did not take in time. */
static void tell_unseen(struct relay *r)
{
    struct console *err = &r->consoles[1];
    tell_interrupted(r);
    for (const struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->console != NULL)
            relay_count_unseen(r, s);
    for (int i = 0; i < 2; i++) {
        const struct console *c = &r->consoles[i];
        int64_t n = (int64_t)console_waiting(c); /* in its own memory */
        if (c->copied && c->sole)
            r->partly += n;
        else if (c->copied)
            r->hidden += n;
        else if (c->sole) /* else it is ddprun's own */
            r->lost += n;
    }
    tell_hidden(r);
    if (r->lost > 0)
        (void)console_say(err,
                          "%lld byte%s of output lost: the console did not "
                          "take %s in time",
                          (long long)r->lost, r->lost == 1 ? "" : "s",
                          r->lost == 1 ? "it" : "them");
    if (r->consoles[0].lost > 0)
        (void)console_say(err, "%llu byte%s of stdout lost: %s",
                          (unsigned long long)r->consoles[0].lost,
                          r->consoles[0].lost == 1 ? "" : "s",
                          strerror(r->consoles[0].sys_errno));
}

static void finish(struct relay *r)
{
    uint64_t before = 0;
    ddp_assert(r->phase != RELAY_RUNNING);
    relay_drain(r);
    int64_t moved_us = mono_awake_us(); /* the log files have everything */
    int64_t until_us =
        r->hurry ? moved_us + RELAY_HURRY_MS * MONO_MS : MONO_NEVER;
    while (push(r) || r->streams != NULL) {
        int64_t now_us = mono_awake_us(); /* readers sleep in a suspend, too */
        if (gone(r) != before)
            moved_us = now_us;
        before = gone(r);
        if (now_us > until_us || now_us > moved_us + RELAY_STUCK_MS * MONO_MS)
            break;
        turn(r, 100);
        relay_drain(r);
    }
    tell_unseen(r);
    if (r->phase == RELAY_FINISHING_LINE && r->consoles[1].mid != 0)
        console_put(&r->consoles[1], "\n", 1);
    console_flush(&r->consoles[1]);
}

void relay_main(int fd,
                int events_fd,
                const struct conf *conf,
                _Atomic int64_t *seen)
{
    static struct relay r;
    r.conf = conf;
    r.seen = seen;
    r.ctl = fd;
    r.events_fd = events_fd;
    r.quiet_at_us = MONO_NEVER;
    r.filtered[0].fd = r.filtered[1].fd = r.events.fd = -1;
    r.tails = calloc((size_t)r.conf->nproc, sizeof(struct lines_tail *));
    r.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    r.hushed = calloc((size_t)r.conf->nproc, sizeof(*r.hushed));
    if (r.tails == NULL || r.hushed == NULL || r.epoll < 0 ||
        epoll_ctl(r.epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        log_warn("the process for the workers' output cannot start");
        _exit(ddp_code_exit(DDP_E_NOMEM));
    }
    (void)gethostname(r.host, sizeof(r.host) - 1);
    r.one_console = console_same(STDOUT_FILENO, STDERR_FILENO);
    /* Our own log and the workers' inherited streams go there, too. */
    bool shared = r.one_console;
    for (int i = 0; i < r.conf->nproc; i++) {
        struct conf_plan plan =
            conf_output_plan(&r.conf->output, i, CONF_STDOUT);
        shared |= !plan.piped && !plan.null;
    }
    console_open(&r.consoles[0], STDOUT_FILENO, shared);
    console_open(&r.consoles[1], STDERR_FILENO, true);
    r.consoles[1].timed = conf->output.timestamps;
    while (r.phase == RELAY_RUNNING)
        turn(&r, -1);
    finish(&r);
    _exit(r.status);
}
