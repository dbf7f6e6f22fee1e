/*
 * base/log: one event, one line, on stderr. `fatal` and `log_warn` append the
 * text of errno, the `x` forms do not; `fatal` and `fatalx` end the process
 * with the given status. A line starts with the program's name; everything in
 * it that is not printable UTF-8 is escaped. A line that stderr does not take
 * within 200 ms is lost, and the next line says so. Only a disk is waited for
 * longer.
 */
#ifndef RENDEZVOUS_BASE_LOG_H
#define RENDEZVOUS_BASE_LOG_H

#include <stddef.h>
#include <sys/types.h>

#include "rendezvous/base/utc.h"

/* Borrows `name` for the life of the process. Opens /dev/null for each standard
 * stream that is closed: otherwise a socket could get the number of stderr, and
 * the log's lines. */
void log_init(const char *name);

/* From now on lines have the time that `now` writes (utc_now) behind the
 * program's name. It is a pointer so that who wants no times needs no clock. */
void log_timestamps(void (*now)(char text[UTC_MAX], int digits));

/*
 * As write(2) on a descriptor that may block, but for about `most_ms` at most.
 * Returns less than `len` if a terminal took only a part in this time; EINTR if
 * it took nothing. A disk is waited for. Call it on the main thread, or if no
 * other thread takes SIGURG.
 */
ssize_t log_write(int fd, const void *data, size_t len, int most_ms);

void fatal(int status, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void fatalx(int status, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
