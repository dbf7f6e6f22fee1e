/* What is executed: the program itself, or python with a script or module. */
#include <stdlib.h>
#include <string.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/options.h"
#include "launcher/conf/program.h"

/* -- the program ----------------------------------------------------------- */

/* Copies of `head` and `tail`, both ending with NULL, as one vector; the second
 * of the tail may be left out. */
static int join_vectors(struct conf *c,
                        const char *const head[],
                        char *const tail[],
                        bool drop_second,
                        struct ddp_err *err)
{
    size_t heads = 0, tails = 0;
    while (head[heads] != NULL)
        heads++;
    while (tail[tails] != NULL)
        tails++;
    c->argv = calloc(heads + tails + 1, sizeof(c->argv[0]));
    size_t n = 0;
    for (size_t i = 0; c->argv != NULL && i < heads + tails; i++) {
        if (drop_second && i == heads + 1)
            continue;
        c->argv[n] = strdup(i < heads ? head[i] : tail[i - heads]);
        if (c->argv[n++] == NULL)
            return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    }
    if (c->argv == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    const char *name = c->argv[heads];
    const char *slash = strrchr(name, '/');
    c->prog_name = slash != NULL ? slash + 1 : name;
    return 0;
}

/* torchrun's rule, and the one that surprises its users: what worked with all
 * CPUs of the machine works with one from the second worker on. */
static void note_threads(struct conf *c)
{
    if (c->nproc > 1 && getenv("OMP_NUM_THREADS") == NULL && !c->preflight)
        conf_note(c, "OMP_NUM_THREADS is not set: each worker gets 1, as under "
                     "torchrun; set it if they are to use more CPUs");
}

/*
 * argparse takes away the first -- of a line, wherever it stands among those
 * words that it knows, and torchrun's program is one of them: "train.py -- --x"
 * gives the script "--x" alone. So here, but for executables that torchrun
 * would not run as they are: their arguments are theirs word for word.
 */
static bool drops_dashes(const struct opts *o, char *const program[])
{
    return !o->dashes && program[1] != NULL && strcmp(program[1], "--") == 0;
}

int conf_program(struct conf *c,
                 const struct opts *o,
                 char *const program[],
                 struct ddp_err *err)
{
    bool run_path = opts_number(o, OPTIONS_run_path) != 0;
    bool module = opts_number(o, OPTIONS_module) != 0 && !run_path;
    bool no_python = opts_number(o, OPTIONS_no_python) != 0 && !run_path;
    if (module && no_python)
        return ddp_err_set(err, DDP_E_USAGE,
                           "--module and --no_python exclude each other: a "
                           "module is run by python");
    if (program[0] == NULL || program[0][0] == '\0')
        return ddp_err_set(err, DDP_E_USAGE,
                           "no program: its name comes after the options; "
                           "see ddprun --help");
    char path[4096];
    bool python =
        module || run_path || (!no_python && program_is_script(program[0]));
    if (python && !module && program_check_script(program[0], err) < 0)
        return -1;
    int rc = python ? program_find_python(path, sizeof(path), err)
                    : program_find(program[0], path, sizeof(path), err);
    if (rc < 0)
        return -1;
    c->exec_path = strdup(path);
    if (c->exec_path == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    /* python finds its environment by its own path, so it gets all of it. */
    const char *head[4] = {NULL};
    if (python) {
        head[0] = path;
        head[1] = "-u";
        head[2] = module ? "-m" : NULL;
        note_threads(c);
    }
    bool drop = (python || no_python) && drops_dashes(o, program);
    return join_vectors(c, head, program, drop, err);
}

static void free_program(struct conf *c)
{
    for (char **p = c->argv; p != NULL && *p != NULL; p++)
        free(*p);
    free(c->argv);
    free(c->exec_path);
    c->argv = NULL;
    c->exec_path = NULL;
}

int conf_probe(struct conf *c, struct ddp_err *err)
{
    static const char *const none[] = {NULL};
    char name[] = PREFLIGHT_NAME;
    char *const argv[] = {name, NULL};
    free_program(c);
    c->exec_path = strdup("/proc/self/exe");
    if (c->exec_path == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    return join_vectors(c, none, argv, false, err);
}
