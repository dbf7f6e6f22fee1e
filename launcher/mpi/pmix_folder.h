/*
 * launcher/mpi/pmix_folder: the folder of a launch for what Open MPI's ranks
 * share: the files in which their common memory is, and their session folders.
 * Ranks that are killed leave these, and some that end well do. It is below
 * /dev/shm, so that the memory is memory.
 */
#ifndef LAUNCHER_MPI_PMIX_FOLDER_H
#define LAUNCHER_MPI_PMIX_FOLDER_H

#define PMIX_FOLDER_MAX 32

/* Makes it, for its user only. "": it cannot be made, and Open MPI chooses
 * where its files are. */
void pmix_folder_make(char path[PMIX_FOLDER_MAX]);

/* Removes all that is in it, if the path is not "". */
void pmix_folder_empty(const char *path);

#endif
