/* links: tests/lib/bad_disk RT */
/* libs: -lcjson -lxxhash */
/*
 * A disk that fails at random, and a process that ends at random, while a
 * keeper saves in the background: whatever happens, what is loaded afterwards
 * is whole, and never older than the last snapshot that was reported as saved.
 * SEED= and EPISODES= (some five faults each) say how long; tests/ci/prove
 * takes many.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/bad_disk.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define ELEMS 2500

/* What parent and children know of each other. */
static struct shared {
    _Atomic int64_t faults;
    _Atomic int64_t struck[BAD_CALLS]; /* of them, by call */
    _Atomic int64_t saved;             /* reported, the newest */
    _Atomic int64_t tried;             /* the newest that was begun */
} * shared;

/* -- the faults ------------------------------------------------------------ */

static _Atomic uint32_t odds; /* one call in so many; 0: none fails */
static bool may_die;
static _Atomic uint64_t calls; /* two threads: each call draws its own number */
static uint64_t fault_seed;

static enum bad_fault draw(enum bad_call call, int *reason)
{
    static const int reasons[] = {EIO,    ENOSPC, EDQUOT, EACCES,
                                  ESTALE, EINVAL, EINTR};
    struct rng r;
    uint32_t n = atomic_load(&odds);
    if (n == 0)
        return BAD_NONE;
    rng_init(&r, fault_seed + atomic_fetch_add(&calls, 1));
    (void)rng_next(&r);
    if (rng_below(&r, n) != 0)
        return BAD_NONE;
    (void)atomic_fetch_add(&shared->faults, 1);
    (void)atomic_fetch_add(&shared->struck[call], 1);
    *reason = reasons[rng_below(&r, sizeof(reasons) / sizeof(reasons[0]))];
    return (enum bad_fault)(
        BAD_FAIL +
        (int)rng_below(&r, (may_die ? BAD_FAULTS : BAD_DIE_BEFORE) - BAD_FAIL));
}

/* -- a worker -------------------------------------------------------------- */

struct worker {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    float data[ELEMS];
    struct ddp_tensor t;
    struct ddp_kv kv;
    struct ddp_error e;
};

/* In a process that may end at any moment: Check's own would be torn then. */
#define MUST(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);    \
            abort();                                                           \
        }                                                                      \
    } while (0)

static void place(const char *instance, int round)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", round);
    MUST(setenv("RANK", "0", 1) == 0);
    MUST(setenv("WORLD_SIZE", "1", 1) == 0);
    MUST(setenv("LOCAL_RANK", "0", 1) == 0);
    MUST(setenv("LOCAL_WORLD_SIZE", "1", 1) == 0);
    MUST(setenv("DDP_INSTANCE", instance, 1) == 0);
    MUST(setenv("DDP_ROUND", text, 1) == 0);
}

static void start(struct worker *w)
{
    struct ddp_keeper_conf conf = {.folder = "s"};
    memset(w, 0, sizeof(*w));
    w->t = (struct ddp_tensor){"data", DDP_F32, 1, {ELEMS}, w->data};
    w->kv.key = "step";
    w->d = ddp_init(&w->e);
    MUST(w->d != NULL);
    w->comm = ddp_comm_new(w->d, NULL, &w->e);
    MUST(w->comm != NULL);
    w->k = ddp_keeper_new(w->d, w->comm, &conf, &w->e);
}

static void stop(struct worker *w)
{
    ddp_keeper_free(w->k);
    ddp_comm_free(w->comm);
    ddp_free(w->d);
}

/* Its step, -1 where there is none; -2 where none is whole, or none can be
 * read. Fails the test on data that are not all of one step. */
static int64_t load(struct worker *w)
{
    int64_t step;
    memset(w->data, 0, sizeof(w->data));
    if (ddp_keeper_load(w->k, &w->t, 1, &w->kv, 1, NULL, &w->e) != 0)
        return w->e.code == DDP_ERR_NOINPUT ? -1 : -2;
    MUST(ddp_kv_get_i64(&w->kv, &step, &w->e) == 0);
    for (int i = 0; i < ELEMS; i++)
        MUST((int64_t)w->data[i] == step * 3 + i);
    return step;
}

static void save(struct worker *w, int64_t step, struct rng *r)
{
    for (int i = 0; i < ELEMS; i++)
        w->data[i] = (float)(step * 3 + i);
    ddp_kv_set_i64(&w->kv, "step", step);
    atomic_store(&shared->tried, step);
    (void)ddp_keeper_save(w->k, step, &w->t, 1, &w->kv, 1, true, &w->e);
    if (rng_below(r, 2) == 0)
        (void)ddp_keeper_wait(w->k, &w->e);
    if (ddp_keeper_saved(w->k) > atomic_load(&shared->saved))
        atomic_store(&shared->saved, ddp_keeper_saved(w->k));
}

/* From now on in this process. */
static void strike(struct rng *r)
{
    fault_seed = rng_next(r);
    may_die = rng_below(r, 3) > 0;
    atomic_store(&odds, 2 + rng_below(r, 12));
    bad_disk = draw;
}

/* From a disk that fails from the start: an error, or something whole, which
 * may be an older one; but no fresh start where there is something. */
static void look(struct worker *w, struct rng *r)
{
    strike(r);
    start(w);
    MUST(w->k != NULL || w->e.code == DDP_ERR_IO ||
         w->e.code == DDP_ERR_CONFLICT);
    if (w->k != NULL)
        MUST(load(w) != -1 || atomic_load(&shared->saved) < 0);
    stop(w);
    _exit(0);
}

/* In a child: goes on from what is there, saves some, struck by faults. */
static void episode(uint64_t seed, const char *instance, int round)
{
    static struct worker w;
    struct rng r;
    rng_init(&r, seed);
    pid_t pid = fork();
    int status;
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        place(instance, round);
        if (rng_below(&r, 6) == 0)
            look(&w, &r);
        start(&w);
        MUST(w.k != NULL);
        int64_t step = load(&w);
        if (step == -2)
            _exit(1);
        strike(&r);
        for (int n = 1 + (int)rng_below(&r, 8); n > 0; n--)
            save(&w, ++step, &r);
        (void)load(&w); /* from a disk that fails, but nothing that is bad */
        stop(&w);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == BAD_DIED);
}

/* -- bits ------------------------------------------------------------------ */

/* The path of the snapshot of a step; false: there is none. */
static bool find(int64_t step, char path[300])
{
    char begin[32];
    bool found = false;
    DIR *list = opendir("s");
    ck_assert_ptr_nonnull(list);
    (void)snprintf(begin, sizeof(begin), "step-%012lld.", (long long)step);
    for (const struct dirent *e; (e = readdir(list)) != NULL;) {
        char file[300];
        if (strncmp(e->d_name, begin, strlen(begin)) != 0)
            continue;
        (void)snprintf(file, sizeof(file),
                       "s/%.200s/shard-00001-of-00001.safetensors", e->d_name);
        if (access(file, F_OK) != 0)
            continue; /* it was not finished */
        memcpy(path, file, sizeof(file));
        found = true;
    }
    ck_assert_int_eq(closedir(list), 0);
    return found;
}

/* A bit of the newest flips, or it is cut: it is not believed. Then all is as
 * it was. */
static void damage_newest(int64_t newest, struct rng *r, struct worker *w)
{
    char path[300];
    static char all[65536];
    if (newest < 0 || !find(newest, path))
        return;
    int fd = openat(AT_FDCWD, path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ssize_t len = read(fd, all, sizeof(all));
    ck_assert_int_gt(len, 0);
    ck_assert_int_lt(len, (ssize_t)sizeof(all));
    off_t at = (off_t)rng_below(r, (uint32_t)len);
    char bad = (char)(all[at] ^ (1 << rng_below(r, 8)));
    if (rng_below(r, 4) == 0)
        ck_assert_int_eq(ftruncate(fd, at), 0);
    else
        ck_assert_int_eq(pwrite(fd, &bad, 1, at), 1);
    (void)atomic_fetch_add(&shared->faults, 1);
    int64_t found = load(w);
    ck_assert_msg(found < newest, "byte %d of step %d", (int)at, (int)newest);
    ck_assert_int_eq(pwrite(fd, all, (size_t)len, 0), len);
    ck_assert_int_eq(close(fd), 0);
}

/* -- all of it ------------------------------------------------------------- */

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text == NULL ? fallback : strtoull(text, NULL, 10);
}

TEST(test_keeper_faults_never_lose_what_was_saved)
{
    static struct worker w;
    char dir[64], instance[RNG_ID_LEN + 1];
    const char *root =
        access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    uint64_t seed = number("SEED", 1), episodes = number("EPISODES", 400);
    struct rng r;
    (void)snprintf(dir, sizeof(dir), "%s/check_faults.XXXXXX", root);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    atomic_store(&shared->saved, -1);
    atomic_store(&shared->tried, -1);
    rng_init(&r, seed);
    rng_id(instance);
    int round = 0, instances = 1;
    int64_t newest = -1;
    for (uint64_t i = 0; i < episodes; i++) {
        if (rng_below(&r, 12) == 0) {
            rng_id(instance);
            round = 0;
            instances++;
        }
        episode(rng_next(&r), instance, ++round);
        place(instance, ++round);
        start(&w);
        MUST(w.k != NULL);
        int64_t found = load(&w);
        int64_t saved = atomic_load(&shared->saved);
        ck_assert_msg(found >= saved && found >= newest,
                      "SEED=%llu, episode %llu: step %lld was saved, %lld is "
                      "loaded: %s",
                      (unsigned long long)seed, (unsigned long long)i,
                      (long long)saved, (long long)found,
                      found < 0 ? w.e.text : "");
        ck_assert_int_le(found, atomic_load(&shared->tried));
        newest = found;
        atomic_store(&shared->saved, found);
        if (rng_below(&r, 3) == 0)
            damage_newest(newest, &r, &w);
        stop(&w);
    }
    int64_t faults = atomic_load(&shared->faults);
    printf("check_keeper_faults: %lld faults in %llu episodes of %d instances, "
           "seed %llu: %lld steps, none lost\n",
           (long long)faults, (unsigned long long)episodes, instances,
           (unsigned long long)seed, (long long)newest);
    for (int c = 0; c < BAD_CALLS; c++) {
        int64_t n = atomic_load(&shared->struck[c]);
        printf("  %s: %lld\n", bad_disk_names[c], (long long)n);
        /* The few episodes that valgrind has time for may leave one out. */
        ck_assert_msg(n > 0 || episodes < 100, "never struck: %s",
                      bad_disk_names[c]);
    }
    ck_assert_int_gt(faults, 3 * (int64_t)episodes);
    ck_assert_int_gt(newest, (int64_t)episodes / 4);
    char line[128];
    ck_assert_int_eq(chdir("/"), 0);
    (void)snprintf(line, sizeof(line), "rm -r %s", dir);
    ck_assert_int_eq(system(line), 0);
}

SUITE("keeper_faults", "random", .limit_s = 600)
