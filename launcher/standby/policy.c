#include "launcher/standby/policy.h"

#include "rendezvous/base/err.h"

void standby_policy_round(struct standby_policy *p, int used, int64_t now_us)
{
    ddp_assert(used >= 0);
    p->made = p->progressed = false;
    p->used = used;
    p->round_us = p->grown_us = now_us;
    p->soon = false;
    p->learnt = 0;
    p->imported = SIZE_MAX;
}

/* Those of a round are made once: a round that ends soon would else pay for
 * standbys that nobody takes again and again. */
static enum standby_want make(struct standby_policy *p)
{
    if (p->made || p->state == STANDBY_OFF)
        return STANDBY_WANT_NOTHING;
    p->made = true;
    switch (p->state) {
    case STANDBY_NONE:
        p->state = STANDBY_IMPORTING;
        return STANDBY_WANT_IMPORTER;
    case STANDBY_READY:
        return STANDBY_WANT_FORKS;
    case STANDBY_IMPORTING: /* standby_policy_ready asks for them */
    case STANDBY_OFF:
        return STANDBY_WANT_NOTHING;
    }
    DDP_WRONG("state of the standby");
}

enum standby_want standby_policy_progress(struct standby_policy *p)
{
    p->progressed = true;
    return make(p);
}

enum standby_want standby_policy_late(struct standby_policy *p)
{
    return make(p);
}

void standby_policy_imports(struct standby_policy *p, int64_t now_us)
{
    p->grown_us = now_us;
}

enum standby_want standby_policy_learnt(struct standby_policy *p,
                                        size_t len,
                                        bool complete,
                                        int64_t now_us)
{
    if (len != p->learnt)
        p->grown_us = now_us;
    p->learnt = len;
    int64_t took = p->soon ? 0 : p->grown_us - p->round_us;
    int64_t least = len > 0 ? STANDBY_SOON_US : STANDBY_AFTER_US;
    int64_t silence = took > least ? took : least;
    if ((!complete && now_us - p->grown_us < silence) || len == p->imported)
        return STANDBY_WANT_NOTHING;
    if (p->state == STANDBY_IMPORTING || p->state == STANDBY_READY) {
        p->state = STANDBY_NONE;
        p->made = false;
        return STANDBY_WANT_NONE;
    }
    p->imported = len;
    return make(p);
}

enum standby_want standby_policy_ready(struct standby_policy *p)
{
    ddp_assert(p->state == STANDBY_IMPORTING);
    p->state = STANDBY_READY;
    return STANDBY_WANT_FORKS;
}

void standby_policy_give_up(struct standby_policy *p)
{
    p->state = STANDBY_OFF;
}

void standby_policy_short(struct standby_policy *p)
{
    ddp_assert(p->state == STANDBY_IMPORTING || p->state == STANDBY_READY);
    p->state = STANDBY_NONE;
    p->made = true;
}

bool standby_policy_failed(struct standby_policy *p, int64_t now_us)
{
    bool suspect = p->state != STANDBY_OFF && p->used > 0 && !p->progressed &&
                   now_us - p->round_us < STANDBY_SUSPECT_US;
    if (suspect)
        p->state = STANDBY_OFF;
    return suspect;
}
