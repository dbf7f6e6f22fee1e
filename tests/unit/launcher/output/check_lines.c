/* links: tests/lib/{scratch,timeless} launcher/output/{lines,logfile} */
/* links: rendezvous/base/{err,utf8,utc} */
/* Lines out of bytes, prefixes, filters, last lines; and log files that are
 * changed for new ones, or whose disk is full. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/output/lines.h"
#include "launcher/output/logfile.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/timeless.h"

/* -- lines ----------------------------------------------------------------- */

static const struct {
    const char *data;
    size_t whole, count;
} pieces[] = {
    {"", 0, 0},     {"a", 0, 0},      {"\n", 1, 1},   {"a\n", 2, 1},
    {"a\nb", 2, 1}, {"a\nb\n", 4, 2}, {"\n\n", 2, 2}, {"a\r\nb\r", 3, 1},
};

TEST_EACH(test_lines_whole_ends_behind_the_last_newline, pieces)
{
    size_t len = strlen(pieces[_i].data);
    ck_assert_uint_eq(lines_whole(pieces[_i].data, len), pieces[_i].whole);
    ck_assert_uint_eq(lines_count(pieces[_i].data, len), pieces[_i].count);
}

/* Empty lines and NUL bytes are lines and bytes like others. */
TEST(test_lines_prefix_stands_before_each)
{
    static const char data[] = "a\n\nb\0c\n";
    static const char want[] = "[0]:a\n[0]:\n[0]:b\0c\n";
    char out[64];
    size_t n = lines_prefix(data, sizeof(data) - 1, false, "[0]:", 4, out);
    ck_assert_uint_eq(n, sizeof(want) - 1);
    ck_assert_mem_eq(out, want, n);
}

/* A line that is cut into pieces has one prefix, wherever it is cut. */
TEST_LOOP(test_lines_prefix_stands_once_before_a_line_in_pieces, 0, 14)
{
    static const char data[] = "one\n\ntwo\nrest";
    static const char want[] = "- one\n- \n- two\n- rest";
    size_t len = sizeof(data) - 1, first = (size_t)_i;
    bool inside = first > 0 && data[first - 1] != '\n';
    char out[64];
    size_t n = lines_prefix(data, first, false, "- ", 2, out);
    n += lines_prefix(data + first, len - first, inside, "- ", 2, out + n);
    ck_assert_uint_eq(n, sizeof(want) - 1);
    ck_assert_mem_eq(out, want, n);
}

TEST(test_lines_match_is_any_text)
{
    static char a[] = "loss", b[] = "x,y";
    char *texts[] = {a, b, NULL};
    char *none[] = {NULL};
    ck_assert(lines_match("step 1 loss 2\n", 14, texts));
    ck_assert(lines_match("\0x,y", 4, texts));
    ck_assert(!lines_match("los\n", 4, texts));
    ck_assert(!lines_match("loss\n", 5, none));
}

static const struct {
    const char *data;
    bool inside;
    int64_t size, limit;
    size_t fits;
} fits[] = {
    {"ab\ncd\n", false, 0, 0, 6},  /* no limit */
    {"ab\ncd\n", false, 4, 10, 6}, /* to the last byte */
    {"ab\ncd\n", true, 5, 10, 3},  /* the end of a line */
    {"ab\ncd\n", false, 9, 10, 0}, /* a new file first */
    {"ab\ncd\n", true, 9, 10, 3},  /* ... not before its line has ended */
    {"ab\ncd\n", false, 12, 10, 0},
    {"ab\ncd\n", true, 12, 10, 3},
    {"abcdef\ng\n", false, 0, 4, 7}, /* longer than a file: not cut */
    {"abcdefgh", false, 0, 4, 8},
    {"abcdefgh", false, 1, 4, 0},
    {"abcdefgh", true, 1, 4, 8},
    {"abcdefgh", true, LINES_LONG + 3, 4, 8},
    {"abcdefgh", true, LINES_LONG + 4, 4, 0}, /* too long */
};

TEST_EACH(test_lines_fit_cuts_between_lines, fits)
{
    const char *data = fits[_i].data;
    ck_assert_uint_eq(lines_fit(data, strlen(data), fits[_i].inside,
                                fits[_i].size, fits[_i].limit),
                      fits[_i].fits);
}

static const struct {
    const char *template, *want;
} templates[] = {
    {"[${role_name}${local_rank}]:", "[default3]:"},
    {"$role_name/$rank ", "default/11 "},
    {"$rankle ${rank}le", "$rankle 11le"},
    {"$$ ${other} $", "$ ${other} $"},
    {"${hostname}:${rank}: ", "node7:11: "},
    {"$hostnames", "$hostnames"},
    {"", ""},
};

TEST_EACH(test_lines_fill_is_pythons_template, templates)
{
    const struct lines_who who = {
        .role = "default", .host = "node7", .local_rank = 3, .rank = 11};
    char out[64];
    size_t n = lines_fill(templates[_i].template, &who, out, sizeof(out));
    ck_assert_str_eq(out, templates[_i].want);
    ck_assert_uint_eq(n, strlen(out));
    ck_assert_uint_eq(lines_fill("${role_name}", &who, out, 4), 3);
    ck_assert_str_eq(out, "def");
}

static const struct {
    const char *text, *want;
} texts[] = {
    {"a\tb\n\033", "a\tb\n\033"},
    {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
     "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"\xff\x80z\xc3", "??z?"},
    {"\xc0\xaf", "??"},           /* overlong */
    {"\xe0\x80\xaf", "???"},      /* overlong */
    {"\xed\xa0\x80", "???"},      /* a surrogate */
    {"\xf4\x90\x80\x80", "????"}, /* beyond Unicode */
    {"\xe2\x82", "??"},           /* cut */
};

TEST_EACH(test_lines_clean_makes_utf8, texts)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%s", texts[_i].text);
    lines_clean(text, strlen(text));
    ck_assert_str_eq(text, texts[_i].want);
}

/* -- the end of a stream --------------------------------------------------- */

static void put(struct lines_tail *t, const char *text)
{
    lines_tail_put(t, text, strlen(text));
}

static const char *got(const struct lines_tail *t)
{
    static char out[LINES_TAIL_BYTES + 1];
    out[lines_tail_get(t, out)] = '\0';
    return out;
}

TEST(test_lines_tail_has_twenty_lines)
{
    static struct lines_tail t;
    ck_assert_str_eq(got(&t), "");
    put(&t, "half");
    ck_assert_str_eq(got(&t), "half");
    put(&t, " a line\n");
    ck_assert_str_eq(got(&t), "half a line\n");
    for (int i = 0; i < LINES_TAIL_LINES - 1; i++)
        put(&t, "x\n");
    ck_assert_int_eq(strncmp(got(&t), "half a line\nx\n", 14), 0);
    put(&t, "last");
    ck_assert_int_eq(strncmp(got(&t), "x\nx\n", 4), 0);
    ck_assert_str_eq(got(&t) + 2 * (LINES_TAIL_LINES - 1), "last");
}

/* In any pieces: never the rest of a line whose front is gone, unless it is
 * all there is. */
TEST_LOOP(test_lines_tail_is_bounded, 0, 201)
{
    static struct lines_tail t;
    char line[201];
    memset(line, 'a', sizeof(line));
    line[199] = '\n';
    line[200] = '\0';
    for (int i = 0; i < 100; i++) {
        line[0] = (char)('A' + i % 26);
        lines_tail_put(&t, line, (size_t)_i);
        lines_tail_put(&t, line + _i, 200 - (size_t)_i);
        const char *text = got(&t);
        ck_assert_uint_eq(strlen(text) % 200, 0);
        ck_assert_int_eq(text[strlen(text) - 200], line[0]);
    }
    static char much[3 * LINES_TAIL_BYTES];
    memset(much, 'b', sizeof(much));
    lines_tail_put(&t, much, sizeof(much));
    ck_assert_uint_eq(strlen(got(&t)), LINES_TAIL_BYTES);
}

/* -- log files ------------------------------------------------------------- */

static struct logfile f;

static void teardown(void)
{
    logfile_close(&f);
    scratch_leave();
}

static char *read_all(const char *path)
{
    static char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        ck_assert_int_eq(close(fd), 0);
    text[n] = '\0';
    return text;
}

static bool put_line(const char *text)
{
    return logfile_put(&f, text, strlen(text));
}

CASE("files", FIXTURE(scratch_enter, teardown))

/* Another round of the same attempt goes behind what is there. */
TEST(test_logfile_appends_behind_a_mark)
{
    ck_assert_int_eq(logfile_open(&f, "log", 1, 0, 0), 0);
    ck_assert(put_line("a\n"));
    logfile_close(&f);
    ck_assert_int_eq(logfile_open(&f, "log", 2, 0, 0), 0);
    ck_assert(put_line("b\n"));
    ck_assert_str_eq(timeless(read_all("log")),
                     "a\n--- ddprun: round 2 begins, TIME ---\nb\n");
}

/* Of ten lines in files of three, the last two old files are kept. */
TEST(test_logfile_rotates_between_lines)
{
    ck_assert_int_eq(logfile_open(&f, "log", 1, 10, 2), 0);
    ck_assert(put_line("l0\nl1\nl2\nl3\nl"));
    ck_assert(put_line("4\nl5\nl6\nl7\nl8\nl9\n"));
    ck_assert_str_eq(read_all("log"), "l9\n");
    ck_assert_str_eq(read_all("log.1"), "l6\nl7\nl8\n");
    ck_assert_str_eq(read_all("log.2"), "l3\nl4\nl5\n");
    ck_assert_int_eq(access("log.3", F_OK), -1);
    ck_assert_int_eq(f.rotations, 3);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit l = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* What did not fit is counted, and told in the file when there is room again.
 */
TEST(test_logfile_full_counts_and_goes_on)
{
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(logfile_open(&f, "log", 1, 0, 0), 0);
    limit_files(5);
    ck_assert(!put_line("0123456789\n"));
    ck_assert_int_eq(f.missing, 6);
    ck_assert_int_ne(f.sys_errno, 0);
    ck_assert(!put_line("x\n"));
    ck_assert_int_eq(f.missing, 8);
    limit_files(RLIM_INFINITY);
    ck_assert(put_line("y\n"));
    ck_assert_int_eq(f.missing, 0);
    ck_assert_str_eq(
        timeless(read_all("log")),
        "01234\n--- ddprun: 8 bytes are missing here, TIME ---\ny\n");
}

/* No folder yet: nothing is written, and once it is there, all that comes. */
TEST(test_logfile_opens_later)
{
    ck_assert_int_eq(logfile_open(&f, "dir/log", 1, 0, 0), -1);
    ck_assert(!put_line("a\n"));
    ck_assert_int_eq(mkdir("dir", 0777), 0);
    ck_assert(put_line("b\n"));
    ck_assert_str_eq(timeless(read_all("dir/log")),
                     "\n--- ddprun: 2 bytes are missing here, TIME ---\nb\n");
}

/* Bytes that nobody looks at, and the same file afterwards. */
TEST(test_logfile_splices)
{
    int pipes[2];
    ck_assert_int_eq(pipe2(pipes, O_NONBLOCK | O_CLOEXEC), 0);
    ck_assert_int_eq(logfile_open(&f, "log", 1, 0, 0), 0);
    ck_assert(put_line("a\n"));
    ck_assert_int_eq(logfile_splice(&f, pipes[0], 100), -1);
    ck_assert_int_eq(write(pipes[1], "b\n", 2), 2);
    ck_assert_int_eq(logfile_splice(&f, pipes[0], 100), 2);
    ck_assert_int_eq(close(pipes[1]), 0);
    ck_assert_int_eq(logfile_splice(&f, pipes[0], 100), 0);
    ck_assert_int_eq(close(pipes[0]), 0);
    ck_assert(put_line("c\n"));
    ck_assert_str_eq(read_all("log"), "a\nb\nc\n");
}

SUITE("lines", "fast")
