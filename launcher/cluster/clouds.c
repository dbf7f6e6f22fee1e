/*
 * SageMaker, AWS Batch, Volcano, and Kubernetes' Indexed Jobs.
 *
 * SageMaker's list of hosts is in SM_HOSTS if its training toolkit started
 * this, else in a file; so is the network interface, which NCCL and gloo would
 * have to guess. AWS Batch tells the address of the main node to all
 * others, and the main one serves under its own name. Volcano has a list for
 * each task of the job, under the task's name, which is not told: if there are
 * several, the one counts that has this host at this index. An Indexed Job
 * tells an index only, and its pods have names that differ in it.
 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cluster/table_priv.h"

/* -- SageMaker ------------------------------------------------------------- */

/* NCCL takes a list, with '=' and '^' in it: a name has none of these. */
static int take_interface(struct cluster *f,
                          const char *name,
                          const char *from,
                          struct ddp_err *err)
{
    if (name == NULL)
        return 0;
    if (strlen(name) >= sizeof(f->interface) || !hostlist_is_name(name))
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s=%.60s: must be the name of a network interface, "
                           "such as eth0",
                           from, name);
    (void)snprintf(f->interface, sizeof(f->interface), "%s", name);
    f->interface_from = from;
    return 0;
}

/* The list and this host, from the text of the file. */
static int
read_resources(struct cluster *f, const char *text, struct ddp_err *err)
{
    static const char interface[] = "network_interface_name";
    cJSON *all = cJSON_Parse(text);
    const cJSON *hosts = cJSON_GetObjectItemCaseSensitive(all, "hosts");
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(all, "current_host");
    const cJSON *named = cJSON_GetObjectItemCaseSensitive(all, interface);
    char *list = cJSON_IsArray(hosts) ? cJSON_PrintUnformatted(hosts) : NULL;
    int rc = -1;
    if (list == NULL || !cJSON_IsString(own))
        ddp_err_set(err, DDP_E_USAGE,
                    SAGEMAKER_FILE ": must be a JSON object with the list "
                                   "\"hosts\" and the name \"current_host\"");
    else
        rc = cluster_take_hosts(f, HOSTS_JSON, list, SAGEMAKER_FILE,
                                own->valuestring, err);
    if (rc == 0 && named != NULL)
        rc = take_interface(f, cJSON_IsString(named) ? named->valuestring : "",
                            SAGEMAKER_FILE ": network_interface_name", err);
    free(list);
    cJSON_Delete(all);
    return rc;
}

int cluster_sagemaker(const struct cluster_env *env,
                      const struct cluster_row *row,
                      struct cluster *f,
                      struct ddp_err *err)
{
    (void)row;
    const char *from;
    const char *list = cluster_var(env, "SM_HOSTS", &from);
    const char *own = cluster_var(env, "SM_CURRENT_HOST", &from);
    const char *named = cluster_var(env, "SM_NETWORK_INTERFACE_NAME", &from);
    if (list != NULL && own != NULL)
        return cluster_take_hosts(f, HOSTS_JSON, list, "SM_HOSTS", own, err) < 0
                   ? -1
                   : take_interface(f, named, from, err);
    char *text = env->read_file(SAGEMAKER_FILE);
    if (text == NULL)
        return ddp_err_sys(err, DDP_E_USAGE,
                           "%s: SM_HOSTS and SM_CURRENT_HOST are not both set, "
                           "and " SAGEMAKER_FILE " cannot be read",
                           f->job);
    int rc = read_resources(f, text, err);
    free(text);
    return rc;
}

/* -- AWS Batch ------------------------------------------------------------- */

int cluster_aws_batch(const struct cluster_env *env,
                      const struct cluster_row *row,
                      struct cluster *f,
                      struct ddp_err *err)
{
    (void)row;
    static const char address[] =
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS";
    const char *from;
    int main_node = 0;
    if (cluster_number(env, "AWS_BATCH_JOB_MAIN_NODE_INDEX", 0,
                       HOSTLIST_HOSTS_MAX - 1, &main_node, &from, err) < 0)
        return -1;
    const char *host = cluster_var(env, address, &from);
    if (f->rank == main_node) {
        host = env->host;
        f->head_from = "AWS_BATCH_JOB_MAIN_NODE_INDEX";
    } else {
        f->head_from = address;
    }
    if (host == NULL || !hostlist_is_name(host))
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s%s%.80s: must be the address of the main node",
                           f->head_from, host != NULL ? "=" : " is not set",
                           host != NULL ? host : "");
    (void)snprintf(f->head, sizeof(f->head), "%s", host);
    return 0;
}

/* -- Volcano --------------------------------------------------------------- */

/* Whether it is VC_<TASK>_HOSTS; then its list. */
static const char *volcano_list(const char *entry, int *name_len)
{
    static const char end[] = "_HOSTS";
    const char *equals = strchr(entry, '=');
    if (equals == NULL || strncmp(entry, "VC_", 3) != 0)
        return NULL;
    *name_len = (int)(equals - entry);
    if (*name_len < 3 + (int)sizeof(end) ||
        strncmp(equals - (sizeof(end) - 1), end, sizeof(end) - 1) != 0)
        return NULL;
    return equals + 1;
}

/* Takes the list if this host is at its index, or if it must be this one. */
static int try_list(const struct cluster_env *env,
                    const char *list,
                    int index,
                    bool only,
                    struct cluster *f,
                    struct ddp_err *err)
{
    struct hosts h = {.n = 0};
    int rc = hosts_read(&h, HOSTS_COMMAS, list, err);
    bool ours = rc == 0 &&
                (only || (index < h.n && hosts_find(&h, env->host) == index));
    if (ours) {
        f->nnodes = h.n;
        (void)snprintf(f->head, sizeof(f->head), "%s", h.host[0].name);
    }
    hosts_free(&h);
    return rc < 0 ? -1 : ours;
}

int cluster_volcano(const struct cluster_env *env,
                    const struct cluster_row *row,
                    struct cluster *f,
                    struct ddp_err *err)
{
    (void)row;
    int lists = 0, found = 0, len = 0;
    const char *list;
    for (char *const *p = env->vars; *p != NULL; p++)
        lists += volcano_list(*p, &len) != NULL;
    if (cluster_number(env, "VC_TASK_INDEX", 0, HOSTLIST_HOSTS_MAX - 1,
                       &f->rank, &f->rank_from, err) < 0)
        return -1;
    for (char *const *p = env->vars; *p != NULL; p++) {
        if ((list = volcano_list(*p, &len)) == NULL)
            continue;
        int ours = try_list(env, list, f->rank, lists == 1, f, err);
        if (ours < 0)
            return ddp_err_wrap(err, "%.*s", len < 80 ? len : 80, *p);
        found += ours;
    }
    if (found != 1)
        return ddp_err_set(err, DDP_E_USAGE,
                           "Volcano job: %d of its %d lists VC_<TASK>_HOSTS "
                           "%s this host, %.60s, at VC_TASK_INDEX=%d (the job "
                           "needs the plugins env and svc)",
                           found, lists, found == 1 ? "has" : "have", env->host,
                           f->rank);
    f->nnodes_from = f->head_from = "VC_<TASK>_HOSTS";
    return 0;
}

/* -- Indexed Jobs ---------------------------------------------------------- */

/* The domain behind `name` in a hosts file: that of a service without an
 * address of its own, if the pod is in one. "" if there is none. */
static void
find_domain(const char *text, const char *name, char *domain, size_t cap)
{
    size_t len = strlen(name);
    domain[0] = '\0';
    for (const char *p = text; (p = strstr(p, name)) != NULL; p += len) {
        bool begins = p == text || isspace((unsigned char)p[-1]);
        size_t more = strcspn(p, " \t\r\n");
        if (begins && p[len] == '.' && more - len < cap) {
            memcpy(domain, p + len, more - len);
            domain[more - len] = '\0';
            return;
        }
    }
}

/* The pods of job `train` are train-0, train-1 ...: the first one serves. */
int cluster_indexed_job(const struct cluster_env *env,
                        const struct cluster_row *row,
                        struct cluster *f,
                        struct ddp_err *err)
{
    (void)row;
    char end[16], domain[200] = "";
    (void)snprintf(end, sizeof(end), "-%d", f->rank); /* fits */
    size_t stem = strcspn(env->host, "."), len = strlen(end);
    if (f->rank_from == NULL || stem <= len ||
        strncmp(env->host + stem - len, end, len) != 0)
        return 0; /* no name to go by: the endpoint must be said */
    char *text = env->read_file("/etc/hosts");
    if (env->host[stem] == '.')
        (void)snprintf(domain, sizeof(domain), "%s", env->host + stem);
    else if (text != NULL)
        find_domain(text, env->host, domain, sizeof(domain));
    free(text);
    stem -= len;
    if (stem + 2 + strlen(domain) >= sizeof(f->head))
        return ddp_err_set(err, DDP_E_USAGE,
                           "the name of this pod, %.60s..., is longer than 255 "
                           "bytes",
                           env->host);
    memcpy(f->head, env->host, stem);
    memcpy(f->head + stem, "-0", 2);
    memcpy(f->head + stem + 2, domain, strlen(domain) + 1);
    if (!hostlist_is_name(f->head))
        return ddp_err_set(err, DDP_E_USAGE,
                           "the name of this pod, %.60s, is not a host name",
                           env->host);
    f->head_from = "JOB_COMPLETION_INDEX";
    return 0;
}
