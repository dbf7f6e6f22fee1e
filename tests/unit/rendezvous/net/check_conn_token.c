/* links: CONN TLS rendezvous/net/{addr,listener} */
/* links: rendezvous/proto/{frame,msg,term} */
/* links: rendezvous/base/{buf,err,log,utf8,json} */
/* libs: -luv -lcjson -ldl */
/* Connections over loopback, with a token on both ends, on one, and on none:
 * which get through, and what is each end told? */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/net/addr.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/farewell_frame.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/net/token.h"
#include "rendezvous/proto/frame.h"
#include "tests/lib/key_of.h"
#include "tests/lib/suite.h"

#define BEATS    200   /* enough for more than one read */
#define LIMIT_MS 15000 /* emulated and on a busy machine, too */

static const char token[] = "0123456789abcdef0123456789abcdef";
static const char other[] = "another token, another token, an";

/* What became of one end. */
struct side {
    struct conn *conn;
    int ups, msgs, closes;
    int64_t last_seq;
    bool finished, token_differs;
    char why[200];
    char told[200]; /* the text of a refusal that it was sent */
};

static struct {
    uv_loop_t loop;
    struct listener *listener;
    const struct conn_handler *accepts; /* of accepted ones */
    uv_timer_t limit;
    struct tls_key *keys[2]; /* the dialler's, the listener's */
    struct side dialler, server;
    bool late;
} w;

static void on_up(void *ctx, struct conn *c)
{
    struct side *side = ctx;
    ck_assert_ptr_eq(side->conn, c);
    side->ups++;
    for (int i = 0; i < BEATS; i++) {
        struct msg m = {.kind = MSG_KIND_beat, .beat.seq = i};
        conn_send(c, &m);
    }
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    struct side *side = ctx;
    side->msgs++;
    if (m->kind == MSG_KIND_refused) {
        ck_assert_int_eq(m->refused.code, DDP_E_CONFIG);
        msg_set(side->told, m->refused.text);
        return;
    }
    if (m->kind == MSG_KIND_beat) {
        side->last_seq = m->beat.seq;
        struct msg lease = {.kind = MSG_KIND_lease,
                            .lease.seq = m->beat.seq,
                            .lease.grant_ms = 1000};
        conn_send(c, &lease);
        return;
    }
    ck_assert_int_eq(m->kind, MSG_KIND_lease);
    side->last_seq = m->lease.seq;
    if (m->lease.seq < BEATS - 1)
        return;
    side->conn = NULL;
    conn_finish(c);
}

static void maybe_stop(void)
{
    if ((w.dialler.closes > 0 || w.dialler.conn == NULL) && w.server.closes > 0)
        uv_stop(&w.loop);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    struct side *side = ctx;
    side->closes++;
    side->conn = NULL;
    side->finished = conn_was_finished(c);
    side->token_differs = conn_token_differs(c);
    msg_set(side->why, why);
    maybe_stop();
}

static const struct conn_handler handler = {
    .on_up = on_up, .on_msg = on_msg, .on_closed = on_closed};

static void on_fd(void *ctx, int fd)
{
    struct ddp_err err;
    (void)ctx;
    w.server.conn = conn_accept(&w.loop, fd, w.accepts, &w.server, &err);
    ck_assert_ptr_nonnull(w.server.conn);
    conn_secure(w.server.conn, w.keys[1]);
}

static const struct listener_handler listener_handler = {.on_fd = on_fd};

static void on_limit(uv_timer_t *timer)
{
    w.late = true;
    uv_stop(timer->loop);
}

static struct sockaddr_in open_world(const char *dialler, const char *server)
{
    struct sockaddr_in at;
    struct ddp_err err;
    int fd;
    memset(&w, 0, sizeof(w));
    (void)signal(SIGPIPE, SIG_IGN);
    w.keys[0] = key_of(dialler);
    w.keys[1] = key_of(server);
    ck_assert_int_eq(uv_loop_init(&w.loop), 0);
    ck_assert_int_eq(uv_ip4_addr("127.0.0.1", 0, &at), 0);
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    at.sin_port = htons((uint16_t)addr_fd_port(fd));
    ck_assert_int_eq(
        listener_open(&w.listener, &w.loop, fd, &listener_handler, NULL, &err),
        0);
    w.accepts = &handler;
    ck_assert_int_eq(uv_timer_init(&w.loop, &w.limit), 0);
    ck_assert_int_eq(uv_timer_start(&w.limit, on_limit, LIMIT_MS, 0), 0);
    return at;
}

static void run_world(void)
{
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    ck_assert_msg(!w.late, "dialler: '%s', server: '%s'", w.dialler.why,
                  w.server.why);
}

static void close_world(void)
{
    if (w.dialler.conn != NULL)
        conn_close(w.dialler.conn);
    if (w.server.conn != NULL)
        conn_close(w.server.conn);
    listener_close(w.listener);
    uv_close((uv_handle_t *)&w.limit, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&w.loop), 0);
    tls_key_free(w.keys[0]);
    tls_key_free(w.keys[1]);
}

static void dial(const struct sockaddr_in *at)
{
    struct ddp_err err;
    w.dialler.conn = conn_dial(&w.loop, (const struct sockaddr *)at, &handler,
                               &w.dialler, &err);
    ck_assert_ptr_nonnull(w.dialler.conn);
    conn_secure(w.dialler.conn, w.keys[0]);
}

static const struct meeting {
    const char *dialler, *server; /* tokens */
    bool works;
    bool differs;     /* as the dialler sees it */
    const char *told; /* the dialler, by a message */
    const char *dialler_why, *server_why;
} meetings[] = {
    {NULL, NULL, true, false, "", "", ""},
    {token, token, true, false, "", "", ""},
    {NULL, token, false, false,
     "the rendezvous server requires a token: give --rdzv_token_file", "closed",
     "the peer has no token"},
    {token, NULL, false, true, "", "the rendezvous server has no token",
     "it has a token"},
    {token, other, false, true, "", "the token of this launcher differs from",
     "the peer's token differs from the token of this server"},
};

/* Which two tokens meet, and how each end is told of it. */
TEST_EACH(test_meeting_of_tokens_ends_as_it_must, meetings)
{
    const struct meeting *m = &meetings[_i];
    struct sockaddr_in at = open_world(m->dialler, m->server);
    dial(&at);
    run_world();
    ck_assert_int_eq(w.server.ups, 0);
    ck_assert_int_eq(w.server.closes, 1);
    ck_assert_int_eq(w.server.finished, m->works);
    ck_assert_int_eq(w.server.msgs, m->works ? BEATS : 0);
    if (m->works) {
        ck_assert_int_eq(w.dialler.closes, 0); /* it finished itself */
        ck_assert_int_eq(w.dialler.msgs, BEATS);
        ck_assert_int_eq(w.dialler.last_seq, BEATS - 1);
    } else {
        ck_assert_int_eq(w.dialler.closes, 1);
        ck_assert_int_eq(w.dialler.token_differs, m->differs);
        ck_assert_str_eq(w.dialler.told, m->told);
        ck_assert_ptr_nonnull(strstr(w.dialler.why, m->dialler_why));
        ck_assert_ptr_nonnull(strstr(w.server.why, m->server_why));
    }
    /* A dialler without a token is up at once, one with a token when the
     * server has proved it. */
    ck_assert_int_eq(w.dialler.ups, m->works || m->dialler == NULL);
    close_world();
}

/* -- other peers, and ends ------------------------------------------------- */

static int raw_dial(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        connect(fd, (const struct sockaddr *)at, sizeof(struct sockaddr_in)),
        0);
    return fd;
}

static const struct foreign {
    const char *say;
    size_t len;
    const char *why;
} foreigns[] = {
    {"GET / HTTP/1.1\r\n\r\n", 18, "HTTP"},
    {"\x16\x03\x01\x40\x00garbage and more of it", 27, "TLS"},
    {"\x01\x02\x03\x04", 4, "c10d"},
    {FRAME_HELLO "\x05\0\0\0hello", 17, "the peer has no token"},
    {"\x80", 1, "the protocol of ddprun"},
};

/* Are other peers refused with a reason, by the port itself, that requires a
 * token? */
TEST_EACH(test_foreign_peer_at_a_port_with_a_token_ends, foreigns)
{
    const struct foreign *st = &foreigns[_i];
    struct sockaddr_in at = open_world(NULL, token);
    int fd = raw_dial(&at);
    ck_assert_int_eq(send(fd, st->say, st->len, MSG_NOSIGNAL),
                     (ssize_t)st->len);
    run_world();
    ck_assert_int_eq(w.server.closes, 1);
    ck_assert(!w.server.finished);
    ck_assert_int_eq(w.server.msgs, 0);
    ck_assert_msg(strstr(w.server.why, st->why) != NULL, "%s", w.server.why);
    ck_assert_int_eq(close(fd), 0);
    close_world();
}

/* As somebody on the way could: a FIN, and no end of TLS. */
static void on_up_end(void *ctx, struct conn *c)
{
    struct side *side = ctx;
    struct msg m = {.kind = MSG_KIND_beat, .beat.seq = 7};
    side->ups++;
    conn_send(c, &m);
    ck_assert_int_eq(shutdown(conn_fd(c), SHUT_WR), 0);
}

static void on_msg_end(void *ctx, struct conn *c, const struct msg *m)
{
    struct side *side = ctx;
    (void)c;
    side->msgs += m->kind == MSG_KIND_beat && m->beat.seq == 7;
}

static const struct conn_handler end_handler = {
    .on_up = on_up_end, .on_msg = on_msg_end, .on_closed = on_closed};

/* What came before it counts; but it may not be all that was sent. A meeting
 * that works ends with both. */
TEST(test_fin_needs_the_end_that_tls_has)
{
    struct sockaddr_in at = open_world(token, token);
    struct ddp_err err;
    w.accepts = &end_handler;
    w.dialler.conn = conn_dial(&w.loop, (const struct sockaddr *)&at,
                               &end_handler, &w.dialler, &err);
    ck_assert_ptr_nonnull(w.dialler.conn);
    conn_secure(w.dialler.conn, w.keys[0]);
    run_world();
    ck_assert_int_eq(w.server.closes, 1);
    ck_assert(!w.server.finished);
    ck_assert_int_eq(w.server.msgs, 1);
    close_world();
}

/* -- a farewell in plain text ---------------------------------------------- */

enum said {
    SAID_GENUINE,
    SAID_ALTERED,
    SAID_BY_A_STRANGER,
    SAID_SOMETHING_ELSE,
    SAID_IN_PIECES,
    SAID,
};

static int farewells;

static void on_farewell(void *ctx, struct conn *c, const struct msg *m)
{
    struct side *side = ctx;
    side->conn = NULL;
    farewells += m->kind == MSG_KIND_vote && m->vote.term.count == 7;
    conn_finish(c); /* which is the answer */
}

static const struct conn_handler farewell_handler = {.on_msg = on_farewell,
                                                     .on_closed = on_closed};

static size_t make_said(enum said how, uint8_t bytes[4096])
{
    struct msg_vote f = {.version = MSG_VERSION, .last = 1, .term.count = 7};
    struct tls_key *key = how == SAID_BY_A_STRANGER ? NULL : w.keys[0];
    msg_set(f.run, "r");
    msg_set(f.agent, "fedcba9876543210fedcba9876543210");
    size_t len = farewell_frame(&f, key, bytes, 4096);
    ck_assert_uint_gt(len, FRAME_HELLO_LEN);
    if (how == SAID_ALTERED) { /* the term */
        uint8_t *at = memmem(bytes, len, "\"term\":\"7", 9);
        ck_assert_ptr_nonnull(at);
        at[8] = '8';
    }
    if (how == SAID_SOMETHING_ELSE) {
        struct buf b;
        struct msg m = {.kind = MSG_KIND_beat, .beat.seq = 7};
        char json[200];
        int n = msg_encode(&m, json, sizeof(json));
        buf_init(&b, 4096);
        ck_assert_int_eq(buf_put(&b, FRAME_HELLO, FRAME_HELLO_LEN), 0);
        ck_assert_int_eq(frame_put(&b, json, (size_t)n), 0);
        len = buf_len(&b);
        memcpy(bytes, buf_head(&b), len);
        buf_free(&b);
    }
    return len;
}

static void run_for_a_while(void)
{
    for (int i = 0; i < 100; i++) {
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        (void)usleep(1000);
    }
}

/* What a guard says, which has neither the token nor TLS, is heard if who made
 * it had the token; anything else in plain text is turned away. */
TEST_LOOP(test_farewell_in_plain_text_proves_itself, 0, SAID)
{
    uint8_t bytes[4096];
    char answer[4096] = "";
    struct sockaddr_in at = open_world(token, token);
    farewells = 0;
    w.accepts = &farewell_handler;
    size_t len = make_said((enum said)_i, bytes);
    size_t first = _i == SAID_IN_PIECES ? len / 2 : len;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(send(fd, bytes, first, MSG_NOSIGNAL), (ssize_t)first);
    run_for_a_while();
    if (first < len)
        ck_assert_int_eq(send(fd, bytes + first, len - first, MSG_NOSIGNAL),
                         (ssize_t)(len - first));
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    run_for_a_while();
    bool heard = _i == SAID_GENUINE || _i == SAID_IN_PIECES;
    ck_assert_int_eq(farewells, heard);
    ssize_t n = recv(fd, answer, sizeof(answer) - 1, 0);
    ck_assert((n > 0 && memmem(answer, (size_t)n, TOKEN_REQUIRED,
                               strlen(TOKEN_REQUIRED)) != NULL) == !heard);
    ck_assert_int_eq(close(fd), 0);
    close_world();
}

SUITE("conn_token", "tokens")
