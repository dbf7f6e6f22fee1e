/*
 * launcher/hang/stack_line: what the console shows of a line of the stacks,
 * which a debugger wrote. The file that has them all keeps each as it is. Pure.
 */
#ifndef LAUNCHER_HANG_STACK_LINE_H
#define LAUNCHER_HANG_STACK_LINE_H

/*
 * The line as people read it, without its end; NULL if a debugger tells about
 * itself, or says again what its first frame says. A frame of gdb loses its
 * address and arguments, in place, which make it too long for a terminal:
 * "#3  f at x.c:9". What only a reader of stacks.c understands becomes a
 * constant that says what it means. Other lines stay as they are, with blanks
 * for tabs.
 */
const char *stack_line_for_people(char *line);

#endif
