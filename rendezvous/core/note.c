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

void note_format(const struct note *n, char *line, size_t size)
{
    const char *node = n->node[0] != '\0' ? " node=" : "";
    const char *colon = n->text[0] != '\0' ? ": " : "";
    if (n->run[0] == '\0')
        (void)snprintf(line, /* a cut line is still a line */
                       size, "%s%s%s%s%s", note_name(n->kind), node, n->node,
                       colon, n->text);
    else
        (void)snprintf(line, size, "run %s round %lld: %s%s%s%s%s", n->run,
                       (long long)n->round, note_name(n->kind), node, n->node,
                       colon, n->text);
}
