/*
 * launcher/report/words: what the worker that failed first said itself: its
 * last lines on stderr and the traceback that @record left in the error file.
 * Python has mostly written the same traceback to stderr: nothing is said
 * twice.
 */
#ifndef LAUNCHER_REPORT_WORDS_H
#define LAUNCHER_REPORT_WORDS_H

#include <stddef.h>

enum words {
    WORDS_BOTH,      /* each says what the other does not */
    WORDS_TAIL_ONLY, /* every line of the traceback is in the tail */
    WORDS_TRACE_ONLY /* every line of the tail is in the traceback */
};

/*
 * Compares them line by line, in order, as they are shown: without what speaks
 * to a terminal, without the rank that PyTorch writes before each line, and
 * without blanks at the end. Between two lines of a traceback
 * there may be others in the tail: Python shows there also who called @record's
 * function. "" is in anything.
 */
enum words report_words_compare(const char *tail, const char *trace);

/*
 * One line of `text` as it is shown, cut to `size`: without the escape
 * sequences of ECMA-48 and without what a progress bar has overwritten; a tab
 * is blanks. `size` is at least 5.
 */
void report_words_plain(const char *text, size_t len, char *out, size_t size);

/* Tells of both on stderr, in as many lines as are needed; "" is left out. */
void report_words(const char *tail, const char *trace);

#endif
