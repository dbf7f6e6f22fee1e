/*
 * How long a save keeps a program waiting, and how fast it gets to the disk: a
 * state of so many MB, saved so many times; beside it a copy of the state
 * within memory. With `later` the program computes for STEP_MS after the save,
 * as a step of training does, before it settles: what it waits is the sum of
 * both calls. A line of all times in ms for each, for tests/bench/snapshot/run.
 * usage: save MB TIMES FOLDER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/snapshot/common.h"
#include "tests/lib/snapshot_memory.h"
#include "worker_rt/ddp.h"

#define TENSORS 16
#define STEP_MS 1000 /* short for a model of 1.5 GB */

/* Keeps this core busy, and not its memory. */
static void compute(double ms)
{
    volatile float x = 1.0f;
    for (double end = now_ms() + ms; now_ms() < end;)
        for (int i = 0; i < 10000; i++)
            x = x * 1.0001f + 0.5f;
}

static void print(const char *name, const double *values, int n)
{
    printf("%s", name);
    for (int i = 0; i < n; i++)
        printf(" %.3f", values[i]);
    printf("\n");
}

static void run(const char *name,
                struct ddp_tensor *t,
                int times,
                const struct ddp_keeper_conf *given)
{
    double stall[64], whole[64];
    struct ddp_keeper_conf conf = *given;
    struct ddp *d = ddp_init(&err);
    struct ddp_comm *comm = d == NULL ? NULL : ddp_comm_new(d, NULL, &err);
    check(comm == NULL ? -1 : 0);
    struct ddp_keeper *k = ddp_keeper_new(d, comm, &conf, &err);
    check(k == NULL ? -1 : 0);
    for (int i = 0; i < times + 3; i++) { /* three to touch all slots */
        int n = i < 3 ? 0 : i - 3;
        double begin = now_ms();
        check(ddp_keeper_save(k, i, t, TENSORS, NULL, 0, true, &err));
        stall[n] = now_ms() - begin;
        if (conf.later && i >= 3) {
            compute(STEP_MS);
            double computed = now_ms();
            ddp_keeper_settle(k);
            stall[n] += now_ms() - computed;
        }
        check(ddp_keeper_wait(k, &err));
        whole[n] = now_ms() - begin;
    }
    printf("%s_", name);
    print("stall", stall, times);
    if (!conf.later) { /* the disk was ready before we were */
        printf("%s_", name);
        print("disk", whole, times);
    }
    ddp_keeper_free(k);
    ddp_comm_free(comm);
    ddp_free(d);
}

int main(int argc, char *argv[])
{
    double mb = argc == 4 ? atof(argv[1]) : 0;
    int times = argc == 4 ? atoi(argv[2]) : 0;
    if (mb < 1 || times < 1 || times > 60) {
        fputs("usage: save MB TIMES FOLDER\n", stderr);
        return 2;
    }
    char names[TENSORS][8];
    struct ddp_tensor t[TENSORS];
    uint64_t each = (uint64_t)(mb * 1e6 / TENSORS / 4);
    for (int i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%d", i);
        t[i] = (struct ddp_tensor){names[i], DDP_F32, 1, {each}, NULL};
        t[i].data = malloc(each * 4);
        if (t[i].data == NULL)
            return 1;
        memset(t[i].data, i + 1, each * 4);
    }
    double copy[64];
    uint8_t *to = malloc(each * 4);
    for (int i = 0; to != NULL && i < times + 1; i++) {
        double begin = now_ms();
        for (int k = 0; k < TENSORS; k++)
            memcpy(to, t[k].data, each * 4);
        copy[i < 1 ? 0 : i - 1] = now_ms() - begin;
    }
    print("memcpy", copy, times);
    if (snapshot_memory_give((uint64_t)(mb * 1e6 * 3.2) + (1 << 20)) != 0)
        return 1;
    const char *folder = argv[3];
    struct ddp_keeper_conf conf[] = {{.folder = folder},
                                     {.folder = folder, .no_memory = true},
                                     {.folder = folder, .later = true}};
    run("launcher", t, times, &conf[0]);
    run("own", t, times, &conf[1]);
    run("later", t, times, &conf[2]);
    return 0;
}
