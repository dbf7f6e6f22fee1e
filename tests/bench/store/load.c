/*
 * Load on a key-value store, the same for each contender: many connections with
 * one request under way on each, over the new or the old family of the c10d
 * protocol or Redis's. Plays one trial and prints "name value" lines for run.
 *
 *     load PROTO PORT PID[,PID...] rate OP CONNS BYTES MS     OP: set, get, add
 *     load PROTO PORT PID storm CONNS                each adds 1 and waits
 *     load PROTO PORT PID hold CONNS                 idle ones, and one asks
 *
 * PROTO is new, old or redis; PID the server's, whose threads' CPU time is
 * read. A c10d SET has no answer, so that one is a SET and a CHECK of the same
 * key in one piece, and counts once: its server serves two requests for it.
 * The generator only counts an answer's bytes, since it is part of what is
 * measured.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX   20000
#define THREADS     2
#define BYTES_MAX   (1 << 20)
#define SAMPLES_MAX (1 << 21) /* of one thread */
#define WARM_MS     200
#define LIMIT_MS    120000
#define WINDOW      512 /* of a storm's connections that are being made */
#define ASKS        2000
#define EVENTS      256
#define HEAD_MAX    256 /* of a request, its value left out */

enum proto {
    PROTO_NEW,
    PROTO_OLD,
    PROTO_REDIS,
};

/* Codes on the wire, by family. */
static const struct codes {
    uint8_t set, get, add, check, wait;
} codes_of[] = {{1, 3, 4, 5, 6}, {0, 2, 3, 4, 5}};

struct conn {
    int fd;
    char *request; /* of a rate trial, always the same */
    size_t request_len;
    size_t due; /* bytes of the answer to come; SIZE_MAX: up to a newline */
    int64_t sent_ns;
};

static enum proto proto;
static struct codes code;
static uint16_t port;
/* Of the server: one process, or two that share its work. */
#define PIDS_MAX 4
static int pids[PIDS_MAX];
static int n_pids;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void die(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int number(const char *text, int max)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 0 || n > max)
        die("load: %s is not a number up to %d", text, max);
    return (int)n;
}

/* -- the server's side ----------------------------------------------------- */

/* PID[,PID...] */
static void read_pids(const char *text)
{
    for (const char *at = text; *at != '\0'; n_pids++) {
        char one[16];
        size_t len = strcspn(at, ",");
        if (n_pids == PIDS_MAX || len >= sizeof(one))
            die("load: %s are not up to %d processes", text, PIDS_MAX);
        memcpy(one, at, len);
        one[len] = '\0';
        pids[n_pids] = number(one, INT_MAX);
        at += len + (at[len] == ',');
    }
}

/* The time that its threads have run: proc(5), /proc/PID/schedstat. */
static int64_t cpu_ns_of(int pid)
{
    char path[96];
    int64_t sum = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        die("load: there is no process %d", pid);
    for (struct dirent *d; (d = readdir(tasks)) != NULL;) {
        long long ran = 0;
        if (d->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", pid,
                       d->d_name);
        FILE *f = fopen(path, "r");
        if (f != NULL && fscanf(f, "%lld", &ran) == 1)
            sum += ran;
        if (f != NULL)
            (void)fclose(f); /* only read */
    }
    (void)closedir(tasks);
    return sum;
}

static int64_t server_cpu_ns(void)
{
    int64_t sum = 0;
    for (int i = 0; i < n_pids; i++)
        sum += cpu_ns_of(pids[i]);
    return sum;
}

/* Of the generator itself: near THREADS CPUs, it is what limits. */
static int64_t own_cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* cannot fail */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long pss_kb_of(int pid)
{
    char path[64], line[256];
    long kb = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "Pss: %ld", &kb) == 1)
            break;
    if (f != NULL)
        (void)fclose(f); /* only read */
    return kb;
}

static long server_pss_kb(void)
{
    long kb = 0;
    for (int i = 0; i < n_pids; i++)
        kb += pss_kb_of(pids[i]);
    return kb;
}

/* -- bytes ----------------------------------------------------------------- */

static int dial(bool wait)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, type = SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK);
    int fd = socket(AF_INET, type, 0);
    if (fd < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        die("load: no socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 &&
        errno != EINPROGRESS)
        die("load: no connection: %s", strerror(errno));
    return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, -1); /* send says what it is */
            continue;
        }
        if (n <= 0)
            die("load: cannot send: %s", strerror(errno));
        data += n;
        len -= (size_t)n;
    }
}

static char *put_u64(char *at, uint64_t n)
{
    for (int i = 0; i < 8; i++)
        *at++ = (char)(n >> (8 * i));
    return at;
}

static char *put_string(char *at, const char *data, size_t len)
{
    at = put_u64(at, len);
    memcpy(at, data, len);
    return at + len;
}

static char *put_hello(char *at)
{
    if (proto != PROTO_NEW)
        return at;
    memcpy(at, "\0\xce\xf7\x85\x3c", 5);
    return at + 5;
}

static char *put_keys(char *at, uint8_t op, const char *key)
{
    *at++ = (char)op;
    at = put_u64(at, 1);
    return put_string(at, key, strlen(key));
}

static char *put_c10d(char *at, const char *op, const char *key, size_t bytes)
{
    static char value[BYTES_MAX];
    if (strcmp(op, "set") == 0) {
        *at++ = (char)code.set;
        at = put_string(at, key, strlen(key));
        at = put_string(at, value, bytes);
        return put_keys(at, code.check, key);
    }
    *at++ = (char)(*op == 'g' ? code.get : code.add);
    at = put_string(at, key, strlen(key));
    return *op == 'g' ? at : put_u64(at, 1);
}

static char *put_redis(char *at, const char *op, const char *key, size_t bytes)
{
    size_t n = strlen(key);
    int len;
    if (*op == 'g')
        len =
            snprintf(at, HEAD_MAX, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", n, key);
    else if (*op == 'a')
        len =
            snprintf(at, HEAD_MAX,
                     "*3\r\n$6\r\nINCRBY\r\n$%zu\r\n%s\r\n$1\r\n1\r\n", n, key);
    else
        len =
            snprintf(at, HEAD_MAX, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n",
                     n, key, bytes);
    if (len < 0 || len >= HEAD_MAX)
        die("load: a key is too long");
    at += len;
    if (*op != 's')
        return at;
    memset(at, 'v', bytes);
    memcpy(at + bytes, "\r\n", 2);
    return at + bytes + 2;
}

static size_t answer_len(const char *op, size_t bytes)
{
    char head[32];
    if (*op == 'g')
        return proto != PROTO_REDIS
                   ? 8 + bytes
                   : (size_t)snprintf(head, sizeof(head), "$%zu\r\n", bytes) +
                         bytes + 2;
    if (*op == 's')
        return proto == PROTO_REDIS ? 5 : 1;
    return proto == PROTO_REDIS ? SIZE_MAX : 8;
}

/* What is left of the answer after reading what there is. */
static size_t read_answer(int fd, size_t due)
{
    static _Thread_local char bin[1 << 18];
    while (due > 0) {
        size_t want = due < sizeof(bin) ? due : sizeof(bin);
        ssize_t n = recv(fd, bin, want, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return due;
        if (n <= 0)
            die("load: the server closed a connection");
        if (due == SIZE_MAX)
            due = bin[n - 1] == '\n' ? 0 : SIZE_MAX;
        else
            due -= (size_t)n;
        if (*bin == '-' && proto == PROTO_REDIS)
            die("load: %.40s", bin);
    }
    return 0;
}

static void wait_answer(int fd, size_t due)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while ((due = read_answer(fd, due)) > 0)
        if (poll(&p, 1, LIMIT_MS) <= 0)
            die("load: no answer");
}

/* -- rate ------------------------------------------------------------------ */

struct thread {
    pthread_t id;
    struct conn *conns;
    int count;
    const char *op;
    size_t bytes;
    uint32_t *samples; /* ns */
    size_t n;
};

static _Atomic bool counting, stopped;

static void ask(struct thread *t, struct conn *c)
{
    c->due = answer_len(t->op, t->bytes);
    c->sent_ns = now_ns();
    send_all(c->fd, c->request, c->request_len);
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < t->count; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &t->conns[i]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, t->conns[i].fd, &e) != 0)
            die("load: epoll: %s", strerror(errno));
        ask(t, &t->conns[i]);
    }
    while (!stopped) {
        int n = epoll_wait(epoll, events, EVENTS, 100);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            c->due = read_answer(c->fd, c->due);
            if (c->due > 0)
                continue;
            if (counting && t->n < SAMPLES_MAX)
                t->samples[t->n++] = (uint32_t)(now_ns() - c->sent_ns);
            ask(t, c);
        }
    }
    (void)close(epoll);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_quantiles(uint32_t *samples, size_t n)
{
    qsort(samples, n, sizeof(*samples), compare);
    printf("p50_ns %u\n", n > 0 ? (unsigned)samples[n / 2] : 0);
    printf("p99_ns %u\n", n > 0 ? (unsigned)samples[n - 1 - n / 100] : 0);
}

/*
 * A connection that was served, whose key is there with its value: PyTorch's
 * server looks up the name of whoever connects, which takes its time.
 */
static void prepare(struct conn *c, int i, const char *op, size_t bytes)
{
    char key[24];
    c->fd = dial(true);
    c->request = malloc(bytes + 2 * HEAD_MAX);
    if (c->request == NULL)
        die("load: no memory");
    char *(*put)(char *, const char *, const char *, size_t) =
        proto == PROTO_REDIS ? put_redis : put_c10d;
    (void)snprintf(key, sizeof(key), "/key/%05d", i);
    char *end = put(put_hello(c->request), "set", key, bytes);
    send_all(c->fd, c->request, (size_t)(end - c->request));
    wait_answer(c->fd, answer_len("set", bytes));
    end = put(c->request, op, *op == 'a' ? "/n" : key, bytes);
    c->request_len = (size_t)(end - c->request);
}

static void sleep_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

static void rate(const char *op, int count, size_t bytes, int ms)
{
    static struct conn conns[CONNS_MAX];
    static struct thread threads[THREADS];
    size_t n = 0;
    for (int i = 0; i < count; i++)
        prepare(&conns[i], i, op, bytes);
    for (int i = 0; i < THREADS; i++) {
        int from = count * i / THREADS, to = count * (i + 1) / THREADS;
        threads[i] = (struct thread){
            .conns = conns + from,
            .count = to - from,
            .op = op,
            .bytes = bytes,
            .samples = calloc(SAMPLES_MAX, sizeof(uint32_t)),
        };
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0)
            die("load: no thread");
    }
    sleep_ms(WARM_MS);
    int64_t cpu_ns = server_cpu_ns(), from_ns = now_ns();
    int64_t own_ns = own_cpu_ns();
    counting = true;
    sleep_ms(ms);
    counting = false;
    cpu_ns = server_cpu_ns() - cpu_ns;
    own_ns = own_cpu_ns() - own_ns;
    int64_t took_ns = now_ns() - from_ns;
    stopped = true;
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i].id, NULL); /* cannot fail for these */
    uint32_t *all = calloc((size_t)THREADS * SAMPLES_MAX, sizeof(uint32_t));
    for (int i = 0; i < THREADS; i++) {
        memcpy(all + n, threads[i].samples, threads[i].n * sizeof(uint32_t));
        n += threads[i].n;
    }
    if (n == 0)
        die("load: nothing was answered");
    printf("ops %.0f\n", (double)n * 1e9 / (double)took_ns);
    printf("cpu_ns %.0f\n", (double)cpu_ns / (double)n);
    printf("load_pct %.0f\n", (double)own_ns * 100 / (double)took_ns);
    print_quantiles(all, n);
}

/* -- storm ----------------------------------------------------------------- */

enum phase {
    CONNECTING,
    GREETING, /* asked for something, so that it was served once */
    READY,
    ADDING,
    WAITING,
    DONE,
};

struct guest {
    int fd;
    enum phase phase;
    size_t have; /* bytes of the sum that is the answer to ADD */
    uint8_t sum[8];
};

static struct guest guests[CONNS_MAX];
static int guest_count;
static int epoll_fd;
static char storm_key[32], go_key[32]; /* new ones in each storm */

static void listen_to(struct guest *g, uint32_t what, int how)
{
    struct epoll_event e = {.events = what, .data.ptr = g};
    if (epoll_ctl(epoll_fd, how, g->fd, &e) != 0)
        die("load: epoll: %s", strerror(errno));
}

static void greet(struct guest *g)
{
    char bytes[64];
    int why = 0;
    socklen_t len = sizeof(why);
    (void)getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &why, &len);
    if (why != 0)
        die("load: no connection: %s", strerror(why));
    listen_to(g, EPOLLIN, EPOLL_CTL_MOD);
    char *end = put_keys(put_hello(bytes), code.check, "/none");
    send_all(g->fd, bytes, (size_t)(end - bytes));
    g->phase = GREETING;
}

static void add_one(struct guest *g)
{
    char bytes[64], *end = put_c10d(bytes, "add", storm_key, 0);
    send_all(g->fd, bytes, (size_t)(end - bytes));
    g->phase = ADDING;
}

/* The last one sets the key; all wait for it. */
static void read_sum(struct guest *g)
{
    char bytes[256], *end = bytes;
    uint64_t sum = 0;
    ssize_t n = recv(g->fd, g->sum + g->have, 8 - g->have, 0);
    if (n <= 0)
        die("load: the server closed a connection");
    g->have += (size_t)n;
    if (g->have < 8)
        return;
    for (int i = 7; i >= 0; i--)
        sum = sum << 8 | g->sum[i];
    if (sum == (uint64_t)guest_count) {
        *end++ = (char)code.set;
        end = put_string(end, go_key, strlen(go_key));
        end = put_string(end, "1", 1);
    }
    end = put_keys(end, code.wait, go_key);
    send_all(g->fd, bytes, (size_t)(end - bytes));
    g->phase = WAITING;
}

static void go_on(struct guest *g)
{
    switch (g->phase) {
    case CONNECTING:
        greet(g);
        return;
    case GREETING:
        wait_answer(g->fd, 1);
        g->phase = READY;
        return;
    case ADDING:
        read_sum(g);
        return;
    case WAITING:
        wait_answer(g->fd, 1);
        g->phase = DONE;
        return;
    case READY:
    case DONE:
        die("load: an answer to nothing");
    }
}

/* Until all have come to this phase; in the first one they connect. */
static void play_until(enum phase phase)
{
    static int made;
    struct epoll_event events[EVENTS];
    for (int there = 0; there < guest_count;) {
        while (made < guest_count && made - there < WINDOW) {
            struct guest *g = &guests[made++];
            g->fd = dial(false);
            listen_to(g, EPOLLOUT, EPOLL_CTL_ADD);
        }
        int n = epoll_wait(epoll_fd, events, EVENTS, LIMIT_MS);
        if (n <= 0)
            die("load: %d of %d have come so far, then silence", there,
                guest_count);
        for (int i = 0; i < n; i++) {
            struct guest *g = events[i].data.ptr;
            go_on(g);
            there += g->phase == phase;
        }
    }
}

static void storm(int count)
{
    guest_count = count;
    (void)snprintf(storm_key, sizeof(storm_key), "/storm/%d", (int)getpid());
    (void)snprintf(go_key, sizeof(go_key), "/go/%d", (int)getpid());
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int64_t from_ns = now_ns();
    play_until(READY);
    printf("connect_us %lld\n", (long long)(now_ns() - from_ns) / 1000);
    int64_t cpu_ns = server_cpu_ns();
    from_ns = now_ns();
    for (int i = 0; i < count; i++)
        add_one(&guests[i]);
    play_until(DONE);
    printf("took_us %lld\n", (long long)(now_ns() - from_ns) / 1000);
    printf("cpu_us %lld\n", (long long)(server_cpu_ns() - cpu_ns) / 1000);
}

/* -- hold ------------------------------------------------------------------ */

static void hold(int count)
{
    static uint32_t samples[ASKS];
    struct conn asker;
    char hello[8];
    size_t len = (size_t)(put_hello(hello) - hello);
    int64_t from_ns = now_ns();
    for (int i = 0; i < count; i++) {
        int fd = dial(true);
        send_all(fd, hello, len);
    }
    prepare(&asker, 0, "get", 64);
    printf("took_us %lld\n", (long long)(now_ns() - from_ns) / 1000);
    for (int i = 0; i < ASKS; i++) {
        int64_t sent_ns = now_ns();
        send_all(asker.fd, asker.request, asker.request_len);
        wait_answer(asker.fd, answer_len("get", 64));
        samples[i] = (uint32_t)(now_ns() - sent_ns);
    }
    print_quantiles(samples, ASKS);
    printf("pss_kb %ld\n", server_pss_kb());
}

int main(int argc, char *argv[])
{
    struct rlimit files;
    (void)signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* dial says it */
    }
    if (argc < 6)
        die("usage: load PROTO PORT PID[,PID...] rate|storm|hold ...");
    proto = *argv[1] == 'n'   ? PROTO_NEW
            : *argv[1] == 'o' ? PROTO_OLD
                              : PROTO_REDIS;
    code = codes_of[proto == PROTO_OLD];
    port = (uint16_t)number(argv[2], 65535);
    read_pids(argv[3]);
    if (strcmp(argv[4], "rate") == 0 && argc == 9)
        rate(argv[5], number(argv[6], CONNS_MAX),
             (size_t)number(argv[7], BYTES_MAX), number(argv[8], 3600000));
    else if (strcmp(argv[4], "storm") == 0 && argc == 6)
        storm(number(argv[5], CONNS_MAX));
    else if (strcmp(argv[4], "hold") == 0 && argc == 6)
        hold(number(argv[5], CONNS_MAX));
    else
        die("usage: load PROTO PORT PID[,PID...] rate|storm|hold ...");
    return 0;
}
