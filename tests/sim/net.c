/*
 * A connection has a pipe for each direction. What is put into it arrives in
 * order, each item after its delay; while the way is cut or the receiver
 * stands still, it waits. When a connection breaks, what waits is lost. One
 * that is held up breaks after a while.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

#define TCP_FIRST_US (2 * MONO_S) /* a cut connection times out, at least */
#define TCP_MORE_US  (13 * MONO_S)

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

void net_addr(int machine, int moves, char text[32])
{
    if (machine < OUTSIDE)
        (void)snprintf(text, 32, "10.0.%d.%d", moves, machine + 1);
    else
        (void)snprintf(text, 32, "10.0.0.%d", 254 - (machine - OUTSIDE));
}

/* -- arriving -------------------------------------------------------------- */

static void note_farewell(struct node_sim *n, int life)
{
    if (n->n_farewells < FAREWELLS)
        n->farewell_lives[n->n_farewells++] = life;
}

static void to_server(struct sim *s, int conn, struct item *item)
{
    struct conn *c = &s->conns[conn];
    if (!c->server_open) {
        if (item->kind == ITEM_MSG && c->node_open)
            net_send(s, conn, DOWN, ITEM_RST, NULL);
        return;
    }
    struct rdzv_event ev = {.conn = conn};
    char addr[32], here[32];
    struct node_sim *n = &s->nodes[c->node];
    net_addr(n->machine, c->moves, addr);
    net_addr(c->server, s->machines[c->server].moves, here);
    switch (item->kind) {
    case ITEM_MSG:
        s->count[SIM_MESSAGES]++;
        if (item->msg.kind == MSG_KIND_join)
            n->moves_told = c->moves;
        if (item->msg.kind == MSG_KIND_vote && item->msg.vote.last)
            note_farewell(n, s->servers[c->server].life);
        ev.kind = RDZV_MSG;
        ev.msg = &item->msg;
        ev.peer_addr = addr;
        ev.here_addr = here;
        break;
    case ITEM_FIN:
    case ITEM_RST:
        c->server_open = false;
        ev.kind = RDZV_CLOSED;
        break;
    case ITEM_ACCEPTED:
    case ITEM_REFUSED:
        DDP_WRONG("no item for a server");
    }
    server_step(s, c->server, &ev);
    if (s->conf.false_farewell && item->kind == ITEM_RST && !c->is_beside &&
        n->recorded.version > 0) {
        struct msg m = {.kind = MSG_KIND_vote, .vote = n->recorded};
        struct rdzv_event false_ev = {.kind = RDZV_MSG,
                                      .conn = conn,
                                      .msg = &m,
                                      .peer_addr = addr,
                                      .here_addr = here};
        server_step(s, c->server, &false_ev);
    }
}

static void to_beside(struct sim *s, int conn, const struct item *item)
{
    struct conn *c = &s->conns[conn];
    if (item->kind == ITEM_ACCEPTED) {
        c->is_up = true;
        beside_connected(s, conn);
    } else if (item->kind == ITEM_MSG) {
        beside_hear(s, conn, &item->msg);
    } else {
        c->node_open = false;
        beside_lost(s, conn);
    }
}

static void to_node(struct sim *s, int conn, struct item *item)
{
    struct conn *c = &s->conns[conn];
    if (!c->node_open) {
        if (item->kind == ITEM_MSG && c->server_open)
            net_send(s, conn, UP, ITEM_RST, NULL);
        return;
    }
    if (c->is_beside) {
        to_beside(s, conn, item);
        return;
    }
    struct agent_event ev = {.kind = AGENT_DISCONNECTED, .text = "reset"};
    switch (item->kind) {
    case ITEM_MSG:
        s->count[SIM_MESSAGES]++;
        if (s->conf.ignore_leases && item->msg.kind == MSG_KIND_lease)
            item->msg.lease.grant_ms = 86400000;
        if (item->msg.kind == MSG_KIND_voters)
            beside_voters(s, c->node, &item->msg.voters);
        if (item->msg.kind == MSG_KIND_serves)
            beside_moved(s, c->node, &item->msg.serves);
        ev.kind = AGENT_MSG;
        ev.msg = &item->msg;
        break;
    case ITEM_ACCEPTED:
        c->is_up = true;
        s->nodes[c->node].server = c->server;
        ev.kind = AGENT_CONNECTED;
        ev.own = node_is_at_its_own(s, c->node, c->server);
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

/* Whether what is sent there arrives, sooner or later. */
static bool is_passable(const struct sim *s, const struct conn *c, enum dir dir)
{
    const struct node_sim *n = &s->nodes[c->node];
    if (n->off || c->dead_end)
        return false;
    return dir == UP ? machine_reaches(s, n->machine, c->server)
                     : machine_reaches(s, c->server, n->machine);
}

static bool is_open(const struct sim *s, const struct conn *c, enum dir dir)
{
    if (!is_passable(s, c, dir))
        return false;
    return dir == UP ? !server_is_frozen(s, c->server)
                     : !node_is_frozen(&s->nodes[c->node]);
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
void net_pump_server(struct sim *s, int server)
{
    for (int i = 0; i < CONNS_MAX; i++)
        if (s->conns[i].used && s->conns[i].server == server)
            net_pump(s, i, UP);
}

/* -- what is held up ------------------------------------------------------- */

static bool is_held_up(const struct sim *s, const struct conn *c)
{
    return c->used && c->server >= 0 &&
           (!is_passable(s, c, UP) || !is_passable(s, c, DOWN));
}

/* `stuck` is odd while something holds it up. */
void net_await_timeouts(struct sim *s)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *c = &s->conns[i];
        if (!is_held_up(s, c) || c->stuck % 2 == 1)
            continue;
        c->stuck++;
        sim_push(s, (struct event){.at_us = s->now_us + TCP_FIRST_US +
                                            sim_rnd(s, TCP_MORE_US),
                                   .kind = EV_TCP_TIMEOUT,
                                   .of = i,
                                   .gen = c->gen,
                                   .a = c->stuck});
    }
}

void net_timeout(struct sim *s, int conn, int stuck)
{
    const struct conn *c = &s->conns[conn];
    if (c->stuck != stuck || (!c->is_up && !c->server_open))
        return;
    s->count[SIM_TCP_TIMEOUT]++;
    net_break(s, conn);
}

void net_pump_all(struct sim *s)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *c = &s->conns[i];
        if (c->stuck % 2 == 0 || is_held_up(s, c))
            continue;
        c->stuck++;
        pump_later(s, i, UP, net_delay_us(s));
        pump_later(s, i, DOWN, net_delay_us(s));
    }
}

/* -- closing --------------------------------------------------------------- */

/* A reset may overtake what was sent before it; a FIN never does. */
void net_conn_closes(struct sim *s, int conn, enum item_kind how)
{
    struct conn *c = &s->conns[conn];
    c->node_open = false;
    if (!c->is_up && !c->server_open) { /* nobody has heard of it */
        pipe_empty(s, &c->pipe[DOWN]);
        c->used = false;
        return;
    }
    if (how == ITEM_RST && sim_rnd(s, 2) == 1)
        pipe_empty(s, &c->pipe[UP]);
    net_send(s, conn, UP, how, NULL);
}

void net_node_closes(struct sim *s, int node, enum item_kind how)
{
    int conn = s->nodes[node].conn;
    s->nodes[node].conn = -1;
    if (conn >= 0)
        net_conn_closes(s, conn, how);
}

void net_server_closes(struct sim *s, int conn, enum item_kind how)
{
    struct conn *c = &s->conns[conn];
    c->server_open = false;
    if (how == ITEM_RST && sim_rnd(s, 2) == 1)
        pipe_empty(s, &c->pipe[DOWN]);
    net_send(s, conn, DOWN, how, NULL);
}

void net_server_dies(struct sim *s, int server, enum item_kind how)
{
    for (int i = 0; i < CONNS_MAX; i++)
        if (s->conns[i].used && s->conns[i].server == server &&
            s->conns[i].server_open)
            net_server_closes(s, i, how);
}

/* Nobody is left to say so. */
void net_server_off(struct sim *s, int server)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *c = &s->conns[i];
        if (!c->used || c->server != server)
            continue;
        c->dead_end = true;
        c->server_open = false;
    }
    net_await_timeouts(s);
}

/* Both ends lose it, each by itself. */
void net_break(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];
    struct item rst = {.kind = ITEM_RST};
    uint32_t gen = c->gen;
    const struct node_sim *n = &s->nodes[c->node];
    pipe_empty(s, &c->pipe[UP]);
    pipe_empty(s, &c->pipe[DOWN]);
    if (c->server_open && !server_is_frozen(s, c->server))
        to_server(s, conn, &rst);
    else if (c->server_open) /* it will find out when it wakes */
        net_send(s, conn, UP, ITEM_RST, NULL);
    if (c->gen == gen && c->node_open && !node_is_frozen(n))
        to_node(s, conn, &rst);
    else if (c->gen == gen && c->node_open)
        net_send(s, conn, DOWN, ITEM_RST, NULL);
    if (c->gen == gen)
        conn_try_free(c);
}

/* Not those that are only about to be there. */
void net_break_node(struct sim *s, int node)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        const struct conn *c = &s->conns[i];
        if (!c->used || c->node != node || (!c->is_up && !c->server_open))
            continue;
        s->count[SIM_RESET]++;
        net_break(s, i);
    }
}

void net_break_server(struct sim *s, int server)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        const struct conn *c = &s->conns[i];
        if (c->used && c->server == server && (c->is_up || c->server_open))
            net_break(s, i);
    }
}

/* The ends on other machines hear of nothing. */
void net_reject(struct sim *s, int machine)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *c = &s->conns[i];
        struct item rst = {.kind = ITEM_RST};
        if (!c->used || c->server < 0 || !c->node_open || !c->is_up ||
            node_is_frozen(&s->nodes[c->node]))
            continue;
        int from = s->nodes[c->node].machine;
        if ((from == machine || c->server == machine) && from != c->server)
            to_node(s, i, &rst);
    }
}

void sim_relay_dies(struct sim *s, int machine, int how)
{
    s->count[SIM_RELAY_DIED]++;
    sim_tell(s, "fault", "a relay before machine %d dies", machine);
    for (int i = 0; i < CONNS_MAX; i++) {
        struct conn *c = &s->conns[i];
        struct item rst = {.kind = ITEM_RST};
        if (!c->used || c->server != machine || !c->is_up)
            continue;
        if (how == 0)
            net_break(s, i);
        else if (how == 1 && !node_is_frozen(&s->nodes[c->node]))
            to_node(s, i, &rst);
        else if (how == 2 && c->server_open && !server_is_frozen(s, machine))
            to_server(s, i, &rst);
    }
}

void net_refuse(struct sim *s, int conn)
{
    struct item refused = {.kind = ITEM_REFUSED};
    struct conn *c = &s->conns[conn];
    uint32_t gen = c->gen;
    if (!node_is_frozen(&s->nodes[c->node]))
        to_node(s, conn, &refused);
    if (c->gen == gen)
        conn_try_free(c);
}

void net_lose(struct sim *s, int conn, enum dir dir)
{
    pipe_empty(s, &s->conns[conn].pipe[dir]);
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
