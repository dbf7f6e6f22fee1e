/*
 * trainer/options: from each row of options.def come a field of struct options,
 * a row for getopt_long, lines of --help and an entry of the manual page.
 */
#include "trainer/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data.h"
#include "trainer/ops/fail.h"
#include "trainer/plot.h"

#define EPOCHS_MAX 1000000
#define WIDTH      78 /* of --help */
#define INDENT     6

enum {
    GOT_ROW = 1000, /* plus the row's number: what getopt_long returns */
    GOT_HELP = 2000,
    GOT_VERSION,
};

static const struct row {
    const char *name;
    enum {
        INT,
        STR
    } kind;
    size_t at; /* of its field */
    const char *init;
    int64_t min;
    int64_t max;
    const char *metavar;
    const char *help;
} rows[] = {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    {#name,   kind, offsetof(struct options, name), init, min, max,            \
     metavar, help},
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct row arguments[] = {
    {"TOTAL_EPOCHS", INT, offsetof(struct options, total_epochs), .min = 1,
     .max = EPOCHS_MAX},
    {"SAVE_EVERY", INT, offsetof(struct options, save_every),
     .max = EPOCHS_MAX},
};

/* -- values ---------------------------------------------------------------- */

static int set(struct options *o,
               const struct row *r,
               const char *text,
               struct ddp_error *err)
{
    void *field = (char *)o + r->at;
    char *end;
    if (r->kind == STR) {
        *(const char **)field = text;
        return 0;
    }
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 ||
        n < r->min || n > r->max)
        return fail_set(err, DDP_ERR_USAGE,
                        "%s%s=%s: must be a whole number from %lld to "
                        "%lld",
                        r->metavar != NULL ? "--" : "", r->name, text,
                        (long long)r->min, (long long)r->max);
    *(int64_t *)field = n;
    return 0;
}

/* A decimal number above 0 that a float can hold; no hexadecimal, no nan. */
static int read_rate(float *to, const char *text, struct ddp_error *err)
{
    char *end;
    float rate = strtof(text, &end);
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0' ||
        *end != '\0' || !isfinite(rate) || rate <= 0.0f)
        return fail_set(err, DDP_ERR_USAGE,
                        "--lr=%s: must be a decimal number above 0", text);
    *to = rate;
    return 0;
}

/* Words in the order of enum options_where. */
static const char *const devices[] = {"auto", "cpu", "cuda"};
static const char *const comms[] = {"auto", "tcp", "nccl"};

static int read_where(enum options_where *to,
                      const char *name,
                      const char *text,
                      const char *const words[3],
                      struct ddp_error *err)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            *to = (enum options_where)i;
            return 0;
        }
    return fail_set(err, DDP_ERR_USAGE, "%s=%s: must be one of %s, %s, %s",
                    name, text, words[0], words[1], words[2]);
}

static int read_model(struct options *o, struct ddp_error *err)
{
    char names[128] = "";
    o->spec = model_find(o->model);
    if (o->spec != NULL)
        return 0;
    for (size_t i = 0; model_at(i) != NULL; i++) {
        strncat(names, i > 0 ? ", " : "", sizeof(names) - strlen(names) - 1);
        strncat(names, model_at(i)->name, sizeof(names) - strlen(names) - 1);
    }
    return fail_set(err, DDP_ERR_USAGE, "--model=%s: must be one of %s",
                    o->model, names);
}

/* Fills in the model's defaults, and refuses an option that this model has no
 * use for rather than to ignore it. */
static int settle(struct options *o, struct ddp_error *err)
{
    if (read_model(o, err) != 0 ||
        read_where(&o->on, "--device", o->device, devices, err) != 0 ||
        read_where(&o->sums, "--comm", o->comm, comms, err) != 0)
        return -1;
    o->rate = o->spec->lr;
    if (o->lr != NULL && read_rate(&o->rate, o->lr, err) != 0)
        return -1;
    if (o->on == OPTIONS_CPU && o->sums == OPTIONS_GPU)
        return fail_set(err, DDP_ERR_USAGE,
                        "--comm=nccl cannot be used with --device=cpu");
    if (o->snapshot_path[0] == '\0')
        return fail_set(err, DDP_ERR_USAGE, "--snapshot_path is empty");
    if (o->plot != NULL && plot_check(o->plot, err) != 0)
        return -1;
    if (o->hidden != 0 && o->spec->hidden == 0)
        return fail_set(err, DDP_ERR_USAGE,
                        "--hidden cannot be used with --model=%s, which has no "
                        "hidden layer",
                        o->model);
    if (o->data != NULL && o->spec->data != MODEL_IMAGES)
        return fail_set(err, DDP_ERR_USAGE,
                        "--data cannot be used with --model=%s, which makes "
                        "its own samples",
                        o->model);
    if (o->data == NULL)
        o->data = DATA_DIR_DEFAULT;
    if (o->hidden == 0)
        o->hidden = (int64_t)o->spec->hidden;
    if (o->batch_size == 0)
        o->batch_size = (int64_t)o->spec->batch_size;
    return 0;
}

/* -- the command line ------------------------------------------------------ */

/* Dashes in the name of an option become underscores, as in the table. */
static void use_underscores(char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return;
    for (char *p = word + 2; *p != '\0' && *p != '='; p++)
        *p = *p == '-' ? '_' : *p;
}

static int
read_options(struct options *o, int argc, char *argv[], struct ddp_error *err)
{
    struct option longs[ROWS + 3] = {
        [ROWS] = {"help", no_argument, NULL, GOT_HELP},
        [ROWS + 1] = {"version", no_argument, NULL, GOT_VERSION},
    };
    for (size_t i = 0; i < ROWS; i++)
        longs[i] = (struct option){rows[i].name, required_argument, NULL,
                                   GOT_ROW + (int)i};
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        use_underscores(argv[i]);
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    int got = 0;
    while (!o->help && !o->version &&
           (got = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        if (got == ':')
            return fail_set(err, DDP_ERR_USAGE, "%s needs a value",
                            argv[optind - 1]);
        if (got == '?' && optopt > 0 && optopt < GOT_ROW)
            return fail_set(err, DDP_ERR_USAGE, "unknown option -%c", optopt);
        if (got == '?')
            return fail_set(err, DDP_ERR_USAGE,
                            "unknown or ambiguous option %s", argv[optind - 1]);
        o->help = got == 'h' || got == GOT_HELP;
        o->version = got == GOT_VERSION;
        if (!o->help && !o->version &&
            set(o, &rows[got - GOT_ROW], optarg, err) != 0)
            return -1;
    }
    return 0;
}

int options_parse(struct options *o,
                  int argc,
                  char *argv[],
                  struct ddp_error *err)
{
    *o = (struct options){0};
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].init != NULL && set(o, &rows[i], rows[i].init, err) != 0)
            return -1;
    if (read_options(o, argc, argv, err) != 0)
        return -1;
    if (o->help || o->version)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (optind + i >= argc)
            return fail_set(err, DDP_ERR_USAGE, "%s is missing",
                            arguments[i].name);
        if (set(o, &arguments[i], argv[optind + i], err) != 0)
            return -1;
    }
    if (argc - optind > 2)
        return fail_set(err, DDP_ERR_USAGE, "unexpected argument '%s'",
                        argv[optind + 2]);
    return settle(o, err);
}

/* -- help ------------------------------------------------------------------ */

void options_usage(FILE *f)
{
    fputs("usage: ddptrain TOTAL_EPOCHS SAVE_EVERY [OPTION]...\n", f);
}

/* Whole words on lines of WIDTH columns, each indented. */
static void put_wrapped(FILE *f, const char *text)
{
    int column = WIDTH;
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        bool fits = column + 1 + len <= WIDTH;
        column = fits ? column + 1 + len : INDENT + len;
        fprintf(f, "%s%*s%.*s", fits ? " " : "\n", fits ? 0 : INDENT, "", len,
                text);
        text += len + (text[len] == ' ');
    }
}

void options_help(FILE *f)
{
    options_usage(f);
    fputs(
        "\n"
        "Trains a model on all ranks of a job that ddprun started, or alone.\n"
        "Saves a snapshot after every SAVE_EVERY epochs (0: never), and\n"
        "resumes from the newest snapshot that it finds.\n"
        "\n"
        "Options:\n",
        f);
    for (const struct row *r = rows; r < rows + ROWS; r++) {
        fprintf(f, "  --%s=%s", r->name, r->metavar);
        if (r->init != NULL)
            fprintf(f, " (default: %s)", r->init);
        put_wrapped(f, r->help);
        fputc('\n', f);
    }
    fputs("  -h, --help\n"
          "      Print this help and exit.\n"
          "  --version\n"
          "      Print the version and exit.\n",
          f);
}
