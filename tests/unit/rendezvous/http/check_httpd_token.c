/* links: rendezvous/http/{httpd,http} CONN TLS */
/* links: rendezvous/net/{addr,listener} rendezvous/proto/{frame,msg,term} */
/* links: rendezvous/base/{err,log,buf,mono,utf8,json} */
/* libs: -luv -lcjson -ldl */
/* HTTP at a port with a token, plain and inside TLS, as ddpctl asks: is a large
 * answer whole, and is it known which peer has the token? */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/http/httpd.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/listener.h"
#include "tests/lib/key_of.h"
#include "tests/lib/suite.h"

#define BIG      (3u * 1024u * 1024u)
#define LIMIT_MS 15000 /* emulated and on a busy machine, too */

static struct {
    uv_loop_t loop;
    struct listener *listener;
    uv_timer_t limit;
    struct tls_key *key, *mine; /* the port's, the dialler's */
    struct httpd *httpd;
    struct conn *client;
    int ups, asked, closed, refused;
    bool trusted, finished, differs, late;
    size_t got;
    char first[16];
} w;

static int on_get(void *ctx,
                  const struct http *request,
                  bool trusted,
                  struct httpd_answer *a)
{
    (void)ctx;
    ck_assert_str_eq(request->path, "/status");
    w.asked++;
    w.trusted = trusted;
    a->type = "text/plain";
    uint8_t *room = buf_reserve(&a->body, BIG);
    ck_assert_ptr_nonnull(room);
    for (size_t i = 0; i < BIG; i++)
        room[i] = (uint8_t)(i % 251);
    buf_commit(&a->body, BIG);
    return 0;
}

/* -- the port -------------------------------------------------------------- */

static void on_refused(void *ctx, struct conn *c, const char *why)
{
    (void)ctx;
    (void)c;
    (void)why;
    w.refused++;
}

static void on_foreign(void *ctx, struct conn *c, enum first first)
{
    (void)ctx;
    if (first == FIRST_HTTP)
        httpd_take(w.httpd, c);
}

static const struct conn_handler port_handler = {.on_closed = on_refused,
                                                 .on_foreign = on_foreign};

static void on_fd(void *ctx, int fd)
{
    struct ddp_err err;
    (void)ctx;
    struct conn *c = conn_accept(&w.loop, fd, &port_handler, NULL, &err);
    ck_assert_ptr_nonnull(c);
    conn_secure(c, w.key);
}

static const struct listener_handler listener_handler = {.on_fd = on_fd};

/* -- the client ------------------------------------------------------------ */

static void on_up(void *ctx, struct conn *c)
{
    static const char request[] = "GET /status HTTP/1.1\r\nHost: x\r\n\r\n";
    (void)ctx;
    w.ups++;
    conn_send_bytes(c, request, 10);
    conn_send_bytes(c, request + 10, sizeof(request) - 1 - 10);
}

static void on_bytes(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    static const char end[] = "\r\n\r\n";
    static size_t at, matched; /* in the body; of the end of the head */
    (void)ctx;
    (void)c;
    int wrong = 0;
    if (w.got == 0)
        at = matched = 0;
    for (size_t i = 0; i < len; i++, w.got++) {
        if (w.got < sizeof(w.first) - 1)
            w.first[w.got] = (char)data[i];
        if (matched == 4)
            wrong += data[i] != at++ % 251;
        else
            matched = data[i] == (uint8_t)end[matched] ? matched + 1
                                                       : data[i] == '\r';
    }
    ck_assert_int_eq(wrong, 0); /* one for all: asserting is slow */
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    (void)ctx;
    (void)why;
    w.client = NULL;
    w.closed++;
    w.finished = conn_was_finished(c);
    w.differs = conn_token_differs(c);
    uv_stop(&w.loop);
}

static const struct conn_handler client_handler = {
    .on_up = on_up, .on_bytes = on_bytes, .on_closed = on_closed};

static void on_limit(uv_timer_t *timer)
{
    w.late = true;
    uv_stop(timer->loop);
}

/* -- tests ----------------------------------------------------------------- */

/* Asks; the key of each end, or NULL. */
static void ask(const char *port_token, const char *token)
{
    struct sockaddr_in at;
    struct ddp_err err;
    struct httpd_conf conf = {.conns_max = 2, .answer = on_get};
    int fd;
    memset(&w, 0, sizeof(w));
    (void)signal(SIGPIPE, SIG_IGN);
    w.key = key_of(port_token);
    w.mine = key_of(token);
    ck_assert_int_eq(uv_loop_init(&w.loop), 0);
    ck_assert_int_eq(uv_ip4_addr("127.0.0.1", 0, &at), 0);
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    at.sin_port = htons((uint16_t)addr_fd_port(fd));
    ck_assert_int_eq(
        listener_open(&w.listener, &w.loop, fd, &listener_handler, NULL, &err),
        0);
    ck_assert_int_eq(uv_timer_init(&w.loop, &w.limit), 0);
    ck_assert_int_eq(uv_timer_start(&w.limit, on_limit, LIMIT_MS, 0), 0);
    w.httpd = httpd_open(&w.loop, &conf);
    w.client = conn_dial(&w.loop, (const struct sockaddr *)&at, &client_handler,
                         NULL, &err);
    ck_assert_ptr_nonnull(w.client);
    conn_secure(w.client, w.mine);
    conn_raw(w.client, &client_handler, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    ck_assert(!w.late);
    httpd_close(w.httpd);
    listener_close(w.listener);
    uv_close((uv_handle_t *)&w.limit, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&w.loop), 0);
    tls_key_free(w.key);
    tls_key_free(w.mine);
}

static const char token[] = "0123456789abcdef0123456789abcdef";
static const char other[] = "another token, another token, an";

static void is_whole(void)
{
    char head[HTTP_LINE_MAX];
    ck_assert_str_eq(w.first, "HTTP/1.1 200 OK");
    ck_assert_uint_eq(w.got, BIG + http_head(head, 200, "text/plain", BIG, ""));
    ck_assert(w.finished); /* it was not cut by somebody on the way */
    ck_assert_int_eq(w.asked, 1);
    ck_assert_int_eq(w.refused, 0);
}

TEST(test_http_inside_tls_is_trusted)
{
    ask(token, token);
    is_whole();
    ck_assert(w.trusted);
}

TEST(test_http_without_the_token_is_not_trusted)
{
    ask(token, NULL);
    is_whole();
    ck_assert(!w.trusted);
}

TEST(test_http_with_a_token_that_nobody_wants_is_told_so)
{
    ask(NULL, token);
    ck_assert_int_eq(w.asked, 0);
    ck_assert_int_eq(w.ups, 0);
    ck_assert(w.differs);
}

TEST(test_http_with_another_token_gets_nothing)
{
    ask(token, other);
    ck_assert_int_eq(w.asked, 0);
    ck_assert_uint_eq(w.got, 0);
    ck_assert(w.differs);
}

SUITE("httpd_token", "net")
