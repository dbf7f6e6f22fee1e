/*
 * launcher/front/marks: what a proxy says to its front end, within the stderr
 * that both share with the launcher: a line that begins with a byte that text
 * does not have, and with digits that only the two know. Pure.
 *
 *     \001MARK hello HOST       the launcher is about to start
 *     \001MARK here HOST        the proxy was asked, and lives
 *     \001MARK end STATUS HOST  the launcher has ended
 */
#ifndef LAUNCHER_FRONT_MARKS_H
#define LAUNCHER_FRONT_MARKS_H

#include <stdbool.h>
#include <stddef.h>

#define MARKS_MAX 320 /* bytes of one, the newline included */

enum mark_kind {
    MARK_NONE, /* no mark is there, or not all of it */
    MARK_HELLO,
    MARK_HERE,
    MARK_END,
    MARK_ODD, /* one that this version does not know */
};

struct mark {
    enum mark_kind kind;
    int status;     /* of MARK_END: an exit status */
    char host[256]; /* printable */
    size_t plain;   /* bytes before it, which are output */
    size_t used;    /* bytes of it, behind those */
};

/*
 * Looks for the first mark in data[0..len). Without one `plain` is what is
 * surely output; what is behind that may be the beginning of a mark, of which
 * the rest has not come. `end`: nothing will come, so all is output.
 */
void marks_find(
    const char *data, size_t len, const char *mark, bool end, struct mark *m);

/* Writes one; returns its length. */
size_t marks_write(char out[MARKS_MAX],
                   const char *mark,
                   enum mark_kind kind,
                   int status,
                   const char *host);

#endif
