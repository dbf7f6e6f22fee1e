/*
 * trainer/plot: loss and accuracy over the steps, restarts marked, drawn by
 * gnuplot into FILE. What is drawn stands in FILE.tsv, so that a run that was
 * started again goes on with it: a step, the mean loss and the accuracy in
 * percent of the steps since the line before; "restart", the step from which
 * training went on, and the round.
 */
#ifndef TRAINER_PLOT_H
#define TRAINER_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "worker_rt/ddp.h"

struct plot {
    const char *file; /* borrowed; NULL: nothing is drawn */
    const char *format;
    FILE *data; /* of FILE.tsv, to append */
    bool classify;
    double drawn_at; /* seconds of progress_clock() */
    double loss;     /* summed since the last line .. */
    int64_t correct;
    int64_t seen;
    int64_t steps;
};

/* USAGE: the name does not end in .svg, .png or .pdf, or is not fit for
 * gnuplot. The text says what it must be, as "must end in ...". */
int plot_check(const char *file, struct ddp_error *err);

/*
 * Training goes on from `step` in `round`: what is known of later steps is
 * dropped, and a restart is marked. With step 0 all begins anew. IO.
 */
int plot_open(struct plot *p,
              const char *file,
              bool classify,
              int64_t step,
              int64_t round,
              struct ddp_error *err);
void plot_free(struct plot *p);

/* After a step: the sums over its samples. */
void plot_add(
    struct plot *p, int64_t step, double loss, int64_t correct, int64_t seen);

/* Draws; but unless `now`, not more often than every five seconds. CONFIG:
 * gnuplot is not installed or fails. */
int plot_draw(struct plot *p, bool now, struct ddp_error *err);

#endif
