/*
 * tests/lib/words: a command line and an environment as tests write them, each
 * in one text.
 */
#ifndef WORDS_H
#define WORDS_H

#define WORDS_MAX 64

/* The words of the last line, NULL behind them. */
extern char *words_argv[WORDS_MAX];
extern int words_argc;

/* Fills them with `program` and what stands between the blanks of `line`; '' is
 * the empty word. */
void words_line(const char *program, const char *line);

/* The environment becomes "NAME=VALUE NAME=VALUE" and nothing else. */
void words_env(const char *env);

#endif
