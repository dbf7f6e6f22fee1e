/* links: launcher/mpi/{pmix_frame,pmix_nodes,mapping} */
/* links: rendezvous/base/{err,buf} */
/*
 * What other nodes and a PMIx server say to a launcher. The first byte says
 * which: frames, that come out as they went in; or the lines of nodes, whose
 * maps have each node and each rank once.
 */
#include <stdlib.h>

#include "launcher/mpi/pmix_frame.h"
#include "launcher/mpi/pmix_nodes.h"
#include "rendezvous/base/err.h"
#include "tests/fuzz/fuzz.h"

static void frames(const uint8_t *data, size_t len)
{
    struct pmix_frame f, again;
    struct buf out;
    const char *name, *value;
    size_t used, same, name_len, value_len;
    for (; pmix_frame_get(data, len, &f, &used) == PMIX_FRAME_DONE;
         data += used, len -= used) {
        ddp_assert(used <= len && f.len < used && f.kind < PMIX_KINDS);
        if (pmix_frame_name(&f, &name, &name_len, &value, &value_len))
            ddp_assert(name_len > 0 && name_len + 1 + value_len == f.len);
        ddp_assert(pmix_frame_small(f.number) <= UINT32_MAX);
        buf_init(&out, PMIX_FRAME_MAX + 64);
        ddp_assert(pmix_frame_put(&out, &f) == 0 && buf_len(&out) == used);
        ddp_assert(memcmp(buf_head(&out), data, used) == 0);
        ddp_assert(pmix_frame_get(buf_head(&out), used, &again, &same) ==
                   PMIX_FRAME_DONE);
        buf_free(&out);
    }
}

static int64_t count(const char *text, char c)
{
    int64_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == c;
    return n;
}

static void lines(struct fuzz_in *in)
{
    struct pmix_nodes n;
    int64_t nodes = 1 + fuzz_u8(in) % 8;
    int64_t world = 1 + fuzz_u8(in);
    int64_t group_rank = fuzz_u8(in) % nodes;
    if (!pmix_nodes_read(&n, (const char *)in->at, in->left, nodes, group_rank,
                         world))
        return;
    ddp_assert(count(n.hosts, ',') == nodes - 1);
    ddp_assert(count(n.ranks, ';') == nodes - 1);
    ddp_assert(count(n.ranks, ',') == world - nodes);
    ddp_assert(strstr(n.hosts, n.host) != NULL && n.host[0] != '\0');
    ddp_assert(pmix_nodes_of(&n, nodes, n.base_rank) == group_rank);
    pmix_nodes_free(&n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    if (fuzz_u8(&in) % 2 == 0)
        frames(in.at, in.left);
    else
        lines(&in);
    return 0;
}
