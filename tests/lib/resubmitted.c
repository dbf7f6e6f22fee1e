/*
 * A program on libddp that its scheduler submits again and again: it takes up
 * the step of the snapshot in the folder `kept`, saves the next one there if
 * there is a file `works`, and fails with 7.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker_rt/ddp.h"

static struct ddp_error e;

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "resubmitted: %s: %s\n", what, e.text);
    exit(e.code == 0 ? 1 : e.code);
}

int main(void)
{
    int64_t state = 0;
    struct ddp_kept kept = {.size = sizeof(kept)};
    struct ddp *d = ddp_init(&e);
    check(d == NULL ? -1 : 0, "no place");
    struct ddp_comm *comm = ddp_comm_new(d, NULL, &e);
    check(comm == NULL ? -1 : 0, "no communicator");
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .folder = "kept"};
    struct ddp_keeper *k = ddp_keeper_new(d, comm, &conf, &e);
    check(k == NULL ? -1 : 0, "no keeper");
    const struct ddp_tensor t = {"state", DDP_I64, 1, {1}, &state};
    int rc = ddp_keeper_load(k, &t, 1, NULL, 0, &kept, &e);
    check(rc != 0 && e.code != DDP_ERR_NOINPUT ? -1 : 0, "no load");
    printf("at step %lld\n", rc == 0 ? (long long)kept.step : -1);
    (void)fflush(stdout); /* the launcher may stop it before it ends */
    if (access("works", F_OK) == 0) {
        check(ddp_keeper_save(k, rc == 0 ? kept.step + 1 : 0, &t, 1, NULL, 0,
                              true, &e),
              "no save");
        check(ddp_keeper_wait(k, &e), "no save");
    }
    check(ddp_comm_barrier(comm, &e), "no barrier");
    return 7; /* the kernel frees all that there is */
}
