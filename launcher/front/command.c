#include "launcher/front/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cluster/cluster.h"
#include "launcher/conf/options.h"
#include "launcher/front/proxy.h"
#include "rendezvous/base/mono.h"

/* -- words ----------------------------------------------------------------- */

/* Room for one word more, and the NULL behind it. */
static bool grow(struct command *w)
{
    int cap = w->cap == 0 ? 32 : w->cap * 2;
    if (w->n + 1 < w->cap)
        return true;
    char **more = realloc(w->word, (size_t)cap * sizeof(*more));
    if (more == NULL)
        return false;
    w->word = more;
    w->cap = cap;
    return true;
}

/* Takes over `word`; NULL: there was no memory for it. */
static void take(struct command *w, char *word)
{
    if (word == NULL || !grow(w)) {
        free(word);
        w->failed = true;
        return;
    }
    w->word[w->n++] = word;
    w->word[w->n] = NULL;
}

void command_add(struct command *w, const char *text)
{
    take(w, strdup(text));
}

void command_addf(struct command *w, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int len = vasprintf(&text, fmt, ap);
    va_end(ap);
    take(w, len >= 0 ? text : NULL);
}

void command_free(struct command *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->word[i]);
    free(w->word);
    *w = (struct command){.n = 0};
}

/* -- for a shell ----------------------------------------------------------- */

static bool is_plain(const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        "_-./=:,@%+";
    return text[0] != '\0' && text[strspn(text, plain)] == '\0';
}

/* In single quotes, which every shell knows; a quote is '\''. */
static size_t quote(const char *text, char *out, size_t cap)
{
    size_t n = 0;
    bool plain = is_plain(text);
    if (!plain && n + 1 < cap)
        out[n++] = '\'';
    for (const char *p = text; *p != '\0' && n + 6 < cap; p++) {
        if (*p == '\'' && !plain) {
            memcpy(out + n, "'\\''", 4);
            n += 4;
        } else {
            out[n++] = *p;
        }
    }
    if (!plain && n + 1 < cap)
        out[n++] = '\'';
    out[n] = '\0';
    return n;
}

void command_text(const struct command *w, char *text, size_t cap)
{
    size_t n = 0;
    ddp_assert(cap > 0);
    text[0] = '\0';
    for (int i = 0; i < w->n && n + 2 < cap; i++) {
        if (i > 0)
            text[n++] = ' ';
        n += quote(w->word[i], text + n, cap - n);
    }
}

/* -- here ------------------------------------------------------------------ */

static bool is_named(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, name) == 0;
}

/* What ssh gets behind the user's own options, of which the first counts: it
 * asks nothing, and notices a connection that is lost. */
static void add_ssh_options(struct command *w, int64_t timeout_us)
{
    static const char *const options[] = {
        "-T",
        "-oBatchMode=yes",
        "-oServerAliveInterval=5",
        "-oServerAliveCountMax=3",
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        command_add(w, options[i]);
    command_addf(w, "-oConnectTimeout=%d",
                 (int)((timeout_us + MONO_S - 1) / MONO_S));
}

static void for_host(struct command *w,
                     const struct conf *c,
                     const struct listed_host *host,
                     const char *self)
{
    char path[4 * 4096 + 8]; /* each byte may be a quote */
    for (const char *p = c->front.command; *p != '\0';) {
        size_t len = strcspn(p, " \t");
        if (len > 0)
            command_addf(w, "%.*s", (int)len, p);
        p += len + (p[len] != '\0');
    }
    bool ssh = w->n > 0 && is_named(w->word[0], "ssh");
    if (ssh)
        add_ssh_options(w, c->front.timeout_us);
    command_add(w, host->target);
    /* ssh gives it to a shell, others execute it. */
    if (ssh)
        (void)quote(self, path, sizeof(path));
    command_add(w, ssh ? path : self);
    command_add(w, PROXY_OPTION);
}

/*
 * A node that is lost must not end the step (no-kill, kill-on-bad-exit), nor
 * may the first launcher that ends (wait). Workers want all CPUs of the node,
 * and stdin goes to all. What the environment or the job says is overridden.
 */
static void
for_step(struct command *w, const struct conf *c, int i, const char *self)
{
    static const char *const options[] = {
        "--ntasks-per-node=1",  "--cpu-bind=none", "--no-kill",
        "--kill-on-bad-exit=0", "--wait=0",        "--mpi=none",
        "--input=all",          "--output=all",    "--error=all",
        "--export=ALL",         "--quiet",
    };
    bool several = c->front.components > 0;
    int nodes = several ? c->front.component_nodes[i] : c->front.nodes;
    command_add(w, "srun");
    if (several) /* a step of all would have stdin in the first only */
        command_addf(w, "--het-group=%d", i);
    command_addf(w, "--nodes=%d", nodes);
    command_addf(w, "--ntasks=%d", nodes);
    for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++)
        command_add(w, options[k]);
    command_add(w, self);
    command_add(w, PROXY_OPTION);
}

void command_here(struct command *w,
                  const struct conf *c,
                  int i,
                  const char *self)
{
    ddp_assert(c->front.kind != CONF_FRONT_NONE);
    if (c->front.kind == CONF_FRONT_SRUN)
        for_step(w, c, i, self);
    else
        for_host(w, c, &c->front.hosts.host[i], self);
}

void command_name(const struct conf *c, char name[64])
{
    const char *text = c->front.command;
    text += strspn(text, " \t");
    size_t len = strcspn(text, " \t");
    const char *slash = memrchr(text, '/', len);
    if (slash != NULL) {
        len -= (size_t)(slash + 1 - text);
        text = slash + 1;
    }
    (void)snprintf(name, 64, "%.*s", (int)(len < 63 ? len : 63), text);
}

/* -- there ----------------------------------------------------------------- */

static bool is_said(const struct opts *o, int id)
{
    return opts_given(o, id) && opts_text(o, id)[0] != '\0';
}

/* What makes it a launcher of this job, and no front end. */
static void
add_place(struct command *w, const struct conf *c, const struct opts *o, int i)
{
    const struct conf_front *f = &c->front;
    bool listed = f->kind == CONF_FRONT_HOSTS;
    int slots = listed ? f->hosts.host[i].slots : 0;
    if (listed) {
        command_add(w, "--hosts=");
        command_add(w, "--hostfile=");
    }
    if (!is_said(o, OPTIONS_nnodes))
        command_addf(w, "--nnodes=%d", f->nodes);
    if (!is_said(o, OPTIONS_nproc_per_node) && slots > 0)
        command_addf(w, "--nproc_per_node=%d", slots);
    else if (!is_said(o, OPTIONS_nproc_per_node) &&
             !is_said(o, OPTIONS_nnodes) && (f->in_job || !listed))
        command_add(w, "--nproc_per_node=gpu-or-1");
    if (f->run_id[0] != '\0')
        command_addf(w, "--rdzv_id=%s", f->run_id);
    if (f->nodes == 1)
        return;
    if (f->endpoint[0] != '\0')
        command_addf(w, "--rdzv_endpoint=%s", f->endpoint);
    if (!is_said(o, OPTIONS_rdzv_backend))
        command_addf(w, "--rdzv_backend=%s",
                     c->backend == CONF_STATIC ? "static" : "c10d");
    if (listed && i < c->nnodes_max)
        command_addf(w, "--node_rank=%d", i);
}

void command_there(struct command *w,
                   const struct conf *c,
                   const struct opts *o,
                   int argc,
                   char *const argv[],
                   int i)
{
    int rest = o->dashes ? o->rest - 1 : o->rest; /* before the -- */
    bool told = c->front.kind == CONF_FRONT_HOSTS || c->front.components > 0;
    ddp_assert(rest >= 1 && rest <= argc);
    command_add(w, "ddprun");
    for (int k = 1; k < argc; k++) {
        if (k == rest && told)
            add_place(w, c, o, i);
        command_add(w, argv[k]);
    }
    if (rest == argc && told)
        add_place(w, c, o, i); /* --preflight needs no program */
}

/* -- variables ------------------------------------------------------------- */

static bool is_listed(const char *list, const char *name, size_t name_len)
{
    for (const char *p = list; p != NULL && *p != '\0';) {
        size_t len = strcspn(p, ",");
        if (len == name_len && strncmp(p, name, len) == 0)
            return true;
        p += len + (p[len] == ',');
    }
    return false;
}

/* What made this process a front end must not make one there. */
static bool is_front(const char *name, size_t len)
{
    for (const int *id = options_of_front; *id >= 0; id++)
        if (is_listed(options_table.rows[*id].env, name, len))
            return true;
    return false;
}

/* Those of this host, of this session, and of the script's own task. */
static bool is_of_here(const char *entry, size_t len)
{
    static const char names[] =
        "HOSTNAME,HOST,PWD,OLDPWD,SHLVL,_,TMPDIR,XDG_RUNTIME_DIR,"
        "XDG_SESSION_ID,DISPLAY,XAUTHORITY,TERM,SSH_CLIENT,SSH_CONNECTION,"
        "SSH_TTY,SSH_AUTH_SOCK,CUDA_VISIBLE_DEVICES,HIP_VISIBLE_DEVICES,"
        "ROCR_VISIBLE_DEVICES,NVIDIA_VISIBLE_DEVICES,PBS_TASKNUM,PBS_NODENUM,"
        "PBS_VNODENUM,LS_JOBPID";
    return is_listed(names, entry, len) || cluster_is_task_variable(entry);
}

/* What goes to all hosts: options, and the Python that is active here. */
static bool is_for_all(const char *entry, size_t len)
{
    return strncmp(entry, "PET_", 4) == 0 ||
           strncmp(entry, "DDPRUN_", 7) == 0 ||
           is_listed("LOGLEVEL,PYTHON_EXEC,VIRTUAL_ENV,CONDA_PREFIX", entry,
                     len);
}

void command_variables(struct command *w,
                       const struct conf *c,
                       const struct opts *o,
                       char *const *env)
{
    const char *list =
        is_said(o, OPTIONS_export) ? opts_text(o, OPTIONS_export) : NULL;
    for (; env != NULL && *env != NULL; env++) {
        size_t len = strcspn(*env, "=");
        bool ours = (c->front.in_job && !is_of_here(*env, len)) ||
                    is_for_all(*env, len);
        if ((*env)[len] == '=' && len > 0 && !is_front(*env, len) &&
            (ours || is_listed(list, *env, len)))
            command_add(w, *env);
    }
}
