/* clang-format off */
/* links: tests/lib/scratch tests/lib/rt_world tests/lib/rt_comm */
/* links: tests/lib/rt_keeper tests/lib/rt_nccl */
/* libs: -luv -lcjson -lxxhash -ldl */
/* libs: -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/* clang-format on */
/*
 * The ranks of a node make a snapshot together, a part each: is it the one that
 * a single rank makes, to the bit, is each rank's part really its own, and is
 * there none if a part is missing?
 *
 * MB=n makes the measured state so large.
 */
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_nccl.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/rt.h"
#include "worker_rt/snapshot/mem_slots.h"

#define RANKS   3
#define TENSORS 12
#define MOST    2000 /* floats of a tensor */

static const size_t sizes[TENSORS] = {2000, 3,   0,   700, 1000, 1,
                                      500,  500, 900, 40,  2000, 8};

struct story {
    bool stripes;
    bool later;
    bool disk;
    bool gpu;      /* tensors lie in GPU memory */
    int odd;       /* a rank that has another tensor; -1: none */
    int wrong;     /* one whose tensor has no name */
    int dies;      /* one that is killed when step 2 is saved */
    int fails;     /* one on which a collective fails that step 2 rests on */
    int breaks;    /* one whose GPU fails before step 2 */
    bool by_ranks; /* each rank's tensors have its number in them */
};

/* -- a rank ---------------------------------------------------------------- */

struct rank {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    struct proof_part part; /* of a collective that is under way */
    float data[TENSORS][MOST];
    char names[TENSORS][8];
    struct ddp_tensor t[TENSORS];
    struct ddp_error e;
};

static float value(int step, int t, size_t i, int rank)
{
    return (float)(step * 1000 + t * 10 + rank) + (float)i / 4096;
}

static void fill(struct rank *r, int step, int rank)
{
    for (int t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < sizes[t]; i++)
            r->data[t][i] = value(step, t, i, rank);
    for (int t = 0; t < TENSORS; t++)
        if (r->t[t].data != r->data[t])
            memcpy(rt_shadow(r->t[t].data), r->data[t], sizes[t] * 4);
}

static struct rank *start(const struct ddp_keeper_conf *conf)
{
    struct rank *r = calloc(1, sizeof(*r));
    RT_CHECK(r != NULL);
    for (int t = 0; t < TENSORS; t++) {
        (void)snprintf(r->names[t], sizeof(r->names[t]), "t%d", t); /* fits */
        r->t[t] = (struct ddp_tensor){
            r->names[t], DDP_F32, 1, {sizes[t]}, r->data[t]};
    }
    for (int t = 0; conf->gpu && t < TENSORS; t++)
        r->t[t].data = rt_device(sizes[t] * 4 + 4);
    r->d = rt_init();
    r->comm = rt_join(r->d, 0);
    r->k = ddp_keeper_new(r->d, r->comm, conf, &r->e);
    RT_OK(r->k == NULL ? -1 : 0, r->e);
    return r;
}

static void stop(struct rank *r)
{
    ddp_keeper_free(r->k);
    proof_leave(&r->part);
    ddp_comm_free(r->comm);
    ddp_free(r->d);
    free(r);
}

static int save(struct rank *r, int64_t step, bool disk)
{
    return ddp_keeper_save(r->k, step, r->t, TENSORS, NULL, 0, disk, &r->e);
}

/* A collective that was begun and then failed, on this rank only. */
static void begin(struct rank *r)
{
    proof_join(&r->d->proof, &r->part);
    proof_draw(&r->part);
}

static void break_it(struct rank *r)
{
    const uint32_t blame[2] = {0, 0};
    struct ddp_err why;
    (void)ddp_err_set(&why, DDP_E_PEER, "rank 9 died");
    proof_failed(&r->part, &why, blame);
}

/* Of the ranks of a story, in memory that they share: those that are through
 * the barrier, which a rank that dies would break for the others. */
static atomic_int *through;

static void wait_for_the_others(void)
{
    while (atomic_load(through) < RANKS)
        (void)usleep(1000);
}

static void count_anew(void)
{
    if (through == NULL)
        through = mmap(NULL, sizeof(*through), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(through != MAP_FAILED);
    atomic_store(through, 0);
}

/* Steps 1 and 2; what goes wrong does so in the second. */
static int tell_story(int rank, void *arg)
{
    const struct story *s = arg;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .folder = s->disk ? "s" : NULL,
                                         .later = s->later,
                                         .gpu = s->gpu,
                                         .stripes = s->stripes};
    struct rank *r = start(&conf);
    fill(r, 1, s->by_ranks ? rank : 0);
    RT_OK(save(r, 1, s->disk), r->e);
    ddp_keeper_settle(r->k);
    fill(r, 2, s->by_ranks ? rank : 0);
    if (rank == s->odd)
        r->t[4].shape[0]--;
    if (rank == s->wrong)
        r->t[4].name = NULL;
    if (rank == s->fails)
        begin(r);
    if (rank == s->breaks)
        rt_cuda()->broken = true;
    int rc = save(r, 2, s->disk);
    if (s->wrong >= 0)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_USAGE);
    else if (rank == s->breaks)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_IO);
    else
        RT_OK(rc, r->e);
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e); /* all have saved */
    (void)atomic_fetch_add(through, 1);
    if (rank == s->dies || rank == s->fails)
        wait_for_the_others();
    if (rank == s->dies)
        (void)raise(SIGKILL);
    if (rank == s->fails)
        break_it(r);
    rc = ddp_keeper_wait(r->k, &r->e);
    if (rank == 0 && s->odd >= 0)
        RT_CHECK(
            rc != 0 && r->e.code == DDP_ERR_CONFLICT &&
            strstr(r->e.text, "tensors of rank 1 are not those of rank 0"));
    else if ((rank == 0 && s->fails >= 0) || rank == s->fails)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_PEER &&
                 strstr(r->e.text,
                        rank == s->fails ? "rank 9 died" : "rank 1 failed"));
    else if (rank == 0 && s->breaks >= 0)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_PEER &&
                 strstr(r->e.text, "rank 1 did not copy its part"));
    else if (rank == 0 && s->dies >= 0)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_PEER);
    else
        RT_OK(rc, r->e);
    stop(r);
    return 0;
}

/* -- what is there --------------------------------------------------------- */

/* The step that a plain worker loads; `owners`: whose part each tensor is. */
static int64_t load(const char *folder, int owners[TENSORS])
{
    const struct ddp_keeper_conf conf = {.folder = folder};
    struct ddp_kept kept = {.size = sizeof(kept)};
    rt_place(0, 1, 1, 2);
    struct rank *r = start(&conf);
    if (ddp_keeper_load(r->k, r->t, TENSORS, NULL, 0, &kept, &r->e) != 0) {
        ck_assert_int_eq(r->e.code, DDP_ERR_NOINPUT);
        kept.step = 0;
    }
    for (int t = 0; t < TENSORS && kept.step > 0; t++) {
        owners[t] = sizes[t] > 0 ? (int)r->data[t][0] % 10 : 0;
        for (size_t i = 0; i < sizes[t]; i++)
            ck_assert(memcmp(&r->data[t][i],
                             &(float){value((int)kept.step, t, i, owners[t])},
                             sizeof(float)) == 0);
    }
    stop(r);
    return kept.step;
}

static const struct story plain = {
    .odd = -1, .wrong = -1, .dies = -1, .fails = -1, .breaks = -1};

/* Memory of its own, with what that story leaves there. */
static int memory_of(struct story s)
{
    int fd = memfd_create(MEMFD_SNAPSHOTS, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, MEMORY), 0);
    char path[48];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(),
                   fd); /* fits */
    ck_assert_int_eq(setenv("DDP_SNAPSHOT_MEMORY", path, 1), 0);
    count_anew();
    rt_world_run(RANKS, tell_story, &s, 20000);
    return fd;
}

/* Where the ranks of a node talk: in the first slot, before its image. */
static void clear_board(void *memory)
{
    memset((uint8_t *)memory + 4096 - MEM_SLOTS_BOARD, 0, MEM_SLOTS_BOARD);
}

/* All of the memory is that which a single rank makes: headers, checksums, data
 * and labels. */
START_TEST(test_stripes_make_the_same_snapshot_to_the_bit)
{
    struct story s = plain;
    s.later = _i == 1;
    s.gpu = _i == 2;
    int alone = memory_of(s);
    s.stripes = true;
    int parts = memory_of(s);
    uint8_t *a = mmap(NULL, MEMORY, PROT_READ, MAP_SHARED, alone, 0);
    uint8_t *b =
        mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, parts, 0);
    ck_assert(a != MAP_FAILED && b != MAP_FAILED);
    clear_board(b);
    ck_assert_int_eq(memcmp(a, b, MEMORY), 0);
    int owners[TENSORS];
    ck_assert_int_eq(load(NULL, owners), 2);
    ck_assert_int_eq(munmap(a, MEMORY) + munmap(b, MEMORY), 0);
    ck_assert_int_eq(close(alone) + close(parts), 0);
}
END_TEST

/* Each rank copies a part, also for the disk. */
START_TEST(test_stripes_are_of_all_ranks)
{
    struct story s = plain;
    int owners[TENSORS], parts[RANKS] = {0};
    s.stripes = s.by_ranks = true;
    s.disk = _i == 1;
    int fd = memory_of(s);
    if (s.disk)
        with_memory(false);
    ck_assert_int_eq(load(s.disk ? "s" : NULL, owners), 2);
    for (int t = 0; t < TENSORS; t++)
        parts[owners[t]] += sizes[t] > 0;
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_gt(parts[r], 0);
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* No label: the step before is loaded, and the reason is told. */
START_TEST(test_stripes_without_a_part_are_no_snapshot)
{
    struct story s = plain;
    int owners[TENSORS];
    s.stripes = true;
    s.gpu = _i == 2;
    s.odd = _i == 0 ? 1 : -1;
    s.fails = _i == 1 ? 1 : -1;
    s.breaks = _i == 2 ? 1 : -1;
    s.wrong = _i >= 3 ? _i - 3 : -1;
    int fd = memory_of(s);
    ck_assert_int_eq(load(NULL, owners), 1);
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* A rank dies with its part copied or not, the one with the memory or not. */
START_TEST(test_stripes_of_a_rank_that_dies_are_no_snapshot)
{
    struct story s = plain;
    pid_t pids[RANKS];
    int owners[TENSORS];
    s.stripes = true;
    s.dies = _i;
    with_memory(true);
    count_anew();
    pid_t store = rt_world_start(RANKS, tell_story, &s, pids);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(rt_wait(pids[r], 10000),
                         r == s.dies ? 128 + SIGKILL : 0);
    rt_kill(store);
    ck_assert_int_eq(load(NULL, owners), 1);
}
END_TEST

/* Without the launcher's memory one rank writes to the disk, as ever. */
START_TEST(test_stripes_need_the_launchers_memory)
{
    struct story s = plain;
    int owners[TENSORS];
    s.stripes = s.disk = true;
    with_memory(false);
    count_anew();
    rt_world_run(RANKS, tell_story, &s, 20000);
    ck_assert_int_eq(load("s", owners), 2);
}
END_TEST

/* -- how long it takes ----------------------------------------------------- */

struct measured {
    size_t mb;
    bool stripes;
    int64_t us; /* of the fastest of some saves until they are sealed .. */
    int64_t cpu_us[2]; /* .. and what each rank has computed for one */
};

/* Of this process, its threads too. */
static int64_t computed_us(void)
{
    struct timespec t;
    RT_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void least(int64_t *least, int64_t us)
{
    if (*least == 0 || us < *least)
        *least = us;
}

static int measure(int rank, void *arg)
{
    struct measured *m = arg;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .stripes = m->stripes};
    static struct ddp_tensor t[64];
    static char names[64][8];
    struct ddp_error e;
    struct ddp *d = rt_init();
    struct ddp_comm *c = rt_join(d, 0);
    struct ddp_keeper *k = ddp_keeper_new(d, c, &conf, &e);
    RT_OK(k == NULL ? -1 : 0, e);
    for (int i = 0; i < 64; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%d", i); /* fits */
        t[i] = (struct ddp_tensor){
            names[i], DDP_U8, 1, {m->mb * 1000000 / 64}, NULL};
        t[i].data = malloc(m->mb * 1000000 / 64);
        RT_CHECK(t[i].data != NULL);
        memset(t[i].data, i, m->mb * 1000000 / 64);
    }
    for (int step = 1; step <= 8; step++) {
        RT_OK(ddp_comm_barrier(c, &e), e);
        int64_t since_us = mono_now_us(), before_us = computed_us();
        RT_OK(ddp_keeper_save(k, step, t, 64, NULL, 0, false, &e), e);
        ddp_keeper_settle(k);
        if (step <= 3)
            continue; /* pages are taken */
        if (rank == 0)
            least(&m->us, mono_now_us() - since_us);
        least(&m->cpu_us[rank], computed_us() - before_us);
    }
    ddp_keeper_free(k);
    ddp_comm_free(c);
    ddp_free(d);
    return 0;
}

START_TEST(test_stripes_are_measured)
{
    const char *mb = getenv("MB");
    struct measured *m = rt_shared(2 * sizeof(*m));
    for (int i = 0; i < 2; i++) {
        m[i] = (struct measured){.mb = mb == NULL ? 8 : (size_t)atoi(mb),
                                 .stripes = i == 1};
        int fd = memfd_create(MEMFD_SNAPSHOTS, 0);
        char path[48];
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(),
                       fd); /* fits */
        ck_assert_int_eq(
            ftruncate(fd, (off_t)(3 * (m[i].mb * 1000000 + (1 << 20)))), 0);
        ck_assert_int_eq(setenv("DDP_SNAPSHOT_MEMORY", path, 1), 0);
        rt_world_run(2, measure, &m[i], 60000);
        ck_assert_int_eq(close(fd), 0);
    }
    for (int i = 0; i < 2; i++)
        printf("check_keeper_stripes: %zu MB by %d of 2 ranks: sealed after "
               "%.1f ms, CPU time %.1f and %.1f ms\n",
               m[i].mb, i + 1, (double)m[i].us / 1e3,
               (double)m[i].cpu_us[0] / 1e3, (double)m[i].cpu_us[1] / 1e3);
    ck_assert_int_gt(m[1].cpu_us[1], m[0].cpu_us[1]); /* it takes part */
}
END_TEST

static void enter(void)
{
    keeper_place();
    in_round(INSTANCE, 1);
}

int main(void)
{
    Suite *s = suite_create("keeper_stripes");
    TCase *t = tcase_create("parts");
    tcase_add_checked_fixture(t, enter, keeper_leave);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_stripes_make_the_same_snapshot_to_the_bit, 0,
                        3);
    tcase_add_loop_test(t, test_stripes_are_of_all_ranks, 0, 2);
    tcase_add_loop_test(t, test_stripes_without_a_part_are_no_snapshot, 0, 6);
    tcase_add_loop_test(t, test_stripes_of_a_rank_that_dies_are_no_snapshot, 0,
                        RANKS);
    tcase_add_test(t, test_stripes_need_the_launchers_memory);
    tcase_add_test(t, test_stripes_are_measured);
    suite_add_tcase(s, t);
    return suite_run(s);
}
