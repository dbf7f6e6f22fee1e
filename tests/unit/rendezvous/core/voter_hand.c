#include "tests/unit/rendezvous/core/voter_hand.h"

#include <stdio.h>
#include <string.h>

struct voter voters[VOTERS];
char told_addrs[VOTERS][sizeof(((struct msg_voters *)0)->addrs)];

char told_without[sizeof(((struct msg_prepare *)0)->without)];

#define QUEUE 256
static struct {
    int conn;
    struct msg msg;
} queue[QUEUE];
static int queued;
static bool answering;

static void answer_all(void);

const char *voter_id(int i)
{
    static char id[4][33];
    static int turn;
    char *text = id[turn++ % 4];
    (void)snprintf(text, 33, "%016x%016x", 0xa0 + i, 0xb0 + i);
    return text;
}

const char *voter_ids(const char *row)
{
    static char text[VOTERS_TEXT_SIZE];
    size_t len = 0;
    for (text[0] = '\0'; *row != '\0'; row++, len += 17)
        (void)snprintf(text + len, sizeof(text) - len, "%.16s ",
                       voter_id(*row - '0'));
    return text;
}

static void take(int conn, const struct msg *m)
{
    if (conn >= VOTERS || !voters[conn].here)
        return;
    ck_assert_int_lt(queued, QUEUE);
    queue[queued].conn = conn;
    queue[queued++].msg = *m;
}

static void tell(int i, const struct msg *m)
{
    if (!voters[i].here)
        return;
    say(i, m);
    answer_all();
}

/* -- what it knows --------------------------------------------------------- */

static void tell_voted(int i)
{
    const struct voter *v = &voters[i];
    struct msg m = {.kind = MSG_KIND_vote};
    bool has_place = v->pending.round == v->accepted.round;
    const struct msg_world *w = has_place ? &v->pending : &v->holds;
    bool mine = w->round == v->accepted.round;
    msg_set(m.vote.instance, w->instance);
    m.vote.round = v->accepted.round;
    m.vote.round_term = v->accepted.term;
    m.vote.group_rank = mine ? w->group_rank : -1;
    m.vote.group_world = w->group_world;
    m.vote.restarts = v->accepted.restarts;
    msg_set(m.vote.voters, v->accepted.ids);
    msg_set(m.vote.before, v->accepted.before);
    if (v->ended) {
        m.vote.end_term = v->ended_by;
    }
    tell(i, &m);
}

struct msg voter_join(int i)
{
    struct msg m = make_join(i);
    msg_set(m.join.agent, voter_id(i));
    return m;
}

static struct msg join_of(int i)
{
    const struct voter *v = &voters[i];
    struct msg m = voter_join(i);
    m.join.serve_port = 29600 + i;
    m.join.answered_ms =
        v->answered_us > 0 ? (now_us - v->answered_us) / MONO_MS : -1;
    m.join.term = v->promised;
    if (v->holds.round > 0) {
        msg_set(m.join.instance, v->holds.instance);
        m.join.instance_ms = 1000;
        m.join.round = v->holds.round;
        m.join.group_rank = v->holds.group_rank;
        m.join.state = v->runs    ? MSG_STATE_RUNNING
                       : v->ready ? MSG_STATE_READY
                                  : MSG_STATE_STOPPED;
        if (!v->ready && now_us < v->lease_until_us) /* workers are there */
            m.join.lease_ms = (v->lease_until_us - now_us) / MONO_MS;
    }
    if (v->ended) {
        m.join.ended = v->status + 1;
    }
    return m;
}

void come(int i)
{
    struct voter *v = &voters[i];
    struct msg m = join_of(i);
    v->here = true;
    v->shown = false;
    v->seq = 0;
    v->heard = -1;
    on_said = take;
    tell(i, &m);
    if (v->accepted.round > 0)
        tell_voted(i);
    if (v->holds.round > 0 && v->ready && !v->ended)
        is_ready(i);
}

void come_all(int from, int to)
{
    for (int i = from; i <= to; i++)
        come(i);
}

/* -- what it answers ------------------------------------------------------- */

static void beat(int i)
{
    struct voter *v = &voters[i];
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = ++v->seq;
    m.beat.heard = v->heard;
    m.beat.round = v->holds.round;
    tell(i, &m);
}

static void on_prepare(int i, const struct msg_prepare *o)
{
    struct voter *v = &voters[i];
    struct term e = o->term;
    int order = term_cmp(&e, &v->promised);
    if (order < 0)
        return;
    if (o->without[0] != '\0')
        msg_set(told_without, o->without);
    v->promised = e;
    v->shown = true;
    v->answered_us = now_us;
    struct msg m = {.kind = MSG_KIND_promise};
    m.promise.term = e;
    tell(i, &m);
    if (order > 0)
        beat(i);
}

static void on_voters(int i, const struct msg_voters *t)
{
    struct voter *v = &voters[i];
    struct term e = t->term;
    msg_set(told_addrs[i], t->addrs);
    if (t->ids[0] == '\0')
        return;
    v->accepted = *t;
    if (!t->pending)
        return;
    ck_assert_int_ge(term_cmp(&e, &v->promised), 0);
    v->promised = e;
    v->answered_us = now_us;
    struct msg m = {.kind = MSG_KIND_accept};
    m.accept.round = t->round;
    m.accept.term = t->term;
    tell(i, &m);
}

/* Without a lease no worker starts. */
static void start(int i, const struct msg_world *w)
{
    struct voter *v = &voters[i];
    v->holds = *w;
    v->accepted.before[0] = '\0';
    v->runs = v->lease_until_us > now_us;
    v->ready = false;
    if (!v->runs)
        is_ready(i);
}

static void on_lease(int i, const struct msg_lease *l)
{
    struct voter *v = &voters[i];
    v->heard = l->seq;
    v->answered_us = now_us;
    if (l->grant_ms > 0)
        v->lease_until_us = now_us + l->grant_ms * MONO_MS;
}

static void on_end(int i, const struct msg_end *e)
{
    struct voter *v = &voters[i];
    v->ended = e->hold != 0;
    v->ended_by = v->promised;
    v->status = (int)e->status;
    v->runs = false;
    struct msg m = {.kind = MSG_KIND_leave, .leave.what = MSG_LEAVE_ENDED};
    tell(i, &m);
}

static void answer(int i, const struct msg *m)
{
    struct voter *v = &voters[i];
    if (m->kind == MSG_KIND_prepare) {
        on_prepare(i, &m->prepare);
        return;
    }
    if (!v->shown) {
        ck_assert_msg(
            m->kind == MSG_KIND_waiting || m->kind == MSG_KIND_serves ||
                m->kind == MSG_KIND_refused,
            "agent %d is told %s by who does not lead", i, msg_name(m->kind));
        return;
    }
    if (m->kind == MSG_KIND_voters)
        on_voters(i, &m->voters);
    else if (m->kind == MSG_KIND_lease)
        on_lease(i, &m->lease);
    else if (m->kind == MSG_KIND_world && m->world.pending)
        v->pending = m->world;
    else if (m->kind == MSG_KIND_world)
        start(i, &m->world);
    else if (m->kind == MSG_KIND_go && m->go.round == v->pending.round)
        start(i, &v->pending);
    else if (m->kind == MSG_KIND_stop && !m->stop.drain)
        is_ready(i);
    else if (m->kind == MSG_KIND_end)
        on_end(i, &m->end);
}

static void answer_all(void)
{
    if (answering)
        return;
    answering = true;
    for (int k = 0; k < queued; k++) {
        int i = queue[k].conn;
        struct msg m = queue[k].msg;
        if (voters[i].here && !voters[i].silent)
            answer(i, &m);
    }
    queued = 0;
    answering = false;
}

/* -- what happens ---------------------------------------------------------- */

void is_ready(int i)
{
    struct voter *v = &voters[i];
    struct msg m = {.kind = MSG_KIND_ready, .ready.round = v->holds.round};
    v->runs = false;
    v->ready = true;
    tell(i, &m);
}

void accepts(int i, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_accept, .accept.round = round};
    m.accept.term = term_make(1, server_id);
    say(i, &m);
}

void promise_of(int i)
{
    struct msg m = {.kind = MSG_KIND_promise,
                    .promise.term = term_make(1, server_id)};
    say(i, &m);
}

void promised_elsewhere(int i, int64_t count)
{
    voters[i].promised = term_make(count, ELSEWHERE);
}

void was_told_to_end(int i, int status)
{
    voters[i].ended = true;
    voters[i].status = status;
    voters[i].runs = false;
    voters[i].ended_by = voters[i].promised;
}

void all_dropped(void)
{
    for (int i = 0; i < VOTERS; i++)
        voters[i].here = false;
}

void breaks(int i)
{
    voters[i].here = false;
    closed(i, false);
    answer_all();
}

/* As agent_record in launcher/agent has it. */
struct msg last_word(int i)
{
    const struct voter *v = &voters[i];
    struct msg m = make_farewell(i);
    struct msg_vote *f = &m.vote;
    bool is_placed = v->pending.round == v->accepted.round;
    const struct msg_world *w = is_placed ? &v->pending : &v->holds;
    bool mine = w->round == v->accepted.round;
    msg_set(f->run, like.run);
    msg_set(f->agent, voter_id(i));
    f->term = v->promised;
    if (v->accepted.round > 0) {
        msg_set_name(f->instance, v->accepted.instance);
        f->round = v->accepted.round;
        f->round_term = v->accepted.term;
        f->group_rank = mine ? w->group_rank : -1;
        f->group_world = v->accepted.group_world;
        f->restarts = v->accepted.restarts;
        msg_set(f->voters, v->accepted.ids);
        msg_set(f->before, v->accepted.before);
    }
    if (v->ended) {
        f->ended = v->status + 1;
        f->end_term = v->ended_by;
    }
    return m;
}

void dies(int i)
{
    struct msg m = last_word(i);
    bool here = voters[i].here;
    voters[i] = (struct voter){.heard = -1};
    if (here)
        closed(i, false);
    say(GUARDS, &m);
    answer_all();
}

void serve(int id)
{
    (void)snprintf(server_id, sizeof(server_id), "%016x", 0xe0 + id);
    all_dropped();
    queued = 0;
    answers = false; /* they do by themselves */
    new_server();
}

static void fence(int i)
{
    struct voter *v = &voters[i];
    if (!v->runs || now_us < v->lease_until_us)
        return;
    if (v->silent)
        v->runs = false;
    else
        is_ready(i);
}

void goes_on(int64_t us)
{
    int64_t end_us = now_us + us;
    while (now_us < end_us) {
        now_us = mono_min(end_us, now_us + 100 * MONO_MS);
        for (int i = 0; i < VOTERS; i++) {
            fence(i);
            if (voters[i].here && !voters[i].silent)
                beat(i);
        }
        if (rdzv_deadline(rdzv) <= now_us) {
            tick(0);
            answer_all();
        }
    }
}

int64_t round_of(int n, int min, int max)
{
    memset(voters, 0, sizeof(voters));
    queued = 0;
    limits_of(min, max);
    like.last_call_ms = 0;
    serve(1);
    come_all(0, n - 1);
    if (n < max) /* the server has just begun */
        goes_on(like.heartbeat_ms * MONO_MS);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(running(), n);
    return newest_round();
}

int64_t doubt_of(int n, int min, int max)
{
    int64_t in_doubt = round_of(n, min, max) + 1;
    for (int i = 0; i < n; i++) {
        struct voter *v = &voters[i];
        v->pending = v->holds;
        v->pending.round = v->accepted.round = in_doubt;
        msg_set(v->accepted.before, v->accepted.ids);
        v->runs = false;
        v->ready = true;
    }
    return in_doubt;
}

void propose_to_three(int min)
{
    limits_of(min, 3);
    like.last_call_ms = 60000;
    serve(1);
    come_all(0, 1);
    voters[0].silent = voters[1].silent = voters[2].silent = true;
    come(2);
    ck_assert(noted("proposed") && !noted("sealed"));
}

int64_t newest_round(void)
{
    int64_t round = 0;
    for (int i = 0; i < VOTERS; i++)
        if (voters[i].runs && voters[i].holds.round > round)
            round = voters[i].holds.round;
    return round;
}

int running(void)
{
    int n = 0;
    for (int i = 0; i < VOTERS; i++)
        n += voters[i].runs && voters[i].holds.round == newest_round() &&
             now_us < voters[i].lease_until_us;
    return n;
}
