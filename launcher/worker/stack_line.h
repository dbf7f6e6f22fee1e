/*
 * launcher/worker/stack_line: what the console shows of a line of the stacks,
 * which a debugger wrote. The file that has them all keeps each as it is. Pure.
 */
#ifndef LAUNCHER_WORKER_STACK_LINE_H
#define LAUNCHER_WORKER_STACK_LINE_H

#include <stdbool.h>

/* Whether a debugger tells about itself, or says again what its first frame
 * says. */
bool stack_line_is_noise(const char *line);

/* Takes the address and the arguments out of a frame of gdb, in place, which
 * make it too long for a terminal: "#3  f at x.c:9". Other lines stay as they
 * are, with blanks for tabs. */
void stack_line_shorten(char *line);

/* The line, or what it means if a debugger says what only a reader of stacks.c
 * understands: a constant. */
const char *stack_line_for_people(const char *line);

#endif
