/*
 * Happy path: a child (ssh, srun) is executed for each host, at most AT_ONCE
 * that have not answered yet, and each is told by its stdin what to start. Of a
 * long list that is done by the first hosts of its branches, for which a link
 * is executed here (launcher/front/tree).
 *
 * Failure modes:
 * - A link breaks, or has not answered in its share of launch_timeout: its
 *   hosts are started from here, as if there were no tree.
 * - A host is not reached through another one, since the two have no keys for
 *   each other: the same. That is said once.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/front/again.h"
#include "launcher/front/fan.h"
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
        .how = !front_is_list(f)  ? ORDERS_STEP
               : f->child[i].held ? ORDERS_HELD
                                  : ORDERS_PLAIN,
        .folder = front_is_list(f) ? f->folder : "",
        .args = args.word,
        .vars = vars.word != NULL ? vars.word : none,
    };
    memcpy(s.mark, f->child[i].mark, sizeof(s.mark));
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
    front_tree_write(k);
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
        f->ending_by = signo;
        f->noticed = (f->conf->notices & SIGNALS_BIT(signo)) != 0;
    }
    for (int i = 0; i < f->n; i++)
        if (f->child[i].state == CHILD_WAITS && !f->child[i].again)
            front_child_skip(&f->child[i]);
    for (int i = 0; i < f->links; i++)
        if (f->link[i].state != LINK_UP)
            front_link_cut(&f->link[i]);
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
        k->hellos += !k->again;
        k->again = false;
        k->err.prefix = "";
        k->err.muted = false;
        if (k->state == CHILD_STARTING)
            k->state = CHILD_RUNS;
        if (k->held)
            front_hosts_tell(k, ORDER_HEARD, 0);
    } else if (m->kind == MARK_END) {
        k->ends++;
        f->first = f->ends++ == 0 ? m->status : f->first;
        f->ended[m->status]++;
        if (k->held)
            front_hosts_tell(k, ORDER_OVER, 0);
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
    else
        front_say(
            f,
            "at most %d host%s can be reached, and the job needs %d: ending it",
            left, left == 1 ? "" : "s", f->conf->nnodes_min);
    front_hosts_end(f, SIGTERM);
}

static int
execute(struct front *f, struct front_child *k, int i, struct ddp_err *err)
{
    struct command w = {.n = 0};
    uint64_t id = 2 * (uint64_t)i + 1;
    if (k->link != NULL && k->number == 0)
        command_own(&w, f->self);
    else
        command_here(&w, f->conf, i, f->self);
    int rc =
        k->link != NULL
            ? front_link_execute(k->link, k, &w, &f->out, f->err_to, id, err)
            : front_child_start(k, &w, front_is_list(f), &f->before, &f->out,
                                f->err_to, id, err);
    command_free(&w);
    return rc;
}

/* The end may have been ordered while there was no connection, or have been
 * lost with the one before. */
static int put_again(const struct front *f, struct front_child *k)
{
    char line[ORDERS_LINE_MAX];
    int n = snprintf(line, sizeof(line), "%s%s\n", AGAIN_WORD, k->mark);
    bool put = buf_put(&k->orders, line, (size_t)n) == 0;
    if (f->ending_us != 0)
        put = put && orders_put(&k->orders, ORDER_ONCE, f->ending_by);
    return put ? 0 : -1;
}

/* Until its hello, what comes through a link is of a connection that is tried
 * again if it fails. */
static int start_child(struct front *f, int i, struct ddp_err *err)
{
    struct front_child *k = &f->child[i];
    k->held |= k->link != NULL;
    int rc = k->again ? put_again(f, k) : put_start(f, i, err);
    if (rc < 0 || execute(f, k, i, err) < 0)
        return -1;
    k->err.mark = k->mark;
    k->err.on_mark = on_mark;
    k->err.ctx = k;
    k->err.reports = front_is_list(f) ? &f->reports : NULL;
    k->err.prefix = front_is_list(f) ? k->prefix : "";
    k->err.muted = k->link != NULL;
    front_tree_write(k);
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
    if (k->again)
        front_hosts_lose(f, ddp_code_exit(DDP_E_PEER));
    else
        front_hosts_fail(f);
}

/* -- the start through other hosts ----------------------------------------- */

void front_hosts_take_back(struct front *f, struct front_child *k)
{
    if (k->number > 0 && !f->alone)
        front_say(f,
                  "%s was not reached through %s: starting on it, and on other "
                  "hosts that are not, from here",
                  k->name, k->link->via.name);
    f->alone |= k->number > 0;
    if (k->number == 0 && k->first_us == 0)
        k->first_us = k->link->via.first_us; /* the same host */
    front_child_again(k);
    k->held = false;
}

void front_hosts_again(struct front *f, struct front_child *k)
{
    struct front_link *l = k->link;
    if (l->state == LINK_UP)
        front_say(f, "the connection to %s is lost: connecting to it from here",
                  k->name);
    else if (!l->told)
        front_say(f,
                  "the connection through %s is lost: connecting to its hosts "
                  "from here",
                  l->via.name);
    l->told |= l->state != LINK_UP;
    front_child_again(k);
    k->again = true;
    k->first_us = 0;
}

static void start_link(struct front *f, struct front_link *l)
{
    struct command w = {.n = 0};
    struct ddp_err err;
    command_hub(&w, f->conf, (int)(l->member - f->child), f->self);
    if (front_link_start(l, &w, f->folder, &f->before, &f->out, f->err_to,
                         &err) < 0)
        front_link_cut(l);
    command_free(&w);
}

static bool is_late(const struct front *f, const struct front_link *l)
{
    return mono_now_us() >=
           l->via.since_us + f->conf->front.timeout_us / FRONT_THROUGH_SHARE;
}

/* Returns how many have not answered. */
static int start_links(struct front *f)
{
    int starting = 0;
    for (int i = 0; i < f->links; i++)
        starting += f->link[i].state == LINK_STARTING;
    for (int i = 0; i < f->links; i++) {
        struct front_link *l = &f->link[i];
        if (l->state == LINK_WAITS && starting < AT_ONCE) {
            start_link(f, l);
            starting++;
        } else if (l->state == LINK_STARTING && is_late(f, l)) {
            front_link_cut(l);
        }
    }
    return starting;
}

/* Those whose launchers run come first, and are not counted. */
static void start_again(struct front *f)
{
    for (int i = 0; i < f->n; i++)
        if (f->child[i].state == CHILD_WAITS && f->child[i].again)
            start_or_fail(f, i);
}

void front_hosts_start(struct front *f)
{
    start_again(f);
    if (f->ending_us != 0 || f->done_us != 0)
        return;
    int starting = start_links(f);
    for (int i = 0; i < f->n; i++)
        starting +=
            f->child[i].state == CHILD_STARTING && f->child[i].link == NULL;
    for (int i = 0; i < f->n; i++) {
        struct front_child *k = &f->child[i];
        if (k->state != CHILD_WAITS)
            continue;
        if (k->link != NULL && k->link->state == LINK_BROKE)
            front_hosts_take_back(f, k);
        if (k->link != NULL && k->link->state == LINK_UP)
            start_or_fail(f, i);
        else if (k->link == NULL && starting++ < AT_ONCE)
            start_or_fail(f, i);
    }
}

/* -- all of them ----------------------------------------------------------- */

static int make_links(struct front *f, struct ddp_err *err)
{
    int n = front_is_list(f) ? fan_branches(f->n, f->conf->front.fanout) : 0;
    if (n == 0)
        return 0;
    f->link = calloc((size_t)n, sizeof(*f->link));
    if (f->link == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the hosts");
    f->links = n;
    for (int i = 0; i < n; i++) {
        struct fan_branch b = fan_branch(f->n, n, i);
        front_link_init(&f->link[i], &f->child[b.first], b.len, f->mark);
    }
    return 0;
}

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
        rng_id(k->mark);
        (void)snprintf(k->prefix, sizeof(k->prefix), "%s: ", k->name);
    }
    return make_links(f, err);
}

void front_hosts_free(struct front *f)
{
    for (int i = 0; i < f->links; i++)
        front_link_free(&f->link[i]);
    for (int i = 0; i < f->n; i++)
        front_child_free(&f->child[i]);
    free(f->link);
    free(f->child);
}
