/* links: trainer/options trainer/plot trainer/progress trainer/model */
/* links: trainer/ops/optim trainer/ops/cpu trainer/ops/conv */
/* links: trainer/ops/random */
/* links: trainer/ops/device */
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
START_TEST(test_options_defaults)
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
    ck_assert(o.rate == 0.002f);
    ck_assert_int_eq(o.seed, 1);
    ck_assert_int_eq(o.save_steps, 0);
    ck_assert_int_eq(o.train_samples, 0);
    ck_assert_str_eq(o.snapshot_path, "snapshots");
    ck_assert_str_eq(o.data, DATA_DIR_DEFAULT);
    ck_assert(!o.help && !o.version);
}
END_TEST

/* Each model brings its own batch, rate and width. */
START_TEST(test_options_defaults_of_the_model)
{
    struct options o;
    struct ddp_error e;
    char text[256];
    ck_assert_int_eq(parse(&o, "5 1 --model=regression", text, &e), 0);
    ck_assert_int_eq(o.batch_size, 64);
    ck_assert_int_eq(o.hidden, 5);
    ck_assert(o.rate == 0.01f);
    ck_assert_int_eq(
        parse(&o, "5 1 --model=regression --batch_size 8 --hidden 3 --lr 2e-3",
              text, &e),
        0);
    ck_assert_int_eq(o.batch_size, 8);
    ck_assert_int_eq(o.hidden, 3);
    ck_assert(o.rate == 2e-3f);
    ck_assert_int_eq(parse(&o, "5 1 --model=linear", text, &e), 0);
    ck_assert_int_eq(o.hidden, 0);
}
END_TEST

/* The same thing said in different ways. */
static const char *const spellings[] = {
    "7 0 --batch_size=64 --snapshot_path=a/b",
    "7 0 --batch-size=64 --snapshot-path=a/b",
    "7 0 --batch_size 64 --snapshot-path a/b",
    "--batch_size 64 7 --snapshot_path a/b 0",
    "--batch-size=64 --snapshot_path=a/b -- 7 0",
    "7 0 --batch-s 64 --snap=a/b",
    "7 0 --batch_size=1 --batch-size=64 --snapshot_path=a/b",
};

START_TEST(test_options_spellings_mean_the_same)
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
END_TEST

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
    {"5 1 --batch-size=3.5", {"--batch_size=3.5:", "whole number"}},
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
    {"5 1 --bach-size=3", {"unknown or ambiguous option --bach_size=3", ""}},
    {"5 --sed 3 1", {"unknown or ambiguous option --sed", ""}},
    {"5 1 --s 3", {"unknown or ambiguous option --s", ""}},
    {"5 1 --m=x", {"unknown or ambiguous option --m=x", ""}},
    {"5 1 -x", {"unknown option -x", ""}},
    {"5 1 --help=x", {"ambiguous option --help=x", ""}},
    {"5 1 --hidden=0", {"--hidden=0:", "from 1"}},
    {"5 1 --model=softmax --hidden=3", {"--hidden cannot be used", "softmax"}},
    {"5 1 --model=linear --data=x", {"--data cannot be used", "linear"}},
    {"5 1 --snapshot_path=", {"--snapshot_path is empty", ""}},
};
#define WRONGS ((int)(sizeof(wrongs) / sizeof(wrongs[0])))

START_TEST(test_options_wrong_is_named)
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
END_TEST

/* --help and --version need no arguments. */
START_TEST(test_options_help_goes_before_all)
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
END_TEST

/* All rows of the table are in --help, in lines of 80 columns at most. */
START_TEST(test_options_help_shows_every_row)
{
    static const char *const names[] = {
#define OPT_GROUP(ident, title) title ":",
#define OPT(name, letter, kind, env, init, min, max, metavar, group, help)     \
    "  --" #name "=" metavar,
#include "trainer/options.def"
#undef OPT
#undef OPT_GROUP
    };
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(f);
    options_help(f);
    ck_assert_int_eq(fclose(f), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_msg(strstr(text, names[i]) != NULL, "%s", names[i]);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        ck_assert_msg(strlen(line) <= 80, "too long: %s", line);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer_options");
    TCase *line = tcase_create("line");
    tcase_set_tags(line, "fast");
    tcase_add_test(line, test_options_defaults);
    tcase_add_test(line, test_options_defaults_of_the_model);
    tcase_add_loop_test(line, test_options_spellings_mean_the_same, 0,
                        (int)(sizeof(spellings) / sizeof(spellings[0])));
    tcase_add_loop_test(line, test_options_wrong_is_named, 0, WRONGS);
    tcase_add_test(line, test_options_help_goes_before_all);
    tcase_add_test(line, test_options_help_shows_every_row);
    suite_add_tcase(suite, line);

    return suite_run(suite);
}
