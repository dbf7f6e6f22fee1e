/*
 * launcher/output/lines: output as lines: their ends, their prefixes, those
 * that pass a filter, the place at which a file may be cut, and the last ones
 * of a stream. Pure: no I/O, no clock. Bytes are bytes: any text encoding, NUL
 * included.
 */
#ifndef LAUNCHER_OUTPUT_LINES_H
#define LAUNCHER_OUTPUT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_TAIL_LINES 20
#define LINES_TAIL_BYTES 2400 /* as failed.tail of messages.def */
#define LINES_LONG       (64 * 1024)

/* How many bytes at the front are whole lines, the newline included. */
size_t lines_whole(const char *data, size_t len);

/* How many lines end in it. */
size_t lines_count(const char *data, size_t len);

/*
 * Copies data[0..len) to `out`, with the prefix before each line that begins in
 * it. `inside`: the first one began before it. `out` has room for
 * len + (lines_count() + 1) * prefix_len bytes; one prefix less is enough if
 * the data is whole lines. Returns how many bytes it wrote.
 */
size_t lines_prefix(const char *data,
                    size_t len,
                    bool inside,
                    const char *prefix,
                    size_t prefix_len,
                    char *out);

/* Whether one of `texts`, which end with NULL, is in data[0..len). */
bool lines_match(const char *data, size_t len, char *const texts[]);

/*
 * How many bytes of data[0..len) still go into a file of `size` bytes that is
 * rotated at `limit` (0: never): all of them, or up to the end of a line. A
 * line that is longer than `limit`, or of which the file has the front
 * (`inside`), is not cut: it makes its file larger. But output without line's
 * ends is cut when it has made a file LINES_LONG bytes larger.
 */
size_t lines_fit(
    const char *data, size_t len, bool inside, int64_t size, int64_t limit);

/* The worker whose lines they are. */
struct lines_who {
    const char *role;
    const char *host;
    int local_rank;
    int64_t rank;
};

/*
 * Fills ${role_name}, ${local_rank}, ${rank} and ${hostname} (also without
 * braces) into the template of a prefix; `$$` becomes `$`, all else stays. The
 * result is cut to `size` - 1 bytes. Returns its length.
 */
size_t lines_fill(const char *template,
                  const struct lines_who *who,
                  char *out,
                  size_t size);

/* The last bytes of a stream. */
struct lines_tail {
    size_t end; /* bytes that ever came */
    char ring[LINES_TAIL_BYTES];
};

void lines_tail_put(struct lines_tail *t, const char *data, size_t len);

/*
 * Copies its last LINES_TAIL_LINES lines, or fewer if they do not fit, to
 * `out`, which has LINES_TAIL_BYTES. An end without a newline is a line.
 * Returns the length.
 */
size_t lines_tail_get(const struct lines_tail *t, char *out);

/* Makes well-formed UTF-8 of text[0..len) in place: each byte that belongs to
 * no character, and each NUL, becomes '?'. text[len] is a NUL. */
void lines_clean(char *text, size_t len);

#endif
