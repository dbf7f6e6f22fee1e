/*
 * Happy path: the first line says by which mark frames are known. The hub
 * says hello, executes what it is told, and carries bytes until stdin ends.
 *
 * Failure modes:
 * - The end of stdin, what is no frame, or no word for BEATS_MS (the front end
 *   tells each proxy every second that it lives): the front end is gone. The
 *   stdins of all commands are closed, and their proxies end their launchers.
 *   The hub waits for that: its own end would kill the commands at once.
 * - The front end reads nothing: no more than HELD is kept, and the commands
 *   are not read. Both streams are apart, since its consoles are.
 * - A command leaves something behind that holds its stderr: not waited for
 *   longer than LAST_US.
 */
#include "launcher/front/hub.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "launcher/front/child.h"
#include "launcher/front/frames.h"
#include "launcher/front/orders.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define START_MS 60000
#define BEATS_MS 20000
#define HELD     (256u * 1024u)
#define LAST_US  MONO_S
#define TICK_MS  250
#define RETRY_US 10000
#define NUMBERS  600 /* more than hosts in a list */

struct hub {
    char mark[ORDERS_MARK_LEN + 1];
    struct front_child *child[NUMBERS]; /* NULL: was not told */
    struct buf in;
    struct buf to[2]; /* for stdout and stderr of the hub */
    struct console none;
    int signal_fd;
    sigset_t before;
    int64_t heard_us;
    bool gone;   /* the front end */
    bool paused; /* it stops (Ctrl-Z), and says nothing until it goes on */
    int n;       /* numbers below it may be there */
    struct pollfd fds[4 + 3 * NUMBERS];
};

/* -- to the front end ------------------------------------------------------ */

static void put(struct hub *r,
                int which,
                enum frame_kind kind,
                int number,
                const char *data,
                size_t len)
{
    char head[FRAMES_HEAD_MAX];
    size_t n = frames_head(head, r->mark, kind, number, len);
    if (r->gone || buf_put(&r->to[which], head, n) < 0)
        return;
    if (len > 0 && buf_put(&r->to[which], data, len) < 0)
        buf_cut(&r->to[which], buf_len(&r->to[which]) - n);
}

/* False: nobody can read it. */
static bool flush(struct hub *r, int which)
{
    static const int fds[] = {STDOUT_FILENO, STDERR_FILENO};
    struct buf *b = &r->to[which];
    struct pollfd p = {.fd = fds[which], .events = POLLOUT};
    while (buf_len(b) > 0 && poll(&p, 1, 0) == 1) {
        size_t len =
            buf_len(b) < 4096 ? buf_len(b) : 4096; /* as a pipe takes */
        ssize_t n = write(fds[which], buf_head(b), len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return true;
        if (n <= 0)
            return false;
        buf_take(b, (size_t)n);
    }
    return true;
}

/* -- commands -------------------------------------------------------------- */

static void execute(struct hub *r, const struct frame *f)
{
    struct ddp_err err;
    struct command w = {.n = 0};
    struct front_child *k = calloc(1, sizeof(*k));
    for (size_t at = 0; at < f->len; at += strlen(f->data + at) + 1)
        command_add(&w, f->data + at);
    if (k != NULL) {
        front_child_init(k, "a host");
        r->child[f->number] = k;
        r->n = f->number >= r->n ? f->number + 1 : r->n;
    }
    if (k == NULL || front_child_start(k, &w, true, &r->before, &r->none,
                                       &r->none, 1, &err) < 0) {
        if (k != NULL)
            front_child_skip(k);
        put(r, 0, FRAME_BYTES, f->number, NULL, 0);
        put(r, 1, FRAME_END, f->number, "255", 3);
    }
    command_free(&w);
}

static void lose(struct hub *r)
{
    if (r->gone)
        return;
    r->gone = true;
    for (int i = 0; i < 2; i++)
        buf_take(&r->to[i], buf_len(&r->to[i]));
    for (int i = 0; i < r->n; i++)
        if (r->child[i] != NULL) {
            (void)orders_put(&r->child[i]->orders, ORDER_GONE, 0);
            front_child_hang_up(r->child[i]);
        }
}

static bool is_words(const struct frame *f)
{
    return f->len > 0 && f->data[f->len - 1] == '\0';
}

/* The last that a proxy is told before the front end stops. */
static bool is_pause(const struct frame *f)
{
    char order[32];
    int n = snprintf(order, sizeof(order), "signal %d\n", /* messages: ok */
                     SIGTSTP);
    return f->len >= (size_t)n &&
           memcmp(f->data + f->len - (size_t)n, order, (size_t)n) == 0;
}

static void hear(struct hub *r, const struct frame *f)
{
    struct front_child *k = f->number < NUMBERS ? r->child[f->number] : NULL;
    if (f->kind == FRAME_START && k == NULL && f->number < NUMBERS &&
        is_words(f)) {
        execute(r, f);
    } else if (f->kind == FRAME_INPUT && k != NULL) {
        if (front_child_lives(k) && buf_put(&k->orders, f->data, f->len) < 0)
            front_child_kill(k, SIGKILL); /* it would miss a part */
        front_child_write(k);
        r->paused = is_pause(f);
    } else if (f->kind == FRAME_KILL && k != NULL) {
        front_child_kill(k, SIGKILL);
    } else {
        lose(r);
    }
}

static void hear_front(struct hub *r)
{
    struct frame f;
    uint8_t *room = buf_reserve(&r->in, FRAMES_DATA_MAX);
    ssize_t n = room != NULL ? read(STDIN_FILENO, room, FRAMES_DATA_MAX) : -1;
    if (room == NULL || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    if (n <= 0) {
        lose(r);
        return;
    }
    r->heard_us = mono_now_us();
    buf_commit(&r->in, (size_t)n);
    while (!r->gone && frames_find((const char *)buf_head(&r->in),
                                   buf_len(&r->in), r->mark, &f)) {
        if (f.plain > 0)
            break;
        hear(r, &f);
        buf_take(&r->in, f.used);
    }
    if (f.plain > 0 && !r->gone)
        lose(r);
}

/* -- what commands write --------------------------------------------------- */

static void
read_child(struct hub *r, int number, int which, struct front_stream *s)
{
    char data[4096];
    ssize_t n = read(s->fd, data, sizeof(data));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    s->last_us = mono_now_us();
    if (n > 0) {
        put(r, which, FRAME_BYTES, number, data, (size_t)n);
        return;
    }
    front_stream_close(s);
    if (which == 0)
        put(r, 0, FRAME_BYTES, number, NULL, 0);
}

static bool has_more(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

/* Said once: what is told of it is `told`. */
static void look_at(struct hub *r, int number, int64_t now_us)
{
    char digits[12];
    struct front_child *k = r->child[number];
    (void)front_child_reap(k, now_us);
    if (k->told || k->state != CHILD_ENDED)
        return;
    struct front_stream *const streams[] = {&k->out, &k->err};
    for (int i = 0; i < 2; i++) {
        struct front_stream *s = streams[i];
        int64_t last_us = s->last_us > k->since_us ? s->last_us : k->since_us;
        if (s->fd >= 0 && buf_len(&r->to[i]) < HELD &&
            now_us >= last_us + LAST_US && !has_more(s->fd)) {
            front_stream_close(s);
            if (i == 0)
                put(r, 0, FRAME_BYTES, number, NULL, 0);
        }
    }
    if (k->out.fd >= 0 || k->err.fd >= 0)
        return;
    k->told = true;
    int n = snprintf(digits, sizeof(digits), "%d", k->status);
    put(r, 1, FRAME_END, number, digits, (size_t)n);
}

/* -- the loop -------------------------------------------------------------- */

static void fill_fds(struct hub *r)
{
    struct pollfd *p = r->fds;
    p[0] = (struct pollfd){.fd = r->gone ? -1 : STDIN_FILENO, .events = POLLIN};
    p[1] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        p[2 + i] = (struct pollfd){.fd = buf_len(&r->to[i]) == 0 ? -1
                                         : i == 0                ? STDOUT_FILENO
                                                  : STDERR_FILENO,
                                   .events = POLLOUT};
    for (int i = 0; i < r->n; i++) {
        const struct front_child *k = r->child[i];
        p = &r->fds[4 + 3 * i];
        p[0] = p[1] = p[2] = (struct pollfd){.fd = -1};
        if (k == NULL)
            continue;
        p[0] = (struct pollfd){.fd = buf_len(&k->orders) > 0 ? k->in_fd : -1,
                               .events = POLLOUT};
        p[1] = (struct pollfd){.fd = buf_len(&r->to[0]) < HELD ? k->out.fd : -1,
                               .events = POLLIN};
        p[2] = (struct pollfd){.fd = buf_len(&r->to[1]) < HELD ? k->err.fd : -1,
                               .events = POLLIN};
    }
}

static void hear_children(struct hub *r)
{
    for (int i = 0; i < r->n; i++) {
        const struct pollfd *p = &r->fds[4 + 3 * i];
        struct front_child *k = r->child[i];
        if (k == NULL)
            continue;
        if (p[0].fd >= 0 && p[0].revents != 0)
            front_child_write(k);
        if (p[1].fd >= 0 && p[1].revents != 0)
            read_child(r, i, 0, &k->out);
        if (p[2].fd >= 0 && p[2].revents != 0)
            read_child(r, i, 1, &k->err);
    }
}

static bool is_over(const struct hub *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->child[i] != NULL && front_child_lives(r->child[i]))
            return false;
    return r->gone;
}

static void look(struct hub *r)
{
    struct signalfd_siginfo info;
    int64_t now_us = mono_now_us();
    while (read(r->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        continue; /* each child is asked */
    if (!r->paused && now_us >= r->heard_us + BEATS_MS * MONO_MS)
        lose(r);
    for (int i = 0; i < r->n; i++)
        if (r->child[i] != NULL)
            look_at(r, i, now_us);
}

static void run(struct hub *r)
{
    while (!is_over(r)) {
        fill_fds(r);
        if (poll(r->fds, (nfds_t)(4 + 3 * r->n), TICK_MS) < 0 && errno != EINTR)
            (void)usleep(RETRY_US); /* no memory: what is readable stays so */
        else
            hear_children(r);
        if (r->fds[0].fd >= 0 && r->fds[0].revents != 0)
            hear_front(r);
        look(r);
        if (!flush(r, 0) || !flush(r, 1))
            lose(r);
    }
}

/* -- the start ------------------------------------------------------------- */

/* A byte at a time: what is behind the line are frames. */
static bool read_line(char line[HUB_LINE_MAX])
{
    int64_t until_us = mono_now_us() + START_MS * MONO_MS;
    for (size_t len = 0; len < HUB_LINE_MAX;) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        int64_t now_us = mono_now_us();
        if (now_us >= until_us)
            return false;
        if (poll(&p, 1, (int)mono_ms_until(now_us, until_us)) <= 0)
            continue;
        ssize_t n = read(STDIN_FILENO, line + len, 1);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return false;
        if (n == 1 && line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
        len += n == 1;
    }
    return false;
}

static bool read_start(struct hub *r)
{
    char line[HUB_LINE_MAX];
    size_t word = strlen(HUB_WORD);
    if (!read_line(line) || strncmp(line, HUB_WORD, word) != 0 ||
        strspn(line + word, "0123456789abcdef") != ORDERS_MARK_LEN ||
        line[word + ORDERS_MARK_LEN] != ' ')
        return false;
    memcpy(r->mark, line + word, ORDERS_MARK_LEN);
    int rc = chdir(line + word + ORDERS_MARK_LEN + 1);
    (void)rc; /* each proxy says it if the folder is not there */
    return true;
}

/* The same as a proxy's: nothing but the front end ends it. */
static int take_signals(struct hub *r)
{
    sigset_t set;
    (void)sigfillset(&set);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigprocmask(SIG_BLOCK, &set, &r->before);
    r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signal_fd < 0 ? -1 : 0;
}

int hub_main(void)
{
    static struct hub r;
    (void)prctl(PR_SET_PDEATHSIG, 0); /* its end comes by stdin */
    if (!read_start(&r)) {
        log_warnx("what came on stdin is not from the front end of a ddprun of "
                  "this version");
        return ddp_code_exit(DDP_E_PROTO);
    }
    if (take_signals(&r) < 0) {
        log_warn("cannot make a signalfd");
        return ddp_code_exit(DDP_E_NOMEM);
    }
    buf_init(&r.in, 2 * FRAMES_MAX);
    buf_init(&r.to[0], HELD + 64 * FRAMES_MAX);
    buf_init(&r.to[1], HELD + 64 * FRAMES_MAX);
    r.heard_us = mono_now_us();
    put(&r, 1, FRAME_HELLO, 0, NULL, 0);
    run(&r);
    for (int i = 0; i < r.n; i++)
        if (r.child[i] != NULL)
            front_child_free(r.child[i]);
    return 0;
}
