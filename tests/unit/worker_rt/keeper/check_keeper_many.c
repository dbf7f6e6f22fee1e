/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} */
/* libs: -luv -lcjson -lxxhash -Wl,--wrap=strcmp */
/*
 * Snapshots of many tensors: ten times as many may cost about ten times as
 * much, not a hundred times.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define FEW  3000
#define MANY 30000

/* How many names libddp has compared, in any thread. */
static atomic_size_t compared;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b)
{
    compared++;
    return __real_strcmp(a, b);
}

static char names[MANY][40];
static float values[MANY];
static struct ddp_tensor tensors[MANY];

/* In an order that is not that of the names. */
static void shape(size_t n, bool filled)
{
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "layer.%zu.weight",
                       i * 7919 % n); /* fits */
        values[i] = filled ? (float)i : -1.0f;
        tensors[i] = (struct ddp_tensor){names[i], DDP_F32, 1, {1}, &values[i]};
    }
}

/* Saves n tensors and loads them; how many names the load compares. */
static size_t load_costs(struct worker *w, int64_t step, size_t n)
{
    shape(n, true);
    RT_OK(ddp_keeper_save(w->k, step, tensors, n, NULL, 0, true, &w->e), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    shape(n, false);
    compared = 0;
    int64_t began = mono_now_us();
    RT_OK(ddp_keeper_load(w->k, tensors, n, NULL, 0, &w->info, &w->e), w->e);
    printf("check_keeper_many: %zu tensors: %zu comparisons, %.1f ms\n", n,
           compared, (double)(mono_now_us() - began) / 1e3);
    for (size_t i = 0; i < n; i++)
        ck_assert(values[i] == (float)i);
    return compared;
}

/* A load once searched the caller's array for each tensor of the file. */
TEST(test_keeper_load_of_many_tensors_is_not_quadratic)
{
    in_round(INSTANCE, 1);
    with_memory(false);
    struct worker *w = worker_start(&on_disk);
    size_t few = load_costs(w, 1, FEW);
    size_t many = load_costs(w, 2, MANY);
    worker_stop(w);
    ck_assert_uint_gt(few, FEW); /* they are counted */
    ck_assert_msg(many < 20 * few, "%zu and %zu comparisons", few, many);
}

SUITE("keeper_many", "many", .limit_s = 60, FIXTURE(keeper_place, keeper_leave))
