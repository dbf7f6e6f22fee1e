/*
 * Happy path: mpi_round makes an empty key space, and over several nodes tells
 * the others how many workers are here; mpi_open_worker makes a socket pair;
 * what the worker's MPI library says on it is decoded (proto/pmi) and answered
 * (launcher/mpi/space); the barrier goes through launcher/mpi/exchange.
 *
 * Failure modes:
 *  - A worker says nonsense, half a line, or more than it may: its connection
 *    is closed, and if it had called MPI_Init it has failed.
 *  - It does not read its answers: nothing more is read from it, so that it
 *    waits for itself. Only OUT_MAX bytes are kept for it.
 *  - It says much: one read of at most PMI_LINE_MAX bytes is done in each turn
 *    of the loop, so that the others have theirs.
 *  - It closes the socket: that is no failure, since the kernel closes it
 *    before the end of a process is told, and since a program may have closed
 *    all that it does not know. libuv has an error for it if an answer was
 *    unread.
 */
#include "launcher/mpi/mpi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/mpi/channel.h"
#include "launcher/mpi/exchange.h"
#include "launcher/mpi/hwloc_xml.h"
#include "launcher/mpi/pmix.h"
#include "launcher/mpi/space.h"
#include "rendezvous/base/log.h"

#define MPI_MAGIC  0x6d706931u
#define LINK_MAGIC 0x6c696e6bu
#define OUT_MAX    65536
#define LOOK_MAX   16 /* reads of one worker's socket before an end is judged */

/* The socket of one worker. On the heap, since libuv closes its handle later.
 */
struct mpi_link {
    uint32_t magic;
    uv_poll_t poll;
    struct mpi *mpi;
    int local_rank;
    int fd;
    int events; /* that are waited for; 0: not yet */
    struct pmi_decoder decoder;
    struct buf in;
    struct buf out; /* what the socket did not take */
};

struct mpi {
    uint32_t magic;
    uv_loop_t *loop;
    const struct conf *conf;
    const struct mpi_handler *handler;
    void *ctx;
    bool pmi1;
    struct pmix *pmix; /* NULL: no PMIx */
    struct space space;
    struct exchange exchange;
    struct hwloc_xml topology;
    int64_t base_rank;
    int64_t fences;          /* of this round, through the exchange */
    bool judged;             /* a failure of it was told to the agent */
    bool notes_unused;       /* of this round: several ranks, this node has 0 */
    int unused;              /* workers of it that ended with 0, without MPI */
    bool noted_unused;       /* in any round */
    struct mpi_link **links; /* by local rank, NULL: none */
    pid_t *pids;             /* by local rank, of the last one */
};

static struct mpi *mpi_of(void *data)
{
    struct mpi *m = data;
    ddp_assert(m != NULL && m->magic == MPI_MAGIC);
    return m;
}

static struct mpi_link *link_of(void *data)
{
    struct mpi_link *l = data;
    ddp_assert(l != NULL && l->magic == LINK_MAGIC);
    return l;
}

/* -- a worker's socket ----------------------------------------------------- */

static void on_link_closed(uv_handle_t *h)
{
    struct mpi_link *l = link_of(h->data);
    buf_free(&l->in);
    buf_free(&l->out);
    l->magic = 0;
    free(l);
}

static void close_link(struct mpi *m, int local_rank)
{
    struct mpi_link *l = m->links[local_rank];
    if (l == NULL)
        return;
    m->links[local_rank] = NULL;
    uv_close((uv_handle_t *)&l->poll, on_link_closed);
    (void)close(l->fd); /* both sides are done with it */
    l->fd = -1;
}

/* Its worker is not served any more. */
static void break_link(struct mpi *m, int local_rank, const char *why)
{
    log_warnx("rank %lld: %s; its PMI connection is closed",
              (long long)(m->base_rank + local_rank), why);
    close_link(m, local_rank);
    space_broke(&m->space, local_rank, why);
}

static void on_link(uv_poll_t *poll, int status, int events);

static void watch(struct mpi_link *l)
{
    int events = buf_len(&l->out) > 0 ? UV_WRITABLE : UV_READABLE;
    if (events != l->events)
        (void)uv_poll_start(&l->poll, events, on_link); /* cannot fail */
    l->events = events;
}

/* A call failed: that of a worker that has gone is no matter of ours. */
static void end_link(struct mpi *m, int local_rank, int why)
{
    char text[160];
    if (why == EPIPE || why == ECONNRESET) {
        close_link(m, local_rank);
        return;
    }
    (void)snprintf(text, sizeof(text), "its PMI socket cannot be used: %s",
                   strerror(why));
    break_link(m, local_rank, text);
}

static void say(void *ctx, int local_rank, const struct pmi_answer *a)
{
    struct mpi *m = mpi_of(ctx);
    struct mpi_link *l = m->links[local_rank];
    if (l == NULL)
        return; /* it has closed its end */
    if (buf_put(&l->out, a->line, a->len) != 0) {
        break_link(m, local_rank, "it does not read the answers of PMI");
        return;
    }
    int why = channel_send(l->fd, &l->out);
    if (why != 0)
        end_link(m, local_rank, why);
    else
        watch(l);
}

/* Takes one command; false: there is none, or the socket is gone. */
static bool take_command(struct mpi *m, int local_rank)
{
    struct mpi_link *l = m->links[local_rank];
    struct pmi_request req;
    struct ddp_err err;
    size_t used;
    if (l == NULL || buf_len(&l->out) > 0)
        return false;
    enum pmi_status status =
        pmi_decode(&l->decoder, (const char *)buf_head(&l->in), buf_len(&l->in),
                   &req, &used, &err);
    if (status == PMI_BAD) {
        break_link(m, local_rank, err.text);
        return false;
    }
    if (status == PMI_DONE)
        space_request(&m->space, local_rank, &req);
    l = m->links[local_rank];
    if (l != NULL && space_is_lost(&m->space, local_rank))
        close_link(m, local_rank);
    else if (l != NULL)
        buf_take(&l->in, used);
    return status == PMI_DONE;
}

/* Reads what has come. Returns whether there may be more. */
static bool read_link(struct mpi *m, int local_rank)
{
    struct mpi_link *l = m->links[local_rank];
    int why = channel_read(l->fd, &l->in, PMI_LINE_MAX - buf_len(&l->in));
    if (why == EAGAIN)
        return false;
    if (why != 0) {
        end_link(m, local_rank, why);
        return false;
    }
    while (take_command(m, local_rank))
        ;
    return m->links[local_rank] != NULL && buf_len(&l->out) == 0;
}

/* What the worker has said so far. */
static void look(struct mpi *m, int local_rank)
{
    for (int n = 0; n < LOOK_MAX; n++) {
        const struct mpi_link *l = m->links[local_rank];
        if (l == NULL || buf_len(&l->out) > 0 || !read_link(m, local_rank))
            return;
    }
}

static void on_link(uv_poll_t *poll, int status, int events)
{
    struct mpi_link *l = link_of(poll->data);
    struct mpi *m = l->mpi;
    int local_rank = l->local_rank;
    (void)events;
    if (status != 0) { /* it has gone, with an answer unread */
        look(m, local_rank);
        close_link(m, local_rank);
        return;
    }
    int why = channel_send(l->fd, &l->out);
    if (why != 0) {
        end_link(m, local_rank, why);
        return;
    }
    if (buf_len(&l->out) == 0) {
        while (take_command(m, local_rank)) /* that waited for its answers */
            ;
        if (m->links[local_rank] != NULL && buf_len(&l->out) == 0)
            (void)read_link(m, local_rank);
    }
    if (m->links[local_rank] != NULL)
        watch(l);
}

/* -- what the key space wants ---------------------------------------------- */

static void fail(void *ctx, int local_rank, int code, const char *why)
{
    struct mpi *m = mpi_of(ctx);
    struct agent_worker w = {.local_rank = local_rank,
                             .pid = m->pids[local_rank],
                             .code = code,
                             .text = why};
    m->handler->on_failed(m->ctx, &w);
}

static void warn(void *ctx, int local_rank, const char *why)
{
    log_warnx("rank %lld: %s", (long long)(mpi_of(ctx)->base_rank + local_rank),
              why);
}

static void fence(void *ctx, const void *fresh, size_t len)
{
    struct mpi *m = mpi_of(ctx);
    char name[32];
    (void)snprintf(name, sizeof(name), "fence/%lld", (long long)m->fences++);
    exchange_gather(&m->exchange, name, fresh, len);
}

static void name_over_nodes(void *ctx,
                            int local_rank,
                            enum pmi_op op,
                            struct pmi_text name,
                            struct pmi_text value)
{
    struct mpi *m = mpi_of(ctx);
    exchange_name(&m->exchange, local_rank, op, name, value);
}

static void tell_topology(struct mpi *m)
{
    char path[HWLOC_XML_PATH_MAX];
    hwloc_xml_path(&m->topology, path);
    space_told_topology(&m->space, path);
}

static void on_look(void *ctx)
{
    struct mpi *m = mpi_of(ctx);
    if (m->topology.state != HWLOC_XML_BEGUN)
        tell_topology(m);
}

static const struct space_handler space_handler = {
    .say = say,
    .fail = fail,
    .warn = warn,
    .fence = fence,
    .name = name_over_nodes,
    .look = on_look,
};

/* The first thing that the nodes gather is how many workers each has. */
static void on_gathered(void *ctx, const char *data, size_t len)
{
    struct mpi *m = mpi_of(ctx);
    if (!m->space.mapped)
        space_told_nodes(&m->space, data, len);
    else
        space_fenced(&m->space, data, len);
}

static void
on_named(void *ctx, int local_rank, bool found, struct pmi_text value)
{
    space_named(&mpi_of(ctx)->space, local_rank, found, value);
}

static void on_lost(void *ctx, const char *why)
{
    space_cut_off(&mpi_of(ctx)->space, why);
}

static const struct exchange_handler exchange_handler = {
    .on_gathered = on_gathered,
    .on_named = on_named,
    .on_lost = on_lost,
};

/* -- the workers ----------------------------------------------------------- */

struct mpi *mpi_new(uv_loop_t *loop,
                    const struct conf *conf,
                    const struct mpi_handler *handler,
                    void *ctx)
{
    struct ddp_err err = {.text = "no memory for the MPI library's keys"};
    size_t n = (size_t)conf->nproc;
    if (conf->mpi == CONF_MPI_NONE)
        return NULL;
    struct mpi *m = calloc(1, sizeof(*m));
    if (m == NULL ||
        (m->links = calloc(n, sizeof(struct mpi_link *))) == NULL ||
        (m->pids = calloc(n, sizeof(*m->pids))) == NULL ||
        space_init(&m->space, conf->nproc, &space_handler, m) != 0 ||
        exchange_init(&m->exchange, loop, &exchange_handler, m, &err) != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "%s", err.text);
    m->pmi1 = conf->mpi != CONF_MPI_PMIX;
    if (conf->mpi != CONF_MPI_PMI1)
        m->pmix = pmix_new(loop, conf->nproc, fail, m);
    m->magic = MPI_MAGIC;
    m->loop = loop;
    m->conf = conf;
    m->handler = handler;
    m->ctx = ctx;
    return m;
}

void mpi_round(struct mpi *m, const struct msg_world *w)
{
    char line[MAPPING_LINE_MAX];
    if (m == NULL)
        return;
    for (int i = 0; i < m->conf->nproc; i++)
        close_link(m, i);
    space_begin(&m->space, w->instance, w->round, w->group_world,
                w->world_size);
    m->base_rank = w->base_rank;
    m->fences = 0;
    m->judged = false;
    m->notes_unused = w->world_size > 1 && w->group_rank == 0;
    m->unused = 0;
    pmix_round(m->pmix, w);
    if (w->group_world == 1 || !m->pmi1) {
        exchange_close(&m->exchange);
        return;
    }
    exchange_open(&m->exchange, w->master_addr, (int)w->master_port,
                  w->group_world, w->round);
    exchange_gather(&m->exchange, "nodes", line,
                    mapping_tell(line, w->group_rank, m->conf->nproc));
}

static struct mpi_link *make_link(struct mpi *m, int local_rank, int fd)
{
    struct mpi_link *l = calloc(1, sizeof(*l));
    int rc = l == NULL ? UV_ENOMEM : uv_poll_init(m->loop, &l->poll, fd);
    if (rc != 0) {
        free(l);
        errno = -rc; /* that is what libuv's codes are here */
        return NULL;
    }
    l->magic = LINK_MAGIC;
    l->mpi = m;
    l->local_rank = local_rank;
    l->fd = fd;
    l->poll.data = l;
    buf_init(&l->in, PMI_LINE_MAX);
    buf_init(&l->out, OUT_MAX);
    return l;
}

static int
open_socket(struct mpi *m, int local_rank, int *fd, struct ddp_err *err)
{
    int pair[2];
    ddp_assert(m->links[local_rank] == NULL);
    struct mpi_link *l = NULL;
    int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    if (rc == 0)
        l = make_link(m, local_rank, pair[0]);
    if (l == NULL) {
        ddp_err_sys(err, DDP_E_NOMEM,
                    "cannot make the PMI socket of the worker with local rank "
                    "%d",
                    local_rank);
        if (rc == 0) {
            (void)close(pair[0]);
            (void)close(pair[1]);
        }
        return -1;
    }
    m->links[local_rank] = l;
    watch(l);
    *fd = pair[1];
    return 0;
}

int mpi_open_worker(struct mpi *m,
                    int local_rank,
                    struct mpi_fds *fds,
                    struct ddp_err *err)
{
    *fds = (struct mpi_fds){.pmi = -1, .env = -1};
    if (m == NULL)
        return 0;
    m->pids[local_rank] = 0;
    if (m->pmi1 && local_rank == 0)
        hwloc_xml_begin(&m->topology); /* while there is a processor for it */
    if ((m->pmi1 && open_socket(m, local_rank, &fds->pmi, err) != 0) ||
        pmix_open_worker(m->pmix, local_rank, &fds->env, err) != 0) {
        mpi_close_fds(fds);
        return -1;
    }
    return 0;
}

void mpi_close_fds(const struct mpi_fds *fds)
{
    if (fds->pmi >= 0)
        (void)close(fds->pmi); /* the worker has it */
    if (fds->env >= 0)
        (void)close(fds->env);
}

void mpi_started(struct mpi *m, int local_rank, pid_t pid)
{
    if (m == NULL)
        return;
    m->pids[local_rank] = pid;
}

/* A program without MPI ends so, and nothing is wrong. So does an MPI program
 * whose library has another protocol, each worker being a world of its own. */
static void note_unused(struct mpi *m)
{
    static const char *const hints[] = {
        [CONF_MPI_PMI1] = "PMI-1; an Open MPI program needs --mpi=pmix or "
                          "auto, and libpmix on the node",
        [CONF_MPI_PMIX] = "PMIx; a program of MPICH or Intel MPI needs "
                          "--mpi=pmi1 or auto",
        [CONF_MPI_AUTO] = "PMI-1 or PMIx; an MPI program of another protocol "
                          "was a world of its own in each worker",
    };
    if (!m->notes_unused || m->noted_unused || m->unused < m->conf->nproc)
        return;
    m->noted_unused = true;
    log_info("no worker of this node has asked for MPI by %s",
             hints[m->conf->mpi]);
}

void mpi_ended(struct mpi *m, struct agent_worker *w)
{
    if (m == NULL)
        return;
    ddp_assert(w->local_rank >= 0 && w->local_rank < m->conf->nproc);
    bool failed = w->code != 0 || w->signal != 0;
    /* Another one's abort may be why: only the first failure counts. */
    for (int i = 0; failed && !m->judged && i < m->conf->nproc; i++)
        look(m, i);
    pmix_look(m->pmix);
    m->judged |= failed;
    look(m, w->local_rank);
    close_link(m, w->local_rank);
    const char *why =
        failed || !m->pmi1 ? NULL : space_ended(&m->space, w->local_rank);
    const char *other = pmix_ended(m->pmix, w->local_rank, failed);
    why = why != NULL ? why : other;
    if (why != NULL) {
        w->code = SPACE_CODE_EARLY;
        w->text = why;
        return;
    }
    m->unused += !failed && space_is_new(&m->space, w->local_rank) &&
                 pmix_is_new(m->pmix, w->local_rank);
    note_unused(m);
}

const char *mpi_folder(const struct mpi *m)
{
    return m == NULL ? "" : pmix_folder(m->pmix);
}

pid_t mpi_helper(const struct mpi *m, enum mpi_helper which)
{
    if (m == NULL)
        return 0;
    return which == MPI_HELPER_PMIX ? pmix_helper(m->pmix) : m->topology.pid;
}

void mpi_helper_ended(struct mpi *m, enum mpi_helper which)
{
    if (which == MPI_HELPER_PMIX) {
        pmix_helper_ended(m->pmix);
        return;
    }
    hwloc_xml_ended(&m->topology);
    tell_topology(m);
}
