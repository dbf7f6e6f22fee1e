#include "launcher/front/marks.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/opts.h"

#define FIRST '\001'

/* How many bytes of the beginning of a mark are at `data`: 0 none, or it is
 * another text. */
static size_t common(const char *data, size_t len, const char *mark)
{
    size_t n = 1, most = strlen(mark) + 2;
    while (n < len && n + 1 < most && data[n] == mark[n - 1])
        n++;
    if (n == len)
        return n; /* as far as it goes */
    return n + 1 == most && data[n] == ' ' ? most : 0;
}

/* What stands behind the digits. */
static void read_words(struct mark *m, char *text)
{
    int64_t status = 0;
    char *next = text;
    const char *verb = strsep(&next, " ");
    m->kind = MARK_ODD;
    if (next != NULL && strcmp(verb, "end") == 0) {
        const char *word = strsep(&next, " ");
        if (!opts_read_int(word, 0, 255, &status) || next == NULL)
            return;
        m->kind = MARK_END;
    } else if (next != NULL && strcmp(verb, "hello") == 0) {
        m->kind = MARK_HELLO;
    } else if (next != NULL && strcmp(verb, "here") == 0) {
        m->kind = MARK_HERE;
    } else {
        return;
    }
    m->status = (int)status;
    (void)snprintf(m->host, sizeof(m->host), "%s", next);
    for (char *p = m->host; *p != '\0'; p++)
        if (*p <= ' ' || *p == 0x7f)
            *p = '?';
}

void marks_find(
    const char *data, size_t len, const char *mark, bool end, struct mark *m)
{
    char text[MARKS_MAX + 1];
    *m = (struct mark){.kind = MARK_NONE, .plain = len};
    for (size_t at = 0; at < len; at++) {
        const char *first = memchr(data + at, FIRST, len - at);
        if (first == NULL)
            return;
        at = (size_t)(first - data);
        size_t most = len - at < MARKS_MAX ? len - at : MARKS_MAX;
        size_t begin = common(first, most, mark);
        const char *newline = begin > 0 ? memchr(first, '\n', most) : NULL;
        if (begin == 0 || (newline == NULL && (end || most == MARKS_MAX)))
            continue; /* output, however strange */
        m->plain = at;
        if (newline == NULL)
            return;
        size_t words = (size_t)(newline - first) - begin;
        m->used = (size_t)(newline - first) + 1;
        memcpy(text, first + begin, words);
        text[words] = '\0';
        read_words(m, text);
        return;
    }
}

size_t marks_write(char out[MARKS_MAX],
                   const char *mark,
                   enum mark_kind kind,
                   int status,
                   const char *host)
{
    int len = 0;
    ddp_assert(kind != MARK_NONE && kind != MARK_ODD);
    if (kind != MARK_END)
        len = snprintf(out, MARKS_MAX, "%c%.64s %s %.200s\n", FIRST, mark,
                       kind == MARK_HELLO ? "hello" : "here", host);
    else
        len = snprintf(out, MARKS_MAX, "%c%.64s end %d %.200s\n", FIRST, mark,
                       status, host);
    ddp_assert(len > 0 && len < MARKS_MAX);
    return (size_t)len;
}
