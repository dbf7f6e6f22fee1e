/* links: rendezvous/ctl/{page,command,line} TLS rendezvous/http/{http,page} */
/* links: rendezvous/base/{dial,err,buf,mono,log,utf8,json,rng} */
/* links: rendezvous/net/addr rendezvous/proto/{frame,msg,term} */
/* libs: -lcjson -ldl */
/* Which requests of a browser ddpctl page answers: its own page's, with the
 * key; nobody else's. And how its processes end, between a browser and a
 * rendezvous that are sockets of the test. tests/page plays the rest. */
#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/ctl/page.h"
#include "tests/lib/suite.h"

#define KEY    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HOST   "Host: 127.0.0.1:4711\r\n"
#define ORIGIN "Origin: http://127.0.0.1:4711\r\n"
#define WITH   "X-Ddpctl-Key: " KEY "\r\n"
#define FIRST  "f0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define LAST   "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefe"

static const struct {
    const char *line, *fields;
    int status;
    enum ctl_page_wish wish;
} rows[] = {
    /* The page itself needs no key; it is the same everywhere. */
    {"GET /", HOST, 200, CTL_PAGE_SHOW},
    {"HEAD /", HOST, 200, CTL_PAGE_SHOW},
    {"GET /", "Host: localhost:4711\r\n", 200, CTL_PAGE_SHOW},
    {"POST /", HOST ORIGIN WITH, 405, CTL_PAGE_SHOW},
    /* With the key, by GET and by POST. */
    {"GET /events", HOST WITH, 200, CTL_PAGE_EVENTS},
    {"GET /events", HOST ORIGIN WITH, 200, CTL_PAGE_EVENTS},
    {"POST /drain?node=a&run=r", HOST ORIGIN WITH, 200, CTL_PAGE_DRAIN},
    {"POST /end?run=r", HOST ORIGIN WITH, 200, CTL_PAGE_END},
    {"POST /stacks?run=r&rank=0", HOST ORIGIN WITH, 200, CTL_PAGE_STACKS},
    {"GET /stacks?run=r&rank=0", HOST ORIGIN WITH, 405, CTL_PAGE_STACKS},
    {"GET /end?run=r", HOST ORIGIN WITH, 405, CTL_PAGE_END},
    {"POST /events", HOST ORIGIN WITH, 405, CTL_PAGE_EVENTS},
    {"GET /status", HOST WITH, 404, 0},
    {"GET /Events", HOST WITH, 404, 0},
    /* Without the key, or with another one. */
    {"GET /events", HOST, 403, 0},
    {"POST /end?run=r", HOST ORIGIN, 403, 0},
    {"GET /events", HOST "X-Ddpctl-Key: \r\n", 403, 0},
    {"GET /events", HOST "X-Ddpctl-Key: 0\r\n", 403, 0},
    {"GET /events", HOST "X-Ddpctl-Key: " KEY "0\r\n", 403, 0},
    {"GET /events", HOST "X-Ddpctl-Key: " FIRST "\r\n", 403, 0},
    {"GET /events", HOST "X-Ddpctl-Key: " LAST "\r\n", 403, 0},
    {"GET /events?key=" KEY, HOST, 403, 0},
    {"GET /events", HOST "X-Ddpctl-Ke: " KEY "\r\n", 403, 0},
    /* From another page, or by another name: also with the key. */
    {"GET /events", "Host: evil.example:4711\r\n" WITH, 403, 0},
    {"GET /", "Host: evil.example\r\n", 403, 0},
    {"GET /", "Host: 127.0.0.1\r\n", 403, 0},
    {"GET /", "Host: 127.0.0.1:4712\r\n", 403, 0},
    {"GET /", "Host: localhost:47110\r\n", 403, 0},
    {"GET /events", HOST WITH "Origin: http://evil.example\r\n", 403, 0},
    {"GET /events", HOST WITH "Origin: null\r\n", 403, 0},
    {"GET /events", HOST WITH "Origin: http://127.0.0.1:4712\r\n", 403, 0},
    {"GET /events", HOST WITH "Origin: http://127.0.0.1:47110\r\n", 403, 0},
    {"GET /events", HOST WITH "Origin: https://127.0.0.1:4711\r\n", 403, 0},
    {"GET /events", HOST WITH "Origin: http://localhost:4711\r\n", 403, 0},
    /* An order is from a page of ours for certain. */
    {"POST /end?run=r", HOST WITH, 403, 0},
    {"POST /end?run=r", HOST WITH "Origin: null\r\n", 403, 0},
};

TEST_EACH(test_page_answers_its_own_requests_only, rows)
{
    char bytes[1000];
    struct http h;
    struct http_field fields[CTL_PAGE_FIELDS];
    enum ctl_page_wish wish = CTL_PAGE_SHOW;
    const char *why = NULL;
    (void)snprintf(bytes, sizeof(bytes), "%s HTTP/1.1\r\n%s\r\n", rows[_i].line,
                   rows[_i].fields);
    ctl_page_reader(&h, fields);
    ck_assert(http_feed(&h, bytes, strlen(bytes)));
    ck_assert_int_eq(h.status, 0);
    int status = ctl_page_route(&h, 4711, KEY, &wish, &why);
    ck_assert_msg(status == rows[_i].status, "%s: %d", bytes, status);
    if (status == 200)
        ck_assert_int_eq(wish, rows[_i].wish);
    else
        ck_assert_ptr_nonnull(why);
}

/* -- a page that serves ---------------------------------------------------- */

static struct {
    pid_t pid;
    int port;
    char key[CTL_PAGE_KEY_LEN + 1];
    int rendezvous; /* listens */
} page;

static struct sockaddr_in here(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)port)};
}

static void serve(int out, const struct sockaddr_in *rendezvous)
{
    static struct ctl_peer peer;
    static struct ctl_page p = {
        .peer = &peer, .where = "head:29400", .timeout_us = 3 * MONO_S};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    memcpy(&peer.addrs.at[0], rendezvous, sizeof(*rendezvous));
    peer.addrs.n = 1;
    ck_assert_int_ge(dup2(out, STDOUT_FILENO), 0);
    _exit(ctl_page_run(&p));
}

static void start(void)
{
    struct sockaddr_in at = here(0);
    socklen_t len = sizeof(at);
    char line[200] = "";
    int out[2];
    page.rendezvous = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(page.rendezvous, (const struct sockaddr *)&at, len),
                     0);
    ck_assert_int_eq(listen(page.rendezvous, 8), 0);
    ck_assert_int_eq(getsockname(page.rendezvous, (struct sockaddr *)&at, &len),
                     0);
    ck_assert_int_eq(pipe(out), 0);
    page.pid = fork();
    if (page.pid == 0)
        serve(out[1], &at);
    ck_assert_int_gt(page.pid, 0);
    ck_assert_int_gt(read(out[0], line, sizeof(line) - 1), 0);
    ck_assert_int_eq(
        sscanf(line, "http://127.0.0.1:%d/#%64[0-9a-f]", &page.port, page.key),
        2);
}

static void end(void)
{
    (void)kill(page.pid, SIGKILL); /* Check handles SIGTERM, here, too */
    (void)waitpid(page.pid, NULL, 0);
}

/* A browser that has asked. */
static int ask(const char *path)
{
    struct sockaddr_in at = here(page.port);
    char text[400];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int len = snprintf(text, sizeof(text),
                       "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                       "X-Ddpctl-Key: %s\r\n\r\n",
                       path, page.port, page.key);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
    return fd;
}

/* Until it has come; to the end with NULL. Check's limit ends it, too. */
static void read_until(int fd, const char *words)
{
    char got[65536];
    size_t len = 0;
    ssize_t n;
    do {
        n = recv(fd, got + len, sizeof(got) - 1 - len, 0);
        len += n > 0 ? (size_t)n : 0;
        got[len] = '\0';
    } while (n > 0 && (words == NULL || strstr(got, words) == NULL));
    ck_assert_msg(words == NULL || strstr(got, words) != NULL, "no '%s': '%s'",
                  words, got);
}

/* The page's question to the rendezvous, answered. */
static int answer(const char *text)
{
    int fd = accept(page.rendezvous, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    read_until(fd, "\r\n\r\n");
    ck_assert_int_gt(send(fd, text, strlen(text), MSG_NOSIGNAL), 0);
    return fd;
}

static const struct {
    const char *answer, *words;
} refusals[] = {
    {"HTTP/1.1 403 Forbidden\r\n\r\n", "the rendezvous needs a token"},
    {"HTTP/1.1 503 Service Unavailable\r\n\r\n", "as many look on"},
    {"HTTP/1.1 404 Not Found\r\n\r\n", "is no rendezvous (--endpoint)"},
    {"HTTP/1.1 200 OK\r\n\r\n", "older than this ddpctl"},
    {"HTTP/1.1 5x3\r\n\r\n", "older than this ddpctl"},
    {"\r\n\r\n", "older than this ddpctl"},
};

CASE("net", .limit_s = 60, FIXTURE(start, end))

/* The browser is told why there are no events. */
TEST_EACH(test_page_refused_by_the_rendezvous_says_why, refusals)
{
    int browser = ask("/events");
    (void)close(answer(refusals[_i].answer));
    read_until(browser, refusals[_i].words);
}

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

/* Its place at the rendezvous is free at once, though that is silent. */
TEST_LOOP(test_page_left_by_the_browser_leaves_the_rendezvous, 0, 2)
{
    int browser = ask("/events");
    int fd = answer(_i == 0 ? HEAD "data: 1\n\n" : "HTTP/1.1 200 OK\r\n");
    read_until(browser, _i == 0 ? "data: 1\n\n" : "event: orders");
    int64_t began_us = mono_now_us();
    (void)close(browser);
    read_until(fd, NULL);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(MONO_S));
}

/* A browser that does not close, and says a little now and then. */
TEST(test_page_answered_ends_within_two_seconds)
{
    int browser = ask("/");
    int64_t began_us = mono_now_us();
    read_until(browser, NULL);
    while (send(browser, "x", 1, MSG_NOSIGNAL) == 1)
        (void)poll(NULL, 0, 50);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(3 * MONO_S));
}

static int64_t cpu_us(void)
{
    struct timespec t;
    clockid_t clock;
    ck_assert_int_eq(clock_getcpuclockid(page.pid, &clock), 0);
    ck_assert_int_eq(clock_gettime(clock, &t), 0);
    return t.tv_sec * MONO_S + t.tv_nsec / 1000;
}

/* It waits for a descriptor, then serves who came meanwhile. */
TEST(test_page_without_descriptors_waits)
{
    struct rlimit before, none;
    ck_assert_int_eq(prlimit(page.pid, RLIMIT_NOFILE, NULL, &before), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    ck_assert_int_eq(prlimit(page.pid, RLIMIT_NOFILE, &none, NULL), 0);
    int64_t began_us = cpu_us();
    int browser = ask("/");
    (void)poll(NULL, 0, 500);
    ck_assert_int_lt(cpu_us() - began_us, 50 * MONO_MS);
    ck_assert_int_eq(prlimit(page.pid, RLIMIT_NOFILE, &before, NULL), 0);
    read_until(browser, "HTTP/1.1 200 OK");
}

SUITE("ctl_page", "fast")
