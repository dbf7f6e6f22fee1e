/* links: launcher/standby/{policy,command,learn} */
/* links: launcher/proc/{memory,procfs,oom} rendezvous/base/err */
/* What is decided about standbys: when, for which command, from what. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/standby/command.h"
#include "launcher/standby/learn.h"
#include "launcher/proc/memory.h"
#include "launcher/standby/policy.h"
#include "tests/lib/suite.h"

/* -- when ------------------------------------------------------------------ */

/* Progress starts the importer; the end of the 5 seconds does not once more. */
TEST(test_policy_makes_once_a_round)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_IMPORTER);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_ready(&p), STANDBY_WANT_FORKS);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
    standby_policy_round(&p, 2, 0);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_FORKS);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
}

/* A round that begins while the importer imports gets its forks when it is
 * ready. */
TEST(test_policy_round_during_the_imports_waits)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_IMPORTER);
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_ready(&p), STANDBY_WANT_FORKS);
}

TEST(test_policy_gives_up_for_good)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_give_up(&p);
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_NOTHING);
}

/* In the same round no importer is started again, in the next one it is. */
TEST(test_policy_short_of_memory_waits_for_the_next_round)
{
    struct standby_policy p = {.state = STANDBY_READY};
    standby_policy_round(&p, 2, 0);
    standby_policy_short(&p);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_NOTHING);
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_IMPORTER);
}

#define MS INT64_C(1000)

/* Imports count as complete when none has come for as long as all took; from a
 * slow disk one module alone takes long. */
TEST(test_policy_waits_for_imports_from_a_slow_disk)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_learnt(&p, 10, false, 4000 * MS),
                     STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_learnt(&p, 10, false, 7900 * MS),
                     STANDBY_WANT_NOTHING);
    standby_policy_imports(&p, 7950 * MS);
    ck_assert_int_eq(standby_policy_learnt(&p, 20, false, 8000 * MS),
                     STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_learnt(&p, 20, false, 16000 * MS),
                     STANDBY_WANT_IMPORTER);
    ck_assert_int_eq(p.state, STANDBY_IMPORTING);
}

/* Nobody has to wait for a silence once the worker has said that it is done. */
TEST(test_policy_believes_that_the_imports_are_complete)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_learnt(&p, 10, true, 4000 * MS),
                     STANDBY_WANT_IMPORTER);
    ck_assert_int_eq(standby_policy_learnt(&p, 10, true, 4250 * MS),
                     STANDBY_WANT_NOTHING);
}

/* If another worker has begun already it is a second, not as long as all. */
TEST(test_policy_waits_less_if_another_worker_has_begun)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    (void)standby_policy_learnt(&p, 10, false, 4000 * MS);
    p.soon = true;
    ck_assert_int_eq(standby_policy_learnt(&p, 10, false, 4900 * MS),
                     STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_learnt(&p, 10, false, 5100 * MS),
                     STANDBY_WANT_IMPORTER);
}

/* A worker that has not come to its first import is not done with all. */
TEST(test_policy_waits_for_a_first_import)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_learnt(&p, 0, false, 4900 * MS),
                     STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_learnt(&p, 0, false, 5100 * MS),
                     STANDBY_WANT_IMPORTER);
}

/* The importer is ended and begins again, in the same round. */
TEST(test_policy_begins_again_if_more_is_imported)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    (void)standby_policy_learnt(&p, 10, false, 100 * MS);
    ck_assert_int_eq(standby_policy_learnt(&p, 10, false, 1200 * MS),
                     STANDBY_WANT_IMPORTER);
    ck_assert_int_eq(standby_policy_ready(&p), STANDBY_WANT_FORKS);
    ck_assert_int_eq(standby_policy_learnt(&p, 15, false, 9000 * MS),
                     STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_learnt(&p, 15, true, 9250 * MS),
                     STANDBY_WANT_NONE);
    ck_assert_int_eq(p.state, STANDBY_NONE);
    ck_assert_int_eq(standby_policy_learnt(&p, 15, true, 9500 * MS),
                     STANDBY_WANT_IMPORTER);
}

/* used, progressed, after how long it failed, whether the start is suspect */
static const struct {
    int used;
    bool progressed;
    int64_t after_us;
    bool suspect;
} failures[] = {
    {2, false, 0, true},
    {2, false, STANDBY_SUSPECT_US - 1, true},
    {2, false, STANDBY_SUSPECT_US, false},
    {2, true, 0, false},
    {0, false, 0, false},
};

TEST_EACH(test_policy_suspects_a_standby_that_fails_early, failures)
{
    struct standby_policy p = {.state = STANDBY_READY};
    standby_policy_round(&p, failures[_i].used, 1000);
    if (failures[_i].progressed)
        (void)standby_policy_progress(&p);
    ck_assert_int_eq(standby_policy_failed(&p, 1000 + failures[_i].after_us),
                     failures[_i].suspect);
    ck_assert_int_eq(p.state == STANDBY_OFF, failures[_i].suspect);
}

/* -- which command --------------------------------------------------------- */

#define WORDS_MAX 8

static const struct {
    const char *argv[WORDS_MAX];
    int options, program; /* 0: refused */
    bool module;
} commands[] = {
    {{"/usr/bin/python3", "-u", "a.py", "-m"}, 2, 2, false},
    {{"python3.11", "-u", "-m", "pkg.a", "x"}, 2, 3, true},
    {{"python", "-uB", "-W", "ignore", "-Xdev", "a.py"}, 5, 5, false},
    {{"python", "-X", "dev", "-m", "a"}, 3, 4, true},
    {{"./a.py"}, 0, 0, false},
    {{"bash", "a.py"}, 0, 0, false},
    {{"python", "-c", "pass"}, 0, 0, false},
    {{"python", "-i", "a.py"}, 0, 0, false},
    {{"python", "--version"}, 0, 0, false},
    {{"python", "-"}, 0, 0, false},
    {{"python"}, 0, 0, false},
    {{"python", "-m"}, 0, 0, false},
    {{"python", "-W"}, 0, 0, false},
    {{"python", "-u", "folder"}, 0, 0, false},
    {{"python", "-u", ".py"}, 0, 0, false},
};

TEST_EACH(test_command_is_read_as_python_reads_it, commands)
{
    struct standby_command c;
    char why[STANDBY_WHY_MAX] = "";
    char *argv[WORDS_MAX + 1] = {NULL};
    for (int i = 0; i < WORDS_MAX && commands[_i].argv[i] != NULL; i++)
        argv[i] = strdup(commands[_i].argv[i]);
    bool ok = standby_command_read(argv, &c, why);
    ck_assert_int_eq(ok, commands[_i].program > 0);
    ck_assert_int_eq(why[0] == '\0', ok);
    if (ok) {
        ck_assert_int_eq(c.options, commands[_i].options);
        ck_assert_int_eq(c.program, commands[_i].program);
        ck_assert_int_eq(c.module, commands[_i].module);
    }
    for (int i = 0; i < WORDS_MAX; i++)
        free(argv[i]);
}

/* People read it behind "no standbys, workers are started afresh: ". */
TEST(test_command_says_which_option_keeps_standbys_out)
{
    struct standby_command c;
    char why[STANDBY_WHY_MAX] = "", python[] = "python", code[] = "-c";
    char *argv[] = {python, code, NULL};
    ck_assert(!standby_command_read(argv, &c, why));
    ck_assert_str_eq(why,
                     "-c is an option of Python that standbys do not have");
}

/* -- memory, and what is learnt -------------------------------------------- */

TEST(test_memory_is_a_quarter_of_what_is_free)
{
    ck_assert(memory_fits(256, 1024));
    ck_assert(!memory_fits(257, 1024));
    ck_assert(!memory_fits(-1, 1024));
    ck_assert(!memory_fits(1, -1));
    ck_assert_int_eq(memory_parse("MemFree: 5 kB\nMemAvailable:   12 kB\n"),
                     12 * 1024);
    ck_assert_int_eq(memory_parse("MemFree: 5 kB\n"), -1);
    ck_assert_int_eq(memory_parse("MemAvailable: -3 kB\n"), -1);
    ck_assert_int_eq(memory_parse("MemAvailable: 3 MB\n"), -1);
    ck_assert_int_gt(memory_free(), 0);
    ck_assert_int_gt(memory_of(getpid()), 0);
    ck_assert_int_eq(memory_of(0), -1);
}

TEST(test_memory_is_short_if_less_is_free_than_the_importer_takes)
{
    ck_assert(!memory_short(256, 256));
    ck_assert(memory_short(257, 256));
    ck_assert(!memory_short(-1, 0));
    ck_assert(!memory_short(1, -1));
}

/* What the kernel would give back is no reason to be short of memory. */
TEST(test_memory_of_the_page_cache_is_free)
{
    static const char v2[] = "anon 5\ninactive_file 30\nactive_file 4\n";
    static const char v1[] = "inactive_file 1\nactive_file 1\n"
                             "total_inactive_file 30\ntotal_active_file 4\n";
    ck_assert_int_eq(memory_cache(v2, false), 34);
    ck_assert_int_eq(memory_cache(v1, true), 34);
    ck_assert_int_eq(memory_cache("", false), 0);
    ck_assert_int_eq(memory_cache("active_file -8\n", false), 0);
    ck_assert_int_eq(memory_cache("active_files 8\n", false), 0);
}

/* what is in the memory, what is read of it, what that says */
static const struct {
    const char *there, *read;
    enum learn_stage stage;
} records[] = {
    {"('import', 'a', None)\n", "('import', 'a', None)\n", LEARN_IMPORTS},
    {"('done',)\n", "('done',)\n", LEARN_BETWEEN},
    {"('done',)\nhalf", "('done',)\n", LEARN_BETWEEN},
    {"a\n('complete',)\n", "a\n('complete',)\n", LEARN_COMPLETE},
    {"('complete',)\na\n", "('complete',)\na\n", LEARN_IMPORTS},
    {"a\n\x01\nb\n", "a\n", LEARN_IMPORTS},
    {"a\n\xff\nb\n", "a\n", LEARN_IMPORTS},
    {"", "", LEARN_BETWEEN},
};

TEST_EACH(test_learn_reads_whole_lines, records)
{
    static char text[LEARN_MAX + 1];
    char opened_by[LEARN_PATH_MAX], stop = 'x';
    const char *there = records[_i].there, *read = records[_i].read;
    int fd = learn_open();
    ck_assert_int_ge(fd, 0);
    ck_assert(learn_begin(fd, opened_by));
    ck_assert_int_eq(pwrite(fd, there, strlen(there), 1),
                     (ssize_t)strlen(there));
    ck_assert_uint_eq(learn_read(fd, text), strlen(read));
    ck_assert_str_eq(text, read);
    ck_assert_int_eq(learn_stage(text, strlen(read)), records[_i].stage);
    ck_assert_int_eq(pread(fd, &stop, 1, 0), 1);
    ck_assert_int_eq(stop, '\0');
    learn_stop(fd);
    ck_assert_uint_eq(learn_read(fd, text), strlen(read));
    ck_assert_int_eq(pread(fd, &stop, 1, 0), 1);
    ck_assert_int_ne(stop, '\0');
    ck_assert(learn_begin(fd, opened_by)); /* all is forgotten */
    ck_assert_uint_eq(learn_read(fd, text), 0);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("standby_rules", "fast")
