/* links: launcher/preflight/{preflight,probe,lead,facts,reach,look,judge} */
/* links: launcher/preflight/print OPTS CLIENT STORE NET PROTO BASE */
/* links: launcher/hw/{gpus,kfd,nvml,topology,cpus} tests/lib/{hurt,scratch} */
/* libs: -luv -lcjson -ldl */
/*
 * The probe of a preflight, as launchers start it, beside a real store: alone,
 * in pairs, with a store that it does not reach; and with each of its system
 * calls failing.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/conf/conf.h"
#include "launcher/preflight/preflight.h"
#include "launcher/preflight/probe.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/store/process.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static pid_t store;
static int port;

/* Not a child of ours: those are what a probe leaves behind. */
static void start_store(void)
{
    int fd = -1, ends[2];
    ck_assert_int_eq(addr_listen_any(0, &fd, NULL), 0);
    port = addr_fd_port(fd);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t middle = fork();
    ck_assert_int_ge(middle, 0);
    if (middle == 0) {
        struct helper_fds fds = {.listener = fd, .chan = -1};
        store = fork();
        if (store == 0) {
            (void)alarm(60); /* it has no parent to die with */
            store_process_main(&fds, NULL);
        }
        _exit(write(ends[1], &store, sizeof(store)) == sizeof(store) ? 0 : 1);
    }
    ck_assert_int_eq(read(ends[0], &store, sizeof(store)),
                     (ssize_t)sizeof(store));
    ck_assert_int_eq(waitpid(middle, NULL, 0), middle);
    ck_assert_int_eq(close(ends[0]) + close(ends[1]) + close(fd), 0);
}

static void set(const char *name, const char *value)
{
    ck_assert_int_eq(setenv(name, value, 1), 0);
}

static void set_number(const char *name, int value)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", value);
    set(name, text);
}

static void setup(void)
{
    static struct conf conf;
    scratch_enter();
    start_store();
    ck_assert_int_eq(preflight_prepare(&conf, NULL), 0);
    set("MASTER_ADDR", "127.0.0.1");
    set_number("MASTER_PORT", port);
    set("TORCHELASTIC_RESTART_COUNT", "0");
    set("TORCHELASTIC_ERROR_FILE", "error");
    set("DDP_INSTANCE", "00112233445566778899aabbccddeeff");
    set_number("GROUP_RANK", 0);
    set_number("GROUP_WORLD_SIZE", 1);
    ck_assert_ptr_nonnull(freopen("out", "w", stdout));
}

static void teardown(void)
{
    (void)kill(store, SIGKILL);
    scratch_leave();
}

static void read_file(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "re");
    text[f != NULL ? fread(text, 1, size - 1, f) : 0] = '\0';
    if (f != NULL)
        (void)fclose(f);
}

/* -- as it should be ------------------------------------------------------- */

static pid_t probe(int rank, int world)
{
    pid_t pid = fork();
    if (pid == 0) {
        set_number("GROUP_RANK", rank);
        set_number("GROUP_WORLD_SIZE", world);
        int status = preflight_main();
        (void)fflush(stdout);
        _exit(status);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(test_preflight_of_two_nodes_tries_both_links_and_prints)
{
    char text[8000];
    pid_t first = probe(0, 2), second = probe(1, 2);
    ck_assert_int_eq(status_of(first), 0);
    ck_assert_int_eq(status_of(second), 0);
    read_file("out", text, sizeof(text));
    ck_assert_msg(strstr(text, "2 nodes, 2 of 2 links good") != NULL, "%s",
                  text);
}

/* -- as it should not ------------------------------------------------------ */

TEST(test_preflight_by_hand_is_refused)
{
    ck_assert_int_eq(unsetenv("GROUP_RANK"), 0);
    ck_assert_int_eq(preflight_main(), ddp_code_exit(DDP_E_USAGE));
}

/* In the second round a node that does not reach the store says its name. */
TEST(test_preflight_in_the_second_round_names_who_is_cut_off)
{
    char text[1000];
    set("TORCHELASTIC_RESTART_COUNT", "1");
    set_number("MASTER_PORT", 1);
    ck_assert_int_eq(preflight_main(), ddp_code_exit(DDP_E_PREFLIGHT));
    read_file("error", text, sizeof(text));
    ck_assert_msg(strstr(text, "cannot reach the workers' store") != NULL, "%s",
                  text);
}

/* -- a call fails ---------------------------------------------------------- */

static int run(void *ctx)
{
    (void)ctx;
    int before = fault_descriptors();
    char why[1000];
    int status = preflight_main();
    int after = fault_descriptors();
    if (status == ddp_code_exit(DDP_E_PREFLIGHT)) { /* its report has the why */
        read_file("error", why, sizeof(why));
        (void)fprintf(stderr, "%s\n", why);
    }
    fault_end();
    (void)fflush(stdout);
    return after == before ? status : HURT_LEAK;
}

CASE("net faults", FAULT_CASE(100), FIXTURE(setup, teardown))

TEST(test_preflight_ends_and_says_why_whatever_call_fails)
{
    hurt_each("test", 1, run, NULL, "socket fork bind listen poll");
}

SUITE("preflight_main", "net", .limit_s = 100, FIXTURE(setup, teardown))
