/*
 * Happy path: a round makes progress; the importer is started and says "ready";
 * for each worker it is sent one end of a socket pair and forks twice, so that
 * the standby becomes our child once the process between has ended. The standby
 * says so on its socket, where the kernel tells its pid. At the next round
 * standby_take sends an order and the streams, and waits for one byte: from
 * then on it is a worker as any other, in a session of its own.
 *
 * Failure modes, each of which means fresh starts:
 *   - The importer cannot start, says "no", or ends: said once, and for good.
 *   - A standby ends, or is no child of ours: forgotten, as its socket closes.
 *   - It does not answer an order within FORKS_ANSWER_MS: it is killed, and so
 *     are all others, since they would hang in the same way.
 *   - An import may have seen what differs for this worker (same_env): said
 *     once.
 *   - Memory gets short: all are ended, at the next look. If it runs out
 *     before, the kernel takes them first, by their oom_score_adj.
 */
#include "launcher/standby/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/standby/command.h"
#include "launcher/standby/forks.h"
#include "launcher/standby/learn.h"
#include "launcher/proc/memory.h"
#include "launcher/standby/order.h"
#include "launcher/standby/policy.h"
#include "launcher/standby/prefetch.h"
#include "launcher/standby/runner.h"
#include "launcher/standby/same_env.h"
#include "launcher/worker/env.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

#define STANDBY_MAGIC 0x73746279u
#define SAYS_MAX      300  /* bytes that an importer says at once */
#define WORDS_MORE    11   /* "-c", the runner and its words */
#define LOOK_MS       1000 /* how often memory is looked at */

struct standby {
    unsigned magic;
    uv_loop_t *loop;
    uv_timer_t late;
    uv_timer_t look; /* at memory, while there is an importer */
    const struct conf *conf;
    const struct spawn_origin *origin;
    const struct workers *workers;
    struct standby_command command;
    struct standby_policy policy;
    pid_t importer; /* 0: none lives */
    pid_t session;  /* its pid, also after its end; -1: none yet */
    int chan;       /* to it; -1: none */
    bool closing;   /* `poll`, of the one before */
    uv_poll_t poll;
    int64_t took;            /* bytes, by the last importer when it was ended */
    const char *places;      /* names of variables (same_env) */
    char **envp;             /* of the imports, owned */
    int learn_fd;            /* --standby=auto; -1: the names are given */
    const char **learn_argv; /* of the worker that is being started, owned */
    char learn_path[LEARN_PATH_MAX]; /* in it */
    char program[16];                /* command.program, as a word */
    struct forks *forks;             /* owned */
    int used;                        /* in the round that is being started */
    bool told_env;
    char list[PREFETCH_PATH_MAX]; /* "": none is kept */
    bool writes_list;             /* the node of group rank 0 */
    size_t learnt;                /* bytes of names when it was looked last */
    bool soon; /* another worker than the one that we learn from is ready */
};

static char learn_text[LEARN_MAX + 1]; /* large, and there is one thread */

static struct standby *standby_of(void *data)
{
    struct standby *s = data;
    ddp_assert(s != NULL && s->magic == STANDBY_MAGIC);
    return s;
}

/* -- the importer ---------------------------------------------------------- */

static void on_channel_closed(uv_handle_t *h)
{
    standby_of(h->data)->closing = false;
}

static void close_channel(struct standby *s)
{
    if (s->chan < 0)
        return;
    (void)uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, on_channel_closed);
    s->closing = true;
    (void)close(s->chan);
    s->chan = -1;
}

/* Importer and standbys, without waiting for their ends. */
static void end_all(struct standby *s)
{
    (void)uv_timer_stop(&s->look);
    close_channel(s);
    forks_end(s->forks);
    if (s->importer <= 0)
        return;
    /* Idle, it would not die before others leave it the CPU. */
    (void)sched_setscheduler(s->importer, SCHED_OTHER,
                             &(struct sched_param){0});
    (void)kill(s->importer, SIGKILL); /* not reaped yet */
}

static void on_look(uv_timer_t *timer)
{
    struct standby *s = standby_of(timer->data);
    int64_t has = memory_of(s->importer), free = memory_free();
    if (s->importer == 0 || !memory_short(has, free))
        return;
    log_info("the process that imports ahead takes %lld MiB of memory, and "
             "only %lld MiB are free: it is ended, and so are its standbys; "
             "the workers of the next round are started afresh",
             (long long)has >> 20, (long long)free >> 20);
    s->took = has;
    standby_policy_short(&s->policy);
    end_all(s);
}

__attribute__((format(printf, 2, 3))) static void
give_up(struct standby *s, const char *fmt, ...)
{
    char why[SAYS_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap); /* may be cut */
    va_end(ap);
    if (s->policy.state != STANDBY_OFF)
        log_info("no standbys from now on, workers are started afresh: %s",
                 why);
    standby_stop(s);
}

/* What it says is shown, so no more than printable bytes of it. */
static void clean(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void on_ready(struct standby *s, const char *numbers)
{
    long modules = 0, left_out = 0, kib = 0;
    if (sscanf(numbers, "%ld %ld %ld", &modules, &left_out, &kib) != 3 ||
        s->policy.state != STANDBY_IMPORTING) {
        give_up(s, "the importer's answer makes no sense");
        return;
    }
    log_info("%ld module%s imported ahead for the next round (%ld MiB), %ld "
             "left out",
             modules, modules == 1 ? " is" : "s are", kib / 1024, left_out);
    if (standby_policy_ready(&s->policy) == STANDBY_WANT_FORKS)
        forks_fill(s->forks, s->chan);
}

static void on_importer(uv_poll_t *poll, int status, int events)
{
    struct standby *s = standby_of(poll->data);
    char text[SAYS_MAX];
    pid_t sender;
    (void)events;
    ssize_t n = order_receive(s->chan, text, sizeof(text) - 1, &sender);
    if (n < 0 && errno == EAGAIN && status == 0)
        return;
    if (n <= 0) {
        give_up(s, "the process that imports ahead has ended");
        return;
    }
    text[n] = '\0';
    clean(text);
    if (strncmp(text, "ready ", 6) == 0)
        on_ready(s, text + 6);
    else
        give_up(s, "%s", text);
}

/* What local rank 0 has imported. -1 with why. */
static int write_learnt(const struct standby *s, char why[STANDBY_WHY_MAX])
{
    int64_t has = memory_of(workers_pid(s->workers, 0));
    int64_t free = memory_free();
    size_t len = learn_read(s->learn_fd, true, learn_text);
    if (len == 0)
        (void)snprintf(why, STANDBY_WHY_MAX, "the program imports nothing");
    else if (!memory_fits(has, free))
        (void)snprintf(why, STANDBY_WHY_MAX, /* fits */
                       "local rank 0 takes %lld MiB of memory, more than a "
                       "quarter of the %lld MiB that are free",
                       (long long)has >> 20, (long long)free >> 20);
    else
        return order_file(learn_text, len, 0);
    return -1;
}

/* "a,b" as lines. -1 with why, if an importer of them was ended before. */
static int write_given(const struct standby *s, char why[STANDBY_WHY_MAX])
{
    int64_t free = memory_free();
    if (s->took > 0 && !memory_fits(s->took, free)) {
        (void)snprintf(why, STANDBY_WHY_MAX, /* fits */
                       "the process that imports ahead took %lld MiB of "
                       "memory, more than a quarter of the %lld MiB that are "
                       "free",
                       (long long)s->took >> 20, (long long)free >> 20);
        return -1;
    }
    char text[sizeof(s->conf->standby)];
    size_t len = strlen(s->conf->standby);
    memcpy(text, s->conf->standby, len);
    for (size_t i = 0; i < len; i++)
        if (text[i] == ',')
            text[i] = '\n';
    return order_file(text, len, 0);
}

/* PYTHON OPTIONS -c RUNNER WORD... ARGV; the caller frees it. NULL: no memory.
 */
static const char **runner_argv(const struct standby *s,
                                const char *const words[],
                                char *const *argv)
{
    size_t argc = 0, n = 0;
    while (argv[argc] != NULL)
        argc++;
    const char **out = calloc(2 * argc + WORDS_MORE + 1, sizeof(*out));
    if (out == NULL)
        return NULL;
    for (int i = 0; i < s->command.options; i++)
        out[n++] = argv[i];
    out[n++] = "-c";
    out[n++] = standby_runner;
    for (int i = 0; words[i] != NULL; i++)
        out[n++] = words[i];
    for (size_t i = 0; i < argc; i++)
        out[n++] = argv[i];
    ddp_assert(n <= 2 * argc + WORDS_MORE);
    return out;
}

static const char *kind_of(const struct standby *s)
{
    return s->command.module ? "module" : "script";
}

/* Workers have CPUs that are their own, so no import ahead knows which. */
static bool are_bound_apart(const struct conf *c)
{
    return c->numa_binding != TOPOLOGY_NONE && c->nproc > 1;
}

/* The words are: import CHANNEL NAMES AGENT PLACES APART LIST KIND PROGRAM. The
 * importer has the CPUs of local rank 0: libraries in C count them. */
static int start_importer(struct standby *s, int chan, int names, int null)
{
    char text[3][16];
    const int numbers[3] = {chan, names, (int)getpid()};
    for (int i = 0; i < 3; i++)
        (void)snprintf(text[i], sizeof(text[i]), "%d", numbers[i]); /* fits */
    const char *const words[] = {
        "import",
        text[0],
        text[1],
        text[2],
        s->places,
        are_bound_apart(s->conf) ? "apart" : "together",
        s->writes_list ? s->list : "",
        kind_of(s),
        s->program,
        NULL,
    };
    bool bound = s->conf->numa_binding != TOPOLOGY_NONE;
    const char **argv = runner_argv(s, words, s->conf->argv);
    if (argv == NULL)
        return -1;
    struct spawn_request req = {.path = s->conf->exec_path,
                                .argv = (char *const *)(uintptr_t)argv,
                                .envp = s->envp,
                                .origin = s->origin,
                                .cpus = bound ? &s->conf->seats[0].cpus : NULL,
                                .report_fd = null,
                                .out_fd = null,
                                .err_fd = null,
                                .keep_fd = -1,
                                .env_fd = -1};
    struct ddp_err err;
    int pidfd = -1;
    int rc = spawn_worker(&req, &s->importer, &pidfd, &err);
    if (rc == 0 && pidfd >= 0)
        (void)close(pidfd); /* our child until standby_importer_ended */
    free(argv);
    return rc;
}

static int watch_importer(struct standby *s, int chan)
{
    if (uv_poll_init(s->loop, &s->poll, chan) != 0)
        return -1;
    s->poll.data = s;
    s->chan = chan;
    (void)uv_poll_start(&s->poll, UV_READABLE, on_importer); /* cannot fail */
    return 0;
}

static void import(struct standby *s)
{
    int pair[2] = {-1, -1};
    char why[STANDBY_WHY_MAX] = "";
    if (s->importer > 0 || s->closing) { /* of the one before; next time */
        standby_policy_short(&s->policy);
        return;
    }
    int names = s->learn_fd >= 0 ? write_learnt(s, why) : write_given(s, why);
    if (why[0] != '\0') {
        give_up(s, "%s", why);
        return;
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ok = names >= 0 && null >= 0 && order_pair(pair) == 0;
    /* The importer inherits them; nothing else is started meanwhile. */
    ok = ok && fcntl(pair[1], F_SETFD, 0) == 0 &&
         start_importer(s, pair[1], names, null) == 0;
    if (ok) {
        s->session = s->importer;
        (void)uv_timer_start(&s->look, on_look, LOOK_MS, LOOK_MS);
    }
    if (!ok || watch_importer(s, pair[0]) != 0) {
        give_up(s, "a process that imports ahead cannot be started: %s",
                strerror(errno));
        if (pair[0] >= 0)
            (void)close(pair[0]);
    }
    if (pair[1] >= 0)
        (void)close(pair[1]);
    if (names >= 0)
        (void)close(names);
    if (null >= 0)
        (void)close(null);
}

static void act(struct standby *s, enum standby_want want)
{
    switch (want) {
    case STANDBY_WANT_NOTHING:
        return;
    case STANDBY_WANT_IMPORTER:
        import(s);
        return;
    case STANDBY_WANT_FORKS:
        forks_fill(s->forks, s->chan);
        return;
    }
    DDP_WRONG("want");
}

/* -- taking one ------------------------------------------------------------ */

static bool sees_the_same(struct standby *s, const struct spawn_request *req)
{
    const char *entry = same_env_differs(s->envp, req->envp, s->places);
    if (entry == NULL && req->cpus != NULL &&
        cpus_count(req->cpus) != cpus_count(&s->conf->seats[0].cpus))
        entry = "the number of its CPUs";
    if (entry != NULL && !s->told_env)
        log_info("worker with local rank %d is started afresh, not from a "
                 "standby: %.*s differs from what the imports may have read",
                 req->local_rank, (int)strcspn(entry, "="), entry);
    s->told_env |= entry != NULL;
    return entry == NULL;
}

static bool is_learning(const struct standby *s)
{
    return s->learn_fd >= 0 && s->policy.state == STANDBY_NONE;
}

/* Until something is learnt local rank 0 tells what it imports: it runs below
 * the runner. Words: learn MEMORY KIND PROGRAM. */
static void learn(struct standby *s, struct spawn_request *req)
{
    if (!is_learning(s) || req->local_rank != 0 ||
        !learn_begin(s->learn_fd, s->learn_path))
        return;
    const char *const words[] = {"learn", s->learn_path, kind_of(s), s->program,
                                 NULL};
    free(s->learn_argv);
    s->learn_argv = runner_argv(s, words, req->argv);
    if (s->learn_argv != NULL)
        req->argv = (char *const *)(uintptr_t)s->learn_argv;
}

bool standby_take(void *standby,
                  struct spawn_request *req,
                  pid_t *pid,
                  int *pidfd)
{
    struct standby *s = standby_of(standby);
    learn(s, req);
    if (!forks_has(s->forks, req->local_rank) || !sees_the_same(s, req))
        return false;
    if (!forks_take(s->forks, req, pid, pidfd)) {
        log_info("standby with local rank %d does not answer within %d ms; "
                 "the workers of this round are started afresh",
                 req->local_rank, FORKS_ANSWER_MS);
        forks_end(s->forks);
        return false;
    }
    s->used++;
    return true;
}

/* -- what happens to the workers ------------------------------------------- */

static void on_late(uv_timer_t *timer);

static void wait_on(struct standby *s, int64_t us)
{
    uv_update_time(s->loop);
    (void)uv_timer_start(&s->late, on_late, (uint64_t)(us / MONO_MS), 0);
}

/* As long as there are more imports the round has not begun. */
static void on_late(uv_timer_t *timer)
{
    struct standby *s = standby_of(timer->data);
    size_t before = s->learnt;
    if (is_learning(s))
        s->learnt = learn_read(s->learn_fd, false, learn_text);
    if (s->learnt == before)
        act(s, standby_policy_late(&s->policy));
    else
        wait_on(s, s->soon ? STANDBY_SOON_US
                           : standby_policy_silence(&s->policy, mono_now_us()));
}

static bool make_env(struct standby *s, const struct msg_world *world)
{
    static const struct mailbox none = MAILBOX_NONE;
    s->envp = worker_env_make(s->conf, world, 0, "", &none, -1);
    if (s->envp != NULL)
        same_env_strip(s->envp, s->places);
    return s->envp != NULL;
}

/* No restart is left, and no other node can come. */
static bool is_last(const struct conf *c, const struct msg_world *world)
{
    return c->nnodes_max == 1 && c->restart_window_us == 0 &&
           world->restarts >= c->max_restarts;
}

void standby_round(struct standby *s, const struct msg_world *world)
{
    if (s == NULL)
        return;
    if (s->envp == NULL && !make_env(s, world)) {
        give_up(s, "there is no memory for it");
        return;
    }
    if (s->used > 0)
        log_info("%d of %d worker%s started from a standby", s->used,
                 s->conf->nproc, s->conf->nproc == 1 ? "" : "s");
    standby_policy_round(&s->policy, s->used, mono_now_us());
    s->writes_list = world->group_rank == 0;
    s->used = 0;
    s->learnt = 0;
    s->soon = false;
    if (is_last(s->conf, world))
        standby_stop(s); /* nobody would take them */
    else
        wait_on(s, STANDBY_AFTER_US);
}

void standby_progress(struct standby *s, int local_rank)
{
    if (s == NULL)
        return;
    if (is_learning(s) && local_rank != 0) {
        s->soon = true; /* the one that tells what it imports is not far */
        wait_on(s, STANDBY_SOON_US);
        return;
    }
    act(s, standby_policy_progress(&s->policy));
}

void standby_worker_ended(struct standby *s, const struct agent_worker *w)
{
    bool killed = w->signal == SIGKILL || w->signal == SIGTERM;
    if (s == NULL || killed || (w->code == 0 && w->signal == 0))
        return;
    if (w->progressed)
        s->policy.progressed = true;
    if (standby_policy_failed(&s->policy, mono_now_us())) {
        log_info("no standbys from now on, workers are started afresh: a "
                 "worker that was one failed early");
        standby_stop(s);
    }
}

pid_t standby_importer(const struct standby *s)
{
    return s != NULL ? s->importer : 0;
}

void standby_importer_ended(struct standby *s)
{
    (void)helper_reap(&s->importer);
    if (s->policy.state == STANDBY_IMPORTING ||
        s->policy.state == STANDBY_READY)
        give_up(s, "the process that imports ahead has ended");
}

pid_t standby_session(const struct standby *s)
{
    return s != NULL ? s->session : -1;
}

int standby_ready(const struct standby *s)
{
    bool none = s == NULL || s->policy.state == STANDBY_OFF;
    return none ? -1 : forks_count(s->forks);
}

void standby_stop(struct standby *s)
{
    if (s == NULL)
        return;
    standby_policy_give_up(&s->policy);
    (void)uv_timer_stop(&s->late);
    end_all(s);
}

/* -- the start ------------------------------------------------------------- */

static const char *const places_of_openmp[] = {
    "OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", NULL};

/* Why none can be had here; an empty text: they can. */
static void find_reason(struct standby *s, char why[STANDBY_WHY_MAX])
{
    const struct conf *c = s->conf;
    const char *text = "";
    why[0] = '\0';
    if (!standby_command_read(c->argv, &s->command, why))
        return;
    if (!pidfd_works())
        text = "the kernel has no pidfds";
    (void)snprintf(why, STANDBY_WHY_MAX, "%s", text); /* may be cut */
    for (int i = 0; are_bound_apart(c) && places_of_openmp[i] != NULL; i++)
        if (getenv(places_of_openmp[i]) != NULL)
            (void)snprintf(why, STANDBY_WHY_MAX, /* fits */
                           "with --numa_binding and %s, OpenMP looks for a "
                           "worker's CPUs as it is imported",
                           places_of_openmp[i]);
}

struct standby *standby_new(uv_loop_t *loop,
                            const struct conf *conf,
                            const struct spawn_origin *origin,
                            const struct workers *workers)
{
    char why[STANDBY_WHY_MAX];
    if (conf->standby[0] == '\0' || conf->preflight)
        return NULL;
    struct standby *s = calloc(1, sizeof(*s));
    if (s == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for standbys");
    *s = (struct standby){.magic = STANDBY_MAGIC,
                          .loop = loop,
                          .conf = conf,
                          .origin = origin,
                          .workers = workers,
                          .learn_fd = -1,
                          .session = -1,
                          .chan = -1,
                          .places = same_env_places(conf->virtual_local_rank)};
    find_reason(s, why);
    if (why[0] == '\0' && strcmp(conf->standby, "auto") == 0) {
        s->learn_fd = learn_open();
        if (s->learn_fd < 0)
            (void)snprintf(why, sizeof(why), "memfd_create: %s",
                           strerror(errno));
    }
    if (why[0] != '\0') {
        log_info("no standbys, workers are started afresh: %s", why);
        free(s);
        return NULL;
    }
    s->forks = forks_new(loop, conf->nproc);
    (void)snprintf(s->program, sizeof(s->program), "%d", s->command.program);
    prefetch_path(conf->exec_path, conf->argv[s->command.program], s->list);
    if (s->list[0] != '\0')
        prefetch_start(s->list, memory_free() / MEMORY_SHARE);
    (void)uv_timer_init(loop, &s->late); /* cannot fail */
    (void)uv_timer_init(loop, &s->look);
    s->late.data = s->look.data = s;
    return s;
}
