/*
 * What is executed: the program itself, or python with a script or a module.
 * The rules are torchrun's, with one difference: a name that does not end in
 * .py is executed as it is, so that any program can be a worker.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/conf/conf_priv.h"
#include "launcher/conf/linked.h"
#include "launcher/conf/options.h"
#include "launcher/conf/program.h"

/* -- the program ----------------------------------------------------------- */

/* Makes c->argv of copies of `head` and `tail`, which both end with NULL. The
 * second word of the tail can be left out. */
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
    ddp_assert(n > heads && c->argv[n] == NULL);
    const char *name = c->argv[heads];
    const char *slash = strrchr(name, '/');
    c->prog_name = slash != NULL ? slash + 1 : name;
    return 0;
}

/* An MPI program that finds no other rank runs to its end, and its numbers may
 * look right. --mpi=none says that this is meant. */
static void note_mpi(struct conf *c, const struct opts *o)
{
    char library[LINKED_NAME_MAX];
    bool alone = c->nproc == 1 && c->nnodes_max == 1;
    /* The one worker of a task that srun started has its variables. */
    bool of_task = c->nproc == 1 && c->task_vars;
    if (opts_given(o, OPTIONS_mpi) || alone || of_task || c->preflight ||
        c->front.kind != CONF_FRONT_NONE || !linked_mpi(c->exec_path, library))
        return;
    conf_note(c,
              "%.80s names MPI (%s), and without --mpi=auto each worker is an "
              "MPI world of its own",
              c->prog_name, library);
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
                           "--module cannot be used with --no_python: a "
                           "module is run by python");
    if (program[0] == NULL || program[0][0] == '\0')
        return ddp_err_set(err, DDP_E_USAGE,
                           "no program is given: its name comes after the "
                           "options; see ddprun --help");
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
    /* python finds its environment by its own path, so argv[0] is the whole
     * path. */
    const char *head[4] = {NULL};
    if (python) {
        head[0] = path;
        head[1] = "-u";
        head[2] = module ? "-m" : NULL;
        /* torchrun's rule, which surprises its users: a program that used all
         * CPUs of the machine uses one as soon as there are two workers. */
        if (c->nproc > 1 && getenv("OMP_NUM_THREADS") == NULL && !c->preflight)
            conf_note(c, "OMP_NUM_THREADS is not set: each worker gets 1, as "
                         "under torchrun; set it to use more CPUs");
    }
    /* argparse removes the first `--` of a line, even behind torchrun's
     * program: "train.py -- --x" gives the script "--x" alone. The same holds
     * here for Python programs. An executable, which torchrun would not run as
     * it is, gets all of its arguments. */
    bool drop = (python || no_python) && !o->dashes && program[1] != NULL &&
                strcmp(program[1], "--") == 0;
    if (join_vectors(c, head, program, drop, err) < 0)
        return -1;
    if (!python)
        note_mpi(c, o);
    return 0;
}

void conf_free_program(struct conf *c)
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
    ddp_assert(c->preflight);
    conf_free_program(c);
    c->exec_path = strdup("/proc/self/exe");
    if (c->exec_path == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the command");
    return join_vectors(c, none, argv, false, err);
}
