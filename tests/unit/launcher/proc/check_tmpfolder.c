/* links: tests/lib/scratch launcher/proc/tmpfolder rendezvous/base/err */
/*
 * Whether a launch makes its own folder below TMPDIR and removes it at its end,
 * but nothing with files in it.
 */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/proc/tmpfolder.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static char path[200];

static void setup(void)
{
    scratch_enter();
    ck_assert_int_eq(setenv("TMPDIR", scratch, 1), 0);
    ck_assert(tmpfolder_make(path, sizeof(path)));
}

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(name, &st) == 0;
}

/* Its own one, private, which goes when it is empty. */
TEST(test_tmpfolder_comes_and_goes)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0700);
    tmpfolder_remove(path);
    ck_assert(!is_there(path));
    ck_assert(tmpfolder_make(path, sizeof(path)));
    ck_assert_int_eq(chdir(path), 0);
    ck_assert_int_eq(mkdir("something", 0700), 0);
    tmpfolder_remove(path);
    ck_assert(is_there(path));
}

/* Where none can be made, the parent is named. */
TEST(test_tmpfolder_that_cannot_be_made)
{
    ck_assert_int_eq(setenv("TMPDIR", "/is/not/there", 1), 0);
    ck_assert(!tmpfolder_make(path, sizeof(path)));
    ck_assert_str_eq(path, "/is/not/there");
    ck_assert(!tmpfolder_make(path, 10));
}

SUITE("tmpfolder", "tmpfolder", .tags = "fast", FIXTURE(setup, scratch_leave))
