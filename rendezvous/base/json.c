#include "rendezvous/base/json.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/utf8.h"

void json_init(struct json *j, struct buf *out)
{
    *j = (struct json){.out = out};
}

static void put(struct json *j, const char *text, size_t len)
{
    j->full |= buf_put(j->out, text, len) != 0;
}

/* The letter behind the backslash of a short escape; 0: it has none. */
static char short_of(char c)
{
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

/* Nearly all characters are printable ASCII, which needs no closer look: the
 * header of a snapshot has megabytes of them. */
static bool is_plain(const char *text, size_t *len)
{
    bool control;
    *len = 1;
    if (*text >= ' ' && *text < 0x7f && *text != '"' && *text != '\\')
        return true;
    *len = utf8_char(text, &control);
    return *len > 0 && !control && short_of(*text) == 0;
}

size_t json_plain(const char *text)
{
    size_t plain = 0, len;
    while (is_plain(text + plain, &len))
        plain += len;
    return plain;
}

size_t json_escape(const char *text, char esc[JSON_ESCAPE_SIZE])
{
    size_t len;
    bool plain = is_plain(text, &len);
    ddp_assert(!plain && *text != '\0');
    char letter = short_of(*text);
    unsigned code = (unsigned char)text[len == 2]; /* U+0080 to U+009F */
    if (len == 0)
        (void)snprintf(esc, JSON_ESCAPE_SIZE, "\\ufffd");
    else if (letter != 0)
        (void)snprintf(esc, JSON_ESCAPE_SIZE, "\\%c", letter);
    else
        (void)snprintf(esc, JSON_ESCAPE_SIZE, "\\u%04x", code);
    return len;
}

static void put_escaped(struct json *j, const char *text)
{
    for (;;) {
        char esc[JSON_ESCAPE_SIZE];
        size_t plain = json_plain(text);
        put(j, text, plain);
        text += plain;
        if (*text == '\0')
            return;
        size_t used = json_escape(text, esc);
        put(j, esc, strlen(esc));
        text += used == 0 ? 1 : used; /* what is no UTF-8 goes byte by byte */
    }
}

static void new_line(struct json *j)
{
    put(j, "\n", 1);
    for (int i = 0; i < j->depth; i++)
        put(j, "  ", 2);
}

static void begin(struct json *j, const char *key)
{
    if (j->comma)
        put(j, ",", 1);
    if (j->lines && j->depth > 0)
        new_line(j);
    j->comma = true;
    if (key == NULL)
        return;
    put(j, "\"", 1);
    put_escaped(j, key);
    put(j, "\": ", j->lines ? 3 : 2);
}

void json_open(struct json *j, const char *key, char bracket)
{
    ddp_assert(bracket == '{' || bracket == '[');
    begin(j, key);
    put(j, &bracket, 1);
    j->comma = false;
    j->depth++;
}

void json_close(struct json *j, char bracket)
{
    ddp_assert((bracket == '}' || bracket == ']') && j->depth > 0);
    j->depth--;
    if (j->lines && j->comma)
        new_line(j);
    put(j, &bracket, 1);
    j->comma = true;
}

void json_text(struct json *j, const char *key, const char *text)
{
    begin(j, key);
    put(j, "\"", 1);
    put_escaped(j, text);
    put(j, "\"", 1);
}

void json_null(struct json *j, const char *key)
{
    begin(j, key);
    put(j, "null", 4);
}

/* By hand: a list of ten thousand nodes has a hundred thousand numbers, and
 * the daemon has beats to answer meanwhile. */
static size_t print_digits(char text[24], uint64_t n, int least)
{
    char reversed[24];
    size_t len = 0;
    while (n > 0 || least > 0) {
        reversed[len++] = (char)('0' + n % 10);
        n /= 10;
        least--;
    }
    for (size_t i = 0; i < len; i++)
        text[i] = reversed[len - 1 - i];
    return len;
}

void json_int(struct json *j, const char *key, int64_t number)
{
    char text[24];
    uint64_t size = (uint64_t)number;
    begin(j, key);
    if (number < 0) {
        put(j, "-", 1);
        size = 0 - size;
    }
    put(j, text, print_digits(text, size, 1));
}

void json_bool(struct json *j, const char *key, bool value)
{
    begin(j, key);
    put(j, value ? "true" : "false", value ? 4 : 5);
}

static void
put_span(struct json *j, const char *key, uint64_t n, uint64_t unit, int digits)
{
    char text[24];
    begin(j, key);
    put(j, text, print_digits(text, n / unit, 1));
    put(j, ".", 1);
    put(j, text, print_digits(text, n % unit, digits));
}

void json_seconds(struct json *j, const char *key, int64_t us)
{
    put_span(j, key, us > 0 ? (uint64_t)us / 1000 : 0, 1000, 3);
}

void json_micros(struct json *j, const char *key, int64_t us)
{
    put_span(j, key, us > 0 ? (uint64_t)us : 0, 1000000, 6);
}
