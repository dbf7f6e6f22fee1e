/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper,rt_savers} */
/* libs: -luv -lcjson -lxxhash -pthread */
/* libs: -Wl,--wrap=commit_say,--wrap=commit_hear,--wrap=image_hash_begin */
/* libs: -Wl,--wrap=mem_slots_label,--wrap=pieces_survey */
/*
 * Each rank writes its pieces to a file of its own: which ones are in the
 * folder, which go, and what their headers say.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_savers.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

/* -- too little memory ----------------------------------------------------- */

static int save_much(int rank, void *arg)
{
    struct rank *r = rank_start(arg, rank);
    RT_CHECK(ddp_keeper_no_memory(r->k)[0] == '\0');
    for (int step = 1; step < 4; step++) {
        rank_fill(r, step, rank);
        RT_OK(rank_save(r, step, true), r->e);
    }
    RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
    RT_CHECK(strstr(ddp_keeper_no_memory(r->k),
                    "for each worker: start it with a larger") != NULL);
    RT_CHECK(ddp_keeper_saved(r->k) == 3);
    rank_stop(r);
    return 0;
}

/* Each rank says why, and its file is written all the same. */
TEST(test_pieces_without_room_go_to_the_disk_alone)
{
    const struct story s = {.first = 1, .folder = "s"};
    ck_assert_int_eq(ftruncate(memory_fd, (off_t)RANKS * SNAPSHOT_SLOTS * 8192),
                     0);
    pieces_run(save_much, &s, 1);
    ck_assert_int_eq(pieces_newest(1), 0);
}

/* -- disk ------------------------------------------------------------------ */

static bool has_part(int step, int round, int rank)
{
    char path[96];
    (void)snprintf(path, sizeof(path),
                   "s/step-%012d.r%d.01234567/shard-%05d-of-%05d.safetensors",
                   step, round, rank + 1, RANKS); /* fits */
    return access(path, F_OK) == 0;
}

static int parts_of(int step, int round)
{
    int n = 0;
    for (int r = 0; r < RANKS; r++)
        n += has_part(step, round, r);
    return n;
}

/* Every second step goes to the disk: the newest two that all ranks are known
 * to have written are there, and what is newer. */
TEST_LOOP(test_pieces_on_disk_are_kept_as_far_as_all_have_written_them, 0, 2)
{
    const struct story s = {.first = 1,
                            .last = 11,
                            .disk_every = 2,
                            .folder = "s",
                            .nodes = _i == 1};
    pieces_run(rank_train, &s, 1);
    for (int step = 2; step <= 10; step += 2)
        ck_assert_int_eq(parts_of(step, 1), step >= 8 ? RANKS : 0);
    ck_assert_int_eq(count_snapshots("s"), 2);
    /* Step 11 told that 10 is whole; here 20 is the last of all. */
    const struct story again = {.first = 12,
                                .last = 20,
                                .disk_every = 2,
                                .folder = "s",
                                .nodes = _i == 1};
    pieces_run(rank_train, &again, 2);
    ck_assert_int_eq(parts_of(20, 2), RANKS);
    ck_assert_int_eq(count_snapshots("s"), 3);
    ck_assert_int_eq(parts_of(10, 1), 0);
}

/* Each node's folder has what its ranks wrote, and is pruned by one of them. */
TEST(test_pieces_on_disks_of_their_own)
{
    const struct story s = {.first = 1,
                            .last = 9,
                            .disk_every = 2,
                            .folder = "s",
                            .nodes = true,
                            .apart = true};
    ck_assert_int_eq(mkdir("node0", 0700), 0);
    ck_assert_int_eq(mkdir("node1", 0700), 0);
    pieces_run(rank_train, &s, 1);
    for (int node = 0; node < 2; node++) {
        ck_assert_int_eq(chdir(node == 0 ? "node0" : "node1"), 0);
        ck_assert_int_eq(count_snapshots("s"), 2);
        for (int r = 0; r < RANKS; r++)
            ck_assert_int_eq(has_part(8, 1, r) && has_part(6, 1, r),
                             r / 2 == node);
        ck_assert_int_eq(chdir(".."), 0);
    }
}

static int fail_to_write(int rank, void *arg)
{
    struct rank *r = rank_start(arg, rank);
    for (int step = 1; step < 4; step++) {
        rank_fill(r, step, rank);
        RT_OK(rank_save(r, step, true), r->e);
        int rc = ddp_keeper_wait(r->k, &r->e);
        if (rank == 2 && step == 2)
            rank_refused(r, rc, DDP_ERR_IO, "shard-00003-of-00004");
        else
            RT_OK(rc, r->e);
        RT_CHECK(ddp_keeper_saved(r->k) == (rank == 2 && step == 2 ? 1 : step));
    }
    rank_stop(r);
    return 0;
}

/* What one rank could not write takes the place of no step that is whole. */
TEST(test_pieces_that_one_rank_cannot_write_replace_nothing)
{
    const struct story s = {.first = 1, .folder = "s", .keep = 1};
    ck_assert_int_eq(mkdir("s", 0700), 0);
    ck_assert_int_eq(mkdir("s/step-000000000002.r1.01234567", 0700), 0);
    ck_assert_int_eq(mkdir("s/step-000000000002.r1.01234567/"
                           "shard-00003-of-00004.safetensors",
                           0700),
                     0);
    pieces_run(fail_to_write, &s, 1);
    ck_assert_int_eq(parts_of(1, 1), RANKS);
    ck_assert_int_eq(parts_of(3, 1), RANKS);
}

/* Each save finds out what became of the one before: only the last may be one
 * more. */
TEST(test_pieces_on_disk_are_known_by_the_next_save)
{
    const struct story s = {
        .first = 1, .last = 9, .disk_every = 1, .folder = "s", .keep = 1};
    pieces_run(rank_train, &s, 1);
    ck_assert_int_eq(count_snapshots("s"), 2);
    ck_assert_int_eq(parts_of(9, 1), RANKS);
    ck_assert_int_eq(parts_of(8, 1), RANKS);
}

/* Ranks that die with a step half written: it takes the place of no whole one.
 */
TEST(test_pieces_on_disk_outlive_steps_that_were_not_finished)
{
    const struct story s = {
        .first = 1, .last = 3, .disk_every = 2, .folder = "s", .keep = 1};
    pieces_run(rank_train, &s, 1);
    for (int round = 2; round < 5; round++) {
        const struct story dies = {.point = BEFORE_LABEL,
                                   .dies = 3,
                                   .at = 4,
                                   .first = 4,
                                   .last = 5,
                                   .disk_every = 2,
                                   .folder = "s",
                                   .keep = 1};
        pieces_run(rank_train, &dies, round);
        ck_assert_int_eq(parts_of(2, 1), RANKS);
        ck_assert(!has_part(4, round, 3));
    }
    const struct story goes_on = {
        .first = 4, .last = 5, .disk_every = 2, .folder = "s", .keep = 1};
    pieces_run(rank_train, &goes_on, 5);
    ck_assert_int_eq(parts_of(4, 5), RANKS);
    ck_assert_int_eq(count_snapshots("s"), 1);
}

static int lose_folder(int rank, void *arg)
{
    struct rank *r = rank_start(arg, rank);
    rank_fill(r, 1, rank);
    RT_OK(rank_save(r, 1, true), r->e);
    RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    if (rank == 0) {
        FILE *f = fopen("s/owner", "w");
        RT_CHECK(f != NULL && fprintf(f, "%s\n", ANOTHER) > 0);
        RT_CHECK(fclose(f) == 0);
    }
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    rank_fill(r, 2, rank);
    RT_OK(rank_save(r, 2, true), r->e);
    rank_refused(r, ddp_keeper_wait(r->k, &r->e), DDP_ERR_CONFLICT,
                 "has taken the folder over");
    rank_fill(r, 3, rank);
    RT_OK(rank_save(r, 3, false), r->e);
    ddp_keeper_settle(r->k);
    rank_stop(r);
    return 0;
}

/* Every rank stops writing, and memory goes on. */
TEST(test_pieces_are_not_written_to_another_runs_folder)
{
    const struct story s = {.first = 1, .folder = "s"};
    pieces_run(lose_folder, &s, 1);
    ck_assert_int_eq(parts_of(1, 1), RANKS);
    ck_assert_int_eq(parts_of(2, 1), 0);
    ck_assert_int_eq(pieces_newest(1), 3);
}

/* -- a header -------------------------------------------------------------- */

/* What a reader of torch's looks for, in the file of rank 1. */
TEST(test_pieces_say_where_they_lie_as_torch_does)
{
    const struct story s = {
        .first = 2, .last = 2, .disk_every = 2, .folder = "s"};
    char text[4096];
    pieces_run(rank_train, &s, 1);
    FILE *f = fopen("s/step-000000000002.r1.01234567/"
                    "shard-00002-of-00004.safetensors",
                    "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    ck_assert_int_eq(fclose(f), 0);
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] == '\0' ? '.' : text[i];
    text[n] = '\0';
    ck_assert_ptr_nonnull(strstr(
        text, "\"DCP_SHARDING_INFO\":\"{\\\"ends\\\":{\\\"saved_offsets\\\":"
              "[1,0]},\\\"ends#1\\\":{\\\"saved_offsets\\\":[5,0]},"
              "\\\"shard\\\":{\\\"saved_offsets\\\":[500,0]}}\""));
    ck_assert_ptr_nonnull(strstr(text, "\"ddp.whole.ends#1\":\"8,4@5,0#1\""));
    ck_assert_ptr_nonnull(strstr(text, "\"ddp.whole.shard\":\"2000,4@500,0\""));
    ck_assert_ptr_nonnull(strstr(text, "\"ddp.rank\":\"1/4\""));
    ck_assert_ptr_nonnull(strstr(text, "\"ddp.names\":\""));
}

SUITE("keeper_parts",
      "ranks",
      .limit_s = 60,
      FIXTURE(pieces_place, pieces_leave))
