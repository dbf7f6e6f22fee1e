/*
 * A token bucket as one number: the time at which the lines so far are paid for
 * (the generic cell rate algorithm).
 */
#include "rendezvous/base/log_limit.h"

#include <stdio.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

void log_limit_init(struct log_limit *l, int burst, int per_s)
{
    ddp_assert(burst > 0 && per_s > 0);
    *l = (struct log_limit){.every_us = MONO_S / per_s};
    l->slack_us = l->every_us * (burst - 1);
}

bool log_limit_may(struct log_limit *l, int64_t now_us)
{
    if (l->due_us > now_us + l->slack_us) {
        l->left_out++;
        return false;
    }
    if (l->due_us < now_us)
        l->due_us = now_us;
    l->due_us = mono_after(l->due_us, l->every_us);
    return true;
}

bool log_limit_tell(struct log_limit *l, char *line, size_t size)
{
    if (l->left_out == 0)
        return false;
    bool one = l->left_out == 1;
    (void)snprintf(line, /* may be cut */ size, "%lld more %s left out",
                   (long long)l->left_out, one ? "line was" : "lines were");
    l->left_out = 0;
    return true;
}
