/*
 * A request goes to the first row that fits: /healthz to everybody, the rest
 * only to a peer that may see it and knows our name, costly pages only while
 * there is time left.
 */
#include "rendezvous/http/http_routes.h"

#include <string.h>

#include "rendezvous/http/overview.h"
#include "rendezvous/http/page.h"

#define HELP                                                                   \
    "ddprun's rendezvous, version " DDPRUN_VERSION "\n"                        \
    "  /         for a browser: the runs at a glance\n"                        \
    "  /events   /status, each second in which it changes\n"                   \
    "  /healthz  ok, while it serves\n"                                        \
    "  /status   runs and nodes as JSON; ?run=ID\n"                            \
    "  /metrics  the same as numbers, for Prometheus\n"

static int put_text(struct httpd_answer *a, int status, const char *text)
{
    a->status = status;
    return buf_put(&a->body, text, strlen(text));
}

static const char *accepted(const struct http *request)
{
    return request->n_fields > 0 ? request->fields[0].value : "";
}

/* A browser names HTML in its Accept; curl takes anything. */
static int show_root(const struct http *request, struct httpd_answer *a)
{
    if (strcasestr(accepted(request), "text/html") == NULL)
        return put_text(a, 200, HELP);
    a->type = PAGE_TYPE;
    a->more = page_headers;
    return put_text(a, 200, page_html);
}

/* All steps at once: it is asked for seldom, and costs milliseconds. */
static int make_document(const struct http_routes_view *v,
                         struct buf *out,
                         const char *run)
{
    int rc;
    do
        rc =
            overview_step(v->overview, out, v->rdzv, &v->daemon, &v->when, run);
    while (rc > 0);
    return rc == 0 ? buf_put(out, "\n", 1) : rc;
}

static int show_status(const struct http_routes_view *v,
                       const struct http *request,
                       struct httpd_answer *a)
{
    char run[129]; /* messages.def: join's run */
    int has_run = http_query(request, "run", run, sizeof(run));
    if (has_run < 0)
        return put_text(a, 400, "run= must be a run id of 1 to 128 bytes\n");
    a->type = "application/json";
    return make_document(v, &a->body, has_run > 0 ? run : NULL);
}

static int show_metrics(const struct http_routes_view *v,
                        const struct http *request,
                        struct httpd_answer *a)
{
    int open = http_weight(accepted(request), "application/openmetrics-text");
    bool openmetrics =
        open > 0 && open >= http_weight(accepted(request), "text/plain");
    a->type = openmetrics
                  ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                  : "text/plain; version=0.0.4; charset=utf-8";
    return status_metrics(&a->body, v->rdzv, &v->daemon, v->when.now_us,
                          openmetrics);
}

int http_routes_answer(const struct http_routes_view *v,
                       const struct http *request,
                       bool trusted,
                       struct httpd_answer *a)
{
    const char *path = request->path;
    bool open = trusted || !v->daemon.token;
    bool metrics = strcmp(path, "/metrics") == 0;
    if (strcmp(path, "/healthz") == 0)
        return put_text(a, 200, "ok\n");
    if (!trusted && !http_hosts_has(v->hosts, request->host))
        return put_text(a, 403,
                        "this server does not know the name in the request's "
                        "Host field as its own: ask by its address, by its "
                        "host name, or start it with --http_hosts=NAME\n");
    if (!open && !(metrics && v->open_metrics))
        return put_text(a, 403,
                        "without the token only /healthz is shown: use ddpctl "
                        "with --token_file, in a browser by ddpctl page\n");
    if (a->busy && (metrics || strcmp(path, "/status") == 0))
        return -1;
    if (metrics)
        return show_metrics(v, request, a);
    if (strcmp(path, "/status") == 0)
        return show_status(v, request, a);
    if (strcmp(path, "/events") == 0) {
        a->type = "text/event-stream";
        a->watches = true;
        return 0;
    }
    if (strcmp(path, "/") == 0)
        return show_root(request, a);
    return put_text(a, 404,
                    "no such page; the pages are /, /events, /healthz, /status "
                    "and /metrics\n");
}
