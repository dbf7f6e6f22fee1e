/*
 * When this process is a front end: it starts launchers on other hosts
 * (launcher/front), and is none itself. All options are checked here first, as
 * those of a launcher, so that a mistake is told once and nothing is started.
 *
 * A list of hosts (--hosts, --hostfile) wins over a scheduler, whose list it
 * may be. The number of nodes, the endpoint and the name of the run are filled
 * in where nobody said them; the ranks are the places in the list. Port and
 * name are random in part: a script may start several jobs at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/cluster/cluster.h"
#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"
#include "rendezvous/base/rng.h"

#define ENDPOINTS 3 /* of which one may be dead */

bool conf_has_hosts(const struct opts *o)
{
    return conf_said(o, OPTIONS_hosts) || conf_said(o, OPTIONS_hostfile);
}

/* Who gives one of these means a list of hosts, and has forgotten it. A
 * launcher on a host has them from the front end, with two empty lists. */
int conf_check_unlisted(const struct conf *c,
                        const struct opts *o,
                        struct ddp_err *err)
{
    if (c->front.kind == CONF_FRONT_HOSTS ||
        o->value[OPTIONS_hosts].source == OPTS_FROM_LINE)
        return 0;
    for (const int *id = options_of_front; *id >= 0; id++)
        if (o->value[*id].source == OPTS_FROM_LINE) {
            ddp_err_set(err, DDP_E_USAGE,
                        "has no effect without a list of hosts; add --hosts or "
                        "--hostfile");
            return conf_blame(o, *id, err);
        }
    return 0;
}

/* A launcher on a host is told that both are empty; from a user it is a
 * variable that is not set, and this node alone would be the whole job. */
int conf_check_hosts(const struct opts *o, struct ddp_err *err)
{
    bool hosts = o->value[OPTIONS_hosts].source == OPTS_FROM_LINE;
    bool file = o->value[OPTIONS_hostfile].source == OPTS_FROM_LINE;
    if (conf_has_hosts(o) || hosts == file)
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "must not be empty");
    return conf_blame(o, hosts ? OPTIONS_hosts : OPTIONS_hostfile, err);
}

/* MIN of --nnodes; 0: not said, or not to be read, which is told later. */
static int min_said(const struct opts *o)
{
    char text[16] = "";
    int64_t n = 0;
    const char *said = opts_text(o, OPTIONS_nnodes);
    size_t len = said != NULL ? strcspn(said, ":") : 0;
    if (!conf_said(o, OPTIONS_nnodes) || len >= sizeof(text))
        return 0;
    memcpy(text, said, len);
    return opts_read_int(text, 1, CONF_NNODES_MAX, &n) ? (int)n : 0;
}

static int check_enough(const struct opts *o, int nodes, struct ddp_err *err)
{
    if (min_said(o) <= nodes)
        return 0;
    ddp_err_set(err, DDP_E_USAGE,
                "there %s only %d host%s to start on: must not be more",
                nodes == 1 ? "is" : "are", nodes, nodes == 1 ? "" : "s");
    return conf_blame(o, OPTIONS_nnodes, err);
}

/* What a launcher on each of several hosts cannot have. */
static int check_others(const struct opts *o, struct ddp_err *err)
{
    static const struct {
        int option;
        const char *name, *why;
    } others[] = {
        {OPTIONS_node_rank, "node_rank", "each node gets a rank of its own"},
        {OPTIONS_standalone, "standalone", "that uses this node only"},
        {OPTIONS_local_addr, "local_addr",
         "it would be the same address on each host"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (conf_said(o, others[i].option) ||
            (others[i].option == OPTIONS_standalone &&
             opts_number(o, OPTIONS_standalone) != 0))
            return ddp_err_set(err, DDP_E_USAGE,
                               "--%s cannot be used where one line starts the "
                               "launchers on all hosts: %s",
                               others[i].name, others[i].why);
    return 0;
}

/* -- the list -------------------------------------------------------------- */

static int read_file(struct conf *c, const char *path, struct ddp_err *err)
{
    char *text = cluster_read_file(path);
    if (text == NULL && (errno == EINVAL || errno == EILSEQ))
        return ddp_err_set(
            err, DDP_E_USAGE, "--hostfile=%.300s: must be %s", path,
            errno == EINVAL ? "a file on a disk, and no pipe or folder"
                            : "text, and it has a NUL byte");
    if (text == NULL)
        return ddp_err_sys(err, DDP_E_USAGE,
                           "cannot read the list of hosts, --hostfile=%.300s",
                           path);
    int rc = hostfile_read(&c->front.hosts, text, path, err);
    free(text);
    return rc;
}

static int read_hosts(struct conf *c, const struct opts *o, struct ddp_err *err)
{
    if (conf_said(o, OPTIONS_hosts) && conf_said(o, OPTIONS_hostfile))
        return ddp_err_set(err, DDP_E_USAGE,
                           "--hosts cannot be used with --hostfile: each has "
                           "all hosts");
    if (conf_said(o, OPTIONS_hostfile))
        return read_file(c, opts_text(o, OPTIONS_hostfile), err);
    if (hostfile_read_list(&c->front.hosts, opts_text(o, OPTIONS_hosts), err) <
        0)
        return conf_blame(o, OPTIONS_hosts, err);
    return 0;
}

/* -- what goes with it ----------------------------------------------------- */

static bool is_variable(const char *name, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    return len > 0 && strchr(letters, name[0]) != NULL &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
                        "0123456789") >= len;
}

static int check_export(const struct opts *o, struct ddp_err *err)
{
    char name[256];
    const char *p =
        conf_said(o, OPTIONS_export) ? opts_text(o, OPTIONS_export) : "";
    while (*p != '\0') {
        size_t len = strcspn(p, ",");
        bool good = len < sizeof(name) && is_variable(p, len);
        (void)snprintf(name, sizeof(name), "%.*s", good ? (int)len : 99, p);
        if (!good || getenv(name) == NULL) {
            ddp_err_set(err, DDP_E_USAGE,
                        good ? "the variable %.99s is not set here"
                             : "'%.99s' is not the name of a variable",
                        name);
            return conf_blame(o, OPTIONS_export, err);
        }
        p += len + (p[len] == ',');
    }
    return 0;
}

/* `with`: unless another one was said. */
static int take_command(struct conf *c,
                        const struct opts *o,
                        const char *with,
                        struct ddp_err *err)
{
    bool said = conf_said(o, OPTIONS_launch_with);
    c->front.command = said ? opts_text(o, OPTIONS_launch_with) : with;
    if (c->front.command[strspn(c->front.command, " \t")] != '\0')
        return 0;
    ddp_err_set(err, DDP_E_USAGE, "must be a command, such as ssh");
    return conf_blame(o, OPTIONS_launch_with, err);
}

/* -- what is filled in ----------------------------------------------------- */

static int fill_nodes(struct conf *c, struct opts *o, struct ddp_err *err)
{
    static char text[16]; /* as long as the options */
    if (conf_said(o, OPTIONS_nnodes))
        return check_enough(o, c->front.nodes, err);
    (void)snprintf(text, sizeof(text), "%d", c->front.nodes);
    return opts_offer(o, OPTIONS_nnodes, text, err);
}

/* Whether the job can begin without its first host, if that is dead: with MIN
 * of --nnodes below MAX, and more than half of it, so that no second job can
 * begin; and of all hosts, since those behind MAX are started as well. The
 * hosts behind it are then endpoints as well. */
static bool can_spare_first(const struct conf *c, const struct opts *o)
{
    int64_t max = 0;
    int min = min_said(o);
    const char *said = opts_text(o, OPTIONS_nnodes);
    const char *colon = said != NULL ? strchr(said, ':') : NULL;
    const char *backend = opts_text(o, OPTIONS_rdzv_backend);
    bool placed = conf_said(o, OPTIONS_node_rank) ||
                  conf_said(o, OPTIONS_master_port) ||
                  (backend != NULL && strcasecmp(backend, "static") == 0);
    return min > 0 && colon != NULL && !placed &&
           opts_read_int(colon + 1, 1, CONF_NNODES_MAX, &max) && min < max &&
           2 * min > max && 2 * min > c->front.nodes;
}

/* Appends ",HOST:PORT", if it fits as a whole. */
static void add_endpoint(char *text, size_t cap, const char *host, int port)
{
    size_t len = strlen(text);
    bool ip6 = strchr(host, ':') != NULL;
    int n =
        snprintf(text + len, cap - len, ip6 ? "%s[%.255s]:%d" : "%s%.255s:%d",
                 len > 0 ? "," : "", host, port);
    if (n < 0 || (size_t)n >= cap - len)
        text[len] = '\0';
}

/* On the first host; and on the next ones of a list of the user's own if the
 * job may begin without it. A scheduler starts nothing on a dead host. */
static int fill_endpoint(struct conf *c,
                         struct opts *o,
                         const char *first,
                         struct ddp_err *err)
{
    int port = CLUSTER_PORT_FIRST + (int)(rng_seed() % CLUSTER_PORT_COUNT);
    if (conf_said(o, OPTIONS_rdzv_endpoint) ||
        conf_said(o, OPTIONS_master_addr))
        return 0;
    if (strcasecmp(first, "localhost") == 0 || strncmp(first, "127.", 4) == 0 ||
        strcmp(first, "::1") == 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the first host of the list is %.60s, which is "
                           "another one on each host: give its name",
                           first);
    if (conf_said(o, OPTIONS_master_port))
        port = (int)opts_number(o, OPTIONS_master_port);
    add_endpoint(c->front.endpoint, sizeof(c->front.endpoint), first, port);
    int n = !c->front.in_job && can_spare_first(c, o) ? ENDPOINTS : 1;
    for (int i = 1; i < n && i < c->front.hosts.n; i++)
        add_endpoint(c->front.endpoint, sizeof(c->front.endpoint),
                     c->front.hosts.host[i].name, port);
    return opts_offer(o, OPTIONS_rdzv_endpoint, c->front.endpoint, err);
}

/* The same as for a scheduler: ranks must not make the backend static. */
static int fill_backend(struct opts *o, struct ddp_err *err)
{
    bool placed =
        conf_said(o, OPTIONS_master_addr) || conf_said(o, OPTIONS_master_port);
    if (placed || conf_said(o, OPTIONS_rdzv_backend))
        return 0;
    return opts_offer(o, OPTIONS_rdzv_backend, "c10d", err);
}

static int fill_run_id(struct conf *c,
                       struct opts *o,
                       const char *job,
                       struct ddp_err *err)
{
    char id[RNG_ID_LEN + 1];
    if (conf_said(o, OPTIONS_rdzv_id))
        return 0;
    rng_id(id);
    (void)snprintf(c->front.run_id, sizeof(c->front.run_id), "%.100s-%.12s",
                   job, id);
    return opts_offer(o, OPTIONS_rdzv_id, c->front.run_id, err);
}

/* What is not filled in by now; `job` begins the name of the run. */
static int become_front(struct conf *c,
                        struct opts *o,
                        const char *job,
                        const char *with,
                        struct ddp_err *err)
{
    if (check_others(o, err) < 0 || take_command(c, o, with, err) < 0 ||
        check_export(o, err) < 0)
        return -1;
    c->front.kind = CONF_FRONT_HOSTS;
    c->front.nodes = c->front.hosts.n;
    c->front.timeout_us = opts_number(o, OPTIONS_launch_timeout);
    if (fill_nodes(c, o, err) < 0 || fill_run_id(c, o, job, err) < 0)
        return -1;
    if (c->front.nodes == 1)
        return 0;
    return fill_endpoint(c, o, c->front.hosts.host[0].name, err) < 0
               ? -1
               : fill_backend(o, err);
}

int conf_hosts(struct conf *c, struct opts *o, struct ddp_err *err)
{
    return read_hosts(c, o, err) < 0 ? -1
                                     : become_front(c, o, "hosts", "ssh", err);
}

/* -- job scripts ----------------------------------------------------------- */

int conf_script(struct conf *c,
                struct opts *o,
                const struct cluster *f,
                struct ddp_err *err)
{
    ddp_assert(f->nnodes > 0 && f->launch_with == NULL);
    c->front.kind = CONF_FRONT_SRUN;
    c->front.nodes = f->nnodes;
    c->front.components = f->components;
    memcpy(c->front.component_nodes, f->component_nodes,
           sizeof(c->front.component_nodes));
    if (check_others(o, err) < 0 || check_enough(o, f->nnodes, err) < 0)
        return -1;
    if (f->components == 0)
        return 0; /* the step has a number, by which launchers find all */
    return fill_endpoint(c, o, f->head, err) < 0
               ? -1
               : fill_run_id(c, o, f->run_id, err);
}

int conf_list_script(struct conf *c,
                     struct opts *o,
                     const struct cluster *f,
                     const char *hosts,
                     const char *with,
                     struct ddp_err *err)
{
    c->front.in_job = true;
    if (hostfile_read_list(&c->front.hosts, hosts, err) < 0)
        return -1;
    return become_front(c, o, f->run_id, with, err);
}
