/*
 * The names of the libraries that a program needs stand in its file as texts
 * with a NUL before and behind, near the beginning (elf(5), .dynstr). So does
 * the name of one that it loads itself (dlopen), which is as good for a hint.
 */
#include "launcher/conf/linked.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MAX (1024 * 1024) /* bytes of the file */

/* MPICH's and its kin's, and Open MPI's; also those of C++ and Fortran, which a
 * program may name alone. */
static bool is_mpi(const char *name)
{
    static const char *const begins[] = {"libmpi.so", "libmpi_", "libmpich",
                                         "libmpifort.so", "libmpicxx.so"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

static bool
find_mpi(const char *at, const char *end, char name[LINKED_NAME_MAX])
{
    while ((at = memmem(at, (size_t)(end - at), "\0libmpi", 7)) != NULL) {
        at++;
        size_t n = strnlen(at, (size_t)(end - at));
        if (at + n < end && n < LINKED_NAME_MAX && is_mpi(at)) {
            memcpy(name, at, n + 1);
            return true;
        }
    }
    return false;
}

bool linked_mpi(const char *path, char name[LINKED_NAME_MAX])
{
    char *file = malloc(LOOK_MAX);
    struct stat st;
    ssize_t len = 0;
    name[0] = '\0';
    /* What turns out to be a FIFO or a terminal is not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file != NULL && fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        len = pread(fd, file, LOOK_MAX, 0);
    if (fd >= 0)
        (void)close(fd); /* read side, nothing to lose */
    bool found = len > SELFMAG && memcmp(file, ELFMAG, SELFMAG) == 0 &&
                 find_mpi(file, file + len, name);
    free(file);
    return found;
}
