/* links: tests/sim/sim */
/* libs: -lcjson */
/*
 * Many schedules of faults, each made from its seed, over the real cores.
 *
 *     SEED=N        plays that one schedule and prints its trace
 *     SCHEDULES=N   so many instead of a few thousand, from FIRST_SEED on
 *     NEWCOMERS=1   in each of them newcomers found an instance of their own
 *                   while the daemon has no memory of an older one
 */
#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#define SCHEDULES  8000
#define STEPS_MAX  64
#define FAULTS_US  (25 * MONO_S) /* faults begin in this time */
#define LASTING_US (12 * MONO_S) /* and last so long at most */

enum act {
    ACT_LAUNCH,
    ACT_WORKER_DIES,
    ACT_SPAWN_FAILS,
    ACT_STUBBORN,
    ACT_KILL,
    ACT_ORPHAN,
    ACT_POWER_OFF,
    ACT_CUT,
    ACT_REJECT,
    ACT_HEAL,
    ACT_RESET,
    ACT_MOVE,
    ACT_FREEZE_AGENT,
    ACT_FREEZE_NODE,
    ACT_THAW,
    ACT_SIGTERM,
    ACT_SIGINT,
    ACT_DRAIN,
    ACT_END,
    ACT_FINISH_NODE,
    ACT_SERVER_START,
    ACT_SERVER_KILL,
    ACT_SERVER_END,
    ACT_SERVER_FREEZE,
    ACT_SERVER_THAW,
    ACTS
};

struct step {
    int64_t at_us;
    enum act act;
    uint32_t node; /* modulo how many there are then */
    uint32_t how;
};

struct schedule {
    struct sim_conf conf;
    int n_first; /* nodes that start at once */
    struct step steps[STEPS_MAX];
    int n_steps;
};

/* -- making a schedule ----------------------------------------------------- */

static void add(struct schedule *p,
                struct rng *rng,
                int64_t at_us,
                enum act act,
                uint32_t n)
{
    if (p->n_steps == STEPS_MAX)
        return;
    int i = p->n_steps++;
    while (i > 0 && p->steps[i - 1].at_us > at_us) {
        p->steps[i] = p->steps[i - 1];
        i--;
    }
    p->steps[i] = (struct step){
        .at_us = at_us, .act = act, .node = n, .how = (uint32_t)rng_next(rng)};
}

/* How often each comes up; what ends a fault is added with the fault. */
static const int weights[ACTS] = {
    [ACT_LAUNCH] = 4,        [ACT_WORKER_DIES] = 8, [ACT_SPAWN_FAILS] = 1,
    [ACT_STUBBORN] = 1,      [ACT_KILL] = 4,        [ACT_ORPHAN] = 1,
    [ACT_POWER_OFF] = 2,     [ACT_CUT] = 5,         [ACT_RESET] = 4,
    [ACT_FREEZE_AGENT] = 3,  [ACT_FREEZE_NODE] = 2, [ACT_SIGTERM] = 2,
    [ACT_SIGINT] = 1,        [ACT_FINISH_NODE] = 3, [ACT_SERVER_KILL] = 5,
    [ACT_SERVER_FREEZE] = 3, [ACT_DRAIN] = 4,       [ACT_END] = 1,
    [ACT_MOVE] = 3,          [ACT_REJECT] = 3,      [ACT_SERVER_END] = 3,
};

static enum act pick_act(struct rng *rng)
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
static enum act pick_of_few(struct rng *rng, const enum act *few, int n_few)
{
    return n_few > 0 ? few[rng_below(rng, (uint32_t)n_few)] : pick_act(rng);
}

static enum act end_of(enum act act)
{
    if (act == ACT_CUT || act == ACT_REJECT)
        return ACT_HEAL;
    if (act == ACT_FREEZE_AGENT || act == ACT_FREEZE_NODE)
        return ACT_THAW;
    if (act == ACT_SERVER_KILL || act == ACT_SERVER_END)
        return ACT_SERVER_START;
    if (act == ACT_SERVER_FREEZE)
        return ACT_SERVER_THAW;
    return ACTS;
}

/* Faults come alone or in bunches of the same moment. */
static void add_faults(struct schedule *p, struct rng *rng)
{
    enum act few[3];
    int n_few = rng_below(rng, 2) == 0 ? 0 : 3;
    for (int i = 0; i < n_few; i++)
        few[i] = pick_act(rng);
    int n_faults = (int)rng_below(rng, n_few > 0 ? 20 : 11);
    int64_t at_us = 0;
    for (int i = 0; i < n_faults; i++) {
        enum act act = pick_of_few(rng, few, n_few);
        uint32_t node = (uint32_t)rng_next(rng);
        if (i > 0 && rng_below(rng, 3) == 0)
            at_us += rng_below(rng, 30000);
        else
            at_us = rng_below(rng, (uint32_t)FAULTS_US);
        add(p, rng, at_us, act, node);
        enum act end = end_of(act);
        int64_t lasts_us = rng_below(rng, 2) == 0
                               ? rng_below(rng, (uint32_t)LASTING_US)
                               : rng_below(rng, (uint32_t)MONO_S);
        if (end != ACTS)
            add(p, rng, at_us + lasts_us, end, node);
    }
}

/* What happens while two instances of the run meet, about the time at which the
 * members of the older one come back. */
static void add_trouble(struct schedule *p, struct rng *rng, int64_t from_us)
{
    static const enum act acts[] = {
        ACT_WORKER_DIES, ACT_WORKER_DIES, ACT_WORKER_DIES, ACT_FINISH_NODE,
        ACT_FINISH_NODE, ACT_SERVER_KILL, ACT_SERVER_KILL, ACT_RESET,
        ACT_RESET,       ACT_KILL,        ACT_LAUNCH,      ACT_SIGTERM,
        ACT_SIGINT,      ACT_DRAIN,       ACT_END,         ACT_FREEZE_AGENT,
    };
    int n = (int)rng_below(rng, 6);
    for (int i = 0; i < n; i++) {
        enum act act = acts[rng_below(rng, sizeof(acts) / sizeof(acts[0]))];
        uint32_t node = (uint32_t)rng_next(rng);
        uint32_t spread_us = rng_below(rng, 2) == 0 ? 300000 : 3000000;
        int64_t at_us = from_us + rng_below(rng, spread_us);
        add(p, rng, at_us, act, node);
        if (end_of(act) != ACTS)
            add(p, rng, at_us + rng_below(rng, 500000), end_of(act), node);
    }
}

/* A daemon dies, and one without memory finds newcomers, enough for a round of
 * their own, at its listener before the members have come back. The older
 * instance may have had spares, and be about to be done. */
static void add_newcomers(struct schedule *p, struct rng *rng)
{
    int64_t at_us = MONO_S + rng_below(rng, (uint32_t)FAULTS_US);
    int64_t back_us = at_us + rng_below(rng, 3000000);
    int n = p->conf.nodes_min + (int)rng_below(rng, 3);
    int spares = (int)rng_below(rng, 2);
    p->conf.last_call_ms = rng_below(rng, 200);
    for (int i = 0; i < spares; i++)
        add(p, rng, at_us - rng_below(rng, (uint32_t)MONO_S), ACT_LAUNCH, 0);
    add(p, rng, at_us, ACT_SERVER_KILL, 0);
    add(p, rng, back_us, ACT_SERVER_START, 0);
    if (rng_below(rng, 4) == 0)
        add(p, rng, back_us - rng_below(rng, 500000), ACT_FINISH_NODE,
            (uint32_t)rng_next(rng));
    for (int i = 0; i < n; i++)
        add(p, rng, back_us + rng_below(rng, 100000), ACT_LAUNCH, 0);
    add_trouble(p, rng, back_us);
}

static int pick_nodes(struct rng *rng)
{
    static const int sizes[] = {1, 2, 2, 2, 3, 3, 3, 5, 5, 8};
    if (rng_below(rng, 150) == 0)
        return 64;
    if (rng_below(rng, 40) == 0)
        return 16;
    return sizes[rng_below(rng, 10)];
}

static void make_schedule(struct schedule *p, uint64_t seed)
{
    static const int heartbeats[] = {300, 1000, 1000, 2000, 5000};
    struct rng rng;
    rng_init(&rng, seed);
    *p = (struct schedule){.n_first = pick_nodes(&rng)};
    int n = p->n_first;
    int min =
        rng_below(&rng, 2) == 0 ? n : 1 + (int)rng_below(&rng, (uint32_t)n);
    int max = rng_below(&rng, 2) == 0 ? n : n + (int)rng_below(&rng, 3);
    p->conf = (struct sim_conf){
        .seed = rng_next(&rng),
        .nodes_min = min,
        .nodes_max = max < min ? min : max,
        .max_restarts = (int)rng_below(&rng, 5),
        .heartbeat_ms = n > 16 ? 5000 : heartbeats[rng_below(&rng, 5)],
        .reconnect_ms = 1000 + rng_below(&rng, 15000),
        .join_ms = 20000 + rng_below(&rng, 20000),
        .last_call_ms = rng_below(&rng, 2000),
        .grace_ms = 100 + rng_below(&rng, 2000),
        .delay_us = 50 + rng_below(&rng, 1000),
        .jitter_us = 1 + rng_below(&rng, 3000),
    };
    /* None, shorter, the same, or longer, which counts as the same. */
    p->conf.failure_ms = p->conf.grace_ms * (int64_t)(seed % 4) / 2;
    if (rng_below(&rng, 3) == 0)
        p->conf.window_ms = 1000 + rng_below(&rng, 20000);
    if (rng_below(&rng, 4) == 0)
        p->conf.crash_loop = 1 + (int)rng_below(&rng, 3);
    if (rng_below(&rng, 3) == 0) {
        p->conf.node_strikes = 1 + (int)rng_below(&rng, 2);
        p->conf.cooldown_ms = 1 + rng_below(&rng, 20000);
    }
    if (rng_below(&rng, 2) == 0)
        p->conf.scale_ms = rng_below(&rng, 6000);
    if (rng_below(&rng, 4) != 0)
        add(p, &rng, 0, ACT_SERVER_START, 0);
    else
        add(p, &rng, rng_below(&rng, 5000000), ACT_SERVER_START, 0);
    for (int i = 0; i < n; i++)
        add(p, &rng, rng_below(&rng, 500000), ACT_LAUNCH, 0);
    if (n > STEPS_MAX / 2) /* they do not all fit: the others start at 0 */
        p->n_steps = STEPS_MAX / 2;
    bool newcomers = rng_below(&rng, 8) == 0 || getenv("NEWCOMERS") != NULL;
    if (n <= 8 && newcomers)
        add_newcomers(p, &rng);
    if (!newcomers || rng_below(&rng, 2) == 0)
        add_faults(p, &rng);
}

/* -- playing it ------------------------------------------------------------ */

static void act_on_node(struct sim *s, const struct step *step)
{
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS};
    int i = (int)(step->node % (uint32_t)sim_agents(s));
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
    case ACT_REJECT:
        sim_reject(s, i);
        return;
    case ACT_HEAL:
        sim_heal(s, i);
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
        sim_thaw(s, i);
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
    case ACT_LAUNCH:
    case ACT_SERVER_START:
    case ACT_SERVER_KILL:
    case ACT_SERVER_END:
    case ACT_SERVER_FREEZE:
    case ACT_SERVER_THAW:
    case ACTS:
        return;
    }
}

static void play_step(struct sim *s, const struct step *step)
{
    switch (step->act) {
    case ACT_LAUNCH:
        if (sim_agents(s) < SIM_AGENTS_MAX)
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
    default:
        if (sim_agents(s) > 0)
            act_on_node(s, step);
    }
}

static void cease_faults(struct sim *s)
{
    sim_server_start(s);
    sim_server_thaw(s);
    for (int i = 0; i < sim_agents(s); i++) {
        sim_heal(s, i);
        sim_thaw(s, i);
    }
}

/* Faults; then quiet, in which all must settle; then the workers succeed, and
 * all must end. */
static struct sim *play(const struct schedule *p, bool trace)
{
    struct sim_conf conf = p->conf;
    conf.trace = conf.print = trace;
    struct sim *s = sim_new(&conf);
    for (int i = p->n_first; i > STEPS_MAX / 2; i--)
        (void)sim_launch(s);
    for (int i = 0; i < p->n_steps && sim_broken(s) == NULL; i++) {
        sim_run_until(s, p->steps[i].at_us);
        play_step(s, &p->steps[i]);
    }
    int64_t quiet_us = mono_after(FAULTS_US, LASTING_US);
    sim_run_until(s, quiet_us);
    cease_faults(s);
    quiet_us += sim_settle_us(s);
    sim_run_until(s, quiet_us);
    if (sim_broken(s) == NULL)
        sim_check_settled(s);
    sim_finish(s, 0);
    sim_run_until(s,
                  quiet_us + 2 * sim_settle_us(s) + p->conf.join_ms * MONO_MS);
    if (sim_broken(s) == NULL)
        sim_check_over(s);
    return s;
}

static int64_t sums[SIM_COUNTS];

static void play_seed(uint64_t seed, bool trace)
{
    struct schedule p;
    make_schedule(&p, seed);
    if (trace)
        printf("seed %" PRIu64 ": %d nodes, %d..%d, %d restarts, heartbeat "
               "%lld ms, reconnect %lld ms\n",
               seed, p.n_first, p.conf.nodes_min, p.conf.nodes_max,
               p.conf.max_restarts, (long long)p.conf.heartbeat_ms,
               (long long)p.conf.reconnect_ms);
    struct sim *s = play(&p, trace);
    for (int c = 0; c < SIM_COUNTS; c++)
        sums[c] += sim_counted(s, (enum sim_count)c);
    char broken[600] = "";
    if (sim_broken(s) != NULL)
        (void)snprintf(broken, sizeof(broken), "%s", sim_broken(s));
    sim_del(s);
    (void)fflush(stdout); /* a failed check leaves without it */
    ck_assert_msg(broken[0] == '\0', "SEED=%" PRIu64 ": %s", seed, broken);
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void print_sums(uint64_t n)
{
    printf("%" PRIu64 " schedules\n", n);
    for (int c = 0; c < SIM_COUNTS; c++)
        printf("%12lld  %s\n", (long long)sums[c],
               sim_count_meaning((enum sim_count)c));
}

/* The invariants hold in each of many schedules, and each kind of fault and of
 * end came up. */
START_TEST(test_sim_schedules_of_faults_keep_the_invariants)
{
    if (getenv("SEED") != NULL) {
        play_seed(env_number("SEED", 0), true);
        return;
    }
    uint64_t n = env_number("SCHEDULES", SCHEDULES);
    uint64_t first = env_number("FIRST_SEED", 1);
    for (uint64_t i = 0; i < n; i++)
        play_seed(first + i, false);
    print_sums(n);
    for (int c = 0; c < SIM_FORGOTTEN && n >= SCHEDULES; c++)
        ck_assert_msg(sums[c] > 0, "never: %s",
                      sim_count_meaning((enum sim_count)c));
}
END_TEST

/* How many of some hundred schedules end with invariant 1 broken. */
static int count_broken(bool ignore_leases, bool false_farewell)
{
    int broken = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct schedule p;
        make_schedule(&p, seed);
        p.conf.ignore_leases = ignore_leases;
        p.conf.false_farewell = false_farewell;
        struct sim *s = play(&p, false);
        broken += sim_broken(s) != NULL &&
                  strstr(sim_broken(s), "invariant 1") != NULL;
        sim_del(s);
    }
    return broken;
}

/* Where agents take no notice of their leases, workers of two rounds run at
 * once; the simulator sees that. */
START_TEST(test_sim_agents_that_ignore_leases_break_invariant_1)
{
    ck_assert_int_gt(count_broken(true, false), 0);
}
END_TEST

/* The same where a broken connection counts as a farewell. */
START_TEST(test_sim_a_reset_taken_for_a_fin_breaks_invariant_1)
{
    ck_assert_int_gt(count_broken(false, true), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim");
    TCase *many = tcase_create("many schedules");
    tcase_set_timeout(many, 0);
    tcase_set_tags(many, "sim");
    tcase_add_test(many, test_sim_schedules_of_faults_keep_the_invariants);
    suite_add_tcase(suite, many);
    TCase *broken = tcase_create("broken on purpose");
    tcase_set_timeout(broken, 120);
    tcase_set_tags(broken, "sim");
    tcase_add_test(broken,
                   test_sim_agents_that_ignore_leases_break_invariant_1);
    tcase_add_test(broken, test_sim_a_reset_taken_for_a_fin_breaks_invariant_1);
    suite_add_tcase(suite, broken);
    return suite_run(suite);
}
