/*
 * tests/lib/scratch: a folder of the test's own, for what it reads and writes
 * by relative names.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#define SCRATCH_MAX 32 /* with NUL */

/* Its absolute path. */
extern char scratch[SCRATCH_MAX];

/* A fixture: makes an empty one below /tmp and goes there; the other goes back
 * to "/" and removes it with all that is in it. */
void scratch_enter(void);
void scratch_leave(void);

#endif
