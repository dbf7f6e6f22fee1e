/*
 * ctl/page: serves the page of a rendezvous on loopback, for a browser that
 * cannot speak to the rendezvous itself (a token), and with orders, which the
 * rendezvous does not take from a page.
 *
 * Others use the same browser and the same host. So everything but the page
 * itself, which is the same everywhere, needs a key that only the printed
 * address has, in a header field that no other page can send; the Host and the
 * Origin of a request must be this server's; and orders are POST only.
 */
#ifndef RENDEZVOUS_CTL_PAGE_H
#define RENDEZVOUS_CTL_PAGE_H

#include <stdint.h>

#include "rendezvous/base/rng.h"
#include "rendezvous/ctl/line.h"
#include "rendezvous/http/http.h"

#define CTL_PAGE_KEY_LEN   (2 * RNG_ID_LEN)
#define CTL_PAGE_CONNS_MAX 32

struct ctl_page {
    const struct ctl_peer *peer; /* resolved; borrowed */
    const char *where;           /* "head:29400", to be shown */
    int64_t timeout_us;          /* of each question to the rendezvous */
    int port;                    /* 0: a free one; then the one that it is */
    char key[CTL_PAGE_KEY_LEN + 1];
};

/* What a request wants. */
enum ctl_page_wish {
    CTL_PAGE_SHOW,
    CTL_PAGE_EVENTS,
    CTL_PAGE_DRAIN,
    CTL_PAGE_END,
    CTL_PAGE_STACKS,
};

/* The fields of a request that ctl_page_route looks at, in this order. */
enum ctl_page_field {
    CTL_PAGE_ORIGIN,
    CTL_PAGE_KEY,
    CTL_PAGE_FIELDS,
};

/* Makes a reader of one. Borrows `fields`, of CTL_PAGE_FIELDS. */
void ctl_page_reader(struct http *h, struct http_field *fields);

/* 200, and what a complete request wants; else the status of the refusal, and
 * in *why the reason, constant. Pure. */
int ctl_page_route(const struct http *h,
                   int port,
                   const char *key,
                   enum ctl_page_wish *wish,
                   const char **why);

/* Prints the address and serves until a signal ends the process. Returns an
 * exit status if it cannot: what went wrong was told. */
int ctl_page_run(struct ctl_page *p);

#endif
