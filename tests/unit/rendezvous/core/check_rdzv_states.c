/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * The table of rdzv.h, cell by cell: what each message and each kind of end of
 * a connection does to a node in each state.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

enum state {
    WAITING,
    SPARE,
    RUNNING,
    DONE,
    STOPPING,
    STALE,
    LEAVING,
    DRAINED
};

/* Brings node 2 into a state; nodes 0 and 1 are there too, 2 are the least and
 * 3 the most. */
static void bring(enum state state)
{
    limits_of(2, 3);
    if (state == WAITING) { /* round 1 is over, node 0 not ready yet */
        bring(STOPPING);
        ready(2, 1);
        return;
    }
    if (state == SPARE || state == DRAINED)
        like.nodes_max = 2;
    join(0);
    join(1);
    join(2);
    if (state == SPARE || state == DRAINED) {
        ck_assert(noted("spare"));
        if (state == DRAINED)
            order_drain("", "n2", false);
        return;
    }
    ck_assert(told(2, "world"));
    if (state == DONE)
        done(2, 1);
    if (state == STOPPING)
        failed(0, 1, 3, 0);
    if (state == LEAVING)
        leave(2, false);
    if (state == STALE) { /* lost, and back with the old round */
        for (int i = 0; i < 3; i++) {
            now_us += 400 * MONO_MS;
            beat_of(0, 1 + i, i, 1);
            beat_of(1, 1 + i, i, 1);
        }
        tick(0);
        ck_assert(noted("lost") && told(2, "drop"));
        both_ready(1);
        ck_assert(told(0, "world"));
        struct msg m = make_rejoin(2, 1, MSG_STATE_STOPPED);
        msg_set(m.join.instance, placed[0].instance);
        say(2, &m);
        ck_assert(noted("stale") && told(2, "stop"));
    }
}

struct cell {
    enum state state;
    const char *event;
    const char *noted;  /* stands among the notes */
    const char *others; /* what node 0 is told, "" for nothing */
    int nodes;          /* that there are afterwards */
};

static const struct cell cells[] = {
    {WAITING, "beat", "", "", 3},
    {WAITING, "failed", "", "", 3},
    {WAITING, "done", "", "", 3},
    {WAITING, "ready", "", "", 3},
    {WAITING, "leave", "left", "", 2},
    {WAITING, "fin", "left", "", 2},
    {WAITING, "broken", "absent", "", 3},
    {WAITING, "silence", "left", "", 2},
    {SPARE, "failed", "", "", 3},
    {SPARE, "done", "", "", 3},
    {SPARE, "ready", "", "", 3},
    {SPARE, "leave", "left", "", 2},
    {SPARE, "fin", "left", "", 2},
    {SPARE, "broken", "left", "", 2},
    {SPARE, "silence", "left", "", 2},
    {RUNNING, "failed", "round_over", "stop", 3},
    {RUNNING, "done", "done", "", 3},
    {RUNNING, "ready", "round_over", "stop", 3},
    {RUNNING, "leave", "round_over", "stop", 3},
    {RUNNING, "fin", "lost", "stop", 2},
    {RUNNING, "broken", "absent", "", 3},
    {RUNNING, "silence", "lost", "stop", 2},
    {DONE, "failed", "", "", 3},
    {DONE, "done", "", "", 3},
    {DONE, "ready", "", "", 3},
    {DONE, "leave", "left", "", 2},
    {DONE, "fin", "left", "", 2},
    {DONE, "broken", "absent", "", 3},
    {DONE, "silence", "left", "", 2},
    {STOPPING, "failed", "", "", 3},
    {STOPPING, "done", "", "", 3},
    {STOPPING, "ready", "", "", 3},
    {STOPPING, "leave", "left", "", 3},
    {STOPPING, "fin", "lost", "", 2},
    {STOPPING, "broken", "absent", "", 3},
    {STOPPING, "silence", "lost", "", 2},
    {STALE, "failed", "stale", "", 3},
    {STALE, "done", "stale", "", 3},
    {STALE, "ready", "joined", "stop", 3},
    {STALE, "leave", "left", "", 2},
    {STALE, "fin", "left", "", 2},
    {STALE, "broken", "left", "", 2},
    {LEAVING, "failed", "", "", 3},
    {LEAVING, "done", "", "", 3},
    {LEAVING, "ready", "left", "", 2},
    {LEAVING, "leave", "", "", 3},
    {LEAVING, "fin", "left", "stop", 2},
    {LEAVING, "broken", "absent", "", 3},
    {LEAVING, "silence", "left", "stop", 2},
    {DRAINED, "beat", "", "", 3},
    {DRAINED, "failed", "", "", 3},
    {DRAINED, "done", "", "", 3},
    {DRAINED, "ready", "", "", 3},
    {DRAINED, "leave", "left", "", 2},
    {DRAINED, "fin", "left", "", 2},
    {DRAINED, "broken", "absent", "", 3},
    {DRAINED, "silence", "left", "", 2},
    {WAITING, "drain", "ordered", "", 3},
    {SPARE, "drain", "ordered", "", 3},
    {RUNNING, "drain", "round_over", "stop", 3},
    {DONE, "drain", "ordered", "", 3},
    {STOPPING, "drain", "ordered", "", 3},
    {STALE, "drain", "ordered", "", 3},
    {LEAVING, "drain", "", "", 3},
    {DRAINED, "drain", "", "", 3},
};
#define CELLS (int)(sizeof(cells) / sizeof(cells[0]))

static void happen(const char *event)
{
    if (strcmp(event, "beat") == 0)
        beat_of(2, 1, 0, 1);
    else if (strcmp(event, "failed") == 0)
        failed(2, 1, 3, 0);
    else if (strcmp(event, "done") == 0)
        done(2, 1);
    else if (strcmp(event, "ready") == 0)
        ready(2, 1);
    else if (strcmp(event, "leave") == 0)
        leave(2, false);
    else if (strcmp(event, "drain") == 0)
        order_drain("", "n2", false);
    else if (strcmp(event, "fin") == 0)
        closed(2, true);
    else if (strcmp(event, "broken") == 0)
        closed(2, false);
    else
        ck_abort_msg("no such event");
}

/* Node 2 says nothing more; the others do. */
static void fall_silent(void)
{
    for (int i = 0; i < 2; i++) {
        now_us += HEARTBEAT / 2 + 1;
        beat_of(0, 10 + i, 9 + i, 1);
        beat_of(1, 10 + i, 9 + i, 1);
    }
    tick(0);
}

TEST_LOOP(test_rdzv_each_event_in_each_state, 0, CELLS)
{
    const struct cell *c = &cells[_i];
    bring(c->state);
    if (strcmp(c->event, "silence") == 0)
        fall_silent();
    else
        happen(c->event);
    ck_assert_msg(c->noted[0] == '\0' ? notes[0] == '\0' : noted(c->noted),
                  "%d %s: notes '%s'", c->state, c->event, notes);
    if (c->others[0] == '\0')
        ck_assert_msg(strstr(said, "0:") == NULL, "%d %s: said '%s'", c->state,
                      c->event, said);
    else
        ck_assert_msg(told(0, c->others), "%d %s: said '%s'", c->state,
                      c->event, said);
    ck_assert_int_eq(rdzv_nodes(rdzv), c->nodes);
}

/* One that has not heard of it, in whatever state, is told when it is back, and
 * gets into no other round. */
TEST_LOOP(test_rdzv_drain_that_was_lost_is_said_again, 0, 4)
{
    static const enum state states[] = {RUNNING, DONE, STOPPING, SPARE};
    static const enum msg_state holds[] = {MSG_STATE_RUNNING, MSG_STATE_DONE,
                                           MSG_STATE_STOPPED, MSG_STATE_NONE};
    bring(states[_i]);
    order_drain("", "n2", false);
    ck_assert(told(ORDERS, "answered") && told(2, "drain"));
    closed(2, false);
    struct msg m = make_rejoin(2, 1, holds[_i]);
    msg_set(m.join.instance, placed[0].instance);
    say(12, &m);
    ck_assert(told(12, "drain"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 3);
    ready(12, 1); /* as one says that was told to stop before that */
    ck_assert(!told(12, "world"));
    both_ready(1);
    ck_assert(!told(12, "world"));
    leave(12, false);
    ready(12, 1);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
    closed(12, true);
}

HAND_SUITE("rdzv_states")
