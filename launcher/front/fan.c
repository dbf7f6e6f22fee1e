/*
 * As many branches as each has hosts, the square root: with one machine that
 * takes some time for each connection, all are there after about twice that
 * many. And a host that dies takes no more than such a part of the connections
 * along.
 */
#include "launcher/front/fan.h"

#include "rendezvous/base/err.h"

#define HOSTS_LEAST 4 /* two branches of two */

int fan_branches(int hosts, int from)
{
    int n = 1;
    ddp_assert(hosts > 0 && from >= 0);
    if (from == 0 || hosts < from || hosts < HOSTS_LEAST)
        return 0;
    while (n * n < hosts)
        n++;
    return n;
}

struct fan_branch fan_branch(int hosts, int branches, int i)
{
    ddp_assert(branches > 0 && branches <= hosts && i >= 0 && i < branches);
    int least = hosts / branches, longer = hosts % branches;
    return (struct fan_branch){
        .first = i * least + (i < longer ? i : longer),
        .len = least + (i < longer),
    };
}
