/*
 * A pause that was told and ends by itself is learned like any other: the next
 * one of its kind is not told. One that somebody made (SIGSTOP, a debugger) is
 * not, or an afternoon's break would hide a hang for the rest of the week.
 */
#include "launcher/hang/pauses.h"

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define AGAIN_LEAST_US (5 * MONO_S)
#define AGAIN_MOST_US  (60 * MONO_S)
#define QUIET_MOST_US  (600 * MONO_S) /* without a limit */

void pauses_init(struct pauses *p)
{
    *p = (struct pauses){.moved_us = 0};
}

static int64_t pause_us(const struct pauses *p, int64_t now_us)
{
    ddp_assert(now_us >= p->since_us);
    return now_us - p->since_us;
}

static enum pauses_phase phase_of(const struct pauses *p)
{
    return p->moves == 0 ? PAUSES_START : PAUSES_STEPS;
}

static int64_t floor_us(const struct pauses *p)
{
    return p->beats && p->moves > 0 ? PAUSES_BEATS_US : PAUSES_SILENT_US;
}

/* MONO_NEVER: there is nothing to compare with. */
static int64_t limit_us(const struct pauses *p)
{
    int64_t longest_us = p->longest_us[phase_of(p)];
    if (phase_of(p) == PAUSES_START ? longest_us == 0
                                    : p->moves < PAUSES_RHYTHM)
        return MONO_NEVER;
    int64_t us = longest_us * 5 / 2;
    return us > floor_us(p) ? us : floor_us(p);
}

void pauses_begin(struct pauses *p, int64_t now_us)
{
    p->moved_us = p->since_us = p->look_us = now_us;
    p->moves = 0;
    p->held = p->told = p->excused = false;
    p->early_us[0] = p->early_us[1] = 0;
}

static void raise_to(int64_t *longest_us, int64_t us)
{
    *longest_us = us > *longest_us ? us : *longest_us;
}

/* Of those before there is a rhythm the longest one does not count: behind the
 * first lines of a program it is the end of its start. */
static void learn(struct pauses *p, int64_t us)
{
    int64_t *early = p->early_us;
    if (p->moves == 0 || p->moves == PAUSES_RHYTHM) {
        raise_to(&p->longest_us[phase_of(p)], us);
        return;
    }
    raise_to(&early[1], mono_min(us, early[0]));
    raise_to(&early[0], us);
    if (p->moves + 1 == PAUSES_RHYTHM)
        raise_to(&p->longest_us[PAUSES_STEPS], early[1]);
}

bool pauses_moved(struct pauses *p, bool beat, int64_t now_us)
{
    bool told = p->told;
    if (!p->held)
        learn(p, pause_us(p, now_us));
    p->beats |= beat;
    p->moved_us = p->since_us = p->look_us = now_us;
    p->held = p->told = p->excused = false;
    p->moves += p->moves < PAUSES_RHYTHM;
    return told;
}

bool pauses_is_due(const struct pauses *p, int64_t now_us)
{
    int64_t limit = mono_min(limit_us(p), PAUSES_SILENT_US);
    if (limit_us(p) != MONO_NEVER)
        limit = p->held ? limit_us(p) / 2 : limit_us(p);
    return !p->told && now_us >= p->look_us && pause_us(p, now_us) >= limit;
}

/* When to look again. */
static int64_t again_us(const struct pauses *p, int64_t silent_us)
{
    if (limit_us(p) == MONO_NEVER)
        return mono_min(silent_us, QUIET_MOST_US);
    int64_t us = silent_us / 8;
    return us < AGAIN_LEAST_US ? AGAIN_LEAST_US : mono_min(us, AGAIN_MOST_US);
}

/* None of them is seen to work: whether they were silent for too long by then.
 */
static enum pauses_verdict
judge_silence(const struct pauses *p, int64_t silent_us, int64_t least_us)
{
    int64_t limit = limit_us(p);
    if (silent_us >= limit && silent_us >= least_us)
        return PAUSES_TOO_LONG;
    bool compares = limit != MONO_NEVER;
    return compares || p->excused || silent_us < PAUSES_SUSPECT_US
               ? PAUSES_FINE
               : PAUSES_SUSPECT;
}

enum pauses_verdict
pauses_judge(struct pauses *p, enum pauses_look look, int64_t now_us)
{
    int64_t silent_us = pause_us(p, now_us);
    p->look_us = mono_after(now_us, again_us(p, silent_us));
    if (p->told)
        return PAUSES_FINE;
    switch (look) {
    case PAUSES_TRACED:
    case PAUSES_HELD:
        p->since_us = now_us;
        p->held = true;
        return PAUSES_FINE;
    case PAUSES_WORKS:
        return PAUSES_FINE;
    case PAUSES_SPINS:
        return judge_silence(p, silent_us, PAUSES_SILENT_US);
    case PAUSES_STILL:
        return judge_silence(p, silent_us, 0);
    case PAUSES_ODD:
        p->held = true;
        return silent_us >= mono_min(limit_us(p), PAUSES_SILENT_US)
                   ? PAUSES_TOO_LONG
                   : PAUSES_FINE;
    }
    DDP_WRONG("look");
}

void pauses_excuse(struct pauses *p)
{
    p->excused = true;
}

bool pauses_compares(const struct pauses *p)
{
    return limit_us(p) != MONO_NEVER;
}

void pauses_tell(struct pauses *p)
{
    p->told = true;
}

int64_t pauses_silent_us(const struct pauses *p, int64_t now_us)
{
    ddp_assert(now_us >= p->moved_us);
    return now_us - p->moved_us;
}

int64_t pauses_longest_us(const struct pauses *p)
{
    return p->longest_us[phase_of(p)];
}
