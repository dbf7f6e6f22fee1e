/*
 * Happy path: what is read goes into the last lines that are kept of stderr,
 * through the filters, into the stream's log file and to the console, in this
 * order. The times of --log_timestamps come before each line of the last
 * three. A stream that only goes to a file is spliced there instead, without a
 * copy, and its last lines are read from the file when it ends.
 *
 * Failure modes:
 * - The disk is full, or cannot splice: what does not fit is counted, said
 *   once, and marked in the file; splicing goes on when there is room again.
 * - A process that the worker started still holds the pipe after the worker's
 *   end: the stream has no end. What is there is read when the next worker
 *   comes to that place, or at the end, at most DRAIN_MOST reads of it.
 * - The last words of a worker are wanted while its stream waits for the
 *   console: they are read nevertheless, as far as `left` has room (read_rest).
 */
#include "launcher/output/relay_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/utc.h"

#define SPLICE_MOST (1024 * 1024)
#define COLOURS     6
#define DRAIN_MOST  4096 /* reads: another process may go on writing */
#define TAIL_MOST   64

/* -- what comes ------------------------------------------------------------ */

static void tell_loss(struct relay *r, struct logfile *f)
{
    if (f->told)
        return;
    f->told =
        console_say(&r->consoles[1],
                    "cannot write to %s: %s; %s lost, the workers keep running",
                    f->path, strerror(f->sys_errno),
                    f == &r->events ? "events that do not fit are"
                                    : "output that does not fit is");
}

bool relay_log(struct relay *r, struct logfile *f, const char *data, size_t len)
{
    bool good = f->path != NULL && logfile_put(f, data, len);
    if (f->path != NULL && !good)
        tell_loss(r, f);
    return good;
}

static void
filter_line(struct relay *r, struct stream *s, const char *line, size_t len)
{
    char *const *texts = r->conf->output.filters[s->which - 1].text;
    if (!lines_match(line, len, texts))
        return;
    (void)relay_log(r, s->filtered, s->prefix, s->prefix_len);
    if (s->timed)
        (void)relay_log(r, s->filtered, r->now, strlen(r->now));
    (void)relay_log(r, s->filtered, line, len);
    if (len > 0 && line[len - 1] != '\n')
        (void)relay_log(r, s->filtered, "\n", 1);
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

/* As it goes to the file and the console. Returns its length. */
static size_t
add_times(struct relay *r, const struct stream *s, const char *data, size_t len)
{
    ddp_assert(len <= RELAY_TIMED);
    char now[UTC_MAX];
    utc_now(now, UTC_MILLIS);
    (void)snprintf(r->now, sizeof(r->now), "%s ", now);
    return lines_prefix(data, len, s->inside, r->now, strlen(r->now), r->timed);
}

/* One traceback says it all. */
static bool is_hushed(const struct relay *r, const struct stream *s)
{
    return r->interrupted && s->which == CONF_STDERR && s->local_rank > 0;
}

static void
take(struct relay *r, struct stream *s, const char *data, size_t len)
{
    if (s->which == CONF_STDERR)
        keep_tail(r, s, data, len);
    if (s->timed) {
        size_t timed = add_times(r, s, data, len);
        if (s->filtered != NULL)
            filter(r, s, data, len);
        data = r->timed;
        len = timed;
    } else if (s->filtered != NULL) {
        filter(r, s, data, len);
    }
    s->inside = data[len - 1] != '\n';
    if (s->plan.file)
        s->gap |= !relay_log(r, &s->file, data, len);
    if (s->console != NULL && is_hushed(r, s))
        r->hushed[s->local_rank] += (int64_t)lines_count(data, len);
    else if (s->console != NULL)
        stream_show(s, data, len, mono_now_us());
}

/* -- a stream's end -------------------------------------------------------- */

/* What was read, and put into the file if there is one. */
static void add_unseen(struct relay *r, const struct stream *s, size_t n)
{
    if (s->plan.file && s->gap)
        r->partly += (int64_t)n;
    else if (s->plan.file)
        r->hidden += (int64_t)n;
    else
        r->lost += (int64_t)n;
}

static void add_skipped(struct relay *r, const struct stream *s)
{
    ddp_assert(s->hidden >= 0 && s->lost >= 0);
    r->hidden += s->hidden;
    r->lost += s->lost;
}

/* With what is still in the pipe of one that waits. */
void relay_count_unseen(struct relay *r, const struct stream *s)
{
    int there = 0;
    if (s->fd >= 0 && ioctl(s->fd, FIONREAD, &there) != 0)
        there = 0;
    if (s->shown == SHOWN_FROM_FILE)
        r->hidden += s->behind.unseen;
    r->lost += there;
    add_skipped(r, s);
    add_unseen(r, s, buf_len(&s->part) + buf_len(&s->left));
}

static void del_stream(struct relay *r, struct stream *s)
{
    ddp_assert(s->magic == STREAM_MAGIC && s->input == STREAM_ENDED);
    add_skipped(r, s);
    if (s->console != NULL)
        stream_finish_line(s);
    logfile_close(&s->file);
    buf_free(&s->part);
    buf_free(&s->left);
    buf_free(&s->match);
    s->magic = 0;
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

static void end_reading(struct relay *r, struct stream *s)
{
    char text[LINES_TAIL_BYTES];
    if (s->input == STREAM_ENDED)
        return;
    if (s->input == STREAM_SPLICED && s->which == CONF_STDERR)
        keep_tail(r, s, text, tail_of_file(s, text));
    if (s->filtered != NULL && buf_len(&s->match) > 0)
        filter_line(r, s, (const char *)buf_head(&s->match),
                    buf_len(&s->match)); /* the last line may have no newline */
    buf_free(&s->match);
    stream_end(s);
}

void relay_drop_ended(struct relay *r)
{
    struct stream **at = &r->streams;
    while (*at != NULL) {
        struct stream *s = *at;
        const struct console *c = s->console;
        bool alive = c != NULL && c->kind != CONSOLE_DEAD;
        bool unseen = alive && stream_is_behind(s);
        bool waits = alive && c->owner != 0 && c->owner != s->id &&
                     buf_len(&s->part) > 0;
        if (s->input != STREAM_ENDED || unseen || waits) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        del_stream(r, s);
    }
}

/* -- reading --------------------------------------------------------------- */

static void count(const struct relay *r, const struct stream *s, int64_t n)
{
    if (r->seen != NULL)
        (void)atomic_fetch_add(&r->seen[s->local_rank], n);
}

/* Returns whether there may be more. */
static bool read_spliced(struct relay *r, struct stream *s)
{
    ddp_assert(s->plan.file && s->console == NULL && s->filtered == NULL);
    int64_t n = logfile_splice(&s->file, s->fd, SPLICE_MOST);
    if (n > 0) {
        count(r, s, n);
        return true;
    }
    if (n == 0)
        end_reading(r, s);
    else if (errno != EAGAIN && errno != EINTR)
        s->input = STREAM_READ; /* a full disk, or one that cannot splice */
    return n < 0 && errno != EAGAIN;
}

/* Nobody has to look at what comes, and the file takes it. */
static bool may_splice(const struct stream *s)
{
    return s->plan.file && !s->plan.console && s->filtered == NULL &&
           !s->timed && s->file.limit == 0 && s->file.missing == 0 &&
           s->file.fd >= 0;
}

/* EIO: the last holder of a terminal's other side is gone. */
static void tell_broken(struct relay *r, const struct stream *s, int why)
{
    if (why == EIO && isatty(s->fd) == 1)
        return;
    (void)console_say(&r->consoles[1],
                      "cannot read what the worker with local rank %d writes: "
                      "%s; the rest is lost (EPIPE)",
                      s->local_rank, strerror(why));
}

static bool read_some(struct relay *r, struct stream *s)
{
    if (s->input == STREAM_SPLICED)
        return read_spliced(r, s);
    ssize_t n =
        read(s->fd, r->chunk, s->timed ? RELAY_TIMED : sizeof(r->chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        if (n < 0)
            tell_broken(r, s, errno);
        end_reading(r, s);
        return false;
    }
    count(r, s, n);
    take(r, s, r->chunk, (size_t)n);
    /* With room again on the disk, back to what is cheaper. */
    if (s->input == STREAM_READ && may_splice(s))
        s->input = STREAM_SPLICED;
    return s->input != STREAM_PAUSED;
}

void relay_read(struct relay *r, struct stream *s)
{
    for (int i = 0; i < STREAM_READS && s->input != STREAM_ENDED; i++)
        if (!read_some(r, s))
            return;
}

static bool is_read(const struct stream *s)
{
    return s->input == STREAM_READ || s->input == STREAM_SPLICED;
}

/* Reads all that is there now, without turns. */
static void drain(struct relay *r, struct stream *s)
{
    for (int i = 0; i < DRAIN_MOST && is_read(s); i++)
        if (!read_some(r, s))
            return;
}

/* -- a worker starts ------------------------------------------------------- */

static struct console *console_of(struct relay *r, enum conf_stream which)
{
    return &r->consoles[which == CONF_STDERR || r->one_console];
}

static void set_prefix(struct relay *r, struct stream *s, int64_t rank)
{
    static const int colours[COLOURS] = {36, 33, 32, 35, 34, 31};
    const struct conf *conf = r->conf;
    const struct lines_who who = {.role = conf->role,
                                  .host = r->host,
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

void relay_drain(struct relay *r)
{
    for (struct stream *s = r->streams; s != NULL; s = s->next) {
        drain(r, s);
        if (is_read(s))
            end_reading(r, s);
    }
}

/* The filtered files, one for all local ranks, lie in the folder above. When
 * the first worker of an attempt starts, all that workers of the last attempt
 * wrote is read, and then new files are opened. */
static void open_filtered(struct relay *r, const char *dir, int64_t round)
{
    char path[RELAY_DIR_MAX + 64];
    const char *slash = strrchr(dir, '/');
    size_t len = slash != NULL ? (size_t)(slash - dir) : 0;
    if (len == 0 ||
        (strncmp(r->attempt, dir, len) == 0 && r->attempt[len] == '\0'))
        return;
    relay_drain(r);
    ddp_assert(len < sizeof(r->attempt));
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
open_file(struct relay *r, struct stream *s, const struct relay_msg *w)
{
    char path[RELAY_DIR_MAX + 16];
    const struct conf_output *c = &r->conf->output;
    (void)snprintf(path, sizeof(path), "%s/%s.log", w->text, name_of(s->which));
    if (logfile_open(&s->file, path, w->round, c->rotate_size,
                     c->rotate_keep) != 0)
        tell_loss(r, &s->file);
}

/* Without a folder the stream has no file: none is wanted, or it could not be
 * made, and the agent said why. Then nothing but the console is left. */
static struct conf_plan plan_of(const struct relay *r,
                                const struct relay_msg *w,
                                enum conf_stream which)
{
    struct conf_plan p =
        conf_output_plan(&r->conf->output, w->local_rank, which);
    if (p.file && w->text[0] == '\0') {
        p.file = false;
        if (strcmp(r->conf->log_dir, "/dev/null") != 0)
            p.console = p.shown;
    }
    return p;
}

static void add_stream(struct relay *r,
                       const struct relay_msg *w,
                       enum conf_stream which,
                       int fd)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)close(fd); /* the worker gets EPIPE */
        return;
    }
    s->magic = STREAM_MAGIC;
    s->id = ++r->ids;
    s->epoll = r->epoll;
    s->fd = fd;
    s->input = STREAM_PAUSED;
    s->local_rank = w->local_rank;
    s->which = which;
    s->plan = plan_of(r, w, which);
    s->timed = r->conf->output.timestamps;
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
    stream_resume(s);
    if (may_splice(s))
        s->input = STREAM_SPLICED;
}

void relay_open_worker(struct relay *r, const struct relay_msg *w, int fds[2])
{
    ddp_assert(w->local_rank >= 0 && w->local_rank < r->conf->nproc);
    /* The workers of the last round are dead: what they wrote goes into the
     * files before anything of the next round. */
    for (struct stream *s = r->streams; s != NULL; s = s->next)
        if (s->local_rank == w->local_rank) {
            drain(r, s);
            if (is_read(s))
                end_reading(r, s);
        }
    open_filtered(r, w->text, w->round);
    for (int i = 0, n = 0; i < 2; i++)
        if ((w->piped >> i & 1) != 0 && fds[n] >= 0)
            add_stream(r, w, (enum conf_stream)(i + 1), fds[n++]);
}

/* -- last words ------------------------------------------------------------ */

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

size_t relay_tail(struct relay *r, int local_rank, char text[LINES_TAIL_BYTES])
{
    ddp_assert(local_rank >= 0 && local_rank < r->conf->nproc);
    struct stream *s = find_stderr(r, local_rank);
    size_t len = 0;
    if (s != NULL) {
        /* Reads what the worker wrote before it died; at most TAIL_MOST reads,
         * since another process may go on writing. */
        bool more = true;
        for (int i = 0; more && i < TAIL_MOST; i++)
            more = s->input != STREAM_ENDED &&
                   buf_len(&s->left) < STREAM_LEFT / 2 &&
                   (read_some(r, s) || s->input == STREAM_PAUSED);
    }
    if (s != NULL && s->input == STREAM_SPLICED)
        len = tail_of_file(s, text);
    if (len == 0 && r->tails[local_rank] != NULL)
        len = lines_tail_get(r->tails[local_rank], text);
    return len;
}
