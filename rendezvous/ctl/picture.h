/*
 * ctl/picture: what ddpctl top shows: the daemon's status and a size in, lines
 * out; a key in, another part of it chosen. Pure.
 */
#ifndef RENDEZVOUS_CTL_PICTURE_H
#define RENDEZVOUS_CTL_PICTURE_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "rendezvous/ctl/text.h"

enum picture_key {
    KEY_NONE,
    KEY_QUIT,
    KEY_UP,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
    KEY_ONE, /* one run or all */
    KEY_HELP,
    KEY_PAUSE,
};

#define PICTURE_WIDTH_MIN 20

struct picture {
    struct ctl_style style; /* its width is that of the terminal, but at
                               least PICTURE_WIDTH_MIN */
    int rows;               /* of the terminal; 0: all of it, on a pipe */
    const char *where;      /* HOST:PORT, clean; borrowed */
    char news[1024]; /* instead of the title: the daemon is away, clean */

    char run[129]; /* the one that is chosen; "": the first */
    bool one;      /* only this one */
    bool paused;
    bool help;
    size_t first; /* of the nodes that are shown */
    size_t page;  /* by picture_draw: how many nodes fit */
};

/*
 * Writes the lines: exactly `rows` if that is not 0, and never one that is
 * wider than style.width. Moves `first` and `run` to what there is. Returns how
 * many runs are shown. Ends the process if memory runs out.
 */
void picture_draw(struct picture *p, const cJSON *status, FILE *f);

/* The key that these bytes from a terminal begin with, and how many of them it
 * takes: at least 1 if there are any. KEY_NONE: it means nothing here. */
enum picture_key picture_key_of(const char *bytes, size_t len, size_t *used);

/* Does what the key says, but for KEY_QUIT. */
void picture_press(struct picture *p,
                   enum picture_key key,
                   const cJSON *status);

#endif
