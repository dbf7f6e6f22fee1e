#include "launcher/worker_env.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

extern char **environ;

#define VARS_MAX 32
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
    set(v, "LOCAL_RANK", "%d", local_rank);
    set(v, "LOCAL_WORLD_SIZE", "%d", conf->nproc);
    set(v, "GROUP_RANK", "%lld", (long long)w->group_rank);
    set(v, "GROUP_WORLD_SIZE", "%lld", (long long)w->group_world);
    set(v, "ROLE_RANK", "%lld", (long long)(w->role_rank + local_rank));
    set(v, "ROLE_WORLD_SIZE", "%lld", (long long)w->role_world);
    set(v, "ROLE_NAME", "%s", conf->role);
    /* The words that the user chose, where the store is there. */
    bool chosen =
        conf->backend == CONF_STATIC && w->master_port == conf->master_port;
    set(v, "MASTER_ADDR", "%s", chosen ? conf->master_addr : w->master_addr);
    set(v, "MASTER_PORT", "%lld", (long long)w->master_port);
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
    set(v, "DDP_INSTANCE", "%s", w->instance);
    set(v, "DDP_ROUND", "%lld", (long long)w->round);
}

static void set_notices(struct vars *v, const struct notice *notice)
{
    char path[NOTICE_PATH_MAX];
    notice_progress_path(notice, path);
    set(v, "DDP_PROGRESS_FILE", "%s", path);
    notice_stop_path(notice, path);
    set(v, "DDP_STOP_FILE", "%s", path);
}

/* What torchrun sets only where the user has not. */
static void set_defaults(struct vars *v, const struct conf *conf)
{
    if (getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING") == NULL)
        set(v, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "%d", 1);
    if (getenv("OMP_NUM_THREADS") == NULL && conf->nproc > 1)
        set(v, "OMP_NUM_THREADS", "%d", 1);
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

/* Where our token lies is no business of the program's. */
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
    block[n] = NULL;
    return block;
}

static char **merge(const struct vars *v)
{
    size_t n_env = 0;
    while (environ != NULL && environ[n_env] != NULL) /* clearenv(3) */
        n_env++;
    const char **all = calloc(n_env + VARS_MAX, sizeof(*all));
    if (all == NULL)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < n_env; i++)
        if (!is_replaced(v, environ[i]) && !is_ours(environ[i]))
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
                       const struct notice *notice)
{
    struct vars v = {.n = 0};
    set_places(&v, conf, world, local_rank);
    set_elastic(&v, conf, world, error_file);
    set_notices(&v, notice);
    set_defaults(&v, conf);
    char **block = v.failed ? NULL : merge(&v);
    for (int i = 0; i < v.n; i++)
        free(v.text[i]);
    return block;
}

/* Length of "$local_rank" or "${local_rank}" at `p`, 0 if it is neither. */
static size_t is_place(const char *p)
{
    static const char bare[] = "$local_rank";
    static const char braced[] = "${local_rank}";
    if (strncmp(p, braced, sizeof(braced) - 1) == 0)
        return sizeof(braced) - 1;
    if (strncmp(p, bare, sizeof(bare) - 1) != 0)
        return 0;
    char next = p[sizeof(bare) - 1];
    return isalnum((unsigned char)next) || next == '_' ? 0 : sizeof(bare) - 1;
}

/* Writes `arg` with its places filled to `out` (NULL: only counts). */
static size_t fill_places(const char *arg, const char *rank, char *out)
{
    size_t n = 0;
    while (*arg != '\0') {
        size_t skip = is_place(arg);
        size_t put = 1;
        const char *from = arg;
        if (skip > 0) {
            from = rank;
            put = strlen(rank);
        } else {
            skip = arg[0] == '$' && arg[1] == '$' ? 2 : 1;
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

char **worker_args_make(char *const *argv, int local_rank)
{
    char rank[16];
    (void)snprintf(rank, sizeof(rank), "%d", local_rank); /* fits */
    size_t argc = 0;
    size_t bytes = 0;
    for (; argv[argc] != NULL; argc++)
        bytes += fill_places(argv[argc], rank, NULL);
    char **block = malloc((argc + 1) * sizeof(char *) + bytes);
    if (block == NULL)
        return NULL;
    char *at = (char *)(block + argc + 1);
    for (size_t i = 0; i < argc; i++) {
        block[i] = at;
        at += fill_places(argv[i], rank, at);
    }
    block[argc] = NULL;
    return block;
}
