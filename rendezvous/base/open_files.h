/*
 * base/open_files: how many descriptors this process may have; closing many.
 */
#ifndef RENDEZVOUS_BASE_OPEN_FILES_H
#define RENDEZVOUS_BASE_OPEN_FILES_H

/* Raises the soft limit of open files to the hard one. Returns the limit that
 * holds now, a million at most. */
int open_files_raise(void);

/* Closes all descriptors from `first` to `last`, both included. For a fresh
 * child: whoever owns one of them here is not asked. */
void open_files_close(unsigned first, unsigned last);

#endif
