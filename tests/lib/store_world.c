/* links: rendezvous/store/{server,requests,replies,store,table,wait} */
/* links: rendezvous/base/{log_limit,open_files,err,log,mono,rng,buf,utf8} */
/* links: rendezvous/base/siphash rendezvous/proto/c10d */
#include "tests/lib/store_world.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/suite.h"

#define SILENT_MS 50 /* for what must not come */

/* -- the server's thread --------------------------------------------------- */

int listen_loopback(uint16_t *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    ck_assert_int_eq(listen(fd, 128), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    *port = ntohs(sa.sin_port);
    return fd;
}

static void on_stop(uv_async_t *async)
{
    struct world *w = async->data;
    store_server_close(w->server);
    uv_close((uv_handle_t *)async, NULL);
    uv_close((uv_handle_t *)&w->pause, NULL);
}

static void on_pause(uv_async_t *async)
{
    struct world *w = async->data;
    (void)sem_post(&w->paused);
    (void)sem_wait(&w->go);
}

void world_pause(struct world *w)
{
    ck_assert_int_eq(uv_async_send(&w->pause), 0);
    ck_assert_int_eq(sem_wait(&w->paused), 0);
}

void world_go_on(struct world *w)
{
    ck_assert_int_eq(sem_post(&w->go), 0);
}

static void *run_loop(void *arg)
{
    struct world *w = arg;
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    return NULL;
}

void world_open(struct world *w, const struct store_server_limits *lim)
{
    struct store_server_limits usual = store_server_limits_default();
    struct ddp_err err = {0};
    ck_assert(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    w->log_fd = memfd_create("log", MFD_CLOEXEC);
    w->stderr_fd = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(w->log_fd, STDERR_FILENO), 0);
    ck_assert_int_eq(uv_loop_init(&w->loop), 0);
    ck_assert_int_eq(uv_async_init(&w->loop, &w->stop, on_stop), 0);
    ck_assert_int_eq(uv_async_init(&w->loop, &w->pause, on_pause), 0);
    ck_assert_int_eq(sem_init(&w->paused, 0, 0), 0);
    ck_assert_int_eq(sem_init(&w->go, 0, 0), 0);
    w->stop.data = w->pause.data = w;
    ck_assert_int_eq(store_server_open(&w->server, &w->loop,
                                       listen_loopback(&w->port),
                                       lim != NULL ? lim : &usual, &err),
                     0);
    ck_assert_int_eq(pthread_create(&w->thread, NULL, run_loop, w), 0);
}

void world_close(struct world *w)
{
    ck_assert_int_eq(uv_async_send(&w->stop), 0);
    ck_assert_int_eq(pthread_join(w->thread, NULL), 0);
    ck_assert_int_eq(uv_loop_close(&w->loop), 0);
    ck_assert_int_ge(dup2(w->stderr_fd, STDERR_FILENO), 0);
    (void)close(w->stderr_fd);
    (void)close(w->log_fd);
}

int log_lines(const struct world *w, const char *what)
{
    static char text[1 << 16];
    ssize_t n = pread(w->log_fd, text, sizeof(text) - 1, 0);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    int count = 0;
    char *rest = NULL;
    for (char *l = strtok_r(text, "\n", &rest); l != NULL;
         l = strtok_r(NULL, "\n", &rest))
        count += strstr(l, what) != NULL;
    return count;
}

/* -- clients --------------------------------------------------------------- */

int dial(uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)),
                     0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

void send_bytes(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        ck_assert_int_gt(n, 0);
        at += n;
        len -= (size_t)n;
    }
}

void send_doomed(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return;
        ck_assert_int_gt(n, 0);
        at += n;
        len -= (size_t)n;
    }
}

void send_buf(int fd, struct buf *b)
{
    send_bytes(fd, buf_head(b), buf_len(b));
    buf_free(b);
}

int dial_new(uint16_t port)
{
    struct buf b;
    int fd = dial(port);
    buf_init(&b, 64);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_VALIDATE), 0);
    send_buf(fd, &b);
    return fd;
}

struct c10d_slice slice(const char *s)
{
    return (struct c10d_slice){(const uint8_t *)s, strlen(s)};
}

void send_set(int fd, const char *key, const char *value)
{
    struct buf b;
    buf_init(&b, 1 << 12);
    ck_assert_int_eq(
        PUT(&b, NULL, .op = C10D_SET, .key = slice(key), .value = slice(value)),
        0);
    send_buf(fd, &b);
}

void send_get(int fd, const char *key)
{
    struct buf b;
    buf_init(&b, 1 << 12);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_GET, .key = slice(key)), 0);
    send_buf(fd, &b);
}

void send_wait(int fd, const char *key)
{
    struct buf b;
    struct c10d_slice s = slice(key);
    buf_init(&b, 1 << 12);
    ck_assert_int_eq(PUT(&b, NULL, .op = C10D_WAIT, .list = &s, .count = 1), 0);
    send_buf(fd, &b);
}

bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

void expect_bytes(int fd, const void *want, size_t len)
{
    uint8_t *got = malloc(len + 1);
    size_t have = 0;
    ck_assert_ptr_nonnull(got);
    while (have < len) {
        ck_assert_msg(readable(fd, WAIT_MS * suite_slow()), "no answer");
        ssize_t n = recv(fd, got + have, len - have, 0);
        ck_assert_int_gt(n, 0);
        have += (size_t)n;
    }
    ck_assert_mem_eq(got, want, len);
    free(got);
}

void expect_value(int fd, const char *want)
{
    uint8_t head[8];
    c10d_pack_u64(head, strlen(want));
    expect_bytes(fd, head, sizeof(head));
    if (*want != '\0')
        expect_bytes(fd, want, strlen(want));
}

void expect_silence(int fd)
{
    ck_assert_msg(!readable(fd, SILENT_MS), "an answer that is not due");
}

void expect_closed(int fd)
{
    static char bin[1 << 16];
    ssize_t n;
    do {
        ck_assert_msg(readable(fd, WAIT_MS * suite_slow()),
                      "the connection stays open");
        n = recv(fd, bin, sizeof(bin), 0);
    } while (n > 0);
    ck_assert(n == 0 || errno == ECONNRESET);
    (void)close(fd);
}

void expect_service(uint16_t port)
{
    int fd = dial_new(port);
    send_set(fd, "/alive", "yes");
    send_get(fd, "/alive");
    expect_value(fd, "yes");
    (void)close(fd);
}

void vanish(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)),
                     0);
    (void)close(fd);
}
