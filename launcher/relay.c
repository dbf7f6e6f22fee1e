#include "launcher/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/console.h"
#include "launcher/lines.h"
#include "launcher/logfile.h"
#include "launcher/stream.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define SPLICE_MOST (1024 * 1024)
#define EVENTS      64
#define RETRY_MS    20 /* where a console cannot be polled */
#define COLOURS     6
#define DRAIN_MOST  4096 /* reads: somebody may go on writing */
#define TAIL_MOST   64

struct relay {
    const struct conf *conf;
    _Atomic int64_t *seen; /* by local rank, shared with the agent; or NULL */
    int ctl;
    int events_fd; /* -1: by name */
    int epoll;
    struct console consoles[2];
    struct stream *streams;
    struct lines_tail **tails; /* by local rank, of stderr; NULL: none yet */
    struct logfile filtered[2];
    char attempt[RELAY_DIR_MAX + 1]; /* folder of `filtered` */
    struct logfile events;
    uint64_t ids;
    bool finishing;
    bool line; /* the agent will say more */
    int64_t quiet_at_us;
    int64_t hidden; /* bytes that were never shown, though files hold them */
    char chunk[STREAM_CHUNK];
};

static struct console *console_of(struct relay *r, enum conf_stream which)
{
    return &r->consoles[which == CONF_STDERR ||
                        console_same(STDOUT_FILENO, STDERR_FILENO)];
}

/* A line of ours among those of the workers; false: not now, since one of them
 * is in a long line. */
__attribute__((format(printf, 2, 3))) static bool
say(struct relay *r, const char *fmt, ...)
{
    char text[5000];
    struct console *c = &r->consoles[1];
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(text, sizeof(text), "%sddprun: ", c->mid ? "\n" : "");
    int m = vsnprintf(text + n, sizeof(text) - (size_t)n - 1, fmt, ap);
    va_end(ap);
    size_t len = strnlen(text, sizeof(text) - 2);
    text[len++] = '\n';
    if (m <= 0 || c->owner != 0)
        return false;
    c->mid = 0;
    console_put(c, text, len);
    console_flush(c);
    return true;
}

/* -- what comes -------------------------------------------------------------
 */

static void tell_loss(struct relay *r, struct logfile *f)
{
    if (f->told)
        return;
    f->told = say(r,
                  "cannot write to %s: %s; what does not fit is lost, the "
                  "workers run on",
                  f->path, strerror(f->sys_errno));
}

static void
log_to(struct relay *r, struct logfile *f, const char *data, size_t len)
{
    if (f->path != NULL && !logfile_put(f, data, len))
        tell_loss(r, f);
}

static void
filter_line(struct relay *r, struct stream *s, const char *line, size_t len)
{
    char *const *texts = r->conf->output.filters[s->which - 1].text;
    if (!lines_match(line, len, texts))
        return;
    log_to(r, s->filtered, s->prefix, s->prefix_len);
    log_to(r, s->filtered, line, len);
    if (len > 0 && line[len - 1] != '\n')
        log_to(r, s->filtered, "\n", 1);
}

/* Lines of more than RELAY_HOLD bytes are looked at in pieces. */
static void
filter(struct relay *r, struct stream *s, const char *data, size_t len)
{
    while (len > 0) {
        const char *newline = memchr(data, '\n', len);
        size_t n = newline == NULL ? len : (size_t)(newline - data) + 1;
        bool held = buf_len(&s->match) > 0;
        if (newline == NULL || held)
            (void)buf_put(&s->match, data, n);
        if (newline != NULL && !held)
            filter_line(r, s, data, n);
        if ((held && newline != NULL) || buf_len(&s->match) > RELAY_HOLD) {
            filter_line(r, s, (const char *)buf_head(&s->match),
                        buf_len(&s->match));
            buf_free(&s->match);
        }
        data += n;
        len -= n;
    }
}

static void
keep_tail(struct relay *r, const struct stream *s, const char *data, size_t len)
{
    struct lines_tail **t = &r->tails[s->local_rank];
    if (*t == NULL)
        *t = calloc(1, sizeof(**t));
    if (*t != NULL)
        lines_tail_put(*t, data, len);
}

static void
take(struct relay *r, struct stream *s, const char *data, size_t len)
{
    if (s->plan.file)
        log_to(r, &s->file, data, len);
    if (s->which == CONF_STDERR)
        keep_tail(r, s, data, len);
    if (s->filtered != NULL)
        filter(r, s, data, len);
    if (s->console != NULL)
        stream_show(s, data, len, mono_now_us());
}

/* -- a stream's end ---------------------------------------------------------
 */

static void del_stream(struct relay *r, struct stream *s)
{
    r->hidden += s->hidden;
    if (s->console != NULL)
        stream_finish_line(s);
    logfile_close(&s->file);
    buf_free(&s->part);
    buf_free(&s->left);
    buf_free(&s->match);
    free(s);
}

/* A redirected stream's last lines are in its file. */
static size_t tail_of_file(const struct stream *s, char *text)
{
    struct lines_tail t = {.end = 0};
    char data[LINES_TAIL_BYTES + 1]; /* one more shows that there is more */
    int64_t at = s->file.size - (int64_t)sizeof(data);
    ssize_t n = pread(s->file.fd, data, sizeof(data), at > 0 ? at : 0);
    if (n > 0)
        lines_tail_put(&t, data, (size_t)n);
    return lines_tail_get(&t, text);
}

/* The registration would outlive our descriptor: the agent has one of the same
 * pipe. */
static void end_reading(struct relay *r, struct stream *s)
{
    char text[LINES_TAIL_BYTES];
    if (s->fd < 0)
        return;
    if (s->spliced && s->which == CONF_STDERR)
        keep_tail(r, s, text, tail_of_file(s, text));
    if (s->filtered != NULL && buf_len(&s->match) > 0)
        filter_line(r, s, (const char *)buf_head(&s->match),
                    buf_len(&s->match)); /* the last line may have no newline */
    buf_free(&s->match);
    stream_watch(s, false);
    (void)close(s->fd); /* read only */
    s->fd = -1;
}

/* Streams of which all was read and shown. */
static void drop_ended(struct relay *r)
{
    struct stream **at = &r->streams;
    while (*at != NULL) {
        struct stream *s = *at;
        bool unseen =
            s->console != NULL && !s->console->dead && stream_is_behind(s);
        bool waits = s->console != NULL && s->console->owner != 0 &&
                     s->console->owner != s->id && buf_len(&s->part) > 0;
        if (s->fd >= 0 || unseen || waits) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        del_stream(r, s);
    }
}

/* -- reading ----------------------------------------------------------------
 */

static void count(const struct relay *r, const struct stream *s, int64_t n)
{
    if (r->seen != NULL)
        (void)atomic_fetch_add(&r->seen[s->local_rank], n);
}

/* Returns whether there may be more. */
static bool read_spliced(struct relay *r, struct stream *s)
{
    int64_t n = logfile_splice(&s->file, s->fd, SPLICE_MOST);
    if (n > 0) {
        count(r, s, n);
        return true;
    }
    if (n == 0)
        end_reading(r, s);
    else if (errno != EAGAIN && errno != EINTR)
        s->spliced = false; /* a full disk, or one that cannot do it */
    return n < 0 && errno != EAGAIN;
}

static bool read_some(struct relay *r, struct stream *s)
{
    if (s->spliced)
        return read_spliced(r, s);
    ssize_t n = read(s->fd, r->chunk, sizeof(r->chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) { /* EIO: the last holder of a terminal's other side is gone */
        end_reading(r, s);
        return false;
    }
    count(r, s, n);
    take(r, s, r->chunk, (size_t)n);
    /* With room again on the disk, back to what is cheaper. */
    s->spliced = s->plan.file && !s->plan.console && s->filtered == NULL &&
                 s->file.limit == 0 && s->file.missing == 0 && s->file.fd >= 0;
    return !s->paused;
}

static void on_readable(struct relay *r, struct stream *s)
{
    for (int i = 0; i < STREAM_READS && s->fd >= 0; i++)
        if (!read_some(r, s))
            return;
}

/* All that is there now, whoever else waits. */
static void drain(struct relay *r, struct stream *s)
{
    for (int i = 0; i < DRAIN_MOST && s->fd >= 0 && !s->paused; i++)
        if (!read_some(r, s))
            return;
}

/* -- a worker starts --------------------------------------------------------
 */

static void set_prefix(struct relay *r, struct stream *s, int64_t rank)
{
    static const int colours[COLOURS] = {36, 33, 32, 35, 34, 31};
    const struct conf *conf = r->conf;
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    const struct lines_who who = {.role = conf->role,
                                  .host = host,
                                  .local_rank = s->local_rank,
                                  .rank = rank};
    s->prefix_len =
        lines_fill(conf->output.prefix, &who, s->prefix, sizeof(s->prefix));
    if (!s->plan.prefix || s->console == NULL)
        return;
    int n = s->console->colour
                ? snprintf(s->colour, sizeof(s->colour), "\033[%dm%s\033[0m",
                           colours[s->local_rank % COLOURS], s->prefix)
                : snprintf(s->colour, sizeof(s->colour), "%s", s->prefix);
    s->colour_len = (size_t)n;
}

static const char *name_of(enum conf_stream which)
{
    return which == CONF_STDOUT ? "stdout" : "stderr";
}

/* Workers are dead: a pipe that somebody else still holds is not waited for.
 */
static void drain_all(struct relay *r)
{
    for (struct stream *s = r->streams; s != NULL; s = s->next) {
        drain(r, s);
        if (!s->paused)
            end_reading(r, s);
    }
}

/* The files of all local ranks together lie in the folder above. They are
 * changed when the first worker of an attempt starts: then all that any worker
 * of the last one wrote goes where it belongs. */
static void open_filtered(struct relay *r, const char *dir, int64_t round)
{
    char path[RELAY_DIR_MAX + 64];
    const char *slash = strrchr(dir, '/');
    size_t len = slash != NULL ? (size_t)(slash - dir) : 0;
    if (len == 0 ||
        (strncmp(r->attempt, dir, len) == 0 && r->attempt[len] == '\0'))
        return;
    drain_all(r);
    memcpy(r->attempt, dir, len);
    r->attempt[len] = '\0';
    for (int i = 0; i < 2; i++) {
        logfile_close(&r->filtered[i]);
        if (r->conf->output.filters[i].len == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%.4000s/filtered_%s.log",
                       r->attempt, name_of((enum conf_stream)(i + 1)));
        if (logfile_open(&r->filtered[i], path, round, 0, 0) != 0)
            tell_loss(r, &r->filtered[i]);
    }
}

static void
open_file(struct relay *r, struct stream *s, const struct relay_word *w)
{
    char path[RELAY_DIR_MAX + 16];
    const struct conf_output *c = &r->conf->output;
    if (w->text[0] == '\0')
        return; /* none are wanted, or the agent said why there are none */
    (void)snprintf(path, sizeof(path), "%s/%s.log", w->text, name_of(s->which));
    if (logfile_open(&s->file, path, w->round, c->rotate_size,
                     c->rotate_keep) != 0)
        tell_loss(r, &s->file);
    s->spliced = !s->plan.console && s->filtered == NULL &&
                 c->rotate_size == 0 && s->file.fd >= 0;
}

static void add_stream(struct relay *r,
                       const struct relay_word *w,
                       enum conf_stream which,
                       int fd)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)close(fd); /* the worker gets EPIPE, which is all there is */
        return;
    }
    s->id = ++r->ids;
    s->epoll = r->epoll;
    s->fd = fd;
    s->local_rank = w->local_rank;
    s->which = which;
    s->plan = conf_output_plan(&r->conf->output, w->local_rank, which);
    s->file.fd = -1;
    s->console = s->plan.console ? console_of(r, which) : NULL;
    s->filtered =
        r->filtered[which - 1].path != NULL ? &r->filtered[which - 1] : NULL;
    buf_init(&s->part, RELAY_HOLD + STREAM_CHUNK);
    buf_init(&s->match, RELAY_HOLD + STREAM_CHUNK);
    buf_init(&s->left, STREAM_LEFT);
    set_prefix(r, s, w->rank);
    if (s->plan.file)
        open_file(r, s, w);
    s->plan.file &= s->file.path != NULL;
    if (which == CONF_STDERR && r->tails[w->local_rank] != NULL)
        r->tails[w->local_rank]->end = 0;
    s->next = r->streams;
    r->streams = s;
    s->paused = true;
    stream_watch(s, true);
}

/* The last round's workers are dead: what they wrote goes into the files
 * before anything of the next one does. */
static void end_streams_of(struct relay *r, int local_rank)
{
    for (struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->local_rank == local_rank && s->fd >= 0) {
            drain(r, s);
            if (!s->paused)
                end_reading(r, s);
        }
}

static void open_worker(struct relay *r, const struct relay_word *w, int fds[2])
{
    end_streams_of(r, w->local_rank);
    open_filtered(r, w->text, w->round);
    for (int i = 0, n = 0; i < 2; i++)
        if ((w->piped >> i & 1) != 0 && fds[n] >= 0)
            add_stream(r, w, (enum conf_stream)(i + 1), fds[n++]);
}

/* -- the agent --------------------------------------------------------------
 */

/* The newest one of that local rank; NULL: there is none. */
static struct stream *find_stderr(const struct relay *r, int local_rank)
{
    struct stream *newest = NULL;
    for (struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->local_rank == local_rank && s->which == CONF_STDERR &&
            (newest == NULL || s->id > newest->id))
            newest = s;
    return newest;
}

/* What the worker wrote before it died; not more than a tail can be of, should
 * somebody else go on writing. */
static void read_rest(struct relay *r, struct stream *s)
{
    bool more = true;
    for (int i = 0; more && i < TAIL_MOST; i++)
        more = s->fd >= 0 && buf_len(&s->left) < STREAM_LEFT / 2 &&
               (read_some(r, s) || s->paused);
}

static void answer_tail(struct relay *r, int local_rank)
{
    char text[LINES_TAIL_BYTES] = "";
    size_t len = 0;
    struct stream *s = find_stderr(r, local_rank);
    if (s != NULL)
        read_rest(r, s);
    if (s != NULL && s->spliced && s->fd >= 0)
        len = tail_of_file(s, text);
    if (len == 0 && r->tails[local_rank] != NULL)
        len = lines_tail_get(r->tails[local_rank], text);
    /* Nothing is one NUL: Linux sends no empty datagram on such a socket. */
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
    log_to(r, &r->events, line, strlen(line));
}

static void obey(struct relay *r, const struct relay_word *w, int fds[2])
{
    switch ((enum relay_kind)w->kind) {
    case RELAY_OPEN:
        open_worker(r, w, fds);
        return;
    case RELAY_TAIL:
        answer_tail(r, w->local_rank);
        return;
    case RELAY_EVENT:
        write_event(r, w->text);
        return;
    case RELAY_FINISH:
        r->finishing = true;
        r->line = w->line;
        return;
    }
    DDP_WRONG("word");
}

/* Returns whether there may be another one. */
static bool hear_agent(struct relay *r)
{
    struct relay_word w;
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
    if (n < (ssize_t)RELAY_WORD_SIZE(0)) {
        r->finishing = true; /* it is gone */
        return false;
    }
    *((char *)&w + n) = '\0';
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c != NULL && c->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
    obey(r, &w, fds);
    return !r->finishing;
}

/* -- time -------------------------------------------------------------------
 */

static bool has_unfinished(const struct relay *r)
{
    for (const struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->console != NULL &&
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

/* -- the loop ---------------------------------------------------------------
 */

/* Shows what waits, and who had a turn is the last of the next ones. True:
 * there is more. */
static bool catch_up(struct relay *r)
{
    bool behind = false;
    struct stream *served = NULL, **last = &served, **at = &r->streams;
    while (*at != NULL) {
        struct stream *s = *at;
        bool waits = s->console != NULL && stream_is_behind(s);
        bool had_turn = waits && stream_catch_up(s, r->chunk, STREAM_CHUNK);
        behind |= waits && stream_is_behind(s);
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
    return behind;
}

/* What waits for the consoles; true: they are full. */
static bool push(struct relay *r)
{
    bool behind = catch_up(r);
    for (int i = 0; i < 2; i++)
        console_flush(&r->consoles[i]);
    drop_ended(r);
    return behind || console_waiting(&r->consoles[0]) > 0 ||
           console_waiting(&r->consoles[1]) > 0;
}

/* EPOLLONESHOT: asked for each time that something waits. False: one cannot
 * tell when it has room. */
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
        if (c->waits && epoll_ctl(r->epoll, EPOLL_CTL_MOD, c->fd, &ev) != 0 &&
            epoll_ctl(r->epoll, EPOLL_CTL_ADD, c->fd, &ev) != 0)
            c->waits = false;
        tells &= c->waits;
    }
    return tells;
}

static uint64_t taken_by_consoles(const struct relay *r)
{
    return r->consoles[0].taken + r->consoles[1].taken;
}

/* Whether a stream is behind whose console has taken all there was. */
static bool has_room(const struct relay *r)
{
    for (const struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->console != NULL && stream_is_behind(s) &&
            console_waiting(s->console) == 0)
            return true;
    return false;
}

static bool is_console(const struct relay *r, const void *p)
{
    return p == &r->consoles[0] || p == &r->consoles[1];
}

/* One round of the loop; `wait_ms` -1: until something happens. */
static void turn(struct relay *r, int wait_ms)
{
    struct epoll_event evs[EVENTS];
    uint64_t taken = taken_by_consoles(r);
    bool full = push(r);
    int quiet_ms = look_at_quiet(r);
    if (full && !wait_for_consoles(r))
        wait_ms = RETRY_MS;
    if (full && taken_by_consoles(r) != taken && has_room(r))
        wait_ms = 0; /* nobody will say so: it is not waited for */
    if (quiet_ms >= 0 && (wait_ms < 0 || quiet_ms < wait_ms))
        wait_ms = quiet_ms;
    int n = epoll_wait(r->epoll, evs, EVENTS, wait_ms);
    for (int i = 0; i < n; i++) {
        void *p = evs[i].data.ptr;
        if (p != NULL && !is_console(r, p))
            on_readable(r, p);
    }
    /* Streams come and go by its words: not while others are in hand. */
    while (!r->finishing && hear_agent(r))
        ;
}

static void finish(struct relay *r)
{
    int64_t moved_us = mono_now_us();
    uint64_t taken = 0;
    drain_all(r);
    while (push(r) || r->streams != NULL) {
        uint64_t now_taken = taken_by_consoles(r);
        if (now_taken != taken)
            moved_us = mono_now_us();
        taken = now_taken;
        if (mono_now_us() > moved_us + RELAY_STUCK_MS * MONO_MS)
            break;
        turn(r, 100);
        drain_all(r);
    }
    for (const struct stream *t = r->streams; t != NULL; t = t->next)
        r->hidden += t->hidden;
    if (r->hidden > 0)
        (void)say(
            r,
            "%lld bytes of output were not shown here; the log files have "
            "them",
            (long long)r->hidden);
    if (r->line && r->consoles[1].mid != 0)
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
    if (r.tails == NULL || r.epoll < 0 ||
        epoll_ctl(r.epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
        _exit(ddp_code_exit(DDP_E_NOMEM));
    /* Our log and inherited streams of workers go there, too. */
    bool shared = console_same(STDOUT_FILENO, STDERR_FILENO);
    for (int i = 0; i < r.conf->nproc; i++)
        shared |= !conf_output_plan(&r.conf->output, i, CONF_STDOUT).piped;
    console_open(&r.consoles[0], STDOUT_FILENO, shared);
    console_open(&r.consoles[1], STDERR_FILENO, true);
    while (!r.finishing)
        turn(&r, -1);
    finish(&r);
    _exit(0);
}
