/*
 * core/note: what a pure core tells about, as data. The cores do not log:
 * they hand out notes; note_format makes the one line that the log, the
 * simulator's trace and the manual share.
 */
#ifndef RENDEZVOUS_CORE_NOTE_H
#define RENDEZVOUS_CORE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum note_kind {
#define NOTE(name, level, meaning) NOTE_##name,
#include "rendezvous/core/events.def"
#undef NOTE
    NOTE_COUNT
};

enum note_level {
    NOTE_FACT, /* for those who count: it has no line */
    NOTE_DEBUG,
    NOTE_INFO,
    NOTE_WARN
};

/* What a run does, as far as its time is concerned. */
enum run_phase {
    PHASE_WAITS,  /* for nodes, or for the last call */
    PHASE_STARTS, /* or stops its workers */
    PHASE_RUNS,   /* all workers of its round have been started */
    PHASE_OVER
};

/* Why a round ended. */
enum round_end {
    ROUND_OPEN,    /* it has not ended */
    ROUND_DONE,    /* all workers ended with 0 */
    ROUND_FAILED,  /* a worker failed */
    ROUND_HUNG,    /* a worker made no progress */
    ROUND_LOST,    /* a node was lost */
    ROUND_LEFT,    /* a node left, by a signal or an order */
    ROUND_GREW,    /* nodes joined */
    ROUND_STOPPED, /* for another reason; its text says which */
    ROUND_ENDS
};

/*
 * Of the note `phase`: what a run does from now on, for those who count its
 * time (rendezvous/account). It is told whenever anything of it may have
 * changed, also if nothing has.
 */
struct note_phase {
    enum run_phase phase;
    bool anew;    /* the run begins: what was known of it is another one's */
    bool sealed;  /* the note's round is in force */
    int64_t term; /* of the round; 0: there was none */
    int64_t sealed_us;
    int nodes, world_size; /* of the round; world_size 0: not known */
    int64_t sign_us; /* the first sign that not all went well in the round;
                        0: there was none */
    enum round_end end;
    const char *why;  /* the run's end, PHASE_OVER; else "" */
    const char *told; /* what a member brings of the sums of an earlier server,
                         up to this round ... */
    int64_t told_us;  /* ... which began then; told "": none does */
};

/* Of the note `steps`: what a beat tells of the workers of a node in a round.
 */
struct note_steps {
    int node;      /* its place in the core's table (core/status) */
    int64_t steps; /* the least step of them plus 1 */
    bool anew;     /* they were more in this round */
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
    /* Of a server's note: */
    int64_t at_us;
    int run_at; /* the run's place in the core's table; -1: no run is meant */
    const struct note_phase *phase; /* of that kind, else NULL; as `steps` */
    const struct note_steps *steps;
    /*
     * phase, steps: room for NOTE_SUMS_MAX bytes and a NUL, in which the caller
     * puts what the run's time went to up to this round, if there is news of
     * it. The core stores it and does not read it: members carry it to the next
     * server.
     */
    char *sums;
};

#define NOTE_SUMS_MAX 120 /* as messages.def has it */

const char *note_name(enum note_kind kind);
enum note_level note_level(enum note_kind kind);

/* "run none round 3: joined node=b: 2 of 2..4", or without the words before
 * the colon if no run is meant; cut to `size`. */
void note_format(const struct note *n, char *line, size_t size);

#endif
