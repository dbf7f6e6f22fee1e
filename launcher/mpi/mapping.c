#include "launcher/mpi/mapping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define NODES_MAX   100000 /* messages.def */
#define WORKERS_MAX 409600000

size_t mapping_tell(char line[MAPPING_LINE_MAX], int64_t group_rank, int nproc)
{
    int n = snprintf(line, MAPPING_LINE_MAX, "%lld=%d\n", (long long)group_rank,
                     nproc);
    ddp_assert(n > 0 && n < MAPPING_LINE_MAX);
    return (size_t)n;
}

bool mapping_take_number(
    const char **at, const char *end, char behind, int64_t max, int64_t *out)
{
    const char *from = *at;
    int64_t n = 0;
    while (*at < end && **at >= '0' && **at <= '9' && n <= max)
        n = n * 10 + (*(*at)++ - '0');
    *out = n;
    if (*at == from || *at == end || **at != behind || n > max)
        return false;
    ++*at;
    return true;
}

/* Runs of neighbours that have as many workers each. */
static void
write_runs(const int32_t *workers, int64_t nodes, char out[MAPPING_MAX])
{
    size_t len = (size_t)snprintf(out, MAPPING_MAX, "(vector");
    for (int64_t i = 0, next; i < nodes; i = next) {
        for (next = i + 1; next < nodes && workers[next] == workers[i];)
            next++;
        char run[64];
        int n = snprintf(run, sizeof(run), ",(%lld,%lld,%d)", (long long)i,
                         (long long)(next - i), (int)workers[i]);
        if (len + (size_t)n + 2 > MAPPING_MAX) { /* the last bracket, too */
            out[0] = '\0';
            return;
        }
        memcpy(out + len, run, (size_t)n);
        len += (size_t)n;
    }
    memcpy(out + len, ")", 2);
}

bool mapping_read(const char *lines,
                  size_t len,
                  int64_t nodes,
                  int64_t world_size,
                  char out[MAPPING_MAX])
{
    ddp_assert(nodes >= 1 && nodes <= NODES_MAX);
    const char *at = lines, *end = lines + len;
    int64_t told = 0, ranks = 0, node = 0, n = 0;
    int32_t *workers = calloc((size_t)nodes, sizeof(*workers));
    bool ok = workers != NULL;
    while (ok && at < end) {
        ok = mapping_take_number(&at, end, '=', nodes - 1, &node) &&
             mapping_take_number(&at, end, '\n', WORKERS_MAX, &n) && n > 0 &&
             workers[node] == 0;
        if (ok) {
            workers[node] = (int32_t)n;
            ranks += n;
            told++;
        }
    }
    ok = ok && told == nodes && ranks == world_size;
    if (ok)
        write_runs(workers, nodes, out);
    free(workers);
    return ok;
}
