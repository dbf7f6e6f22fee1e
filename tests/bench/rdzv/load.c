/*
 * Many agents on one rendezvous: speaks the real protocol over real sockets,
 * with as many agents in a process as descriptors allow, each process from a
 * 127.0.0.x of its own (28,000 ports each). Plays one trial and prints
 * "name value" lines for run.
 *
 *     load storm PORT PID AGENTS PROCS        join, one is lost, all go on
 *     load idle PORT PID AGENTS PROCS SECONDS [MS]   beats, at the shortest
 *                                             heartbeat_timeout or at this one
 *
 * With DDPRUN_TOKEN_FILE in its environment, agents have that token and speak
 * TLS. PID is the server's, whose CPU time and memory are read; 0: nobody's.
 * The generator is cheap on purpose, since it is part of what is measured: a
 * kind is told by the first bytes of a message, and whether the worlds fit
 * together is looked at after the clock has stopped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/tls.h"
#include "rendezvous/proto/frame.h"
#include "rendezvous/proto/msg.h"

#define AGENTS_MAX      65536
#define PROCS_MAX       16
#define WINDOW          256 /* connections of a process that are being made */
#define BEATS_PER_LEASE 5   /* as launcher/agent/agent.c */
#define STORM_MS        5000
#define IDLE_MS         300
#define LIMIT_MS        120000
#define PART_MAX        2048 /* of a message that came in pieces */
#define WORLD_MAX       512
#define READ_MAX        65536

enum phase {
    PHASE_JOIN = 1,
    PHASE_LOSE,
    PHASE_READY,
    PHASE_IDLE,
    PHASE_QUIT
};

struct peer {
    int fd; /* -1: not connected, or gone */
    bool began, greeted;
    struct tls *tls; /* NULL: without a token, or not connected */
    struct buf sealed;
    int part_len, world_len;
    int64_t beat_us, lease_until_us;
    int64_t seq;
    char part[PART_MAX];
    char world[WORLD_MAX];
};

/* What all processes see. */
struct shared {
    int64_t first_us[PROCS_MAX]; /* of a phase */
    int64_t last_us[PROCS_MAX];
    int64_t told_us[AGENTS_MAX];
    int64_t lost_at_us;
    atomic_llong beats, false_losses, fenced, slowest_us, late_us;
    atomic_int seen[AGENTS_MAX]; /* group ranks */
};

struct gen {
    int index, epoll, pipe;
    int first, n; /* its agents */
    int n_begun, n_greeted, n_world, n_stopped, n_live;
    int64_t round;
    enum phase phase;
    int64_t idle_until_us;
    int *fifo; /* agents in the order of their next beats */
    int fifo_at, fifo_len;
    struct peer *peers;
    char *join; /* encoded, JOIN_MAX bytes for each */
    int *join_len;
};
#define JOIN_MAX 700

static struct shared *shared;
static struct tls_key *token; /* NULL: without one */
static int port, n_agents, n_procs, heartbeat_ms, limit_ms;

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "load: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    exit(1);
}

static void *zalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        die("out of memory");
    return p;
}

/* -- messages -------------------------------------------------------------- */

static int frame(const struct msg *m, char *out, size_t cap)
{
    int len = msg_encode(m, out + 4, cap - 4);
    if (len < 0)
        die("a message of more than %zu bytes", cap);
    for (int i = 0; i < 4; i++)
        out[i] = (char)(len >> (8 * i));
    return len + 4;
}

static void encode_join(struct gen *g, int i)
{
    int id = g->first + i;
    struct msg m = {.kind = MSG_KIND_join};
    m.join = (struct msg_join){
        .version = MSG_VERSION,
        .nodes_min = n_agents > 1 ? n_agents - 1 : 1,
        .nodes_max = n_agents,
        .nproc = 8,
        .max_restarts = 3,
        .node_rank = -1,
        .group_rank = -1,
        .port = 29500,
        .join_ms = 600000,
        .last_call_ms = 30000,
        .heartbeat_ms = heartbeat_ms,
        .reconnect_ms = 30000,
    };
    msg_set(m.join.run, "bench");
    msg_set(m.join.backend, "c10d");
    msg_set(m.join.prog, "train");
    msg_set(m.join.role, "default");
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%032x", id);
    (void)snprintf(m.join.name, sizeof(m.join.name), "node%05d", id);
    char *at = g->join + (size_t)i * JOIN_MAX;
    memcpy(at, FRAME_HELLO, FRAME_HELLO_LEN);
    g->join_len[i] = (int)FRAME_HELLO_LEN + frame(&m, at + FRAME_HELLO_LEN,
                                                  JOIN_MAX - FRAME_HELLO_LEN);
}

/* They are small, and the server reads: what does not fit at once is a
 * failure. An agent that was given up learns it by what it reads next. */
static void
write_all(struct gen *g, struct peer *p, const void *data, size_t len)
{
    ssize_t n = write(p->fd, data, len);
    bool is_gone = n < 0 && (errno == EPIPE || errno == ECONNRESET);
    if (n != (ssize_t)len && !(is_gone && g->phase == PHASE_IDLE))
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

static void say_beat(struct gen *g, struct peer *p, int64_t now_us)
{
    char out[256];
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.heard = p->seq;
    m.beat.seq = ++p->seq;
    m.beat.round = p->world_len > 0 ? g->round : 0;
    p->beat_us = now_us;
    say(g, p, out, frame(&m, out, sizeof(out)));
}

static void say_ready(struct gen *g)
{
    char out[256];
    struct msg m = {.kind = MSG_KIND_ready};
    m.ready.round = g->round;
    int len = frame(&m, out, sizeof(out));
    for (int i = 0; i < g->n; i++)
        if (g->peers[i].fd >= 0)
            say(g, &g->peers[i], out, len);
}

/* -- connecting ------------------------------------------------------------ */

static void said_join(struct gen *g, int i)
{
    g->peers[i].beat_us = mono_now_us();
    g->fifo[(g->fifo_at + g->fifo_len++) % g->n] = i;
}

/* The first bytes: the join, or TLS's hello; the join follows then. */
static void say_first(struct gen *g, int i)
{
    struct peer *p = &g->peers[i];
    const void *data = g->join + (size_t)i * JOIN_MAX;
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
    if (token == NULL)
        said_join(g, i);
}

static void begin_one(struct gen *g)
{
    int i = g->n_begun++;
    int on = 1;
    struct peer *p = &g->peers[i];
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr =
                                   htonl(0x7f000002u + (uint32_t)g->index)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
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
        begin_one(g);
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

static void take_world(struct gen *g, struct peer *p, const char *json, int len)
{
    if (len > WORLD_MAX)
        die("a world of %d bytes", len);
    memcpy(p->world, json, (size_t)len);
    p->world_len = len;
    g->n_world++;
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
        shared->told_us[g->first + (int)(p - g->peers)] = mono_now_us();
        g->n_stopped++;
    } else if (memcmp(kind, "lease", 5) == 0) {
        if (g->phase == PHASE_IDLE)
            take_lease(p, json, (size_t)len);
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

static void on_gone(struct gen *g, struct peer *p)
{
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
            say(g, p, g->join + (size_t)i * JOIN_MAX, g->join_len[i]);
            said_join(g, i);
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
    if (p->tls != NULL)
        write_all(g, p, tls_farewell(p->tls), TLS_FAREWELL_LEN);
    /* A FIN, whatever lies unread there: closing might send a reset. */
    if (shutdown(p->fd, SHUT_WR) != 0 ||
        epoll_ctl(g->epoll, EPOLL_CTL_DEL, p->fd, NULL) != 0)
        die("cannot end a connection: %s", strerror(errno));
    p->fd = -1;
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
    case PHASE_QUIT:
        break;
    }
    return false;
}

/* Says what is due; returns how long nothing will be, in ms. */
static int say_due_beats(struct gen *g)
{
    int64_t every_us = heartbeat_ms * MONO_MS / BEATS_PER_LEASE;
    while (g->fifo_len > 0) {
        int i = g->fifo[g->fifo_at];
        struct peer *p = &g->peers[i];
        int64_t now_us = mono_now_us();
        if (p->fd >= 0 && p->beat_us + every_us > now_us)
            return (int)mono_ms_until(now_us, p->beat_us + every_us);
        g->fifo_at = (g->fifo_at + 1) % g->n;
        g->fifo_len--;
        if (p->fd < 0)
            continue;
        if (g->phase == PHASE_IDLE) {
            atomic_fetch_add(&shared->beats, 1);
            raise_to(&shared->late_us, now_us - p->beat_us - every_us);
        }
        say_beat(g, p, now_us);
        g->fifo[(g->fifo_at + g->fifo_len++) % g->n] = i;
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
    g->join = zalloc(n, JOIN_MAX);
    g->join_len = zalloc(n, sizeof(int));
    g->n_live = g->n;
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (g->epoll < 0 || epoll_ctl(g->epoll, EPOLL_CTL_ADD, g->pipe, &ev) != 0)
        die("epoll: %s", strerror(errno));
    memset(g->peers, 1, n * sizeof(g->peers[0])); /* its pages are there now */
    memset(g->peers, 0, n * sizeof(g->peers[0]));
    for (int i = 0; i < g->n; i++) {
        g->peers[i].fd = -1;
        encode_join(g, i);
    }
}

static void generate(struct gen *g, int seconds)
{
    struct epoll_event events[256];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    prepare(g);
    report(g);
    for (;;) {
        int wait_ms = say_due_beats(g);
        int n = epoll_wait(g->epoll, events, 256, wait_ms);
        for (int i = 0; i < n; i++) {
            enum phase old = g->phase;
            on_event(g, &events[i]);
            if (g->phase == PHASE_IDLE && old != PHASE_IDLE)
                g->idle_until_us = mono_now_us() + seconds * MONO_S;
            if (g->phase == PHASE_JOIN)
                begin_some(g);
        }
        if (is_over(g))
            report(g);
    }
}

/* -- the coordinator ------------------------------------------------------- */

static int pipes[PROCS_MAX];

static void start_generators(int seconds)
{
    for (int i = 0; i < n_procs; i++) {
        int pair[2];
        int first = (int)((int64_t)n_agents * i / n_procs);
        int behind = (int)((int64_t)n_agents * (i + 1) / n_procs);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
            die("socketpair: %s", strerror(errno));
        pid_t pid = fork();
        if (pid < 0)
            die("fork: %s", strerror(errno));
        struct gen g = {
            .index = i, .pipe = pair[1], .first = first, .n = behind - first};
        if (pid == 0)
            generate(&g, seconds);
        (void)close(pair[1]);
        pipes[i] = pair[0];
    }
}

static void wait_for_all(void)
{
    for (int i = 0; i < n_procs; i++) {
        struct pollfd p = {.fd = pipes[i], .events = POLLIN};
        char byte;
        if (poll(&p, 1, limit_ms) != 1)
            die("not within %d s", limit_ms / 1000);
        if (read(pipes[i], &byte, 1) != 1)
            die("a generator ended");
    }
}

/* Returns how long it took from the first one's start to the last one's end. */
static int64_t play(enum phase phase, bool wait)
{
    char byte = (char)phase;
    int64_t first_us = INT64_MAX;
    int64_t last_us = 0;
    for (int i = 0; i < n_procs; i++)
        if (write(pipes[i], &byte, 1) != 1)
            die("a generator ended");
    if (!wait)
        return 0;
    wait_for_all();
    for (int i = 0; i < n_procs; i++) {
        first_us = mono_min(first_us, shared->first_us[i]);
        if (shared->last_us[i] > last_us)
            last_us = shared->last_us[i];
    }
    return last_us - first_us;
}

/* The number behind `key` in /proc/PID/FILE, or the first one where key is "";
 * -1: there is none. */
static long long proc_number(int pid, const char *file, const char *key)
{
    char path[64];
    char line[256];
    long long v = -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *f = pid > 0 ? fopen(path, "r") : NULL;
    if (f == NULL)
        return -1;
    while (v < 0 && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            v = strtoll(line + strlen(key), NULL, 10);
    (void)fclose(f);
    return v;
}

static void print_cpu(int pid, const char *name, long long *since_ns)
{
    long long ns = proc_number(pid, "schedstat", "");
    if (ns >= 0)
        printf("%s_cpu_us %lld\n", name, (ns - *since_ns) / 1000);
    *since_ns = ns;
}

static void print_memory(int pid)
{
    long long pss = proc_number(pid, "smaps_rollup", "Pss:");
    long long rss = proc_number(pid, "status", "VmRSS:");
    if (pss >= 0)
        printf("pss_kb %lld\nrss_kb %lld\n", pss, rss);
}

static int by_value(const void *va, const void *vb)
{
    const int64_t *a = va;
    const int64_t *b = vb;
    return *a < *b ? -1 : *a > *b;
}

static void print_told(void)
{
    int n = 0;
    for (int i = 0; i < n_agents; i++)
        if (shared->told_us[i] > 0)
            shared->told_us[n++] = shared->told_us[i] - shared->lost_at_us;
    if (n != n_agents - 1)
        die("%d were told of the loss", n);
    qsort(shared->told_us, (size_t)n, sizeof(shared->told_us[0]), by_value);
    printf("told_p50_us %lld\n", (long long)shared->told_us[n / 2]);
    printf("told_p99_us %lld\n", (long long)shared->told_us[n * 99 / 100]);
    printf("told_max_us %lld\n", (long long)shared->told_us[n - 1]);
}

static void storm(int pid)
{
    long long cpu_ns = proc_number(pid, "schedstat", "");
    printf("join_us %lld\n", (long long)play(PHASE_JOIN, true));
    print_cpu(pid, "join", &cpu_ns);
    print_memory(pid);
    (void)play(PHASE_LOSE, true);
    print_cpu(pid, "told", &cpu_ns);
    print_told();
    printf("again_us %lld\n", (long long)play(PHASE_READY, true));
    print_cpu(pid, "again", &cpu_ns);
}

static void idle(int pid)
{
    (void)play(PHASE_JOIN, true);
    long long cpu_ns = proc_number(pid, "schedstat", "");
    (void)play(PHASE_IDLE, true);
    print_cpu(pid, "idle", &cpu_ns);
    printf("beats %lld\n", atomic_load(&shared->beats));
    printf("false_losses %lld\n", atomic_load(&shared->false_losses));
    printf("fenced %lld\n", atomic_load(&shared->fenced));
    printf("slowest_us %lld\n", atomic_load(&shared->slowest_us));
    printf("late_us %lld\n", atomic_load(&shared->late_us));
}

static int number(const char *text, int max)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (*end != '\0' || v < 0 || v > max)
        die("'%s' is no number from 0 to %d", text, max);
    return (int)v;
}

int main(int argc, char *argv[])
{
    bool is_idle = argc > 1 && strcmp(argv[1], "idle") == 0;
    bool has_timeout = is_idle && argc == 8;
    if (argc != (is_idle ? 7 : 6) && !has_timeout)
        die("usage: load storm|idle PORT PID AGENTS PROCS [SECONDS [MS]]");
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    port = number(argv[2], 65535);
    int pid = number(argv[3], INT_MAX);
    n_agents = number(argv[4], AGENTS_MAX);
    n_procs = number(argv[5], PROCS_MAX);
    int seconds = is_idle ? number(argv[6], 36000) : 0;
    heartbeat_ms = has_timeout ? number(argv[7], 60000)
                   : is_idle   ? IDLE_MS
                               : STORM_MS;
    limit_ms = LIMIT_MS + seconds * 1000;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("out of memory");
    const char *token_file = getenv("DDPRUN_TOKEN_FILE");
    struct ddp_err err;
    if (token_file != NULL && tls_key_read(&token, token_file, &err) != 0)
        die("%s", err.text);
    (void)signal(SIGPIPE, SIG_IGN);
    start_generators(seconds);
    wait_for_all();
    if (is_idle)
        idle(pid);
    else
        storm(pid);
    (void)play(PHASE_QUIT, false);
    while (wait(NULL) > 0)
        ;
    return 0;
}
