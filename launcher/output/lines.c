#include "launcher/output/lines.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "launcher/conf/output.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/utf8.h"

size_t lines_whole(const char *data, size_t len)
{
    const char *last = len == 0 ? NULL : memrchr(data, '\n', len);
    return last == NULL ? 0 : (size_t)(last - data) + 1;
}

size_t lines_count(const char *data, size_t len)
{
    size_t n = 0;
    const char *end = data + len;
    while (data < end && (data = memchr(data, '\n', (size_t)(end - data)))) {
        n++;
        data++;
    }
    return n;
}

size_t lines_prefix(const char *data,
                    size_t len,
                    bool inside,
                    const char *prefix,
                    size_t prefix_len,
                    char *out)
{
    char *at = out;
    while (len > 0) {
        const char *newline = memchr(data, '\n', len);
        size_t n = newline == NULL ? len : (size_t)(newline - data) + 1;
        if (!inside) {
            memcpy(at, prefix, prefix_len);
            at += prefix_len;
        }
        memcpy(at, data, n);
        at += n;
        data += n;
        len -= n;
        inside = false;
    }
    return (size_t)(at - out);
}

bool lines_match(const char *data, size_t len, char *const texts[])
{
    for (; *texts != NULL; texts++)
        if (memmem(data, len, *texts, strlen(*texts)) != NULL)
            return true;
    return false;
}

size_t lines_fit(
    const char *data, size_t len, bool inside, int64_t size, int64_t limit)
{
    if (limit == 0 || size + (int64_t)len <= limit)
        return len;
    size_t room = size < limit ? (size_t)(limit - size) : 0;
    size_t n = lines_whole(data, room);
    bool goes_on = inside && size < limit + LINES_LONG;
    if (n > 0 || (size > 0 && !goes_on))
        return n;
    const char *newline = memchr(data, '\n', len);
    return newline == NULL ? len : (size_t)(newline - data) + 1;
}

/* -- prefixes -------------------------------------------------------------- */

struct name {
    const char *name;
    const char *value;
};

/* Length of "$name" or "${name}" at `p`, 0 if it is neither. */
static size_t is_name(const char *p, const char *name)
{
    size_t len = strlen(name);
    bool braced = p[1] == '{';
    const char *at = p + 1 + braced;
    if (strncmp(at, name, len) != 0)
        return 0;
    if (braced)
        return at[len] == '}' ? len + 3 : 0;
    bool goes_on = isalnum((unsigned char)at[len]) || at[len] == '_';
    return goes_on ? 0 : len + 1;
}

size_t lines_fill(const char *template,
                  const struct lines_who *who,
                  char *out,
                  size_t size)
{
    char numbers[2][24];
    ddp_assert(size > 0);
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%d", who->local_rank);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%lld",
                   (long long)who->rank);
    const char *role_name = who->role, *hostname = who->host;
    const char *local_rank = numbers[0], *rank = numbers[1];
#define NAME(name) {#name, name},
    const struct name names[] = {CONF_PREFIX_NAMES(NAME)};
#undef NAME
    const size_t names_len = sizeof(names) / sizeof(names[0]);
    size_t n = 0;
    while (*template != '\0' && n + 1 < size) {
        const char *put = template;
        size_t skip = 1, len = 1;
        if (template[0] == '$' && template[1] == '$')
            skip = 2;
        for (size_t i = 0; i < names_len && skip == 1 && template[0] == '$';
             i++) {
            size_t match = is_name(template, names[i].name);
            if (match > 0) {
                put = names[i].value;
                len = strlen(put);
                skip = match;
            }
        }
        if (len > size - 1 - n)
            len = size - 1 - n;
        memcpy(out + n, put, len);
        n += len;
        template += skip;
    }
    out[n] = '\0';
    return n;
}

/* -- the end of a stream --------------------------------------------------- */

void lines_tail_put(struct lines_tail *t, const char *data, size_t len)
{
    if (len > LINES_TAIL_BYTES) {
        t->end += len - LINES_TAIL_BYTES;
        data += len - LINES_TAIL_BYTES;
        len = LINES_TAIL_BYTES;
    }
    size_t at = t->end % LINES_TAIL_BYTES;
    size_t first = LINES_TAIL_BYTES - at < len ? LINES_TAIL_BYTES - at : len;
    memcpy(t->ring + at, data, first);
    memcpy(t->ring, data + first, len - first);
    t->end += len;
}

size_t lines_tail_get(const struct lines_tail *t, char *out)
{
    bool cut = t->end > LINES_TAIL_BYTES;
    size_t have = cut ? LINES_TAIL_BYTES : t->end;
    size_t at = cut ? t->end % LINES_TAIL_BYTES : 0;
    memcpy(out, t->ring + at, have - at);
    memcpy(out + have - at, t->ring, at);
    size_t from = have;
    int lines = 0;
    while (from > 0) {
        if (out[from - 1] == '\n' && from < have && ++lines == LINES_TAIL_LINES)
            break;
        from--;
    }
    /* A line whose front was lost is left out, if there are others. */
    if (from == 0 && cut) {
        const char *newline = memchr(out, '\n', have - 1);
        from = newline != NULL ? (size_t)(newline - out) + 1 : 0;
    }
    ddp_assert(from <= have);
    memmove(out, out + from, have - from);
    return have - from;
}

/* -- UTF-8 ----------------------------------------------------------------- */

void lines_clean(char *text, size_t len)
{
    bool control;
    ddp_assert(text[len] == '\0');
    for (size_t i = 0; i < len;) {
        size_t n = utf8_char(text + i, &control);
        if (n == 0)
            text[i] = '?';
        i += n > 0 ? n : 1;
    }
}
