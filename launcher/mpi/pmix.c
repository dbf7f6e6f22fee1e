/*
 * Happy path: the nodes tell each other their workers and hosts (pmix_far),
 * which makes the maps; the server is forked; its words come as frames. The
 * workers were forked meanwhile and wait, each at its pipe, for the variables.
 * What other nodes have to do with is pmix_far's. Once all workers of the node
 * have ended the server is killed, and what they shared is removed.
 *
 * Failure modes:
 *  - The server does not start, or not within PMIX_START_MS, or dies, or says
 *    nonsense: the round fails, with the reason. Open MPI 4 would go on
 *    without it as so many worlds of one rank.
 *  - The other nodes cannot be reached: the same, once someone waits for them.
 *  - A worker ends with 0 between PMIx_Init and PMIx_Finalize, or without
 *    PMIx_Init where another one of the node has called it: it has failed. If
 *    only other nodes can wait for it, this node refuses the first fence.
 *  - The server does not read: what it is told is bounded, and it is killed.
 */
#include "launcher/mpi/pmix.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/mpi/channel.h"
#include "launcher/mpi/kvs.h"
#include "launcher/mpi/pmix_far.h"
#include "launcher/mpi/pmix_frame.h"
#include "launcher/mpi/pmix_server.h"
#include "launcher/mpi/space.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/net/helper.h"

#define PMIX_MAGIC    0x706d6978u
#define PMIX_START_MS 60000
#define OUT_MAX       (4 * PMIX_FRAME_MAX)
#define READ_BYTES    65536
#define READS_MAX     64 /* in one turn of the loop */
#define CODE_EARLY    1  /* in place of 0, of a worker that ended too early */

struct pmix_worker {
    enum {
        PMIX_NEW, /* before PMIx_Init */
        PMIX_IN,
        PMIX_OUT, /* after PMIx_Finalize */
    } state;
    bool ended;
    int pipe;  /* its variables go in there; -1: they have, or it has none */
    char *env; /* owned; they came before the pipe; NULL: not yet */
    size_t env_len;
};

/* The socket to a server. On the heap: libuv closes its handle later. */
struct pmix_link {
    uv_poll_t poll;
    struct pmix *pmix;
    int fd;
    int events;
    struct buf in;
    struct buf out;
};

struct pmix {
    uint32_t magic;
    uv_loop_t *loop;
    pmix_fail fail;
    void *ctx;
    int nproc;
    struct pmix_worker *workers;
    struct pmix_far far; /* several nodes only */
    struct kvs names;    /* one node only */
    struct pmix_job job;
    int64_t group_rank;
    pid_t pid;              /* the server; 0: none */
    struct pmix_link *link; /* NULL: none */
    uv_timer_t timer;       /* for the start, or for a failure to be told */
    enum {
        PMIX_IDLE, /* no round, or all workers have ended */
        PMIX_MEETING,
        PMIX_STARTING,
        PMIX_RUNNING,
        PMIX_BROKEN, /* and `why` is to be told, or was */
    } state;
    int envs;    /* workers whose variables have come */
    bool failed; /* `fail` was called: once a round */
    bool warned; /* of a spawn: once a round */
    char why[400];
};

static struct pmix *pmix_of(void *data)
{
    struct pmix *p = data;
    ddp_assert(p != NULL && p->magic == PMIX_MAGIC);
    return p;
}

/* -- failures -------------------------------------------------------------- */

static void judge(struct pmix *p, int local_rank, int code, const char *why)
{
    if (p->failed)
        return;
    p->failed = true;
    p->fail(p->ctx, local_rank, code, why);
}

/* The first one that still runs. */
static int any_worker(const struct pmix *p)
{
    int i = 0;
    while (i < p->nproc - 1 && p->workers[i].ended)
        i++;
    return i;
}

static void on_timer(uv_timer_t *timer);

/* For all workers, and told when the caller has returned. */
static void break_off(struct pmix *p, const char *why)
{
    if (p->state == PMIX_BROKEN || p->state == PMIX_IDLE)
        return;
    p->state = PMIX_BROKEN;
    (void)snprintf(p->why, sizeof(p->why), "%s", why); /* may be cut */
    (void)uv_timer_start(&p->timer, on_timer, 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct pmix *p = pmix_of(timer->data);
    char why[100];
    if (p->state == PMIX_BROKEN) {
        judge(p, any_worker(p), ddp_code_exit(DDP_E_LOST), p->why);
        return;
    }
    (void)snprintf(why, sizeof(why), "the PMIx server was not ready in %d s",
                   PMIX_START_MS / 1000);
    break_off(p, why);
}

/* -- the server's socket --------------------------------------------------- */

static void on_link_closed(uv_handle_t *h)
{
    struct pmix_link *l = h->data;
    buf_free(&l->in);
    buf_free(&l->out);
    free(l);
}

static void close_link(struct pmix *p)
{
    struct pmix_link *l = p->link;
    p->link = NULL;
    if (l == NULL)
        return;
    uv_close((uv_handle_t *)&l->poll, on_link_closed);
    (void)close(l->fd); /* both sides are done with it */
}

static void end_server(struct pmix *p)
{
    close_link(p);
    helper_kill(&p->pid);
}

static void on_link(uv_poll_t *poll, int status, int events);

/* What the socket takes. */
static void push(struct pmix *p)
{
    struct pmix_link *l = p->link;
    (void)channel_send(l->fd, &l->out); /* its end is about to be read */
    int events = UV_READABLE | (buf_len(&l->out) > 0 ? UV_WRITABLE : 0);
    if (events != l->events)
        (void)uv_poll_start(&l->poll, events, on_link); /* cannot fail */
    l->events = events;
}

static void tell(struct pmix *p, const struct pmix_frame *f)
{
    if (p->link == NULL)
        return;
    if (pmix_frame_put(&p->link->out, f) == 0) {
        push(p);
        return;
    }
    end_server(p);
    break_off(p, "the PMIx server does not take its answers");
}

/* -- variables ------------------------------------------------------------- */

static void close_pipe(struct pmix_worker *w)
{
    if (w->pipe >= 0)
        (void)close(w->pipe); /* the other side has it all, or is dead */
    w->pipe = -1;
}

/* An empty pipe takes a page at once, always (PMIX_ENV_MAX). */
static void give_env(struct pmix *p, struct pmix_worker *w)
{
    char why[120];
    ssize_t n;
    if (w->pipe < 0 || w->env == NULL)
        return;
    do
        n = write(w->pipe, w->env, w->env_len);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EPIPE) { /* else it has died meanwhile */
        (void)snprintf(why, sizeof(why),
                       "a worker cannot be told of the PMIx server: %s",
                       strerror(errno)); /* fits */
        break_off(p, why);
    }
    close_pipe(w);
}

static void on_env(struct pmix *p, const struct pmix_frame *f)
{
    struct pmix_worker *w = &p->workers[f->rank];
    if (w->env != NULL || f->len == 0 || f->len > PMIX_ENV_MAX ||
        f->data[f->len - 1] != '\0' || (w->env = malloc(f->len + 1)) == NULL) {
        break_off(p, "the PMIx server gives no variables that can be used");
        return;
    }
    memcpy(w->env, f->data, f->len);
    w->env[f->len] = '\0'; /* the end of them all */
    w->env_len = f->len + 1;
    give_env(p, w);
    if (++p->envs < p->nproc || p->state != PMIX_STARTING)
        return;
    p->state = PMIX_RUNNING;
    (void)uv_timer_stop(&p->timer);
}

int pmix_open_worker(struct pmix *p,
                     int local_rank,
                     int *fd,
                     struct ddp_err *err)
{
    int ends[2];
    *fd = -1;
    if (p == NULL)
        return 0;
    struct pmix_worker *w = &p->workers[local_rank];
    ddp_assert(w->pipe < 0 && w->state == PMIX_NEW);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot make the PMIx pipe of the worker with local "
                           "rank %d",
                           local_rank);
    *fd = ends[0];
    w->pipe = ends[1];
    give_env(p, w);
    return 0;
}

/* -- what the server says -------------------------------------------------- */

/* On one node all are here. */
static void on_name(struct pmix *p, const struct pmix_frame *f)
{
    struct pmix_frame a = {.kind = PMIX_ANSWER, .number = f->number};
    struct pmi_text name, value;
    const struct kvs_entry *e = NULL;
    bool ok = pmix_frame_name(f, &name.at, &name.len, &value.at, &value.len);
    if (ok && f->kind == PMIX_LOOKUP) {
        e = kvs_get(&p->names, name);
        a.data = e == NULL ? NULL : e->value;
        a.len = e == NULL ? 0 : e->value_len;
        a.rank = e != NULL;
    } else if (ok && f->kind == PMIX_UNPUBLISH) {
        a.rank = kvs_remove(&p->names, name);
    } else if (ok && f->kind == PMIX_PUBLISH) {
        a.rank = kvs_put(&p->names, name, value) == 0;
    }
    tell(p, &a);
}

/* What is not about one worker. */
static void take_request(struct pmix *p, const struct pmix_frame *f)
{
    struct pmix_frame no = {.kind = PMIX_ANSWER, .number = f->number};
    if (p->job.nodes > 1)
        pmix_far_frame(&p->far, f);
    else if (f->kind == PMIX_FENCE)
        tell(p, &no); /* of this node only, which the server does alone */
    else
        on_name(p, f);
}

static void on_abort(struct pmix *p, const struct pmix_frame *f)
{
    char why[80];
    int code = (int)((uint64_t)f->number & 255u);
    (void)snprintf(why, sizeof(why), "MPI_Abort was called with code %lld",
                   (long long)f->number);
    judge(p, f->rank, code == 0 ? 1 : code, why);
}

/* A worker that has ended with 0 and never called PMIx_Init, where another one
 * of the node waits for it; -1: there is none. */
static int find_absent(const struct pmix *p)
{
    int absent = -1;
    bool waits = false;
    for (int i = p->nproc - 1; i >= 0; i--) {
        waits |= p->workers[i].state == PMIX_IN;
        if (p->workers[i].state == PMIX_NEW && p->workers[i].ended)
            absent = i;
    }
    return waits ? absent : -1;
}

#define ABSENT                                                                 \
    "it ended with 0 and without MPI_Init, which another rank has called"

static void on_connected(struct pmix *p, struct pmix_worker *w)
{
    w->state = PMIX_IN;
    int absent = find_absent(p);
    if (absent >= 0)
        judge(p, absent, CODE_EARLY, ABSENT);
}

static void on_spawn(struct pmix *p, int local_rank)
{
    if (!p->warned)
        log_warnx("rank %lld: " SPACE_NO_SPAWN,
                  (long long)(p->job.maps.base_rank + local_rank));
    p->warned = true;
}

static void take_word(struct pmix *p, const struct pmix_frame *f)
{
    struct pmix_worker *w = &p->workers[f->rank];
    if (f->kind == PMIX_ENV)
        on_env(p, f);
    else if (f->kind == PMIX_CONNECTED)
        on_connected(p, w);
    else if (f->kind == PMIX_FINALIZED)
        w->state = PMIX_OUT;
    else if (f->kind == PMIX_SPAWN)
        on_spawn(p, f->rank);
    else
        on_abort(p, f);
}

static void take_failure(struct pmix *p, const struct pmix_frame *f)
{
    char why[400];
    (void)snprintf(why, sizeof(why), "the PMIx server failed: %.*s",
                   f->len < 350 ? (int)f->len : 350, f->data);
    break_off(p, why);
}

static void take_frame(struct pmix *p, const struct pmix_frame *f)
{
    bool sound = f->rank >= 0 && f->rank < p->nproc;
    switch (f->kind) {
    case PMIX_FENCE:
    case PMIX_PUBLISH:
    case PMIX_LOOKUP:
    case PMIX_UNPUBLISH:
    case PMIX_MODEX:
    case PMIX_HELD:
        take_request(p, f);
        return;
    case PMIX_FAILED:
        take_failure(p, f);
        return;
    case PMIX_ENV:
    case PMIX_CONNECTED:
    case PMIX_FINALIZED:
    case PMIX_ABORT:
    case PMIX_SPAWN:
        if (sound) {
            take_word(p, f);
            return;
        }
        break;
    case PMIX_WANTED:
    case PMIX_ANSWER:
    case PMIX_KINDS:
        break;
    }
    end_server(p);
    break_off(p, "the PMIx server says nonsense");
}

/* Reads what has come; false: no more for now. */
static bool read_link(struct pmix *p)
{
    struct pmix_link *l = p->link;
    struct pmix_frame f;
    size_t used;
    if (l == NULL)
        return false;
    int why = channel_read(l->fd, &l->in, READ_BYTES);
    if (why == ENOMEM) {
        end_server(p);
        break_off(p, "no memory for what the PMIx server says");
    } else if (why != 0 && why != EAGAIN) { /* its status tells why */
        close_link(p);
    }
    if (why != 0)
        return false;
    while (p->link == l) {
        enum pmix_frame_result r =
            pmix_frame_get(buf_head(&l->in), buf_len(&l->in), &f, &used);
        if (r == PMIX_FRAME_MORE)
            return true;
        if (r == PMIX_FRAME_BAD)
            f = (struct pmix_frame){.kind = PMIX_KINDS, .rank = -1};
        take_frame(p, &f);
        if (p->link == l)
            buf_take(&l->in, used);
    }
    return false;
}

void pmix_look(struct pmix *p)
{
    for (int i = 0; p != NULL && i < READS_MAX && read_link(p); i++)
        ;
}

static void on_link(uv_poll_t *poll, int status, int events)
{
    struct pmix_link *l = poll->data;
    struct pmix *p = pmix_of(l->pmix);
    (void)status; /* reading finds it again */
    (void)events;
    if (p->link != l)
        return;
    push(p);
    pmix_look(p);
}

/* -- starting it ----------------------------------------------------------- */

static void run_server(const struct helper_fds *fds, const void *arg)
{
    const struct pmix *p = arg;
    pmix_server_main(fds->listener, &p->job);
}

/* False: errno. */
static bool make_link(struct pmix *p, int fd)
{
    struct pmix_link *l = calloc(1, sizeof(*l));
    int rc = l == NULL ? UV_ENOMEM : uv_poll_init(p->loop, &l->poll, fd);
    if (rc != 0) {
        free(l);
        errno = -rc; /* that is what libuv's codes are here */
        return false;
    }
    l->poll.data = l;
    l->pmix = p;
    l->fd = fd;
    buf_init(&l->in, PMIX_FRAME_MAX + 2 * READ_BYTES);
    buf_init(&l->out, OUT_MAX);
    p->link = l;
    return true;
}

static void start_server(struct pmix *p)
{
    struct ddp_err err = {.text = ""};
    int pair[2];
    char why[400];
    p->state = PMIX_STARTING;
    (void)uv_timer_start(&p->timer, on_timer, PMIX_START_MS, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        ddp_err_sys(&err, DDP_E_NOMEM, "socketpair");
    } else {
        struct helper_fds fds = {.listener = pair[1], .chan = -1};
        if (!make_link(p, pair[0])) {
            ddp_err_sys(&err, DDP_E_NOMEM, "poll");
            (void)close(pair[0]);
        } else if (helper_start(&p->pid, &fds, run_server, p, &err) != 0) {
            close_link(p);
        }
        (void)close(pair[1]);
    }
    if (p->pid > 0) {
        push(p); /* which begins to watch */
        return;
    }
    (void)snprintf(why, sizeof(why), "cannot start the PMIx server: %.350s",
                   err.text);
    break_off(p, why);
}

static void told_nodes(struct pmix *p, const char *lines, size_t len)
{
    struct pmix_job *j = &p->job;
    if (pmix_nodes_read(&j->maps, lines, len, j->nodes, p->group_rank,
                        j->world_size)) {
        start_server(p);
        if (j->nodes > 1)
            pmix_far_begin(&p->far, &j->maps);
    } else {
        break_off(p, "the nodes do not agree on who has which ranks; is --mpi "
                     "the same on all of them?");
    }
}

pid_t pmix_helper(const struct pmix *p)
{
    return p == NULL ? 0 : p->pid;
}

void pmix_helper_ended(struct pmix *p)
{
    char why[120];
    pmix_look(p);
    if (p->pid == 0)
        return; /* what it said has ended it */
    int status = helper_reap(&p->pid);
    close_link(p);
    if (WIFSIGNALED(status))
        (void)snprintf(why, sizeof(why),
                       "the PMIx server was killed by signal %d (%s)",
                       WTERMSIG(status), signals_name(WTERMSIG(status)));
    else
        (void)snprintf(why, sizeof(why), "the PMIx server ended with %d",
                       WEXITSTATUS(status));
    break_off(p, why);
}

/* -- the other nodes ------------------------------------------------------- */

static void on_met(void *ctx, const char *lines, size_t len)
{
    told_nodes(pmix_of(ctx), lines, len);
}

static void on_far_frame(void *ctx, const struct pmix_frame *f)
{
    tell(pmix_of(ctx), f);
}

static void on_broken(void *ctx, const char *why)
{
    break_off(pmix_of(ctx), why);
}

static const struct pmix_far_handler far_handler = {
    .on_met = on_met,
    .on_frame = on_far_frame,
    .on_broken = on_broken,
};

/* -- rounds ---------------------------------------------------------------- */

struct pmix *pmix_new(uv_loop_t *loop, int nproc, pmix_fail fail, void *ctx)
{
    struct ddp_err err = {.text = "no memory for PMIx"};
    struct pmix *p = calloc(1, sizeof(*p));
    if (p == NULL ||
        (p->workers = calloc((size_t)nproc, sizeof(*p->workers))) == NULL ||
        pmix_far_init(&p->far, loop, &far_handler, p, &err) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "%s", err.text);
    p->magic = PMIX_MAGIC;
    p->loop = loop;
    p->fail = fail;
    p->ctx = ctx;
    p->nproc = nproc;
    for (int i = 0; i < nproc; i++)
        p->workers[i].pipe = -1;
    (void)uv_timer_init(loop, &p->timer); /* cannot fail */
    p->timer.data = p;
    pmix_folder_make(p->job.folder);
    return p;
}

const char *pmix_folder(const struct pmix *p)
{
    return p == NULL ? "" : p->job.folder;
}

static void forget(struct pmix *p)
{
    end_server(p);
    pmix_folder_empty(p->job.folder);
    pmix_far_close(&p->far);
    kvs_free(&p->names);
    pmix_nodes_free(&p->job.maps);
    (void)uv_timer_stop(&p->timer);
    for (int i = 0; i < p->nproc; i++) {
        close_pipe(&p->workers[i]);
        free(p->workers[i].env);
        p->workers[i] = (struct pmix_worker){.pipe = -1};
    }
    p->envs = 0;
    p->failed = p->warned = false;
}

void pmix_round(struct pmix *p, const struct msg_world *w)
{
    char host[256] = "", line[PMIX_NODES_LINE_MAX];
    if (p == NULL)
        return;
    forget(p);
    p->job.nodes = w->group_world;
    p->job.world_size = w->world_size;
    p->job.nproc = p->nproc;
    p->group_rank = w->group_rank;
    (void)snprintf(p->job.nspace, sizeof(p->job.nspace), /* fits */
                   "ddprun_%.16s_%lld", w->instance, (long long)w->round);
    (void)gethostname(host, sizeof(host) - 1);
    size_t len = pmix_nodes_tell(line, w->group_rank, p->nproc, host);
    p->state = PMIX_MEETING;
    if (w->group_world == 1) {
        told_nodes(p, line, len);
        return;
    }
    pmix_far_open(&p->far, w, line, len);
}

bool pmix_is_new(const struct pmix *p, int local_rank)
{
    return p == NULL || p->workers[local_rank].state == PMIX_NEW;
}

const char *pmix_ended(struct pmix *p, int local_rank, bool failed)
{
    const char *why = NULL;
    int left = 0;
    if (p == NULL)
        return NULL;
    pmix_look(p);
    struct pmix_worker *w = &p->workers[local_rank];
    w->ended = true;
    close_pipe(w);
    if (!failed && w->state == PMIX_IN)
        why = "it ended with 0 after MPI_Init, but without MPI_Finalize";
    else if (!failed && w->state == PMIX_NEW && find_absent(p) >= 0)
        why = ABSENT;
    else if (!failed && w->state == PMIX_NEW && p->job.nodes > 1)
        pmix_far_refuse(&p->far);
    why = p->failed ? NULL : why;
    p->failed |= failed || why != NULL;
    for (int i = 0; i < p->nproc; i++)
        left += !p->workers[i].ended;
    if (left == 0) {
        p->state = PMIX_IDLE;
        (void)uv_timer_stop(&p->timer);
        end_server(p);
        pmix_folder_empty(p->job.folder);
    }
    return why;
}
