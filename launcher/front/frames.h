/*
 * launcher/front/frames: what a front end and a hub on another host say to
 * each other (launcher/front/tree): a line that begins with a byte that text
 * does not have, and with digits that only the two know; then as many bytes as
 * the line says. What is between frames is text, such as ssh's. Pure.
 *
 *     \002MARK KIND NUMBER LEN
 */
#ifndef LAUNCHER_FRONT_FRAMES_H
#define LAUNCHER_FRONT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

#define FRAMES_HEAD_MAX 80    /* bytes, the newline included */
#define FRAMES_DATA_MAX 16384 /* of one */
#define FRAMES_MAX      (FRAMES_HEAD_MAX + FRAMES_DATA_MAX)

enum frame_kind {
    FRAME_START = 's', /* to a hub: execute what is in it, words with NULs */
    FRAME_INPUT = 'i', /* to a hub: for the stdin of what it executes */
    FRAME_KILL = 'k',  /* to a hub */
    FRAME_HELLO = 'h', /* of a hub: it is there */
    FRAME_BYTES = 'b', /* of a hub: what that wrote; none: there is no more */
    FRAME_END = 'x',   /* of a hub: its exit status, as digits */
};

struct frame {
    enum frame_kind kind;
    int number; /* of what is executed, below FRAMES_NUMBERS */
    const char *data;
    size_t len;
    size_t plain; /* bytes before it, which are text */
    size_t used;  /* bytes of it, behind those */
};
#define FRAMES_NUMBERS 1024

/* The head of a frame; returns its length. */
size_t frames_head(char out[FRAMES_HEAD_MAX],
                   const char *mark,
                   enum frame_kind kind,
                   int number,
                   size_t len);

/*
 * Looks for the first frame in data[0..len). False: none is there as a whole,
 * and `plain` is what is surely text. What is behind that may be the beginning
 * of a frame, of which the rest has not come.
 */
bool frames_find(const char *data,
                 size_t len,
                 const char *mark,
                 struct frame *f);

#endif
