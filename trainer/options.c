/*
 * trainer/options: getopt_long. An option stands in four places: in `longs`, in
 * set, in `help` and in man/ddptrain.1. check_trainer_options compares them.
 */
#include "trainer/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data.h"
#include "trainer/ops/fail.h"

#define EPOCHS_MAX 1000000
#define STEPS_MAX  1000000000

/* clang-format off */
enum { /* above all letters, so that getopt_long cannot confuse them */
    MODEL = 256, DATA, TRAIN_SAMPLES, HIDDEN, BATCH_SIZE, LR, DEVICE, COMM,
    SEED, SHARD, SNAPSHOT_PATH, KEEP, SAVE_STEPS, MEMORY_STEPS, SAMPLES_TAKEN,
    HELP, VERSION
};

/* A name with an underscore also stands here with a dash. getopt_long takes two
 * names of one number for the same option, so they can be cut as one. */
static const struct option longs[] = {
    {"model",         required_argument, NULL, MODEL},
    {"data",          required_argument, NULL, DATA},
    {"train_samples", required_argument, NULL, TRAIN_SAMPLES},
    {"train-samples", required_argument, NULL, TRAIN_SAMPLES},
    {"hidden",        required_argument, NULL, HIDDEN},
    {"batch_size",    required_argument, NULL, BATCH_SIZE},
    {"batch-size",    required_argument, NULL, BATCH_SIZE},
    {"lr",            required_argument, NULL, LR},
    {"device",        required_argument, NULL, DEVICE},
    {"comm",          required_argument, NULL, COMM},
    {"seed",          required_argument, NULL, SEED},
    {"shard",         no_argument,       NULL, SHARD},
    {"snapshot_path", required_argument, NULL, SNAPSHOT_PATH},
    {"snapshot-path", required_argument, NULL, SNAPSHOT_PATH},
    {"keep",          required_argument, NULL, KEEP},
    {"save_steps",    required_argument, NULL, SAVE_STEPS},
    {"save-steps",    required_argument, NULL, SAVE_STEPS},
    {"memory_steps",  required_argument, NULL, MEMORY_STEPS},
    {"memory-steps",  required_argument, NULL, MEMORY_STEPS},
    {"samples_taken", required_argument, NULL, SAMPLES_TAKEN},
    {"samples-taken", required_argument, NULL, SAMPLES_TAKEN},
    {"help",          no_argument,       NULL, HELP},
    {"version",       no_argument,       NULL, VERSION},
    {0},
};
/* clang-format on */

static const char usage[] =
    "usage: ddptrain TOTAL_EPOCHS SAVE_EVERY [OPTION...]\n";

static const char help[] =
    "\n"
    "Trains a model on all ranks of a job that ddprun started, or alone.\n"
    "Saves a snapshot after every SAVE_EVERY epochs (0: never), and\n"
    "resumes from the newest snapshot that it finds.\n"
    "\n"
    "  --model=NAME           softmax, mlp, cnn, linear or regression\n"
    "                         (default: mlp)\n"
    "  --data=FOLDER          the IDX files of MNIST or Fashion-MNIST\n"
    "                         (default: " DATA_DIR_DEFAULT ")\n"
    "  --train_samples=N      train on the first N samples only, 0: all\n"
    "                         (default: 0)\n"
    "  --hidden=N             width of the hidden layer; 128 for mlp and cnn,\n"
    "                         5 for regression\n"
    "  --batch_size=N         samples per step on each rank; 64 for cnn and\n"
    "                         regression, else 32\n"
    "  --lr=RATE              learning rate; 0.002 for softmax and mlp, 0.001\n"
    "                         for linear, 0.01 for cnn and regression\n"
    "  --device=NAME          where to compute: auto, cpu or cuda\n"
    "                         (default: auto)\n"
    "  --comm=NAME            how gradients are summed: auto, tcp or nccl\n"
    "                         (default: auto)\n"
    "  --seed=N               of all random numbers (default: 1)\n"
    "  --shard                a part of the optimizer's state on each rank,\n"
    "                         not all of it on all\n"
    "  --snapshot_path=FOLDER folder for snapshots (default: snapshots)\n"
    "  --keep=N               keep the newest N snapshots (default: 2)\n"
    "  --save_steps=N         also save after every N steps, 0: never\n"
    "                         (default: 0)\n"
    "  --memory_steps=N       save after every N steps to the memory that\n"
    "                         ddprun holds, 0: never (default: 1)\n"
    "  --samples_taken=FILE   note the samples of each step in FILE.RANK\n"
    "  -h, --help             print this text and exit\n"
    "  --version              print the version and exit\n";

void options_usage(FILE *f)
{
    fputs(usage, f);
}

void options_help(FILE *f)
{
    fputs(usage, f);
    fputs(help, f);
}

/* -- values: an error says what must be; wrong() adds which option --------- */

static int read_int(int64_t *to,
                    const char *text,
                    int64_t min,
                    int64_t max,
                    struct ddp_error *e)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    /* A digit first: strtoll would take blanks and signs. */
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 ||
        n < min || n > max)
        return fail_set(e, DDP_ERR_USAGE,
                        "must be a whole number from %lld to %lld",
                        (long long)min, (long long)max);
    *to = n;
    return 0;
}

/* A decimal number above 0 that a float can hold; no hexadecimal, no nan. */
static int read_rate(float *to, const char *text, struct ddp_error *e)
{
    char *end;
    float rate = strtof(text, &end);
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0' ||
        *end != '\0' || !isfinite(rate) || rate <= 0.0f)
        return fail_set(e, DDP_ERR_USAGE, "must be a decimal number above 0");
    *to = rate;
    return 0;
}

/* One of three words, as its number in their enum. */
static int read_word(int *to,
                     const char *text,
                     const char *const words[3],
                     struct ddp_error *e)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            *to = i;
            return 0;
        }
    return fail_set(e, DDP_ERR_USAGE, "must be one of %s, %s, %s", words[0],
                    words[1], words[2]);
}

static int
read_model(const struct model_spec **to, const char *text, struct ddp_error *e)
{
    *to = model_find(text);
    if (*to != NULL)
        return 0;
    return fail_set(e, DDP_ERR_USAGE,
                    "must be one of softmax, mlp, cnn, linear, regression");
}

static int read_path(const char **to, const char *text, struct ddp_error *e)
{
    *to = text;
    return text[0] != '\0' ? 0 : fail_set(e, DDP_ERR_USAGE, "must be a name");
}

static const char *const devices[] = {"auto", "cpu", "cuda"};
static const char *const comms[] = {"auto", "tcp", "nccl"};

/* clang-format off */
static int
set(struct options *o, int option, const char *arg, struct ddp_error *e)
{
    switch (option) {
    case MODEL:         return read_model(&o->spec, arg, e);
    case DATA:          return read_path(&o->data, arg, e);
    case TRAIN_SAMPLES: return read_int(&o->train_samples, arg, 0, 10000000, e);
    case HIDDEN:        return read_int(&o->hidden, arg, 1, 65536, e);
    case BATCH_SIZE:    return read_int(&o->batch_size, arg, 1, 65536, e);
    case LR:            return read_rate(&o->lr, arg, e);
    case DEVICE:        return read_word(&o->device, arg, devices, e);
    case COMM:          return read_word(&o->comm, arg, comms, e);
    case SEED:          return read_int(&o->seed, arg, 0, INT32_MAX, e);
    case SHARD:         o->shard = true; return 0;
    case SNAPSHOT_PATH: return read_path(&o->snapshot_path, arg, e);
    case KEEP:          return read_int(&o->keep, arg, 1, 1000, e);
    case SAVE_STEPS:    return read_int(&o->save_steps, arg, 0, STEPS_MAX, e);
    case MEMORY_STEPS:  return read_int(&o->memory_steps, arg, 0, STEPS_MAX, e);
    case SAMPLES_TAKEN: return read_path(&o->samples_taken, arg, e);
    case VERSION:       o->version = true; return 0;
    default:            o->help = true; return 0; /* -h, --help */
    }
}
/* clang-format on */

/* -- the command line ------------------------------------------------------ */

/* "--seed=x: must be ...". */
static int wrong(const char *dashes,
                 const char *name,
                 const char *text,
                 struct ddp_error *err)
{
    struct ddp_error why = *err;
    return fail_set(err, DDP_ERR_USAGE, "%s%s=%.200s: %.200s", dashes, name,
                    text, why.text);
}

/* All options, or those up to --help or --version. getopt_long moves arguments
 * behind them: argv[optind] is the first. */
static int
read_options(struct options *o, int argc, char *argv[], struct ddp_error *err)
{
    int got, i = 0;
    optind = 0; /* glibc: begin anew */
    opterr = 0; /* errors are told by the caller */
    while (!o->help && !o->version &&
           (got = getopt_long(argc, argv, ":h", longs, &i)) != -1) {
        const char *word = argv[optind - 1];
        if (got == ':')
            return fail_set(err, DDP_ERR_USAGE, "%s needs a value", word);
        if (got == '?' && optopt == 0)
            return fail_set(err, DDP_ERR_USAGE,
                            "unknown or ambiguous option %s", word);
        if (got == '?' && optopt >= MODEL)
            return fail_set(err, DDP_ERR_USAGE,
                            "this option takes no value: %s", word);
        if (got == '?')
            return fail_set(err, DDP_ERR_USAGE, "unknown option -%c", optopt);
        if (set(o, got, optarg, err) != 0)
            return wrong("--", longs[i].name, optarg, err);
    }
    return 0;
}

/* What depends on more than one option: the defaults of the model, and options
 * that have no meaning together. */
static int settle(struct options *o, struct ddp_error *err)
{
    const struct model_spec *m = o->spec;
    if (o->device == OPTIONS_DEVICE_CPU && o->comm == OPTIONS_COMM_NCCL)
        return fail_set(err, DDP_ERR_USAGE,
                        "--comm=nccl cannot be used with --device=cpu");
    if (o->hidden != 0 && m->hidden == 0)
        return fail_set(err, DDP_ERR_USAGE,
                        "--hidden cannot be used with --model=%s, which has no "
                        "hidden layer",
                        m->name);
    if (o->data != NULL && m->data != MODEL_IMAGES)
        return fail_set(err, DDP_ERR_USAGE,
                        "--data cannot be used with --model=%s, which makes "
                        "its own samples",
                        m->name);
    if (o->shard && optim_state_name(m->optim, 0) == NULL)
        return fail_set(err, DDP_ERR_USAGE,
                        "--shard cannot be used with --model=%s, whose "
                        "optimizer (%s) has no state to share out",
                        m->name, optim_name(m->optim));
    o->data = o->data == NULL ? DATA_DIR_DEFAULT : o->data;
    o->hidden = o->hidden == 0 ? (int64_t)m->hidden : o->hidden;
    o->batch_size = o->batch_size == 0 ? (int64_t)m->batch_size : o->batch_size;
    o->lr = o->lr > 0.0f ? o->lr : m->lr;
    return 0;
}

int options_parse(struct options *o,
                  int argc,
                  char *argv[],
                  struct ddp_error *err)
{
    *o = (struct options){
        .spec = model_find("mlp"),
        .seed = 1,
        .snapshot_path = "snapshots",
        .keep = 2,
        .memory_steps = 1,
    };
    if (read_options(o, argc, argv, err) != 0)
        return -1;
    if (o->help || o->version)
        return 0;
    char **left = argv + optind;
    int n = argc - optind;
    if (n < 2)
        return fail_set(err, DDP_ERR_USAGE, "%s is missing",
                        n == 0 ? "TOTAL_EPOCHS" : "SAVE_EVERY");
    if (n > 2)
        return fail_set(err, DDP_ERR_USAGE, "unexpected argument '%.200s'",
                        left[2]);
    if (read_int(&o->total_epochs, left[0], 1, EPOCHS_MAX, err) != 0)
        return wrong("", "TOTAL_EPOCHS", left[0], err);
    if (read_int(&o->save_every, left[1], 0, EPOCHS_MAX, err) != 0)
        return wrong("", "SAVE_EVERY", left[1], err);
    return settle(o, err);
}
