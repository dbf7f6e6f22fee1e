/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper,rt_nccl} */
/* libs: -luv -lcjson -lxxhash -ldl */
/* libs: -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * A state that all ranks of a node have alike: does each of them store a part
 * of it, and nothing twice, is it the same to the bit however it was copied,
 * and does no step count of which a part is missing?
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_nccl.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/rt.h"
#include "worker_rt/snapshot/pieces.h"

#define RANKS   3
#define TENSORS 12
#define MOST    2000 /* floats of a tensor */

static const size_t sizes[TENSORS] = {2000, 3,   0,   700, 1000, 1,
                                      500,  500, 900, 40,  2000, 8};

struct story {
    bool later;
    bool disk;
    bool gpu;      /* tensors lie in GPU memory */
    int odd;       /* a rank that has another tensor; -1: none */
    int wrong;     /* one whose tensor has no name */
    int breaks;    /* one whose GPU fails before step 2 */
    bool by_ranks; /* each rank's tensors have its number in them */
};

/* -- a rank ---------------------------------------------------------------- */

struct rank {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
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
    ddp_comm_free(r->comm);
    ddp_free(r->d);
    free(r);
}

static int save(struct rank *r, int64_t step, bool disk)
{
    return ddp_keeper_save(r->k, step, r->t, TENSORS, NULL, 0, disk, &r->e);
}

/* Steps 1 and 2; what goes wrong does so in the second. */
static int tell_story(int rank, void *arg)
{
    const struct story *s = arg;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .folder = s->disk ? "s" : NULL,
                                         .later = s->later,
                                         .gpu = s->gpu};
    struct rank *r = start(&conf);
    fill(r, 1, s->by_ranks ? rank : 0);
    RT_OK(save(r, 1, s->disk), r->e);
    ddp_keeper_settle(r->k);
    fill(r, 2, s->by_ranks ? rank : 0);
    if (rank == s->odd)
        r->t[4].shape[0]--;
    if (rank == s->wrong)
        r->t[4].name = NULL;
    if (rank == s->breaks)
        rt_cuda()->broken = true;
    int rc = save(r, 2, s->disk);
    if (s->odd >= 0)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_USAGE &&
                 strstr(r->e.text, "tensor 't4' than another rank") != NULL);
    else if (s->wrong >= 0)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_USAGE);
    else if (rank == s->breaks)
        RT_CHECK(rc != 0 && r->e.code == DDP_ERR_IO);
    else
        RT_OK(rc, r->e);
    RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
    stop(r);
    return 0;
}

/* -- what is there --------------------------------------------------------- */

/* What the ranks load: the step, and whose part each tensor is. */
static struct loaded {
    int step;
    int owners[TENSORS];
} * loaded;

static int load_all(int rank, void *arg)
{
    const struct ddp_keeper_conf conf = {.folder = arg};
    struct ddp_kept kept = {.size = sizeof(kept)};
    struct rank *r = start(&conf);
    RT_OK(ddp_keeper_load(r->k, r->t, TENSORS, NULL, 0, &kept, &r->e), r->e);
    for (int t = 0; t < TENSORS; t++) {
        int owner = sizes[t] > 0 ? (int)r->data[t][0] % 10 : 0;
        for (size_t i = 0; i < sizes[t]; i++) {
            float right = value((int)kept.step, t, i, owner);
            RT_CHECK(memcmp(&r->data[t][i], &right, sizeof(right)) == 0);
        }
        if (rank == 0)
            loaded->owners[t] = owner;
    }
    if (rank == 0)
        loaded->step = (int)kept.step;
    stop(r);
    return 0;
}

static int load(char *folder)
{
    loaded = rt_shared(sizeof(*loaded));
    in_round(INSTANCE, 2);
    rt_world_run(RANKS, load_all, folder, 20000);
    return loaded->step;
}

static const struct story plain = {.odd = -1, .wrong = -1, .breaks = -1};

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
    rt_world_run(RANKS, tell_story, &s, 20000);
    return fd;
}

/* All of the memory: headers, checksums, data and labels. */
TEST_LOOP(test_same_state_is_saved_to_the_bit_however_it_is_copied, 0, 2)
{
    struct story s = plain;
    int at_once = memory_of(s);
    s.later = _i == 0;
    s.gpu = _i == 1;
    int behind = memory_of(s);
    uint8_t *a = mmap(NULL, MEMORY, PROT_READ, MAP_SHARED, at_once, 0);
    uint8_t *b = mmap(NULL, MEMORY, PROT_READ, MAP_SHARED, behind, 0);
    ck_assert(a != MAP_FAILED && b != MAP_FAILED);
    ck_assert_int_eq(memcmp(a, b, MEMORY), 0);
    ck_assert_int_eq(load(NULL), 2);
    ck_assert_int_eq(munmap(a, MEMORY) + munmap(b, MEMORY), 0);
    ck_assert_int_eq(close(at_once) + close(behind), 0);
}

/* Each rank stores a part: in memory, on the disk, and there also without the
 * launcher's memory. */
TEST_LOOP(test_same_state_is_stored_by_all_ranks, 0, 3)
{
    struct story s = plain;
    char folder[] = "s";
    int parts[RANKS] = {0}, fd = -1;
    s.by_ranks = true;
    s.disk = _i > 0;
    if (_i < 2) {
        fd = memory_of(s);
    } else {
        with_memory(false);
        rt_world_run(RANKS, tell_story, &s, 20000);
    }
    if (s.disk)
        with_memory(false);
    ck_assert_int_eq(load(s.disk ? folder : NULL), 2);
    for (int t = 0; t < TENSORS; t++)
        parts[loaded->owners[t]] += sizes[t] > 0;
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_gt(parts[r], 0);
    if (fd >= 0)
        ck_assert_int_eq(close(fd), 0);
}

/* The step before is loaded, and the reason is told: to all ranks where the
 * save did not begin. */
TEST_LOOP(test_same_state_without_a_part_is_no_snapshot, 0, 2 + RANKS)
{
    struct story s = plain;
    s.gpu = _i == 0;
    s.breaks = _i == 0 ? 1 : -1;
    s.odd = _i == 1 ? 1 : -1;
    s.wrong = _i >= 2 ? _i - 2 : -1;
    int fd = memory_of(s);
    ck_assert_int_eq(load(NULL), 1);
    ck_assert_int_eq(close(fd), 0);
}

/* -- one large tensor ------------------------------------------------------ */

#define LARGE ((size_t)(2 * PIECE_PART_MAX + 3))

enum large {
    LOADS,
    SAVES_TENSOR,
    SAVES_PIECE
};

static int save_large(int rank, void *arg)
{
    struct ddp_error e;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf)};
    struct ddp_tensor t = {"t", DDP_U8, 2, {LARGE, 1}, malloc(LARGE)};
    const enum large *what = arg;
    (void)rank;
    RT_CHECK(t.data != NULL);
    uint8_t *data = t.data;
    const struct ddp_piece p = {.local = t, .whole = {LARGE, 1}};
    for (size_t i = 0; i < LARGE; i++)
        data[i] = *what == LOADS ? 0 : (uint8_t)(i * 7 >> 8);
    struct ddp *d = rt_init();
    struct ddp_comm *comm = rt_join(d, 0);
    struct ddp_keeper *k = ddp_keeper_new(d, comm, &conf, &e);
    RT_OK(k == NULL ? -1 : 0, e);
    if (*what == LOADS)
        RT_OK(ddp_keeper_load(k, &t, 1, NULL, 0, NULL, &e), e);
    else if (*what == SAVES_PIECE)
        RT_OK(ddp_keeper_save_pieces(k, 1, &p, 1, NULL, 0, false, &e), e);
    else
        RT_OK(ddp_keeper_save(k, 1, &t, 1, NULL, 0, false, &e), e);
    RT_OK(ddp_keeper_wait(k, &e), e);
    RT_CHECK(ddp_keeper_no_memory(k)[0] == '\0');
    for (size_t i = 0; i < LARGE; i++)
        RT_CHECK(data[i] == (uint8_t)(i * 7 >> 8));
    ddp_keeper_free(k);
    ddp_comm_free(comm);
    ddp_free(d);
    free(data);
    return 0;
}

/* The memory of one rank has no room for three of it: they share it, also if
 * each saves it as a piece. */
TEST_LOOP(test_same_large_tensor_is_shared_by_the_ranks, 0, 2)
{
    enum large what = _i == 0 ? SAVES_TENSOR : SAVES_PIECE;
    with_memory(true);
    ck_assert_int_eq(
        ftruncate(memory_fd, (off_t)snapshot_slots_length(4 * LARGE)), 0);
    rt_world_run(RANKS, save_large, &what, 60000);
    what = LOADS;
    rt_world_run(RANKS, save_large, &what, 60000);
}

static void enter(void)
{
    keeper_place();
    in_round(INSTANCE, 1);
}

SUITE("keeper_same", "parts", .limit_s = 60, FIXTURE(enter, keeper_leave))
