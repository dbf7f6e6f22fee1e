/* links: launcher/conf_words */
/* links: launcher/conf launcher/conf_output launcher/conf_meet */
/* links: launcher/conf_rdzv */
/* links: launcher/conf_program launcher/options launcher/program */
/* links: launcher/conf_place launcher/cpus launcher/topology launcher/nvml */
/* links: launcher/gpus launcher/signals rendezvous/base/opts_complete */
/* libs: -ldl */
/* links: rendezvous/base/opts_help rendezvous/base/opts */
/* links: rendezvous/base/err rendezvous/base/rng rendezvous/base/log */
/* Command lines of ddprun and what becomes of them: tables of line → conf, and
 * of line → error. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/conf.h"
#include "rendezvous/core/budget.h"
#include "launcher/signals.h"
#include "launcher/options.h"
#include "launcher/preflight.h"

/* -- a folder with programs, and a way to write a command line ---------------
 */

static char root[] = "/tmp/check_conf.XXXXXX";
static char bin_dir[sizeof(root) + 4];

static void put(const char *name, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "#!/bin/sh\n", 10), 10);
    ck_assert_int_eq(close(fd), 0);
}

/* Everything is relative to the folder, which is the current one. */
static void make_root(void)
{
    static const char *const dirs[] = {"bin",   "none",      "venv", "venv/bin",
                                       "conda", "conda/bin", "logs"};
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(chdir(root), 0);
    (void)snprintf(bin_dir, sizeof(bin_dir), "%s/bin", root);
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        ck_assert_int_eq(mkdir(dirs[i], 0755), 0);
    put("bin/prog", 0755);
    put("bin/notexec", 0644);
    put("bin/python3", 0755);
    put("bin/pypy", 0755);
    put("venv/bin/python3", 0755);
    put("conda/bin/python", 0755);
    put("here", 0755);
    put("data", 0644);
    put("train.py", 0644);
    put("run.py", 0755);
}

static void remove_root(void)
{
    static const char *const names[] = {"bin/prog",
                                        "bin/notexec",
                                        "bin/python3",
                                        "bin/pypy",
                                        "venv/bin/python3",
                                        "conda/bin/python",
                                        "here",
                                        "data",
                                        "train.py",
                                        "run.py",
                                        "bin",
                                        "none",
                                        "venv/bin",
                                        "venv",
                                        "conda/bin",
                                        "conda",
                                        "logs",
                                        "."};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)remove(names[i]); /* the GPUs are there in one test only */
    (void)rmdir(root);
}

static char words[1024];
static char *argv_made[64];
static int argc_made;

static void make_argv(const char *line)
{
    int n = snprintf(words, sizeof(words), "ddprun %s", line);
    ck_assert(n > 0 && (size_t)n < sizeof(words));
    argc_made = 0;
    for (char *save, *w = strtok_r(words, " ", &save); w != NULL;
         w = strtok_r(NULL, " ", &save)) {
        ck_assert_int_lt(argc_made, 63);
        if (strcmp(w, "''") == 0)
            *w = '\0';
        argv_made[argc_made++] = w;
    }
    argv_made[argc_made] = NULL;
}

static void make_env(const char *env)
{
    char copy[512];
    ck_assert_int_eq(clearenv(), 0);
    ck_assert_int_eq(setenv("PATH", "none::bin", 1), 0);
    ck_assert_uint_lt(strlen(env), sizeof(copy));
    memcpy(copy, env, strlen(env) + 1);
    for (char *save, *w = strtok_r(copy, " ", &save); w != NULL;
         w = strtok_r(NULL, " ", &save)) {
        char *value = strchr(w, '=');
        ck_assert_ptr_nonnull(value);
        *value++ = '\0';
        ck_assert_int_eq(setenv(w, value, 1), 0);
    }
}

static int make_conf(struct conf *c,
                     const char *env,
                     const char *line,
                     struct ddp_err *err)
{
    struct opts o;
    make_env(env);
    make_argv(line);
    if (opts_parse(&o, &options_table, argc_made, argv_made, err) < 0)
        return -1;
    return conf_init(c, &o, argv_made + o.rest, err);
}

/* -- preflight ---------------------------------------------------------------
 */

/* The same line, with and without a program: one probe in a run of its own, and
 * nothing that the line says about workers counts. */
START_TEST(test_conf_preflight_runs_the_probe)
{
    static const char *const lines[] = {
        "--preflight",
        "--preflight --nproc_per_node=4 --max_restarts=3/1h -t 3 prog a b",
        "--preflight --virtual_local_rank --gpus=0,1 --nproc_per_node=2 prog",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct conf c;
        struct ddp_err err;
        ck_assert_int_eq(make_conf(&c, "PET_RDZV_ID=job", lines[i], &err), 0);
        ck_assert(c.preflight);
        ck_assert_str_eq(c.run_id, "job" PREFLIGHT_SUFFIX);
        ck_assert_str_eq(c.preflight_problem, "");
        ck_assert_int_eq(c.nproc, 1);
        ck_assert_int_eq(c.restart_window_us, 0);
        ck_assert(!c.virtual_local_rank);
        ck_assert_str_eq(c.gpus, "");
        ck_assert_str_eq(c.argv[0], PREFLIGHT_NAME);
        ck_assert_ptr_null(c.argv[1]);
        ck_assert_str_eq(c.prog_name, PREFLIGHT_NAME);
        ck_assert(!c.output.files);
        conf_free(&c);
    }
}
END_TEST

/* What is missing on this node is told to all; what is wrong with the line is
 * an error as ever. */
START_TEST(test_conf_preflight_tells_what_is_missing)
{
    struct conf c;
    struct ddp_err err;
    ck_assert_int_eq(make_conf(&c, "", "--preflight nothere", &err), 0);
    ck_assert_str_eq(c.preflight_problem, "nothere: not found in PATH");
    conf_free(&c);
    ck_assert_int_eq(make_conf(&c, "", "--preflight --nnodes=x prog", &err),
                     -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_int_eq(make_conf(&c, "", "--preflight --dry_run prog", &err), -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
}
END_TEST

/* -- where to meet -----------------------------------------------------------
 */

/* What `meeting` says: nodes, workers, backend, endpoint, who serves, rank,
 * what MASTER_ADDR:MASTER_PORT must be, and the number of notes. */
static const char *meeting(const struct conf *c, char text[512])
{
    char master[300] = "-";
    if (c->master_addr[0] != '\0')
        (void)snprintf(master, sizeof(master), "%s %d", c->master_addr,
                       c->master_port);
    else
        ck_assert_int_eq(c->master_port, 0);
    (void)snprintf(text, 512, "%d:%d %s%s at %s %d host %d rank %d master %s%s",
                   c->nnodes_min, c->nnodes_max,
                   c->backend == CONF_STATIC ? "static" : "c10d",
                   c->standalone ? " alone" : "", c->endpoint_host,
                   c->endpoint_port, c->is_host, c->node_rank, master,
                   c->notes_len > 0 ? " noted" : "");
    return text;
}

#define ALONE "1:1 c10d alone at 127.0.0.1 0 host 1 rank "

static const struct {
    const char *env;
    const char *line; /* without the program */
    const char *want;
} meetings[] = {
    /* one node */
    {"", "", ALONE "-1 master -"},
    {"", "--nnodes=1:1", ALONE "-1 master -"},
    {"", "--rdzv_backend=c10d", ALONE "-1 master -"},
    {"", "--rdzv_backend=static", ALONE "0 master -"},
    {"", "--node_rank=0", ALONE "0 master -"},
    {"", "--master_addr=10.0.0.1", ALONE "0 master -"},
    {"", "--standalone", ALONE "-1 master -"},
    {"", "--standalone --nnodes=1:4", ALONE "-1 master - noted"},
    {"", "--standalone --rdzv_endpoint=h:1", ALONE "-1 master - noted"},
    {"PET_STANDALONE=1", "", ALONE "-1 master -"},
    {"", "--master_port=29501",
     "1:1 static at 127.0.0.1 29501 host 1 rank 0 master 127.0.0.1 29501"},
    {"", "--master_addr=h --master_port=1",
     "1:1 static at h 1 host 1 rank 0 master h 1"},
    {"", "--rdzv_endpoint=localhost:0",
     "1:1 c10d at localhost 0 host 1 rank -1 master -"},
    {"", "--rdzv_endpoint=h", "1:1 c10d at h 29400 host -1 rank -1 master -"},
    /* several, c10d */
    {"", "--nnodes=2 --rdzv_endpoint=host:29500",
     "2:2 c10d at host 29500 host -1 rank -1 master -"},
    {"", "--nnodes=1:2 --rdzv-endpoint host --rdzv-backend c10d",
     "1:2 c10d at host 29400 host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=[fd00::1]:7",
     "2:2 c10d at fd00::1 7 host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=[fe80::1%eth0]",
     "2:2 c10d at fe80::1%eth0 29400 host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=:7",
     "2:2 c10d at localhost 7 host -1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --node_rank=1",
     "2:2 c10d at h 7 host -1 rank 1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --node_rank=2",
     "2:2 c10d at h 7 host -1 rank -1 master - noted"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_backend=c10d --master_addr=g",
     "2:2 c10d at h 7 host -1 rank -1 master - noted"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_conf=is_host=1",
     "2:2 c10d at h 7 host 1 rank -1 master -"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --rdzv_conf=is_host=No",
     "2:2 c10d at h 7 host 0 rank -1 master -"},
    {"PET_RDZV_ENDPOINT=h:7 PET_NNODES=1:3", "",
     "1:3 c10d at h 7 host -1 rank -1 master -"},
    {"PET_RDZV_ENDPOINT=h:7 PET_NNODES=1:3", "--nnodes=2 --rdzv_endpoint=g:8",
     "2:2 c10d at g 8 host -1 rank -1 master -"},
    /* several, static */
    {"", "--nnodes=2 --node_rank=1 --master_addr=h",
     "2:2 static at h 29500 host 0 rank 1 master h 29500"},
    {"", "--nnodes=2 --node_rank=0 --master_addr=[::1] --master_port=5",
     "2:2 static at ::1 5 host 1 rank 0 master ::1 5"},
    {"", "--nnodes=2 --node_rank=0 --master_addr=fd00::2",
     "2:2 static at fd00::2 29500 host 1 rank 0 master fd00::2 29500"},
    {"", "--nnodes=2 --master_addr=h",
     "2:2 static at h 29500 host 1 rank 0 master h 29500 noted"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --node_rank=1",
     "2:2 static at h 7 host 0 rank 1 master h 7"},
    {"", "--nnodes=2 --rdzv_backend=static --rdzv_endpoint=h --node_rank=1",
     "2:2 static at h 29500 host 0 rank 1 master h 29500"},
    {"", "--nnodes=2 --rdzv_endpoint=h --node_rank=1 --master_port=6",
     "2:2 static at h 6 host 0 rank 1 master h 6"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7 --node_rank=1 --master_addr=g",
     "2:2 static at h 7 host 0 rank 1 master h 7 noted"},
    {"PET_NNODES=4 PET_NODE_RANK=3 PET_MASTER_ADDR=h PET_MASTER_PORT=8", "",
     "4:4 static at h 8 host 0 rank 3 master h 8"},
};

/* Options and environment say where the nodes meet and who serves there. */
START_TEST(test_conf_meeting_place_is_found)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    char line[512], text[512];
    (void)snprintf(line, sizeof(line), "%s prog", meetings[_i].line);
    ck_assert_msg(make_conf(&c, meetings[_i].env, line, &err) == 0, "%s: %s",
                  line, err.text);
    ck_assert_str_eq(meeting(&c, text), meetings[_i].want);
    conf_free(&c);
}
END_TEST

/* MASTER_PORT: where it is fixed, and whether the rendezvous's own port is the
 * workers' store's as well, which then hands connections over. */
static const struct {
    const char *line;
    int store_port; /* 0: not fixed, or the endpoint's */
    bool shared;
} stores[] = {
    {"", 0, false},
    {"--standalone --master_port=5", 5, false},
    {"--master_port=5", 0, true},
    {"--master_port=5 --worker_store=none", 0, false},
    {"--rdzv_endpoint=h:7", 0, false},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=5", 5, false},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=7", 7, true},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=7 "
     "--worker_store=none",
     7, false},
    {"--rdzv_endpoint=h:7 --rdzv_backend=c10d --master_port=7 "
     "--rdzv_conf=is_host=0",
     7, false},
    {"--nnodes=2 --master_addr=h --node_rank=0", 0, true},
    {"--nnodes=2 --master_addr=h --node_rank=1", 0, false},
    {"--nnodes=2 --rdzv_endpoint=h:7 --node_rank=0 --master_port=7", 0, true},
    {"--nnodes=2 --rdzv_endpoint=h:7 --node_rank=0 --master_port=5", 5, false},
};

START_TEST(test_conf_master_port_is_found)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    char line[512];
    (void)snprintf(line, sizeof(line), "%s prog", stores[_i].line);
    ck_assert_msg(make_conf(&c, "", line, &err) == 0, "%s: %s", line, err.text);
    ck_assert_int_eq(c.store_port, stores[_i].store_port);
    ck_assert_int_eq(conf_shares_port(&c), stores[_i].shared);
    conf_free(&c);
}
END_TEST

/* -- the other values --------------------------------------------------------
 */

/* Nothing said: torchrun's defaults. */
START_TEST(test_conf_defaults_are_torchruns)
{
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "", "prog", NULL), 0);
    ck_assert_int_eq(c.nproc, 1);
    ck_assert_str_eq(c.run_id, "none");
    ck_assert_str_eq(c.role, "default");
    ck_assert_str_eq(c.log_dir, "");
    ck_assert_str_eq(c.local_addr, "");
    ck_assert_int_eq(c.max_restarts, 0);
    ck_assert_int_eq(c.restart_window_us, 0);
    ck_assert_int_eq(c.crash_loop, 0);
    ck_assert_int_eq(c.scale_interval_us, 30000000);
    ck_assert(c.worker_store);
    ck_assert_int_eq(c.join_timeout_us, 600000000);
    ck_assert_int_eq(c.last_call_timeout_us, 30000000);
    ck_assert_int_eq(c.close_timeout_us, 5000000);
    ck_assert_int_eq(c.read_timeout_us, 60000000);
    ck_assert_int_eq(c.heartbeat_timeout_us, 5000000);
    ck_assert_int_eq(c.reconnect_timeout_us, 600000000);
    ck_assert_int_eq(c.shutdown_timeout_us, 30000000);
    ck_assert_uint_gt(c.snapshot_memory, 0);
    ck_assert_int_eq(c.notes_len, 0);
    conf_free(&c);
}
END_TEST

/* Everything said: all of it arrives. */
START_TEST(test_conf_values_arrive)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(
        make_conf(&c, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7",
                  "--nproc-per-node=8 --rdzv_id=job:1 --role=r --max-restarts=3"
                  " --local_addr=[fd00::5] --log_dir=logs --worker_store=none"
                  " --snapshot_memory=3G"
                  " --monitor_interval=0.5 --rdzv_conf=join_timeout=1,"
                  "last_call_timeout=0,close_timeout=2.5,read_timeout=4,"
                  "heartbeat_timeout=0.3,reconnect_timeout=0.001 prog",
                  &err) == 0,
        "%s", err.text);
    ck_assert_int_eq(c.nproc, 8);
    ck_assert_str_eq(c.run_id, "job:1");
    ck_assert_str_eq(c.role, "r");
    ck_assert_str_eq(c.log_dir, "logs");
    ck_assert_str_eq(c.local_addr, "fd00::5");
    ck_assert_int_eq(c.max_restarts, 3);
    ck_assert(!c.worker_store);
    ck_assert_int_eq(c.join_timeout_us, 1000000);
    ck_assert_int_eq(c.last_call_timeout_us, 0);
    ck_assert_int_eq(c.close_timeout_us, 2500000);
    ck_assert_int_eq(c.read_timeout_us, 4000000);
    ck_assert_int_eq(c.heartbeat_timeout_us, 300000);
    ck_assert_int_eq(c.reconnect_timeout_us, 1000);
    ck_assert_int_eq(c.shutdown_timeout_us, 7000000);
    ck_assert_uint_eq(c.snapshot_memory, UINT64_C(3) << 30);
    ck_assert_int_eq(c.notes_len, 0);
    conf_free(&c);
}
END_TEST

/* A node is lost after so many keep-alives that did not come; a
 * heartbeat_timeout that is given goes before that. */
START_TEST(test_conf_keep_alives_are_a_heartbeat)
{
    static const struct {
        const char *line;
        int64_t heartbeat_us;
    } cases[] = {
        {"prog", 5000000},
        {"--rdzv_conf=keep_alive_interval=2 prog", 6000000},
        {"--rdzv_conf=keep_alive_max_attempt=4 prog", 20000000},
        {"--rdzv_conf=keep_alive_interval=0.5,keep_alive_max_attempt=2 prog",
         1000000},
        {"--rdzv_conf=keep_alive_interval=0.01 prog", 300000},
        {"--rdzv_conf=keep_alive_interval=3000 prog", 3600000000},
        {"--rdzv_conf=keep_alive_interval=2,heartbeat_timeout=1 prog", 1000000},
    };
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(c.heartbeat_timeout_us, cases[_i].heartbeat_us);
    ck_assert_int_eq(c.notes_len, 0);
    conf_free(&c);
}
END_TEST

START_TEST(test_conf_budget_may_have_a_window)
{
    static const struct {
        const char *line;
        int restarts;
        int64_t window_us;
    } cases[] = {
        {"--max_restarts=3 prog", 3, 0},
        {"--max_restarts=3/1h prog", 3, INT64_C(3600000000)},
        {"--max_restarts=2/10m prog", 2, 600000000},
        {"--max_restarts=5/90s prog", 5, 90000000},
        {"--max_restarts=5/90 prog", 5, 90000000},
        {"--max_restarts=64/0.5d prog", 64, INT64_C(43200000000)},
        {"--max_restarts=0/1s prog", 0, 1000000},
    };
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(c.max_restarts, cases[_i].restarts);
    ck_assert_int_eq(c.restart_window_us, cases[_i].window_us);
    conf_free(&c);
    ck_assert_int_eq(CONF_WINDOW_RESTARTS_MAX, BUDGET_WINDOW_MAX);
}
END_TEST

START_TEST(test_conf_strikes_may_have_a_cool_down)
{
    static const struct {
        const char *line;
        int strikes;
        int64_t cooldown_us;
    } cases[] = {
        {"prog", 0, 600000000},
        {"--node_strikes=3 prog", 3, 600000000},
        {"--node_strikes=2/30m prog", 2, 1800000000},
        {"--node_strikes=1/0.5 prog", 1, 500000},
    };
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(c.node_strikes, cases[_i].strikes);
    ck_assert_int_eq(c.cooldown_us, cases[_i].cooldown_us);
    conf_free(&c);
}
END_TEST

/* Streams by number or by local rank, filters with commas in them, sizes with
 * units; ranks that are not here are somebody else's. */
START_TEST(test_conf_output_is_read)
{
    static struct conf c;
    static const char line[] = "--nproc_per_node=12 -r 1 -t 0:2,11:3,99:1 "
                               "--local_ranks_filter=0,11 --log_rotate=2M,7 "
                               "prog";
    ck_assert_int_eq(
        make_conf(&c, "PET_DUPLICATE_STDOUT_FILTERS=a,,b,c", line, NULL), 0);
    const struct conf_output *o = &c.output;
    ck_assert_int_eq(o->redirects[5], 1);
    ck_assert_int_eq(o->tee[0], 2);
    ck_assert_int_eq(o->tee[1], 0);
    ck_assert_int_eq(o->tee[11], 3);
    ck_assert(o->files && o->some_ranks && o->shown[0] && !o->shown[1]);
    ck_assert_int_eq(o->filters[0].len, 2);
    ck_assert_str_eq(o->filters[0].text[0], "a,b");
    ck_assert_str_eq(o->filters[0].text[1], "c");
    ck_assert_int_eq(o->rotate_size, 2 * 1024 * 1024);
    ck_assert_int_eq(o->rotate_keep, 7);
    struct conf_plan p = conf_output_plan(o, 11, CONF_STDOUT); /* tee wins */
    ck_assert(p.piped && p.file && p.console && p.prefix && !p.null);
    p = conf_output_plan(o, 1, CONF_STDOUT);
    ck_assert(p.piped && p.file && !p.console && !p.prefix);
    p = conf_output_plan(o, 1, CONF_STDERR); /* not shown, but its tail kept */
    ck_assert(p.piped && !p.file && !p.console && !p.null);
    conf_free(&c);
}
END_TEST

/* PET_SHUTDOWN_TIMEOUT goes before the older variable, the option before it. */
START_TEST(test_conf_shutdown_timeout_has_three_sources)
{
    static const char env[] =
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7 PET_SHUTDOWN_TIMEOUT=8";
    struct conf c;
    ck_assert_int_eq(make_conf(&c, env, "prog", NULL), 0);
    ck_assert_int_eq(c.shutdown_timeout_us, 8000000);
    conf_free(&c);
    ck_assert_int_eq(make_conf(&c, env, "--shutdown-timeout 9 prog", NULL), 0);
    ck_assert_int_eq(c.shutdown_timeout_us, 9000000);
    conf_free(&c);
}
END_TEST

/* torchrun's keys that mean nothing here are taken with one note; blanks and
 * the older name of last_call_timeout too; `timeout` counts under static. */
START_TEST(test_conf_rdzv_conf_takes_torchruns_keys)
{
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "",
                               "--rdzv_conf rank=1,use_libuv=1,"
                               "store_type=tcp,timeout=9,lastcall=2 prog",
                               NULL),
                     0);
    ck_assert_int_eq(c.notes_len, 1);
    ck_assert_str_eq(c.notes[0], "--rdzv_conf: nothing here depends on "
                                 "rank, use_libuv, timeout");
    ck_assert_int_eq(c.last_call_timeout_us, 2000000);
    ck_assert_int_eq(c.join_timeout_us, 600000000);
    conf_free(&c);
    ck_assert_int_eq(
        make_conf(&c, "", "--master_port=1 --rdzv_conf=timeout=9 prog", NULL),
        0);
    ck_assert_int_eq(c.join_timeout_us, 9000000);
    conf_free(&c);
    ck_assert_int_eq(make_conf(&c, "", "--master_port=1 prog", NULL), 0);
    ck_assert_int_eq(c.join_timeout_us, 900000000);
    conf_free(&c);
    ck_assert_int_eq(setenv("PET_RDZV_CONF", " close_timeout = 4 ", 1), 0);
    struct opts o;
    make_argv("prog");
    ck_assert_int_eq(opts_parse(&o, &options_table, argc_made, argv_made, NULL),
                     0);
    ck_assert_int_eq(conf_init(&c, &o, argv_made + o.rest, NULL), 0);
    ck_assert_int_eq(c.close_timeout_us, 4000000);
    conf_free(&c);
}
END_TEST

/* What has a meaning in Python only is taken and noted. */
START_TEST(test_conf_python_options_are_noted)
{
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "PET_EVENT_LOG_HANDLER=console",
                               "--start_method=fork --logs-specs=x prog", NULL),
                     0);
    ck_assert_int_eq(c.notes_len, 3);
    ck_assert_str_eq(c.notes[0], "--start_method has a meaning in Python only, "
                                 "and is ignored");
    ck_assert_ptr_nonnull(strstr(c.notes[1], "PET_EVENT_LOG_HANDLER"));
    conf_free(&c);
}
END_TEST

/* --standalone and an empty name give a run a random one, a given one stays. */
START_TEST(test_conf_run_id_is_random_where_asked)
{
    struct conf a, b;
    ck_assert_int_eq(make_conf(&a, "", "--standalone prog", NULL), 0);
    ck_assert_int_eq(make_conf(&b, "", "--rdzv_id= prog", NULL), 0);
    ck_assert_uint_eq(strlen(a.run_id), 36);
    ck_assert_uint_eq(strspn(a.run_id, "0123456789abcdef-"), 36);
    ck_assert_uint_eq(strlen(b.run_id), 36);
    ck_assert_str_ne(a.run_id, b.run_id);
    ck_assert_int_eq(b.notes_len, 1);
    conf_free(&a);
    conf_free(&b);
    ck_assert_int_eq(make_conf(&a, "", "--standalone --rdzv_id=x prog", NULL),
                     0);
    ck_assert_str_eq(a.run_id, "x");
    conf_free(&a);
}
END_TEST

/* cpu is what the affinity allows; auto takes it where no GPU is visible. */
START_TEST(test_conf_nproc_cpu_is_counted)
{
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "", "--nproc_per_node=cpu prog", NULL), 0);
    int cpus = c.nproc;
    ck_assert_int_ge(cpus, 1);
    ck_assert_int_le(cpus, (int)sysconf(_SC_NPROCESSORS_CONF));
    conf_free(&c);
    ck_assert_int_eq(make_conf(&c, "CUDA_VISIBLE_DEVICES=",
                               "--nproc_per_node=auto prog", NULL),
                     0);
    ck_assert_int_eq(c.nproc, cpus);
    conf_free(&c);
}
END_TEST

/* --gpus counts within what is visible; each worker gets its own with
 * --virtual_local_rank. */
START_TEST(test_conf_gpus_are_handed_out)
{
    static const struct {
        const char *env, *line;
        const char *gpus, *seat; /* of the last worker */
    } cases[] = {
        {"", "prog", "", ""},
        {"CUDA_VISIBLE_DEVICES=4,5", "prog", "", ""},
        {"CUDA_VISIBLE_DEVICES=4,5,6,7", "--gpus=0,2-3 prog", "4,6,7", ""},
        {"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "--gpus=1 prog", "GPU-b", ""},
        {"CUDA_VISIBLE_DEVICES=4", "--gpus=GPU-c,MIG-d prog", "GPU-c,MIG-d",
         ""},
        {"PET_GPUS=1 CUDA_VISIBLE_DEVICES=4,5", "--gpus=0 prog", "4", ""},
        {"", "--virtual_local_rank --nproc=3 prog", "", "2"},
        {"PET_VIRTUAL_LOCAL_RANK=1 CUDA_VISIBLE_DEVICES=4,5", "--nproc=2 prog",
         "", "5"},
        {"CUDA_VISIBLE_DEVICES=4,5,6", "--gpus=2,0 --virtual --nproc=2 prog",
         "6,4", "4"},
    };
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(make_conf(&c, cases[_i].env, cases[_i].line, &err) == 0, "%s",
                  err.text);
    ck_assert_str_eq(c.gpus, cases[_i].gpus);
    ck_assert_str_eq(c.seats[c.nproc - 1].gpu, cases[_i].seat);
    ck_assert_int_eq(c.virtual_local_rank, cases[_i].seat[0] != '\0');
    conf_free(&c);
}
END_TEST

/* Workers are bound to CPUs that this process may use, each to its own. */
START_TEST(test_conf_workers_are_bound)
{
    struct conf c;
    struct cpus allowed, both;
    cpus_allowed(&allowed);
    if (cpus_count(&allowed) < 4)
        return; /* one core may be all there is */
    ck_assert_int_eq(make_conf(&c, "CUDA_VISIBLE_DEVICES=",
                               "--numa_binding=exclusive --nproc=2 prog", NULL),
                     0);
    ck_assert_int_eq(c.numa_binding, TOPOLOGY_EXCLUSIVE);
    for (int i = 0; i < 2; i++) {
        both = c.seats[i].cpus;
        cpus_and(&both, &allowed);
        ck_assert_int_gt(cpus_count(&both), 0);
        ck_assert_int_eq(cpus_count(&both), cpus_count(&c.seats[i].cpus));
    }
    both = c.seats[0].cpus;
    cpus_and(&both, &c.seats[1].cpus);
    ck_assert_int_eq(cpus_count(&both), 0);
    conf_free(&c);
    ck_assert_int_eq(make_conf(&c, "", "prog", NULL), 0);
    ck_assert_int_eq(c.numa_binding, TOPOLOGY_NONE);
    conf_free(&c);
}
END_TEST

/* Names with and without SIG; what is none is left out and noted. */
START_TEST(test_conf_signals_are_read)
{
    struct conf c;
    ck_assert_int_eq(make_conf(&c, "", "prog", NULL), 0);
    ck_assert_uint_eq(c.signals, SIGNALS_USUAL);
    ck_assert_str_eq(c.signals_text, "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
    conf_free(&c);
    ck_assert_int_eq(make_conf(&c, "",
                               "--signals-to-handle=SIGUSR1,term,SIGKILL,,"
                               "SIGCHLD,Int prog",
                               NULL),
                     0);
    ck_assert_uint_eq(c.signals, SIGNALS_BIT(SIGUSR1) | SIGNALS_BIT(SIGTERM) |
                                     SIGNALS_BIT(SIGINT));
    ck_assert_int_eq(c.notes_len, 1);
    ck_assert_str_eq(c.notes[0], "--signals_to_handle: SIGKILL, SIGCHLD cannot "
                                 "be handled, and is left out");
    conf_free(&c);
}
END_TEST

/* -- the program -------------------------------------------------------------
 */

static const struct {
    const char *env;
    const char *line;
    const char *want; /* exec_path, prog_name: argv */
} programs[] = {
    {"", "prog", "bin/prog prog: [prog]"},
    {"", "prog a --nnodes -- b",
     "bin/prog prog: [prog] [a] [--nnodes] [--] [b]"},
    {"", "-- prog -- b", "bin/prog prog: [prog] [--] [b]"},
    {"", "bin/prog x", "bin/prog prog: [bin/prog] [x]"},
    {"", "here", "./here here: [here]"},
    {"", "./here ''", "./here here: [./here] []"},
    {"", "train.py 1",
     "bin/python3 train.py: [bin/python3] [-u] [train.py] [1]"},
    {"", "./train.py", "bin/python3 train.py: [bin/python3] [-u] [./train.py]"},
    {"", "-m pkg.mod --x",
     "bin/python3 pkg.mod: [bin/python3] [-u] [-m] [pkg.mod] [--x]"},
    {"PET_MODULE=1", "pkg.mod",
     "bin/python3 pkg.mod: [bin/python3] [-u] [-m] [pkg.mod]"},
    {"", "--no_python ./run.py", "./run.py run.py: [./run.py]"},
    {"", "--run_path data", "bin/python3 data: [bin/python3] [-u] [data]"},
    {"", "--run-path --no-python -m ./bin",
     "bin/python3 bin: [bin/python3] [-u] [./bin]"},
    {"", "./run.py", "bin/python3 run.py: [bin/python3] [-u] [./run.py]"},
    {"VIRTUAL_ENV=venv CONDA_PREFIX=conda", "train.py",
     "venv/bin/python3 train.py: [venv/bin/python3] [-u] [train.py]"},
    {"CONDA_PREFIX=conda", "train.py",
     "conda/bin/python train.py: [conda/bin/python] [-u] [train.py]"},
    {"VIRTUAL_ENV=gone CONDA_PREFIX=", "train.py",
     "bin/python3 train.py: [bin/python3] [-u] [train.py]"},
    {"VIRTUAL_ENV=venv PYTHON_EXEC=pypy", "train.py",
     "bin/pypy train.py: [bin/pypy] [-u] [train.py]"},
    {"PYTHON_EXEC=bin/pypy", "-m m", "bin/pypy m: [bin/pypy] [-u] [-m] [m]"},
};

/* The worker's command line, the file to execute, the name to agree on. */
START_TEST(test_conf_program_is_found)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(make_conf(&c, programs[_i].env, programs[_i].line, &err) == 0,
                  "%s: %s", programs[_i].line, err.text);
    char text[512];
    int n = snprintf(text, sizeof(text), "%s %s:", c.exec_path, c.prog_name);
    for (char **p = c.argv; *p != NULL; p++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " [%s]", *p);
    ck_assert_str_eq(text, programs[_i].want);
    conf_free(&c);
}
END_TEST

/* -- what is wrong -----------------------------------------------------------
 */

static const struct {
    const char *env;
    const char *line;
    enum ddp_code code;
    const char *text; /* the error begins so */
} bad[] = {
    /* the program */
    {"", "", DDP_E_USAGE, "no program: its name comes after the options"},
    {"", "''", DDP_E_USAGE, "no program"},
    {"", "--nnodes=1", DDP_E_USAGE, "no program"},
    {"", "nowhere", DDP_E_NOTFOUND, "nowhere: not found in PATH"},
    {"PATH=bin", "here", DDP_E_NOTFOUND,
     "here: not found in PATH; did you mean ./here?"},
    {"", "./nowhere", DDP_E_NOTFOUND, "./nowhere: No such file or directory"},
    {"", "data/x", DDP_E_NOTFOUND, "data/x: Not a directory"},
    {"PATH=bin", "notexec", DDP_E_NOTEXEC, "bin/notexec: not executable"},
    {"", "./data", DDP_E_NOTEXEC,
     "./data: not executable; make it so (chmod +x), or put its interpreter "
     "before it"},
    {"", "./bin", DDP_E_NOTEXEC, "./bin: this is a folder"},
    {"", "gone.py", DDP_E_NOTFOUND, "gone.py: No such file or directory"},
    {"PATH=none", "train.py", DDP_E_NOTFOUND,
     "a Python program needs an interpreter: python3: not found in PATH"},
    {"PYTHON_EXEC=data/", "train.py", DDP_E_NOTFOUND, "PYTHON_EXEC: data/: "},
    {"PYTHON_EXEC=./data", "train.py", DDP_E_NOTEXEC,
     "PYTHON_EXEC: ./data: not executable"},
    {"", "--no_python -m prog", DDP_E_USAGE,
     "--module and --no_python exclude each other"},
    {"", "--no_python ./train.py", DDP_E_NOTEXEC, "./train.py: not executable"},
    /* nodes and workers */
    {"", "--nnodes=0 prog", DDP_E_USAGE,
     "--nnodes=0: must be N or MIN:MAX, whole numbers from 1 to 65536"},
    {"", "--nnodes=two prog", DDP_E_USAGE, "--nnodes=two: must be N or MIN"},
    {"", "--nnodes=1:2:3 prog", DDP_E_USAGE, "--nnodes=1:2:3: must be N or"},
    {"", "--nnodes=:2 prog", DDP_E_USAGE, "--nnodes=:2: must be N or MIN:MAX"},
    {"", "--nnodes=2: prog", DDP_E_USAGE, "--nnodes=2:: must be N or MIN:MAX"},
    {"", "--nnodes=0000000000000000001:2 prog", DDP_E_USAGE,
     "--nnodes=0000000000000000001:2: must be N or MIN:MAX"},
    {"", "--nnodes=3:2 prog", DDP_E_USAGE,
     "--nnodes=3:2: the least is more than the most"},
    {"PET_NNODES=x", "prog", DDP_E_USAGE, "PET_NNODES=x: must be N or MIN:MAX"},
    {"", "--nproc=0 prog", DDP_E_USAGE,
     "--nproc_per_node=0: must be a whole number from 1 to 4096, cpu, gpu or "
     "auto"},
    {"", "--nproc=xpu prog", DDP_E_USAGE, "--nproc_per_node=xpu: must be"},
    {"CUDA_VISIBLE_DEVICES=", "--nproc=gpu prog", DDP_E_CONFIG,
     "--nproc_per_node=gpu: this machine has no NVIDIA GPU"},
    {"", "--node_rank=-1 prog", DDP_E_USAGE,
     "--node_rank=-1: must be a whole number from 0 to 65535"},
    {"", "--node_rank=1 prog", DDP_E_USAGE,
     "--node_rank=1: must be below the number of nodes, 1"},
    {"", "--nnodes=2 --node_rank=2 --master_addr=h prog", DDP_E_USAGE,
     "--node_rank=2: must be below the number of nodes, 2"},
    {"", "--rdzv_id=a/b prog", DDP_E_USAGE,
     "--rdzv_id=a/b: must be printable and without /"},
    {"", "--role=a\x07 prog", DDP_E_USAGE, "--role=a\x07: must be printable"},
    {"",
     "--role=0123456789012345678901234567890123456789012345678901234567890"
     "1234 prog",
     DDP_E_USAGE,
     "--role=01234567890123456789012345678901234567890123456789012345678901234:"
     " must be at most 64 bytes long"},
    {"", "--local_addr=a:b prog", DDP_E_USAGE,
     "--local_addr=a:b: 'a:b' is no host's name"},
    {"", "--local_addr=[::1]:5 prog", DDP_E_USAGE,
     "--local_addr=[::1]:5: must be an address without a port"},
    /* where to meet */
    {"", "--nnodes=2 prog", DDP_E_USAGE,
     "--nnodes=2: several nodes need a place to meet: add "
     "--rdzv_endpoint=HOST:PORT"},
    {"", "--nnodes=1:2 --rdzv_backend=c10d prog", DDP_E_USAGE,
     "--nnodes=1:2: several nodes need a place to meet"},
    {"", "--nnodes=2 --node_rank=0 --master_port=1 prog", DDP_E_USAGE,
     "--nnodes=2: several nodes need a place to meet"},
    {"PET_MASTER_ADDR=", "--nnodes=2 --node_rank=0 prog", DDP_E_USAGE,
     "--nnodes=2: several nodes need a place to meet"},
    {"", "--standalone --nnodes=2 prog", DDP_E_USAGE,
     "--standalone is for one node, and --nnodes asks for 2"},
    {"", "--nnodes=2 --rdzv_endpoint=h:0 prog", DDP_E_USAGE,
     "port 0 (any free one) of h is for one node"},
    {"", "--nnodes=2 --master_addr=h --master_port=0 prog", DDP_E_USAGE,
     "port 0 (any free one) of h is for one node"},
    {"", "--rdzv_endpoint=h:x prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:x: the port is 'x', must be 0 to 65535"},
    {"", "--rdzv_endpoint=h: prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:: the port is '', must be 0 to 65535"},
    {"", "--rdzv_endpoint=h:65536 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:65536: the port is '65536', must be 0 to 65535"},
    {"PET_RDZV_ENDPOINT=h:-1", "prog", DDP_E_USAGE,
     "PET_RDZV_ENDPOINT=h:-1: the port is '-1', must be 0 to 65535"},
    {"", "--rdzv_endpoint=http://h:1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=http://h:1: 'http://h' is no host's name"},
    {"", "--rdzv_endpoint=h/x:1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h/x:1: 'h/x' is no host's name"},
    {"", "--rdzv_endpoint=::1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=::1: an IPv6 address must stand in brackets"},
    {"", "--rdzv_endpoint=[::1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=[::1: must be [ADDRESS] or [ADDRESS]:PORT"},
    {"", "--rdzv_endpoint=[::1]5 prog", DDP_E_USAGE,
     "--rdzv_endpoint=[::1]5: must be [ADDRESS] or [ADDRESS]:PORT"},
    {"", "--rdzv_endpoint=[h]:5 prog", DDP_E_USAGE,
     "--rdzv_endpoint=[h]:5: 'h' is no IPv6 address"},
    {"", "--rdzv_backend=etcd-v2 prog", DDP_E_USAGE,
     "--rdzv_backend=etcd-v2: must be c10d or static; ddprun needs no etcd"},
    {"", "--rdzv_backend=mpi prog", DDP_E_USAGE,
     "--rdzv_backend=mpi: must be c10d or static"},
    {"", "--master_port=x prog", DDP_E_USAGE,
     "--master_port=x: must be a whole number from 0 to 65535"},
    {"", "--nnodes=2 --master_addr=h:1 prog", DDP_E_USAGE,
     "--master_addr=h:1: 'h:1' is no host's name"},
    /* --rdzv_conf */
    {"", "--rdzv_conf=join_timout=1 prog", DDP_E_USAGE,
     "--rdzv_conf: unknown key 'join_timout'; did you mean join_timeout?"},
    {"", "--rdzv_conf=colour=1 prog", DDP_E_USAGE,
     "--rdzv_conf: unknown key 'colour'; see ddprun(1)"},
    {"", "--rdzv_conf=join_timeout prog", DDP_E_USAGE,
     "--rdzv_conf: 'join_timeout' is no KEY=VALUE"},
    {"", "--rdzv_conf=join_timeout=1, prog", DDP_E_USAGE,
     "--rdzv_conf: '' is no KEY=VALUE"},
    {"PET_RDZV_CONF=join_timeout=0", "prog", DDP_E_USAGE,
     "PET_RDZV_CONF: join_timeout=0: must be seconds from 0.001 to 31536000"},
    {"", "--rdzv_conf=heartbeat_timeout=0.29 prog", DDP_E_USAGE,
     "--rdzv_conf: heartbeat_timeout=0.29: must be seconds from 0.3 to"},
    {"", "--rdzv_conf=read_timeout=-1 prog", DDP_E_USAGE,
     "--rdzv_conf: read_timeout=-1: must be seconds from"},
    {"", "--rdzv_conf=is_host=maybe prog", DDP_E_USAGE,
     "--rdzv_conf: is_host=maybe: must be 0 or 1"},
    {"", "--rdzv_conf=is_host=0 prog", DDP_E_USAGE,
     "--rdzv_conf: is_host=0: nobody else can serve"},
    {"", "--rdzv_conf=store_type=file prog", DDP_E_USAGE,
     "--rdzv_conf: store_type=file: ddprun meets over tcp only"},
    /* the rest */
    {"", "--max_restarts=-1 prog", DDP_E_USAGE,
     "--max_restarts=-1: must be a whole number from 0 to 1000000, or N/WIND"},
    {"", "--max_restarts=1000001 prog", DDP_E_USAGE,
     "--max_restarts=1000001: must be a whole number"},
    {"", "--max_restarts=65/1h prog", DDP_E_USAGE,
     "--max_restarts=65/1h: must be a whole number"},
    {"", "--max_restarts=3/ prog", DDP_E_USAGE, "--max_restarts=3/: must be"},
    {"", "--max_restarts=3/h prog", DDP_E_USAGE, "--max_restarts=3/h: must"},
    {"", "--max_restarts=3/0s prog", DDP_E_USAGE, "--max_restarts=3/0s: must"},
    {"", "--max_restarts=3/1y prog", DDP_E_USAGE, "--max_restarts=3/1y: must"},
    {"", "--max_restarts=3/366d prog", DDP_E_USAGE, "--max_restarts=3/366d:"},
    {"", "--max_restarts=/1h prog", DDP_E_USAGE, "--max_restarts=/1h: must"},
    {"", "--node_strikes=-1 prog", DDP_E_USAGE, "--node_strikes=-1: must be"},
    {"", "--node_strikes=3/ prog", DDP_E_USAGE, "--node_strikes=3/: must be"},
    {"", "--node_strikes=/1h prog", DDP_E_USAGE, "--node_strikes=/1h: must"},
    {"", "--node_strikes=3/x prog", DDP_E_USAGE, "--node_strikes=3/x: must"},
    {"", "--crash_loop=-1 prog", DDP_E_USAGE, "--crash_loop=-1: must be"},
    {"", "--snapshot_memory= prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=91% prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=1.5G prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=-1 prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=2000T prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=4X prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--scale_interval=x prog", DDP_E_USAGE, "--scale_interval=x: must"},
    {"", "--rdzv_conf=heartbeat_timeout=3601 prog", DDP_E_USAGE,
     "--rdzv_conf: heartbeat_timeout: must be at most 3600 seconds"},
    {"", "--rdzv_conf=keep_alive_max_attempt=0 prog", DDP_E_USAGE,
     "--rdzv_conf: keep_alive_max_attempt=0: must be a whole number"},
    {"", "--monitor_interval=0 prog", DDP_E_USAGE,
     "--monitor_interval=0: must be seconds from 0.001 to 86400"},
    {"", "--shutdown_timeout=x prog", DDP_E_USAGE,
     "--shutdown_timeout=x: must be seconds from 0 to 86400"},
    {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x", "prog", DDP_E_USAGE,
     "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x: must be seconds from 0 to 86400"},
    {"", "--worker_store=both prog", DDP_E_USAGE,
     "--worker_store=both: must be agent or none"},
    {"", "--start_method=thread prog", DDP_E_USAGE,
     "--start_method=thread: must be spawn, fork or forkserver"},
    {"", "--log_dir=data prog", DDP_E_USAGE,
     "--log_dir=data: this is a file, a folder is wanted"},
    {"", "--numa-binding=near prog", DDP_E_USAGE,
     "--numa_binding=near: must be node, socket, exclusive or core-complex"},
    {"", "--gpus=a prog", DDP_E_USAGE,
     "--gpus=a: must be a list of numbers, ranges of them and UUIDs"},
    {"", "--gpus=1,,2 prog", DDP_E_USAGE, "--gpus=1,,2: must be a list"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--gpus=0-1,1 prog", DDP_E_USAGE,
     "--gpus=0-1,1: must not have a GPU twice"},
    {"", "--gpus=3-1 prog", DDP_E_USAGE, "--gpus=3-1: must be a list"},
    {"", "--gpus=-1 prog", DDP_E_USAGE, "--gpus=-1: must be a list"},
    {"PET_GPUS=9999", "prog", DDP_E_USAGE, "PET_GPUS=9999: must be a list"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--gpus=0-2 prog", DDP_E_USAGE,
     "--gpus=0-2: there is no GPU 2 among CUDA_VISIBLE_DEVICES=4,5"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--nproc=3 --virtual-local-rank prog",
     DDP_E_USAGE,
     "--virtual_local_rank: there is no GPU for local rank 2 in "
     "CUDA_VISIBLE_DEVICES=4,5"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--nproc=2 --gpus=1 --virtual prog",
     DDP_E_USAGE,
     "--virtual_local_rank: there is no GPU for local rank 1 in --gpus=5"},
    {"", "--signals_to_handle=SIGKILL,FOO prog", DDP_E_USAGE,
     "--signals_to_handle=SIGKILL,FOO: must be a list of signals that can be"},
    {"", "--signals-to-handle= prog", DDP_E_USAGE,
     "--signals_to_handle=: must be a list of signals"},
    {"", "--tee=4 prog", DDP_E_USAGE, "--tee=4: must be 0 (none), 1 (stdout"},
    {"", "-r x prog", DDP_E_USAGE, "--redirects=x: must be 0 (none)"},
    {"", "-r 0:3, prog", DDP_E_USAGE, "--redirects=0:3,: must be 0"},
    {"", "-r 0:4 prog", DDP_E_USAGE, "--redirects=0:4: must be 0"},
    {"PET_TEE=0=1", "prog", DDP_E_USAGE, "PET_TEE=0=1: must be 0"},
    {"", "--local_ranks_filter=0,x prog", DDP_E_USAGE,
     "--local_ranks_filter=0,x: must be local ranks"},
    {"", "--log_rotate=10 prog", DDP_E_USAGE, "--log_rotate=10: must be SIZE"},
    {"", "--log_rotate=1M,0 prog", DDP_E_USAGE, "--log_rotate=1M,0: must be"},
    {"", "--log_rotate=1X prog", DDP_E_USAGE, "--log_rotate=1X: must be"},
    {"", "--log_rotate=9999999T prog", DDP_E_USAGE, "--log_rotate=9999999T:"},
    {"", "--rdzv prog", DDP_E_USAGE,
     "--rdzv could be any of --rdzv_endpoint, --rdzv_backend, --rdzv_id, "
     "--rdzv_conf"},
    {"", "--nnode_rank=1 prog", DDP_E_USAGE,
     "unknown option --nnode_rank; did you mean --node_rank?"},
};

/* Each wrong value is named with what is allowed, and has its status. */
START_TEST(test_conf_wrong_value_is_told)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_int_eq(make_conf(&c, bad[_i].env, bad[_i].line, &err), -1);
    ck_assert_msg(strncmp(err.text, bad[_i].text, strlen(bad[_i].text)) == 0,
                  "%s: got \"%s\", want \"%s\"", bad[_i].line, err.text,
                  bad[_i].text);
    ck_assert_int_eq(err.code, bad[_i].code);
}
END_TEST

/*
 * Every option of the table refuses what it cannot be: a number that is none,
 * a flag's variable that is no number, and for the others a value from here. A
 * new SPEC needs one. STR takes any text, but for the few that are here too.
 */
static const struct {
    int id;
    const char *value;
} nonsense[] = {
    {OPTIONS_nnodes, "none"},
    {OPTIONS_nproc_per_node, "tpu"},
    {OPTIONS_gpus, "all"},
    {OPTIONS_numa_binding, "near"},
    {OPTIONS_role, "a\tb"},
    {OPTIONS_local_addr, "a/b"},
    {OPTIONS_rdzv_endpoint, "host:port"},
    {OPTIONS_rdzv_backend, "mpi"},
    {OPTIONS_rdzv_id, "a/b"},
    {OPTIONS_rdzv_conf, "timeout"},
    {OPTIONS_rdzv_token_file, ""},
    {OPTIONS_worker_store, "redis"},
    {OPTIONS_max_restarts, "many"},
    {OPTIONS_signals_to_handle, "SIGKILL"},
    {OPTIONS_log_dir, "data"},
    {OPTIONS_redirects, "4"},
    {OPTIONS_tee, "x"},
    {OPTIONS_local_ranks_filter, "0,x"},
    {OPTIONS_log_rotate, "1X"},
    {OPTIONS_duplicate_stdout_filters, NULL}, /* any text is one */
    {OPTIONS_duplicate_stderr_filters, NULL},
    {OPTIONS_cgroup, "old"},
    {OPTIONS_start_method, "thread"},
};

static const char *nonsense_for(int id)
{
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
        if (nonsense[i].id == id)
            return nonsense[i].value;
    switch (options_table.rows[id].kind) {
    case OPTS_INT:
    case OPTS_SECONDS:
        return "1x";
    case OPTS_FLAG:
        return "yes";
    case OPTS_SPEC:
        /* Answered by main, before there is a conf; tests/e2e/u04. */
        return id == OPTIONS_print_completion ? NULL : "";
    case OPTS_STR:
    case OPTS_LATER:
        return NULL;
    }
    return NULL;
}

START_TEST(test_conf_every_option_refuses_nonsense)
{
    const struct opts_row *row = &options_table.rows[_i];
    const char *value = nonsense_for(_i);
    char line[256];
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    if (value == NULL)
        return;
    (void)snprintf(line, sizeof(line), "--%s=%s", row->name, value);
    char word[256], prog[] = "prog", ddprun[] = "ddprun";
    memcpy(word, line, sizeof(word));
    char *argv[] = {ddprun, word, prog, NULL};
    make_env("");
    ck_assert_msg(opts_parse(&o, &options_table, 3, argv, &err) != 0 ||
                      conf_init(&c, &o, argv + o.rest, &err) != 0,
                  "%s is taken", line);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_msg(strstr(err.text, row->name) != NULL &&
                      (strstr(err.text, "must be") != NULL ||
                       strstr(err.text, "wanted") != NULL ||
                       strstr(err.text, "no host's name") != NULL ||
                       strstr(err.text, "takes no value") != NULL),
                  "%s: %s", line, err.text);
    if (row->env == NULL || value[0] == '\0')
        return;
    /* The same by the environment, under the name of the variable. */
    char name[64];
    size_t len = strcspn(row->env, " ");
    ck_assert_uint_lt(len, sizeof(name));
    memcpy(name, row->env, len);
    name[len] = '\0';
    ck_assert_int_eq(setenv(name, value, 1), 0);
    char *bare[] = {ddprun, prog, NULL};
    ck_assert_msg(opts_parse(&o, &options_table, 2, bare, &err) != 0 ||
                      conf_init(&c, &o, bare + o.rest, &err) != 0,
                  "%s=%s is taken", name, value);
    ck_assert_msg(strstr(err.text, name) != NULL, "%s", err.text);
}
END_TEST

/* What is too long for its place is refused. */
START_TEST(test_conf_long_values_are_refused)
{
    static const char *const names[] = {
        "--rdzv_id=", "--rdzv_endpoint=", "--local_addr=",
        "--log_dir=", "--rdzv_conf=",     "./"};
    static char word[9000];
    char prog[] = "prog", ddprun[] = "ddprun";
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        memset(word, 'x', sizeof(word) - 1);
        memcpy(word, names[i], strlen(names[i]));
        char *argv[] = {ddprun, word, prog, NULL};
        struct opts o;
        struct conf c;
        struct ddp_err err = {.text = ""};
        ck_assert_int_eq(opts_parse(&o, &options_table, 3, argv, &err), 0);
        ck_assert_int_eq(conf_init(&c, &o, argv + o.rest, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.text, "long"));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conf");
    TCase *t = tcase_create("conf");
    tcase_set_tags(t, "fast");
    tcase_add_unchecked_fixture(t, make_root, remove_root);
    tcase_add_loop_test(t, test_conf_meeting_place_is_found, 0,
                        (int)(sizeof(meetings) / sizeof(meetings[0])));
    tcase_add_loop_test(t, test_conf_master_port_is_found, 0,
                        sizeof(stores) / sizeof(stores[0]));
    tcase_add_loop_test(t, test_conf_program_is_found, 0,
                        (int)(sizeof(programs) / sizeof(programs[0])));
    tcase_add_loop_test(t, test_conf_wrong_value_is_told, 0,
                        (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_loop_test(t, test_conf_every_option_refuses_nonsense, 0,
                        OPTIONS_COUNT);
    tcase_add_loop_test(t, test_conf_gpus_are_handed_out, 0, 9);
    tcase_add_test(t, test_conf_workers_are_bound);
    tcase_add_test(t, test_conf_preflight_runs_the_probe);
    tcase_add_test(t, test_conf_preflight_tells_what_is_missing);
    tcase_add_test(t, test_conf_signals_are_read);
    tcase_add_test(t, test_conf_defaults_are_torchruns);
    tcase_add_test(t, test_conf_values_arrive);
    tcase_add_test(t, test_conf_output_is_read);
    tcase_add_test(t, test_conf_shutdown_timeout_has_three_sources);
    tcase_add_loop_test(t, test_conf_keep_alives_are_a_heartbeat, 0, 7);
    tcase_add_loop_test(t, test_conf_budget_may_have_a_window, 0, 7);
    tcase_add_loop_test(t, test_conf_strikes_may_have_a_cool_down, 0, 4);
    tcase_add_test(t, test_conf_rdzv_conf_takes_torchruns_keys);
    tcase_add_test(t, test_conf_python_options_are_noted);
    tcase_add_test(t, test_conf_run_id_is_random_where_asked);
    tcase_add_test(t, test_conf_nproc_cpu_is_counted);
    tcase_add_test(t, test_conf_long_values_are_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
