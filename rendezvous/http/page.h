/*
 * http/page: the page that a browser gets at /: one file with its style and its
 * script, which asks for nothing but /events. `ddpctl page` serves it, too.
 * `ddpctl report` writes it with what there is to show in it: then it asks for
 * nothing.
 */
#ifndef RENDEZVOUS_HTTP_PAGE_H
#define RENDEZVOUS_HTTP_PAGE_H

extern const char page_html[]; /* ends with a NUL */

#define PAGE_TYPE "text/html; charset=utf-8"

/* Header lines of the page, each with its CRLF. The policy allows the page's
 * script and style, by their hashes, and requests to the server of the page. */
extern const char page_headers[];

/* The same for a file, which has no header lines and may make no request: lines
 * to be put in before PAGE_TITLE, and behind them the document, in an element
 * <script type="application/json" id="report">. */
extern const char page_policy[];

#define PAGE_TITLE "<title>"

#endif
