/* links: tests/lib/scratch launcher/proc/oom rendezvous/base/err */
/* Which file counts the kernel's kills, and what is in it. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/proc/oom.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static void put(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(close(fd), 0);
}

static void setup(void)
{
    scratch_enter();
    ck_assert_int_eq(mkdir("job", 0755), 0);
    ck_assert_int_eq(mkdir("memory", 0755), 0);
    ck_assert_int_eq(mkdir("memory/old", 0755), 0);
    put("job/memory.events");
    put("memory/memory.oom_control");
    put("memory/old/memory.oom_control");
}

static const struct {
    const char *cgroups, *want; /* NULL: none */
} places[] = {
    {"0::/job\n", "/job/memory.events"},
    {"0::/\n", NULL}, /* the root counts nothing */
    {"5:cpu:/x\n4:memory:/old\n0::/\n", "/memory/old/memory.oom_control"},
    {"4:memory:/of/the/host\n", "/memory/memory.oom_control"},
    {"1:cpu:/job\n", NULL},
    {"", NULL},
};

TEST_EACH(test_oom_find_takes_the_nearest, places)
{
    char path[600], want[600];
    bool found = oom_find(places[_i].cgroups, scratch, path, sizeof(path));
    ck_assert_int_eq(found, places[_i].want != NULL);
    if (!found)
        return;
    (void)snprintf(want, sizeof(want), "%s%s", scratch, places[_i].want);
    ck_assert_str_eq(path, want);
}

/* v2's oom_group_kill and v1's oom_kill_disable are other words. */
TEST(test_oom_read_finds_the_word)
{
    ck_assert_int_eq(oom_read("oom_kill 3\n"), 3);
    ck_assert_int_eq(oom_read("low 1\noom 2\noom_kill 7\noom_group_kill 9\n"),
                     7);
    ck_assert_int_eq(oom_read("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
                     1);
    ck_assert_int_eq(oom_read("oom_kill_disable 0\n"), -1);
    ck_assert_int_eq(oom_read(""), -1);
}

/* Wherever this runs, there is a count. */
TEST(test_oom_init_finds_a_count)
{
    struct oom o;
    oom_init(&o);
    ck_assert(o.cgroup.count >= 0 || o.machine.count >= 0);
}

static void counts(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Of the cgroup it is sure, of the machine likely, and old news is none. */
TEST(test_oom_happened_is_about_what_is_new)
{
    struct oom o = {.cgroup = {"job/memory.events", -1},
                    .machine = {"vmstat", -1}};
    counts("job/memory.events", "oom 0\noom_kill 2\n");
    counts("vmstat", "pgfault 9\noom_kill 5\n");
    ck_assert_int_eq(oom_happened(&o), OOM_NOT); /* not known before */
    ck_assert_int_eq(oom_happened(&o), OOM_NOT);
    counts("vmstat", "pgfault 9\noom_kill 6\n");
    ck_assert_int_eq(oom_happened(&o), OOM_LIKELY);
    ck_assert_int_eq(oom_happened(&o), OOM_NOT);
    counts("job/memory.events", "oom 0\noom_kill 3\n");
    counts("vmstat", "pgfault 9\noom_kill 7\n");
    ck_assert_int_eq(oom_happened(&o), OOM_KILLED);
    ck_assert_int_eq(oom_happened(&o), OOM_NOT);
    ck_assert_int_eq(unlink("vmstat"), 0);
    o.cgroup.path[0] = '\0';
    ck_assert_int_eq(oom_happened(&o), OOM_NOT);
}

SUITE("oom", "fast", FIXTURE(setup, scratch_leave))
