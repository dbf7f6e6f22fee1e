/*
 * How many workers there are, which GPUs they see, and which CPUs they are
 * bound to: one struct conf_seat for each.
 *
 * Each step needs the result of the one before: --gpus decides what CUDA or HIP
 * shows, that decides the number of workers for --nproc_per_node=gpu, and both
 * decide which NUMA node a worker belongs to. GPUs are looked for only if an
 * option depends on them, since loading NVML can take a second; find_gpus()
 * keeps the list, and --gpus throws it away, because the list is then another
 * one.
 *
 * CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES are set for the workers, and
 * ROCR_VISIBLE_DEVICES is left as it is: ROCm selects by it first, and the
 * numbers of the others count in what is left. To set both would select twice.
 *
 * What fails: numbers that CUDA would not take (it would show no GPU at all,
 * and the workers would fail later with a worse message), no GPU if one is
 * asked for, and fewer cores than --numa_binding=exclusive needs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"
#include "launcher/hw/cpus.h"
#include "launcher/hw/gpus.h"
#include "rendezvous/base/log.h"

#define GPU_INDEX_MAX 1023 /* no machine has as many */

struct placing {
    struct conf *c;
    const struct opts *o;
    struct ddp_err *err;
    struct gpus *gpus;           /* NULL: not looked for yet; large, owned */
    struct gpus_visible visible; /* what selects the workers' GPUs */
    /* Of a machine that was looked at: the list in which a worker's GPU is
     * told, NULL all GPUs, and the variable or the option that it is from. */
    const char *list, *list_name;
};

static const struct gpus *find_gpus(struct placing *p)
{
    if (p->gpus != NULL)
        return p->gpus;
    p->gpus = calloc(1, sizeof(*p->gpus));
    if (p->gpus == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for a list of GPUs");
    gpus_find(p->gpus, &gpus_roots, &p->visible);
    if (p->c->gpus[0] == '\0')
        p->list = gpus_list(&p->visible, p->gpus->vendor, &p->list_name);
    return p->gpus;
}

static void forget_gpus(struct placing *p)
{
    free(p->gpus);
    p->gpus = NULL;
}

static void no_gpu(struct placing *p)
{
    const char *why = find_gpus(p)->why;
    ddp_err_set(p->err, DDP_E_CONFIG,
                "this machine has no GPU of NVIDIA's or AMD's that workers can "
                "see%s%s",
                why[0] != '\0' ? ": " : "", why);
}

/* -- --gpus ---------------------------------------------------------------- */

struct id_list {
    char text[CONF_GPUS_MAX];
    size_t len;
    bool full;  /* an entry did not fit */
    bool twice; /* an entry was there already */
};

/* Whether the list has it already: CUDA would show no GPU at all then. */
static bool has_id(const struct id_list *l, const char *id)
{
    char other[NVML_UUID_MAX];
    for (const char *p = l->text; *p != '\0' && gpus_next_id(&p, other);)
        if (strcmp(other, id) == 0)
            return true;
    return false;
}

static void put_id(struct id_list *l, const char *id)
{
    size_t len = strlen(id);
    l->twice |= has_id(l, id);
    if (l->full || l->len + len + 2 > sizeof(l->text)) {
        l->full = true;
        return;
    }
    if (l->len > 0)
        l->text[l->len++] = ',';
    memcpy(l->text + l->len, id, len + 1);
    l->len += len;
}

/* The entry of `list` with this number; false if the list is shorter. */
static bool nth_id(const char *list, int64_t nth, char id[NVML_UUID_MAX])
{
    for (const char *p = list; gpus_next_id(&p, id); nth--) {
        if (nth == 0)
            return true;
        if (*p == '\0')
            return false;
    }
    return false;
}

/* Numbers count within the GPUs that this process sees, as CUDA's do. */
static int put_index(struct placing *p, struct id_list *l, int64_t index)
{
    char id[NVML_UUID_MAX];
    (void)snprintf(id, sizeof(id), "%lld", (long long)index); /* fits */
    const struct gpus *g = p->gpus;
    bool known = p->list == NULL && g->all > 0;
    if (p->list != NULL && !nth_id(p->list, index, id))
        return ddp_err_set(p->err, DDP_E_USAGE,
                           "there is no GPU %lld in %s=%.80s", (long long)index,
                           p->list_name, p->list);
    if (known && index >= g->n && g->n < g->all)
        return ddp_err_set(p->err, DDP_E_USAGE,
                           "there is no GPU %lld: workers can see %d of %d",
                           (long long)index, g->n, g->all);
    if (known && index >= g->n)
        return ddp_err_set(p->err, DDP_E_USAGE,
                           "there is no GPU %lld: this machine has %d GPU%s",
                           (long long)index, g->n, g->n == 1 ? "" : "s");
    put_id(l, known ? g->gpu[index].id : id);
    return 0;
}

/* "3", "0-3", or the beginning of a UUID. */
static int put_entry(struct placing *p, struct id_list *l, char *id)
{
    int64_t first = 0, last = 0;
    if (strncmp(id, "GPU-", 4) == 0 || strncmp(id, "MIG-", 4) == 0) {
        if (p->list == NULL && p->gpus->all > 0 && !gpus_has(p->gpus, id))
            return ddp_err_set(p->err, DDP_E_USAGE,
                               "%s is not the UUID of one GPU of this machine",
                               id);
        put_id(l, id);
        return 0;
    }
    char *dash = strchr(id, '-');
    if (dash != NULL)
        *dash++ = '\0';
    if (!opts_read_int(id, 0, GPU_INDEX_MAX, &first) ||
        !opts_read_int(dash != NULL ? dash : id, first, GPU_INDEX_MAX, &last))
        return ddp_err_set(p->err, DDP_E_USAGE,
                           "must be a list of numbers, ranges and UUIDs, such "
                           "as 0,2-3 or GPU-8932f937");
    for (int64_t i = first; i <= last; i++)
        if (put_index(p, l, i) < 0)
            return -1;
    return 0;
}

/* Whether the workers' runtime is HIP: by what was found, or by the variable
 * that the user has set. */
static bool reads_hip(const struct placing *p)
{
    return p->gpus->vendor == GPUS_AMD ||
           (p->list != NULL &&
            strcmp(p->list_name, "HIP_VISIBLE_DEVICES") == 0);
}

/* With `list` the workers' GPUs are these, and numbers count within it. */
static void take_gpus(struct placing *p, const struct id_list *list)
{
    memcpy(p->c->gpus, list->text, sizeof(p->c->gpus));
    p->c->hip = reads_hip(p);
    p->visible.cuda = p->visible.hip = p->c->gpus;
    p->list = p->c->gpus;
    p->list_name = "--gpus";
    forget_gpus(p);
}

/* A list that the environment has is believed if no GPU is found: other
 * vendors' runtimes read the same variables. */
static int check_gpus(struct placing *p)
{
    static struct id_list list; /* large; one at a time */
    char id[NVML_UUID_MAX];
    p->visible = gpus_visible_env();
    if (!conf_said(p->o, OPTIONS_gpus))
        return 0;
    list = (struct id_list){.len = 0};
    const struct gpus *found = find_gpus(p);
    const char *at = opts_text(p->o, OPTIONS_gpus);
    do {
        if (!gpus_next_id(&at, id))
            id[0] = '\0'; /* says what is wrong */
        if (put_entry(p, &list, id) < 0)
            return conf_blame(p->o, OPTIONS_gpus, p->err);
    } while (*at != '\0');
    if (list.full || list.twice) {
        ddp_err_set(p->err, DDP_E_USAGE, "%s",
                    list.twice ? "must not name a GPU twice"
                               : "must not name so many GPUs");
        return conf_blame(p->o, OPTIONS_gpus, p->err);
    }
    if (found->all == 0 && p->list == NULL) {
        no_gpu(p);
        return conf_blame(p->o, OPTIONS_gpus, p->err);
    }
    take_gpus(p, &list);
    return 0;
}

/* -- --nproc_per_node ------------------------------------------------------ */

/* CPUs that this process may use, by its affinity and its cgroup's quota. */
static int count_cpus(void)
{
    struct cpus allowed;
    cpus_allowed(&allowed);
    int n = cpus_count(&allowed);
    int quota = cpus_quota("");
    return quota > 0 && quota < n ? quota : n;
}

/* A worker for each GPU: no other launcher of the run can use them. */
static void note_own_gpus(struct placing *p)
{
    const struct gpus *g = find_gpus(p);
    for (int i = 0, n = 0; i < g->n && n < CONF_OWN_GPUS; i++)
        if (g->gpu[i].uuid[0] != '\0')
            memcpy(p->c->own_gpus[n++], g->gpu[i].uuid, NVML_UUID_MAX);
}

static int check_nproc(struct placing *p)
{
    const char *text = opts_text(p->o, OPTIONS_nproc_per_node);
    bool automatic = strcmp(text, "auto") == 0;
    bool or_one = strcmp(text, "gpu-or-1") == 0;
    int64_t n = 0;
    if (strcmp(text, "cpu") == 0) {
        n = count_cpus();
    } else if (automatic || or_one || strcmp(text, "gpu") == 0) {
        n = find_gpus(p)->n;
        note_own_gpus(p);
        if (n == 0 && automatic)
            n = count_cpus();
        if (n == 0 && or_one)
            n = 1;
        if (n == 0)
            no_gpu(p);
    } else if (!opts_read_int(text, 1, CONF_NPROC_MAX, &n)) {
        ddp_err_set(p->err, DDP_E_USAGE,
                    "must be a whole number from 1 to %d, cpu, gpu, gpu-or-1 "
                    "or auto",
                    CONF_NPROC_MAX);
    }
    p->c->nproc = (int)(n < CONF_NPROC_MAX ? n : CONF_NPROC_MAX);
    return n > 0 ? 0 : conf_blame(p->o, OPTIONS_nproc_per_node, p->err);
}

/* -- --virtual_local_rank -------------------------------------------------- */

/* The GPU of local rank `i`, as under torchrun: place `i` of the list, or
 * without a list GPU number `i`. */
static int find_seat_gpu(struct placing *p, int i, char id[NVML_UUID_MAX])
{
    const struct gpus *g = find_gpus(p);
    if (p->list != NULL && !nth_id(p->list, i, id))
        return ddp_err_set(p->err, DDP_E_USAGE,
                           "--virtual_local_rank: there is no GPU for local "
                           "rank %d in %s=%.80s",
                           i, p->list_name, p->list);
    if (p->list == NULL && g->n > 0 && i >= g->n)
        return ddp_err_set(p->err, DDP_E_USAGE,
                           "--virtual_local_rank: there is no GPU for local "
                           "rank %d: workers can see %d",
                           i, g->n);
    if (p->list == NULL && g->n > 0)
        memcpy(id, g->gpu[i].id, NVML_UUID_MAX);
    else if (p->list == NULL)
        (void)snprintf(id, NVML_UUID_MAX, "%d", i); /* fits */
    return 0;
}

/* Without a GPU it is no error, as under torchrun: LOCAL_RANK is 0 as asked. */
static int check_virtual(struct placing *p)
{
    struct conf *c = p->c;
    c->virtual_local_rank = opts_number(p->o, OPTIONS_virtual_local_rank) != 0;
    if (!c->virtual_local_rank)
        return 0;
    const struct gpus *g = find_gpus(p);
    for (int i = 0; i < c->nproc; i++)
        if (find_seat_gpu(p, i, c->seats[i].gpu) < 0)
            return -1;
    c->hip |= reads_hip(p);
    if (g->n == 0)
        conf_note(c,
                  "--virtual_local_rank: no GPU was found that the workers "
                  "could see%s%.120s",
                  g->why[0] != '\0' ? ": " : "", g->why);
    return 0;
}

/* A process uses the first part that it sees, whatever its local rank. */
static void note_parts(struct placing *p)
{
    bool parts = false;
    for (int i = 0; p->gpus != NULL && i < p->gpus->n; i++)
        parts |= p->gpus->gpu[i].instance;
    if (parts && p->c->nproc > 1 && !p->c->virtual_local_rank)
        conf_note(p->c,
                  "a GPU here is divided (MIG), and a process can use one "
                  "part only: add --virtual_local_rank, or all workers "
                  "use the same part");
}

/* -- --numa_binding -------------------------------------------------------- */

static int read_mode(struct placing *p)
{
    static const char *const names[] = {"", "node", "socket", "exclusive",
                                        "core-complex"};
    const char *text = opts_text(p->o, OPTIONS_numa_binding);
    if (text == NULL)
        return 0;
    for (int i = TOPOLOGY_NODE; i <= TOPOLOGY_CORE_COMPLEX; i++) {
        if (strcmp(text, names[i]) == 0) {
            p->c->numa_binding = (enum topology_mode)i;
            return 0;
        }
    }
    ddp_err_set(p->err, DDP_E_USAGE,
                "must be node, socket, exclusive or core-complex");
    return conf_blame(p->o, OPTIONS_numa_binding, p->err);
}

/*
 * The NUMA node of each seat; a worker with local rank i uses GPU i, and if
 * there are more workers than GPUs they share them in turn. Returns the number
 * of seats, or -1: no memory, or no node.
 */
static int
seat_nodes(struct placing *p, const struct cpus *allowed, int **nodes)
{
    int gpu_nodes[GPUS_MAX];
    const struct gpus *g = find_gpus(p);
    int n = g->n > p->c->nproc ? g->n : p->c->nproc;
    *nodes = calloc((size_t)n, sizeof(**nodes));
    if (*nodes == NULL)
        return ddp_err_set(p->err, DDP_E_NOMEM,
                           "no memory for the workers' places");
    for (int i = 0; i < g->n; i++)
        gpu_nodes[i] = g->gpu[i].numa_node;
    if (topology_seat_nodes(gpus_roots.sys, allowed, gpu_nodes, g->n, n,
                            *nodes))
        return n;
    return ddp_err_set(p->err, DDP_E_CONFIG,
                       "no NUMA node has a CPU that this process may use");
}

static int check_binding(struct placing *p)
{
    struct conf *c = p->c;
    struct cpus allowed;
    int *nodes = NULL;
    ddp_assert(c->seats != NULL && c->nproc > 0);
    if (read_mode(p) < 0)
        return -1;
    if (c->numa_binding == TOPOLOGY_NONE)
        return 0;
    cpus_allowed(&allowed);
    int rc = seat_nodes(p, &allowed, &nodes);
    int n = rc;
    ddp_assert(n < 0 || n >= c->nproc);
    for (int i = 0; rc >= 0 && i < c->nproc; i++) {
        c->seats[i].numa_node = nodes[i];
        rc = topology_bind(gpus_roots.sys, c->numa_binding, &allowed, nodes, n,
                           i, &c->seats[i].cpus, p->err);
    }
    free(nodes);
    return rc < 0 ? conf_blame(p->o, OPTIONS_numa_binding, p->err) : 0;
}

static int place_workers(struct placing *p)
{
    struct conf *c = p->c;
    struct cpus allowed;
    int few = conf_widen(c, p->o);
    if (check_gpus(p) < 0 || check_nproc(p) < 0)
        return -1;
    conf_note_few_cpus(c, few);
    cpus_allowed(&allowed);
    c->oversubscribed = c->nproc > cpus_count(&allowed);
    c->seats = calloc((size_t)c->nproc, sizeof(c->seats[0]));
    if (c->seats == NULL)
        return ddp_err_set(p->err, DDP_E_NOMEM, "no memory for the workers");
    if (check_virtual(p) < 0 || check_binding(p) < 0)
        return -1;
    note_parts(p);
    return 0;
}

int conf_place(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    struct placing p = {.c = c, .o = o, .err = err};
    int rc = place_workers(&p);
    forget_gpus(&p);
    return rc;
}
