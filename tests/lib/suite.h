/*
 * tests/lib/suite: a test program is a list of tests that add themselves, in
 * the order of the file, and one line at its end, its main. And how slow the
 * machine is.
 *
 *     TEST(test_buf_of_nothing_is_empty) { ... }
 *     TEST_LOOP(test_buf_keeps_the_order, 1, 6) { ... _i is 1 to 5 ... }
 *     TEST_EACH(test_buf_refuses, lines) { ... lines[_i] ... }
 *     CASE("large", .limit_s = 60)
 *     TEST(test_buf_grows) { ... }
 *     SUITE("buf", "small", .tags = "fast")
 *
 * The tests below a CASE are of that case, those above the first one are of the
 * case that SUITE names; a CASE of a name that was there goes on with that
 * case.
 */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many times as long all takes here (a sanitizer, an emulator):
 * CK_TIMEOUT_MULTIPLIER, by which Check's own limits grow, else 1. */
static inline int suite_slow(void)
{
    const char *given = getenv("CK_TIMEOUT_MULTIPLIER");
    long times = given == NULL ? 1 : strtol(given, NULL, 10);
    return times < 1 || times > 100 ? 1 : (int)times;
}

/* For what share of the last 10 s processes waited for `what` (cpu, io), in
 * percent; 0 if the kernel does not say (CONFIG_PSI). */
static inline double suite_pressure(const char *what)
{
    char path[32];
    double percent = 0;
    (void)snprintf(path, sizeof(path), "/proc/pressure/%s", what);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "some avg10=%lf", &percent) != 1)
        percent = 0;
    (void)fclose(f); /* read only */
    return percent;
}

/* A limit in us for what takes some time: it grows as all here is slower, and
 * if others use the machine as well, up to three times, by the share of time in
 * which processes waited for a CPU or for a disk. */
static inline int64_t suite_room_us(int64_t us)
{
    double percent = suite_pressure("cpu") + suite_pressure("io");
    percent = percent > 100 ? 100 : percent;
    return (int64_t)((double)(us * suite_slow()) * (1 + percent / 50));
}

/* A case: what Check calls so, its fixtures around each test and around all. */
struct suite_case {
    const char *suite, *name, *tags;
    double limit_s; /* of each test, SUITE_PATIENCE times; 0: Check's own,
                       SUITE_ENDLESS: none */
    void (*setup)(void);
    void (*teardown)(void);
    void (*setup_once)(void);
    void (*teardown_once)(void);
};
#define SUITE_ENDLESS (-1.0)

/* A limit finds a test that hangs. Beside two busy loops, on two cores, one
 * that starts thousands of processes takes some times as long as alone, for
 * each of them waits for its turn. */
#define SUITE_PATIENCE 4
/* clang-format off */
#define FIXTURE(before, after) .setup = (before), .teardown = (after)
#define FIXTURE_ONCE(before, after) \
    .setup_once = (before), .teardown_once = (after)
/* clang-format on */

/* A line of the file: tests, or the case of the tests below. */
struct suite_line {
    int line;
    const TTest *test;
    int from, to; /* of the test's _i */
    const struct suite_case *begins;
    TCase *tcase;
    struct suite_line *next;
};

static struct suite_line *suite_lines;

/* Constructors of a file may run in any order. */
static inline void suite_add(struct suite_line *added)
{
    struct suite_line **at = &suite_lines;
    while (*at != NULL && (*at)->line < added->line)
        at = &(*at)->next;
    added->next = *at;
    *at = added;
}

/* The case `c`, of that name in a line from `l` on, or a new one. */
static inline TCase *
suite_case(Suite *suite, const struct suite_line *l, const struct suite_case *c)
{
    for (; l->begins != c; l = l->next)
        if (l->begins != NULL && strcmp(l->begins->name, c->name) == 0)
            return l->tcase;
    TCase *tc = tcase_create(c->name);
    if (c->tags != NULL)
        tcase_set_tags(tc, c->tags);
    if (c->limit_s != 0)
        tcase_set_timeout(tc, c->limit_s < 0 ? 0 : SUITE_PATIENCE * c->limit_s);
    if (c->setup != NULL || c->teardown != NULL)
        tcase_add_checked_fixture(tc, c->setup, c->teardown);
    if (c->setup_once != NULL || c->teardown_once != NULL)
        tcase_add_unchecked_fixture(tc, c->setup_once, c->teardown_once);
    suite_add_tcase(suite, tc);
    return tc;
}

/* Runs and frees the suite, as loud as CK_VERBOSITY says. Returns what main
 * returns: EXIT_SUCCESS if no test failed. */
static inline int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Runs the tests of the file, of which `first` is the first case. */
static inline int suite_of_file(const struct suite_case *first)
{
    Suite *suite = suite_create(first->suite);
    struct suite_line head = {.begins = first, .next = suite_lines};
    TCase *tc = NULL;
    for (struct suite_line *l = &head; l != NULL; l = l->next) {
        if (l->begins != NULL)
            tc = l->tcase = suite_case(suite, &head, l->begins);
        else
            tcase_add_loop_test(tc, l->test, l->from, l->to);
    }
    return suite_run(suite);
}

#define SUITE_JOIN_(a, b) a##b
#define SUITE_JOIN(a, b)  SUITE_JOIN_(a, b)

#define SUITE_ADD(unique, ...)                                                 \
    __attribute__((constructor)) static void unique(void)                      \
    {                                                                          \
        static struct suite_line added = {.line = __LINE__};                   \
        __VA_ARGS__;                                                           \
        suite_add(&added);                                                     \
    }

#define TEST_LOOP(testname, first, end)                                        \
    static const TTest *testname;                                              \
    SUITE_ADD(testname##_adds, added.test = testname; added.from = (first);    \
              added.to = (int)(end))                                           \
    START_TEST(testname)
#define TEST(testname) TEST_LOOP(testname, 0, 1)
#define TEST_EACH(testname, rows)                                              \
    TEST_LOOP(testname, 0, sizeof(rows) / sizeof((rows)[0]))

#define CASE(...)                                                              \
    SUITE_ADD(SUITE_JOIN(suite_case_, __LINE__),                               \
              static const struct suite_case c = {.name = __VA_ARGS__};        \
              added.begins = &c)

/* The main of a program, and what it returns. */
#define SUITE_RUN(...)                                                         \
    suite_of_file(&(const struct suite_case){.suite = __VA_ARGS__})
#define SUITE(...)                                                             \
    int main(void)                                                             \
    {                                                                          \
        return SUITE_RUN(__VA_ARGS__);                                         \
    }

#endif
