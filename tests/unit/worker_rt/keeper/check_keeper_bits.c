/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} */
/* libs: -luv -lcjson -lxxhash -pthread */
/*
 * Ranks that train the same parameters, until a bit of one of them changes: is
 * the rank named, within as many saves as there are between two comparisons,
 * and does the job end as if nothing had happened?
 *
 * Training is of whole numbers that are never rounded, and no two states have
 * the same next one: so a wrong bit never heals, and spreads by the gradients
 * to all ranks. FLIPS=n plays that many seeds, SEED=n that one only.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define FLIPS     20 /* of each kind of world */
#define EVERY     5  /* saves between two comparisons */
#define STEPS     17
#define ELEMS_OF  64 /* elements of a tensor */
#define TENSORS   3
#define RANKS_MAX 5

/* A world, and what happens in it. */
struct kind {
    int ranks;
    int wrong;  /* so many ranks have the same wrong bit */
    int folder; /* a step goes to the disk every so many; 0: none */
    bool tight; /* memory for three images */
};

/* What a seed draws. */
struct fate {
    uint64_t seed;
    int first; /* of those with a wrong bit; the others follow it */
    int step;  /* after which it changes */
    int tensor;
    bool moment;
    int bit;
};

struct job {
    const struct kind *kind;
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    int rank;
    char folder[24];
    uint32_t params[TENSORS][ELEMS_OF], moments[TENSORS][ELEMS_OF];
    float seen[4]; /* what this rank alone has seen, as a batch norm's */
    float own[4];  /* a piece that no other rank has */
    char names[2 * TENSORS][12];
    struct ddp_error e;
};

/* -- training -------------------------------------------------------------- */

static uint32_t gradient(uint32_t param, int rank, int step, int i)
{
    uint32_t x = param ^ ((uint32_t)(rank * 1000 + step) * 2654435761u);
    x = (x ^ (x >> 15) ^ (uint32_t)i) * 2246822519u;
    return x ^ (x >> 13);
}

static void update(uint32_t *param, uint32_t *moment, uint32_t gradient_sum)
{
    *moment = *moment * 3 + gradient_sum;
    *param = *param * 5 + *moment + 1;
}

static void begin_state(struct job *j)
{
    memset(j->params, 0, sizeof(j->params));
    memset(j->moments, 0, sizeof(j->moments));
}

static void train_step(struct job *j, int step)
{
    static uint32_t sum[TENSORS][ELEMS_OF];
    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < ELEMS_OF; i++)
            sum[t][i] = gradient(j->params[t][i], j->rank, step, i);
    RT_OK(ddp_comm_all_reduce(j->comm, sum, sum, sizeof(sum) / 4, DDP_U32,
                              DDP_SUM, &j->e),
          j->e);
    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < ELEMS_OF; i++)
            update(&j->params[t][i], &j->moments[t][i], sum[t][i]);
    j->seen[0] = (float)(step + j->rank);
    j->own[0] = (float)(step * j->rank);
}

/* The same without other ranks and without anything going wrong. */
static void check_end(const struct job *j)
{
    struct job right = {.rank = -1};
    begin_state(&right);
    for (int step = 1; step <= STEPS; step++)
        for (int t = 0; t < TENSORS; t++)
            for (int i = 0; i < ELEMS_OF; i++) {
                uint32_t sum = 0;
                for (int r = 0; r < j->kind->ranks; r++)
                    sum += gradient(right.params[t][i], r, step, i);
                update(&right.params[t][i], &right.moments[t][i], sum);
            }
    RT_CHECK(memcmp(right.params, j->params, sizeof(right.params)) == 0);
    RT_CHECK(memcmp(right.moments, j->moments, sizeof(right.moments)) == 0);
}

/* -- a round --------------------------------------------------------------- */

static void enter(struct job *j, int64_t round)
{
    char text[24];
    const struct ddp_keeper_conf conf = {
        .size = sizeof(conf),
        .folder = j->kind->folder > 0 ? j->folder : NULL,
        .check_every = EVERY};
    (void)snprintf(text, sizeof(text), "%lld", (long long)round); /* fits */
    RT_CHECK(setenv("DDP_ROUND", text, 1) == 0);
    j->d = rt_init();
    j->comm = rt_join(j->d, 0);
    j->k = ddp_keeper_new(j->d, j->comm, &conf, &j->e);
    RT_OK(j->k == NULL ? -1 : 0, j->e);
}

static void leave(struct job *j)
{
    ddp_keeper_free(j->k);
    ddp_comm_free(j->comm);
    ddp_free(j->d);
}

/* Parameters, then moments, as whole tensors; what the rank has alone; what is
 * not the same everywhere. */
static size_t list_pieces(struct job *j, struct ddp_piece *p)
{
    size_t n = 0;
    for (int t = 0; t < 2 * TENSORS; t++) {
        (void)snprintf(j->names[t], sizeof(j->names[t]), "%s%d", /* fits */
                       t < TENSORS ? "param" : "moment", t % TENSORS);
        uint32_t *data = t < TENSORS ? j->params[t] : j->moments[t - TENSORS];
        p[n++] = (struct ddp_piece){
            {j->names[t], DDP_F32, 1, {ELEMS_OF}, data}, {ELEMS_OF}, {0}};
    }
    p[n++] = (struct ddp_piece){{"seen", DDP_F32, 1, {4}, j->seen}, {4}, {0}};
    p[n++] = (struct ddp_piece){{"own", DDP_F32, 1, {4}, j->own},
                                {4 * (uint64_t)j->kind->ranks},
                                {4 * (uint64_t)j->rank}};
    return n;
}

static int save(struct job *j, int step)
{
    struct ddp_piece pieces[2 * TENSORS + 2];
    size_t n = list_pieces(j, pieces);
    bool disk = j->kind->folder > 0 && step % j->kind->folder == 0;
    return ddp_keeper_save_pieces(j->k, step, pieces, n, NULL, 0, disk, &j->e);
}

static bool want(void *ctx,
                 const struct ddp_tensor *whole,
                 size_t i,
                 struct ddp_piece *wanted)
{
    struct job *j = ctx;
    struct ddp_piece pieces[2 * TENSORS + 2];
    size_t n = list_pieces(j, pieces);
    for (size_t p = 0; i == 0 && p < n; p++) {
        if (strcmp(pieces[p].local.name, whole->name) != 0)
            continue;
        wanted->local.shape[0] = pieces[p].local.shape[0];
        wanted->offset[0] = pieces[p].offset[0];
        wanted->local.data = pieces[p].local.data;
        return true;
    }
    return false;
}

/* -- a wrong bit ----------------------------------------------------------- */

static struct fate draw_fate(const struct kind *kind, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    struct fate f = {.seed = seed};
    f.first = (int)rng_below(&rng, (uint32_t)kind->ranks);
    f.step = 3 + (int)rng_below(&rng, 3 * EVERY - 2);
    f.tensor = (int)rng_below(&rng, TENSORS);
    f.moment = rng_below(&rng, 2) == 1;
    f.bit = (int)rng_below(&rng, 32 * ELEMS_OF);
    return f;
}

static bool is_wrong(const struct job *j, const struct fate *f)
{
    int behind = (j->rank - f->first + j->kind->ranks) % j->kind->ranks;
    return behind < j->kind->wrong;
}

static void flip(struct job *j, const struct fate *f)
{
    uint32_t *x = f->moment ? j->moments[f->tensor] : j->params[f->tensor];
    x[f->bit / 32] ^= 1u << f->bit % 32;
}

/* The step after which the ranks compare the first time from `step` on, and the
 * last one before it. */
static bool is_compared(const struct kind *kind, int step)
{
    return step <= 2 || step % EVERY == 0 ||
           (kind->folder > 0 && step % kind->folder == 0);
}

static int next_compared(const struct kind *kind, int step)
{
    while (!is_compared(kind, step))
        step++;
    return step;
}

static int last_compared(const struct kind *kind, int step)
{
    do
        step--;
    while (!is_compared(kind, step));
    return step;
}

/* Of this step, by this rank's error: who, what, and what follows. */
static void check_told(const struct job *j, const struct fate *f, int step)
{
    char text[64];
    int ranks = j->kind->ranks;
    bool odd = 2 * j->kind->wrong < ranks;
    RT_CHECK(j->e.code ==
             (odd && is_wrong(j, f) ? DDP_ERR_CORRUPT : DDP_ERR_PEER));
    (void)snprintf(text, sizeof(text), "after step %d ", step); /* fits */
    RT_CHECK(strstr(j->e.text, text) != NULL);
    int first = f->first + j->kind->wrong > ranks ? 0 : f->first;
    (void)snprintf(text, sizeof(text), "rank %d on node 0 has wrong bits",
                   first); /* fits */
    RT_CHECK(!odd || strstr(j->e.text, text) != NULL);
    RT_CHECK(odd || strstr(j->e.text, "nobody can tell") != NULL);
    /* A wrong parameter makes its moment wrong later, and the reverse. */
    (void)snprintf(text, sizeof(text), "%d'", f->tensor); /* fits */
    RT_CHECK(strstr(j->e.text, text) != NULL);
    (void)snprintf(text, sizeof(text), "goes on from step %d,",
                   last_compared(j->kind, step)); /* fits */
    RT_CHECK(j->kind->tight || strstr(j->e.text, text) != NULL);
}

/* From the step after `from` until the end, or until the wrong bit is found.
 * False: it was. */
static bool train(struct job *j, int from, const struct fate *f)
{
    for (int step = from + 1; step <= STEPS; step++) {
        train_step(j, step);
        if (f != NULL && step == f->step && is_wrong(j, f))
            flip(j, f);
        int rc = save(j, step);
        if (f == NULL || step != next_compared(j->kind, f->step)) {
            RT_OK(rc, j->e);
            continue;
        }
        RT_CHECK(rc != 0 && step - f->step < EVERY);
        check_told(j, f, step);
        return false;
    }
    bool tells = strstr(ddp_keeper_unequal(j->k), "tensor 'seen'") != NULL;
    RT_CHECK(tells == (j->rank == 0));
    return true;
}

/* From the last compared step; if memory had no room for it, and it went with
 * those that came after, from the one before that is on the disk, or from the
 * start. Returns which. */
static int resume(struct job *j, const struct fate *f, int64_t round)
{
    struct ddp_kept kept = {.size = sizeof(kept)};
    int last = last_compared(j->kind, next_compared(j->kind, f->step));
    int disk_step = j->kind->tight ? last - last % j->kind->folder : 0;
    memset(j->params, 1, sizeof(j->params));
    if (ddp_keeper_load_pieces(j->k, want, j, NULL, 0, &kept, &j->e) != 0) {
        RT_CHECK(j->kind->tight && disk_step == 0);
        RT_CHECK(j->e.code == DDP_ERR_NOINPUT);
        begin_state(j);
        return 0;
    }
    RT_CHECK(kept.round == round);
    if (kept.step == last)
        RT_CHECK(kept.memory || j->kind->tight);
    else
        RT_CHECK(j->kind->tight && kept.step == disk_step);
    return (int)kept.step;
}

/* Two rounds: with the wrong bit, and after it. */
static void live(struct job *j, const struct fate *f, int64_t round)
{
    (void)snprintf(j->folder, sizeof(j->folder), "s%lld", /* fits */
                   (long long)round);
    enter(j, round);
    begin_state(j);
    RT_CHECK(!train(j, 0, f));
    leave(j);
    enter(j, round + 1);
    RT_CHECK(train(j, resume(j, f, round), NULL));
    check_end(j);
    leave(j);
}

static uint64_t number_in(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static int live_all(int rank, void *arg)
{
    struct job *j = calloc(1, sizeof(*j));
    RT_CHECK(j != NULL);
    j->kind = arg;
    j->rank = rank;
    uint64_t only = number_in("SEED", 0), n = number_in("FLIPS", FLIPS);
    for (uint64_t seed = 1; seed <= n; seed++) {
        const struct fate f = draw_fate(j->kind, only > 0 ? only : seed);
        if (rank == 0 && n > FLIPS && seed % 1000 == 0)
            fprintf(stderr, "%llu flips\n", (unsigned long long)seed);
        live(j, &f, (int64_t)(2 * seed));
        if (only > 0)
            break;
    }
    free(j);
    return 0;
}

/* Three or more: the right rank is named; two, or two against two: that is
 * told. The last compared step is in memory, or, for want of room, on disk. */
TEST_LOOP(test_keeper_wrong_bit_is_named, 0, 6)
{
    static struct kind kinds[] = {
        {.ranks = 3, .wrong = 1},
        {.ranks = 5, .wrong = 2},
        {.ranks = 2, .wrong = 1},
        {.ranks = 4, .wrong = 2},
        {.ranks = 3, .wrong = 1, .folder = 3},
        {.ranks = 3, .wrong = 1, .folder = 4, .tight = true}};
    struct kind *kind = &kinds[_i];
    if (kind->tight)
        ck_assert_int_eq(ftruncate(memory_fd, kind->ranks * 6 * 4096 * 2), 0);
    with_memory(true);
    rt_world_run(kind->ranks, live_all, kind, 600000);
}

SUITE("keeper_bits",
      "ranks",
      .limit_s = 600,
      FIXTURE(keeper_place, keeper_leave))
