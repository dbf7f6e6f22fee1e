/* links: rendezvous/core/note rendezvous/base/err */
/* The one line that the log, the simulator's trace and the manual share. */
#include <check.h>
#include <string.h>

#include "rendezvous/core/note.h"
#include "tests/lib/suite.h"

static const struct {
    struct note note;
    const char *line;
} cases[] = {
    {{.kind = NOTE_joined,
      .run = "none",
      .round = 3,
      .node = "b",
      .text = "2 of 2..4"},
     "run none round 3: joined node=b: 2 of 2..4"},
    {{.kind = NOTE_joined, .run = "none", .round = 3, .node = "b", .text = ""},
     "run none round 3: joined node=b"},
    {{.kind = NOTE_sealed,
      .run = "r",
      .round = 1,
      .node = "",
      .text = "2 nodes"},
     "run r round 1: sealed: 2 nodes"},
    {{.kind = NOTE_round_over,
      .run = "r",
      .round = 2,
      .node = "b",
      .text = "node b leaves"},
     "run r round 2: round over node=b: node b leaves"},
    {{.kind = NOTE_order_refused, .run = "", .node = "", .text = "no run 'x'"},
     "order refused: no run 'x'"},
};

/* What is not meant (a node, a run) leaves no gap in the line. */
TEST_EACH(test_note_format_says_what_there_is, cases)
{
    char line[80];
    note_format(&cases[_i].note, line, sizeof(line));
    ck_assert_str_eq(line, cases[_i].line);
}

/* A line that does not fit is cut, with its end in place. */
TEST_EACH(test_note_format_cuts_at_the_size, cases)
{
    char line[9] = "........";
    note_format(&cases[_i].note, line, sizeof(line) - 1);
    ck_assert_uint_eq(strlen(line), sizeof(line) - 2);
    ck_assert_mem_eq(line, cases[_i].line, sizeof(line) - 2);
}

SUITE("note", "format", .tags = "fast")
