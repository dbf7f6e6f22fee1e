/*
 * base/open_files: how many descriptors this process may have; closing many.
 */
#ifndef RENDEZVOUS_BASE_OPEN_FILES_H
#define RENDEZVOUS_BASE_OPEN_FILES_H

/* What libuv's first loop of a process opens. If the kernel refuses some of
 * them it ends the process (abort): ask open_files_room first. */
#define OPEN_FILES_OF_A_LOOP 6

/* Raises the soft limit of open files to the hard one. Returns the limit that
 * holds now, a million at most. */
int open_files_raise(void);

/* Whether `n` more descriptors can be had now, at most OPEN_FILES_OF_A_LOOP: 0,
 * or -1 with errno. */
int open_files_room(int n);

/* Closes all descriptors from `first` to `last`, both included. For a fresh
 * child: whoever owns one of them here is not asked. */
void open_files_close(unsigned first, unsigned last);

#endif
