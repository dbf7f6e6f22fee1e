/*
 * trainer/progress: what a person sees. Whole lines on stdout, each out at
 * once so that none is lost when the process is killed; and, on a terminal, a
 * bar below them that is redrawn in place.
 */
#ifndef TRAINER_PROGRESS_H
#define TRAINER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool speaks;     /* rank 0; the others print nothing here */
    bool bar;        /* stdout is a terminal that can move its cursor */
    bool drawn;      /* a bar stands on the last line now */
    double drawn_at; /* seconds of progress_clock() */
    double since;    /* when the counting for samples/s began */
    int64_t samples; /* seen since then, by all ranks */
};

/* What the bar shows. Samples are those of all ranks together. */
struct progress_state {
    int64_t epoch; /* from 1 */
    int64_t epochs;
    int64_t done;  /* samples of this epoch */
    int64_t total; /* samples of an epoch */
    double loss;   /* mean over the epoch so far */
};

/* Sets stdout to line buffering too. */
void progress_init(struct progress *p, bool speaks);

/* Seconds of a clock that only goes forward. */
double progress_clock(void);

/* Starts the counting for samples/s afresh. */
void progress_start(struct progress *p);
void progress_add(struct progress *p, int64_t samples);
double progress_rate(const struct progress *p); /* samples/s; 0 at first */

/* Draws the bar, ten times a second at most. */
void progress_draw(struct progress *p, const struct progress_state *s);

/* One whole line, without its newline; takes the bar away first. */
void progress_line(struct progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes the bar away, before something else writes to the terminal. */
void progress_clear(struct progress *p);

#endif
