#include "launcher/former.h"

#include "launcher/agent/agent.h"
#include "launcher/proc/launch_lock.h"
#include "launcher/rdzv/client.h"

void former_leave(const struct agent *a,
                  const struct rdzv_client *client,
                  bool held)
{
    const struct msg_world *w = &a->round.world;
    struct launch_record mine = {
        .round = w->round,
        .group_rank = (int)w->group_rank,
        .held = held && w->round > 0,
        .hosts = rdzv_client_hosts(client),
    };
    struct msg_dead dead;
    msg_set(mine.agent, a->conf.join.agent);
    msg_set(mine.name, a->conf.join.name);
    msg_set(mine.instance, w->instance);
    if (agent_last_word(a, &dead)) {
        msg_set(mine.instance, dead.instance);
        mine.voted = dead.voted;
        mine.voted_epoch = dead.voted_epoch;
        msg_set(mine.voted_epoch_id, dead.voted_epoch_id);
    }
    launch_lock_write(&mine);
}

static void tell_of_dead(struct rdzv_client *client)
{
    struct launch_record dead[LAUNCH_LOCK_DEAD_MAX];
    int n = launch_lock_dead(dead);
    for (int i = 0; i < n; i++) {
        struct msg m = {.kind = MSG_KIND_dead};
        m.dead.round = dead[i].round;
        m.dead.group_rank = dead[i].group_rank;
        m.dead.held = dead[i].held;
        m.dead.hosts = dead[i].hosts;
        msg_set(m.dead.agent, dead[i].agent);
        msg_set(m.dead.name, dead[i].name);
        msg_set(m.dead.instance, dead[i].instance);
        m.dead.voted = dead[i].voted;
        m.dead.voted_epoch = dead[i].voted_epoch;
        msg_set(m.dead.voted_epoch_id, dead[i].voted_epoch_id);
        rdzv_client_send(client, &m);
    }
}

void former_before(const struct agent *a,
                   const struct rdzv_client *client,
                   enum msg_kind kind)
{
    bool votes = kind == MSG_KIND_promise || kind == MSG_KIND_accept ||
                 kind == MSG_KIND_bye || kind == MSG_KIND_leave;
    if (kind == MSG_KIND_ready)
        former_leave(a, client, false);
    else if (votes || kind == MSG_KIND_join)
        former_leave(a, client,
                     a->work == AGENT_RUNNING || a->work == AGENT_DONE);
}

/* With failover a newcomer is told that others are waited for, and so is a
 * voter whose server lacks them. */
static bool waits_for_others(const struct agent *a, const struct msg *m)
{
    if (agent_has_failover(a))
        return m->kind == MSG_KIND_waiting;
    if (m->kind == MSG_KIND_lease && m->lease.grant_ms == 0)
        return true;
    return (m->kind == MSG_KIND_lease || m->kind == MSG_KIND_waiting) &&
           a->work == AGENT_NONE;
}

void former_after(const struct agent *a,
                  struct rdzv_client *client,
                  const struct msg *m)
{
    if (m->kind == MSG_KIND_end)
        former_leave(a, client, false);
    if (waits_for_others(a, m))
        tell_of_dead(client);
}
