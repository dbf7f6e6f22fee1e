/*
 * launcher/hang/consoles: whether workers may stand still because the console
 * is full, and takes nothing or little. It cannot be asked whether a worker
 * waits for it, only whether it is full and takes something (hang.h has the
 * rule).
 */
#ifndef LAUNCHER_HANG_CONSOLES_H
#define LAUNCHER_HANG_CONSOLES_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/conf/conf.h"
#include "launcher/worker/hang.h"
#include "launcher/worker/workers.h"

struct console_look {
    bool blocks;     /* a worker may wait for it */
    int64_t waiting; /* pipe_probe's number at the last look */
    int64_t output;  /* of all workers, when it was last full */
};

struct consoles {
    const struct workers *workers;
    int nproc;
    struct console_look looks[2]; /* stdout, stderr */
};

/* The caller's storage. Borrows `workers`. */
void consoles_init(struct consoles *c,
                   const struct conf *conf,
                   const struct workers *workers);

/* The pace of the slower one since the last look. */
enum hang_pace consoles_look(struct consoles *c);

#endif
