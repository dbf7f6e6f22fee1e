#include "tests/lib/words.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *words_argv[WORDS_MAX];
int words_argc;

void words_line(const char *program, const char *line)
{
    static char text[4096];
    int n = snprintf(text, sizeof(text), "%s %s", program, line);
    ck_assert(n > 0 && (size_t)n < sizeof(text));
    words_argc = 0;
    for (char *save, *w = strtok_r(text, " ", &save); w != NULL;
         w = strtok_r(NULL, " ", &save)) {
        ck_assert_int_lt(words_argc, WORDS_MAX - 1);
        if (strcmp(w, "''") == 0)
            *w = '\0';
        words_argv[words_argc++] = w;
    }
    words_argv[words_argc] = NULL;
}

void words_env(const char *env)
{
    char copy[512];
    ck_assert_int_eq(clearenv(), 0);
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
