/* links: CLUSTER launcher/hw/cpus launcher/proc/procfs */
/* links: rendezvous/base/{opts,opts_help,opts_complete,err,mono,log,utf8} */
/* libs: -lcjson */
/*
 * What a scheduler says: variables, a line each, up to an empty line; what is
 * behind that is the text of any file. The first line is what --cluster says,
 * the second the name of this host. What is found must be what cluster.h
 * promises, and a list of hosts that can be read must keep its bounds.
 */
#include <stdlib.h>

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/hostfile.h"
#include "launcher/cluster/hosts.h"
#include "tests/fuzz/fuzz.h"

#define VARS_MAX  64
#define INPUT_MAX 8192u

static const char *file;

static char *read_file(const char *path)
{
    ddp_assert(path[0] != '\0');
    return strdup(file);
}

static void check_list(enum hosts_form form, const char *text)
{
    struct hosts h = {.n = 0};
    struct ddp_err err = {0};
    if (hosts_read(&h, form, text, &err) == 0) {
        ddp_assert(h.n >= 1 && h.n <= HOSTLIST_HOSTS_MAX);
        for (int i = 0; i < h.n && i < 100; i++) {
            ddp_assert(hostlist_is_name(h.host[i].name));
            ddp_assert(h.host[i].slots >= 1);
            ddp_assert(hosts_find(&h, h.host[i].name) == i);
        }
    } else {
        ddp_assert(err.code == DDP_E_USAGE && err.text[0] != '\0');
    }
    hosts_free(&h);
}

/* The same for what a user lists, as a file and on a command line. */
static void check_listed(bool is_list, const char *text)
{
    struct listed_hosts l = {.n = 0};
    struct ddp_err err = {0};
    int rc = is_list ? hostfile_read_list(&l, text, &err)
                     : hostfile_read(&l, text, "F", &err);
    if (rc == 0) {
        ddp_assert(l.n >= 1 && l.n <= HOSTFILE_HOSTS_MAX);
        for (int i = 0; i < l.n; i++) {
            ddp_assert(hostlist_is_name(l.host[i].name) ||
                       strchr(l.host[i].name, ':') != NULL);
            ddp_assert(l.host[i].target[0] != '-');
            ddp_assert(l.host[i].slots >= 0 &&
                       l.host[i].slots <= HOSTFILE_SLOTS_MAX);
        }
    } else {
        ddp_assert(err.code == DDP_E_USAGE && err.text[0] != '\0');
    }
    hostfile_free(&l);
}

static void check_found(const struct cluster *f)
{
    if (f->name == NULL)
        return;
    ddp_assert(f->job[0] != '\0');
    ddp_assert(f->nnodes_from == NULL ||
               (f->nnodes >= 1 && f->nnodes <= HOSTLIST_HOSTS_MAX));
    ddp_assert(f->rank_from == NULL || f->rank >= 0);
    ddp_assert(f->rank_from == NULL || f->nnodes_from == NULL ||
               f->rank < f->nnodes);
    ddp_assert(f->head_from == NULL || hostlist_is_name(f->head));
    ddp_assert(f->port > 0 && f->port <= 65535);
    ddp_assert(f->nproc_from == NULL || f->nproc >= 1);
    for (const char *p = f->run_id; *p != '\0'; p++)
        ddp_assert(*p > ' ' && *p < 0x7f && *p != '/');
    ddp_assert(!f->script || f->nnodes > 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[INPUT_MAX + 1];
    static char nothing[] = "";
    char *vars[VARS_MAX + 1];
    int n = 0;
    if (size > INPUT_MAX)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *next = text;
    const char *wanted = strsep(&next, "\n");
    const char *host = next != NULL ? strsep(&next, "\n") : nothing;
    while (next != NULL && next[0] != '\n' && n < VARS_MAX)
        vars[n++] = strsep(&next, "\n");
    vars[n] = NULL;
    file = next != NULL ? next : nothing;
    struct cluster_env env = {
        .vars = vars, .host = host, .read_file = read_file};
    struct cluster f;
    struct ddp_err err = {0};
    if (cluster_find(&env, wanted, &f, &err) == 0)
        check_found(&f);
    else
        ddp_assert(err.code == DDP_E_USAGE && err.text[0] != '\0');
    err.text[0] = '\0';
    if (cluster_check_tasks(&env, wanted, &err) < 0)
        ddp_assert(err.code == DDP_E_USAGE && err.text[0] != '\0');
    for (int form = HOSTS_SLURM; form <= HOSTS_SLOTS; form++)
        check_list((enum hosts_form)form, file);
    check_listed(false, file);
    check_listed(true, file);
    return 0;
}
