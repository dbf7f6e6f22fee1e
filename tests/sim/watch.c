/*
 * The invariants of ddprun-protocol(7) as somebody sees them who looks at all
 * nodes at once: what is sealed, who runs what, how it ends.
 */
#include <string.h>

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
    *in = (struct instance){.end_status = -1, .final_status = -1};
    msg_set(in->id, id);
    return s->n_instances++;
}

/* Invariant 1. Workers of a paused machine do not run; when it wakes they are
 * killed before anything else. */
static void check_none_runs(struct sim *s, int instance, int64_t but_round)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const struct node_sim *n = &s->nodes[i];
        if (n->node_frozen || s->now_us < n->exempt_until_us)
            continue;
        for (int k = 0; k < SIM_PROCS_MAX; k++) {
            const struct worker *w = &n->workers[k];
            if (w->alive && w->instance == instance && w->round != but_round)
                sim_break(s,
                          "invariant 1: a worker of round %lld runs on n%d "
                          "while round %lld is there",
                          (long long)w->round, i,
                          (long long)s->instances[instance].round);
        }
    }
}

/*
 * Invariant 3, with a window: charge number n comes at least a window after
 * number n - max. Each comes after the end of its round, and before the seal of
 * the next one, which is now.
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

/* Invariants 2 and 3, what can be said before all places are known. */
static void open_seal(struct sim *s, int instance, const struct msg_world *w)
{
    struct instance *in = &s->instances[instance];
    if (s->sealed >= 0)
        sim_break(s, "two rounds were sealed in one step");
    if (w->round < in->round)
        sim_break(s, "invariant 3: round %lld after round %lld",
                  (long long)w->round, (long long)in->round);
    if (w->group_world < s->conf.nodes_min ||
        w->group_world > s->conf.nodes_max)
        sim_break(s, "invariant 2: a round of %lld nodes",
                  (long long)w->group_world);
    int charged = (int)w->restarts - in->restarts;
    if (in->round == 0)
        charged = 0; /* a new instance of an old run */
    if (charged < 0 && in->seal_life != life_now(s)) {
        /* The round that was charged was known to nodes that are gone. */
        s->count[SIM_FORGOTTEN]++;
        charged = 0;
    }
    if (charged < 0 || charged > 1 ||
        (s->conf.window_ms == 0 && w->restarts > s->conf.max_restarts))
        sim_break(s, "invariant 3: %d restarts, then %lld", in->restarts,
                  (long long)w->restarts);
    if (charged == 1)
        check_window(s, in, (int)w->restarts);
    s->count[SIM_ROUNDS]++;
    s->count[SIM_CHARGED] += charged;
    in->round = w->round;
    in->seal_life = life_now(s);
    in->restarts = (int)w->restarts;
    in->group_world = (int)w->group_world;
    in->world_size = (int)w->world_size;
    msg_set(in->master_addr, w->master_addr);
    memset(in->seats, 0, sizeof(in->seats));
    s->sealed = instance;
    check_none_runs(s, instance, -1);
}

void watch_world(struct sim *s, int node, const struct msg_world *w)
{
    int instance = watch_instance(s, w->instance);
    struct instance *in = &s->instances[instance];
    if (s->nodes[node].drained_life == life_now(s))
        sim_break(s, "n%d was drained and is given a place", node);
    if (w->epoch > 0) {
        round_world(s, node, instance, w);
        return;
    }
    if (w->round != in->round)
        open_seal(s, instance, w);
    if (w->group_world != in->group_world || w->world_size != in->world_size ||
        strcmp(w->master_addr, in->master_addr) != 0 ||
        w->group_rank >= in->group_world) {
        sim_break(s, "invariant 2: two worlds of one round differ");
        return;
    }
    struct seat *seat = &in->seats[w->group_rank];
    int nproc = (int)s->nodes[node].agent.conf.join.nproc;
    if (seat->seen && (seat->node != node || seat->base_rank != w->base_rank))
        sim_break(s, "invariant 2: a place was given twice");
    if (!seat->seen && s->sealed != instance)
        sim_break(s, "invariant 2: a place was given after the seal");
    *seat = (struct seat){.seen = true,
                          .node = node,
                          .base_rank = (int)w->base_rank,
                          .nproc = nproc};
}

/* Invariant 2, once all places are known. */
static void close_seal(struct sim *s)
{
    const struct instance *in = &s->instances[s->sealed];
    int next = 0;
    for (int g = 0; g < in->group_world; g++) {
        const struct seat *seat = &in->seats[g];
        if (!seat->seen || seat->base_rank != next)
            sim_break(s, "invariant 2: group rank %d has no ranks from %d", g,
                      next);
        next += seat->nproc;
    }
    char first[32];
    int node = in->seats[0].node;
    net_addr(s->nodes[node].machine, s->nodes[node].moves_told, first);
    if (strcmp(in->master_addr, first) != 0)
        sim_break(s, "invariant 2: the master is at %s, n%d at %s",
                  in->master_addr, node, first);
    if (next != in->world_size)
        sim_break(s, "invariant 2: %d ranks, the world is %d", next,
                  in->world_size);
}

void watch_step_done(struct sim *s, bool died)
{
    if (s->sealed >= 0 && !died) /* else not all were told of their places */
        close_seal(s);
    s->sealed = -1;
}

int64_t watch_spawn(struct sim *s, int node, const struct msg_world *w)
{
    int instance = watch_instance(s, w->instance);
    const struct instance *in = &s->instances[instance];
    if (w->epoch > 0)
        return round_spawn(s, node, w);
    if (w->round != in->round || in->seats[w->group_rank].node != node)
        sim_break(s,
                  "invariant 1: n%d starts workers of round %lld, round %lld "
                  "is there",
                  node, (long long)w->round, (long long)in->round);
    check_none_runs(s, instance, w->round);
    return w->round;
}

void watch_done(struct sim *s, int node)
{
    const struct msg_world *w = &s->nodes[node].agent.round.world;
    struct instance *in = &s->instances[watch_instance(s, w->instance)];
    if (w->round == in->round)
        in->seats[w->group_rank].done = true;
}

/* With failover: half of the voters know of it, so that it is for good. */
static void take_final(struct sim *s, struct instance *in, int status)
{
    if (in->final_status >= 0 && in->final_status != status)
        sim_break(s, "invariant 5: final ends of one run: %d and %d",
                  in->final_status, status);
    in->final_status = status;
}

/* Invariant 5, at the server: success is said only where all were done. */
void watch_end(struct sim *s, int node, const struct msg_end *e)
{
    s->nodes[node].end_life = life_now(s);
    if (e->instance[0] != '\0') {
        struct instance *of = &s->instances[watch_instance(s, e->instance)];
        s->count[SIM_END_AGAIN] +=
            of->said_life != 0 && of->said_life != life_now(s);
        of->said_life = life_now(s);
    }
    if (e->hold == 0 && e->instance[0] != '\0' && s->conf.failover)
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
    bool doubts = s->conf.failover && v->heard_us > 0 && v->end.status == 0;
    bool lost = a->session.state != AGENT_SESSION_HEARD &&
                down_us >= s->conf.reconnect_ms * MONO_MS;
    bool may = v->text[0] != '\0' && (doubts || lost);
    if (v->status == 0 && !may)
        sim_break(s, "invariant 5: n%d exits 0 and was not told to", node);
}

/* All that one instance's launchers were told is one end. With failover no
 * launcher ends with an end that was not final. */
static void
watch_instance_end(struct sim *s, int node, const struct agent_verdict *v)
{
    const struct node_sim *n = &s->nodes[node];
    struct instance *in = &s->instances[watch_instance(s, v->end.instance)];
    bool known = s->conf.failover || in->end_life == n->end_life;
    if (s->conf.failover && in->final_status != v->status)
        sim_break(s, "invariant 5: n%d ends with %d, the final end is %d", node,
                  v->status, in->final_status);
    if (in->end_status >= 0 && in->end_status != v->status) {
        if (known)
            sim_break(s, "invariant 5: a run ended with %d and with %d",
                      in->end_status, v->status);
        s->count[SIM_FORGOTTEN]++;
    }
    in->end_status = v->status;
    in->end_life = n->end_life;
}

/* Invariant 5, at the nodes. A daemon that was killed after it had told some
 * of the end may come to another one with the others: its memory of a run is
 * soft. That is counted, not hidden. With failover it cannot be: a launcher
 * ends with the run's status only once a server said that the end is final. */
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
