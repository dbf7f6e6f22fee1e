#include "rendezvous/core/note.h"

#include <stdio.h>

#include "rendezvous/base/err.h"

static const struct {
    const char *name;
    enum note_level level;
} rows[] = {
#define NOTE(name, level, meaning) {#name, NOTE_##level},
#include "rendezvous/core/events.def"
#undef NOTE
};
#define WORDS_MAX 32 /* of a name, with NUL */

_Static_assert(sizeof(rows) / sizeof(rows[0]) == NOTE_COUNT,
               "one row for each note");

const char *note_name(enum note_kind kind)
{
    ddp_assert(kind < NOTE_COUNT);
    return rows[kind].name;
}

enum note_level note_level(enum note_kind kind)
{
    ddp_assert(kind < NOTE_COUNT);
    return rows[kind].level;
}

/* The name as people write it: "round over". */
static void take_words(enum note_kind kind, char words[WORDS_MAX])
{
    const char *name = note_name(kind);
    size_t i = 0;
    for (; name[i] != '\0' && i + 1 < WORDS_MAX; i++)
        words[i] = (char)(name[i] == '_' ? ' ' : name[i]);
    words[i] = '\0';
}

void note_format(const struct note *n, char *line, size_t size)
{
    char words[WORDS_MAX];
    take_words(n->kind, words);
    const char *node = n->node[0] != '\0' ? " node=" : "";
    const char *colon = n->text[0] != '\0' ? ": " : "";
    if (n->run[0] == '\0')
        (void)snprintf(line, /* a cut line is still a line */
                       size, "%s%s%s%s%s", words, node, n->node, colon,
                       n->text);
    else
        (void)snprintf(line, size, "run %s round %lld: %s%s%s%s%s", n->run,
                       (long long)n->round, words, node, n->node, colon,
                       n->text);
}
