/* links: worker_rt/{own_part,env,proof,fork,abi,death_sign,beat,store_ops} */
/* links: rendezvous/client/store */
/* links: rendezvous/base/{dial,err,mono,rng,buf,signals_name} */
/* links: rendezvous/proto/c10d */
/*
 * A worker's place from its environment, its heartbeat, and being asked to
 * stop.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/rt.h"

static const char *const good[][2] = {
    {"RANK", "5"},
    {"WORLD_SIZE", "8"},
    {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "4"},
    {"GROUP_RANK", "1"},
    {"MASTER_ADDR", "10.0.0.1"},
    {"MASTER_PORT", "29500"},
    {"TORCHELASTIC_RESTART_COUNT", "2"},
    {"TORCHELASTIC_RUN_ID", "job-7"},
    {"DDP_INSTANCE", "000102030405060708090a0b0c0d0e0f"},
    {"DDP_ROUND", "9223372036854775807"},
    {"DDP_EPOCH", "3.0123456789abcdef"},
};
#define VARIABLES (sizeof(good) / sizeof(good[0]))

static void set_none(void)
{
    for (size_t i = 0; i < VARIABLES; i++)
        ck_assert_int_eq(unsetenv(good[i][0]), 0);
    ck_assert_int_eq(unsetenv("DDP_PROGRESS_FILE"), 0);
}

static void set_good(void)
{
    set_none();
    for (size_t i = 0; i < VARIABLES; i++)
        ck_assert_int_eq(setenv(good[i][0], good[i][1], 1), 0);
}

/* Nothing set: a world of one, and no store. */
TEST(test_env_without_launcher_is_a_world_of_one)
{
    struct ddp_error e;
    bool there;
    set_none();
    ck_assert_int_eq(setenv("MASTER_ADDR", "left.over", 1), 0);
    struct ddp *d = ddp_init(&e);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(ddp_rank(d), 0);
    ck_assert_int_eq(ddp_world(d), 1);
    ck_assert_int_eq(ddp_local_rank(d), 0);
    ck_assert_int_eq(ddp_local_world(d), 1);
    ck_assert_int_eq(ddp_group_rank(d), 0);
    ck_assert_int_eq(ddp_restart_count(d), 0);
    ck_assert_int_eq(ddp_round(d), 0);
    ck_assert_str_eq(ddp_run_id(d), "none");
    ck_assert_str_eq(ddp_instance(d), "00000000000000000000000000000000");
    ck_assert_int_eq(ddp_store_check(d, "x", &there, 1000, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_UNREACHABLE);
    ddp_beat(d, 1);
    ddp_free(d);
    ddp_free(NULL);
}

/* Everything set: every value arrives. */
TEST(test_env_of_a_launcher_is_read)
{
    set_good();
    struct ddp *d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(ddp_rank(d), 5);
    ck_assert_int_eq(ddp_world(d), 8);
    ck_assert_int_eq(ddp_local_rank(d), 1);
    ck_assert_int_eq(ddp_local_world(d), 4);
    ck_assert_int_eq(ddp_group_rank(d), 1);
    ck_assert_int_eq(ddp_restart_count(d), 2);
    ck_assert_int_eq(ddp_round(d), INT64_MAX);
    ck_assert_str_eq(ddp_run_id(d), "job-7");
    ck_assert_str_eq(ddp_instance(d), "000102030405060708090a0b0c0d0e0f");
    ddp_free(d);
}

/* torchrun sets no DDP_*: the restarts tell the rounds apart. */
TEST(test_env_of_torchrun_is_enough)
{
    set_good();
    ck_assert_int_eq(unsetenv("DDP_ROUND"), 0);
    ck_assert_int_eq(unsetenv("DDP_INSTANCE"), 0);
    struct ddp *d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(ddp_round(d), 3);
    ddp_free(d);
}

static const struct {
    const char *name;
    const char *value; /* NULL: not set */
} bad[] = {
    {"RANK", NULL},
    {"RANK", "8"},
    {"RANK", "-1"},
    {"RANK", ""},
    {"RANK", "1x"},
    {"RANK", " 1"},
    {"RANK", "0x1"},
    {"RANK", "99999999999999999999"},
    {"WORLD_SIZE", NULL},
    {"WORLD_SIZE", "0"},
    {"WORLD_SIZE", "99999999"},
    {"LOCAL_RANK", NULL},
    {"LOCAL_RANK", "4"},
    {"LOCAL_WORLD_SIZE", NULL},
    {"LOCAL_WORLD_SIZE", "9"},
    {"GROUP_RANK", "8"},
    {"MASTER_ADDR", NULL},
    {"MASTER_ADDR", ""},
    {"MASTER_PORT", NULL},
    {"MASTER_PORT", "0"},
    {"MASTER_PORT", "65536"},
    {"TORCHELASTIC_RESTART_COUNT", "-1"},
    {"DDP_INSTANCE", "0001"},
    {"DDP_INSTANCE", "000102030405060708090A0B0C0D0E0F"},
    {"DDP_INSTANCE", "000102030405060708090a0b0c0d0e0f0"},
    {"DDP_ROUND_KEY", ""},
    {"DDP_ROUND_KEY", "000102030405060708090a0b0c0d0e0g"},
    {"DDP_ROUND_KEY", "000102030405060708090a0b0c0d0e0f0"},
    {"DDP_ROUND", "0"},
    {"DDP_ROUND", "1.5"},
    {"DDP_EPOCH", ""},
    {"DDP_EPOCH", "-1"},
    {"DDP_EPOCH", "x.0123456789abcdef"},
    {"DDP_EPOCH", "99999999999999999999.0123456789abcdef"},
    {"DDP_PROGRESS_FILE", "/no/such/folder/file"},
};

/* An error that names the variable; never a guess. */
TEST_EACH(test_env_bad_value_names_the_variable, bad)
{
    struct ddp_error e = {0};
    set_good();
    if (bad[_i].value == NULL)
        ck_assert_int_eq(unsetenv(bad[_i].name), 0);
    else
        ck_assert_int_eq(setenv(bad[_i].name, bad[_i].value, 1), 0);
    ck_assert_ptr_null(ddp_init(&e));
    bool file = strcmp(bad[_i].name, "DDP_PROGRESS_FILE") == 0;
    ck_assert_int_eq(e.code, file ? DDP_ERR_CONFIG : DDP_ERR_USAGE);
    ck_assert_msg(strstr(e.text, bad[_i].name) != NULL, "%s", e.text);
}

/* What a later server writes is newer, whatever its round: also where terms
 * leap to another line (ddprun-protocol(7)), in which the rounds order. */
TEST(test_env_later_terms_and_lines_are_newer)
{
    static const struct {
        const char *epoch, *round;
    } rows[] = {{"0", "9"},           {"2.e", "8"},
                {"999999.e", "7"},    {"1000001.e", "6"},
                {"720000001.e", "5"}, {"720000002.e", "6"},
                {"721000001.e", "4"}, {"99000000000001.e", "3"}};
    int64_t last = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_good();
        ck_assert_int_eq(setenv("DDP_EPOCH", rows[i].epoch, 1), 0);
        ck_assert_int_eq(setenv("DDP_ROUND", rows[i].round, 1), 0);
        struct ddp *d = ddp_init(NULL);
        ck_assert_ptr_nonnull(d);
        ck_assert_int_gt(d->fence, last);
        last = d->fence;
        ddp_free(d);
    }
}

/* Whoever reads the error has not the key. */
TEST(test_env_error_does_not_show_the_key)
{
    struct ddp_error e = {0};
    set_good();
    ck_assert_int_eq(
        setenv("DDP_ROUND_KEY", "f0e1d2c3b4a5968778695a4b3c2d1e0", 1), 0);
    ck_assert_ptr_null(ddp_init(&e));
    ck_assert_ptr_null(strstr(e.text, "f0e1"));
    ck_assert_int_eq(unsetenv("DDP_ROUND_KEY"), 0);
}

/* The public numbers are the exit statuses of the inner codes. */
TEST(test_env_public_codes_are_the_exit_statuses)
{
    static const int pairs[][2] = {
        {DDP_OK, DDP_E_OK},
        {DDP_ERR_USAGE, DDP_E_USAGE},
        {DDP_ERR_CONFLICT, DDP_E_CONFLICT},
        {DDP_ERR_NOINPUT, DDP_E_NOINPUT},
        {DDP_ERR_CORRUPT, DDP_E_CORRUPT},
        {DDP_ERR_UNREACHABLE, DDP_E_UNREACHABLE},
        {DDP_ERR_BUG, DDP_E_BUG},
        {DDP_ERR_NOMEM, DDP_E_NOMEM},
        {DDP_ERR_LOST, DDP_E_LOST},
        {DDP_ERR_IO, DDP_E_IO},
        {DDP_ERR_TIMEOUT, DDP_E_TIMEOUT},
        {DDP_ERR_PROTO, DDP_E_PROTO},
        {DDP_ERR_PEER, DDP_E_PEER},
        {DDP_ERR_CONFIG, DDP_E_CONFIG},
        {DDP_ERR_ABORTED, DDP_E_ABORTED},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        ck_assert_int_eq(ddp_code_exit((enum ddp_code)pairs[i][1]),
                         pairs[i][0]);
}

static void read_line(const char *path, char line[64])
{
    int fd = open(path, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ssize_t n = read(fd, line, 63);
    ck_assert_int_ge(n, 0);
    line[n] = '\0';
    ck_assert_int_eq(close(fd), 0);
}

CASE("life")

/* The first beat at once, others within 100 ms not, then again; the line never
 * keeps older digits. */
TEST(test_beat_writes_the_step_ten_times_a_second)
{
    char path[] = "/tmp/check_beat.XXXXXX", line[64];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    set_none();
    ck_assert_int_eq(setenv("DDP_PROGRESS_FILE", path, 1), 0);
    struct ddp *d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
    ddp_beat(d, INT64_MAX);
    read_line(path, line);
    ck_assert_str_eq(line, " 9223372036854775807\n");
    ddp_beat(d, 7);
    read_line(path, line);
    ck_assert_str_eq(line, " 9223372036854775807\n");
    (void)usleep(120000);
    ddp_beat(d, 8);
    read_line(path, line);
    ck_assert_str_eq(line, "                   8\n");
    ddp_free(d);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(unlink(path), 0);
}

/* No handler until the program asks; then the signal is only noted. (Not
 * SIGTERM: Check itself has a handler for that.) */
TEST(test_stop_signal_is_noted_where_asked_for)
{
    struct ddp_error e;
    struct sigaction sa;
    set_none();
    struct ddp *d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(sigaction(SIGUSR2, NULL, &sa), 0);
    ck_assert(sa.sa_handler == SIG_DFL);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ck_assert_int_eq(ddp_stop_on_signal(d, SIGUSR2, &e), 0);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ck_assert_int_eq(raise(SIGUSR2), 0);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SIGNAL);
    ck_assert_int_eq(ddp_stop_on_signal(d, SIGKILL, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    ck_assert_str_eq(e.text,
                     "cannot catch signal 9 (SIGKILL): Invalid argument");
    ddp_free(d);
}

SUITE("ddp_env", "place")
