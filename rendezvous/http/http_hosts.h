/*
 * http/http_hosts: the names by which this server may be asked over HTTP. A web
 * page whose own name leads to this server's address (DNS rebinding) has a
 * browser ask in the page's name, and read the answer; the request's Host field
 * still has that name. So a request is answered only if its Host is a numeric
 * address, localhost, or a name that is known to be this server's.
 */
#ifndef RENDEZVOUS_HTTP_HTTP_HOSTS_H
#define RENDEZVOUS_HTTP_HTTP_HOSTS_H

#include <stdbool.h>

#include "rendezvous/base/err.h"

#define HTTP_HOSTS_MAX  1024 /* bytes of a list, with NUL */
#define HTTP_HOSTS_ROOM (HTTP_HOSTS_MAX + 16 * 256) /* 16 names before it */

struct http_hosts {
    char own[256]; /* of this machine, "" if it is not known */
    char others[HTTP_HOSTS_ROOM];
};

/* Whether a list is one: host names with commas. DDP_E_USAGE: it is not. */
int http_hosts_check(const char *list, struct ddp_err *err);

/* This machine's name, by gethostname(2), and those in the list; "": none. The
 * list may have HTTP_HOSTS_ROOM. A part that is no name is no error: it is
 * never asked for. */
void http_hosts_init(struct http_hosts *h, const char *list);

/*
 * Whether a request with this Host field may be answered: "NAME", "NAME:PORT",
 * "[v6]:PORT". "" is that of an old client (HTTP/1.0) that has none. No case
 * counts, and no dot at the end.
 */
bool http_hosts_has(const struct http_hosts *h, const char *host);

#endif
