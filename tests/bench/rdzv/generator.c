/*
 * Happy path: PHASE_JOIN connects so many agents at a time as WINDOW allows;
 * all that comes in is read as it comes, and beats are said in the order in
 * which they are due. In PHASE_MOVE the server is killed: whoever reads the end
 * of its connection connects to the next server.
 *
 * Failure modes: whatever the phase does not expect ends the process (die): a
 * connection that is closed, a message of an unknown kind, a round that is
 * over.
 */
#include "tests/bench/rdzv/generator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/proto/frame.h"

#define WINDOW          256  /* connections that a process makes at a time */
#define BEATS_PER_LEASE 10   /* session.c of the agent */
#define PART_MAX        2048 /* of a message that came in pieces */
#define WORLD_MAX       640
#define READ_MAX        65536

struct peer {
    int fd; /* -1: not connected, or gone */
    bool began, greeted, joined;
    bool in_fifo, on_next, has_moved;
    struct tls *tls; /* NULL: without a token, or not connected */
    struct buf sealed;
    struct ballot ballot;
    int part_len, world_len;
    int64_t beat_us, due_us, lease_until_us;
    int64_t seq;
    char part[PART_MAX];
    char world[WORLD_MAX];
};

struct gen {
    int index, epoll, pipe;
    int first, n; /* its agents */
    int n_begun, n_greeted, n_world, n_stopped, n_live, n_moved;
    int64_t round;
    bool armed; /* the server may be killed */
    enum phase phase;
    int64_t idle_until_us;
    int *fifo; /* agents in the order of their next beats */
    int fifo_at, fifo_len;
    int *lost; /* agents in the order in which they have to connect again */
    int n_lost, n_again;
    struct peer *peers;
    char *join; /* encoded, SPEAK_JOIN_MAX bytes for each */
    int *join_len;
};

static struct scores *shared;
static struct tls_key *token;
static const struct workload *play;

static void *zalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        die("out of memory");
    return p;
}

/* -- saying it ------------------------------------------------------------- */

/* They are small, and the server reads: what does not fit at once is a
 * failure. An agent that was given up learns it by what it reads next. */
static void
write_all(struct gen *g, struct peer *p, const void *data, size_t len)
{
    ssize_t n = write(p->fd, data, len);
    bool is_gone = n < 0 && (errno == EPIPE || errno == ECONNRESET);
    bool may_go = g->phase == PHASE_IDLE || g->armed;
    if (n != (ssize_t)len && !(is_gone && may_go))
        die("agent %d cannot send: %s", g->first + (int)(p - g->peers),
            strerror(errno));
}

/* What TLS has to send, of the handshake or encrypted. */
static void send_sealed(struct gen *g, struct peer *p)
{
    if (buf_len(&p->sealed) > 0)
        write_all(g, p, buf_head(&p->sealed), buf_len(&p->sealed));
    buf_free(&p->sealed);
}

static void say(struct gen *g, struct peer *p, const void *data, int len)
{
    if (p->tls == NULL) {
        write_all(g, p, data, (size_t)len);
        return;
    }
    if (tls_seal(p->tls, data, (size_t)len) != 0)
        die("TLS: %s", tls_why(p->tls));
    send_sealed(g, p);
}

static int next_beat(struct gen *g, struct peer *p, int64_t now_us, char *out)
{
    int64_t heard = p->seq++;
    p->beat_us = now_us;
    return speak_beat(p->seq, heard, p->world_len > 0 ? g->round : 0, out);
}

static void say_beat(struct gen *g, struct peer *p, int64_t now_us)
{
    char out[SPEAK_MAX];
    say(g, p, out, next_beat(g, p, now_us, out));
}

static void say_ready(struct gen *g)
{
    char out[SPEAK_MAX];
    int len = speak_ready(g->round, out);
    for (int i = 0; i < g->n; i++)
        if (g->peers[i].fd >= 0)
            say(g, &g->peers[i], out, len);
}

/* -- connecting ------------------------------------------------------------ */

static int64_t beat_every_us(void)
{
    return play->speak.heartbeat_ms * MONO_MS / BEATS_PER_LEASE;
}

static void queue_beat(struct gen *g, int i, int64_t now_us)
{
    g->peers[i].due_us = now_us + beat_every_us();
    g->peers[i].in_fifo = true;
    g->fifo[(g->fifo_at + g->fifo_len++) % g->n] = i;
}

static void said_join(struct gen *g, int i)
{
    struct peer *p = &g->peers[i];
    p->joined = true;
    p->beat_us = mono_now_us();
    if (!p->in_fifo)
        queue_beat(g, i, p->beat_us);
}

/* What the next server has to know of its vote comes behind the join. */
static void say_vote(struct gen *g, int i)
{
    char out[SPEAK_VOTE_MAX];
    struct msg m;
    struct ddp_err err;
    struct peer *p = &g->peers[i];
    if (!g->armed || p->ballot.voters == NULL)
        return;
    if (msg_decode(p->world, (size_t)p->world_len, &m, &err) != 0)
        die("%s", err.text);
    say(g, p, out, speak_voted(&p->ballot, &m.world, out));
}

/* The first bytes: the join, or TLS's hello; the join follows then. */
static void say_first(struct gen *g, int i)
{
    struct peer *p = &g->peers[i];
    const void *data = g->join + (size_t)i * SPEAK_JOIN_MAX;
    size_t len = (size_t)g->join_len[i];
    if (token != NULL) {
        if (p->tls == NULL) {
            buf_init(&p->sealed, 65536);
            p->tls = tls_new(token, false, &p->sealed);
        }
        data = buf_head(&p->sealed);
        len = buf_len(&p->sealed);
    }
    ssize_t n = write(p->fd, data, len);
    if (n < 0 && errno == EAGAIN)
        return; /* not connected yet: EPOLLOUT comes */
    if (n != (ssize_t)len)
        die("agent %d cannot join: %s", g->first + i, strerror(errno));
    buf_free(&p->sealed);
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    if (epoll_ctl(g->epoll, EPOLL_CTL_MOD, p->fd, &ev) != 0)
        die("epoll: %s", strerror(errno));
    p->began = true;
    if (token == NULL) {
        said_join(g, i);
        say_vote(g, i);
    }
}

static void begin_one(struct gen *g, int i)
{
    int on = 1;
    struct peer *p = &g->peers[i];
    g->n_begun++;
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr =
                                   htonl(0x7f000002u + (uint32_t)g->index)};
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)(g->armed ? play->next_port : play->port)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0)
        die("socket: %s", strerror(errno));
    (void)setsockopt(p->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on,
                     sizeof(on));
    (void)setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(p->fd, (struct sockaddr *)&from, sizeof(from)) != 0)
        die("bind: %s", strerror(errno));
    if (connect(p->fd, (struct sockaddr *)&to, sizeof(to)) != 0 &&
        errno != EINPROGRESS)
        die("connect: %s", strerror(errno));
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT,
                             .data.u32 = (uint32_t)i};
    if (epoll_ctl(g->epoll, EPOLL_CTL_ADD, p->fd, &ev) != 0)
        die("epoll: %s", strerror(errno));
    say_first(g, i);
}

static void begin_some(struct gen *g)
{
    while (g->n_begun < g->n && g->n_begun - g->n_greeted < WINDOW)
        begin_one(g, g->n_begun);
    while (g->n_again < g->n_lost && g->n_begun - g->n_greeted < WINDOW)
        begin_one(g, g->lost[g->n_again++]);
}

/* -- what comes in --------------------------------------------------------- */

static void report(struct gen *g)
{
    char byte = (char)g->phase;
    g->phase = 0;
    if (write(g->pipe, &byte, 1) != 1)
        die("the coordinator is gone");
}

static void raise_to(atomic_llong *at, int64_t v)
{
    long long old = atomic_load(at);
    while (v > old && !atomic_compare_exchange_weak(at, &old, v))
        ;
}

/* As an agent: by the newest grant, from when its beat was sent. */
static void take_lease(struct peer *p, const void *json, size_t len)
{
    struct msg m;
    struct ddp_err err;
    int64_t now_us = mono_now_us();
    if (msg_decode(json, len, &m, &err) != 0)
        die("%s", err.text);
    if (m.lease.seq != p->seq)
        return;
    if (p->lease_until_us != 0 && now_us > p->lease_until_us)
        atomic_fetch_add(&shared->fenced, 1);
    p->lease_until_us = p->beat_us + m.lease.grant_ms * MONO_MS;
    raise_to(&shared->slowest_us, now_us - p->beat_us);
}

static bool has_text(const char *json, int len, const char *text)
{
    return memmem(json, (size_t)len, text, strlen(text)) != NULL;
}

/* One that is pending comes to be in force by `go`. */
static void take_world(struct gen *g, struct peer *p, const char *json, int len)
{
    if (len > WORLD_MAX)
        die("a world of %d bytes", len);
    memcpy(p->world, json, (size_t)len);
    p->world_len = len;
    g->n_world += !has_text(json, len, "\"pending\":1");
}

/* The first one at the next server that grants something. */
static void
count_moved(struct gen *g, struct peer *p, const char *json, int len)
{
    if (!p->on_next || p->has_moved || has_text(json, len, "\"grant_ms\":0"))
        return;
    p->has_moved = true;
    g->n_moved++;
    shared->leased_us[g->first + (int)(p - g->peers)] = mono_now_us();
}

static void
take_prepare(struct gen *g, struct peer *p, const char *json, int len)
{
    char out[2 * SPEAK_MAX];
    struct term known = p->ballot.term;
    int n = speak_promise(&p->ballot, json, len, out);
    if (term_cmp(&p->ballot.term, &known) != 0)
        n += next_beat(g, p, mono_now_us(), out + n);
    say(g, p, out, n);
}

static void
take_voters(struct gen *g, struct peer *p, const char *json, int len)
{
    char out[SPEAK_MAX];
    int answer = speak_accept(&p->ballot, json, len, out);
    if (answer > 0)
        say(g, p, out, answer);
}

static void take_msg(struct gen *g, struct peer *p, const char *json, int len)
{
    static const char start[] = "{\"kind\":\"";
    const char *kind = json + sizeof(start) - 1;
    if (len < 16 || memcmp(json, start, sizeof(start) - 1) != 0)
        die("what came is no message of ours");
    if (memcmp(kind, "world", 5) == 0) {
        take_world(g, p, json, len);
    } else if (memcmp(kind, "stop", 4) == 0) {
        if (g->armed)
            die("the round is over: %.*s", len, json);
        shared->told_us[g->first + (int)(p - g->peers)] = mono_now_us();
        g->n_stopped++;
    } else if (memcmp(kind, "lease", 5) == 0) {
        if (g->phase == PHASE_IDLE)
            take_lease(p, json, (size_t)len);
        count_moved(g, p, json, len);
    } else if (memcmp(kind, "prepare", 7) == 0) {
        take_prepare(g, p, json, len);
    } else if (memcmp(kind, "voters", 6) == 0) {
        take_voters(g, p, json, len);
    } else if (memcmp(kind, "go\"", 3) == 0) {
        g->n_world++;
    } else if (memcmp(kind, "waiting", 7) != 0) {
        die("unexpected: %.*s", len, json);
    }
}

/* Takes what is whole of `data`; returns how much that was. */
static int take_bytes(struct gen *g, struct peer *p, const char *data, int len)
{
    int at = 0;
    if (!p->greeted) {
        if (len < (int)FRAME_HELLO_LEN)
            return 0;
        if (memcmp(data, FRAME_HELLO, FRAME_HELLO_LEN) != 0)
            die("no hello came");
        p->greeted = true;
        g->n_greeted++;
        at = (int)FRAME_HELLO_LEN;
    }
    while (len - at >= 4) {
        const unsigned char *h = (const unsigned char *)data + at;
        int size = h[0] | h[1] << 8 | h[2] << 16;
        if (size + 4 > PART_MAX)
            die("a frame of %d bytes", size);
        if (len - at - 4 < size)
            break;
        take_msg(g, p, data + at + 4, size);
        at += size + 4;
    }
    return at;
}

/* It comes again elsewhere, once there is room for one more connection. */
static void move_on(struct gen *g, struct peer *p)
{
    (void)close(p->fd);
    tls_free(p->tls);
    buf_free(&p->sealed);
    p->tls = NULL;
    p->fd = -1;
    p->on_next = true;
    p->began = p->greeted = p->joined = false;
    p->part_len = 0;
    p->seq = 0;
    g->lost[g->n_lost++] = (int)(p - g->peers);
}

static void on_gone(struct gen *g, struct peer *p)
{
    if (g->armed && !p->on_next) {
        move_on(g, p);
        return;
    }
    if (g->phase != PHASE_IDLE)
        die("the server closed agent %d's connection",
            g->first + (int)(p - g->peers));
    atomic_fetch_add(&shared->false_losses, 1);
    (void)close(p->fd);
    p->fd = -1;
}

/* Takes plain text, as it comes. */
static void take_text(struct gen *g, struct peer *p, const char *text, int n)
{
    static char data[READ_MAX + PART_MAX];
    const char *at = text;
    int len = n;
    if (p->part_len > 0) {
        memcpy(data, p->part, (size_t)p->part_len);
        memcpy(data + p->part_len, text, (size_t)n);
        at = data;
        len += p->part_len;
    }
    int used = take_bytes(g, p, at, len);
    p->part_len = len - used;
    memcpy(p->part, at + used, (size_t)p->part_len);
}

static void take_sealed(struct gen *g, struct peer *p, char *data, int len)
{
    static uint8_t text[READ_MAX];
    bool was_up = tls_state(p->tls) == TLS_UP;
    size_t n;
    tls_give(p->tls, (uint8_t *)data, (size_t)len);
    do {
        n = tls_take(p->tls, text, sizeof(text));
        if (tls_state(p->tls) == TLS_FAILED)
            die("TLS: %s", tls_why(p->tls));
        if (!was_up && tls_state(p->tls) == TLS_UP) {
            int i = (int)(p - g->peers);
            was_up = true;
            say(g, p, g->join + (size_t)i * SPEAK_JOIN_MAX, g->join_len[i]);
            said_join(g, i);
            say_vote(g, i);
        }
        take_text(g, p, (char *)text, (int)n);
    } while (n > 0);
    if (tls_state(p->tls) == TLS_OVER)
        on_gone(g, p); /* its FIN comes behind that */
}

static void on_readable(struct gen *g, struct peer *p)
{
    static char data[READ_MAX];
    ssize_t n = read(p->fd, data, sizeof(data));
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        on_gone(g, p);
    else if (p->tls != NULL)
        take_sealed(g, p, data, (int)n);
    else
        take_text(g, p, data, (int)n);
    shared->last_us[g->index] = mono_now_us();
}

/* -- a generator's process ------------------------------------------------- */

static void lose_one(struct gen *g)
{
    struct peer *p = &g->peers[g->n / 2];
    g->n_live--;
    shared->lost_at_us = mono_now_us();
    /* A FIN, whatever lies unread there: closing might send a reset. */
    if (shutdown(p->fd, SHUT_WR) != 0 ||
        epoll_ctl(g->epoll, EPOLL_CTL_DEL, p->fd, NULL) != 0)
        die("cannot end a connection: %s", strerror(errno));
    p->fd = -1;
}

static void encode_joins_again(struct gen *g)
{
    for (int i = 0; i < g->n; i++) {
        struct msg m;
        struct ddp_err err;
        const struct peer *p = &g->peers[i];
        if (msg_decode(p->world, (size_t)p->world_len, &m, &err) != 0)
            die("%s", err.text);
        g->join_len[i] =
            speak_join_again(&play->speak, g->first + i, &p->ballot, &m.world,
                             g->join + (size_t)i * SPEAK_JOIN_MAX);
    }
    g->armed = true;
}

static void find_round(struct gen *g)
{
    struct msg m;
    struct ddp_err err;
    const struct peer *p = &g->peers[0];
    if (msg_decode(p->world, (size_t)p->world_len, &m, &err) != 0)
        die("%s", err.text);
    g->round = m.world.round;
}

static void on_command(struct gen *g)
{
    char byte;
    if (read(g->pipe, &byte, 1) != 1 || byte == PHASE_QUIT)
        _exit(0);
    g->phase = (enum phase)byte;
    shared->first_us[g->index] = mono_now_us();
    if (g->phase == PHASE_JOIN)
        return;
    find_round(g);
    g->n_world = 0;
    if (g->phase == PHASE_ARM)
        encode_joins_again(g);
    if (g->phase == PHASE_LOSE && g->index == 0)
        lose_one(g);
    if (g->phase == PHASE_READY)
        say_ready(g);
    for (int i = 0; i < g->n; i++)
        g->peers[i].lease_until_us = 0;
}

static bool is_over(const struct gen *g)
{
    switch (g->phase) {
    case PHASE_JOIN:
    case PHASE_READY:
        return g->n_world == g->n_live;
    case PHASE_LOSE:
        return g->n_stopped == g->n_live;
    case PHASE_IDLE:
        return mono_now_us() >= g->idle_until_us;
    case PHASE_ARM:
        return g->armed;
    case PHASE_MOVE:
        return g->n_moved == g->n;
    case PHASE_QUIT:
        break;
    }
    return false;
}

/* Says what is due; returns how long nothing will be, in ms. */
static int say_due_beats(struct gen *g)
{
    while (g->fifo_len > 0) {
        int i = g->fifo[g->fifo_at];
        struct peer *p = &g->peers[i];
        int64_t now_us = mono_now_us();
        bool is_lost = p->fd < 0 && !g->armed;
        if (!is_lost && p->due_us > now_us)
            return (int)mono_ms_until(now_us, p->due_us);
        g->fifo_at = (g->fifo_at + 1) % g->n;
        g->fifo_len--;
        p->in_fifo = false;
        if (is_lost)
            continue;
        if (g->phase == PHASE_IDLE) {
            atomic_fetch_add(&shared->beats, 1);
            raise_to(&shared->late_us, now_us - p->due_us);
        }
        if (p->joined)
            say_beat(g, p, now_us);
        queue_beat(g, i, now_us);
    }
    return 1000;
}

static void on_event(struct gen *g, const struct epoll_event *ev)
{
    if (ev->data.u32 == UINT32_MAX) {
        on_command(g);
        return;
    }
    struct peer *p = &g->peers[ev->data.u32];
    if (p->fd < 0)
        return;
    if (!p->began)
        say_first(g, (int)ev->data.u32);
    if ((ev->events & ~(uint32_t)EPOLLOUT) != 0)
        on_readable(g, p);
}

static void prepare(struct gen *g)
{
    size_t n = (size_t)g->n;
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    g->peers = zalloc(n, sizeof(g->peers[0]));
    g->fifo = zalloc(n, sizeof(g->fifo[0]));
    g->lost = zalloc(n, sizeof(g->lost[0]));
    g->join = zalloc(n, SPEAK_JOIN_MAX);
    g->join_len = zalloc(n, sizeof(int));
    g->n_live = g->n;
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (g->epoll < 0 || epoll_ctl(g->epoll, EPOLL_CTL_ADD, g->pipe, &ev) != 0)
        die("epoll: %s", strerror(errno));
    memset(g->peers, 1, n * sizeof(g->peers[0])); /* its pages are there now */
    memset(g->peers, 0, n * sizeof(g->peers[0]));
    for (int i = 0; i < g->n; i++) {
        g->peers[i].fd = -1;
        g->join_len[i] = speak_join(&play->speak, g->first + i,
                                    g->join + (size_t)i * SPEAK_JOIN_MAX);
    }
}

static void on_events(struct gen *g, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        enum phase old = g->phase;
        on_event(g, &events[i]);
        if (g->phase == PHASE_IDLE && old != PHASE_IDLE)
            g->idle_until_us = mono_now_us() + play->seconds * MONO_S;
        if (g->phase == PHASE_JOIN || g->armed)
            begin_some(g);
    }
}

void generate(
    const struct workload *what, int index, int pipe, int first, int n)
{
    struct epoll_event events[256];
    struct gen g = {.index = index, .pipe = pipe, .first = first, .n = n};
    play = what;
    shared = what->shared;
    token = what->token;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    prepare(&g);
    report(&g);
    for (;;) {
        int wait_ms = say_due_beats(&g);
        on_events(&g, events, epoll_wait(g.epoll, events, 256, wait_ms));
        if (is_over(&g))
            report(&g);
    }
}
