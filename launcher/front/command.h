/*
 * launcher/front/command: the command lines of a front end: what it executes
 * (srun, ssh), and what it tells a proxy to execute. Pure but for the
 * environment that it is given.
 */
#ifndef LAUNCHER_FRONT_COMMAND_H
#define LAUNCHER_FRONT_COMMAND_H

#include <stdbool.h>

#include "launcher/conf/conf.h"

/* A command line that grows, for execve(2). To be zeroed before the first use.
 */
struct command {
    char **word; /* n of them, owned, then NULL */
    int n;
    int cap;
    bool failed; /* out of memory: what is there is not all */
};

void command_add(struct command *w, const char *text);
__attribute__((format(printf, 2, 3))) void
command_addf(struct command *w, const char *fmt, ...);
void command_free(struct command *w);

/*
 * What is executed here for host number `i` of the list, or (SRUN) for all, or
 * for component number `i` of a job with several.
 * `self` is the path of this program, which must be the same there.
 */
void command_here(struct command *w,
                  const struct conf *c,
                  int i,
                  const char *self);

/* What is executed for a host, without its folder and options: "ssh". */
void command_name(const struct conf *c, char name[64]);

/* The launcher's arguments on that host: those of this process, argv[0..argc),
 * and what the list says. `o` is as it was parsed of them. */
void command_there(struct command *w,
                   const struct conf *c,
                   const struct opts *o,
                   int argc,
                   char *const argv[],
                   int i);

/* The variables of `env` that a host of the list gets: in the script of a job
 * all that are not this host's own, as from srun; else options, those that name
 * the Python that is active here, and those that are asked for. */
void command_variables(struct command *w,
                       const struct conf *c,
                       const struct opts *o,
                       char *const *env);

/* All words with blanks between them, quoted for a shell where they need it;
 * cut to `cap` bytes. */
void command_text(const struct command *w, char *text, size_t cap);

#endif
