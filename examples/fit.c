/*
 * A program on libddp: all ranks fit y = a x + b to the same line, each on its
 * own samples, and go on where they were when one of them is killed.
 *
 *     cc fit.c $(pkg-config --cflags --libs ddp) -o fit
 *     ddprun --standalone --nproc_per_node=4 --max_restarts=3 ./fit
 */
#include <ddp.h>
#include <stdio.h>
#include <stdlib.h>

static struct ddp_error err;

static void check(int ok)
{
    if (ok)
        return;
    fprintf(stderr, "fit: %s\n", err.text);
    exit(err.code); /* ddprun knows what it means */
}

int main(void)
{
    float w[2] = {0, 0}; /* a and b */
    struct ddp_tensor state = {"w", DDP_F32, 1, {2}, w};
    struct ddp_keeper_conf keep = {.size = sizeof(keep),
                                   .folder = "fit.snapshots"};
    struct ddp_kept kept = {.size = sizeof(kept)};
    struct ddp *d = ddp_init(&err);
    check(d != NULL);
    struct ddp_comm *comm = ddp_comm_new(d, NULL, &err);
    check(comm != NULL);
    struct ddp_keeper *k = ddp_keeper_new(d, comm, &keep, &err);
    check(k != NULL);

    if (ddp_keeper_load(k, &state, 1, NULL, 0, &kept, &err) != 0)
        check(err.code == DDP_ERR_NOINPUT); /* none yet: a fresh start */
    int world = ddp_world(d);
    for (int step = (int)kept.step + 1; step <= 2000; step++) {
        float x = (float)((step * world + ddp_rank(d)) % 100) / 100;
        float diff = w[0] * x + w[1] - (3 * x + 1);
        /* The gradient of this rank's sample becomes the average of all ranks;
         * and if any rank was asked to stop, all of them do. */
        float grad[2] = {diff * x, diff};
        int32_t stop = ddp_should_stop(d) != DDP_STOP_NO;
        check(ddp_comm_all_reduce(comm, grad, grad, 2, DDP_F32, DDP_AVG,
                                  &err) == 0);
        check(ddp_comm_all_reduce(comm, &stop, &stop, 1, DDP_I32, DDP_MAX,
                                  &err) == 0);
        for (int i = 0; i < 2; i++)
            w[i] -= 0.4f * grad[i];
        ddp_beat(d, step);
        /* To memory at each step, to the disk at some. A full disk is no reason
         * to end. */
        if (ddp_keeper_save(k, step, &state, 1, NULL, 0,
                            stop || step % 500 == 0, &err) != 0)
            fprintf(stderr, "fit: going on: %s\n", err.text);
        if (stop)
            break;
    }
    check(ddp_keeper_wait(k, &err) == 0);
    if (ddp_rank(d) == 0)
        printf("y = %.1f x + %.1f\n", (double)w[0], (double)w[1]);
    ddp_keeper_free(k);
    ddp_comm_free(comm);
    ddp_free(d);
    return 0;
}
