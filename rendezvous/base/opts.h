/*
 * base/opts: reads a command line by a table.
 *
 * A program's options are one file, `options.def`. It is included several times
 * with different meanings of two macros (this parser, --help, the manual page;
 * see scripts/man-options):
 *
 *     OPT_GROUP(IDENT, "Title")
 *     OPT(long_name, 'x' or 0, KIND, "ENV ENV2" or NULL, "default" or NULL,
 *         min, max, "METAVAR" or NULL, GROUP_IDENT, "Help sentence.")
 *
 * KIND is FLAG; INT (min and max in units); SECONDS, a decimal number such as
 * 0.3 (min and max in milliseconds, the value in microseconds); STR; SPEC, a
 * text that other code checks; or LATER: an option of the program that we
 * replace which we do not have yet. LATER is refused with a sentence that says
 * so, unless its value is the default. A METAVAR in brackets, "[SECONDS]", is a
 * value that can be left out: `--name` then means the default value, and
 * another value must be written behind `=`.
 *
 * The grammar is argparse's, since torchrun's users know it. --a_b and --a-b
 * are the same. A prefix is enough if it fits one option only, or only one of
 * the replaced program's. Values are written as `--o v`, `--o=v`, `-ov`,
 * `-o v` or `-o=v`, and flags can be bunched: `-abv`. If an option is given
 * twice, the last one counts. The first word that is no option ends the
 * options: all words after it are the caller's. A `--` before that word is
 * dropped. All programs have -h, --help and --version. The command line is
 * stronger than the environment, and that is stronger than the default. A
 * flag's variable is an integer; 0 is off.
 */
#ifndef RENDEZVOUS_BASE_OPTS_H
#define RENDEZVOUS_BASE_OPTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rendezvous/base/err.h"

#define OPTS_MAX 80 /* rows of a table */

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
    const char *env;  /* names with blanks between; the first set one counts */
    const char *init; /* the default; NULL none */
    int64_t min;
    int64_t max;
    const char *metavar; /* NULL: takes no value */
    int group;
    const char *help;
};

/* An option of the release before. A command line that gives the option, or an
 * environment that has its variable, is refused with a sentence that says what
 * to do instead; the row goes with the next release. */
struct opts_gone {
    const char *name; /* with underscores */
    const char *env;  /* its variable; NULL: it had none */
    const char *instead;
};

/* All of it constant and borrowed for the life of the process. */
struct opts_table {
    const char *program;
    const char *synopsis; /* behind "usage: PROGRAM " */
    const char *examples; /* whole lines below the usage line; NULL none */
    const char *about;    /* a paragraph below them in --help */
    /* "ddprun(1)": --help prints the first sentence of each help text only, and
     * says that this page has the rest. NULL: --help prints all of them. */
    const char *manual;
    const char *version;
    const char *replaces; /* the program that LATER options are from, or NULL */
    /* Names of all options of that program, ending with NULL; or NULL. A prefix
     * that fits one of these names only means this option, even if options of
     * ours begin so too. */
    const char *const *replaced;
    const char *const *groups;
    int groups_len;
    /* An option whose value is KEY=VALUE,..., and which keys it has: somebody
     * who writes one as an option of its own is told. Or NULL, both. */
    const char *keyed;
    const char *const *keys; /* ends with NULL */
    const struct opts_row *rows;
    int rows_len;
    const struct opts_gone *gone; /* ends with a row of NULL; or NULL */
};

enum opts_source {
    OPTS_FROM_DEFAULT,
    OPTS_FROM_OFFER, /* of the program itself: opts_offer */
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
 * Reads argv[1..]. Borrows argv and the environment for the life of `o`. Stops
 * at --help or --version, and says so in `ask`. Errors: DDP_E_USAGE, with a
 * sentence that names the option or variable, the value, and what is allowed.
 */
int opts_parse(struct opts *o,
               const struct opts_table *table,
               int argc,
               char *const argv[],
               struct ddp_err *err);

/* `id` is the row's number, the enum that a program makes of its table. */
const char *opts_text(const struct opts *o, int id);
int64_t opts_number(const struct opts *o, int id);

/* Whether the command line or the environment gave it, not the default. */
bool opts_given(const struct opts *o, int id);

/*
 * Gives a value to an option in place of its default, or of an empty one.
 * `text` is borrowed for the life of `o`. Errors: DDP_E_USAGE, as for a value
 * from the command line.
 */
int opts_offer(struct opts *o, int id, const char *text, struct ddp_err *err);

/* "--name" or "PET_NAME": what gave the value, for a message. */
const char *opts_where(const struct opts *o, int id, char name[64]);

/* Prints the answer to --help or --version. Returns the exit status: that of
 * DDP_E_IO if `f` could not be written. */
int opts_answer(const struct opts *o, FILE *f);

/* --help, at most 80 columns wide; and its first line alone, for errors. */
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
 * Reads a whole number, or decimal seconds as microseconds. min and max are in
 * the unit that is returned. Blanks around the number are ignored. False, and
 * `out` is not written, if the text is no such number.
 */
bool opts_read_int(const char *text, int64_t min, int64_t max, int64_t *out);
bool opts_read_seconds(const char *text,
                       int64_t min_us,
                       int64_t max_us,
                       int64_t *out_us);

/* The one of `names` that is nearest to `word` by edits (a swap counts one).
 * NULL if no name is near. */
const char *
opts_nearest(const char *word, const char *const names[], int names_len);

#endif
