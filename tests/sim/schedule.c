/* links: tests/sim/sim */
#include "tests/sim/schedule.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- making a schedule ----------------------------------------------------- */

void schedule_add(struct schedule *p,
                  struct rng *rng,
                  int64_t at_us,
                  enum act act,
                  uint32_t node)
{
    if (p->n_steps == STEPS_MAX)
        return;
    int i = p->n_steps++;
    while (i > 0 && p->steps[i - 1].at_us > at_us) {
        p->steps[i] = p->steps[i - 1];
        i--;
    }
    p->steps[i] = (struct step){.at_us = at_us,
                                .act = act,
                                .node = node,
                                .how = (uint32_t)rng_next(rng)};
}

static enum act pick_act(struct rng *rng, const int weights[ACTS])
{
    int sum = 0;
    for (int i = 0; i < ACTS; i++)
        sum += weights[i];
    int left = (int)rng_below(rng, (uint32_t)sum);
    for (int i = 0; i < ACTS; i++) {
        left -= weights[i];
        if (left < 0)
            return (enum act)i;
    }
    return ACT_RESET;
}

/* Some schedules have but a few kinds of faults, which then meet each other
 * more often than all kinds would. */
static enum act pick_of_few(struct rng *rng,
                            const int weights[ACTS],
                            const enum act *few,
                            int n_few)
{
    return n_few > 0 ? few[rng_below(rng, (uint32_t)n_few)]
                     : pick_act(rng, weights);
}

enum act schedule_end_of(enum act act)
{
    static const enum act ends[ACTS] = {
        [ACT_CUT] = ACT_HEAL,
        [ACT_REJECT] = ACT_HEAL,
        [ACT_FREEZE_AGENT] = ACT_THAW,
        [ACT_FREEZE_NODE] = ACT_THAW,
        [ACT_SERVER_KILL] = ACT_SERVER_START,
        [ACT_SERVER_END] = ACT_SERVER_START,
        [ACT_SERVER_FREEZE] = ACT_SERVER_THAW,
        [ACT_HOST_KILL] = ACT_HOST_START,
        [ACT_HOST_END] = ACT_HOST_START,
        [ACT_HOST_FREEZE] = ACT_HOST_THAW,
        [ACT_HOST_CUT] = ACT_HOST_HEAL,
        [ACT_HOST_MIDST] = ACT_HOST_BACK,
        [ACT_PARTITION] = ACT_UNITE,
    };
    return ends[act] != ACT_LAUNCH ? ends[act] : ACTS;
}

/* Faults come alone or in bunches of the same moment. */
void schedule_add_faults(struct schedule *p,
                         struct rng *rng,
                         const int weights[ACTS])
{
    enum act few[3];
    int n_few = rng_below(rng, 2) == 0 ? 0 : 3;
    for (int i = 0; i < n_few; i++)
        few[i] = pick_act(rng, weights);
    int n_faults = (int)rng_below(rng, n_few > 0 ? 20 : 11);
    int64_t at_us = 0;
    for (int i = 0; i < n_faults; i++) {
        enum act act = pick_of_few(rng, weights, few, n_few);
        uint32_t node = (uint32_t)rng_next(rng);
        if (i > 0 && rng_below(rng, 3) == 0)
            at_us += rng_below(rng, 30000);
        else
            at_us = p->quiet_us +
                    rng_below(rng, (uint32_t)(FAULTS_US - p->quiet_us));
        schedule_add(p, rng, at_us, act, node);
        enum act end = schedule_end_of(act);
        int64_t lasts_us = rng_below(rng, 2) == 0
                               ? rng_below(rng, (uint32_t)LASTING_US)
                               : rng_below(rng, (uint32_t)MONO_S);
        if (end != ACTS)
            schedule_add(p, rng, at_us + lasts_us, end, node);
    }
}

void schedule_conf(struct schedule *p, struct rng *rng, int nodes)
{
    static const int heartbeats[] = {300, 1000, 1000, 2000, 5000};
    p->n_first = nodes;
    p->conf = (struct sim_conf){
        .seed = rng_next(rng),
        .max_restarts = (int)rng_below(rng, 5),
        .heartbeat_ms = nodes > 16 ? 5000 : heartbeats[rng_below(rng, 5)],
        .reconnect_ms = 1000 + rng_below(rng, 15000),
        .join_ms = 20000 + rng_below(rng, 20000),
        .last_call_ms = rng_below(rng, 2000),
        .grace_ms = 100 + rng_below(rng, 2000),
        .delay_us = 50 + rng_below(rng, 1000),
        .jitter_us = 1 + rng_below(rng, 3000),
    };
}

/* -- playing it ------------------------------------------------------------ */

/* All of them: who serves is another machine than when the fault began. */
static void thaw_hosts(struct sim *s)
{
    for (int i = 0; i < SIM_OUTSIDE + SIM_OUTSIDE_MAX; i++)
        sim_thaw_on(s, i);
}

static void heal_hosts(struct sim *s)
{
    for (int i = 0; i < SIM_OUTSIDE + SIM_OUTSIDE_MAX; i++)
        sim_heal_machine(s, i);
}

static void thaw_nodes(struct sim *s)
{
    for (int i = 0; i < sim_agents(s); i++)
        sim_thaw(s, i);
}

/* Every third fault meets the node that serves. */
static int pick_node(const struct sim *s, const struct step *step)
{
    int i = (int)(step->node % (uint32_t)sim_agents(s));
    int serving = sim_tenant(s, sim_serving(s));
    return step->how % 3 == 0 && serving >= 0 ? serving : i;
}

static void act_on_node(struct sim *s, const struct step *step)
{
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS};
    int i = pick_node(s, step);
    switch (step->act) {
    case ACT_WORKER_DIES:
        sim_worker_dies(s, i, (int)(step->how % SIM_PROCS_MAX),
                        step->how % 8 < 4 ? 1 + (int)(step->how % 100) : 0,
                        step->how % 8 < 4 ? 0 : signals[step->how / 8 % 4]);
        return;
    case ACT_SPAWN_FAILS:
        sim_spawn_fails(s, i);
        return;
    case ACT_STUBBORN:
        sim_stubborn(s, i);
        return;
    case ACT_KILL:
        sim_kill(s, i);
        return;
    case ACT_ORPHAN:
        sim_orphan(s, i);
        return;
    case ACT_POWER_OFF:
        sim_power_off(s, i);
        return;
    case ACT_CUT:
        sim_cut(s, i, step->how % 3 != 1, step->how % 3 != 2);
        return;
    case ACT_HEAL:
        heal_hosts(s);
        return;
    case ACT_RESET:
        sim_reset(s, i);
        return;
    case ACT_MOVE:
        sim_move(s, i);
        return;
    case ACT_FREEZE_AGENT:
        sim_freeze_agent(s, i);
        return;
    case ACT_FREEZE_NODE:
        sim_freeze_node(s, i);
        return;
    case ACT_THAW:
        thaw_nodes(s);
        return;
    case ACT_SIGTERM:
        sim_signal(s, i, SIGTERM);
        return;
    case ACT_SIGINT:
        sim_signal(s, i, SIGINT);
        return;
    case ACT_DRAIN:
        (void)sim_drain(s, i, step->how % 2 == 0);
        return;
    case ACT_END:
        (void)sim_end(s);
        return;
    case ACT_FINISH_NODE:
        for (int k = 0; k < sim_agents(s); k++)
            if (k == i || step->how % 2 == 0)
                sim_finish_node(s, k);
        return;
    case ACT_LAUNCH_AGAIN:
        for (int k = 0, n = sim_agents(s); k < n; k++)
            if (n < SIM_AGENTS_MAX && sim_may_launch(s) &&
                sim_launch_again(s, (i + k) % n) >= 0)
                return;
        return;
    case ACT_REJECT:
        sim_reject(s, sim_machine(s, i));
        return;
    default:
        return;
    }
}

/* -- hosts ----------------------------------------------------------------- */

/* Every other time the one that serves. */
static int pick_host(const struct sim *s,
                     const struct schedule *p,
                     const struct step *step)
{
    uint32_t n = (uint32_t)(p->outside + sim_agents(s));
    int i = n > 0 ? (int)(step->node % n) : 0;
    if (n == 0 || step->how % 2 == 0)
        return sim_serving(s);
    return i < p->outside ? SIM_OUTSIDE + i : sim_machine(s, i - p->outside);
}

static void start_hosts(struct sim *s, const struct schedule *p)
{
    for (int i = 0; i < p->outside; i++)
        sim_start_on(s, SIM_OUTSIDE + i);
}

static void bring_back(struct sim *s, const struct schedule *p)
{
    for (int i = 0; i < SIM_OUTSIDE + SIM_OUTSIDE_MAX; i++)
        sim_in_midst(s, i, SIM_MIDST_KILL, 0);
    start_hosts(s, p);
    thaw_hosts(s);
    heal_hosts(s);
}

static void
act_on_host(struct sim *s, const struct schedule *p, const struct step *step)
{
    int host = pick_host(s, p, step);
    switch (step->act) {
    case ACT_HOST_START:
        start_hosts(s, p);
        return;
    case ACT_HOST_KILL:
        sim_kill_on(s, host);
        return;
    case ACT_HOST_END:
        if (host >= SIM_OUTSIDE) /* a daemon, by SIGTERM */
            sim_end_on(s, host);
        return;
    case ACT_HOST_FREEZE:
        sim_freeze_on(s, host);
        return;
    case ACT_HOST_THAW:
        thaw_hosts(s);
        return;
    case ACT_HOST_CUT:
        sim_cut_machine(s, host, step->how % 3 != 1, step->how % 3 != 2);
        return;
    case ACT_HOST_HEAL:
        heal_hosts(s);
        return;
    case ACT_HOST_RELAY:
        sim_relay_dies(s, host, (int)(step->how % 3));
        return;
    case ACT_HOST_BACK:
        bring_back(s, p);
        return;
    case ACT_HOST_MIDST:
        sim_in_midst(s, host, (enum sim_midst)(step->how / 2 % 3),
                     1 + (int)(step->how / 6 % 16));
        return;
    default:
        return;
    }
}

static void
play_step(struct sim *s, const struct schedule *p, const struct step *step)
{
    uint64_t sides = (uint64_t)step->how << 24 ^ step->node;
    switch (step->act) {
    case ACT_LAUNCH:
        if (sim_agents(s) < SIM_AGENTS_MAX && sim_may_launch(s))
            (void)sim_launch(s);
        return;
    case ACT_SERVER_START:
        sim_server_start(s);
        return;
    case ACT_SERVER_KILL:
        sim_server_kill(s);
        return;
    case ACT_SERVER_END:
        sim_server_end(s);
        return;
    case ACT_SERVER_FREEZE:
        sim_server_freeze(s);
        return;
    case ACT_SERVER_THAW:
        sim_server_thaw(s);
        return;
    case ACT_PARTITION:
        sim_partition(s, sides, step->how % 4 != 1, step->how % 4 != 2);
        return;
    case ACT_UNITE:
        sim_unite(s);
        return;
    case ACT_GO_ON:
        (void)sim_go_on(s);
        return;
    case ACT_FINISH:
        for (int k = 0; k < sim_agents(s); k++)
            sim_finish_node(s, k);
        return;
    default:
        if (step->act >= ACT_HOST_START)
            act_on_host(s, p, step);
        else if (sim_agents(s) > 0)
            act_on_node(s, step);
    }
}

static void cease_faults(struct sim *s, const struct schedule *p)
{
    sim_unite(s);
    bring_back(s, p);
    thaw_nodes(s);
}

static void begin(struct sim *s, const struct schedule *p)
{
    struct rng rng;
    rng_init(&rng, p->conf.seed);
    for (int i = 0; i < SIM_OUTSIDE + SIM_OUTSIDE_MAX && p->ppm > 0; i++)
        sim_drifts(s, i,
                   (int)rng_below(&rng, 2 * (uint32_t)p->ppm + 1) - p->ppm);
    if (!p->late)
        start_hosts(s, p);
    for (int i = p->n_first; i > STEPS_MAX / 2; i--)
        (void)sim_launch(s);
}

struct sim *schedule_play(const struct schedule *p, bool trace)
{
    struct sim_conf conf = p->conf;
    conf.trace = conf.print = trace;
    struct sim *s = sim_new(&conf);
    begin(s, p);
    for (int i = 0; i < p->n_steps && sim_broken(s) == NULL; i++) {
        sim_run_until(s, p->steps[i].at_us);
        play_step(s, p, &p->steps[i]);
    }
    int64_t quiet_us = mono_after(FAULTS_US, LASTING_US);
    sim_run_until(s, quiet_us);
    cease_faults(s, p);
    quiet_us += sim_settle_us(s);
    sim_run_until(s, quiet_us);
    if (sim_broken(s) == NULL && !p->only_safety && !p->may_wait)
        sim_check_settled(s);
    sim_finish(s, 0);
    sim_run_until(s,
                  quiet_us + 2 * sim_settle_us(s) + p->conf.join_ms * MONO_MS);
    if (sim_broken(s) == NULL && !p->only_safety)
        sim_check_over(s);
    return s;
}

/* -- many ------------------------------------------------------------------ */

/* Whether all held, if that did not fail the test. */
static bool play_seed(schedule_make *make,
                      uint64_t seed,
                      bool trace,
                      int64_t sums[SIM_COUNTS])
{
    struct schedule p;
    make(&p, seed);
    if (trace)
        printf("seed %" PRIu64 ": %d nodes, %d..%d, %d restarts, heartbeat "
               "%lld ms, reconnect %lld ms\n",
               seed, p.n_first, p.conf.nodes_min, p.conf.nodes_max,
               p.conf.max_restarts, (long long)p.conf.heartbeat_ms,
               (long long)p.conf.reconnect_ms);
    struct sim *s = schedule_play(&p, trace);
    for (int c = 0; c < SIM_COUNTS; c++)
        sums[c] += sim_counted(s, (enum sim_count)c);
    char broken[600] = "";
    if (sim_broken(s) != NULL)
        (void)snprintf(broken, sizeof(broken), "%s", sim_broken(s));
    sim_del(s);
    bool goes_on = broken[0] != '\0' && getenv("ALL") != NULL;
    if (goes_on)
        printf("SEED=%" PRIu64 ": %s (%d endpoints from %d, %d outside)\n",
               seed, broken, p.conf.endpoints, p.conf.endpoint[0], p.outside);
    (void)fflush(stdout); /* a failed check leaves without it */
    ck_assert_msg(broken[0] == '\0' || goes_on, "SEED=%" PRIu64 ": %s", seed,
                  broken);
    return broken[0] == '\0';
}

void schedule_one(schedule_make *make, uint64_t seed)
{
    int64_t sums[SIM_COUNTS] = {0};
    (void)play_seed(make, seed, false, sums);
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* What one of several processes plays: every `of`-th schedule from `from` on.
 */
struct share {
    uint64_t from;
    uint64_t of;
    uint64_t end;
    int64_t n_broken;
    int64_t sums[SIM_COUNTS];
};

static void play_share(schedule_make *make, struct share *share)
{
    for (uint64_t seed = share->from; seed < share->end; seed += share->of)
        share->n_broken += !play_seed(make, seed, false, share->sums);
}

/* A failed check ends its process, and the test with it. */
static void play_in_processes(schedule_make *make, struct share *shares, int n)
{
    (void)fflush(stdout); /* or each of them prints it again */
    for (int i = 0; i < n; i++) {
        if (check_fork() != 0)
            continue;
        play_share(make, &shares[i]);
        exit(EXIT_SUCCESS);
    }
    for (int i = 0; i < n; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
            exit(EXIT_FAILURE);
    }
}

/* One share for each processor. `sums` is filled; how many were broken. */
static int64_t play_many(schedule_make *make,
                         uint64_t first,
                         uint64_t n,
                         int64_t sums[SIM_COUNTS])
{
    int processes = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int64_t n_broken = 0;
    size_t len = (size_t)processes * sizeof(struct share);
    struct share *shares = mmap(NULL, len, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shares, MAP_FAILED);
    for (int i = 0; i < processes; i++)
        shares[i] = (struct share){.from = first + (uint64_t)i,
                                   .of = (uint64_t)processes,
                                   .end = first + n};
    play_in_processes(make, shares, processes);
    for (int i = 0; i < processes; i++) {
        n_broken += shares[i].n_broken;
        for (int c = 0; c < SIM_COUNTS; c++)
            sums[c] += shares[i].sums[c];
    }
    (void)munmap(shares, len);
    return n_broken;
}

bool schedule_many(schedule_make *make,
                   uint64_t otherwise,
                   int64_t sums[SIM_COUNTS])
{
    uint64_t n = env_number("SCHEDULES", otherwise);
    uint64_t first = env_number("FIRST_SEED", 1);
    memset(sums, 0, SIM_COUNTS * sizeof(*sums));
    if (getenv("SEED") != NULL) {
        (void)setvbuf(stdout, NULL, _IOLBF, 0); /* if a core aborts */
        (void)play_seed(make, env_number("SEED", 0), true, sums);
        return false;
    }
    int64_t n_broken = play_many(make, first, n, sums);
    printf("%" PRIu64 " schedules\n", n);
    for (int c = 0; c < SIM_COUNTS; c++)
        printf("%12lld  %s\n", (long long)sums[c],
               sim_count_meaning((enum sim_count)c));
    (void)fflush(stdout);
    ck_assert_msg(n_broken == 0, "%lld schedules are broken",
                  (long long)n_broken);
    return n >= otherwise;
}
