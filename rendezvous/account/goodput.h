/*
 * account/goodput: where the time of a run went. Pure; account/account says
 * what the run does and when that changed. All time since the run began is in
 * one of the parts; the parts sum up to that time, to the microsecond:
 *
 *     ran      a round is in force, and its workers make new steps; if workers
 *              do not tell their steps: all its workers have been started
 *     waited   there is no round: nodes are missing, or the last call runs
 *     detect   from the first sign that not all is well in a round (a worker's
 *              death, the last word of a node that is lost) to its end
 *     restart  all else: workers stop or start, programs import and load, or do
 *              steps again that were done before
 */
#ifndef RENDEZVOUS_ACCOUNT_GOODPUT_H
#define RENDEZVOUS_ACCOUNT_GOODPUT_H

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
    int64_t repeated_us;    /* and how long that took; a part of restart */
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

/* It goes on from sums that are known up to `from_us`: it starts a round. */
void goodput_resume(struct goodput *g,
                    const struct goodput_parts *parts,
                    int64_t from_us);

/* What the run does from now on; nothing, if it did so before. */
void goodput_enter(struct goodput *g, enum goodput_phase phase, int64_t now_us);

/* Nothing ran before now: what counted as ran, or as detect, was a start. */
void goodput_start_over(struct goodput *g, int64_t now_us);

/* The same for sums: what ran was a restart, for which `payer` pays. */
void goodput_was_start(struct goodput_parts *parts,
                       struct goodput_parts *payer);

/*
 * Since then not all was well in the round that runs or, in STARTS and WAITS,
 * in the one that has ended: what counted as ran after that is detect. The
 * earliest of several counts; never before the round ran.
 */
void goodput_bad(struct goodput *g, int64_t at_us);

/* So many steps are done again; it took so long. */
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
 * What travels in a round's entry, from server to members and from them to the
 * next server, and into --events: a text of no more than GOODPUT_TEXT_MAX
 * bytes, with milliseconds. goodput_parse takes nothing but what goodput_print
 * makes, with numbers that are possible.
 */
#define GOODPUT_TEXT_MAX 120
struct goodput_sums {
    struct goodput_parts parts; /* up to the seal of the round */
    int64_t steps; /* the most that workers had told by then, plus 1; 0: they
                      tell none */
    int64_t started_us; /* from the seal until the round ran; 0: it does not
                           yet, or has not this time been told */
};
void goodput_print(const struct goodput_sums *sums,
                   char text[GOODPUT_TEXT_MAX + 1]);
bool goodput_parse(struct goodput_sums *sums, const char *text);

#endif
