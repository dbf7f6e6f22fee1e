/* links: launcher/conf/from_cluster tests/lib/{conf_line,words} */
/* libs: -lcjson -ldl */
/*
 * What a scheduler's variables make of a command line of ddprun: what is filled
 * in, what stays as it was written, and what is refused.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/cluster/cluster.h"
#include "launcher/conf/conf.h"
#include "launcher/conf/options.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define STEP                                                                   \
    "SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=3 "                  \
    "SLURM_STEP_NODELIST=n[1-3] SLURM_NODEID=1 "
#define ALONE                                                                  \
    "SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 "                  \
    "SLURM_STEP_NODELIST=n1 SLURM_NODEID=0 "
#define SCRIPT                                                                 \
    "SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=3 SLURM_JOB_NODELIST=n[1-3] "
#define SAGEMAKER                                                              \
    "SM_HOSTS=[\"a\",\"b\"] SM_CURRENT_HOST=b "                                \
    "SM_NETWORK_INTERFACE_NAME=eth1 "
#define SECOND "SLURM_LOCALID=1 "
#define MPI    "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 "

/* "MIN-MAX nodes, rank R, BACKEND at HOST:PORT, N workers, ID". */
static void describe(const struct conf *c, char out[512])
{
    (void)snprintf(
        out, 512, "%d-%d nodes, rank %d, %s at %s:%d, %d workers, %s",
        c->nnodes_min, c->nnodes_max, c->node_rank,
        c->standalone               ? "alone"
        : c->backend == CONF_STATIC ? "static"
                                    : "c10d",
        c->endpoints[0].host, c->endpoints[0].port, c->nproc, c->run_id);
}

static const struct {
    const char *env, *line;
    const char *conf; /* as described, or a part of the error */
} cases[] = {
    /* -- all is taken ---- */
    {STEP, "prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 1 workers, slurm-17.0"},
    {STEP "SLURM_GPUS_ON_NODE=4", "prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 4 workers, slurm-17.0"},
    {STEP "SLURM_GPUS_ON_NODE=4", "--nproc_per_node=2 prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 2 workers, slurm-17.0"},
    {STEP "PET_NPROC_PER_NODE=3", "prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 3 workers, slurm-17.0"},
    {STEP, "--rdzv_id=mine prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 1 workers, mine"},
    {STEP, "--rdzv_id= prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 1 workers, slurm-17.0"},
    {STEP, "--rdzv_backend=static prog",
     "3-3 nodes, rank 1, static at n1:23017, 1 workers, slurm-17.0"},
    {STEP, "--rdzv_endpoint=h:1234 prog",
     "3-3 nodes, rank 1, c10d at h:1234, 1 workers, slurm-17.0"},
    {STEP, "--cluster=slurm prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 1 workers, slurm-17.0"},
    {STEP "PET_CLUSTER=slurm", "prog",
     "3-3 nodes, rank 1, c10d at n1:23017, 1 workers, slurm-17.0"},
    {STEP, "--master_port=1234 prog",
     "3-3 nodes, rank 1, static at n1:1234, 1 workers, slurm-17.0"},
    {ALONE, "prog",
     "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, slurm-17.0"},

    /* -- --nnodes is said: endpoint, rank and id are taken ---- */
    {STEP "SLURM_GPUS_ON_NODE=4", "--nnodes=2 prog",
     "2-2 nodes, rank 1, c10d at n1:23017, 1 workers, slurm-17.0"},
    {STEP, "--nnodes=2:3 --nproc_per_node=2 prog",
     "2-3 nodes, rank 1, c10d at n1:23017, 2 workers, slurm-17.0"},
    {STEP "PET_NNODES=2", "prog",
     "2-2 nodes, rank 1, c10d at n1:23017, 1 workers, slurm-17.0"},
    {STEP, "--nnodes=2 --node_rank=0 prog",
     "2-2 nodes, rank 0, static at n1:23017, 1 workers, slurm-17.0"},

    /* -- torchrun's lines keep their meaning ---- */
    {STEP, "--standalone prog", NULL},
    {STEP, "--nnodes=1 prog",
     "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, none"},
    {STEP, "--nnodes=1:1 prog",
     "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, none"},
    {STEP "PET_NNODES=1:1", "prog",
     "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, none"},
    {SCRIPT, "--nnodes=1:1 prog", NULL},
    {STEP, "--nnodes=2 --rdzv_endpoint=h:1234 prog",
     "2-2 nodes, rank -1, c10d at h:1234, 1 workers, none"},
    {STEP,
     "--nnodes=2 --rdzv_backend=c10d --rdzv_id=4 --rdzv_endpoint=h:1 prog",
     "2-2 nodes, rank -1, c10d at h:1, 1 workers, 4"},
    {STEP, "--nnodes=2 --node_rank=0 --master_addr=h prog",
     "2-2 nodes, rank 0, static at h:29500, 1 workers, none"},
    {STEP, "--rdzv_endpoint=localhost:29400 prog",
     "1-1 nodes, rank -1, c10d at localhost:29400, 1 workers, none"},
    {STEP, "--rdzv_endpoint=localhost:0 prog",
     "1-1 nodes, rank -1, c10d at localhost:0, 1 workers, none"},
    {STEP, "--rdzv_endpoint=n9:0 prog",
     "1-1 nodes, rank -1, c10d at n9:0, 1 workers, none"},
    {STEP, "--rdzv_endpoint=:29500 prog", "is a variable empty?"},
    {STEP, "--cluster=none prog",
     "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, none"},
    {"", "prog", "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, none"},
    {SCRIPT, "--rdzv_endpoint=h:1 prog",
     "1-1 nodes, rank -1, c10d at h:1, 1 workers, none"},
    {SCRIPT, "--standalone prog", NULL},
    {STEP "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=h", "prog",
     "2-2 nodes, rank 1, static at h:29500, 1 workers, none"},

    /* -- several launchers on one host ---- */
    {STEP SECOND, "prog", "SLURM_LOCALID=1: more than one ddprun"},
    {STEP SECOND, "--nnodes=2 --rdzv_endpoint=h:1 prog", "--ntasks-per-node=1"},
    {STEP SECOND, "--nnodes=1:2 --rdzv_endpoint=h:1 prog",
     "--ntasks-per-node=1"},
    {ALONE SECOND, "prog", "--standalone"},
    {STEP SECOND, "--standalone prog", NULL},
    {STEP SECOND, "--nnodes=1 prog",
     "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, none"},
    {STEP SECOND,
     "--nnodes=1:1 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 prog",
     "1-1 nodes, rank -1, c10d at localhost:0, 1 workers, none"},
    {STEP SECOND, "--cluster=none --nnodes=2 --rdzv_endpoint=h:1 prog",
     "2-2 nodes, rank -1, c10d at h:1, 1 workers, none"},

    /* -- what cannot be ---- */
    {SCRIPT, "prog", "Slurm job 17 has 3 nodes, and this is its job script"},
    {SCRIPT, "--nnodes=3 prog",
     "is not in PATH: start it by srun --ntasks-per-node=1 ddprun ..."},
    {MPI, "prog",
     "Open MPI does not tell where its nodes can meet: add --rdzv_endpoint"},
    {MPI, "--rdzv_endpoint=h:1 prog",
     "2-2 nodes, rank 1, c10d at h:1, 1 workers, none"},
    {MPI, "--master_addr=h prog",
     "2-2 nodes, rank 1, static at h:29500, 1 workers, none"},
    {STEP "SLURM_NODEID=7", "--nnodes=2 prog",
     "SLURM_NODEID says that this is node 7"},
    {STEP, "--cluster=pbs prog", "--cluster=pbs: it did not start"},
    {STEP, "--cluster=what prog", "--cluster=what: must be one of auto, none"},
    {"", "--cluster=what --standalone prog", "--cluster=what: must be one of"},
    {"", "--cpu_bind=none prog", "--cpu_bind=none: must be auto or keep"},
    {"JOB_COMPLETION_INDEX=1", "prog",
     "1-1 nodes, rank -1, alone at 127.0.0.1:0, 1 workers, none"},
    {"JOB_COMPLETION_INDEX=1", "--nnodes=2 --rdzv_endpoint=h:1 prog",
     "2-2 nodes, rank -1, c10d at h:1, 1 workers, none"},
};

TEST_EACH(test_conf_takes_what_nobody_said_from_the_scheduler, cases)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    char got[512];
    if (conf_line_conf(&c, cases[_i].env, cases[_i].line, &err) < 0) {
        ck_assert_msg(cases[_i].conf != NULL &&
                          strstr(err.text, cases[_i].conf) != NULL,
                      "%s: %s", cases[_i].line, err.text);
        ck_assert_int_eq(err.code, DDP_E_USAGE);
        return;
    }
    describe(&c, got);
    if (cases[_i].conf !=
        NULL) /* else a world of its own, with a random name */
        ck_assert_str_eq(got, cases[_i].conf);
    else
        ck_assert(c.standalone && c.nnodes_max == 1 && c.found_len == 0);
    conf_free(&c);
}

/* One line for people, and the values with their sources for --dry_run. */
TEST(test_conf_says_what_it_found)
{
    struct conf c;
    struct ddp_err err;
    char line[512] = "";
    ck_assert_int_eq(
        conf_line_conf(&c, STEP "SLURM_GPUS_ON_NODE=4", "prog", &err), 0);
    for (int i = 0; i < c.notes_len; i++)
        if (strstr(c.notes[i], "Slurm job 17:") != NULL)
            (void)snprintf(line, sizeof(line), "%s", c.notes[i]);
    ck_assert_ptr_nonnull(strstr(line, "Slurm job 17: 3 nodes, this is "));
    ck_assert_ptr_nonnull(strstr(line, " (node 1), meeting at n1:23017"));
    static const char *const want[][3] = {
        {"nnodes", "3", "SLURM_STEP_NUM_NODES"},
        {"nproc_per_node", "4", "SLURM_GPUS_ON_NODE"},
        {"rdzv_endpoint", "n1:23017", "SLURM_STEP_NODELIST"},
        {"node_rank", "1", "SLURM_NODEID"},
        {"rdzv_id", "slurm-17.0", "SLURM_JOB_ID"},
    };
    ck_assert_int_eq(c.found_len, 5);
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(c.found[i].name, want[i][0]);
        ck_assert_str_eq(c.found[i].text, want[i][1]);
        ck_assert_str_eq(c.found[i].from, want[i][2]);
    }
    ck_assert(c.in_task && !c.task_vars);
    conf_free(&c);
    ck_assert_int_eq(conf_line_conf(&c, STEP, "--cluster=none prog", &err), 0);
    ck_assert(!c.in_task && c.task_vars && c.found_len == 0);
    conf_free(&c);
}

/* Where others start the launchers, nobody is asked to do it. */
TEST(test_conf_knows_what_starts_the_others)
{
    static const struct {
        const char *env, *line, *starter;
    } given[] = {
        {"", "--nnodes=2 --rdzv_endpoint=h:1 prog", NULL},
        {"", "--hosts= --hostfile= --nnodes=2 --rdzv_endpoint=h:1 prog",
         "the front end"},
        {STEP, "prog", "the scheduler"},
        {STEP, "--nnodes=2 --rdzv_endpoint=h:1 prog", NULL},
        {STEP, "--hosts= --hostfile= --nnodes=3 --rdzv_endpoint=h:1 prog",
         "the front end"},
    };
    for (size_t k = 0; k < sizeof(given) / sizeof(given[0]); k++) {
        struct conf c;
        struct ddp_err err;
        ck_assert_msg(conf_line_conf(&c, given[k].env, given[k].line, &err) ==
                          0,
                      "%s", err.text);
        if (given[k].starter == NULL)
            ck_assert_ptr_null(c.starter);
        else
            ck_assert_pstr_eq(c.starter, given[k].starter);
        conf_free(&c);
    }
}

/* A node that cannot know of the others says so, unless it is to be alone. */
TEST(test_conf_says_that_the_number_of_nodes_is_not_told)
{
    static const struct {
        const char *line;
        bool said;
    } given[] = {{"prog", true},
                 {"--nnodes=2 --rdzv_endpoint=h:1 prog", false},
                 {"--nnodes=1 prog", false},
                 {"--standalone prog", false},
                 {"--cluster=none prog", false}};
    for (size_t k = 0; k < sizeof(given) / sizeof(given[0]); k++) {
        struct conf c;
        struct ddp_err err;
        bool said = false;
        ck_assert_int_eq(
            conf_line_conf(&c, "JOB_COMPLETION_INDEX=1", given[k].line, &err),
            0);
        for (int i = 0; i < c.notes_len; i++)
            said |= strstr(c.notes[i], "this is node 1, but how many") != NULL;
        ck_assert_int_eq(said, given[k].said);
        conf_free(&c);
    }
}

/* An interface is a variable of the workers, unless the user has set it. */
TEST(test_conf_tells_workers_which_interface_the_scheduler_named)
{
    static const struct {
        const char *env, *line;
        const char *vars; /* of the workers */
    } given[] = {
        {SAGEMAKER, "prog", "NCCL_SOCKET_IFNAME=eth1 GLOO_SOCKET_IFNAME=eth1 "},
        {SAGEMAKER "NCCL_SOCKET_IFNAME=eth2 ", "prog",
         "GLOO_SOCKET_IFNAME=eth1 "},
        {SAGEMAKER "NCCL_SOCKET_IFNAME= GLOO_SOCKET_IFNAME=eth2", "prog", ""},
        {SAGEMAKER, "--nnodes=2 --rdzv_endpoint=h:1 prog", ""},
        {SAGEMAKER, "--standalone prog", ""},
        {"SM_HOSTS=[\"a\"] SM_CURRENT_HOST=a SM_NETWORK_INTERFACE_NAME=eth1",
         "prog", ""},
    };
    for (size_t k = 0; k < sizeof(given) / sizeof(given[0]); k++) {
        struct conf c;
        struct ddp_err err;
        char vars[256] = "";
        FILE *f = fmemopen(vars, sizeof(vars), "w");
        ck_assert_ptr_nonnull(f);
        ck_assert_int_eq(conf_line_conf(&c, given[k].env, given[k].line, &err),
                         0);
        for (int i = 0; i < c.found_len; i++)
            if (c.found[i].variable)
                fprintf(f, "%s=%s ", c.found[i].name, c.found[i].text);
        ck_assert_int_eq(fclose(f), 0);
        ck_assert_str_eq(vars, given[k].vars);
        conf_free(&c);
    }
}

/* The help has the names of the table. */
TEST(test_conf_help_names_all_schedulers)
{
    char names[200];
    const char *help = options_table.rows[OPTIONS_cluster].help;
    cluster_names(names, sizeof(names));
    for (char *save, *name = strtok_r(names, ", ", &save); name != NULL;
         name = strtok_r(NULL, ", ", &save))
        ck_assert_msg(strstr(help, name) != NULL, "%s", name);
}

SUITE("conf_cluster", "cluster", FIXTURE_ONCE(conf_line_setup, scratch_leave))
