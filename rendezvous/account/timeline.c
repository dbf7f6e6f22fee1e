#include "rendezvous/account/timeline.h"

#include "rendezvous/base/err.h"

const char *timeline_word(enum round_end end)
{
    static const char *const words[ROUND_ENDS] = {
        [ROUND_OPEN] = "",         [ROUND_DONE] = "done",
        [ROUND_FAILED] = "failed", [ROUND_HUNG] = "hung",
        [ROUND_LOST] = "lost",     [ROUND_LEFT] = "left",
        [ROUND_GREW] = "grew",     [ROUND_STOPPED] = "stopped",
    };
    ddp_assert(end < ROUND_ENDS);
    return words[end];
}

/* The one that came as the i-th of all. */
static struct timeline_round *nth(struct timeline *t, int64_t i)
{
    return &t->rounds[i % TIMELINE_ROUNDS];
}

struct timeline_round *timeline_add(struct timeline *t, int64_t number)
{
    struct timeline_round *round = nth(t, t->known++);
    *round = (struct timeline_round){.number = number};
    return round;
}

struct timeline_round *timeline_last(struct timeline *t)
{
    return t->known > 0 ? nth(t, t->known - 1) : NULL;
}

int timeline_len(const struct timeline *t)
{
    return t->known < TIMELINE_ROUNDS ? (int)t->known : TIMELINE_ROUNDS;
}

const struct timeline_round *timeline_at(const struct timeline *t, int i)
{
    int len = timeline_len(t);
    ddp_assert(i >= 0 && i < len);
    return &t->rounds[(t->known - len + i) % TIMELINE_ROUNDS];
}

void timeline_check(const struct timeline *t)
{
    int len = timeline_len(t);
    for (int i = 0; i + 1 < len; i++)
        ddp_assert(timeline_at(t, i)->end != ROUND_OPEN);
}

void timeline_share(const struct timeline *t,
                    int i,
                    const struct goodput_parts *more,
                    struct goodput_parts *cost)
{
    int last = timeline_len(t) - 1;
    int ended = last - (timeline_at(t, last)->end == ROUND_OPEN);
    if (i == last) {
        cost->ran_us += more->ran_us;
        cost->detect_us += more->detect_us;
    }
    if (i == ended) {
        cost->waited_us += more->waited_us;
        cost->restart_us += more->restart_us;
    }
}

void timeline_spend(struct timeline *t, const struct goodput_parts *more)
{
    int len = timeline_len(t);
    for (int i = len > 2 ? len - 2 : 0; i < len; i++)
        timeline_share(t, i, more, &nth(t, t->known - len + i)->cost);
}

void timeline_start_over(struct timeline *t)
{
    struct goodput_parts nobodys = {.restart_us = 0}, *payer = &nobodys;
    for (int64_t i = t->known - timeline_len(t); i < t->known; i++) {
        goodput_was_start(&nth(t, i)->cost, payer);
        payer = &nth(t, i)->cost;
    }
}
