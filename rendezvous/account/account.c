/*
 * Happy path: each note says what the run does from then on, and the time since
 * the note before is what the run did before.
 *
 * Failure modes:
 *   - The first sign of a failure comes to light later, and is older: the note
 *     has it, and what counted as ran since then is detection.
 *   - The first step of all is told: what had counted as ran until then, also
 *     in rounds that have ended, was the program's start.
 *   - The server is a new one, or was cut off: a member brings the sums up to
 *     its round (`told`), which replace what was counted. Of two members one
 *     may know more: since when the round ran, or that there are steps.
 *   - Workers write steps between two beats: what is done again is known to
 *     within two beats.
 *   - Steps become fewer within a round: the program counts anew, and all that
 *     it tells from then on is new.
 */
#include "rendezvous/account/account.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

static bool is_born(const struct account *a)
{
    return a->goodput.phase != GOODPUT_UNBORN;
}

static void begin(struct account *a, int64_t at_us)
{
    *a = (struct account){.phase = PHASE_WAITS};
    goodput_begin(&a->goodput, at_us);
}

/* -- the timeline ---------------------------------------------------------- */

static struct goodput_parts unspent(const struct account *a, int64_t now_us)
{
    const struct goodput_parts now = goodput_get(&a->goodput, now_us);
    return (struct goodput_parts){
        .ran_us = now.ran_us - a->given.ran_us,
        .waited_us = now.waited_us - a->given.waited_us,
        .detect_us = now.detect_us - a->given.detect_us,
        .restart_us = now.restart_us - a->given.restart_us,
    };
}

/* What has been counted since the last time is its rounds'. */
static void spend(struct account *a, int64_t at_us)
{
    const struct goodput_parts more = unspent(a, at_us);
    timeline_spend(&a->timeline, &more);
    a->given = goodput_get(&a->goodput, at_us);
}

/* The newest one, if it is that of the note. */
static struct timeline_round *round_of(struct account *a, const struct note *n)
{
    struct timeline_round *t = timeline_last(&a->timeline);
    return t != NULL && t->number == n->round ? t : NULL;
}

/* The one before may have been another server's when it ended. */
static struct timeline_round *add_round(struct account *a, int64_t number)
{
    struct timeline_round *last = timeline_last(&a->timeline);
    if (last != NULL && last->end == ROUND_OPEN) {
        last->end = ROUND_STOPPED;
        (void)snprintf(last->text, sizeof(last->text),
                       "it ended while another server had the run");
    }
    return timeline_add(&a->timeline, number);
}

static void set_text(struct timeline_round *t, const char *text)
{
    (void)snprintf(t->text, sizeof(t->text), "%s", text); /* may be cut */
}

static void describe(struct account *a, const struct note *n)
{
    const struct note_phase *p = n->phase;
    struct timeline_round *t = round_of(a, n);
    if (t == NULL && p->sealed)
        t = add_round(a, n->round);
    if (t == NULL)
        return;
    t->sealed_us = p->sealed_us;
    t->term = p->term;
    t->nodes = p->nodes;
    t->world_size = p->world_size;
    if (p->phase == PHASE_OVER && t->end == ROUND_OPEN)
        set_text(t, p->why);
    if (p->phase != PHASE_OVER || t->end == ROUND_OPEN)
        t->end = p->end;
}

/* -- the sums up to a round ------------------------------------------------ */

/* A round is proposed or sealed: the sums are those up to now. */
static void open_round(struct account *a, const struct note *n)
{
    a->round = n->round;
    a->before = goodput_get(&a->goodput, n->at_us);
    a->before_us = n->at_us;
    a->started_us = a->again_us = 0;
    a->told = false;
    a->news = true;
}

static bool opens_round(const struct account *a, const struct note *n)
{
    switch (n->phase->phase) {
    case PHASE_STARTS: /* one that was given up may have had the same number */
        return a->round != n->round || a->phase == PHASE_WAITS;
    case PHASE_RUNS:
        return a->round != n->round;
    case PHASE_WAITS:
    case PHASE_OVER:
        return false;
    }
    DDP_WRONG("phase");
}

/* Another server counted up to this round, which may be known to run. */
static void
resume(struct account *a, const struct note *n, const struct goodput_sums *told)
{
    bool over = n->phase->phase == PHASE_OVER;
    int64_t from_us = over ? n->at_us : mono_min(n->phase->told_us, n->at_us);
    a->round = n->round;
    a->before = told->parts;
    a->before_us = from_us;
    a->started_us = told->started_us;
    a->told = a->news = true;
    a->told_steps = told->steps;
    a->told_started_us = told->started_us;
    a->again_us = 0;
    a->reached = told->steps;
    goodput_resume(&a->goodput, &told->parts, from_us);
    a->given = told->parts;
    if (over)
        return;
    describe(a, n);
    struct timeline_round *t = round_of(a, n);
    if (t != NULL)
        t->cost = (struct goodput_parts){.ran_us = 0};
    if (told->started_us == 0)
        return;
    a->ran_round = n->round;
    a->new_round = told->steps > 0 ? n->round : 0;
    goodput_enter(&a->goodput, GOODPUT_RUNS,
                  mono_min(from_us + told->started_us, n->at_us));
}

/* Members tell the same, but one may not know yet that the round runs, or of
 * the first step. What beats have told since says neither better: they are of
 * now. */
static bool
is_known(const struct account *a, int64_t round, const struct goodput_sums *s)
{
    return a->told && a->round == round &&
           s->started_us <= a->told_started_us && s->steps <= a->told_steps;
}

/* With the end come the sums of all. */
static void hear(struct account *a, const struct note *n)
{
    struct goodput_sums told;
    bool over = n->phase->phase == PHASE_OVER;
    if (!goodput_parse(&told, n->phase->told) ||
        (!over && is_known(a, n->round, &told)))
        return;
    spend(a, n->at_us);
    resume(a, n, &told);
}

static void put_sums(struct account *a, char *sums)
{
    struct goodput_sums all = {
        .parts = a->before, .steps = a->reached, .started_us = a->started_us};
    bool over = a->phase == PHASE_OVER;
    if (over)
        all.parts = goodput_get(&a->goodput, a->goodput.since_us);
    if (over)
        all.started_us = 0;
    if (a->news && sums != NULL)
        goodput_print(&all, sums);
    a->news = false;
}

/* -- time ------------------------------------------------------------------ */

/* The program does new steps now, or cannot be told from one that does. */
static void run_from(struct account *a, int64_t round, int64_t at_us)
{
    goodput_enter(&a->goodput, GOODPUT_RUNS, at_us);
    a->ran_round = round;
    a->started_us = at_us > a->before_us ? at_us - a->before_us : 1;
    a->news = true;
}

static void enter(struct account *a, const struct note *n)
{
    enum run_phase was = a->phase;
    a->phase = n->phase->phase;
    switch (a->phase) {
    case PHASE_WAITS:
        goodput_enter(&a->goodput, GOODPUT_WAITS, n->at_us);
        return;
    case PHASE_STARTS:
        goodput_enter(&a->goodput, GOODPUT_STARTS, n->at_us);
        return;
    case PHASE_RUNS:
        if (a->goodput.phase == GOODPUT_RUNS)
            return;
        if (a->reached == 0 || a->new_round == n->round)
            run_from(a, n->round, n->at_us);
        else
            goodput_enter(&a->goodput, GOODPUT_STARTS, n->at_us);
        return;
    case PHASE_OVER:
        goodput_enter(&a->goodput, GOODPUT_OVER, n->at_us);
        a->news |= was != PHASE_OVER;
        return;
    }
    DDP_WRONG("phase");
}

/* Steps that are being done again are counted up to now. */
static void end_repeating(struct account *a, int64_t at_us)
{
    if (a->again_us != 0 && at_us > a->again_us)
        goodput_repeat(&a->goodput, 0, at_us - a->again_us);
    a->again_us = 0;
}

static void take_phase(struct account *a, const struct note *n)
{
    const struct note_phase *p = n->phase;
    if (p->anew || !is_born(a))
        begin(a, n->at_us);
    hear(a, n);
    if (p->sign_us != 0 && a->ran_round == n->round)
        goodput_bad(&a->goodput, p->sign_us);
    if (!p->sealed || p->phase == PHASE_OVER)
        end_repeating(a, n->at_us);
    spend(a, n->at_us);
    if (opens_round(a, n))
        open_round(a, n);
    enter(a, n);
    describe(a, n);
    put_sums(a, n->sums);
}

/* -- steps ----------------------------------------------------------------- */

/* The first step of all: rounds that seemed to run were starts. */
static void start_over(struct account *a, int64_t at_us)
{
    spend(a, at_us);
    goodput_start_over(&a->goodput, at_us);
    a->given = goodput_get(&a->goodput, at_us);
    goodput_was_start(&a->before, &a->before);
    timeline_start_over(&a->timeline);
    a->news = true;
}

/* The first new one of a round: only now does it run. */
static void begin_new(struct account *a, const struct note *n)
{
    a->new_round = n->round;
    end_repeating(a, n->at_us);
    if (a->reached == 0)
        start_over(a, n->at_us);
    if (a->phase != PHASE_RUNS)
        return; /* workers of other nodes are still being started */
    spend(a, n->at_us);
    run_from(a, n->round, n->at_us);
}

/* The first one of a round that is not new says where it went on, or a little
 * more. */
static void begin_again(struct account *a, const struct note *n)
{
    if (a->again_us != 0)
        return; /* another node told so before */
    goodput_repeat(&a->goodput, a->reached - n->steps->steps + 1, 0);
    a->again_us = n->at_us;
}

static void take_steps(struct account *a, const struct note *n)
{
    const struct note_steps *s = n->steps;
    if (!is_born(a) || n->round != a->round || a->phase == PHASE_OVER)
        return;
    bool is_new = s->anew || s->steps > a->reached;
    bool first = a->new_round != n->round;
    if (first && is_new)
        begin_new(a, n);
    else if (first)
        begin_again(a, n);
    if (is_new)
        a->reached = s->steps;
    put_sums(a, n->sums);
}

void account_take(struct account *a, const struct note *n)
{
    struct timeline_round *t = round_of(a, n);
    if (n->kind == NOTE_phase)
        take_phase(a, n);
    else if (n->kind == NOTE_steps)
        take_steps(a, n);
    else if (n->kind == NOTE_round_over && t != NULL)
        set_text(t, n->text);
}

/* -- what is known --------------------------------------------------------- */

struct goodput_parts account_goodput(const struct account *a, int64_t now_us)
{
    struct goodput now = a->goodput;
    if (a->again_us != 0 && now_us > a->again_us)
        goodput_repeat(&now, 0, now_us - a->again_us);
    return goodput_get(&now, now_us);
}

bool account_knows_start(const struct account *a)
{
    return a->reached > 0;
}

struct timeline_round
account_round(const struct account *a, int i, int64_t now_us)
{
    const struct goodput_parts more = unspent(a, now_us);
    struct timeline_round round = *timeline_at(&a->timeline, i);
    timeline_share(&a->timeline, i, &more, &round.cost);
    return round;
}

void account_check(const struct account *a, int64_t now_us)
{
    if (!is_born(a))
        return;
    goodput_check(&a->goodput, now_us);
    timeline_check(&a->timeline);
}
