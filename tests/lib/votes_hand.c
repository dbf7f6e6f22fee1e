#include "tests/lib/votes_hand.h"

#include "rendezvous/base/mono.h"

/* -- what a server says ---------------------------------------------------- */

static const char *server_of(int64_t count)
{
    return count == 1 ? "s" : "t";
}

void prepare(int64_t count, const char *id)
{
    struct msg m = {.kind = MSG_KIND_prepare, .prepare.term.count = count};
    msg_set(m.prepare.term.id, id);
    hear(&m);
}

void voters(int64_t round,
            int64_t count,
            bool pending,
            const char *ids,
            const char *before)
{
    struct msg m = {.kind = MSG_KIND_voters,
                    .voters = {.round = round,
                               .term.count = count,
                               .pending = pending,
                               .restarts = 3 + round}};
    msg_set(m.voters.term.id, server_of(count));
    msg_set(m.voters.ids, ids);
    msg_set(m.voters.before, before);
    msg_set(m.voters.addrs, "- " B " " C " ");
    hear(&m);
}

void place(int64_t round, int64_t count, bool pending)
{
    struct msg m = {.kind = MSG_KIND_world,
                    .world = {.round = round,
                              .term.count = count,
                              .pending = pending,
                              .group_rank = 1,
                              .group_world = 3,
                              .base_rank = 2,
                              .world_size = 6,
                              .restarts = 4}};
    msg_set(m.world.instance, "i");
    msg_set(m.world.term.id, server_of(count));
    hear(&m);
}

void go(int64_t round, int64_t count)
{
    struct msg m = {.kind = MSG_KIND_go,
                    .go = {.round = round, .term.count = count}};
    msg_set(m.go.term.id, server_of(count));
    hear(&m);
}

void moved(int64_t count, const char *id, const char *addr)
{
    struct msg m = {.kind = MSG_KIND_serves, .serves.term.count = count};
    msg_set(m.serves.term.id, id);
    msg_set(m.serves.addr, addr);
    hear(&m);
}

void seen(int place, int64_t count, int reached)
{
    struct msg m = {.kind = MSG_KIND_serves,
                    .serves = {.term.count = count, .reached = reached}};
    msg_set(m.serves.term.id, count > 0 ? server_of(count) : "");
    msg_set(m.serves.instance, count > 0 ? "i" : "");
    step((struct agent_event){.kind = AGENT_SEEN, .place = place, .msg = &m});
}

void unseen(int place)
{
    step((struct agent_event){.kind = AGENT_SEEN, .place = place});
}

void refuse(void)
{
    struct msg m = {.kind = MSG_KIND_refused, .refused = {.code = DDP_E_NOMEM}};
    msg_set(m.refused.text, "no");
    hear(&m);
}

void end_held(int status)
{
    struct msg m = {.kind = MSG_KIND_end, .end = {.status = status, .hold = 1}};
    msg_set(m.end.instance, "i");
    hear(&m);
}

void answer(void)
{
    lease(agent.session.beat_seq, 800);
}

/* -- worlds ---------------------------------------------------------------- */

void obey(void)
{
    step((struct agent_event){.kind = AGENT_START});
    connected();
    ck_assert_str_eq(did, "send:join ");
    prepare(1, "s");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
}

/* In the first round it has nothing to tell before it knows the instance. */
void propose(int64_t round, const char *before)
{
    bool first = agent.round.evidence == AGENT_NO_ROUND;
    voters(round, 1, true, ALL, before);
    ck_assert_str_eq(did, first ? "" : "send:accept ");
    place(round, 1, true);
    ck_assert_str_eq(did, first ? "send:accept " : "");
}

void run_voted(void)
{
    obey();
    propose(1, "");
    go(1, 1);
    ck_assert_str_eq(did, "spawn send:beat ");
}

void server_is_killed(void)
{
    pass(100 * MONO_MS);
    answer();
    disconnected();
    ck_assert_str_eq(did, "connect look "); /* the same place once more */
    unseen(0);
    seen(1, 0, 1);
    ck_assert_str_eq(did, "disconnect connect:" B " ");
}

void succeed(void)
{
    server_is_killed();
    connected();
    prepare(2, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
}
