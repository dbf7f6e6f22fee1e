#include "worker_rt/comm/head.h"

#include <stdio.h>
#include <string.h>

#include "worker_rt/comm/reduce.h"

static const char *const kind_names[] = {
    [WIRE_ALLREDUCE] = "all-reduce",
    [WIRE_BROADCAST] = "broadcast",
    [WIRE_ALLGATHER] = "all-gather",
    [WIRE_BARRIER] = "barrier",
    [WIRE_LEAVE] = "leave",
    [WIRE_START] = "start of NCCL",
    [WIRE_WAIT] = "wait",
    [WIRE_REDUCE_SCATTER] = "reduce-scatter",
};
_Static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == WIRE_KINDS,
               "one for each");

const char *head_kind_name(int64_t kind)
{
    return kind > 0 && kind < WIRE_KINDS ? kind_names[kind] : "unknown call";
}

bool head_fits(const struct wire_head *got, const struct wire_head *awaited)
{
    return memcmp(got, awaited, sizeof(*got)) == 0;
}

/* All calls before the own one are done. Of one collective that goes two ways,
 * the lengths differ. */
bool head_is_stray(const struct wire_head *got, const struct wire_head *own)
{
    int32_t ahead = (int32_t)(got->seq - own->seq);
    if (ahead != 0)
        return ahead < 0;
    return got->kind != own->kind || got->dtype != own->dtype ||
           got->op != own->op || got->root != own->root ||
           ((got->step ^ own->step) & HEAD_RING) != 0;
}

void head_describe(char text[HEAD_TEXT], const struct wire_head *h)
{
    char more[48] = "";
    if (h->kind == WIRE_BROADCAST)
        (void)snprintf(more, sizeof(more), " (root %u)", h->root);
    else if (h->kind == WIRE_ALLREDUCE || h->kind == WIRE_REDUCE_SCATTER)
        (void)snprintf(more, sizeof(more), " (%s, %s)",
                       reduce_dtype_name(h->dtype), reduce_op_name(h->op));
    else if (h->dtype != 0)
        (void)snprintf(more, sizeof(more), " (%s)",
                       reduce_dtype_name(h->dtype));
    char len[40] = ""; /* no message, or one without data of the program's */
    if (h->len > 0 && h->kind != WIRE_BARRIER)
        (void)snprintf(len, sizeof(len), " with length %llu",
                       (unsigned long long)h->len);
    (void)snprintf(text, HEAD_TEXT, "%s number %u%s%s", head_kind_name(h->kind),
                   h->seq, len, more);
}
