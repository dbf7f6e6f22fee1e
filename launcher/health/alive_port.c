/*
 * Happy path: the listener accepts, the connection's first bytes are HTTP, and
 * http/httpd answers 200 to whatever is asked. The answer comes from the loop
 * that beats, starts and watches workers: if that stands still there is none.
 *
 * Anybody who reaches the node may connect, so nothing is told but that. A
 * connection that says nothing waits for its first bytes at most until
 * ALIVE_PORT_CONNS others came; what speaks anything but HTTP is closed.
 */
#include "launcher/health/alive_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/log.h"
#include "rendezvous/http/httpd.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/listener.h"

#define VARIABLE         "TORCHELASTIC_HEALTH_CHECK_PORT"
#define ALIVE_PORT_MAGIC 0x616c6976u

struct alive_port {
    unsigned magic;
    uv_loop_t *loop;
    struct listener *listener;
    struct httpd *httpd;
    struct conn *silent[ALIVE_PORT_CONNS]; /* NULL: free */
    unsigned next;                         /* the oldest of them, or free */
};

static struct alive_port *alive_port_of(void *ctx)
{
    struct alive_port *a = ctx;
    ddp_assert(a->magic == ALIVE_PORT_MAGIC);
    return a;
}

static void forget(struct alive_port *a, const struct conn *c)
{
    for (int i = 0; i < ALIVE_PORT_CONNS; i++)
        if (a->silent[i] == c)
            a->silent[i] = NULL;
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    (void)m;
    forget(alive_port_of(ctx), c);
    conn_close(c);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    (void)why;
    forget(alive_port_of(ctx), c);
}

static void on_foreign(void *ctx, struct conn *c, enum first first)
{
    struct alive_port *a = alive_port_of(ctx);
    if (first != FIRST_HTTP)
        return; /* on_closed follows */
    forget(a, c);
    httpd_take(a->httpd, c);
}

static const struct conn_handler conn_handler = {
    .on_msg = on_msg,
    .on_closed = on_closed,
    .on_foreign = on_foreign,
};

static void on_fd(void *ctx, int fd)
{
    struct alive_port *a = alive_port_of(ctx);
    struct conn **place = &a->silent[a->next++ % ALIVE_PORT_CONNS];
    struct ddp_err err;
    if (*place != NULL)
        conn_close(*place);
    *place = conn_accept(a->loop, fd, &conn_handler, a, &err);
}

static const struct listener_handler listener_handler = {.on_fd = on_fd};

static int answer(void *ctx,
                  const struct http *request,
                  bool trusted,
                  struct httpd_answer *out)
{
    static const char body[] = "alive\n";
    (void)ctx, (void)request, (void)trusted;
    out->status = 200;
    out->type = "text/plain; charset=utf-8";
    return buf_put(&out->body, body, sizeof(body) - 1);
}

static int port_of(const char *text)
{
    char *end;
    errno = 0;
    long port = strtol(text, &end, 10);
    bool good = errno == 0 && end != text && *end == '\0';
    return good && port >= 1 && port <= 65535 ? (int)port : -1;
}

static int listen_on(struct alive_port *a, int port, struct ddp_err *err)
{
    int fd;
    if (addr_listen_any(port, &fd, err) != 0)
        return -1;
    return listener_open(&a->listener, a->loop, fd, &listener_handler, a, err);
}

bool alive_port_open(uv_loop_t *loop)
{
    const struct httpd_conf conf = {.conns_max = ALIVE_PORT_CONNS,
                                    .answer = answer};
    const char *text = getenv(VARIABLE);
    struct ddp_err err;
    if (text == NULL || text[0] == '\0')
        return false;
    int port = port_of(text);
    if (port < 0) {
        log_warnx(VARIABLE "=%s is no port, so none is opened", text);
        return false;
    }
    struct alive_port *a = calloc(1, sizeof(*a));
    if (a == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for " VARIABLE);
    *a = (struct alive_port){.magic = ALIVE_PORT_MAGIC, .loop = loop};
    if (listen_on(a, port, &err) != 0) {
        log_warnx("cannot serve " VARIABLE ": %s; the job goes on without",
                  err.text);
        free(a);
        return false;
    }
    a->httpd = httpd_open(loop, &conf);
    return true;
}
