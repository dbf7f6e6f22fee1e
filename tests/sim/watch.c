/*
 * The invariants of ddprun-protocol(7) as somebody sees them who looks at all
 * nodes at once: what is sealed, who runs what, how it ends.
 */
#include <string.h>

#include "rendezvous/core/inner/authority/authority.h"
#include "tests/sim/world.h"

/* Of the server whose step runs. */
static int life_now(const struct sim *s)
{
    return s->servers[s->acting].life;
}

int watch_instance(struct sim *s, const char *id)
{
    for (int i = 0; i < s->n_instances; i++)
        if (msg_same_instance(s->instances[i].id, id))
            return i;
    if (s->n_instances == INSTANCES_MAX) {
        sim_break(s, "more than %d instances of one run", INSTANCES_MAX);
        return 0;
    }
    struct instance *in = &s->instances[s->n_instances];
    *in = (struct instance){.n_lines = 0};
    msg_set(in->id, id);
    return s->n_instances++;
}

struct line *watch_line(struct sim *s, struct instance *in, int64_t term)
{
    int64_t number = AUTHORITY_LINE(term);
    for (int i = 0; i < in->n_lines; i++)
        if (in->lines[i].number == number)
            return &in->lines[i];
    if (in->n_lines == LINES_MAX) {
        sim_break(s, "more than %d lines of one instance", LINES_MAX);
        return &in->lines[0];
    }
    struct line *l = &in->lines[in->n_lines++];
    *l = (struct line){.number = number, .final_status = -1};
    return l;
}

void watch_world(struct sim *s, int node, const struct msg_world *w)
{
    if (s->nodes[node].drained_life == life_now(s))
        sim_break(s, "n%d was drained and is given a place", node);
    round_world(s, node, watch_instance(s, w->instance), w);
}

void watch_done(struct sim *s, int node)
{
    const struct msg_world *w = &s->nodes[node].agent.round.world;
    struct instance *in = &s->instances[watch_instance(s, w->instance)];
    if (w->round == in->round)
        in->seats[w->group_rank].done = true;
}

/* Half of the voters know of it, so that it is for good. */
static void take_final(struct sim *s, struct instance *in, int status)
{
    struct line *l = watch_line(s, in, s->servers[s->acting].term.count);
    if (l->final_status >= 0 && l->final_status != status)
        sim_break(s, "invariant 5: final ends of one run: %d and %d",
                  l->final_status, status);
    l->final_status = status;
}

/* Invariant 5, at the server: success is said only where all were done. */
void watch_end(struct sim *s, const struct msg_end *e)
{
    if (e->instance[0] != '\0') {
        struct instance *of = &s->instances[watch_instance(s, e->instance)];
        s->count[SIM_END_AGAIN] +=
            of->said_life != 0 && of->said_life != life_now(s);
        of->said_life = life_now(s);
    }
    if (e->hold == 0 && e->instance[0] != '\0')
        take_final(s, &s->instances[watch_instance(s, e->instance)],
                   (int)e->status);
    if (e->status != 0)
        return;
    const struct instance *in = &s->instances[watch_instance(s, e->instance)];
    if (in->round == 0)
        sim_break(s, "invariant 5: success, and there was no round");
    for (int g = 0; g < in->group_world && in->round == e->round; g++)
        if (!in->seats[g].done)
            sim_break(s, "invariant 5: success, and n%d was not done",
                      in->seats[g].node);
}

/*
 * Whoever is in a round, with a lease that was never over, is in that instance
 * for good: no younger one has it sent away.
 */
void watch_refused(struct sim *s, int node, const struct msg_refused *m)
{
    const struct agent *a = &s->nodes[node].agent;
    int64_t now_us = clock_of(s, s->nodes[node].machine, s->now_us);
    s->count[SIM_PUT_OFF] += m->code == DDP_E_UNREACHABLE;
    if (agent_is_sure(a) && now_us < a->lease_until_us &&
        strstr(m->text, "started anew") != NULL)
        sim_break(s, "n%d is a member and is sent away: %s", node, m->text);
}

static void count_exit(struct sim *s,
                       const struct node_sim *n,
                       const struct agent_verdict *v)
{
    enum sim_count c = SIM_END_REFUSED;
    if (n->orphaned)
        c = SIM_END_ORPHANED;
    else if (v->status == ddp_code_exit(DDP_E_DRAINED))
        c = SIM_END_DRAINED;
    else if (v->ended && v->status == ddp_code_exit(DDP_E_ORDERED))
        c = SIM_END_ORDERED;
    else if (agent_is_leaving(&n->agent) ||
             (v->ended && v->status > 128 && v->end.rank < 0))
        c = SIM_END_SIGNAL;
    else if (v->ended && v->status == 0)
        c = SIM_END_SUCCESS;
    else if (v->ended && v->end.crash_loop > 0)
        c = SIM_END_CRASHLOOP;
    else if (v->ended && v->end.rank >= 0)
        c = SIM_END_FAILURE;
    else if (v->ended)
        c = SIM_END_TIMEOUT;
    else if (v->status == 0)
        c = SIM_END_ALONE;
    s->count[c]++;
}

/* An end that no server told. */
static void
watch_lonely_exit(struct sim *s, int node, const struct agent_verdict *v)
{
    const struct node_sim *n = &s->nodes[node];
    const struct agent *a = &n->agent;
    int64_t now_us = clock_of(s, n->machine, s->now_us);
    int64_t down_us = now_us - a->session.down_since_us;
    bool doubts = v->heard_us > 0 && v->end.status == 0;
    bool lost = a->session.state != AGENT_SESSION_HEARD &&
                down_us >= s->conf.reconnect_ms * MONO_MS;
    bool may = v->text[0] != '\0' && (doubts || lost);
    if (v->status == 0 && !may)
        sim_break(s, "invariant 5: n%d exits 0 and was not told to", node);
}

/* No launcher ends with an end that was not final: of a line there is one. */
static void
watch_instance_end(struct sim *s, int node, const struct agent_verdict *v)
{
    const struct instance *in =
        &s->instances[watch_instance(s, v->end.instance)];
    for (int i = 0; i < in->n_lines; i++)
        if (in->lines[i].final_status == v->status)
            return;
    sim_break(s, "invariant 5: n%d ends with %d, which is no final end", node,
              v->status);
}

/* Invariant 5, at the nodes: a launcher ends with the run's status only once a
 * server said that the end is final. */
void watch_exit(struct sim *s, int node, const struct agent_verdict *v)
{
    const struct node_sim *n = &s->nodes[node];
    const struct agent *a = &n->agent;
    count_exit(s, n, v);
    if (n->orphaned || agent_is_leaving(a))
        return;
    if (!v->ended) {
        watch_lonely_exit(s, node, v);
        return;
    }
    if (v->end.crash_loop > 0 && (v->end.crash_loop != s->conf.crash_loop ||
                                  v->end.round < v->end.crash_loop))
        sim_break(s, "a crash loop of %lld rounds in round %lld",
                  (long long)v->end.crash_loop, (long long)v->end.round);
    if (v->status != v->end.status)
        sim_break(s, "invariant 5: n%d exits %d, the run ended with %lld", node,
                  v->status, (long long)v->end.status);
    bool held_a_round = agent_is_member(a);
    if (v->status == 0 && held_a_round &&
        !msg_same_instance(a->round.world.instance, v->end.instance))
        sim_break(s, "invariant 5: n%d exits 0 for what it had no part in",
                  node);
    if (v->end.instance[0] != '\0')
        watch_instance_end(s, node, v);
}
