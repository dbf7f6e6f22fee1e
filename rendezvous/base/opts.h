/*
 * base/opts: a command line read by a table.
 *
 * A program's options stand in one file, `options.def`, which is included
 * several times with different meanings of two macros (this parser, --help,
 * the manual page; see scripts/man-options):
 *
 *     OPT_GROUP(IDENT, "Title")
 *     OPT(long_name, 'x' or 0, KIND, "ENV ENV2" or NULL, "default" or NULL,
 *         min, max, "METAVAR" or NULL, GROUP_IDENT, "Help sentence.")
 *
 * KIND is FLAG; INT (min and max in units); SECONDS, a decimal number, 0.3
 * (min and max in milliseconds, the value in microseconds); STR; SPEC, a text
 * that other code checks; or LATER: an option of the program that we replace
 * which we do not have yet. LATER is refused with a sentence that says so,
 * except where it asks for what is the default anyhow. A METAVAR in brackets,
 * "[SECONDS]", is a value that may be left out, and must stand behind `=` where
 * it is not: the default is meant then, and not where the option is not given.
 *
 * The grammar is argparse's, since torchrun's users know it. --a_b and --a-b
 * are the same; a prefix will do while it is the only one, or the only one of
 * those that the replaced program has; `--o v`, `--o=v`,
 * `-ov`, `-o v`, `-o=v`; flags in a bunch, `-abv`. The last one given wins.
 * The first word that is no option ends the options: all after it belongs to
 * somebody else. A `--` before that word is dropped. -h, --help and --version
 * are everyone's. The command line goes before the environment, that before
 * the default; a flag's variable is an integer, 0 is off.
 */
#ifndef RENDEZVOUS_BASE_OPTS_H
#define RENDEZVOUS_BASE_OPTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rendezvous/base/err.h"

#define OPTS_MAX 64 /* rows of a table */

enum opts_kind {
    OPTS_FLAG,
    OPTS_INT,
    OPTS_SECONDS,
    OPTS_STR,
    OPTS_SPEC,
    OPTS_LATER,
};

struct opts_row {
    const char *name; /* with underscores */
    char letter;      /* 0 none */
    enum opts_kind kind;
    const char *env;  /* names, a blank between; the first that is set counts */
    const char *init; /* the default; NULL none */
    int64_t min;
    int64_t max;
    const char *metavar; /* NULL: takes no value */
    int group;
    const char *help;
};

/* All of it constant and borrowed for the life of the process. */
struct opts_table {
    const char *program;
    const char *synopsis; /* behind "usage: PROGRAM " */
    const char *about;    /* a paragraph below the usage line in --help */
    const char *version;
    const char *replaces; /* whose options are LATER: "torchrun"; or NULL */
    /* Names that it has as well, ending with NULL; or NULL: a prefix that only
     * one of them begins with means that one, whatever else does. */
    const char *const *replaced;
    const char *const *groups;
    int groups_len;
    const struct opts_row *rows;
    int rows_len;
};

enum opts_source {
    OPTS_FROM_DEFAULT,
    OPTS_FROM_ENV,
    OPTS_FROM_LINE,
};

struct opts_value {
    enum opts_source source;
    const char *text; /* borrowed from argv, environ or the table, or NULL */
    int64_t number;   /* INT; FLAG 0 or 1; SECONDS in microseconds */
};

enum opts_ask {
    OPTS_ASK_RUN,
    OPTS_ASK_HELP,
    OPTS_ASK_VERSION,
};

struct opts {
    const struct opts_table *table;
    enum opts_ask ask;
    int rest; /* index in argv of the first word that is no option, or argc */
    bool dashes; /* a -- stands before it */
    struct opts_value value[OPTS_MAX];
};

/*
 * Reads argv[1..]. Borrows argv and the environment as long as `o` is used.
 * With --help or --version it stops at that word and says so in `ask`.
 * Errors: DDP_E_USAGE, with a sentence that names the option or variable, the
 * value, and what would be right.
 */
int opts_parse(struct opts *o,
               const struct opts_table *table,
               int argc,
               char *const argv[],
               struct ddp_err *err);

/* `id` is the row's number, the enum that a program makes of its table. */
const char *opts_text(const struct opts *o, int id);
int64_t opts_number(const struct opts *o, int id);

/* By the command line or the environment, not by default. */
bool opts_given(const struct opts *o, int id);

/* "--name" or "PET_NAME": where its value came from, for a message. */
const char *opts_where(const struct opts *o, int id, char name[64]);

/* Answers --help or --version; returns the exit status, which tells if `f` did
 * not take it. */
int opts_answer(const struct opts *o, FILE *f);

/* --help, 80 columns; and its first line alone, for errors. */
void opts_help(const struct opts_table *table, FILE *f);
void opts_usage(const struct opts_table *table, FILE *f);

/*
 * Writes a script that makes a shell ("bash", "zsh" or "fish") complete the
 * program's options, its program's name and arguments. False, and nothing is
 * written, for any other shell.
 */
bool opts_completion(const struct opts_table *table,
                     const char *shell,
                     FILE *f);

/*
 * A whole number, or decimal seconds as microseconds, between min and max (of
 * the unit that is returned), blanks around it or not. False and nothing
 * written where it is none.
 */
bool opts_read_int(const char *text, int64_t min, int64_t max, int64_t *out);
bool opts_read_seconds(const char *text,
                       int64_t min_us,
                       int64_t max_us,
                       int64_t *out_us);

/* The one of `names` that is nearest to `word` by edits (swaps count one);
 * NULL where none is near enough to be meant. */
const char *
opts_nearest(const char *word, const char *const names[], int names_len);

#endif
