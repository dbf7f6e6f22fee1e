/* links: launcher/standby/policy launcher/standby/command */
/* links: launcher/standby/same_env launcher/proc/memory */
/* links: launcher/standby/learn launcher/proc/procfs launcher/proc/oom */
/* links: launcher/standby/prefetch */
/* links: rendezvous/base/err */
/* What is decided about standbys: when, for which command, for which
 * environment. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/standby/command.h"
#include "launcher/standby/learn.h"
#include "launcher/proc/memory.h"
#include "launcher/standby/policy.h"
#include "launcher/standby/prefetch.h"
#include "launcher/standby/same_env.h"
#include "tests/lib/suite.h"

/* -- when ------------------------------------------------------------------ */

/* Progress starts the importer; the end of the 5 seconds does not once more. */
START_TEST(test_policy_makes_once_a_round)
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
END_TEST

/* A round that begins while the importer imports gets its forks when it is
 * ready. */
START_TEST(test_policy_round_during_the_imports_waits)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_IMPORTER);
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_ready(&p), STANDBY_WANT_FORKS);
}
END_TEST

START_TEST(test_policy_gives_up_for_good)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_give_up(&p);
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_NOTHING);
}
END_TEST

/* In the same round no importer is started again, in the next one it is. */
START_TEST(test_policy_short_of_memory_waits_for_the_next_round)
{
    struct standby_policy p = {.state = STANDBY_READY};
    standby_policy_round(&p, 2, 0);
    standby_policy_short(&p);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_NOTHING);
    ck_assert_int_eq(standby_policy_late(&p), STANDBY_WANT_NOTHING);
    standby_policy_round(&p, 0, 0);
    ck_assert_int_eq(standby_policy_progress(&p), STANDBY_WANT_IMPORTER);
}
END_TEST

START_TEST(test_policy_waits_for_imports_from_a_slow_disk)
{
    struct standby_policy p = {.state = STANDBY_NONE};
    standby_policy_round(&p, 0, 1000);
    ck_assert_int_eq(standby_policy_silence(&p, 1000), STANDBY_AFTER_US);
    ck_assert_int_eq(standby_policy_silence(&p, 1000 + 4 * STANDBY_AFTER_US),
                     8 * STANDBY_AFTER_US);
}
END_TEST

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

START_TEST(test_policy_suspects_a_standby_that_fails_early)
{
    struct standby_policy p = {.state = STANDBY_READY};
    standby_policy_round(&p, failures[_i].used, 1000);
    if (failures[_i].progressed)
        (void)standby_policy_progress(&p);
    ck_assert_int_eq(standby_policy_failed(&p, 1000 + failures[_i].after_us),
                     failures[_i].suspect);
    ck_assert_int_eq(p.state == STANDBY_OFF, failures[_i].suspect);
}
END_TEST

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

START_TEST(test_command_is_read_as_python_reads_it)
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
END_TEST

/* -- which environment ----------------------------------------------------- */

static char rank0[] = "RANK=0", rank1[] = "RANK=1", path[] = "PATH=/bin",
            omp[] = "OMP_NUM_THREADS=1", omp2[] = "OMP_NUM_THREADS=2",
            ranks[] = "RANKS=1", bare[] = "RANK",
            gpu[] = "CUDA_VISIBLE_DEVICES=3", gpu2[] = "CUDA_VISIBLE_DEVICES=4";

START_TEST(test_env_of_a_place_may_differ)
{
    char *ahead[] = {rank0, path, bare, omp, ranks, NULL};
    char *worker[] = {ranks, omp, rank1, path, NULL};
    const char *places = same_env_places(false);
    same_env_strip(ahead, places);
    ck_assert_ptr_eq(ahead[0], path);
    ck_assert_ptr_eq(ahead[1], omp);
    ck_assert_ptr_eq(ahead[2], ranks);
    ck_assert_ptr_null(ahead[3]);
    ck_assert_ptr_null(same_env_differs(ahead, worker, places));
}
END_TEST

/* A GPU is a part of the place only if each worker has its own. */
START_TEST(test_env_of_a_gpu_of_its_own_may_differ)
{
    char *ahead[] = {gpu, path, NULL};
    char *worker[] = {gpu2, path, NULL};
    ck_assert_ptr_eq(same_env_differs(ahead, worker, same_env_places(false)),
                     gpu2);
    same_env_strip(ahead, same_env_places(true));
    ck_assert_ptr_eq(ahead[0], path);
    ck_assert_ptr_null(same_env_differs(ahead, worker, same_env_places(true)));
}
END_TEST

START_TEST(test_env_of_anything_else_may_not)
{
    char *ahead[] = {path, omp, NULL};
    char *other[] = {path, omp2, NULL};
    char *more[] = {path, omp, ranks, NULL};
    char *less[] = {path, NULL};
    const char *places = same_env_places(true);
    ck_assert_str_eq(same_env_differs(ahead, other, places), omp2);
    ck_assert_str_eq(same_env_differs(ahead, more, places), ranks);
    ck_assert_str_eq(same_env_differs(ahead, less, places), omp);
}
END_TEST

/* -- memory, and what is learnt -------------------------------------------- */

START_TEST(test_memory_is_a_quarter_of_what_is_free)
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
END_TEST

START_TEST(test_memory_is_short_if_less_is_free_than_the_importer_takes)
{
    ck_assert(!memory_short(256, 256));
    ck_assert(memory_short(257, 256));
    ck_assert(!memory_short(-1, 0));
    ck_assert(!memory_short(1, -1));
}
END_TEST

/* What the kernel would give back is no reason to be short of memory. */
START_TEST(test_memory_of_the_page_cache_is_free)
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
END_TEST

/* what is in the memory, what is read of it */
static const struct {
    const char *there, *read;
} lists[] = {
    {"json\njson.decoder\n", "json\njson.decoder\n"},
    {"json\nhalf", "json\n"},
    {"a\n../../x\nb\n", "a\n"},
    {"a\n-b\n", "a\n"},
    {"a b\n", ""},
    {"", ""},
};

START_TEST(test_learn_reads_whole_names)
{
    static char text[LEARN_MAX + 1];
    char opened_by[LEARN_PATH_MAX], stop = 'x';
    const char *there = lists[_i].there;
    int fd = learn_open();
    ck_assert_int_ge(fd, 0);
    ck_assert(learn_begin(fd, opened_by));
    ck_assert_int_eq(pwrite(fd, there, strlen(there), 1),
                     (ssize_t)strlen(there));
    ck_assert_uint_eq(learn_read(fd, false, text), strlen(lists[_i].read));
    ck_assert_str_eq(text, lists[_i].read);
    ck_assert_int_eq(pread(fd, &stop, 1, 0), 1);
    ck_assert_int_eq(stop, '\0');
    (void)learn_read(fd, true, text);
    ck_assert_str_eq(text, lists[_i].read);
    ck_assert_int_eq(pread(fd, &stop, 1, 0), 1);
    ck_assert_int_ne(stop, '\0');
    ck_assert(learn_begin(fd, opened_by)); /* all is forgotten */
    ck_assert_uint_eq(learn_read(fd, false, text), 0);
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* -- what is read ahead ---------------------------------------------------- */

START_TEST(test_prefetch_list_is_in_the_users_cache)
{
    char a[PREFETCH_PATH_MAX], b[PREFETCH_PATH_MAX];
    ck_assert_int_eq(setenv("HOME", "/home/u", 1), 0);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    prefetch_path("/usr/bin/python3", "a.py", a);
    ck_assert(strncmp(a, "/home/u/.cache/ddprun/files-", 28) == 0);
    prefetch_path("/usr/bin/python3", "b.py", b);
    ck_assert_str_ne(a, b);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", "/cache", 1), 0);
    prefetch_path("/usr/bin/python3", "a.py", b);
    ck_assert(strncmp(b, "/cache/ddprun/files-", 20) == 0);
    ck_assert_int_eq(unsetenv("XDG_CACHE_HOME"), 0);
    ck_assert_int_eq(unsetenv("HOME"), 0);
    prefetch_path("/usr/bin/python3", "a.py", b);
    ck_assert_str_eq(b, "");
}
END_TEST

/* a list, how many bytes of it are read ahead */
static const struct {
    const char *list;
    int64_t bytes;
} prefetches[] = {
    {"0 100 /etc/passwd\n4096 300000 /etc/passwd\n", 300100},
    {"0 100 /no/such/file\n0 200 /etc/passwd\n", 200},
    {"0 100 /dev/zero\n0 100 /etc\n0 7 /etc/passwd\n", 7},
    {"0 100 /etc/passwd\nwords\n0 200 /etc/passwd\n", 100},
    {"0 100 /etc/passwd\n-5 1 /etc/passwd\n", 100},
    {"0 100 /etc/passwd\n9223372036854775807 1 /etc/passwd\n", 100},
    {"0 300101 /etc/passwd\n0 1 /etc/passwd\n", 0}, /* above the limit */
    {"0 100 relative\n", 0},
    {"0 100 /etc/passwd", 0}, /* half of it */
    {"", 0},
};

START_TEST(test_prefetch_reads_what_is_listed)
{
    char file[] = "/tmp/check_standby.XXXXXX", other[sizeof(file) + 2];
    int fd = mkstemp(file);
    const char *text = prefetches[_i].list;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(close(fd), 0);
    (void)snprintf(other, sizeof(other), "%s.l", file); /* fits */
    ck_assert_int_eq(symlink(file, other), 0);
    ck_assert_int_eq(prefetch_list(file, 300100), prefetches[_i].bytes);
    ck_assert_int_eq(prefetch_list(other, 300100), 0); /* somebody's link */
    ck_assert_int_eq(unlink(other), 0);
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(prefetch_list(file, 300100), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("standby_rules");
    TCase *tc = tcase_create("fast");
    tcase_add_test(tc, test_policy_makes_once_a_round);
    tcase_add_test(tc, test_policy_round_during_the_imports_waits);
    tcase_add_test(tc, test_policy_gives_up_for_good);
    tcase_add_test(tc, test_policy_waits_for_imports_from_a_slow_disk);
    tcase_add_test(tc, test_policy_short_of_memory_waits_for_the_next_round);
    tcase_add_loop_test(tc, test_policy_suspects_a_standby_that_fails_early, 0,
                        (int)(sizeof(failures) / sizeof(failures[0])));
    tcase_add_loop_test(tc, test_command_is_read_as_python_reads_it, 0,
                        (int)(sizeof(commands) / sizeof(commands[0])));
    tcase_add_test(tc, test_env_of_a_place_may_differ);
    tcase_add_test(tc, test_env_of_a_gpu_of_its_own_may_differ);
    tcase_add_test(tc, test_env_of_anything_else_may_not);
    tcase_add_test(tc, test_memory_is_a_quarter_of_what_is_free);
    tcase_add_test(
        tc, test_memory_is_short_if_less_is_free_than_the_importer_takes);
    tcase_add_test(tc, test_memory_of_the_page_cache_is_free);
    tcase_add_loop_test(tc, test_learn_reads_whole_names, 0,
                        (int)(sizeof(lists) / sizeof(lists[0])));
    tcase_add_test(tc, test_prefetch_list_is_in_the_users_cache);
    tcase_add_loop_test(tc, test_prefetch_reads_what_is_listed, 0,
                        (int)(sizeof(prefetches) / sizeof(prefetches[0])));
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
