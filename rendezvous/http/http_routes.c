/*
 * A request goes to the first row that fits: /healthz to everybody, the rest
 * only to a peer that may see it and knows our name, costly pages only while
 * there is time left.
 */
#include "rendezvous/http/http_routes.h"

#include <limits.h>
#include <string.h>

#include "rendezvous/base/opts.h"
#include "rendezvous/http/page.h"

#define HELP                                                                   \
    "ddprun's rendezvous, version " DDPRUN_VERSION "\n"                        \
    "  /         for a browser: the runs at a glance\n"                        \
    "  /events   what that page shows, each second in which it changes\n"      \
    "  /healthz  ok, while it serves\n"                                        \
    "  /status   runs and nodes as JSON; ?run=ID, ?nodes=N or ?nodes=all\n"    \
    "  /metrics  the same as numbers, for Prometheus\n"

static int put_text(struct httpd_answer *a, int status, const char *text)
{
    a->status = status;
    return buf_put(&a->body, text, strlen(text));
}

/* A browser names HTML in its Accept; curl takes anything. */
static int show_root(const struct http *request, struct httpd_answer *a)
{
    const char *accept = request->n_fields > 0 ? request->fields[0].value : "";
    if (strcasestr(accept, "text/html") == NULL)
        return put_text(a, 200, HELP);
    a->type = PAGE_TYPE;
    a->more = page_headers;
    return put_text(a, 200, page_html);
}

/* "all" or a number. */
static bool read_nodes(const char *text, int *nodes)
{
    int64_t number;
    if (strcmp(text, "all") == 0)
        number = INT_MAX;
    else if (!opts_read_int(text, 0, INT_MAX, &number))
        return false;
    *nodes = (int)number;
    return true;
}

static int show_status(const struct http_routes_view *v,
                       const struct http *request,
                       struct httpd_answer *a)
{
    char run[129]; /* messages.def: join's run */
    char count[16];
    int nodes = STATUS_NODES_DEFAULT;
    int has_run = http_query(request, "run", run, sizeof(run));
    int has_count = http_query(request, "nodes", count, sizeof(count));
    if (has_run < 0)
        return put_text(a, 400, "run= must be a run id of 1 to 128 bytes\n");
    if (has_count < 0 || (has_count > 0 && !read_nodes(count, &nodes)))
        return put_text(a, 400, "nodes= must be a number or all\n");
    a->type = "application/json";
    return status_json(&a->body, v->rdzv, &v->daemon, &v->when,
                       has_run > 0 ? run : NULL, nodes);
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
    if (metrics) {
        a->type = "text/plain; version=0.0.4; charset=utf-8";
        return status_metrics(&a->body, v->rdzv, &v->daemon, v->when.now_us);
    }
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
