/* links: launcher/front/{hosts,front,child,command,orders,marks,streams} */
/* links: launcher/front/proxy launcher/output/{console,lines} */
/* links: tests/lib/{conf_line,words,hurt} */
/* links: rendezvous/base/{buf,open_files,utc} */
/* libs: -luv -lcjson -ldl */
/*
 * A front end and a proxy while each system call of theirs fails in turn: the
 * job's status comes, or it is said what failed. Nothing hangs, and nothing is
 * left. This program is the proxy and the launcher as well.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/conf/options.h"
#include "launcher/front/front.h"
#include "launcher/front/proxy.h"
#include "rendezvous/base/log.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/words.h"

#define STATUS 5 /* of the launcher */

static void setup(void)
{
    conf_line_setup();
    FILE *f = fopen("stand-in", "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#!/bin/sh\nshift\nexec \"$@\"\n");
    ck_assert_int_eq(fchmod(fileno(f), 0755), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static int judge(int status)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "it ended with status %d", status);
    return status == STATUS ? HURT_DONE
           : status == 0    ? hurt_wrong("it ended with 0")
                            : hurt_told(text);
}

/* -- the front end --------------------------------------------------------- */

static int run_front(void *ctx)
{
    static struct conf c;
    struct opts o;
    struct ddp_err err;
    (void)ctx;
    fault_hold(true);
    log_init("ddprun");
    conf_line_env("");
    (void)setenv("PATH", "/bin:/usr/bin", 1);
    words_line("ddprun", "--hosts=a,b --launch_with=./stand-in end");
    if (opts_parse(&o, &options_table, words_argc, words_argv, &err) < 0 ||
        conf_init(&c, &o, words_argv + o.rest, &err) < 0)
        return hurt_wrong(err.text);
    fault_hold(false);
    return judge(front_run(&c, &o, words_argc, words_argv));
}

TEST(test_front_ends_as_its_launchers_or_says_what_failed)
{
    hurt_each("test", 3, run_front, NULL, "pipe2 fork signalfd poll read");
}

/* -- the proxy ------------------------------------------------------------- */

static int run_proxy(void *ctx)
{
    static const char start[] =
        "ddprun-front 1 0123456789abcdef0123456789abcdef 20000 5000 0 2 1 17\n"
        "/\0ddprun\0end\0V=1\0";
    int ends[2];
    (void)ctx;
    fault_hold(true);
    log_init("ddprun");
    if (pipe(ends) != 0 || dup2(ends[0], STDIN_FILENO) != STDIN_FILENO ||
        write(ends[1], start, sizeof(start) - 1) != sizeof(start) - 1)
        return hurt_wrong("no pipe");
    (void)close(ends[0]);
    fault_hold(false);
    int status = proxy_main(); /* our end of the pipe is open: it is no EOF */
    (void)close(ends[1]);
    return judge(status);
}

TEST(test_proxy_ends_as_its_launcher_or_says_what_failed)
{
    hurt_each("test", 3, run_proxy, NULL, "fork signalfd poll read");
}

TEST(test_proxys_child_becomes_a_launcher_or_says_what_failed)
{
    hurt_each("child", 3, run_proxy, NULL, "open");
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], PROXY_OPTION) == 0) {
        log_init("ddprun");
        return proxy_main();
    }
    if (strcmp(argv[0], "ddprun") == 0)
        return STATUS;
    return SUITE_RUN("front_faults", "faults", FAULT_CASE(240),
                     FIXTURE_ONCE(setup, scratch_leave));
}
