/*
 * Happy path with --hang_timeout=SECONDS: a timer takes a sample of each worker
 * and a look at the consoles, and gives both to hang. When hang finds a worker,
 * a helper process (hang_evidence) looks at what each rank does, writes the
 * stacks of this node's workers into memory, which it copies to a file beside
 * the worker's error file, and concludes which one is the cause; once it has
 * ended, the beginning of that one's stacks is shown on stderr and on_hang is
 * called. No worker is touched before that: what it does is the only evidence.
 *
 * With tell and auto, pauses says when the samples call for a look, which a
 * helper takes (rank_look). If none of this node's workers works, the other
 * nodes of the round are asked, by a beat, and each of them takes its evidence;
 * one whose workers go on, work or are paused says so, and then nothing is
 * told. With tell, what was found is told until the workers move again. Workers
 * of which there is nothing to compare with are suspected first: the evidence
 * of this node alone says whether they wait for each other, and only then the
 * others are asked. Such a hang ends nothing with auto either, unless a node's
 * limit is over: it may be another program's slow start.
 *
 * Failure modes:
 * - The helper hangs (a debugger, /proc of a process in an uninterruptible
 *   wait, a file system that does not answer): when its time is over the hang
 *   is told without what is missing, and nobody waits for the helper's end.
 * - The helper cannot be started, or there is no folder: the hang is told at
 *   once, or the stacks go into memory only. If another node asked, nothing is
 *   told here, and that node judges without this one's ranks.
 * - The round ends meanwhile: the helper is killed and nothing is told.
 * - The machine sleeps: the workers do, too, and the clock of all this stands
 *   still (mono_awake_us).
 * - A console is full: see hang.h.
 */
#include "launcher/hang/hang_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher/hang/consoles.h"
#include "launcher/hang/flight.h"
#include "launcher/hang/hang_evidence.h"
#include "launcher/hang/pauses.h"
#include "launcher/hang/rank_look.h"
#include "launcher/hang/stacks.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

/* A debugger may take as long as the worker was silent, within these. */
#define TOOL_LEAST_S 10
#define TOOL_MOST_S  60
#define TOOLS        2            /* so many such times for all of a node */
#define OTHERS_US    (3 * MONO_S) /* for other nodes that look, at least */
#define STACKS_NAME  "stacks.txt"
#define PATH_SHOWN   180 /* bytes of its path: the end of a longer one */

/* With tell and auto. */
#define LOOK_EVERY_US MONO_S
#define LOOKS_MISSED  5             /* by a launcher that is slow, at most */
#define MOVES_US      (3 * MONO_S)  /* one that moved so lately goes on */
#define ASK_LEAST_US  (10 * MONO_S) /* then this node judges by itself */

#define HANG_WATCH_MAGIC 0x68616e67u

/* What the helper does. */
enum task {
    TASK_LOOK,    /* sees whether the workers work */
    TASK_ANSWER,  /* the same, for the other nodes alone */
    TASK_EVIDENCE /* finds out which one the others wait for */
};

struct hang_watch {
    unsigned magic;
    const struct conf *conf;
    struct workers *workers;
    const struct hang_watch_handler *handler;
    void *ctx;
    uv_timer_t timer;
    struct hang hang;
    struct pauses pauses;
    struct consoles consoles;
    enum hang_pace pace; /* at the last look */
    bool paused;
    int64_t looked_us;
    struct flight_of flight; /* of this round, as ... */
    struct rank_meet meet;   /* ... this */

    /* Of what is learned, and told: */
    int64_t asks_until_us; /* this node asks until then; 0: it does not */
    int64_t answered;      /* the last question of the round that it answered */
    bool tells;            /* it asks still, since it told ... */
    bool suspects;         /* the evidence is of this node alone, and first */
    bool over;             /* the workers were silent for too long */
    int64_t nodes;         /* of the round */
    char stands[sizeof(((struct msg_beat *)NULL)->stands)]; /* "": nothing */

    pid_t helper; /* 0: none */
    enum task task;
    pid_t *pids; /* of all workers, for a helper */
    int stacks_fd;
    int flight_fd; /* what PyTorch says, -1: none */
    int64_t evidence_until_us;
    char path[WORKERS_PATH_MAX];    /* of the stacks; "" for no file */
    struct hang_findings *findings; /* the helper's, in shared memory; NULL:
                                       there was none yet */
    struct hang_verdict verdict;    /* what is told when it is done */
    pid_t pid;
};

struct hang_watch *hang_watch_new(uv_loop_t *loop,
                                  const struct conf *conf,
                                  struct workers *workers,
                                  const struct hang_watch_handler *handler,
                                  void *ctx)
{
    size_t n = (size_t)conf->nproc;
    struct hang_watch *w = calloc(1, sizeof(*w));
    struct hang_worker *seen = calloc(n, sizeof(*seen));
    pid_t *pids = calloc(n, sizeof(*pids));
    if (w == NULL || seen == NULL || pids == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %zu worker%s", n,
               n == 1 ? "" : "s");
    w->magic = HANG_WATCH_MAGIC;
    w->conf = conf;
    w->workers = workers;
    w->pids = pids;
    w->handler = handler;
    w->ctx = ctx;
    w->stacks_fd = w->flight_fd = -1;
    w->flight.workers = workers;
    w->flight.n = conf->nproc;
    consoles_init(&w->consoles, conf, workers);
    hang_init(&w->hang, &conf->hang, seen, conf->nproc);
    pauses_init(&w->pauses);
    (void)uv_timer_init(loop, &w->timer); /* cannot fail */
    w->timer.data = w;
    return w;
}

static int64_t look_every_us(const struct hang_watch *w)
{
    return w->conf->hang.how == CONF_HANG_FIXED ? hang_every_us(&w->hang)
                                                : LOOK_EVERY_US;
}

/* Once one has ended, the others may well wait for the end of the round. */
static bool all_live(const struct hang_watch *w)
{
    for (int i = 0; i < w->conf->nproc; i++)
        if (workers_pid(w->workers, i) == 0)
            return false;
    return true;
}

/* -- telling --------------------------------------------------------------- */

static void drop_helper(struct hang_watch *w)
{
    helper_abandon(&w->helper);
    if (w->stacks_fd >= 0)
        (void)close(w->stacks_fd); /* another process wrote it */
    if (w->flight_fd >= 0)
        (void)close(w->flight_fd); /* so it did this */
    w->stacks_fd = w->flight_fd = -1;
    w->suspects = false;
}

/* In place of the one that is silent for longest: the one that was found to be
 * the cause. Returns what there is to say of it. */
static const char *blame(struct hang_watch *w)
{
    const struct hang_finding *f = hang_evidence_last(w->findings);
    struct hang_verdict v;
    if (f == NULL)
        return "what it does is not known";
    int local_rank = (int)(f->rank - w->flight.base_rank);
    pid_t pid = workers_pid(w->workers, local_rank);
    if (pid > 0 && local_rank != w->verdict.local_rank) {
        hang_describe(&w->hang, local_rank, &v);
        if (v.silent_us < w->verdict.silent_us) { /* as long as the round */
            v.silent_us = w->verdict.silent_us;
            v.beat = w->verdict.beat;
        }
        w->verdict = v;
        w->pid = pid;
    }
    return f->text;
}

static void print_stacks(const struct hang_watch *w, int64_t rank)
{
    if (w->stacks_fd >= 0) /* else it was told why there are none */
        stacks_print(w->stacks_fd, rank, w->pid, w->path);
}

/* All of them are where the path says; "" if they are not, and a warning. */
static void check_path(struct hang_watch *w)
{
    int why = w->findings == NULL ? -1 : atomic_load(&w->findings->saved);
    if (w->path[0] == '\0' || why == 0)
        return;
    log_warnx("cannot write the stacks to %s%s%s, only a part is shown here",
              w->path, why > 0 ? ": " : "", why > 0 ? strerror(why) : "");
    w->path[0] = '\0';
}

/* "; its stacks are in PATH", and what PyTorch says. */
static void
describe_files(struct hang_watch *w, const char *whose, char text[400])
{
    char who[FLIGHT_TEXT_MAX + 1];
    const char *path = w->path;
    check_path(w);
    size_t len = strlen(path), cut = len > PATH_SHOWN ? len - PATH_SHOWN : 0;
    while (cut > 0 && ((unsigned char)path[cut] & 0xc0) == 0x80)
        cut++; /* in the middle of a letter, in UTF-8 */
    bool several = w->conf->nnodes_max > 1;
    flight_text(w->flight_fd, who);
    (void)snprintf(
        text, /* fits */ 400, "%s%s%s%s%s%s%s%s",
        w->path[0] != '\0' ? "; " : "", w->path[0] != '\0' ? whose : "",
        w->path[0] != '\0' ? " stacks are in " : "", cut > 0 ? "..." : "",
        path + cut, w->path[0] != '\0' && several ? " on its node" : "",
        who[0] != '\0' ? "; " : "", who);
}

/* "--hang_timeout=SECONDS", or with the time without a beat that was over. */
static void
describe_limit(const struct hang_limits *l, bool beat, char text[64])
{
    double idle_s = l->idle_us == MONO_NEVER ? 0 : (double)l->idle_us / MONO_S;
    int n = snprintf(text, 64, "--hang_timeout=%.12g", idle_s);
    if (beat)
        (void)snprintf(text + n, 64 - (size_t)n, ",%.12g",
                       (double)l->beat_us / MONO_S);
}

/* What was learned, for people. */
static void describe_pause(const struct hang_watch *w, char text[80])
{
    int64_t longest_us = pauses_longest_us(&w->pauses);
    text[0] = '\0';
    if (longest_us > 0)
        (void)snprintf(text, 80, ", and %.3g s was the longest pause before",
                       (double)longest_us / MONO_S);
}

/* Until another node has been asked: the answer to its next beat says so. */
static int64_t asked_us(const struct hang_watch *w)
{
    return 2 * w->conf->heartbeat_timeout_us / AGENT_BEATS_PER_LEASE +
           4 * MONO_S;
}

/* The other nodes; if the rendezvous does not answer it judges by itself. */
static void ask(struct hang_watch *w)
{
    int64_t us = asked_us(w);
    us = us > ASK_LEAST_US ? us : ASK_LEAST_US;
    w->asks_until_us = mono_after(mono_awake_us(), us);
    w->handler->on_asks(w->ctx);
}

static void tell_hang(struct hang_watch *w)
{
    const char *why = blame(w);
    const struct hang_verdict v = w->verdict;
    char text[700], limit[80], files[400];
    char step[48] = "";
    if (w->conf->hang.how == CONF_HANG_AUTO)
        describe_pause(w, limit);
    else
        describe_limit(&w->conf->hang, v.beat, limit);
    bool fixed = w->conf->hang.how == CONF_HANG_FIXED;
    if (v.step >= 0)
        (void)snprintf(step, sizeof(step), ", its last beat was of step %lld",
                       (long long)v.step);
    describe_files(w, "its", files);
    (void)snprintf(text, /* fits */
                   sizeof(text), "%s; no %s for %.3g s%s%s%s%s%s", why,
                   v.beat ? "beat" : "progress", (double)v.silent_us / MONO_S,
                   fixed ? " (" : "", limit, fixed ? ")" : "", step, files);
    print_stacks(w, w->flight.base_rank + v.local_rank);
    drop_helper(w);
    w->handler->on_hang(w->ctx, &v, w->pid, text);
}

/* Says it, once, until the workers move again (go_on). */
static void tell_standing(struct hang_watch *w)
{
    const struct hang_finding *f = hang_evidence_last(w->findings);
    int64_t rank = f != NULL ? f->rank : -1;
    int64_t silent_us = pauses_silent_us(&w->pauses, w->hang.clock_us);
    char longest[80], files[400];
    const char *does = f != NULL ? f->text : "they do nothing";
    does += f != NULL ? strlen("it ") : 0;
    w->pid = rank < w->flight.base_rank ||
                     rank >= w->flight.base_rank + w->conf->nproc
                 ? 0
                 : workers_pid(w->workers, (int)(rank - w->flight.base_rank));
    describe_pause(w, longest);
    describe_files(w, "the", files);
    if (f != NULL)
        (void)snprintf(w->stands, sizeof(w->stands), "rank %lld %s",
                       (long long)rank, does);
    else
        (void)snprintf(w->stands, sizeof(w->stands),
                       "which rank is the cause is not known");
    log_warnx("the workers stand still: %s; no progress for %.3g s%s%s. "
              "Nothing is ended%s",
              w->stands, (double)silent_us / MONO_S, longest, files,
              w->conf->hang.how == CONF_HANG_TELL ? " (--hang_timeout=tell)"
                                                  : "");
    print_stacks(w, rank);
    drop_helper(w);
    /* With auto a limit of this node may end them yet. */
    if (w->conf->hang.how == CONF_HANG_TELL || !pauses_compares(&w->pauses))
        pauses_tell(&w->pauses);
    w->tells = w->asks_until_us != 0;
    w->asks_until_us = 0;
    w->handler->on_stands(w->ctx, w->stands);
}

static void go_on(struct hang_watch *w)
{
    log_info("the workers go on");
    w->stands[0] = '\0';
    w->tells = false;
    w->handler->on_stands(w->ctx, "");
}

/* The evidence of workers that have nothing to compare with; without any, its
 * time was over, say, they are looked at again. */
static void tell_suspects(struct hang_watch *w)
{
    const struct hang_finding *f = hang_evidence_last(w->findings);
    if (f == NULL) {
        drop_helper(w);
    } else if (!f->collective) {
        drop_helper(w);
        pauses_excuse(&w->pauses);
    } else if (w->nodes > 1) {
        drop_helper(w);
        ask(w);
    } else {
        tell_standing(w);
    }
}

/* Another node asked, and there is no evidence: the workers of this node may
 * well work. */
static bool has_no_answer(const struct hang_watch *w)
{
    return w->answered != 0 && w->asks_until_us == 0 &&
           hang_evidence_last(w->findings) == NULL;
}

/* With auto for the silence of these workers, or of another node's. */
static bool ends_workers(const struct hang_watch *w)
{
    const struct hang_finding *f = hang_evidence_last(w->findings);
    bool over = f != NULL ? f->over : w->over;
    return w->conf->hang.how == CONF_HANG_FIXED ||
           (w->conf->hang.how == CONF_HANG_AUTO && over);
}

/* The evidence is there. */
static void tell(struct hang_watch *w)
{
    bool works = w->findings != NULL &&
                 atomic_load(&w->findings->look) == (int)PAUSES_WORKS;
    if (works) { /* on this node, or on another one */
        drop_helper(w);
        w->asks_until_us = 0;
        w->over = false;
        (void)pauses_judge(&w->pauses, PAUSES_WORKS, w->hang.clock_us);
    } else if (w->suspects) {
        tell_suspects(w);
    } else if (has_no_answer(w)) {
        drop_helper(w); /* the others judge without it */
    } else if (ends_workers(w)) {
        tell_hang(w);
    } else {
        tell_standing(w);
    }
}

/* -- stacks ---------------------------------------------------------------- */

/* The workers of this node; of too many for stacks, that which is silent for
 * longest is one. */
static void list_workers(const struct hang_watch *w, struct hang_evidence *e)
{
    struct stacks_of *of = &e->stacks;
    int first = w->verdict.local_rank;
    ddp_assert(workers_pid(w->workers, first) > 0); /* it was just seen */
    e->pids = w->pids;
    e->n = of->n = 0;
    for (int i = 0; i < w->conf->nproc; i++) {
        pid_t pid = workers_pid(w->workers, i);
        int room = RANK_LOOKS_MAX - of->n - (i < first);
        if (pid > 0)
            w->pids[e->n++] = pid;
        if (pid == 0 || room <= 0)
            continue;
        if (i == first)
            of->first = of->n;
        of->pids[of->n] = pid;
        of->looks[of->n] =
            (struct rank_look){.rank = w->flight.base_rank + i,
                               .doing = RANK_UNSEEN,
                               .step = w->hang.workers[i].seen.step};
        of->n++;
    }
}

static void open_stacks(struct hang_watch *w)
{
    ddp_assert(w->stacks_fd < 0 && w->helper == 0); /* one at a time */
    workers_path(w->workers, w->verdict.local_rank, STACKS_NAME, w->path);
    w->stacks_fd = memfd_create("ddprun-stacks", MFD_CLOEXEC);
}

static void run_evidence(const struct helper_fds *fds, const void *arg)
{
    struct hang_evidence e = *(const struct hang_evidence *)arg;
    hang_evidence_take(fds->chan, fds->listener, &e);
    _exit(0);
}

static void run_look(const struct helper_fds *fds, const void *arg)
{
    const struct hang_evidence *e = arg;
    (void)fds;
    atomic_store(&e->findings->look, (int)rank_look_work(e->pids, e->n));
    _exit(0);
}

/* Also sets the time until which the helper has to be done. */
static void
set_limits(struct hang_watch *w, int64_t limit_us, struct hang_evidence *e)
{
    int64_t tool_s = limit_us / MONO_S;
    tool_s =
        tool_s < TOOL_LEAST_S ? TOOL_LEAST_S : mono_min(tool_s, TOOL_MOST_S);
    e->stacks.tool_s = (int)tool_s;
    e->stacks.until_us = mono_after(mono_now_us(), TOOLS * tool_s * MONO_S);
    e->others_us = OTHERS_US + 2 * look_every_us(w);
    if (e->learned)
        e->others_us += asked_us(w);
    w->evidence_until_us =
        mono_after(mono_awake_us(), TOOLS * tool_s * MONO_S + OTHERS_US +
                                        HANG_EVIDENCE_SAVE_US + e->others_us +
                                        HANG_EVIDENCE_HOLD_US);
}

/* Empty, for the next helper. */
static int open_findings(struct hang_watch *w, struct ddp_err *err)
{
    if (w->findings == NULL) {
        void *shared = mmap(NULL, sizeof(*w->findings), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            return ddp_err_sys(err, DDP_E_NOMEM, "mmap");
        w->findings = shared;
    }
    atomic_store(&w->findings->n, 0);
    atomic_store(&w->findings->look, -1);
    atomic_store(&w->findings->saved, -1);
    return 0;
}

static bool has_just_moved(const struct hang_watch *w)
{
    return w->pauses.moves > 0 &&
           pauses_silent_us(&w->pauses, w->hang.clock_us) < MOVES_US;
}

/* The time that was over. */
static int64_t limit_us(const struct hang_watch *w)
{
    if (w->conf->hang.how != CONF_HANG_FIXED)
        return pauses_silent_us(&w->pauses, w->hang.clock_us);
    return w->verdict.beat ? w->conf->hang.beat_us : w->conf->hang.idle_us;
}

static int start_evidence(struct hang_watch *w, struct ddp_err *err)
{
    bool learned = w->conf->hang.how != CONF_HANG_FIXED;
    bool tells = w->conf->hang.how == CONF_HANG_TELL;
    bool over = !tells && (!learned || w->over);
    if (open_findings(w, err) != 0)
        return -1;
    struct hang_evidence e = {.stacks.go_on = !over,
                              .flight = &w->flight,
                              .path = w->path,
                              .meet = w->meet,
                              .findings = w->findings,
                              .learned = learned,
                              .moves = learned && has_just_moved(w),
                              .tells = tells,
                              .over = over};
    list_workers(w, &e);
    set_limits(w, limit_us(w), &e);
    open_stacks(w);
    w->flight_fd = memfd_create("ddprun-flight", MFD_CLOEXEC); /* -1: without */
    struct helper_fds fds = {.listener = w->flight_fd, .chan = w->stacks_fd};
    if (w->stacks_fd < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "memfd_create");
    w->task = TASK_EVIDENCE;
    return helper_start(&w->helper, &fds, run_evidence, &e, err);
}

static void run_answer(const struct helper_fds *fds, const void *arg)
{
    (void)fds;
    hang_evidence_answer(arg);
    _exit(0);
}

/* Nothing is known of workers that are paused, or of some that live beside one
 * that has ended; but the others may wait for them. */
static void start_answer(struct hang_watch *w)
{
    struct ddp_err err;
    struct hang_evidence e = {.pids = w->pids, .meet = w->meet};
    const struct helper_fds fds = {.listener = -1, .chan = -1};
    e.moves = w->paused || has_just_moved(w);
    for (int i = 0; i < w->conf->nproc; i++) {
        pid_t pid = workers_pid(w->workers, i);
        if (pid > 0)
            w->pids[e.n++] = pid;
    }
    if (e.n == 0)
        return;
    w->asks_until_us = 0; /* such a node asks nobody */
    w->task = TASK_ANSWER;
    w->evidence_until_us =
        mono_after(mono_awake_us(), 10 * RANK_WORK_APART_MS * MONO_MS);
    if (helper_start(&w->helper, &fds, run_answer, &e, &err) != 0)
        log_warnx("cannot tell the other nodes whether the workers work: %s",
                  err.text);
}

static void start_look(struct hang_watch *w)
{
    struct ddp_err err;
    struct hang_evidence e = {.findings = NULL};
    struct helper_fds fds = {.listener = -1, .chan = -1};
    int rc = open_findings(w, &err);
    e.findings = w->findings;
    hang_worst(&w->hang, &w->verdict);
    list_workers(w, &e);
    w->task = TASK_LOOK;
    w->evidence_until_us =
        mono_after(mono_awake_us(), 10 * RANK_WORK_APART_MS * MONO_MS);
    if (rc == 0 && helper_start(&w->helper, &fds, run_look, &e, &err) == 0)
        return;
    log_warnx("cannot look whether the workers work: %s", err.text);
    (void)pauses_judge(&w->pauses, PAUSES_WORKS, w->hang.clock_us);
}

/* A worker that hangs is left alone until its stacks are taken. */
static void take_stacks(struct hang_watch *w)
{
    struct ddp_err err;
    if (w->conf->hang.how != CONF_HANG_FIXED)
        hang_worst(&w->hang, &w->verdict);
    w->pid = workers_pid(w->workers, w->verdict.local_rank);
    if (w->conf->hang.how == CONF_HANG_FIXED) /* else it may be none */
        log_warnx("rank %lld (pid %d) makes no progress; taking the stacks of "
                  "this node's workers",
                  (long long)(w->flight.base_rank + w->verdict.local_rank),
                  (int)w->pid);
    if (start_evidence(w, &err) == 0)
        return;
    log_warnx("cannot take the stacks: %s", err.text);
    w->path[0] = '\0'; /* nothing is in it */
    tell(w);
}

/* -- what is learned ------------------------------------------------------- */

static void answer(struct hang_watch *w)
{
    if (w->paused || !all_live(w))
        start_answer(w);
    else
        take_stacks(w);
}

void hang_watch_asked(struct hang_watch *w, int64_t look)
{
    if (w->nodes < 2 || w->conf->hang.how == CONF_HANG_FIXED || w->tells ||
        !uv_is_active((uv_handle_t *)&w->timer))
        return;
    if (look == 0 && w->answered != 0 && w->stands[0] != '\0')
        go_on(w); /* those say so that can see it */
    if (look == 0)
        w->answered = 0;
    if (look == w->answered)
        return;
    drop_helper(w); /* a look; or evidence for an earlier question */
    w->answered = w->meet.look = look;
    w->meet.group_world = w->nodes;
    answer(w);
}

void hang_watch_fill(const struct hang_watch *w, struct msg_beat *beat)
{
    beat->asks = w->asks_until_us != 0 || w->tells;
    memcpy(beat->stands, w->stands, sizeof(w->stands));
}

static void look_is_done(struct hang_watch *w)
{
    int look = w->findings != NULL ? atomic_load(&w->findings->look) : -1;
    if (look < 0)
        look = PAUSES_WORKS; /* it failed: nothing is known */
    enum pauses_verdict verdict =
        pauses_judge(&w->pauses, (enum pauses_look)look, w->hang.clock_us);
    w->over = verdict == PAUSES_TOO_LONG;
    if (verdict == PAUSES_TOO_LONG) {
        if (w->nodes > 1)
            ask(w); /* first */
        else
            take_stacks(w);
    } else if (verdict == PAUSES_SUSPECT) {
        w->suspects = true;
        w->meet.group_world = 1; /* the others are not asked yet */
        take_stacks(w);
    }
}

pid_t hang_watch_helper(const struct hang_watch *w)
{
    return w->helper;
}

/* -- looking --------------------------------------------------------------- */

/* The time between two looks passed at the slowest pace that either saw. */
static void pass_time(struct hang_watch *w, int64_t now_us)
{
    enum hang_pace before = w->pace;
    w->pace = consoles_look(&w->consoles);
    enum hang_pace slowest = w->pace > before ? w->pace : before;
    int64_t us = now_us - w->looked_us;
    if (w->conf->hang.how != CONF_HANG_FIXED) /* more: we were stopped */
        us = mono_min(us, LOOKS_MISSED * LOOK_EVERY_US);
    hang_pass(&w->hang, us, slowest);
    w->looked_us = now_us;
}

/* Returns whether one has moved. */
static bool look(struct hang_watch *w, int64_t now_us)
{
    struct hang_sample sample;
    bool moved = false;
    pass_time(w, now_us);
    for (int i = 0; i < w->conf->nproc; i++) {
        if (workers_look(w->workers, i, &sample))
            moved |= hang_see(&w->hang, i, &sample);
        else
            hang_ended(&w->hang, i);
    }
    return moved;
}

static bool have_beaten(const struct hang_watch *w)
{
    for (int i = 0; i < w->conf->nproc; i++)
        if (w->hang.workers[i].beats)
            return true;
    return false;
}

/* Other nodes that wait for this one's evidence are told that its workers go
 * on. */
static void take_move(struct hang_watch *w)
{
    (void)pauses_moved(&w->pauses, have_beaten(w), w->hang.clock_us);
    bool is_waited_for =
        w->helper > 0 && w->task != TASK_LOOK && w->meet.group_world > 1;
    w->asks_until_us = 0;
    w->over = false;
    drop_helper(w);
    if (w->stands[0] != '\0') /* of this pause */
        go_on(w);
    if (is_waited_for)
        answer(w);
}

static void helper_is_done(struct hang_watch *w)
{
    bool learns = w->conf->hang.how != CONF_HANG_FIXED;
    if (w->task == TASK_ANSWER) {
        drop_helper(w);
    } else if (learns && !all_live(w)) {
        drop_helper(w); /* one has ended meanwhile: that is no stand */
        w->asks_until_us = 0;
    } else if (!learns &&
               workers_pid(w->workers, w->verdict.local_rank) != w->pid) {
        drop_helper(w); /* it has ended meanwhile, and tells of that itself */
    } else if (learns && look(w, mono_awake_us())) {
        take_move(w); /* they go on, and no look has seen it before */
    } else if (w->task == TASK_LOOK) {
        look_is_done(w);
    } else {
        tell(w);
    }
}

void hang_watch_helper_ended(struct hang_watch *w)
{
    helper_abandon(&w->helper); /* reaps it */
    if (uv_is_active((uv_handle_t *)&w->timer))
        helper_is_done(w);
}

static void look_and_learn(struct hang_watch *w, int64_t now_us)
{
    if (look(w, now_us))
        take_move(w);
    if (w->helper > 0 || !all_live(w))
        return;
    if (w->asks_until_us != 0 && now_us >= w->asks_until_us) {
        w->meet.group_world = 1; /* no answer: it judges alone */
        take_stacks(w);
    } else if (w->asks_until_us == 0 &&
               pauses_is_due(&w->pauses, w->hang.clock_us)) {
        start_look(w);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct hang_watch *w = timer->data;
    ddp_assert(w->magic == HANG_WATCH_MAGIC);
    int64_t now_us = mono_awake_us();
    if (w->helper > 0 && now_us >= w->evidence_until_us) {
        helper_abandon(&w->helper);
        helper_is_done(w);
        return;
    }
    bool fixed = w->conf->hang.how == CONF_HANG_FIXED;
    if (w->paused || (fixed && w->helper > 0))
        return;
    if (!fixed) {
        look_and_learn(w, now_us);
        return;
    }
    (void)look(w, now_us);
    if (hang_find(&w->hang, &w->verdict))
        take_stacks(w);
}

void hang_watch_start(struct hang_watch *w, const struct msg_world *world)
{
    uint64_t every_ms = (uint64_t)(look_every_us(w) / MONO_MS);
    if (w->conf->hang.how == CONF_HANG_OFF)
        return;
    hang_watch_stop(w); /* the round before is over: its stacks are dropped */
    w->flight.base_rank = world->base_rank;
    w->flight.world_size = world->world_size;
    w->flight.round = world->round;
    w->flight.master_port = world->master_port;
    (void)snprintf(w->flight.master_addr, sizeof(w->flight.master_addr), "%s",
                   world->master_addr);
    w->meet = (struct rank_meet){.host = w->flight.master_addr,
                                 .port = (uint16_t)world->master_port,
                                 .round = world->round,
                                 .group_rank = world->group_rank,
                                 .group_world = world->group_world};
    w->nodes = world->group_world;
    w->looked_us = mono_awake_us();
    for (int i = 0; i < w->conf->nproc; i++)
        hang_started(&w->hang, i);
    pauses_begin(&w->pauses, w->hang.clock_us);
    (void)look(w, w->looked_us); /* what earlier workers printed is no move */
    w->answered = 0;
    (void)uv_timer_start(&w->timer, on_timer, every_ms, every_ms);
}

void hang_watch_stop(struct hang_watch *w)
{
    (void)uv_timer_stop(&w->timer);
    drop_helper(w);
    w->asks_until_us = 0;
    w->tells = w->over = false;
    w->stands[0] = '\0';
}

void hang_watch_pause(struct hang_watch *w, bool paused)
{
    w->paused = paused;
    w->looked_us = mono_awake_us();
    hang_pass(&w->hang, 0, HANG_STANDS);
}
