#include "trainer/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data.h"
#include "trainer/ops/fail.h"
#include "trainer/plot.h"

#define NAME_SIZE 32
#define WIDTH     80
#define INDENT    26 /* where the sentences of --help begin */
#define EPOCHS    1000000

enum id {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    ID_##name,
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
    ID_COUNT
};

enum group {
#define OPT_GROUP(ident, title) ident,
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
    GROUP_COUNT
};

static const char *const titles[] = {
#define OPT_GROUP(ident, title) title,
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
};

static const struct row {
    const char *name;
    const char *init;
    int64_t min;
    int64_t max;
    const char *metavar;
    enum group group;
    const char *help;
} rows[] = {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    {#name, init, min, max, metavar, group, help},
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
};

/* What getopt returns for the words that are not in the table. */
enum {
    GOT_ROW = 1000, /* plus the row's number */
    GOT_HELP = 'h',
    GOT_VERSION = 'V',
};

/* -- values ---------------------------------------------------------------- */

static bool read_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || n < min || n > max)
        return false;
    *out = n;
    return true;
}

/* A decimal number above 0 that a float can hold; no hexadecimal, no nan. */
static bool read_rate(const char *text, float *out)
{
    char *end;
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0')
        return false;
    float rate = strtof(text, &end);
    if (*end != '\0' || !isfinite(rate) || rate <= 0.0f)
        return false;
    *out = rate;
    return true;
}

static int bad_int(const char *name,
                   const char *text,
                   int64_t min,
                   int64_t max,
                   struct ddp_error *err)
{
    return fail_set(err, DDP_ERR_USAGE,
                    "%s is '%s', must be a whole number from %lld to %lld",
                    name, text, (long long)min, (long long)max);
}

/* Where a row's value goes: one of the two, the other is NULL. */
struct field {
    int64_t *number;
    const char **text;
};

#define FIELD_INT(p)  ((struct field){.number = (p)})
#define FIELD_STR(p)  ((struct field){.text = (p)})
#define FIELD_SPEC(p) ((struct field){.text = (p)})

static struct field field_of(struct options *o, enum id id)
{
    struct field fields[] = {
#define OPT_GROUP(ident, title)
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    FIELD_##kind(&o->name),
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
    };
    return fields[id];
}

static int
set(struct options *o, enum id id, const char *text, struct ddp_error *err)
{
    struct field f = field_of(o, id);
    const struct row *r = &rows[id];
    char name[NAME_SIZE + 2];
    (void)snprintf(name, sizeof(name), "--%s", r->name);
    if (f.text != NULL)
        *f.text = text;
    else if (!read_int(text, r->min, r->max, f.number))
        return bad_int(name, text, r->min, r->max, err);
    return 0;
}

/* -- the nearest name ------------------------------------------------------ */

static size_t min2(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to change, add or take away to make b of a (Levenshtein). Both are
 * shorter than NAME_SIZE. */
static size_t edits(const char *a, const char *b)
{
    size_t row[NAME_SIZE];
    size_t la = strlen(a), lb = strlen(b);
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = min2(change, min2(row[j], row[j - 1]) + 1);
        }
    }
    return row[lb];
}

/* `word` as it was given, "--bach-size=3"; NULL where nothing is near. */
static const char *nearest(const char *word)
{
    char name[NAME_SIZE] = {0};
    const char *found = NULL;
    word += strspn(word, "-");
    size_t len = strcspn(word, "=");
    if (len >= sizeof(name))
        return NULL;
    for (size_t i = 0; i < len; i++)
        name[i] = word[i] == '-' ? '_' : (char)tolower((unsigned char)word[i]);
    size_t best = len / 3 + 2;
    for (size_t i = 0; i < ID_COUNT; i++) {
        size_t n = edits(name, rows[i].name);
        if (n < best) {
            best = n;
            found = rows[i].name;
        }
    }
    return found;
}

/* The options that begin so, with commas, as far as `to` reaches; how many. */
static int list_beginnings(const char *word, char *to, size_t size)
{
    const char *name = word + strspn(word, "-");
    size_t len = strcspn(name, "=");
    int n = 0;
    to[0] = '\0';
    for (size_t i = 0; len > 0 && i < ID_COUNT; i++) {
        size_t k = 0;
        while (k < len && (name[k] == '-' ? '_' : name[k]) == rows[i].name[k])
            k++;
        if (k < len)
            continue;
        strncat(to, n++ > 0 ? ", --" : "--", size - strlen(to) - 1);
        strncat(to, rows[i].name, size - strlen(to) - 1);
    }
    return n;
}

static int unknown(const char *word, struct ddp_error *err)
{
    char list[256];
    if (list_beginnings(word, list, sizeof(list)) > 1)
        return fail_set(err, DDP_ERR_USAGE, "%s could be any of %s", word,
                        list);
    const char *near = nearest(word);
    return fail_set(err, DDP_ERR_USAGE, "unknown option %s%s%s%s", word,
                    near != NULL ? "; did you mean --" : "",
                    near != NULL ? near : "", near != NULL ? "?" : "");
}

/* -- the command line ------------------------------------------------------ */

/* Both spellings of a name mean the same to getopt. */
static size_t
add_long(struct option *to, char dashed[NAME_SIZE], const char *name, int got)
{
    to[0] = (struct option){name, required_argument, NULL, got};
    if (strchr(name, '_') == NULL)
        return 1;
    (void)snprintf(dashed, NAME_SIZE, "%s", name);
    for (char *p = dashed; *p != '\0'; p++)
        *p = *p == '_' ? '-' : *p;
    to[1] = (struct option){dashed, required_argument, NULL, got};
    return 2;
}

static int
read_line(struct options *o, int argc, char *argv[], struct ddp_error *err)
{
    char dashed[ID_COUNT][NAME_SIZE];
    struct option longs[2 * ID_COUNT + 3] = {{0}};
    size_t n = 0;
    for (size_t i = 0; i < ID_COUNT; i++)
        n += add_long(&longs[n], dashed[i], rows[i].name, GOT_ROW + (int)i);
    longs[n++] = (struct option){"help", no_argument, NULL, GOT_HELP};
    longs[n++] = (struct option){"version", no_argument, NULL, GOT_VERSION};

    optind = 0; /* glibc: start anew, also with what argv is reordered to */
    opterr = 0;
    for (;;) {
        int at = optind == 0 ? 1 : optind;
        int got = getopt_long(argc, argv, ":h", longs, NULL);
        if (got == -1)
            return 0;
        if (got == GOT_HELP || got == GOT_VERSION) {
            o->help = got == GOT_HELP;
            o->version = got == GOT_VERSION;
            return 0;
        }
        if (got == ':')
            return fail_set(err, DDP_ERR_USAGE, "%s needs a value",
                            argv[optind - 1]);
        if (got == '?')
            return unknown(argv[optind > at ? optind - 1 : optind], err);
        if (set(o, (enum id)(got - GOT_ROW), optarg, err) != 0)
            return -1;
    }
}

static int
read_arguments(struct options *o, int argc, char *argv[], struct ddp_error *err)
{
    if (argc - optind < 2)
        return fail_set(err, DDP_ERR_USAGE, "%s is missing",
                        argc == optind ? "TOTAL_EPOCHS" : "SAVE_EVERY");
    if (argc - optind > 2)
        return fail_set(err, DDP_ERR_USAGE,
                        "there is an argument too many: '%s'",
                        argv[optind + 2]);
    if (!read_int(argv[optind], 1, EPOCHS, &o->total_epochs))
        return bad_int("TOTAL_EPOCHS", argv[optind], 1, EPOCHS, err);
    if (!read_int(argv[optind + 1], 0, EPOCHS, &o->save_every))
        return bad_int("SAVE_EVERY", argv[optind + 1], 0, EPOCHS, err);
    return 0;
}

/* Every model's name, with commas, as far as `to` reaches. */
static void list_models(char *to, size_t size)
{
    to[0] = '\0';
    for (size_t i = 0; model_at(i) != NULL; i++) {
        strncat(to, i > 0 ? ", " : "", size - strlen(to) - 1);
        strncat(to, model_at(i)->name, size - strlen(to) - 1);
    }
}

/* One of auto, `cpu` and `gpu`, which are the option's own words. */
static int read_where(enum options_where *to,
                      const char *option,
                      const char *text,
                      const char *cpu,
                      const char *gpu,
                      struct ddp_error *err)
{
    *to = OPTIONS_AUTO;
    if (strcmp(text, cpu) == 0)
        *to = OPTIONS_CPU;
    else if (strcmp(text, gpu) == 0)
        *to = OPTIONS_GPU;
    else if (strcmp(text, "auto") != 0)
        return fail_set(err, DDP_ERR_USAGE,
                        "%s is '%s', must be one of auto, %s, %s", option, text,
                        cpu, gpu);
    return 0;
}

static int settle_device(struct options *o, struct ddp_error *err)
{
    if (read_where(&o->on, "--device", o->device, "cpu", "cuda", err) != 0 ||
        read_where(&o->sums, "--comm", o->comm, "tcp", "nccl", err) != 0)
        return -1;
    if (o->on == OPTIONS_CPU && o->sums == OPTIONS_GPU)
        return fail_set(err, DDP_ERR_USAGE,
                        "--comm=nccl has no meaning for --device=cpu");
    return 0;
}

/* Puts the model's defaults where nothing was said, and refuses what has no
 * meaning for it rather than to ignore it. */
static int settle(struct options *o, struct ddp_error *err)
{
    char models[128];
    o->spec = model_find(o->model);
    if (o->spec == NULL) {
        list_models(models, sizeof(models));
        return fail_set(err, DDP_ERR_USAGE,
                        "--model is '%s', must be one of %s", o->model, models);
    }
    o->rate = o->spec->lr;
    if (o->lr != NULL && !read_rate(o->lr, &o->rate))
        return fail_set(err, DDP_ERR_USAGE,
                        "--lr is '%s', must be a decimal number above 0",
                        o->lr);
    if (settle_device(o, err) != 0)
        return -1;
    if (o->snapshot_path[0] == '\0')
        return fail_set(err, DDP_ERR_USAGE, "--snapshot_path is empty");
    if (o->plot != NULL && plot_check(o->plot, err) != 0)
        return -1;
    if (o->hidden != 0 && o->spec->hidden == 0)
        return fail_set(err, DDP_ERR_USAGE,
                        "--hidden has no meaning for --model=%s", o->model);
    if (o->data != NULL && o->spec->data != MODEL_IMAGES)
        return fail_set(err, DDP_ERR_USAGE,
                        "--data has no meaning for --model=%s, which makes "
                        "its samples up",
                        o->model);
    if (o->data == NULL)
        o->data = DATA_DIR_DEFAULT;
    if (o->hidden == 0)
        o->hidden = (int64_t)o->spec->hidden;
    if (o->batch_size == 0)
        o->batch_size = (int64_t)o->spec->batch_size;
    return 0;
}

int options_parse(struct options *o,
                  int argc,
                  char *argv[],
                  struct ddp_error *err)
{
    *o = (struct options){0};
    for (size_t i = 0; i < ID_COUNT; i++)
        if (rows[i].init != NULL && set(o, (enum id)i, rows[i].init, err) != 0)
            return -1;
    if (read_line(o, argc, argv, err) != 0)
        return -1;
    if (o->help || o->version)
        return 0;
    if (read_arguments(o, argc, argv, err) != 0)
        return -1;
    return settle(o, err);
}

/* -- help ------------------------------------------------------------------ */

void options_usage(FILE *f)
{
    fputs("usage: ddptrain TOTAL_EPOCHS SAVE_EVERY [OPTION...]\n", f);
}

/* Words from column INDENT on, up to WIDTH; the first line has begun. */
static void wrap(FILE *f, const char *text)
{
    size_t column = INDENT;
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (column + len >= WIDTH) {
            fprintf(f, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            fputc(' ', f);
            column++;
        }
        fprintf(f, "%.*s", (int)len, text);
        column += len;
        text += len + (text[len] != '\0');
    }
    fputc('\n', f);
}

static void help_row(FILE *f, const struct row *r)
{
    char text[1024];
    int n = fprintf(f, "  --%s=%s", r->name, r->metavar);
    if (n < INDENT - 1)
        fprintf(f, "%*s", INDENT - n, "");
    else
        fprintf(f, "\n%*s", INDENT, "");
    (void)snprintf(text, sizeof(text), "%s%s%s%s", r->help,
                   r->init != NULL ? " Default: " : "",
                   r->init != NULL ? r->init : "", r->init != NULL ? "." : "");
    wrap(f, text);
}

void options_help(FILE *f)
{
    options_usage(f);
    fputs(
        "\n"
        "Trains a model on all ranks of a job started by ddprun, or alone.\n"
        "Saves a snapshot every SAVE_EVERY epochs (0: never) and goes on from\n"
        "the one it finds.\n",
        f);
    for (int g = 0; g < GROUP_COUNT; g++) {
        fprintf(f, "\n%s:\n", titles[g]);
        for (size_t i = 0; i < ID_COUNT; i++)
            if ((int)rows[i].group == g)
                help_row(f, &rows[i]);
    }
    fputs("\nOthers:\n"
          "  -h, --help              This text.\n"
          "  --version               The version.\n",
          f);
}
