/*
 * Happy path: what is read waits in `held`. Marks are taken out, whole lines
 * are shown, and what is behind the last newline waits for its end.
 *
 * Each stream is one host's, so what stands together in it is one launcher's:
 * a report that another launcher gave before is left out (`reports`).
 *
 * Failure modes:
 * - A line has no end (a progress bar, a question): shown after
 *   STREAMS_QUIET_US, or when it is longer than STREAMS_HOLD. If another stream
 *   is shown then, that begins a new line.
 * - The console is full: the stream is not read (front_stream_wants), and waits
 *   in its pipe.
 */
#include "launcher/front/streams.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "launcher/output/lines.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define READ_MAX      32768u
#define READ_PREFIXED 4096u /* each byte may be a line, with a prefix */
#define RETRY_US      1000

void front_stream_open(struct front_stream *s,
                       int fd,
                       uint64_t id,
                       struct console *to,
                       int64_t now_us)
{
    ddp_assert(fd >= 0 && id > 0 && to != NULL);
    *s = (struct front_stream){.fd = fd, .id = id, .to = to, .prefix = ""};
    buf_init(&s->held, STREAMS_HOLD + READ_MAX);
    s->last_us = now_us;
}

void front_stream_close(struct front_stream *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* only read */
    s->fd = -1;
    buf_free(&s->held);
}

bool front_stream_wants(const struct front_stream *s)
{
    /* Each line may get a prefix. */
    return s->fd >= 0 && console_room(s->to) >= 2 * STREAMS_HOLD;
}

/* -- showing --------------------------------------------------------------- */

/* Shows data[0..len), which may end within a line. */
static void show(struct front_stream *s, const char *data, size_t len)
{
    size_t prefix = strlen(s->prefix);
    size_t most = len + (lines_count(data, len) + 1) * prefix + 1;
    bool anew = s->to->mid != 0 && s->to->mid != s->id;
    if (len == 0)
        return;
    char *out = console_reserve(s->to, most);
    if (out == NULL)
        return; /* no memory: it is lost, and the job goes on */
    size_t n = 0;
    if (anew)
        out[n++] = '\n';
    n +=
        lines_prefix(data, len, s->inside && !anew, s->prefix, prefix, out + n);
    s->inside = data[len - 1] != '\n';
    s->to->mid = s->inside ? s->id : 0;
    console_commit(s->to, n);
}

/* -- reports --------------------------------------------------------------- */

static bool begins(const char *line, size_t len, const char *word)
{
    return len >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

/* "ddprun: run 'NAME' failed", the first line of a report; the others are
 * indented (launcher/report). */
static bool is_heading(const char *line, size_t len)
{
    static const char behind[] = "' failed\n";
    return len >= sizeof(behind) && begins(line, len, "ddprun: run '") &&
           memcmp(line + len - (sizeof(behind) - 1), behind,
                  sizeof(behind) - 1) == 0;
}

/* A whole line of a report that another stream has shown. */
static bool is_repeated(struct front_stream *s, const char *line, size_t len)
{
    struct front_reports *r = s->reports;
    if (!is_heading(line, len) || len >= sizeof(r->heading)) {
        s->repeats = s->repeats && begins(line, len, "ddprun:   ");
        return s->repeats;
    }
    if (r->heading[0] == '\0') {
        memcpy(r->heading, line, len);
        r->heading[len] = '\0';
        r->from = s->id;
    }
    s->repeats = r->from != s->id && strlen(r->heading) == len &&
                 memcmp(r->heading, line, len) == 0;
    r->repeated += s->repeats;
    return s->repeats;
}

static void show_new(struct front_stream *s, const char *data, size_t len)
{
    size_t from = 0, at = 0;
    while (s->reports != NULL && at < len) {
        const char *newline = memchr(data + at, '\n', len - at);
        if (newline == NULL)
            break;
        size_t n = (size_t)(newline - (data + at)) + 1;
        bool whole = at > 0 || !s->inside;
        if (whole && is_repeated(s, data + at, n)) {
            show(s, data + from, at - from);
            from = at + n;
        }
        at += n;
    }
    show(s, data + from, len - from);
}

/* All that is there up to the first mark, with `all` also if no newline ends
 * it. What may be the beginning of a mark stays. Returns whether a mark was
 * taken out. */
static bool show_some(struct front_stream *s, bool all, bool end)
{
    struct mark m = {.kind = MARK_NONE, .plain = buf_len(&s->held)};
    const char *data = (const char *)buf_head(&s->held);
    if (m.plain == 0)
        return false;
    if (s->mark != NULL)
        marks_find(data, buf_len(&s->held), s->mark, end, &m);
    bool marked = m.kind != MARK_NONE;
    size_t len = all || marked ? m.plain : lines_whole(data, m.plain);
    show_new(s, data, len);
    buf_take(&s->held, len);
    if (!marked)
        return false;
    buf_take(&s->held, m.used);
    if (s->on_mark != NULL)
        s->on_mark(s->ctx, &m);
    return true;
}

static void show_lines(struct front_stream *s, bool all, bool end)
{
    while (show_some(s, all, end))
        ;
}

/* -- reading --------------------------------------------------------------- */

/* Up to `most` bytes. 0: it has ended; -1: it is read later. */
static ssize_t read_some(struct front_stream *s, size_t most)
{
    uint8_t *room = buf_reserve(&s->held, most);
    if (room == NULL) {
        (void)usleep(RETRY_US); /* no memory now: it waits in its pipe */
        return -1;
    }
    ssize_t n = read(s->fd, room, most);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return -1;
    if (n < 0)
        log_warn("cannot read what comes from a host, whose output is lost");
    if (n <= 0)
        return 0;
    buf_commit(&s->held, (size_t)n);
    return n;
}

bool front_stream_read(struct front_stream *s, int64_t now_us)
{
    if (!front_stream_wants(s)) {
        s->full_us = now_us;
        return s->fd >= 0;
    }
    ssize_t n = read_some(s, s->prefix[0] == '\0' ? READ_MAX : READ_PREFIXED);
    if (n < 0)
        return true;
    if (n == 0) {
        show_lines(s, true, true);
        front_stream_close(s);
        return false;
    }
    s->last_us = now_us;
    show_lines(s, false, false);
    if (buf_len(&s->held) >= STREAMS_HOLD)
        show_lines(s, true, false); /* what may be a mark stays */
    return true;
}

int64_t front_stream_quiet_us(const struct front_stream *s)
{
    return s->full_us > s->last_us ? s->full_us : s->last_us;
}

void front_stream_look(struct front_stream *s, int64_t now_us)
{
    if (s->fd < 0)
        return;
    if (!front_stream_wants(s))
        s->full_us = now_us; /* what is in its pipe is not known */
    if (now_us >= front_stream_quiet_us(s) + STREAMS_QUIET_US)
        show_lines(s, true, false); /* what may be a mark stays */
}
