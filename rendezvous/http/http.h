/*
 * http/http: reads an HTTP/1 request (RFC 9112) as its bytes come in, and
 * writes the head of the answer. For a daemon that has a few things to show:
 * GET and HEAD; no body is read and no connection is kept. Pure: no I/O, no
 * allocation; a reader keeps the request's target and host, the header fields
 * that it is asked for, and forgets the rest.
 */
#ifndef RENDEZVOUS_HTTP_HTTP_H
#define RENDEZVOUS_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX   8192u /* bytes, request line and header fields */
#define HTTP_TARGET_MAX 1024u
#define HTTP_HOST_MAX   263u /* a name, or an address, and a port */
#define HTTP_FIELD_MAX  255u
#define HTTP_LINE_MAX   1024u /* room for an answer's head */
#define HTTP_STATUSES   10    /* that there are to answer with */
#define HTTP_ENDLESS    SIZE_MAX

enum http_state {
    HTTP_METHOD,
    HTTP_TARGET,
    HTTP_VERSION,
    HTTP_LINE, /* before the first byte of a header line */
    HTTP_NAME,
    HTTP_VALUE,
    HTTP_DONE, /* see `status` */
};

/* A header field that is wanted. A name has 15 bytes at most. */
struct http_field {
    const char *name;
    char value[HTTP_FIELD_MAX + 1]; /* of the first of that name; is cut */
};

struct http {
    /* Set by the caller after http_init, if wanted: */
    struct http_field *fields; /* borrowed */
    int n_fields;
    bool takes_post; /* else it is answered by 405 */
    /* Read: */
    enum http_state state;
    int status; /* in HTTP_DONE: 0, or what to answer: 400, 405, 414, 431,
                   505 */
    bool is_head, is_post;
    char *path; /* without the query, which begins behind its NUL; in target */
    char *query;
    char host[HTTP_HOST_MAX + 1]; /* of the target, else of the header; "" */
    /* Inside: */
    size_t bytes;  /* of the head so far */
    size_t len;    /* of the token that is being read */
    int hosts;     /* header fields of that name */
    bool has_host; /* of the target: the header does not count */
    char *value;   /* where the field's value goes; NULL: nowhere */
    size_t value_max;
    bool cr;       /* the last byte was one */
    bool other;    /* a method that is not served */
    bool one_zero; /* HTTP/1.0 */
    char word[16]; /* method, version, name of a header field, as far as it
                      matters */
    char target[HTTP_TARGET_MAX + 1];
};

void http_init(struct http *h);

/*
 * The next bytes; those behind the head are ignored. True once the request is
 * whole, or can never be one: h->status says which. Not to be called again
 * then. `path` begins with '/'.
 */
bool http_feed(struct http *h, const void *data, size_t len);

/*
 * Puts the value of a name in the query, decoded (%20, +), into `value`.
 * Returns 1; 0: the name is not there; -1: the value is too long, has a NUL in
 * it, or is badly encoded.
 */
int http_query(const struct http *h,
               const char *name,
               char *value,
               size_t size);

/*
 * The weight, in thousandths, that the value of an Accept field gives a type of
 * content which it names (RFC 9110, 12.4.2); 0: it does not name the type,
 * which a wildcard does not do.
 */
int http_weight(const char *accept, const char *type);

/* "Not Found"; DDP_WRONG for a status that is never used. */
const char *http_reason(int status);

/* Writes the head of an answer with a body of `body_len` bytes (HTTP_ENDLESS:
 * up to the end of the connection) and with `more` header lines, each with its
 * CRLF; returns the length of the head. */
size_t http_head(char line[HTTP_LINE_MAX],
                 int status,
                 const char *type,
                 size_t body_len,
                 const char *more);

#endif
