/* links: rendezvous/http/{viewers,http} CONN TLS */
/* links: rendezvous/net/{listener,addr} tests/unit/rendezvous/http/http_hand */
/* links: rendezvous/proto/{frame,msg,term} */
/* links: rendezvous/base/{err,log,buf,mono,utf8,json} */
/* libs: -luv -lcjson -ldl */
/*
 * Viewers on loopback, played by plain sockets: who is sent a document, when,
 * how often it is made, and who is dropped. Times are a tenth of the real ones.
 * Every test ends with uv_loop_close() == 0: nothing is left.
 */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/http/viewers.h"
#include "tests/lib/suite.h"
#include "tests/unit/rendezvous/http/http_hand.h"

#define PLACES 4
#define BIG    (1000u * 1000u)
#define LIMIT  (20 * MONO_S)

static struct viewers *viewers;
static int made, refused;
static size_t size; /* of a document's text beside its number */
static bool fails;
static int steps, steps_max; /* of a document */

/* "<number>xxxx" */
static int document(void *ctx, struct buf *out)
{
    char number[16];
    ck_assert_ptr_eq(ctx, &loop);
    if (++steps < steps_max)
        return 1;
    steps = 0;
    made++;
    if (fails)
        return -1;
    (void)snprintf(number, sizeof(number), "<%d>", made);
    uint8_t *room = buf_reserve(out, size + strlen(number));
    ck_assert_ptr_nonnull(room);
    memcpy(room, number, strlen(number));
    memset(room + strlen(number), 'x', size);
    buf_commit(out, size + strlen(number));
    return 0;
}

static void give(struct conn *c)
{
    if (viewers_take(viewers, c))
        return;
    refused++;
    conn_close(c);
}

static void setup(void)
{
    struct viewers_conf conf = {.max = PLACES,
                                .document = document,
                                .ctx = &loop,
                                .pace_us = 100 * MONO_MS,
                                .take_us = MONO_S,
                                .quiet_us = 400 * MONO_MS};
    made = refused = steps = 0;
    steps_max = 3;
    size = 10;
    fails = false;
    http_hand_open(give);
    viewers = viewers_open(&loop, &conf);
}

static void teardown(void)
{
    viewers_close(viewers);
    http_hand_close();
}

#define UNTIL(condition)                                                       \
    do {                                                                       \
        int64_t end_us = mono_now_us() + LIMIT;                                \
        while (!(condition)) {                                                 \
            turn();                                                            \
            ck_assert_msg(mono_now_us() < end_us, "%s", #condition);           \
        }                                                                      \
    } while (0)

/* -- a client -------------------------------------------------------------- */

static int come(void)
{
    return say("GET /events HTTP/1.1\r\n\r\n");
}

static void go(int fd)
{
    ck_assert_int_eq(close(fd), 0);
}

static char got[4 * 1000 * 1000];
static size_t got_len;

/* Reads what is there; false: the end. */
static bool take(int fd)
{
    ssize_t n =
        recv(fd, got + got_len, sizeof(got) - 1 - got_len, MSG_DONTWAIT);
    if (n > 0)
        got_len += (size_t)n;
    got[got_len] = '\0';
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Until the client has got this text, from here on. */
static void until_got(int fd, const char *text)
{
    int64_t end_us = mono_now_us() + LIMIT;
    got_len = 0;
    got[0] = '\0';
    while (strstr(got, text) == NULL) {
        turn();
        ck_assert_msg(take(fd), "the end, before %s", text);
        ck_assert_msg(mono_now_us() < end_us, "no %s in %.300s", text, got);
    }
}

/* -- tests ----------------------------------------------------------------- */

/* The first document comes at once, the next one when something has changed. */
TEST(test_viewers_get_a_document_when_something_has_changed)
{
    int fd = come();
    until_got(fd, "<1>xxxxxxxxxx\n\n");
    ck_assert_int_eq(strncmp(got, "HTTP/1.1 200 OK\r\n", 17), 0);
    ck_assert_ptr_nonnull(strstr(got, "\r\nContent-Type: text/event-stream\r"));
    ck_assert_ptr_null(strstr(got, "Content-Length"));
    ck_assert_ptr_nonnull(strstr(got, "\n\ndata: <1>x"));
    run_for(250);
    ck_assert_int_eq(made, 1);
    viewers_changed(viewers);
    until_got(fd, "data: <2>xxxxxxxxxx\n\n");
    go(fd);
    UNTIL(viewers_count(viewers) == 0);
}

/* However many look and however much changes: once a pace. */
TEST(test_viewers_share_a_document)
{
    int fds[PLACES];
    for (int i = 0; i < PLACES; i++) {
        fds[i] = come();
        until_got(fds[i], "data: <");
    }
    run_for(200);
    int before = made;
    int64_t began_us = mono_now_us();
    for (int i = 0; i < 200; i++) {
        viewers_changed(viewers);
        turn();
    }
    int64_t paces = (mono_now_us() - began_us) / (100 * MONO_MS);
    ck_assert_int_ge(made, before + 1);
    ck_assert_int_le(made, before + 2 + (int)paces);
    for (int i = 0; i < PLACES; i++) {
        until_got(fds[i], "data: <");
        go(fds[i]);
    }
}

/* Without viewers no document is made, and those who come and go at once do not
 * have more made than those who stay. */
TEST(test_viewers_that_are_not_there_cost_nothing)
{
    for (int i = 0; i < 100; i++)
        viewers_changed(viewers);
    run_for(150);
    ck_assert_int_eq(made, 0);
    int64_t began_us = mono_now_us();
    for (int i = 0; i < 20; i++) {
        int fd = come();
        until_got(fd, "data: <");
        go(fd);
        UNTIL(viewers_count(viewers) == 0);
    }
    int64_t paces = (mono_now_us() - began_us) / (100 * MONO_MS);
    ck_assert_int_le(made, 2 + (int)paces);
}

/* What changed while nobody looked is shown to the next one, a pace later at
 * the latest. */
TEST(test_viewers_that_come_again_see_what_has_changed)
{
    int fd = come();
    until_got(fd, "<1>");
    go(fd);
    UNTIL(viewers_count(viewers) == 0);
    viewers_changed(viewers);
    fd = come();
    until_got(fd, "<2>");
    go(fd);
}

/* A line of comment tells both ends that the other one is there. */
TEST(test_viewers_hear_something_while_nothing_changes)
{
    int fd = come();
    until_got(fd, "<1>xxxxxxxxxx\n\n");
    until_got(fd, ":\n\n");
    until_got(fd, ":\n\n");
    ck_assert_int_eq(made, 1);
    go(fd);
}

/* One that reads nothing is dropped; the other one gets all in time. */
TEST(test_viewers_that_never_read_are_dropped)
{
    int deaf = come(), good;
    size = BIG;
    UNTIL(viewers_count(viewers) == 1);
    good = come();
    UNTIL(viewers_count(viewers) == 2);
    until_got(good, "xx\n\n");
    int64_t end_us = mono_now_us() + LIMIT;
    while (viewers_count(viewers) == 2) {
        ck_assert_int_lt(mono_now_us(), end_us);
        viewers_changed(viewers);
        until_got(good, "xx\n\n");
    }
    ck_assert_int_eq(viewers_count(viewers), 1);
    viewers_changed(viewers);
    until_got(good, "xx\n\n"); /* it was the deaf one that went */
    go(deaf);
    go(good);
}

/* One that is slow misses documents, and then has the newest. */
TEST(test_viewers_that_are_slow_get_the_newest)
{
    int slow = come(), good;
    size = BIG;
    UNTIL(viewers_count(viewers) == 1);
    good = come();
    until_got(good, "<1>");
    for (int i = 2; i < 6; i++) {
        char head[16];
        (void)snprintf(head, sizeof(head), "<%d>", i);
        viewers_changed(viewers);
        until_got(good, head);
    }
    until_got(slow, "<5>");
    ck_assert_ptr_nonnull(strstr(got, "<1>"));
    ck_assert_ptr_null(strstr(got, "<3>"));
    go(slow);
    go(good);
}

/* Beyond the places there is none. */
TEST(test_viewers_beyond_their_number_are_refused)
{
    int fds[PLACES + 1];
    for (int i = 0; i <= PLACES; i++)
        fds[i] = come();
    UNTIL(viewers_count(viewers) == PLACES && refused == 1);
    for (int i = 0; i <= PLACES; i++)
        go(fds[i]);
    UNTIL(viewers_count(viewers) == 0);
}

/* A document that cannot be made leaves all as it is, until the next one. */
TEST(test_viewers_live_through_a_document_that_fails)
{
    fails = true;
    int fd = come();
    UNTIL(made == 1);
    ck_assert_int_eq(viewers_count(viewers), 1);
    fails = false;
    viewers_changed(viewers);
    until_got(fd, "data: <2>");
    fails = true;
    viewers_changed(viewers);
    UNTIL(made == 3);
    fails = false;
    viewers_changed(viewers);
    until_got(fd, "data: <4>");
    go(fd);
}

/* Bytes behind the request change nothing; a reset frees the place. */
TEST(test_viewers_may_say_and_do_what_they_like)
{
    static const char junk[5000];
    const struct linger at_once = {.l_onoff = 1};
    int fd = come();
    until_got(fd, "<1>");
    for (int i = 0; i < 20; i++) {
        (void)send(fd, junk, sizeof(junk), MSG_NOSIGNAL | MSG_DONTWAIT);
        turn();
    }
    viewers_changed(viewers);
    until_got(fd, "<2>");
    ck_assert_int_eq(
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    go(fd);
    UNTIL(viewers_count(viewers) == 0);
}

/* Half of the HTTP connections, and never more than there is room for. */
TEST(test_viewers_share_the_http_connections)
{
    ck_assert_int_eq(viewers_share(1), 0);
    ck_assert_int_eq(viewers_share(2), 1);
    ck_assert_int_eq(viewers_share(32), VIEWERS_MAX);
    ck_assert_int_eq(viewers_share(1024), VIEWERS_MAX);
}

#define STEPS 100

/* A step a turn of the loop, so that all else goes on in between; whoever comes
 * meanwhile has the same document, and what changes meanwhile is shown by the
 * next one. */
TEST(test_viewers_wait_for_a_document_in_steps)
{
    int fds[2] = {come(), -1};
    steps_max = STEPS;
    UNTIL(steps > 0);
    int before = steps;
    for (int i = 1; i < STEPS / 2; i++) {
        turn();
        ck_assert_int_eq(steps, before + i);
    }
    fds[1] = come();
    UNTIL(viewers_count(viewers) == 2);
    ck_assert_int_eq(made, 0);
    viewers_changed(viewers);
    for (int i = 0; i < 2; i++)
        until_got(fds[i], "data: <1>xxxxxxxxxx\n\n");
    until_got(fds[0], "data: <2>xxxxxxxxxx\n\n");
    run_for(250);
    ck_assert_int_eq(made, 2);
    go(fds[0]);
    go(fds[1]);
}

/* Nobody waits for it any more: it is made, kept for the pace, and no other one
 * follows. */
TEST(test_viewers_may_go_before_a_document_is_made)
{
    int fd = come();
    steps_max = STEPS;
    UNTIL(steps > 0);
    go(fd);
    UNTIL(viewers_count(viewers) == 0);
    ck_assert_int_eq(made, 0);
    run_for(400);
    ck_assert_int_eq(made, 1);
    ck_assert_int_eq(steps, 0);
    fd = come();
    until_got(fd, "data: <2>");
    go(fd);
}

/* Nothing that is under way keeps it from closing. */
TEST_LOOP(test_viewers_close_with_everything_open, 0, 2)
{
    size = BIG;
    steps_max = _i == 0 ? 1 : INT_MAX; /* made at once, or never */
    int fds[2] = {come(), come()};
    UNTIL(viewers_count(viewers) == 2);
    viewers_changed(viewers);
    go(fds[0]);
    go(fds[1]);
}

SUITE("viewers", "net", .limit_s = 60, FIXTURE(setup, teardown))
