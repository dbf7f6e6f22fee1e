/*
 * The order is a list. Most answers are the newest of all, and are linked in at
 * its end. `least` moves by one place with each launcher that comes to be among
 * the nodes_min newest, or is no longer in the list. With each new term the
 * list begins anew; what a launcher has of an older term counts no more
 * (launcher.counted).
 */
#include "rendezvous/core/inner/authority/launchers_priv.h"

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

bool launchers_are_needed(const struct authority *a)
{
    return a->rules.strict && a->round > 0 && !a->ended;
}

/* It has promised the server's term. */
static bool is_counted(const struct authority *a, const struct launcher *l)
{
    return a->state != AUTHORITY_FOLLOWER && l->counted == a->term.count;
}

/* -- the order ------------------------------------------------------------- */

/* Behind those that answered as late. */
static void link_in(struct launchers *all, struct launcher *l)
{
    struct launcher *older = all->newest;
    while (older != NULL && older->echo_us > l->echo_us)
        older = older->older;
    struct launcher *newer = older != NULL ? older->newer : all->oldest;
    l->older = older;
    l->newer = newer;
    *(older != NULL ? &older->newer : &all->oldest) = l;
    *(newer != NULL ? &newer->older : &all->newest) = l;
    all->answered++;
}

static void link_out(struct launchers *all, const struct launcher *l)
{
    *(l->older != NULL ? &l->older->newer : &all->oldest) = l->newer;
    *(l->newer != NULL ? &l->newer->older : &all->newest) = l->older;
    all->answered--;
}

static void put_in(struct authority *a, struct launcher *l)
{
    struct launchers *all = &a->launchers;
    link_in(all, l);
    l->is_among = all->least == NULL || l->echo_us >= all->least->echo_us;
    if (all->least != NULL && l->is_among) {
        all->least->is_among = false;
        all->least = all->least->newer;
    } else if (all->answered == a->rules.nodes_min) {
        all->least = all->oldest;
    }
}

static void take_out(struct launchers *all, struct launcher *l)
{
    if (l->echo_us == AUTHORITY_NO_ECHO)
        return;
    if (all->least != NULL && l->is_among) {
        all->least = all->least->older;
        if (all->least != NULL)
            all->least->is_among = true;
    }
    link_out(all, l);
    l->echo_us = AUTHORITY_NO_ECHO;
}

/* -- what they say --------------------------------------------------------- */

void launchers_remove(struct authority *a, struct launcher *l)
{
    if (is_counted(a, l))
        take_out(&a->launchers, l);
    l->counted = 0;
    l->echo_us = AUTHORITY_NO_ECHO;
}

void launchers_obey(struct authority *a, struct launcher *l)
{
    bool promised =
        a->state != AUTHORITY_FOLLOWER && term_cmp(&l->term, &a->term) == 0;
    if (promised && is_counted(a, l))
        return;
    launchers_remove(a, l);
    if (promised)
        l->counted = a->term.count;
}

/* Whoever led the line before may act with its answer for a lease. */
static bool
counts(const struct authority *a, const struct launcher *l, int64_t now_us)
{
    return !a->by_count || l->answered_us == AUTHORITY_NO_ECHO ||
           now_us >= mono_after(l->answered_us, a->rules.lease_us);
}

static void extend_line(struct authority *a, int64_t now_us)
{
    const struct launcher *least = a->launchers.least;
    if (least != NULL && now_us <= a->line_until_us)
        launchers_hold(a, mono_after(least->echo_us, a->rules.lease_us));
}

void launchers_answer(struct authority *a,
                      struct launcher *l,
                      int64_t sent_us,
                      int64_t now_us)
{
    if (!a->rules.strict || !is_counted(a, l) || sent_us <= l->echo_us ||
        !counts(a, l, now_us))
        return;
    take_out(&a->launchers, l);
    l->echo_us = sent_us;
    put_in(a, l);
    extend_line(a, now_us);
}

void launchers_hold(struct authority *a, int64_t until_us)
{
    if (until_us > a->line_until_us)
        a->line_until_us = until_us;
}

/* -- whether they are enough ----------------------------------------------- */

int64_t launchers_until_us(const struct authority *a)
{
    if (!launchers_are_needed(a))
        return MONO_NEVER;
    if (a->launchers.least == NULL)
        return AUTHORITY_NO_ECHO;
    return mono_min(a->line_until_us,
                    mono_after(a->launchers.least->echo_us, a->rules.lease_us));
}

void launchers_check(const struct authority *a)
{
    const struct launchers *all = &a->launchers;
    int n = 0, among = 0;
    int64_t echo_us = MONO_NEVER;
    for (const struct launcher *l = all->newest; l != NULL; l = l->older, n++) {
        ddp_assert(is_counted(a, l) && l->echo_us <= echo_us);
        ddp_assert(l->is_among == (n < a->rules.nodes_min));
        ddp_assert((l == all->least) == (n + 1 == a->rules.nodes_min));
        echo_us = l->echo_us;
        among += l->is_among;
    }
    ddp_assert(n == all->answered);
    ddp_assert((all->least != NULL) == (n >= a->rules.nodes_min));
    ddp_assert(among <= n);
}
