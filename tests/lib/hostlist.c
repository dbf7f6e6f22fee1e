/* links: launcher/cluster/hostlist rendezvous/base/err */
/* Prints the hosts of Slurm's list in argv[1], a line each. */
#include <stdio.h>

#include "launcher/cluster/hostlist.h"

static bool print(void *ctx, const char *name)
{
    return fprintf(ctx, "%s\n", name) > 0;
}

int main(int argc, char *argv[])
{
    struct ddp_err err = {.text = "usage: hostlist LIST"};
    if (argc == 2 && hostlist_walk(argv[1], print, stdout, &err) > 0)
        return fflush(stdout) == 0 ? 0 : 1;
    fprintf(stderr, "hostlist: %s\n", err.text);
    return 1;
}
