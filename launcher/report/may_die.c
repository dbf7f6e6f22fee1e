#include "launcher/report/may_die.h"

#include <stdio.h>

/* More than half of the voters have to be left; the server may be among the
 * lost. Of more than MSG_VOTERS_MAX nodes some have no vote: more of these may
 * be lost, but nobody can tell beforehand which nodes will be lost. */
static void
describe_voters(const struct conf *conf, int nodes, char text[MAY_DIE_MAX])
{
    int voters = nodes < MSG_VOTERS_MAX ? nodes : MSG_VOTERS_MAX;
    int lost = (voters - 1) / 2;
    char then[80] = "", which[100] = "";
    if (nodes - lost < conf->nnodes_min)
        (void)snprintf(then, sizeof(then), /* messages: ok, 2 or more */
                       "; with fewer than %d the job waits for others",
                       conf->nnodes_min);
    if (voters < nodes)
        (void)snprintf(which, sizeof(which), /* messages: ok, 31 and 16 */
                       " (%d of them vote on the next round, and %d of these "
                       "have to be left)",
                       voters, voters - lost);
    char some[32] = "any one";
    if (lost > 1)
        (void)snprintf(some, sizeof(some), "up to %d", lost);
    (void)snprintf(text, MAY_DIE_MAX, /* messages: ok, 3 or more */
                   "%s of the %d nodes may be lost at once, also the one "
                   "that serves the rendezvous%s%s",
                   some, nodes, which, then);
}

bool may_die_describe(const struct conf *conf,
                      const struct msg_world *first,
                      char text[MAY_DIE_MAX])
{
    if (conf->nnodes_min == conf->nnodes_max || conf->backend != CONF_C10D ||
        conf->preflight || first->group_rank != 0 || first->group_world < 2)
        return false;
    if (first->group_world > 2)
        describe_voters(conf, (int)first->group_world, text);
    else
        (void)snprintf(text, MAY_DIE_MAX, /* fits */
                       "either of the 2 nodes may be killed; if the one that "
                       "falls silent (power, cable) serves the rendezvous, the "
                       "other one stops and waits");
    return true;
}
