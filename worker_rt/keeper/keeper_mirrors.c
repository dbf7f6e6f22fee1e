/*
 * worker_rt/keeper/keeper_mirrors: which images another node gets a copy of,
 * and when. What commit decides, mirror does.
 *
 * Happy path: pieces that are on one node only are found when the ranks tell
 * each other theirs. The next save, all ranks meet: each the rank to which it
 * sends, and those from which it receives, as mirror_pairs says. From then on
 * the newest save that is whole is sent, as soon as the one before is there on
 * all nodes.
 *
 * Failure modes. A rank would have to keep mirrors of too many others, there is
 * too little memory, a connection breaks: the reason is noted for the program,
 * the next save tells all ranks, also why, they end their mirrors, and training
 * goes on.
 */
#include "worker_rt/keeper/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_rt/comm/comm.h"

/* For the program: what was found wrong first. */
static void end_for(struct ddp_keeper *k, const char *why)
{
    struct keeper_mirrors *m = &k->mirrors;
    if (!m->ended && m->why[0] == '\0')
        (void)snprintf(m->why, sizeof(m->why), "%.250s", why);
    m->ended = true;
}

void keeper_mirrors_end(struct ddp_keeper *k)
{
    mirror_free(k->mirrors.way);
    free(k->mirrors.pairs);
    k->mirrors.way = NULL;
    k->mirrors.pairs = NULL;
    k->mirrors.ended = true;
}

/* -- what is to be sent ---------------------------------------------------- */

/* Once: a rank stays on its node. NOMEM. */
static int pair_up(struct ddp_keeper *k,
                   const struct pieces_head *heads,
                   struct ddp_err *err)
{
    struct keeper_mirrors *m = &k->mirrors;
    int world = k->comm->world, most = 0;
    int64_t *nodes = calloc((size_t)world, sizeof(*nodes));
    m->pairs = calloc((size_t)world, sizeof(*m->pairs));
    int rc = nodes == NULL || m->pairs == NULL ? snapshot_no_memory(err) : 0;
    for (int r = 0; rc == 0 && r < world; r++)
        nodes[r] = heads[r].node;
    if (rc == 0)
        rc = mirror_pairs_make(nodes, world, m->pairs, &most, err);
    free(nodes);
    if (rc != 0) {
        free(m->pairs);
        m->pairs = NULL;
    }
    for (int r = 0; rc == 0 && r < world; r++)
        m->senders += m->pairs[r].to == k->comm->rank;
    if (rc == 0 && (most == 0 || most > SNAPSHOT_MIRRORED_MAX)) {
        char why[200];
        (void)snprintf(
            why, sizeof(why), /* fits */
            "a worker would keep the copies of %d, and no more than %d "
            "are possible: spread the workers over the nodes",
            most, SNAPSHOT_MIRRORED_MAX);
        end_for(k,
                most == 0 ? "all workers say that they are on one node" : why);
    }
    return rc;
}

/* The node of each piece, and how many there are. NULL: NOMEM. */
static int64_t *
list_nodes(const struct pieces_head *heads, int world, size_t *n)
{
    size_t at = 0;
    *n = 0;
    for (int r = 0; r < world; r++)
        *n += (size_t)heads[r].n;
    int64_t *nodes = calloc(*n + 1, sizeof(*nodes));
    for (int r = 0; nodes != NULL && r < world; r++)
        for (int64_t i = 0; i < heads[r].n; i++)
            nodes[at++] = heads[r].node;
    return nodes;
}

int keeper_mirrors_plan(struct ddp_keeper *k,
                        const struct piece_key *keys,
                        const struct pieces_head *heads,
                        const bool *stores,
                        struct ddp_err *err)
{
    int world = k->comm->world, rank = k->comm->rank;
    size_t n, mine = 0;
    int64_t *nodes = list_nodes(heads, world, &n);
    bool *alone = calloc(n + 1, sizeof(*alone));
    int rc = nodes == NULL || alone == NULL
                 ? snapshot_no_memory(err)
                 : pieces_find_alone(keys, nodes, n, alone, err);
    for (int r = 0; r < rank; r++)
        mine += (size_t)heads[r].n;
    k->mirrors.alone = false;
    for (size_t i = 0; rc == 0 && i < (size_t)heads[rank].n; i++)
        k->mirrors.alone |= stores[i] && alone[mine + i];
    bool any = false; /* else nothing is sent */
    for (size_t i = 0; rc == 0 && i < n; i++)
        any |= alone[i];
    if (rc == 0 && any && !k->mirrors.ended && k->mirrors.pairs == NULL)
        rc = pair_up(k, heads, err);
    free(nodes);
    free(alone);
    return rc;
}

/* -- the words ------------------------------------------------------------- */

void keeper_mirrors_say(struct ddp_keeper *k, struct commit_words *w)
{
    static const enum commit_mirror words[] = {
        [MIRROR_FREE] = COMMIT_MIRROR_FREE,
        [MIRROR_BUSY] = COMMIT_MIRROR_BUSY,
        [MIRROR_DONE] = COMMIT_MIRROR_DONE,
        [MIRROR_ENDED] = COMMIT_MIRROR_OFF};
    struct keeper_mirrors *m = &k->mirrors;
    struct ddp_err why = {.text = ""};
    enum mirror_state state = MIRROR_FREE;
    if (m->way != NULL)
        state = mirror_look(m->way, &why);
    if (state == MIRROR_ENDED)
        end_for(k, why.text);
    if (m->ended || k->memory.count == 0)
        state = MIRROR_ENDED;
    w->mirror = words[state];
    w->minus_alone = m->alone ? -1 : 0;
}

/* -- all ranks ------------------------------------------------------------- */

/* How many of the last slots nobody needs any more: of mirrors from before,
 * once there are others, or none. */
static int count_needless(const struct ddp_keeper *k)
{
    const struct keeper_mirrors *m = &k->mirrors;
    const struct commit *c = &k->pieces.commit;
    if (m->ended)
        return c->whole.number > 0 ? MEM_SLOTS_MAX - mirror_slot(0) : 0;
    return c->mirrored.number > 0 ? MEM_SLOTS_MAX - mirror_slot(m->senders) : 0;
}

/* Gives the memory of these back. */
static void drop_old(struct ddp_keeper *k)
{
    struct keeper_mirrors *m = &k->mirrors;
    int n = count_needless(k);
    if (k->memory.count == 0 || n <= m->dropped)
        return;
    for (int i = MEM_SLOTS_MAX - n; i < MEM_SLOTS_MAX; i++)
        mem_slots_drop(&k->memory, i);
    m->dropped = n;
}

/* Of the i-th sender's slots that with the mirror of what was whole before the
 * first save; -1: none. */
static int find_kept(const struct ddp_keeper *k, int i)
{
    struct slot_label label;
    int first = mirror_slot(i), end = first + SNAPSHOT_SLOTS_MIRROR;
    for (int n = first; k->memory.count > 0 && n < end; n++) {
        if (!mem_slots_read(&k->memory, n, &label))
            continue;
        struct commit_label has = keeper_commit_label(k, &label);
        if (memcmp(&has, &k->pieces.base, sizeof(has)) == 0)
            return n;
    }
    return -1;
}

/* The rank comes to the meeting of that sender and its receiver: what it has
 * then. The communicator has the sender's number. */
static int meet_one(struct ddp_keeper *k,
                    uint32_t first,
                    int sender,
                    struct mirror_ways *ways,
                    struct ddp_err *err)
{
    bool sends = sender == k->comm->rank;
    struct ddp_comm *c =
        keeper_meet_few(k, first + (uint32_t)sender, sends ? 0 : 1, 2,
                        k->mirrors.pairs[sender].turn + 1, err);
    if (c == NULL)
        return ddp_err_wrap(err, "meeting for mirrors of snapshots");
    if (sends) {
        ways->to = c;
    } else {
        ways->from[ways->nfrom].comm = c;
        ways->from[ways->nfrom].rank = sender;
        ways->from[ways->nfrom].keep = find_kept(k, ways->nfrom);
        ways->nfrom++;
    }
    return 0;
}

/* Turn by turn, so that no ring of nodes waits for itself. Each rank comes to
 * all of its meetings, whatever becomes of the first, or the others would wait
 * for it. */
static int
meet(struct ddp_keeper *k, struct mirror_ways *ways, struct ddp_err *err)
{
    const struct mirror_pair *pairs = k->mirrors.pairs;
    int world = k->comm->world, rank = k->comm->rank, last = 0, rc = 0;
    uint32_t first = k->d->comms;
    k->d->comms += (uint32_t)world; /* as all ranks do */
    for (int r = 0; r < world; r++)
        last = pairs[r].turn > last ? pairs[r].turn : last;
    for (int turn = 0; turn <= last; turn++)
        for (int r = 0; r < world; r++) {
            struct ddp_err why;
            if (pairs[r].turn != turn || (r != rank && pairs[r].to != rank))
                continue;
            if (meet_one(k, first, r, ways, &why) != 0 && rc == 0) {
                *err = why;
                rc = -1;
            }
        }
    return rc;
}

static void begin(struct ddp_keeper *k)
{
    struct keeper_mirrors *m = &k->mirrors;
    struct mirror_ways ways = {
        .like = {.round = k->d->fence, .world = k->comm->world}};
    struct ddp_err why;
    memcpy(ways.like.instance, k->d->instance, sizeof(k->d->instance));
    m->dropped = 0;
    if (m->pairs == NULL) /* others are known to have something to send */
        (void)ddp_err_set(&why, DDP_E_PROTO,
                          "the ranks do not agree about what is mirrored");
    else if (meet(k, &ways, &why) == 0)
        m->way = mirror_new(&k->memory, &ways, &why);
    else
        mirror_ways_leave(&ways);
    if (m->way == NULL)
        end_for(k, why.text);
}

/* From a rank that stores no piece alone nothing is sent. */
static void send_whole(struct ddp_keeper *k)
{
    struct keeper_mirrors *m = &k->mirrors;
    const struct commit_save *s = &k->pieces.commit.sent;
    if (m->way == NULL && !m->ended)
        begin(k);
    if (m->way == NULL)
        return;
    uint64_t len = s->slot < 0 ? 0 : image_len(&k->slot[s->slot].image);
    mirror_send(m->way, m->alone ? s->slot : -1, s->number, len);
}

/* Once, on all ranks in one save: what the first of them found wrong is what
 * each says, so that the program can say it in one place. */
static void agree_on_why(struct ddp_keeper *k)
{
    struct keeper_mirrors *m = &k->mirrors;
    struct ddp_err why = {.code = DDP_E_OK};
    int rc = 0;
    if (m->agreed)
        return;
    m->agreed = true;
    if (m->why[0] != '\0')
        rc = ddp_err_set(&why, DDP_E_ABORTED, "%s", m->why);
    if (keeper_agree(k->comm, rc, &why) != 0)
        (void)snprintf(m->why, sizeof(m->why), "%.250s", why.text);
}

void keeper_mirrors_heard(struct ddp_keeper *k,
                          const struct commit_words *all,
                          bool goes_on)
{
    struct keeper_mirrors *m = &k->mirrors;
    struct commit *c = &k->pieces.commit;
    if (all->mirror == COMMIT_MIRROR_OFF) {
        keeper_mirrors_end(k);
        agree_on_why(k);
    }
    /* What the launcher hears goes to whoever watches the job. */
    if (k->memory.count > 0 && k->d->world > k->d->local_world)
        rt_tell_mirrored(k->d, ddp_keeper_mirrored(k));
    drop_old(k);
    if (m->way != NULL && all->mirror != COMMIT_MIRROR_BUSY)
        mirror_settle(m->way, all->mirror == COMMIT_MIRROR_DONE);
    if (goes_on && !m->ended && commit_send(c))
        send_whole(k);
}

/* -- public ---------------------------------------------------------------- */

int64_t ddp_keeper_mirrored(const struct ddp_keeper *k)
{
    const struct commit_save *s = &k->pieces.commit.mirrored;
    return s->number > 0 ? s->step : -1;
}

int64_t ddp_keeper_skipped(const struct ddp_keeper *k)
{
    return k->mirrors.skipped;
}

const char *ddp_keeper_no_mirrors(const struct ddp_keeper *k)
{
    return k->mirrors.why;
}
