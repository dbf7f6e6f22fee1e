/*
 * PyTorch's client of a store that is refused tries again about once a second,
 * and sleeps between by nanosleep(2), which glibc makes a clock_nanosleep of
 * CLOCK_REALTIME without flags. Python's own sleep is another call (select, or
 * an absolute time of CLOCK_MONOTONIC), and a store in a file is looked at a
 * hundred times a second. So a process counts that has PyTorch loaded, whose
 * main thread is in such a sleep twice, and has slept a few times between.
 *
 * Failure modes:
 *   - /proc/PID/syscall may not be read, or /proc is not ours: nothing is said.
 *   - The process is a grandchild of a worker: it is not looked at.
 */
#include "launcher/hang/own_store.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "launcher/proc/procfs.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"

#define OWN_STORE_MAGIC 0x6f776e73u
#define LOOKS_MAX       10 /* at a round */
#define SLEEPS_MAX      20 /* in apart_ms */

struct own_store {
    unsigned magic;
    uv_timer_t timer;
    const struct workers *workers;
    int nproc;
    own_store_unused unused;
    void *ctx;
    int after_ms, apart_ms;
    int looks;
    pid_t pid; /* that was seen to wait; 0: none, the next look seeks one */
    int64_t sleeps; /* of it then, since its start */
    bool told;
};

/* -- what /proc shows of a process ----------------------------------------- */

/* "NUMBER ARGUMENT ARGUMENT ...", hexadecimal but for the first. */
static bool is_sleep(const char *text)
{
    long number;
    unsigned long clock, flags;
    if (sscanf(text, "%ld %lx %lx", &number, &clock, &flags) != 3)
        return false;
#ifdef SYS_nanosleep
    if (number == SYS_nanosleep)
        return true;
#endif
    return number == SYS_clock_nanosleep && clock == 0 && flags == 0;
}

/* Whether the process may be one that waits so, and how often its main thread
 * has slept. */
static bool waits(pid_t pid, int64_t *sleeps)
{
    static const char key[] = "\nvoluntary_ctxt_switches:";
    static const char *const torch = "/libtorch";
    char text[8192];
    if (!procfs_read_text(pid, "syscall", text, sizeof(text)) ||
        !is_sleep(text) || !procfs_read_text(pid, "status", text, sizeof(text)))
        return false;
    const char *at = strstr(text, key);
    *sleeps = at != NULL ? strtoll(at + sizeof(key) - 1, NULL, 10) : INT64_MAX;
    return at != NULL && procfs_has_mapped(pid, &torch, 1);
}

/* The local rank of a worker, -1: it is none. */
static int rank_of(const struct own_store *o, pid_t pid)
{
    for (int i = 0; i < o->nproc; i++)
        if (workers_pid(o->workers, i) == pid)
            return i;
    return -1;
}

/* A worker, or a child of one, that may wait so; 0: none. */
static pid_t find(const struct own_store *o, int64_t *sleeps)
{
    struct procfs_process p;
    pid_t found = 0;
    DIR *dir = procfs_is_ours() ? opendir("/proc") : NULL;
    for (struct dirent *e;
         dir != NULL && found == 0 && (e = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10); /* 0: no process */
        if (pid > 0 && procfs_read(pid, &p) &&
            (rank_of(o, pid) >= 0 || rank_of(o, p.parent) >= 0) &&
            waits(pid, sleeps))
            found = pid;
    }
    if (dir != NULL)
        (void)closedir(dir); /* only read */
    return found;
}

/* -- the looks ------------------------------------------------------------- */

static void on_look(uv_timer_t *timer);

static void look_in(struct own_store *o, int ms)
{
    (void)uv_timer_start(&o->timer, on_look, (uint64_t)ms, 0);
}

static void tell(struct own_store *o)
{
    struct procfs_process p;
    int rank = rank_of(o, o->pid);
    bool child = rank < 0 && procfs_read(o->pid, &p);
    if (child)
        rank = rank_of(o, p.parent);
    o->told = rank >= 0;
    if (o->told)
        log_warnx(
            "nobody has come to the workers' store at MASTER_PORT in %d s, and "
            "%s local rank %d (pid %d) waits as PyTorch does for a port at "
            "which nobody listens: does the program choose a port of its own "
            "(mp.spawn)? Then start it with --worker_store=none: "
            "TORCHELASTIC_USE_AGENT_STORE=True has PyTorch begin no store",
            o->after_ms / 1000, child ? "a child of" : "the worker of", rank,
            (int)o->pid);
}

/* Seeks a process, or looks at it again. */
static void on_look(uv_timer_t *timer)
{
    struct own_store *o = timer->data;
    int64_t sleeps;
    ddp_assert(o->magic == OWN_STORE_MAGIC);
    if (!o->unused(o->ctx))
        return;
    if (o->pid == 0) {
        o->pid = find(o, &o->sleeps);
        if (o->pid > 0)
            look_in(o, o->apart_ms);
    } else if (waits(o->pid, &sleeps) && sleeps - o->sleeps <= SLEEPS_MAX) {
        tell(o);
        return;
    } else {
        o->pid = 0;
    }
    if (o->pid == 0 && ++o->looks < LOOKS_MAX)
        look_in(o, o->after_ms);
}

/* -- the whole ------------------------------------------------------------- */

struct own_store *own_store_new(uv_loop_t *loop,
                                const struct workers *workers,
                                int nproc,
                                own_store_unused unused,
                                void *ctx)
{
    struct own_store *o = calloc(1, sizeof(*o));
    if (o == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory");
    *o = (struct own_store){.magic = OWN_STORE_MAGIC,
                            .workers = workers,
                            .nproc = nproc,
                            .unused = unused,
                            .ctx = ctx};
    (void)uv_timer_init(loop, &o->timer); /* cannot fail */
    o->timer.data = o;
    return o;
}

void own_store_watch(struct own_store *o, int after_ms, int apart_ms)
{
    o->after_ms = after_ms;
    o->apart_ms = apart_ms;
    o->looks = 0;
    o->pid = 0;
    uv_update_time(o->timer.loop);
    if (!o->told)
        look_in(o, after_ms);
}

void own_store_stop(struct own_store *o)
{
    (void)uv_timer_stop(&o->timer);
}
