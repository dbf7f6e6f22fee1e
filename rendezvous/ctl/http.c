#include "rendezvous/ctl/http.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/opts.h"

#define PIECE 16384

static int foreign(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_PROTO,
                       "the answer is not from a ddprun rendezvous");
}

/* -- an answer ------------------------------------------------------------- */

/* The value of a header, trimmed, as a text in `value`; false: it is not there
 * or too long. `head` ends behind its last line's CRLF. */
static bool
find_header(const char *head, size_t head_len, const char *name, char value[64])
{
    size_t name_len = strlen(name);
    const char *end = head + head_len;
    for (const char *line = head; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        if (eol == NULL)
            return false;
        const char *v = line + name_len + 1;
        if (v <= eol && strncasecmp(line, name, name_len) == 0 &&
            line[name_len] == ':') {
            while (v < eol && (*v == ' ' || *v == '\t'))
                v++;
            size_t len = (size_t)(eol - v);
            while (len > 0 && isspace((unsigned char)v[len - 1]))
                len--;
            if (len >= 64)
                return false;
            memcpy(value, v, len);
            value[len] = '\0';
            return true;
        }
        line = eol + 1;
    }
    return false;
}

int ctl_http_parse(const char *all,
                   size_t all_len,
                   int *status,
                   const char **body,
                   size_t *body_len,
                   struct ddp_err *err)
{
    char value[64];
    if (all_len < 13 || memcmp(all, "HTTP/1.", 7) != 0 || all[8] != ' ' ||
        !isdigit((unsigned char)all[9]) || !isdigit((unsigned char)all[10]) ||
        !isdigit((unsigned char)all[11]) || isalnum((unsigned char)all[12]))
        return foreign(err);
    *status = (all[9] - '0') * 100 + (all[10] - '0') * 10 + (all[11] - '0');
    const char *blank = memmem(all, all_len, "\r\n\r\n", 4);
    if (blank == NULL)
        return ddp_err_set(err, DDP_E_PROTO, "the answer was cut off");
    size_t head_len = (size_t)(blank - all) + 2;
    *body = blank + 4;
    *body_len = all_len - head_len - 2;
    if (find_header(all, head_len, "Transfer-Encoding", value))
        return ddp_err_set(err, DDP_E_PROTO,
                           "the answer has an encoding that no ddprun "
                           "rendezvous uses");
    int64_t length;
    if (!find_header(all, head_len, "Content-Length", value))
        return 0; /* up to the end */
    if (!opts_read_int(value, 0, CTL_HTTP_BODY_MAX, &length))
        return ddp_err_set(err, DDP_E_PROTO,
                           "the length of the answer is invalid");
    if ((size_t)length > *body_len)
        return ddp_err_set(err, DDP_E_PROTO,
                           "the answer was cut off after %zu of %lld bytes",
                           *body_len, (long long)length);
    *body_len = (size_t)length;
    return 0;
}

/* -- a question ------------------------------------------------------------ */

void ctl_http_escape(const char *text, char *out, size_t size)
{
    size_t at = 0;
    for (const char *p = text; *p != '\0' && at + 4 <= size; p++) {
        unsigned char c = (unsigned char)*p;
        bool plain = c < 0x80 && (isalnum(c) || strchr("-._~", c) != NULL);
        if (plain)
            out[at++] = *p;
        else
            at += (size_t)snprintf(out + at, 4, "%%%02X", c);
    }
    out[at] = '\0';
}

/* Everything up to the end. First bytes that are no HTTP end it at once. */
static int read_all(struct ctl_line *line, struct buf *in, struct ddp_err *err)
{
    for (;;) {
        size_t have = buf_len(in);
        size_t first = have < 7 ? have : 7;
        if (first > 0 && memcmp(buf_head(in), "HTTP/1.", first) != 0)
            return foreign(err);
        uint8_t *room = buf_reserve(in, PIECE);
        if (room == NULL)
            return ddp_err_set(err, DDP_E_PROTO,
                               "the answer is longer than %u MB",
                               CTL_HTTP_BODY_MAX >> 20);
        long n = ctl_line_read(line, room, PIECE, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return 0;
        buf_commit(in, (size_t)n);
    }
}

static int
take(const struct buf *in, struct ctl_answer *out, struct ddp_err *err)
{
    const char *body;
    if (buf_len(in) == 0)
        return ddp_err_set(err, DDP_E_UNREACHABLE,
                           "the connection was closed without an answer");
    if (ctl_http_parse((const char *)buf_head(in), buf_len(in), &out->status,
                       &body, &out->len, err) != 0)
        return -1;
    out->body = malloc(out->len + 1);
    if (out->body == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the answer");
    memcpy(out->body, body, out->len);
    out->body[out->len] = '\0';
    return 0;
}

int ctl_http_get(const struct ctl_peer *peer,
                 const char *path,
                 int64_t deadline_us,
                 struct ctl_answer *out,
                 struct ddp_err *err)
{
    char text[1024];
    struct buf in;
    struct ctl_line *line = ctl_line_open(peer, deadline_us, err);
    if (line == NULL)
        return -1;
    /* Any name leads here: that it was meant is known by the port. */
    int n = snprintf(text, sizeof(text),
                     "GET %s HTTP/1.1\r\nHost: localhost\r\n"
                     "User-Agent: ddpctl/" DDPRUN_VERSION "\r\n"
                     "Connection: close\r\n\r\n",
                     path);
    ddp_assert(n > 0 && (size_t)n < sizeof(text));
    buf_init(&in, CTL_HTTP_BODY_MAX + CTL_HTTP_HEAD_MAX + PIECE);
    int rc = ctl_line_write(line, text, (size_t)n, err);
    if (rc == 0)
        rc = read_all(line, &in, err);
    if (rc == 0)
        rc = take(&in, out, err);
    buf_free(&in);
    ctl_line_close(line);
    return rc;
}
