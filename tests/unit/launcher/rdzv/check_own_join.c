/* links: launcher/rdzv/own_join BASE rendezvous/proto/{msg,term} */
/* links: tests/lib/fault */
/* libs: -lcjson -ldl */
/* What of the configuration a join says, and what it leaves out. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "launcher/rdzv/own_join.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault.h"
#include "tests/lib/suite.h"

static struct conf conf;

static void setup(void)
{
    conf = (struct conf){
        .nnodes_min = 2,
        .nnodes_max = 3,
        .nproc = 4,
        .backend = CONF_C10D,
        .prog_name = "train.py",
        .role = "default",
        .mpi = CONF_MPI_PMIX,
        .cooldown_us = 7 * MONO_S,
        .heartbeat_timeout_us = 1500 * MONO_MS,
    };
    (void)strcpy(conf.run_id, "r");
    (void)strcpy(conf.local_addr, "10.0.0.7");
}

TEST(test_own_join_says_what_was_asked_for)
{
    struct msg_join j;
    char host[256] = "";
    own_join(&conf, 29501, &j);
    ck_assert_int_eq(gethostname(host, sizeof(host) - 1), 0);
    ck_assert_int_eq(j.nodes_min, 2);
    ck_assert_int_eq(j.nodes_max, 3);
    ck_assert_int_eq(j.nproc, 4);
    ck_assert_int_eq(j.port, 29501);
    ck_assert_int_eq(j.heartbeat_ms, 1500);
    ck_assert_str_eq(j.run, "r");
    ck_assert_str_eq(j.addr, "10.0.0.7");
    ck_assert_str_eq(j.name, host);
    ck_assert_str_eq(j.options, "--nnodes=2:3\n--max_restarts=0\n"
                                "--crash_loop=0\n--node_strikes=0\n"
                                "--rdzv_backend=c10d\n--mpi=pmix\n"
                                "--rdzv_conf=heartbeat_timeout=1.5s\n"
                                "--rdzv_conf=reconnect_timeout=0s\n"
                                "train.py");
}

/* A cooldown without strikes cools nobody. */
TEST(test_own_join_leaves_out_what_has_no_effect)
{
    struct msg_join j;
    conf.nnodes_min = conf.nnodes_max = 1;
    conf.backend = CONF_STATIC;
    own_join(&conf, 1, &j);
    ck_assert_int_eq(j.cooldown_ms, 0);
    ck_assert_ptr_nonnull(strstr(j.options, "--nnodes=1\n"));
    ck_assert_ptr_nonnull(strstr(j.options, "--node_strikes=0\n"));
    ck_assert_ptr_nonnull(strstr(j.options, "--rdzv_backend=static\n"));
    conf.node_strikes = 2;
    conf.max_restarts = 3;
    conf.restart_window_us = 90 * MONO_S;
    own_join(&conf, 1, &j);
    ck_assert_int_eq(j.cooldown_ms, 7000);
    ck_assert_ptr_nonnull(strstr(j.options, "--node_strikes=2/7s\n"));
    ck_assert_ptr_nonnull(strstr(j.options, "--max_restarts=3/90s\n"));
}

/* No option is cut, whatever was asked for: the program comes last. */
TEST(test_own_join_has_room_for_all_options)
{
    struct msg_join j;
    char name[200];
    memset(name, 'p', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    conf.prog_name = name;
    conf.nnodes_min = 99999;
    conf.nnodes_max = 100000;
    conf.max_restarts = conf.crash_loop = conf.node_strikes = 1000000;
    conf.restart_window_us = conf.cooldown_us = 86399999999999;
    conf.heartbeat_timeout_us = conf.reconnect_timeout_us = 86399999999999;
    conf.mpi = CONF_MPI_PMI1;
    own_join(&conf, 1, &j);
    name[128] = '\0';
    ck_assert_str_eq(strrchr(j.options, '\n') + 1, name);
}

/* A launcher that is started again is another agent. */
TEST(test_own_join_is_of_a_new_agent)
{
    struct msg_join first, second;
    own_join(&conf, 1, &first);
    own_join(&conf, 1, &second);
    ck_assert_uint_eq(strlen(first.agent), 32);
    ck_assert_str_ne(first.agent, second.agent);
}

/* Only what a scheduler told, and only GPUs that have a worker each. */
TEST(test_own_join_says_what_no_other_launcher_has)
{
    struct msg_join j, other;
    own_join(&conf, 1, &j);
    ck_assert_str_eq(j.owns, "");
    (void)strcpy(conf.place, "slurm-17.0 1");
    (void)strcpy(conf.own_gpus[0], "GPU-a");
    (void)strcpy(conf.own_gpus[1], "GPU-b");
    own_join(&conf, 1, &j);
    ck_assert_uint_eq(strlen(j.owns), 3 * 17 + 2);
    ck_assert(j.owns[0] == 'p' && j.owns[18] == 'g' && j.owns[36] == 'g');
    (void)strcpy(conf.place, "slurm-17.0 2");
    (void)strcpy(conf.own_gpus[0], "GPU-b");
    (void)strcpy(conf.own_gpus[1], "");
    own_join(&conf, 1, &other);
    ck_assert_int_eq(strncmp(other.owns, j.owns, 9), 0); /* one boot */
    ck_assert_int_ne(strncmp(other.owns, j.owns, 17), 0);
    ck_assert_str_eq(other.owns + 18, j.owns + 36);
    for (int i = 0; i < CONF_OWN_GPUS; i++)
        (void)strcpy(conf.own_gpus[i], "GPU-b");
    own_join(&conf, 1, &other);
    ck_assert_uint_eq(strlen(other.owns), sizeof(other.owns) - 1);
}

/* Without /proc it says nothing of the host, and joins. */
TEST_LOOP(test_own_join_without_a_boot_id_says_nothing, 0, 2)
{
    static const char *const plans[] = {"test:open:1:EACCES",
                                        "test:read:1:EIO"};
    struct msg_join j;
    (void)strcpy(conf.place, "slurm-17.0 1");
    fault_plan(plans[_i]);
    own_join(&conf, 1, &j);
    ck_assert_int_eq(fault_struck(), 1);
    fault_end();
    ck_assert_str_eq(j.owns, "");
    ck_assert_str_eq(j.run, "r");
}

SUITE("own_join", "own_join", FIXTURE(setup, NULL))
