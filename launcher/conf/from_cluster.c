/*
 * What a scheduler tells (launcher/cluster), as values of options that nobody
 * gave. What follows then is the same as if they stood on the command line.
 *
 * The command line and PET_ variables win, each for its own value. With
 * --nnodes only the endpoint, the rank and the name of the run are filled in;
 * with an endpoint as well nothing is, and so nothing changes for a line that
 * was written for torchrun. A job on this host alone (--standalone, --nnodes=1,
 * an endpoint on loopback or with port 0) asks no scheduler.
 *
 * In the script of a job of several nodes, which runs on one of them, this
 * process becomes the front end of launchers on all (launcher/front).
 *
 * What fails: values that cannot be (launcher/cluster), several nodes whose
 * scheduler tells no place to meet, a job script without the scheduler's way to
 * the other nodes, and several launchers of one run on one host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/cpu_bind.h"
#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"
#include "launcher/conf/program.h"

extern char **environ;

static struct cluster_env environment(char host[256])
{
    static char *none[] = {NULL};
    host[0] = host[255] = '\0';
    (void)gethostname(host, 255);
    return (struct cluster_env){
        .vars = environ != NULL ? environ : none,
        .host = host,
        .read_file = cluster_read_file,
    };
}

/* -- whether to ask -------------------------------------------------------- */

static bool has_endpoint(const struct opts *o)
{
    return conf_said(o, OPTIONS_rdzv_endpoint) ||
           conf_said(o, OPTIONS_master_addr);
}

/* On each node such an endpoint is another one. */
static bool is_own(const char *endpoint)
{
    static const char *const starts[] = {"localhost", "127.", "[::1]"};
    size_t len = strlen(endpoint);
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (strncasecmp(endpoint, starts[i], strlen(starts[i])) == 0)
            return true;
    return len > 1 && strcmp(endpoint + len - 2, ":0") == 0;
}

/* --nnodes=1, which 1:1 says as well. */
static bool has_one_node(const struct opts *o)
{
    int64_t n;
    const char *text = opts_text(o, OPTIONS_nnodes);
    const char *colon = strchr(text, ':');
    return opts_read_int(colon != NULL ? colon + 1 : text, 1, 1, &n);
}

/* Each launcher is a job of its own, whatever started it. */
static bool is_alone(const struct opts *o)
{
    bool one = conf_said(o, OPTIONS_nnodes) && has_one_node(o);
    bool own = !conf_said(o, OPTIONS_nnodes) &&
               conf_said(o, OPTIONS_rdzv_endpoint) &&
               is_own(opts_text(o, OPTIONS_rdzv_endpoint));
    return opts_number(o, OPTIONS_standalone) != 0 || one || own;
}

/* -- what is filled in ----------------------------------------------------- */

struct filling {
    struct conf *c;
    struct opts *o;
    const struct cluster *f;
    struct ddp_err *err;
};

static struct conf_found *
note_found(struct conf *c, const char *name, const char *text, const char *from)
{
    ddp_assert(c->found_len < CONF_FOUND_MAX);
    struct conf_found *found = &c->found[c->found_len++];
    (void)snprintf(found->name, sizeof(found->name), "%s", name);
    (void)snprintf(found->text, sizeof(found->text), "%.299s", text);
    found->from = from;
    return found;
}

static int
offer(const struct filling *l, int id, const char *text, const char *from)
{
    const struct conf_found *found =
        note_found(l->c, options_table.rows[id].name, text, from);
    if (opts_offer(l->o, id, found->text, l->err) == 0)
        return 0;
    return ddp_err_wrap(l->err, "%s", from);
}

static int
offer_number(const struct filling *l, int id, int n, const char *from)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", n);
    return offer(l, id, text, from);
}

/* Several nodes, and nobody said where they meet. */
static int fill_endpoint(const struct filling *l)
{
    char text[300];
    const struct cluster *f = l->f;
    bool port = conf_said(l->o, OPTIONS_master_port);
    if (f->head_from == NULL)
        return ddp_err_set(l->err, DDP_E_USAGE,
                           "%s does not tell where its nodes can meet: add "
                           "--rdzv_endpoint=HOST:PORT, the same on every node",
                           f->job);
    (void)snprintf(text, sizeof(text), "%.255s:%d", f->head, /* fits */
                   port ? (int)opts_number(l->o, OPTIONS_master_port)
                        : f->port);
    return offer(l, OPTIONS_rdzv_endpoint, text, f->head_from);
}

/* The place of this node. It says no more than a wish for a group rank, so it
 * must not make the backend static. */
static int fill_rank(const struct filling *l)
{
    const struct opts *o = l->o;
    bool placed = conf_said(o, OPTIONS_node_rank) ||
                  conf_said(o, OPTIONS_master_addr) ||
                  conf_said(o, OPTIONS_master_port);
    if (!placed && !conf_said(o, OPTIONS_rdzv_backend) &&
        opts_offer(l->o, OPTIONS_rdzv_backend, "c10d", l->err) < 0)
        return -1;
    if (l->f->rank_from == NULL || conf_said(o, OPTIONS_node_rank))
        return 0;
    return offer_number(l, OPTIONS_node_rank, l->f->rank, l->f->rank_from);
}

static int fill_workers(const struct filling *l)
{
    const struct cluster *f = l->f;
    if (conf_said(l->o, OPTIONS_nproc_per_node))
        return 0;
    return f->nproc_from != NULL ? offer_number(l, OPTIONS_nproc_per_node,
                                                f->nproc, f->nproc_from)
                                 : offer(l, OPTIONS_nproc_per_node, "gpu-or-1",
                                         "the GPUs of this node");
}

/* By which interface the workers of several nodes reach each other, unless the
 * user says it. */
static void fill_interface(const struct filling *l)
{
    static const char *const names[] = {"NCCL_SOCKET_IFNAME",
                                        "GLOO_SOCKET_IFNAME"};
    const struct cluster *f = l->f;
    for (size_t i = 0; i < 2 && f->interface_from != NULL; i++)
        if (getenv(names[i]) == NULL)
            note_found(l->c, names[i], f->interface, f->interface_from)
                ->variable = true;
}

static int fill(const struct filling *l)
{
    const struct cluster *f = l->f;
    bool nnodes = conf_said(l->o, OPTIONS_nnodes);
    /* Launchers of a script are told where they meet, and the name of the run,
     * by their front end; but those of one step of Slurm, which find it there.
     */
    bool later = f->script && (f->launch_with != NULL || f->components > 0);
    bool several = nnodes || (f->nnodes_from != NULL && f->nnodes > 1);
    if (!nnodes && f->nnodes_from == NULL) {
        /* A sweep, or a job whose user has forgotten the number. */
        conf_note(l->c,
                  "%s: this is node %d, but how many nodes there are is not "
                  "told: it is a job of its own; --nnodes=N makes one job of "
                  "all, --standalone leaves this line out",
                  f->job, f->rank);
        return 0;
    }
    if (!nnodes &&
        (offer_number(l, OPTIONS_nnodes, f->nnodes, f->nnodes_from) < 0 ||
         fill_workers(l) < 0))
        return -1;
    if (several && !later && !has_endpoint(l->o) && fill_endpoint(l) < 0)
        return -1;
    if (several && fill_rank(l) < 0)
        return -1;
    if (several)
        fill_interface(l);
    if (f->run_id_from == NULL || later || conf_said(l->o, OPTIONS_rdzv_id))
        return 0;
    return offer(l, OPTIONS_rdzv_id, f->run_id, f->run_id_from);
}

static int no_way(const struct filling *l, const char *command)
{
    bool ssh = strcmp(command, "ssh") == 0;
    return ddp_err_set(l->err, DDP_E_USAGE,
                       /* several: messages: ok */
                       "%s has %d nodes, and this is its job script, which "
                       "runs on one of them; %s%s, which would start ddprun on "
                       "all of them, is not in PATH: add --launch_with=COMMAND "
                       "with one that is, or --standalone to use this node "
                       "only",
                       l->f->job, l->f->nnodes, command, ssh ? "" : " or ssh");
}

/* The script of a job with a list of hosts: the scheduler's own command starts
 * the launchers, or ssh where that is not there. */
static int take_list_script(const struct filling *l,
                            const struct cluster_env *env)
{
    char path[4096], word[64];
    const struct cluster *f = l->f;
    const char *with = f->launch_with;
    (void)snprintf(word, sizeof(word), "%.63s", with);
    word[strcspn(word, " ")] = '\0';
    if (program_find(word, path, sizeof(path), NULL) < 0)
        with = "ssh";
    if (!conf_said(l->o, OPTIONS_launch_with) && strcmp(with, "ssh") == 0 &&
        program_find(with, path, sizeof(path), NULL) < 0)
        return no_way(l, word);
    char *hosts = cluster_hosts(env, opts_text(l->o, OPTIONS_cluster), l->err);
    int rc = hosts == NULL || fill(l) < 0
                 ? -1
                 : conf_list_script(l->c, l->o, f, hosts, with, l->err);
    free(hosts);
    return rc;
}

/* A job script runs on one of the nodes: it becomes the front end of all. */
static int take_script(const struct filling *l, const struct cluster_env *env)
{
    char path[4096];
    const struct cluster *f = l->f;
    (void)snprintf(l->c->cluster_job, sizeof(l->c->cluster_job), "%.199s",
                   f->job);
    if (f->launch_with != NULL)
        return take_list_script(l, env);
    if (program_find("srun", path, sizeof(path), NULL) < 0)
        return ddp_err_set(l->err, DDP_E_USAGE,
                           /* several: messages: ok */
                           "%s has %d nodes, and this is its job script, which "
                           "runs on one of them; srun, which would start "
                           "ddprun on all of them, is not in PATH: start it by "
                           "%s ddprun ... outside of this container, or add "
                           "--standalone to use this node only",
                           f->job, f->nnodes, f->one_each);
    return fill(l) < 0 ? -1 : conf_script(l->c, l->o, f, l->err);
}

/* Slurm tells a job that it preempts by signalling its steps, and not its
 * script: who wants to hear of it has to be in a step, also on one node. */
static bool wants_step(const struct opts *o, const struct cluster *f)
{
    char path[4096];
    return f->script_of_one && opts_number(o, OPTIONS_requeue) != 0 &&
           program_find("srun", path, sizeof(path), NULL) == 0;
}

/* "Slurm job 17: 3 nodes, this is n2 (node 1), meeting at n1:29517". */
static void tell(struct conf *c,
                 const struct opts *o,
                 const struct cluster *f,
                 const char *host)
{
    char nodes[40] = "", place[300] = "", meet[300] = "";
    const struct opts_value *v = o->value;
    if (v[OPTIONS_nnodes].source == OPTS_FROM_OFFER)
        (void)snprintf(nodes, sizeof(nodes), " %d node%s,", f->nnodes,
                       f->nnodes == 1 ? "" : "s");
    if (v[OPTIONS_node_rank].source == OPTS_FROM_OFFER)
        (void)snprintf(place, sizeof(place), " (node %d)", f->rank);
    if (v[OPTIONS_rdzv_endpoint].source == OPTS_FROM_OFFER)
        (void)snprintf(meet, sizeof(meet), ", meeting at %s",
                       opts_text(o, OPTIONS_rdzv_endpoint));
    (void)snprintf(c->cluster_job, sizeof(c->cluster_job), "%s", f->job);
    conf_note(c, "%s:%s this is %.60s%s%s", f->job, nodes, host, place, meet);
}

static int check_cpu_bind(const struct opts *o, struct ddp_err *err)
{
    static const char *const words[] = {"auto", "keep", NULL};
    if (conf_one_of(opts_text(o, OPTIONS_cpu_bind), words))
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "must be auto or keep");
    return conf_blame(o, OPTIONS_cpu_bind, err);
}

/* No list of hosts was said. */
static int ask_cluster(struct conf *c, struct opts *o, struct ddp_err *err)
{
    char host[256];
    struct cluster f;
    struct cluster_env env = environment(host);
    const char *name = opts_text(o, OPTIONS_cluster);
    bool nnodes = conf_said(o, OPTIONS_nnodes);
    c->in_task = cluster_is_here(&env, name);
    if (conf_has_hosts(o) || is_alone(o))
        return 0;
    if (cluster_check_tasks(&env, name, err) < 0)
        return -1;
    if (nnodes && has_endpoint(o))
        return 0;
    if (cluster_find(&env, name, &f, err) < 0)
        return -1;
    if (f.name == NULL)
        return 0;
    f.script |= wants_step(o, &f);
    if (f.script && has_endpoint(o))
        return 0;
    struct filling l = {.c = c, .o = o, .f = &f, .err = err};
    if (f.script)
        return take_script(&l, &env);
    if (fill(&l) < 0)
        return -1;
    if (f.rank_from != NULL)
        (void)snprintf(c->place, sizeof(c->place), "%s %s %d", f.name, f.run_id,
                       f.rank);
    if (c->found_len > 0)
        tell(c, o, &f, host);
    return 0;
}

/* A front end tells its launchers that both lists are empty. */
static const char *starter_of(const struct conf *c, const struct opts *o)
{
    if (!conf_has_hosts(o) && o->value[OPTIONS_hosts].source == OPTS_FROM_LINE)
        return "the front end";
    return c->place[0] != '\0' ? "the scheduler" : NULL;
}

int conf_cluster(struct conf *c, struct opts *o, struct ddp_err *err)
{
    const char *name = opts_text(o, OPTIONS_cluster);
    c->task_vars = strcmp(name, "none") == 0;
    if (check_cpu_bind(o, err) < 0 || cluster_check_name(name, err) < 0 ||
        conf_check_hosts(o, err) < 0 || ask_cluster(c, o, err) < 0)
        return -1;
    c->starter = starter_of(c, o);
    return conf_has_hosts(o) ? conf_hosts(c, o, err)
                             : conf_check_unlisted(c, o, err);
}

/* -- CPUs ------------------------------------------------------------------ */

int conf_widen(struct conf *c, const struct opts *o)
{
    char host[256], cpus[64];
    struct cluster_env env = environment(host);
    bool keep =
        c->task_vars || strcasecmp(opts_text(o, OPTIONS_cpu_bind), "keep") == 0;
    struct cpu_bind b = cpu_bind_widen(&env, keep);
    cpus_format(&b.before, cpus, sizeof(cpus));
    if (b.state == CPU_BIND_WIDENED)
        conf_note(c,
                  /* more than one: messages: ok */
                  "Slurm bound this task to CPU %s: the workers use all %d "
                  "CPUs that the step has on this node (--cpu_bind=keep keeps "
                  "the binding)",
                  cpus, b.cpus);
    else if (b.state == CPU_BIND_NARROW && !keep)
        conf_note(c,
                  "Slurm bound this task to CPU %s, and all workers of this "
                  "node share it: add --cpu-bind=none to srun",
                  cpus);
    return b.state == CPU_BIND_FEW && !c->task_vars ? b.cpus : 0;
}

void conf_note_few_cpus(struct conf *c, int cpus)
{
    if (cpus > 0 && c->nproc > cpus)
        conf_note(
            c,
            /* several workers: messages: ok */
            "the step has %d CPU%s on this node, and %d workers share %s: "
            "ask Slurm for more (--exclusive, or --cpus-per-task=N)",
            cpus, cpus == 1 ? "" : "s", c->nproc, cpus == 1 ? "it" : "them");
}
