/*
 * core/note: what a pure core tells about, as data. The cores do not log:
 * they hand out notes; note_format makes the one line that the log, the
 * simulator's trace and the manual share.
 */
#ifndef RENDEZVOUS_CORE_NOTE_H
#define RENDEZVOUS_CORE_NOTE_H

#include <stddef.h>
#include <stdint.h>

enum note_kind {
#define NOTE(name, level, meaning) NOTE_##name,
#include "rendezvous/core/events.def"
#undef NOTE
    NOTE_COUNT
};

enum note_level {
    NOTE_DEBUG,
    NOTE_INFO,
    NOTE_WARN
};

/* Everything is borrowed for the call that hands the note out. */
struct note {
    enum note_kind kind;
    const char *run;  /* "" if no run is meant */
    int64_t round;    /* 0: none yet */
    const char *node; /* "" if no node is meant */
    const char *text; /* what more there is to say, may be "" */
    /* stopping: how long ago the first sign was that not all went well; 0:
     * there was none. It is no part of the line. */
    int64_t detect_us;
};

const char *note_name(enum note_kind kind);
enum note_level note_level(enum note_kind kind);

/* "run none round 3: joined node=b: 2 of 2..4", or without the words before
 * the colon if no run is meant; cut to `size`. */
void note_format(const struct note *n, char *line, size_t size);

#endif
