/* clang-format off */
/* links: tests/lib/scratch tests/lib/rt_world tests/lib/rt_comm */
/* links: tests/lib/rt_keeper */
/* libs: -luv -lcjson -lxxhash */
/* libs: -Wl,--wrap=pwrite -Wl,--wrap=pread -Wl,--wrap=fsync */
/* clang-format on */
/*
 * The ranks of a node write a file together, and read it together: is it the
 * one that a single rank writes, to the bit, has each rank a part in it, and
 * what if one of them fails or dies over it?
 *
 * MB=n makes the measured file so large.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "worker_rt/snapshot/shared_file.h"

#define RANKS 3
#define PIECE ((size_t)4096) /* the state has four of them */
#define LATE  20000          /* ms until a rank must have come */

/* What goes wrong with the first piece that a rank has. */
enum trouble {
    NONE,
    FULL,   /* ENOSPC */
    BROKEN, /* EIO */
    SHORT,  /* half of it is done, without an error */
    UNSYNC, /* EIO of the sync */
    DIES
};

struct story {
    bool stripes;
    enum trouble trouble;
    int with; /* this rank */
};

/* -- what each rank does to the disk --------------------------------------- */

/* In memory of all ranks. */
static struct counted {
    atomic_int begun;       /* ranks that have a piece of this file */
    atomic_int each[RANKS]; /* and how many */
    atomic_bool slow;       /* nobody takes a second one before all have one */
} * counted;

static enum trouble trouble; /* of this rank */

static void count_anew(bool slow)
{
    if (counted == NULL)
        counted = rt_shared(sizeof(*counted));
    memset(counted, 0, sizeof(*counted));
    atomic_store(&counted->slow, slow);
}

static int this_rank(void)
{
    const char *rank = getenv("RANK");
    return rank == NULL ? 0 : atoi(rank);
}

/* Of a piece of a snapshot's file; whether something is to go wrong with it. */
static enum trouble take_piece(size_t len)
{
    if (counted == NULL || !atomic_load(&counted->slow) || len != PIECE)
        return NONE;
    if (atomic_fetch_add(&counted->each[this_rank()], 1) > 0)
        return NONE;
    (void)atomic_fetch_add(&counted->begun, 1);
    for (int ms = 0; atomic_load(&counted->begun) < RANKS && ms < LATE; ms++)
        (void)usleep(1000);
    RT_CHECK(atomic_load(&counted->begun) == RANKS);
    if (trouble == DIES)
        (void)raise(SIGKILL);
    return trouble;
}

ssize_t __real_pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at);

ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at)
{
    enum trouble t = take_piece(len);
    if (t == FULL || t == BROKEN) {
        errno = t == FULL ? ENOSPC : EIO;
        return -1;
    }
    return __real_pwrite(fd, data, t == SHORT ? len / 2 : len, at);
}

ssize_t __real_pread(int fd, void *data, size_t len, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at);

ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at)
{
    enum trouble t = take_piece(len);
    if (t == BROKEN) {
        errno = EIO;
        return -1;
    }
    return __real_pread(fd, data, t == SHORT ? len / 2 : len, at);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    bool has_part =
        counted != NULL && atomic_load(&counted->each[this_rank()]) > 0;
    if (!has_part || trouble != UNSYNC)
        return __real_fsync(fd);
    trouble = NONE;
    errno = EIO;
    return -1;
}

/* -- a rank ---------------------------------------------------------------- */

static struct worker *begin(const struct story *s)
{
    const struct ddp_keeper_conf conf = {
        .size = sizeof(conf), .folder = "s", .stripes = s->stripes};
    shared_file_piece = PIECE;
    return worker_start(&conf);
}

static void begin_trouble(struct worker *w, const struct story *s)
{
    RT_OK(ddp_comm_barrier(w->comm, &w->e), w->e);
    trouble = s->trouble != NONE && this_rank() == s->with ? s->trouble : NONE;
    if (this_rank() == 0)
        atomic_store(&counted->slow, s->stripes);
    RT_OK(ddp_comm_barrier(w->comm, &w->e), w->e);
}

/* What all ranks are told. */
static void check_error(const struct worker *w, const struct story *s)
{
    static const char *const texts[] = {
        [FULL] = "No space left on device",
        [BROKEN] = "Input/output error",
        [UNSYNC] = "Input/output error",
        [DIES] = "died over",
    };
    char who[24];
    (void)snprintf(who, sizeof(who), "rank %d", s->with); /* fits */
    if (w->e.code != (s->trouble == DIES ? DDP_ERR_PEER : DDP_ERR_IO) ||
        strstr(w->e.text, texts[s->trouble]) == NULL ||
        (s->with > 0 && strstr(w->e.text, who) == NULL))
        rt_wrong(__FILE__, __LINE__, "the error", w->e.text);
}

/* Steps 1 and 2 to the disk; the trouble is with the second. */
static int save_two(int rank, void *arg)
{
    const struct story *s = arg;
    struct worker *w = begin(s);
    (void)rank;
    RT_OK(worker_save(w, 1, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    begin_trouble(w, s);
    RT_OK(worker_save(w, 2, true), w->e);
    int rc = ddp_keeper_wait(w->k, &w->e);
    if (s->trouble == NONE || s->trouble == SHORT) {
        RT_OK(rc, w->e);
        RT_CHECK(ddp_keeper_saved(w->k) == (rank == 0 ? 2 : -1));
    } else {
        RT_CHECK(rc != 0);
        check_error(w, s);
    }
    worker_stop(w);
    return 0;
}

/* Which step all load, in a world with nothing in its memory. */
struct loaded {
    struct story story;
    _Atomic int64_t step[RANKS];
    char why[512];
};

static int load_one(int rank, void *arg)
{
    struct loaded *l = arg;
    struct worker *w = begin(&l->story);
    begin_trouble(w, &l->story);
    int64_t step = worker_load(w);
    if (step >= 0) {
        RT_CHECK(!w->info.memory && w->info.rank == 0);
        RT_OK(worker_save(w, step + 1, false), w->e);
        RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    }
    atomic_store(&l->step[rank], step);
    if (rank == 0)
        memcpy(l->why, w->info.why, sizeof(l->why));
    worker_stop(w);
    return 0;
}

/* -- files ----------------------------------------------------------------- */

static void give_memory(size_t len)
{
    char path[48];
    int fd = memfd_create(MEMFD_SNAPSHOTS, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(),
                   fd); /* fits */
    ck_assert_int_eq(setenv("DDP_SNAPSHOT_MEMORY", path, 1), 0);
}

/* The whole file of a step, which the caller frees. */
static uint8_t *bytes_of(int step, size_t *len)
{
    static const size_t most = 1 << 20;
    char name[96];
    uint8_t *bytes = calloc(1, most);
    name_of(name, step, 1, INSTANCE);
    FILE *f = fopen(name, "re");
    ck_assert_ptr_nonnull(bytes);
    ck_assert_ptr_nonnull(f);
    *len = fread(bytes, 1, most, f);
    ck_assert_int_eq(fclose(f), 0);
    return bytes;
}

static void clear_folder(void)
{
    for (int step = 1; step <= 2; step++) {
        char name[96];
        name_of(name, step, 1, INSTANCE);
        ck_assert_int_eq(unlink(name), 0);
    }
}

static void check_all_had_a_part(void)
{
    ck_assert_int_eq(atomic_load(&counted->begun), RANKS);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_gt(atomic_load(&counted->each[r]), 0);
}

/* -- writing --------------------------------------------------------------- */

START_TEST(test_shared_file_is_that_of_one_rank_to_the_bit)
{
    struct story s = {.stripes = false, .trouble = _i == 0 ? NONE : SHORT};
    size_t len[2];
    give_memory(MEMORY);
    s.with = _i - 1;
    count_anew(false);
    rt_world_run(RANKS, save_two, &(struct story){.stripes = false}, LATE);
    uint8_t *alone = bytes_of(2, &len[0]);
    clear_folder();
    s.stripes = true;
    count_anew(false);
    rt_world_run(RANKS, save_two, &s, LATE);
    uint8_t *all = bytes_of(2, &len[1]);
    check_all_had_a_part();
    ck_assert_uint_eq(len[0], len[1]);
    ck_assert_uint_gt(len[0], (RANKS - 1) * PIECE);
    ck_assert_int_eq(memcmp(alone, all, len[0]), 0);
    free(alone);
    free(all);
}
END_TEST

static const enum trouble troubles[] = {FULL, BROKEN, UNSYNC};

/* One error on all ranks, whoever had it, and the step before. */
START_TEST(test_shared_file_that_a_rank_cannot_write_is_told_by_all)
{
    struct story s = {true, troubles[_i / RANKS], _i % RANKS};
    give_memory(MEMORY);
    count_anew(false);
    rt_world_run(RANKS, save_two, &s, LATE);
    check_all_had_a_part();
    ck_assert_int_eq(count_snapshots("s"), 1);
    with_memory(false);
    rt_place(0, 1, 1, 2);
    ck_assert_int_eq(worker_load_once(&on_disk), 1);
}
END_TEST

START_TEST(test_shared_file_of_a_rank_that_dies_is_none)
{
    struct story s = {true, DIES, _i};
    pid_t pids[RANKS];
    give_memory(MEMORY);
    count_anew(false);
    pid_t store = rt_world_start(RANKS, save_two, &s, pids);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(rt_wait(pids[r], LATE), r == _i ? 128 + SIGKILL : 0);
    rt_kill(store);
    check_all_had_a_part();
    ck_assert(!is_there(2, 1, INSTANCE));
    with_memory(false);
    rt_place(0, 1, 1, 2);
    ck_assert_int_eq(worker_load_once(&on_disk), 1);
}
END_TEST

/* -- reading --------------------------------------------------------------- */

static struct loaded *load_with(enum trouble t, int with)
{
    struct loaded *l = rt_shared(sizeof(*l));
    l->story = (struct story){true, t, with};
    give_memory(MEMORY);
    count_anew(false);
    rt_world_run(RANKS, load_one, l, LATE);
    check_all_had_a_part();
    return l;
}

static void check_loaded(const struct loaded *l, int64_t step)
{
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(atomic_load(&l->step[r]), step);
}

static void save_two_alone(void)
{
    with_memory(false);
    count_anew(false);
    rt_world_run(RANKS, save_two, &(struct story){.stripes = false}, LATE);
}

START_TEST(test_shared_file_is_read_by_all)
{
    save_two_alone();
    check_loaded(load_with(_i == 0 ? NONE : SHORT, _i - 1), 2);
}
END_TEST

/* Some rank cannot read its part: the leader reads all of it alone. */
START_TEST(test_shared_file_is_read_without_who_cannot)
{
    save_two_alone();
    const struct loaded *l = load_with(BROKEN, _i);
    check_loaded(l, 2);
    ck_assert_str_eq(l->why, "");
}
END_TEST

/* A byte is another one: the step before. */
START_TEST(test_shared_file_that_is_damaged_is_refused)
{
    char name[96];
    save_two_alone();
    name_of(name, 2, 1, INSTANCE);
    damage_file(name, 9000);
    const struct loaded *l = load_with(NONE, 0);
    check_loaded(l, 1);
    ck_assert_ptr_nonnull(strstr(l->why, "checksum"));
}
END_TEST

/* -- how long it takes ----------------------------------------------------- */

struct measured {
    bool reads;
    bool stripes;
    size_t mb;
    int64_t us; /* the fastest of some */
};

/* Saves some times, or loads once. */
static int measure(int rank, void *arg)
{
    struct measured *m = arg;
    const struct ddp_keeper_conf conf = {
        .size = sizeof(conf), .folder = "s", .stripes = m->stripes};
    struct ddp_error e;
    size_t len = m->mb * 1000000;
    struct ddp_tensor t = {"t", DDP_U8, 1, {len}, malloc(len)};
    RT_CHECK(t.data != NULL);
    memset(t.data, 1, len);
    struct ddp *d = rt_init();
    struct ddp_comm *c = rt_join(d, 0);
    struct ddp_keeper *k = ddp_keeper_new(d, c, &conf, &e);
    RT_OK(k == NULL ? -1 : 0, e);
    for (int i = 0; i < (m->reads ? 1 : 4); i++) {
        int64_t since_us = mono_now_us();
        if (m->reads)
            RT_OK(ddp_keeper_load(k, &t, 1, NULL, 0, NULL, &e), e);
        else
            RT_OK(ddp_keeper_save(k, i, &t, 1, NULL, 0, true, &e), e);
        RT_OK(ddp_keeper_wait(k, &e), e);
        int64_t took_us = mono_now_us() - since_us;
        if (rank == 0 && (m->us == 0 || took_us < m->us))
            m->us = took_us;
    }
    ddp_keeper_free(k);
    ddp_comm_free(c);
    ddp_free(d);
    free(t.data);
    return 0;
}

/* Two ranks beside one; the files are in the page cache when they are read. */
START_TEST(test_shared_file_is_measured)
{
    const char *given = getenv("MB");
    size_t mb = given == NULL ? 8 : (size_t)atoi(given);
    for (int stripes = 0; stripes < 2; stripes++) {
        struct measured *m = rt_shared(2 * sizeof(*m));
        for (int i = 0; i < 4; i++) { /* three loads, each anew */
            struct measured *now = &m[i > 0];
            now->mb = mb;
            now->stripes = stripes;
            now->reads = i > 0;
            give_memory(3 * (mb * 1000000 + (1 << 20)));
            rt_world_run(2, measure, now, 120000);
        }
        printf("check_shared_file: %zu MB by %d of 2 ranks: saved and on the "
               "disk after %.1f ms, loaded after %.1f ms\n",
               mb, stripes + 1, (double)m[0].us / 1e3, (double)m[1].us / 1e3);
        ck_assert_int_gt(m[0].us, 0);
        ck_assert_int_gt(m[1].us, 0);
    }
}
END_TEST

static void enter(void)
{
    keeper_place();
    in_round(INSTANCE, 1);
}

int main(void)
{
    Suite *s = suite_create("shared_file");
    TCase *t = tcase_create("parts");
    tcase_add_checked_fixture(t, enter, keeper_leave);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_shared_file_is_that_of_one_rank_to_the_bit, 0,
                        1 + RANKS);
    tcase_add_loop_test(
        t, test_shared_file_that_a_rank_cannot_write_is_told_by_all, 0,
        RANKS * (int)(sizeof(troubles) / sizeof(troubles[0])));
    tcase_add_loop_test(t, test_shared_file_of_a_rank_that_dies_is_none, 0,
                        RANKS);
    tcase_add_loop_test(t, test_shared_file_is_read_by_all, 0, 1 + RANKS);
    tcase_add_loop_test(t, test_shared_file_is_read_without_who_cannot, 0,
                        RANKS);
    tcase_add_test(t, test_shared_file_that_is_damaged_is_refused);
    tcase_add_test(t, test_shared_file_is_measured);
    suite_add_tcase(s, t);
    return suite_run(s);
}
