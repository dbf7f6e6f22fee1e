/*
 * Happy path: the workers of the first round record what they import; when that
 * is complete (policy.h) the importer is started and says "ready"; for each
 * worker it is sent one end of a socket pair and forks twice, so that
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
 *   - An import may have read a variable that differs for this worker: the
 *     standby says which, and ends; said once.
 *   - Memory gets short: all are ended, at the next look. If it runs out
 *     before, the kernel takes them first, by their oom_score_adj.
 */
#include "launcher/standby/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/standby/command.h"
#include "launcher/standby/forks.h"
#include "launcher/standby/learn.h"
#include "launcher/proc/memory.h"
#include "launcher/standby/order.h"
#include "launcher/standby/policy.h"
#include "launcher/standby/runner.h"
#include "launcher/worker/env.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

#define STANDBY_MAGIC 0x73746279u
#define SAYS_MAX      300  /* bytes that an importer says at once */
#define WORDS_MORE    11   /* "-S", "-c", the runner and its words */
#define LOOK_MS       1000 /* how often memory is looked at */
#define RECORD_MS     250  /* how often the record is, until it is complete */
#define WAITS_MAX     240  /* a minute for others, who import what one has */

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
    char **envp;             /* of local rank 0, owned */
    int *learn_fds;          /* by local rank, owned; -1: it is not recorded */
    bool learning;           /* they record, or will in the next round */
    bool began;              /* local rank 0 has made progress */
    const char **learn_argv; /* of the worker that is being started, owned */
    char learn_path[LEARN_PATH_MAX]; /* in it */
    char program[16];                /* command.program, as a word */
    struct forks *forks;             /* owned */
    size_t of_others; /* bytes that other workers have recorded */
    int waits;        /* for these, in this round */
    int used;         /* in the round that is being started */
    bool had_round;
    bool told_env;
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

static bool is_auto(const struct standby *s)
{
    return strcmp(s->conf->standby, "auto") == 0;
}

/* Too little memory is a reason not to begin; an empty text: it is enough. What
 * all imports take is known of the worker; of named ones of an importer that
 * was ended. */
static void look_at_memory(const struct standby *s, char why[STANDBY_WHY_MAX])
{
    int64_t free = memory_free();
    int64_t has = is_auto(s) ? memory_of(workers_pid(s->workers, 0)) : s->took;
    if ((has != 0 || is_auto(s)) && !memory_fits(has, free))
        (void)snprintf(why, STANDBY_WHY_MAX, /* fits */
                       "%s %lld MiB of memory, more than a quarter of the "
                       "%lld MiB that are free",
                       is_auto(s) ? "local rank 0 takes"
                                  : "the process that imports ahead took",
                       (long long)has >> 20, (long long)free >> 20);
}

/* What replay.py (Record) reads: the variables, and what each worker wrote. -1
 * with errno. */
static int write_record(const struct standby *s)
{
    char *data = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&data, &len);
    if (f == NULL)
        return -1;
    for (char **entry = s->envp; *entry != NULL; entry++)
        (void)fwrite(*entry, 1, strlen(*entry) + 1, f);
    (void)fputc('\0', f);
    if (!is_auto(s))
        (void)fprintf(f, "('only', '%s')\n", s->conf->standby);
    for (int i = 0; i < s->conf->nproc; i++) {
        if (i > 0)
            (void)fputs("('worker',)\n", f);
        if (s->learn_fds[i] >= 0)
            (void)fwrite(learn_text, 1, learn_read(s->learn_fds[i], learn_text),
                         f);
    }
    bool whole = ferror(f) == 0;
    int fd = fclose(f) == 0 && whole ? order_file(data, len, 0) : -1;
    free(data);
    return fd;
}

/* PYTHON OPTIONS [-S] -c START RUNNER WORD... ARGV; the caller frees it. NULL:
 * no memory. */
static const char **runner_argv(const struct standby *s,
                                bool without_site,
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
    if (without_site)
        out[n++] = "-S";
    out[n++] = "-c";
    out[n++] = standby_start;
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

/* The words are: probe CHANNEL RECORD AGENT APART KIND PROGRAM. The importer
 * has the CPUs of local rank 0: libraries in C count them. */
static int start_importer(struct standby *s, int chan, int record, int null)
{
    char text[3][16];
    const int numbers[3] = {chan, record, (int)getpid()};
    for (int i = 0; i < 3; i++)
        (void)snprintf(text[i], sizeof(text[i]), "%d", numbers[i]); /* fits */
    const char *const words[] = {
        "probe",
        text[0],
        text[1],
        text[2],
        are_bound_apart(s->conf) ? "apart" : "together",
        kind_of(s),
        s->program,
        NULL,
    };
    bool bound = s->conf->numa_binding != TOPOLOGY_NONE;
    const char **argv = runner_argv(s, true, words, s->conf->argv);
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
    look_at_memory(s, why);
    if (why[0] != '\0') {
        give_up(s, "%s", why);
        return;
    }
    int record = write_record(s);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ok = record >= 0 && null >= 0 && order_pair(pair) == 0;
    /* The importer inherits them; nothing else is started meanwhile. */
    ok = ok && fcntl(pair[1], F_SETFD, 0) == 0 &&
         start_importer(s, pair[1], record, null) == 0;
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
    if (record >= 0)
        (void)close(record);
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
    case STANDBY_WANT_NONE:
        end_all(s);
        return;
    }
    DDP_WRONG("want");
}

/* -- taking one ------------------------------------------------------------ */

static void tell_differs(struct standby *s, int local_rank, const char *what)
{
    if (!s->told_env)
        log_info("worker with local rank %d is started afresh, not from a "
                 "standby: %s differs from what the imports may have read",
                 local_rank, what);
    s->told_env = true;
}

static bool has_as_many_cpus(struct standby *s, const struct spawn_request *req)
{
    if (req->cpus == NULL ||
        cpus_count(req->cpus) == cpus_count(&s->conf->seats[0].cpus))
        return true;
    tell_differs(s, req->local_rank, "the number of its CPUs");
    return false;
}

/* Until their imports are known the workers run below the runner and record
 * them. Words: learn MEMORY KIND PROGRAM. */
static void learn(struct standby *s, struct spawn_request *req)
{
    int fd = s->learn_fds[req->local_rank];
    if (!s->learning || s->policy.state != STANDBY_NONE || fd < 0 ||
        !learn_begin(fd, s->learn_path))
        return;
    const char *const words[] = {"learn", s->learn_path, kind_of(s), s->program,
                                 NULL};
    free(s->learn_argv);
    s->learn_argv = runner_argv(s, false, words, req->argv);
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
    char differs[FORKS_NAME_MAX];
    if (!forks_has(s->forks, req->local_rank) || !has_as_many_cpus(s, req))
        return false;
    if (!forks_take(s->forks, req, pid, pidfd, differs)) {
        clean(differs);
        if (differs[0] != '\0') {
            tell_differs(s, req->local_rank, differs);
            return false;
        }
        log_info("standby with local rank %d is gone, or does not answer "
                 "within %d ms; the workers of this round are started afresh",
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

static void learn_no_more(struct standby *s)
{
    s->learning = false;
    for (int i = 0; i < s->conf->nproc; i++)
        if (s->learn_fds[i] >= 0)
            learn_stop(s->learn_fds[i]);
}

/* Another worker than local rank 0 imports, or has since the last look. What is
 * not in its record as well ends the replay. */
static bool others_import(struct standby *s)
{
    bool import = false;
    size_t all = 0;
    for (int i = 1; i < s->conf->nproc; i++) {
        int fd = s->learn_fds[i];
        size_t len = fd >= 0 ? learn_read(fd, learn_text) : 0;
        import |= len == 0 || learn_stage(learn_text, len) == LEARN_IMPORTS;
        all += len;
    }
    import |= all != s->of_others;
    s->of_others = all;
    return import;
}

/* The workers record their imports: of local rank 0 these are looked at. */
static void look_at_record(struct standby *s)
{
    bool wait = others_import(s) && s->waits++ < WAITS_MAX;
    int fd = s->learn_fds[0];
    size_t len = fd >= 0 ? learn_read(fd, learn_text) : 0;
    enum learn_stage stage = learn_stage(learn_text, len);
    bool complete = (s->began || stage == LEARN_COMPLETE) && !wait;
    bool of_before = s->importer > 0 && s->policy.state == STANDBY_NONE;
    if (stage == LEARN_IMPORTS && !complete)
        standby_policy_imports(&s->policy, mono_now_us());
    else if (!of_before && !s->closing) /* else it is to end first */
        act(s, standby_policy_learnt(&s->policy, len, complete, mono_now_us()));
    if (complete && s->policy.state != STANDBY_NONE)
        learn_no_more(s);
    else if (s->policy.state != STANDBY_OFF)
        wait_on(s, RECORD_MS * MONO_MS);
}

static void on_late(uv_timer_t *timer)
{
    struct standby *s = standby_of(timer->data);
    if (s->learning)
        look_at_record(s);
    else
        act(s, standby_policy_late(&s->policy));
}

static bool make_env(struct standby *s, const struct msg_world *world)
{
    static const struct mailbox none = MAILBOX_NONE;
    s->envp = worker_env_make(s->conf, world, 0, "", &none, -1);
    return s->envp != NULL;
}

/* From the second round on. */
static void tell_used(const struct standby *s)
{
    static const char *const why[] = {
        [STANDBY_NONE] = ": what they import is not known yet",
        [STANDBY_IMPORTING] = ": still importing",
        [STANDBY_READY] = "",
    };
    int nproc = s->conf->nproc;
    if (s->policy.state != STANDBY_OFF)
        log_info("%d of %d worker%s started from a standby%s", s->used, nproc,
                 nproc == 1 ? "" : "s",
                 s->used < nproc ? why[s->policy.state] : "");
}

void standby_round(struct standby *s, const struct msg_world *world)
{
    if (s == NULL)
        return;
    if (s->envp == NULL && !make_env(s, world)) {
        give_up(s, "there is no memory for it");
        return;
    }
    if (s->had_round)
        tell_used(s);
    s->had_round = true;
    standby_policy_round(&s->policy, s->used, mono_now_us());
    s->used = 0;
    s->began = false;
    s->of_others = 0;
    s->waits = 0;
    if (s->policy.state != STANDBY_NONE)
        s->learning = false; /* what is known is enough */
    /* No restart is left, and no other node can come. */
    if (s->conf->nnodes_max == 1 && s->conf->restart_window_us == 0 &&
        world->restarts >= s->conf->max_restarts)
        standby_stop(s); /* nobody would take them */
    else
        wait_on(s, s->learning ? RECORD_MS * MONO_MS : STANDBY_AFTER_US);
}

void standby_progress(struct standby *s, int local_rank)
{
    if (s == NULL)
        return;
    s->began |= local_rank == 0;
    s->policy.soon = true; /* then that one is not far */
    s->policy.progressed = true;
    if (s->learning)
        look_at_record(s);
    else
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
    learn_no_more(s);
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
                          .learning = true,
                          .session = -1,
                          .chan = -1};
    find_reason(s, why);
    if (why[0] != '\0') {
        log_info("no standbys, workers are started afresh: %s", why);
        free(s);
        return NULL;
    }
    s->forks = forks_new(loop, conf->nproc);
    s->learn_fds = calloc((size_t)conf->nproc, sizeof(s->learn_fds[0]));
    if (s->learn_fds == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for standbys");
    for (int i = 0; i < conf->nproc; i++)
        s->learn_fds[i] = learn_open();
    (void)snprintf(s->program, sizeof(s->program), "%d", s->command.program);
    (void)uv_timer_init(loop, &s->late); /* cannot fail */
    (void)uv_timer_init(loop, &s->look);
    s->late.data = s->look.data = s;
    return s;
}
