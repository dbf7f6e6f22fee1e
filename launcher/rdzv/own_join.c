#include "launcher/rdzv/own_join.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

/* FNV-1a: for the server it only has to differ, and the text itself is none of
 * its business. Goes on from `h`. */
static uint32_t hash(uint32_t h, const char *text)
{
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT32_C(16777619);
    return h;
}

#define HASH_BEGIN UINT32_C(2166136261)

static void add_own(char owns[sizeof(((struct msg_join *)0)->owns)],
                    char sort,
                    uint32_t boot,
                    const char *thing)
{
    size_t len = strlen(owns);
    (void)snprintf(owns + len, /* fits: 9 times 18 */
                   sizeof(((struct msg_join *)0)->owns) - len,
                   "%s%c%08" PRIx32 "%08" PRIx32, len > 0 ? " " : "", sort,
                   boot, hash(boot, thing));
}

/* What no other launcher of the run can have: its place in a scheduler's job,
 * and its GPUs, on this boot of this host. Without /proc nothing is said. */
static void put_owns(const struct conf *c, struct msg_join *j)
{
    char id[64] = "";
    int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, id, sizeof(id) - 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* only read */
    if (n <= 0)
        return;
    uint32_t boot = hash(HASH_BEGIN, id);
    if (c->place[0] != '\0')
        add_own(j->owns, 'p', boot, c->place);
    for (int i = 0; i < CONF_OWN_GPUS && c->own_gpus[i][0] != '\0'; i++)
        add_own(j->owns, 'g', boot, c->own_gpus[i]);
}

/* -- what must agree ------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void
add_option(struct msg_join *j, const char *fmt, ...)
{
    size_t len = strlen(j->options);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(j->options + len, /* fits: some 300 and the program */
                    sizeof(j->options) - len, fmt, ap);
    va_end(ap);
}

/* "/90s"; "" without a time. */
static const char *behind_slash(int64_t us, char text[32])
{
    text[0] = '\0';
    if (us > 0)
        (void)snprintf(text, 32, "/%.12gs", (double)us / (double)MONO_S);
    return text;
}

static const char *mpi_text(enum conf_mpi mpi)
{
    switch (mpi) {
    case CONF_MPI_NONE:
        return "none";
    case CONF_MPI_PMI1:
        return "pmi1 (which auto is without libpmix.so.2)";
    case CONF_MPI_PMIX:
        return "pmix";
    case CONF_MPI_AUTO:
        return "auto";
    }
    DDP_WRONG("mpi");
}

/* As on a command line, since the server names what differs (join_check). */
static void put_options(const struct conf *c, struct msg_join *j)
{
    char time[32];
    add_option(j, "--nnodes=%d", c->nnodes_min);
    if (c->nnodes_max != c->nnodes_min)
        add_option(j, ":%d", c->nnodes_max);
    add_option(j, "\n--max_restarts=%d%s\n", c->max_restarts,
               behind_slash(c->restart_window_us, time));
    add_option(j, "--crash_loop=%d\n", c->crash_loop);
    add_option(j, "--node_strikes=%d%s\n", c->node_strikes,
               behind_slash(c->node_strikes > 0 ? c->cooldown_us : 0, time));
    add_option(j, "--rdzv_backend=%s\n",
               c->backend == CONF_STATIC ? "static" : "c10d");
    add_option(j, "--mpi=%s\n", mpi_text(c->mpi));
    add_option(j, "--rdzv_conf=heartbeat_timeout=%.12gs\n",
               (double)c->heartbeat_timeout_us / (double)MONO_S);
    add_option(j, "--rdzv_conf=reconnect_timeout=%.12gs\n",
               (double)c->reconnect_timeout_us / (double)MONO_S);
    add_option(j, "%.128s", c->prog_name);
}

void own_join(const struct conf *c, int store_port, struct msg_join *j)
{
    char name[256] = "";
    ddp_assert(store_port > 0 && store_port <= 65535);
    (void)gethostname(name, sizeof(name) - 1);
    *j = (struct msg_join){
        .version = MSG_VERSION,
        .nodes_min = c->nnodes_min,
        .nodes_max = c->nnodes_max,
        .nproc = c->nproc,
        .max_restarts = c->max_restarts,
        .window_ms = c->restart_window_us / MONO_MS,
        .crash_loop = c->crash_loop,
        .node_strikes = c->node_strikes,
        .cooldown_ms = c->node_strikes > 0 ? c->cooldown_us / MONO_MS : 0,
        .scale_ms = c->scale_interval_us / MONO_MS,
        .node_rank = c->node_rank,
        .port = store_port,
        .join_ms = c->join_timeout_us / MONO_MS,
        .last_call_ms = c->last_call_timeout_us / MONO_MS,
        .heartbeat_ms = c->heartbeat_timeout_us / MONO_MS,
        .reconnect_ms = c->reconnect_timeout_us / MONO_MS,
    };
    msg_set(j->run, c->run_id);
    rng_id(j->agent);
    msg_set(j->name, name);
    msg_set(j->role, c->role);
    msg_set(j->addr, c->local_addr);
    put_options(c, j);
    put_owns(c, j);
}
