/* links: tests/lib/conf_line */
/* libs: -lcjson -ldl */
/* Command lines of ddprun and what becomes of them. Where the nodes meet is in
 * check_conf_meet, what runs on which CPUs and GPUs in check_conf_workers, what
 * is wrong in check_conf_wrong. */
#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "launcher/conf/conf.h"
#include "launcher/conf/options.h"
#include "launcher/preflight/preflight.h"
#include "rendezvous/base/mono.h"
#include "launcher/proc/signals.h"
#include "rendezvous/core/budget.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

/* The bound of a field of a message. */
static int64_t wire_max(const char *field)
{
    static const struct {
        const char *field;
        int64_t max;
    } all[] = {
#define MSG_BEGIN(msg, from, text)
#define MSG_END(msg)
#define MSG_STR(msg, field, max, needed, text)
#define MSG_TERM(msg, field, needed, text)
#define MSG_INT(msg, field, min, max, needed, text) {#msg "." #field, max},
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
#undef MSG_END
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].field, field) == 0)
            return all[i].max;
    ck_abort_msg("no field %s", field);
}

/* One maximum of nodes: that of the options is that of the protocol. */
TEST(test_conf_takes_as_many_nodes_as_the_protocol)
{
    static const char *const fields[] = {"join.nodes_min", "join.nodes_max",
                                         "world.group_world"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        ck_assert_int_eq(wire_max(fields[i]), CONF_NNODES_MAX);
    ck_assert_int_eq(wire_max("join.node_rank"), CONF_NNODES_MAX - 1);
    ck_assert_int_eq(options_table.rows[OPTIONS_node_rank].max,
                     CONF_NNODES_MAX - 1);
}

/* Nothing said: torchrun's defaults. */
TEST(test_conf_defaults_are_torchruns)
{
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "", "prog", NULL), 0);
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
    ck_assert_int_eq(c.failure_grace_us, 3000000);
    ck_assert_int_eq(c.death_grace_us, 500000);
    ck_assert_uint_gt(c.snapshot_memory, 0);
    ck_assert_int_eq(c.notes_len, 0);
    conf_free(&c);
}

TEST_LOOP(test_conf_hang_timeout_is_a_word_or_times, 0, 8)
{
    static const struct {
        const char *line;
        enum conf_hang how;
        int64_t idle_us, beat_us;
    } cases[] = {
        {"prog", CONF_HANG_TELL, MONO_NEVER, MONO_NEVER},
        {"--hang_timeout=tell prog", CONF_HANG_TELL, MONO_NEVER, MONO_NEVER},
        {"--hang_timeout=auto prog", CONF_HANG_AUTO, MONO_NEVER, MONO_NEVER},
        {"--hang_timeout=0 prog", CONF_HANG_OFF, MONO_NEVER, MONO_NEVER},
        {"--hang_timeout=0,0 prog", CONF_HANG_OFF, MONO_NEVER, MONO_NEVER},
        {"--hang_timeout=1.5 prog", CONF_HANG_FIXED, 1500000, MONO_NEVER},
        {"--hang_timeout=0,2 prog", CONF_HANG_FIXED, MONO_NEVER, 2000000},
        {"--hang_timeout=300,60 prog", CONF_HANG_FIXED, 300000000, 60000000},
    };
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(c.hang.how, cases[_i].how);
    ck_assert_int_eq(c.hang.idle_us, cases[_i].idle_us);
    ck_assert_int_eq(c.hang.beat_us, cases[_i].beat_us);
    conf_free(&c);
}

/* Everything said: all of it arrives. */
TEST(test_conf_values_arrive)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(
        conf_line_conf(
            &c, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7",
            "--nproc-per-node=8 --rdzv_id=job:1 --role=r --max-restarts=3"
            " --local_addr=[fd00::5] --log_dir=logs --worker_store=none"
            " --snapshot_memory=3G --failure_grace=0.7"
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
    ck_assert_int_eq(c.failure_grace_us, 700000);
    ck_assert_int_eq(c.death_grace_us, 700000);
    ck_assert_uint_eq(c.snapshot_memory, UINT64_C(3) << 30);
    ck_assert_int_eq(c.notes_len, 0);
    conf_free(&c);
}

/* A worker of an MPI job is started afresh, and a probe is no MPI program. */
TEST(test_conf_mpi_is_none_or_pmi1)
{
    static const struct {
        const char *line;
        enum conf_mpi mpi;
    } cases[] = {
        {"prog", CONF_MPI_NONE},
        {"--mpi=none prog", CONF_MPI_NONE},
        {"--mpi=PMI1 prog", CONF_MPI_PMI1},
        {"--mpi=pmi1 --worker_store=none prog", CONF_MPI_PMI1},
        {"--mpi=pmi1 --standby=a prog", CONF_MPI_PMI1},
        {"--mpi=pmi1 --preflight prog", CONF_MPI_NONE},
        {"--mpi=pmix prog", CONF_MPI_PMIX},
        {"--mpi=Auto --standby=a prog", CONF_MPI_AUTO},
        {"--mpi=auto --preflight prog", CONF_MPI_NONE},
    };
    struct conf c;
    struct ddp_err err;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(conf_line_conf(&c, "", cases[i].line, &err), 0);
        ck_assert_int_eq(c.mpi, cases[i].mpi);
        ck_assert(c.mpi == CONF_MPI_NONE || c.standby[0] == '\0');
        conf_free(&c);
    }
}

/* auto is for jobs that can start again. */
TEST(test_conf_standby_is_a_list_or_for_restarts)
{
    static const struct {
        const char *line, *standby;
    } cases[] = {
        {"prog", ""},
        {"--standby=None prog", ""},
        {"--standby=auto prog", ""},
        {"--standby=AUTO --max_restarts=1 prog", "auto"},
        {"--standby=auto --nnodes=1:2 --rdzv_endpoint=localhost prog", "auto"},
        {"--standby=a,b.c_1 prog", "a,b.c_1"},
    };
    struct conf c;
    struct ddp_err err;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(conf_line_conf(&c, "", cases[i].line, &err), 0);
        ck_assert_str_eq(c.standby, cases[i].standby);
        conf_free(&c);
    }
}

TEST_LOOP(test_conf_budget_may_have_a_window, 0, 7)
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
    ck_assert_int_eq(conf_line_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(c.max_restarts, cases[_i].restarts);
    ck_assert_int_eq(c.restart_window_us, cases[_i].window_us);
    conf_free(&c);
    ck_assert_int_eq(CONF_WINDOW_RESTARTS_MAX, BUDGET_WINDOW_MAX);
}

TEST_LOOP(test_conf_strikes_may_have_a_cool_down, 0, 4)
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
    ck_assert_int_eq(conf_line_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(c.node_strikes, cases[_i].strikes);
    ck_assert_int_eq(c.cooldown_us, cases[_i].cooldown_us);
    conf_free(&c);
}

/* Streams by number or by local rank, filters with commas in them, sizes with
 * units; ranks that are not here are somebody else's. */
TEST(test_conf_output_is_read)
{
    static struct conf c;
    static const char line[] = "--nproc_per_node=12 -r 1 -t 0:2,11:3,99:1 "
                               "--local_ranks_filter=0,11 --log_rotate=2M,7 "
                               "prog";
    ck_assert_int_eq(
        conf_line_conf(&c, "PET_DUPLICATE_STDOUT_FILTERS=a,,b,c", line, NULL),
        0);
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

/* stdout passes through unless nobody sees it, or it is to be inherited. */
TEST(test_conf_stdout_is_piped_unless_inherited_or_not_shown)
{
    static const struct {
        const char *env;
        const char *line;
        bool piped, null;
    } rows[] = {
        {"", "prog", true, false},
        {"PET_STDOUT=inherit", "prog", false, false},
        {"PET_STDOUT=inherit", "--stdout=Lines prog", true, false},
        {"", "--stdout=inherit --local_ranks_filter=1 prog", false, true},
        {"", "--local_ranks_filter=1 prog", false, true},
        {"", "--stdout=inherit -r 1 prog", true, false},
        {"", "--stdout=inherit -t 1 prog", true, false},
        {"", "--stdout=inherit --duplicate_stdout_filters=a prog", true, false},
    };
    static struct conf c;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(conf_line_conf(&c, rows[i].env, rows[i].line, NULL),
                         0);
        struct conf_plan p = conf_output_plan(&c.output, 0, CONF_STDOUT);
        ck_assert_msg(p.piped == rows[i].piped && p.null == rows[i].null,
                      "%s %s", rows[i].env, rows[i].line);
        p = conf_output_plan(&c.output, 0, CONF_STDERR);
        ck_assert(p.piped && !p.null);
        ck_assert(!c.output.timestamps);
        conf_free(&c);
    }
}

/* PET_SHUTDOWN_TIMEOUT goes before the older variable, the option before it. */
TEST(test_conf_shutdown_timeout_has_three_sources)
{
    static const char env[] =
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7 PET_SHUTDOWN_TIMEOUT=8";
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, env, "prog", NULL), 0);
    ck_assert_int_eq(c.shutdown_timeout_us, 8000000);
    conf_free(&c);
    ck_assert_int_eq(conf_line_conf(&c, env, "--shutdown-timeout 9 prog", NULL),
                     0);
    ck_assert_int_eq(c.shutdown_timeout_us, 9000000);
    conf_free(&c);
}

/* What has a meaning in Python only is taken and noted. */
TEST(test_conf_python_options_are_noted)
{
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "PET_EVENT_LOG_HANDLER=console",
                                    "--start_method=fork --logs-specs=x prog",
                                    NULL),
                     0);
    ck_assert_int_eq(c.notes_len, 3);
    ck_assert_str_eq(
        c.notes[0],
        "--start_method is ignored: it has a meaning in Python only");
    ck_assert_ptr_nonnull(strstr(c.notes[1], "PET_EVENT_LOG_HANDLER"));
    conf_free(&c);
}

/* What is no mistake and may not be meant so. */
TEST_LOOP(test_conf_doubtful_lines_are_noted, 0, 24)
{
    static const struct {
        const char *env, *line;
        const char *note; /* all of it, "" none */
    } cases[] = {
        {"", "--nproc=2 prog", ""},
        {"", "train.py", ""},
        {"", "--nproc=2 train.py",
         "OMP_NUM_THREADS is not set: each worker gets 1, as under torchrun; "
         "set it to use more CPUs"},
        {"OMP_NUM_THREADS=1", "--nproc=2 train.py", ""},
        {"", "--preflight --nproc=2 train.py", ""},
        {"", "--nproc=2 --local_ranks_filter=1,2 prog", ""},
        {"", "--nproc=2 --local_ranks_filter=2 prog",
         "--local_ranks_filter=2 shows nothing here: the local ranks of this "
         "node are 0 to 1"},
        {"", "--nproc=2 -r 1:3,7:3 prog", ""},
        {"", "--nproc=2 --redirects=7:3 prog",
         "--redirects=7:3 has no effect here: the local ranks of this node are "
         "0 to 1"},
        {"PET_TEE=2:1,3:1", "--nproc=2 prog",
         "PET_TEE=2:1,3:1 has no effect here: the local ranks of this node are "
         "0 to 1"},
        {"", "--log_line_prefix_template=$rank:${local_rank}:$$foo:$5 prog",
         ""},
        {"", "--log_line_prefix_template=${rank}${foo}: prog",
         "--log_line_prefix_template: ${foo} stays as it is; these are "
         "replaced: ${role_name} ${local_rank} ${rank} ${hostname}"},
        {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=$ranks", "prog",
         "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE: $ranks stays as it is; these "
         "are replaced: ${role_name} ${local_rank} ${rank} ${hostname}"},
        {"LOGLEVEL=foo", "prog",
         "LOGLEVEL=foo is no level and is ignored; debug shows what ddprun "
         "does, step by step"},
        {"LOGLEVEL=Warning", "prog", ""},
        {"LOGLEVEL=10", "prog", ""},
        {"", "--log_rotate=1M -r 0:1 prog", ""},
        {"", "--log_rotate=1M -r 0:0 prog",
         "--log_rotate has no effect: no output goes to a file (see "
         "--redirects and --tee)"},
        {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=60", "prog", ""},
        {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=1m", "prog",
         "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=1m is ignored: it is no "
         "number of seconds"},
        {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=0", "prog", ""},
        {"", "--shutdown_timeout=1 prog", ""},
        {"", "--failure_grace=30 prog", ""},
        {"", "--failure_grace=4 --shutdown_timeout=1.5 prog",
         "--failure_grace=4: it cannot be longer than --shutdown_timeout, so "
         "that workers get 1.5 s after a failure"},
        {"PET_FAILURE_GRACE=31", "prog",
         "PET_FAILURE_GRACE=31: it cannot be longer than --shutdown_timeout, "
         "so "
         "that workers get 30 s after a failure"},
    };
    struct conf c;
    struct ddp_err err = {.text = ""};
    const char *line = cases[_i].line;
    ck_assert_msg(conf_line_conf(&c, cases[_i].env, line, &err) == 0, "%s",
                  err.text);
    bool noted = cases[_i].note[0] != '\0';
    ck_assert_msg(c.notes_len == (noted ? 1 : 0), "%s: %s", line, c.notes[0]);
    ck_assert_str_eq(c.notes[0], cases[_i].note);
    conf_free(&c);
}

/* What torch reads as well; 0 or less, or no number: never. */
TEST_LOOP(test_conf_limit_of_unkilled_workers, 0, 5)
{
    static const struct {
        const char *env;
        int64_t us;
    } cases[] = {
        {"", MONO_NEVER},
        {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=2.5", 2500000},
        {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=0", MONO_NEVER},
        {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=-1", MONO_NEVER},
        {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=x", MONO_NEVER},
    };
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, cases[_i].env, "prog", NULL), 0);
    ck_assert_int_eq(c.unkilled_us, cases[_i].us);
    conf_free(&c);
}

/* --standalone and an empty name give a run a random one, a given one stays. */
TEST(test_conf_run_id_is_random_where_asked)
{
    struct conf a, b;
    ck_assert_int_eq(conf_line_conf(&a, "", "--standalone prog", NULL), 0);
    ck_assert_int_eq(conf_line_conf(&b, "", "--rdzv_id= prog", NULL), 0);
    ck_assert_uint_eq(strlen(a.run_id), 36);
    ck_assert_uint_eq(strspn(a.run_id, "0123456789abcdef-"), 36);
    ck_assert_uint_eq(strlen(b.run_id), 36);
    ck_assert_str_ne(a.run_id, b.run_id);
    ck_assert_int_eq(b.notes_len, 1);
    conf_free(&a);
    conf_free(&b);
    ck_assert_int_eq(
        conf_line_conf(&a, "", "--standalone --rdzv_id=x prog", NULL), 0);
    ck_assert_str_eq(a.run_id, "x");
    conf_free(&a);
}

/* Names with and without SIG; what is none is left out and noted. */
TEST(test_conf_signals_are_read)
{
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "", "prog", NULL), 0);
    ck_assert_uint_eq(c.signals, SIGNALS_USUAL);
    ck_assert_str_eq(c.signals_text, "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
    conf_free(&c);
    ck_assert_int_eq(conf_line_conf(&c, "",
                                    "--signals-to-handle=SIGUSR1,term,SIGKILL,,"
                                    "SIGCHLD,Int prog",
                                    NULL),
                     0);
    ck_assert_uint_eq(c.signals, SIGNALS_BIT(SIGUSR1) | SIGNALS_BIT(SIGTERM) |
                                     SIGNALS_BIT(SIGINT));
    ck_assert_int_eq(c.notes_len, 1);
    ck_assert_str_eq(c.notes[0], "--signals_to_handle: ignoring SIGKILL, "
                                 "SIGCHLD, which cannot be handled");
    conf_free(&c);
}

/* Which signal gives notice of the end, and that it ends this node's part. */
TEST_LOOP(test_conf_notice_is_read, 0, 9)
{
    static const struct {
        const char *line;
        int signo; /* 0: none */
        bool requeue;
    } cases[] = {
        {"prog", 0, false},
        {"--notice_signal=none prog", 0, false},
        {"--notice_signal= prog", 0, false},
        {"--notice_signal=USR2 prog", SIGUSR2, false},
        {"--notice_signal=SIGALRM prog", SIGALRM, false},
        {"--requeue prog", SIGUSR1, true},
        {"--requeue --notice_signal= prog", SIGUSR1, true},
        {"--requeue --notice_signal=USR2 prog", SIGUSR2, true},
        {"--requeue --notice_signal=none prog", 0, true},
    };
    struct conf c;
    char line[100];
    uint64_t want = cases[_i].signo > 0 ? SIGNALS_BIT(cases[_i].signo) : 0;
    (void)snprintf(line, sizeof(line), "--cluster=none %s", cases[_i].line);
    ck_assert_int_eq(conf_line_conf(&c, "SLURM_JOB_ID=17", line, NULL), 0);
    ck_assert_uint_eq(c.notices, want);
    ck_assert_uint_eq(c.signals, SIGNALS_USUAL | want);
    ck_assert(c.requeue == cases[_i].requeue);
    conf_free(&c);
}

/* A word for Slurm, else what a shell is given. */
TEST_LOOP(test_conf_drain_check_is_read, 0, 7)
{
    static const struct {
        const char *line, *want;
        int64_t seconds;
    } cases[] = {
        {"prog", "", 30},
        {"--drain_check= prog", "", 30},
        {"--drain_check=./ask prog", "./ask", 30},
        {"--drain_check=./ask@5 prog", "./ask", 5},
        {"--drain_check=ssh@n1 prog", "ssh@n1", 30},
        {"--drain_check=slurm prog", "state=$(sinfo -h", 30},
        {"--drain_check=slurm@60 prog", "state=$(sinfo -h", 60},
    };
    struct conf c;
    const char *want = cases[_i].want;
    ck_assert_int_eq(conf_line_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_int_eq(strncmp(c.drain_check, want, strlen(want)), 0);
    ck_assert_int_eq(c.drain_check[0] == '\0', want[0] == '\0');
    ck_assert_int_eq(c.drain_interval_us, cases[_i].seconds * MONO_S);
    conf_free(&c);
}

/* A command, the GPUs, or both, and how long that may take. */
TEST_LOOP(test_conf_health_check_is_read, 0, 7)
{
    static const struct {
        const char *line, *want;
        bool gpu;
        int64_t seconds;
    } cases[] = {
        {"prog", "", false, 30},
        {"--health_check=./fit prog", "./fit", false, 30},
        {"--health_check=gpu prog", "", true, 30},
        {"--health_check=gpu@7 prog", "", true, 7},
        {"--health_check=gpu,./fit@1.5 prog", "./fit", true, 1},
        {"--health_check=gpus prog", "gpus", false, 30},
        {"--health_check=a,gpu prog", "a,gpu", false, 30},
    };
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "", cases[_i].line, NULL), 0);
    ck_assert_str_eq(c.health_check, cases[_i].want);
    ck_assert_int_eq(c.gpu_health_check, cases[_i].gpu);
    ck_assert_int_eq(c.health_timeout_us / MONO_S, cases[_i].seconds);
    conf_free(&c);
}

/* The same line, with and without a program: one probe in a run of its own, and
 * nothing that the line says about workers counts. */
TEST(test_conf_preflight_runs_the_probe)
{
    static const char *const lines[] = {
        "--preflight",
        "--preflight --nproc_per_node=4 --max_restarts=3/1h -t 3 prog a b",
        "--preflight --virtual_local_rank --gpus=0,1 --nproc_per_node=2 prog",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct conf c;
        struct ddp_err err;
        ck_assert_int_eq(
            conf_line_conf(&c, "PET_RDZV_ID=job CUDA_VISIBLE_DEVICES=4,5",
                           lines[i], &err),
            0);
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

/* What is missing on this node is told to all; what is wrong with the line is
 * an error as ever. */
TEST(test_conf_preflight_tells_what_is_missing)
{
    struct conf c;
    struct ddp_err err;
    ck_assert_int_eq(conf_line_conf(&c, "", "--preflight nothere", &err), 0);
    ck_assert_str_eq(c.preflight_problem, "nothere: not found in PATH");
    conf_free(&c);
    ck_assert_int_eq(
        conf_line_conf(&c, "", "--preflight --nnodes=x prog", &err), -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_int_eq(conf_line_conf(&c, "", "--preflight --dry_run prog", &err),
                     -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
}

SUITE("conf",
      "conf",
      .tags = "fast",
      FIXTURE_ONCE(conf_line_setup, scratch_leave))
