/*
 * A program on libddp all of whose ranks meet in a barrier again and again, but
 * for one that does not come to the third.
 *
 * usage: away RANK HOW     HOW: stop (SIGSTOP), nap, compute, read (stdin); no
 *                          rank of that number: all wait for a key in the store
 *                          that nobody sets
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker_rt/ddp.h"

static void nap(void)
{
    (void)sleep(1000);
}

static void compute(void)
{
    for (volatile unsigned n = 0;; n = n + 1)
        ;
}

static void stay_away(const char *how)
{
    int pipes[2];
    char byte;
    if (strcmp(how, "stop") == 0)
        (void)raise(SIGSTOP);
    else if (strcmp(how, "nap") == 0)
        nap();
    else if (strcmp(how, "compute") == 0)
        compute();
    else if (pipe(pipes) == 0)
        (void)!read(pipes[0], &byte, 1);
}

int main(int argc, char **argv)
{
    struct ddp_error err = {0};
    struct ddp *d = argc == 3 ? ddp_init(&err) : NULL;
    struct ddp_comm *c = d != NULL ? ddp_comm_new(d, NULL, &err) : NULL;
    if (c == NULL) {
        (void)fprintf(stderr, "away: %s\n", err.text);
        return 1;
    }
    int away = atoi(argv[1]);
    for (int i = 0; ddp_comm_barrier(c, &err) == 0; i++) {
        if (i == 2 && away == ddp_rank(d))
            stay_away(argv[2]);
        if (i == 2 && away >= ddp_world(d))
            (void)ddp_store_wait(d, "never", -1, &err);
    }
    (void)fprintf(stderr, "away: %s\n", err.text);
    return err.code;
}
