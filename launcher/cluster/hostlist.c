/*
 * A list is walked from left to right. A name is put together in one buffer:
 * brackets are a loop over their numbers, and what stands behind them is
 * expanded inside of it (a recursion as deep as a name has brackets). Each turn
 * of such a loop gives at least one host, and the hosts are counted, so that a
 * hostile list costs no more than HOSTLIST_HOSTS_MAX names.
 *
 * A number has at least as many digits as the first of its range was written
 * with: 09-11 is 09, 10, 11.
 */
#include "launcher/cluster/hostlist.h"

#include <ctype.h>
#include <string.h>

struct walk {
    hostlist_fn fn;
    void *ctx;
    struct ddp_err *err;
    int hosts;
    bool ended; /* by fn */
    char name[HOSTLIST_NAME_MAX + 1];
};

/* A number or a range within brackets. */
struct range {
    long first, last;
    int digits;
};

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

bool hostlist_is_name(const char *name)
{
    size_t len = 0;
    while (name[len] != '\0' && is_name_char(name[len]))
        len++;
    return name[len] == '\0' && len > 0 && len <= HOSTLIST_NAME_MAX;
}

static int wrong(const struct walk *w, const char *at, const char *wanted)
{
    return ddp_err_set(w->err, DDP_E_USAGE, "'%.40s': %s", at, wanted);
}

/* Up to HOSTLIST_DIGITS_MAX digits; returns how many, 0: none or too many. */
static int read_number(const char *p, long *n)
{
    int digits = 0;
    *n = 0;
    while (isdigit((unsigned char)p[digits])) {
        if (digits == HOSTLIST_DIGITS_MAX)
            return 0;
        *n = *n * 10 + (p[digits++] - '0');
    }
    return digits;
}

/* "7" or "09-11" at *at, which then points behind it. */
static int read_range(const struct walk *w, const char **at, struct range *r)
{
    const char *p = *at;
    r->digits = read_number(p, &r->first);
    if (r->digits == 0)
        return wrong(w, p,
                     "brackets must have numbers of up to 9 digits, and "
                     "ranges such as 1-3");
    p += r->digits;
    r->last = r->first;
    if (*p == '-') {
        int digits = read_number(p + 1, &r->last);
        if (digits == 0 || r->last < r->first)
            return wrong(w, *at,
                         "a range must be FIRST-LAST, with a number "
                         "that is not smaller behind the '-'");
        p += 1 + digits;
    }
    if (*p != ',' && *p != ']')
        return wrong(w, *at,
                     "',' or ']' must stand behind a number in "
                     "brackets");
    *at = p;
    return 0;
}

static int tell(struct walk *w, size_t len)
{
    w->name[len] = '\0';
    if (len == 0)
        return ddp_err_set(w->err, DDP_E_USAGE,
                           "the name of a host is missing beside a comma");
    if (w->hosts == HOSTLIST_HOSTS_MAX)
        return ddp_err_set(w->err, DDP_E_USAGE,
                           "more than %d hosts", /* messages: ok */
                           HOSTLIST_HOSTS_MAX);
    w->hosts++;
    w->ended = !w->fn(w->ctx, w->name);
    return 0;
}

static int
expand(struct walk *w, const char *p, const char *end, size_t len, int depth);

/* With at least `least` digits, at the end of `out`. Returns how many. */
static int put_digits(char out[24], long n, int least)
{
    int count = 0;
    do {
        out[23 - count++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0 || count < least);
    return count;
}

/* One number in the place of its brackets, and what stands behind them. */
static int put_number(struct walk *w,
                      const struct range *r,
                      long n,
                      const char *behind,
                      const char *end,
                      size_t len,
                      int depth)
{
    char digits[24];
    int count = put_digits(digits, n, r->digits);
    if (len + (size_t)count > HOSTLIST_NAME_MAX)
        return wrong(w, w->name, "a name must not be longer than 255 bytes");
    memcpy(w->name + len, digits + sizeof(digits) - count, (size_t)count);
    return expand(w, behind, end, len + (size_t)count, depth + 1);
}

/* `p` is at the bracket that opens. */
static int expand_brackets(
    struct walk *w, const char *p, const char *end, size_t len, int depth)
{
    const char *close = memchr(p, ']', (size_t)(end - p));
    if (close == NULL)
        return wrong(w, p, "a ']' is missing");
    if (depth == HOSTLIST_BRACKETS_MAX)
        return wrong(w, p, "a name must not have more than 4 brackets");
    do {
        struct range r;
        p++; /* the bracket or a comma */
        if (read_range(w, &p, &r) < 0)
            return -1;
        for (long n = r.first; n <= r.last && !w->ended; n++)
            if (put_number(w, &r, n, close + 1, end, len, depth) < 0)
                return -1;
    } while (*p == ',' && !w->ended);
    return 0;
}

/* What stands at `p`, behind the `len` bytes that the name has already. */
static int
expand(struct walk *w, const char *p, const char *end, size_t len, int depth)
{
    while (p < end && *p != '[') {
        if (!is_name_char(*p))
            return wrong(w, p,
                         "a name must have letters, digits, '.', '-', "
                         "'_' and brackets only");
        if (len == HOSTLIST_NAME_MAX)
            return wrong(w, p, "a name must not be longer than 255 bytes");
        w->name[len++] = *p++;
    }
    return p < end ? expand_brackets(w, p, end, len, depth) : tell(w, len);
}

/* The end of the name that begins at `p`: a comma that is not in brackets. */
static const char *end_of(const char *p)
{
    bool inside = false;
    for (; *p != '\0' && (inside || *p != ','); p++)
        inside = *p == '[' || (inside && *p != ']');
    return p;
}

int hostlist_walk(const char *text,
                  hostlist_fn fn,
                  void *ctx,
                  struct ddp_err *err)
{
    struct walk w = {.fn = fn, .ctx = ctx, .err = err};
    if (strnlen(text, HOSTLIST_TEXT_MAX + 1) > HOSTLIST_TEXT_MAX)
        return ddp_err_set(err, DDP_E_USAGE, "is longer than %d bytes",
                           HOSTLIST_TEXT_MAX);
    for (const char *p = text;; p++) {
        const char *end = end_of(p);
        if (expand(&w, p, end, 0, 0) < 0)
            return -1;
        p = end;
        if (*p == '\0' || w.ended)
            return w.hosts;
    }
}
