/*
 * A state machine, one byte a step. Happy path: METHOD, TARGET, VERSION, then
 * NAME and VALUE for each header field, and an empty line, at which the request
 * is DONE with status 0. A request that is not well-formed, or that another
 * reader could understand otherwise, is DONE with the status of its refusal at
 * the first byte that shows it. A line may end with LF alone, as RFC 9112 (2.2)
 * allows.
 */
#include "rendezvous/http/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "rendezvous/base/err.h"

void http_init(struct http *h)
{
    memset(h, 0, sizeof(*h));
}

static void end(struct http *h, int status)
{
    h->state = HTTP_DONE;
    h->status = status;
}

/* RFC 9110, 5.6.2 */
static bool is_tchar(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static void add_word(struct http *h, unsigned char c)
{
    if (h->len < sizeof(h->word) - 1)
        h->word[h->len] = (char)c;
    h->len++;
}

/* Whether the word is this one; a longer one was cut, and is none. */
static bool is_word(const struct http *h, const char *word)
{
    return h->len == strlen(word) && h->len < sizeof(h->word) &&
           strncasecmp(h->word, word, h->len) == 0;
}

static void in_method(struct http *h, unsigned char c)
{
    if (c != ' ') {
        add_word(h, c);
        if (!is_tchar(c))
            end(h, 400);
        return;
    }
    h->is_head = h->len == 4 && memcmp(h->word, "HEAD", 4) == 0;
    h->is_post =
        h->takes_post && h->len == 4 && memcmp(h->word, "POST", 4) == 0;
    h->other = !h->is_head && !h->is_post &&
               !(h->len == 3 && memcmp(h->word, "GET", 3) == 0);
    h->len = 0;
    h->state = HTTP_TARGET;
}

/* "http://host/path": its host goes before that of the header (RFC 9112,
 * 3.2.2). */
static void take_host(struct http *h)
{
    const char *host = h->target + 7;
    size_t len = strcspn(host, "/?");
    h->path = h->target + 7 + len;
    h->has_host = true;
    if (len == 0 || len > HTTP_HOST_MAX) {
        end(h, 400);
        return;
    }
    memcpy(h->host, host, len);
    h->host[len] = '\0';
}

static void split_target(struct http *h)
{
    h->target[h->len] = '\0';
    h->path = h->target;
    if (strncasecmp(h->path, "http://", 7) == 0)
        take_host(h);
    h->query = strchr(h->path, '?');
    if (h->query != NULL)
        *h->query++ = '\0';
    if (h->path[0] != '/' && !h->other)
        end(h, 400);
}

static void in_target(struct http *h, unsigned char c)
{
    if (c == ' ') {
        h->state = HTTP_VERSION;
        split_target(h);
        h->len = 0;
    } else if (c <= ' ' || c >= 0x7f) {
        end(h, 400);
    } else if (h->len == HTTP_TARGET_MAX) {
        end(h, 414);
    } else {
        h->target[h->len++] = (char)c;
    }
}

static void in_version(struct http *h, unsigned char c)
{
    if (c != '\n') {
        add_word(h, c);
        if (h->len > 8)
            end(h, 400);
        return;
    }
    h->one_zero = is_word(h, "HTTP/1.0");
    if (h->len != 8 || memcmp(h->word, "HTTP/", 5) != 0)
        end(h, 400);
    else if (h->word[5] != '1' || h->word[6] != '.')
        end(h, 505);
    else
        h->state = HTTP_LINE;
}

/* The empty line. HTTP/1.1 wants exactly one Host (RFC 9112, 3.2). */
static void end_head(struct http *h)
{
    bool hosts_fit = h->hosts == 1 || (h->one_zero && h->hosts == 0);
    end(h, h->other ? 405 : hosts_fit ? 0 : 400);
}

static void in_line(struct http *h, unsigned char c)
{
    h->len = 0;
    if (c == '\n') {
        end_head(h);
        return;
    }
    h->state = HTTP_NAME;
    add_word(h, c);
    if (!is_tchar(c)) /* a folded line begins with a blank: RFC 9112, 5.2 */
        end(h, 400);
}

/* Where the value of the field whose name was read goes. */
static void find_value(struct http *h)
{
    bool is_host = is_word(h, "Host");
    h->hosts += is_host;
    h->value = is_host && !h->has_host ? h->host : NULL;
    h->value_max = HTTP_HOST_MAX;
    for (int i = 0; i < h->n_fields && !is_host; i++) {
        struct http_field *f = &h->fields[i];
        if (!is_word(h, f->name) || f->value[0] != '\0')
            continue;
        h->value = f->value;
        h->value_max = HTTP_FIELD_MAX;
    }
}

static void in_name(struct http *h, unsigned char c)
{
    if (c == ':') {
        find_value(h);
        h->len = 0;
        h->state = HTTP_VALUE;
        return;
    }
    add_word(h, c);
    if (!is_tchar(c))
        end(h, 400);
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

/* Without blanks around it. Only a host must be whole. */
static void add_value(struct http *h, unsigned char c)
{
    if (h->len == 0 && is_blank(c))
        return;
    if (h->len < h->value_max)
        h->value[h->len++] = (char)c;
    else if (h->value == h->host)
        end(h, 400);
}

static void end_value(struct http *h)
{
    while (h->len > 0 && is_blank((unsigned char)h->value[h->len - 1]))
        h->len--;
    h->value[h->len] = '\0';
}

static void in_value(struct http *h, unsigned char c)
{
    if (c == '\n') {
        h->state = HTTP_LINE;
        if (h->value != NULL)
            end_value(h);
    } else if ((c < ' ' && c != '\t') || c == 0x7f) {
        end(h, 400);
    } else if (h->value != NULL) {
        add_value(h, c);
    }
}

static void step(struct http *h, unsigned char c)
{
    switch (h->state) {
    case HTTP_METHOD:
        in_method(h, c);
        return;
    case HTTP_TARGET:
        in_target(h, c);
        return;
    case HTTP_VERSION:
        in_version(h, c);
        return;
    case HTTP_LINE:
        in_line(h, c);
        return;
    case HTTP_NAME:
        in_name(h, c);
        return;
    case HTTP_VALUE:
        in_value(h, c);
        return;
    case HTTP_DONE:
        return;
    }
    DDP_WRONG("http state");
}

bool http_feed(struct http *h, const void *data, size_t len)
{
    const unsigned char *p = data;
    ddp_assert(h->state != HTTP_DONE);
    for (size_t i = 0; i < len && h->state != HTTP_DONE; i++) {
        if (++h->bytes > HTTP_HEAD_MAX) {
            end(h, 431);
        } else if (p[i] == '\r' && !h->cr && h->state >= HTTP_VERSION) {
            h->cr = true; /* and now a LF */
        } else if (h->cr && p[i] != '\n') {
            end(h, 400);
        } else {
            h->cr = false;
            step(h, p[i]);
        }
    }
    return h->state == HTTP_DONE;
}

/* -- the query ------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool decode(const char *text, size_t len, char *value, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i] == '+' ? ' ' : text[i];
        if (c == '%') {
            int high = i + 1 < len ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n + 1 >= size)
            return false;
        value[n++] = c;
    }
    value[n] = '\0';
    return true;
}

int http_query(const struct http *h, const char *name, char *value, size_t size)
{
    size_t name_len = strlen(name);
    const char *p = h->query;
    while (p != NULL && *p != '\0') {
        size_t len = strcspn(p, "&");
        if (len > name_len && p[name_len] == '=' &&
            memcmp(p, name, name_len) == 0)
            return decode(p + name_len + 1, len - name_len - 1, value, size)
                       ? 1
                       : -1;
        p += len + (p[len] == '&');
    }
    return 0;
}

/* -- the answer ------------------------------------------------------------ */

/* "0.25", three digits behind the point at most. */
static int thousandths(const char *p)
{
    int whole = *p == '1' ? 1000 : 0, unit = 100, part = 0;
    if (p[0] == '\0' || p[1] != '.')
        return whole;
    for (p += 2; *p >= '0' && *p <= '9' && unit > 0; p++, unit /= 10)
        part += (*p - '0') * unit;
    return whole + part > 1000 ? 1000 : whole + part;
}

/* Of one range, at its parameters: ";version=1.0.0; q=0.5,...". */
static int range_weight(const char *params)
{
    const char *end = params + strcspn(params, ",");
    for (const char *p = params; p < end; p += strcspn(p, ";,")) {
        p += strspn(p, "; \t");
        if (strncasecmp(p, "q=", 2) == 0)
            return thousandths(p + 2);
    }
    return 1000;
}

int http_weight(const char *accept, const char *type)
{
    int best = 0;
    size_t len = strlen(type);
    for (const char *at = accept; *at != '\0'; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        bool named =
            strncasecmp(at, type, len) == 0 && strchr(";, \t", at[len]) != NULL;
        int weight = named ? range_weight(at + len) : 0;
        best = weight > best ? weight : best;
    }
    return best;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {414, "URI Too Long"},
        {431, "Request Header Fields Too Large"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    _Static_assert(sizeof(rows) / sizeof(rows[0]) == HTTP_STATUSES,
                   "one counter for each code");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].status == status)
            return rows[i].reason;
    DDP_WRONG("http status");
}

size_t http_head(char line[HTTP_LINE_MAX],
                 int status,
                 const char *type,
                 size_t body_len,
                 const char *more)
{
    char length[48] = "";
    if (body_len != HTTP_ENDLESS)
        (void)snprintf(length, sizeof(length), /* fits */
                       "Content-Length: %zu\r\n", body_len);
    int n = snprintf(line, HTTP_LINE_MAX,
                     "HTTP/1.1 %d %s\r\n"
                     "Content-Type: %s\r\n"
                     "%s%s%s%s"
                     "Cache-Control: no-store\r\n"
                     "X-Content-Type-Options: nosniff\r\n"
                     "Connection: close\r\n\r\n",
                     status, http_reason(status), type, length,
                     status == 405 ? "Allow: GET, HEAD\r\n" : "",
                     status == 503 ? "Retry-After: 1\r\n" : "", more);
    ddp_assert(n > 0 && (size_t)n < HTTP_LINE_MAX);
    return (size_t)n;
}
