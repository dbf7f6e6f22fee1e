/*
 * http/page: the page that a browser gets at /: one file with its style and its
 * script, which asks for nothing but /events. `ddpctl page` serves it, too.
 */
#ifndef RENDEZVOUS_HTTP_PAGE_H
#define RENDEZVOUS_HTTP_PAGE_H

extern const char page_html[]; /* ends with a NUL */

#define PAGE_TYPE "text/html; charset=utf-8"

/* Header lines of the page, each with its CRLF. Its policy allows the one
 * script and the one style, by their hashes, and requests to where it is from.
 */
extern const char page_headers[];

#endif
