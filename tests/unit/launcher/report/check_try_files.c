/* links: launcher/report/{try_files,new_file} tests/lib/{hurt,scratch} BASE */
/* libs: -luv -lcjson -ldl */
/*
 * Whether the files of --report and --events can be written is found before
 * anything starts, and the try leaves nothing behind but the events' file.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/report/try_files.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static bool is_there(const char *name)
{
    struct stat st;
    return lstat(name, &st) == 0;
}

static int try(const char *report, const char *events, struct ddp_err *err)
{
    struct conf_output c = {.report = ""};
    (void)snprintf(c.report, sizeof(c.report), "%s", report);
    (void)snprintf(c.events, sizeof(c.events), "%s", events);
    return try_files(&c, err);
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(name, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void setup(void)
{
    scratch_enter();
    put("old", "what was there");
    ck_assert_int_eq(mkdir("folder", 0700), 0);
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    ck_assert_int_eq(symlink("new_by_link", "link"), 0);
}

TEST_LOOP(test_files_that_can_be_written, 0, 8)
{
    static const struct {
        const char *report, *events;
    } good[] = {{"", ""},       {"new", ""},
                {"", "events"}, {"old", "old"},
                {"fifo", ""},   {"", "fifo"},
                {"link", ""},   {"/dev/null", "/dev/stderr"}};
    struct ddp_err err;
    struct stat st;
    ck_assert_msg(try(good[_i].report, good[_i].events, &err) == 0, "%s",
                  err.text);
    ck_assert(!is_there("new"));
    ck_assert_int_eq(is_there("events"),
                     strcmp(good[_i].events, "events") == 0);
    ck_assert_int_eq(stat("old", &st), 0);
    ck_assert_int_eq(st.st_size, (off_t)strlen("what was there"));
}

TEST(test_report_of_another_launcher_of_our_number_is_left_alone)
{
    char name[40];
    struct ddp_err err;
    (void)snprintf(name, sizeof(name), "new.%d", (int)getpid());
    put(name, "theirs");
    ck_assert_int_eq(try("new", "", &err), 0);
    ck_assert(is_there(name));
}

TEST_LOOP(test_files_that_cannot_be_written, 0, 5)
{
    static const struct {
        const char *report, *events, *says;
    } bad[] = {
        {"folder", "", "--report=folder cannot be written: Is a directory"},
        {"", "folder", "--events=folder cannot be written: Is a directory"},
        {"gone/new", "", "--report=gone/new cannot be written: No such file"},
        {"", "gone/new", "--events=gone/new cannot be written: No such file"},
        {"old/new", "", "--report=old/new cannot be written: Not a directory"},
    };
    struct ddp_err err;
    ck_assert_int_eq(try(bad[_i].report, bad[_i].events, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "%s", err.text);
}

static int run(void *ctx)
{
    struct ddp_err err;
    (void)ctx;
    if (try("new", "events", &err) != 0)
        return hurt_told(err.text);
    return is_there("new") ? hurt_wrong("a report is left") : HURT_DONE;
}

CASE("faults", FAULT_CASE(60), FIXTURE(setup, scratch_leave))

TEST(test_files_are_tried_or_the_reason_is_told_whatever_call_fails)
{
    hurt_each("test", 3, run, NULL, "open");
}

SUITE("try_files", "try_files", FIXTURE(setup, scratch_leave))
