/*
 * Happy path: a child (ssh, srun) is executed for each host, at most AT_ONCE
 * that have not answered yet, and each is told by its stdin what to start.
 *
 * Failure modes: those that the head of front.c names.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/front/front_priv.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/mono.h"

#define AT_ONCE  32
#define BEATS_MS 20000
#define ASK_US   (5 * MONO_S)
#define GRACE_MS 5000 /* more than the launcher's own */

__attribute__((format(printf, 2, 3))) void
front_say(struct front *f, const char *fmt, ...)
{
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* a long one is cut */
    va_end(ap);
    (void)console_say(f->err_to, "%s", text);
}

/* -- what hosts are told --------------------------------------------------- */

bool front_is_list(const struct front *f)
{
    return f->conf->front.kind == CONF_FRONT_HOSTS;
}

static int put_start(struct front *f, int i, struct ddp_err *err)
{
    static char *const none[] = {NULL};
    extern char **environ;
    struct command args = {.n = 0}, vars = {.n = 0};
    int64_t grace_ms = f->conf->shutdown_timeout_us / MONO_MS + GRACE_MS;
    command_there(&args, f->conf, f->opts, f->argc, f->argv, i);
    if (front_is_list(f)) /* srun passes all of them on */
        command_variables(&vars, f->conf, f->opts, environ);
    struct orders_start s = {
        .beat_ms = front_is_list(f) ? BEATS_MS : 0,
        .grace_ms =
            grace_ms < ORDERS_TIME_MAX ? (int)grace_ms : ORDERS_TIME_MAX,
        .how = front_is_list(f) ? ORDERS_PLAIN : ORDERS_STEP,
        .folder = front_is_list(f) ? f->folder : "",
        .args = args.word,
        .vars = vars.word != NULL ? vars.word : none,
    };
    memcpy(s.mark, f->mark, sizeof(s.mark));
    int rc = args.failed || vars.failed
                 ? ddp_err_set(err, DDP_E_NOMEM, "no memory for arguments")
                 : orders_put_start(&f->child[i].orders, &s, err);
    command_free(&args);
    command_free(&vars);
    return rc;
}

void front_hosts_tell(struct front_child *k, enum order_kind kind, int signo)
{
    if (!front_child_lives(k))
        return;
    (void)orders_put(&k->orders, kind, signo); /* full: it has not started */
    front_child_write(k);
}

void front_hosts_tell_all(struct front *f, int signo)
{
    for (int i = 0; i < f->n; i++)
        front_hosts_tell(&f->child[i], ORDER_SIGNAL, signo);
}

void front_hosts_end(struct front *f, int signo)
{
    if (f->ending_us == 0) {
        f->ending_us = mono_now_us();
        f->noticed = (f->conf->notices & SIGNALS_BIT(signo)) != 0;
    }
    for (int i = 0; i < f->n; i++)
        if (f->child[i].state == CHILD_WAITS)
            front_child_skip(&f->child[i]);
    front_hosts_tell_all(f, signo);
}

void front_hosts_lose(struct front *f, int status)
{
    f->gone.status = f->gone.n++ == 0 ? status : f->gone.status;
    f->gone.since_us = mono_now_us();
    f->gone.ordered |= status > 128 || status == ddp_code_exit(DDP_E_DRAINED);
}

/* -- what hosts say -------------------------------------------------------- */

static void on_mark(void *ctx, const struct mark *m)
{
    struct front_child *k = ctx;
    struct front *f = k->owner;
    if (m->kind == MARK_HELLO) {
        k->hellos++;
        k->err.prefix = "";
        if (k->state == CHILD_STARTING)
            k->state = CHILD_RUNS;
    } else if (m->kind == MARK_END) {
        k->ends++;
        f->first = f->ends++ == 0 ? m->status : f->first;
        f->ended[m->status]++;
        if (m->status != 0 && m->status != ddp_code_exit(DDP_E_UNNEEDED))
            front_hosts_lose(f, m->status);
        else if (f->done_us == 0)
            f->done_us = mono_now_us(); /* a spare's launcher says so as well */
        f->ask_us = mono_now_us() + ASK_US; /* now most are about to end */
    }
}

/* -- the start ------------------------------------------------------------- */

void front_hosts_fail(struct front *f)
{
    int left = f->conf->front.nodes - ++f->failed;
    if (f->ending_us != 0 || (!front_is_list(f) && f->n == 1) ||
        (front_is_list(f) && left >= f->conf->nnodes_min))
        return;
    f->unreachable = true;
    if (!front_is_list(f))
        front_say(f, "the step of a component did not start: ending the job");
    else if (left == 0)
        front_say(f, "no host can be reached, and the job needs %d: ending it",
                  f->conf->nnodes_min);
    else
        front_say(
            f,
            "at most %d host%s can be reached, and the job needs %d: ending it",
            left, left == 1 ? "" : "s", f->conf->nnodes_min);
    front_hosts_end(f, SIGTERM);
}

static int start_child(struct front *f, int i, struct ddp_err *err)
{
    struct front_child *k = &f->child[i];
    struct command w = {.n = 0};
    bool listed = front_is_list(f);
    if (put_start(f, i, err) < 0)
        return -1;
    command_here(&w, f->conf, i, f->self);
    int rc = front_child_start(k, &w, listed, &f->before, &f->out, f->err_to,
                               2 * (uint64_t)i + 1, err);
    command_free(&w);
    if (rc < 0)
        return -1;
    k->err.mark = f->mark;
    k->err.on_mark = on_mark;
    k->err.ctx = k;
    k->err.reports = listed ? &f->reports : NULL;
    k->err.prefix = listed ? k->prefix : "";
    front_child_write(k);
    return 0;
}

static void start_or_fail(struct front *f, int i)
{
    struct ddp_err err;
    struct front_child *k = &f->child[i];
    if (start_child(f, i, &err) == 0)
        return;
    front_say(f, "cannot start on %s: %s", k->name, err.text);
    front_child_skip(k);
    front_hosts_fail(f);
}

void front_hosts_start(struct front *f)
{
    int starting = 0;
    if (f->ending_us != 0 || f->done_us != 0)
        return;
    for (int i = 0; i < f->n; i++)
        starting += f->child[i].state == CHILD_STARTING;
    for (int i = 0; i < f->n && starting < AT_ONCE; i++)
        if (f->child[i].state == CHILD_WAITS) {
            start_or_fail(f, i);
            starting++;
        }
}

/* -- all of them ----------------------------------------------------------- */

int front_hosts_init(struct front *f, struct ddp_err *err)
{
    int steps = f->conf->front.components > 0 ? f->conf->front.components : 1;
    f->n = front_is_list(f) ? f->conf->front.nodes : steps;
    f->child = calloc((size_t)f->n, sizeof(*f->child));
    if (f->child == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the hosts");
    for (int i = 0; i < f->n; i++) {
        struct front_child *k = &f->child[i];
        front_child_init(k, front_is_list(f) ? f->conf->front.hosts.host[i].name
                                             : "srun");
        k->owner = f;
        (void)snprintf(k->prefix, sizeof(k->prefix), "%s: ", k->name);
    }
    return 0;
}

void front_hosts_free(struct front *f)
{
    for (int i = 0; i < f->n; i++)
        front_child_free(&f->child[i]);
    free(f->child);
}
