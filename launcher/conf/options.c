#include "launcher/conf/options.h"

#include <stddef.h>

/* Two passes over one table: the groups, then the rows. */

enum group {
#define OPT_GROUP(ident, title) GROUP_##ident,
#define OPT(...)
#include "launcher/conf/options.def"
#undef OPT
#undef OPT_GROUP
    GROUP_COUNT
};

static const char *const groups[] = {
#define OPT_GROUP(ident, title) title,
#define OPT(...)
#include "launcher/conf/options.def"
#undef OPT
#undef OPT_GROUP
};

static const struct opts_row rows[] = {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    {#name, letter, OPTS_##kind, env,           init,                          \
     min,   max,    metavar,     GROUP_##group, help},
#include "launcher/conf/options.def"
#undef OPT
#undef OPT_GROUP
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == OPTIONS_COUNT,
               "one row for each option");
_Static_assert(OPTIONS_COUNT <= OPTS_MAX, "the parser holds all options");

const int options_of_front[] = {
    OPTIONS_hosts,          OPTIONS_hostfile, OPTIONS_launch_with,
    OPTIONS_launch_timeout, OPTIONS_export,   -1,
};

/* torchrun's options, of all versions up to 2.15. A prefix that is unique among
 * them is accepted here, too. */
static const char *const torchruns[] = {
    "nnodes",
    "nproc_per_node",
    "rdzv_backend",
    "rdzv_endpoint",
    "rdzv_id",
    "rdzv_conf",
    "standalone",
    "max_restarts",
    "monitor_interval",
    "start_method",
    "event_log_handler",
    "role",
    "module",
    "no_python",
    "run_path",
    "log_dir",
    "redirects",
    "tee",
    "log_line_prefix_template",
    "local_ranks_filter",
    "duplicate_stdout_filters",
    "duplicate_stderr_filters",
    "node_rank",
    "master_addr",
    "master_port",
    "local_addr",
    "logs_specs",
    "numa_binding",
    "signals_to_handle",
    "shutdown_timeout",
    "virtual_local_rank",
    "print_completion",
    NULL,
};

static const char *const rdzv_keys[] = {
#define KEY(name, ...) #name,
#include "launcher/conf/rdzv_keys.def"
#undef KEY
    NULL,
};

static const struct opts_gone gone[] = {
    {"beat_timeout", "PET_BEAT_TIMEOUT",
     "write it behind the other time, --hang_timeout=SECONDS,BEAT, or "
     "--hang_timeout=0,BEAT for beats alone"},
    {"drain_interval", "PET_DRAIN_INTERVAL",
     "write it behind the check, --drain_check=COMMAND@SECONDS"},
    {"gpu_health_check", "PET_GPU_HEALTH_CHECK",
     "write --health_check=gpu, or gpu,COMMAND for both"},
    {"hang_cpu_counts", "PET_HANG_CPU_COUNTS",
     "a program that computes in silence calls ddp_beat, or writes a number to "
     "$DDP_PROGRESS_FILE"},
    {"health_timeout", "PET_HEALTH_TIMEOUT",
     "write it behind the check, --health_check=COMMAND@SECONDS"},
    {"launch_fanout", "PET_LAUNCH_FANOUT",
     "leave it out: this machine connects to all hosts of the list itself, 32 "
     "at a time"},
    {NULL, NULL, NULL},
};

const struct opts_table options_table = {
    .program = "ddprun",
    .synopsis = "[OPTION]... PROGRAM [ARGUMENT]...",
    .examples =
        "  One node, four workers:\n"
        "    ddprun --nproc_per_node=4 train.py\n"
        "  Two nodes, the same line on each; node1 is one of them:\n"
        "    ddprun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=node1:29500 "
        "train.py\n"
        "  Any executable, one process for each GPU:\n"
        "    ddprun --nproc_per_node=gpu ./simulate --steps=1000\n",
    .about = "Starts PROGRAM as the workers of a distributed job on this node, "
             "restarts them together with those of the other nodes after a "
             "failure, and exits with their status. Options mean what they "
             "mean to torchrun.",
    .manual = "ddprun(1)",
    .version = DDPRUN_VERSION,
    .replaces = "torchrun",
    .replaced = torchruns,
    .groups = groups,
    .groups_len = GROUP_COUNT,
    .keyed = "rdzv_conf",
    .keys = rdzv_keys,
    .rows = rows,
    .rows_len = OPTIONS_COUNT,
    .gone = gone,
};
