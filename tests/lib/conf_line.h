/*
 * tests/lib/conf_line: command lines of ddprun as tests write them, in a folder
 * that has programs of all kinds in it. Each test of launcher/conf goes by it.
 */
#ifndef CONF_LINE_H
#define CONF_LINE_H

#include "launcher/conf.h"

/* An unchecked fixture: makes the folder, which becomes the current one; the
 * other removes it. */
void conf_line_setup(void);
void conf_line_teardown(void);

/* The words of a line, with the program's name before them; '' is the empty
 * one. They end with NULL, and stay until the next call. */
extern char *conf_line_words[64];
extern int conf_line_argc;
void conf_line_argv(const char *line);

/* The environment becomes "NAME=VALUE NAME=VALUE", and a PATH. */
void conf_line_env(const char *env);

/* What launcher/conf makes of it: 0, or -1 with `err` filled. */
int conf_line_conf(struct conf *c,
                   const char *env,
                   const char *line,
                   struct ddp_err *err);

#endif
