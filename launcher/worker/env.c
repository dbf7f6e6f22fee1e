/*
 * Two blocks for execve(2), each in one allocation, made before fork: between
 * fork and exec nothing may be allocated.
 *
 * The environment is the launcher's own. A variable that is set here replaces
 * one of the same name, since an outer torchrun or a shell may have left RANK
 * and the like behind; what torchrun sets only if the user has not
 * (set_defaults) stays the user's. The path of our token is taken out: the
 * program has no business with it, and may write its environment to a log. So
 * is what a scheduler told the launcher of its own place.
 *
 * Arguments are expanded as torchrun's macros are: ${name}, and $local_rank;
 * $$ is one $. The length is counted by the function that writes, so that both
 * agree. A name that is none stays as it is: it may be meant for the program.
 */
#include "launcher/worker/env.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cluster/cluster.h"
#include "launcher/worker/errfile.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/siphash.h"

extern char **environ;

#define VARS_MAX 60
#define VAR_MAX  4600 /* the longest is a path */

struct vars {
    char *text[VARS_MAX]; /* "NAME=value", owned */
    int n;
    bool failed;
};

__attribute__((format(printf, 3, 4))) static void
set(struct vars *v, const char *name, const char *fmt, ...)
{
    char line[VAR_MAX];
    int n = snprintf(line, sizeof(line), "%s=", name);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
    va_end(ap);
    ddp_assert(v->n < VARS_MAX);
    v->text[v->n] = strdup(line);
    v->failed |= v->text[v->n] == NULL;
    v->n += v->text[v->n] != NULL;
}

static void set_places(struct vars *v,
                       const struct conf *conf,
                       const struct msg_world *w,
                       int local_rank)
{
    set(v, "RANK", "%lld", (long long)(w->base_rank + local_rank));
    set(v, "WORLD_SIZE", "%lld", (long long)w->world_size);
    set(v, "LOCAL_RANK", "%d", conf->virtual_local_rank ? 0 : local_rank);
    set(v, "DDP_LOCAL_RANK", "%d", local_rank); /* LOCAL_RANK may be virtual */
    set(v, "LOCAL_WORLD_SIZE", "%d", conf->nproc);
    set(v, "GROUP_RANK", "%lld", (long long)w->group_rank);
    set(v, "GROUP_WORLD_SIZE", "%lld", (long long)w->group_world);
    set(v, "ROLE_RANK", "%lld", (long long)(w->role_rank + local_rank));
    set(v, "ROLE_WORLD_SIZE", "%lld", (long long)w->role_world);
    set(v, "ROLE_NAME", "%s", conf->role);
    /* The address as the user wrote it, if the store is there. */
    bool chosen =
        conf->backend == CONF_STATIC && w->master_port == conf->master_port;
    set(v, "MASTER_ADDR", "%s", chosen ? conf->master_addr : w->master_addr);
    set(v, "MASTER_PORT", "%lld", (long long)w->master_port);
}

static uint64_t half_of(const char *digits)
{
    char half[MSG_INSTANCE_NAME + 1];
    (void)snprintf(half, sizeof(half), "%.*s", MSG_INSTANCE_NAME, digits);
    return strtoull(half, NULL, 16);
}

static void take_instance(const char *instance, uint64_t key[2])
{
    _Static_assert(2 * MSG_INSTANCE_NAME == MSG_INSTANCE_LEN, "two halves");
    bool whole = strlen(instance) == MSG_INSTANCE_LEN; /* not in a dry run */
    key[0] = half_of(instance);
    key[1] = half_of(instance + (whole ? MSG_INSTANCE_NAME : 0));
}

/*
 * What workers get, strangers read: it stands in logs, in the names of
 * snapshots and in a store without a password. But whoever knows all digits of
 * the run's instance can end the run (proto/msg). So workers get its name, and
 * behind that a sum which only all digits give: alike on all nodes and in all
 * rounds, and no way back.
 */
static void set_instance(struct vars *v, const char *instance)
{
    static const char what[] = "DDP_INSTANCE";
    uint64_t key[2];
    take_instance(instance, key);
    set(v, what, "%.*s%016llx", MSG_INSTANCE_NAME, instance,
        (unsigned long long)siphash(key, what, sizeof(what) - 1));
}

/*
 * By which the workers of a round know each other before they send weights
 * (worker_rt/comm/hello). A sum under all digits of the instance, of which half
 * are the secret of the run's members: alike on all nodes, different in each
 * round, and no way back. Nothing more has to travel for it.
 */
static void set_round_key(struct vars *v, const struct msg_world *w)
{
    static const char what[] = "DDP_ROUND_KEY";
    uint64_t key[2], half[2];
    char round[128];
    take_instance(w->instance, key);
    for (int i = 0; i < 2; i++) {
        int len =
            snprintf(round, sizeof(round), /* fits */
                     "%s.%d.%lld.%s.%lld", what, i, (long long)w->term.count,
                     w->term.id, (long long)w->round);
        half[i] = siphash(key, round, (size_t)len);
    }
    set(v, what, "%016llx%016llx", (unsigned long long)half[0],
        (unsigned long long)half[1]);
}

/*
 * A trace goes on in the workers (W3C Trace Context, 3.2): each round is a
 * child of the span that started the launcher, the same one on all nodes that
 * were given one trace. What is no trace is left as it is.
 */
static void set_trace(struct vars *v, const struct msg_world *w)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-"
                               "xxxxxxxxxxxxxxxx-xx";
    static const char zeros[] = "00000000000000000000000000000000";
    const char *from = getenv("TRACEPARENT");
    if (from == NULL || strlen(from) != sizeof(form) - 1)
        return;
    for (size_t i = 0; i < sizeof(form) - 1; i++)
        if (form[i] == '-' ? from[i] != '-'
                           : strchr("0123456789abcdef", from[i]) == NULL)
            return;
    if (strncmp(from, "ff", 2) == 0 || strncmp(from + 3, zeros, 32) == 0 ||
        strncmp(from + 36, zeros, 16) == 0)
        return;
    char round[64];
    int len = snprintf(round, sizeof(round), /* fits */
                       "%.16s.%lld", from + 36, (long long)w->round);
    const uint64_t key[2] = {half_of(w->instance), half_of(w->term.id)};
    unsigned long long span = siphash(key, round, (size_t)len);
    set(v, "TRACEPARENT", "00-%.32s-%016llx-%.2s", from + 3,
        span == 0 ? 1 : span, from + 53);
}

static void set_elastic(struct vars *v,
                        const struct conf *conf,
                        const struct msg_world *w,
                        const char *error_file)
{
    set(v, "TORCHELASTIC_RESTART_COUNT", "%lld", (long long)w->restarts);
    set(v, "TORCHELASTIC_MAX_RESTARTS", "%d", conf->max_restarts);
    set(v, "TORCHELASTIC_RUN_ID", "%s", conf->run_id);
    set(v, "TORCHELASTIC_USE_AGENT_STORE", "%s",
        conf->worker_store ? "True" : "False");
    set(v, "TORCHELASTIC_ERROR_FILE", "%s", error_file);
    set(v, "TORCHELASTIC_SIGNALS_TO_HANDLE", "%s", conf->signals_text);
    set_instance(v, w->instance);
    if (w->term.count > 0)
        set(v, "DDP_EPOCH", "%lld.%s", (long long)w->term.count, w->term.id);
    else
        set(v, "DDP_EPOCH", "0");
    set(v, "DDP_ROUND", "%lld", (long long)w->round);
    set_round_key(v, w);
    set_trace(v, w);
    long long grace_ms = conf->shutdown_timeout_us / MONO_MS;
    set(v, "DDP_SHUTDOWN_TIMEOUT", "%lld.%03lld", grace_ms / 1000,
        grace_ms % 1000);
}

static void set_mailbox(struct vars *v, const struct mailbox *mailbox)
{
    char path[MAILBOX_PATH_MAX];
    mailbox_path(mailbox->progress_fd, path);
    set(v, "DDP_PROGRESS_FILE", "%s", path);
    mailbox_path(mailbox->stop_fd, path);
    set(v, "DDP_STOP_FILE", "%s", path);
    mailbox_path(mailbox->memory_fd, path);
    set(v, "DDP_SNAPSHOT_MEMORY", "%s", path);
}

static void set_gpus(struct vars *v, const struct conf *conf, int local_rank)
{
    const char *gpus =
        conf->virtual_local_rank ? conf->seats[local_rank].gpu : conf->gpus;
    if (gpus[0] == '\0')
        return;
    set(v, "CUDA_VISIBLE_DEVICES", "%s", gpus);
    if (conf->hip) /* AMD's HIP reads this one first */
        set(v, "HIP_VISIBLE_DEVICES", "%s", gpus);
}

/* By which MPICH's kin finds its place and us. The last two say the same as
 * LOCAL_RANK and LOCAL_WORLD_SIZE. */
static void set_pmi(struct vars *v,
                    const struct conf *conf,
                    const struct msg_world *w,
                    int local_rank,
                    int pmi_fd)
{
    if (conf->mpi != CONF_MPI_PMI1 && conf->mpi != CONF_MPI_AUTO)
        return;
    if (pmi_fd >= 0)
        set(v, "PMI_FD", "%d", pmi_fd);
    set(v, "PMI_RANK", "%lld", (long long)(w->base_rank + local_rank));
    set(v, "PMI_SIZE", "%lld", (long long)w->world_size);
    set(v, "PMI_SPAWNED", "%d", 0);
    set(v, "MPI_LOCALRANKID", "%d", local_rank);
    set(v, "MPI_LOCALNRANKS", "%d", conf->nproc);
    /* Intel's ranks yield (2). Yielding gives way in one session only, so ranks
     * with sessions of their own sleep for a moment (3), which takes longer. In
     * a collective ranks yield at once; Intel's launcher causes the same by
     * telling them of the CPUs. */
    static const char spins[] = "I_MPI_COLL_SHM_PROGRESS_SPIN_COUNT";
    if (conf->oversubscribed && getenv("I_MPI_THREAD_YIELD") == NULL) {
        set(v, "I_MPI_THREAD_YIELD", "%d", conf->mpi == CONF_MPI_AUTO ? 2 : 3);
        if (getenv(spins) == NULL)
            set(v, spins, "%d", 1);
    }
}

/* What mpirun sets for Open MPI's programs; the rest comes from the PMIx
 * server. Open MPI 4 takes itself for a child of its own launcher, unless it is
 * kept from that: then it does not look for the server, and is a world of one
 * rank.
 */
static void set_pmix(struct vars *v,
                     const struct conf *conf,
                     const struct msg_world *w,
                     int local_rank)
{
    if (conf->mpi != CONF_MPI_PMIX && conf->mpi != CONF_MPI_AUTO)
        return;
    set(v, "OMPI_COMM_WORLD_RANK", "%lld",
        (long long)(w->base_rank + local_rank));
    set(v, "OMPI_COMM_WORLD_SIZE", "%lld", (long long)w->world_size);
    set(v, "OMPI_COMM_WORLD_LOCAL_RANK", "%d", local_rank);
    set(v, "OMPI_COMM_WORLD_LOCAL_SIZE", "%d", conf->nproc);
    set(v, "OMPI_COMM_WORLD_NODE_RANK", "%d", local_rank);
    if (getenv("OMPI_MCA_schizo") == NULL)
        set(v, "OMPI_MCA_schizo", "^orte");
    if (conf->oversubscribed && getenv("OMPI_MCA_mpi_yield_when_idle") == NULL)
        set(v, "OMPI_MCA_mpi_yield_when_idle", "%d", 1);
}

/* MPICH 5 ends the program if it finds the variables of both protocols, unless
 * it is told which one to take. */
static void set_choice(struct vars *v, const struct conf *conf)
{
    if (conf->mpi == CONF_MPI_AUTO && getenv("MPIR_CVAR_PMI_VERSION") == NULL)
        set(v, "MPIR_CVAR_PMI_VERSION", "%d", 1);
}

/* What a scheduler told, and a program would have to guess. */
static void set_found(struct vars *v, const struct conf *conf)
{
    for (int i = 0; i < conf->found_len; i++)
        if (conf->found[i].variable)
            set(v, conf->found[i].name, "%s", conf->found[i].text);
}

/* torchrun sets these only if the user has not. */
static void set_defaults(struct vars *v, const struct conf *conf)
{
    if (getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING") == NULL)
        set(v, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "%d", 1);
    if (getenv("OMP_NUM_THREADS") == NULL && conf->nproc > 1)
        set(v, "OMP_NUM_THREADS", "%d", 1);
}

/* Where PyTorch's flight recorder waits for a wish and where it dumps, if
 * something is done about hangs. What the user has set stays, here too. An
 * older PyTorch knows the old name only. */
static void
set_flight(struct vars *v, const struct conf *conf, const char *error_file)
{
    size_t len = strlen(error_file), tail = strlen(ERRFILE_NAME);
    if (!conf_hang_acts(conf->hang.how))
        return;
    if (len < tail || strcmp(error_file + len - tail, ERRFILE_NAME) != 0)
        return;
    bool dump =
        getenv(FLIGHT_DUMP_VAR) == NULL && getenv(FLIGHT_DUMP_OLD_VAR) == NULL;
    const char *names[] = {
        getenv(FLIGHT_PIPE_VAR) == NULL ? FLIGHT_PIPE_VAR : NULL,
        dump ? FLIGHT_DUMP_VAR : NULL, dump ? FLIGHT_DUMP_OLD_VAR : NULL};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i] != NULL)
            set(v, names[i], "%.*s" FLIGHT_NAME, (int)(len - tail), error_file);
}

static bool is_replaced(const struct vars *v, const char *entry)
{
    const char *eq = strchr(entry, '=');
    size_t len = eq == NULL ? strlen(entry) : (size_t)(eq - entry) + 1;
    for (int i = 0; i < v->n; i++)
        if (strncmp(v->text[i], entry, len) == 0)
            return true;
    return false;
}

/* The path of our token is none of the program's business. */
static bool is_ours(const char *entry)
{
    static const char name[] = "DDPRUN_TOKEN_FILE=";
    return strncmp(entry, name, sizeof(name) - 1) == 0;
}

/* One block: the pointers, then the texts. */
static char **pack(const char *const *text, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(text[i]) + 1;
    char **block = malloc((n + 1) * sizeof(char *) + bytes);
    if (block == NULL)
        return NULL;
    char *at = (char *)(block + n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(text[i]) + 1;
        memcpy(at, text[i], len);
        block[i] = at;
        at += len;
    }
    ddp_assert(at == (char *)(block + n + 1) + bytes);
    block[n] = NULL;
    return block;
}

static bool
is_inherited(const struct vars *v, const struct conf *conf, const char *entry)
{
    return !is_replaced(v, entry) && !is_ours(entry) &&
           ((conf->task_vars && conf->mpi == CONF_MPI_NONE) ||
            !cluster_is_task_variable(entry));
}

static char **merge(const struct vars *v, const struct conf *conf)
{
    size_t n_env = 0;
    while (environ != NULL && environ[n_env] != NULL) /* clearenv(3) */
        n_env++;
    const char **all = calloc(n_env + VARS_MAX, sizeof(*all));
    if (all == NULL)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < n_env; i++)
        if (is_inherited(v, conf, environ[i]))
            all[n++] = environ[i];
    for (int i = 0; i < v->n; i++)
        all[n++] = v->text[i];
    char **block = pack(all, n);
    free(all);
    return block;
}

char **worker_env_make(const struct conf *conf,
                       const struct msg_world *world,
                       int local_rank,
                       const char *error_file,
                       const struct mailbox *mailbox,
                       int pmi_fd)
{
    struct vars v = {.n = 0};
    ddp_assert(local_rank >= 0 && local_rank < conf->nproc);
    set_places(&v, conf, world, local_rank);
    set_elastic(&v, conf, world, error_file);
    set_mailbox(&v, mailbox);
    set_gpus(&v, conf, local_rank);
    set_pmi(&v, conf, world, local_rank, pmi_fd);
    set_pmix(&v, conf, world, local_rank);
    set_choice(&v, conf);
    set_found(&v, conf);
    set_defaults(&v, conf);
    set_flight(&v, conf, error_file);
    char **block = v.failed ? NULL : merge(&v, conf);
    for (int i = 0; i < v.n; i++)
        free(v.text[i]);
    return block;
}

void worker_env_drop(char **envp, const char *name)
{
    size_t n = 0, len = strlen(name);
    for (size_t i = 0; envp[i] != NULL; i++)
        if (strncmp(envp[i], name, len) != 0 || envp[i][len] != '=')
            envp[n++] = envp[i];
    envp[n] = NULL;
}

/* -- arguments ------------------------------------------------------------- */

/* By enum worker_place. */
static const char *const place_names[] = {
    "local_rank", "rank",        "world_size",
    "group_rank", "master_addr", "master_port",
};
_Static_assert(sizeof(place_names) / sizeof(place_names[0]) == WORKER_PLACES,
               "a name for each place");

void worker_places_fill(struct worker_places *p,
                        const struct msg_world *w,
                        int local_rank)
{
    const int64_t numbers[WORKER_PLACES] = {
        [WORKER_LOCAL_RANK] = local_rank,
        [WORKER_RANK] = w->base_rank + local_rank,
        [WORKER_WORLD_SIZE] = w->world_size,
        [WORKER_GROUP_RANK] = w->group_rank,
        [WORKER_MASTER_PORT] = w->master_port,
    };
    for (int i = 0; i < WORKER_PLACES; i++) {
        (void)snprintf(p->number[i], /* fits */
                       sizeof(p->number[i]), "%lld", (long long)numbers[i]);
        p->text[i] = p->number[i];
    }
    p->text[WORKER_MASTER_ADDR] = w->master_addr;
}

/* The place that "${name}", or "$local_rank", at `arg` means, and its length;
 * -1: none. */
static int find_place(const char *arg, size_t *len)
{
    bool braces = arg[0] == '$' && arg[1] == '{';
    const char *name = arg + 1 + braces;
    if (arg[0] != '$')
        return -1;
    size_t n = 0;
    while (isalnum((unsigned char)name[n]) || name[n] == '_')
        n++;
    /* torchrun knows the first place only: without braces the others may be
     * meant for the program. */
    for (int i = 0; i < (braces ? WORKER_PLACES : 1); i++) {
        if (strlen(place_names[i]) == n &&
            strncmp(place_names[i], name, n) == 0 &&
            (!braces || name[n] == '}')) {
            *len = n + (braces ? 3 : 1);
            return i;
        }
    }
    return -1;
}

/* Writes `arg` with its places filled to `out` (NULL: only counts). */
static size_t
fill_places(const char *arg, const struct worker_places *p, char *out)
{
    size_t n = 0;
    while (*arg != '\0') {
        size_t skip = arg[0] == '$' && arg[1] == '$' ? 2 : 1;
        size_t put = 1;
        const char *from = arg;
        int place = find_place(arg, &skip);
        if (place >= 0) {
            from = p->text[place];
            put = strlen(from);
        }
        if (out != NULL)
            memcpy(out + n, from, put);
        n += put;
        arg += skip;
    }
    if (out != NULL)
        out[n] = '\0';
    return n + 1;
}

char **worker_args_make(char *const *argv, const struct worker_places *places)
{
    size_t argc = 0;
    size_t bytes = 0;
    for (; argv[argc] != NULL; argc++)
        bytes += fill_places(argv[argc], places, NULL);
    char **block = malloc((argc + 1) * sizeof(char *) + bytes);
    if (block == NULL)
        return NULL;
    char *at = (char *)(block + argc + 1);
    for (size_t i = 0; i < argc; i++) {
        block[i] = at;
        at += fill_places(argv[i], places, at);
    }
    ddp_assert(at == (char *)(block + argc + 1) + bytes); /* both ways agree */
    block[argc] = NULL;
    return block;
}
