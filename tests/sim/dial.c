/*
 * How a node finds a server: by the endpoint, or by the address of a node that
 * may serve. A launcher listens for its own server, which begins with the first
 * connection to it. The kernel of a server's machine answers also while the
 * server is frozen, but not while the machine is paused or has no power.
 */
#include <stdio.h>

#include "tests/sim/world.h"

static int endpoint(struct sim *s, int node, int which)
{
    int lands_on = s->nodes[node].lands_on;
    const struct sim_conf *conf = &s->conf;
    int behind = conf->behind > 1 ? (int)sim_rnd(s, (uint32_t)conf->behind) : 0;
    if (conf->endpoints == 0)
        return lands_on > 0 ? lands_on : OUTSIDE + behind;
    if (which < 0 || which >= conf->endpoints)
        sim_break(s, "endpoint %d of %d is dialled", which, conf->endpoints);
    else
        return conf->endpoint[which];
    return -1;
}

/* Not of an address that nobody has, or not any more. */
int dial_machine(const struct sim *s, const char *target)
{
    int moves, last, port;
    char end;
    if (sscanf(target, "10.0.%d.%d:%d%c", &moves, &last, &port, &end) != 3)
        return -1;
    if (last > 254 - OUTSIDE_MAX && last <= 254)
        return OUTSIDE + 254 - last;
    if (last < 1 || last > SIM_AGENTS_MAX || port != SERVE_PORT + last - 1 ||
        s->machines[last - 1].moves != moves)
        return -1;
    return last - 1;
}

/* The new connection; -1: there are too many. */
static int dial(struct sim *s, int node, int server)
{
    int i = 0;
    while (i < CONNS_MAX && s->conns[i].used)
        i++;
    if (i == CONNS_MAX) {
        sim_break(s, "%d connections are open at once", CONNS_MAX);
        return -1;
    }
    struct conn *c = &s->conns[i];
    *c = (struct conn){
        .used = true,
        .gen = c->gen + 1,
        .node = node,
        .moves = s->machines[s->nodes[node].machine].moves,
        .server = server,
        .node_open = true,
    };
    sim_push(s, (struct event){.at_us = s->now_us + net_delay_us(s),
                               .kind = EV_SYN,
                               .of = i,
                               .gen = c->gen});
    sim_push(s, (struct event){.at_us = s->now_us + CONNECT_US,
                               .kind = EV_CONNECT_TIMEOUT,
                               .of = i,
                               .gen = c->gen});
    return i;
}

void dial_connect(struct sim *s, int node, const struct agent_action *a)
{
    bool listed = a->target[0] == '\0';
    s->count[SIM_DIALLED] += !listed;
    s->nodes[node].conn =
        dial(s, node,
             listed ? endpoint(s, node, a->which) : dial_machine(s, a->target));
}

int dial_beside(struct sim *s, int node, int machine)
{
    int conn = dial(s, node, machine);
    s->conns[conn < 0 ? 0 : conn].is_beside |= conn >= 0;
    return conn < 0 ? 0 : conn;
}

int dial_look(struct sim *s, int node, const struct agent_action *a)
{
    bool listed = a->target[0] == '\0';
    return dial_beside(s, node,
                       listed ? endpoint(s, node, a->which)
                              : dial_machine(s, a->target));
}

/* Its kernel answers. */
static bool machine_answers(const struct sim *s, int machine)
{
    int tenant = s->machines[machine].tenant;
    return tenant < 0 ||
           (!s->nodes[tenant].off && !s->nodes[tenant].node_frozen);
}

/* A launcher there would start one now. */
static bool may_serve(const struct sim *s, int machine)
{
    int tenant = s->machines[machine].tenant;
    return tenant >= 0 && s->nodes[tenant].alive;
}

void dial_syn(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];
    const struct node_sim *n = &s->nodes[c->node];
    if (!c->node_open || n->off || c->server < 0)
        return;
    if (machine_is_rejected(s, n->machine, c->server)) {
        net_refuse(s, conn);
        return;
    }
    if (!machine_reaches(s, n->machine, c->server) ||
        !machine_answers(s, c->server))
        return;
    if (!server_is_up(s, c->server) && may_serve(s, c->server))
        server_start(s, c->server);
    if (!server_is_up(s, c->server)) {
        net_send(s, conn, DOWN, ITEM_REFUSED, NULL);
        return;
    }
    /* else the handshake is never over */
    c->server_open = machine_reaches(s, c->server, n->machine);
    if (c->server_open)
        net_send(s, conn, DOWN, ITEM_ACCEPTED, NULL);
}

void dial_timeout(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];
    if (!c->node_open || c->is_up)
        return;
    net_lose(s, conn, DOWN);
    if (c->is_beside) {
        net_conn_closes(s, conn, ITEM_RST);
        return;
    }
    net_node_closes(s, c->node, ITEM_RST);
    struct agent_event ev = {.kind = AGENT_DISCONNECTED, .text = "timed out"};
    node_step(s, c->node, &ev);
}
