/*
 * tests/lib/conf_line: what launcher/conf/conf makes of a command line of
 * ddprun, in a folder that has programs of all kinds in it.
 */
#ifndef CONF_LINE_H
#define CONF_LINE_H

#include "launcher/conf/conf.h"
#include "rendezvous/base/err.h"

/* An unchecked fixture: makes the folder (tests/lib/scratch), which becomes the
 * current one. */
void conf_line_setup(void);

/* The environment becomes `env` (tests/lib/words), and a PATH into the folder
 * unless it has one. */
void conf_line_env(const char *env);

/* Of "ddprun" and the words of `line` in that environment: 0 with `c` filled,
 * which the caller frees, or -1 with `err`. */
int conf_line_conf(struct conf *c,
                   const char *env,
                   const char *line,
                   struct ddp_err *err);

#endif
