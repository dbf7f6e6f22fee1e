/*
 * One rank: writes when it is back from MPI_Init, in ns of CLOCK_MONOTONIC, as
 * a line to the file in its first argument.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
    char line[32];
    struct timespec at;
    MPI_Init(&argc, &argv);
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    int len = snprintf(line, sizeof(line), "%lld%09ld\n", (long long)at.tv_sec,
                       at.tv_nsec);
    int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    int rc = write(fd, line, (size_t)len) == len ? 0 : 1;
    MPI_Finalize();
    return rc;
}
