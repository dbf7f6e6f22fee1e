#include "tests/lib/conf_line.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/options.h"

static char root[] = "/tmp/conf_line.XXXXXX";

static void put(const char *name, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "#!/bin/sh\n", 10), 10);
    ck_assert_int_eq(close(fd), 0);
}

/* Everything is relative to the folder, which is the current one. */
void conf_line_setup(void)
{
    static const char *const dirs[] = {"bin",   "none",      "venv", "venv/bin",
                                       "conda", "conda/bin", "logs"};
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(chdir(root), 0);
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        ck_assert_int_eq(mkdir(dirs[i], 0755), 0);
    put("bin/prog", 0755);
    put("bin/notexec", 0644);
    put("bin/python3", 0755);
    put("bin/pypy", 0755);
    put("venv/bin/python3", 0755);
    put("conda/bin/python", 0755);
    put("here", 0755);
    put("data", 0644);
    put("train.py", 0644);
    put("run.py", 0755);
}

void conf_line_teardown(void)
{
    static const char *const names[] = {"bin/prog",
                                        "bin/notexec",
                                        "bin/python3",
                                        "bin/pypy",
                                        "venv/bin/python3",
                                        "conda/bin/python",
                                        "here",
                                        "data",
                                        "train.py",
                                        "run.py",
                                        "bin",
                                        "none",
                                        "venv/bin",
                                        "venv",
                                        "conda/bin",
                                        "conda",
                                        "logs",
                                        "."};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)remove(names[i]); /* the GPUs are there in one test only */
    (void)rmdir(root);
}

static char words[1024];
char *conf_line_words[64];
int conf_line_argc;

void conf_line_argv(const char *line)
{
    int n = snprintf(words, sizeof(words), "ddprun %s", line);
    ck_assert(n > 0 && (size_t)n < sizeof(words));
    conf_line_argc = 0;
    for (char *save, *w = strtok_r(words, " ", &save); w != NULL;
         w = strtok_r(NULL, " ", &save)) {
        ck_assert_int_lt(conf_line_argc, 63);
        if (strcmp(w, "''") == 0)
            *w = '\0';
        conf_line_words[conf_line_argc++] = w;
    }
    conf_line_words[conf_line_argc] = NULL;
}

void conf_line_env(const char *env)
{
    char copy[512];
    ck_assert_int_eq(clearenv(), 0);
    ck_assert_int_eq(setenv("PATH", "none::bin", 1), 0);
    ck_assert_uint_lt(strlen(env), sizeof(copy));
    memcpy(copy, env, strlen(env) + 1);
    for (char *save, *w = strtok_r(copy, " ", &save); w != NULL;
         w = strtok_r(NULL, " ", &save)) {
        char *value = strchr(w, '=');
        ck_assert_ptr_nonnull(value);
        *value++ = '\0';
        ck_assert_int_eq(setenv(w, value, 1), 0);
    }
}

int conf_line_conf(struct conf *c,
                   const char *env,
                   const char *line,
                   struct ddp_err *err)
{
    struct opts o;
    conf_line_env(env);
    conf_line_argv(line);
    if (opts_parse(&o, &options_table, conf_line_argc, conf_line_words, err) <
        0)
        return -1;
    return conf_init(c, &o, conf_line_words + o.rest, err);
}
