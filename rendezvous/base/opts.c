/*
 * The command line is read first; then variables of the environment, and then
 * the table's defaults, give values to the options that it did not give. So a
 * bad variable does no harm if the command line gives the option, and --help
 * works in any environment.
 *
 * The first error ends the parse, with one sentence that names the option (or
 * the variable), the value, and what is allowed. A misspelt name gets the
 * nearest right one as a hint: opts_nearest, by edit distance, or by a long
 * common beginning.
 */
#include "rendezvous/base/opts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"

/* Of an option or a variable; longer ones match none. */
#define NAME_MAX_LEN 63

#define BLANKS " \t\r\n"

enum {
    ID_HELP = -1,
    ID_VERSION = -2,
    ID_NONE = -3,
};

/* -- numbers --------------------------------------------------------------- */

bool opts_read_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
    text += strspn(text, BLANKS); /* as Python's int() */
    if (!isdigit((unsigned char)text[text[0] == '-' || text[0] == '+']))
        return false;
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    end += strspn(end, BLANKS);
    if (errno != 0 || *end != '\0' || n < min || n > max)
        return false;
    *out = n;
    return true;
}

bool opts_read_seconds(const char *text,
                       int64_t min_us,
                       int64_t max_us,
                       int64_t *out_us)
{
    /* strtod would take nan, infinity and hexadecimals as well. */
    text += strspn(text, BLANKS);
    const char *behind = text + strspn(text, "0123456789.eE+-");
    if (behind == text || behind[strspn(behind, BLANKS)] != '\0')
        return false;
    char *end;
    double seconds = strtod(text, &end);
    double us = seconds * (double)MONO_S;
    if (end != behind || us < (double)min_us || us > (double)max_us)
        return false;
    int64_t n = (int64_t)(us + 0.5);
    *out_us = n < min_us ? min_us : n > max_us ? max_us : n;
    return true;
}

/* -- names ----------------------------------------------------------------- */

static char folded(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits that turn a into b: a letter more, less, another, or two swapped
 * (optimal string alignment). Both are at most NAME_MAX_LEN long. */
static size_t edits(const char *a, const char *b)
{
    size_t rows[3][NAME_MAX_LEN + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    size_t a_len = strlen(a), b_len = strlen(b);
    for (size_t j = 0; j <= b_len; j++)
        above[j] = before[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t other = folded(a[i - 1]) != folded(b[j - 1]);
            row[j] = min3(row[j - 1] + 1, above[j] + 1, above[j - 1] + other);
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1]))
                row[j] = min3(row[j], row[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b_len];
}

static size_t common_prefix(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] != '\0' && folded(a[n]) == folded(b[n]))
        n++;
    return n;
}

const char *
opts_nearest(const char *word, const char *const names[], int names_len)
{
    size_t len = strlen(word);
    if (len == 0 || len > NAME_MAX_LEN)
        return NULL;
    const char *best = NULL;
    size_t limit = len < 5 ? 1 : len / 3 < 2 ? 2 : len / 3;
    size_t best_edits = limit + 1;
    for (int i = 0; i < names_len; i++) {
        size_t n = edits(word, names[i]);
        if (n < best_edits) {
            best = names[i];
            best_edits = n;
        }
    }
    /* --nprocs has little of --nproc_per_node but its beginning. */
    size_t longest = 3;
    for (int i = 0; i < names_len && best_edits > limit; i++) {
        size_t n = common_prefix(word, names[i]);
        if (n > longest) {
            best = names[i];
            longest = n;
        }
    }
    return best;
}

/* True if `name` begins with the `len` letters of `word`, - being _. */
static bool begins(const char *name, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (name[i] != (word[i] == '-' ? '_' : word[i]))
            return false;
    }
    return true;
}

static bool is_key(const struct opts_table *t, const char *name)
{
    const char *const *key = t->keys;
    while (key != NULL && *key != NULL && strcmp(*key, name) != 0)
        key++;
    return key != NULL && *key != NULL;
}

/* What to do instead of an option that is gone; NULL: there was none. */
static const char *find_gone(const struct opts_table *t, const char *name)
{
    const struct opts_gone *g = t->gone;
    size_t len = strlen(name);
    while (g != NULL && g->name != NULL &&
           !(strlen(g->name) == len && begins(g->name, name, len)))
        g++;
    return g != NULL ? g->instead : NULL;
}

static int
unknown(const struct opts_table *t, const char *word, struct ddp_err *err)
{
    const char *names[OPTS_MAX + 2];
    int n = 0;
    for (; n < t->rows_len; n++)
        names[n] = t->rows[n].name;
    names[n++] = "help";
    names[n++] = "version";

    size_t dashes = strspn(word, "-");
    size_t len = strcspn(word + dashes, "=");
    char name[NAME_MAX_LEN + 1] = "";
    if (len < sizeof(name)) /* a longer one is near to none */
        memcpy(name, word + dashes, len);
    const char *instead = find_gone(t, name);
    if (instead != NULL)
        return ddp_err_set(err, DDP_E_USAGE, "option --%s is gone: %s", name,
                           instead);
    const char *near = opts_nearest(name, names, n);
    char hint[2 * NAME_MAX_LEN + 32];
    if (is_key(t, name))
        (void)snprintf(hint, sizeof(hint), "write --%.40s=%s=VALUE", t->keyed,
                       name);
    else if (near != NULL)
        (void)snprintf(hint, sizeof(hint), "did you mean --%s?", near);
    else
        (void)snprintf(hint, sizeof(hint), "see %.40s --help", t->program);
    return ddp_err_set(err, DDP_E_USAGE, "unknown option %.*s; %s",
                       (int)(dashes + (len < 80 ? len : 80)), word, hint);
}

/* Appends --NAME to a list of at most `cap` bytes. A name that does not fit is
 * left out. */
static void list_add(char *list, size_t cap, const char *name)
{
    size_t used = strlen(list);
    size_t need = strlen(name) + strlen(", --") + 1;
    if (cap - used < need)
        return;
    const char *lead = used > 0 ? ", --" : "--";
    memcpy(list + used, lead, strlen(lead));
    memcpy(list + used + strlen(lead), name, strlen(name) + 1);
}

static int ambiguous(const struct opts_table *t,
                     const char *name,
                     size_t len,
                     struct ddp_err *err)
{
    char list[300] = "";
    for (int i = 0; i < t->rows_len; i++) {
        if (begins(t->rows[i].name, name, len))
            list_add(list, sizeof(list), t->rows[i].name);
    }
    return ddp_err_set(err, DDP_E_USAGE, "--%.*s is ambiguous: it could be %s",
                       (int)len, name, list);
}

static bool is_replaced(const struct opts_table *t, const char *name)
{
    for (const char *const *p = t->replaced; p != NULL && *p != NULL; p++) {
        if (strcmp(*p, name) == 0)
            return true;
    }
    return false;
}

/* Rows that a prefix fits, and those of them that the replaced program has. */
struct opts_match {
    int id, count;
    int replaced_id, replaced_count;
};

static void add_match(struct opts_match *m, int id, bool replaced)
{
    m->id = id;
    m->count++;
    if (replaced) {
        m->replaced_id = id;
        m->replaced_count++;
    }
}

/* The row that --NAME means. --version cannot be shortened, so that no prefix
 * that the replaced program knows becomes ambiguous. A prefix that only one of
 * that program's options has means that option, whatever options of ours begin
 * so. */
static int find_long(const struct opts_table *t,
                     const char *word,
                     int *id,
                     struct ddp_err *err)
{
    const char *name = word + 2;
    size_t len = strcspn(name, "=");
    struct opts_match m = {.id = ID_NONE};
    if (len == strlen("version") && begins("version", name, len)) {
        *id = ID_VERSION;
        return 0;
    }
    for (int i = 0; i < t->rows_len && len > 0; i++) {
        const char *have = t->rows[i].name;
        if (!begins(have, name, len))
            continue;
        if (have[len] == '\0') {
            *id = i;
            return 0;
        }
        add_match(&m, i, is_replaced(t, have));
    }
    if (len > 0 && begins("help", name, len))
        add_match(&m, ID_HELP, true);
    if (m.count == 0)
        return unknown(t, word, err);
    if (m.count > 1 && m.replaced_count != 1)
        return ambiguous(t, name, len, err);
    *id = m.count == 1 ? m.id : m.replaced_id;
    return 0;
}

static int find_letter(const struct opts_table *t, char letter)
{
    if (letter == 'h')
        return ID_HELP;
    for (int i = 0; i < t->rows_len; i++) {
        if (t->rows[i].letter == letter)
            return i;
    }
    return ID_NONE;
}

/* -- values ---------------------------------------------------------------- */

static bool takes_value(const struct opts_row *row)
{
    return row->metavar != NULL;
}

/* `name` is what the user wrote or set: --name or a variable. */
static int later(const struct opts_table *t,
                 const struct opts_row *row,
                 const char *name,
                 const char *text,
                 struct ddp_err *err)
{
    const char *init = row->init != NULL ? row->init : "";
    if (takes_value(row) ? strcmp(text, init) == 0 : strcmp(text, "0") == 0)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "%s: this version of %s does not have this option of %s "
                       "yet",
                       name, t->program, t->replaces);
}

/* Milliseconds as seconds, without zeros at the end. */
static const char *seconds_text(int64_t ms, char out[32])
{
    if (ms % 1000 == 0)
        (void)snprintf(out, 32, "%" PRId64, ms / 1000);
    else
        (void)snprintf(out, 32, "%g", (double)ms / 1000);
    return out;
}

static int convert(const struct opts_table *t,
                   const struct opts_row *row,
                   const char *name,
                   const char *text,
                   int64_t *number,
                   struct ddp_err *err)
{
    char lo[32], hi[32];
    switch (row->kind) {
    case OPTS_FLAG:
        if (!opts_read_int(text, INT64_MIN, INT64_MAX, number))
            return ddp_err_set(err, DDP_E_USAGE,
                               "%s=%.80s: must be 0 (off) or 1 (on)", name,
                               text);
        *number = *number != 0;
        return 0;
    case OPTS_INT:
        if (!opts_read_int(text, row->min, row->max, number))
            return ddp_err_set(err, DDP_E_USAGE,
                               "%s=%.80s: must be a whole number from %" PRId64
                               " to %" PRId64,
                               name, text, row->min, row->max);
        return 0;
    case OPTS_SECONDS:
        if (!opts_read_seconds(text, row->min * MONO_MS, row->max * MONO_MS,
                               number))
            return ddp_err_set(err, DDP_E_USAGE,
                               "%s=%.80s: must be a number of seconds from %s "
                               "to %s",
                               name, text, seconds_text(row->min, lo),
                               seconds_text(row->max, hi));
        return 0;
    case OPTS_LATER:
        return later(t, row, name, text, err);
    case OPTS_STR:
    case OPTS_SPEC:
        return 0;
    }
    DDP_WRONG("kind of an option");
}

static int set(struct opts *o,
               int id,
               enum opts_source source,
               const char *name,
               const char *text,
               struct ddp_err *err)
{
    struct opts_value v = {.source = source, .text = text};
    const struct opts_row *row = &o->table->rows[id];
    if (convert(o->table, row, name, text, &v.number, err) < 0)
        return -1;
    o->value[id] = v;
    return 0;
}

/* -- the command line ------------------------------------------------------ */

struct opts_line {
    int argc;
    char *const *argv;
    int at; /* the word that is being read */
};

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

/* An option's value that is a word of its own. A word that looks like an option
 * is not taken for a value, unless it is a negative number: a forgotten value
 * must not swallow the next option. */
static int next_value(struct opts_line *l,
                      const struct opts_row *row,
                      const char **text,
                      struct ddp_err *err)
{
    int64_t n;
    const char *next = l->at + 1 < l->argc ? l->argv[l->at + 1] : NULL;
    if (next == NULL ||
        (is_option(next) && !opts_read_int(next, INT64_MIN, INT64_MAX, &n)))
        return ddp_err_set(err, DDP_E_USAGE, "--%s needs a value: --%s=%s",
                           row->name, row->name, row->metavar);
    *text = next;
    l->at++;
    return 0;
}

static int no_value(const char *name, const char *text, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_USAGE, "%s=%.80s: %s takes no value", name,
                       text, name);
}

/* Gives a row its value: `glued` stands in the same word, or is NULL. */
static int take(struct opts *o,
                struct opts_line *l,
                int id,
                const char *glued,
                struct ddp_err *err)
{
    const struct opts_row *row = &o->table->rows[id];
    const char *text = glued;
    char name[NAME_MAX_LEN + 3];
    (void)snprintf(name, sizeof(name), "--%s", row->name); /* it fits */
    if (!takes_value(row)) {
        if (glued != NULL)
            return no_value(name, glued, err);
        return set(o, id, OPTS_FROM_LINE, name, "1", err);
    }
    if (text == NULL && row->metavar[0] == '[') /* it can be left out */
        text = row->init;
    if (text == NULL && next_value(l, row, &text, err) < 0)
        return -1;
    return set(o, id, OPTS_FROM_LINE, name, text, err);
}

static int read_long(struct opts *o, struct opts_line *l, struct ddp_err *err)
{
    const char *word = l->argv[l->at];
    int id = ID_NONE;
    if (find_long(o->table, word, &id, err) < 0)
        return -1;
    if (id == ID_HELP)
        o->ask = OPTS_ASK_HELP;
    else if (id == ID_VERSION)
        o->ask = OPTS_ASK_VERSION;
    const char *equals = strchr(word, '=');
    if (id < 0 && equals != NULL)
        return no_value(id == ID_HELP ? "--help" : "--version", equals + 1,
                        err);
    if (id < 0)
        return 0;
    return take(o, l, id, equals != NULL ? equals + 1 : NULL, err);
}

/* A bunch of flags; the first letter that takes a value takes the rest. */
static int
read_letters(struct opts *o, struct opts_line *l, struct ddp_err *err)
{
    const char *word = l->argv[l->at];
    for (const char *p = word + 1; *p != '\0'; p++) {
        int id = find_letter(o->table, *p);
        if (id == ID_NONE)
            return unknown(o->table, word, err);
        if (id == ID_HELP && p[1] == '=')
            return no_value("-h", p + 2, err);
        if (id == ID_HELP) {
            o->ask = OPTS_ASK_HELP;
            return 0;
        }
        const char *rest = p + 1;
        bool equals = *rest == '=';
        if (takes_value(&o->table->rows[id]) || equals)
            return take(o, l, id, *rest != '\0' ? rest + equals : NULL, err);
        if (take(o, l, id, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int read_line(struct opts *o, struct opts_line *l, struct ddp_err *err)
{
    for (; l->at < l->argc; l->at++) {
        const char *word = l->argv[l->at];
        if (!is_option(word))
            break;
        if (strcmp(word, "--") == 0) {
            o->dashes = true;
            l->at++;
            break;
        }
        int rc =
            word[1] == '-' ? read_long(o, l, err) : read_letters(o, l, err);
        if (rc < 0)
            return -1;
        if (o->ask != OPTS_ASK_RUN)
            break;
    }
    o->rest = l->at;
    return 0;
}

/* -- what the command line left open --------------------------------------- */

/* The next name of the list `*names` goes to `name`; false: no more. */
static bool next_name(const char **names, char name[NAME_MAX_LEN + 1])
{
    const char *p = *names + strspn(*names, " ");
    size_t len = strcspn(p, " ");
    if (len == 0)
        return false;
    ddp_assert(len <= NAME_MAX_LEN);
    memcpy(name, p, len);
    name[len] = '\0';
    *names = p + len;
    return true;
}

/* The value of the first variable of the row that is set, else NULL. */
static const char *variable(const struct opts_row *row,
                            char name[NAME_MAX_LEN + 1])
{
    const char *names = row->env != NULL ? row->env : "";
    while (next_name(&names, name)) {
        const char *text = getenv(name);
        if (text != NULL)
            return text;
    }
    return NULL;
}

static int fill_in(struct opts *o, int id, struct ddp_err *err)
{
    const struct opts_row *row = &o->table->rows[id];
    char name[NAME_MAX_LEN + 1];
    const char *text = variable(row, name);
    if (text != NULL)
        return set(o, id, OPTS_FROM_ENV, name, text, err);
    if (row->init != NULL) {
        int rc = set(o, id, OPTS_FROM_DEFAULT, row->name, row->init, err);
        ddp_assert(rc == 0); /* the table's own default */
    }
    return 0;
}

/* A variable of an option that is gone would be obeyed by nobody. */
static int refuse_gone(const struct opts_table *t, struct ddp_err *err)
{
    for (const struct opts_gone *g = t->gone; g != NULL && g->name != NULL;
         g++) {
        const char *text = g->env != NULL ? getenv(g->env) : NULL;
        if (text != NULL && text[0] != '\0')
            return ddp_err_set(err, DDP_E_USAGE,
                               "%s is set, but option --%s is gone: %s", g->env,
                               g->name, g->instead);
    }
    return 0;
}

int opts_parse(struct opts *o,
               const struct opts_table *table,
               int argc,
               char *const argv[],
               struct ddp_err *err)
{
    ddp_assert(table->rows_len <= OPTS_MAX);
    *o = (struct opts){.table = table};
    struct opts_line l = {.argc = argc, .argv = argv, .at = 1};
    if (read_line(o, &l, err) < 0)
        return -1;
    if (o->ask != OPTS_ASK_RUN)
        return 0;
    if (refuse_gone(table, err) < 0)
        return -1;
    for (int id = 0; id < table->rows_len; id++) {
        if (!opts_given(o, id) && fill_in(o, id, err) < 0)
            return -1;
    }
    return 0;
}

const char *opts_text(const struct opts *o, int id)
{
    ddp_assert(id >= 0 && id < o->table->rows_len);
    return o->value[id].text;
}

int64_t opts_number(const struct opts *o, int id)
{
    ddp_assert(id >= 0 && id < o->table->rows_len);
    return o->value[id].number;
}

bool opts_given(const struct opts *o, int id)
{
    ddp_assert(id >= 0 && id < o->table->rows_len);
    return o->value[id].source != OPTS_FROM_DEFAULT;
}

int opts_offer(struct opts *o, int id, const char *text, struct ddp_err *err)
{
    char name[64];
    ddp_assert(id >= 0 && id < o->table->rows_len);
    return set(o, id, OPTS_FROM_OFFER, opts_where(o, id, name), text, err);
}

const char *opts_where(const struct opts *o, int id, char name[64])
{
    ddp_assert(id >= 0 && id < o->table->rows_len);
    const struct opts_row *row = &o->table->rows[id];
    _Static_assert(NAME_MAX_LEN + 1 == 64, "a variable's name fits");
    if (o->value[id].source == OPTS_FROM_ENV && variable(row, name) != NULL)
        return name;
    (void)snprintf(name, 64, "--%.61s", row->name);
    return name;
}
