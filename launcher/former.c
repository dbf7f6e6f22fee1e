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
    msg_set(mine.agent, a->conf.join.agent);
    msg_set(mine.name, a->conf.join.name);
    msg_set(mine.instance, w->instance);
    launch_lock_write(&mine);
}

void former_tell(struct rdzv_client *client)
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
        rdzv_client_send(client, &m);
    }
}
