/*
 * The report as JSON (man/ddprun.1 lists the fields), and how it gets into its
 * file. A reader must find the old report or the new one, whole: a plain file
 * is written under another name and renamed (launcher/report/new_file). What is
 * no plain file (a pipe, /dev/stdout, a link) is written to as it is. The
 * launcher ends after this, so nothing here may block for ever: a FIFO without
 * a reader is given up at once, and a reader that stands still after
 * RELAY_STUCK_MS.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/output/logfile.h"
#include "launcher/output/relay.h"
#include "launcher/report/exits.h"
#include "launcher/report/new_file.h"
#include "launcher/report/report.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/base/json.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/account/account_json.h"

#define CONSEQUENCES_MAX 4096
#define REPORT_BYTES_MAX (8 * 1024 * 1024)
#define HURRY_MS         200 /* instead of RELAY_STUCK_MS, after a signal */

/* Opens an object with what ended the run, on `node`, and when. If `node` is ""
 * it writes null instead, and returns false. */
static bool open_cause(struct json *j,
                       const char *name,
                       const struct agent_verdict *v,
                       const char *node)
{
    char when[64];
    if (!v->ended || node[0] == '\0') {
        json_null(j, name);
        return false;
    }
    report_time(v->end.age_us + mono_now_us() - v->heard_us, when,
                sizeof(when));
    json_open(j, name, '{');
    json_text(j, "node", node);
    json_int(j, "round", v->end.round);
    json_text(j, "time", when);
    return true;
}

static void add_first_failure(struct json *j, const struct agent_verdict *v)
{
    const struct msg_end *e = &v->end;
    if (!open_cause(j, "first_failure", v, e->node))
        return;
    json_int(j, "rank", e->rank);
    json_int(j, "local_rank", e->local_rank);
    json_int(j, "pid", e->pid);
    event_log_add_end(j, (int)e->code, (int)e->signal);
    json_bool(j, "out_of_memory", e->how == MSG_FAILED_OOM);
    json_text(j, "error", e->error);
    json_text(j, "stderr", e->tail);
    json_text(j, "traceback", e->trace);
    json_close(j, '}');
}

static void add_loss(struct json *j, const struct agent_verdict *v)
{
    if (!open_cause(j, "node_lost", v, v->end.lost))
        return;
    json_text(j, "how", v->end.lost_how);
    json_close(j, '}');
}

struct consequences {
    struct json *json;
    int len;
};

/* One object for each worker, a bounded number of them. */
static void add_consequence(void *ctx, const struct report_end *e)
{
    struct consequences *list = ctx;
    struct json *j = list->json;
    for (int i = 0; i < e->count && list->len < CONSEQUENCES_MAX; i++) {
        json_open(j, NULL, '{');
        json_text(j, "node", e->node);
        json_int(j, "rank", e->rank + i);
        json_int(j, "local_rank", e->local_rank + i);
        if (e->pids != NULL)
            json_int(j, "pid", e->pids[i]);
        event_log_add_end(j, e->code, e->signal);
        json_bool(j, "killed_by_ddprun", e->unstopped);
        json_close(j, '}');
        list->len++;
    }
}

static void add_consequences(struct json *j,
                             const struct agent_verdict *v,
                             const struct event_log *event_log)
{
    struct consequences list = {.json = j};
    json_open(j, "consequences", '[');
    report_exits_each(v, event_log, add_consequence, &list);
    json_close(j, ']');
}

static void add_ends(struct json *j, const struct msg_end *e)
{
    struct exits_counts all = {.by_term = 0};
    exits_add_counts(&all, e->counts);
    json_open(j, "consequences_in_all", '{');
    json_int(j, "sigterm", all.by_term);
    json_int(j, "sigkill", all.by_kill);
    json_int(j, "other_signals", all.by_signal);
    json_int(j, "exit_codes", all.by_code);
    json_close(j, '}');
}

static void add_takeover(struct json *j, const struct event_log *event_log)
{
    const struct agent_takeover *t = &event_log->takeover;
    const struct conf *conf = event_log->conf;
    char to[CONF_PLACE_MAX], from[CONF_PLACE_MAX];
    json_int(j, "takeovers", t->count);
    if (t->count == 0) {
        json_null(j, "last_takeover");
        return;
    }
    conf_place_text(conf, t->to.target, t->to.which, to);
    conf_place_text(conf, t->from.target, t->from.which, from);
    json_open(j, "last_takeover", '{');
    json_int(j, "term", t->to.term.count);
    json_int(j, "epoch", t->to.term.count); /* the old name */
    json_text(j, "server", to);
    json_text(j, "before", from);
    json_micros(j, "gap_s", t->gap_us);
    json_close(j, '}');
}

static void add_times(struct json *j, const struct event_log *event_log)
{
    json_open(j, "time", '{');
    json_micros(j, "wall_s", mono_now_us() - event_log->start_us);
    json_micros(j, "waiting_s", event_log->waiting_us);
    json_micros(j, "running_s", event_log->running_us);
    json_micros(j, "restarting_s", event_log->restarting_us);
    json_close(j, '}');
}

/* Of the whole run; null if the server did not tell it. */
static void add_goodput(struct json *j, const struct agent_verdict *v)
{
    struct goodput_sums g;
    if (!v->ended || !goodput_parse(&g, v->end.spent)) {
        json_null(j, "goodput");
        return;
    }
    account_json_sums(j, &g);
}

/* False: no memory. */
static bool make_json(struct buf *text,
                      const struct conf *conf,
                      const struct agent_verdict *v,
                      const struct event_log *event_log,
                      const char *logs)
{
    struct json j;
    json_init(&j, text);
    j.lines = true;
    json_open(&j, NULL, '{');
    json_int(&j, "version", 1);
    json_text(&j, "run", conf->run_id);
    json_text(&j, "node", event_log->node);
    json_int(&j, "status", v->status);
    json_bool(&j, "succeeded", v->status == 0);
    json_text(&j, "reason", v->ended ? v->end.text : v->text);
    add_first_failure(&j, v);
    add_loss(&j, v);
    add_consequences(&j, v, event_log);
    add_ends(&j, &v->end);
    json_int(&j, "stopped", event_log->stopped);
    json_text(&j, "killed", event_log->killed);
    json_int(&j, "round", event_log->round);
    json_int(&j, "rounds_here", event_log->rounds);
    json_int(&j, "restarts", v->ended ? v->end.restarts : event_log->restarts);
    json_int(&j, "max_restarts", conf->max_restarts);
    add_takeover(&j, event_log);
    add_times(&j, event_log);
    add_goodput(&j, v);
    json_text(&j, "logs", logs);
    json_close(&j, '}');
    return !j.full && buf_put(text, "\n", 1) == 0;
}

/* Whether it exists and is no plain file: /dev/stdout, a FIFO, a link. */
static bool is_special(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static bool is_fifo(const char *path)
{
    struct stat st;
    int saved = errno;
    bool is = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    errno = saved;
    return is;
}

/* False: no process reads it, or the user is in a hurry. */
static bool wait_for_room(int fd, const struct output_hurry *h)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLOUT},
                          {.fd = h->fd, .events = POLLIN}};
    int64_t until_us = mono_after(
        mono_awake_us(), (h->now ? HURRY_MS : RELAY_STUCK_MS) * MONO_MS);
    int n;
    do
        n = poll(p, 2, (int)mono_ms_until(mono_awake_us(), until_us));
    while ((n < 0 && errno == EINTR) ||
           (n > 0 && p[0].revents == 0 && !h->asks(h->fd)));
    errno = EAGAIN;
    return n > 0 && p[0].revents != 0;
}

/* Writes the text and closes `fd`, which is non-blocking if it is no file. */
static bool
put_text(int fd, const struct buf *text, const struct output_hurry *h)
{
    const char *at = (const char *)buf_head(text);
    size_t left = buf_len(text);
    while (left > 0) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && wait_for_room(fd, h))
            continue;
        if (n <= 0)
            break;
        at += n;
        left -= (size_t)n;
    }
    int error = errno;
    bool good = close(fd) == 0 && left == 0;
    if (left > 0)
        errno = error;
    return good;
}

/* If our own output goes to the same file the text is appended. Any other plain
 * file, behind a link, is overwritten. */
static bool write_through(const char *path,
                          const struct buf *text,
                          const struct output_hurry *h)
{
    int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, how, 0666); /* a FIFO without a reader: an error */
    if (fd < 0)
        return false;
    int own = logfile_share(fd);
    if (own < 0 && (ftruncate(fd, 0) == 0 || errno == EINVAL)) /* a FIFO */
        return put_text(fd, text, h);
    (void)close(fd); /* nothing was written */
    return own >= 0 && put_text(own, text, h);
}

/* A reader finds the old report or the new one, whole. */
static bool replace_file(const char *path,
                         const struct buf *text,
                         const struct output_hurry *h)
{
    char temp[sizeof(((struct conf_output *)0)->report) + NEW_FILE_MORE];
    int fd = new_file_beside(path, temp, sizeof(temp));
    if (fd < 0)
        return false;
    if (put_text(fd, text, h) && rename(temp, path) == 0)
        return true;
    int error = errno;
    (void)unlink(temp);
    errno = error;
    return false;
}

void report_write(const struct conf *conf,
                  const struct agent_verdict *v,
                  const struct event_log *j,
                  const char *logs,
                  const struct output_hurry *h)
{
    const char *path = conf->output.report;
    struct buf text;
    ddp_assert(path[0] != '\0');
    buf_init(&text, REPORT_BYTES_MAX);
    bool made = make_json(&text, conf, v, j, logs);
    if (!made)
        errno = ENOMEM;
    bool good = made && (is_special(path) ? write_through(path, &text, h)
                                          : replace_file(path, &text, h));
    if (!good && (errno == EAGAIN || (errno == ENXIO && is_fifo(path))))
        log_warnx("cannot write the report to %s: no process reads it", path);
    else if (!good)
        log_warn("cannot write the report to %s", path);
    buf_free(&text);
}
