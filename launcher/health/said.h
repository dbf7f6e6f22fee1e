/*
 * launcher/health/said: the reason that a check has printed, into a memory file
 * that is its stdout and stderr.
 */
#ifndef LAUNCHER_HEALTH_SAID_H
#define LAUNCHER_HEALTH_SAID_H

#define SAID_MAX 1024 /* bytes of the output; the end is kept */

/* The last line of the file that is not empty; "" if there is none. If it
 * cannot be read, that is what it says. */
void said_read(int fd, char text[SAID_MAX + 1]);

#endif
