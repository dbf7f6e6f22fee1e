/*
 * launcher/report/words: what the worker that failed first wrote itself: its
 * last lines on stderr, and the traceback that @record left in the error file.
 * Python has mostly written the same traceback to stderr; it is printed once.
 */
#ifndef LAUNCHER_REPORT_WORDS_H
#define LAUNCHER_REPORT_WORDS_H

#include <stddef.h>

enum words {
    WORDS_BOTH,      /* each has a line that the other has not */
    WORDS_TAIL_ONLY, /* every line of the traceback is in the tail */
    WORDS_TRACE_ONLY /* every line of the tail is in the traceback */
};

/*
 * Compares them line by line, in order, as they are shown: without terminal
 * sequences, without the rank that PyTorch writes before each line, and without
 * blanks at the end. Between two lines of a traceback the tail may have others,
 * since Python also shows the callers of @record's function. "" is contained in
 * any text.
 */
enum words report_words_compare(const char *tail, const char *trace);

/*
 * Copies one line as it is shown, cut to `size`: without the escape sequences
 * of ECMA-48, and without text that a progress bar has overwritten. A tab
 * becomes blanks. `size` is at least 5.
 */
void report_words_plain(const char *text, size_t len, char *out, size_t size);

/* Prints both on stderr. An empty text is left out. */
void report_words(const char *tail, const char *trace);

#endif
