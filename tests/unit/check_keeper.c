/* links: tests/lib/scratch tests/lib/rt_world tests/lib/rt_comm */
/* links: worker_rt/keeper worker_rt/keeper_load worker_rt/staging */
/* links: worker_rt/slots worker_rt/shelf worker_rt/folder worker_rt/image */
/* links: worker_rt/snapshot worker_rt/snapshot_load worker_rt/safetensors */
/* links: worker_rt/sampler */
/* libs: -luv -lcjson -lxxhash */
/*
 * The keeper: what was saved comes back, from memory or disk, from this rank or
 * from a peer, on as many ranks as there are then.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/asked.h"
#include "rendezvous/base/rng.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/keeper.h"

#define ELEMS     3000
#define SMALL     64
#define MEMORY    (1 << 20)
#define INSTANCE  "0123456789abcdef0123456789abcdef"
#define ANOTHER   "fedcba9876543210fedcba9876543210"
#define UNCHANGED (-1)

static int memory_fd;

/* -- a place --------------------------------------------------------------- */

static void make_dir(void)
{
    scratch_enter();
    rt_place(0, 1, 1, 1);
    memory_fd = memfd_create(ASKED_SNAPSHOT_NAME, 0);
    ck_assert_int_ge(memory_fd, 0);
    ck_assert_int_eq(ftruncate(memory_fd, MEMORY), 0);
}

static void drop_dir(void)
{
    scratch_leave();
    ck_assert_int_eq(close(memory_fd), 0);
}

static void with_memory(bool with)
{
    char path[48] = "";
    if (with) /* fits */
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(),
                       memory_fd);
    ck_assert_int_eq(setenv("DDP_SNAPSHOT_MEMORY", path, 1), 0);
}

static void in_round(const char *instance, int round)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", round); /* fits */
    ck_assert_int_eq(setenv("DDP_INSTANCE", instance, 1), 0);
    ck_assert_int_eq(setenv("DDP_ROUND", text, 1), 0);
}

/* -- a worker -------------------------------------------------------------- */

struct worker {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    float big[ELEMS];
    int64_t small[SMALL];
    struct ddp_tensor t[2];
    struct ddp_kv kv;
    struct ddp_error e;
    struct ddp_kept info;
    bool later;
};

static void shape(struct worker *w)
{
    w->t[0] = (struct ddp_tensor){"big", DDP_F32, 2, {ELEMS / 2, 2}, w->big};
    w->t[1] = (struct ddp_tensor){"small", DDP_I64, 1, {SMALL}, w->small};
    w->kv.key = "step";
}

/* The state after a step is a function of it. */
static void fill(struct worker *w, int64_t step)
{
    for (int i = 0; i < ELEMS; i++)
        w->big[i] = (float)(step * 7 + i);
    for (int i = 0; i < SMALL; i++)
        w->small[i] = step * 1000 + i;
    ddp_kv_set_i64(&w->kv, "step", step);
}

static struct worker *start(const struct ddp_keeper_conf *conf)
{
    struct worker *w = calloc(1, sizeof(*w));
    RT_CHECK(w != NULL);
    shape(w);
    w->later = conf->later;
    w->d = rt_init();
    w->comm = rt_join(w->d, 0);
    w->k = ddp_keeper_new(w->d, w->comm, conf, &w->e);
    RT_OK(w->k == NULL ? -1 : 0, w->e);
    return w;
}

static void stop(struct worker *w)
{
    ddp_keeper_free(w->k);
    ddp_comm_free(w->comm);
    ddp_free(w->d);
    free(w);
}

static int save(struct worker *w, int64_t step, bool disk)
{
    fill(w, step);
    int rc = ddp_keeper_save(w->k, step, w->t, 2, &w->kv, 1, disk, &w->e);
    if (w->later)
        ddp_keeper_settle(w->k);
    fill(w, step + 100000); /* the copy has been made */
    return rc;
}

/* The step that is loaded, all of it right; -1: there is none. */
static int64_t load(struct worker *w)
{
    int64_t step;
    memset(w->big, 0, sizeof(w->big));
    if (ddp_keeper_load(w->k, w->t, 2, &w->kv, 1, &w->info, &w->e) != 0)
        return -1;
    RT_OK(ddp_kv_get_i64(&w->kv, &step, &w->e), w->e);
    RT_CHECK(step == w->info.step);
    for (int i = 0; i < ELEMS; i++)
        RT_CHECK((int64_t)w->big[i] == step * 7 + i);
    for (int i = 0; i < SMALL; i++)
        RT_CHECK(w->small[i] == step * 1000 + i);
    return step;
}

static int64_t load_once(const struct ddp_keeper_conf *conf)
{
    struct worker *w = start(conf);
    int64_t step = load(w);
    stop(w);
    return step;
}

static const struct ddp_keeper_conf on_disk = {.folder = "s"};
static const struct ddp_keeper_conf in_memory = {.folder = NULL};

/* Snapshots in a folder. */
static int count(const char *folder)
{
    int n = 0;
    DIR *list = opendir(folder);
    if (list == NULL)
        return 0;
    for (const struct dirent *e; (e = readdir(list)) != NULL;)
        n += strncmp(e->d_name, "step-", 5) == 0 || strstr(e->d_name, ".tmp.");
    ck_assert_int_eq(closedir(list), 0);
    return n;
}

static void name_of(char out[96], long long step, int round, const char *who)
{
    (void)snprintf(out, 96, "s/step-%012lld.r%d.%.8s.safetensors", step, round,
                   who); /* fits */
}

static bool is_there(long long step, int round, const char *who)
{
    char name[96];
    name_of(name, step, round, who);
    return access(name, F_OK) == 0;
}

/* -- disk ------------------------------------------------------------------ */

/* Saved in the background, reported when it is there, the newest few kept. */
START_TEST(test_keeper_disk_keeps_the_newest)
{
    struct ddp_keeper_conf conf = {.folder = "s", .keep = 3};
    struct worker *w = start(&conf);
    ck_assert_int_eq(load(w), -1);
    ck_assert_int_eq(w->e.code, DDP_ERR_NOINPUT);
    ck_assert_int_eq(ddp_keeper_saved(w->k), -1);
    for (int step = 1; step <= 10; step++)
        ck_assert_int_eq(save(w, step, step % 2 == 0), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    ck_assert_int_eq(ddp_keeper_saved(w->k), 10);
    ck_assert_int_eq(count("s"), 3);
    ck_assert(is_there(6, 1, INSTANCE) && is_there(10, 1, INSTANCE));
    stop(w);
    in_round(INSTANCE, 2);
    w = start(&conf);
    ck_assert_int_eq(load(w), 10);
    ck_assert(!w->info.foreign && !w->info.memory && w->info.round == 1);
    stop(w);
}
END_TEST

/* A later round's snapshot is newer whatever its step, and writes none of the
 * earlier one's files. */
START_TEST(test_keeper_disk_newest_round_first)
{
    struct worker *w = start(&on_disk);
    ck_assert_int_eq(save(w, 9, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
    in_round(INSTANCE, 2);
    w = start(&on_disk);
    ck_assert_int_eq(save(w, 4, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
    ck_assert(is_there(9, 1, INSTANCE) && is_there(4, 2, INSTANCE));
    ck_assert_int_eq(load_once(&on_disk), 4);
}
END_TEST

/* Without a launcher rounds of different runs look alike: the step counts. */
START_TEST(test_keeper_disk_without_instance_goes_by_step)
{
    ck_assert_int_eq(unsetenv("DDP_INSTANCE"), 0);
    for (int round = 3; round >= 1; round--) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%d", round); /* fits */
        ck_assert_int_eq(setenv("DDP_ROUND", text, 1), 0);
        struct worker *w = start(&on_disk);
        ck_assert_int_eq(save(w, 10 - round, true), 0);
        ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
        stop(w);
    }
    ck_assert_int_eq(load_once(&on_disk), 9);
}
END_TEST

/* A new instance loads what the old one left and takes the folder over; the
 * old one, if it still runs, is told so and writes nothing more. */
START_TEST(test_keeper_folder_is_taken_over)
{
    int go[2], done[2];
    char c;
    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(done), 0);
    pid_t old = fork();
    if (old == 0) {
        struct worker *w = start(&on_disk);
        RT_CHECK(save(w, 50, true) == 0);
        RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
        RT_CHECK(write(done[1], "x", 1) == 1 && read(go[0], &c, 1) == 1);
        RT_CHECK(save(w, 60, true) == 0);
        RT_CHECK(ddp_keeper_wait(w->k, &w->e) != 0);
        RT_CHECK(w->e.code == DDP_ERR_CONFLICT);
        RT_CHECK(strstr(w->e.text, "step 60") && strstr(w->e.text, ANOTHER));
        RT_CHECK(ddp_keeper_wait(w->k, &w->e) == 0); /* told once */
        stop(w);
        _exit(0);
    }
    ck_assert_int_eq(read(done[0], &c, 1), 1);
    in_round(ANOTHER, 1);
    struct worker *w = start(&on_disk);
    ck_assert_int_eq(load(w), 50);
    ck_assert(w->info.foreign);
    ck_assert_str_eq(w->info.instance, INSTANCE);
    ck_assert_int_eq(write(go[1], "x", 1), 1);
    ck_assert_int_eq(rt_wait(old, 5000), 0);
    stop(w);
    /* It has written nothing itself yet, so the old one's is still the one. */
    ck_assert_int_eq(load_once(&on_disk), 50);
    w = start(&on_disk);
    ck_assert_int_eq(load(w), 50);
    ck_assert_int_eq(save(w, 3, true), 0);
    ck_assert_int_eq(save(w, 4, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
    ck_assert(is_there(3, 1, ANOTHER) && !is_there(50, 1, INSTANCE));
    ck_assert_int_eq(load_once(&on_disk), 4);
}
END_TEST

static void damage(const char *path, off_t at)
{
    char c;
    int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c = (char)(c ^ 1);
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    ck_assert_int_eq(close(fd), 0);
}

/* The one before is taken, and what was wrong is told; with none left there is
 * no fresh start. */
START_TEST(test_keeper_damaged_file_is_passed_over)
{
    char name[96];
    struct worker *w = start(&on_disk);
    for (int step = 1; step <= 2; step++)
        ck_assert_int_eq(save(w, step, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    name_of(name, 2, 1, INSTANCE);
    damage(name, 9000);
    ck_assert_int_eq(load(w), 1);
    ck_assert_ptr_nonnull(strstr(w->info.why, name));
    ck_assert_ptr_nonnull(strstr(w->info.why, "'big' has a wrong checksum"));
    name_of(name, 1, 1, INSTANCE);
    damage(name, 20);
    ck_assert_int_eq(load(w), -1);
    ck_assert_int_eq(w->e.code, DDP_ERR_CORRUPT);
    stop(w);
}
END_TEST

/* Strange files in the folder are nobody's business; a file in its place is. */
START_TEST(test_keeper_strangers_in_the_folder)
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
    struct worker *w = start(&on_disk);
    ck_assert_int_eq(load(w), -1);
    ck_assert_int_eq(w->e.code, DDP_ERR_NOINPUT);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(access(names[i], F_OK), i == 4 ? -1 : 0);
    struct ddp_keeper_conf conf = {.folder = names[0]};
    ck_assert_ptr_null(ddp_keeper_new(w->d, w->comm, &conf, &e));
    ck_assert_int_eq(e.code, DDP_ERR_CONFLICT);
    conf.folder = "no/where";
    ck_assert_ptr_null(ddp_keeper_new(w->d, w->comm, &conf, &e));
    ck_assert_int_eq(e.code, DDP_ERR_IO);
    stop(w);
}
END_TEST

/* To load only: nothing is made, nothing is taken over. */
START_TEST(test_keeper_load_only_leaves_the_folder)
{
    struct ddp_keeper_conf conf = {.folder = "s", .load_only = true};
    ck_assert_int_eq(load_once(&conf), -1);
    ck_assert_int_eq(access("s", F_OK), -1);
    struct worker *w = start(&on_disk);
    ck_assert_int_eq(save(w, 5, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    in_round(ANOTHER, 1);
    ck_assert_int_eq(load_once(&conf), 5);
    ck_assert_int_eq(save(w, 6, true), 0); /* still the owner */
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
}
END_TEST

/* -- memory ---------------------------------------------------------------- */

/* What one worker left there the next one goes on from; without it, nothing. */
START_TEST(test_keeper_memory_outlives_the_worker)
{
    with_memory(true);
    struct worker *w = start(&in_memory);
    ck_assert_str_eq(ddp_keeper_no_memory(w->k), "");
    ck_assert_int_eq(load(w), -1);
    for (int step = 1; step <= 20; step++)
        ck_assert_int_eq(save(w, step, false), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
    in_round(INSTANCE, 2);
    w = start(&in_memory);
    ck_assert_int_eq(load(w), 20);
    ck_assert(w->info.memory);
    stop(w);
    with_memory(false);
    ck_assert_int_eq(load_once(&in_memory), -1);
}
END_TEST

/* Copied while the program goes on: what the state was when it was settled, of
 * every kind of memory, and what is given up half way does no harm. */
START_TEST(test_keeper_later_is_what_it_was_when_settled)
{
    struct ddp_keeper_conf conf = {.folder = _i == 0 ? "s" : NULL,
                                   .later = true};
    with_memory(_i == 1);
    struct worker *w = start(&conf);
    ddp_keeper_settle(w->k); /* nothing to wait for */
    for (int step = 1; step <= 20; step++)
        ck_assert_int_eq(save(w, step, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    fill(w, 21);
    ck_assert_int_eq(ddp_keeper_save(w->k, 21, w->t, 2, &w->kv, 1, true, &w->e),
                     0);
    stop(w);
    ck_assert_int_ge(load_once(&conf), 20);
}
END_TEST

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

/* Who is told of an error may free everything: of a save that tells an earlier
 * one's, nothing is read any more, and it is on its way to the disk. */
START_TEST(test_keeper_later_borrows_nothing_after_an_error)
{
    static float much[1 << 22]; /* takes a while to copy */
    struct ddp_tensor t = {"much", DDP_F32, 1, {1 << 22}, much};
    struct ddp_keeper_conf conf = {.folder = "s", .later = true};
    with_memory(false);
    struct worker *w = start(&conf);
    ck_assert_int_eq(save(w, 1, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    ck_assert_int_eq(system("rm -r s && : >s"), 0); /* a file is no folder */
    ck_assert_int_eq(save(w, 2, true), 0);
    while (!has_failed(w->k)) /* or the test case's time is over */
        usleep(1000);
    ck_assert_int_eq(unlink("s"), 0);
    ck_assert_int_eq(ddp_keeper_save(w->k, 3, &t, 1, NULL, 0, true, &w->e), -1);
    ck_assert(!are_borrowed(w->k));
    ck_assert_ptr_nonnull(strstr(w->e.text, "step 2"));
    stop(w);
}
END_TEST

/* Memory and disk in one order: the newest of both. */
START_TEST(test_keeper_newest_of_memory_and_disk)
{
    with_memory(true);
    struct worker *w = start(&on_disk);
    for (int step = 1; step <= 7; step++)
        ck_assert_int_eq(save(w, step, step == 4), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
    ck_assert_int_eq(load_once(&on_disk), 7);
    with_memory(false);
    ck_assert_int_eq(load_once(&on_disk), 4);
    in_round(INSTANCE, 2);
    w = start(&on_disk);
    ck_assert_int_eq(save(w, 5, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
    with_memory(true);
    ck_assert_int_eq(load_once(&on_disk), 5); /* of the newer round */
}
END_TEST

/* Any bit of the newest slot flipped: the one before, or another file. */
START_TEST(test_keeper_memory_flipped_is_not_believed)
{
    struct rng r;
    rng_init(&r, 5);
    with_memory(true);
    struct worker *w = start(&in_memory);
    for (int step = 1; step <= 3; step++)
        ck_assert_int_eq(save(w, step, false), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    const off_t slot = 0; /* there lies step 3: only step 2 was not to go */
    const uint32_t len = 4096 + ELEMS * 4 + SMALL * 8;
    for (int i = 0; i < 400; i++) {
        off_t at = slot + (off_t)rng_below(&r, i < 100 ? 64 : len);
        char was, bad;
        ck_assert_int_eq(pread(memory_fd, &was, 1, at), 1);
        bad = (char)(was ^ (1 << rng_below(&r, 8)));
        ck_assert_int_eq(pwrite(memory_fd, &bad, 1, at), 1);
        int64_t step = load(w);
        bool gap = at - slot >= 80 && at - slot < 4096;
        ck_assert_msg(step == 2 || (gap && step == 3), "%d: at %d step %d", i,
                      (int)(at - slot), (int)step);
        ck_assert_int_eq(pwrite(memory_fd, &was, 1, at), 1);
    }
    ck_assert_int_eq(load(w), 3);
    stop(w);
}
END_TEST

/* Too little of it: told once, and the disk goes on alone. */
START_TEST(test_keeper_memory_too_small_is_told)
{
    ck_assert_int_eq(ftruncate(memory_fd, 3 * 8192), 0);
    with_memory(true);
    struct worker *w = start(&on_disk);
    ck_assert_str_eq(ddp_keeper_no_memory(w->k), "");
    for (int step = 1; step <= 6; step++)
        ck_assert_int_eq(save(w, step, step % 3 == 0), 0);
    ck_assert_ptr_nonnull(
        strstr(ddp_keeper_no_memory(w->k), "--snapshot_memory"));
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    ck_assert_int_eq(load(w), 6);
    stop(w);
    ck_assert_int_eq(ftruncate(memory_fd, 4096), 0);
    w = start(&on_disk);
    ck_assert_ptr_nonnull(strstr(ddp_keeper_no_memory(w->k), "too few"));
    stop(w);
}
END_TEST

/* Killed at any moment: what is loaded is whole, at most one step behind what
 * the worker was told, with `later` none behind what was settled, and never
 * older than what was reported on the disk. */
START_TEST(test_keeper_killed_worker_costs_one_step)
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
            struct worker *w = start(&conf);
            int64_t from = load(w);
            for (int64_t s = from + 1;; s++) {
                RT_OK(save(w, s, s % 8 == 0), w->e);
                atomic_store(&shared->told, s);
                atomic_store(&shared->saved, ddp_keeper_saved(w->k));
            }
        }
        unsigned after_us = 3000 + rng_below(&r, 12000);
        (void)usleep(after_us * (unsigned)rt_slow());
        /* Every other one while it saves, however slow this machine is. */
        while (run % 2 == 1 && atomic_load(&shared->told) < step + 8)
            (void)usleep(after_us % 1000);
        rt_kill(pid);
        int64_t told = atomic_load(&shared->told);
        in_round(INSTANCE, run + 2);
        int64_t found = load_once(&on_disk);
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
    struct worker *w = start(&on_disk);
    ck_assert_int_ge(load(w), atomic_load(&shared->saved));
    /* Whoever was killed before it removed what was too many or torn: the next
     * one does. */
    ck_assert_int_eq(save(w, step + 1, true), 0);
    ck_assert_int_eq(ddp_keeper_wait(w->k, &w->e), 0);
    stop(w);
    ck_assert_int_eq(count("s"), 2);
}
END_TEST

/* -- peers ----------------------------------------------------------------- */

/* This rank is a node of its own. */
static void alone_on_node(int rank)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", rank); /* fits */
    RT_CHECK(setenv("LOCAL_RANK", "0", 1) == 0);
    RT_CHECK(setenv("LOCAL_WORLD_SIZE", "1", 1) == 0);
    RT_CHECK(setenv("GROUP_RANK", text, 1) == 0);
}

static struct worker *start_node(int rank, bool shared)
{
    char folder[16] = "s";
    alone_on_node(rank);
    if (!shared)
        (void)snprintf(folder, sizeof(folder), "s%d", rank); /* fits */
    struct ddp_keeper_conf conf = {.folder = folder};
    return start(&conf);
}

/* Four nodes, one folder: one of them writes. */
static int share_folder(int rank, void *arg)
{
    (void)arg;
    struct worker *w = start_node(rank, true);
    RT_CHECK(load(w) == -1 && w->e.code == DDP_ERR_NOINPUT);
    for (int step = 1; step <= 5; step++)
        RT_OK(save(w, step, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    RT_CHECK(ddp_keeper_saved(w->k) == (rank == 0 ? 5 : -1));
    RT_OK(ddp_comm_barrier(w->comm, &w->e), w->e);
    RT_CHECK(load(w) == 5 && w->info.rank == 0);
    stop(w);
    return 0;
}

START_TEST(test_keeper_shared_folder_has_one_writer)
{
    rt_world_run(4, share_folder, NULL, 10000);
    ck_assert_int_eq(count("s"), 2);
}
END_TEST

/* Each node its own folder: rank 2 is ahead of the others, then lost. */
static int own_folders(int rank, void *arg)
{
    const int *part = arg;
    struct worker *w = start_node(rank, false);
    if (*part == 0) {
        for (int step = 1; step <= 5 + (rank == 2); step++)
            RT_OK(save(w, step, true), w->e);
        RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
        RT_CHECK(ddp_keeper_saved(w->k) == 5 + (rank == 2));
    } else {
        RT_CHECK(load(w) == (*part == 1 ? 6 : 5));
        RT_CHECK(w->info.rank == (*part == 1 ? 2 : 0));
    }
    stop(w);
    return 0;
}

START_TEST(test_keeper_newest_of_any_peer_is_taken)
{
    for (int part = 0; part < 3; part++) {
        if (part == 2) /* that machine comes back with an empty disk */
            ck_assert_int_eq(system("rm -r s2"), 0);
        rt_world_run(3, own_folders, &part, 10000);
    }
}
END_TEST

/* The newest is damaged on its node: all take the next one and say why. */
static int damaged_peer(int rank, void *arg)
{
    (void)arg;
    struct worker *w = start_node(rank, false);
    RT_CHECK(load(w) == 5);
    RT_CHECK(strstr(w->info.why, "s2/step-000000000006") != NULL);
    RT_CHECK((strstr(w->info.why, "rank 2") != NULL) == (rank != 2));
    stop(w);
    return 0;
}

START_TEST(test_keeper_damaged_peer_is_passed_over)
{
    int part = 0;
    rt_world_run(3, own_folders, &part, 10000);
    damage("s2/step-000000000006.r1.01234567.safetensors", 9000);
    rt_world_run(3, damaged_peer, NULL, 10000);
}
END_TEST

/* -- another number of ranks ----------------------------------------------- */

#define SAMPLES 1200
#define BATCH   4

/* How often each sample was taken; and how many steps a world takes. */
struct epoch {
    _Atomic int seen[SAMPLES];
    int steps; /* 0: to the end */
};

static int train_part(int rank, void *arg)
{
    struct epoch *ep = arg;
    uint32_t index[BATCH];
    struct worker *w = start_node(rank, false);
    struct ddp_sampler_conf conf = {.samples = SAMPLES,
                                    .rank = rank,
                                    .world = ddp_world(w->d),
                                    .seed = 3,
                                    .shuffle = true};
    struct ddp_sampler *s = ddp_sampler_new(&conf, &w->e);
    RT_CHECK(s != NULL);
    int64_t at = load(w);
    RT_OK(ddp_sampler_seek(s, 0, at < 0 ? 0 : at, &w->e), w->e);
    for (int step = 0; ep->steps == 0 || step < ep->steps; step++) {
        size_t n = ddp_sampler_next(s, index, BATCH);
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++)
            (void)atomic_fetch_add(&ep->seen[index[i]], 1);
        /* The place in the epoch is the state, in samples. */
        RT_OK(save(w, ddp_sampler_position(s), true), w->e);
    }
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    ddp_sampler_free(s);
    stop(w);
    return 0;
}

/* 4, 2, 3 and 4 ranks, one after the other: no sample is lost, none is taken
 * twice. New ranks have empty disks. */
START_TEST(test_keeper_reshards_without_losing_a_sample)
{
    static const int worlds[] = {4, 2, 3, 4};
    static const int steps[] = {11, 17, 23, 0};
    struct epoch *ep = rt_shared(sizeof(*ep));
    int64_t taken = 0;
    for (int i = 0; i < 4; i++) {
        ep->steps = steps[i];
        rt_world_run(worlds[i], train_part, ep, 10000);
        taken += (int64_t)worlds[i] * steps[i] * BATCH;
    }
    ck_assert_int_eq((SAMPLES - taken) % 4, 0); /* so nothing is filled up */
    for (int i = 0; i < SAMPLES; i++)
        ck_assert_int_eq(atomic_load(&ep->seen[i]), 1);
}
END_TEST

static Suite *keeper_suite(void)
{
    Suite *s = suite_create("keeper");
    TCase *t = tcase_create("disk");
    tcase_add_checked_fixture(t, make_dir, drop_dir);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, test_keeper_disk_keeps_the_newest);
    tcase_add_test(t, test_keeper_disk_newest_round_first);
    tcase_add_test(t, test_keeper_disk_without_instance_goes_by_step);
    tcase_add_test(t, test_keeper_folder_is_taken_over);
    tcase_add_test(t, test_keeper_damaged_file_is_passed_over);
    tcase_add_test(t, test_keeper_strangers_in_the_folder);
    tcase_add_test(t, test_keeper_load_only_leaves_the_folder);
    suite_add_tcase(s, t);
    t = tcase_create("memory");
    tcase_add_checked_fixture(t, make_dir, drop_dir);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, test_keeper_memory_outlives_the_worker);
    tcase_add_loop_test(t, test_keeper_later_is_what_it_was_when_settled, 0, 2);
    tcase_add_test(t, test_keeper_later_borrows_nothing_after_an_error);
    tcase_add_test(t, test_keeper_newest_of_memory_and_disk);
    tcase_add_test(t, test_keeper_memory_flipped_is_not_believed);
    tcase_add_test(t, test_keeper_memory_too_small_is_told);
    suite_add_tcase(s, t);
    t = tcase_create("kills");
    tcase_set_tags(t, "many-forks");
    tcase_add_checked_fixture(t, make_dir, drop_dir);
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, test_keeper_killed_worker_costs_one_step, 0, 2);
    suite_add_tcase(s, t);
    t = tcase_create("peers");
    tcase_add_checked_fixture(t, make_dir, drop_dir);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_keeper_shared_folder_has_one_writer);
    tcase_add_test(t, test_keeper_newest_of_any_peer_is_taken);
    tcase_add_test(t, test_keeper_damaged_peer_is_passed_over);
    tcase_add_test(t, test_keeper_reshards_without_losing_a_sample);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return suite_run(keeper_suite());
}
