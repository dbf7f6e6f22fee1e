/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} */
/* libs: -luv -lcjson -lxxhash */
/*
 * A program that does not know what is in a snapshot gets the tensors where it
 * says.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

/* Room for some of the tensors, by name; and what was asked. */
struct rooms {
    const char *skipped; /* the name of one without room */
    int asked;
    float *big;
    int64_t small[SMALL];
};

static void *place_some(void *ctx, const struct ddp_tensor *t)
{
    struct rooms *r = ctx;
    r->asked++;
    RT_CHECK(t->data == NULL);
    if (r->skipped != NULL && strcmp(t->name, r->skipped) == 0)
        return NULL;
    if (strcmp(t->name, "big") == 0) {
        RT_CHECK(t->dtype == DDP_F32 && t->dims == 2 &&
                 t->shape[0] == ELEMS / 2 && t->shape[1] == 2);
        free(r->big);
        r->big = malloc((size_t)ddp_tensor_len(t));
        RT_CHECK(r->big != NULL);
        return r->big;
    }
    RT_CHECK(strcmp(t->name, "small") == 0 && t->dtype == DDP_I64 &&
             t->dims == 1 && t->shape[0] == SMALL);
    return r->small;
}

/* One has the snapshot; all get what they ask for, and each may ask for
 * something else. */
static int load_parts(int rank, void *arg)
{
    char text[16];
    struct rooms r = {.skipped = rank == 1 ? "big" : "small"};
    struct ddp_kv kv = {.key = "step"};
    (void)arg;
    (void)snprintf(text, sizeof(text), "%d", rank); /* fits */
    RT_CHECK(setenv("LOCAL_RANK", "0", 1) == 0);
    RT_CHECK(setenv("LOCAL_WORLD_SIZE", "1", 1) == 0);
    RT_CHECK(setenv("GROUP_RANK", text, 1) == 0);
    struct worker *w = worker_start(&on_disk);
    RT_OK(worker_save(w, 5, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    RT_OK(ddp_comm_barrier(w->comm, &w->e), w->e);
    RT_OK(ddp_keeper_load_into(w->k, place_some, &r, &kv, 1, &w->info, &w->e),
          w->e);
    RT_CHECK(w->info.step == 5 && strcmp(kv.value, "5") == 0 && r.asked == 2);
    RT_CHECK(r.small[1] == (rank == 1 ? 5001 : 0));
    RT_CHECK((r.big != NULL && r.big[1] == 36.0f) == (rank != 1));
    free(r.big);
    worker_stop(w);
    return 0;
}

TEST(test_keeper_load_into_asks_each_rank)
{
    rt_world_run(3, load_parts, NULL, 10000);
}

SUITE("keeper_into", "all", .limit_s = 60, FIXTURE(keeper_place, keeper_leave))
