/*
 * The three programs of a first MPI lesson in one, and the ways in which rank 1
 * fails in them: mpi_basics HOW. In the first round rank 1 does as HOW says, in
 * each later one all is well:
 *   well      all is well from the start
 *   exit      exits with 5 before MPI_Init
 *   kill      is killed after MPI_Init
 *   early     ends with 0 after MPI_Init, without MPI_Finalize
 *   abort     calls MPI_Abort with 42
 *   junk      writes what is no PMI to its descriptor
 * Rank 0 prints what it computed. Whoever waits for rank 1 waits for ever.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX 64

static int rank, size;

static void fail_as(const char *how)
{
    const char *fd = getenv("PMI_FD");
    if (strcmp(how, "kill") == 0)
        (void)raise(SIGKILL);
    if (strcmp(how, "early") == 0)
        _exit(0);
    if (strcmp(how, "abort") == 0)
        (void)MPI_Abort(MPI_COMM_WORLD, 42);
    if (strcmp(how, "junk") == 0 && write(atoi(fd), "hello\n", 6) != 6)
        _exit(99);
    (void)pause();
}

/* A number goes around the ring, and each rank adds its own. */
static int send_around(void)
{
    int sum = 0;
    if (size == 1)
        return 0;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (rank > 0)
        MPI_Recv(&sum, 1, MPI_INT, before, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    sum += rank;
    MPI_Send(&sum, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(&sum, 1, MPI_INT, before, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return sum;
}

static double gather_average(void)
{
    double own = rank * 1.5, all[RANKS_MAX], sum = 0;
    MPI_Gather(&own, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        sum += all[i];
    return sum / size;
}

/* What MPI_Comm_spawn returns is an error, and no more. */
static int spawn_fails(void)
{
    MPI_Comm children;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    return MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                          MPI_COMM_SELF, &children,
                          MPI_ERRCODES_IGNORE) != MPI_SUCCESS;
}

int main(int argc, char *argv[])
{
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT");
    const char *how = argc > 1 && strcmp(attempt, "0") == 0 ? argv[1] : "well";
    int seen = 0;
    if (strcmp(how, "exit") == 0 && strcmp(getenv("RANK"), "1") == 0)
        return 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(how, "well") != 0 && rank == 1)
        fail_as(how);
    int sum = send_around();
    int sent = rank == 0 ? 4711 : 0;
    MPI_Bcast(&sent, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Reduce(&sent, &seen, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    double average = gather_average();
    int refused = rank == 0 ? spawn_fails() : 0;
    if (rank == 0)
        printf("attempt %s: sum %d, broadcast %d, average %g, of %d; "
               "spawn %s\n",
               attempt, sum, seen, average, size,
               refused ? "refused" : "not refused");
    MPI_Finalize();
    return 0;
}
