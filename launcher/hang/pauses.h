/*
 * launcher/hang/pauses: learns how long the workers of this node pause, and
 * says when a pause is too long. Pure: progress, looks and time go in.
 *
 * A pause is too long if it lasts two and a half times as long as the longest
 * one of its phase, and PAUSES_BEATS_US if workers beat, else PAUSES_SILENT_US:
 *
 *     start    from the start of a round to its first progress. The first
 *              round has none to compare with
 *     rhythm   between two signs of progress, once PAUSES_RHYTHM looks have
 *              shown some: lines that a program writes at its start are none
 *
 * That a pause is long proves nothing: it may be the first checkpoint. So the
 * workers are looked at before anything is said (enum pauses_look), and again
 * as long as one of them works. Workers that are silent with nothing to compare
 * with may mean it, such as a server without requests. After PAUSES_SILENT_US a
 * hang is told if one worker is stopped and the others are not; after
 * PAUSES_SUSPECT_US, if stacks show that the workers wait for each other.
 *
 * All times are of one clock that runs only while workers can move (hang_pass).
 */
#ifndef LAUNCHER_HANG_PAUSES_H
#define LAUNCHER_HANG_PAUSES_H

#include <stdbool.h>
#include <stdint.h>

#define PAUSES_BEATS_US   INT64_C(10000000)
#define PAUSES_SILENT_US  INT64_C(60000000)
#define PAUSES_SUSPECT_US INT64_C(120000000)
#define PAUSES_RHYTHM     10

/* What a look at silent workers shows. */
enum pauses_look {
    PAUSES_TRACED, /* a debugger holds one */
    PAUSES_HELD,   /* all are stopped */
    PAUSES_WORKS,  /* one computes, reads or writes, or a child of it does */
    PAUSES_SPINS,  /* one uses a CPU, by which it may wait */
    PAUSES_STILL,  /* none does anything */
    PAUSES_ODD,    /* one is stopped or has no main thread, another has */
};

enum pauses_verdict {
    PAUSES_FINE,
    PAUSES_SUSPECT, /* too long if they wait for each other */
    PAUSES_TOO_LONG,
};

enum pauses_phase {
    PAUSES_START,
    PAUSES_STEPS,
    PAUSES_PHASES
};

struct pauses {
    int64_t moved_us; /* the last progress, or the start */
    int64_t since_us; /* the same, or when they were held: the pause counts from
                         there */
    int64_t look_us;  /* no look before */
    int moves;        /* looks of this round with progress, at most RHYTHM */
    bool beats;       /* a worker has beaten, in any round */
    bool held;        /* this pause is not learned: somebody made it */
    bool told;        /* of this pause */
    bool excused;     /* in this pause they wait for nobody of the job */
    int64_t longest_us[PAUSES_PHASES]; /* 0: none yet */
    int64_t early_us[2]; /* the two longest of this round between its first
                            progress and its rhythm */
};

/* Nothing is known. */
void pauses_init(struct pauses *p);

/* The workers of a round were started. */
void pauses_begin(struct pauses *p, int64_t now_us);

/* A look saw progress; `beat`: a worker has beaten. Returns whether this ends a
 * pause that was told. */
bool pauses_moved(struct pauses *p, bool beat, int64_t now_us);

/* Whether the workers are to be looked at. */
bool pauses_is_due(const struct pauses *p, int64_t now_us);

/* What that look showed. */
enum pauses_verdict
pauses_judge(struct pauses *p, enum pauses_look look, int64_t now_us);

/* Workers that were suspected do not wait for each other: they are not
 * suspected again before there is progress. */
void pauses_excuse(struct pauses *p);

/* Whether there is something to compare this pause with. */
bool pauses_compares(const struct pauses *p);

/* It was told, and is not judged any more. */
void pauses_tell(struct pauses *p);

/* Since the last progress or the start, also while they were held. */
int64_t pauses_silent_us(const struct pauses *p, int64_t now_us);

/* The longest one before, of this phase; 0: there was none. */
int64_t pauses_longest_us(const struct pauses *p);

#endif
