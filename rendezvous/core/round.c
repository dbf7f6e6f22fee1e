#include "rendezvous/core/round.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"

#define NOTICE_FIRST_US (3 * MONO_S)
#define NOTICE_EVERY_US (30 * MONO_S)
#define REMEMBER_US     (600 * MONO_S)
/* Who does not say bye in so long does not keep the others. */
#define SETTLE_US       (500 * MONO_MS)
#define AGE_MAX_US      (INT64_C(86400000) * MONO_S) /* of messages.def */
#define ENDS_MAX        409600000                    /* of messages.def, too */
#define INSTANCE_MS_MAX INT64_C(86400000000)         /* and this */
/* A round that lasted so long is no part of a crash loop. */
#define PROGRESS_US (60 * MONO_S)

/* -- gathering ------------------------------------------------------------- */

void round_gather(struct rdzv *r, struct run *run)
{
    run->state = RUN_GATHER;
    run->gather_since_us = r->now_us;
    run->seal_at_us = MONO_NEVER;
    run->notice_at_us = mono_after(r->now_us, NOTICE_FIRST_US);
}

/* The names of those that wait, cut with "..." where the field is full. */
static void list_names(const struct rdzv *r,
                       const struct run *run,
                       char *names,
                       size_t size)
{
    size_t len = 0;
    names[0] = '\0';
    if (run->count[NODE_WAITING] == 0)
        return; /* a run may have many nodes, and many spares ask */
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->state != NODE_WAITING)
            continue;
        size_t name_len = strlen(n->name);
        if (len + name_len + 7 > size) {
            (void)snprintf(names + len, size - len, " ..."); /* has room */
            return;
        }
        if (len > 0) {
            memcpy(names + len, ", ", 2);
            len += 2;
        }
        memcpy(names + len, n->name, name_len + 1);
        len += name_len;
    }
}

static void
fill_waiting(const struct rdzv *r, const struct run *run, struct msg *m)
{
    *m = (struct msg){.kind = MSG_KIND_waiting};
    int64_t until_us = run->seal_at_us;
    m->waiting.last_call = until_us != MONO_NEVER;
    if (until_us == MONO_NEVER)
        until_us = mono_after(run->gather_since_us, run->join_us);
    m->waiting.have = run->count[NODE_WAITING];
    m->waiting.min = run->nodes_min;
    m->waiting.max = run->nodes_max;
    m->waiting.left_ms = mono_ms_until(r->now_us, until_us);
    m->waiting.since_ms = mono_ms_until(run->gather_since_us, r->now_us);
    list_names(r, run, m->waiting.names, sizeof(m->waiting.names));
}

/* Whether the last round's failure is charged already: not to be told as of
 * before that round, since the next server will hear of the failure itself. */
static bool is_charged(const struct run *run)
{
    return run->state == RUN_GATHER && run->charged && !run->lost_since;
}

static int restarts_before(const struct run *run)
{
    return run->budget.used - is_charged(run);
}

/* How many of them count in the window, for the next server. */
static int recent(const struct rdzv *r, const struct run *run)
{
    if (run->budget.window_us == 0)
        return 0;
    int counting = budget_counting(&run->budget, r->now_us);
    return counting > 0 ? counting - is_charged(run) : 0;
}

/* The same; which of two is the older one must be known then (join.c). */
static int64_t instance_ms(const struct rdzv *r, const struct run *run)
{
    return mono_min((r->now_us - run->born_us) / MONO_MS, INSTANCE_MS_MAX);
}

void round_send_waiting(struct rdzv *r,
                        const struct run *run,
                        const struct node *n)
{
    struct msg m;
    fill_waiting(r, run, &m);
    if (n->state == NODE_ASIDE)
        m.waiting.aside_ms = mono_ms_until(r->now_us, n->aside_until_us);
    if (n->state == NODE_SPARE || n->state == NODE_ASIDE) {
        m.waiting.spare = 1;
        m.waiting.struck = strikes_of(run, n);
        msg_set(m.waiting.instance, run->instance);
        m.waiting.instance_ms = instance_ms(r, run);
        m.waiting.round = run->round;
        m.waiting.group_world = run->group_world;
        m.waiting.restarts = restarts_before(run);
        m.waiting.recent = recent(r, run);
        m.waiting.scales = round_has_room(run);
        m.waiting.left_ms =
            m.waiting.scales ? mono_ms_until(r->now_us, run->scale_next_us) : 0;
    }
    node_send(r, n, &m);
}

static void notify_waiting(struct rdzv *r, struct run *run)
{
    run->notice_at_us = mono_after(r->now_us, NOTICE_EVERY_US);
    struct msg m;
    fill_waiting(r, run, &m);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_WAITING)
            node_send(r, &r->nodes[i], &m);
    note(r, NOTE_waiting, run, "", "%d of %d..%d are there (%s)",
         run->count[NODE_WAITING], run->nodes_min, run->nodes_max,
         m.waiting.names);
}

/* -- sealing --------------------------------------------------------------- */

static void add_place(struct rdzv *r, const struct node *n, int index, int at)
{
    r->places[at] = (struct ranks_node){
        .name = n->name,
        .role = n->role,
        .asked = n->asked_rank,
        .previous = n->group_rank,
        .hosts = n->hosts,
        .arrival = n->arrival,
        .nproc = n->nproc,
        .id = index,
    };
}

/*
 * Who is in: survivors first, then those who wait, then spares, up to the
 * most that there is room for. Returns how many.
 */
static int pick_members(struct rdzv *r, const struct run *run)
{
    int picked = 0;
    for (int pass = 0; pass < 3; pass++) {
        for (int i = run->head; i >= 0; i = r->nodes[i].next) {
            const struct node *n = &r->nodes[i];
            bool survivor = n->state == NODE_WAITING && n->group_rank >= 0;
            bool waits = n->state == NODE_WAITING && n->group_rank < 0;
            bool spare = n->state == NODE_SPARE;
            if (!(pass == 0 ? survivor : pass == 1 ? waits : spare))
                continue;
            if (picked < run->nodes_max)
                add_place(r, n, i, picked++);
        }
    }
    return picked;
}

/*
 * Where the other nodes reach group rank 0. A node on the server's own host
 * may have come over loopback: then it is reached at the address on which the
 * others came in.
 */
static void find_master(const struct rdzv *r, struct run *run, int n_members)
{
    const struct node *master = &r->nodes[r->places[0].id];
    const char *addr = master->addr;
    for (int i = 1; i < n_members && node_is_loopback(addr); i++) {
        const struct node *n = &r->nodes[r->places[i].id];
        if (!node_is_loopback(n->addr) && !node_is_loopback(n->here_addr))
            addr = n->here_addr;
    }
    msg_set(run->master_addr, addr);
    run->master_port = master->port;
}

void round_send_world(struct rdzv *r,
                      const struct run *run,
                      const struct node *n)
{
    struct msg m = {.kind = MSG_KIND_world};
    msg_set(m.world.instance, run->instance);
    m.world.instance_ms = instance_ms(r, run);
    m.world.round = run->round;
    m.world.restarts = restarts_before(run);
    m.world.recent = recent(r, run);
    m.world.barren = run->budget.barren;
    m.world.scale_left_ms = mono_ms_until(r->now_us, run->scale_next_us);
    m.world.struck = strikes_of(run, n);
    m.world.group_rank = n->group_rank;
    m.world.group_world = run->group_world;
    m.world.base_rank = n->base_rank;
    m.world.world_size = run->world_size;
    m.world.role_rank = n->role_rank;
    m.world.role_world = n->role_world;
    msg_set(m.world.master_addr, run->master_addr);
    m.world.master_port = run->master_port;
    node_send_members(r, run, n);
    node_send(r, n, &m);
}

static void make_instance(struct rdzv *r, struct run *run)
{
    if (run->instance[0] != '\0')
        return;
    run->born_us = r->now_us;
    (void)snprintf(run->instance, /* 32 digits and NUL: cannot be cut */
                   sizeof(run->instance), "%016llx%016llx",
                   (unsigned long long)rng_next(&r->rng),
                   (unsigned long long)rng_next(&r->rng));
}

/* Whoever is left over is a spare, and holds no place of any round. */
static void make_spares(struct rdzv *r, struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->state != NODE_WAITING && n->state != NODE_SPARE &&
            n->state != NODE_ASIDE)
            continue;
        n->group_rank = -1;
        if (n->state == NODE_WAITING)
            note(r, NOTE_spare, run, n->name, "the round is full");
        if (n->state == NODE_WAITING)
            node_set_state(r, n, NODE_SPARE);
        round_send_waiting(r, run, n); /* old spares too: the round is new */
    }
}

/* The longest that a member of the last known round may still run workers for:
 * long leases are only given in rounds of the fewest nodes (node.c). */
static int64_t longest_lease_us(const struct run *run)
{
    bool is_least = run->group_world <= run->nodes_min;
    bool is_short = run->reconnect_us < run->heartbeat_us || !is_least;
    return is_short ? run->heartbeat_us : run->reconnect_us;
}

int64_t round_foreign_lease_us(const struct run *run)
{
    int64_t lease_us = run->heartbeat_us > run->reconnect_us
                           ? run->heartbeat_us
                           : run->reconnect_us;
    return lease_us + RECONNECT_US;
}

/*
 * While members are missing, they may run the last known round. Where all are
 * here, but all were ready, there may be one more round; since not all of its
 * members have confirmed it, only short leases are out. Where nothing is sure,
 * there may be any.
 */
int64_t round_known_at_us(const struct run *run)
{
    int64_t lease_us = run->heartbeat_us;
    if (!run->rebuilt || (run->holes == 0 && run->anchor == ANCHOR_HELD))
        return 0;
    if (run->anchor == ANCHOR_NONE)
        return mono_after(run->rebuilt_at_us, round_foreign_lease_us(run));
    if (run->holes > 0)
        lease_us = longest_lease_us(run);
    return mono_after(run->rebuilt_at_us, lease_us + RECONNECT_US);
}

/*
 * Numbers are never used twice. Where the server before us may have sealed one
 * more round than anybody here knows, its number is left out; where it may have
 * sealed any, this is another instance. That goes on counting all the same:
 * `ready` and `failed` that are under way bear the number alone.
 */
static void number_round(struct run *run)
{
    bool skip = run->rebuilt && run->anchor != ANCHOR_HELD;
    if (run->rebuilt && run->anchor == ANCHOR_NONE)
        run->instance[0] = '\0';
    run->round += skip ? 2 : 1;
    if (run->round <= run->passed)
        run->round = run->passed + 1;
    run->passed = 0;
    run->rebuilt = false;
}

static struct node *take_ranks(struct rdzv *r, const struct ranks_node *p)
{
    struct node *n = &r->nodes[p->id];
    n->group_rank = p->group_rank;
    n->base_rank = p->base_rank;
    n->role_rank = p->role_rank;
    n->role_world = p->role_world;
    return n;
}

void round_reckon(struct rdzv *r, struct run *run)
{
    int n_members = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (node_in_round(&r->nodes[i]) && n_members < run->group_world)
            add_place(r, &r->nodes[i], i, n_members++);
    if (n_members == 0 || n_members < run->group_world)
        return;
    run->world_size = ranks_assign(r->places, r->scratch, n_members, NULL);
    for (int i = 0; i < n_members; i++)
        (void)take_ranks(r, &r->places[i]);
    find_master(r, run, n_members);
}

static void seal(struct rdzv *r, struct run *run)
{
    int n_members = pick_members(r, run);
    int ignored;
    run->world_size = ranks_assign(r->places, r->scratch, n_members, &ignored);
    run->group_world = n_members;
    number_round(run);
    run->confirmed = 0;
    run->state = RUN_ACTIVE;
    run->seal_at_us = MONO_NEVER;
    run->gone_done = run->holes = 0;
    run->charged = run->lost_since = run->progressed = false;
    run->sealed_us = r->now_us;
    run->ends = (struct msg_ready){.round = 0};
    run->ends_list[0] = run->stopped_list[0] = run->loss.node[0] = '\0';
    run->root.known = false;
    make_instance(r, run);
    find_master(r, run, n_members);
    for (int i = 0; i < n_members; i++) {
        struct node *n = take_ranks(r, &r->places[i]);
        n->confirmed = false;
        node_set_state(r, n, NODE_RUNNING);
    }
    note(r, NOTE_sealed, run, "", "%d nodes, world %d, master %s:%d%s",
         n_members, run->world_size, run->master_addr, run->master_port,
         ignored > 0 ? "; a node rank asked for could not be given" : "");
    for (int i = 0; i < n_members; i++)
        round_send_world(r, run, &r->nodes[r->places[i].id]);
    make_spares(r, run);
}

/* Whether one of those who wait is due to be counted as lost: its tick comes
 * before it could do any good in a round. */
static bool has_expired(const struct rdzv *r, const struct run *run)
{
    if (r->now_us < r->lease_check_us)
        return false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].lease_until_us <= r->now_us)
            return true;
    return false;
}

void round_try_seal(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_GATHER || run->absent > 0 ||
        r->now_us < round_known_at_us(run))
        return;
    strikes_recall(r, run);
    int have = run->count[NODE_WAITING] + run->count[NODE_SPARE];
    if (have < run->nodes_min) {
        run->seal_at_us = MONO_NEVER;
        return;
    }
    /* Last call is for the first round only. */
    bool all_here = have >= run->nodes_max || run->round > 0;
    if (all_here || r->now_us >= run->seal_at_us) {
        if (!has_expired(r, run))
            seal(r, run);
        return;
    }
    if (run->seal_at_us != MONO_NEVER)
        return;
    run->seal_at_us = mono_after(r->now_us, run->last_call_us);
    note(r, NOTE_last_call, run, "", "%d of %d..%d, for %lld ms", have,
         run->nodes_min, run->nodes_max,
         (long long)(run->last_call_us / MONO_MS));
}

/* -- the end of a round ---------------------------------------------------- */

bool round_has_room(const struct run *run)
{
    return run->state == RUN_ACTIVE && run->holes == 0 &&
           run->count[NODE_DONE] + run->gone_done == 0 &&
           run->group_world < run->nodes_max;
}

void round_try_scale(struct rdzv *r, struct run *run, const char *why)
{
    if (run->count[NODE_SPARE] == 0 || !round_has_room(run) ||
        r->now_us < run->scale_next_us)
        return;
    run->scale_next_us = mono_after(r->now_us, run->scale_us);
    round_over(r, run, why, MSG_SCALE_UP);
}

static void stop_all(struct rdzv *r, const struct run *run, const char *why)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_STOPPING)
            node_send_stop(r, &r->nodes[i], run->round, why, run->graceful);
}

void round_hurry(struct rdzv *r, struct run *run, const char *why)
{
    if (run->state != RUN_DRAIN || run->graceful == MSG_AT_ONCE)
        return;
    run->graceful = MSG_AT_ONCE;
    stop_all(r, run, why);
}

void round_over(struct rdzv *r,
                struct run *run,
                const char *why,
                enum msg_graceful graceful)
{
    if (run->state != RUN_ACTIVE)
        return;
    run->state = RUN_DRAIN;
    run->over_us = r->now_us;
    run->graceful = graceful;
    run->progressed |= r->now_us - run->sealed_us >= PROGRESS_US;
    note(r, NOTE_round_over, run, "", "%s", why);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->state == NODE_RUNNING || n->state == NODE_DONE)
            node_set_state(r, n, NODE_STOPPING);
    }
    stop_all(r, run, why);
    round_try_drained(r, run);
}

static void describe_worker(const struct failure *f, char *text, size_t size)
{
    const struct msg_failed *w = &f->what;
    char how[64];
    if (w->hung)
        (void)snprintf(how, sizeof(how), "made no progress");
    else if (w->signal != 0)
        (void)snprintf(how, sizeof(how), "killed by signal %d", (int)w->signal);
    else
        (void)snprintf(how, sizeof(how), "exit code %d", (int)w->code);
    (void)snprintf(text, /* a cut text is still a text */
                   size, "rank %lld on %s failed (%s)", (long long)w->rank,
                   f->node, how);
}

/* "1 of 3 restarts were used", "2 restarts, of at most 2 in 90 s, were used" */
static void
describe_restarts(const struct rdzv *r, const struct budget *b, char text[120])
{
    if (b->window_us == 0)
        (void)snprintf(text, 120, "%d of %d restarts were used", b->used,
                       b->max);
    else
        (void)snprintf(text, 120,
                       "%d of %d restarts were used in the last %.12g s",
                       budget_counting(b, r->now_us), b->max,
                       (double)b->window_us / (double)MONO_S);
}

static void take_one(int64_t *count)
{
    if (*count > 0)
        *count -= 1;
}

/* How the round's workers ended, but for the first failure, where there is
 * one: the report knows that one by its rank. */
static void fill_ends(const struct run *run,
                      const struct msg_failed *root,
                      struct msg_end *end)
{
    struct msg_ready ends = run->ends;
    if (root == NULL || root->pid <= 0)
        ; /* it never ran */
    else if (root->signal == SIGKILL || (root->hung && ends.by_term == 0))
        take_one(&ends.by_kill);
    else if (root->signal == SIGTERM || root->hung)
        take_one(&ends.by_term);
    else
        take_one(root->signal != 0 ? &ends.by_signal : &ends.by_code);
    end->by_term = mono_min(ends.by_term, ENDS_MAX);
    end->by_kill = mono_min(ends.by_kill, ENDS_MAX);
    end->by_signal = mono_min(ends.by_signal, ENDS_MAX);
    end->by_code = mono_min(ends.by_code, ENDS_MAX);
    msg_set(end->ends, run->ends_list);
    msg_set(end->stopped, run->stopped_list);
}

/* So old, within the bounds of the message. */
static int64_t age_of(const struct rdzv *r, int64_t at_us)
{
    int64_t age_us = r->now_us - at_us;
    return age_us < 0 ? 0 : mono_min(age_us, AGE_MAX_US);
}

/*
 * The run ends with what the first failed worker ended with. In a crash loop it
 * has a status of its own, since starting such a job again is useless.
 */
static void end_by_failure(struct rdzv *r, struct run *run, bool loop)
{
    const struct msg_failed *w = &run->root.what;
    struct msg_end end = {
        .status = w->signal != 0 ? 128 + w->signal : w->code,
        .round = run->round,
        .restarts = run->budget.used,
        .rank = w->rank,
        .local_rank = w->local_rank,
        .pid = w->pid,
        .code = w->code,
        .signal = w->signal,
        .oom = w->oom,
        .hung = w->hung,
        .age_us = age_of(r, run->root.at_us),
    };
    char text[200], used[120], why[80] = "";
    fill_ends(run, w, &end);
    describe_worker(&run->root, text, sizeof(text));
    describe_restarts(r, &run->budget, used);
    if (loop) {
        end.status = ddp_code_exit(DDP_E_CRASHLOOP);
        end.crash_loop = run->budget.barren;
        (void)snprintf(why, /* fits */ sizeof(why),
                       "crash loop, %d rounds in a row without progress; ",
                       run->budget.barren);
    }
    (void)snprintf(end.text, /* fits: 200 + 80 + 120 */
                   sizeof(end.text), "%s; %s%s", text, why, used);
    msg_set(end.node, run->root.node);
    msg_set(end.error, w->text);
    msg_set(end.tail, w->tail);
    msg_set(end.trace, w->trace);
    run_end(r, run, &end);
}

/*
 * The round's failure is charged now, when every node of the round has
 * answered or is known to be lost: a loss that came to light meanwhile is what
 * the failure was a consequence of. False where it ends the run.
 */
static bool charge(struct rdzv *r, struct run *run, bool *loop)
{
    bool counts = run->charged && !run->lost_since;
    if (run->charged && run->lost_since)
        note(r, NOTE_refund, run, run->root.node, "a node was lost");
    *loop = budget_round_over(&run->budget, counts, run->progressed);
    if (!counts)
        return true;
    if (run->root.what.permanent || *loop ||
        !budget_charge(&run->budget, r->now_us))
        return false;
    strikes_charge(r, run);
    r->charged++;
    return true;
}

void round_try_drained(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_DRAIN || run->count[NODE_STOPPING] > 0 ||
        run->count[NODE_LEAVING] > 0 || run->holes > 0)
        return;
    bool loop;
    if (!charge(r, run, &loop)) {
        end_by_failure(r, run, loop);
        return;
    }
    strikes_set_aside(r, run);
    round_gather(r, run);
    round_try_seal(r, run);
    if (run->state == RUN_GATHER && run->count[NODE_WAITING] > 0)
        notify_waiting(r, run); /* a replacement is needed: say so at once */
}

void round_try_done(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_ACTIVE || run->holes > 0 ||
        run->count[NODE_DONE] + run->gone_done < run->group_world)
        return;
    struct msg_end end = {
        .status = 0,
        .round = run->round,
        .restarts = run->budget.used,
        .rank = -1,
        .local_rank = -1,
    };
    run_end(r, run, &end);
}

void run_end(struct rdzv *r, struct run *run, const struct msg_end *end)
{
    run->state = RUN_ENDED;
    run_drop_source(r, run);
    run->end = *end;
    msg_set(run->end.instance, run->instance);
    run->ended_us = r->now_us;
    run->forget_at_us = mono_after(r->now_us, REMEMBER_US);
    note(r, NOTE_ended, run, "", "status %lld%s%s", (long long)end->status,
         end->text[0] != '\0' ? ": " : "", end->text);
    bool alone = run->head == run->tail && run->group_world <= 1;
    run->settle_at_us = alone ? MONO_NEVER : mono_after(r->now_us, SETTLE_US);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        node_set_state(r, &r->nodes[i], NODE_ENDING);
        node_cut_lease(r, &r->nodes[i], run->heartbeat_us);
        round_send_end(r, run, &r->nodes[i]);
    }
    round_try_settle(r, run);
}

void round_send_end(struct rdzv *r, struct run *run, struct node *n)
{
    struct msg m = {.kind = MSG_KIND_end, .end = run->end};
    m.end.hold = run->settle_at_us != MONO_NEVER;
    if (m.end.hold && n->conn >= 0 && !n->owes_bye) {
        n->owes_bye = true;
        run->owing++;
    }
    node_send(r, n, &m);
}

void round_try_settle(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_ENDED || run->settle_at_us == MONO_NEVER ||
        (run->owing > 0 && r->now_us < run->settle_at_us))
        return;
    run->settle_at_us = MONO_NEVER;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        node_clear_bye(r, &r->nodes[i]);
        round_send_end(r, run, &r->nodes[i]);
    }
}

/* -- time ------------------------------------------------------------------ */

static void end_by_timeout(struct rdzv *r, struct run *run)
{
    struct msg_end end = {
        .status = ddp_code_exit(DDP_E_TIMEOUT),
        .round = run->round,
        .restarts = run->budget.used,
        .rank = -1,
        .local_rank = -1,
    };
    char names[240], lost[160] = "", text[500];
    list_names(r, run, names, sizeof(names));
    if (run->loss.node[0] != '\0') {
        (void)snprintf(lost, sizeof(lost), "node %s %s; ", run->loss.node,
                       run->loss.how); /* fits */
        msg_set(end.lost, run->loss.node);
        msg_set(end.lost_how, run->loss.how);
        end.age_us = age_of(r, run->loss.at_us);
        fill_ends(run, NULL, &end);
    }
    (void)snprintf(text, /* fits */
                   sizeof(text),
                   "%sonly %d of the %d nodes that are needed came in %lld s: "
                   "%s",
                   lost, run->count[NODE_WAITING] + run->count[NODE_SPARE],
                   run->nodes_min, (long long)(run->join_us / MONO_S), names);
    msg_set(end.text, text);
    run_end(r, run, &end);
}

static void tick_gather(struct rdzv *r, struct run *run)
{
    int have = run->count[NODE_WAITING] + run->count[NODE_SPARE];
    int64_t give_up_us = mono_after(run->gather_since_us, run->join_us);
    if (have < run->nodes_min && r->now_us >= give_up_us) {
        end_by_timeout(r, run);
        return;
    }
    if (r->now_us >= run->notice_at_us && run->head >= 0)
        notify_waiting(r, run);
    round_try_seal(r, run);
}

static void tick_holes(struct rdzv *r, struct run *run)
{
    if (run->holes == 0 || r->now_us < round_known_at_us(run))
        return;
    note(r, NOTE_lost, run, "", "%d nodes did not come back", run->holes);
    run->holes = 0;
    run->lost_since = true;
    if (run->state == RUN_ACTIVE)
        round_over(r, run, "nodes were lost while the rendezvous was away",
                   MSG_AT_ONCE);
    else
        round_try_drained(r, run);
}

void round_tick(struct rdzv *r, struct run *run)
{
    strikes_tick(r, run);
    switch (run->state) {
    case RUN_GATHER:
        tick_gather(r, run);
        return;
    case RUN_ACTIVE:
    case RUN_DRAIN:
        tick_holes(r, run);
        round_try_scale(r, run, "nodes join");
        return;
    case RUN_ENDED:
        round_try_settle(r, run);
        return; /* forgotten by rdzv.c, which owns the run */
    }
    DDP_WRONG("run state");
}

static int64_t gather_deadline(const struct run *run)
{
    int have = run->count[NODE_WAITING] + run->count[NODE_SPARE];
    int64_t at_us = run->head >= 0 ? run->notice_at_us : MONO_NEVER;
    if (have < run->nodes_min)
        at_us = mono_min(at_us, mono_after(run->gather_since_us, run->join_us));
    else if (run->absent > 0)
        return at_us; /* its lease is waited for */
    else if (run->rebuilt)
        at_us = mono_min(at_us, round_known_at_us(run));
    else
        at_us = mono_min(at_us, run->seal_at_us);
    return at_us;
}

static int64_t active_deadline(const struct run *run)
{
    if (run->holes > 0)
        return round_known_at_us(run);
    return run->count[NODE_SPARE] > 0 && round_has_room(run)
               ? run->scale_next_us
               : MONO_NEVER;
}

int64_t round_deadline(const struct run *run)
{
    switch (run->state) {
    case RUN_GATHER:
        return mono_min(gather_deadline(run), strikes_deadline(run));
    case RUN_ACTIVE:
    case RUN_DRAIN:
        return mono_min(active_deadline(run), strikes_deadline(run));
    case RUN_ENDED:
        return mono_min(run->forget_at_us, run->settle_at_us);
    }
    DDP_WRONG("run state");
}
