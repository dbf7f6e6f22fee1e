/*
 * launcher/conf/linked: which MPI library the file of a program names. It is
 * for a hint: what cannot be told is no MPI.
 */
#ifndef LAUNCHER_CONF_LINKED_H
#define LAUNCHER_CONF_LINKED_H

#include <stdbool.h>

#define LINKED_NAME_MAX 64 /* with NUL */

/*
 * Puts the first name of an MPI library in the first MiB of the file,
 * "libmpi.so.40", into `name`. False, and `name` is "": there is none (Python
 * loads it later), it is no ELF file, or it cannot be read. Reads a regular
 * file only, so that it does not wait.
 */
bool linked_mpi(const char *path, char name[LINKED_NAME_MAX]);

#endif
