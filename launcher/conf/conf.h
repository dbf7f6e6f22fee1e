/*
 * launcher/conf/conf: what this launch is, checked once and then frozen. It is
 * made from the parsed options (launcher/conf/options) and the environment. The
 * loop, the agent and the workers' spawner read this and nothing else.
 *
 * Durations are microseconds and named `..._us`. A string that is not set is
 * "".
 */
#ifndef LAUNCHER_CONF_CONF_H
#define LAUNCHER_CONF_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/hostfile.h"
#include "launcher/conf/output.h"
#include "launcher/hw/nvml.h"
#include "launcher/hw/topology.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/opts.h"

#define CONF_NNODES_MAX          100000 /* join.nodes_max of messages.def */
#define CONF_NPROC_MAX           4096
#define CONF_GPUS_MAX            4096  /* bytes of a list of GPUs */
#define CONF_OWN_GPUS            8     /* join.gpus of messages.def */
#define CONF_WINDOW_RESTARTS_MAX 64    /* as BUDGET_WINDOW_MAX, the server's */
#define CONF_PORT_C10D           29400 /* torchrun's default of an endpoint */
#define CONF_PORT_STATIC         29500 /* and of --master_port */
#define CONF_ENDPOINTS_MAX       16    /* in a list of --rdzv_endpoint */

#define PREFLIGHT_NAME   "ddprun-preflight" /* argv[0] of the probe */
#define PREFLIGHT_SUFFIX "+preflight"       /* behind the id of the run */

struct tls_key;
struct allow;

enum conf_backend {
    CONF_C10D,
    CONF_STATIC,
};

/* Where the rendezvous is served. */
/* Of a host's name that is told to other nodes (join.addr, serves.addr). */
#define CONF_TOLD_HOST_MAX 64

struct conf_endpoint {
    char host[256]; /* a name or an address, without brackets */
    int port;       /* 0: a free one, only if nnodes_max is 1 */
};

/* A value that was taken from the scheduler. */
struct conf_found {
    bool variable;    /* of the workers, no option */
    char name[32];    /* "nnodes" */
    char text[300];   /* its value, as on a command line */
    const char *from; /* the variable */
};
#define CONF_FOUND_MAX 8

/* Whether this process starts launchers on other hosts, and is none itself. */
enum conf_front_kind {
    CONF_FRONT_NONE,  /* it is a launcher */
    CONF_FRONT_SRUN,  /* in the script of a Slurm job of several nodes */
    CONF_FRONT_HOSTS, /* --hosts, --hostfile, the script of another job */
};

struct conf_front {
    enum conf_front_kind kind;
    int nodes;                 /* on which launchers are started */
    struct listed_hosts hosts; /* of HOSTS: as many; owned */
    bool in_job;               /* of HOSTS: a scheduler's, in the script */
    const char *command;       /* of HOSTS: that starts a program there */
    int components;            /* of SRUN: steps, one for each; else 0 */
    int component_nodes[CLUSTER_COMPONENTS_MAX]; /* of each */
    /* Filled in for all launchers, "": none. Not of SRUN with one step. */
    char endpoint[300];
    char run_id[129];
    int64_t timeout_us; /* of HOSTS: for each host to answer */
};

/* The GPU and the CPUs of one worker. */
struct conf_seat {
    char gpu[NVML_UUID_MAX]; /* with virtual_local_rank: the one it sees */
    int numa_node;           /* set with numa_binding only, as is cpus */
    struct cpus cpus;
};

/* How the workers' MPI library finds the other ranks. */
enum conf_mpi {
    CONF_MPI_NONE,
    CONF_MPI_PMI1,
    CONF_MPI_PMIX,
    CONF_MPI_AUTO, /* both */
};

/* --hang_timeout. */
enum conf_hang {
    CONF_HANG_OFF,
    CONF_HANG_TELL,  /* learns what is too long, and tells of it */
    CONF_HANG_AUTO,  /* the same, and the worker counts as failed */
    CONF_HANG_FIXED, /* the times below */
};

/* Whether a hang ends the round, and not only words are made of it. */
static inline bool conf_hang_acts(enum conf_hang how)
{
    return how == CONF_HANG_AUTO || how == CONF_HANG_FIXED;
}

/* When a worker hangs. */
struct hang_limits {
    enum conf_hang how;
    int64_t idle_us; /* FIXED: without progress, MONO_NEVER: off ... */
    int64_t beat_us; /* ... and without a beat */
};

struct conf {
    int nnodes_min; /* 1 <= min <= max <= CONF_NNODES_MAX */
    int nnodes_max;
    int nproc;           /* workers of this node, 1..CONF_NPROC_MAX */
    bool oversubscribed; /* they are more than the CPUs that they may use */

    char gpus[CONF_GPUS_MAX]; /* CUDA_VISIBLE_DEVICES of all workers; "": that
                                 of the environment */
    bool hip; /* HIP_VISIBLE_DEVICES is set like CUDA_VISIBLE_DEVICES: AMD's */
    char own_gpus[CONF_OWN_GPUS][NVML_UUID_MAX]; /* UUIDs of the first ones, if
                          there is a worker for each; "" ends them */
    bool virtual_local_rank;
    enum topology_mode numa_binding;
    struct conf_seat *seats; /* nproc of them, owned */

    char run_id[129]; /* printable, no '/' */
    enum conf_backend backend;

    /*
     * One node, and no endpoint was given: the server uses a free port of
     * loopback. The endpoint is then 127.0.0.1, port 0, is_host is 1, and the
     * backend CONF_C10D.
     */
    bool standalone;
    /* In the order in which they are tried; several only under c10d. */
    struct conf_endpoint endpoints[CONF_ENDPOINTS_MAX];
    int endpoints_len; /* 1 or more */
    int is_host;       /* whether to serve there: -1 find out, 0 no, 1 yes */
    bool loopback; /* all are localhost or such an address, which means another
                      machine on each machine */
    /* What starts the launchers of the other nodes: "the front end", "the
     * scheduler"; NULL: the user does. */
    const char *starter;

    /*
     * This node's wish under c10d, its place under static; below nnodes_max.
     * -1 none (never under static).
     */
    int node_rank;
    char local_addr[256]; /* address by which the others reach this node */

    char token_file[4096]; /* with the token that all nodes of the run have */
    char http_hosts[1024]; /* --http_hosts, "": none */
    struct tls_key *token; /* read from it by main, which owns it; or NULL */

    /* MASTER_ADDR and MASTER_PORT under static: the endpoint, unless
     * --master_port gives another port. Under c10d "" and 0. */
    char master_addr[256];
    int master_port;
    /* Port of the workers' store. 0: under static the endpoint's, under c10d a
     * free one. */
    int store_port;

    int max_restarts;
    int64_t restart_window_us;  /* max_restarts within this time; 0: in all */
    char max_restarts_text[48]; /* as it was given, "3/1h" */
    int node_strikes;           /* in a row until a node ... */
    int64_t cooldown_us;        /* ... is quarantined for this time; 0: off */
    int crash_loop;             /* rounds without progress, 0: off */
    int64_t scale_interval_us;

    int64_t join_timeout_us;
    int64_t last_call_timeout_us;
    int64_t close_timeout_us;
    int64_t read_timeout_us;
    int64_t heartbeat_timeout_us;
    int64_t reconnect_timeout_us;
    int64_t shutdown_timeout_us;
    int64_t death_grace_us;   /* the next one, if a signal killed a worker */
    int64_t failure_grace_us; /* may be above shutdown_timeout_us */
    int64_t
        unkilled_us; /* after which a node is given up where the kernel holds
                        a worker back from SIGKILL; MONO_NEVER: never */
    struct hang_limits hang;
    char standby[4096]; /* modules to import ahead, with commas; "auto":
                           learnt from the workers; "": none */
    enum conf_mpi mpi;
    bool cgroup; /* for the workers, if it can be made */

    char health_check[1024]; /* for /bin/sh -c, "" none */
    bool gpu_health_check;
    int64_t health_timeout_us;
    char drain_check[1024]; /* the same; 1: the node is to be drained */
    int64_t drain_interval_us;
    int64_t drain_timeout_us; /* for each check */

    uint64_t signals; /* that end this node's part: launcher/proc/signals.h */
    char signals_text[256]; /* as they were given */
    uint64_t
        notices;  /* among `signals`: workers are asked to leave at a step */
    bool requeue; /* Slurm is to run the job again after one, or SIGTERM */
    uint64_t snapshot_memory; /* bytes for its workers; 0: none */

    char role[65];
    char log_dir[4096]; /* "": a new temporary one; "/dev/null": no files */
    struct conf_output output;
    bool worker_store;        /* the agent serves the c10d store */
    char store_allow[1024];   /* --worker_store_allow, "": all hosts may */
    struct allow *store_nets; /* made of it by main, which owns it; or NULL */
    bool store_for_nodes;     /* the run's nodes may as well */

    /*
     * The program. `argv` is owned, ends with NULL, and is the worker's
     * command line, with python and -u for a Python program; ${local_rank} and
     * the like are not yet replaced. `exec_path` is the file to execve(2); it
     * has a slash in it, and was executable when conf_init looked. `prog_name`
     * is the base name of the script or program (the module's name with -m),
     * which must be the same on all nodes of a run; it points into argv.
     */
    char *exec_path; /* owned */
    char **argv;
    const char *prog_name;

    /* What a scheduler told (launcher/cluster): "Slurm job 17", "" if nothing
     * was taken from any. */
    char cluster_job[200];
    struct conf_found found[CONF_FOUND_MAX];
    int found_len;
    char place[256]; /* of this node in the job, "slurm-17.0 1"; "": not told */
    struct conf_front front;
    bool task_vars; /* workers inherit the variables of the launcher's task */
    bool in_task;   /* a scheduler started this: it may signal all at once */

    /*
     * --preflight: one probe on each node in place of the workers, in a run
     * with a name of its own. If this node lacks something for the real run (a
     * program, GPUs) that is no error, but kept in `preflight_problem`, which
     * the preflight reports.
     */
    bool preflight;
    char preflight_problem[320];

    /* Sentences for the user about options that were accepted and have no
     * effect. The process that owns the terminal logs them once. */
    char notes[32][256];
    int notes_len;
};

/*
 * Checks all options and fills `c`. Borrows `o` and `program` (the worker's
 * command line as it was given, ends with NULL: argv + o->rest) for the call.
 * Reads the environment (PATH, PYTHON_EXEC, VIRTUAL_ENV, CONDA_PREFIX,
 * CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES), the CPU
 * affinity and cgroup of this process, and NVML, /proc, /dev and /sys if an
 * option depends on GPUs or NUMA nodes.
 *
 * Errors: DDP_E_USAGE a value or a combination that is not allowed (the message
 * names the option, the value and what is allowed); DDP_E_NOTFOUND,
 * DDP_E_NOTEXEC, DDP_E_NOINPUT the program or the interpreter; DDP_E_CONFIG
 * --nproc_per_node=gpu or --gpus without a GPU, or --numa_binding without
 * enough CPUs; DDP_E_NOMEM. After an error there is nothing to free. With
 * --preflight the program can be missing. If c->front.kind is not NONE, what
 * this machine lacks is no error: the program and GPUs are other hosts'.
 */
int conf_init(struct conf *c,
              const struct opts *o,
              char *const program[],
              struct ddp_err *err);
void conf_free(struct conf *c);

/* Whether the workers' store shares the port of the rendezvous if this node
 * serves both: MASTER_PORT is then the endpoint's port. */
bool conf_shares_port(const struct conf *c);

/* The endpoints for people: "a port 29500, b port 29500". Of many, the first
 * ones and how many more there are. Port 0, which only one that is alone has:
 * "a free port of a". */
#define CONF_ENDPOINTS_TEXT_MAX 900
void conf_endpoints_text(const struct conf *c,
                         char text[CONF_ENDPOINTS_TEXT_MAX]);

/* A server's place for people: `target` ("ADDR:PORT") or, if that is "", the
 * endpoint of that number, as the user named it. */
#define CONF_PLACE_MAX 320
void conf_place_text(const struct conf *c,
                     const char *target,
                     int which,
                     char text[CONF_PLACE_MAX]);

#endif
