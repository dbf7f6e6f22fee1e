/* links: launcher/proc/launch_lock rendezvous/base/rng rendezvous/base/err */
/* links: rendezvous/base/access */
/* links: rendezvous/base/log rendezvous/base/mono rendezvous/base/utf8 */
/*
 * The lock of a launch: held while any process of it lives, found free after.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/proc/launch_lock.h"
#include "tests/lib/suite.h"

static char run[64];
static int second_half = -1; /* closed, it ends */

static void setup(void)
{
    (void)snprintf(run, sizeof(run), "check-%d", (int)getpid());
}

static struct launch_record record_of(const char *agent)
{
    struct launch_record r = {.round = 7,
                              .group_rank = 1,
                              .held = true,
                              .hosts = true,
                              .voted = 8,
                              .voted_epoch = 3,
                              .voted_epoch_id = "00000000000000e1"};
    (void)snprintf(r.agent, sizeof(r.agent), "%s", agent);
    (void)snprintf(r.name, sizeof(r.name), "node");
    (void)snprintf(r.instance, sizeof(r.instance), "abc");
    return r;
}

/* A launch in a process of its own: it has written when this returns. Its
 * second half, a child, lives on if `split`. */
static pid_t launch(const char *agent, bool split, bool in_order)
{
    int ready[2], lives[2];
    char c;
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(lives), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct launch_record mine = record_of(agent);
        launch_lock_take(run, "host", 1);
        launch_lock_write(&mine);
        if (split && fork() == 0) {
            (void)close(lives[1]);
            (void)!read(lives[0], &c, 1);
            _exit(0);
        }
        if (in_order)
            launch_lock_drop();
        (void)!write(ready[1], "x", 1);
        (void)pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    (void)close(lives[0]);
    second_half = lives[1];
    return pid;
}

static void end(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(test_launch_lock_tells_the_dead_from_those_that_live)
{
    struct launch_record dead[LAUNCH_LOCK_DEAD_MAX];
    pid_t a = launch("a", false, false), b = launch("b", false, false);
    launch_lock_take(run, "host", 1);
    ck_assert_int_eq(launch_lock_dead(dead), 0);
    ck_assert(launch_lock_has_others());
    end(a);
    ck_assert(launch_lock_has_others());
    ck_assert_int_eq(launch_lock_dead(dead), 1);
    ck_assert_str_eq(dead[0].agent, "a");
    ck_assert_str_eq(dead[0].name, "node");
    ck_assert_str_eq(dead[0].instance, "abc");
    ck_assert_int_eq(dead[0].round, 7);
    ck_assert_int_eq(dead[0].group_rank, 1);
    ck_assert(dead[0].held && dead[0].hosts);
    ck_assert_int_eq(dead[0].voted, 8);
    ck_assert_int_eq(dead[0].voted_epoch, 3);
    ck_assert_str_eq(dead[0].voted_epoch_id, "00000000000000e1");
    launch_lock_clear();
    ck_assert_int_eq(launch_lock_dead(dead), 0);
    end(b);
    ck_assert(!launch_lock_has_others());
    ck_assert_int_eq(launch_lock_dead(dead), 1);
    launch_lock_clear();
    launch_lock_drop();
}
END_TEST

/* Guard and agent: it is held until both are dead. */
START_TEST(test_launch_lock_is_held_while_either_half_lives)
{
    struct launch_record dead[LAUNCH_LOCK_DEAD_MAX];
    end(launch("a", true, false));
    launch_lock_take(run, "host", 1);
    ck_assert_int_eq(launch_lock_dead(dead), 0);
    ck_assert_int_eq(close(second_half), 0);
    for (int ms = 0; ms < 20000 && launch_lock_dead(dead) == 0; ms++)
        (void)usleep(1000);
    ck_assert_int_eq(launch_lock_dead(dead), 1);
    launch_lock_clear();
    launch_lock_drop();
}
END_TEST

START_TEST(test_launch_lock_of_a_launch_that_ended_in_order_is_gone)
{
    struct launch_record dead[LAUNCH_LOCK_DEAD_MAX];
    end(launch("a", false, true));
    launch_lock_take(run, "host", 1);
    ck_assert_int_eq(launch_lock_dead(dead), 0);
    launch_lock_drop();
}
END_TEST

/* How many that are dead a launch of this run, host and port finds; it removes
 * their files. */
static int found_by(const char *of, const char *host, int port)
{
    struct launch_record dead[LAUNCH_LOCK_DEAD_MAX];
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        launch_lock_take(of, host, port);
        int n = launch_lock_dead(dead);
        launch_lock_clear();
        launch_lock_drop();
        _exit(n);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

START_TEST(test_launch_lock_finds_its_own_run_only)
{
    end(launch("a", false, false));
    ck_assert_int_eq(found_by("other", "host", 1), 0);
    ck_assert_int_eq(found_by(run, "other", 1), 0);
    ck_assert_int_eq(found_by(run, "host", 2), 0);
    ck_assert_int_eq(found_by(run, "host", 1), 1);
    ck_assert_int_eq(found_by(run, "host", 1), 0);
}
END_TEST

/* -- what nobody asks for -------------------------------------------------- */

static char left[128]; /* the file of a dead launch of `run` */

static int is_left(const struct dirent *e)
{
    char text[512] = "";
    char path[300];
    (void)snprintf(path, sizeof(path), "/dev/shm/%s", e->d_name);
    FILE *f =
        strncmp(e->d_name, "ddprun-launch_", 14) == 0 ? fopen(path, "r") : NULL;
    if (f == NULL)
        return 0;
    bool found = fgets(text, sizeof(text), f) != NULL &&
                 strncmp(text, left, strlen(left)) == 0;
    (void)fclose(f);
    return found;
}

/* How many are left; `name` is that of the last one. */
static int count_left(char name[256])
{
    struct dirent **found;
    int n = scandir("/dev/shm", &found, is_left, alphasort);
    for (int i = 0; i < n; i++) {
        (void)snprintf(name, 256, "%s", found[i]->d_name);
        free(found[i]);
    }
    ck_assert_int_ge(n, 0);
    free(found);
    return n;
}

static void leave_one(char name[256])
{
    (void)snprintf(left, sizeof(left), "left-%d", (int)getpid());
    end(launch(left, false, false));
    ck_assert_int_eq(count_left(name), 1);
}

/* `of`: seconds ago, of its last access and its last change. */
static void make_old(const char *name, const time_t of[2])
{
    char path[300];
    struct timespec times[2] = {{.tv_sec = time(NULL) - of[0]},
                                {.tv_sec = time(NULL) - of[1]}};
    (void)snprintf(path, sizeof(path), "/dev/shm/%s", name);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static const struct {
    time_t of[2]; /* accessed, changed */
    bool stays;
} ages[] = {
    {{36000, 36000}, true}, /* ran for hours, and was not seen dead before */
    {{60, 36000}, true},    /* was, a minute ago */
    {{3700, 36000}, false},
};

START_TEST(test_launch_lock_removes_others_an_hour_after_they_were_seen_dead)
{
    char name[256];
    leave_one(name);
    make_old(name, ages[_i].of);
    ck_assert_int_eq(found_by("other", "host", 1), 0);
    int n = count_left(name);
    ck_assert_int_eq(n, ages[_i].stays ? 1 : 0);
    ck_assert_int_eq(found_by(run, "host", 1), n);
}
END_TEST

/* An hour is no reason to forget the one that is asked for. */
START_TEST(test_launch_lock_keeps_an_old_one_of_its_own_run)
{
    char name[256];
    leave_one(name);
    make_old(name, (time_t[2]){3700, 36000});
    ck_assert_int_eq(found_by(run, "host", 1), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch_lock");
    TCase *t = tcase_create("launch_lock");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_launch_lock_tells_the_dead_from_those_that_live);
    tcase_add_test(t, test_launch_lock_is_held_while_either_half_lives);
    tcase_add_test(t, test_launch_lock_of_a_launch_that_ended_in_order_is_gone);
    tcase_add_test(t, test_launch_lock_finds_its_own_run_only);
    tcase_add_loop_test(
        t, test_launch_lock_removes_others_an_hour_after_they_were_seen_dead, 0,
        (int)(sizeof(ages) / sizeof(*ages)));
    tcase_add_test(t, test_launch_lock_keeps_an_old_one_of_its_own_run);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
