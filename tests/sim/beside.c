/*
 * Connections that a launcher has beside its agent's session, as its shell does
 * it:
 *   - farewells: once the whole tree is dead, guard or janitor say so to the
 *     server of the session and, unless that has heard it, to the next voters'.
 *   - serves: the first nodes, by group rank, tell the endpoints each second
 *     where the leader is. What they answer is passed on to that
 *     server.
 *   - looks: a node that no leader answers asks all places who leads.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"

#define SERVES_EVERY_US MONO_S
#define DIAL_AGAIN_US   MONO_S /* as launcher/rdzv/looks does it */

static bool is_mine(const struct sim *s, const struct beside *b)
{
    const struct conn *c = &s->conns[b->conn];
    return b->is_used && c->used && c->gen == b->gen && c->node_open;
}

static void give_up(struct sim *s, struct beside *b)
{
    if (is_mine(s, b))
        net_conn_closes(s, b->conn, ITEM_RST);
    b->is_used = false;
}

static void begin(
    struct sim *s, int node, struct beside *b, int to, const struct msg *hello)
{
    b->is_used = true;
    b->to = to;
    b->conn = dial_beside(s, node, to);
    b->gen = s->conns[b->conn].gen;
    b->hello = *hello;
}

/* -- looks ----------------------------------------------------------------- */

static bool looks_on(const struct sim *s, const struct look *l)
{
    const struct conn *c = &s->conns[l->conn];
    return l->is_used && c->used && c->gen == l->gen && c->node_open;
}

/* The place that it leads to, -1: it is none. */
static int look_of(const struct sim *s, int conn)
{
    const struct node_sim *n = &s->nodes[s->conns[conn].node];
    for (int i = 0; i < CANDIDATES_MAX; i++)
        if (n->looks[i].is_used && n->looks[i].conn == conn &&
            n->looks[i].gen == s->conns[conn].gen)
            return i;
    return -1;
}

static void say_look(struct sim *s, int conn, const char *voter)
{
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    msg_set(m.serves.voter, voter);
    msg_set(m.serves.run, "sim");
    net_send(s, conn, UP, ITEM_MSG, &m);
}

static void end_look(struct sim *s, struct look *l)
{
    if (looks_on(s, l))
        net_conn_closes(s, l->conn, ITEM_RST);
    l->is_used = false;
}

void beside_ask(struct sim *s, int node, const struct agent_action *a)
{
    struct look *l = &s->nodes[node].looks[a->place];
    bool up = looks_on(s, l) && s->conns[l->conn].is_up;
    msg_set(l->voter, a->msg->serves.voter);
    if (up && !a->anew) {
        say_look(s, l->conn, l->voter);
        return;
    }
    if (looks_on(s, l) && !up && s->now_us < l->dialled_us + DIAL_AGAIN_US)
        return;
    end_look(s, l);
    l->conn = dial_look(s, node, a);
    l->gen = s->conns[l->conn].gen;
    l->is_used = true;
    l->dialled_us = s->now_us;
}

void beside_ask_no_more(struct sim *s, int node)
{
    for (int i = 0; i < CANDIDATES_MAX; i++)
        end_look(s, &s->nodes[node].looks[i]);
}

static void see(struct sim *s, int conn, const struct msg *m)
{
    struct agent_event ev = {
        .kind = AGENT_SEEN, .place = look_of(s, conn), .msg = m};
    node_step(s, s->conns[conn].node, &ev);
}

void beside_lost(struct sim *s, int conn)
{
    if (look_of(s, conn) >= 0)
        see(s, conn, NULL);
}

void beside_connected(struct sim *s, int conn)
{
    struct node_sim *n = &s->nodes[s->conns[conn].node];
    for (int i = 0; i < BESIDE_MAX; i++)
        if (n->beside[i].conn == conn && is_mine(s, &n->beside[i]))
            net_send(s, conn, UP, ITEM_MSG, &n->beside[i].hello);
    int place = look_of(s, conn);
    if (place >= 0)
        say_look(s, conn, n->looks[place].voter);
}

/* -- farewells ------------------------------------------------------------- */

static void say_farewell(struct sim *s, int node, int slot, int to)
{
    struct node_sim *n = &s->nodes[node];
    struct msg m = {.kind = MSG_KIND_vote, .vote = n->recorded};
    if (to >= 0)
        begin(s, node, &n->beside[slot], to, &m);
}

/* A server that ends with this launcher is dead by now. Others may be told
 * although the first one has heard it: its answer may have been late. */
void beside_farewell(struct sim *s, int node)
{
    struct node_sim *n = &s->nodes[node];
    for (int i = 0; i < BESIDE_MAX; i++)
        give_up(s, &n->beside[i]);
    beside_ask_no_more(s, node);
    if (n->recorded.version == 0 || n->unproven)
        return;
    bool heard =
        n->server >= 0 && n->server != n->machine && server_is_up(s, n->server);
    if (n->server != n->machine)
        say_farewell(s, node, 0, n->server);
    for (int i = 1; i < FAREWELLS; i++)
        if (!heard || (sim_random(s) && sim_rnd(s, 4) == 0))
            say_farewell(s, node, i, n->next_places[i - 1]);
}

void beside_voters(struct sim *s, int node, const struct msg_voters *v)
{
    struct node_sim *n = &s->nodes[node];
    char addr[72];
    int n_found = 0;
    int len = 0;
    for (int i = 0; i < FAREWELLS - 1; i++)
        n->next_places[i] = -1;
    for (const char *at = v->addrs;
         n_found < FAREWELLS - 1 && sscanf(at, "%71s%n", addr, &len) == 1;
         at += len) {
        int machine = dial_machine(s, addr);
        if (machine >= 0 && machine != n->machine && machine != n->server)
            n->next_places[n_found++] = machine;
    }
}

/* -- serves ---------------------------------------------------------------- */

/* Where its session is, with a leader; -1: there is none. */
static int served_at(const struct sim *s, const struct node_sim *n)
{
    if (n->conn < 0 || n->agent.session.state != AGENT_SESSION_HEARD)
        return -1;
    int server = s->conns[n->conn].server;
    const struct server_sim *srv = &s->servers[server];
    return srv->acts &&
                   s->now_us - srv->lease_at_us < s->conf.heartbeat_ms * MONO_MS
               ? server
               : -1;
}

static void fill_serves(const struct sim *s,
                        const struct node_sim *n,
                        int server,
                        struct msg *m)
{
    const struct server_sim *srv = &s->servers[server];
    char addr[32];
    *m = (struct msg){.kind = MSG_KIND_serves};
    m->serves.version = MSG_VERSION;
    m->serves.term = srv->term;
    msg_set(m->serves.run, "sim");
    const struct agent_round *held = &n->agent.round;
    int64_t now_us = clock_of(s, n->machine, s->now_us);
    msg_set(m->serves.instance, held->world.instance);
    if (held->world.instance[0] == '\0')
        return; /* it gathers: where is it? */
    m->serves.instance_ms =
        held->world.instance_ms + (now_us - held->told_at_us) / MONO_MS;
    net_addr(server, s->machines[server].moves, addr);
    (void)snprintf(m->serves.addr, sizeof(m->serves.addr), "%s:%d", addr,
                   SERVE_PORT + server);
}

void beside_moved(struct sim *s, int node, const struct msg_serves *m)
{
    struct node_sim *n = &s->nodes[node];
    if (m->addr[0] == '\0')
        msg_set(n->had, n->offers);
}

/* A daemon would have the run. True: it did. */
static bool pass_offer(struct sim *s,
                       struct node_sim *n,
                       const struct conn *c,
                       const struct msg *m)
{
    struct msg out;
    char addr[32];
    int server = served_at(s, n);
    if (m->kind != MSG_KIND_serves || m->serves.term.count != 0 ||
        m->serves.term.id[0] == '\0')
        return false;
    if (server < 0 || strcmp(m->serves.term.id, n->had) == 0)
        return true;
    fill_serves(s, n, server, &out);
    if (!msg_same_instance(m->serves.instance, out.serves.instance))
        return true;
    msg_set(n->offers, m->serves.term.id);
    msg_set(out.serves.term.id, m->serves.term.id);
    net_addr(c->server, s->machines[c->server].moves, addr);
    (void)snprintf(out.serves.addr, sizeof(out.serves.addr), "%s:%d", addr,
                   SERVE_PORT + c->server);
    net_send(s, n->conn, UP, ITEM_MSG, &out);
    return true;
}

/* It is passed on to the server, as launcher/rdzv/redirect does. */
void beside_hear(struct sim *s, int conn, const struct msg *m)
{
    const struct conn *c = &s->conns[conn];
    struct node_sim *n = &s->nodes[c->node];
    struct msg out;
    char addr[32];
    int server = served_at(s, n);
    if (look_of(s, conn) >= 0) {
        see(s, conn, m);
        return;
    }
    if (pass_offer(s, n, c, m) || m->kind != MSG_KIND_serves ||
        m->serves.term.count == 0 || server < 0)
        return;
    fill_serves(s, n, server, &out);
    if (out.serves.instance[0] != '\0' &&
        (m->serves.instance[0] == '\0' ||
         msg_same_instance(m->serves.instance, out.serves.instance)))
        return;
    msg_set(out.serves.instance, m->serves.instance);
    out.serves.instance_ms = m->serves.instance_ms;
    out.serves.term = m->serves.term;
    net_addr(c->server, s->machines[c->server].moves, addr);
    (void)snprintf(out.serves.addr, sizeof(out.serves.addr), "%s:%d", addr,
                   SERVE_PORT + c->server);
    if (m->serves.addr[0] != '\0')
        msg_set(out.serves.addr, m->serves.addr);
    net_send(s, n->conn, UP, ITEM_MSG, &out);
}

/* As in launcher/rdzv/redirect.c: the first nodes, and those that gather at an
 * address of the list, to those before it. A launcher's own server is called
 * only while it runs. */
static bool
tells(const struct sim *s, const struct node_sim *n, int server, int which)
{
    const struct msg_world *w = &n->agent.round.world;
    int to = s->conf.endpoint[which];
    bool first = agent_is_member(&n->agent) && w->group_rank < MSG_VOTERS_MAX;
    bool gathers = w->instance[0] == '\0' &&
                   candidates_target(&n->agent.candidates)[0] == '\0' &&
                   which < candidates_which(&n->agent.candidates);
    return server >= 0 && to != server && (first || gathers) &&
           (to != n->machine || server_is_up(s, to));
}

static void tell_endpoint(struct sim *s, int node, int which, int server)
{
    struct node_sim *n = &s->nodes[node];
    struct beside *b = &n->beside[FAREWELLS + which];
    int to = s->conf.endpoint[which];
    struct msg m;
    if (!tells(s, n, server, which)) {
        give_up(s, b);
        return;
    }
    fill_serves(s, n, server, &m);
    if (!is_mine(s, b))
        begin(s, node, b, to, &m);
    else if (s->conns[b->conn].is_up)
        net_send(s, b->conn, UP, ITEM_MSG, &m);
}

void beside_tick(struct sim *s, int node)
{
    const struct node_sim *n = &s->nodes[node];
    if (!n->alive)
        return;
    for (int i = 0; i < s->conf.endpoints && !node_is_frozen(n); i++)
        tell_endpoint(s, node, i, served_at(s, n));
    sim_push(s, (struct event){.at_us = s->now_us + SERVES_EVERY_US,
                               .kind = EV_SERVES,
                               .of = node});
}
