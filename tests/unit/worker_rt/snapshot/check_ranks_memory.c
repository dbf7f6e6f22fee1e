/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} */
/* libs: -luv -lcjson -lxxhash */
/* libs: -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc */
/* libs: -Wl,--wrap=free -Wl,--wrap=strdup -Wl,--wrap=XXH3_createState */
/*
 * Each allocation of a rank fails in turn, once or from then on, in each call
 * that all ranks make together: does no rank wait for ever, are all told, or
 * only that rank, which the others can go on with, and is nothing leaked?
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/meet.h"
#include "worker_rt/rt.h"
#include "worker_rt/snapshot/mem_slots.h"

#define RANKS 4 /* on three nodes: 0 and 1, 2, 3 */
#define COUNT 4000
#define LATE  20000 /* ms in which a call must return, and a world must end */

/* -- allocations ----------------------------------------------------------- */

static atomic_int left; /* this one fails; 0: none */
static bool for_good;   /* and all after it */
static atomic_bool struck;
static atomic_int alive; /* allocations that were not freed */

static bool fails(void)
{
    if (atomic_load(&left) == 0 || atomic_fetch_sub(&left, 1) > 1)
        return false;
    if (for_good)
        atomic_store(&left, 1);
    else
        atomic_store(&left, 0);
    atomic_store(&struck, true);
    return true;
}

static void *counted(void *p)
{
    if (p != NULL)
        (void)atomic_fetch_add(&alive, 1);
    return p;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
    if (fails())
        return NULL;
    return p == NULL ? counted(__real_realloc(p, size))
                     : __real_realloc(p, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : counted(__real_strdup(text));
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    if (p != NULL)
        (void)atomic_fetch_sub(&alive, 1);
    __real_free(p);
}

XXH3_state_t *__real_XXH3_createState(void);
XXH3_state_t *__wrap_XXH3_createState(void);
XXH3_state_t *__wrap_XXH3_createState(void)
{
    return fails() ? NULL : __real_XXH3_createState();
}

/* -- what is called -------------------------------------------------------- */

/* One rank's. */
struct bench {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    struct ddp_error e;
    struct ddp_tensor t;
    int32_t in[RANKS * COUNT];
    int32_t out[RANKS * COUNT];
};

static int new_comm(struct bench *b)
{
    const struct ddp_comm_opts opts = {.init_timeout_ms = 5 * LATE};
    b->comm = ddp_comm_new(b->d, &opts, &b->e);
    return b->comm == NULL ? -1 : 0;
}

static int sum_parts(struct bench *b)
{
    return ddp_comm_reduce_scatter(b->comm, b->in, b->out, COUNT, DDP_I32,
                                   DDP_SUM, &b->e);
}

static int new_keeper(struct bench *b)
{
    const struct ddp_keeper_conf conf = {
        .size = sizeof(conf), .folder = "s", .rank_state_max = 24};
    b->k = ddp_keeper_new(b->d, b->comm, &conf, &b->e);
    return b->k == NULL ? -1 : 0;
}

static int new_plain_keeper(struct bench *b)
{
    const struct ddp_keeper_conf conf = {.folder = "s"};
    b->k = ddp_keeper_new(b->d, b->comm, &conf, &b->e);
    return b->k == NULL ? -1 : 0;
}

static int new_reader(struct bench *b)
{
    const struct ddp_keeper_conf conf = {
        .folder = "s", .no_memory = true, .load_only = true};
    b->k = ddp_keeper_new(b->d, b->comm, &conf, &b->e);
    return b->k == NULL ? -1 : 0;
}

static int save(struct bench *b)
{
    if (ddp_keeper_save(b->k, 5, &b->t, 1, NULL, 0, true, &b->e) != 0)
        return -1;
    return ddp_keeper_wait(b->k, &b->e);
}

static int load(struct bench *b)
{
    memset(b->in, 0, sizeof(b->in));
    if (ddp_keeper_load(b->k, &b->t, 1, NULL, 0, NULL, &b->e) != 0)
        return -1;
    for (int i = 0; i < COUNT; i++)
        RT_CHECK(b->in[i] == i);
    return 0;
}

/* The rank's slots lose their labels. */
static void forget(struct bench *b)
{
    static const uint64_t none = 0;
    uint64_t part = MEMORY / (uint64_t)b->d->local_world / 4096 * 4096;
    uint64_t at = (uint64_t)b->d->node_rank * part;
    for (uint64_t i = 0; b->d->memory_fd >= 0 && i < MEM_SLOTS_MAX; i++)
        RT_CHECK(pwrite(b->d->memory_fd, &none, sizeof(none),
                        (off_t)(at + i * (part / MEM_SLOTS_MAX / 4096 *
                                          4096))) == sizeof(none));
}

static const struct call {
    const char *name;
    int (*before[2])(struct bench *b); /* nothing fails there */
    bool forgets;                      /* so that files are read */
    int (*run)(struct bench *b);
} calls[] = {
    {"ddp_comm_new", {NULL}, false, new_comm},
    {"ddp_comm_reduce_scatter", {new_comm}, false, sum_parts},
    {"ddp_keeper_new", {new_comm}, false, new_keeper},
    {"ddp_keeper_new to load", {new_comm}, false, new_reader},
    {"ddp_keeper_save", {new_comm, new_plain_keeper}, false, save},
    {"ddp_keeper_save, states", {new_comm, new_keeper}, false, save},
    {"ddp_keeper_load", {new_comm, new_reader}, false, load},
    {"ddp_keeper_load, states", {new_comm, new_keeper}, true, load},
    {"ddp_keeper_load, memory", {new_comm, new_plain_keeper}, false, load},
};
#define CALLS ((int)(sizeof(calls) / sizeof(calls[0])))

/* -- a world --------------------------------------------------------------- */

/* In memory of all ranks. */
static struct shared {
    atomic_int arrived;
    atomic_int generation;
    atomic_bool struck;
    atomic_int codes[RANKS]; /* of the call; 0: it was done */
    atomic_int whole[RANKS]; /* whether the communicator is, afterwards */
    atomic_int failed;       /* how often a call was hit */
} * shared;

static void meet_up(void)
{
    int generation = atomic_load(&shared->generation);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == RANKS) {
        atomic_store(&shared->arrived, 0);
        (void)atomic_fetch_add(&shared->generation, 1);
        return;
    }
    while (atomic_load(&shared->generation) == generation)
        (void)usleep(50);
}

struct play {
    const struct call *call;
    int with; /* the rank whose allocations fail */
    bool for_good;
};

static void be_placed(int rank)
{
    char text[16];
    RT_CHECK(setenv("LOCAL_RANK", rank == 1 ? "1" : "0", 1) == 0);
    RT_CHECK(setenv("LOCAL_WORLD_SIZE", rank < 2 ? "2" : "1", 1) == 0);
    (void)snprintf(text, sizeof(text), "%d", rank < 2 ? 0 : rank - 1);
    RT_CHECK(setenv("GROUP_RANK", text, 1) == 0);
    if (rank >= 2)
        RT_CHECK(unsetenv("DDP_SNAPSHOT_MEMORY") == 0);
}

static void begin(struct bench *b, const struct call *c)
{
    b->t = (struct ddp_tensor){"t", DDP_I32, 1, {COUNT}, b->in};
    for (int i = 0; i < 2 && c->before[i] != NULL; i++)
        RT_OK(c->before[i](b), b->e);
    for (int i = 0; i < COUNT; i++)
        b->in[i] = i;
    if (c->forgets)
        forget(b);
}

static void end(struct bench *b)
{
    ddp_keeper_free(b->k);
    ddp_comm_free(b->comm);
}

/* All have done it; or that rank lacks memory, and the others can go on with
 * it, or all have an error, or the communicator is broken on all. */
static void judge(const struct play *p, int n, const struct bench *b)
{
    int own = atomic_load(&shared->codes[p->with]), others = 0, whole = 0;
    bool hit = atomic_load(&shared->struck);
    for (int r = 0; r < RANKS; r++) {
        others += r != p->with && atomic_load(&shared->codes[r]) != 0;
        whole += atomic_load(&shared->whole[r]);
    }
    if (own == 0 && others == 0)
        return;
    if (hit && own == DDP_ERR_NOMEM &&
        (whole == 0 ||
         (whole == RANKS && (others == 0 || others == RANKS - 1))))
        return;
    fprintf(stderr,
            "%s, allocation %d of rank %d%s: code %d there, an error on %d "
            "others, whole on %d\n",
            p->call->name, n, p->with, p->for_good ? " and all after it" : "",
            own, others, whole);
    rt_wrong(__FILE__, __LINE__, "the verdict", b->e.text);
}

static bool play_one(const struct play *p, struct ddp *d, int rank, int n)
{
    static struct bench b;
    int before = atomic_load(&alive);
    memset(&b, 0, sizeof(b));
    b.d = d;
    begin(&b, p->call);
    meet_up();
    for_good = p->for_good;
    atomic_store(&struck, false);
    atomic_store(&left, rank == p->with ? n : 0);
    int64_t since_us = mono_now_us();
    int rc = p->call->run(&b);
    int64_t took_us = mono_now_us() - since_us;
    atomic_store(&left, 0);
    atomic_store(&shared->codes[rank], rc == 0 ? 0 : (int)b.e.code);
    if (rank == p->with)
        atomic_store(&shared->struck, atomic_load(&struck));
    meet_up();
    struct ddp_error e;
    bool whole = b.comm != NULL && ddp_comm_barrier(b.comm, &e) == 0;
    atomic_store(&shared->whole[rank], whole);
    meet_up();
    judge(p, n, &b);
    RT_CHECK(took_us < LATE * MONO_MS * suite_slow());
    bool again = atomic_load(&shared->struck);
    end(&b);
    if (atomic_load(&alive) != before)
        fprintf(stderr, "%s, allocation %d of rank %d: %d leaked\n",
                p->call->name, n, p->with, atomic_load(&alive) - before);
    RT_CHECK(atomic_load(&alive) == before);
    meet_up();
    return again;
}

static int play(int rank, void *arg)
{
    const struct play *p = arg;
    int n = 1;
    be_placed(rank);
    comm_meet_look_us = 5000;
    struct ddp *d = rt_init();
    struct bench *first = calloc(1, sizeof(*first)); /* it keeps buffers */
    RT_CHECK(first != NULL);
    first->d = d;
    RT_OK(new_comm(first), first->e);
    struct ddp_err e;
    bool there;
    RT_CHECK(store_client_check(&d->store, "k", &there, MONO_NEVER, &e) == 0);
    end(first);
    free(first);
    meet_up();
    while (play_one(p, d, rank, n))
        n++;
    ddp_free(d);
    if (rank == 0)
        (void)atomic_fetch_add(&shared->failed, n - 1);
    return 0;
}

/* A file to load, of the first step; no memory has it. */
static int save_first(int rank, void *arg)
{
    static struct bench b;
    static const struct call first = {
        "the first", {new_comm, new_plain_keeper}, false, NULL};
    (void)arg;
    be_placed(rank);
    b.d = rt_init();
    begin(&b, &first);
    RT_OK(ddp_keeper_save(b.k, 1, &b.t, 1, NULL, 0, true, &b.e), b.e);
    RT_OK(ddp_keeper_wait(b.k, &b.e), b.e);
    end(&b);
    ddp_free(b.d);
    return 0;
}

TEST_LOOP(test_ranks_memory_that_ends_in_a_call_is_no_hang, 0, CALLS)
{
    const struct call *c = &calls[_i];
    shared = rt_shared(sizeof(*shared));
    with_memory(true);
    rt_world_run(RANKS, save_first, NULL, LATE);
    for (int i = 0; i < 4; i++) {
        struct play p = {c, i / 2 * 2 - i / 2, i % 2 == 1};
        rt_world_run(RANKS, play, &p, LATE);
    }
    printf("check_ranks_memory: %s: %d failures\n", c->name,
           atomic_load(&shared->failed));
    ck_assert_int_gt(atomic_load(&shared->failed), 0);
}

/* -- wrong arguments on one rank only -------------------------------------- */

/* The others hear what is wrong there, and need not wait for it. */
static int give_wrong_options(int rank, void *arg)
{
    static struct bench b;
    const int *with = arg;
    const struct ddp_comm_opts opts = {.init_timeout_ms = 5 * LATE,
                                       .timeout_ms = rank == *with ? -1 : 0};
    const struct ddp_keeper_conf conf = {.keep = rank == *with ? -1 : 0};
    comm_meet_look_us = 5000;
    be_placed(rank);
    b.d = rt_init();
    RT_CHECK(ddp_comm_new(b.d, &opts, &b.e) == NULL);
    RT_CHECK(rank == *with
                 ? b.e.code == DDP_ERR_USAGE
                 : b.e.code == DDP_ERR_PEER && strstr(b.e.text, "gave up"));
    RT_OK(new_comm(&b), b.e);
    RT_CHECK(ddp_keeper_new(b.d, b.comm, &conf, &b.e) == NULL);
    RT_CHECK(b.e.code == DDP_ERR_USAGE && strstr(b.e.text, "keep is -1"));
    RT_OK(ddp_comm_barrier(b.comm, &b.e), b.e);
    end(&b);
    ddp_free(b.d);
    return 0;
}

/* It is saved nowhere, all are told, and all go on. */
static int give_wrong_tensor(int rank, void *arg)
{
    static struct bench b;
    const int *with = arg;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                         .rank_state_max = 8};
    be_placed(rank);
    b.d = rt_init();
    RT_OK(new_comm(&b), b.e);
    b.k = ddp_keeper_new(b.d, b.comm, &conf, &b.e);
    RT_OK(b.k == NULL ? -1 : 0, b.e);
    b.t = (struct ddp_tensor){
        rank == *with ? "ddp.ranks" : "t", DDP_I32, 1, {COUNT}, b.in};
    int rc = ddp_keeper_save(b.k, 1, &b.t, 1, NULL, 0, false, &b.e);
    RT_CHECK(rc != 0 && b.e.code == DDP_ERR_USAGE);
    RT_OK(ddp_comm_barrier(b.comm, &b.e), b.e);
    end(&b);
    ddp_free(b.d);
    return 0;
}

TEST_LOOP(test_ranks_wrong_arguments_of_one_are_no_hang, 0, 2)
{
    int with = _i * 2; /* the first rank, or one behind */
    with_memory(false);
    rt_world_run(RANKS, give_wrong_options, &with, LATE);
    rt_world_run(RANKS, give_wrong_tensor, &with, LATE);
}

static void enter(void)
{
    keeper_place();
    in_round(INSTANCE, 1);
}

/* The test counts leaks itself. */
SUITE("ranks_memory",
      "allocations",
      .tags = "many-forks",
      .limit_s = 60,
      FIXTURE(enter, keeper_leave))
