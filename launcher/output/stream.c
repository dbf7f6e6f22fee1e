/*
 * Happy path: whole lines go to the console at once. A part of a line is held
 * until its end comes.
 *
 * Failure modes, in which the console is another's or takes nothing:
 * - The line gets longer than RELAY_HOLD: from then on the stream owns the
 *   console, until the line ends, pauses for RELAY_LONG_MS, or is longer than
 *   RELAY_TURN. The others fall behind meanwhile.
 * - The part stays without an end for RELAY_QUIET_MS: it is shown if it is
 *   passed on as it is; the cursor is then in the line of this stream (`mid`),
 *   and any other writer ends that line first.
 * - The console is full: SHOWN_FROM_FILE reads on in the log file later;
 *   SHOWN_FROM_MEMORY keeps what was read and pauses the pipe, so that the
 *   worker waits in write(2).
 * - Nobody reads the console any more: what waits for it is dropped, and the
 *   pipe is read on. If a FIFO gets another reader, the stream goes on with its
 *   next whole line.
 * - The log file was rotated or has a gap meanwhile: what was in between is
 *   skipped and counted (`hidden`, `lost`).
 */
#include "launcher/output/stream.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "launcher/output/lines.h"
#include "launcher/output/relay.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define PREFIXED_MOST (1024 * 1024) /* lines with their prefixes, at once */

struct stream *stream_of(void *data)
{
    struct stream *s = data;
    ddp_assert(s->magic == STREAM_MAGIC);
    return s;
}

/* Which fields go with which state. */
static void check(const struct stream *s)
{
    ddp_assert((s->input == STREAM_ENDED) == (s->fd < 0));
    ddp_assert(s->input != STREAM_SPLICED || s->console == NULL);
    switch (s->shown) {
    case SHOWN_LIVE:
        ddp_assert(buf_len(&s->left) == 0);
        return;
    case SHOWN_FROM_FILE:
        ddp_assert(s->console != NULL && s->plan.file);
        ddp_assert(s->behind.at >= 0 && s->behind.unseen >= 0);
        return;
    case SHOWN_FROM_MEMORY:
        ddp_assert(s->console != NULL && !s->plan.file);
        ddp_assert(s->input == STREAM_PAUSED || s->input == STREAM_ENDED);
        return;
    }
}

/* -- reading is paused and goes on ----------------------------------------- */

/* EPOLLHUP cannot be masked: a paused stream is taken out. */
static void pause_reading(struct stream *s)
{
    if (s->input == STREAM_PAUSED || s->input == STREAM_ENDED)
        return;
    (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->fd, NULL); /* it is in there */
    s->input = STREAM_PAUSED;
}

void stream_resume(struct stream *s)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};
    if (s->input != STREAM_PAUSED)
        return;
    (void)epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->fd, &ev);
    s->input = STREAM_READ;
}

/* The registration would outlive our descriptor: the agent has one of the same
 * pipe. */
void stream_end(struct stream *s)
{
    check(s);
    pause_reading(s);
    if (s->fd >= 0)
        (void)close(s->fd); /* read only */
    s->fd = -1;
    s->input = STREAM_ENDED;
}

/* -- the console ----------------------------------------------------------- */

/* Whether the log file has what comes to the console. To be said before it
 * comes, since it may be written at once. */
static void mark(const struct stream *s)
{
    s->console->copied |= s->plan.file;
    s->console->sole |= !s->plan.file || s->gap;
}

static void put(const struct stream *s, const char *data, size_t len)
{
    mark(s);
    console_put(s->console, data, len);
}

/* Puts what stands before the text of a new line. */
static void begin_line(struct stream *s)
{
    struct console *c = s->console;
    if (c->mid == s->id) /* it continues its own line */
        return;
    if (c->mid != 0)
        console_put(c, "\n", 1);
    c->mid = 0;
    put(s, s->colour, s->colour_len);
}

static void show_part(struct stream *s)
{
    begin_line(s);
    if (buf_len(&s->part) > 0)
        put(s, (const char *)buf_head(&s->part), buf_len(&s->part));
    buf_free(&s->part);
}

/* The rest of a line, of which the front is shown or in `part`. */
static size_t end_line(struct stream *s, const char *data, size_t len)
{
    const char *newline = memchr(data, '\n', len);
    size_t n = newline == NULL ? len : (size_t)(newline - data) + 1;
    show_part(s);
    put(s, data, n);
    s->console->mid = s->console->owner = 0;
    s->turn = 0;
    return n;
}

/* As many whole lines as there is room for. */
static size_t show_lines(struct stream *s, const char *data, size_t whole)
{
    struct console *c = s->console;
    if (c->mid != 0)
        console_put(c, "\n", 1); /* ends the line of another stream */
    c->mid = 0;
    if (s->colour_len == 0) {
        put(s, data, whole);
        return whole;
    }
    size_t slice = PREFIXED_MOST / (s->colour_len + 1);
    if (whole > slice && lines_whole(data, slice) > 0)
        whole = lines_whole(data, slice);
    size_t most = whole + lines_count(data, whole) * s->colour_len;
    char *room = console_reserve(c, most);
    if (room == NULL)
        return 0;
    mark(s);
    console_commit(
        c, lines_prefix(data, whole, false, s->colour, s->colour_len, room));
    return whole;
}

/* A part of a line waits for its end, or is shown piece by piece. */
static void hold(struct stream *s, const char *data, size_t len, int64_t now)
{
    struct console *c = s->console;
    if (c->mid == s->id) {
        put(s, data, len);
        s->turn += (int64_t)len;
        s->part_at_us = now;
        if (s->turn > RELAY_HOLD)
            c->owner = s->id;
        return;
    }
    if (buf_len(&s->part) == 0)
        s->part_at_us = now;
    (void)buf_put(&s->part, data, len);
    if (buf_len(&s->part) <= RELAY_HOLD)
        return;
    s->turn = (int64_t)buf_len(&s->part);
    show_part(s);
    c->owner = c->mid = s->id;
}

/* False: the console is full, or another stream owns it. */
static bool may_show(const struct stream *s)
{
    const struct console *c = s->console;
    return (c->owner == 0 || c->owner == s->id) && console_room(c) > 0;
}

/*
 * Shows what it can of data[0..len), which follows what was shown before or is
 * in `part`; returns how much that is.
 */
static size_t show(struct stream *s, const char *data, size_t len, int64_t now)
{
    struct console *c = s->console;
    size_t done = 0;
    while (done < len) {
        if (!may_show(s))
            return done;
        size_t whole = lines_whole(data + done, len - done);
        bool inside = c->mid == s->id || buf_len(&s->part) > 0;
        if (whole == 0) {
            hold(s, data + done, len - done, now);
            return len;
        }
        size_t n = inside ? end_line(s, data + done, whole)
                          : show_lines(s, data + done, whole);
        if (n == 0)
            return done;
        done += n;
    }
    return done;
}

/* Gives the console to others: a long line has paused, or was too long. */
static void let_go(struct stream *s)
{
    if (s->console->owner == s->id)
        s->console->owner = 0; /* but `mid` still tells whose line it is */
    s->turn = -STREAM_READS * STREAM_CHUNK; /* others come first */
}

/* -- behind ---------------------------------------------------------------- */

bool stream_is_behind(const struct stream *s)
{
    return s->shown != SHOWN_LIVE;
}

bool stream_may_catch_up(const struct stream *s)
{
    return stream_is_behind(s) &&
           (s->console->kind == CONSOLE_DEAD || may_show(s));
}

/* Its console is dead. */
static void drop(struct stream *s)
{
    buf_free(&s->part);
    buf_free(&s->left);
    s->skip = s->inside;
    s->turn = 0;
    s->shown = SHOWN_LIVE;
    stream_resume(s);
}

static void fall_behind(struct stream *s, const char *data, size_t len)
{
    int64_t at = s->file.size - (int64_t)len;
    ddp_assert(s->shown == SHOWN_LIVE);
    if (s->file.fd >= 0 && s->file.missing == 0) {
        s->shown = SHOWN_FROM_FILE;
        s->behind.at = at < 0 ? 0 : at;
        s->behind.unseen = (int64_t)len;
        /* The front may be in an older file already. */
        s->behind.rotations = s->file.rotations - (at < 0);
    } else if (s->plan.file) {
        s->lost += (int64_t)len; /* the file has not got it either */
    } else {
        s->shown = SHOWN_FROM_MEMORY;
        if (buf_put(&s->left, data, len) != 0) /* no memory */
            s->lost += (int64_t)len;
        pause_reading(s);
    }
}

static bool is_rotated(const struct stream *s)
{
    return s->behind.rotations != s->file.rotations;
}

/* More came, and is in the file, as far as it took it. What came hushed is not
 * told to this stream, and lies behind `unseen`. */
static void stay_behind(struct stream *s, int64_t len)
{
    int64_t end = s->behind.at + s->behind.unseen;
    int64_t more = is_rotated(s) ? len : s->file.size - end;
    ddp_assert(more >= 0);
    s->behind.unseen += more; /* with what the file says of a gap */
    if (more < len)
        s->lost += len - more;
}

/* Leaves a gap in what is shown, and goes on live. */
static void skip_behind(struct stream *s)
{
    s->hidden += s->behind.unseen;
    if (buf_len(&s->part) > 0) {
        show_part(s);
        s->console->mid = s->id;
    }
    if (s->console->mid == s->id) {
        put(s, "\n", 1);
        s->console->mid = 0;
    }
    let_go(s);
    s->shown = SHOWN_LIVE;
}

static void
catch_up_file(struct stream *s, char *chunk, size_t size, int64_t now)
{
    if (is_rotated(s)) {
        skip_behind(s);
        return;
    }
    while (s->behind.unseen > 0) {
        int64_t most = s->behind.unseen;
        ssize_t n =
            pread(s->file.fd, chunk, most < (int64_t)size ? (size_t)most : size,
                  s->behind.at);
        if (n <= 0) {
            skip_behind(s);
            return;
        }
        size_t done = show(s, chunk, (size_t)n, now);
        s->behind.at += (int64_t)done;
        s->behind.unseen -= (int64_t)done;
        if (done < (size_t)n)
            return;
    }
    s->shown = SHOWN_LIVE;
}

static void catch_up_left(struct stream *s, int64_t now)
{
    size_t len = buf_len(&s->left);
    if (len > 0)
        buf_take(&s->left, show(s, (const char *)buf_head(&s->left), len, now));
    if (buf_len(&s->left) > 0)
        return;
    buf_free(&s->left);
    s->shown = SHOWN_LIVE;
    stream_resume(s);
}

bool stream_catch_up(struct stream *s, char *chunk, size_t size)
{
    int64_t now = mono_now_us();
    ddp_assert(stream_is_behind(s));
    check(s);
    if (s->console->kind == CONSOLE_DEAD) {
        drop(s);
        return true;
    }
    if (!may_show(s))
        return false;
    if (s->shown == SHOWN_FROM_FILE)
        catch_up_file(s, chunk, size, now);
    else
        catch_up_left(s, now);
    return true;
}

/* -- unfinished lines ------------------------------------------------------ */

/* A progress bar that is tee'd has no line's end for long; its last complete
 * state is shown as a line, as torchrun does it. */
static void show_returns(struct stream *s)
{
    const char *data = (const char *)buf_head(&s->part);
    const char *last = memrchr(data, '\r', buf_len(&s->part));
    if (last == NULL || last == data)
        return;
    size_t n = (size_t)(last - data);
    begin_line(s);
    console_put(s->console, data, n);
    console_put(s->console, "\n", 1);
    buf_take(&s->part, n + 1);
}

/* This process may have slept: the end of an old part may be in the pipe. */
static bool has_more(const struct stream *s)
{
    int n = 0;
    return s->fd >= 0 && ioctl(s->fd, FIONREAD, &n) == 0 && n > 0;
}

void stream_show_quiet(struct stream *s, int64_t now)
{
    struct console *c = s->console;
    if (c == NULL || c->kind == CONSOLE_DEAD || s->shown != SHOWN_LIVE)
        return;
    if (buf_len(&s->part) == 0 && c->owner != s->id)
        return;
    if (now < s->part_at_us + RELAY_QUIET_MS * MONO_MS || has_more(s))
        return;
    /* On a busy machine the writer of a long line may pause. */
    if (c->owner == s->id && now >= s->part_at_us + RELAY_LONG_MS * MONO_MS)
        let_go(s);
    if (buf_len(&s->part) == 0 || c->owner != 0 || console_room(c) == 0)
        return;
    if (s->plan.prefix) {
        show_returns(s);
        return;
    }
    show_part(s);
    c->mid = s->id;
}

/* A last line without a newline gets one only if it has a prefix. */
void stream_finish_line(struct stream *s)
{
    struct console *c = s->console;
    ddp_assert(s->input == STREAM_ENDED);
    if (c->kind == CONSOLE_DEAD)
        return;
    if (buf_len(&s->part) > 0) {
        show_part(s);
        c->mid = s->id;
    }
    if (c->mid == s->id && s->plan.prefix) {
        put(s, "\n", 1);
        c->mid = 0;
    }
    let_go(s);
}

/* -- what comes ------------------------------------------------------------ */

/* How much of data[0..len) belongs to a line of which the front was dropped. */
static size_t skip_line(struct stream *s, const char *data, size_t len)
{
    const char *newline = s->skip ? memchr(data, '\n', len) : NULL;
    if (s->skip && newline == NULL)
        return len;
    size_t n = s->skip ? (size_t)(newline - data) + 1 : 0;
    s->skip = false;
    return n;
}

void stream_show(struct stream *s, const char *data, size_t len, int64_t now)
{
    check(s);
    ddp_assert(len > 0 && s->inside == (data[len - 1] != '\n'));
    if (s->console->kind == CONSOLE_DEAD) {
        drop(s);
        return;
    }
    switch (s->shown) {
    case SHOWN_FROM_FILE: /* where it is already */
        stay_behind(s, (int64_t)len);
        return;
    case SHOWN_FROM_MEMORY: /* read_rest: the last words of a worker */
        if (buf_put(&s->left, data, len) != 0)
            s->lost += (int64_t)len;
        return;
    case SHOWN_LIVE:
        break;
    }
    size_t done = skip_line(s, data, len);
    done += show(s, data + done, len - done, now);
    if (done < len)
        fall_behind(s, data + done, len - done);
    if (s->turn > RELAY_TURN)
        let_go(s);
}
