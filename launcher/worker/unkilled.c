/*
 * Happy path: SIGKILL is sent, the workers end, and the first look, LOOK_MS
 * later, finds none that lives.
 *
 * Failure modes:
 *   - A worker lives, but is not in state D: it takes down much memory, or a
 *     thread of it has not run yet. It is looked at again.
 *   - Where the thread waits is not shown (/proc/PID/wchan needs a permission,
 *     and a kernel that has it): the sentence goes without that.
 *   - /proc is not there, or not ours: nothing is seen, and nothing is said.
 */
#include "launcher/worker/unkilled.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/proc/procfs.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define UNKILLED_MAGIC 0x756e6b69u
#define LOOK_MS        500
#define TELL_US        (5 * MONO_S) /* a disk that is only slow has answered */
#define PLACE_MAX      64
#define TEXT_MAX       400

struct unkilled {
    unsigned magic;
    uv_timer_t timer;
    const struct conf *conf;
    const struct workers *workers;
    const char *node;
    const struct unkilled_handler *handler;
    void *ctx;
    int64_t base_rank;
    int64_t since_us; /* when SIGKILL was sent; while the timer runs */
    bool told;
};

/* -- what /proc shows ------------------------------------------------------ */

/* ", in FUNCTION", the kernel's; "": it does not say. */
static void read_place(pid_t tid, char text[PLACE_MAX + 8])
{
    char place[PLACE_MAX + 1];
    text[0] = '\0';
    if (procfs_read_text(tid, "wchan", place, sizeof(place)) &&
        strcmp(place, "0") != 0)
        (void)snprintf(text, PLACE_MAX + 8, ", in %s", place); /* fits */
}

/* Whether the kernel holds a thread of the process, and where. */
static bool is_held(pid_t pid, char place[PLACE_MAX + 8])
{
    char path[64];
    bool held = false;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid); /* fits */
    DIR *dir = pid > 0 && procfs_is_ours() ? opendir(path) : NULL;
    for (struct dirent *e;
         dir != NULL && !held && (e = readdir(dir)) != NULL;) {
        struct procfs_process p;
        pid_t tid = (pid_t)strtol(e->d_name, NULL, 10); /* 0: "." and ".." */
        held = tid > 0 && procfs_read(tid, &p) && p.state == 'D';
        if (held)
            read_place(tid, place);
    }
    if (dir != NULL)
        (void)closedir(dir); /* only read */
    return held;
}

/* -- what is said ---------------------------------------------------------- */

/* Which worker is held; false: this one is not. */
static bool describe(const struct unkilled *u,
                     int local_rank,
                     int64_t since_us,
                     char text[TEXT_MAX])
{
    char place[PLACE_MAX + 8];
    pid_t pid = workers_pid(u->workers, local_rank);
    if (!is_held(pid, place))
        return false;
    (void)snprintf(text, TEXT_MAX, /* fits */
                   "rank %lld (local rank %d, pid %d) on %s was sent SIGKILL "
                   "%lld s ago and has not ended: the kernel holds it in "
                   "uninterruptible sleep (state D%s)",
                   (long long)u->base_rank + local_rank, local_rank, (int)pid,
                   u->node, (long long)(since_us / MONO_S), place);
    return true;
}

static void tell(const struct unkilled *u, const char *text)
{
    char then[160] =
        "no round can have this node before (with "
        "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=SECONDS in ddprun's "
        "environment the node leaves)";
    if (u->conf->unkilled_us != MONO_NEVER)
        (void)snprintf(then, sizeof(then), /* fits */
                       "this node leaves %.12g s after SIGKILL "
                       "(TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT)",
                       (double)u->conf->unkilled_us / MONO_S);
    log_warnx("%s, and it ends once a file system, a disk or a device answers: "
              "see dmesg there, and the mounts that its program uses; %s",
              text, then);
}

static void on_look(uv_timer_t *timer)
{
    struct unkilled *u = timer->data;
    ddp_assert(u->magic == UNKILLED_MAGIC);
    char text[TEXT_MAX], first[TEXT_MAX] = "";
    int64_t since_us = mono_now_us() - u->since_us;
    bool over = since_us >= u->conf->unkilled_us;
    bool tells = !u->told && (over || since_us >= TELL_US), lives = false;
    for (int i = 0; i < u->conf->nproc; i++) {
        lives |= workers_pid(u->workers, i) > 0;
        if ((!tells && !over) || !describe(u, i, since_us, text))
            continue;
        if (first[0] == '\0')
            memcpy(first, text, sizeof(first));
        u->told |= tells;
        if (tells)
            tell(u, text);
    }
    if (!lives || (over && first[0] != '\0'))
        unkilled_stop(u);
    if (over && first[0] != '\0')
        u->handler->on_unkilled(u->ctx, first);
}

/* -- the whole ------------------------------------------------------------- */

struct unkilled *unkilled_new(uv_loop_t *loop,
                              const struct conf *conf,
                              const struct workers *workers,
                              const char *node,
                              const struct unkilled_handler *handler,
                              void *ctx)
{
    struct unkilled *u = calloc(1, sizeof(*u));
    if (u == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory");
    *u = (struct unkilled){.magic = UNKILLED_MAGIC,
                           .conf = conf,
                           .workers = workers,
                           .node = node,
                           .handler = handler,
                           .ctx = ctx};
    (void)uv_timer_init(loop, &u->timer); /* cannot fail */
    u->timer.data = u;
    return u;
}

void unkilled_watch(struct unkilled *u, int64_t base_rank)
{
    if (uv_is_active((const uv_handle_t *)&u->timer) != 0)
        return;
    u->base_rank = base_rank;
    u->since_us = mono_now_us();
    u->told = false;
    uv_update_time(u->timer.loop);
    (void)uv_timer_start(&u->timer, on_look, LOOK_MS, LOOK_MS);
}

void unkilled_stop(struct unkilled *u)
{
    (void)uv_timer_stop(&u->timer);
}
