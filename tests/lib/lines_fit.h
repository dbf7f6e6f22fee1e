/*
 * tests/lib/lines_fit: what ddpctl draws, looked at as a terminal takes it.
 */
#ifndef LINES_FIT_H
#define LINES_FIT_H

#include <check.h>
#include <string.h>

#include "rendezvous/ctl/text.h"

/* Every line fits, and holds letters only. Returns how many there are. */
static inline int lines_fit(const struct ctl_style *style, const char *text)
{
    int lines = 0;
    for (const char *at = text; *at != '\0'; lines++) {
        size_t len = strcspn(at, "\n");
        char line[4096];
        ck_assert_uint_lt(len, sizeof(line));
        memcpy(line, at, len);
        line[len] = '\0';
        ck_assert_msg(ctl_columns(style, line) <= style->width,
                      "%d columns: %s", ctl_columns(style, line), line);
        for (size_t i = 0; i < len; i++)
            ck_assert_msg((unsigned char)line[i] >= 0x20 && line[i] != 0x7f,
                          "byte %d in: %s", line[i], line);
        at += len + (at[len] == '\n');
    }
    return lines;
}

#endif
