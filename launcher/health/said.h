/*
 * launcher/health/said: the output of a check, whatever it prints and however
 * much: its end is kept, in a memory file.
 */
#ifndef LAUNCHER_HEALTH_SAID_H
#define LAUNCHER_HEALTH_SAID_H

#define SAID_MAX 1024 /* bytes that are kept */

/*
 * In a helper process: forks, and calls `run` in the child, which has a pipe as
 * its stdout and stderr, and does not return from there. What it prints goes to
 * the memory file `fd`, which never holds more than SAID_MAX. Ends as the child
 * does: with its exit code, or by its signal; processes that the child has left
 * are not waited for. If the child cannot be started, the reason is what was
 * said, and the exit code is that of DDP_E_NOMEM. The two are a process group.
 */
__attribute__((noreturn)) void
said_run(int fd, void (*run)(const void *arg), const void *arg);

/* In `run`: executes the command by /bin/sh. */
__attribute__((noreturn)) void said_shell(const char *command);

/* The last line of the file that is not empty; "" if there is none. If more was
 * printed than is kept, it ends with how much that was. If the file cannot be
 * read, that is what it says. */
void said_read(int fd, char text[SAID_MAX + 1]);

#endif
