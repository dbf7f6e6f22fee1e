/* links: tests/lib/words rendezvous/base/{opts,opts_complete,opts_help,err} */
/* The parser on a table of its own: the grammar, the three sources of a
 * value, and what it says when something is wrong. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/opts.h"
#include "tests/lib/suite.h"
#include "tests/lib/words.h"

enum id {
    N_NODES,
    N_PROCS,
    GRACE,
    QUIET,
    VERBOSE,
    NAME,
    SHAPE,
    TEE,
    RUN_PATH,
    EVERY,
    ROWS,
};

static const struct opts_row rows[ROWS] = {
    [N_NODES] = {"n_nodes", 'n', OPTS_INT, "T_N_NODES", "1", 1, 99, "N", 0,
                 "Nodes."},
    [N_PROCS] = {"n_procs", 0, OPTS_INT, "T_N_PROCS", NULL, -5, 5, "N", 0,
                 "Processes."},
    [GRACE] = {"grace", 'g', OPTS_SECONDS, "T_GRACE T_OLD_GRACE", "30", 300,
               60000, "SECONDS", 0, "Grace."},
    [QUIET] = {"quiet", 'q', OPTS_FLAG, "T_QUIET", NULL, 0, 0, NULL, 1,
               "Say little."},
    [VERBOSE] = {"verbose", 'v', OPTS_FLAG, NULL, NULL, 0, 0, NULL, 1,
                 "Say much, in a sentence that is long enough to go over the "
                 "end of a line of eighty columns."},
    [NAME] = {"name", 0, OPTS_STR, "T_NAME", NULL, 0, 0, "NAME", 1, "A name."},
    [SHAPE] = {"shape_of_the_very_long_option", 's', OPTS_SPEC, "T_SHAPE", "",
               0, 0, "AxB", 1, "A shape."},
    [TEE] = {"tee", 't', OPTS_LATER, "T_TEE", "0", 0, 0, "WHAT", 1, ""},
    [RUN_PATH] = {"run_path", 0, OPTS_LATER, "T_RUN_PATH", NULL, 0, 0, NULL, 1,
                  ""},
    [EVERY] = {"every", 'e', OPTS_SECONDS, NULL, "2", 100, 60000, "[SECONDS]",
               1, "Again and again."},
};

static const char *const groups[] = {"First", "Second"};

static const char *const replaced[] = {"n_procs", "name", "quiet", NULL};

static const struct opts_gone gone[] = {
    {"old_size", NULL, "use --size"},
    {"old_form", "T_OLD_FORM", "use --shape"},
    {NULL, NULL, NULL}};

static const struct opts_table table = {
    .program = "prog",
    .synopsis = "[OPTION ...] FILE",
    .about = "Does it.",
    .version = "1",
    .replaces = "oldprog",
    .replaced = replaced,
    .groups = groups,
    .groups_len = 2,
    .rows = rows,
    .rows_len = ROWS,
    .gone = gone,
};

/* In the environment `env`, "prog" and the words of `line`. */
static int
parse(struct opts *o, const char *env, const char *line, struct ddp_err *err)
{
    words_env(env);
    words_line("prog", line);
    return opts_parse(o, &table, words_argc, words_argv, err);
}

static const struct {
    const char *env;
    const char *line;
    int id;
    enum opts_source source;
    int64_t number;
    const char *text; /* NULL: not looked at */
    int rest;
} good[] = {
    /* defaults, command line, environment, in their order */
    {"", "f", N_NODES, OPTS_FROM_DEFAULT, 1, "1", 1},
    {"", "f", N_PROCS, OPTS_FROM_DEFAULT, 0, NULL, 1},
    {"", "f", GRACE, OPTS_FROM_DEFAULT, 30000000, "30", 1},
    {"T_N_NODES=7", "f", N_NODES, OPTS_FROM_ENV, 7, "7", 1},
    {"T_N_NODES=7", "--n_nodes 8 f", N_NODES, OPTS_FROM_LINE, 8, "8", 3},
    {"T_N_NODES=bad", "--n_nodes 8 f", N_NODES, OPTS_FROM_LINE, 8, "8", 3},
    {"T_GRACE=1 T_OLD_GRACE=2", "f", GRACE, OPTS_FROM_ENV, 1000000, "1", 1},
    {"T_OLD_GRACE=2", "f", GRACE, OPTS_FROM_ENV, 2000000, "2", 1},
    {"T_NAME=", "f", NAME, OPTS_FROM_ENV, 0, "", 1},
    {"T_QUIET=1", "f", QUIET, OPTS_FROM_ENV, 1, NULL, 1},
    {"T_QUIET=-3", "f", QUIET, OPTS_FROM_ENV, 1, NULL, 1},
    {"T_QUIET=0", "f", QUIET, OPTS_FROM_ENV, 0, NULL, 1},
    {"T_QUIET=0", "-q f", QUIET, OPTS_FROM_LINE, 1, NULL, 2},
    /* a value that may be left out */
    {"", "f", EVERY, OPTS_FROM_DEFAULT, 2000000, "2", 1},
    {"", "--every 5 f", EVERY, OPTS_FROM_LINE, 2000000, "2", 2},
    {"", "--every=0.5 f", EVERY, OPTS_FROM_LINE, 500000, "0.5", 2},
    {"", "-e f", EVERY, OPTS_FROM_LINE, 2000000, "2", 2},
    {"", "-e3 f", EVERY, OPTS_FROM_LINE, 3000000, "3", 2},
    /* ways to write it */
    {"", "--n_nodes=3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 2},
    {"", "--n-nodes=3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 2},
    {"", "--n-nodes 3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 3},
    /* the only one of those that the replaced program has */
    {"", "--n_=3 f", N_PROCS, OPTS_FROM_LINE, 3, "3", 2},
    {"", "--n-n 3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 3},
    {"", "--sh=2x2 f", SHAPE, OPTS_FROM_LINE, 0, "2x2", 2},
    {"", "--shape-of_the=2 f", SHAPE, OPTS_FROM_LINE, 0, "2", 2},
    {"", "-n3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 2},
    {"", "-n 3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 3},
    {"", "-n=3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 2},
    {"", "-qvn3 f", VERBOSE, OPTS_FROM_LINE, 1, NULL, 2},
    {"", "-qvn3 f", N_NODES, OPTS_FROM_LINE, 3, "3", 2},
    {"", "-n3 -n4 f", N_NODES, OPTS_FROM_LINE, 4, "4", 3},
    {"", "--n_procs -4 f", N_PROCS, OPTS_FROM_LINE, -4, "-4", 3},
    {"", "--grace 0.3 f", GRACE, OPTS_FROM_LINE, 300000, "0.3", 3},
    {"", "--grace 0.3000004 f", GRACE, OPTS_FROM_LINE, 300000, NULL, 3},
    {"", "--grace 1e1 f", GRACE, OPTS_FROM_LINE, 10000000, NULL, 3},
    {"", "--name=a=b f", NAME, OPTS_FROM_LINE, 0, "a=b", 2},
    {"", "--name= f", NAME, OPTS_FROM_LINE, 0, "", 2},
    {"", "--name '' f", NAME, OPTS_FROM_LINE, 0, "", 3},
    {"", "--name - f", NAME, OPTS_FROM_LINE, 0, "-", 3},
    /* where the options end */
    {"", "", N_NODES, OPTS_FROM_DEFAULT, 1, "1", 1},
    {"", "f --n_nodes 9", N_NODES, OPTS_FROM_DEFAULT, 1, "1", 1},
    {"", "-q f -v", VERBOSE, OPTS_FROM_DEFAULT, 0, NULL, 2},
    {"", "-q -- f", QUIET, OPTS_FROM_LINE, 1, NULL, 3},
    {"", "-- -q", QUIET, OPTS_FROM_DEFAULT, 0, NULL, 2},
    {"", "f -- -q", QUIET, OPTS_FROM_DEFAULT, 0, NULL, 1},
    {"", "- -q", QUIET, OPTS_FROM_DEFAULT, 0, NULL, 1},
    {"", "'' -q", QUIET, OPTS_FROM_DEFAULT, 0, NULL, 1},
    /* what is not there yet, asked for nothing more than its default */
    {"T_TEE=0 T_RUN_PATH=0", "--tee 0 f", TEE, OPTS_FROM_LINE, 0, "0", 3},
};

/* A right command line gives the value, its source, and where the rest is. */
TEST_EACH(test_opts_right_line_is_read, good)
{
    struct opts o;
    struct ddp_err err = {.text = ""};
    ck_assert_msg(parse(&o, good[_i].env, good[_i].line, &err) == 0, "%s: %s",
                  good[_i].line, err.text);
    ck_assert_int_eq(o.ask, OPTS_ASK_RUN);
    ck_assert_int_eq(o.value[good[_i].id].source, good[_i].source);
    ck_assert_int_eq(opts_number(&o, good[_i].id), good[_i].number);
    ck_assert_int_eq(opts_given(&o, good[_i].id),
                     good[_i].source != OPTS_FROM_DEFAULT);
    if (good[_i].text != NULL)
        ck_assert_str_eq(opts_text(&o, good[_i].id), good[_i].text);
    ck_assert_int_eq(o.rest, good[_i].rest);
}

static const struct {
    const char *env;
    const char *line;
    const char *text;
} bad[] = {
    {"", "--n_nodes abc", "--n_nodes=abc: must be a whole number from 1 to 99"},
    {"", "--n_nodes=0", "--n_nodes=0: must be a whole number from 1 to 99"},
    {"", "-n100", "--n_nodes=100: must be a whole number from 1 to 99"},
    {"", "-n=", "--n_nodes=: must be a whole number from 1 to 99"},
    {"", "-n1.5", "--n_nodes=1.5: must be a whole number from 1 to 99"},
    {"", "-n99999999999999999999",
     "--n_nodes=99999999999999999999: must be a whole number from 1 to 99"},
    {"T_N_NODES=x", "f", "T_N_NODES=x: must be a whole number from 1 to 99"},
    {"T_N_NODES=", "f", "T_N_NODES=: must be a whole number from 1 to 99"},
    {"T_QUIET=yes", "f", "T_QUIET=yes: must be 0 (off) or 1 (on)"},
    {"", "--grace 0.2",
     "--grace=0.2: must be a number of seconds from 0.3 to 60"},
    {"", "--grace nan",
     "--grace=nan: must be a number of seconds from 0.3 to 60"},
    {"", "--grace 61",
     "--grace=61: must be a number of seconds from 0.3 to 60"},
    {"", "--grace 0x10",
     "--grace=0x10: must be a number of seconds from 0.3 to 60"},
    {"", "--grace 1e999",
     "--grace=1e999: must be a number of seconds from 0.3 to 60"},
    {"T_OLD_GRACE=5s", "f",
     "T_OLD_GRACE=5s: must be a number of seconds from 0.3 to 60"},
    {"", "--n_nodes", "--n_nodes needs a value: --n_nodes=N"},
    {"", "--grace --quiet", "--grace needs a value: --grace=SECONDS"},
    {"", "--name -- f", "--name needs a value: --name=NAME"},
    {"", "-qn", "--n_nodes needs a value: --n_nodes=N"},
    {"", "--quiet=1", "--quiet=1: --quiet takes no value"},
    {"", "-q=1", "--quiet=1: --quiet takes no value"},
    {"", "--n 3", "--n is ambiguous: it could be --n_nodes, --n_procs, --name"},
    {"", "--n_noeds 3", "unknown option --n_noeds; did you mean --n_nodes?"},
    {"", "--nodes=3", "unknown option --nodes; did you mean --n_nodes?"},
    {"", "--QUIET", "unknown option --QUIET; did you mean --quiet?"},
    {"", "--gracetime 3", "unknown option --gracetime; did you mean --grace?"},
    {"", "-quiet", "unknown option -quiet; did you mean --quiet?"},
    {"", "--hepl", "unknown option --hepl; did you mean --help?"},
    {"", "--vers", "unknown option --vers; did you mean --version?"},
    {"", "--old-size=3", "option --old-size is gone: use --size"},
    {"T_OLD_FORM=3", "f",
     "T_OLD_FORM is set, but option --old_form is gone: use --shape"},
    {"", "--elephant", "unknown option --elephant; see prog --help"},
    {"", "--=3", "unknown option --; see prog --help"},
    {"", "---", "unknown option ---; see prog --help"},
    {"", "-x", "unknown option -x; see prog --help"},
    {"", "-nodes", "--n_nodes=odes: must be a whole number from 1 to 99"},
    {"", "--tee 3 f",
     "--tee: this version of prog does not have this option of oldprog yet"},
    {"", "-t3 f",
     "--tee: this version of prog does not have this option of oldprog yet"},
    {"T_TEE=1", "f",
     "T_TEE: this version of prog does not have this option of oldprog yet"},
    {"", "--run-path f",
     "--run_path: this version of prog does not have this option of oldprog "
     "yet"},
    {"T_RUN_PATH=1", "f",
     "T_RUN_PATH: this version of prog does not have this option of oldprog "
     "yet"},
};

/* A wrong one is a sentence that names what is wrong and what is allowed. */
TEST_EACH(test_opts_wrong_line_is_told, bad)
{
    struct opts o;
    struct ddp_err err = {.text = ""};
    ck_assert_int_eq(parse(&o, bad[_i].env, bad[_i].line, &err), -1);
    ck_assert_str_eq(err.text, bad[_i].text);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
}

/* --help and --version are answered whatever else is wrong behind them. */
TEST(test_opts_help_comes_before_errors)
{
    struct opts o;
    struct ddp_err err;
    const char *env = "T_N_NODES=bad";
    ck_assert_int_eq(parse(&o, env, "-q --hel --n_nodes=bad", &err), 0);
    ck_assert_int_eq(o.ask, OPTS_ASK_HELP);
    ck_assert_int_eq(parse(&o, env, "-qh", &err), 0);
    ck_assert_int_eq(o.ask, OPTS_ASK_HELP);
    ck_assert_int_eq(parse(&o, env, "--version --elephant", &err), 0);
    ck_assert_int_eq(o.ask, OPTS_ASK_VERSION);
    ck_assert_int_eq(parse(&o, "", "f --help", &err), 0);
    ck_assert_int_eq(o.ask, OPTS_ASK_RUN);
}

/* Names and words that are longer than any buffer are unknown, not a crash. */
TEST(test_opts_endless_word_is_unknown)
{
    static char word[100000];
    memset(word, 'n', sizeof(word) - 1);
    word[0] = word[1] = '-';
    char prog[] = "prog";
    char *argv[] = {prog, word, NULL};
    struct opts o;
    struct ddp_err err;
    ck_assert_int_eq(opts_parse(&o, &table, 2, argv, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "see prog --help"));
    memset(word, '-', sizeof(word) - 1);
    ck_assert_int_eq(opts_parse(&o, &table, 2, argv, &err), -1);
}

/* A message can say where a value came from. */
TEST(test_opts_where_names_the_source)
{
    struct opts o;
    char name[64];
    ck_assert_int_eq(parse(&o, "T_OLD_GRACE=3", "--n-n 3", NULL), 0);
    ck_assert_str_eq(opts_where(&o, GRACE, name), "T_OLD_GRACE");
    ck_assert_str_eq(opts_where(&o, N_NODES, name), "--n_nodes");
    ck_assert_str_eq(opts_where(&o, QUIET, name), "--quiet");
}

/* --help shows every option once, in at most 80 columns. */
TEST(test_opts_help_is_whole_and_narrow)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(f);
    opts_help(&table, f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_ptr_nonnull(strstr(text, "usage: prog [OPTION ...] FILE\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\n  -n, --n_nodes=N             Nodes. (default: 1)\n"));
    ck_assert_ptr_nonnull(strstr(text,
                                 "\n  -s, --shape_of_the_very_long_option=AxB\n"
                                 "                              A shape.\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n  --tee, --run_path\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nSecond:\n"));
    size_t column = 0;
    for (const char *p = text; *p != '\0'; p++) {
        column = *p == '\n' ? 0 : column + 1;
        ck_assert_uint_le(column, 80);
    }
    for (int i = 0; i < ROWS; i++) {
        char name[80];
        (void)snprintf(name, sizeof(name), "--%s", rows[i].name);
        ck_assert_ptr_nonnull(strstr(text, name));
    }
    free(text);
}

/* With a manual page, --help shows the first sentence of each option and where
 * the rest is; the default stays on one line. */
TEST(test_opts_help_with_a_manual_is_brief)
{
    static const struct opts_row few[] = {
        {"size", 0, OPTS_STR, NULL, "12 by 34", 0, 0, "AxB", 0,
         "A size of 1.5 or more, in a short text. And much else."},
    };
    struct opts_table brief = table;
    brief.examples = "  prog --size=2 file\n";
    brief.manual = "prog(1)";
    brief.rows = few;
    brief.rows_len = 1;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    opts_help(&brief, f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_ptr_nonnull(strstr(
        text, "usage: prog [OPTION ...] FILE\n\n  prog --size=2 file\n\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "  --size=AxB                  "
                     "A size of 1.5 or more, in a short text.\n"
                     "                              (default: 12 by 34)\n"));
    ck_assert_ptr_null(strstr(text, "much else"));
    ck_assert_ptr_nonnull(
        strstr(text, "prog(1) describes each option in full.\n"));
    free(text);
}

/* Each shell gets each option, and the values that are words. */
TEST_LOOP(test_opts_completion_has_every_option, 0, 3)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    char *text = NULL, name[64];
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    ck_assert(opts_completion(&table, shells[_i], f));
    ck_assert_int_eq(fclose(f), 0);
    for (int i = 0; i < ROWS; i++) {
        const char *before = _i < 2 ? "--" : "-l ";
        (void)snprintf(name, sizeof(name), "%s%s", before, rows[i].name);
        ck_assert_msg((strstr(text, name) != NULL) ==
                          (rows[i].kind != OPTS_LATER),
                      "%s: %s", shells[_i], name);
    }
    ck_assert_ptr_nonnull(strstr(text, "prog"));
    free(text);
    f = open_memstream(&text, &len);
    ck_assert(!opts_completion(&table, "tcsh", f));
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_uint_eq(len, 0);
    free(text);
}

/* A swap counts as one edit; what is far from all is not guessed. */
TEST(test_opts_nearest_counts_edits)
{
    static const char *const names[] = {"join_timeout", "is_host", "lastcall"};
    ck_assert_str_eq(opts_nearest("jion_timeout", names, 3), "join_timeout");
    ck_assert_str_eq(opts_nearest("Join-TimeOuts", names, 3), "join_timeout");
    ck_assert_str_eq(opts_nearest("ishost", names, 3), "is_host");
    ck_assert_str_eq(opts_nearest("last_call", names, 3), "lastcall");
    ck_assert_ptr_null(opts_nearest("verbosity", names, 3));
    ck_assert_ptr_null(opts_nearest("", names, 3));
}

/* Numbers are taken whole or not at all. */
TEST(test_opts_numbers_are_whole)
{
    static const char *const none[] = {"",   "-",   "+",    " ",   "1 2",
                                       "1x", "--1", "0x10", "1,0", "- 1"};
    int64_t n = 42;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        ck_assert(!opts_read_int(none[i], INT64_MIN, INT64_MAX, &n));
        ck_assert(!opts_read_seconds(none[i], 0, INT64_C(1) << 50, &n));
    }
    ck_assert_int_eq(n, 42);
    ck_assert(opts_read_int("+7", 0, 9, &n) && n == 7);
    ck_assert(opts_read_int("-0", 0, 9, &n) && n == 0);
    ck_assert(opts_read_int(" 7\n", 0, 9, &n) && n == 7); /* as int() does */
    ck_assert(opts_read_seconds("\t1 ", 0, 1000000, &n) && n == 1000000);
    ck_assert(opts_read_seconds(".5", 0, 1000000, &n) && n == 500000);
    ck_assert(!opts_read_seconds("-1", 0, 1000000, &n));
}

SUITE("opts", "parse", .tags = "fast")
