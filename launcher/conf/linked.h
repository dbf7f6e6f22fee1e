/*
 * launcher/conf/linked: which MPI library an executable is linked with, by what
 * its file says (ELF, DT_NEEDED). It is for a hint: what cannot be told is no
 * MPI.
 */
#ifndef LAUNCHER_CONF_LINKED_H
#define LAUNCHER_CONF_LINKED_H

#include <stdbool.h>

#define LINKED_NAME_MAX 64 /* with NUL */

/*
 * Puts the first MPI library that the program names itself, "libmpi.so.40",
 * into `name`. False, and `name` is "": it names none, loads it later (as
 * Python does), is no ELF file of this machine's word size and byte order, or
 * cannot be read. Reads a regular file only, and a bounded part of it, so that
 * it does not wait.
 */
bool linked_mpi(const char *path, char name[LINKED_NAME_MAX]);

#endif
