/*
 * launcher/conf/conf: what this launch is, checked once and then frozen. Made
 * from the parsed options (launcher/conf/options) and the environment;
 * everything behind it (drive, agent, spawn) reads only this.
 *
 * Durations are microseconds, named `..._us`. Strings are NUL-terminated and
 * "" where there is none.
 */
#ifndef LAUNCHER_CONF_CONF_H
#define LAUNCHER_CONF_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/conf/output.h"
#include "launcher/hw/nvml.h"
#include "launcher/hw/topology.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/opts.h"

#define CONF_NNODES_MAX          65536
#define CONF_NPROC_MAX           4096
#define CONF_GPUS_MAX            4096  /* bytes of a list of GPUs */
#define CONF_WINDOW_RESTARTS_MAX 64    /* as BUDGET_WINDOW_MAX, the server's */
#define CONF_PORT_C10D           29400 /* torchrun's default of an endpoint */
#define CONF_PORT_STATIC         29500 /* and of --master_port */

#define PREFLIGHT_NAME   "ddprun-preflight" /* argv[0] of the probe */
#define PREFLIGHT_SUFFIX "+preflight"       /* behind the id of the run */

struct tls_key;
struct allow;

enum conf_backend {
    CONF_C10D,
    CONF_STATIC,
};

/* Where one worker sits. */
struct conf_seat {
    char gpu[NVML_UUID_MAX]; /* with virtual_local_rank: the one it sees */
    int numa_node;           /* both with numa_binding only */
    struct cpus cpus;
};

/* When a worker counts as hanging. */
struct hang_limits {
    int64_t beat_us; /* --beat_timeout, MONO_NEVER: off */
    int64_t idle_us; /* --hang_timeout, MONO_NEVER: off */
    bool cpu_counts;
};

struct conf {
    int nnodes_min; /* 1 <= min <= max <= CONF_NNODES_MAX */
    int nnodes_max;
    int nproc; /* workers of this node, 1..CONF_NPROC_MAX */

    char gpus[CONF_GPUS_MAX]; /* CUDA_VISIBLE_DEVICES of all workers; "": as it
                                 is in the environment */
    bool virtual_local_rank;
    enum topology_mode numa_binding;
    struct conf_seat *seats; /* nproc of them, owned */

    char run_id[129]; /* printable, no '/' */
    enum conf_backend backend;

    /*
     * One node and nothing said about where to meet: the server sits on a
     * free port of loopback. The endpoint is then 127.0.0.1, port 0, and
     * is_host 1; the backend is CONF_C10D.
     */
    bool standalone;
    char endpoint_host[256]; /* a name or an address, without brackets */
    int endpoint_port;       /* 0: a free one, only where nnodes_max is 1 */
    int is_host;             /* serve there? -1 find out, 0 no, 1 yes */
    bool loopback; /* localhost or such an address: each machine itself */

    /*
     * This node's wish under c10d, its place under static; below nnodes_max.
     * -1 none (never under static).
     */
    int node_rank;
    char local_addr[256]; /* what the others reach this node by; "" none */

    /* File of the token that all nodes of the run have; "" none. */
    char token_file[4096];
    struct tls_key *token; /* what main made of it, owned by main; or NULL */

    /* What MASTER_ADDR and MASTER_PORT must be: static only (and the endpoint
     * there, unless --master_port says otherwise), "" and 0 under c10d. */
    char master_addr[256];
    int master_port;
    /* Of the workers' store where it is fixed and not, under static, the
     * endpoint's; 0: that one, or under c10d a free one. */
    int store_port;

    int max_restarts;
    int64_t restart_window_us;  /* so many restarts in this time; 0: in all */
    char max_restarts_text[48]; /* as it was given, "3/1h" */
    int node_strikes;           /* failures in a row, 0: off; then ... */
    int64_t cooldown_us;        /* ... its node is set aside for so long */
    int crash_loop;             /* rounds without progress, 0: off */
    int64_t scale_interval_us;

    int64_t join_timeout_us;
    int64_t last_call_timeout_us;
    int64_t close_timeout_us;
    int64_t read_timeout_us;
    int64_t heartbeat_timeout_us;
    int64_t reconnect_timeout_us;
    int64_t shutdown_timeout_us;
    struct hang_limits hang;
    bool cgroup; /* one of our own, where it can be made */

    char health_check[1024]; /* for /bin/sh -c, "" none */
    bool gpu_health_check;
    int64_t health_timeout_us;

    uint64_t signals; /* that end this node's part: launcher/proc/signals.h */
    char signals_text[256];   /* as they were given */
    uint64_t snapshot_memory; /* bytes for its workers; 0: none */

    char role[65];
    char log_dir[4096]; /* "" a fresh temporary one; "/dev/null": no files */
    struct conf_output output;
    bool worker_store;        /* the agent serves the c10d store */
    char store_allow[1024];   /* --worker_store_allow, "": everybody */
    struct allow *store_nets; /* what main made of it, owned by main; or NULL */
    bool store_for_nodes;     /* the members as well */

    /*
     * The program. `argv` is owned, ends with NULL, and is the worker's
     * command line with python and -u where they belong; ${local_rank} is not
     * yet put in. `exec_path` is the file to execve(2), has a slash in it, and
     * could be executed when conf_init looked. `prog_name` is the base name of
     * the script or program (the module's name with -m): what all nodes of a
     * run must have in common; it points into argv.
     */
    char *exec_path; /* owned */
    char **argv;
    const char *prog_name;

    /*
     * --preflight: one probe of ours on each node, whatever the line says about
     * workers; the run has a name of its own. What this node lacks for the real
     * run (a program, GPUs) is no error then but told to all by `..problem`.
     */
    bool preflight;
    char preflight_problem[320];

    /* Sentences for the user: what was accepted but has no meaning here. To be
     * logged once by whoever owns the terminal. */
    char notes[20][256];
    int notes_len;
};

/*
 * Checks everything and fills `c`. Borrows `o` and `program` (the worker's
 * command line as it was given, ends with NULL: argv + o->rest) for the call.
 * Reads the environment (PATH, PYTHON_EXEC, VIRTUAL_ENV, CONDA_PREFIX,
 * CUDA_VISIBLE_DEVICES), this process's CPU affinity and cgroup, and where
 * something depends on GPUs or NUMA nodes NVML, /proc, /dev and /sys.
 *
 * Errors: DDP_E_USAGE a value or a combination that cannot be (the option, the
 * value and what is allowed are named); DDP_E_NOTFOUND, DDP_E_NOTEXEC the
 * program or the interpreter; DDP_E_CONFIG --nproc_per_node=gpu without a GPU,
 * --numa_binding that this machine has not the CPUs for; DDP_E_NOMEM. After an
 * error there is nothing to free. With --preflight no program need be given.
 */
int conf_init(struct conf *c,
              const struct opts *o,
              char *const program[],
              struct ddp_err *err);
void conf_free(struct conf *c);

/* Whether the workers' store is at the rendezvous's own port where this node
 * serves the rendezvous: MASTER_PORT is the endpoint's port then. */
bool conf_shares_port(const struct conf *c);

#endif
