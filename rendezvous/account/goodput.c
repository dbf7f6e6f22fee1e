/*
 * A time of RUNS is counted when it ends, since only then is it known how much
 * of it was detect. A sign that is older than what was known (the loss of a
 * node whose peers failed first) may come a while after that: goodput_bad moves
 * what was counted from ran to detect. The sum never changes by that.
 */
#include "rendezvous/account/goodput.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

/* What is believed: some 30 years, and as many steps as a message can tell. */
#define TOLD_MS_MAX    INT64_C(1000000000000)
#define TOLD_STEPS_MAX INT64_C(9000000000000000)

void goodput_begin(struct goodput *g, int64_t now_us)
{
    *g = (struct goodput){.phase = GOODPUT_WAITS,
                          .began_us = now_us,
                          .since_us = now_us,
                          .bad_us = MONO_NEVER};
}

/* When the time of RUNS was no good any more, if it ends now. */
static int64_t bad_since_us(const struct goodput *g, int64_t now_us)
{
    int64_t bad_us = mono_min(g->bad_us, now_us);
    return bad_us > g->ran_from_us ? bad_us : g->ran_from_us;
}

static void
count(const struct goodput *g, int64_t now_us, struct goodput_parts *parts)
{
    int64_t us = now_us - g->since_us;
    int64_t bad_us;
    switch (g->phase) {
    case GOODPUT_WAITS:
        parts->waited_us += us;
        return;
    case GOODPUT_STARTS:
        parts->restart_us += us;
        return;
    case GOODPUT_RUNS:
        bad_us = bad_since_us(g, now_us);
        parts->ran_us += bad_us - g->ran_from_us;
        parts->detect_us += now_us - bad_us;
        return;
    case GOODPUT_UNBORN:
    case GOODPUT_OVER:
        return;
    }
    DDP_WRONG("phase");
}

void goodput_resume(struct goodput *g,
                    const struct goodput_parts *parts,
                    int64_t from_us)
{
    *g = (struct goodput){.phase = GOODPUT_STARTS,
                          .began_us = from_us - goodput_wall_us(parts),
                          .since_us = from_us,
                          .parts = *parts,
                          .bad_us = MONO_NEVER};
}

void goodput_enter(struct goodput *g, enum goodput_phase phase, int64_t now_us)
{
    ddp_assert(g->phase != GOODPUT_UNBORN && phase != GOODPUT_UNBORN);
    if (phase == g->phase)
        return;
    count(g, now_us, &g->parts);
    if (g->phase == GOODPUT_RUNS)
        g->bad_us = bad_since_us(g, now_us);
    if (phase == GOODPUT_RUNS) {
        g->ran_from_us = now_us;
        g->bad_us = MONO_NEVER;
    }
    g->phase = phase;
    g->since_us = now_us;
}

void goodput_was_start(struct goodput_parts *parts, struct goodput_parts *payer)
{
    payer->restart_us += parts->ran_us + parts->detect_us;
    parts->ran_us = parts->detect_us = 0;
}

/* If the round that runs is known not to be well, what comes now is detect. */
void goodput_start_over(struct goodput *g, int64_t now_us)
{
    ddp_assert(g->phase != GOODPUT_UNBORN && g->phase != GOODPUT_OVER);
    bool well = g->phase != GOODPUT_RUNS || g->bad_us == MONO_NEVER;
    count(g, now_us, &g->parts);
    goodput_was_start(&g->parts, &g->parts);
    g->ran_from_us = g->since_us = now_us;
    g->bad_us = well ? MONO_NEVER : now_us;
}

void goodput_bad(struct goodput *g, int64_t at_us)
{
    int64_t before_us = g->bad_us;
    bool runs = g->phase == GOODPUT_RUNS;
    if (at_us >= before_us || (!runs && before_us == MONO_NEVER))
        return; /* known, or nothing has run yet */
    g->bad_us = at_us > g->ran_from_us ? at_us : g->ran_from_us;
    if (runs)
        return;
    g->parts.ran_us -= before_us - g->bad_us;
    g->parts.detect_us += before_us - g->bad_us;
}

void goodput_repeat(struct goodput *g, int64_t steps, int64_t us)
{
    ddp_assert(steps >= 0 && us >= 0);
    g->parts.repeated_steps =
        mono_min(g->parts.repeated_steps + steps, TOLD_STEPS_MAX);
    g->parts.repeated_us += us;
}

struct goodput_parts goodput_get(const struct goodput *g, int64_t now_us)
{
    struct goodput_parts parts = g->parts;
    count(g, now_us, &parts);
    parts.repeated_us = mono_min(parts.repeated_us, parts.restart_us);
    return parts;
}

const char *goodput_grows(const struct goodput *g)
{
    switch (g->phase) {
    case GOODPUT_WAITS:
        return "waited";
    case GOODPUT_STARTS:
        return "restart";
    case GOODPUT_RUNS:
        return g->bad_us == MONO_NEVER ? "ran" : "detect";
    case GOODPUT_UNBORN:
    case GOODPUT_OVER:
        return "";
    }
    DDP_WRONG("phase");
}

int64_t goodput_wall_us(const struct goodput_parts *parts)
{
    return parts->ran_us + parts->waited_us + parts->detect_us +
           parts->restart_us;
}

double goodput_share(const struct goodput_parts *parts)
{
    int64_t wall_us = goodput_wall_us(parts);
    return wall_us > 0 ? (double)parts->ran_us / (double)wall_us : 0;
}

void goodput_check(const struct goodput *g, int64_t now_us)
{
    const struct goodput_parts parts = goodput_get(g, now_us);
    int64_t until_us = g->phase == GOODPUT_OVER ? g->since_us : now_us;
    ddp_assert(g->phase != GOODPUT_UNBORN);
    ddp_assert(parts.ran_us >= 0 && parts.waited_us >= 0);
    ddp_assert(parts.detect_us >= 0 && parts.restart_us >= 0);
    ddp_assert(goodput_wall_us(&parts) == until_us - g->began_us);
}

/* -- as a text ------------------------------------------------------------- */

/* The numbers of a text, in its order: milliseconds, but for the steps. */
#define TOLD_NUMBERS 8
static void numbers_of(struct goodput_sums *sums,
                       int64_t *numbers[TOLD_NUMBERS])
{
    numbers[0] = &sums->parts.ran_us;
    numbers[1] = &sums->parts.waited_us;
    numbers[2] = &sums->parts.detect_us;
    numbers[3] = &sums->parts.restart_us;
    numbers[4] = &sums->parts.repeated_us;
    numbers[5] = &sums->started_us;
    numbers[6] = &sums->parts.repeated_steps;
    numbers[7] = &sums->steps;
}
#define TOLD_SPANS 6 /* of these */

void goodput_print(const struct goodput_sums *sums,
                   char text[GOODPUT_TEXT_MAX + 1])
{
    struct goodput_sums told = *sums;
    int64_t *numbers[TOLD_NUMBERS];
    size_t len = 0;
    numbers_of(&told, numbers);
    for (int i = 0; i < TOLD_NUMBERS; i++) {
        int64_t n = i < TOLD_SPANS
                        ? mono_min(*numbers[i] / MONO_MS, TOLD_MS_MAX)
                        : mono_min(*numbers[i], TOLD_STEPS_MAX);
        len += (size_t)snprintf(text + len, /* fits: 6 * 14 + 2 * 17 */
                                GOODPUT_TEXT_MAX + 1 - len, "%s%" PRId64,
                                i > 0 ? " " : "", n);
    }
}

/* Digits, and nothing else, up to `end`. */
static bool parse_one(const char **text, char end, int64_t max, int64_t *n)
{
    const char *at = *text;
    *n = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        *n = *n * 10 + (*at - '0');
        if (*n > max)
            return false;
    }
    bool whole = at > *text && *at == end;
    *text = at + (end != '\0');
    return whole;
}

bool goodput_parse(struct goodput_sums *sums, const char *text)
{
    struct goodput_sums told = {.steps = 0};
    int64_t *numbers[TOLD_NUMBERS];
    numbers_of(&told, numbers);
    for (int i = 0; i < TOLD_NUMBERS; i++) {
        bool span = i < TOLD_SPANS;
        char end = i + 1 < TOLD_NUMBERS ? ' ' : '\0';
        if (!parse_one(&text, end, span ? TOLD_MS_MAX : TOLD_STEPS_MAX,
                       numbers[i]))
            return false;
        *numbers[i] *= span ? MONO_MS : 1;
    }
    *sums = told;
    return true;
}
