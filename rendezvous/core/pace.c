#include "rendezvous/core/pace.h"

#include <stddef.h>

#include "rendezvous/base/mono.h"

#define HALF_US        (5 * MONO_S)
#define PACE_MICRO_MAX INT64_C(1000000000000000)

void pace_take(
    struct pace *p, int64_t steps, int64_t ahead, int slow, int64_t now_us)
{
    const struct pace_mark mark = {.steps = steps, .at_us = now_us};
    if (steps <= 0)
        return;
    p->anew |= steps < p->steps;
    p->before = (struct pace_mark){.steps = p->steps, .at_us = p->at_us};
    if (p->steps == 0 || steps < p->steps) { /* they count anew */
        p->newer = p->older = mark;
        p->moved_us = now_us;
    } else if (steps > p->steps) {
        p->moved_us = now_us;
        if (now_us - p->newer.at_us >= HALF_US) {
            p->older = p->newer;
            p->newer = mark;
        }
    }
    p->steps = steps;
    p->ahead = ahead;
    p->slow = slow;
    p->at_us = now_us;
}

int64_t pace_micro(const struct pace *p)
{
    int64_t us = p->moved_us - p->older.at_us;
    int64_t steps = p->steps - p->older.steps;
    int64_t still_us = p->at_us - p->moved_us;
    if (us <= 0 || steps <= 0 ||
        (still_us > 2 * HALF_US && still_us > us + us / 2))
        return 0;
    double micro = (double)steps * (double)MONO_S / (double)us * (double)MONO_S;
    return micro < (double)PACE_MICRO_MAX ? (int64_t)micro : PACE_MICRO_MAX;
}

int64_t pace_steps_by(const struct pace *p, int64_t at_us)
{
    const struct pace_mark last = {.steps = p->steps, .at_us = p->at_us};
    const struct pace_mark marks[] = {last, p->before, p->newer, p->older};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (marks[i].at_us <= at_us)
            return marks[i].steps;
    return 0;
}
