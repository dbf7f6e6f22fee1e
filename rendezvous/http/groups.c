#include "rendezvous/http/groups.h"

#include "rendezvous/base/err.h"
#include "rendezvous/http/status_priv.h"

/* 10, 20, 50, 100 ... so that all fit. */
static int size_of_groups(int group_world)
{
    int size = 10;
    for (int i = 0; (group_world - 1) / size >= GROUPS_MAX; i++)
        size = i % 3 == 1 ? size / 2 * 5 : size * 2;
    return size;
}

void groups_init(struct groups *g, int group_world)
{
    *g = (struct groups){.size = size_of_groups(group_world)};
}

static struct groups_one *group_of(struct groups *g, int group_rank)
{
    if (group_rank < 0)
        return &g->at[GROUPS_MAX];
    int i = group_rank / g->size;
    return &g->at[i < GROUPS_MAX ? i : GROUPS_MAX - 1];
}

static bool is_unwell(const struct status_node *n)
{
    switch (n->state) {
    case STATUS_WAITING:
    case STATUS_SPARE:
    case STATUS_RUNNING:
    case STATUS_DONE:
        return n->strikes > 0 || n->failed_first;
    case STATUS_QUARANTINED:
    case STATUS_STOPPING:
    case STATUS_LEAVING:
    case STATUS_ABSENT:
        return true;
    case STATUS_NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}

void groups_add(struct groups *g,
                const struct rdzv *r,
                int node,
                int64_t now_us)
{
    struct status_node n;
    status_node(r, node, now_us, &n);
    struct groups_one *group = group_of(g, n.group_rank);
    group->nodes++;
    group->ranks += n.nproc;
    group->count[n.state]++;
    if (is_unwell(&n)) {
        if (g->unwell < GROUPS_UNWELL_MAX)
            g->unwell_node[g->unwell] = node;
        g->unwell++;
    }
    status_progress_add(r, node, &g->progress);
}

static void write_one(struct json *j, const struct groups_one *group, int first)
{
    if (group->nodes == 0)
        return;
    json_open(j, NULL, '{');
    json_int(j, "first", first);
    json_int(j, "nodes", group->nodes);
    json_int(j, "ranks", group->ranks);
    for (int s = 0; s < STATUS_NODE_STATES; s++)
        if (group->count[s] > 0)
            json_int(j, status_node_word((enum status_node_state)s),
                     group->count[s]);
    json_close(j, '}');
}

/* Returns how many of them have gone. */
static int write_unwell(const struct groups *g,
                        struct json *j,
                        const struct rdzv *r,
                        int run,
                        int64_t now_us)
{
    int listed = g->unwell < GROUPS_UNWELL_MAX ? g->unwell : GROUPS_UNWELL_MAX;
    int gone = 0;
    json_open(j, "nodes_list", '[');
    for (int i = 0; i < listed; i++) {
        struct status_node n;
        if (status_place_run(r, g->unwell_node[i]) != run) {
            gone++;
            continue;
        }
        status_node(r, g->unwell_node[i], now_us, &n);
        status_write_node(j, &n);
    }
    json_close(j, ']');
    return gone;
}

void groups_write(const struct groups *g,
                  struct json *j,
                  const struct rdzv *r,
                  int run,
                  int64_t now_us)
{
    int gone = write_unwell(g, j, r, run, now_us);
    json_int(j, "unwell", g->unwell - gone);
    json_open(j, "groups", '[');
    for (int i = 0; i < GROUPS_MAX; i++)
        write_one(j, &g->at[i], i * g->size);
    write_one(j, &g->at[GROUPS_MAX], -1);
    json_close(j, ']');
    json_int(j, "group_size", g->size);
}
