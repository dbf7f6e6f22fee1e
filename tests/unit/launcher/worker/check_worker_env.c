/* links: rendezvous/proto/term launcher/worker/{env,mailbox} */
/* links: launcher/proc/procfs launcher/cluster/task_vars */
/* links: rendezvous/base/{err,siphash} */
/*
 * The environment and the arguments of a worker.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/worker/env.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static struct conf conf;
static struct msg_world world = {
    .instance = "0123456789abcdef0123456789abcdef",
    .round = 7,
    .restarts = 2,
    .group_rank = 1,
    .group_world = 3,
    .base_rank = 4,
    .world_size = 12,
    .role_rank = 4,
    .role_world = 8,
    .master_addr = "10.0.0.1",
    .master_port = 29500,
};

/* The worker has no files to be asked by. */
static const struct mailbox files = MAILBOX_NONE;

static void setup(void)
{
    (void)clearenv();
    memset(&conf, 0, sizeof(conf));
    conf.nproc = 4;
    conf.shutdown_timeout_us = 30500000;
    conf.max_restarts = 5;
    conf.worker_store = true;
    conf.hang.how = CONF_HANG_TELL;
    (void)snprintf(conf.role, sizeof(conf.role), "trainer");
    (void)snprintf(conf.signals_text, sizeof(conf.signals_text),
                   "SIGTERM,SIGUSR1");
    (void)snprintf(conf.run_id, sizeof(conf.run_id), "a=b c");
}

static int count(char *const *env)
{
    int n = 0;
    while (env[n] != NULL)
        n++;
    return n;
}

static bool holds(char *const *env, const char *entry)
{
    for (; *env != NULL; env++)
        if (strcmp(*env, entry) == 0)
            return true;
    return false;
}

/* All that torchrun gives a worker, and what only we do. */
static const char *const wanted[] = {
    "RANK=6",
    "WORLD_SIZE=12",
    "LOCAL_RANK=2",
    "DDP_LOCAL_RANK=2",
    "LOCAL_WORLD_SIZE=4",
    "GROUP_RANK=1",
    "GROUP_WORLD_SIZE=3",
    "ROLE_RANK=6",
    "ROLE_WORLD_SIZE=8",
    "ROLE_NAME=trainer",
    "MASTER_ADDR=10.0.0.1",
    "MASTER_PORT=29500",
    "TORCHELASTIC_RESTART_COUNT=2",
    "TORCHELASTIC_MAX_RESTARTS=5",
    "TORCHELASTIC_RUN_ID=a=b c",
    "TORCHELASTIC_USE_AGENT_STORE=True",
    "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGUSR1",
    "TORCHELASTIC_ERROR_FILE=/tmp/x.json",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
    "OMP_NUM_THREADS=1",
    "DDP_INSTANCE=0123456789abcdef2ab20bd3eb55dda9",
    "DDP_EPOCH=0",
    "DDP_ROUND=7",
    "DDP_ROUND_KEY=4b16260bb20f24a4e0ec5d37f6545143",
    "DDP_SHUTDOWN_TIMEOUT=30.500",
    "DDP_PROGRESS_FILE=",
    "DDP_STOP_FILE=",
    "DDP_SNAPSHOT_MEMORY=",
};
#define WANTED ((int)(sizeof(wanted) / sizeof(wanted[0])))

TEST(test_worker_env_has_all_places)
{
    char **env = worker_env_make(&conf, &world, 2, "/tmp/x.json", &files, -1);
    for (int i = 0; i < WANTED; i++)
        ck_assert_msg(holds(env, wanted[i]), "%s", wanted[i]);
    ck_assert_int_eq(count(env), WANTED);
    free(env);
}

/* The run's name, and what only one who knows the rest can make: with the rest
 * itself strangers could end the run. */
TEST(test_worker_env_keeps_the_secret_of_the_instance)
{
    struct msg_world later = world, other = world;
    later.round++;
    other.instance[MSG_INSTANCE_LEN - 1] = 'e';
    char **env = worker_env_make(&conf, &later, 0, "", &files, -1);
    ck_assert(holds(env, "DDP_INSTANCE=0123456789abcdef2ab20bd3eb55dda9"));
    free(env);
    env = worker_env_make(&conf, &other, 2, "", &files, -1);
    ck_assert(holds(env, "DDP_INSTANCE=0123456789abcdefa990d8d2b627f956"));
    for (char **p = env; *p != NULL; p++)
        ck_assert_ptr_null(strstr(*p, &other.instance[MSG_INSTANCE_NAME]));
    free(env);
}

/* All workers of a round have the same key, and no other round has it: not the
 * next one, nor one of that number that another server made. */
TEST(test_worker_env_has_a_key_for_each_round)
{
    struct msg_world next = world, other = world;
    next.round++;
    other.term = term_make(2, "ffff");
    const struct {
        const struct msg_world *world;
        int local_rank;
        const char *key;
    } cases[] = {
        {&world, 0, "DDP_ROUND_KEY=4b16260bb20f24a4e0ec5d37f6545143"},
        {&world, 3, "DDP_ROUND_KEY=4b16260bb20f24a4e0ec5d37f6545143"},
        {&next, 0, "DDP_ROUND_KEY=d90395607bd420401b5030b7c504e98b"},
        {&other, 0, "DDP_ROUND_KEY=8d44319959826cffa10453a2e4cb50b3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char **env = worker_env_make(&conf, cases[i].world, cases[i].local_rank,
                                     "", &files, -1);
        ck_assert_msg(holds(env, cases[i].key), "%s", cases[i].key);
        free(env);
    }
}

/* What was inherited stays, but for our own names, of which the old ones go:
 * each name stands there once. What the user has set is not set. */
TEST(test_worker_env_replaces_its_own_names_only)
{
    ck_assert_int_eq(setenv("RANK", "99", 1), 0);
    ck_assert_int_eq(setenv("RANKS", "99", 1), 0);
    ck_assert_int_eq(setenv("TORCHELASTIC_ERROR_FILE", "/stale", 1), 0);
    ck_assert_int_eq(setenv("OMP_NUM_THREADS", "8", 1), 0);
    ck_assert_int_eq(setenv("EMPTY", "", 1), 0);
    char **env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "RANK=6"));
    ck_assert(holds(env, "RANKS=99"));
    ck_assert(holds(env, "TORCHELASTIC_ERROR_FILE="));
    ck_assert(holds(env, "OMP_NUM_THREADS=8"));
    ck_assert(holds(env, "EMPTY="));
    ck_assert_int_eq(count(env), WANTED + 2);
    free(env);
}

/* An MPI library's own, and none of another one's. */
TEST(test_worker_env_has_what_pmi_needs)
{
    static const char *const pmi[] = {"PMI_FD=17",         "PMI_RANK=6",
                                      "PMI_SIZE=12",       "PMI_SPAWNED=0",
                                      "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=4"};
    ck_assert_int_eq(setenv("PMI_FD", "9", 1), 0);
    ck_assert_int_eq(setenv("PMI_PORT", "host:1", 1), 0);
    conf.mpi = CONF_MPI_PMI1;
    conf.task_vars = true;
    char **env = worker_env_make(&conf, &world, 2, "", &files, 17);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(holds(env, pmi[i]), "%s", pmi[i]);
    ck_assert(!holds(env, "PMI_PORT=host:1"));
    free(env);
    env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "PMI_RANK=6"));
    ck_assert(!holds(env, "PMI_FD=9")); /* --dry_run knows of none */
    free(env);
    conf.mpi = CONF_MPI_NONE;
    conf.task_vars = false;
}

/* Ranks that wait have to give way where there are too few CPUs, unless the
 * user has said how. */
TEST(test_worker_env_lets_ranks_give_way)
{
    conf.mpi = CONF_MPI_AUTO;
    char **env = worker_env_make(&conf, &world, 2, "", &files, 17);
    ck_assert(!holds(env, "OMPI_MCA_mpi_yield_when_idle=1"));
    ck_assert(!holds(env, "I_MPI_THREAD_YIELD=2"));
    free(env);
    conf.oversubscribed = true;
    env = worker_env_make(&conf, &world, 2, "", &files, 17);
    ck_assert(holds(env, "OMPI_MCA_mpi_yield_when_idle=1"));
    ck_assert(holds(env, "I_MPI_THREAD_YIELD=2"));
    ck_assert(holds(env, "I_MPI_COLL_SHM_PROGRESS_SPIN_COUNT=1"));
    free(env);
    conf.mpi = CONF_MPI_PMI1; /* sessions of their own */
    env = worker_env_make(&conf, &world, 2, "", &files, 17);
    ck_assert(holds(env, "I_MPI_THREAD_YIELD=3"));
    free(env);
    conf.mpi = CONF_MPI_AUTO;
    ck_assert_int_eq(setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1), 0);
    ck_assert_int_eq(setenv("I_MPI_THREAD_YIELD", "0", 1), 0);
    env = worker_env_make(&conf, &world, 2, "", &files, 17);
    ck_assert(holds(env, "OMPI_MCA_mpi_yield_when_idle=0"));
    ck_assert(holds(env, "I_MPI_THREAD_YIELD=0"));
    free(env);
    conf.oversubscribed = false;
    conf.mpi = CONF_MPI_NONE;
}

/* The place of the launcher in its scheduler's step is not that of a worker. */
TEST(test_worker_env_leaves_the_launchers_task_out)
{
    ck_assert_int_eq(setenv("PMI_FD", "9", 1), 0);
    ck_assert_int_eq(setenv("SLURM_PROCID", "1", 1), 0);
    ck_assert_int_eq(setenv("SLURM_JOB_ID", "17", 1), 0);
    char **env = worker_env_make(&conf, &world, 2, "/tmp/x.json", &files, -1);
    ck_assert(holds(env, "SLURM_JOB_ID=17"));
    ck_assert_int_eq(count(env), WANTED + 1);
    free(env);
    conf.task_vars = true;
    env = worker_env_make(&conf, &world, 2, "/tmp/x.json", &files, -1);
    ck_assert(holds(env, "PMI_FD=9"));
    ck_assert(holds(env, "SLURM_PROCID=1"));
    ck_assert_int_eq(count(env), WANTED + 3);
    free(env);
}

/* What a scheduler told is set if it is a variable, and no option. */
TEST(test_worker_env_has_variables_that_a_scheduler_told)
{
    conf.found_len = 2;
    conf.found[0] = (struct conf_found){.name = "nnodes", .text = "2"};
    conf.found[1] = (struct conf_found){
        .variable = true, .name = "NCCL_SOCKET_IFNAME", .text = "eth1"};
    char **env = worker_env_make(&conf, &world, 2, "/tmp/x.json", &files, -1);
    ck_assert(holds(env, "NCCL_SOCKET_IFNAME=eth1"));
    ck_assert_int_eq(count(env), WANTED + 1);
    free(env);
}

/* Where PyTorch's flight recorder is asked and dumps: if hangs have
 * consequences, and the user has not said where. */
TEST_LOOP(test_worker_env_tells_the_flight_recorder_where, 0, 2)
{
    static const char *const told[] = {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/2/nccl_trace_rank_",
        "TORCH_FR_DUMP_TEMP_FILE=/tmp/2/nccl_trace_rank_",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/tmp/2/nccl_trace_rank_"};
    conf.hang.how = _i == 0 ? CONF_HANG_FIXED : CONF_HANG_AUTO;
    char **env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert_int_eq(count(env), WANTED);
    free(env);
    env = worker_env_make(&conf, &world, 2, "/tmp/2/error.json", &files, -1);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(holds(env, told[i]), "%s", told[i]);
    free(env);
    ck_assert_int_eq(setenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/x", 1), 0);
    env = worker_env_make(&conf, &world, 2, "/tmp/2/error.json", &files, -1);
    ck_assert(holds(env, told[0]));
    ck_assert(!holds(env, told[1]));
    ck_assert(holds(env, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/x"));
    free(env);
    conf.hang.how = CONF_HANG_TELL; /* words only: nothing is set */
    env = worker_env_make(&conf, &world, 2, "/tmp/2/error.json", &files, -1);
    ck_assert(!holds(env, told[0]));
    free(env);
}

TEST(test_worker_env_drops_one_variable)
{
    char a[] = "PIPE=1", b[] = "PIPES=2", c[] = "PIPE=3", d[] = "X=PIPE=";
    char *env[] = {a, b, c, d, NULL};
    worker_env_drop(env, "PIPE");
    ck_assert_int_eq(count(env), 2);
    ck_assert(holds(env, "PIPES=2") && holds(env, "X=PIPE="));
}

/* What mpirun sets; auto has both. */
TEST_LOOP(test_worker_env_tells_open_mpi_its_place, 0, 2)
{
    static const char *const told[] = {
        "OMPI_COMM_WORLD_RANK=6",       "OMPI_COMM_WORLD_SIZE=12",
        "OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
        "OMPI_COMM_WORLD_NODE_RANK=2",  "OMPI_MCA_schizo=^orte"};
    conf.mpi = _i == 0 ? CONF_MPI_PMIX : CONF_MPI_AUTO;
    ck_assert_int_eq(setenv("OMPI_COMM_WORLD_RANK", "99", 1), 0);
    char **env = worker_env_make(&conf, &world, 2, "", &files, -1);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(holds(env, told[i]), "%s", told[i]);
    ck_assert(holds(env, "PMI_RANK=6") == (_i == 1));
    free(env);
    ck_assert_int_eq(setenv("OMPI_MCA_schizo", "mine", 1), 0);
    env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "OMPI_MCA_schizo=mine"));
    free(env);
    conf.mpi = CONF_MPI_NONE;
}

/* MPICH 5 refuses to choose where it finds both. */
TEST_LOOP(test_worker_env_chooses_the_protocol_for_mpich, 0, 4)
{
    static const enum conf_mpi kinds[] = {CONF_MPI_NONE, CONF_MPI_PMI1,
                                          CONF_MPI_PMIX, CONF_MPI_AUTO};
    conf.mpi = kinds[_i];
    char **env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "MPIR_CVAR_PMI_VERSION=1") ==
              (conf.mpi == CONF_MPI_AUTO));
    free(env);
    ck_assert_int_eq(setenv("MPIR_CVAR_PMI_VERSION", "x", 1), 0);
    env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "MPIR_CVAR_PMI_VERSION=x"));
    free(env);
    conf.mpi = CONF_MPI_NONE;
}

/* Who made the round is a part of its name. */
TEST(test_worker_env_tells_the_term_of_a_run)
{
    struct msg_world made = world;
    made.term = term_make(3, "0123456789abcdef");
    char **env = worker_env_make(&conf, &made, 2, "", &files, -1);
    ck_assert(holds(env, "DDP_EPOCH=3.0123456789abcdef"));
    free(env);
}

/* One worker has all cores. */
TEST(test_worker_env_one_worker_keeps_its_threads)
{
    conf.nproc = 1;
    char **env = worker_env_make(&conf, &world, 0, "", &files, -1);
    ck_assert(!holds(env, "OMP_NUM_THREADS=1"));
    free(env);
}

/* --gpus is what all see; with --virtual_local_rank each sees its own only,
 * and is local rank 0, but for ${local_rank}. */
TEST(test_worker_env_gpus_are_handed_out)
{
    static struct conf_seat seats[4];
    ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7", 1), 0);
    char **env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "CUDA_VISIBLE_DEVICES=4,5,6,7"));
    free(env);
    (void)snprintf(conf.gpus, sizeof(conf.gpus), "6,7");
    env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "CUDA_VISIBLE_DEVICES=6,7"));
    ck_assert(!holds(env, "HIP_VISIBLE_DEVICES=6,7"));
    ck_assert(holds(env, "LOCAL_RANK=2"));
    free(env);
    conf.virtual_local_rank = true;
    conf.seats = seats;
    (void)snprintf(seats[2].gpu, sizeof(seats[2].gpu), "GPU-2");
    env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "CUDA_VISIBLE_DEVICES=GPU-2"));
    ck_assert(holds(env, "LOCAL_RANK=0"));
    ck_assert(holds(env, "DDP_LOCAL_RANK=2"));
    ck_assert(holds(env, "RANK=6"));
    ck_assert_int_eq(count(env), WANTED + 1);
    free(env);
    conf.hip = true;
    env = worker_env_make(&conf, &world, 2, "", &files, -1);
    ck_assert(holds(env, "CUDA_VISIBLE_DEVICES=GPU-2"));
    ck_assert(holds(env, "HIP_VISIBLE_DEVICES=GPU-2"));
    free(env);
}

/* string.Template's rules, as far as they concern us. */
static const struct {
    const char *given, *made;
} args[] = {
    {"plain", "plain"},
    {"", ""},
    {"${local_rank}", "11"},
    {"$local_rank", "11"},
    {"--gpu=${local_rank}/$local_rank.log", "--gpu=11/11.log"},
    {"$local_ranks", "$local_ranks"},
    {"$local_rank_", "$local_rank_"},
    {"${local_rank", "${local_rank"},
    {"$$local_rank", "$local_rank"},
    {"$$$local_rank", "$11"},
    {"$HOME $", "$HOME $"},
    {"${rank}/${world_size}", "15/12"},
    {"${group_rank}", "1"},
    {"tcp://${master_addr}:${master_port}", "tcp://10.0.0.1:29500"},
    {"$rank $world_size", "$rank $world_size"},
    {"${ranks} ${Rank} ${}", "${ranks} ${Rank} ${}"},
    {"${rank", "${rank"},
    {"$${rank}", "${rank}"},
    {"$$$${rank} $$${rank}", "$${rank} $15"},
    {"${rank}${rank}$", "1515$"},
};

TEST_EACH(test_worker_args_places_are_filled, args)
{
    char given[64];
    (void)snprintf(given, sizeof(given), "%s", args[_i].given);
    char *argv[] = {given, NULL};
    struct worker_places places;
    worker_places_fill(&places, &world, 11);
    char **made = worker_args_make(argv, &places);
    ck_assert_str_eq(made[0], args[_i].made);
    ck_assert_ptr_null(made[1]);
    free(made);
}

static char *trace_of(const struct msg_world *w, int local_rank)
{
    static const char name[] = "TRACEPARENT=";
    char **env = worker_env_make(&conf, w, local_rank, "", &files, -1);
    char *found = NULL;
    for (char **p = env; *p != NULL; p++)
        if (strncmp(*p, name, sizeof(name) - 1) == 0) {
            ck_assert_ptr_null(found);
            found = strdup(*p + sizeof(name) - 1);
        }
    free(env);
    return found;
}

/* All workers of a round are in one span of the launcher's trace, those of
 * another round in another one. */
TEST(test_worker_env_trace_has_a_child_for_each_round)
{
    static const char given[] =
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    struct msg_world later = world;
    later.round++;
    ck_assert_ptr_null(trace_of(&world, 0));
    (void)setenv("TRACEPARENT", given, 1);
    char *one = trace_of(&world, 0);
    ck_assert_str_eq(one,
                     "00-0af7651916cd43dd8448eb211c80319c-9304b898c0cd20e4-01");
    char *same = trace_of(&world, 3), *next = trace_of(&later, 0);
    ck_assert_str_eq(one, same);
    ck_assert_int_eq(strncmp(one, next, 36), 0);
    ck_assert_int_ne(strncmp(one + 36, next + 36, 16), 0);
    free(one);
    free(same);
    free(next);
}

/* What the standard does not allow is the user's business. */
static const char *const no_traces[] = {
    "",
    "x",
    "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c+b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
};

TEST_EACH(test_worker_env_leaves_what_is_no_trace, no_traces)
{
    (void)setenv("TRACEPARENT", no_traces[_i], 1);
    char *seen = trace_of(&world, 0);
    ck_assert_str_eq(seen, no_traces[_i]);
    free(seen);
}

SUITE("worker_env", "fast", FIXTURE(setup, NULL))
