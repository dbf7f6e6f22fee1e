/* links: tests/lib/{scratch,timeless} launcher/output/{logfile,lines} */
/* links: rendezvous/base/{err,utf8,utc} */
/*
 * Files that are changed for new ones, where that goes and where it does not.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/output/lines.h"
#include "launcher/output/logfile.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/timeless.h"

#define LIMIT 64

static struct logfile f;
static bool busy; /* "log" cannot be renamed, other files can */

/* In place of libc's. */
int rename(const char *from, const char *to)
{
    if (!busy || strcmp(from, "log") != 0)
        return renameat(AT_FDCWD, from, AT_FDCWD, to);
    errno = EBUSY;
    return -1;
}

static void teardown(void)
{
    logfile_close(&f);
    scratch_leave();
}

static off_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? st.st_size : -1;
}

/* Ten lines of ten bytes into files of LIMIT. */
static void put_lines(void)
{
    for (int i = 0; i < 10; i++)
        ck_assert(logfile_put(&f, "123456789\n", 10));
}

/* Lines are never cut, the newest older file is NAME.1, the oldest one goes. */
TEST(test_logfile_at_its_limit_becomes_the_newest_of_the_older_ones)
{
    ck_assert_int_eq(logfile_open(&f, "log", 1, LIMIT, 2), 0);
    put_lines();
    ck_assert_int_eq(size_of("log"), 40);
    ck_assert_int_eq(size_of("log.1"), 60);
    ck_assert_int_eq(size_of("log.2"), -1);
    put_lines();
    put_lines();
    ck_assert_int_eq(size_of("log"), 60);
    ck_assert_int_eq(size_of("log.1"), 60);
    ck_assert_int_eq(size_of("log.2"), 60);
    ck_assert_int_eq(size_of("log.3"), -1);
    ck_assert_int_eq(f.rotations, 4);
}

/* ... nor is one that comes in pieces, unless it is far too long. */
TEST(test_logfile_at_its_limit_ends_its_line_first)
{
    static char text[32 * 1024];
    memset(text, 'x', sizeof(text));
    ck_assert_int_eq(logfile_open(&f, "log", 1, LIMIT, 1), 0);
    ck_assert(logfile_put(&f, text, LIMIT - 2));
    ck_assert(logfile_put(&f, "end\nnext\n", 9));
    ck_assert_int_eq(size_of("log.1"), LIMIT + 2);
    ck_assert_int_eq(size_of("log"), 5);
    for (int i = 0; i < 4; i++)
        ck_assert(logfile_put(&f, text, sizeof(text)));
    ck_assert_int_eq(f.rotations, 3);
    ck_assert_int_lt(size_of("log.1"), LINES_LONG + LIMIT + sizeof(text));
}

/* Something else has the name that the older one would get. */
TEST(test_logfile_that_cannot_be_renamed_grows_on)
{
    ck_assert_int_eq(mkdir("log.1", 0777), 0);
    ck_assert_int_eq(logfile_open(&f, "log", 1, LIMIT, 1), 0);
    put_lines();
    ck_assert_int_eq(size_of("log"), 100);
    ck_assert_int_eq(f.rotations, 0);
    ck_assert_int_eq(f.missing, 0);
    ck_assert_int_eq(rmdir("log.1"), 0); /* and when the name is free again */
    ck_assert(logfile_put(&f, "last\n", 5));
    ck_assert_int_eq(size_of("log.1"), 100);
    ck_assert_int_eq(size_of("log"), 5);
}

/* ... and the older ones move once, not with each line that comes meanwhile. */
TEST(test_logfile_that_cannot_be_renamed_spares_the_older_ones)
{
    ck_assert_int_eq(logfile_open(&f, "log", 1, LIMIT, 3), 0);
    put_lines();
    put_lines();
    busy = true;
    put_lines();
    ck_assert_int_eq(size_of("log"), 120);
    ck_assert_int_eq(size_of("log.1"), -1);
    ck_assert_int_eq(size_of("log.2"), 60);
    ck_assert_int_eq(size_of("log.3"), 60);
    busy = false;
    ck_assert(logfile_put(&f, "last\n", 5));
    ck_assert_int_eq(size_of("log.1"), 120);
    ck_assert_int_eq(size_of("log.2"), 60);
}

/* A file that somebody has moved or removed is opened anew at its limit, and
 * nothing becomes older. */
TEST_LOOP(test_logfile_that_is_gone_is_opened_anew, 0, 2)
{
    ck_assert_int_eq(logfile_open(&f, "log", 1, LIMIT, 2), 0);
    put_lines();
    ck_assert_int_eq(_i == 0 ? rename("log", "moved") : unlink("log"), 0);
    put_lines();
    ck_assert_int_eq(size_of("log"), 20);
    ck_assert_int_eq(size_of("log.1"), 60);
    ck_assert_int_eq(size_of("log.2"), 60);
    ck_assert_int_eq(f.rotations, 3);
}

/* Somebody empties the file, and later only its end is cut off: what comes goes
 * to where the file ends, and who read in it can tell. */
TEST(test_logfile_that_others_truncate_has_no_hole)
{
    ck_assert_int_eq(logfile_open(&f, "log", 1, 0, 0), 0);
    put_lines();
    ck_assert_int_eq(truncate("log", 0), 0);
    ck_assert(logfile_put(&f, "after\n", 6));
    ck_assert_int_eq(size_of("log"), 6);
    ck_assert_int_eq(f.rotations, 1);
    ck_assert_int_eq(truncate("log", 3), 0);
    ck_assert(logfile_put(&f, "er\n", 3));
    ck_assert_int_eq(size_of("log"), 6);
    ck_assert_int_eq(f.rotations, 2);
}

/* ... also where nobody looks at what comes. */
TEST(test_logfile_that_others_truncate_is_spliced_to_its_end)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(logfile_open(&f, "log", 1, 0, 0), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(write(ends[1], "123456789\n", 10), 10);
        ck_assert_int_eq(logfile_splice(&f, ends[0], 1024), 10);
        ck_assert_int_eq(size_of("log"), 10);
        ck_assert_int_eq(truncate("log", 0), 0);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* What a round finds there already is kept, and told from its own. */
TEST(test_logfile_of_an_earlier_round_is_appended_to)
{
    char text[128] = "";
    ck_assert_int_eq(logfile_open(&f, "log", 1, 0, 0), 0);
    ck_assert(logfile_put(&f, "one\n", 4));
    logfile_close(&f);
    ck_assert_int_eq(logfile_open(&f, "log", 2, 0, 0), 0);
    ck_assert(logfile_put(&f, "two\n", 4));
    ck_assert_int_gt(pread(f.fd, text, sizeof(text) - 1, 0), 0);
    ck_assert_str_eq(timeless(text),
                     "one\n--- ddprun: round 2 begins, TIME ---\ntwo\n");
}

/* Nothing is lost but what came while it could not be written. */
TEST(test_logfile_that_cannot_be_opened_counts_and_tries_again)
{
    char text[128] = "";
    ck_assert_int_eq(logfile_open(&f, "gone/log", 1, 0, 0), -1);
    ck_assert(!logfile_put(&f, "12345", 5));
    ck_assert_int_eq(f.missing, 5);
    ck_assert_int_eq(mkdir("gone", 0777), 0);
    ck_assert(logfile_put(&f, "here\n", 5));
    ck_assert_int_gt(pread(f.fd, text, sizeof(text) - 1, 0), 0);
    ck_assert_str_eq(
        timeless(text),
        "\n--- ddprun: 5 bytes are missing here, TIME ---\nhere\n");
    ck_assert_int_eq(f.missing, 0);
}

/* Events may go into a pipe: one that is full holds nobody up, and nothing but
 * what was put is in it, with what was cut off on a line of its own. */
TEST(test_logfile_of_events_may_be_a_pipe)
{
    static char text[128 * 1024];
    memset(text, 'x', sizeof(text));
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    f = (struct logfile){.fd = -1, .append = true, .path = strdup("pipe")};
    ck_assert(!logfile_put(&f, "1\n", 2)); /* nobody reads */
    int reader = open("pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert(logfile_put(&f, "2\n", 2));
    ck_assert_int_eq(read(reader, text, sizeof(text)), 2);
    ck_assert_int_eq(memcmp(text, "2\n", 2), 0);
    ck_assert(!logfile_put(&f, text, sizeof(text)));
    ck_assert(!logfile_put(&f, "3\n", 2));
    ssize_t n = read(reader, text, sizeof(text));
    ck_assert_int_gt(n, 4096);
    ck_assert_int_eq(text[n - 1], 'x');
    ck_assert(logfile_put(&f, "4\n", 2));
    ck_assert_int_eq(read(reader, text, sizeof(text)), 3);
    ck_assert_int_eq(memcmp(text, "\n4\n", 3), 0);
}

/* No gap is marked in a file of events, and that it is full is no news with
 * each of them. */
TEST(test_logfile_of_events_that_is_full_is_told_once)
{
    f = (struct logfile){.fd = -1, .append = true, .path = strdup("/dev/full")};
    ck_assert(!logfile_put(&f, "one\n", 4));
    f.told = true;
    ck_assert(!logfile_put(&f, "two\n", 4));
    ck_assert(f.told);
    logfile_close(&f);
    f = (struct logfile){.fd = -1, .append = true, .path = strdup("log")};
    f.missing = 8;
    f.told = true;
    ck_assert(logfile_put(&f, "three\n", 6));
    ck_assert(!f.told);
    ck_assert_int_eq(size_of("log"), 6);
}

SUITE("logfile", "fast", FIXTURE(scratch_enter, teardown))
