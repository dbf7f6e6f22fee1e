/*
 * Happy path: each connection of the browser has a process of its own, which
 * reads one request and answers it. For /events it asks the rendezvous for the
 * same and hands on what comes, as it comes.
 *
 * Failure modes:
 * - a request that is not right, or has not the key: it is told so
 *   (ctl_page_route), and the connection ends;
 * - the rendezvous does not answer, goes away, or is silent: the browser is
 *   told by an event of its own (`fault`), and the question is asked again each
 *   second;
 * - the browser goes away: the process ends, also while the rendezvous is
 *   silent; it does not read: the process ends when it writes;
 * - the browser does not close after the answer: it has LINGER_US;
 * - too many connections: the newest is closed; no descriptor for one: it waits
 *   in the kernel;
 * - ddpctl ends: the kernel ends the processes, too.
 */
#include "rendezvous/ctl/page.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/json.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/ctl/command.h"
#include "rendezvous/http/page.h"

#define REQUEST_US (5 * MONO_S)  /* for a request to arrive */
#define WRITE_S    10            /* for the browser to read */
#define SILENT_US  (40 * MONO_S) /* the rendezvous says something each 15 s */
#define LINGER_US  (2 * MONO_S)  /* for it to read to the end and close */
#define AGAIN_MS   1000
#define ACCEPT_MS  100 /* until a descriptor may be free again */
#define PIECE      16384
#define STACKS_MAX (256 * 1024) /* of one worker; more is left out */
#define PLAIN      "text/plain; charset=utf-8"
#define EVENTS     "text/event-stream"

/* -- what is asked --------------------------------------------------------- */

void ctl_page_reader(struct http *h, struct http_field *fields)
{
    fields[CTL_PAGE_ORIGIN] = (struct http_field){.name = "Origin"};
    fields[CTL_PAGE_KEY] = (struct http_field){.name = "X-Ddpctl-Key"};
    http_init(h);
    h->fields = fields;
    h->n_fields = CTL_PAGE_FIELDS;
    h->takes_post = true;
}

/* By this server's name, and from a page of its own or from none. */
static bool is_ours(const struct http *h, int port)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    const char *origin = h->fields[CTL_PAGE_ORIGIN].value;
    char host[32], own[48];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(host, sizeof(host), "%s:%d", names[i], port); /* fit */
        (void)snprintf(own, sizeof(own), "http://%s", host);
        if (strcmp(h->host, host) == 0 &&
            (strcmp(origin, own) == 0 || (origin[0] == '\0' && !h->is_post)))
            return true;
    }
    return false;
}

/* In the same time wherever two of one length differ. */
static bool is_key(const char *given, const char *key)
{
    unsigned char differ = 0;
    if (strlen(given) != CTL_PAGE_KEY_LEN)
        return false;
    for (size_t i = 0; i < CTL_PAGE_KEY_LEN; i++)
        differ |= (unsigned char)(given[i] ^ key[i]);
    return differ == 0;
}

static const struct {
    const char *path;
    enum ctl_page_wish wish;
    bool posts;
} wishes[] = {
    {"/", CTL_PAGE_SHOW, false},        {"/events", CTL_PAGE_EVENTS, false},
    {"/drain", CTL_PAGE_DRAIN, true},   {"/end", CTL_PAGE_END, true},
    {"/stacks", CTL_PAGE_STACKS, true},
};
#define WISHES (sizeof(wishes) / sizeof(wishes[0]))

int ctl_page_route(const struct http *h,
                   int port,
                   const char *key,
                   enum ctl_page_wish *wish,
                   const char **why)
{
    size_t i = 0;
    *why = "the request is not for this page, or from another one\n";
    if (!is_ours(h, port))
        return 403;
    while (i < WISHES && strcmp(h->path, wishes[i].path) != 0)
        i++;
    *why = "no such page\n";
    if (i == WISHES)
        return 404;
    *wish = wishes[i].wish;
    *why = "the key is missing or wrong: open the address that ddpctl page "
           "printed\n";
    if (*wish != CTL_PAGE_SHOW && !is_key(h->fields[CTL_PAGE_KEY].value, key))
        return 403;
    *why = wishes[i].posts ? "an order is given by POST\n"
                           : "this page is read by GET\n";
    return wishes[i].posts == h->is_post ? 200 : 405;
}

/* -- answers --------------------------------------------------------------- */

/* The browser's connection; the process ends with it. */
static int browser;

static void say(const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = send(browser, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            _exit(0); /* it has gone, or does not read */
        p += n;
        len -= (size_t)n;
    }
}

static void
say_head(int status, const char *type, size_t len, const char *headers)
{
    char head[HTTP_LINE_MAX];
    say(head, http_head(head, status, type, len, headers));
}

static void answer(int status, const char *text)
{
    say_head(status, PLAIN, strlen(text), "");
    say(text, strlen(text));
}

/* -- events ---------------------------------------------------------------- */

static void say_fault(const struct ctl_page *p, const struct ddp_err *err)
{
    struct buf out;
    struct json j;
    char text[600];
    (void)snprintf(text, sizeof(text), "%s: %s", p->where, err->text);
    buf_init(&out, 8192);
    (void)buf_put(&out, "\n\nevent: fault\ndata: ", 21);
    json_init(&j, &out);
    json_open(&j, NULL, '{');
    json_text(&j, "text", text);
    json_close(&j, '}');
    (void)buf_put(&out, "\n\n", 2);
    say(buf_head(&out), buf_len(&out));
    buf_free(&out);
}

/* As ctl_line_read; ends the process if the browser goes meanwhile. */
static long hear(struct ctl_line *line, uint8_t *room, struct ddp_err *err)
{
    if (ctl_line_wait(line, browser, POLLRDHUP))
        _exit(0);
    return ctl_line_read(line, room, PIECE, err);
}

/* 0: it is no answer in HTTP. */
static int read_status(const char *head, size_t len)
{
    static const char version[] = "HTTP/1.1 ";
    const char *at = head + sizeof(version) - 1;
    if (len < sizeof(version) + 2 ||
        memcmp(head, version, sizeof(version) - 1) != 0 ||
        !isdigit((unsigned char)at[0]) || !isdigit((unsigned char)at[1]) ||
        !isdigit((unsigned char)at[2]))
        return 0;
    return (at[0] - '0') * 100 + (at[1] - '0') * 10 + (at[2] - '0');
}

/* Why an answer has no events. */
static int
take_refusal(const struct ctl_peer *peer, int status, struct ddp_err *err)
{
    if (status == 403 && peer->key == NULL)
        return ctl_token_missing(err);
    if (status == 503)
        return ddp_err_set(err, DDP_E_UNREACHABLE,
                           "as many look on at the rendezvous as may: close "
                           "another page that shows it");
    return ddp_err_set(err, DDP_E_PROTO,
                       "what answers has no such page: it is no rendezvous "
                       "(--endpoint), is older than this ddpctl, or serves no "
                       "HTTP");
}

/* Takes the head of the answer off. -1: it is none, or no events. */
static int hear_head(const struct ctl_peer *peer,
                     struct ctl_line *line,
                     struct buf *in,
                     struct ddp_err *err)
{
    const char *end = NULL;
    while (end == NULL) {
        uint8_t *room = buf_reserve(in, PIECE);
        long n = room == NULL ? 0 : hear(line, room, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return take_refusal(peer, 0, err);
        buf_commit(in, (size_t)n);
        end = memmem(buf_head(in), buf_len(in), "\r\n\r\n", 4);
    }
    const char *head = (const char *)buf_head(in);
    size_t len = (size_t)(end - head);
    int status = read_status(head, len);
    if (status != 200 || memmem(head, len, EVENTS, strlen(EVENTS)) == NULL)
        return take_refusal(peer, status, err);
    buf_take(in, len + 4);
    return 0;
}

/* Hands on what comes, until it ends. */
static void hand_on(struct ctl_line *line, struct buf *in, struct ddp_err *err)
{
    long n;
    do {
        say(buf_head(in), buf_len(in));
        buf_take(in, buf_len(in));
        ctl_line_renew(line, mono_now_us() + SILENT_US);
        uint8_t *room = buf_reserve(in, PIECE);
        n = hear(line, room, err);
        if (n > 0)
            buf_commit(in, (size_t)n);
    } while (n > 0);
    if (n == 0)
        ddp_err_set(err, DDP_E_UNREACHABLE, "the connection was closed");
}

static void follow(const struct ctl_page *p, struct ddp_err *err)
{
    static const char ask[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n"
                              "User-Agent: ddpctl/" DDPRUN_VERSION "\r\n\r\n";
    struct buf in;
    struct ctl_line *line =
        ctl_line_open(p->peer, mono_now_us() + p->timeout_us, err);
    if (line == NULL)
        return;
    buf_init(&in, 4 * PIECE);
    if (ctl_line_write(line, ask, sizeof(ask) - 1, err) == 0 &&
        hear_head(p->peer, line, &in, err) == 0)
        hand_on(line, &in, err);
    buf_free(&in);
    ctl_line_close(line);
}

/* Until the browser goes. It is told first that orders may be given here. */
static void relay(const struct ctl_page *p)
{
    static const char orders[] = "event: orders\ndata: 1\n\n";
    say_head(200, EVENTS, HTTP_ENDLESS, "");
    say(orders, sizeof(orders) - 1);
    for (;;) {
        struct ddp_err err;
        struct pollfd gone = {.fd = browser, .events = POLLRDHUP};
        follow(p, &err);
        say_fault(p, &err);
        if (poll(&gone, 1, AGAIN_MS) > 0)
            _exit(0);
    }
}

/* -- orders ---------------------------------------------------------------- */

/* What it is about: a node, or a rank. False: it is missing or too long. */
static bool
read_object(const struct http *h, enum ctl_page_wish wish, struct msg_order *o)
{
    char rank[10];
    if (wish == CTL_PAGE_DRAIN)
        return http_query(h, "node", o->node, sizeof(o->node)) > 0 &&
               o->node[0] != '\0';
    if (wish != CTL_PAGE_STACKS)
        return true;
    o->rank = -1;
    if (http_query(h, "rank", rank, sizeof(rank)) > 0 &&
        strspn(rank, "0123456789") == strlen(rank) && rank[0] != '\0')
        o->rank = strtol(rank, NULL, 10);
    return o->rank >= 0;
}

static bool
read_order(const struct http *h, enum ctl_page_wish wish, struct msg *m)
{
    struct msg_order *o = &m->order;
    *m = (struct msg){.kind = MSG_KIND_order,
                      .order = {.version = MSG_VERSION,
                                .verb = wish == CTL_PAGE_DRAIN ? MSG_ORDER_DRAIN
                                        : wish == CTL_PAGE_END
                                            ? MSG_ORDER_END
                                            : MSG_ORDER_STACKS}};
    return read_object(h, wish, o) &&
           http_query(h, "run", o->run, sizeof(o->run)) > 0 &&
           o->run[0] != '\0';
}

static void answer_fault(const struct ddp_err *err)
{
    answer(err->code == DDP_E_UNREACHABLE ? 503 : 403, err->text);
}

static void add_lines(void *ctx, const char *text)
{
    struct buf *all = ctx;
    size_t len = strlen(text);
    (void)buf_put(all, text, len); /* what does not fit is left out */
    if (len > 0 && text[len - 1] != '\n')
        (void)buf_put(all, "\n", 1);
}

static void show_stacks(const struct ctl_page *p, const struct msg *order)
{
    struct ddp_err err;
    struct buf all;
    buf_init(&all, STACKS_MAX);
    if (ctl_order_shown(p->peer, order, mono_now_us() + p->timeout_us,
                        add_lines, &all, &err) == 0) {
        say_head(200, PLAIN, buf_len(&all), "");
        say(buf_head(&all), buf_len(&all));
    } else {
        answer_fault(&err);
    }
    buf_free(&all);
}

static void give_order(const struct ctl_page *p,
                       const struct http *h,
                       enum ctl_page_wish wish)
{
    static struct msg m;
    struct ddp_err err;
    char text[512];
    if (!read_order(h, wish, &m))
        answer(400, "an order needs run=, drain also node=, stacks rank=\n");
    else if (wish == CTL_PAGE_STACKS)
        show_stacks(p, &m);
    else if (ctl_order(p->peer, &m, mono_now_us() + p->timeout_us, text,
                       &err) == 0)
        answer(200, text);
    else
        answer_fault(&err);
}

/* -- connections ----------------------------------------------------------- */

/* What the browser says; 0 or -1: it has ended, or says nothing in time. */
static ssize_t read_browser(void *room, size_t len, int64_t end_us)
{
    struct pollfd ready = {.fd = browser, .events = POLLIN};
    int64_t ms = mono_ms_until(mono_now_us(), end_us);
    if (ms <= 0 || poll(&ready, 1, (int)ms) <= 0)
        return 0;
    return recv(browser, room, len, 0);
}

/* False: it does not come in time. */
static bool read_request(struct http *h)
{
    char piece[2048];
    int64_t end_us = mono_now_us() + REQUEST_US;
    for (;;) {
        ssize_t n = read_browser(piece, sizeof(piece), end_us);
        if (n <= 0)
            return false;
        if (http_feed(h, piece, (size_t)n))
            return true;
    }
}

/* Lets the browser read the answer to its end: to close with bytes unread would
 * reset the connection. */
static void linger(void)
{
    char rest[2048];
    int64_t end_us = mono_now_us() + LINGER_US;
    (void)shutdown(browser, SHUT_WR); /* fails if it has gone: the end, too */
    while (read_browser(rest, sizeof(rest), end_us) > 0)
        continue;
}

static const char *why_bad(int status)
{
    return status == 405 ? "only GET, HEAD and POST are served\n"
                         : "the request is not HTTP/1.1\n";
}

static void serve(const struct ctl_page *p)
{
    static struct http h;
    static struct http_field fields[CTL_PAGE_FIELDS];
    enum ctl_page_wish wish = CTL_PAGE_SHOW;
    const char *why;
    ctl_page_reader(&h, fields);
    if (!read_request(&h))
        return;
    int status = h.status;
    why = why_bad(status);
    if (status == 0)
        status = ctl_page_route(&h, p->port, p->key, &wish, &why);
    if (status != 200) {
        answer(status, why);
    } else if (wish == CTL_PAGE_SHOW) {
        say_head(200, PAGE_TYPE, strlen(page_html), page_headers);
        if (!h.is_head)
            say(page_html, strlen(page_html));
    } else if (wish == CTL_PAGE_EVENTS) {
        relay(p);
    } else {
        give_order(p, &h, wish);
    }
}

/* In a process of its own. */
static void serve_one(const struct ctl_page *p, int fd, pid_t parent)
{
    const struct timeval patience = {.tv_sec = WRITE_S};
    browser = fd;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    serve(p);
    linger();
    _exit(0);
}

static void on_child(int signo)
{
    (void)signo; /* it ends accept(2) */
}

static void accept_all(const struct ctl_page *p, int listener)
{
    int n = 0;
    pid_t self = getpid();
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        int why = errno;
        while (n > 0 && waitpid(-1, NULL, WNOHANG) > 0)
            n--;
        if (fd < 0) {
            if (why != EINTR && why != ECONNABORTED) /* such as EMFILE */
                (void)poll(NULL, 0, ACCEPT_MS);
            continue;
        }
        pid_t pid = n < CTL_PAGE_CONNS_MAX ? fork() : -1;
        if (pid == 0) {
            (void)close(listener);
            serve_one(p, fd, self);
        }
        n += pid > 0;
        (void)close(fd);
    }
}

/* On loopback only. -1: errno says why. */
static int listen_on(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)*port)};
    socklen_t len = sizeof(at);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&at, len) != 0 ||
        listen(fd, CTL_PAGE_CONNS_MAX) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        int saved = errno;
        (void)close(fd);
        errno = saved;
        return -1;
    }
    *port = ntohs(at.sin_port);
    return fd;
}

int ctl_page_run(struct ctl_page *p)
{
    const struct sigaction reap = {.sa_handler = on_child};
    int listener = listen_on(&p->port);
    if (listener < 0) {
        log_warn("cannot listen on port %d of 127.0.0.1: choose another one "
                 "(--port)",
                 p->port);
        return ddp_code_exit(DDP_E_IO);
    }
    rng_id(p->key);
    rng_id(p->key + RNG_ID_LEN);
    if (printf("http://127.0.0.1:%d/#%s\n", p->port, p->key) < 0 ||
        fflush(stdout) != 0) {
        log_warn("cannot write to standard output");
        return ddp_code_exit(DDP_E_IO);
    }
    log_info("this address shows what runs at %s, and gives orders: keep it to "
             "yourself; Ctrl-C ends it",
             p->where);
    (void)sigaction(SIGCHLD, &reap, NULL); /* a valid signal: cannot fail */
    accept_all(p, listener);
    return 0;
}
