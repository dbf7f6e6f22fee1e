/*
 * launcher/hang/stack_place: where the main thread of a worker stands, and
 * whether that is in a collective, from what a debugger wrote: py-spy, gdb,
 * eu-stack, or Python's own dump of its threads. Pure.
 */
#ifndef LAUNCHER_HANG_STACK_PLACE_H
#define LAUNCHER_HANG_STACK_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#define STACK_PLACE_MAX 48 /* with NUL */

struct stack_place {
    pid_t pid;
    bool in_main;    /* the next frames are those of the main thread */
    bool collective; /* one of its frames is */
    bool device;     /* it waits for its GPU, and so perhaps for its peers */
    /* The collective's name, else the innermost frame's function, of Python if
     * there is one; printable; "": no frame has been seen. */
    char where[STACK_PLACE_MAX];
};

void stack_place_init(struct stack_place *p, pid_t pid);

/* The next line, without its end. Borrows it for the call. */
void stack_place_take(struct stack_place *p, const char *line);

#endif
