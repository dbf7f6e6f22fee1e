/*
 * ddprun: parses, checks, splits into guard and agent, runs.
 *
 * All that a user can have done wrong is found before the split, in one
 * process, so that it is told once and nothing is started for it. After the
 * split the guard only waits for the agent and its workers; everything else
 * happens in the agent, which may be killed at any moment.
 *
 * In the script of a Slurm job, or with a list of hosts, it is no launcher but
 * starts one on each host (launcher/front).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "launcher/cluster/cluster.h"
#include "launcher/conf/conf.h"
#include "launcher/conf/options.h"
#include "launcher/dry_run.h"
#include "launcher/front/front.h"
#include "launcher/front/proxy.h"
#include "launcher/front/requeue.h"
#include "launcher/loop.h"
#include "launcher/mpi/pmix_server.h"
#include "launcher/preflight/preflight.h"
#include "launcher/proc/cgroup.h"
#include "launcher/proc/guard.h"
#include "launcher/proc/janitor.h"
#include "launcher/proc/pidfd.h"
#include "launcher/proc/procfs.h"
#include "launcher/rdzv/store_host.h"
#include "launcher/report/try_files.h"
#include "launcher/worker/spawn.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/utc.h"
#include "rendezvous/http/http_hosts.h"
#include "rendezvous/net/allow.h"
#include "rendezvous/net/tls.h"

__attribute__((noreturn)) static void refuse(const struct ddp_err *err)
{
    log_warnx("%s", err->text);
    if (err->code == DDP_E_USAGE)
        opts_usage(&options_table, stderr);
    exit(ddp_code_exit(err->code));
}

/* --print_completion, which needs no program. */
static int print_completion(const struct opts *o)
{
    struct ddp_err err;
    const char *shell = opts_text(o, OPTIONS_print_completion);
    if (!opts_completion(&options_table, shell, stdout)) {
        ddp_err_set(&err, DDP_E_USAGE,
                    "--print_completion=%.80s: must be bash, zsh or fish",
                    shell);
        refuse(&err);
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) /* an earlier write failed */
        return 0;
    fatal(ddp_code_exit(DDP_E_IO), "cannot write to standard output");
}

/* What works without, and what does not. */
static void tell_of_proc(void)
{
    log_warnx("/proc does not show the processes of this pid namespace (mount "
              "one: unshare --mount-proc): some of what workers leave "
              "behind may live until the launch ends, and stacks of a worker "
              "that hangs are not written");
    if (procfs_self() == 0)
        log_warnx("without /proc/self, DDP_PROGRESS_FILE, DDP_STOP_FILE and "
                  "DDP_SNAPSHOT_MEMORY are empty: no progress is seen but "
                  "output, workers are asked to stop by SIGTERM only, and "
                  "snapshots go to the disk");
}

/* The first option given that cannot work without memfds; NULL: none. */
static const char *need_memfd(const struct conf *c)
{
    if (conf_hang_acts(c->hang.how))
        return "--hang_timeout";
    return c->health_check[0] != '\0' || c->gpu_health_check ? "--health_check"
                                                             : NULL;
}

/* A worker whose progress cannot be seen would be taken for one that hangs, and
 * a node without a result for an unfit one. */
static int check_kernel(const struct conf *c, struct ddp_err *err)
{
    const char *option = need_memfd(c);
    int fd = option != NULL ? memfd_create("ddprun-try", MFD_CLOEXEC) : -1;
    if (fd >= 0)
        (void)close(fd); /* was only tried */
    if (option == NULL || fd >= 0 || errno == EMFILE || errno == ENFILE)
        return 0;
    return ddp_err_sys(err, DDP_E_CONFIG,
                       "%s cannot work here: it needs memfd_create (Linux "
                       "3.17 or later, allowed in this container)",
                       option);
}

/* --mpi=auto serves what can be served here, and tells it if asked. */
static int check_pmix(struct conf *c, bool tell, struct ddp_err *err)
{
    if ((c->mpi != CONF_MPI_PMIX && c->mpi != CONF_MPI_AUTO) ||
        pmix_server_probe(err) == 0)
        return 0;
    if (c->mpi == CONF_MPI_PMIX) {
        ddp_err_wrap(err, "--mpi=pmix cannot work here");
        return -1;
    }
    if (tell)
        log_info("--mpi=auto serves PMI-1 only: %s", err->text);
    c->mpi = CONF_MPI_PMI1;
    return 0;
}

/* Starts launchers, and is none. */
static int be_front(struct conf *c, const struct opts *o, int argc, char **argv)
{
    int status = opts_number(o, OPTIONS_dry_run) != 0
                     ? front_dry_run(c, o, argc, argv)
                     : front_run(c, o, argc, argv);
    conf_free(c);
    return status;
}

/* Of a process of ours: of the agent, of the server that it starts. With less
 * they die by SIGSEGV, or one waits for the other. */
#define STACK_MIN_KIB 128

static int check_stack(struct ddp_err *err)
{
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) != 0)
        return 0; /* a sandbox; it is not known to be too small */
    if (stack.rlim_cur / 1024 >= STACK_MIN_KIB)
        return 0;
    return ddp_err_set(err, DDP_E_CONFIG,
                       "a stack of %d KiB (ulimit -s) is too small: ddprun "
                       "needs %d KiB; try: ulimit -s 8192",
                       (int)(stack.rlim_cur / 1024), STACK_MIN_KIB);
}

/* What cannot be found out from the options alone. */
static int check_machine(struct conf *c, bool dry, struct ddp_err *err)
{
    if (c->token_file[0] != '\0' &&
        tls_key_read(&c->token, c->token_file, err) != 0)
        return -1;
    if (c->http_hosts[0] != '\0' && http_hosts_check(c->http_hosts, err) != 0)
        return -1;
    if (c->store_allow[0] != '\0' && store_host_allow(c, err) != 0)
        return -1;
    if (check_stack(err) != 0 || check_kernel(c, err) != 0)
        return -1;
    return check_pmix(c, dry, err);
}

/* From here on there are processes. Returns the exit status in the agent only:
 * the guard ends in guard_split. */
static int launch(const struct conf *c)
{
    (void)pidfd_works(); /* finds out before descriptors run out */
    struct spawn_origin origin;
    spawn_remember(&origin);
    if (!c->task_vars || c->mpi != CONF_MPI_NONE)
        cluster_keep_task_socket();
    /* A scheduler may send it to the workers as well. */
    origin.ignored |= c->notices;
    if (c->cgroup)
        (void)cgroup_make(); /* all works without */
    if (!procfs_is_ours())
        tell_of_proc();
    int guard_fd = guard_split(c->signals, c->requeue ? requeue_at_end : NULL);
    return loop_run(c, &origin, guard_fd);
}

int main(int argc, char *argv[])
{
    struct opts o;
    static struct conf conf;
    struct ddp_err err;
    bool probe = argc > 0 && strcmp(argv[0], PREFLIGHT_NAME) == 0;
    log_init(probe ? "preflight" : "ddprun");
    if (probe)
        return preflight_main();
    if (argc == 2 && strcmp(argv[1], PROXY_OPTION) == 0)
        return proxy_main();
    if (opts_parse(&o, &options_table, argc, argv, &err) != 0)
        refuse(&err);
    if (o.ask != OPTS_ASK_RUN)
        return opts_answer(&o, stdout);
    if (opts_given(&o, OPTIONS_print_completion))
        return print_completion(&o);
    if (conf_init(&conf, &o, argv + o.rest, &err) != 0)
        refuse(&err);
    if (conf.output.timestamps)
        log_timestamps(utc_now);
    if (conf.front.kind != CONF_FRONT_NONE)
        return be_front(&conf, &o, argc, argv);
    bool dry = opts_number(&o, OPTIONS_dry_run) != 0;
    if (check_machine(&conf, dry, &err) != 0)
        refuse(&err);
    for (int i = 0; i < conf.notes_len; i++)
        log_info("%s", conf.notes[i]);
    if (dry)
        return dry_run(&conf, stdout);
    if (try_files(&conf.output, &err) != 0)
        refuse(&err);
    if (conf.preflight && preflight_prepare(&conf, &err) != 0)
        refuse(&err);
    janitor_words(argc, argv);
    int status = launch(&conf);
    tls_key_free(conf.token);
    allow_free(conf.store_nets);
    conf_free(&conf);
    _exit(status); /* a resolver that hangs is a thread that still runs */
}
