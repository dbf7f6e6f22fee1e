/* Variables, numbers and lists of hosts, for all rows of the table. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/cluster/table_priv.h"
#include "rendezvous/base/opts.h"

/* -- variables ------------------------------------------------------------- */

const char *
cluster_var_of(const struct cluster_env *env, const char *name, size_t len)
{
    for (char *const *p = env->vars; *p != NULL; p++)
        if (strncmp(*p, name, len) == 0 && (*p)[len] == '=')
            return *p + len + 1;
    return NULL;
}

const char *
cluster_var(const struct cluster_env *env, const char *name, const char **from)
{
    const char *value = cluster_var_of(env, name, strlen(name));
    *from = name;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

int cluster_number(const struct cluster_env *env,
                   const char *name,
                   int min,
                   int max,
                   int *n,
                   const char **from,
                   struct ddp_err *err)
{
    int64_t number = 0;
    const char *text = name != NULL ? cluster_var(env, name, from) : NULL;
    if (text == NULL) {
        *from = NULL;
        return 0;
    }
    if (!opts_read_int(text, min, max, &number))
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s=%.80s: must be a whole number from %d to %d",
                           name, text, min, max);
    *n = (int)number;
    return 1;
}

#define ELEMENTS_APART 61 /* prime to CLUSTER_PORT_COUNT */

/* A number that is the same on all nodes and mostly differs between jobs: ids
 * of jobs count upwards, and so do elements of an array, "4[7]", and steps of a
 * job, "17.1". */
static int port_of(const char *id)
{
    unsigned n = 2166136261u; /* FNV-1a of a name */
    for (const char *p = id; *p != '\0'; p++)
        n = (n ^ (unsigned char)*p) * 16777619u;
    size_t digits = strspn(id, "0123456789");
    if (digits > 0 && digits < 10)
        n = (unsigned)strtoul(id, NULL, 10);
    if (digits > 0 && digits < 10 && (id[digits] == '[' || id[digits] == '.'))
        n += ELEMENTS_APART * (unsigned)strtoul(id + digits + 1, NULL, 10);
    return CLUSTER_PORT_FIRST + (int)(n % CLUSTER_PORT_COUNT);
}

void cluster_name_run(struct cluster *f, const char *id, const char *from)
{
    f->port = port_of(id);
    int len = snprintf(f->run_id, sizeof(f->run_id), "%s-%s", f->name, id);
    for (int i = 0; i < len && f->run_id[i] != '\0'; i++)
        if (f->run_id[i] <= ' ' || f->run_id[i] >= 0x7f || f->run_id[i] == '/')
            f->run_id[i] = '_';
    f->run_id_from = from;
}

/* -- hosts ----------------------------------------------------------------- */

int cluster_take_hosts(struct cluster *f,
                       enum hosts_form form,
                       const char *text,
                       const char *from,
                       const char *own,
                       struct ddp_err *err)
{
    struct hosts h = {.n = 0};
    int rc = hosts_read(&h, form, text, err);
    int at = rc == 0 && own != NULL ? hosts_find(&h, own) : -1;
    if (rc == 0 && at < 0 && h.n == 1 && form >= HOSTS_LINES)
        at = 0; /* a job of one host, which has several names */
    if (rc < 0) {
        ddp_err_wrap(err, "%s", from);
    } else if (own != NULL && at < 0) {
        rc = ddp_err_set(err, DDP_E_USAGE,
                         "%s does not have this host, %.60s, among its %d "
                         "host%s (the first is %.60s)",
                         from, own, h.n, h.n == 1 ? "" : "s", h.host[0].name);
    } else {
        f->nnodes = h.n;
        f->nnodes_from = f->head_from = from;
        (void)snprintf(f->head, sizeof(f->head), "%s", h.host[0].name);
    }
    if (rc == 0 && own != NULL) {
        f->rank = at;
        f->rank_from = from;
    }
    hosts_free(&h);
    return rc;
}

char *cluster_read_file(const char *path)
{
    struct stat st;
    char *text = NULL;
    size_t len = 0;
    ssize_t n = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        errno = EINVAL;
    else if (st.st_size > CLUSTER_FILE_MAX)
        errno = EFBIG;
    else
        text = malloc((size_t)st.st_size + 1);
    while (text != NULL && n > 0 && len < (size_t)st.st_size) {
        n = read(fd, text + len, (size_t)st.st_size - len);
        len += n > 0 ? (size_t)n : 0;
    }
    if (text != NULL)
        text[len] = '\0';
    bool whole = text != NULL && n >= 0;
    if (whole && strlen(text) < len) {
        whole = false;
        errno = EILSEQ;
    }
    int saved = errno;
    (void)close(fd); /* only read */
    if (!whole)
        free(text);
    errno = saved;
    return whole ? text : NULL;
}
