/*
 * Rounds: what each server proposes, and what comes into
 * force. A round is named by (instance, term, round); terms are ordered by
 * their count, then by the id of their server.
 *
 * Invariant 1, for several servers: there is one world of a name. Rounds of an
 * instance come into force by go, or at once by a world that is not pending.
 * From then on no worker of an earlier one runs or starts. One of a single node
 * is in force when that node starts workers: it alone can tell of it. A server
 * that was deposed may read the last accept of an old round late; nobody
 * obeys its go.
 */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/core/inner/authority/authority.h"
#include "tests/sim/world.h"

static bool
is_named(const struct round_sim *r, const struct term *term, int64_t round)
{
    return term_cmp(&r->term, term) == 0 && r->round == round;
}

/* NULL: none is known by that name. */
static struct round_sim *
find(struct sim *s, const struct term *term, int64_t round)
{
    for (int i = s->n_rounds - 1; i >= 0; i--)
        if (is_named(&s->rounds[i], term, round))
            return &s->rounds[i];
    return NULL;
}

static struct round_sim *find_world(struct sim *s, const struct msg_world *w)
{
    struct round_sim *r = find(s, &w->term, w->round);
    return r != NULL &&
                   msg_same_instance(s->instances[r->instance].id, w->instance)
               ? r
               : NULL;
}

static bool is_later(const struct round_sim *a, const struct round_sim *b)
{
    return round_cmp(&a->term, a->round, &b->term, b->round) > 0;
}

/* -- voters ---------------------------------------------------------------- */

/* An agent's id begins with its number and 1. */
static int read_voters(struct sim *s, const char *ids, int *voters)
{
    int n = 0;
    while (*ids != '\0' && n < MSG_VOTERS_MAX) {
        char *end;
        unsigned long id = strtoul(ids, &end, 16);
        if (id == 0 || id > (unsigned long)s->n_nodes)
            sim_break(s, "there is no such voter: %.16s", ids);
        else
            voters[n++] = (int)id - 1;
        ids = *end == ' ' ? end + 1 : "";
    }
    return n;
}

/* They come before the world. A node that is none may be told of addresses
 * alone. */
void round_voters(struct sim *s, const struct msg_voters *v)
{
    if (v->ids[0] == '\0')
        return;
    s->told = (struct round_sim){.term = v->term, .round = v->round};
    s->told.n_voters = read_voters(s, v->ids, s->told.voters);
}

/* -- proposed -------------------------------------------------------------- */

static struct round_sim *
open_round(struct sim *s, int instance, const struct msg_world *w)
{
    if (s->n_rounds % 16 == 0) {
        size_t size = ((size_t)s->n_rounds + 16) * sizeof(s->rounds[0]);
        s->rounds = realloc(s->rounds, size);
        if (s->rounds == NULL)
            abort();
    }
    struct round_sim *r = &s->rounds[s->n_rounds++];
    *r = (struct round_sim){.instance = instance,
                            .term = w->term,
                            .round = w->round,
                            .group_world = (int)w->group_world,
                            .world_size = (int)w->world_size,
                            .restarts = (int)w->restarts};
    msg_set(r->master_addr, w->master_addr);
    r->seats = calloc((size_t)r->group_world, sizeof(r->seats[0]));
    if (r->seats == NULL)
        abort();
    if (is_named(&s->told, &r->term, r->round)) {
        r->n_voters = s->told.n_voters;
        memcpy(r->voters, s->told.voters, sizeof(r->voters));
    } else {
        sim_break(s, "(%lld %s, %lld) is told of before its voters",
                  (long long)r->term.count, r->term.id, (long long)r->round);
    }
    s->count[SIM_PROPOSED]++;
    if (w->group_world < s->conf.nodes_min ||
        w->group_world > s->conf.nodes_max)
        sim_break(s, "invariant 2: a round of %lld nodes",
                  (long long)w->group_world);
    return r;
}

/* Invariant 2. */
static void check_ranks(struct sim *s, const struct round_sim *r)
{
    int next = 0;
    for (int g = 0; g < r->group_world; g++) {
        if (r->seats[g].base_rank != next)
            sim_break(s, "invariant 2: group rank %d has no ranks from %d", g,
                      next);
        next += r->seats[g].nproc;
    }
    if (next != r->world_size)
        sim_break(s, "invariant 2: %d ranks, the world is %d", next,
                  r->world_size);
}

static void take_seat(struct sim *s,
                      struct round_sim *r,
                      int node,
                      const struct msg_world *w)
{
    struct seat *seat = &r->seats[w->group_rank];
    if (seat->seen && (seat->node != node || seat->base_rank != w->base_rank))
        sim_break(s, "invariant 1: a place of (%lld %s, %lld) was given twice",
                  (long long)r->term.count, r->term.id, (long long)r->round);
    if (seat->seen)
        return;
    *seat = (struct seat){.seen = true,
                          .node = node,
                          .base_rank = (int)w->base_rank,
                          .nproc = (int)s->nodes[node].agent.conf.join.nproc};
    if (++r->seen == r->group_world)
        check_ranks(s, r);
    struct instance *in = &s->instances[r->instance];
    if (r->in_force && in->round == r->round)
        in->seats[w->group_rank] = *seat;
}

/* -- in force -------------------------------------------------------------- */

static struct round_sim *newest_in_force(struct sim *s, int instance)
{
    struct round_sim *newest = NULL;
    for (int i = 0; i < s->n_rounds; i++) {
        struct round_sim *r = &s->rounds[i];
        if (r->instance == instance && r->in_force &&
            (newest == NULL || is_later(r, newest)))
            newest = r;
    }
    return newest;
}

/* Workers of a paused machine do not run; when it wakes they are killed before
 * anything else. */
static void check_none_runs(struct sim *s, const struct round_sim *but)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const struct node_sim *n = &s->nodes[i];
        if (n->node_frozen || s->now_us < n->exempt_until_us)
            continue;
        for (int k = 0; k < SIM_PROCS_MAX; k++) {
            const struct worker *w = &n->workers[k];
            if (!w->alive || w->instance != but->instance ||
                w->round == but - s->rounds)
                continue;
            const struct round_sim *r = &s->rounds[w->round];
            sim_break(s,
                      "invariant 1: a worker of (%lld %s, %lld) runs on n%d "
                      "while (%lld %s, %lld) is in force",
                      (long long)r->term.count, r->term.id, (long long)r->round,
                      i, (long long)but->term.count, but->term.id,
                      (long long)but->round);
        }
    }
}

/*
 * Invariant 3, with a window: charge number n comes at least a window after
 * number n - max. Each comes after the end of its round, and before the next
 * one is in force, which is now.
 */
static void check_window(struct sim *s, struct instance *in, int restarts)
{
    int before = restarts - s->conf.max_restarts;
    in->over_us[restarts % SIM_CHARGES_MAX] = s->over_us;
    if (s->conf.window_ms > 0 && before > 0 &&
        s->now_us - in->over_us[before % SIM_CHARGES_MAX] <
            s->conf.window_ms * MONO_MS)
        sim_break(s, "invariant 3: restart %d comes too early", restarts);
}

/* A line begun by count, by launchers of which none had accepted the last round
 * in force: they know nothing of that, and count from an older one on. */
static bool is_of_unknowing_line(const struct round_sim *r,
                                 const struct round_sim *last)
{
    if (last == NULL ||
        AUTHORITY_LINE(last->term.count) == AUTHORITY_LINE(r->term.count))
        return false;
    for (int g = 0; g < r->group_world; g++)
        if (r->seats[g].seen && last->accepted[r->seats[g].node])
            return false;
    return true;
}

/* Invariant 3: what was charged and then known to nobody that is left is
 * counted; that is none of what ever was in force. */
static void
check_charge(struct sim *s, struct instance *in, const struct round_sim *r)
{
    int charged = in->round == 0 ? 0 : r->restarts - in->restarts;
    if (charged < 0 && s->count[SIM_GONE_ON] + s->count[SIM_BY_COUNT] > 0)
        charged = 0; /* it was known only to nodes that were given up */
    s->count[SIM_CHARGED] += charged > 0;
    if (r->round <= in->round)
        sim_break(s, "invariant 3: round %lld after round %lld",
                  (long long)r->round, (long long)in->round);
    if (charged < 0 || charged > 1 ||
        (s->conf.window_ms == 0 && r->restarts > s->conf.max_restarts))
        sim_break(s, "invariant 3: %d restarts, then %d", in->restarts,
                  r->restarts);
    if (charged == 1)
        check_window(s, in, r->restarts);
}

static void come_into_force(struct sim *s, struct round_sim *r)
{
    struct instance *in = &s->instances[r->instance];
    const struct round_sim *newest = newest_in_force(s, r->instance);
    if (r->in_force)
        return;
    if (newest != NULL && !is_later(r, newest)) {
        s->count[SIM_LATE_GO]++; /* of a deposed leader, which hears nothing */
        return;
    }
    if (watch_line(s, in, r->term.count)->final_status >= 0)
        sim_break(s, "invariant 5: (%lld %s, %lld) comes after the final end",
                  (long long)r->term.count, r->term.id, (long long)r->round);
    check_none_runs(s, r);
    if (!is_of_unknowing_line(r, newest))
        check_charge(s, in, r);
    if (r->group_world == 1) /* it need not say so */
        r->accepted[r->seats[0].node] = true;
    s->count[SIM_ROUNDS]++;
    r->in_force = true;
    in->round = r->round;
    in->restarts = r->restarts;
    in->group_world = r->group_world;
    in->world_size = r->world_size;
    memset(in->seats, 0, sizeof(in->seats));
    memcpy(in->seats, r->seats, (size_t)r->group_world * sizeof(r->seats[0]));
}

/* -- what servers say ------------------------------------------------------ */

void round_world(struct sim *s,
                 int node,
                 int instance,
                 const struct msg_world *w)
{
    struct round_sim *r = find_world(s, w);
    if (r == NULL)
        r = open_round(s, instance, w);
    if (w->group_world != r->group_world || w->world_size != r->world_size ||
        strcmp(w->master_addr, r->master_addr) != 0 ||
        w->restarts != r->restarts || w->group_rank >= r->group_world) {
        sim_break(s, "invariant 1: two worlds of (%lld %s, %lld)",
                  (long long)w->term.count, w->term.id, (long long)w->round);
        return;
    }
    take_seat(s, r, node, w);
    if (w->pending == 0 && r->group_world > 1)
        come_into_force(s, r);
}

/* A launcher that leaves waits for `go` to do so: the round may have been its
 * server's own choice, without a world, or be one node's alone, which it need
 * not accept: that is in force once it starts its workers. */
void round_go(struct sim *s, int node, const struct msg_go *g)
{
    struct round_sim *r = find(s, &g->term, g->round);
    if (s->nodes[node].agent.hands_over && (r == NULL || r->group_world == 1))
        return;
    if (r == NULL)
        sim_break(s, "go for (%lld %s, %lld), which nobody was told of",
                  (long long)g->term.count, g->term.id, (long long)g->round);
    else
        come_into_force(s, r);
}

void round_accept(struct sim *s, int node, const struct msg_accept *m)
{
    struct round_sim *r = find(s, &m->term, m->round);
    if (r != NULL)
        r->accepted[node] = true;
}

void round_prepare(struct sim *s, const struct msg_prepare *o)
{
    struct server_sim *srv = &s->servers[s->acting];
    srv->acts &= srv->term.count == o->term.count;
    srv->term = o->term;
}

/* Only a leader grants any. */
void round_lease(struct sim *s, const struct msg_lease *l)
{
    struct server_sim *srv = &s->servers[s->acting];
    const struct round_sim *r = NULL;
    srv->lease_at_us = s->now_us;
    if (l->grant_ms >= s->conf.heartbeat_ms)
        sim_break(s, "a lease of %lld ms", (long long)l->grant_ms);
    if (srv->term.count == 0 || srv->acts)
        return;
    srv->acts = true;
    srv->waits = false;
    for (int i = 0; i < s->n_rounds; i++)
        if (s->rounds[i].in_force)
            r = &s->rounds[i];
    if (r == NULL)
        return;
    s->count[SIM_TAKEOVER]++;
    s->count[SIM_EXCEPTION] +=
        r->n_voters == 2 &&
        s->nodes[r->voters[0]].alive != s->nodes[r->voters[1]].alive;
}

void round_waiting(struct sim *s, const struct msg_waiting *w)
{
    struct server_sim *srv = &s->servers[s->acting];
    bool waits = w->voters > 0 && 2 * w->voters_here <= w->voters;
    s->count[SIM_MINORITY] += waits && !srv->waits;
    srv->waits = waits;
}

/* -- what agents do -------------------------------------------------------- */

int round_spawn(struct sim *s, int node, const struct msg_world *w)
{
    struct round_sim *r = find_world(s, w);
    if (r != NULL && r->group_world == 1)
        come_into_force(s, r);
    if (r == NULL || r != newest_in_force(s, r->instance) ||
        r->seats[w->group_rank].node != node) {
        sim_break(s,
                  "invariant 1: n%d starts workers of (%lld %s, %lld), which "
                  "is not what is in force",
                  node, (long long)w->term.count, w->term.id,
                  (long long)w->round);
        return 0;
    }
    check_none_runs(s, r);
    return (int)(r - s->rounds);
}

/* -- the majority ---------------------------------------------------------- */

/* The server that most nodes are at knows that all of it is dead. */
static bool is_dead(const struct sim *s, const struct node_sim *n)
{
    for (int i = 0; i < n->n_farewells; i++)
        if (n->farewell_lives[i] == server_life(s))
            return true;
    return false;
}

/* More than half of its living voters are there. */
static bool has_votes(const struct sim *s, const struct round_sim *r)
{
    int alive = 0, living = 0;
    for (int i = 0; i < r->n_voters; i++) {
        const struct node_sim *n = &s->nodes[r->voters[i]];
        alive += n->alive;
        living += n->alive || !is_dead(s, n);
    }
    return 2 * alive > living;
}

bool round_has_majority(struct sim *s)
{
    bool has = true;
    for (int i = 0; i < s->n_rounds; i++) {
        const struct round_sim *r = &s->rounds[i];
        const struct round_sim *newest = newest_in_force(s, r->instance);
        if (newest == NULL || r == newest || is_later(r, newest))
            has &= has_votes(s, r);
    }
    return has;
}

void round_free(struct sim *s)
{
    for (int i = 0; i < s->n_rounds; i++)
        free(s->rounds[i].seats);
    free(s->rounds);
}
