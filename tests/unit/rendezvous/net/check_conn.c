/* links: CONN TLS rendezvous/net/{listener,addr} */
/* links: rendezvous/proto/{frame,msg,term} */
/* links: rendezvous/base/{err,log,buf,utf8,json} */
/* libs: -ldl -luv -lcjson */
/*
 * Connections on loopback. One side is a conn on the test's loop, the other a
 * plain socket. Every test ends with uv_loop_close() == 0: no handle is left.
 */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/net/addr.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/proto/frame.h"
#include "tests/lib/suite.h"

#define BYE "{\"kind\":\"leave\",\"what\":3}"

static uv_loop_t loop;
static struct listener *listener;
static struct sockaddr_in at;
static struct conn *accepted, *dialled;

/* What the handler saw, and what it is to do with the first message. */
static struct {
    int up, msgs, closed;
    bool finished;
    char why[256];
    void (*at_first)(struct conn *c);
} seen;

static void on_up(void *ctx, struct conn *c)
{
    ck_assert_ptr_eq(ctx, &seen);
    ck_assert_int_ge(conn_fd(c), 0);
    seen.up++;
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    ck_assert_ptr_eq(ctx, &seen);
    ck_assert_int_eq(m->kind, MSG_KIND_leave);
    if (seen.msgs++ == 0 && seen.at_first != NULL)
        seen.at_first(c);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    ck_assert_ptr_eq(ctx, &seen);
    accepted = c == accepted ? NULL : accepted;
    dialled = c == dialled ? NULL : dialled;
    seen.closed++;
    seen.finished = conn_was_finished(c);
    (void)snprintf(seen.why, sizeof(seen.why), "%s", why);
}

/* -- the kernel ------------------------------------------------------------ */

static int result; /* of connects, instead of the kernel's; 0: the kernel's */

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    int (*real)(int, int, int, void *, socklen_t *);
    void *found = dlsym(RTLD_NEXT, "getsockopt");
    memcpy(&real, &found, sizeof(found));
    if (result != 0 && level == SOL_SOCKET && name == SO_ERROR) {
        memcpy(value, &result, sizeof(result));
        return 0;
    }
    return real(fd, level, name, value, len);
}

/* -- peers of other protocols ---------------------------------------------- */

#define BULK (1024u * 1024u) /* more than socket and queue hold */

static struct {
    enum first first;
    int foreign, eofs, bytes, closed, drained;
    bool take, yields;
    size_t to_send;
    int fd; /* yielded */
    struct buf rest;
} raw;

static void raw_pump(struct conn *c)
{
    static const char piece[65536];
    while (raw.to_send > 0 && conn_queued(c) == 0) {
        conn_send_bytes(c, piece, sizeof(piece));
        raw.to_send -= sizeof(piece);
    }
    ck_assert_uint_le(conn_queued(c), sizeof(piece));
}

static void raw_bytes(void *ctx, struct conn *c, const uint8_t *p, size_t len)
{
    ck_assert_ptr_eq(ctx, &raw);
    raw.bytes += (int)len;
    if (raw.to_send == 0)
        conn_send_bytes(c, p, len);
    raw_pump(c);
}

static void raw_drained(void *ctx, struct conn *c)
{
    ck_assert_ptr_eq(ctx, &raw);
    raw.drained++;
    raw_pump(c);
}

static void raw_eof(void *ctx, struct conn *c)
{
    ck_assert_ptr_eq(ctx, &raw);
    raw.eofs++;
    conn_send_bytes(c, "!", 1);
    conn_finish(c);
}

static void raw_closed(void *ctx, struct conn *c, const char *why)
{
    (void)why;
    ck_assert_ptr_eq(ctx, &raw);
    accepted = c == accepted ? NULL : accepted;
    raw.closed++;
}

static const struct conn_handler raw_handler = {
    .on_bytes = raw_bytes,
    .on_drained = raw_drained,
    .on_eof = raw_eof,
    .on_closed = raw_closed,
};

static void on_foreign(void *ctx, struct conn *c, enum first first)
{
    ck_assert_ptr_eq(ctx, &seen);
    raw.foreign++;
    raw.first = first;
    if (raw.take)
        conn_raw(c, &raw_handler, &raw);
    if (raw.yields) {
        raw.fd = conn_yield(c, &raw.rest);
        accepted = NULL;
    }
}

static const struct conn_handler handler = {
    .on_up = on_up,
    .on_msg = on_msg,
    .on_closed = on_closed,
    .on_foreign = on_foreign,
};

static void on_fd(void *ctx, int fd)
{
    struct ddp_err err;
    (void)ctx;
    accepted = conn_accept(&loop, fd, &handler, &seen, &err);
    ck_assert_ptr_nonnull(accepted);
}

static const struct listener_handler listener_handler = {.on_fd = on_fd};

static void setup(void)
{
    struct ddp_err err;
    int fd;
    memset(&seen, 0, sizeof(seen));
    memset(&raw, 0, sizeof(raw));
    accepted = dialled = NULL;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    at.sin_port = htons((uint16_t)addr_fd_port(fd));
    ck_assert_int_eq(
        listener_open(&listener, &loop, fd, &listener_handler, NULL, &err), 0);
}

static void teardown(void)
{
    if (accepted != NULL)
        conn_close(accepted);
    if (dialled != NULL)
        conn_close(dialled);
    listener_close(listener);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* Runs the loop until *count is `want`, or for half a minute. */
static void until(const int *count, int want)
{
    for (int i = 0; i < 30000 && *count < want; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
    ck_assert_int_ge(*count, want);
}

static void run_for(int ms)
{
    for (int i = 0; i < ms; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
}

/* -- the plain side -------------------------------------------------------- */

static int dial_plain(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        connect(fd, (const struct sockaddr *)&at, sizeof(struct sockaddr_in)),
        0);
    return fd;
}

static int accept_plain(int listen_fd)
{
    int fd = -1;
    for (int i = 0; i < 30000 && fd < 0; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        struct pollfd p = {.fd = listen_fd, .events = POLLIN};
        if (poll(&p, 1, 1) > 0)
            fd = accept(listen_fd, NULL, NULL);
    }
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Hello and `n` times bye, in one packet. */
static void say_bye(int fd, int n)
{
    struct buf out;
    buf_init(&out, 65536);
    ck_assert_int_eq(buf_put(&out, FRAME_HELLO, FRAME_HELLO_LEN), 0);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(frame_put(&out, BYE, strlen(BYE)), 0);
    ck_assert_int_eq(write(fd, buf_head(&out), buf_len(&out)),
                     (ssize_t)buf_len(&out));
    buf_free(&out);
}

/* -- tests ----------------------------------------------------------------- */

/* A packet with three messages: all three arrive, in one go. */
TEST(test_conn_three_frames_arrive)
{
    int fd = dial_plain();
    say_bye(fd, 3);
    until(&seen.msgs, 3);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    until(&seen.closed, 1);
    ck_assert(seen.finished);
    ck_assert_int_eq(close(fd), 0);
}

/* It came to a listener that another program had opened, perhaps before that
 * was tuned: small messages do not wait for the peer's delayed ACK all the
 * same. */
TEST(test_conn_accepted_sends_at_once)
{
    int off = 0;
    socklen_t len = sizeof(off);
    int fd = dial_plain();
    say_bye(fd, 1);
    until(&seen.msgs, 1);
    ck_assert_ptr_nonnull(accepted);
    ck_assert_int_eq(
        getsockopt(conn_fd(accepted), IPPROTO_TCP, TCP_NODELAY, &off, &len), 0);
    ck_assert_int_ne(off, 0);
    ck_assert_int_eq(close(fd), 0);
}

/* systemd sets but one of the options, which what was complete before has
 * inherited: a link that is cut ends it all the same. */
TEST(test_conn_accepted_of_a_socket_of_systemd_is_kept_alive)
{
    struct sockaddr_in any = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, listen_fd;
    socklen_t len = sizeof(on);
    struct ddp_err err;
    ck_assert_int_eq(
        addr_listen((const struct sockaddr *)&any, &listen_fd, &err), 0);
    any.sin_port = htons((uint16_t)addr_fd_port(listen_fd));
    ck_assert_int_eq(setsockopt(listen_fd, IPPROTO_TCP, TCP_NODELAY, &on, len),
                     0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&any, sizeof(any)),
                     0);
    accepted =
        conn_accept(&loop, accept_plain(listen_fd), &handler, &seen, &err);
    ck_assert_ptr_nonnull(accepted);
    on = 0;
    ck_assert_int_eq(
        getsockopt(conn_fd(accepted), SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
    ck_assert_int_eq(on, 1);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(close(listen_fd), 0);
}

/* What is sent meanwhile is held back, also by one who finishes it. A read that
 * is being answered holds back by itself, and its end lets all go. */
static int corks; /* that were of any use */

static void cork_it(struct conn *c)
{
    corks += conn_cork(c);
}

TEST_LOOP(test_conn_cork_holds_back, 0, 2)
{
    const struct msg m = {.kind = MSG_KIND_leave,
                          .leave.what = MSG_LEAVE_ENDED};
    const size_t len = 4 + strlen(BYE);
    char all[4096];
    int fd = dial_plain();
    corks = 0;
    seen.at_first = cork_it;
    say_bye(fd, 1);
    until(&seen.msgs, 1);
    ck_assert_int_eq(corks, 0); /* it was read just then */
    ck_assert_int_eq(recv(fd, all, sizeof(all), MSG_DONTWAIT), FRAME_HELLO_LEN);
    ck_assert(conn_cork(accepted));
    ck_assert(!conn_cork(accepted));
    for (int i = 0; i < 2; i++)
        conn_send(accepted, &m);
    run_for(20);
    ck_assert_int_eq(recv(fd, all, sizeof(all), MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    if (_i == 0)
        conn_uncork(accepted);
    else
        conn_finish(accepted);
    ck_assert_int_eq(recv(fd, all, sizeof(all), MSG_DONTWAIT),
                     (ssize_t)(2 * len));
    if (_i == 1)
        accepted = NULL;
    ck_assert_int_eq(close(fd), 0);
}

#define BLANKS "                                                          "

/* So much of a frame before the FIN: all but two bytes at most. */
static const size_t halves[] = {0, 1, 9, 66};

TEST_EACH(test_conn_fin_behind_half_a_frame_finishes_nothing, halves)
{
    int fd = dial_plain();
    say_bye(fd, 1);
    ck_assert_int_eq(write(fd, "\x40\0\0\0{\"kin" BLANKS, halves[_i]),
                     (ssize_t)halves[_i]);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    until(&seen.closed, 1);
    ck_assert_int_eq(seen.msgs, 1);
    ck_assert_int_eq(seen.finished, halves[_i] == 0);
    ck_assert_int_eq(close(fd), 0);
}

/* A conn that its owner finishes or closes in on_msg brings nothing more, be
 * it in the same packet; and no on_closed. */
static void (*const ends[])(struct conn *) = {conn_finish, conn_close};

TEST_LOOP(test_conn_ended_in_on_msg_brings_no_more, 0, 2)
{
    int fd = dial_plain();
    seen.at_first = ends[_i];
    say_bye(fd, 3);
    until(&seen.msgs, 1);
    accepted = NULL;
    run_for(20);
    ck_assert_int_eq(write(fd, "more", 4) == 4 || errno == EPIPE, 1);
    run_for(20);
    ck_assert_int_eq(seen.msgs, 1);
    ck_assert_int_eq(seen.closed, 0);
    ck_assert_int_eq(close(fd), 0);
}

/* A peer that does not read is dropped for that reason; memory is bounded. */
TEST(test_conn_peer_that_does_not_read_is_closed)
{
    struct msg m = {.kind = MSG_KIND_stop};
    memset(m.stop.text, 'x', sizeof(m.stop.text) - 1);
    int fd = dial_plain();
    say_bye(fd, 1);
    until(&seen.msgs, 1);
    for (int i = 0; i < 40000 && seen.closed == 0; i++) {
        conn_send(accepted, &m);
        if (i % 64 == 0)
            (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_int_eq(seen.closed, 1);
    ck_assert_str_eq(seen.why, "the peer does not read what it is sent");
    ck_assert(!seen.finished);
    ck_assert_int_eq(close(fd), 0);
}

/* What is no message of ours ends the connection with a reason. */
static const struct {
    const char *bytes;
    size_t len;
    const char *why;
} foreign[] = {
    {"GET / HTTP/1.1\r\n\r\n", 18,
     "the peer speaks HTTP, which this port does not serve"},
    {"\x16\x03\x01", 3,
     "the peer speaks TLS: it has a token, and this server has none"},
    {FRAME_HELLO "\xff\xff\xff\xff", 12,
     "the peer sent a frame of an impossible length"},
    {FRAME_HELLO "\0\0\0\0x", 13,
     "the peer sent a frame of an impossible length"},
    {FRAME_HELLO "\2\0\0\0[]", 14, "the message is not a JSON object"},
    {FRAME_HELLO "\2\0\0\0{", 13, "the connection was closed"},
};

TEST_EACH(test_conn_foreign_bytes_are_named, foreign)
{
    int fd = dial_plain();
    ck_assert_int_eq(write(fd, foreign[_i].bytes, foreign[_i].len),
                     (ssize_t)foreign[_i].len);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    until(&seen.closed, 1);
    ck_assert_str_eq(seen.why, foreign[_i].why);
    ck_assert(!seen.finished);
    ck_assert_int_eq(seen.msgs, 0);
    ck_assert_int_eq(close(fd), 0);
}

/* Everything that comes up to the end, which must be a FIN; its length. */
static size_t read_to_end(int fd, char *first, size_t size)
{
    char all[4096];
    size_t len = 0;
    for (int i = 0; i < 20000; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ssize_t n = recv(fd, all, sizeof(all), MSG_DONTWAIT);
        if (n == 0)
            return len;
        if (n < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            (void)poll(NULL, 0, 1);
            continue;
        }
        if (len < size)
            memcpy(first + len, all,
                   (size_t)n < size - len ? (size_t)n : size - len);
        len += (size_t)n;
    }
    ck_abort_msg("it does not end");
}

/* The first byte tells the protocol; a hello that is wrong further on is nobody
 * else's. */
static const struct {
    const char *bytes;
    int foreign;
    enum first first;
} firsts[] = {
    {"A", 1, FIRST_HTTP},           {"Z", 1, FIRST_HTTP},
    {"\x16\x03\x01", 1, FIRST_TLS}, {"\x01", 1, FIRST_C10D},
    {"\x15", 1, FIRST_C10D},        {"a", 1, FIRST_OTHER},
    {"\x80", 1, FIRST_OTHER},       {"\xDDnothing", 0, FIRST_OURS},
};

TEST_EACH(test_conn_first_byte_tells_the_protocol, firsts)
{
    int fd = dial_plain();
    size_t len = strlen(firsts[_i].bytes);
    ck_assert_int_eq(write(fd, firsts[_i].bytes, len), (ssize_t)len);
    until(&seen.closed, 1);
    ck_assert_int_eq(raw.foreign, firsts[_i].foreign);
    ck_assert_int_eq(raw.first, firsts[_i].first);
    ck_assert_int_eq(close(fd), 0);
}

/* A raw connection has the first bytes, too, and may be answered after the
 * peer has sent its last. */
TEST(test_conn_raw_half_closed_is_answered)
{
    char got[16] = "";
    int fd = dial_plain();
    raw.take = true;
    ck_assert_int_eq(write(fd, "HEL", 3), 3);
    until(&raw.bytes, 3);
    ck_assert_int_eq(write(fd, "LO", 2), 2);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    ck_assert_uint_eq(read_to_end(fd, got, sizeof(got)), 6);
    ck_assert_str_eq(got, "HELLO!");
    ck_assert_int_eq(raw.eofs, 1);
    ck_assert_int_eq(raw.closed, 1);
    ck_assert_int_eq(seen.closed, 0);
    ck_assert_int_eq(close(fd), 0);
}

/* What is more than a socket takes goes out as it is read, and the queue stays
 * short; what the peer goes on sending does not cut it off. */
TEST(test_conn_raw_bulk_arrives_whole)
{
    char got[1];
    int fd = dial_plain();
    raw.take = true;
    raw.to_send = 8 * BULK;
    ck_assert_int_eq(write(fd, "X", 1), 1);
    until(&raw.bytes, 1);
    ck_assert_uint_gt(raw.to_send, 0);
    ck_assert_int_eq(write(fd, "more", 4), 4);
    run_for(5);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    run_for(5); /* raw_eof finishes it, which the rest must survive */
    size_t sent = 8 * BULK - raw.to_send;
    ck_assert_uint_eq(read_to_end(fd, got, sizeof(got)), sent + 1);
    ck_assert_int_eq(raw.closed, 1);
    ck_assert_int_eq(close(fd), 0);
}

/* One that is yielded lives on elsewhere, with the bytes that were read. */
TEST(test_conn_yielded_goes_on_elsewhere)
{
    char got[8] = "";
    int fd = dial_plain();
    raw.yields = true;
    ck_assert_int_eq(write(fd, "\0ab", 3), 3);
    until(&raw.foreign, 1);
    ck_assert_int_ge(raw.fd, 0);
    ck_assert_uint_eq(buf_len(&raw.rest), 3);
    ck_assert_mem_eq(buf_head(&raw.rest), "\0ab", 3);
    run_for(5);
    ck_assert_int_eq(write(fd, "cd", 2), 2);
    run_for(5);
    ck_assert_int_eq(read(raw.fd, got, sizeof(got)), 2);
    ck_assert_int_eq(write(raw.fd, got, 2), 2);
    ck_assert_int_eq(read(fd, got + 2, 2), 2);
    ck_assert_str_eq(got, "cdcd");
    ck_assert_int_eq(seen.closed, 0);
    ck_assert_int_eq(close(raw.fd), 0);
    ck_assert_int_eq(close(fd), 0);
    buf_free(&raw.rest);
}

/* What was sent before it is there; the owner hears of neither. */
TEST_LOOP(test_conn_dialled_is_closed_or_finished_by_a_fin, 0, 2)
{
    struct ddp_err err;
    char first[FRAME_HELLO_LEN];
    int listen_fd;
    struct sockaddr_in any = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(
        addr_listen((const struct sockaddr *)&any, &listen_fd, &err), 0);
    any.sin_port = htons((uint16_t)addr_fd_port(listen_fd));
    dialled =
        conn_dial(&loop, (const struct sockaddr *)&any, &handler, &seen, &err);
    ck_assert_ptr_nonnull(dialled);
    int fd = accept_plain(listen_fd);
    until(&seen.up, 1);
    conn_send(dialled, &(struct msg){.kind = MSG_KIND_leave,
                                     .leave.what = MSG_LEAVE_ENDED});
    ends[_i](dialled);
    dialled = NULL;
    ck_assert_uint_eq(read_to_end(fd, first, sizeof(first)),
                      FRAME_HELLO_LEN + 4 + strlen(BYE));
    ck_assert_mem_eq(first, FRAME_HELLO, FRAME_HELLO_LEN);
    ck_assert_int_eq(seen.closed, 0);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(close(listen_fd), 0);
}

/* Nobody listens: told from the loop and not during the call. */
TEST(test_conn_dial_refused_is_told)
{
    struct ddp_err err;
    struct sockaddr_in nobody = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* has the port, listens not */
    socklen_t len = sizeof(nobody);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&nobody, len), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&nobody, &len), 0);
    dialled = conn_dial(&loop, (const struct sockaddr *)&nobody, &handler,
                        &seen, &err);
    ck_assert_ptr_nonnull(dialled);
    ck_assert_int_eq(seen.closed, 0);
    until(&seen.closed, 1);
    ck_assert_str_eq(seen.why, "connection refused");
    ck_assert_int_eq(seen.up, 0);
    ck_assert_int_eq(close(fd), 0);
}

/* getsockopt(2) fails, and libuv, which does not look at that, takes for the
 * result what lies on its stack. Its words for such a number are kept nowhere:
 * a sanitizer sees if they leak. */
TEST(test_conn_unknown_result_of_a_connect_is_told)
{
    struct ddp_err err;
    result = 12345;
    dialled =
        conn_dial(&loop, (const struct sockaddr *)&at, &handler, &seen, &err);
    ck_assert_ptr_nonnull(dialled);
    until(&seen.closed, 1);
    result = 0;
    ck_assert_str_eq(seen.why, "Unknown system error -12345");
}

/* One that is closed while it still connects leaves nothing behind. */
TEST(test_conn_closed_while_connecting_is_silent)
{
    struct ddp_err err;
    struct conn *c =
        conn_dial(&loop, (const struct sockaddr *)&at, &handler, &seen, &err);
    ck_assert_ptr_nonnull(c);
    conn_close(c);
    run_for(20);
    ck_assert_int_eq(seen.up, 0);
}

SUITE("conn", "net", FIXTURE(setup, teardown))
