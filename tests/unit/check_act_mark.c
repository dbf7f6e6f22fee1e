/* links: rendezvous/daemon/act_mark rendezvous/base/err rendezvous/base/log */
/* links: rendezvous/base/access rendezvous/base/mono */
/* links: rendezvous/base/utf8 rendezvous/net/server_mark */
/*
 * What a server leaves behind for the next one at its port.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/server_mark.h"
#include "rendezvous/daemon/act_mark.h"
#include "tests/lib/suite.h"

#define PORT (20000 + (int)getpid() % 20000)

static char path[80];
static struct rdzv_before before;

static void setup(void)
{
    (void)snprintf(path, sizeof(path), "/dev/shm/ddprun-server_%u_%d",
                   (unsigned)geteuid(), PORT);
    (void)unlink(path);
}

static void teardown(void)
{
    (void)unlink(path);
}

START_TEST(test_act_mark_tells_the_next_server_when_the_last_one_acted)
{
    struct act_mark *one = act_mark_open(PORT, "0123456789abcdefXXXX", &before);
    ck_assert_ptr_nonnull(one);
    ck_assert_str_eq(before.server, "");
    act_mark_set(one, 1234567);
    act_mark_close(one, true);
    struct act_mark *two = act_mark_open(PORT, "two", &before);
    ck_assert_ptr_nonnull(two);
    ck_assert_str_eq(before.server, "0123456789abcdef");
    ck_assert_int_eq(before.acted_us, 1234567);
    act_mark_close(two, false);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* One that lives, at another address of this port perhaps, proves nothing. */
START_TEST(test_act_mark_of_a_server_that_lives_tells_nothing)
{
    struct act_mark *one = act_mark_open(PORT, "one", &before);
    ck_assert_ptr_nonnull(one);
    act_mark_set(one, 1);
    ck_assert_ptr_null(act_mark_open(PORT, "two", &before));
    ck_assert_str_eq(before.server, "");
    act_mark_set(NULL, 5);
    act_mark_close(NULL, false);
    act_mark_close(one, true);
}
END_TEST

/* Everybody may put a file there: nonsense, one that others may write, a link.
 */
START_TEST(test_act_mark_believes_no_file_of_others)
{
    FILE *f = _i == 2 ? NULL : fopen(path, "w");
    if (_i == 2)
        ck_assert_int_eq(symlink("/dev/null", path), 0);
    else
        ck_assert(fputs("nonsense, and more of it", f) >= 0 && fclose(f) == 0);
    if (_i < 2)
        ck_assert_int_eq(chmod(path, _i == 0 ? 0600 : 0666), 0);
    struct act_mark *m = act_mark_open(PORT, "one", &before);
    ck_assert((m != NULL) == (_i == 0));
    ck_assert_str_eq(before.server, "");
    act_mark_close(m, true);
}
END_TEST

static const struct {
    int64_t ago_us;
    bool killed, stays;
} others[] = {
    {60 * MONO_S, true, true},
    {3601 * MONO_S, true, false},
    {3601 * MONO_S, false, true}, /* it lives, and has nothing to do */
};

/* Whatever port it was at. */
START_TEST(test_act_mark_of_a_dead_server_goes_an_hour_later)
{
    struct act_mark *other = act_mark_open(PORT + 1, "other", &before);
    ck_assert_ptr_nonnull(other);
    act_mark_set(other, mono_now_us() - others[_i].ago_us);
    if (others[_i].killed)
        act_mark_close(other, true);
    (void)snprintf(path, sizeof(path), "/dev/shm/ddprun-server_%u_%d",
                   (unsigned)geteuid(), PORT + 1);
    const struct timespec made[2] = {{.tv_sec = time(NULL) - 3700},
                                     {.tv_sec = time(NULL) - 3700}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, made, 0), 0);
    act_mark_close(act_mark_open(PORT, "one", &before), false);
    ck_assert_int_eq(access(path, F_OK), others[_i].stays ? 0 : -1);
    if (!others[_i].killed)
        act_mark_close(other, false);
}
END_TEST

static void count_own(void *ctx, int port)
{
    if (port == PORT)
        ++*(int *)ctx;
}

/* By its name alone; other names of the folder are none. */
START_TEST(test_act_mark_is_found_as_long_as_it_is_there)
{
    int found = 0;
    char other[100];
    struct act_mark *m = act_mark_open(PORT, "one", &before);
    (void)snprintf(other, sizeof(other), "%sx", path);
    int fd = open(other, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    server_mark_each(count_own, &found);
    ck_assert_int_eq(unlink(other), 0);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(found, 1);
    act_mark_close(m, false);
    server_mark_each(count_own, &found);
    ck_assert_int_eq(found, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("act_mark");
    TCase *t = tcase_create("act_mark");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t,
                   test_act_mark_tells_the_next_server_when_the_last_one_acted);
    tcase_add_test(t, test_act_mark_of_a_server_that_lives_tells_nothing);
    tcase_add_loop_test(t, test_act_mark_believes_no_file_of_others, 0, 3);
    tcase_add_loop_test(t, test_act_mark_of_a_dead_server_goes_an_hour_later, 0,
                        (int)(sizeof(others) / sizeof(*others)));
    tcase_add_test(t, test_act_mark_is_found_as_long_as_it_is_there);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
