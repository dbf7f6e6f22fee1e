/* links: launcher/report/words rendezvous/base/{log,err,utf8} */
/*
 * Which of a worker's last lines and its traceback are shown, where Python has
 * written the one into the other, more or less.
 */
#include <check.h>
#include <string.h>

#include "launcher/report/words.h"
#include "tests/lib/suite.h"

#define HEAD  "Traceback (most recent call last):\n"
#define TOP   "  File \"train.py\", line 12, in <module>\n    main()\n"
#define RECO  "  File \"x/errors.py\", line 346, in wrapper\n    return f(*a)\n"
#define FRAME "  File \"train.py\", line 9, in main\n    step(batch)\n"
#define R     "[rank13]: "
#define ERROR "ValueError: no such shard\n"

static const struct {
    const char *tail, *trace;
    enum words shown;
} cases[] = {
    /* What Python writes: the same, and who called @record's function. */
    {HEAD TOP RECO FRAME ERROR, HEAD RECO FRAME ERROR, WORDS_TAIL_ONLY},
    /* With words before it and behind it, in colours, and with a terminal's
     * line ends. */
    {"step 7\n" HEAD TOP RECO FRAME ERROR "bye\n", HEAD RECO FRAME ERROR,
     WORDS_TAIL_ONLY},
    {HEAD TOP RECO FRAME "\033[1mValueError\033[0m: no such shard\r\n",
     HEAD RECO FRAME ERROR, WORDS_TAIL_ONLY},
    /* As a newer PyTorch writes it, of which an empty line has the rank too. */
    {R HEAD R "  File \"train.py\", line 9, in main\n" R "    step(batch)\n" R
              "\n" R ERROR,
     HEAD FRAME "\n" ERROR, WORDS_TAIL_ONLY},
    {R "    step(batch)\n" R ERROR, HEAD RECO FRAME ERROR, WORDS_TRACE_ONLY},
    {"[rank5] " HEAD "[rank5] " ERROR, HEAD ERROR, WORDS_BOTH},
    /* One error that came of another. */
    {HEAD FRAME "KeyError: 5\n\nDuring handling:\n\n" HEAD TOP RECO ERROR,
     HEAD FRAME "KeyError: 5\n\nDuring handling:\n\n" HEAD RECO ERROR,
     WORDS_TAIL_ONLY},
    /* The tail begins within a long traceback. */
    {"    step(batch)\n" ERROR, HEAD RECO FRAME ERROR, WORDS_TRACE_ONLY},
    /* ... or just below its first line. */
    {TOP RECO FRAME ERROR, HEAD RECO FRAME ERROR, WORDS_TAIL_ONLY},
    /* The traceback was cut within a line. */
    {HEAD TOP RECO FRAME ERROR, "rapper\n    return f(*a)\n" FRAME ERROR,
     WORDS_TAIL_ONLY},
    /* They tell of different things. */
    {"NCCL: connection reset\n", HEAD RECO FRAME ERROR, WORDS_BOTH},
    {ERROR "NCCL: connection reset\n", HEAD RECO FRAME ERROR, WORDS_BOTH},
    {HEAD TOP RECO FRAME "KeyError: 5\n", HEAD RECO FRAME ERROR, WORDS_BOTH},
    /* There is only one of them, or none. */
    {"", HEAD RECO FRAME ERROR, WORDS_TRACE_ONLY},
    {"some words\n", "", WORDS_TAIL_ONLY},
    {"", "", WORDS_TAIL_ONLY},
};
#define CASES (int)(sizeof(cases) / sizeof(cases[0]))

TEST_LOOP(test_words_nothing_is_shown_twice, 0, CASES)
{
    ck_assert_int_eq(report_words_compare(cases[_i].tail, cases[_i].trace),
                     cases[_i].shown);
}

/* A line as a terminal would show it, never beyond its room. */
TEST_LOOP(test_words_plain_line_has_no_escapes, 0, 6)
{
    static const char *const lines[][2] = {
        {"\033[31mred\033[0m", "red"},
        {"10 %\r50 %\r100 %", "100 %"},
        {"line\r", "line"},
        {"a\tb", "a    b"},
        {"\033[", ""},
        {"0123456789abcdef", "0123456789abc"}, /* cut */
    };
    char out[17];
    report_words_plain(lines[_i][0], strlen(lines[_i][0]), out, sizeof(out));
    ck_assert_str_eq(out, lines[_i][1]);
}

SUITE("report_words", "words", .tags = "fast")
