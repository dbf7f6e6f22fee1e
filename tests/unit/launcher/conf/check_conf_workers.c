/* links: tests/lib/conf_line */
/* libs: -lcjson -ldl -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/* Command lines of ddprun, and what is run by them, how often, on which CPUs
 * and GPUs. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launcher/conf/conf.h"
#include "launcher/hw/cpus.h"
#include "launcher/hw/topology.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/elf_image.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static const struct {
    const char *env;
    const char *line;
    const char *want; /* exec_path, prog_name: argv */
} programs[] = {
    {"", "prog", "bin/prog prog: [prog]"},
    {"", "prog a --nnodes -- b",
     "bin/prog prog: [prog] [a] [--nnodes] [--] [b]"},
    {"", "-- prog -- b", "bin/prog prog: [prog] [--] [b]"},
    {"", "prog -- b", "bin/prog prog: [prog] [--] [b]"},
    {"", "--no_python prog -- -- b", "bin/prog prog: [prog] [--] [b]"},
    {"", "train.py -- --x",
     "bin/python3 train.py: [bin/python3] [-u] [train.py] [--x]"},
    {"", "-m pkg --", "bin/python3 pkg: [bin/python3] [-u] [-m] [pkg]"},
    {"", "-- train.py -- --x",
     "bin/python3 train.py: [bin/python3] [-u] [train.py] [--] [--x]"},
    {"", "train.py a -- b",
     "bin/python3 train.py: [bin/python3] [-u] [train.py] [a] [--] [b]"},
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
TEST_EACH(test_conf_program_is_found, programs)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(
        conf_line_conf(&c, programs[_i].env, programs[_i].line, &err) == 0,
        "%s: %s", programs[_i].line, err.text);
    char text[512];
    int n = snprintf(text, sizeof(text), "%s %s:", c.exec_path, c.prog_name);
    for (char **p = c.argv; *p != NULL; p++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " [%s]", *p);
    ck_assert_str_eq(text, programs[_i].want);
    conf_free(&c);
}

#define TWO_NODES "--nnodes=2 --rdzv_endpoint=h:1 "

/* A program of MPI of which each worker would be a world of its own: its user
 * is told, unless --mpi was given. */
TEST_LOOP(test_conf_mpi_program_is_told, 0, 13)
{
    static const struct {
        const char *env, *line;
        bool told;
    } cases[] = {
        {"", "--nproc=2 mpi", true},
        {"", TWO_NODES "./bin/mpi", true},
        {"", "--nproc=2 --no_python mpi", true},
        {"", "--cluster=none --nproc=2 mpi", true},
        {"", "mpi", false},
        {"", "--nproc=2 --mpi=none mpi", false},
        {"PET_MPI=none", "--nproc=2 mpi", false},
        {"", "--nproc=2 --mpi=pmi1 mpi", false},
        {"", "--nproc=2 prog", false},
        {"OMP_NUM_THREADS=1", "--nproc=2 --run_path bin/mpi", false},
        {"", TWO_NODES "--cluster=none mpi", false}, /* a task's, of srun */
        {"", TWO_NODES "--preflight mpi", false},
        {"", "--hosts=a:2,b:2 mpi", false}, /* each host looks itself */
    };
    const struct elf_image m = elf_image_of("libmpi.so.40");
    struct conf c;
    struct ddp_err err = {.text = ""};
    int fd = open("bin/mpi", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, &m, sizeof(m)), sizeof(m));
    ck_assert_int_eq(close(fd), 0);
    ck_assert_msg(conf_line_conf(&c, cases[_i].env, cases[_i].line, &err) == 0,
                  "%s: %s", cases[_i].line, err.text);
    ck_assert_msg(c.notes_len == cases[_i].told, "%s: %s", cases[_i].line,
                  c.notes[0]);
    ck_assert_str_eq(
        c.notes[0],
        cases[_i].told ? "mpi names MPI (libmpi.so.40), and without --mpi=auto "
                         "each worker is an MPI world of its own"
                       : "");
    conf_free(&c);
}

/* cpu is what the affinity allows; auto takes it where no GPU is visible. */
TEST(test_conf_nproc_cpu_is_counted)
{
    struct conf c;
    ck_assert_int_eq(conf_line_conf(&c, "", "--nproc_per_node=cpu prog", NULL),
                     0);
    int cpus = c.nproc;
    ck_assert_int_ge(cpus, 1);
    ck_assert_int_le(cpus, (int)sysconf(_SC_NPROCESSORS_CONF));
    conf_free(&c);
    ck_assert_int_eq(conf_line_conf(&c, "CUDA_VISIBLE_DEVICES=",
                                    "--nproc_per_node=auto prog", NULL),
                     0);
    ck_assert_int_eq(c.nproc, cpus);
    conf_free(&c);
}

/* --gpus counts within what is visible; each worker gets its own with
 * --virtual_local_rank. */
TEST_LOOP(test_conf_gpus_are_handed_out, 0, 16)
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
        {"FAKE_NVML=GPU-a+0:1:0;GPU-b+0:2:0;GPU-c+0:3:0",
         "--virtual_local_rank --nproc=3 prog", "", "2"},
        {"FAKE_NVML=GPU-a+0:1:0+lost;GPU-b+0:2:0;GPU-c+0:3:0",
         "--virtual_local_rank --nproc=2 prog", "", "2"},
        {"FAKE_NVML=GPU-a+0:1:0;GPU-b+0:2:0", "--gpus=1 prog", "1", ""},
        {"FAKE_NVML=GPU-a+0:1:0;GPU-b+0:2:0+lost;GPU-c+0:3:0",
         "--gpus=1 --nproc=gpu --virtual prog", "2", "2"},
        {"FAKE_NVML=GPU-a+0:1:0;GPU-b+0:2:0+lost;GPU-c+0:3:0 "
         "CUDA_VISIBLE_DEVICES=0,2",
         "--nproc=gpu --virtual prog", "", "2"},
        {"FAKE_NVML=GPU-a+0:1:0+mig=MIG-1,MIG-2;GPU-b+0:2:0",
         "--gpus=0-2 --nproc=gpu --virtual prog", "MIG-1,MIG-2,1", "1"},
        {"HIP_VISIBLE_DEVICES=6,7 CUDA_VISIBLE_DEVICES=4",
         "--virtual --nproc=2 prog", "", "7"},
        {"HIP_VISIBLE_DEVICES=6,7", "--gpus=1 prog", "7", ""},
        {"PET_VIRTUAL_LOCAL_RANK=1 CUDA_VISIBLE_DEVICES=4,5", "--nproc=2 prog",
         "", "5"},
        {"CUDA_VISIBLE_DEVICES=4,5,6", "--gpus=2,0 --virtual --nproc=2 prog",
         "6,4", "4"},
    };
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(conf_line_conf(&c, cases[_i].env, cases[_i].line, &err) == 0,
                  "%s", err.text);
    ck_assert_str_eq(c.gpus, cases[_i].gpus);
    ck_assert_str_eq(c.seats[c.nproc - 1].gpu, cases[_i].seat);
    ck_assert_int_eq(c.virtual_local_rank, cases[_i].seat[0] != '\0');
    ck_assert_int_eq(c.hip, strncmp(cases[_i].env, "HIP", 3) == 0);
    conf_free(&c);
}

/* Workers are bound to CPUs that this process may use, each to its own. */
TEST(test_conf_workers_are_bound)
{
    struct conf c;
    struct cpus allowed, both;
    cpus_allowed(&allowed);
    if (cpus_count(&allowed) < 4)
        return; /* one core may be all there is */
    ck_assert_int_eq(conf_line_conf(&c, "CUDA_VISIBLE_DEVICES=",
                                    "--numa_binding=exclusive --nproc=2 prog",
                                    NULL),
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
    ck_assert_int_eq(conf_line_conf(&c, "", "prog", NULL), 0);
    ck_assert_int_eq(c.numa_binding, TOPOLOGY_NONE);
    conf_free(&c);
}

SUITE("conf_workers",
      "conf_workers",
      .tags = "fast",
      FIXTURE_ONCE(conf_line_setup, scratch_leave))
