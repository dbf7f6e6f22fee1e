#include "launcher/mpi/pmix_folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#define FTW_FDS 16

void pmix_folder_make(char path[PMIX_FOLDER_MAX])
{
    (void)snprintf(path, PMIX_FOLDER_MAX, "/dev/shm/ddprun-mpi-XXXXXX");
    if (mkdtemp(path) == NULL)
        path[0] = '\0';
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    if (at->level > 0)
        (void)remove(path); /* the janitor tries again */
    return 0;
}

void pmix_folder_empty(const char *path)
{
    if (path[0] != '\0') /* through no link, into no other file system */
        (void)nftw(path, remove_one, FTW_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
