#include "launcher/front/frames.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/opts.h"

#define FIRST '\002'

size_t frames_head(char out[FRAMES_HEAD_MAX],
                   const char *mark,
                   enum frame_kind kind,
                   int number,
                   size_t len)
{
    ddp_assert(number >= 0 && number < FRAMES_NUMBERS);
    ddp_assert(len <= FRAMES_DATA_MAX);
    int n = snprintf(out, FRAMES_HEAD_MAX, "%c%.32s %c %d %zu\n", FIRST, mark,
                     (char)kind, number, len);
    ddp_assert(n > 0 && n < FRAMES_HEAD_MAX);
    return (size_t)n;
}

/* "KIND NUMBER LEN". */
static bool read_head(char *text, struct frame *f)
{
    static const char kinds[] = "sikhbx";
    int64_t number, len;
    char *next = text;
    const char *kind = strsep(&next, " ");
    const char *word = next != NULL ? strsep(&next, " ") : "";
    if (kind[0] == '\0' || kind[1] != '\0' || strchr(kinds, kind[0]) == NULL ||
        !opts_read_int(word, 0, FRAMES_NUMBERS - 1, &number) || next == NULL ||
        !opts_read_int(next, 0, FRAMES_DATA_MAX, &len))
        return false;
    f->kind = (enum frame_kind)kind[0];
    f->number = (int)number;
    f->len = (size_t)len;
    return true;
}

/* Whether data[0..len), which has FIRST in front, can be a frame: 1 it is one
 * as a whole, 0 the rest has not come, -1 it is text. */
static int look(const char *data, size_t len, const char *mark, struct frame *f)
{
    char text[FRAMES_HEAD_MAX];
    size_t mark_len = strlen(mark);
    size_t known = len - 1 < mark_len ? len - 1 : mark_len;
    if (memcmp(data + 1, mark, known) != 0)
        return -1;
    size_t most = len < FRAMES_HEAD_MAX ? len : FRAMES_HEAD_MAX;
    const char *newline = memchr(data, '\n', most);
    if (newline == NULL)
        return len < FRAMES_HEAD_MAX ? 0 : -1;
    size_t head = (size_t)(newline - data);
    if (head < mark_len + 2 || data[1 + mark_len] != ' ')
        return -1;
    memcpy(text, data + mark_len + 2, head - mark_len - 2);
    text[head - mark_len - 2] = '\0';
    if (!read_head(text, f))
        return -1;
    f->data = newline + 1;
    f->used = head + 1 + f->len;
    return f->used <= len ? 1 : 0;
}

bool frames_find(const char *data,
                 size_t len,
                 const char *mark,
                 struct frame *f)
{
    *f = (struct frame){.plain = len};
    for (size_t at = 0; at < len; at++) {
        const char *first = memchr(data + at, FIRST, len - at);
        if (first == NULL)
            return false;
        at = (size_t)(first - data);
        int found = look(first, len - at, mark, f);
        if (found < 0)
            continue;
        f->plain = at;
        return found == 1;
    }
    return false;
}
