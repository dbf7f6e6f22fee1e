/* links: launcher/hang/pauses rendezvous/base/{err,mono,rng} */
/*
 * Programs that train, each in its own way: checkpoints and evaluations every
 * so often, slow starts behind a banner, freezes of all ranks, a debugger,
 * restarts. While they go on, nothing may be said of them; once one hangs, it
 * is told within three times the longest pause before, or 30 s where it beats
 * and 75 s where it only prints.
 *
 *     SEED=N        plays the hours of that one
 *     SCHEDULES=N   so many hours, from FIRST_SEED on
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/hang/pauses.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/lib/suite.h"

#define HOURS     200
#define LOOK_US   MONO_S /* as hang_watch looks */
#define BEATS_MS  30000
#define SILENT_MS 75000

/* A pause of a program that goes on: how long, and what it does meanwhile. */
struct spell {
    int every; /* steps, 0: never */
    int least_s, more_s;
    enum pauses_look look;
};

struct program {
    const char *what;
    bool beats;
    int step_ms;
    int start_s;
    int banner;   /* lines in the first seconds, one a look */
    int banner_s; /* ... and then nothing for so long */
    struct spell spells[3];
};

static const struct program programs[] = {
    {"steps of 0.1 s", true, 100, 5, 0, 0, {{0}}},
    {"a checkpoint each 100 steps",
     true,
     200,
     20,
     0,
     0,
     {{100, 5, 40, PAUSES_WORKS}}},
    {"an evaluation that spins",
     true,
     300,
     60,
     0,
     0,
     {{200, 20, 30, PAUSES_SPINS}}},
    {"both, and slow steps",
     true,
     9000,
     600,
     0,
     0,
     {{50, 60, 120, PAUSES_WORKS}, {70, 200, 300, PAUSES_WORKS}}},
    {"a first checkpoint after an hour",
     true,
     1000,
     30,
     0,
     0,
     {{3600, 60, 300, PAUSES_WORKS}}},
    {"short waits", true, 500, 10, 0, 0, {{40, 1, 7, PAUSES_STILL}}},
    {"freezes of all", true, 100, 10, 0, 0, {{3000, 5, 900, PAUSES_HELD}}},
    {"a debugger beside checkpoints",
     true,
     100,
     10,
     0,
     0,
     {{5000, 30, 600, PAUSES_HELD}, {700, 10, 20, PAUSES_WORKS}}},
    {"prints every 5 s",
     false,
     5000,
     40,
     6,
     400,
     {{90, 20, 200, PAUSES_WORKS}}},
    {"prints every 40 s", false, 40000, 900, 9, 1200, {{0}}},
    {"prints, spins a little",
     false,
     2000,
     120,
     4,
     90,
     {{60, 10, 45, PAUSES_SPINS}, {500, 60, 600, PAUSES_HELD}}},
    {"prints, waits for data",
     false,
     1000,
     200,
     0,
     0,
     {{30, 5, 50, PAUSES_STILL}, {900, 100, 400, PAUSES_WORKS}}},
};
#define PROGRAMS ((int)(sizeof(programs) / sizeof(programs[0])))

struct play {
    const struct program *is;
    struct rng rng;
    struct pauses pauses;
    int64_t now_us;
    int64_t next_us; /* when it goes on */
    enum pauses_look look;
    int steps, banner;
    int64_t longest_us; /* between its steps, but for those seen held */
    const char *wrong;
};

static int64_t between(struct play *p, int64_t least_us, int64_t more_us)
{
    return least_us + (int64_t)rng_below(&p->rng, 1001) * (more_us / 1000);
}

/* When the next sign of progress comes, and what it does until then. */
static void draw_next(struct play *p)
{
    const struct program *is = p->is;
    int64_t step_us = is->step_ms * MONO_MS;
    p->next_us = p->now_us + between(p, step_us * 4 / 5, step_us * 2 / 5);
    p->look = is->beats ? PAUSES_SPINS : PAUSES_WORKS;
    if (p->banner < is->banner) {
        p->banner++;
        p->next_us = p->now_us + LOOK_US;
        if (p->banner == is->banner)
            p->next_us += is->banner_s * MONO_S;
        p->look = PAUSES_STILL; /* it waits for another node's download */
        return;
    }
    p->steps++;
    for (int i = 0; i < 3; i++) {
        const struct spell *s = &is->spells[i];
        if (s->every == 0 || p->steps % s->every != 0)
            continue;
        p->next_us += between(p, s->least_s * MONO_S, s->more_s * MONO_S);
        p->look = s->look;
        return;
    }
}

static void begin(struct play *p)
{
    p->banner = p->steps = 0;
    pauses_begin(&p->pauses, p->now_us);
    p->next_us = p->now_us +
                 between(p, p->is->start_s * MONO_S, p->is->start_s * MONO_S);
    p->look = PAUSES_STILL;
}

/* One look at it; returns whether it is told. Its ranks wait for nobody of the
 * job: suspected, they are excused. */
static bool look(struct play *p)
{
    if (!pauses_is_due(&p->pauses, p->now_us))
        return false;
    enum pauses_verdict verdict = pauses_judge(&p->pauses, p->look, p->now_us);
    if (verdict == PAUSES_SUSPECT)
        pauses_excuse(&p->pauses);
    if (verdict != PAUSES_TOO_LONG)
        return false;
    pauses_tell(&p->pauses);
    return true;
}

static void go_on(struct play *p)
{
    int64_t us = pauses_silent_us(&p->pauses, p->now_us);
    if (!p->pauses.held && p->steps > 0 && us > p->longest_us)
        p->longest_us = us;
    (void)pauses_moved(&p->pauses, p->is->beats, p->now_us);
    while (p->next_us <= p->now_us)
        draw_next(p);
}

static void run_for(struct play *p, int64_t us)
{
    int64_t until_us = p->now_us + us;
    for (; p->now_us < until_us && p->wrong == NULL; p->now_us += LOOK_US) {
        if (p->now_us >= p->next_us)
            go_on(p);
        else if (look(p))
            p->wrong = "told, though it went on";
    }
}

/* It does nothing any more, or one rank of it is stopped. */
static void hang(struct play *p)
{
    int64_t from_us = p->now_us;
    int64_t limit_us = (p->is->beats ? BEATS_MS : SILENT_MS) * MONO_MS;
    if (p->longest_us * 3 > limit_us)
        limit_us = p->longest_us * 3;
    p->look = rng_below(&p->rng, 2) == 0 ? PAUSES_STILL : PAUSES_ODD;
    while (!look(p)) {
        p->now_us += LOOK_US;
        if (p->now_us > from_us + limit_us + LOOK_US) {
            p->wrong = "hangs, and is not told in time";
            return;
        }
    }
}

/* An hour of one program, with a restart in some, and a hang at its end in
 * some. */
static void play(uint64_t seed)
{
    struct play p = {.is = &programs[seed % (uint64_t)PROGRAMS]};
    rng_init(&p.rng, seed);
    pauses_init(&p.pauses);
    begin(&p);
    bool restarts = rng_below(&p.rng, 3) == 0;
    run_for(&p, 1800 * MONO_S);
    if (restarts)
        begin(&p);
    run_for(&p, 1800 * MONO_S);
    if (p.wrong == NULL && p.pauses.moves == PAUSES_RHYTHM &&
        p.banner == p.is->banner && p.now_us < p.next_us &&
        p.look != PAUSES_HELD)
        hang(&p);
    ck_assert_msg(p.wrong == NULL, "SEED=%llu, %s: %s at %lld s",
                  (unsigned long long)seed, p.is->what, p.wrong,
                  (long long)(p.now_us / MONO_S));
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

TEST(test_pauses_tells_hangs_and_nothing_else)
{
    if (getenv("SEED") != NULL) {
        play(env_number("SEED", 1));
        return;
    }
    uint64_t first = env_number("FIRST_SEED", 1);
    uint64_t n = env_number("SCHEDULES", HOURS);
    for (uint64_t i = 0; i < n; i++)
        play(first + i);
}

SUITE("pauses", "hours", .tags = "sim", .limit_s = 60)
