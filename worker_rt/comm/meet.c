/*
 * worker_rt/comm/meet: the ranks of a communicator find each other.
 *
 * Happy path of a rank. It listens where the store sees it, and publishes that
 * address with its signature. It looks up the lower ranks that it needs, and
 * calls them; it says its own rank on each connection, checks the proof that
 * comes back, and sends its own. Meanwhile it accepts the higher ranks, hears
 * their ranks, proves that it has the key of the round, and waits for their
 * proof. It ends when all links are made.
 *
 * Failure modes. A caller that belongs to another run, round or communicator:
 * it is refused with a reason, and fails with that (PROTO). A caller that says
 * nothing, or anything else than a hello, or has not the key: closed, counted,
 * and the meeting goes on. More of these than are heard at once: the one that
 * has been silent longest gives way. What answers a call has not the key, or
 * the address in the store was not signed by it: PROTO. A rank dies after it
 * was connected: PEER at once. A rank dies before, or never comes: TIMEOUT at
 * the deadline, with the ranks that are missing. The store goes away: its
 * errors. A rank cannot go on: it says so in the store, where all others look
 * while they wait, or when the meeting fails. A rank with several addresses
 * comes late to a call, since it looks up others: they are called in turn until
 * the deadline, as long as one of them does not refuse.
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
#include "worker_rt/comm/addresses.h"
#include "worker_rt/comm/hello.h"
#include "worker_rt/rt.h"

#define PENDING_MAX 64 /* connections that have not proven anything yet */
#define HELLO_US    (5 * MONO_S) /* for a hello, and for the proof; > ASK_US */
#define CROWDED_US  (100 * MONO_MS) /* so long at least, if others wait, too */
#define SIGN_LEN    17              /* a blank and 64 bits, in the store */
#define TRY_US      (3 * MONO_S)    /* an address, if there are others */
#define LOOK_MAX_US (8 * MONO_S)    /* between two looks for bad news */
#define ASK_US      (2 * MONO_S)    /* the store has this to tell them */
#define GONE_MARK   '!' /* before a reason, in the place of addresses */
#define NEWS_MAX    160 /* bytes of a reason with its rank, and NUL */

int64_t comm_meet_look_us = 1 * MONO_S;

/* A connection that came in and has not yet proven of which rank it is. */
struct pending {
    int fd; /* -1: free */
    enum {
        PENDING_HELLO,
        PENDING_PROOF /* we have answered */
    } state;
    struct sockaddr_storage from;
    struct hello hello;
    struct hello_reply reply; /* ours */
    uint64_t proof;
    size_t have;      /* of what is awaited */
    int64_t since_us; /* in this state */
};

/* What belongs to a link while it is being made. */
struct making {
    enum {
        MAKING_NOTHING, /* a higher rank calls, or we have not called yet */
        MAKING_CALLED,  /* we connect; our hello goes out once that is done */
        MAKING_HELLO_SENT, /* our hello is sent, and the answer is due */
        MAKING_DONE
    } state;
    struct hello hello; /* ours */
    struct hello_reply reply;
    size_t have;
    const struct addresses *to; /* of a lower rank; NULL: not called yet */
    int which;                  /* of these is called */
    int64_t until_us;           /* then the next one is */
    bool was_silent;            /* one of those before */
};

struct meet {
    const struct comm_place *place;
    struct store_client *store;
    struct comm_link *links;
    size_t nlinks;
    size_t missing;
    int64_t deadline_us;
    int listener;                           /* -1: none */
    int64_t look_us;                        /* for bad news; and when .. */
    int64_t pause_us;                       /* .. after that */
    struct sockaddr_storage seen;           /* where the store sees us */
    char own[ADDRESSES_ONE];                /* where we are called */
    struct addresses peers[COMM_LINKS_MAX]; /* where to call each */
    struct making making[COMM_LINKS_MAX];
    struct pending pending[PENDING_MAX];
};

/* -- the first words ------------------------------------------------------- */

/* On a fresh connection so few bytes always fit into the kernel's buffer. */
static bool say(int fd, const void *words, size_t len)
{
    return send(fd, words, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* Reads on. 1: `len` bytes are there, 0: not yet, -1: the other end is gone
 * (with errno, 0 for an end of file). */
static int hear(int fd, void *words, size_t len, size_t *have)
{
    ddp_assert(*have < len);
    ssize_t n = recv(fd, (uint8_t *)words + *have, len - *have, 0);
    if (n == 0)
        errno = 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return -1;
    if (n > 0)
        *have += (size_t)n;
    return *have == len;
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

static void hang_up(struct pending *p)
{
    (void)close(p->fd); /* it is heard no more */
    p->fd = -1;
}

/* No rank of this round: `why` goes on from "it". */
static void turn_away(struct meet *m, struct pending *p, const char *why)
{
    char from[ADDRESSES_ONE];
    struct rt_strangers *all = m->place->strangers;
    hang_up(p);
    if (all == NULL || all->n++ > 0)
        return;
    addresses_show(&p->from, from);
    (void)snprintf(all->first, sizeof(all->first), "%s, which %s", from,
                   why); /* fits */
}

/* Whether the caller has hung up. It may have been a rank that calls anew, at
 * another address (leave_silent). */
static bool has_left(const struct pending *p)
{
    char more;
    ssize_t n = recv(p->fd, &more, sizeof(more), MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Its hello is whole. Ranks that call at a wrong address are no strangers. */
static void answer(struct meet *m, struct pending *p)
{
    enum hello_answer answer = hello_check(m->place, &p->hello);
    if (answer == HELLO_TAKEN && awaited(m, &p->hello) == m->nlinks)
        answer = HELLO_NO_SUCH_PLACE;
    hello_reply_make(&p->reply, m->place, &p->hello, answer);
    bool said = say(p->fd, &p->reply, sizeof(p->reply));
    if (answer == HELLO_OTHER_INSTANCE)
        turn_away(m, p, "belongs to another run");
    else if (answer == HELLO_OTHER_ROUND)
        turn_away(m, p, "is in another round");
    else if (!said || answer != HELLO_TAKEN)
        hang_up(p);
    p->state = PENDING_PROOF;
    p->have = 0;
    p->since_us = mono_now_us();
}

static void take(struct meet *m, struct pending *p)
{
    size_t i = awaited(m, &p->hello);
    if (p->proof != hello_proof(m->place, &p->hello, &p->reply)) {
        turn_away(m, p, "has not the key of this round");
    } else if (i == m->nlinks) {
        hang_up(p); /* it has called twice */
    } else {
        set_made(m, i, p->fd);
        p->fd = -1;
    }
}

/* As far as it has come: another program is not waited for. */
static void on_hello(struct meet *m, struct pending *p)
{
    int heard = hear(p->fd, &p->hello, sizeof(p->hello), &p->have);
    if (!hello_begins(&p->hello, p->have))
        turn_away(m, p, "speaks another protocol");
    else if (heard < 0 && p->have > 0)
        turn_away(m, p, "left in the middle of a word");
    else if (heard < 0 || (heard > 0 && has_left(p)))
        hang_up(p); /* it only looked, or gave up */
    else if (heard > 0)
        answer(m, p);
}

static void on_pending(struct meet *m, struct pending *p)
{
    if (p->state == PENDING_HELLO) {
        on_hello(m, p);
        return;
    }
    int heard = hear(p->fd, &p->proof, sizeof(p->proof), &p->have);
    if (heard < 0)
        turn_away(m, p, "left without a proof that it has the key");
    else if (heard > 0)
        take(m, p);
}

/* The one that is silent longest, those without a hello first; NULL: there is a
 * free one. */
static struct pending *most_silent(struct meet *m)
{
    struct pending *most = &m->pending[0];
    for (size_t i = 0; i < PENDING_MAX; i++) {
        struct pending *p = &m->pending[i];
        if (p->fd < 0)
            return NULL;
        if (p->state < most->state ||
            (p->state == most->state && p->since_us < most->since_us))
            most = p;
    }
    return most;
}

static struct pending *make_room(struct meet *m)
{
    struct pending *p = most_silent(m);
    if (p != NULL) {
        turn_away(m, p, "said nothing while others waited");
        return p;
    }
    for (p = m->pending; p->fd >= 0;)
        p++;
    return p;
}

/* The hello of a rank is mostly there already. */
static int on_listener(struct meet *m, struct ddp_err *err)
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof(from);
    int fd = accept4(m->listener, (struct sockaddr *)&from, &len,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot accept a connection");
    if (fd < 0)
        return 0; /* it gave up before we came to it */
    dial_tune(fd);
    struct pending *p = make_room(m);
    *p = (struct pending){.fd = fd, .from = from, .since_us = mono_now_us()};
    on_pending(m, p);
    return 0;
}

/* Behind the last one comes the first again, if one was silent: its rank may
 * still wait for others, and has not come to the call. */
static bool next_address(struct making *make)
{
    if (++make->which >= make->to->n && make->was_silent) {
        make->was_silent = false;
        make->which = 0;
    }
    return make->which < make->to->n;
}

/* Nobody answers there, or somebody else does. 0: the next address of the rank
 * is called. -1: none is left that can be, and the call before stays as it is.
 */
static int call_next(struct meet *m, size_t i)
{
    struct comm_link *l = &m->links[i];
    struct making *make = &m->making[i];
    while (make->to != NULL && next_address(make)) {
        int fd =
            dial_begin((const struct sockaddr *)&make->to->at[make->which]);
        if (fd < 0)
            continue;
        if (l->fd >= 0)
            (void)close(l->fd); /* the other address is called now */
        l->fd = fd;
        make->state = MAKING_CALLED;
        make->have = 0;
        make->until_us = mono_after(mono_now_us(), TRY_US);
        return 0;
    }
    return -1;
}

/* `at`: where it was called; "": it was here already. */
static int lost_peer(int rank, const char *at, struct ddp_err *err)
{
    static const char what[] = "rank %d%s%s died or gave up while the ranks "
                               "met";
    const char *joint = at[0] != '\0' ? " at " : "";
    if (errno == 0)
        return ddp_err_set(err, DDP_E_PEER, what, rank, joint, at);
    return ddp_err_sys(err, DDP_E_PEER, what, rank, joint, at);
}

/* Where the link's rank was called last. */
static const char *called_at(const struct meet *m, size_t i, char *text)
{
    const struct making *make = &m->making[i];
    int which = make->which < make->to->n ? make->which : make->to->n - 1;
    addresses_show(&make->to->at[which], text);
    return text;
}

/* A call that failed, with errno. */
static int not_called(struct meet *m, size_t i, struct ddp_err *err)
{
    char at[ADDRESSES_ONE];
    int error = errno, rank = m->links[i].rank;
    if (call_next(m, i) == 0)
        return 0;
    errno = error;
    (void)lost_peer(rank, called_at(m, i, at), err);
    /* A call that leads back to this machine cannot reach another one. */
    if (!addresses_is_loopback(&m->seen) &&
        addresses_is_loopback(&m->making[i].to->at[0]))
        (void)ddp_err_wrap(err,
                           "rank %d can be called at a loopback address only, "
                           "which leads to this machine itself (set "
                           "DDP_LOCAL_ADDR or DDP_SOCKET_IFNAME there)",
                           rank);
    return -1;
}

static int on_answer(struct meet *m, size_t i, struct ddp_err *err)
{
    char at[ADDRESSES_ONE];
    const struct comm_link *l = &m->links[i];
    const struct making *make = &m->making[i];
    enum hello_answer answer =
        hello_reply_check(m->place, &make->hello, &make->reply);
    uint64_t proof = hello_proof(m->place, &make->hello, &make->reply);
    if (answer == HELLO_TAKEN && say(l->fd, &proof, sizeof(proof))) {
        set_made(m, i, l->fd);
        return 0;
    }
    if (answer == HELLO_TAKEN)
        return not_called(m, i, err);
    (void)called_at(m, i, at);
    if (call_next(m, i) == 0)
        return 0; /* that was another machine's address, and this one's, too */
    return ddp_err_set(
        err, DDP_E_PROTO,
        "rank %d did not take the connection of rank %d to %s: %s", l->rank,
        m->place->rank, at, hello_answer_text(answer));
}

/* A connection that we make: established, or its answer came. */
static int on_calling(struct meet *m, size_t i, struct ddp_err *err)
{
    const struct comm_link *l = &m->links[i];
    struct making *make = &m->making[i];
    ddp_assert(make->state == MAKING_CALLED ||
               make->state == MAKING_HELLO_SENT);
    if (make->state == MAKING_CALLED) {
        hello_make(&make->hello, m->place, (uint32_t)l->rank,
                   (uint32_t)l->lane);
        errno = dial_result(l->fd);
        if (errno != 0 || !say(l->fd, &make->hello, sizeof(make->hello)))
            return not_called(m, i, err);
        make->state = MAKING_HELLO_SENT;
        return 0;
    }
    int heard = hear(l->fd, &make->reply, sizeof(make->reply), &make->have);
    if (heard < 0)
        return not_called(m, i, err);
    return heard > 0 ? on_answer(m, i, err) : 0;
}

/* -- the loop -------------------------------------------------------------- */

/* Where a missing rank did not answer, or was to call. */
static void say_where(const struct meet *m, size_t i, struct ddp_err *err)
{
    char at[ADDRESSES_ONE], text[sizeof(err->text)];
    bool calls_us = m->making[i].state == MAKING_NOTHING;
    (void)snprintf(text, sizeof(text), "%.130s%s%s", err->text, /* fits */
                   calls_us ? ", which was to call " : ", silent at ",
                   calls_us ? m->own : called_at(m, i, at));
    memcpy(err->text, text, sizeof(text));
}

static int too_late(const struct meet *m, struct ddp_err *err)
{
    char ranks[80] = "";
    size_t used = 0, which = m->nlinks;
    int named = 0;
    int last = m->place->rank; /* none: each rank is named once */
    for (size_t i = 0; i < m->nlinks && used < sizeof(ranks) - 16; i++) {
        if (m->making[i].state == MAKING_DONE || m->links[i].rank == last)
            continue;
        last = m->links[i].rank;
        which = i;
        named++;
        used += (size_t)snprintf(ranks + used, sizeof(ranks) - used, "%s%d",
                                 used == 0 ? "" : ", ", last);
    }
    (void)ddp_err_set(err, DDP_E_TIMEOUT,
                      "rank %d gave up waiting for rank%s %s", m->place->rank,
                      named == 1 ? "" : "s", ranks);
    if (which < m->nlinks)
        say_where(m, which, err); /* the last that is named */
    return -1;
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
            return lost_peer(m->links[i].rank, "", err);
        if (on_calling(m, i, err) != 0)
            return -1;
    }
    return 0;
}

/* Addresses that do not answer: the only one is waited for until the deadline.
 */
static void leave_silent(struct meet *m, int64_t *wake_us)
{
    int64_t now_us = mono_now_us();
    for (size_t i = 0; i < m->nlinks; i++) {
        struct making *make = &m->making[i];
        if ((make->state != MAKING_CALLED &&
             make->state != MAKING_HELLO_SENT) ||
            make->to->n < 2)
            continue;
        if (now_us >= make->until_us) {
            make->until_us = mono_after(now_us, TRY_US);
            make->was_silent = true;
            (void)call_next(m, i); /* or this one is waited for */
        }
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
        if (p->fd >= 0 && now_us >= mono_after(p->since_us, HELLO_US))
            turn_away(m, p, "said nothing");
    }
}

static int meet_step(struct meet *m, struct ddp_err *err)
{
    struct pollfd pfd[COMM_LINKS_MAX + PENDING_MAX + 1];
    struct pollfd *pending = pfd + m->nlinks;
    int64_t wake_us = mono_min(m->deadline_us, m->look_us);
    const struct pending *most = most_silent(m);
    int64_t listen_us = /* one more can be accepted from then on */
        most == NULL ? 0 : mono_after(most->since_us, CROWDED_US);
    bool listens = mono_now_us() >= listen_us;
    leave_silent(m, &wake_us);
    for (size_t i = 0; i < m->nlinks; i++)
        pfd[i] = ask(m, i);
    for (size_t i = 0; i < PENDING_MAX; i++) {
        pending[i] = (struct pollfd){.fd = m->pending[i].fd, .events = POLLIN};
        if (m->pending[i].fd >= 0)
            wake_us =
                mono_min(wake_us, mono_after(m->pending[i].since_us, HELLO_US));
    }
    if (!listens)
        wake_us = mono_min(wake_us, listen_us);
    pending[PENDING_MAX] =
        (struct pollfd){.fd = listens ? m->listener : -1, .events = POLLIN};
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

/* -- the store ------------------------------------------------------------- */

#define KEY_MAX 128

/* Where a rank puts its addresses; NEWS: where one that gave up stands with
 * "!", its number and the reason. */
#define NEWS (-1)
static void
store_key(char key[KEY_MAX], const struct comm_place *place, int rank)
{
    int n = snprintf(key, KEY_MAX, "ddp/%s/%lld/comm%u/", place->instance,
                     (long long)place->round, place->id);
    ddp_assert(n > 0 && n < KEY_MAX - 16); /* three short fields */
    if (rank == NEWS)
        memcpy(key + n, "news", sizeof("news"));
    else
        (void)snprintf(key + n, KEY_MAX - (size_t)n, "%d", rank); /* fits */
}

/* -- bad news -------------------------------------------------------------- */

/* `why` is a peer's. */
static int gave_up(int rank, const char *why, struct ddp_err *err)
{
    (void)ddp_err_set(err, DDP_E_PEER,
                      "rank %d gave up while the ranks met: %s", rank, why);
    rt_make_line(err->text, sizeof(err->text));
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
    char key[KEY_MAX], text[NEWS_MAX];
    (void)snprintf(text, sizeof(text), "%c%d %.120s", GONE_MARK, place->rank,
                   why->text); /* fits */
    store_key(key, place, place->rank);
    set_quickly(store, key, text);
    store_key(key, place, NEWS);
    set_quickly(store, key, text);
}

/* PEER: a rank has said that it gave up. A store that does not answer has
 * nothing to say. */
static int hear_news(struct meet *m, struct ddp_err *err)
{
    char key[KEY_MAX], text[NEWS_MAX], *end;
    struct ddp_err ignored;
    size_t len = 0;
    bool there = false;
    int64_t until_us = mono_after(mono_now_us(), ASK_US);
    store_key(key, m->place, NEWS);
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

/* With its signature. */
static void write_own(struct meet *m,
                      struct addresses *own,
                      const struct sockaddr_storage *where,
                      char text[ADDRESSES_TEXT + SIGN_LEN])
{
    _Static_assert(offsetof(struct sockaddr_in, sin_port) ==
                       offsetof(struct sockaddr_in6, sin6_port),
                   "a port stands in the same place");
    in_port_t port = ((const struct sockaddr_in *)where)->sin_port;
    addresses_write(own, ntohs(port), text);
    ((struct sockaddr_in *)&own->at[0])->sin_port = port;
    addresses_show(&own->at[0], m->own);
    uint64_t sign = hello_sign_address(m->place, m->place->rank, text);
    (void)snprintf(text + strlen(text), SIGN_LEN + 1, " %016llx", /* fits */
                   (unsigned long long)sign);
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
    write_own(m, &own, &where, text);
    return 0;
}

/* Waits until `rank` has published where it can be called. */
static int
look_up(struct meet *m, int rank, struct addresses *to, struct ddp_err *err)
{
    char key[KEY_MAX], text[ADDRESSES_TEXT + SIGN_LEN + 1];
    size_t len;
    store_key(key, m->place, rank);
    if (store_client_get(m->store, key, text, sizeof(text) - 1, &len,
                         m->deadline_us, err) != 0)
        return ddp_err_wrap(err, "waiting for rank %d", rank);
    text[len] = '\0';
    if (text[0] == GONE_MARK)
        return gave_up(rank, text + 1 + strspn(text + 1, "0123456789 "), err);
    if (!hello_unsign_address(m->place, rank, text))
        return ddp_err_set(err, DDP_E_PROTO,
                           "the address of rank %d in the store was not put "
                           "there by a rank of this round",
                           rank);
    if (addresses_read(to, text, &m->seen) == 0)
        return 0;
    return ddp_err_set(
        err, DDP_E_PROTO,
        "the address of rank %d in the store is damaged: '%.80s'", rank, text);
}

/* Those that it needs are looked up before the first is called: a rank that is
 * called hears a hello soon. */
static int look_up_lower(struct meet *m, struct ddp_err *err)
{
    for (size_t i = 0; i < m->nlinks; i++) {
        int rank = m->links[i].rank;
        if (i > 0 && m->links[i - 1].rank == rank)
            m->peers[i] = m->peers[i - 1];
        else if (rank < m->place->rank &&
                 look_up(m, rank, &m->peers[i], err) != 0)
            return -1;
    }
    return 0;
}

/* Begins to connect. */
static int call_lower(struct meet *m, struct ddp_err *err)
{
    char at[ADDRESSES_ONE];
    for (size_t i = 0; i < m->nlinks; i++) {
        int rank = m->links[i].rank;
        if (rank >= m->place->rank)
            continue;
        m->making[i].to = &m->peers[i];
        m->making[i].which = -1;
        if (call_next(m, i) == 0)
            continue;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
            errno == ENOMEM)
            return ddp_err_sys(err, DDP_E_NOMEM,
                               "no socket for the connection to rank %d", rank);
        addresses_show(&m->peers[i].at[0], at);
        return lost_peer(rank, at, err);
    }
    return 0;
}

/* -- all of it ------------------------------------------------------------- */

static int meet_all(struct meet *m, struct ddp_err *err)
{
    char text[ADDRESSES_TEXT + SIGN_LEN], key[KEY_MAX];
    store_key(key, m->place, m->place->rank);
    if (listen_near(m, text, err) != 0 ||
        store_client_set(m->store, key, text, strlen(text), m->deadline_us,
                         err) != 0 ||
        look_up_lower(m, err) != 0 || call_lower(m, err) != 0)
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
    int rc = meet_all(m, err);
    if (rc != 0 && (err->code == DDP_E_PEER || err->code == DDP_E_PROTO ||
                    err->code == DDP_E_TIMEOUT))
        (void)hear_news(m, err); /* it says better why */
    for (size_t i = 0; i < nlinks; i++)
        ddp_assert(rc != 0 || links[i].fd >= 0);
    for (size_t i = 0; i < PENDING_MAX; i++)
        if (m->pending[i].fd >= 0 && rc == 0)
            turn_away(m, &m->pending[i], "said nothing"); /* all are here */
        else if (m->pending[i].fd >= 0)
            hang_up(&m->pending[i]);
    if (m->listener >= 0)
        (void)close(m->listener); /* all are here, or it failed */
    free(m);
    return rc;
}
