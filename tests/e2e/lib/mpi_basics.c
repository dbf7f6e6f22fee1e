/*
 * The three programs of a first MPI lesson in one, and the ways in which the
 * last rank fails in them: mpi_basics HOW. In the first round it does as HOW
 * says, in each later one all is well:
 *   well        all is well from the start
 *   exit        exits with 5 before MPI_Init
 *   absent      ends with 0 before MPI_Init
 *   never       waits for ever before MPI_Init
 *   kill        is killed after MPI_Init
 *   collective  is killed while the others wait for it in a collective
 *   early       ends with 0 after MPI_Init, without MPI_Finalize
 *   abort       calls MPI_Abort with 42
 *   junk        writes what is no PMI to its descriptor
 *   late        exits with 3 after MPI_Finalize
 *   loop        all ranks send around for ever
 *   spawn       all is well, and rank 0 calls MPI_Comm_spawn
 *   reduce N    N all-reduces of one number, in each round, and rank 0 prints
 *               the ms that they took
 * Rank 0 prints what it computed, and whether all ranks found those of their
 * node by MPI as the environment says. Whoever waits for one that failed waits
 * for ever.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX  64
#define COLLECT_US 100000 /* in which the others come into the collective */

static const char *how = "well";
static int rank, size;

static bool is_how(const char *what)
{
    return strcmp(how, what) == 0;
}

static int number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? -1 : atoi(text);
}

static void fail_before_init(void)
{
    if (is_how("exit"))
        _exit(5);
    if (is_how("absent"))
        _exit(0);
    if (is_how("never"))
        (void)pause();
}

static void fail_after_init(void)
{
    if (is_how("collective"))
        (void)usleep(COLLECT_US);
    if (is_how("kill") || is_how("collective"))
        (void)raise(SIGKILL);
    if (is_how("early"))
        _exit(0);
    if (is_how("abort"))
        (void)MPI_Abort(MPI_COMM_WORLD, 42);
    if (is_how("junk") && write(number("PMI_FD"), "hello\n", 6) != 6)
        _exit(99);
    if (is_how("abort") || is_how("junk"))
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

static int broadcast(void)
{
    int sent = rank == 0 ? 4711 : 0, seen = 0;
    MPI_Bcast(&sent, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Reduce(&sent, &seen, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    return seen;
}

static double gather_average(void)
{
    double own = rank * 1.5, all[RANKS_MAX], sum = 0;
    MPI_Gather(&own, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        sum += all[i];
    return sum / size;
}

/* How many ranks do not share memory with those of their node, and no others.
 */
static int misplaced(void)
{
    MPI_Comm node;
    int node_rank, node_size, seen = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_free(&node);
    int wrong = rank != number("RANK") || size != number("WORLD_SIZE") ||
                node_rank != number("LOCAL_RANK") ||
                node_size != number("LOCAL_WORLD_SIZE");
    MPI_Reduce(&wrong, &seen, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    return seen;
}

/* What MPI_Comm_spawn returns is an error, and no more. */
static void show_spawn(void)
{
    MPI_Comm children;
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int rc = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                            MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    if (rc == MPI_SUCCESS) {
        printf("a spawn was not refused\n");
        return;
    }
    MPI_Error_string(rc, text, &len);
    printf("spawn: %s\n", text);
}

/* A round that lasts until it is ended from outside. */
static void loop_for_ever(void)
{
    for (;;) {
        int sum = send_around();
        if (rank == 0) {
            printf("around: %d\n", sum);
            (void)fflush(stdout);
            (void)usleep(10000);
        }
    }
}

static void reduce(int count)
{
    double own = 1, all = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < count; i++)
        MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d of %d, %.1f ms\n", (int)all, size,
               (MPI_Wtime() - began) * 1000);
}

static void compute(void)
{
    int sum = send_around();
    int seen = broadcast();
    double average = gather_average();
    int wrong = misplaced();
    if (rank > 0)
        return;
    printf("round %d: sum %d, broadcast %d, average %g, of %d, "
           "%d in the wrong place\n",
           number("DDP_ROUND"), sum, seen, average, size, wrong);
    if (is_how("spawn"))
        show_spawn();
}

int main(int argc, char *argv[])
{
    bool last = number("RANK") == number("WORLD_SIZE") - 1;
    if (argc > 1 && number("DDP_ROUND") <= 1)
        how = argv[1];
    if (last)
        fail_before_init();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (last)
        fail_after_init();
    if (is_how("loop"))
        loop_for_ever();
    if (is_how("reduce"))
        reduce(argc > 2 ? atoi(argv[2]) : 0);
    else
        compute();
    MPI_Finalize();
    return last && is_how("late") ? 3 : 0;
}
