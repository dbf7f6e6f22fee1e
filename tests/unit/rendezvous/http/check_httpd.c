/* links: rendezvous/http/{httpd,http} CONN TLS */
/* links: rendezvous/net/{listener,addr} tests/unit/rendezvous/http/http_hand */
/* links: rendezvous/proto/{frame,msg,term} */
/* links: rendezvous/base/{err,log,buf,mono,utf8,json} */
/* libs: -luv -lcjson -ldl */
/*
 * HTTP connections on loopback, with clients that are plain sockets and do as
 * they please. Every test ends with uv_loop_close() == 0: nothing is left.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/http/httpd.h"
#include "tests/lib/suite.h"
#include "tests/unit/rendezvous/http/http_hand.h"

#define PLACES 4
#define BIG    (20u * 1024u * 1024u)

static struct httpd *httpd;
static int asked, told[600];
static struct conn *viewer; /* that was given away */
static bool takes_viewers;

/* The path says what is answered. */
static int on_get(void *ctx,
                  const struct http *request,
                  bool trusted,
                  struct httpd_answer *a)
{
    ck_assert_ptr_eq(ctx, &loop);
    ck_assert(!trusted);
    asked++;
    a->type = "text/plain";
    ck_assert_int_eq(request->n_fields, 1);
    a->watches = strcmp(request->path, "/events") == 0;
    if (strcmp(request->path, "/slow") == 0 && a->busy)
        return -1;
    if (strcmp(request->path, "/slow") == 0)
        (void)poll(NULL, 0, 60);
    if (strcmp(request->path, "/big") == 0) {
        uint8_t *room = buf_reserve(&a->body, BIG);
        if (room == NULL)
            return -1;
        memset(room, 'b', BIG);
        buf_commit(&a->body, BIG);
        return 0;
    }
    return buf_put(&a->body, "hello\n", 6);
}

static bool on_viewer(void *ctx, struct conn *c)
{
    ck_assert_ptr_eq(ctx, &loop);
    if (takes_viewers)
        viewer = c;
    return takes_viewers;
}

static void on_told(void *ctx, int status)
{
    ck_assert_ptr_eq(ctx, &loop);
    told[status]++;
}

static void give(struct conn *c)
{
    httpd_take(httpd, c);
}

static void setup(void)
{
    struct httpd_conf conf = {.conns_max = PLACES,
                              .answer = on_get,
                              .on_viewer = on_viewer,
                              .told = on_told,
                              .ctx = &loop};
    viewer = NULL;
    takes_viewers = true;
    asked = 0;
    memset(told, 0, sizeof(told));
    http_hand_open(give);
    httpd = httpd_open(&loop, &conf);
}

static void teardown(void)
{
    httpd_close(httpd);
    http_hand_close();
}

/* Until so many are there: machines differ in how long that takes. */
static void until_count(int n)
{
    while (httpd_count(httpd) != n)
        turn();
}

/* -- a client -------------------------------------------------------------- */

static char got[4096];

/* Reads to the end, the first bytes of it into `got`; -1: it was reset. */
static long read_all(int fd)
{
    static char piece[65536];
    long len = 0;
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    memset(got, 0, sizeof(got));
    while (mono_now_us() < until_us) {
        ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            turn();
            continue;
        }
        if (n <= 0) {
            ck_assert_int_eq(close(fd), 0);
            return n == 0 ? len : -1;
        }
        if ((size_t)len < sizeof(got) - 1) {
            size_t room = sizeof(got) - 1 - (size_t)len;
            memcpy(got + len, piece, (size_t)n < room ? (size_t)n : room);
        }
        len += n;
    }
    ck_abort_msg("it does not end");
}

static void is_answered(int fd, const char *status, const char *body)
{
    ck_assert_int_gt(read_all(fd), 0);
    char *end = strstr(got, "\r\n\r\n");
    ck_assert_ptr_nonnull(end);
    ck_assert_msg(strncmp(got, status, strlen(status)) == 0, "%s", got);
    if (body != NULL)
        ck_assert_str_eq(end + 4, body);
}

/* -- tests ----------------------------------------------------------------- */

static const struct {
    const char *bytes, *status, *body;
    bool half_close;
} talks[] = {
    {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "hello\n", false},
    {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "hello\n", true},
    {"HEAD / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "", false},
    {"POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 405 ", NULL,
     false},
    {"GET / HTTP/1.0\r\n\r\nGET /big HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n",
     "hello\n", false},
    {"GET\r\n\r\n", "HTTP/1.1 400 ", NULL, false},
};

/* The answer is whole, ends with a FIN, and a connection brings one. */
TEST_EACH(test_httpd_answers_once, talks)
{
    int fd = say(talks[_i].bytes);
    if (talks[_i].half_close)
        ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    is_answered(fd, talks[_i].status, talks[_i].body);
    until_count(0);
    ck_assert_int_eq(lost, 0);
}

/* A client that sends on and on behind its request still gets its answer. */
TEST(test_httpd_body_that_goes_on_does_not_cut_the_answer)
{
    static char body[60000];
    int fd = say("POST / HTTP/1.0\r\nContent-Length: 100000000\r\n\r\n");
    memset(body, 'x', sizeof(body));
    for (int i = 0; i < 50; i++) {
        (void)send(fd, body, sizeof(body), MSG_DONTWAIT | MSG_NOSIGNAL);
        turn();
    }
    is_answered(fd, "HTTP/1.1 405 ", NULL);
}

CASE("slow", .limit_s = 60, FIXTURE(setup, teardown))

/* Byte for byte is fine, for five seconds. */
TEST(test_httpd_request_that_crawls_is_told_408)
{
    int fast = say("GET /");
    int slow = say("GET /");
    const char *rest = " HTTP/1.0\r\n\r\n";
    for (const char *p = rest; *p != '\0'; p++) {
        ck_assert_int_eq(send(fast, p, 1, MSG_NOSIGNAL), 1);
        run_for(2);
    }
    is_answered(fast, "HTTP/1.1 200 ", "hello\n");
    int64_t began_us = mono_now_us();
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(send(slow, "a", 1, MSG_NOSIGNAL), 1);
        run_for(200);
    }
    is_answered(slow, "HTTP/1.1 408 ", NULL);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(6 * MONO_S));
    ck_assert_int_eq(asked, 1);
}

/* A large answer comes whole to who reads it, and does not wait for ever for
 * who does not. */
TEST(test_httpd_large_answer)
{
    char line[HTTP_LINE_MAX];
    int reads = say("GET /big HTTP/1.0\r\n\r\n");
    ck_assert_int_eq(read_all(reads),
                     (long)(BIG + http_head(line, 200, "text/plain", BIG, "")));
    run_for(1200); /* it took its share of that second */
    int stops = say("GET /big HTTP/1.0\r\n\r\n");
    until_count(1);
    /* Two such answers at a time are more than there is room for. */
    run_for(1100);
    is_answered(say("GET /big HTTP/1.0\r\n\r\n"), "HTTP/1.1 503 ", NULL);
    is_answered(say("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", "hello\n");
    run_for(4300);
    ck_assert_int_eq(httpd_count(httpd), 0);
    is_answered(say("GET /big HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", NULL);
    ck_assert_int_eq(close(stops), 0);
}

CASE("net")

/* The table is full: 503 at once, for a second; then the oldest goes. */
TEST(test_httpd_full_table)
{
    int idle[PLACES];
    for (int i = 0; i < PLACES; i++) {
        idle[i] = say("GET");
        until_count(i + 1);
    }
    for (int i = 0; i < 20; i++)
        is_answered(say("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 503 ", NULL);
    ck_assert_int_eq(told[503], 20);
    run_for(1000);
    is_answered(say("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", "hello\n");
    char byte;
    ck_assert_int_eq(recv(idle[0], &byte, 1, MSG_DONTWAIT), 0);
    ck_assert_int_eq(recv(idle[1], &byte, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    for (int i = 0; i < PLACES; i++)
        ck_assert_int_eq(close(idle[i]), 0);
    until_count(0);
}

/* A client that was answered and stays makes room for others at once. */
TEST(test_httpd_answered_ones_make_room)
{
    int stay[PLACES];
    for (int i = 0; i < PLACES; i++)
        stay[i] = say("GET / HTTP/1.0\r\n\r\n");
    while (told[200] < PLACES)
        turn();
    run_for(110);
    ck_assert_int_eq(httpd_count(httpd), PLACES);
    is_answered(say("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", "hello\n");
    for (int i = 0; i < PLACES; i++)
        is_answered(stay[i], "HTTP/1.1 200 ", "hello\n");
}

/* A client that is gone before its answer is there holds no place. */
TEST_LOOP(test_httpd_peers_that_reset_hold_no_place, 0, 2)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    static const char *const asks[] = {"GET / HTTP/1.0\r\n\r\n",
                                       "GET /big HTTP/1.0\r\n\r\n"};
    for (int i = 0; i < PLACES; i++) {
        int fd = say(asks[_i]);
        ck_assert_int_eq(
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), 0);
        ck_assert_int_eq(close(fd), 0);
    }
    run_for(50);
    ck_assert_int_eq(httpd_count(httpd), 0);
    is_answered(say("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", "hello\n");
}

/* Costly answers take a tenth of each second, whoever asks how often; what
 * costs nothing is answered all the same. */
TEST(test_httpd_takes_a_share_of_time_only)
{
    int n = 0; /* 60 ms each, or more if the machine is busy */
    while (read_all(say("GET /slow HTTP/1.0\r\n\r\n")) > 0 &&
           strncmp(got, "HTTP/1.1 200 ", 13) == 0)
        n++;
    ck_assert_msg(n == 1 || n == 2, "%d answers", n);
    ck_assert_int_eq(strncmp(got, "HTTP/1.1 503 ", 13), 0);
    ck_assert_ptr_nonnull(strstr(got, "\r\nRetry-After: 1\r\n"));
    is_answered(say("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", "hello\n");
    run_for(1100);
    is_answered(say("GET /slow HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", NULL);
}

/* A viewer's connection goes to who takes it, and its place is free; if nobody
 * takes it, it is told so. */
TEST(test_httpd_gives_viewers_away)
{
    int fd = say("GET /events HTTP/1.0\r\n\r\n");
    while (viewer == NULL)
        turn();
    ck_assert_int_eq(httpd_count(httpd), 0);
    ck_assert_int_eq(told[200], 1);
    conn_close(viewer);
    ck_assert_int_eq(read_all(fd), 0);
    takes_viewers = false;
    is_answered(say("GET /events HTTP/1.0\r\n\r\n"), "HTTP/1.1 503 ", NULL);
    is_answered(say("HEAD /events HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 ", "");
}

/* Nothing that is under way keeps it from closing. */
TEST(test_httpd_closes_with_everything_open)
{
    int fds[3] = {say("GET"), say("GET /big HTTP/1.0\r\n\r\n"),
                  say("GET / HTTP/1.0\r\n\r\n")};
    until_count(3);
    while (told[200] < 2)
        turn();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(close(fds[i]), 0);
}

SUITE("httpd", "net", FIXTURE(setup, teardown))
