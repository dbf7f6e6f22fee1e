/* links: tests/lib/{scratch,words} */
/* links: launcher/conf/{conf,meet,endpoints,output,place,argv,rdzv,words} */
/* links: launcher/conf/{options,program,linked,from_cluster,front,leave} */
/* links: launcher/proc/{signals,procfs,memory,oom} */
/* links: launcher/hw/{cpus,topology,gpus,kfd,nvml} CLUSTER */
/* links: rendezvous/base/{mono,signals_name,opts,opts_complete,opts_help} */
/* links: rendezvous/base/{err,log,rng,utf8} */
#include "tests/lib/conf_line.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/conf/options.h"
#include "tests/lib/scratch.h"
#include "tests/lib/words.h"

static void put(const char *name, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "#!/bin/sh\n", 10), 10);
    ck_assert_int_eq(close(fd), 0);
}

void conf_line_setup(void)
{
    static const char *const dirs[] = {"bin",   "none",      "venv", "venv/bin",
                                       "conda", "conda/bin", "logs", "mod"};
    scratch_enter();
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
    put("mod/__main__.py", 0644);
}

void conf_line_env(const char *env)
{
    words_env(env);
    ck_assert_int_eq(setenv("PATH", "none::bin", 0), 0);
}

int conf_line_conf(struct conf *c,
                   const char *env,
                   const char *line,
                   struct ddp_err *err)
{
    struct opts o;
    conf_line_env(env);
    words_line("ddprun", line);
    if (opts_parse(&o, &options_table, words_argc, words_argv, err) < 0)
        return -1;
    return conf_init(c, &o, words_argv + o.rest, err);
}
