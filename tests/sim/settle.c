/*
 * Invariant 4: once nothing goes wrong any more a round runs within a bound,
 * with each live node in it or beside it as a spare; and what has ended has
 * left nothing behind. A run needs a majority of the voters for
 * that, or by count a voter: one that has none left waits, and ends.
 */
#include <string.h>

#include "launcher/agent/agent_priv.h"
#include "tests/sim/world.h"

int64_t sim_settle_us(const struct sim *s)
{
    const struct sim_conf *c = &s->conf;
    int64_t ms = c->reconnect_ms + 5000 + 4 * c->heartbeat_ms;
    ms += 2 * 2500 + 2 * (CONNECT_US / MONO_MS);
    ms += 4 * c->grace_ms + c->last_call_ms + c->scale_ms + 3000;
    return ms * MONO_MS;
}

/* Not once it is about to be done. */
static bool has_room(const struct sim *s, const struct instance *in)
{
    for (int g = 0; g < in->group_world; g++)
        if (in->seats[g].done)
            return false;
    return in->group_world < s->conf.nodes_max;
}

/* Two instances find each other by the endpoint: not if the machines of all
 * addresses of the list have lost their power for good. */
static bool may_have_two(const struct sim *s)
{
    if (s->conf.behind > 1)
        return true;
    for (int i = 0; i < s->conf.endpoints; i++) {
        int tenant = s->machines[s->conf.endpoint[i]].tenant;
        if (tenant < 0 || s->nodes[tenant].alive)
            return false;
    }
    return s->conf.endpoints > 0;
}

/* A launcher finds the others by an address of the list, or knows their places.
 */
static bool may_be_found(const struct sim *s, const struct agent *a)
{
    for (int i = 0; i < s->conf.endpoints; i++) {
        int tenant = s->machines[s->conf.endpoint[i]].tenant;
        if (tenant < 0 || s->nodes[tenant].alive)
            return true;
    }
    return s->conf.endpoints == 0 || a->round.evidence != AGENT_NO_ROUND;
}

/* The run is strict, enough launchers find each other, and one of them has
 * accepted a round. */
static bool may_count(const struct sim *s)
{
    int n = 0;
    bool knows = false;
    for (int i = 0; i < s->n_nodes; i++) {
        const struct agent *a = &s->nodes[i].agent;
        if (!s->nodes[i].alive || !may_be_found(s, a))
            continue;
        n++;
        knows |= agent_has_vote(a);
    }
    return 2 * s->conf.nodes_min > s->conf.nodes_max && knows &&
           n >= s->conf.nodes_min;
}

void sim_check_settled(struct sim *s)
{
    int live = 0;
    int in_round = 0;
    int instance = -1;
    for (int i = 0; i < s->n_nodes; i++) {
        const struct agent *a = &s->nodes[i].agent;
        live += s->nodes[i].alive;
        if (!s->nodes[i].alive ||
            (a->work != AGENT_RUNNING && a->work != AGENT_DONE))
            continue;
        in_round++;
        int in = 0;
        while (!msg_same_instance(s->instances[in].id, a->round.world.instance))
            in++;
        if (instance >= 0 && instance != in && !may_have_two(s))
            sim_break(s, "invariant 4: two instances run");
        instance = in;
        if (a->round.world.round != s->instances[in].round)
            sim_break(s, "invariant 4: n%d is in round %lld, not %lld", i,
                      (long long)a->round.world.round,
                      (long long)s->instances[in].round);
    }
    bool has_majority = round_has_majority(s);
    bool can_go_on = has_majority || may_count(s);
    s->count[SIM_NO_MAJORITY] += !has_majority;
    if (in_round == 0 && live >= s->conf.nodes_min && can_go_on)
        sim_break(s, "invariant 4: %d nodes live and no round runs", live);
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].alive && s->nodes[i].drained_life > 0 &&
            s->nodes[i].drained_life == server_life(s))
            sim_break(s, "n%d was drained and does not go", i);
    for (int i = 0; i < s->n_nodes && in_round > 0; i++) {
        const struct agent *a = &s->nodes[i].agent;
        if (s->nodes[i].alive && a->work != AGENT_RUNNING &&
            a->work != AGENT_DONE && a->round.evidence != AGENT_SPARE)
            sim_break(s, "invariant 4: n%d is neither in the round nor a spare",
                      i);
        else if (s->nodes[i].alive && a->round.evidence == AGENT_SPARE &&
                 has_room(s, &s->instances[instance]))
            sim_break(s, "invariant 4: n%d waits, and the round has room", i);
    }
}

void sim_check_over(struct sim *s)
{
    for (int i = 0; i < s->n_nodes; i++) {
        if (s->nodes[i].alive)
            sim_break(s, "invariant 4: n%d does not end", i);
        if (sim_workers(s, i) > 0)
            sim_break(s, "n%d left workers behind", i);
    }
    for (int i = 0; i < OUTSIDE; i++)
        if (server_is_up(s, i))
            sim_break(s, "the server of n%d outlives all launchers", i);
}
