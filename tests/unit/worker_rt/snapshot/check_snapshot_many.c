/* links: tests/lib/scratch */
/* links: worker_rt/snapshot/{snapshot,load,save,image,atomic_file} */
/* links: worker_rt/snapshot/safetensors */
/* links: worker_rt/{env,proof,death_sign,fork,abi} worker_rt/comm/reduce */
/* links: rendezvous/base/{utf8,dial,err,mono,rng,buf,json} */
/* links: rendezvous/client/store rendezvous/proto/c10d */
/* libs: -lcjson -lxxhash -Wl,--wrap=strcmp */
/*
 * Snapshots of many tensors: ten times as many may cost about ten times as
 * much, not a hundred times.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define FEW  3000
#define MANY 30000

/* How many names libddp has compared. */
static size_t compared;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b)
{
    compared++;
    return __real_strcmp(a, b);
}

static struct ddp *d;

static void make_dir(void)
{
    scratch_enter();
    ck_assert_int_eq(unsetenv("RANK"), 0);
    ck_assert_int_eq(unsetenv("WORLD_SIZE"), 0);
    d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
}

static void drop_dir(void)
{
    ddp_free(d);
    scratch_leave();
}

/* -- many small tensors ---------------------------------------------------- */

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
static size_t load_costs(size_t n)
{
    struct ddp_error e;
    shape(n, true);
    ck_assert_msg(ddp_snapshot_save(d, "s", tensors, n, NULL, 0, &e) == 0, "%s",
                  e.text);
    shape(n, false);
    compared = 0;
    int64_t began = mono_now_us();
    ck_assert_msg(ddp_snapshot_load(d, "s", tensors, n, NULL, 0, NULL, &e) == 0,
                  "%s", e.text);
    printf("check_snapshot_many: %zu tensors: %zu comparisons, %.1f ms\n", n,
           compared, (double)(mono_now_us() - began) / 1e3);
    for (size_t i = 0; i < n; i++)
        ck_assert(values[i] == (float)i);
    return compared;
}

/* The load searched the caller's array for each tensor of the file. */
TEST(test_snapshot_load_of_many_tensors_is_not_quadratic)
{
    size_t few = load_costs(FEW);
    size_t many = load_costs(MANY);
    ck_assert_uint_gt(few, FEW); /* they are counted */
    ck_assert_msg(many < 20 * few, "%zu and %zu comparisons", few, many);
}

SUITE("snapshot_many", "many", .limit_s = 60, FIXTURE(make_dir, drop_dir))
