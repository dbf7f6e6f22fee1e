/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} */
/* libs: -luv -lcjson -lxxhash -Wl,--wrap=calloc */
/*
 * What a rank has for itself comes back with the snapshot that it was saved
 * with: to that rank, and to any other that asks.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define MAX 24

/* There is no memory for rows of MAX bytes. */
static bool scarce;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return scarce && size == sizeof(uint64_t) + MAX ? NULL
                                                    : __real_calloc(n, size);
}

static void be_node(int rank)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", rank); /* fits */
    RT_CHECK(setenv("LOCAL_RANK", "0", 1) == 0);
    RT_CHECK(setenv("LOCAL_WORLD_SIZE", "1", 1) == 0);
    RT_CHECK(setenv("GROUP_RANK", text, 1) == 0);
}

static struct worker *start_node(int rank, size_t max, bool later)
{
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .folder = "s",
                                         .later = later,
                                         .rank_state_max = max};
    be_node(rank);
    return worker_start(&conf);
}

static void set(struct worker *w, const char *word, int rank, int step)
{
    char text[MAX + 1];
    (void)snprintf(text, sizeof(text), "%s %d %d", word, rank, step); /* fits */
    RT_OK(ddp_keeper_set_rank_state(w->k, text, strlen(text), &w->e), w->e);
}

static bool has(const struct worker *w, int rank, const char *wanted)
{
    size_t len = 99;
    const void *state = ddp_keeper_rank_state(w->k, rank, &len);
    if (wanted == NULL)
        return state == NULL && len == 0;
    return state != NULL && len == strlen(wanted) &&
           memcmp(state, wanted, len) == 0;
}

/* Steps 1 to 3; rank 1 has no state in step 2, and none that is empty. */
static int save_states(int rank, void *arg)
{
    const bool *later = arg;
    struct worker *w = start_node(rank, MAX, *later);
    RT_CHECK(has(w, rank, NULL)); /* nothing was loaded */
    for (int step = 1; step <= 3; step++) {
        if (rank == 0 || step == 3)
            set(w, "rank", rank, step);
        if (rank == 2)
            RT_OK(ddp_keeper_set_rank_state(w->k, NULL, 0, &w->e), w->e);
        RT_OK(worker_save(w, step, true), w->e);
        set(w, "later", rank, step); /* of the next save */
        if (rank == 1 && step == 1)
            set(w, "only", 5, 0);
    }
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    worker_stop(w);
    return 0;
}

static int load_states(int rank, void *arg)
{
    (void)arg;
    struct worker *w = start_node(rank, MAX + 8, false);
    RT_CHECK(worker_load(w) == 3);
    RT_CHECK(has(w, 0, "rank 0 3") && has(w, 1, "rank 1 3"));
    RT_CHECK(has(w, 2, "") && has(w, 3, NULL) && has(w, -1, NULL));
    worker_stop(w);
    return 0;
}

/* On as many ranks as saved it, and on fewer; with another maximum. */
TEST_LOOP(test_keeper_state_of_each_rank_comes_back, 0, 2)
{
    bool later = _i == 1;
    in_round(INSTANCE, 1);
    rt_world_run(3, save_states, &later, 10000);
    rt_world_run(3, load_states, NULL, 10000);
    rt_world_run(2, load_states, NULL, 10000);
}

/* The newest is damaged: the states are those of the one before. A rank that
 * had set none has none. */
TEST(test_keeper_state_is_that_of_what_was_loaded)
{
    bool later = false;
    in_round(INSTANCE, 1);
    rt_world_run(3, save_states, &later, 10000);
    damage_file("s/step-000000000003.r1.01234567/"
                "shard-00001-of-00003.safetensors",
                13000);
    struct worker *w = start_node(0, MAX, false);
    ck_assert_int_eq(worker_load(w), 2);
    ck_assert(has(w, 0, "rank 0 2") && has(w, 1, "only 5 0"));
    worker_stop(w);
}

/* A keeper without them saves and loads as before, and a load without them
 * leaves none of the load before. */
TEST(test_keeper_state_is_not_needed)
{
    in_round(INSTANCE, 1);
    struct worker *w = start_node(0, 0, false);
    struct ddp_error e;
    ck_assert_int_eq(ddp_keeper_set_rank_state(w->k, "x", 1, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    RT_OK(worker_save(w, 8, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    worker_stop(w);
    w = start_node(0, MAX, false);
    ck_assert_int_eq(ddp_keeper_set_rank_state(w->k, "x", MAX + 1, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    ck_assert_int_eq(worker_load(w), 8);
    ck_assert(has(w, 0, NULL));
    set(w, "only", 1, 0);
    RT_OK(worker_save(w, 9, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    ck_assert_int_eq(worker_load(w), 9);
    ck_assert(has(w, 0, "only 1 0"));
    worker_stop(w);
    w = start_node(0, 0, false);
    ck_assert_int_eq(worker_load(w), 9);
    ck_assert(has(w, 0, NULL));
    worker_stop(w);
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .rank_state_max = SIZE_MAX / 2};
    struct ddp *d = rt_init();
    struct ddp_comm *comm = rt_join(d, 0);
    ck_assert_ptr_null(ddp_keeper_new(d, comm, &conf, &e));
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    ddp_comm_free(comm);
    ddp_free(d);
}

/* Rank 2 is a step behind, once. */
static int save_other_steps(int rank, void *arg)
{
    const bool *states = arg;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .folder = "s",
                                         .rank_state_max = *states ? MAX : 0};
    be_node(rank);
    struct worker *w = worker_start(&conf);
    RT_OK(worker_save(w, 5, true), w->e);
    RT_CHECK(worker_save(w, rank == 2 ? 6 : 7, true) == -1);
    RT_CHECK(w->e.code == DDP_ERR_CONFLICT);
    RT_CHECK(strcmp(w->e.text,
                    "the ranks save different steps, from 6 to 7: all ranks "
                    "have to save the same steps") == 0);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    RT_CHECK(worker_load(w) == 5);
    RT_OK(worker_save(w, 8, true), w->e); /* nothing is broken */
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    worker_stop(w);
    return 0;
}

/* Ranks whose steps differed had their parts combined in one snapshot. */
TEST_LOOP(test_keeper_state_of_another_step_is_refused, 0, 2)
{
    bool states = _i == 1;
    in_round(INSTANCE, 1);
    rt_world_run(3, save_other_steps, &states, 10000);
    ck_assert_int_eq(access("s/step-000000000008.r1.01234567", F_OK), 0);
    ck_assert_int_eq(access("s/step-000000000007.r1.01234567", F_OK), -1);
}

static int open_without_memory(int rank, void *arg)
{
    struct ddp_error e;
    const struct ddp_keeper_conf conf = {
        .size = sizeof(conf), .folder = "s", .rank_state_max = MAX};
    (void)arg;
    be_node(rank);
    struct ddp *d = rt_init();
    struct ddp_comm *comm = rt_join(d, 0);
    scarce = rank == 1;
    RT_CHECK(ddp_keeper_new(d, comm, &conf, &e) == NULL);
    RT_CHECK(e.code == DDP_ERR_NOMEM);
    RT_CHECK((strncmp(e.text, "rank 1: ", 8) == 0) == (rank != 1));
    scarce = false;
    struct ddp_keeper *k = ddp_keeper_new(d, comm, &conf, &e);
    RT_OK(k == NULL ? -1 : 0, e); /* nothing is broken */
    ddp_keeper_free(k);
    ddp_comm_free(comm);
    ddp_free(d);
    return 0;
}

/* A rank without memory for the states ends the opening on all of them. */
TEST(test_keeper_state_needs_memory_on_all_ranks)
{
    in_round(INSTANCE, 1);
    rt_world_run(3, open_without_memory, NULL, 10000);
}

/* The newest becomes damaged when it has been found whole, and is being loaded:
 * once its states have a place. */
static void *damage_newest(void *ctx, const struct ddp_tensor *t)
{
    static const char name[] =
        "s/step-000000000002.r1.01234567/shard-00001-of-00001.safetensors";
    static uint64_t room[ELEMS]; /* for any of them */
    int *asked = ctx;
    struct stat st;
    (void)t;
    if ((*asked)++ > 0)
        return room;
    ck_assert_int_eq(stat(name, &st), 0);
    damage_file(name, st.st_size - 1); /* of the states, behind the first */
    return room;
}

/* What is loaded instead has no states: those of the damaged one are no
 * rank's. */
TEST(test_keeper_state_of_a_refused_one_is_forgotten)
{
    int asked = 0;
    struct ddp_kept kept = {.size = sizeof(kept)};
    in_round(INSTANCE, 1);
    struct worker *w = start_node(0, 0, false);
    RT_OK(worker_save(w, 1, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    worker_stop(w);
    w = start_node(0, MAX, false);
    set(w, "only", 0, 2);
    RT_OK(worker_save(w, 2, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    RT_OK(ddp_keeper_load_into(w->k, damage_newest, &asked, NULL, 0, &kept,
                               &w->e),
          w->e);
    ck_assert_int_eq(kept.step, 1);
    ck_assert(has(w, 0, NULL));
    worker_stop(w);
}

/* Notes a tensor that is not the program's. */
static void *note_names(void *ctx, const struct ddp_tensor *t)
{
    int *strange = ctx;
    if (strcmp(t->name, "big") != 0 && strcmp(t->name, "small") != 0)
        (*strange)++;
    return NULL;
}

/* A program that takes all that there is, and has no states of ranks, would
 * take old ones for a tensor of its own, and save them again. */
TEST(test_keeper_states_are_no_tensor_of_the_program)
{
    in_round(INSTANCE, 1);
    for (int i = 0; i < 2; i++) {
        int strange = 0;
        struct worker *w = start_node(0, i == 0 ? MAX : 0, false);
        if (i == 0) {
            set(w, "only", 0, 1);
            RT_OK(worker_save(w, 1, true), w->e);
            RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
        }
        RT_OK(ddp_keeper_load_into(w->k, note_names, &strange, NULL, 0, NULL,
                                   &w->e),
              w->e);
        ck_assert_int_eq(strange, 0);
        worker_stop(w);
    }
}

SUITE("keeper_state", "all", .limit_s = 60, FIXTURE(keeper_place, keeper_leave))
