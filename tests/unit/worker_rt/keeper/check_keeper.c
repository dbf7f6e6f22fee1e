/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} */
/* libs: -luv -lcjson -lxxhash */
/*
 * The keeper of one rank: what was saved comes back, from memory or disk,
 * whatever became of the worker that saved it. Of several ranks:
 * check_keeper_ranks.
 */
#include <check.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/snapshot/snapshot.h"
#include "worker_rt/keeper/keeper.h"

#define UNCHANGED (-1)

/* -- disk ------------------------------------------------------------------ */

/* Both bounds are in the message, and 0 is the default. */
TEST(test_keeper_bad_count_is_refused)
{
    static const int counts[] = {-1, 1001};
    struct ddp *d = rt_init();
    struct ddp_comm *comm = rt_join(d, 0);
    for (int i = 0; i < 2; i++) {
        struct ddp_keeper_conf conf = {.folder = "s", .keep = counts[i]};
        struct ddp_error e;
        char text[80];
        ck_assert_ptr_null(ddp_keeper_new(d, comm, &conf, &e));
        ck_assert_int_eq(e.code, DDP_ERR_USAGE);
        (void)snprintf(text, sizeof(text), /* fits */
                       "keep is %d, must be from 0 (the default) to 1000",
                       counts[i]);
        ck_assert_ptr_nonnull(strstr(e.text, text));
    }
    ddp_comm_free(comm);
    ddp_free(d);
}

/* Saved in the background, reported when it is there; the newest few of those
 * that a later save knows to be whole are kept. */
TEST(test_keeper_disk_keeps_the_newest)
{
    struct ddp_keeper_conf conf = {.folder = "s", .keep = 3};
    struct worker *w = worker_start(&conf);
    ck_assert_int_eq(worker_load(w), -1);
    ck_assert_int_eq(w->e.code, DDP_ERR_NOINPUT);
    ck_assert_int_eq(ddp_keeper_saved(w->k), -1);
    for (int step = 1; step <= 10; step++)
        ck_assert_int_eq(worker_save(w, step, step % 2 == 0), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    ck_assert_int_eq(ddp_keeper_saved(w->k), 10);
    ck_assert_int_eq(count_snapshots("s"), 3 + 1);
    ck_assert(is_there(4, 1, INSTANCE) && is_there(10, 1, INSTANCE));
    worker_stop(w);
    in_round(INSTANCE, 2);
    w = worker_start(&conf);
    ck_assert_int_eq(worker_load(w), 10);
    ck_assert(!w->info.foreign && !w->info.memory && w->info.round == 1);
    worker_stop(w);
}

/* Found by outsiders: of a program that saves, and says no more, nobody was
 * told how far it is. */
TEST(test_keeper_save_tells_the_step)
{
    char text[40] = "";
    ck_assert_int_eq(setenv("DDP_PROGRESS_FILE", "progress", 1), 0);
    struct worker *w = worker_start(&on_disk);
    ck_assert_int_eq(worker_save(w, 7, true), 0);
    worker_stop(w);
    ck_assert_int_eq(unsetenv("DDP_PROGRESS_FILE"), 0);
    FILE *f = fopen("progress", "re");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(strtol(text, NULL, 10), 7);
}

/* A later round's snapshot is newer whatever its step, and writes none of the
 * earlier one's files. */
TEST(test_keeper_disk_newest_round_first)
{
    struct worker *w = worker_start(&on_disk);
    ck_assert_int_eq(worker_save(w, 9, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    in_round(INSTANCE, 2);
    w = worker_start(&on_disk);
    ck_assert_int_eq(worker_save(w, 4, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    ck_assert(is_there(9, 1, INSTANCE) && is_there(4, 2, INSTANCE));
    ck_assert_int_eq(worker_load_once(&on_disk), 4);
}

/* What a later server's round wrote is newer than any round of the server
 * before, whatever its number; a worker of that one which still runs replaces
 * nothing of it, and removes nothing. */
TEST(test_keeper_disk_newest_epoch_first)
{
    struct ddp_keeper_conf conf = {.folder = "s", .keep = 1};
    in_round(INSTANCE, 5);
    ck_assert_int_eq(setenv("DDP_EPOCH", "1.00000000000000e1", 1), 0);
    struct worker *w = worker_start(&conf);
    ck_assert_int_eq(worker_save(w, 9, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    ck_assert(is_there(9, 5, INSTANCE)); /* of the first term: the round */
    in_round(INSTANCE, 3);
    ck_assert_int_eq(setenv("DDP_EPOCH", "2.00000000000000e2", 1), 0);
    w = worker_start(&conf);
    ck_assert_int_eq(worker_load(w), 9);
    ck_assert_int_eq(worker_save(w, 4, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    in_round(INSTANCE, 6);
    ck_assert_int_eq(setenv("DDP_EPOCH", "1.00000000000000e1", 1), 0);
    w = worker_start(&conf);
    ck_assert_int_eq(worker_save(w, 4, true), 0);
    ck_assert_int_eq(worker_save(w, 12, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    ck_assert_int_eq(setenv("DDP_EPOCH", "2.00000000000000e2", 1), 0);
    w = worker_start(&conf);
    ck_assert_int_eq(worker_load(w), 4);
    ck_assert_int_eq(w->info.round, 3);
    worker_stop(w);
}

CASE("memory", .limit_s = 60, FIXTURE(keeper_place, keeper_leave))

/* The same in the launcher's memory. */
TEST(test_keeper_memory_newest_epoch_first)
{
    with_memory(true);
    in_round(INSTANCE, 5);
    ck_assert_int_eq(setenv("DDP_EPOCH", "1.00000000000000e1", 1), 0);
    struct worker *w = worker_start(&in_memory);
    ck_assert_int_eq(worker_save(w, 9, false), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    in_round(INSTANCE, 3);
    ck_assert_int_eq(setenv("DDP_EPOCH", "2.00000000000000e2", 1), 0);
    w = worker_start(&in_memory);
    ck_assert_int_eq(worker_save(w, 4, false), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    ck_assert_int_eq(worker_load_once(&in_memory), 4);
}

CASE("disk")

/* Without a launcher rounds of different runs look alike: the step counts. */
TEST(test_keeper_disk_without_instance_goes_by_step)
{
    ck_assert_int_eq(unsetenv("DDP_INSTANCE"), 0);
    for (int round = 3; round >= 1; round--) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", round); /* fits */
        ck_assert_int_eq(setenv("DDP_ROUND", text, 1), 0);
        struct worker *w = worker_start(&on_disk);
        ck_assert_int_eq(worker_save(w, 10 - round, true), 0);
        ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
        worker_stop(w);
    }
    ck_assert_int_eq(worker_load_once(&on_disk), 9);
}

/* A new instance loads what the old one left and takes the folder over; the
 * old one, if it still runs, is told so and writes nothing more. */
TEST(test_keeper_folder_is_taken_over)
{
    int go[2], done[2];
    char c;
    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(done), 0);
    pid_t old = fork();
    if (old == 0) {
        struct worker *w = worker_start(&on_disk);
        RT_CHECK(worker_save(w, 50, true) == 0);
        RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
        RT_CHECK(write(done[1], "x", 1) == 1 && read(go[0], &c, 1) == 1);
        RT_CHECK(worker_save(w, 60, true) == 0);
        RT_CHECK(ddp_keeper_wait(w->k, &w->e) != 0);
        RT_CHECK(w->e.code == DDP_ERR_CONFLICT);
        RT_CHECK(strstr(w->e.text, "step 60") && strstr(w->e.text, ANOTHER));
        RT_CHECK(ddp_keeper_wait(w->k, &w->e) == 0); /* told once */
        worker_stop(w);
        _exit(0);
    }
    ck_assert_int_eq(read(done[0], &c, 1), 1);
    in_round(ANOTHER, 1);
    struct worker *w = worker_start(&on_disk);
    ck_assert_int_eq(worker_load(w), 50);
    ck_assert(w->info.foreign);
    ck_assert_str_eq(w->info.instance, INSTANCE);
    ck_assert_int_eq(write(go[1], "x", 1), 1);
    ck_assert_int_eq(rt_wait(old, 5000), 0);
    worker_stop(w);
    /* It has written nothing itself yet, so the old one's is still the one. */
    ck_assert_int_eq(worker_load_once(&on_disk), 50);
    w = worker_start(&on_disk);
    ck_assert_int_eq(worker_load(w), 50);
    for (int step = 3; step <= 5; step++)
        ck_assert_int_eq(worker_save(w, step, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    ck_assert(is_there(3, 1, ANOTHER) && !is_there(50, 1, INSTANCE));
    ck_assert_int_eq(worker_load_once(&on_disk), 5);
}

/* The one before is taken, and what was wrong is told; with none left there is
 * no fresh start. */
TEST(test_keeper_damaged_file_is_passed_over)
{
    char name[96];
    struct worker *w = worker_start(&on_disk);
    for (int step = 1; step <= 2; step++)
        ck_assert_int_eq(worker_save(w, step, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    name_of(name, 2, 1, INSTANCE);
    damage_file(name, 9000);
    ck_assert_int_eq(worker_load(w), 1);
    ck_assert_ptr_nonnull(strstr(w->info.why, name));
    ck_assert_ptr_nonnull(strstr(w->info.why, "'big' has a wrong checksum"));
    name_of(name, 1, 1, INSTANCE);
    damage_file(name, 20);
    ck_assert_int_eq(worker_load(w), -1);
    ck_assert_int_eq(w->e.code, DDP_ERR_CORRUPT);
    worker_stop(w);
}

/* Makes a file one of a newer format, with a right sum. */
static void make_newer(const char *path)
{
    static const char from[] = "\"ddp.format\":\"1\"";
    uint8_t bytes[4096];
    char digits[SNAPSHOT_DIGITS + 1];
    FILE *f = fopen(path, "r+e");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(bytes, 1, sizeof(bytes), f);
    size_t len = 8 + (size_t)bytes[0] + ((size_t)bytes[1] << 8);
    ck_assert_uint_lt(len, n);
    uint8_t *at = memmem(bytes, len, from, sizeof(from) - 1);
    ck_assert_ptr_nonnull(at);
    at[sizeof(from) - 3] = '2';
    memcpy(bytes + SNAPSHOT_DIGITS_AT, SNAPSHOT_NO_DIGITS, SNAPSHOT_DIGITS);
    XXH3_state_t *state = XXH3_createState();
    snapshot_header_hex(digits, state, bytes, len);
    (void)XXH3_freeState(state);
    memcpy(bytes + SNAPSHOT_DIGITS_AT, digits, SNAPSHOT_DIGITS);
    rewind(f);
    ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
}

/* What a newer libddp wrote is an error, and nothing older is taken for it. */
TEST(test_keeper_newer_format_is_refused)
{
    char name[96];
    struct worker *w = worker_start(&on_disk);
    for (int step = 1; step <= 2; step++)
        ck_assert_int_eq(worker_save(w, step, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    name_of(name, 2, 1, INSTANCE);
    make_newer(name);
    ck_assert_int_eq(worker_load(w), -1);
    ck_assert_int_eq(w->e.code, DDP_ERR_CONFIG);
    ck_assert_str_eq(w->e.text,
                     "step 2: it has format 2, and this libddp reads format 1: "
                     "use the version that wrote it, or a newer one");
    worker_stop(w);
}

/* Strange files in the folder are nobody's business; a file in its place is. */
TEST(test_keeper_strangers_in_the_folder)
{
    struct ddp_error e;
    static const char *const names[] = {
        "s/step-5.safetensors",
        "s/step-000000000099.r1.0123456G.safetensors",
        "s/step-000000000099.r1.01234567.safetensors.bak",
        "s/step--00000000099.r1.01234567.safetensors",
        "s/mark.tmp.0123456789abcdef",
    };
    ck_assert_int_eq(mkdir("s", 0700), 0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(close(open(names[i], O_CREAT | O_WRONLY, 0600)), 0);
    const struct timespec old[2] = {{.tv_sec = 0}, {.tv_sec = 0}};
    ck_assert_int_eq(utimensat(AT_FDCWD, names[4], old, 0), 0); /* left over */
    struct worker *w = worker_start(&on_disk);
    ck_assert_int_eq(worker_load(w), -1);
    ck_assert_int_eq(w->e.code, DDP_ERR_NOINPUT);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(access(names[i], F_OK), i == 4 ? -1 : 0);
    struct ddp_keeper_conf conf = {.folder = names[0]};
    ck_assert_ptr_null(ddp_keeper_new(w->d, w->comm, &conf, &e));
    ck_assert_int_eq(e.code, DDP_ERR_CONFLICT);
    conf.folder = "no/where";
    ck_assert_ptr_null(ddp_keeper_new(w->d, w->comm, &conf, &e));
    ck_assert_int_eq(e.code, DDP_ERR_IO);
    worker_stop(w);
}

/* To load only: nothing is made, nothing is taken over. */
TEST(test_keeper_load_only_leaves_the_folder)
{
    struct ddp_keeper_conf conf = {.folder = "s", .load_only = true};
    ck_assert_int_eq(worker_load_once(&conf), -1);
    ck_assert_int_eq(access("s", F_OK), -1);
    struct worker *w = worker_start(&on_disk);
    ck_assert_int_eq(worker_save(w, 5, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    in_round(ANOTHER, 1);
    ck_assert_int_eq(worker_load_once(&conf), 5);
    ck_assert_int_eq(worker_save(w, 6, true), 0); /* still the owner */
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
}

/* -- memory ---------------------------------------------------------------- */

CASE("memory")

/* What one worker left there the next one goes on from; without it, nothing. */
TEST(test_keeper_memory_outlives_the_worker)
{
    with_memory(true);
    struct worker *w = worker_start(&in_memory);
    ck_assert_str_eq(ddp_keeper_no_memory(w->k), "");
    ck_assert_int_eq(worker_load(w), -1);
    for (int step = 1; step <= 20; step++)
        ck_assert_int_eq(worker_save(w, step, false), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    in_round(INSTANCE, 2);
    w = worker_start(&in_memory);
    ck_assert_int_eq(worker_load(w), 20);
    ck_assert(w->info.memory);
    worker_stop(w);
    with_memory(false);
    ck_assert_int_eq(worker_load_once(&in_memory), -1);
}

/* Copied while the program goes on: what the state was when it was settled, of
 * every kind of memory, and what is given up half way does no harm. */
TEST_LOOP(test_keeper_later_is_what_it_was_when_settled, 0, 2)
{
    struct ddp_keeper_conf conf = {.folder = _i == 0 ? "s" : NULL,
                                   .later = true};
    with_memory(_i == 1);
    struct worker *w = worker_start(&conf);
    ddp_keeper_settle(w->k); /* nothing to wait for */
    for (int step = 1; step <= 20; step++)
        ck_assert_int_eq(worker_save(w, step, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_fill(w, 21);
    ck_assert_int_eq(ddp_keeper_save(w->k, 21, w->t, 2, &w->kv, 1, true, &w->e),
                     0);
    worker_stop(w);
    ck_assert_int_ge(worker_load_once(&conf), 20);
}

/* Whether the tensors of a save may still be read. */
static bool are_borrowed(struct ddp_keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool borrowed = k->sealing >= 0;
    (void)pthread_mutex_unlock(&k->lock);
    return borrowed;
}

static bool has_failed(struct ddp_keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool failed = k->failed_step >= 0;
    (void)pthread_mutex_unlock(&k->lock);
    return failed;
}

/* A caller that is told of an error may free everything: of a save that tells
 * an earlier one's, nothing is read any more, and it is on its way to the disk.
 */
TEST(test_keeper_later_borrows_nothing_after_an_error)
{
    static float much[1 << 22]; /* takes a while to copy */
    struct ddp_tensor t = {"much", DDP_F32, 1, {1 << 22}, much};
    struct ddp_keeper_conf conf = {.folder = "s", .later = true};
    with_memory(false);
    struct worker *w = worker_start(&conf);
    ck_assert_int_eq(worker_save(w, 1, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    ck_assert_int_eq(system("rm -r s && : >s"), 0); /* a file is no folder */
    ck_assert_int_eq(worker_save(w, 2, true), 0);
    while (!has_failed(w->k)) /* or the test case's time is over */
        usleep(1000);
    ck_assert_int_eq(unlink("s"), 0);
    ck_assert_int_eq(ddp_keeper_save(w->k, 3, &t, 1, NULL, 0, true, &w->e), -1);
    ck_assert(!are_borrowed(w->k));
    ck_assert_ptr_nonnull(strstr(w->e.text, "step 2"));
    worker_stop(w);
}

/* Memory and disk in one order: the newest of both. */
TEST(test_keeper_newest_of_memory_and_disk)
{
    with_memory(true);
    struct worker *w = worker_start(&on_disk);
    for (int step = 1; step <= 7; step++)
        ck_assert_int_eq(worker_save(w, step, step == 4), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    ck_assert_int_eq(worker_load_once(&on_disk), 7);
    with_memory(false);
    ck_assert_int_eq(worker_load_once(&on_disk), 4);
    in_round(INSTANCE, 2);
    w = worker_start(&on_disk);
    ck_assert_int_eq(worker_save(w, 5, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    with_memory(true);
    ck_assert_int_eq(worker_load_once(&on_disk), 5); /* of the newer round */
}

/* Any bit of the newest slot flipped: the one before, or another file. */
TEST(test_keeper_memory_flipped_is_not_believed)
{
    struct rng r;
    rng_init(&r, 5);
    with_memory(true);
    struct worker *w = worker_start(&in_memory);
    for (int step = 1; step <= 3; step++)
        ck_assert_int_eq(worker_save(w, step, false), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    /* There lies step 3: each step has gone to a slot that was empty. */
    const off_t slot = 2 * (MEMORY / MEM_SLOTS_MAX / 4096 * 4096);
    const uint32_t len = 4096 + ELEMS * 4 + SMALL * 8;
    for (int i = 0; i < 400; i++) {
        off_t at = slot + (off_t)rng_below(&r, i < 100 ? 64 : len);
        char was, bad;
        ck_assert_int_eq(pread(memory_fd, &was, 1, at), 1);
        bad = (char)(was ^ (1 << rng_below(&r, 8)));
        ck_assert_int_eq(pwrite(memory_fd, &bad, 1, at), 1);
        int64_t step = worker_load(w);
        bool gap = at - slot >= 80 && at - slot < 4096;
        ck_assert_msg(step == 2 || (gap && step == 3), "%d: at %d step %d", i,
                      (int)(at - slot), (int)step);
        ck_assert_int_eq(pwrite(memory_fd, &was, 1, at), 1);
    }
    ck_assert_int_eq(worker_load(w), 3);
    worker_stop(w);
}

/* Too little of it: told once, and the disk goes on alone. */
TEST(test_keeper_memory_too_small_is_told)
{
    ck_assert_int_eq(ftruncate(memory_fd, SNAPSHOT_SLOTS * 8192), 0);
    with_memory(true);
    struct worker *w = worker_start(&on_disk);
    ck_assert_str_eq(ddp_keeper_no_memory(w->k), "");
    for (int step = 1; step <= 6; step++)
        ck_assert_int_eq(worker_save(w, step, step % 3 == 0), 0);
    ck_assert_ptr_nonnull(
        strstr(ddp_keeper_no_memory(w->k), "--snapshot_memory"));
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    ck_assert_int_eq(worker_load(w), 6);
    worker_stop(w);
    ck_assert_int_eq(ftruncate(memory_fd, 4096), 0);
    w = worker_start(&on_disk);
    ck_assert_ptr_nonnull(strstr(ddp_keeper_no_memory(w->k), "has only"));
    worker_stop(w);
}

CASE("kills",
     .tags = "many-forks",
     .limit_s = 60,
     FIXTURE(keeper_place, keeper_leave))

/* Killed at any moment: what is loaded is whole, at most one step behind what
 * the worker was told, with `later` none behind what was settled, and never
 * older than what was reported on the disk. */
TEST_LOOP(test_keeper_killed_worker_costs_one_step, 0, 2)
{
    struct {
        _Atomic int64_t told, saved;
    } *shared = rt_shared(sizeof(*shared));
    const struct ddp_keeper_conf conf = {.folder = "s", .later = _i == 1};
    struct rng r;
    int64_t step = 0, behind = conf.later ? 0 : 1;
    rng_init(&r, 77);
    with_memory(true);
    atomic_store(&shared->saved, -1);
    for (int run = 0; run < 60; run++) {
        atomic_store(&shared->told, UNCHANGED);
        in_round(INSTANCE, run + 1);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            struct worker *w = worker_start(&conf);
            int64_t from = worker_load(w);
            for (int64_t s = from + 1;; s++) {
                RT_OK(worker_save(w, s, s % 8 == 0), w->e);
                atomic_store(&shared->told, s);
                atomic_store(&shared->saved, ddp_keeper_saved(w->k));
            }
        }
        unsigned after_us = 3000 + rng_below(&r, 12000);
        (void)usleep(after_us * (unsigned)suite_slow());
        /* Every other one while it saves, however slow this machine is. */
        while (run % 2 == 1 && atomic_load(&shared->told) < step + 8)
            (void)usleep(after_us % 1000);
        rt_kill(pid);
        int64_t told = atomic_load(&shared->told);
        in_round(INSTANCE, run + 2);
        int64_t found = worker_load_once(&on_disk);
        if (told == UNCHANGED)
            ck_assert_int_ge(found, step - 1);
        else
            ck_assert_msg(found >= told - behind && found <= told + 1,
                          "told %d, found %d", (int)told, (int)found);
        ck_assert_int_ge(found, atomic_load(&shared->saved));
        step = found;
    }
    ck_assert_int_gt(step, 100);
    printf("check_keeper: %d steps over 60 kills%s\n", (int)step,
           conf.later ? ", copied later" : "");
    /* What the disk has alone is not older than what was reported. */
    with_memory(false);
    struct worker *w = worker_start(&on_disk);
    ck_assert_int_ge(worker_load(w), atomic_load(&shared->saved));
    /* Whoever was killed before it removed what was too many or torn: the next
     * one does. */
    for (int i = 1; i <= 2; i++)
        ck_assert_int_eq(worker_save(w, step + i, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    worker_stop(w);
    ck_assert_int_eq(count_snapshots("s"), 2 + 1);
}

SUITE("keeper", "disk", .limit_s = 60, FIXTURE(keeper_place, keeper_leave))
