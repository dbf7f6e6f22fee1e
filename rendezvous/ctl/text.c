#include "rendezvous/ctl/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "rendezvous/base/utf8.h"

/* -- characters ------------------------------------------------------------ */

static wchar_t code_of(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned code = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (p[i] & 0x3fu);
    return (wchar_t)code;
}

/* Columns of the character at `text`, whose length goes to *len; 0: it is not
 * to be shown, and *len bytes are to be left out. */
static int
width_of(const struct ctl_style *style, const char *text, size_t *len)
{
    bool control;
    *len = utf8_char(text, &control);
    if (*len == 0) {
        *len = 1;
        return 0;
    }
    if (control)
        return 0;
    if (*len == 1)
        return 1;
    int width = style->utf8 ? wcwidth(code_of(text, *len)) : 0;
    return width > 0 ? width : 0;
}

void ctl_clean(const struct ctl_style *style,
               const char *from,
               char *to,
               size_t size)
{
    size_t at = 0;
    size_t len;
    for (; *from != '\0'; from += len) {
        bool shown = width_of(style, from, &len) > 0;
        size_t add = shown ? len : 1;
        if (at + add >= size)
            break;
        memcpy(to + at, shown ? from : "?", add);
        at += add;
    }
    to[at] = '\0';
}

int ctl_columns(const struct ctl_style *style, const char *text)
{
    int columns = 0;
    size_t len;
    for (; *text != '\0'; text += len)
        columns += width_of(style, text, &len);
    return columns;
}

static const char *ellipsis(const struct ctl_style *style)
{
    return style->utf8 ? "\xe2\x80\xa6" : "~";
}

/* Bytes at the front of `text` that take no more than so many columns. */
static size_t
front(const struct ctl_style *style, const char *text, int columns)
{
    size_t at = 0;
    size_t len;
    while (text[at] != '\0') {
        columns -= width_of(style, text + at, &len);
        if (columns < 0)
            break;
        at += len;
    }
    return at;
}

/* Keeps so many columns in front and behind, with an ellipsis between, which
 * may have more bytes than what it stands for. */
static void cut(const struct ctl_style *style,
                char *text,
                size_t size,
                int before,
                int behind)
{
    const char *dots = ellipsis(style);
    size_t dots_len = strlen(dots);
    int columns = ctl_columns(style, text);
    size_t head = front(style, text, before);
    size_t tail = front(style, text, columns - behind);
    if (ctl_columns(style, text + tail) > behind)
        tail = front(style, text, columns - behind + 1); /* a wide one */
    size_t tail_len = strlen(text + tail);
    if (head + dots_len + tail_len >= size) {
        text[head] = '\0';
        return;
    }
    memmove(text + head + dots_len, text + tail, tail_len + 1);
    memcpy(text + head, dots, dots_len);
}

void ctl_fit(const struct ctl_style *style,
             char *text,
             size_t size,
             int columns)
{
    if (ctl_columns(style, text) > columns)
        cut(style, text, size, columns / 2, columns - columns / 2 - 1);
}

void ctl_fit_end(const struct ctl_style *style,
                 char *text,
                 size_t size,
                 int columns)
{
    if (ctl_columns(style, text) > columns)
        cut(style, text, size, columns - 1, 0);
}

/* -- numbers --------------------------------------------------------------- */

void ctl_number(int64_t n, char text[32])
{
    char digits[24];
    size_t at = 0;
    int len = snprintf(digits, sizeof(digits), "%lld", (long long)n);
    for (int i = 0; i < len; i++) {
        bool comma = i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-';
        if (comma)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
}

void ctl_span(double seconds, char text[24])
{
    char days[32];
    if (!(seconds > 0))
        seconds = 0;
    if (seconds > 1e12)
        seconds = 1e12;
    int64_t s = (int64_t)seconds;
    if (s < 60)
        (void)snprintf(text, 24, "%d s", (int)s);
    else if (s < 3600)
        (void)snprintf(text, 24, "%d min", (int)(s / 60));
    else if (s < 86400)
        (void)snprintf(text, 24, "%d h %d min", (int)(s / 3600),
                       (int)(s % 3600 / 60));
    else if (s < 86400 * 100)
        (void)snprintf(text, 24, "%d d %d h", (int)(s / 86400),
                       (int)(s % 86400 / 3600));
    else {
        ctl_number(s / 86400, days);
        (void)snprintf(text, 24, "%.20s d", days); /* 10^12 s have 8 digits */
    }
}

/* -- tints ----------------------------------------------------------------- */

const char *ctl_on(const struct ctl_style *style, enum ctl_tint tint)
{
    static const char *const codes[] = {
        [TINT_NONE] = "",         [TINT_GOOD] = "\033[32m",
        [TINT_WARN] = "\033[33m", [TINT_BAD] = "\033[31m",
        [TINT_DIM] = "\033[2m",   [TINT_BOLD] = "\033[1m",
    };
    return style->color ? codes[style->grey ? TINT_DIM : tint] : "";
}

const char *ctl_off(const struct ctl_style *style, enum ctl_tint tint)
{
    bool tinted = tint != TINT_NONE || style->grey;
    return style->color && tinted ? "\033[0m" : "";
}

/* -- lines ----------------------------------------------------------------- */

#define LINE_MAX_BYTES 1024

void ctl_put(const struct ctl_style *style,
             FILE *f,
             enum ctl_tint tint,
             const char *fmt,
             ...)
{
    char raw[LINE_MAX_BYTES];
    char clean[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(raw, sizeof(raw), fmt, ap); /* may be cut */
    va_end(ap);
    ctl_clean(style, raw, clean, sizeof(clean));
    ctl_fit_end(style, clean, sizeof(clean), style->width);
    fprintf(f, "%s%s%s\n", ctl_on(style, tint), clean, ctl_off(style, tint));
}
