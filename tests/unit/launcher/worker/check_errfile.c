/* links: tests/lib/scratch launcher/worker/errfile launcher/proc/tmpfolder */
/* links: rendezvous/base/{log,err,rng,utf8,json,buf} */
/* links: rendezvous/proto/{msg,term} */
/* libs: -lcjson */
/*
 * What workers leave, good and bad, and what becomes of it in the report.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/worker/errfile.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static struct conf conf;
static struct errfile e;
static struct ddp_err err;
static char path[ERRFILE_PATH_MAX];
static char folder[ERRFILE_PATH_MAX];
static char text[ERRFILE_TEXT_MAX + 1];
static char trace[20];

static void setup(void)
{
    scratch_enter();
    ck_assert_int_eq(setenv("TMPDIR", scratch, 1), 0);
    memset(&conf, 0, sizeof(conf));
    conf.nproc = 4;
    (void)snprintf(conf.run_id, sizeof(conf.run_id), "run");
    ck_assert_int_eq(errfile_init(&e, &conf, &err), 0);
}

/* Once more, with a --log_dir, or with log files without one. */
static int init(const char *log_dir, bool files)
{
    (void)snprintf(conf.log_dir, sizeof(conf.log_dir), "%s", log_dir);
    conf.output.files = files;
    return errfile_init(&e, &conf, &err);
}

static bool is_folder(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 && S_ISDIR(st.st_mode);
}

static void put(const char *name, const char *bytes, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    ck_assert_int_eq(close(fd), 0);
}

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    int n = 0;
    while (readdir(d) != NULL)
        n++;
    ck_assert_int_eq(closedir(d), 0);
    return n - 2;
}

/* What stands in the file, what is told of it. */
static const struct {
    const char *json;
    const char *told;
} cases[] = {
    {"{\"message\": \"plain\"}", "plain"},
    {"{\"message\": {\"message\": \"inner\", \"extraInfo\": {}}}", "inner"},
    {"{\"message\": \"a\\nb\\tc\\u001b[31m\"}", "a b c [31m"},
    /* What Python's json.dump writes of what JSON has no words for. */
    {"{\"message\": \"FileNotFoundError: img\\udcff.png\"}",
     "FileNotFoundError: img\xef\xbf\xbd.png"},
    {"{\"message\": \"\\ud83d\\ude00 \\ud83d \\ude00 \\ud83d\"}",
     "\xf0\x9f\x98\x80 \xef\xbf\xbd \xef\xbf\xbd \xef\xbf\xbd"},
    {"{\"message\": \"a\\u0000b\\\\ud800\"}", "a\xef\xbf\xbd"
                                              "b\\ud800"},
    {"{\"message\": {\"message\": \"loss is NaN\", \"extraInfo\": {\"a\": "
     "NaN, \"b\": [-Infinity, Infinity]}}}",
     "loss is NaN"},
    {"{\"message\": \"\\ud", NULL},
    {"{\"message\": \"\\", NULL},
    {"{\"message\": 5}", NULL},
    {"{\"message\"", NULL},
    {"[]", NULL},
    {"", ""},
};

TEST_EACH(test_errfile_read_tells_the_message, cases)
{
    put("f", cases[_i].json, strlen(cases[_i].json));
    errfile_read("f", text, trace, sizeof(trace));
    if (cases[_i].told != NULL)
        ck_assert_str_eq(text, cases[_i].told);
    else
        ck_assert_ptr_nonnull(strstr(text, "not what @record writes: f"));
}

/* A long message is cut, at a character's end. */
TEST(test_errfile_read_cuts_between_characters)
{
    char json[2000] = "{\"message\": \"x";
    for (int i = 0; i < 300; i++)
        (void)strncat(json, "\xc3\xa4", 3);
    (void)strncat(json, "\"}", 3);
    put("f", json, strlen(json));
    errfile_read("f", text, trace, sizeof(trace));
    ck_assert_uint_eq(strlen(text), ERRFILE_TEXT_MAX - 1);
    ck_assert_int_eq((unsigned char)text[ERRFILE_TEXT_MAX - 2], 0xa4);
}

/* The traceback, or the end of it, from a whole character on. */
TEST_LOOP(test_errfile_read_tells_the_tracebacks_end, 0, 5)
{
    static const struct {
        const char *inner, *told;
    } traces[] = {
        {"\"py_callstack\": \"Traceback\\nE: x\"", "Traceback\nE: x"},
        {"\"py_callstack\": \"of this the end: 1234567890123456789\"",
         "1234567890123456789"},
        {"\"py_callstack\": \"\xc3\xa4"
         "123456789012345678\"",
         "123456789012345678"},
        {"\"py_callstack\": 5", ""},
        {"\"timestamp\": \"1\"", ""},
    };
    char json[300];
    int len = snprintf(json, sizeof(json),
                       "{\"message\": {\"message\": \"m\", \"extraInfo\": "
                       "{%s}}}",
                       traces[_i].inner);
    put("f", json, (size_t)len);
    errfile_read("f", text, trace, sizeof(trace));
    ck_assert_str_eq(text, "m");
    ck_assert_str_eq(trace, traces[_i].told);
}

/* A FIFO, a folder, a device behind a link: nothing, at once. */
TEST_LOOP(test_errfile_read_reads_files_only, 0, 5)
{
    ck_assert_int_eq(mkfifo("fifo", 0666), 0);
    ck_assert_int_eq(mkdir("dir", 0777), 0);
    ck_assert_int_eq(symlink("/dev/zero", "link"), 0);
    const char *const names[] = {"fifo", "dir", "link", "none", ""};
    errfile_read(names[_i], text, trace, sizeof(trace));
    ck_assert_str_eq(text, "");
}

/* Too much for the report, but not without a word. */
TEST(test_errfile_read_tells_where_a_large_file_is)
{
    static char much[1024 * 1024 + 1];
    memset(much, ' ', sizeof(much));
    put("much", much, sizeof(much));
    errfile_read("much", text, trace, sizeof(trace));
    ck_assert_str_eq(text, "its error file of 1048577 bytes is too large to be "
                           "read here, see much");
    ck_assert_int_eq(setenv("TORCHELASTIC_ERROR_FILE", "theirs", 1), 0);
    ck_assert_ptr_nonnull(freopen("said", "w", stderr));
    errfile_pass_on("much", 3);
    ck_assert_int_eq(access("theirs", F_OK), -1);
    struct stat st;
    ck_assert_int_eq(stat("said", &st), 0);
    ck_assert_int_gt(st.st_size, 0);
}

/* Nothing is made before a worker is to start, and nothing empty is left. */
TEST(test_errfile_tmp_comes_late_and_goes)
{
    ck_assert_int_eq(entries("."), 0);
    errfile_clean(&e);
    errfile_prepare(&e, 0, 3, path, folder);
    ck_assert_int_eq(entries("."), 1);
    ck_assert_str_eq(folder, "");
    ck_assert_ptr_nonnull(strstr(path, "/attempt_0.3.error.json"));
    struct stat st;
    ck_assert_int_eq(stat(e.base, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0700);
    errfile_clean(&e);
    ck_assert_int_eq(entries("."), 0);
}

/* What an earlier round of this attempt left is not taken for news. */
TEST(test_errfile_prepare_moves_the_old_one_aside)
{
    char again[ERRFILE_PATH_MAX];
    errfile_prepare(&e, 1, 0, path, folder);
    put(path, "{\"message\": \"old\"}", 18);
    errfile_prepare(&e, 1, 0, again, folder);
    ck_assert_str_eq(again, path);
    errfile_read(again, text, trace, sizeof(trace));
    ck_assert_str_eq(text, "");
    errfile_clean(&e); /* whoever wants to look at it can */
    ck_assert_int_eq(entries(e.base), 1);
}

/* torchrun's layout under --log_dir, whose folders are made on the way. */
TEST(test_errfile_log_dir_has_torchruns_layout)
{
    ck_assert_int_eq(init("a/b/c", false), 0);
    errfile_prepare(&e, 2, 1, path, folder);
    char want[ERRFILE_PATH_MAX];
    (void)snprintf(want, sizeof(want), "%s/a/b/c/run_", scratch);
    ck_assert_int_eq(strncmp(path, want, strlen(want)), 0);
    ck_assert_str_eq(path + strlen(want) + 8, "/attempt_2/1/error.json");
    ck_assert_int_eq(strncmp(folder, path, strlen(folder)), 0);
    ck_assert_str_eq(path + strlen(folder), "/error.json");
    put(path, "{}", 2); /* the folder is there */
    errfile_clean(&e);
    ck_assert_int_eq(access(path, F_OK), 0);
}

/* Log files are kept, in the same layout, also where no folder was named. */
TEST(test_errfile_logs_without_a_folder_are_kept)
{
    ck_assert_int_eq(init("", true), 0);
    errfile_prepare(&e, 0, 1, path, folder);
    ck_assert_ptr_nonnull(strstr(folder, "/run_"));
    ck_assert_ptr_nonnull(strstr(folder, "/attempt_0/1"));
    ck_assert_int_eq(
        strncmp(errfile_folder(&e), folder, strlen(errfile_folder(&e))), 0);
    errfile_clean(&e);
    ck_assert_int_eq(access(folder, F_OK), 0);
}

/* What was asked for and cannot be had is an error before anything starts. */
TEST(test_errfile_init_without_a_folder_for_logs_is_an_error)
{
    ck_assert_int_eq(init("/dev/null/x", false), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text, "--log_dir=/dev/null/x"));
    ck_assert_ptr_nonnull(strstr(err.text, "Not a directory"));
    ck_assert_int_eq(setenv("TMPDIR", "/dev/null", 1), 0);
    ck_assert_int_eq(init("", true), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text, "/dev/null: Not a directory"));
    ck_assert_int_eq(init("", false), 0); /* nobody asked for files */
}

/* A launch that starts no worker leaves no folder of its run behind. */
TEST(test_errfile_of_no_worker_leaves_nothing)
{
    ck_assert_int_eq(init("logs", true), 0);
    ck_assert_int_eq(entries("logs"), 1);
    errfile_clean(&e);
    ck_assert_int_eq(entries("logs"), 0);
}

/* Somebody cleans up while the job runs: the next worker has its files, at the
 * same place if that is the user's own; if that cannot be, it runs without. */
TEST_LOOP(test_errfile_removed_folder_is_made_again, 0, 3)
{
    static const char *const dirs[] = {"logs", "", ""};
    char first[ERRFILE_PATH_MAX];
    ck_assert_int_eq(init(dirs[_i], _i < 2), 0);
    errfile_prepare(&e, 0, 1, first, folder);
    put(first, "{}", 2);
    ck_assert_int_eq(system("rm -r logs ddprun_* 2>/dev/null || :"), 0);
    ck_assert_int_eq(access(first, F_OK), -1);
    errfile_prepare(&e, 0, 1, path, folder);
    ck_assert_int_eq(is_folder(folder), _i < 2);
    ck_assert_int_eq(strcmp(first, path) == 0, _i == 0);
    put(path, "{}", 2);
    ck_assert_int_eq(system("rm -r logs ddprun_* 2>/dev/null || :"), 0);
    put("logs", "", 0);
    ck_assert_int_eq(setenv("TMPDIR", "/dev/null", 1), 0);
    ck_assert_ptr_nonnull(freopen("said", "w", stderr));
    errfile_prepare(&e, 1, 1, path, folder);
    ck_assert_str_eq(path, "");
    ck_assert_str_eq(folder, "");
    ck_assert_int_eq(unlink("logs"), 0);
    ck_assert_int_eq(setenv("TMPDIR", scratch, 1), 0);
    errfile_prepare(&e, 1, 1, path, folder);
    put(path, "{}", 2);
    errfile_clean(&e);
}

/* A folder that is removed again and again costs no descriptor each time. */
TEST_LOOP(test_errfile_removed_folder_costs_no_descriptor, 0, 2)
{
    ck_assert_int_eq(init("", _i == 1), 0);
    errfile_prepare(&e, 0, 1, path, folder);
    int before = entries("/proc/self/fd");
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(system("rm -r ddprun_*"), 0);
        errfile_prepare(&e, 0, 1, path, folder);
        ck_assert_str_ne(path, "");
    }
    ck_assert_int_eq(entries("/proc/self/fd"), before);
}

/* Where nothing can be made, there is no path, and it is said once. */
TEST(test_errfile_without_a_folder_has_no_path)
{
    ck_assert_ptr_nonnull(freopen("said", "w", stderr));
    ck_assert_int_eq(setenv("TMPDIR", "/dev/null", 1), 0);
    for (int i = 0; i < 3; i++) {
        errfile_prepare(&e, 0, i, path, folder);
        ck_assert_str_eq(path, "");
    }
    char said[1024] = "";
    int fd = open("said", O_RDONLY | O_CLOEXEC);
    ck_assert_int_gt(read(fd, said, sizeof(said) - 1), 0);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_ptr_nonnull(strstr(said, "/dev/null: Not a directory"));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
}

/* --log_dir=/dev/null: no files, and no word about it. */
TEST(test_errfile_none_wanted_none_made)
{
    ck_assert_int_eq(init("/dev/null", true), 0);
    errfile_prepare(&e, 0, 0, path, folder);
    ck_assert_str_eq(path, "");
    ck_assert_int_eq(entries("."), 0);
}

/* What stands in the worker's file, what in the launcher's own then: an exit
 * code of 3 is put in where torchrun puts it. */
static const struct {
    const char *json;
    const char *passed; /* NULL: nothing, what was there stays */
} passings[] = {
    {"{\"message\": {\"message\": \"m\", \"extraInfo\": {}}}",
     "{\"message\":{\"message\":\"m\",\"extraInfo\":{},\"errorCode\":3}}"},
    {"{\"message\": {\"errorCode\": 9}, \"more\": 1}",
     "{\"message\":{\"errorCode\":3},\"more\":1}"},
    {"{\"message\": \"plain\", \"timestamp\": 5}",
     "{\"message\":\"plain\",\"timestamp\":5}"},
    {"{\"no\": 1}", NULL},
    {"{\"message\": ", NULL},
    {"[1]", NULL},
    {"", NULL},
};

TEST_EACH(test_errfile_pass_on_tells_who_started_us, passings)
{
    char got[256] = "";
    const char *want = passings[_i].passed;
    put("theirs", "as it was", 9);
    put("error.json", passings[_i].json, strlen(passings[_i].json));
    ck_assert_int_eq(setenv("TORCHELASTIC_ERROR_FILE", "theirs", 1), 0);
    errfile_pass_on("error.json", 3);
    int fd = open("theirs", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(read(fd, got, sizeof(got) - 1), 0);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_str_eq(got, want != NULL ? want : "as it was");
}

/* Nobody asks, nothing is there, or it cannot be written: no harm. */
TEST(test_errfile_pass_on_may_have_nowhere_to_go)
{
    put("error.json", "{\"message\": \"m\"}", 16);
    ck_assert_int_eq(unsetenv("TORCHELASTIC_ERROR_FILE"), 0);
    errfile_pass_on("error.json", 3);
    ck_assert_int_eq(setenv("TORCHELASTIC_ERROR_FILE", "", 1), 0);
    errfile_pass_on("error.json", 3);
    ck_assert_int_eq(entries("."), 1);
    ck_assert_int_eq(setenv("TORCHELASTIC_ERROR_FILE", "gone/file", 1), 0);
    errfile_pass_on("error.json", 3);
    ck_assert_int_eq(setenv("TORCHELASTIC_ERROR_FILE", "new", 1), 0);
    errfile_pass_on("", 3);
    errfile_pass_on("not-there", 3);
    ck_assert_int_eq(access("new", F_OK), -1);
}

SUITE("errfile", "fast", FIXTURE(setup, scratch_leave))
