/*
 * What is printed comes from the functions that a launch uses (worker_env_make,
 * the seats of conf), for a made-up world of one round, so that it cannot
 * differ from what workers get. What only the rendezvous or the round knows is
 * replaced by a text in angle brackets (unknowns). Variables that all workers
 * have in common are printed once.
 */
#include "launcher/dry_run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/hw/gpus.h"
#include "launcher/worker/env.h"
#include "launcher/worker/errfile.h"
#include "rendezvous/base/log.h"

extern char **environ;

#define COMMON_MAX 64 /* more than ddprun puts in */
#define TOLD       "<told by the rendezvous>"
#define BESIDE     "<beside the worker's error file>"

/* Values that are not known before the start: of one node, of several. NULL:
 * the value is right as it is. */
static const struct unknown {
    const char *name;
    const char *alone;
    const char *several;
} unknowns[] = {
    {"RANK", NULL, ""}, /* written by put_unknown */
    {"WORLD_SIZE", NULL, TOLD},
    {"GROUP_RANK", NULL, TOLD},
    {"GROUP_WORLD_SIZE", NULL, TOLD},
    {"ROLE_RANK", NULL, TOLD},
    {"ROLE_WORLD_SIZE", NULL, TOLD},
    {"MASTER_ADDR", NULL, "<an address of the node with group rank 0>"},
    {"MASTER_PORT", "<a free port>", "<a free port of that node>"},
    {"TORCHELASTIC_ERROR_FILE", "<a file of this worker>",
     "<a file of this worker>"},
    {"DDP_INSTANCE", "<new in each run>", "<new in each run>"},
    {"DDP_EPOCH", "<who made the round>", "<who made the round>"},
    {"DDP_ROUND_KEY", "<new in each round>", "<new in each round>"},
    {"DDP_PROGRESS_FILE", "<a file of this worker>", "<a file of this worker>"},
    {"DDP_STOP_FILE", "<a file of this worker>", "<a file of this worker>"},
    {"DDP_SNAPSHOT_MEMORY", "<memory of this node>", "<memory of this node>"},
    {FLIGHT_PIPE_VAR, BESIDE, BESIDE},
    {FLIGHT_DUMP_VAR, BESIDE, BESIDE},
    {FLIGHT_DUMP_OLD_VAR, BESIDE, BESIDE},
};

struct dry {
    const struct conf *conf;
    FILE *f;
    bool several;
    struct msg_world world;
    struct gpus *gpus;              /* what workers see */
    char ***envs;                   /* by local rank */
    const char *common[COMMON_MAX]; /* entries of the first, which all have */
    int commons;
};

/* -- one value ------------------------------------------------------------- */

/* As a shell would take it for one word. */
static void put_word(FILE *f, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_@%+=:,./-";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, f);
        return;
    }
    fputc('\'', f);
    for (const char *p = word; *p != '\0'; p++) {
        if (*p == '\'')
            fputs("'\\''", f);
        else
            fputc(*p, f);
    }
    fputc('\'', f);
}

static void put_rank(const struct dry *d, int local_rank)
{
    if (d->several)
        fprintf(d->f, "base+%d", local_rank);
    else
        fprintf(d->f, "%d", local_rank);
}

static bool is_named(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* The value in angle brackets; false if it is known. */
static bool put_unknown(const struct dry *d, const char *entry, int local_rank)
{
    const struct conf *c = d->conf;
    if (d->several && is_named(entry, "RANK")) {
        fputs("RANK=<", d->f);
        put_rank(d, local_rank);
        fputc('>', d->f);
        return true;
    }
    if ((is_named(entry, "GROUP_RANK") && c->backend == CONF_STATIC) ||
        (is_named(entry, "GROUP_WORLD_SIZE") &&
         c->nnodes_min == c->nnodes_max) ||
        (is_named(entry, "TORCHELASTIC_ERROR_FILE") &&
         strcmp(c->log_dir, "/dev/null") == 0) ||
        (is_named(entry, "DDP_SNAPSHOT_MEMORY") && c->snapshot_memory == 0))
        return false;
    for (size_t i = 0; i < sizeof(unknowns) / sizeof(unknowns[0]); i++) {
        const struct unknown *u = &unknowns[i];
        const char *text = d->several ? u->several : u->alone;
        if (text == NULL || !is_named(entry, u->name))
            continue;
        fprintf(d->f, "%s=%s", u->name, text);
        return true;
    }
    return false;
}

static void put_entry(const struct dry *d, const char *entry, int local_rank)
{
    fputs("    ", d->f);
    if (!put_unknown(d, entry, local_rank)) {
        const char *value = strchr(entry, '=') + 1; /* ours has one */
        fprintf(d->f, "%.*s", (int)(value - entry), entry);
        put_word(d->f, value);
    }
    fputc('\n', d->f);
}

/* -- environments ---------------------------------------------------------- */

static bool holds(char *const *env, const char *entry)
{
    for (; env != NULL && *env != NULL; env++)
        if (strcmp(*env, entry) == 0)
            return true;
    return false;
}

/* Finds what ddprun puts in for all workers alike. */
static void find_common(struct dry *d)
{
    for (char **p = d->envs[0]; *p != NULL; p++) {
        bool common = !holds(environ, *p);
        for (int i = 1; common && i < d->conf->nproc; i++)
            common = holds(d->envs[i], *p);
        if (common && d->commons < COMMON_MAX)
            d->common[d->commons++] = *p;
    }
}

static bool is_common(const struct dry *d, const char *entry)
{
    for (int i = 0; i < d->commons; i++)
        if (strcmp(d->common[i], entry) == 0)
            return true;
    return false;
}

static void put_common(const struct dry *d)
{
    ddp_assert(d->commons <= COMMON_MAX);
    fputs("\nevery worker gets, in addition to the environment of ddprun\n",
          d->f);
    for (int i = 0; i < d->commons; i++)
        put_entry(d, d->common[i], 0);
}

/* -- the whole ------------------------------------------------------------- */

/* The values that a scheduler told, and by which variable. */
static void put_found(const struct dry *d)
{
    const struct conf *c = d->conf;
    if (c->found_len == 0)
        return;
    fprintf(d->f, "found       %s\n", c->cluster_job);
    for (int i = 0; i < c->found_len; i++) {
        fprintf(d->f, "    %s%s=", c->found[i].variable ? "" : "--",
                c->found[i].name);
        put_word(d->f, c->found[i].text);
        fprintf(d->f, " from %s\n", c->found[i].from);
    }
}

static void put_head(const struct dry *d)
{
    const struct conf *c = d->conf;
    char folder[4096], endpoints[CONF_ENDPOINTS_TEXT_MAX];
    fprintf(d->f, "run         %s\n", c->run_id);
    if (c->nnodes_min == c->nnodes_max)
        fprintf(d->f, "nodes       %d\n", c->nnodes_max);
    else
        fprintf(d->f, "nodes       %d to %d\n", c->nnodes_min, c->nnodes_max);
    conf_endpoints_text(c, endpoints);
    if (c->standalone)
        fputs("rendezvous  for this node only, on a free port of 127.0.0.1\n",
              d->f);
    else
        fprintf(d->f, "rendezvous  at %s, %s\n", endpoints,
                c->backend == CONF_STATIC ? "static" : "c10d");
    fprintf(d->f, "workers     %d on this node%s\n", c->nproc,
            d->several ? "; the rendezvous tells the rank of the first, base"
                       : "");
    fputs("execute     ", d->f);
    put_word(d->f, c->exec_path);
    fprintf(d->f, "\nin          %s\n",
            getcwd(folder, sizeof(folder)) != NULL ? folder : "?");
}

static void put_command(const struct dry *d, int local_rank)
{
    struct worker_places places;
    char base[24], told[] = TOLD;
    worker_places_fill(&places, &d->world, local_rank);
    (void)snprintf(base, sizeof(base), "<base+%d>", local_rank); /* fits */
    if (d->several) {
        places.text[WORKER_RANK] = base;
        places.text[WORKER_WORLD_SIZE] = told;
        places.text[WORKER_MASTER_ADDR] = told;
        if (d->conf->backend != CONF_STATIC)
            places.text[WORKER_GROUP_RANK] = told;
    }
    places.text[WORKER_MASTER_PORT] = "<port>";
    char **argv = worker_args_make(d->conf->argv, &places);
    fputs("    command     ", d->f);
    for (char **p = argv; p != NULL && *p != NULL; p++) {
        if (p != argv)
            fputc(' ', d->f);
        put_word(d->f, *p);
    }
    fputc('\n', d->f);
    free(argv);
}

/* The one whose place in the list is the local rank. */
static void put_gpu(const struct dry *d, int local_rank)
{
    if (local_rank >= d->gpus->n)
        return;
    const struct gpu_device *gpu = &d->gpus->gpu[local_rank];
    fprintf(d->f, "    gpu         %s", gpu->id);
    if (gpu->pci[0] != '\0')
        fprintf(d->f, " (%s at %s, NUMA node %d)", gpu->name, gpu->pci,
                gpu->numa_node > 0 ? gpu->numa_node : 0);
    fputc('\n', d->f);
}

static void put_worker(const struct dry *d, int local_rank)
{
    const struct conf *c = d->conf;
    const struct conf_seat *seat = &c->seats[local_rank];
    char list[512];
    fputs("\nrank ", d->f);
    put_rank(d, local_rank);
    fprintf(d->f, " (local rank %d)\n", local_rank);
    put_command(d, local_rank);
    if (c->numa_binding != TOPOLOGY_NONE)
        fprintf(d->f, "    cpus        %s (NUMA node %d)\n",
                cpus_format(&seat->cpus, list, sizeof(list)), seat->numa_node);
    put_gpu(d, local_rank);
    for (char **p = d->envs[local_rank]; *p != NULL; p++)
        if (!holds(environ, *p) && !is_common(d, *p))
            put_entry(d, *p, local_rank);
}

static void fill_world(struct dry *d)
{
    const struct conf *c = d->conf;
    d->world = (struct msg_world){
        .round = 1,
        .group_rank = c->node_rank > 0 ? c->node_rank : 0,
        .group_world = c->nnodes_max,
        .world_size = c->nproc,
        .role_world = c->nproc,
    };
    msg_set(d->world.master_addr, c->standalone || c->is_host == 1
                                      ? c->endpoints[0].host
                                      : "127.0.0.1");
}

static bool make_envs(struct dry *d)
{
    static const struct mailbox none = MAILBOX_NONE;
    d->envs = calloc((size_t)d->conf->nproc, sizeof(*d->envs));
    for (int i = 0; d->envs != NULL && i < d->conf->nproc; i++) {
        char file[32]; /* differs, as the real ones do */
        (void)snprintf(file, sizeof(file), "%d." ERRFILE_NAME, i);
        bool files = strcmp(d->conf->log_dir, "/dev/null") != 0;
        d->envs[i] = worker_env_make(d->conf, &d->world, i, files ? file : "",
                                     &none, -1);
        if (d->envs[i] == NULL)
            return false;
    }
    return d->envs != NULL;
}

int dry_run(const struct conf *conf, FILE *f)
{
    struct dry d = {.conf = conf, .f = f, .several = conf->nnodes_max > 1};
    static struct gpus gpus; /* large */
    struct gpus_visible visible = gpus_visible_env();
    if (conf->gpus[0] != '\0')
        visible.cuda = visible.hip = conf->gpus;
    gpus_find(&gpus, &gpus_roots, &visible);
    d.gpus = &gpus;
    fill_world(&d);
    if (!make_envs(&d))
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the workers");
    put_head(&d);
    put_found(&d);
    find_common(&d);
    put_common(&d);
    for (int i = 0; i < conf->nproc; i++)
        put_worker(&d, i);
    for (int i = 0; i < conf->nproc; i++)
        free(d.envs[i]);
    free(d.envs);
    if (fflush(f) == 0 && ferror(f) == 0)
        return 0;
    log_warn("cannot write the dry run to standard output");
    return ddp_code_exit(DDP_E_IO);
}
