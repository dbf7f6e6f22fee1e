/*
 * http/page: the page that a browser gets at /: one file with its style and its
 * script, which asks for nothing but /events. `ddpctl page` serves it, too.
 */
#ifndef RENDEZVOUS_HTTP_PAGE_H
#define RENDEZVOUS_HTTP_PAGE_H

extern const char page_html[]; /* ends with a NUL */

#define PAGE_TYPE "text/html; charset=utf-8"

/* Header lines of the page, each with its CRLF. The policy allows the page's
 * script and style, by their hashes, and requests to the server of the page. */
extern const char page_headers[];

#endif
