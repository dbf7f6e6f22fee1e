/*
 * A child process asks the rendezvous, which may take up to --timeout; so keys
 * work all the time. Its answer comes through a pipe: a letter, then the JSON
 * or the error. The first answer is waited for before there is a picture: an
 * error is then a line and an exit status.
 *
 * Failure modes: the rendezvous goes away: the last picture stays, grey, below
 * a line that says since when, and the next answer replaces it. An answer that
 * is no status counts as none. Large answers are asked for less often
 * (BYTES_A_SECOND), so that no number of runs makes this a load.
 */
#include "rendezvous/ctl/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/ctl/document.h"
#include "rendezvous/ctl/facts.h"
#include "rendezvous/ctl/picture.h"
#include "rendezvous/ctl/screen.h"
#include "rendezvous/ctl/status.h"

#define BYTES_A_SECOND 500000
#define PIECE          65536

/* The child that asks; pid 0: there is none. */
struct asker {
    pid_t pid;
    int fd;
    struct buf in;
};

struct top {
    const struct ctl_top *conf;
    struct picture picture;
    struct asker asker;
    cJSON *status;   /* the last one; never NULL once there is a picture */
    int64_t away_us; /* since when it does not answer; 0: it does */
    struct ddp_err away;
    int64_t next_us; /* when to ask again */
};

static void no_memory(void)
{
    fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for a picture");
}

/* Which run the daemon is asked for; NULL: all. */
static const char *asked_run(const struct top *t)
{
    bool one = t->picture.one && t->picture.run[0] != '\0';
    return one ? t->picture.run : NULL;
}

/* -- asking, in a child ---------------------------------------------------- */

/* Ends with the parent, if that is killed. */
static void ask_in_child(const struct top *t, pid_t parent, int fd)
{
    struct ctl_answer a;
    struct ddp_err err;
    screen_forget();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    bool good = ctl_status_ask(t->conf->peer, asked_run(t), t->conf->timeout_us,
                               &a, &err) == 0;
    if (good)
        _exit(ctl_status_put(fd, "J", 1) && ctl_status_put(fd, a.body, a.len)
                  ? 0
                  : 1);
    _exit(ctl_status_put(fd, "E", 1) && ctl_status_put(fd, &err, sizeof(err))
              ? 0
              : 1);
}

static void stop_asking(struct top *t)
{
    if (t->asker.pid == 0)
        return;
    (void)kill(t->asker.pid, SIGKILL);
    while (waitpid(t->asker.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)close(t->asker.fd); /* read side, nothing to lose */
    buf_free(&t->asker.in);
    t->asker.pid = 0;
}

static void take_error(struct top *t, const struct ddp_err *err)
{
    t->away = *err;
    if (t->away_us == 0)
        t->away_us = mono_now_us();
}

static void cannot_ask(struct top *t, const char *what)
{
    struct ddp_err err;
    ddp_err_set(&err, DDP_E_IO, "%s: %s", what, strerror(errno));
    take_error(t, &err);
}

/* If there is no process or no pipe to be had, it is as if nobody answered. */
static void start_asking(struct top *t)
{
    int fds[2];
    pid_t self = getpid();
    t->next_us = mono_now_us() + t->conf->delay_us;
    if (pipe(fds) != 0) {
        cannot_ask(t, "cannot make a pipe");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[0]); /* read side, nothing to lose */
        ask_in_child(t, self, fds[1]);
    }
    if (pid < 0) {
        cannot_ask(t, "cannot start a process");
        (void)close(fds[0]); /* nothing was read */
        (void)close(fds[1]); /* nor written */
        return;
    }
    (void)close(fds[1]); /* the child has it */
    t->asker.pid = pid;
    t->asker.fd = fds[0];
    buf_init(&t->asker.in, CTL_HTTP_BODY_MAX + PIECE);
}

static void take_answer(struct top *t, const char *body, size_t len)
{
    struct ddp_err err;
    cJSON *status = ctl_document_parse(body, len, &err);
    int64_t pace_us = (int64_t)len * MONO_S / BYTES_A_SECOND;
    if (status == NULL) {
        take_error(t, &err);
        return;
    }
    cJSON_Delete(t->status);
    t->status = status;
    t->away_us = 0;
    if (pace_us > t->conf->delay_us)
        t->next_us += pace_us - t->conf->delay_us;
}

/* The child has said all. */
static void take_all(struct top *t)
{
    const char *all = (const char *)buf_head(&t->asker.in);
    size_t len = buf_len(&t->asker.in);
    struct ddp_err err;
    if (len > 1 && all[0] == 'J') {
        take_answer(t, all + 1, len - 1);
    } else if (len == 1 + sizeof(err) && all[0] == 'E') {
        memcpy(&err, all + 1, sizeof(err));
        take_error(t, &err);
    } else {
        ddp_err_set(&err, DDP_E_UNREACHABLE, "the process that asks ended");
        take_error(t, &err);
    }
    stop_asking(t);
}

/* True: there is an answer, or an error. */
static bool read_asker(struct top *t)
{
    uint8_t *room = buf_reserve(&t->asker.in, PIECE);
    if (room == NULL)
        no_memory();
    ssize_t n = read(t->asker.fd, room, PIECE);
    if (n < 0 && errno == EINTR)
        return false;
    if (n > 0) {
        buf_commit(&t->asker.in, (size_t)n);
        return false;
    }
    take_all(t);
    return true;
}

/* -- the picture ----------------------------------------------------------- */

/* The picture as text; the caller frees it. */
static char *draw(struct top *t)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        no_memory();
    picture_draw(&t->picture, t->status, f);
    if (fclose(f) != 0)
        no_memory();
    return text;
}

static void describe_away(struct top *t)
{
    char clean[sizeof(t->away.text)];
    char span[24];
    struct picture *p = &t->picture;
    p->news[0] = '\0';
    p->style.grey = t->away_us != 0;
    if (t->away_us == 0)
        return;
    ctl_clean(&p->style, t->away.text, clean, sizeof(clean));
    ctl_span((double)(mono_now_us() - t->away_us) / (double)MONO_S, span);
    (void)snprintf(p->news, sizeof(p->news), /* may be cut */
                   "%s has not answered for %s, still trying: %s", p->where,
                   span, clean);
}

static bool show(struct top *t)
{
    screen_size(&t->picture.rows, &t->picture.style.width);
    if (t->picture.style.width < PICTURE_WIDTH_MIN)
        t->picture.style.width = PICTURE_WIDTH_MIN; /* the terminal cuts */
    describe_away(t);
    char *text = draw(t);
    bool written = screen_put(text);
    free(text);
    return written;
}

/* -- on a terminal --------------------------------------------------------- */

/* False: quit. */
static bool press_all(struct top *t, const char *keys, size_t len)
{
    const char *was = asked_run(t);
    size_t used;
    for (; len > 0; keys += used, len -= used) {
        enum picture_key key = picture_key_of(keys, len, &used);
        if (key == KEY_QUIT)
            return false;
        picture_press(&t->picture, key, t->status);
    }
    if (asked_run(t) != was) { /* another question: the answer is wanted now */
        stop_asking(t);
        t->next_us = 0;
    }
    return true;
}

/* When something is to be done without a key. */
static int64_t wake_us(const struct top *t)
{
    int64_t second_us = mono_now_us() + MONO_S; /* "for 3 s" is a clock */
    bool asks = t->asker.pid == 0 && !t->picture.paused;
    return asks ? mono_min(t->next_us, second_us) : second_us;
}

static int watch(struct top *t)
{
    char keys[256];
    size_t len;
    bool written = screen_open();
    for (bool stay = true, changed = true; stay && written;) {
        if (!t->picture.paused && t->asker.pid == 0 &&
            mono_now_us() >= t->next_us)
            start_asking(t);
        if (changed)
            written = show(t);
        int news = screen_wait(t->asker.pid > 0 ? t->asker.fd : -1, wake_us(t),
                               keys, sizeof(keys), &len);
        changed = news != SCREEN_FD;
        if ((news & SCREEN_FD) != 0)
            changed |= read_asker(t);
        stay = (news & SCREEN_ENDED) == 0 && press_all(t, keys, len);
    }
    int error = errno;
    stop_asking(t);
    screen_close();
    errno = error;
    return written ? 0 : ctl_status_fail_to_write();
}

/* -- the first answer, and those on a pipe --------------------------------- */

static int ask_now(struct top *t, struct ddp_err *err)
{
    struct ctl_answer a;
    cJSON *status = NULL;
    if (ctl_status_ask(t->conf->peer, asked_run(t), t->conf->timeout_us, &a,
                       err) == 0)
        status = ctl_document_parse(a.body, a.len, err);
    free(a.body);
    if (status == NULL)
        return -1;
    cJSON_Delete(t->status);
    t->status = status;
    return 0;
}

static void sleep_until(int64_t at_us)
{
    (void)poll(NULL, 0, (int)mono_ms_until(mono_now_us(), at_us));
}

/* As long as the rendezvous is away, which is said once. */
static void ask_again(struct top *t, int64_t at_us)
{
    struct ddp_err err;
    char clean[sizeof(err.text)];
    bool told = false;
    for (;; at_us = mono_now_us() + t->conf->delay_us) {
        sleep_until(at_us);
        if (ask_now(t, &err) == 0)
            return;
        ctl_clean(&t->conf->style, err.text, clean, sizeof(clean));
        if (!told)
            log_warnx("%s does not answer, still trying: %s", t->conf->where,
                      clean);
        told = true;
    }
}

/* The pictures follow each other, with an empty line between. */
static int print(struct top *t)
{
    for (;;) {
        int64_t next_us = mono_now_us() + t->conf->delay_us;
        char *text = draw(t);
        bool written =
            ctl_status_put(STDOUT_FILENO, text, strlen(text)) &&
            (!t->conf->again || ctl_status_put(STDOUT_FILENO, "\n", 1));
        free(text);
        if (!written)
            return ctl_status_fail_to_write();
        if (!t->conf->again)
            return 0;
        ask_again(t, next_us);
    }
}

/* One that was named must be there at the start. */
static int check_run(const struct top *t)
{
    char clean[512];
    const char *run = t->conf->run;
    const cJSON *runs = field_of(t->status, "runs");
    if (run == NULL || field_is(cJSON_GetArrayItem(runs, 0), "id", run))
        return 0;
    ctl_clean(&t->conf->style, run, clean, sizeof(clean));
    log_warnx(
        "there is no run '%s' on %s. `ddpctl top --once` shows which there "
        "are",
        clean, t->conf->where);
    return ddp_code_exit(DDP_E_USAGE);
}

int ctl_top_run(struct ctl_top *conf)
{
    static struct top t;
    t = (struct top){.conf = conf};
    t.picture = (struct picture){.style = conf->style, .where = conf->where};
    if (conf->run != NULL)
        (void)snprintf(t.picture.run, sizeof(t.picture.run), "%s", conf->run);
    t.picture.one = conf->run != NULL;
    t.next_us = mono_now_us() + conf->delay_us;
    struct ddp_err err;
    if (ask_now(&t, &err) != 0) {
        ctl_complain(&conf->style, conf->where, &err);
        return ddp_code_exit(err.code);
    }
    int rc = check_run(&t);
    if (rc == 0 && !conf->terminal)
        rc = print(&t);
    else if (rc == 0)
        rc = watch(&t);
    cJSON_Delete(t.status);
    return rc;
}
