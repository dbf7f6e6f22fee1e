/* links: launcher/front/command tests/lib/{conf_line,words} */
/* libs: -lcjson -ldl */
/*
 * The command lines of a front end: what becomes of a list of hosts and of a
 * job script, what a launcher there is told, and which variables go along. And
 * what of a command line cannot be with a list of hosts.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/conf/options.h"
#include "launcher/front/command.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/words.h"

#define SCRIPT                                                                 \
    "SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=3 SLURM_JOB_NODELIST=n[1-3] "

/* A file of hosts, and srun. */
static void setup(void)
{
    static const char text[] = "a slots=2\nb slots=4\n";
    conf_line_setup();
    int fd = open("hosts", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(symlink("prog", "bin/srun"), 0);
}

/* A list of the hosts of a job: this one, and one more. */
static void write_list(const char *path, const char *host, const char *rest)
{
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_gt(fprintf(f, "%s%s\nother%s\n", host, rest, rest), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* What conf makes of it, in `c`; `o` is as it was parsed. */
static int parse(const char *env,
                 const char *line,
                 struct conf *c,
                 struct opts *o,
                 struct ddp_err *err)
{
    conf_line_env(env);
    words_line("ddprun", line);
    if (opts_parse(o, &options_table, words_argc, words_argv, err) < 0)
        return -1;
    return conf_init(c, o, words_argv + o->rest, err);
}

static void there(const struct conf *c, const struct opts *o, int i, char *text)
{
    struct command w = {.n = 0};
    command_there(&w, c, o, words_argc, words_argv, i);
    command_text(&w, text, 1024);
    command_free(&w);
}

/* `text` with what differs between runs replaced: a port, a run's name. */
static void settle(char *text)
{
    char *port = strstr(text, "--rdzv_endpoint=a:");
    port = port != NULL ? strchr(port, ':') : NULL;
    char *id = strstr(text, "--rdzv_id=hosts-");
    for (; port != NULL; port = strchr(port + 1, ':'))
        if (strspn(port + 1, "0123456789") == 5)
            memset(port + 1, 'P', 5);
    if (id != NULL)
        memset(id + strlen("--rdzv_id=hosts-"), 'X', 12);
}

#define ID    " --rdzv_id=hosts-XXXXXXXXXXXX"
#define OURS  " --hosts= --hostfile= --nnodes=2"
#define PLACE " --rdzv_endpoint=a:PPPPP --rdzv_backend=c10d --node_rank="

static const struct {
    const char *line;
    const char *first, *second; /* what the launchers on a and b are told */
} lists[] = {
    {"--hosts=a,b prog --x", "ddprun --hosts=a,b" OURS ID PLACE "0 prog --x",
     "ddprun --hosts=a,b" OURS ID PLACE "1 prog --x"},
    {"--hosts a:2,me@b:4 -- prog -- y",
     "ddprun --hosts a:2,me@b:4" OURS " --nproc_per_node=2" ID PLACE
     "0 -- prog -- y",
     "ddprun --hosts a:2,me@b:4" OURS " --nproc_per_node=4" ID PLACE
     "1 -- prog -- y"},
    {"--hostfile=hosts prog",
     "ddprun --hostfile=hosts" OURS " --nproc_per_node=2" ID PLACE "0 prog",
     "ddprun --hostfile=hosts" OURS " --nproc_per_node=4" ID PLACE "1 prog"},
    {"--hosts=a:2,b:2 --nproc_per_node=1 --nnodes=1:2 --rdzv_id=mine prog",
     "ddprun --hosts=a:2,b:2 --nproc_per_node=1 --nnodes=1:2 --rdzv_id=mine "
     "--hosts= --hostfile=" PLACE "0 prog",
     "ddprun --hosts=a:2,b:2 --nproc_per_node=1 --nnodes=1:2 --rdzv_id=mine "
     "--hosts= --hostfile=" PLACE "1 prog"},
    /* the second is a spare */
    {"--hosts=a,b --nnodes=1 --rdzv_endpoint=c:1 prog",
     "ddprun --hosts=a,b --nnodes=1 --rdzv_endpoint=c:1 --hosts= --hostfile=" ID
     " --rdzv_backend=c10d --node_rank=0 prog",
     "ddprun --hosts=a,b --nnodes=1 --rdzv_endpoint=c:1 --hosts= --hostfile=" ID
     " --rdzv_backend=c10d prog"},
    /* the job may begin without the first */
    {"--hosts=a,b,c,d --nnodes=3:4 prog",
     "ddprun --hosts=a,b,c,d --nnodes=3:4 --hosts= --hostfile=" ID
     " --rdzv_endpoint=a:PPPPP,b:PPPPP,c:PPPPP --rdzv_backend=c10d "
     "--node_rank=0 prog",
     "ddprun --hosts=a,b,c,d --nnodes=3:4 --hosts= --hostfile=" ID
     " --rdzv_endpoint=a:PPPPP,b:PPPPP,c:PPPPP --rdzv_backend=c10d "
     "--node_rank=1 prog"},
    {"--hosts=a,b,c,d --nnodes=2:4 prog",
     "ddprun --hosts=a,b,c,d --nnodes=2:4 --hosts= --hostfile=" ID PLACE
     "0 prog",
     "ddprun --hosts=a,b,c,d --nnodes=2:4 --hosts= --hostfile=" ID PLACE
     "1 prog"},
    /* two jobs of three hosts each could begin */
    {"--hosts=a,b,c,d,e,f --nnodes=3:4 prog",
     "ddprun --hosts=a,b,c,d,e,f --nnodes=3:4 --hosts= --hostfile=" ID PLACE
     "0 prog",
     "ddprun --hosts=a,b,c,d,e,f --nnodes=3:4 --hosts= --hostfile=" ID PLACE
     "1 prog"},
    {"--hosts=a,b --master_port=29501 prog",
     "ddprun --hosts=a,b --master_port=29501" OURS ID
     " --rdzv_endpoint=a:PPPPP --rdzv_backend=static --node_rank=0 prog",
     "ddprun --hosts=a,b --master_port=29501" OURS ID
     " --rdzv_endpoint=a:PPPPP --rdzv_backend=static --node_rank=1 prog"},
    {"--hosts=[fd00::1]:2,b --master_port=7 prog",
     "ddprun '--hosts=[fd00::1]:2,b' --master_port=7" OURS
     " --nproc_per_node=2" ID " '--rdzv_endpoint=[fd00::1]:7' "
     "--rdzv_backend=static --node_rank=0 prog",
     "ddprun '--hosts=[fd00::1]:2,b' --master_port=7" OURS ID
     " '--rdzv_endpoint=[fd00::1]:7' --rdzv_backend=static --node_rank=1 prog"},
    {"--hosts=a,b --preflight",
     "ddprun --hosts=a,b --preflight" OURS ID PLACE "0",
     "ddprun --hosts=a,b --preflight" OURS ID PLACE "1"},
    /* what this machine lacks is no error */
    {"--hosts=a,b --nproc_per_node=gpu nowhere",
     "ddprun --hosts=a,b --nproc_per_node=gpu" OURS ID PLACE "0 nowhere",
     "ddprun --hosts=a,b --nproc_per_node=gpu" OURS ID PLACE "1 nowhere"},
};

TEST_EACH(test_command_there_has_the_place_of_each_host, lists)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    char text[1024];
    ck_assert_msg(parse("", lists[_i].line, &c, &o, &err) == 0, "%s", err.text);
    ck_assert_int_eq(c.front.kind, CONF_FRONT_HOSTS);
    ck_assert_int_ge(c.front.nodes, 2);
    there(&c, &o, 0, text);
    settle(text);
    ck_assert_str_eq(text, lists[_i].first);
    there(&c, &o, 1, text);
    settle(text);
    ck_assert_str_eq(text, lists[_i].second);
    conf_free(&c);
}

/* What it is told makes a launcher with that place, and no front end. */
TEST(test_command_there_is_a_launcher)
{
    struct conf c, there_conf;
    struct opts o, there_opts;
    struct ddp_err err = {.text = ""};
    struct command w = {.n = 0};
    ck_assert_int_eq(parse("", "--hosts=a:2,b:4 prog", &c, &o, &err), 0);
    command_there(&w, &c, &o, words_argc, words_argv, 1);
    ck_assert_int_eq(opts_parse(&there_opts, &options_table, w.n, w.word, &err),
                     0);
    ck_assert_int_eq(
        conf_init(&there_conf, &there_opts, w.word + there_opts.rest, &err), 0);
    ck_assert_int_eq(there_conf.front.kind, CONF_FRONT_NONE);
    ck_assert_int_eq(there_conf.nnodes_min, 2);
    ck_assert_int_eq(there_conf.node_rank, 1);
    ck_assert_int_eq(there_conf.nproc, 4);
    ck_assert_int_eq(there_conf.backend, CONF_C10D);
    ck_assert_str_eq(there_conf.endpoints[0].host, "a");
    ck_assert_int_eq(there_conf.endpoints[0].port, c.endpoints[0].port);
    ck_assert_str_eq(there_conf.run_id, c.run_id);
    conf_free(&there_conf);
    conf_free(&c);
    command_free(&w);
}

#define SSH                                                                    \
    " -T -oBatchMode=yes -oServerAliveInterval=5 -oServerAliveCountMax=3 "     \
    "-oConnectTimeout="

static const struct {
    const char *env, *line, *self, *want;
} heres[] = {
    {"", "--hosts=me@a prog", "/bin/ddprun",
     "ssh" SSH "30 me@a /bin/ddprun --front_end_proxy"},
    {"", "--hosts=a --launch_timeout=1.5 prog", "/a dir/ddprun",
     "ssh" SSH "2 a ''\\''/a dir/ddprun'\\''' --front_end_proxy"},
    {"PET_LAUNCH_WITH=/opt/ssh", "--hosts=a prog", "/bin/ddprun",
     "/opt/ssh" SSH "30 a /bin/ddprun --front_end_proxy"},
    {"", "--hosts=a --launch_with= prog", "/bin/ddprun",
     "ssh" SSH "30 a /bin/ddprun --front_end_proxy"},
    {"", "--hosts=a --launch_with=rsh prog", "/a dir/ddprun",
     "rsh a '/a dir/ddprun' --front_end_proxy"},
    {SCRIPT, "prog", "/bin/ddprun",
     "srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpu-bind=none --no-kill "
     "--kill-on-bad-exit=0 --wait=0 --mpi=none --input=all --output=all "
     "--error=all --export=ALL --quiet /bin/ddprun --front_end_proxy"},
    {"SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=n1",
     "--requeue prog", "/bin/ddprun",
     "srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpu-bind=none --no-kill "
     "--kill-on-bad-exit=0 --wait=0 --mpi=none --input=all --output=all "
     "--error=all --export=ALL --quiet /bin/ddprun --front_end_proxy"},
};

TEST_EACH(test_command_here_starts_a_proxy, heres)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    struct command w = {.n = 0};
    char text[1024];
    ck_assert_msg(parse(heres[_i].env, heres[_i].line, &c, &o, &err) == 0, "%s",
                  err.text);
    command_here(&w, &c, 0, heres[_i].self);
    command_text(&w, text, sizeof(text));
    ck_assert_str_eq(text, heres[_i].want);
    ck_assert(!w.failed);
    command_free(&w);
    conf_free(&c);
}

/* A job script's launchers are told what this process was told, no more: their
 * place is in their step's variables. */
TEST(test_command_there_of_a_script_is_as_it_was)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    char text[1024];
    ck_assert_int_eq(parse(SCRIPT, "--nnodes=2:3 prog x", &c, &o, &err), 0);
    ck_assert_int_eq(c.front.kind, CONF_FRONT_SRUN);
    ck_assert_int_eq(c.front.nodes, 3);
    there(&c, &o, 0, text);
    ck_assert_str_eq(text, "ddprun --nnodes=2:3 prog x");
    conf_free(&c);
}

/* The job's script under a scheduler with a list of hosts, of which this is the
 * first: no line of its own says so. */
static const struct {
    const char *env, *line, *here, *job;
} scripts[] = {
    {"PBS_TASKNUM=1 PBS_JOBID=4.x PBS_NODEFILE=nodes", "prog", "ssh" SSH "30",
     "pbs-4.x"},
    {"PBS_TASKNUM=1 PBS_JOBID=4.x PBS_NODEFILE=nodes",
     "--launch_with=rsh --export=PBS_JOBID prog", "rsh", "pbs-4.x"},
    {"JOB_ID=5 PE_HOSTFILE=slots", "prog", "qrsh -inherit", "sge-5"},
    {"JOB_ID=5 SGE_TASK_ID=3 PE_HOSTFILE=slots", "prog", "qrsh -inherit",
     "sge-5[3]"},
};

/* The options by which a front end tells launchers where they meet, quoted. */
static void told(const struct conf *c, char out[600])
{
    const char *quote = strchr(c->front.run_id, '[') != NULL ? "'" : "";
    (void)snprintf(out, 600, "%s--rdzv_id=%s%s --rdzv_endpoint=%s", quote,
                   c->front.run_id, quote, c->front.endpoint);
}

/* JOB-RANDOM, in which what is random is long enough to differ. */
static void is_of_job(const char *id, const char *job)
{
    size_t len = strlen(job);
    ck_assert_msg(strncmp(id, job, len) == 0 && id[len] == '-', "%s", id);
    ck_assert_uint_eq(strlen(id + len + 1), 12);
}

/* HOST and a port for jobs. */
static void is_at(const char *endpoint, const char *host)
{
    int port = 0;
    size_t len = strlen(host);
    ck_assert_msg(strncmp(endpoint, host, len) == 0 &&
                      sscanf(endpoint + len, ":%d", &port) == 1,
                  "%s", endpoint);
    ck_assert_int_ge(port, CLUSTER_PORT_FIRST);
    ck_assert_int_lt(port, CLUSTER_PORT_FIRST + CLUSTER_PORT_COUNT);
}

/* Twice the same script is two runs: a name of each. */
static void is_another_run(const char *env, const char *line, const char *id)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(parse(env, line, &c, &o, &err) == 0, "%s", err.text);
    ck_assert_str_ne(c.front.run_id, id);
    conf_free(&c);
}

TEST_EACH(test_command_of_a_script_starts_on_all_hosts_of_its_job, scripts)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    struct command w = {.n = 0};
    char host[256], text[1024], want[1024], meeting[600];
    ck_assert_int_eq(gethostname(host, sizeof(host)), 0);
    write_list("nodes", host, "");
    write_list("slots", host, " 2 q U");
    ck_assert(symlink("prog", "bin/qrsh") == 0 || errno == EEXIST);
    ck_assert(symlink("prog", "bin/ssh") == 0 || errno == EEXIST);
    ck_assert_msg(parse(scripts[_i].env, scripts[_i].line, &c, &o, &err) == 0,
                  "%s", err.text);
    ck_assert_int_eq(c.front.kind, CONF_FRONT_HOSTS);
    ck_assert_int_eq(c.front.nodes, 2);
    command_here(&w, &c, 0, "/bin/ddprun");
    command_text(&w, text, sizeof(text));
    (void)snprintf(want, sizeof(want), "%s %s /bin/ddprun --front_end_proxy",
                   scripts[_i].here, host);
    ck_assert_str_eq(text, want);
    command_free(&w);
    there(&c, &o, 1, text);
    told(&c, meeting);
    (void)snprintf(want, sizeof(want),
                   OURS " --nproc_per_node=gpu-or-1 %s --rdzv_backend=c10d "
                        "--node_rank=1 prog",
                   meeting);
    ck_assert_msg(strstr(text, want) != NULL, "%s", text);
    is_of_job(c.front.run_id, scripts[_i].job);
    is_at(c.front.endpoint, host);
    is_another_run(scripts[_i].env, scripts[_i].line, c.front.run_id);
    conf_free(&c);
}

/* With --nnodes the number of workers is nobody's to find, as in a step. */
TEST(test_command_of_a_script_that_says_nnodes_finds_no_workers)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    char host[256], text[1024];
    ck_assert_int_eq(gethostname(host, sizeof(host)), 0);
    write_list("nodes", host, "");
    ck_assert(symlink("prog", "bin/ssh") == 0 || errno == EEXIST);
    ck_assert_msg(parse(scripts[0].env, "--nnodes=2 prog", &c, &o, &err) == 0,
                  "%s", err.text);
    there(&c, &o, 1, text);
    ck_assert_msg(strstr(text, "--nproc_per_node") == NULL &&
                      strstr(text, "--rdzv_endpoint=") != NULL,
                  "%s", text);
    conf_free(&c);
}

/* Neither the scheduler's command nor ssh. */
TEST(test_command_of_a_script_without_a_way_is_refused)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    char host[256];
    ck_assert_int_eq(gethostname(host, sizeof(host)), 0);
    write_list("slots", host, " 2 q U");
    (void)unlink("bin/qrsh"); /* another test's */
    (void)unlink("bin/ssh");
    ck_assert_int_eq(parse("JOB_ID=5 PE_HOSTFILE=slots", "prog", &c, &o, &err),
                     -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_msg(strstr(err.text, "qrsh or ssh, which would start ddprun on "
                                   "all of them, is not in PATH") != NULL,
                  "%s", err.text);
    ck_assert_int_eq(symlink("prog", "bin/ssh"), 0);
    ck_assert_int_eq(parse("JOB_ID=5 PE_HOSTFILE=slots", "prog", &c, &o, &err),
                     0);
    ck_assert_str_eq(c.front.command, "ssh");
    conf_free(&c);
}

/* A step for each component, since stdin reaches the first one of a step. */
TEST(test_command_of_components_starts_a_step_for_each)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    struct command w = {.n = 0};
    char text[1024], want[1024], meeting[600];
    static const char env[] = SCRIPT "SLURM_HET_SIZE=2 "
                                     "SLURM_JOB_NODELIST_HET_GROUP_0=n[1-3] "
                                     "SLURM_JOB_NODELIST_HET_GROUP_1=m1";
    ck_assert_msg(parse(env, "prog", &c, &o, &err) == 0, "%s", err.text);
    ck_assert_int_eq(c.front.kind, CONF_FRONT_SRUN);
    ck_assert_int_eq(c.front.nodes, 4);
    ck_assert_int_eq(c.front.components, 2);
    command_here(&w, &c, 1, "/bin/ddprun");
    command_text(&w, text, sizeof(text));
    ck_assert_msg(
        strstr(text, "srun --het-group=1 --nodes=1 --ntasks=1 --ntasks-per") ==
            text,
        "%s", text);
    command_free(&w);
    there(&c, &o, 1, text);
    told(&c, meeting);
    (void)snprintf(want, sizeof(want),
                   "ddprun --nnodes=4 --nproc_per_node=gpu-or-1 %s "
                   "--rdzv_backend=c10d prog",
                   meeting);
    ck_assert_str_eq(text, want);
    is_of_job(c.front.run_id, "slurm-17.het");
    is_at(c.front.endpoint, "n1");
    is_another_run(env, "prog", c.front.run_id);
    conf_free(&c);
}

TEST(test_command_variables_of_a_script_are_all_but_its_own)
{
    static char e0[] = "HOME=/root", e1[] = "PBS_TASKNUM=1", e2[] = "PWD=/x",
                e3[] = "SLURM_PROCID=0", e4[] = "CUDA_VISIBLE_DEVICES=1",
                e5[] = "PBS_JOBID=4", e6[] = "PET_HOSTS=a";
    char *env[] = {e0, e1, e2, e3, e4, e5, e6, NULL};
    struct conf c = {.front = {.kind = CONF_FRONT_HOSTS, .in_job = true}};
    struct opts o;
    struct ddp_err err;
    struct command w = {.n = 0};
    char text[1024];
    words_line("ddprun", "prog");
    ck_assert_int_eq(
        opts_parse(&o, &options_table, words_argc, words_argv, &err), 0);
    command_variables(&w, &c, &o, env);
    command_text(&w, text, sizeof(text));
    ck_assert_str_eq(text, "HOME=/root PBS_JOBID=4");
    command_free(&w);
}

TEST(test_command_variables_are_those_that_are_asked_for)
{
    static char e0[] = "HOME=/root", e1[] = "PET_ROLE=x", e2[] = "PET_HOSTS=a",
                e3[] = "A=1", e4[] = "AB=2", e5[] = "DDPRUN_TOKEN_FILE=/t",
                e6[] = "LOGLEVEL=debug", e7[] = "PET_EXPORT=A", e8[] = "odd",
                e9[] = "B=", e10[] = "VIRTUAL_ENV=/v", e11[] = "PATH=/v/bin",
                e12[] = "PYTHON_EXEC=/p", e13[] = "CONDA_PREFIX=/c";
    char *env[] = {e0, e1, e2,  e3,  e4,  e5,  e6,  e7,
                   e8, e9, e10, e11, e12, e13, NULL};
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    struct command w = {.n = 0};
    char text[1024];
    ck_assert_msg(
        parse("A=1 B=", "--hosts=a --export=A,B prog", &c, &o, &err) == 0, "%s",
        err.text);
    command_variables(&w, &c, &o, env);
    command_text(&w, text, sizeof(text));
    ck_assert_str_eq(text,
                     "PET_ROLE=x A=1 DDPRUN_TOKEN_FILE=/t LOGLEVEL=debug B= "
                     "VIRTUAL_ENV=/v PYTHON_EXEC=/p CONDA_PREFIX=/c");
    command_free(&w);
    conf_free(&c);
}

/* Nothing of a long word or of a long name is lost. */
TEST(test_command_words_and_names_may_be_long)
{
    static char line[2000], env[300], name[250], word[1500];
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    struct command w = {.n = 0};
    memset(name, 'N', sizeof(name) - 1);
    memset(word, 'w', sizeof(word) - 1);
    (void)snprintf(env, sizeof(env), "%s=1", name);
    (void)snprintf(line, sizeof(line),
                   "--hosts=a --launch_with=%s --export=%s prog", word, name);
    ck_assert_msg(parse(env, line, &c, &o, &err) == 0, "%s", err.text);
    command_here(&w, &c, 0, "/bin/ddprun");
    ck_assert_str_eq(w.word[0], word);
    command_free(&w);
    conf_free(&c);
}

/* Each option that makes a front end has a variable, which no host gets. */
TEST(test_command_variables_make_no_front_end)
{
    struct conf c = {.front = {.kind = CONF_FRONT_HOSTS}};
    struct opts o;
    struct ddp_err err;
    struct command w = {.n = 0};
    words_line("ddprun", "--hosts=a prog");
    ck_assert_int_eq(
        opts_parse(&o, &options_table, words_argc, words_argv, &err), 0);
    for (const int *id = options_of_front; *id >= 0; id++) {
        char text[64];
        char *env[] = {text, NULL};
        (void)snprintf(text, sizeof(text), "%s=x", options_table.rows[*id].env);
        command_variables(&w, &c, &o, env);
        ck_assert_int_eq(w.n, 0);
    }
}

/* Command lines that cannot be. */
static const struct {
    const char *env, *line, *want;
} wrong[] = {
    {"", "--hosts=a,a prog", "--hosts=a,a: the host a is there twice"},
    {"", "--hosts=a:x prog", "--hosts=a:x: 'x' is no number of slots"},
    {"PET_HOSTS=a,,b", "prog", "PET_HOSTS=a,,b: '' is not a host name"},
    {"", "--hosts=a --hostfile=hosts prog",
     "--hosts cannot be used with --hostfile"},
    {"", "--hostfile=nowhere prog",
     "cannot read the list of hosts, --hostfile=nowhere: No such file"},
    {"", "--hostfile=data prog", "data: no host is in it"},
    {"", "--hostfile=/tmp prog",
     "--hostfile=/tmp: must be a file on a disk, and no pipe or folder"},
    {"", "--hostfile= prog", "--hostfile=: must not be empty"},
    {"", "--hosts= prog", "--hosts=: must not be empty"},
    {SCRIPT, "--hosts= prog", "--hosts=: must not be empty"},
    {"", "--launch_with=rsh prog",
     "--launch_with=rsh: has no effect without a list of hosts; add --hosts or "
     "--hostfile"},
    {"", "--export=HOME prog", "--export=HOME: has no effect without a list"},
    {"", "--hosts=a,b --node_rank=0 prog",
     "--node_rank cannot be used where one line starts the launchers"},
    {"", "--hosts=a,b --standalone prog", "--standalone cannot be used where"},
    {"", "--hosts=a,b --local_addr=x prog",
     "--local_addr cannot be used where"},
    {"", "--hosts=a,b --nnodes=3 prog",
     "--nnodes=3: there are only 2 hosts to start on"},
    {"", "--hosts=a --nnodes=2:4 prog",
     "--nnodes=2:4: there is only 1 host to start on"},
    {"", "--hosts=localhost,b prog", "the first host of the list is localhost"},
    {"", "--hosts=127.0.0.1,b prog", "the first host of the list is 127.0.0.1"},
    {"PET_LAUNCH_WITH=\t", "--hosts=a prog",
     "PET_LAUNCH_WITH=\t: must be a command, such as ssh"},
    {"", "--hosts=a --launch_timeout=0.5 prog",
     "--launch_timeout=0.5: must be a number of seconds from 1 to 3600"},
    {"", "--hosts=a --export=NONE prog",
     "--export=NONE: the variable NONE is not set here"},
    {"", "--hosts=a --export=1A prog",
     "--export=1A: '1A' is not the name of a variable"},
    {"A=1", "--hosts=a --export=A=1 prog", "'A=1' is not the name of"},
    {SCRIPT, "--nnodes=4 prog", "--nnodes=4: there are only 3 hosts"},
    {SCRIPT, "--node_rank=0 prog", "--node_rank cannot be used where"},
    {SCRIPT, "--nnodes=0 prog", "--nnodes=0: must be N or MIN:MAX"},
};

TEST_EACH(test_command_lines_that_cannot_be_are_refused, wrong)
{
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    int rc = parse(wrong[_i].env, wrong[_i].line, &c, &o, &err);
    ck_assert_msg(rc == -1, "%s", wrong[_i].line);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_msg(strstr(err.text, wrong[_i].want) != NULL, "%s", err.text);
}

SUITE("front_command", "command", FIXTURE_ONCE(setup, scratch_leave))
