/*
 * --help and --version. Lines are at most 80 columns wide: the options on the
 * left, their sentences wrapped on the right. A program with many options has a
 * manual page for all sentences, and shows one of each option here: what does
 * not fit a screen or two is not read.
 */
#include "rendezvous/base/opts.h"

#include <errno.h>
#include <string.h>

#define WIDTH  80
#define INDENT 30 /* where the sentences begin */
#define FEW    3  /* so many variables are all named */

/* The blank in "(default: 1)", at which no line is broken. */
#define GLUE '\037'

/* Words of `text` from column `at` on, wrapped, following lines indented; ends
 * the line. */
static void wrap(FILE *f, const char *text, size_t at, size_t indent)
{
    bool first = true;
    for (const char *p = text + strspn(text, " "); *p != '\0';) {
        size_t len = strcspn(p, " ");
        if (!first && at + 1 + len > WIDTH) {
            fprintf(f, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        if (!first)
            fputc(' ', f);
        for (size_t i = 0; i < len; i++)
            fputc(p[i] == GLUE ? ' ' : p[i], f);
        at += len + !first;
        first = false;
        p += len;
        p += strspn(p, " ");
    }
    fputc('\n', f);
}

/* Bytes of the first sentence, with its stop. */
static size_t first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    return end != NULL ? (size_t)(end - text) + 1 : strlen(text);
}

static void
help_row(const struct opts_table *t, const struct opts_row *row, FILE *f)
{
    char left[160], text[1024];
    size_t len =
        t->manual != NULL ? first_sentence(row->help) : strlen(row->help);
    char letter[] = {'-', row->letter, ',', ' ', '\0'};
    const char *value = row->metavar != NULL ? row->metavar : "";
    bool lacks = value[0] == '['; /* it may be left out, and "=" with it */
    int n =
        snprintf(left, sizeof(left), "  %s--%s%s%s%s",
                 row->letter != 0 ? letter : "", row->name, lacks ? "[" : "",
                 value[0] != '\0' ? "=" : "", value + lacks);
    ddp_assert(len + 64 < sizeof(text));
    int used = snprintf(text, sizeof(text), "%.*s", (int)len, row->help);
    if (row->init != NULL && row->init[0] != '\0')
        (void)snprintf(text + used, sizeof(text) - (size_t)used, /* fits */
                       " (default:%c%.48s)", GLUE, row->init);
    if (n >= 0 && n + 2 <= INDENT)
        fprintf(f, "%-*s", INDENT, left);
    else
        fprintf(f, "%s\n%*s", left, INDENT, "");
    wrap(f, text, INDENT, INDENT);
}

static void help_later(const struct opts_table *t, FILE *f)
{
    char list[1024];
    size_t used = 0;
    for (int i = 0; i < t->rows_len; i++) {
        if (t->rows[i].kind != OPTS_LATER)
            continue;
        int n = snprintf(list + used, sizeof(list) - used, "%s--%s",
                         used > 0 ? ", " : "", t->rows[i].name);
        ddp_assert(n > 0 && (size_t)n < sizeof(list) - used); /* our table */
        used += (size_t)n;
    }
    if (used == 0)
        return;
    fprintf(f, "\nOptions of %s that are not there yet:\n  ", t->replaces);
    wrap(f, list, 2, 2);
}

void opts_usage(const struct opts_table *t, FILE *f)
{
    fprintf(f, "usage: %s %s\n", t->program, t->synopsis);
}

/* Which variables set defaults: all of them where they are few, else the first
 * as an example. */
static void help_env(const struct opts_table *t, FILE *f)
{
    char list[256];
    size_t used = 0;
    int n = 0;
    for (int i = 0; i < t->rows_len; i++)
        n += t->rows[i].env != NULL;
    if (n == 0)
        return;
    int left = n > FEW ? 1 : n;
    for (int i = 0; left > 0; i++) {
        const struct opts_row *row = &t->rows[i];
        if (row->env == NULL)
            continue;
        left--;
        int len = snprintf(list + used, sizeof(list) - used, "%.*s for --%s%s",
                           (int)strcspn(row->env, " "), row->env, row->name,
                           left > 0  ? ", "
                           : n > FEW ? ", and so on."
                                     : ".");
        ddp_assert(len > 0 && (size_t)len < sizeof(list) - used); /* ours */
        used += (size_t)len;
    }
    size_t at = (size_t)fprintf(f, "The environment sets defaults: ");
    wrap(f, list, at, 0);
}

void opts_help(const struct opts_table *t, FILE *f)
{
    opts_usage(t, f);
    if (t->examples != NULL)
        fprintf(f, "\n%s", t->examples);
    fputc('\n', f);
    wrap(f, t->about, 0, 0);
    for (int group = 0; group < t->groups_len; group++) {
        fprintf(f, "\n%s:\n", t->groups[group]);
        for (int i = 0; i < t->rows_len; i++) {
            if (t->rows[i].group == group && t->rows[i].kind != OPTS_LATER)
                help_row(t, &t->rows[i], f);
        }
    }
    help_later(t, f);
    fprintf(f, "\nOthers:\n");
    fprintf(f, "%-*sPrint this help and exit.\n", INDENT, "  -h, --help");
    fprintf(f, "%-*sPrint the version and exit.\n\n", INDENT, "  --version");
    wrap(f,
         "Option names can be written with dashes, and shortened if they stay "
         "unique.",
         0, 0);
    help_env(t, f);
    if (t->manual != NULL)
        fprintf(f, "%s describes each option in full.\n", t->manual);
}

int opts_answer(const struct opts *o, FILE *f)
{
    ddp_assert(o->ask != OPTS_ASK_RUN);
    if (o->ask == OPTS_ASK_HELP)
        opts_help(o->table, f);
    else
        fprintf(f, "%s %s\n", o->table->program, o->table->version);
    if (fflush(f) == 0 && !ferror(f)) /* the latter: before it was full */
        return 0;
    fprintf(stderr, "%s: cannot write: %s\n", o->table->program,
            strerror(errno));
    return ddp_code_exit(DDP_E_IO);
}
