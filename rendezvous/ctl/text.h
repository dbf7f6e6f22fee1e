/*
 * ctl/text: texts for a terminal. What the daemon sends comes from peers, so
 * all that a terminal could take for more than a letter is shown as `?`. Pure.
 */
#ifndef RENDEZVOUS_CTL_TEXT_H
#define RENDEZVOUS_CTL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum ctl_tint {
    TINT_NONE,
    TINT_GOOD,
    TINT_WARN,
    TINT_BAD,
    TINT_DIM,
    TINT_BOLD,
};

/* How to write. `utf8`: setlocale has chosen a UTF-8 locale. */
struct ctl_style {
    bool utf8;
    bool color;
    bool grey; /* all of it dim: it shows what was, not what is */
    int width; /* columns, at least 20 */
};

#define CTL_WIDTH 80

/* Copies `from` so that it is safe to show: without control characters, escape
 * sequences, characters of no width (combining, bidirectional) and invalid
 * UTF-8. Cut to `size`. */
void ctl_clean(const struct ctl_style *style,
               const char *from,
               char *to,
               size_t size);

/* Columns of a text that is clean. */
int ctl_columns(const struct ctl_style *style, const char *text);

/* Cuts a clean text, in an array of `size`, to `columns` (at least 1), in the
 * middle or at its end, and puts an ellipsis there. */
void ctl_fit(const struct ctl_style *style,
             char *text,
             size_t size,
             int columns);
void ctl_fit_end(const struct ctl_style *style,
                 char *text,
                 size_t size,
                 int columns);

/* "20 s", "3 min", "1 h 40 min", "3 d 4 h"; less than 0, or a NaN, is 0. */
void ctl_span(double seconds, char text[24]);

/* "9,984" */
void ctl_number(int64_t n, char text[32]);

/* The escape sequences before and behind a tinted text; "" without colour. */
const char *ctl_on(const struct ctl_style *style, enum ctl_tint tint);
const char *ctl_off(const struct ctl_style *style, enum ctl_tint tint);

/* Writes one line, made clean, and cut at its end if it is too long. */
void ctl_put(const struct ctl_style *style,
             FILE *f,
             enum ctl_tint tint,
             const char *fmt,
             ...) __attribute__((format(printf, 4, 5)));

#endif
