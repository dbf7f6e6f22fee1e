/*
 * A connection has a pipe for each direction. What is put into it arrives in
 * order, each item after its delay; while the way is cut or the receiver
 * stands still, it waits. When a connection breaks, what waits is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

/* One in fifty is much slower than the others. */
int64_t net_delay_us(struct sim *s)
{
    int64_t us = s->conf.delay_us;
    if (!sim_random(s))
        return us;
    us += sim_rnd(s, (uint32_t)s->conf.jitter_us);
    return sim_rnd(s, 50) == 0 ? us * 20 : us;
}

/* -- pipes ----------------------------------------------------------------- */

static struct item *item_new(struct sim *s)
{
    struct item *item = s->free_items;
    if (item != NULL) {
        s->free_items = item->next;
        return item;
    }
    item = malloc(sizeof(*item));
    if (item == NULL)
        abort();
    return item;
}

static void item_free(struct sim *s, struct item *item)
{
    item->next = s->free_items;
    s->free_items = item;
}

static void pipe_empty(struct sim *s, struct pipe *p)
{
    while (p->head != NULL) {
        struct item *item = p->head;
        p->head = item->next;
        s->count[SIM_LOST_MSG] += item->kind == ITEM_MSG;
        item_free(s, item);
    }
    p->tail = NULL;
}

static struct item *pipe_take(struct pipe *p)
{
    struct item *item = p->head;
    p->head = item->next;
    if (p->head == NULL)
        p->tail = NULL;
    return item;
}

static void conn_try_free(struct conn *c)
{
    if (!c->node_open && !c->server_open && c->pipe[UP].head == NULL &&
        c->pipe[DOWN].head == NULL)
        c->used = false;
}

/*
 * Through the codec, as on the wire. Beats and leases are nine in ten of all
 * messages and have two numbers each: one in sixteen is enough of them.
 */
static void through_the_wire(struct sim *s, const struct msg *m, struct msg *to)
{
    bool small = m->kind == MSG_KIND_beat || m->kind == MSG_KIND_lease;
    if (small && s->sampled++ % 16 != 0) {
        *to = *m;
        return;
    }
    char json[MSG_JSON_MAX];
    struct ddp_err err;
    int len = msg_encode(m, json, sizeof(json));
    if (len < 0)
        sim_break(s, "'%s' does not fit a frame", msg_name(m->kind));
    else if (msg_decode(json, (size_t)len, to, &err) != 0)
        sim_break(s, "the other side refuses '%s': %s", msg_name(m->kind),
                  err.text);
}

void net_send(struct sim *s,
              int conn,
              enum dir dir,
              enum item_kind kind,
              const struct msg *m)
{
    struct conn *c = &s->conns[conn];
    struct item *item = item_new(s);
    item->next = NULL;
    item->kind = kind;
    item->at_us = s->now_us + net_delay_us(s);
    if (m != NULL)
        through_the_wire(s, m, &item->msg);
    struct pipe *p = &c->pipe[dir];
    if (p->tail != NULL && item->at_us < p->tail->at_us)
        item->at_us = p->tail->at_us;
    if (p->tail != NULL)
        p->tail->next = item;
    else
        p->head = item;
    p->tail = item;
    sim_push(s, (struct event){.at_us = item->at_us,
                               .kind = EV_PUMP,
                               .of = conn,
                               .gen = c->gen,
                               .a = (int)dir});
}

/* -- addresses ------------------------------------------------------------- */

void net_addr(int node, int moves, char text[32])
{
    (void)snprintf(text, 32, "10.0.%d.%d", moves, node + 1);
}

/* -- arriving -------------------------------------------------------------- */

static void to_server(struct sim *s, int conn, struct item *item)
{
    struct conn *c = &s->conns[conn];
    sim_use(s, c->server);
    if (!c->server_open) {
        if (item->kind == ITEM_MSG && c->node_open)
            net_send(s, conn, DOWN, ITEM_RST, NULL);
        return;
    }
    struct rdzv_event ev = {.conn = conn};
    char addr[32];
    struct node_sim *n = &s->nodes[c->node];
    net_addr(c->node, c->moves, addr);
    switch (item->kind) {
    case ITEM_MSG:
        s->count[SIM_MESSAGES]++;
        if (item->msg.kind == MSG_KIND_join)
            n->moves_told = c->moves;
        ev.kind = RDZV_MSG;
        ev.msg = &item->msg;
        ev.peer_addr = addr;
        ev.here_addr = "10.0.0.254";
        break;
    case ITEM_FIN:
    case ITEM_RST:
        c->server_open = false;
        ev.kind = RDZV_CLOSED;
        ev.orderly = item->kind == ITEM_FIN || s->conf.false_farewell;
        break;
    case ITEM_ACCEPTED:
    case ITEM_REFUSED:
        DDP_WRONG("no item for a server");
    }
    server_step(s, &ev);
}

static void to_node(struct sim *s, int conn, struct item *item)
{
    struct conn *c = &s->conns[conn];
    if (!c->node_open)
        return;
    struct agent_event ev = {.kind = AGENT_DISCONNECTED, .text = "reset"};
    switch (item->kind) {
    case ITEM_MSG:
        s->count[SIM_MESSAGES]++;
        if (s->conf.ignore_leases && item->msg.kind == MSG_KIND_lease)
            item->msg.lease.grant_ms = 86400000;
        ev.kind = AGENT_MSG;
        ev.msg = &item->msg;
        break;
    case ITEM_ACCEPTED:
        c->is_up = true;
        ev.kind = AGENT_CONNECTED;
        break;
    case ITEM_REFUSED:
        s->count[SIM_REFUSED_CONN]++;
        c->node_open = false;
        ev.text = "refused";
        break;
    case ITEM_FIN:
    case ITEM_RST:
        c->node_open = false;
        break;
    }
    if (!c->node_open)
        s->nodes[c->node].conn = -1;
    node_step(s, c->node, &ev);
}

static bool is_open(const struct sim *s, const struct conn *c, enum dir dir)
{
    const struct node_sim *n = &s->nodes[c->node];
    if (n->cut[dir] || n->off)
        return false;
    return dir == UP ? !s->server_frozen : !node_is_frozen(n);
}

void net_pump(struct sim *s, int conn, enum dir dir)
{
    struct conn *c = &s->conns[conn];
    struct pipe *p = &c->pipe[dir];
    uint32_t gen = c->gen;
    while (c->gen == gen && p->head != NULL && p->head->at_us <= s->now_us &&
           is_open(s, c, dir) && s->broken[0] == '\0') {
        struct item *item = pipe_take(p);
        if (dir == UP)
            to_server(s, conn, item);
        else
            to_node(s, conn, item);
        item_free(s, item);
    }
    if (c->gen == gen)
        conn_try_free(c);
}

static void pump_later(struct sim *s, int conn, enum dir dir, int64_t after_us)
{
    struct conn *c = &s->conns[conn];
    if (c->used && c->pipe[dir].head != NULL)
        sim_push(s, (struct event){.at_us = s->now_us + after_us,
                                   .kind = EV_PUMP,
                                   .of = conn,
                                   .gen = c->gen,
                                   .a = (int)dir});
}

void net_pump_node(struct sim *s, int node)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        if (!s->conns[i].used || s->conns[i].node != node)
            continue;
        pump_later(s, i, UP, net_delay_us(s));
        pump_later(s, i, DOWN, net_delay_us(s));
    }
}

/* All that has come while the server stood still lies in its sockets. */
void net_pump_server(struct sim *s)
{
    for (int i = 0; i < CONNS_MAX; i++)
        if (s->conns[i].used)
            net_pump(s, i, UP);
}

/* -- opening and closing --------------------------------------------------- */

void net_connect(struct sim *s, int node)
{
    int i = 0;
    while (i < CONNS_MAX && s->conns[i].used)
        i++;
    if (i == CONNS_MAX) {
        sim_break(s, "%d connections are open at once", CONNS_MAX);
        return;
    }
    struct conn *c = &s->conns[i];
    c->used = true;
    c->gen++;
    c->node = node;
    c->moves = s->nodes[node].moves;
    c->node_open = true;
    c->server_open = c->is_up = false;
    s->nodes[node].conn = i;
    sim_push(s, (struct event){.at_us = s->now_us + net_delay_us(s),
                               .kind = EV_SYN,
                               .of = i,
                               .gen = c->gen});
    sim_push(s, (struct event){.at_us = s->now_us + CONNECT_US,
                               .kind = EV_CONNECT_TIMEOUT,
                               .of = i,
                               .gen = c->gen});
}

/* The kernel of the server's host answers, even where the server is frozen. */
void net_syn(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];
    const struct node_sim *n = &s->nodes[c->node];
    bool is_heard = !n->cut[UP] || n->rejected;
    if (!is_heard || n->off || !c->node_open)
        return;
    c->server = n->lands_at;
    sim_use(s, c->server);
    if (s->rdzv == NULL || n->rejected) {
        net_send(s, conn, DOWN, ITEM_REFUSED, NULL);
        return;
    }
    c->server_open = !n->cut[DOWN]; /* else the handshake is never over */
    if (c->server_open)
        net_send(s, conn, DOWN, ITEM_ACCEPTED, NULL);
}

void net_connect_timeout(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];
    if (!c->node_open || c->is_up)
        return;
    pipe_empty(s, &c->pipe[DOWN]);
    net_node_closes(s, c->node, ITEM_RST);
    struct agent_event ev = {.kind = AGENT_DISCONNECTED, .text = "timed out"};
    node_step(s, c->node, &ev);
}

/* A reset may overtake what was sent before it; a FIN never does. */
void net_node_closes(struct sim *s, int node, enum item_kind how)
{
    int i = s->nodes[node].conn;
    if (i < 0)
        return;
    struct conn *c = &s->conns[i];
    s->nodes[node].conn = -1;
    c->node_open = false;
    if (how == ITEM_RST && sim_rnd(s, 2) == 1)
        pipe_empty(s, &c->pipe[UP]);
    net_send(s, i, UP, how, NULL);
}

void net_server_closes(struct sim *s, int conn, enum item_kind how)
{
    struct conn *c = &s->conns[conn];
    c->server_open = false;
    if (how == ITEM_RST && sim_rnd(s, 2) == 1)
        pipe_empty(s, &c->pipe[DOWN]);
    net_send(s, conn, DOWN, how, NULL);
}

void net_server_dies(struct sim *s)
{
    for (int i = 0; i < CONNS_MAX; i++)
        if (s->conns[i].used && s->conns[i].server_open &&
            s->conns[i].server == s->in_hand)
            net_server_closes(s, i, ITEM_RST);
}

/* Both ends lose the connections of this node, each by itself. */
void net_break(struct sim *s, int node, bool timed_out)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *c = &s->conns[i];
        if (!c->used || c->node != node || (!c->is_up && !c->server_open))
            continue;
        pipe_empty(s, &c->pipe[UP]);
        pipe_empty(s, &c->pipe[DOWN]);
        uint32_t gen = c->gen;
        struct item rst = {.kind = ITEM_RST};
        s->count[timed_out ? SIM_TCP_TIMEOUT : SIM_RESET]++;
        if (c->server_open && !s->server_frozen)
            to_server(s, i, &rst);
        else if (c->server_open) /* it will find out when it wakes */
            net_send(s, i, UP, ITEM_RST, NULL);
        if (c->gen == gen && c->node_open && !node_is_frozen(&s->nodes[node]))
            to_node(s, i, &rst);
        else if (c->gen == gen && c->node_open)
            net_send(s, i, DOWN, ITEM_RST, NULL);
        if (c->gen == gen)
            conn_try_free(c);
    }
}

/* Its own end of a connection is reset by the first thing that it sends; the
 * server's end hears nothing. */
void net_reject(struct sim *s, int node)
{
    int i = s->nodes[node].conn;
    struct item rst = {.kind = ITEM_RST};
    if (i < 0 || !s->conns[i].is_up)
        return;
    if (node_is_frozen(&s->nodes[node]))
        net_send(s, i, DOWN, ITEM_RST, NULL);
    else
        to_node(s, i, &rst);
}

void net_free(struct sim *s)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        pipe_empty(s, &s->conns[i].pipe[UP]);
        pipe_empty(s, &s->conns[i].pipe[DOWN]);
    }
    while (s->free_items != NULL) {
        struct item *item = s->free_items;
        s->free_items = item->next;
        free(item);
    }
    free(s->conns);
}
