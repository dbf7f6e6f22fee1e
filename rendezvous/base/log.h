/*
 * base/log: one event, one line, on stderr. `fatal` and `log_warn` append the
 * text of errno, the `x` forms do not; `fatal` and `fatalx` end the process
 * with the status that is given. A line starts with the program's name; what is
 * not printable in it is escaped, whoever it comes from. A line that stderr
 * does not take within 200 ms is lost, and the next that it takes says so;
 * nothing waits longer, but for a disk.
 */
#ifndef RENDEZVOUS_BASE_LOG_H
#define RENDEZVOUS_BASE_LOG_H

#include <stddef.h>
#include <sys/types.h>

/* Borrows `name` for the life of the process. Opens /dev/null for each standard
 * stream that is closed: a socket in its place would get our lines. */
void log_init(const char *name);

/*
 * As write(2), on a descriptor that may block, but for at most about that
 * long: less than `len` where a terminal took a part in this time, EINTR where
 * it took nothing. A disk is waited for. On the main thread, or where no other
 * thread takes SIGURG.
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
