/*
 * worker_rt/comm/meet: the ranks of a communicator find each other.
 *
 * Happy path of a rank. It listens where the store sees it, and publishes that
 * address. It looks up and calls the lower ranks that it needs, says its own
 * rank on each connection and reads the answer. Meanwhile it accepts the higher
 * ranks, hears their ranks and answers. It ends when all links are made.
 *
 * Failure modes. A caller that belongs to another run, round or communicator:
 * it is refused with a reason, and fails with that (PROTO). A caller that says
 * nothing, or anything else than a hello: closed, and the meeting goes on. A
 * rank dies after it was connected: PEER at once. A rank dies before, or never
 * comes: TIMEOUT at the deadline, with the ranks that are missing. The store
 * goes away: its errors. A rank cannot go on: it says so in the store, where
 * all others look while they wait, or when the meeting fails.
 */
#include "worker_rt/comm/meet.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/dial.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "worker_rt/comm/addresses.h"
#include "worker_rt/rt.h"

#define PENDING_MAX 16 /* connections whose hello has not come yet */
#define HELLO_US    (2 * MONO_S)
#define TRY_US      (3 * MONO_S) /* an address, if there are others */
#define LOOK_MAX_US (8 * MONO_S) /* between two looks for bad news */
#define ASK_US      (2 * MONO_S) /* the store has this to tell them */
#define GONE_MARK   '!' /* before a reason, in the place of addresses */
#define NEWS_MAX    160 /* bytes of a reason with its rank, and NUL */

int64_t comm_meet_look_us = 1 * MONO_S;

/*
 * The first words on a connection. The higher rank connects to the lower one
 * and says a hello; the lower one answers with its own, which says whether it
 * takes the connection.
 */
struct hello {
    uint8_t magic[8];
    char instance[RNG_ID_LEN];
    int64_t round;
    uint32_t comm;
    uint32_t world;
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    uint32_t answer; /* enum answer; 0 in the connector's hello */
};
_Static_assert(sizeof(struct hello) == 72, "no padding on the wire");

static const uint8_t magic[8] = {0xdd, 'd', 'd', 'p', 'c', 'p', 'u', 5};

enum answer {
    TAKEN = 1,
    OTHER_INSTANCE,
    OTHER_ROUND,
    OTHER_COMM,
    OTHER_WORLD,
    NO_SUCH_PLACE,
};

static const char *answer_text(uint32_t answer)
{
    switch ((enum answer)answer) {
    case OTHER_INSTANCE:
        return "it belongs to another run";
    case OTHER_ROUND:
        return "it is in another round";
    case OTHER_COMM:
        return "it is making another communicator";
    case OTHER_WORLD:
        return "its world has another size";
    case NO_SUCH_PLACE:
        return "it does not expect this rank, or is connected to it already";
    case TAKEN:
        break;
    }
    return "it gives an unknown reason";
}

/* A connection that came in and has not yet said of which rank it is. */
struct pending {
    int fd; /* -1: free */
    struct hello hello;
    size_t have;
    int64_t until_us;
};

/* What belongs to a link while it is being made. */
struct making {
    enum {
        MAKING_NOTHING, /* a higher rank calls, or we have not called yet */
        MAKING_CALLED,  /* we connect; our hello goes out once that is done */
        MAKING_HELLO_SENT, /* our hello is sent, and the answer is due */
        MAKING_DONE
    } state;
    struct hello answer;
    size_t have;
    const struct addresses *to; /* of a lower rank; NULL: not called yet */
    int which;                  /* of these is called */
    int64_t until_us;           /* then the next one is */
};

struct meet {
    const struct comm_place *place;
    struct store_client *store;
    struct comm_link *links;
    size_t nlinks;
    size_t missing;
    int64_t deadline_us;
    int listener;                 /* -1: none */
    int64_t look_us;              /* for bad news; and when .. */
    int64_t pause_us;             /* .. after that */
    struct sockaddr_storage seen; /* where the store sees us */
    struct addresses *peers;      /* (nlinks), owned: where to call each */
    struct making making[COMM_LINKS_MAX];
    struct pending pending[PENDING_MAX];
};

/* -- the first words ------------------------------------------------------- */

static struct hello
our_hello(const struct meet *m, uint32_t to, uint32_t lane, uint32_t answer)
{
    struct hello h = {.round = m->place->round,
                      .comm = m->place->id,
                      .world = (uint32_t)m->place->world,
                      .from = (uint32_t)m->place->rank,
                      .to = to,
                      .lane = lane,
                      .answer = answer};
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(h.instance, m->place->instance, sizeof(h.instance));
    return h;
}

/* On a fresh connection 72 bytes always fit into the kernel's buffer. */
static bool say(int fd, const struct hello *h)
{
    return send(fd, h, sizeof(*h), MSG_NOSIGNAL) == (ssize_t)sizeof(*h);
}

/* Reads on. 1: the hello is whole, 0: not yet, -1: the other end is gone (with
 * errno, 0 for an end of file). */
static int hear(int fd, struct hello *h, size_t *have)
{
    ddp_assert(*have < sizeof(*h));
    ssize_t n = recv(fd, (uint8_t *)h + *have, sizeof(*h) - *have, 0);
    if (n == 0)
        errno = 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return -1;
    if (n > 0)
        *have += (size_t)n;
    return *have == sizeof(*h);
}

/* Whether the other end belongs to this meeting. */
static enum answer same_place(const struct meet *m, const struct hello *h)
{
    if (memcmp(h->instance, m->place->instance, sizeof(h->instance)) != 0)
        return OTHER_INSTANCE;
    if (h->round != m->place->round)
        return OTHER_ROUND;
    if (h->comm != m->place->id)
        return OTHER_COMM;
    if (h->world != (uint32_t)m->place->world)
        return OTHER_WORLD;
    return h->to == (uint32_t)m->place->rank ? TAKEN : NO_SUCH_PLACE;
}

/* The index of the awaited link that `h` is for, or nlinks. */
static size_t awaited(const struct meet *m, const struct hello *h)
{
    size_t i = 0;
    while (i < m->nlinks && ((uint32_t)m->links[i].rank != h->from ||
                             (uint32_t)m->links[i].lane != h->lane ||
                             m->making[i].state != MAKING_NOTHING ||
                             m->links[i].rank < m->place->rank))
        i++;
    return i;
}

static void set_made(struct meet *m, size_t i, int fd)
{
    ddp_assert(m->making[i].state != MAKING_DONE && m->missing > 0);
    m->links[i].fd = fd;
    m->making[i].state = MAKING_DONE;
    m->missing--;
}

/* A connection that came in, and whose hello is whole. */
static void receive(struct meet *m, struct pending *p)
{
    int fd = p->fd;
    size_t i = awaited(m, &p->hello);
    ddp_assert(fd >= 0 && p->have == sizeof(p->hello));
    p->fd = -1;
    enum answer answer = same_place(m, &p->hello);
    if (answer == TAKEN && i == m->nlinks)
        answer = NO_SUCH_PLACE;
    struct hello reply = our_hello(m, p->hello.from, p->hello.lane, answer);
    if (say(fd, &reply) && answer == TAKEN)
        set_made(m, i, fd);
    else
        (void)close(fd); /* refused, or gone already */
}

/* As far as it has come: another program is not waited for. */
static bool is_ours(const struct pending *p)
{
    size_t have = p->have < sizeof(magic) ? p->have : sizeof(magic);
    return memcmp(p->hello.magic, magic, have) == 0;
}

static void on_pending(struct meet *m, struct pending *p)
{
    int heard = hear(p->fd, &p->hello, &p->have);
    if (heard < 0 || !is_ours(p)) {
        (void)close(p->fd); /* it gave up, or is another program */
        p->fd = -1;
    } else if (heard > 0) {
        receive(m, p);
    }
}

static struct pending *free_slot(struct meet *m)
{
    for (size_t i = 0; i < PENDING_MAX; i++)
        if (m->pending[i].fd < 0)
            return &m->pending[i];
    return NULL;
}

static int on_listener(struct meet *m, struct ddp_err *err)
{
    int fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot accept a connection");
    if (fd < 0)
        return 0; /* it gave up before we came to it */
    dial_tune(fd);
    struct pending *p = free_slot(m);
    ddp_assert(p != NULL); /* else the listener is not polled */
    *p = (struct pending){.fd = fd,
                          .until_us = mono_after(mono_now_us(), HELLO_US)};
    return 0;
}

/* Nobody answers there, or somebody else does. The next address of that rank is
 * called, if it has another one: then 0. */
static int call_next(struct meet *m, size_t i)
{
    struct comm_link *l = &m->links[i];
    struct making *make = &m->making[i];
    while (make->to != NULL && ++make->which < make->to->n) {
        if (l->fd >= 0)
            (void)close(l->fd);
        l->fd = dial_begin((const struct sockaddr *)&make->to->at[make->which]);
        if (l->fd < 0)
            continue;
        make->state = MAKING_CALLED;
        make->have = 0;
        make->until_us = mono_after(mono_now_us(), TRY_US);
        return 0;
    }
    return -1;
}

/* A call that leads back to this machine cannot reach another one. */
static bool calls_itself(const struct meet *m, size_t i)
{
    const struct making *make = &m->making[i];
    return make->to != NULL && !addresses_is_loopback(&m->seen) &&
           addresses_is_loopback(&make->to->at[0]);
}

static int lost_peer(int rank, struct ddp_err *err)
{
    if (errno == 0)
        return ddp_err_set(err, DDP_E_PEER,
                           "rank %d died or gave up while the ranks met", rank);
    return ddp_err_sys(err, DDP_E_PEER,
                       "rank %d died or gave up while the ranks met", rank);
}

/* A call that failed, with errno. */
static int not_called(struct meet *m, size_t i, struct ddp_err *err)
{
    int error = errno, rank = m->links[i].rank;
    if (call_next(m, i) == 0)
        return 0;
    errno = error;
    (void)lost_peer(rank, err);
    if (calls_itself(m, i))
        (void)ddp_err_wrap(err,
                           "rank %d can be called at a loopback address only, "
                           "which leads to this machine itself (set "
                           "DDP_LOCAL_ADDR or DDP_SOCKET_IFNAME there)",
                           rank);
    return -1;
}

static int on_answer(struct meet *m, size_t i, struct ddp_err *err)
{
    const struct comm_link *l = &m->links[i];
    const struct hello *h = &m->making[i].answer;
    bool known = memcmp(h->magic, magic, sizeof(magic)) == 0;
    if (known && h->answer == TAKEN && same_place(m, h) == TAKEN &&
        h->from == (uint32_t)l->rank && h->lane == (uint32_t)l->lane) {
        set_made(m, i, l->fd);
        return 0;
    }
    if (call_next(m, i) == 0)
        return 0; /* that was another machine's address, and this one's, too */
    return ddp_err_set(
        err, DDP_E_PROTO, "rank %d refused the connection of rank %d: %s",
        l->rank, m->place->rank,
        known ? answer_text(h->answer) : "it speaks another protocol");
}

/* A connection that we make: established, or its answer came. */
static int on_calling(struct meet *m, size_t i, struct ddp_err *err)
{
    const struct comm_link *l = &m->links[i];
    struct making *make = &m->making[i];
    ddp_assert(make->state == MAKING_CALLED ||
               make->state == MAKING_HELLO_SENT);
    if (make->state == MAKING_CALLED) {
        struct hello h = our_hello(m, (uint32_t)l->rank, (uint32_t)l->lane, 0);
        errno = dial_result(l->fd);
        if (errno != 0 || !say(l->fd, &h))
            return not_called(m, i, err);
        make->state = MAKING_HELLO_SENT;
        return 0;
    }
    int heard = hear(l->fd, &make->answer, &make->have);
    if (heard < 0)
        return not_called(m, i, err);
    return heard > 0 ? on_answer(m, i, err) : 0;
}

/* -- the loop -------------------------------------------------------------- */

static int too_late(const struct meet *m, struct ddp_err *err)
{
    char ranks[128] = "";
    size_t used = 0;
    int named = 0;
    int last = m->place->rank; /* none: each rank is named once */
    for (size_t i = 0; i < m->nlinks && used < sizeof(ranks) - 16; i++) {
        if (m->making[i].state == MAKING_DONE || m->links[i].rank == last)
            continue;
        last = m->links[i].rank;
        named++;
        used += (size_t)snprintf(ranks + used, sizeof(ranks) - used, "%s%d",
                                 used == 0 ? "" : ", ", last);
    }
    return ddp_err_set(err, DDP_E_TIMEOUT,
                       "rank %d gave up waiting for rank%s %s", m->place->rank,
                       named == 1 ? "" : "s", ranks);
}

/* What comes on one link. One that is made has nothing to say yet but that the
 * peer is gone; we wait for a lower one that we called. */
static struct pollfd ask(const struct meet *m, size_t i)
{
    static const short events[] = {[MAKING_CALLED] = POLLOUT,
                                   [MAKING_HELLO_SENT] = POLLIN,
                                   [MAKING_DONE] = POLLRDHUP};
    const struct making *make = &m->making[i];
    ddp_assert((make->state == MAKING_NOTHING) == (m->links[i].fd < 0));
    return (struct pollfd){.fd = m->links[i].fd, .events = events[make->state]};
}

static int
meet_links(struct meet *m, const struct pollfd *pfd, struct ddp_err *err)
{
    for (size_t i = 0; i < m->nlinks; i++) {
        errno = 0;
        if (pfd[i].revents == 0)
            continue;
        if (m->making[i].state == MAKING_DONE)
            return lost_peer(m->links[i].rank, err);
        if (on_calling(m, i, err) != 0)
            return -1;
    }
    return 0;
}

/* Addresses that do not answer: the last one is waited for until the deadline.
 */
static void leave_silent(struct meet *m, int64_t *wake_us)
{
    int64_t now_us = mono_now_us();
    for (size_t i = 0; i < m->nlinks; i++) {
        const struct making *make = &m->making[i];
        if ((make->state != MAKING_CALLED &&
             make->state != MAKING_HELLO_SENT) ||
            make->which + 1 >= make->to->n)
            continue;
        if (now_us >= make->until_us)
            (void)call_next(m, i); /* or this one is waited for */
        *wake_us = mono_min(*wake_us, make->until_us);
    }
}

static void meet_pending(struct meet *m, const struct pollfd *pfd)
{
    int64_t now_us = mono_now_us();
    for (size_t i = 0; i < PENDING_MAX; i++) {
        struct pending *p = &m->pending[i];
        if (p->fd >= 0 && p->fd == pfd[i].fd && pfd[i].revents != 0)
            on_pending(m, p);
        if (p->fd >= 0 && now_us >= p->until_us) {
            (void)close(p->fd); /* it says nothing */
            p->fd = -1;
        }
    }
}

static int meet_step(struct meet *m, struct ddp_err *err)
{
    struct pollfd pfd[COMM_LINKS_MAX + PENDING_MAX + 1];
    struct pollfd *pending = pfd + m->nlinks;
    int64_t wake_us = mono_min(m->deadline_us, m->look_us);
    leave_silent(m, &wake_us);
    for (size_t i = 0; i < m->nlinks; i++)
        pfd[i] = ask(m, i);
    for (size_t i = 0; i < PENDING_MAX; i++) {
        pending[i] = (struct pollfd){.fd = m->pending[i].fd, .events = POLLIN};
        if (m->pending[i].fd >= 0)
            wake_us = mono_min(wake_us, m->pending[i].until_us);
    }
    pending[PENDING_MAX] = (struct pollfd){
        .fd = free_slot(m) == NULL ? -1 : m->listener, .events = POLLIN};
    int n = poll(pfd, m->nlinks + PENDING_MAX + 1, dial_poll_ms(wake_us));
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot wait for the other ranks");
    if (n < 0)
        return 0;
    meet_pending(m, pending);
    if (n == 0)
        return 0;
    if (meet_links(m, pfd, err) != 0)
        return -1;
    return pending[PENDING_MAX].revents == 0 ? 0 : on_listener(m, err);
}

/* -- addresses ------------------------------------------------------------- */

static void
store_key(char *key, size_t len, const struct comm_place *place, int rank)
{
    int n = snprintf(key, len, "ddp/%s/%lld/comm%u/%d", place->instance,
                     (long long)place->round, place->id, rank);
    ddp_assert(n > 0 && (size_t)n < len); /* four short fields */
}

/* -- bad news -------------------------------------------------------------- */

/* A rank that gave up is there with "!", its number and the reason. */
static void news_key(char *key, size_t len, const struct comm_place *place)
{
    int n = snprintf(key, len, "ddp/%s/%lld/comm%u/news", place->instance,
                     (long long)place->round, place->id);
    ddp_assert(n > 0 && (size_t)n < len);
}

/* `why` is a peer's. */
static int gave_up(int rank, const char *why, struct ddp_err *err)
{
    (void)ddp_err_set(err, DDP_E_PEER,
                      "rank %d gave up while the ranks met: %s", rank, why);
    for (char *c = err->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return -1;
}

static void
set_quickly(struct store_client *store, const char *key, const char *text)
{
    struct ddp_err ignored;
    (void)store_client_set(store, key, text, strlen(text),
                           mono_after(mono_now_us(), ASK_US), &ignored);
}

/* In the place of its addresses, for the ranks that wait for these, and where
 * all look. */
void comm_meet_give_up(const struct comm_place *place,
                       struct store_client *store,
                       const struct ddp_err *why)
{
    char key[128], text[NEWS_MAX];
    (void)snprintf(text, sizeof(text), "%c%d %.120s", GONE_MARK, place->rank,
                   why->text); /* fits */
    store_key(key, sizeof(key), place, place->rank);
    set_quickly(store, key, text);
    news_key(key, sizeof(key), place);
    set_quickly(store, key, text);
}

/* PEER: a rank has said that it gave up. A store that does not answer has
 * nothing to say. */
static int hear_news(struct meet *m, struct ddp_err *err)
{
    char key[128], text[NEWS_MAX], *end;
    struct ddp_err ignored;
    size_t len = 0;
    bool there = false;
    int64_t until_us = mono_after(mono_now_us(), ASK_US);
    news_key(key, sizeof(key), m->place);
    if (store_client_check(m->store, key, &there, until_us, &ignored) != 0 ||
        !there ||
        store_client_get(m->store, key, text, sizeof(text) - 1, &len, until_us,
                         &ignored) != 0)
        return 0;
    text[len] = '\0';
    if (text[0] != GONE_MARK)
        return 0;
    long rank = strtol(text + 1, &end, 10);
    if (rank < 0 || rank >= m->place->world)
        return 0;
    return gave_up((int)rank, end + (*end == ' ' ? 1 : 0), err);
}

static int look_for_news(struct meet *m, struct ddp_err *err)
{
    int64_t now_us = mono_now_us();
    if (now_us < m->look_us)
        return 0;
    m->pause_us = mono_min(2 * m->pause_us, LOOK_MAX_US);
    m->look_us = now_us + m->pause_us;
    return hear_news(m, err);
}

/* Listens where this rank can be called, and writes that into `text`. */
static int listen_near(struct meet *m, char *text, struct ddp_err *err)
{
    struct addresses own;
    struct sockaddr_storage where;
    socklen_t len;
    if (store_client_local_addr(m->store, &m->seen, &len, m->deadline_us,
                                err) != 0 ||
        addresses_own(&own, &m->seen, m->place->spans_nodes, err) != 0)
        return -1;
    len = addresses_listen(&own, &where);
    m->listener =
        socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (m->listener < 0 ||
        bind(m->listener, (const struct sockaddr *)&where, len) != 0 ||
        listen(m->listener, SOMAXCONN) != 0 ||
        getsockname(m->listener, (struct sockaddr *)&where, &len) != 0)
        return ddp_err_sys(err,
                           errno == EADDRNOTAVAIL ? DDP_E_USAGE : DDP_E_NOMEM,
                           "cannot listen for the other ranks (is "
                           "DDP_LOCAL_ADDR an address of this machine?)");
    addresses_write(&own,
                    ntohs(where.ss_family == AF_INET6
                              ? ((struct sockaddr_in6 *)&where)->sin6_port
                              : ((struct sockaddr_in *)&where)->sin_port),
                    text);
    return 0;
}

/* Waits until `rank` has published where it can be called. */
static int
look_up(struct meet *m, int rank, struct addresses *to, struct ddp_err *err)
{
    char key[128], text[ADDRESSES_TEXT + 1];
    size_t len;
    store_key(key, sizeof(key), m->place, rank);
    if (store_client_get(m->store, key, text, sizeof(text) - 1, &len,
                         m->deadline_us, err) != 0)
        return ddp_err_wrap(err, "waiting for rank %d", rank);
    text[len] = '\0';
    if (text[0] == GONE_MARK)
        return gave_up(rank, text + 1 + strspn(text + 1, "0123456789 "), err);
    if (addresses_read(to, text, &m->seen) == 0)
        return 0;
    return ddp_err_set(
        err, DDP_E_PROTO,
        "the address of rank %d in the store is damaged: '%.80s'", rank, text);
}

/* Begins to connect. */
static int
call(struct meet *m, size_t i, const struct addresses *to, struct ddp_err *err)
{
    struct comm_link *l = &m->links[i];
    m->making[i].to = to;
    m->making[i].which = -1;
    if (call_next(m, i) == 0)
        return 0;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "no socket for the connection to rank %d", l->rank);
    return lost_peer(l->rank, err);
}

static int call_lower(struct meet *m, struct ddp_err *err)
{
    for (size_t i = 0; i < m->nlinks;) {
        struct addresses *to = &m->peers[i];
        int rank = m->links[i].rank, rc = 0;
        bool lower = rank < m->place->rank;
        if (lower && look_up(m, rank, to, err) != 0)
            return -1;
        for (; i < m->nlinks && m->links[i].rank == rank; i++)
            if (lower && rc == 0)
                rc = call(m, i, to, err);
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* -- all of it ------------------------------------------------------------- */

static int meet_all(struct meet *m, struct ddp_err *err)
{
    char text[ADDRESSES_TEXT], key[128];
    store_key(key, sizeof(key), m->place, m->place->rank);
    if (listen_near(m, text, err) != 0 ||
        store_client_set(m->store, key, text, strlen(text), m->deadline_us,
                         err) != 0 ||
        call_lower(m, err) != 0)
        return -1;
    while (m->missing > 0) {
        if (mono_now_us() >= m->deadline_us)
            return too_late(m, err);
        if (look_for_news(m, err) != 0 || meet_step(m, err) != 0)
            return -1;
    }
    return 0;
}

int comm_meet(const struct comm_place *place,
              struct store_client *store,
              struct comm_link *links,
              size_t nlinks,
              int64_t deadline_us,
              struct ddp_err *err)
{
    ddp_assert(nlinks <= COMM_LINKS_MAX);
    for (size_t i = 0; i < nlinks; i++)
        links[i].fd = -1;
    struct meet *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory to meet the ranks");
    *m = (struct meet){.place = place,
                       .store = store,
                       .links = links,
                       .nlinks = nlinks,
                       .missing = nlinks,
                       .deadline_us = deadline_us,
                       .look_us = mono_now_us() + comm_meet_look_us,
                       .pause_us = comm_meet_look_us,
                       .listener = -1};
    for (size_t i = 0; i < PENDING_MAX; i++)
        m->pending[i].fd = -1;
    int rc;
    m->peers = calloc(nlinks, sizeof(*m->peers));
    if (m->peers == NULL)
        rc = ddp_err_set(err, DDP_E_NOMEM, "no memory to meet the ranks");
    else
        rc = meet_all(m, err);
    if (rc != 0 && (err->code == DDP_E_PEER || err->code == DDP_E_PROTO ||
                    err->code == DDP_E_TIMEOUT))
        (void)hear_news(m, err); /* it says better why */
    for (size_t i = 0; i < nlinks; i++)
        ddp_assert(rc != 0 || links[i].fd >= 0);
    for (size_t i = 0; i < PENDING_MAX; i++)
        if (m->pending[i].fd >= 0)
            (void)close(m->pending[i].fd); /* no rank of ours, or too late */
    if (m->listener >= 0)
        (void)close(m->listener); /* all are here, or it failed */
    free(m->peers);
    free(m);
    return rc;
}
