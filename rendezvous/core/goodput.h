/*
 * core/goodput: where the time of a run went. Pure; the caller says what
 * the run does and when that changed. All its time since it began is in one of
 * the parts, so that they sum up to it, to the microsecond:
 *
 *     ran      a round is in force, and all its ranks run
 *     waited   there is no round: nodes are missing, or the last call runs
 *     detect   from the first sign that not all is well in a round (a worker's
 *              death, the last word of a node that is lost) to its end
 *     restart  a round has ended, and the ranks of the next one do not all run
 *              yet; so it is before those of the first round run
 */
#ifndef RENDEZVOUS_CORE_GOODPUT_H
#define RENDEZVOUS_CORE_GOODPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum goodput_phase {
    GOODPUT_UNBORN,
    GOODPUT_WAITS,
    GOODPUT_STARTS, /* or stops: what counts as restart */
    GOODPUT_RUNS,
    GOODPUT_OVER, /* the run has ended: no time passes */
};

/* What is counted; spans in microseconds. */
struct goodput_parts {
    int64_t ran_us, waited_us, detect_us, restart_us;
    int64_t repeated_steps; /* steps that were done twice, as far as is known */
    int64_t repeated_us;    /* and how long they had taken; a part of ran */
};

struct goodput {
    enum goodput_phase phase;
    int64_t began_us;            /* the run, or so it is reckoned */
    int64_t since_us;            /* when it was last counted */
    struct goodput_parts parts;  /* up to then, but for a time of RUNS */
    int64_t ran_from_us, bad_us; /* of the last RUNS: when it began, and the
                                    first sign that it does not go well;
                                    MONO_NEVER: there was none */
};

/* The run begins. */
void goodput_begin(struct goodput *g, int64_t now_us);

/* What the run does from now on; nothing, if it did so before. */
void goodput_enter(struct goodput *g, enum goodput_phase phase, int64_t now_us);

/*
 * Since then not all was well in the round that runs or, in STARTS and WAITS,
 * in the one that has ended: what counted as ran after that is detect. The
 * earliest of several counts; never before the round ran.
 */
void goodput_bad(struct goodput *g, int64_t at_us);

/* The earliest of these signs in the round that runs, or that ran last; of one
 * that has ended its end at the latest. MONO_NEVER: there was none. */
int64_t goodput_bad_since_us(const struct goodput *g);

/* So many steps are done again that took so long. */
void goodput_repeat(struct goodput *g, int64_t steps, int64_t us);

/* All that is known at now_us. */
struct goodput_parts goodput_get(const struct goodput *g, int64_t now_us);

/* The part to which the time goes that passes now: "ran", "waited", "detect" or
 * "restart"; "": none does. */
const char *goodput_grows(const struct goodput *g);

/* The sum of the four parts: the run's age; and what ran of it, 0 to 1. */
int64_t goodput_wall_us(const struct goodput_parts *parts);
double goodput_share(const struct goodput_parts *parts);

/* Asserts that the parts are what has passed since it began, none below 0. */
void goodput_check(const struct goodput *g, int64_t now_us);

/*
 * For the next server, which a member tells it to: a text of no more than
 * GOODPUT_TEXT_MAX bytes, with milliseconds. goodput_parse takes nothing but
 * what goodput_print makes, with numbers that are possible.
 */
#define GOODPUT_TEXT_MAX 100
void goodput_print(const struct goodput_parts *parts,
                   char text[GOODPUT_TEXT_MAX + 1]);
bool goodput_parse(struct goodput_parts *parts, const char *text);

/*
 * A member of a round tells what an earlier server had counted when that round
 * began, which ran since `from_us`. Taken (true) if more time is known by that
 * than was: members may tell different things, if servers lost each other.
 */
bool goodput_restore(struct goodput *g,
                     const struct goodput_parts *parts,
                     int64_t from_us,
                     int64_t now_us);

#endif
