/*
 * A program on libddp that sleeps for its part of each step, and then meets the
 * other ranks: sleepers MS. The rank whose number is in the file `slow` sleeps
 * longer by as many percent as stand behind it. All end when there is a file
 * `enough`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "worker_rt/ddp.h"

static struct ddp_error e;

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "sleepers: %s: %s\n", what, e.text);
    exit(e.code == 0 ? 1 : e.code);
}

/* By how many percent this rank is slower now. */
static long lag(int rank)
{
    int slow = -1;
    long percent = 0;
    FILE *f = fopen("slow", "re");
    if (f == NULL)
        return 0;
    int n = fscanf(f, "%d %ld", &slow, &percent);
    (void)fclose(f); /* read only */
    return n == 2 && slow == rank ? percent : 0;
}

static void sleep_us(long us)
{
    const struct timespec t = {.tv_sec = us / 1000000,
                               .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&t, NULL); /* a signal ends it: no harm */
}

int main(int argc, char **argv)
{
    long part_us = argc == 2 ? 1000 * strtol(argv[1], NULL, 10) : 0;
    struct ddp *d = ddp_init(&e);
    check(d == NULL ? -1 : 0, "no place");
    struct ddp_comm *comm = ddp_comm_new(d, NULL, &e);
    check(comm == NULL ? -1 : 0, "no communicator");
    uint8_t enough = 0;
    for (int64_t step = 0; enough == 0; step++) {
        sleep_us(part_us + part_us * lag(ddp_rank(d)) / 100);
        enough = access("enough", F_OK) == 0;
        check(
            ddp_comm_all_reduce(comm, &enough, &enough, 1, DDP_U8, DDP_MAX, &e),
            "all-reduce");
        ddp_beat(d, step);
    }
    ddp_comm_free(comm);
    ddp_free(d);
    return 0;
}
