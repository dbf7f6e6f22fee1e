/* links: trainer/{options,progress,model} */
/* links: trainer/ops/{optim,cpu,conv,random,device} */
/* libs: -lm -ldl */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "trainer/data.h"
#include "trainer/options.h"

#define WORDS_MAX 12

/* Splits a line at its blanks; `text` is the caller's, since options borrow
 * from it. */
static int
parse(struct options *o, const char *line, char text[256], struct ddp_error *e)
{
    char *argv[WORDS_MAX + 1];
    int argc = 0;
    (void)snprintf(text, 256, "ddptrain %s", line);
    for (char *p = strtok(text, " "); p != NULL; p = strtok(NULL, " ")) {
        ck_assert_int_lt(argc, WORDS_MAX);
        argv[argc++] = p;
    }
    argv[argc] = NULL;
    *e = (struct ddp_error){0};
    return options_parse(o, argc, argv, e);
}

/* What the tutorials' line means. */
TEST(test_options_defaults)
{
    struct options o;
    struct ddp_error e;
    char text[256];
    ck_assert_int_eq(parse(&o, "50 10", text, &e), 0);
    ck_assert_int_eq(o.total_epochs, 50);
    ck_assert_int_eq(o.save_every, 10);
    ck_assert_str_eq(o.spec->name, "mlp");
    ck_assert_int_eq(o.batch_size, 32);
    ck_assert_int_eq(o.hidden, 128);
    ck_assert(o.lr == 0.002f);
    ck_assert_int_eq(o.seed, 1);
    ck_assert_int_eq(o.save_steps, 0);
    ck_assert_int_eq(o.train_samples, 0);
    ck_assert_str_eq(o.snapshot_path, "snapshots");
    ck_assert_str_eq(o.data, DATA_DIR_DEFAULT);
    ck_assert(!o.help && !o.version && !o.shard);
    ck_assert_int_eq(parse(&o, "50 10 --shard", text, &e), 0);
    ck_assert(o.shard);
}

/* Each model brings its own batch, rate and width. */
TEST(test_options_defaults_of_the_model)
{
    struct options o;
    struct ddp_error e;
    char text[256];
    ck_assert_int_eq(parse(&o, "5 1 --model=regression", text, &e), 0);
    ck_assert_int_eq(o.batch_size, 64);
    ck_assert_int_eq(o.hidden, 5);
    ck_assert(o.lr == 0.01f);
    ck_assert_int_eq(
        parse(&o, "5 1 --model=regression --batch_size 8 --hidden 3 --lr 2e-3",
              text, &e),
        0);
    ck_assert_int_eq(o.batch_size, 8);
    ck_assert_int_eq(o.hidden, 3);
    ck_assert(o.lr == 2e-3f);
    ck_assert_int_eq(parse(&o, "5 1 --model=linear", text, &e), 0);
    ck_assert_int_eq(o.hidden, 0);
}

/* The same thing said in different ways. */
static const char *const spellings[] = {
    "7 0 --batch_size=64 --snapshot_path=a/b",
    "7 0 --batch-size=64 --snapshot-path=a/b",
    "7 0 --batch_size 64 --snapshot-path a/b",
    "--batch_size 64 7 --snapshot_path a/b 0",
    "--batch-size=64 --snapshot_path=a/b -- 7 0",
    "7 0 --batch-s 64 --snap=a/b",
    "7 0 --batch 64 --snapshot=a/b",
    "7 0 --batch_size=1 --batch-size=64 --snapshot_path=a/b",
};

TEST_EACH(test_options_spellings_mean_the_same, spellings)
{
    struct options o;
    struct ddp_error e;
    char text[256];
    ck_assert_msg(parse(&o, spellings[_i], text, &e) == 0, "%s", e.text);
    ck_assert_int_eq(o.total_epochs, 7);
    ck_assert_int_eq(o.save_every, 0);
    ck_assert_int_eq(o.batch_size, 64);
    ck_assert_str_eq(o.snapshot_path, "a/b");
}

/* A value is what was typed, also if it looks like an option. */
TEST(test_options_values_are_left_alone)
{
    struct options o;
    struct ddp_error e;
    char text[256];
    ck_assert_int_eq(parse(&o, "7 0 --snapshot_path --a-b", text, &e), 0);
    ck_assert_str_eq(o.snapshot_path, "--a-b");
}

/* Wrong lines, and what the sentence must name. */
static const struct wrong {
    const char *line;
    const char *words[2];
} wrongs[] = {
    {"", {"TOTAL_EPOCHS is missing", ""}},
    {"5", {"SAVE_EVERY is missing", ""}},
    {"5 1 2", {"unexpected argument '2'", ""}},
    {"five 1", {"TOTAL_EPOCHS=five:", "from 1 to 1000000"}},
    {"0 1", {"TOTAL_EPOCHS=0:", "from 1"}},
    {"5 1x", {"SAVE_EVERY=1x:", "from 0"}},
    {"99999999999999999999 1", {"TOTAL_EPOCHS=9999", "from 1"}},
    {"-5 1", {"unknown option -5", ""}},
    {"5 1 --batch_size=0", {"--batch_size=0:", "from 1 to 65536"}},
    {"5 1 --batch_size=", {"--batch_size=:", "whole number"}},
    {"5 1 --batch-size=3.5", {"--batch-size=3.5:", "whole number"}},
    {"5 1 --batch_size", {"--batch_size needs a value", ""}},
    {"5 1 --seed=-1", {"--seed=-1:", "from 0"}},
    {"5 1 --lr=0", {"--lr=0:", "above 0"}},
    {"5 1 --device=gpu", {"--device=gpu:", "auto, cpu, cuda"}},
    {"5 1 --comm=gloo", {"--comm=gloo:", "auto, tcp, nccl"}},
    {"5 1 --comm=nccl --device=cpu", {"--comm=nccl", "--device=cpu"}},
    {"5 1 --lr=nan", {"--lr=nan:", "decimal"}},
    {"5 1 --lr=0x1", {"--lr=0x1:", "decimal"}},
    {"5 1 --lr=1e99", {"--lr=1e99:", "decimal"}},
    {"5 1 --lr=1e-99", {"--lr=1e-99:", "above 0"}},
    {"5 1 --model=resnet",
     {"--model=resnet:", "softmax, mlp, cnn, linear, reg"}},
    {"5 1 --bach-size=3", {"unknown or ambiguous option --bach-size=3", ""}},
    {"5 --sed 3 1", {"unknown or ambiguous option --sed", ""}},
    {"5 1 --s 3", {"unknown or ambiguous option --s", ""}},
    {"5 1 --m=x", {"unknown or ambiguous option --m=x", ""}},
    {"5 1 -x", {"unknown option -x", ""}},
    {"5 1 --help=x", {"takes no value: --help=x", ""}},
    {"5 1 --version=x", {"takes no value: --version=x", ""}},
    {"5 1 --train_samples=1e3", {"--train_samples=1e3:", "10000000"}},
    {"5 1 --keep=0", {"--keep=0:", "from 1 to 1000"}},
    {"5 1 --save_steps=+1", {"--save_steps=+1:", "to 1000000000"}},
    {"5 1 --memory_steps=", {"--memory_steps=:", "to 1000000000"}},
    {"5 1 --seed=2147483648", {"--seed=2147483648:", "2147483647"}},
    {"5 1 --hidden=0", {"--hidden=0:", "from 1"}},
    {"5 1 --model=softmax --hidden=3", {"--hidden cannot be used", "softmax"}},
    {"5 1 --model=linear --data=x", {"--data cannot be used", "linear"}},
    {"5 1 --model=linear --shard", {"--shard cannot be used", "sgd"}},
    {"5 1 --shard=x", {"takes no value: --shard=x", ""}},
    {"5 1 --snapshot_path=", {"--snapshot_path=:", "must be a name"}},
};
#define WRONGS ((int)(sizeof(wrongs) / sizeof(wrongs[0])))

TEST_LOOP(test_options_wrong_is_named, 0, WRONGS)
{
    struct options o;
    struct ddp_error e;
    char text[256];
    ck_assert_int_eq(parse(&o, wrongs[_i].line, text, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(e.text, wrongs[_i].words[i]) != NULL,
                      "%s: not in: %s", wrongs[_i].words[i], e.text);
}

/* --help and --version need no arguments. */
TEST(test_options_help_goes_before_all)
{
    struct options o;
    struct ddp_error e;
    char text[256];
    ck_assert_int_eq(parse(&o, "--help", text, &e), 0);
    ck_assert(o.help && !o.version);
    ck_assert_int_eq(parse(&o, "-h 5 --nonsense", text, &e), 0);
    ck_assert(o.help);
    ck_assert_int_eq(parse(&o, "--version", text, &e), 0);
    ck_assert(o.version && !o.help);
}

/* -- --help and the manual page -------------------------------------------- */

#define ROWS_MAX 32

/* An option as --help or the page shows it. */
struct row {
    char name[32];
    char metavar[16];
    char init[64]; /* the default; "": none, or the model's own */
};

struct rows {
    struct row row[ROWS_MAX];
    size_t n;
};

static struct row *add_row(struct rows *r, const char *name)
{
    ck_assert_uint_lt(r->n, ROWS_MAX);
    struct row *row = &r->row[r->n++];
    *row = (struct row){0};
    (void)snprintf(row->name, sizeof(row->name), "%s", name);
    return row;
}

static char *help_text(void)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(f);
    options_help(f);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

/* "  --seed=N  text (default: 1)", on any number of lines. */
static void read_help(struct rows *r)
{
    char *text = help_text(), name[32];
    struct row *row = NULL;
    r->n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (sscanf(line, " --%31[a-z_]", name) == 1 ||
            sscanf(line, " -h, --%31[a-z_]", name) == 1) {
            row = add_row(r, name);
            (void)sscanf(line, " --%*[a-z_]=%15[A-Z]", row->metavar);
        }
        const char *init = strstr(line, "(default: ");
        if (row != NULL && init != NULL)
            (void)sscanf(init, "(default: %63[^)]", row->init);
    }
    free(text);
}

/* ".It Fl -seed Ns = Ns Ar N", then "The default is" and ".Cm 1 ." */
static void read_page(struct rows *r)
{
    char line[512], name[32];
    struct row *row = NULL;
    bool inside = false, init = false;
    FILE *f = fopen("man/ddptrain.1", "re"); /* as tests run: from the root */
    ck_assert_ptr_nonnull(f);
    r->n = 0;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, ".Sh ", 4) == 0)
            inside = strcmp(line, ".Sh OPTIONS\n") == 0;
        if (!inside)
            continue;
        if (sscanf(line, ".It Fl -%31[a-z_]", name) == 1 ||
            sscanf(line, ".It Fl h , Fl -%31[a-z_]", name) == 1) {
            row = add_row(r, name);
            (void)sscanf(line, ".It Fl -%*[a-z_] Ns = Ns Ar %15[A-Z]",
                         row->metavar);
        }
        if (init && row != NULL)
            ck_assert_int_eq(sscanf(line, ".Cm %63s .", row->init), 1);
        init = strcmp(line, "The default is\n") == 0;
    }
    (void)fclose(f);
}

/* The page has the options of --help, with the same values and defaults. */
TEST(test_options_page_says_what_help_says)
{
    struct rows help, page;
    read_help(&help);
    read_page(&page);
    for (size_t i = 0; i < help.n && i < page.n; i++) {
        ck_assert_str_eq(page.row[i].name, help.row[i].name);
        ck_assert_str_eq(page.row[i].metavar, help.row[i].metavar);
        ck_assert_str_eq(page.row[i].init, help.row[i].init);
    }
    ck_assert_uint_eq(page.n, help.n);
}

/* All fields, for a comparison. */
static void show(char text[512], const struct options *o)
{
    (void)snprintf(text, 512,
                   "%lld %lld %s %s %lld %lld %lld %a %d %d %lld %s %lld %lld "
                   "%lld %s %d",
                   (long long)o->total_epochs, (long long)o->save_every,
                   o->spec->name, o->data, (long long)o->train_samples,
                   (long long)o->hidden, (long long)o->batch_size,
                   (double)o->lr, o->device, o->comm, (long long)o->seed,
                   o->snapshot_path, (long long)o->keep,
                   (long long)o->save_steps, (long long)o->memory_steps,
                   o->samples_taken != NULL ? o->samples_taken : "-", o->shard);
}

/* What --help calls a default is what the parser does without the option. */
TEST(test_options_help_says_true_defaults)
{
    struct rows help;
    struct options o;
    struct ddp_error e;
    char text[256], line[128], plain[512], given[512];
    int defaults = 0;
    ck_assert_int_eq(parse(&o, "5 1", text, &e), 0);
    show(plain, &o);
    read_help(&help);
    for (size_t i = 0; i < help.n; i++) {
        if (help.row[i].init[0] == '\0')
            continue;
        defaults++;
        (void)snprintf(line, sizeof(line), "5 1 --%s=%s", help.row[i].name,
                       help.row[i].init);
        ck_assert_msg(parse(&o, line, text, &e) == 0, "%s", e.text);
        show(given, &o);
        ck_assert_str_eq(given, plain);
    }
    ck_assert_int_eq(defaults, 10);
}

static bool is_known(const char *name)
{
    struct options o;
    struct ddp_error e;
    char text[256], line[64];
    (void)snprintf(line, sizeof(line), "--%s", name);
    return parse(&o, line, text, &e) == 0 ||
           strstr(e.text, "unknown or ambiguous") == NULL;
}

/* The parser takes every option of --help, and none besides: a name that leaves
 * those of --help at some letter is not even the beginning of another. */
TEST(test_options_help_shows_all_options)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    struct rows help;
    read_help(&help);
    for (size_t i = 0; i < help.n; i++) {
        char dashed[sizeof(help.row[i].name)];
        memcpy(dashed, help.row[i].name, sizeof(dashed));
        for (char *p = dashed; *p != '\0'; p++)
            *p = *p == '_' ? '-' : *p;
        ck_assert_msg(is_known(help.row[i].name), "%s", help.row[i].name);
        ck_assert_msg(is_known(dashed), "%s", dashed);
        for (size_t len = 0; len <= strlen(help.row[i].name); len++)
            for (const char *c = letters; *c != '\0'; c++) {
                char name[sizeof(help.row[i].name) + 1] = "";
                bool shown = false;
                memcpy(name, help.row[i].name, len);
                name[len] = *c;
                for (size_t k = 0; k < help.n; k++)
                    shown =
                        shown || strncmp(help.row[k].name, name, len + 1) == 0;
                ck_assert_msg(shown || !is_known(name), "--%s is known", name);
            }
    }
}

/* Lines of 80 columns at most. */
TEST(test_options_help_fits_a_terminal)
{
    char *text = help_text();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        ck_assert_msg(strlen(line) <= 80, "too long: %s", line);
    free(text);
}

/* --help and the error name every model that there is. */
TEST(test_options_all_models_are_named)
{
    struct options o;
    struct ddp_error e;
    char text[256], *help = help_text();
    ck_assert_int_eq(parse(&o, "5 1 --model=x", text, &e), -1);
    for (size_t i = 0; model_at(i) != NULL; i++) {
        ck_assert_ptr_nonnull(strstr(help, model_at(i)->name));
        ck_assert_ptr_nonnull(strstr(e.text, model_at(i)->name));
    }
    free(help);
}

SUITE("trainer_options", "line", .tags = "fast")
