/* links: tests/lib/scratch launcher/proc/tmpfolder rendezvous/base/err */
/*
 * Which folders below TMPDIR a launch removes at its end: its own one, and
 * those of launches that were killed, but nobody else's and nothing with files
 * in it.
 */
#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/proc/tmpfolder.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static char path[200];
static int lock_fd, other_fd;

static void setup(void)
{
    scratch_enter();
    lock_fd = other_fd = -1;
    ck_assert_int_eq(setenv("TMPDIR", scratch, 1), 0);
    ck_assert(tmpfolder_make(path, sizeof(path), &lock_fd));
}

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(name, &st) == 0;
}

static void make_old(const char *name)
{
    struct timespec long_ago[2] = {{.tv_sec = 1000000000},
                                   {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, name, long_ago, AT_SYMLINK_NOFOLLOW),
                     0);
}

/* Its own one, private, which goes when it is empty. */
TEST(test_tmpfolder_comes_and_goes)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0700);
    tmpfolder_remove(path);
    ck_assert(!is_there(path));
    ck_assert(tmpfolder_make(path, sizeof(path), &lock_fd));
    ck_assert_int_eq(chdir(path), 0);
    ck_assert_int_eq(mkdir("something", 0700), 0);
    tmpfolder_remove(path);
    ck_assert(is_there(path));
}

/* What is left of launches that are no more. */
TEST(test_tmpfolder_stale_ones_go)
{
    ck_assert_int_eq(mkdir("ddprun_aaaaaa", 0700), 0);
    make_old("ddprun_aaaaaa");
    tmpfolder_sweep(path);
    ck_assert(!is_there("ddprun_aaaaaa"));
    ck_assert(is_there(path));
}

/* A launch that lives has a lock on its folder, however old that is. */
TEST(test_tmpfolder_locked_ones_stay)
{
    char other[200];
    ck_assert(tmpfolder_make(other, sizeof(other), &other_fd));
    make_old(other);
    tmpfolder_sweep(path);
    ck_assert(is_there(other));
}

/* Neither what is new, nor has files in it, nor another name, nor is no folder
 * at all. */
TEST_LOOP(test_tmpfolder_others_stay, 0, 5)
{
    static const char *const names[] = {"ddprun_bbbbbb", "ddprun_cccccc",
                                        "ddprun_ddddddd", "ddprun_eeeeee",
                                        "ddprun_ffffff"};
    const char *name = names[_i];
    if (_i < 3)
        ck_assert_int_eq(mkdir(name, 0700), 0);
    else if (_i == 3)
        ck_assert_int_eq(symlink(scratch, name), 0);
    else
        ck_assert_int_eq(close(open(name, O_CREAT | O_WRONLY, 0600)), 0);
    if (_i == 1)
        ck_assert_int_eq(mkdir("ddprun_cccccc/run", 0700), 0);
    if (_i != 0)
        make_old(name);
    tmpfolder_sweep(path);
    ck_assert(is_there(name));
}

/* Where none can be made, the parent is named. */
TEST(test_tmpfolder_that_cannot_be_made)
{
    ck_assert_int_eq(setenv("TMPDIR", "/is/not/there", 1), 0);
    ck_assert(!tmpfolder_make(path, sizeof(path), &lock_fd));
    ck_assert_str_eq(path, "/is/not/there");
    ck_assert(!tmpfolder_make(path, 10, &lock_fd));
}

SUITE("tmpfolder", "tmpfolder", .tags = "fast", FIXTURE(setup, scratch_leave))
