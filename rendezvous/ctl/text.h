/*
 * ctl/text: texts for a terminal. What a daemon sent comes from peers:
 * whatever a terminal could take for more than a letter is shown as `?`. Pure.
 */
#ifndef RENDEZVOUS_CTL_TEXT_H
#define RENDEZVOUS_CTL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ctl_tint {
    TINT_NONE,
    TINT_GOOD,
    TINT_WARN,
    TINT_BAD,
    TINT_DIM,
    TINT_BOLD,
};

/* How to write. Where `utf8` is set, setlocale has chosen such a locale. */
struct ctl_style {
    bool utf8;
    bool color;
    int width; /* columns, at least 40 */
};

#define CTL_WIDTH     80
#define CTL_WIDTH_MIN 40

/* Copies `from` so that it is safe to show: no control characters, no escape
 * sequences, nothing that has no width (combining, bidirectional), nothing that
 * is no UTF-8. Cut to `size`. */
void ctl_clean(const struct ctl_style *style,
               const char *from,
               char *to,
               size_t size);

/* Columns of a text that is clean. */
int ctl_columns(const struct ctl_style *style, const char *text);

/* Cuts a clean text, in an array of `size`, to so many columns (1 at least): in
 * the middle, or at its end, where an ellipsis stands then. */
void ctl_fit(const struct ctl_style *style,
             char *text,
             size_t size,
             int columns);
void ctl_fit_end(const struct ctl_style *style,
                 char *text,
                 size_t size,
                 int columns);

/* "20 s", "3 min", "1 h 40 min", "3 d 4 h"; less than 0, or no number, is 0. */
void ctl_span(double seconds, char text[24]);

/* "9,984" */
void ctl_number(int64_t n, char text[32]);

/* The escape sequences around what has a tint; "" without colour. */
const char *ctl_on(const struct ctl_style *style, enum ctl_tint tint);
const char *ctl_off(const struct ctl_style *style, enum ctl_tint tint);

#endif
