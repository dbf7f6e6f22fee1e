/*
 * Which row of the table holds, and what it says.
 *
 * Only rows of the lowest rank that is there are read: what started this very
 * process knows better than the job around it, whose variables are inherited
 * by everything within. Rows of the same rank are all read and must agree on
 * the number of nodes and on the place of this one; the first in the table is
 * then taken, as a whole.
 *
 * Failure modes: a value that cannot be is an error and never ignored, since a
 * launcher that goes on without it would train alone, on each node.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cluster/table_priv.h"

#define PORT_USUAL 29500 /* of a job without an id */

/* -- a list of hosts ------------------------------------------------------- */

#define ELSEWHERE                                                              \
    ", perhaps because this is not the first of them: add --nnodes and "       \
    "--rdzv_endpoint, or start ddprun on the first one only, with --hosts or " \
    "--hostfile"

/* A launcher that goes on without the list would be a job of its own. */
static int tell_unknown(const struct cluster_row *row,
                        const struct cluster *f,
                        struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_USAGE,
                       "%s: %s is not set, so the hosts of the job are not "
                       "known" ELSEWHERE,
                       f->job, row->hosts);
}

/* The file that a variable names. */
static int take_file(const struct cluster_env *env,
                     const struct cluster_row *row,
                     struct cluster *f,
                     struct ddp_err *err)
{
    const char *path = cluster_var(env, row->hosts, &f->head_from);
    const char *own = row->refine == cluster_own_place ? env->host : NULL;
    if (path == NULL)
        return tell_unknown(row, f, err);
    char *text = env->read_file(path);
    if (text == NULL)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s: cannot read the list of its hosts, "
                           "%s=%.100s: %s" ELSEWHERE,
                           f->job, row->hosts, path, strerror(errno));
    int rc = cluster_take_hosts(f, row->form, text, row->hosts, own, err);
    free(text);
    return rc;
}

static int take_list(const struct cluster_env *env,
                     const struct cluster_row *row,
                     struct cluster *f,
                     struct ddp_err *err)
{
    const char *from;
    if (row->is_file)
        return take_file(env, row, f, err);
    const char *own = row->refine == cluster_own_place ? env->host : NULL;
    const char *text =
        row->hosts != NULL ? cluster_var(env, row->hosts, &from) : NULL;
    if (text == NULL && own != NULL)
        return tell_unknown(row, f, err);
    return text == NULL
               ? 0
               : cluster_take_hosts(f, row->form, text, row->hosts, own, err);
}

/* -- one row --------------------------------------------------------------- */

static bool has_marks(const struct cluster_env *env,
                      const struct cluster_row *row)
{
    for (const char *p = row->marks; *p != '\0';) {
        size_t len = strcspn(p, " ");
        const char *value = cluster_var_of(env, p, len);
        if (value == NULL || value[0] == '\0')
            return false;
        p += len + (p[len] == ' ');
    }
    return true;
}

static bool has_file(const struct cluster_env *env,
                     const struct cluster_row *row)
{
    if (row->file == NULL)
        return true;
    char *text = env->read_file(row->file);
    bool there = text != NULL;
    free(text);
    return there;
}

static enum cluster_rank rank_of(const struct cluster_env *env,
                                 const struct cluster_row *row)
{
    if (row->refine == cluster_slurm && cluster_is_slurm_script(env))
        return CLUSTER_JOB;
    return row->rank;
}

static int check_place(const struct cluster *f, struct ddp_err *err)
{
    if (f->rank_from == NULL || f->nnodes_from == NULL || f->rank < f->nnodes)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "%s says that this is node %d, but %s that there %s %d "
                       "node%s, numbered from 0",
                       f->rank_from, f->rank, f->nnodes_from,
                       f->nnodes == 1 ? "is" : "are", f->nnodes,
                       f->nnodes == 1 ? "" : "s");
}

/*
 * An id that is the same on all nodes of a job, and that no other job has.
 * Elements of an array that share the scheduler's id, "88", get "88[3]", as PBS
 * writes it. AWS Batch adds '#' and the node's index, which no other node has.
 */
static void name_job(const struct cluster_env *env,
                     const struct cluster_row *row,
                     struct cluster *f)
{
    char text[200];
    const char *from, *at;
    const char *id = row->id != NULL ? cluster_var(env, row->id, &from) : NULL;
    const char *index =
        row->index != NULL ? cluster_var(env, row->index, &at) : NULL;
    if (index != NULL &&
        (strcmp(index, "0") == 0 || strcmp(index, "undefined") == 0))
        index = NULL; /* of no array: LSF, Grid Engine */
    (void)snprintf(f->job, sizeof(f->job), "%s", row->title);
    if (id == NULL)
        return;
    int len = (int)strcspn(id, "#");
    (void)snprintf(text, sizeof(text), "%.*s%s%.20s%s", /* fits */
                   len < 128 ? len : 128, id, index != NULL ? "[" : "",
                   index != NULL ? index : "", index != NULL ? "]" : "");
    (void)snprintf(f->job, sizeof(f->job), "%s %.160s", row->title, text);
    cluster_name_run(f, text, from);
}

static int read_row(const struct cluster_env *env,
                    const struct cluster_row *row,
                    struct cluster *f,
                    struct ddp_err *err)
{
    *f = (struct cluster){
        .name = row->name, .one_each = row->one_each, .port = PORT_USUAL};
    name_job(env, row, f);
    if (take_list(env, row, f, err) < 0 ||
        (f->nnodes_from == NULL &&
         cluster_number(env, row->nnodes, 1, HOSTLIST_HOSTS_MAX, &f->nnodes,
                        &f->nnodes_from, err) < 0) ||
        (f->rank_from == NULL &&
         cluster_number(env, row->node, 0, HOSTLIST_HOSTS_MAX - 1, &f->rank,
                        &f->rank_from, err) < 0) ||
        cluster_number(env, row->nproc, 0, 4096, &f->nproc, &f->nproc_from,
                       err) < 0 ||
        (row->refine != NULL && row->refine(env, row, f, err) < 0))
        return -1;
    if (f->nproc == 0)
        f->nproc_from = NULL; /* no GPUs: as if it were not told */
    return check_place(f, err);
}

/* -- all of them ----------------------------------------------------------- */

/* Names that do not fit are left out. */
static void append(char *text, size_t cap, size_t *used, const char *name)
{
    size_t len = strlen(name);
    if (*used + len + 3 > cap)
        return;
    memcpy(text + *used, ", ", 2);
    *used += *used > 0 ? 2 : 0;
    memcpy(text + *used, name, len + 1);
    *used += len;
}

void cluster_names(char *text, size_t cap)
{
    size_t used = 0;
    append(text, cap, &used, "auto");
    append(text, cap, &used, "none");
    for (int i = 0; i < cluster_rows_len; i++) {
        bool again = false;
        for (int j = 0; j < i; j++)
            again |= strcmp(cluster_rows[j].name, cluster_rows[i].name) == 0;
        if (!again)
            append(text, cap, &used, cluster_rows[i].name);
    }
}

static bool is_name(const char *wanted)
{
    for (int i = 0; i < cluster_rows_len; i++)
        if (strcmp(cluster_rows[i].name, wanted) == 0)
            return true;
    return false;
}

static bool is_candidate(const struct cluster_env *env,
                         const struct cluster_row *row,
                         const char *wanted)
{
    bool any = strcmp(wanted, "auto") == 0;
    return (any || strcmp(row->name, wanted) == 0) && has_marks(env, row) &&
           has_file(env, row);
}

/* The first row of the lowest rank; NULL: none is there. */
static const struct cluster_row *first_row(const struct cluster_env *env,
                                           const char *wanted)
{
    const struct cluster_row *first = NULL;
    for (int i = 0; i < cluster_rows_len; i++) {
        const struct cluster_row *row = &cluster_rows[i];
        if (is_candidate(env, row, wanted) &&
            (first == NULL || rank_of(env, row) < rank_of(env, first)))
            first = row;
    }
    return first;
}

static int contradict(const struct cluster *a,
                      const char *a_from,
                      int a_value,
                      const struct cluster *b,
                      const char *b_from,
                      int b_value,
                      struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_USAGE,
                       "%s=%d (%s) and %s=%d (%s) contradict each other: add "
                       "--cluster=%s or --cluster=%s to say which counts, or "
                       "--cluster=none",
                       a_from, a_value, a->job, b_from, b_value, b->job,
                       a->name, b->name);
}

static int
agree(const struct cluster *a, const struct cluster *b, struct ddp_err *err)
{
    if (a->nnodes_from != NULL && b->nnodes_from != NULL &&
        a->nnodes != b->nnodes)
        return contradict(a, a->nnodes_from, a->nnodes, b, b->nnodes_from,
                          b->nnodes, err);
    if (a->rank_from != NULL && b->rank_from != NULL && a->rank != b->rank)
        return contradict(a, a->rank_from, a->rank, b, b->rank_from, b->rank,
                          err);
    return 0;
}

/* The other rows of the rank of `first` must say the same. */
static int check_others(const struct cluster_env *env,
                        const struct cluster_row *first,
                        const struct cluster *f,
                        const char *wanted,
                        struct ddp_err *err)
{
    struct cluster other;
    for (int i = 0; i < cluster_rows_len; i++) {
        const struct cluster_row *row = &cluster_rows[i];
        if (strcmp(row->name, first->name) == 0 ||
            !is_candidate(env, row, wanted) ||
            rank_of(env, row) != rank_of(env, first))
            continue;
        if (read_row(env, row, &other, err) < 0 || agree(f, &other, err) < 0)
            return -1;
    }
    return 0;
}

int cluster_check_name(const char *wanted, struct ddp_err *err)
{
    char names[200];
    if (strcmp(wanted, "auto") == 0 || strcmp(wanted, "none") == 0 ||
        is_name(wanted))
        return 0;
    cluster_names(names, sizeof(names));
    return ddp_err_set(err, DDP_E_USAGE, "--cluster=%.60s: must be one of %s",
                       wanted, names);
}

bool cluster_is_here(const struct cluster_env *env, const char *wanted)
{
    return strcmp(wanted, "none") != 0 && first_row(env, wanted) != NULL;
}

/* Which variables would have to be there. */
static int tell_absent(const char *wanted, struct ddp_err *err)
{
    const char *marks = "";
    for (int i = cluster_rows_len - 1; i >= 0; i--)
        if (strcmp(cluster_rows[i].name, wanted) == 0)
            marks = cluster_rows[i].marks;
    return ddp_err_set(err, DDP_E_USAGE,
                       "--cluster=%s: it did not start this launcher, since "
                       "its variables are not set (%s)",
                       wanted, marks);
}

int cluster_find(const struct cluster_env *env,
                 const char *wanted,
                 struct cluster *f,
                 struct ddp_err *err)
{
    *f = (struct cluster){.name = NULL};
    if (cluster_check_name(wanted, err) < 0)
        return -1;
    if (strcmp(wanted, "none") == 0)
        return 0;
    const struct cluster_row *row = first_row(env, wanted);
    if (row == NULL)
        return strcmp(wanted, "auto") == 0 ? 0 : tell_absent(wanted, err);
    return read_row(env, row, f, err) < 0
               ? -1
               : check_others(env, row, f, wanted, err);
}

/* -- the hosts of a script ------------------------------------------------- */

/* "a,b,c"; NULL: no memory. */
static char *join(const struct hosts *h)
{
    size_t cap = 1, used = 0;
    for (int i = 0; i < h->n; i++)
        cap += strlen(h->host[i].name) + 1;
    char *text = calloc(1, cap);
    for (int i = 0; i < h->n && text != NULL; i++)
        used += (size_t)snprintf(text + used, cap - used, "%s%s", /* fits */
                                 i > 0 ? "," : "", h->host[i].name);
    return text;
}

char *cluster_hosts(const struct cluster_env *env,
                    const char *wanted,
                    struct ddp_err *err)
{
    struct hosts h = {.n = 0};
    const char *from;
    const struct cluster_row *row = first_row(env, wanted);
    ddp_assert(row != NULL && row->launch_with != NULL);
    const char *said = cluster_var(env, row->hosts, &from);
    char *text = NULL, *joined = NULL;
    if (said != NULL)
        text = row->is_file ? env->read_file(said) : strdup(said);
    if (text == NULL)
        ddp_err_set(err, DDP_E_USAGE, "cannot read the list of hosts, %s",
                    row->hosts);
    else if (hosts_read(&h, row->form, text, err) == 0 &&
             (joined = join(&h)) == NULL)
        ddp_err_set(err, DDP_E_NOMEM, "no memory for a list of hosts");
    free(text);
    hosts_free(&h);
    return joined;
}

/* -- two launchers on one host --------------------------------------------- */

/* The largest number of "2(x3),1"; 0: it is no such list. */
static int most_tasks(const char *counts)
{
    int most = 0;
    for (const char *p = counts; *p != '\0';) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || n < 1 || n > 1000000)
            return 0;
        most = n > most ? (int)n : most;
        p = end;
        p += *p == '(' ? strcspn(p, ",") : 0;
        if (*p != ',' && *p != '\0')
            return 0;
        p += *p == ',';
    }
    return most;
}

static int refuse_tasks(const struct cluster_row *row,
                        const char *variable,
                        const char *value,
                        struct ddp_err *err)
{
    return ddp_err_set(
        err, DDP_E_USAGE,
        "%s=%.60s: more than one ddprun of this run was started on one host, "
        "and each would start all workers of the node. Start one on each host: "
        "%s. If each task is a run of its own, add --standalone; with "
        "--cluster=none this is not checked",
        variable, value, row->one_each);
}

int cluster_check_tasks(const struct cluster_env *env,
                        const char *wanted,
                        struct ddp_err *err)
{
    const struct cluster_row *row =
        strcmp(wanted, "none") == 0 ? NULL : first_row(env, wanted);
    const char *from;
    if (row == NULL || row->local_rank == NULL ||
        rank_of(env, row) == CLUSTER_JOB)
        return 0;
    const char *text = cluster_var(env, row->local_rank, &from);
    if (text != NULL && strtol(text, NULL, 10) > 0)
        return refuse_tasks(row, row->local_rank, text, err);
    text = row->local_size != NULL ? cluster_var(env, row->local_size, &from)
                                   : NULL;
    if (text != NULL && strtol(text, NULL, 10) > 1)
        return refuse_tasks(row, row->local_size, text, err);
    text = row->task_counts != NULL ? cluster_var(env, row->task_counts, &from)
                                    : NULL;
    if (text != NULL && most_tasks(text) > 1)
        return refuse_tasks(row, row->task_counts, text, err);
    return 0;
}
