/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper,rt_savers} */
/* libs: -luv -lcjson -lxxhash -pthread */
/* libs: -Wl,--wrap=commit_say,--wrap=commit_hear,--wrap=image_hash_begin */
/* libs: -Wl,--wrap=mem_slots_label,--wrap=pieces_survey */
/*
 * Each rank saves pieces of its own: what lies in the memory of the nodes after
 * a rank has died at any moment, is each piece stored once on a node, and what
 * do ranks do that do not agree?
 */
#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_savers.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/keeper/keeper.h"
#include "worker_rt/rt.h"

#define STEPS 6

/* -- memory ---------------------------------------------------------------- */

/* All variants of a save: the last step is there, whole, and so is the one
 * before. What ranks have is compared once as long as it stays. */
TEST_LOOP(test_pieces_are_saved_by_their_ranks, 0, 8)
{
    const struct story s = {.first = 1,
                            .last = STEPS,
                            .later = (_i & 1) != 0,
                            .states = (_i & 2) != 0,
                            .swaps = (_i & 4) != 0};
    pieces_run(rank_train, &s, 1);
    ck_assert_int_eq(pieces_newest(1), STEPS);
    ck_assert_int_eq(pieces_surveys(), s.swaps ? 2 : 1);
    struct found f = {0};
    for (int r = 0; r < RANKS; r++)
        ck_assert(pieces_find(memory_fd, r, RANKS, 1, STEPS - 1, &f));
    ck_assert_int_eq(f.states, s.states ? 1 : 0);
}

/* Wherever a rank dies, the step before is whole, and the step itself once its
 * label is there. */
TEST_LOOP(test_pieces_outlive_a_rank_that_dies, 0, 10)
{
    const struct story s = {.point = BEFORE_WORDS + (enum point)(_i % 5),
                            .dies = (_i * 3) % RANKS,
                            .at = 4,
                            .first = 1,
                            .last = STEPS,
                            .later = _i >= 5};
    pieces_run(rank_train, &s, 1);
    ck_assert_int_eq(pieces_newest(1), s.point == AFTER_LABEL ? 4 : 3);
}

/* A rank dies in the first save of each later round, when others have sealed
 * theirs already: no round takes the slot with what is whole. */
TEST(test_pieces_outlive_rounds_that_end_in_their_first_save)
{
    const struct story first = {
        .point = BEFORE_LABEL, .dies = 1, .at = 3, .first = 1, .last = STEPS};
    pieces_run(rank_train, &first, 1);
    ck_assert_int_eq(pieces_newest(1), 2);
    for (int round = 2; round < 6; round++) {
        const struct story again = {.point = BEFORE_LABEL,
                                    .dies = round % RANKS,
                                    .at = 3,
                                    .first = 3,
                                    .last = STEPS};
        pieces_run(rank_train, &again, round);
        ck_assert_int_eq(pieces_newest(round), 0);
        ck_assert_int_eq(pieces_newest(1), 2);
    }
}

/* Rank 0's shard alone. */
static bool want_one(void *ctx,
                     const struct ddp_tensor *whole,
                     size_t i,
                     struct ddp_piece *want)
{
    if (i > 0 || strcmp(whole->name, "shard") != 0)
        return false;
    want->local.shape[0] = ROWS;
    want->local.data = ctx;
    return true;
}

/* As in Python, whose first load is of what each node has: some of the save is
 * there, all of it is not. Then nothing is kept for its sake. */
static int load_all(int rank, void *arg)
{
    static float all[RANKS * ROWS * COLS];
    const struct story *s = arg;
    const struct ddp_tensor t = {
        "shard", DDP_F32, 2, {RANKS * ROWS, COLS}, all};
    struct ddp_kept kept = {.size = sizeof(kept)};
    struct rank *r = rank_start(arg, rank);
    if (s->folder == NULL) {
        RT_OK(ddp_keeper_load_pieces(r->k, want_one, all, NULL, 0, NULL, &r->e),
              r->e);
        RT_CHECK(r->k->pieces.base.there == 1);
    }
    rank_refused(r, ddp_keeper_load(r->k, &t, 1, NULL, 0, &kept, &r->e),
                 DDP_ERR_NOINPUT, "only one that was not finished: ");
    RT_CHECK(strstr(kept.why, "step 1: ") == kept.why);
    RT_CHECK(strstr(kept.why, "there is no image of rank ") != NULL);
    RT_CHECK(r->k->pieces.base.there == 0 && r->k->pieces.loaded.step == -1);
    rank_stop(r);
    return 0;
}

/* A job that dies in its first save begins afresh: what some ranks have of that
 * step never was a snapshot, in memory or on the disk. */
TEST_LOOP(test_pieces_of_a_first_save_that_ends_are_a_fresh_start, 0, 2)
{
    const struct story dies = {.point = BEFORE_LABEL,
                               .dies = 1,
                               .at = 1,
                               .first = 1,
                               .last = STEPS,
                               .disk_every = _i,
                               .folder = _i == 1 ? "s" : NULL};
    const struct story loads = {.folder = dies.folder};
    for (int round = 1; round < 4; round++) {
        pieces_run(rank_train, &dies, round);
        if (_i == 1) /* the launcher has died, too */
            with_memory(false);
        pieces_run(load_all, &loads, round + 100);
        with_memory(true);
    }
}

/* Under torchrun. */
static int save_without_instance(int rank, void *arg)
{
    RT_CHECK(unsetenv("DDP_INSTANCE") == 0);
    return rank_train(rank, arg);
}

/* 0: it is loaded. */
static int load_without_instance(int rank, void *arg)
{
    static float all[RANKS * ROWS * COLS];
    const struct ddp_tensor t = {
        "shard", DDP_F32, 2, {RANKS * ROWS, COLS}, all};
    RT_CHECK(unsetenv("DDP_INSTANCE") == 0);
    struct rank *r = rank_start(arg, rank);
    int rc = ddp_keeper_load(r->k, &t, 1, NULL, 0, NULL, &r->e);
    if (r->d->restart_count == 0)
        RT_OK(rc, r->e);
    else
        rank_refused(r, rc, DDP_ERR_CORRUPT, "there is no image of rank 1");
    rank_stop(r);
    return 0;
}

/* It saves the step that it has loaded. */
static int go_on_without_instance(int rank, void *arg)
{
    static float all[RANKS * ROWS * COLS];
    const struct ddp_tensor t = {
        "shard", DDP_F32, 2, {RANKS * ROWS, COLS}, all};
    RT_CHECK(unsetenv("DDP_INSTANCE") == 0);
    struct rank *r = rank_start(arg, rank);
    RT_OK(ddp_keeper_load(r->k, &t, 1, NULL, 0, NULL, &r->e), r->e);
    rank_fill(r, 1, rank);
    RT_OK(rank_save(r, 1, true), r->e);
    RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
    rank_stop(r);
    return 0;
}

#define FOLDER_1 "s/step-000000000001.r1.00000000/"
#define SHARD_2  FOLDER_1 "shard-00002-of-00004.safetensors"

/* Two launches write the same step into one folder, and the second one dies in
 * it: as each of them begins with round 1, the numbers of their saves tell the
 * files apart. */
TEST(test_pieces_of_two_launches_are_no_state)
{
    const struct story s = {
        .first = 1, .last = 1, .disk_every = 1, .folder = "s"};
    with_memory(false);
    pieces_run(save_without_instance, &s, 1);
    pieces_run(load_without_instance, &s, 2);
    ck_assert_int_eq(rename(SHARD_2, "before"), 0);
    pieces_run(save_without_instance, &s, 1);
    pieces_run(load_without_instance, &s, 2);
    ck_assert_int_eq(rename("before", SHARD_2), 0);
    ck_assert_int_eq(setenv("TORCHELASTIC_RESTART_COUNT", "1", 1), 0);
    pieces_run(load_without_instance, &s, 2);
    ck_assert_int_eq(unsetenv("TORCHELASTIC_RESTART_COUNT"), 0);
    ck_assert_int_ne(access(SHARD_2 ".prev", F_OK), 0);
    pieces_run(save_without_instance, &s, 1);
    pieces_run(go_on_without_instance, &s, 1);
    ck_assert_int_eq(rename(SHARD_2 ".prev", SHARD_2), 0);
    pieces_run(load_without_instance, &s, 2);
}

/* Step 1, then step 2 as often as the story says, in several states. */
static int save_again(int rank, void *arg)
{
    const struct story *s = arg;
    struct rank *r = rank_start(s, rank);
    for (int i = 0; i <= s->last; i++) {
        int step = i == 0 ? 1 : 2;
        rank_fill(r, i == 0 ? 1 : i + 1, rank);
        RT_OK(rank_save(r, step, true), r->e);
    }
    RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
    rank_stop(r);
    return 0;
}

/* Step 2, in the state that `at` says. */
static int load_again(int rank, void *arg)
{
    static float all[RANKS * ROWS * COLS];
    const struct story *s = arg;
    const struct ddp_tensor t = {
        "shard", DDP_F32, 2, {RANKS * ROWS, COLS}, all};
    struct ddp_kept kept = {.size = sizeof(kept)};
    struct rank *r = rank_start(arg, rank);
    RT_OK(ddp_keeper_load(r->k, &t, 1, NULL, 0, &kept, &r->e), r->e);
    RT_CHECK(kept.step == 2);
    for (int i = 0; i < RANKS; i++) {
        rank_fill(r, s->at, i);
        RT_CHECK(memcmp(all + (size_t)i * ROWS * COLS, r->shard,
                        sizeof(r->shard)) == 0);
    }
    rank_stop(r);
    return 0;
}

#define SHARD_OF_2                                                             \
    "s/step-000000000002.r1.01234567/shard-00002-of-00004.safetensors"

/* A step is saved to the disk again, such as at the end of a program, and a
 * rank dies before its file is there: the files of before are whole. */
TEST_LOOP(test_pieces_of_a_step_that_is_saved_again_are_kept, 2, 4)
{
    struct story s = {.last = _i, .at = _i + 1, .folder = "s", .keep = 1};
    with_memory(false);
    pieces_run(save_again, &s, 1);
    pieces_run(load_again, &s, 1);
    ck_assert_int_eq(rename(SHARD_OF_2 ".prev", SHARD_OF_2), 0);
    s.at--;
    pieces_run(load_again, &s, 1);
    ck_assert_int_eq(rename(SHARD_OF_2, SHARD_OF_2 ".prev"), 0);
    pieces_run(load_again, &s, 1);
}

/* What all ranks have is stored once by each node, what one has by it. */
TEST(test_pieces_that_are_equal_are_stored_once_on_a_node)
{
    const struct story s = {
        .first = 1, .last = 2, .nodes = true, .states = true};
    pieces_run(rank_train, &s, 1);
    for (int node = 0; node < 2; node++) {
        struct found f = {0};
        int fd = node == 0 ? memory_fd : other_memory;
        for (int r = 0; r < 2; r++)
            ck_assert(pieces_find(fd, r, 2, 1, 2, &f));
        ck_assert_int_eq(f.shard, 2 * ROWS * COLS);
        ck_assert_int_eq(f.ends, 4 * COLS);
        ck_assert_int_eq(f.copy, COPY);
        ck_assert_int_eq(f.states, 1);
    }
}

/* -- no label without proof ------------------------------------------------ */

/* Shared: ranks that have saved step 3, and so need no other rank any more. */
static atomic_int *through;

/* On rank 1 a collective fails on which step 3 rests. */
static int lose_proof(int rank, void *arg)
{
    const uint32_t blame[2] = {0, 0};
    struct proof_part part = {.of = NULL};
    struct ddp_err why;
    struct rank *r = rank_start(arg, rank);
    for (int step = 1; step < 4; step++) {
        rank_fill(r, step, rank);
        if (rank == 1 && step == 3) {
            proof_join(&r->d->proof, &part);
            proof_draw(&part);
        }
        RT_OK(rank_save(r, step, false), r->e);
    }
    (void)atomic_fetch_add(through, 1);
    while (rank == 1 && atomic_load(through) < RANKS)
        (void)usleep(1000);
    if (rank == 1) {
        (void)ddp_err_set(&why, DDP_E_PEER, "rank 9 died");
        proof_failed(&part, &why, blame);
        rank_refused(r, ddp_keeper_wait(r->k, &r->e), DDP_ERR_PEER,
                     "rank 9 died");
    }
    rank_fill(r, 4, rank);
    rank_refused(r, rank_save(r, 4, false), DDP_ERR_PEER,
                 rank == 1 ? "rank 9 died" : "rank 1 failed");
    ddp_keeper_settle(r->k);
    ddp_keeper_free(r->k);
    proof_leave(&part);
    ddp_comm_free(r->comm);
    ddp_free(r->d);
    free(r);
    return 0;
}

/* The others have sealed that step, and it does not count; the one before does.
 */
TEST(test_pieces_of_a_rank_without_proof_do_not_count)
{
    const struct story s = {.first = 1};
    through = rt_shared(sizeof(*through));
    pieces_run(lose_proof, &s, 1);
    ck_assert_int_eq(pieces_newest(1), 2);
}

/* -- what ranks do not agree about ----------------------------------------- */

static int disagree(int rank, void *arg)
{
    struct rank *r = rank_start(arg, rank);
    rank_fill(r, 1, rank);
    RT_OK(rank_save(r, 1, false), r->e);
    rank_refused(r, rank_save(r, rank == 2 ? 3 : 2, false), DDP_ERR_CONFLICT,
                 "from 2 to 3");
    rank_refused(r, rank_save(r, 2, rank == 1), DDP_ERR_CONFLICT,
                 "to the disk");
    rank_refused(r, rank_save(r, -2, false), DDP_ERR_USAGE,
                 "must not be negative");
    if (rank == 3)
        r->pieces[0].offset[0]++;
    rank_refused(r, rank_save(r, 2, false), DDP_ERR_USAGE,
                 rank == 3 ? "piece 0" : "rank 3: piece 0");
    rank_fill(r, 2, rank);
    if (rank == 3)
        r->pieces[2].offset[0] = r->pieces[1].offset[0];
    rank_refused(r, rank_save(r, 2, false), DDP_ERR_USAGE,
                 "'ends' is there twice");
    rank_fill(r, 2, rank);
    if (rank == 0)
        r->pieces[0].whole[0]++;
    rank_refused(r, rank_save(r, 2, false), DDP_ERR_USAGE, "tensor 'shard'");
    r->pieces[0].whole[0] = RANKS * ROWS;
    if (rank == 0)
        r->pieces[3].local.name = "ddp.ranks";
    rank_refused(r, rank_save(r, 2, false), DDP_ERR_USAGE, "libddp's own");
    r->pieces[3].local.name = "copy";
    RT_OK(rank_save(r, 2, false), r->e);
    ddp_keeper_settle(r->k);
    rank_stop(r);
    return 0;
}

/* All ranks are told, nothing is lost by it, and the next save goes well. */
TEST(test_pieces_that_ranks_do_not_agree_about_are_refused)
{
    const struct story s = {.first = 1};
    pieces_run(disagree, &s, 1);
    ck_assert_int_eq(pieces_newest(1), 2);
}

/* -- whole tensors --------------------------------------------------------- */

static int save_whole(int rank, void *arg)
{
    struct rank *r = rank_start(arg, rank);
    const struct ddp_tensor t = {"copy", DDP_F32, 1, {COPY}, r->copy};
    for (int step = 1; step < 4; step++) {
        rank_fill(r, step, rank);
        RT_OK(ddp_keeper_save(r->k, step, &t, 1, NULL, 0, false, &r->e), r->e);
    }
    ddp_keeper_settle(r->k);
    rank_stop(r);
    return 0;
}

/* In such a keeper a save of tensors is one of pieces that all ranks have. */
TEST(test_pieces_may_be_whole_tensors)
{
    const struct story s = {.first = 1};
    struct found f = {0};
    pieces_run(save_whole, &s, 1);
    for (int r = 0; r < RANKS; r++)
        ck_assert(pieces_find(memory_fd, r, RANKS, 1, 3, &f));
    ck_assert_int_eq(f.copy, COPY);
}

SUITE("keeper_pieces",
      "ranks",
      .limit_s = 60,
      FIXTURE(pieces_place, pieces_leave))
