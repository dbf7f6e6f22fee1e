/*
 * Happy path: a timer takes a sample of each worker and a look at the consoles,
 * and gives both to hang. When hang finds a worker, a helper process writes the
 * stacks of this node's workers into a file beside the worker's error file,
 * while another asks PyTorch which collective does not end; once it has ended,
 * their beginning is shown on stderr and on_hang is called. No worker is
 * touched before that: its stacks are the only evidence.
 *
 * Failure modes:
 * - The helper hangs (a debugger, /proc of a process in an uninterruptible
 *   wait): after STACKS_US the hang is told without what is missing.
 * - The helper cannot be started, or there is no folder: the hang is told at
 *   once, or the stacks go into memory only.
 * - The round ends meanwhile: the helper is killed and nothing is told.
 * - The machine sleeps: the workers do, too, and the clock of all this stands
 *   still (mono_awake_us).
 * - A console is full: see hang.h. A console cannot be asked whether a worker
 *   waits for it, only whether it is full and takes something, hence the rule.
 */
#include "launcher/worker/hang_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher/worker/flight.h"
#include "launcher/worker/pipe_probe.h"
#include "launcher/worker/stack_line.h"
#include "launcher/worker/stacks.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

#define STACKS_US       (20 * MONO_S) /* longest wait for the stacks */
#define STACKS_NAME     "stacks.txt"
#define LINES_ON_TERM   24  /* of the stacks, on stderr */
#define COLUMNS_ON_TERM 200 /* of a line; longer ones are cut */

#define HANG_WATCH_MAGIC 0x68616e67u

struct console_look {
    bool blocks;     /* a worker may wait for it */
    int64_t waiting; /* pipe_probe's number at the last look */
    int64_t output;  /* of all workers, when it was last full */
};

struct hang_watch {
    unsigned magic;
    const struct conf *conf;
    struct workers *workers;
    const struct hang_watch_handler *handler;
    void *ctx;
    uv_timer_t timer;
    struct hang hang;
    struct console_look consoles[2]; /* stdout, stderr */
    enum hang_pace pace;             /* at the last look */
    bool paused;
    int64_t looked_us;
    struct flight_of flight; /* of this round */

    pid_t helper; /* writes stacks, 0: none */
    int stacks_fd;
    int flight_fd; /* what PyTorch says, -1: none */
    int64_t stacks_until_us;
    char path[WORKERS_PATH_MAX]; /* of the stacks; "" for no file */
    struct hang_verdict verdict; /* what is told when it is done */
    pid_t pid;
};

static struct hang_watch *hang_watch_of(void *data)
{
    struct hang_watch *w = data;
    ddp_assert(w->magic == HANG_WATCH_MAGIC);
    return w;
}

/* A stream with a log file never waits for the console
 * (launcher/output/stream). */
static bool may_wait(const struct conf *conf, enum conf_stream which)
{
    for (int i = 0; i < conf->nproc; i++) {
        struct conf_plan p = conf_output_plan(&conf->output, i, which);
        if (p.piped ? p.console && !p.file : !p.null)
            return true;
    }
    return false;
}

struct hang_watch *hang_watch_new(uv_loop_t *loop,
                                  const struct conf *conf,
                                  struct workers *workers,
                                  const struct hang_watch_handler *handler,
                                  void *ctx)
{
    size_t n = (size_t)conf->nproc;
    struct hang_watch *w = calloc(1, sizeof(*w));
    struct hang_worker *seen = calloc(n, sizeof(*seen));
    if (w == NULL || seen == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %zu worker%s", n,
               n == 1 ? "" : "s");
    w->magic = HANG_WATCH_MAGIC;
    w->conf = conf;
    w->workers = workers;
    w->handler = handler;
    w->ctx = ctx;
    w->stacks_fd = w->flight_fd = -1;
    w->flight.workers = workers;
    w->flight.n = conf->nproc;
    for (int i = 0; i < 2; i++)
        w->consoles[i] = (struct console_look){
            .blocks = may_wait(conf, (enum conf_stream)(i + 1)), .waiting = -1};
    hang_init(&w->hang, &conf->hang, seen, conf->nproc);
    (void)uv_timer_init(loop, &w->timer); /* cannot fail */
    w->timer.data = w;
    return w;
}

/* -- telling --------------------------------------------------------------- */

static void drop_stacks(struct hang_watch *w)
{
    helper_kill(&w->helper);
    if (w->stacks_fd >= 0)
        (void)close(w->stacks_fd); /* another process wrote it */
    if (w->flight_fd >= 0)
        (void)close(w->flight_fd); /* so it did this */
    w->stacks_fd = w->flight_fd = -1;
}

static void show_stacks(const struct hang_watch *w)
{
    char *line = NULL;
    size_t room = 0;
    int n = 0;
    if (w->stacks_fd < 0)
        return; /* why there are none was told */
    int fd = dup(w->stacks_fd);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (f == NULL) {
        log_warn("cannot show the stacks");
        if (fd >= 0)
            (void)close(fd); /* only to be read */
        return;
    }
    rewind(f);
    while (n < LINES_ON_TERM && getline(&line, &room, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (stack_line_is_noise(line))
            continue;
        stack_line_shorten(line);
        const char *text = stack_line_for_people(line);
        log_info("  | %.*s%s", COLUMNS_ON_TERM, text,
                 strlen(text) > COLUMNS_ON_TERM ? "..." : "");
        n++;
    }
    free(line);
    if (n == LINES_ON_TERM && w->path[0] != '\0')
        log_info("  | ... (the rest is in %s)", w->path);
    (void)fclose(f); /* only read */
}

static void tell(struct hang_watch *w)
{
    const struct hang_verdict v = w->verdict;
    const struct hang_limits *limits = &w->conf->hang;
    char text[500];
    char step[48] = "";
    char who[FLIGHT_TEXT_MAX + 1];
    int64_t limit_us = v.beat ? limits->beat_us : limits->idle_us;
    if (v.step >= 0)
        (void)snprintf(step, sizeof(step), ", its last beat was of step %lld",
                       (long long)v.step);
    flight_text(w->flight_fd, who);
    (void)snprintf(
        text, /* a cut text is still a text */
        sizeof(text), "no %s for %.3g s (%s=%.12g)%s%s%.200s%s%s%s",
        v.beat ? "beat" : "progress", (double)v.silent_us / MONO_S,
        v.beat ? "--beat_timeout" : "--hang_timeout", (double)limit_us / MONO_S,
        step, w->path[0] != '\0' ? "; its stacks are in " : "", w->path,
        w->path[0] != '\0' && w->conf->nnodes_max > 1 ? " on its node" : "",
        who[0] != '\0' ? "; " : "", who);
    show_stacks(w);
    drop_stacks(w);
    w->handler->on_hang(w->ctx, &v, w->pid, text);
}

/* -- stacks ---------------------------------------------------------------- */

/* The one that is blamed first, then the other workers of this node. */
static void list_workers(const struct hang_watch *w, struct stacks_of *of)
{
    int first = w->verdict.local_rank;
    ddp_assert(workers_pid(w->workers, first) > 0); /* it was just seen */
    of->n = 0;
    for (int i = -1; i < w->conf->nproc && of->n < STACKS_PIDS_MAX; i++) {
        int local_rank = i < 0 ? first : i;
        pid_t pid = workers_pid(w->workers, local_rank);
        if (i == first || pid == 0)
            continue;
        of->pids[of->n] = pid;
        of->ranks[of->n] = (int)w->flight.base_rank + local_rank;
        of->n++;
    }
}

static void open_stacks(struct hang_watch *w)
{
    ddp_assert(w->stacks_fd < 0 && w->helper == 0); /* one at a time */
    workers_path(w->workers, w->verdict.local_rank, STACKS_NAME, w->path);
    if (w->path[0] != '\0')
        w->stacks_fd =
            open(w->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (w->stacks_fd >= 0)
        return;
    if (w->path[0] != '\0')
        log_warn("cannot write the stacks to %s, only a part is shown here",
                 w->path);
    w->path[0] = '\0';
    w->stacks_fd = memfd_create("ddprun-stacks", MFD_CLOEXEC);
}

struct evidence {
    struct stacks_of stacks;
    const struct flight_of *flight;
};

static void run_helper(const struct helper_fds *fds, const void *arg)
{
    const struct evidence *e = arg;
    pid_t reader = flight_ask(fds->listener, e->flight);
    stacks_write(fds->chan, &e->stacks);
    flight_wait(reader);
    _exit(0);
}

static int start_helper(struct hang_watch *w, struct ddp_err *err)
{
    struct evidence e = {.flight = &w->flight};
    list_workers(w, &e.stacks);
    open_stacks(w);
    w->flight_fd = memfd_create("ddprun-flight", MFD_CLOEXEC); /* -1: without */
    struct helper_fds fds = {.listener = w->flight_fd, .chan = w->stacks_fd};
    if (w->stacks_fd < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "memfd_create");
    return helper_start(&w->helper, &fds, run_helper, &e, err);
}

/* A worker that hangs is left alone until its stacks are taken. */
static void take_stacks(struct hang_watch *w)
{
    struct ddp_err err;
    w->pid = workers_pid(w->workers, w->verdict.local_rank);
    w->stacks_until_us = mono_after(mono_awake_us(), STACKS_US);
    log_warnx("rank %lld (pid %d) makes no progress; taking the stacks of "
              "this node's workers",
              (long long)(w->flight.base_rank + w->verdict.local_rank),
              (int)w->pid);
    if (start_helper(w, &err) == 0)
        return;
    log_warnx("cannot take the stacks: %s", err.text);
    w->path[0] = '\0'; /* nothing is in it */
    tell(w);
}

pid_t hang_watch_helper(const struct hang_watch *w)
{
    return w->helper;
}

void hang_watch_helper_ended(struct hang_watch *w)
{
    helper_kill(&w->helper); /* reaps it */
    if (uv_is_active((uv_handle_t *)&w->timer))
        tell(w);
}

/* -- looking --------------------------------------------------------------- */

static int64_t output_of_all(const struct hang_watch *w)
{
    struct hang_sample sample;
    int64_t sum = 0;
    for (int i = 0; i < w->conf->nproc; i++)
        if (workers_look(w->workers, i, &sample))
            sum += sample.output;
    return sum;
}

/* A full console has taken something if its number has changed, or if the
 * relay has taken output of a worker: a terminal's number never changes. */
static enum hang_pace
pace_of(const struct hang_watch *w, struct console_look *c, int fd)
{
    struct console_look before = *c;
    if (!c->blocks)
        return HANG_RUNS;
    c->waiting = pipe_probe(fd);
    if (c->waiting < 0)
        return HANG_RUNS;
    c->output = output_of_all(w);
    bool took = c->waiting != before.waiting || c->output != before.output;
    return took ? HANG_SLOW : HANG_STANDS;
}

/* The time between two looks passed at the slowest pace that either saw. */
static void pass_time(struct hang_watch *w, int64_t now_us)
{
    enum hang_pace slowest = w->pace;
    w->pace = HANG_RUNS;
    for (int i = 0; i < 2; i++) {
        enum hang_pace pace = pace_of(w, &w->consoles[i], STDOUT_FILENO + i);
        w->pace = pace > w->pace ? pace : w->pace;
    }
    slowest = w->pace > slowest ? w->pace : slowest;
    hang_pass(&w->hang, now_us - w->looked_us, slowest);
    w->looked_us = now_us;
}

static void look(struct hang_watch *w, int64_t now_us)
{
    struct hang_sample sample;
    pass_time(w, now_us);
    for (int i = 0; i < w->conf->nproc; i++) {
        if (workers_look(w->workers, i, &sample))
            hang_see(&w->hang, i, &sample);
        else
            hang_ended(&w->hang, i);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct hang_watch *w = hang_watch_of(timer->data);
    int64_t now_us = mono_awake_us();
    if (w->helper > 0 && now_us < w->stacks_until_us)
        return;
    if (w->helper > 0) {
        tell(w);
        return;
    }
    if (w->paused)
        return;
    look(w, now_us);
    if (hang_find(&w->hang, &w->verdict))
        take_stacks(w);
}

void hang_watch_start(struct hang_watch *w, const struct msg_world *world)
{
    uint64_t every_ms = (uint64_t)(hang_every_us(&w->hang) / MONO_MS);
    if (!hang_watches(&w->hang))
        return;
    hang_watch_stop(w); /* the round before is over: its stacks are dropped */
    w->flight.base_rank = world->base_rank;
    w->flight.world_size = world->world_size;
    w->flight.round = world->round;
    w->flight.master_port = world->master_port;
    (void)snprintf(w->flight.master_addr, sizeof(w->flight.master_addr), "%s",
                   world->master_addr);
    w->looked_us = mono_awake_us();
    for (int i = 0; i < w->conf->nproc; i++)
        hang_started(&w->hang, i);
    (void)uv_timer_start(&w->timer, on_timer, every_ms, every_ms);
}

void hang_watch_stop(struct hang_watch *w)
{
    (void)uv_timer_stop(&w->timer);
    drop_stacks(w);
}

void hang_watch_pause(struct hang_watch *w, bool paused)
{
    w->paused = paused;
    w->looked_us = mono_awake_us();
    hang_pass(&w->hang, 0, HANG_STANDS);
}
