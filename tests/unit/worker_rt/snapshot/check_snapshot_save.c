/* links: tests/lib/bad_disk */
/* links: worker_rt/snapshot/{snapshot,load,save,image,atomic_file} */
/* links: worker_rt/snapshot/safetensors */
/* links: worker_rt/{env,proof,death_sign,fork,abi} worker_rt/comm/reduce */
/* links: rendezvous/base/{utf8,dial,err,mono,rng,buf,json} */
/* links: rendezvous/client/store rendezvous/proto/c10d */
/* libs: -lcjson -lxxhash */
/*
 * A save that is struck at each of its system calls in turn: the call fails, or
 * the process ends there. Whatever the folder held before, a load then gives
 * the newest whole snapshot, never one older than what was there, and the next
 * save puts everything in order.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/bad_disk.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define ELEMS 1000

/* -- the stroke ------------------------------------------------------------ */

static enum bad_fault stroke;
static int strikes_in; /* calls until then; 0: never, or it is over */
static bool *struck;   /* (BAD_CALLS) shared: which have been */

static enum bad_fault strike_once(enum bad_call call, int *reason)
{
    (void)reason;
    if (strikes_in == 0 || --strikes_in > 0)
        return BAD_NONE;
    struck[call] = true;
    return stroke;
}

/* -- a folder with snapshots ----------------------------------------------- */

static char dir[64];

/* In memory where that can be: thousands of files are made here. */
static void make_dir(void)
{
    const char *root =
        access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof(dir), "%s/check_save.XXXXXX", root); /* fits */
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(unsetenv("RANK"), 0);
    ck_assert_int_eq(unsetenv("WORLD_SIZE"), 0);
}

/* Removes every file; how many there were. */
static int clear_dir(void)
{
    int n = 0;
    DIR *list = opendir(".");
    ck_assert_ptr_nonnull(list);
    for (const struct dirent *e; (e = readdir(list)) != NULL;)
        n += unlinkat(AT_FDCWD, e->d_name, 0) == 0; /* not "." and ".." */
    ck_assert_int_eq(closedir(list), 0);
    return n;
}

static void drop_dir(void)
{
    (void)clear_dir();
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}

static int save(struct ddp *d, int seed)
{
    static float data[ELEMS];
    struct ddp_tensor t[2] = {{"a", DDP_F32, 1, {ELEMS}, data},
                              {"b", DDP_F32, 1, {ELEMS / 2}, data}};
    struct ddp_kv kv;
    for (int i = 0; i < ELEMS; i++)
        data[i] = (float)(seed * ELEMS + i);
    ddp_kv_set_i64(&kv, "seed", seed);
    return ddp_snapshot_save(d, "s", t, 2, &kv, 1, NULL);
}

/* The seed of what `path` gives, 0 where there is nothing, -1 where nothing is
 * whole; fails the test on anything that is mixed or wrong. */
static int load(struct ddp *d, const char *path)
{
    float data[ELEMS];
    struct ddp_tensor t = {"a", DDP_F32, 1, {ELEMS}, data};
    struct ddp_kv kv = {.key = "seed"};
    struct ddp_error e;
    int64_t seed;
    if (ddp_snapshot_load(d, path, &t, 1, &kv, 1, NULL, &e) != 0) {
        ck_assert(e.code == DDP_ERR_NOINPUT || e.code == DDP_ERR_CORRUPT);
        return e.code == DDP_ERR_NOINPUT ? 0 : -1;
    }
    ck_assert_int_eq(ddp_kv_get_i64(&kv, &seed, NULL), 0);
    for (int i = 0; i < ELEMS; i++)
        ck_assert_int_eq((int)data[i], (int)seed * ELEMS + i);
    return (int)seed;
}

static struct ddp *handle(void)
{
    struct ddp *d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
    return d;
}

static void damage(const char *path)
{
    int fd = openat(AT_FDCWD, path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, 3000), 0);
    ck_assert_int_eq(close(fd), 0);
}

/* What the process that is struck has done before. */
enum past {
    FRESH,
    LOADED,
    SAVED, /* what stands there, by the same handle */
    PASTS
};

/* What is there before: `good` is the newest whole one. `pasts`: how many of
 * those are tried. */
static const struct {
    const char *name;
    int saves;
    bool damaged;
    bool damaged_prev;
    int good;
    enum past pasts;
} befores[] = {
    {"nothing", 0, false, false, 0, LOADED},
    {"one", 1, false, false, 1, LOADED},
    {"one and a .prev", 2, false, false, 2, PASTS},
    {"a damaged one and a good .prev", 2, true, false, 1, SAVED},
    {"one and a damaged .prev", 2, false, true, 2, LOADED},
    {"a damaged one", 1, true, false, -1, LOADED},
    {"two damaged ones", 2, true, true, -1, LOADED},
};
#define BEFORES (int)(sizeof(befores) / sizeof(befores[0]))
#define NEW     9 /* the seed of the save that is struck */

static void set_up(int before)
{
    struct ddp *d = handle();
    (void)clear_dir();
    for (int i = 1; i <= befores[before].saves; i++)
        ck_assert_int_eq(save(d, i), 0);
    if (befores[before].damaged)
        damage("s");
    if (befores[before].damaged_prev)
        damage("s.prev");
    ddp_free(d);
}

/* -- all strokes ----------------------------------------------------------- */

/* In a child: the save, struck at its n-th call. Exit status: 0 saved, 1 it
 * failed, BAD_DIED, or 2: it was over before the stroke. */
static int strike(int before, enum past past, int n)
{
    pid_t pid = fork();
    int status;
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct ddp *d = handle();
        if (past == LOADED)
            (void)load(d, "s");
        if (past == SAVED && save(d, befores[before].good) != 0)
            _exit(3);
        bad_disk = strike_once;
        strikes_in = n;
        int rc = save(d, NEW);
        _exit(strikes_in > 0 ? 2 : rc == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_after(int before, enum past past, int n, int status)
{
    struct ddp *d = handle();
    int good = befores[before].good;
    int found = load(d, "s");
    ck_assert_msg(found == NEW || (status != 0 && found == good),
                  "%s, stroke %d at call %d, past %d, status %d: %d is loaded",
                  befores[before].name, stroke, n, past, status, found);
    /* The damaged one has not pushed it out. */
    bool falls_back = befores[before].damaged && !befores[before].damaged_prev;
    if (falls_back && good > 0)
        ck_assert_int_eq(load(d, "s.prev"), good);
    ck_assert_int_eq(save(d, NEW + 1), 0);
    ck_assert_int_eq(load(d, "s"), NEW + 1);
    ddp_free(d);
    int files = clear_dir();
    ck_assert_msg(files <= 2, "%d files are left", files);
}

/* Every call of a save, struck in every way, over every folder. */
TEST_LOOP(test_snapshot_save_struck_anywhere_leaves_the_newest, 0, PASTS)
{
    int strokes = 0;
    enum past past = (enum past)_i;
    struck = mmap(NULL, BAD_CALLS, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(struck, MAP_FAILED);
    for (int before = 0; before < BEFORES; before++) {
        if (befores[before].pasts <= past)
            continue;
        for (int k = BAD_FAIL; k < BAD_FAULTS; k++) {
            int n = 0, status;
            stroke = (enum bad_fault)k;
            do {
                set_up(before);
                status = strike(before, past, ++n);
                ck_assert_int_ne(status, 3);
                check_after(before, past, n, status == 2 ? 0 : status);
            } while (status != 2);
            ck_assert_int_gt(n, 6); /* open, three writes, syncs, rename */
            strokes += n - 1;
        }
    }
    printf("check_snapshot_save: %d strokes\n", strokes);
    for (int c = 0; c < BAD_CALLS; c++) {
        /* What only a keeper does; and what is known is not read again. */
        bool others = c == BAD_MODE || c == BAD_DIRECT || c == BAD_RANGE ||
                      c == BAD_MEMORY ||
                      (past != FRESH && (c == BAD_READ || c == BAD_OPEN));
        ck_assert_msg(struck[c] || others, "never struck: %s",
                      bad_disk_names[c]);
    }
}

CASE("files", FIXTURE(make_dir, drop_dir))

/* A file that is damaged between two saves of one process does not push the
 * good .prev out. */
TEST(test_snapshot_save_finds_damage_done_meanwhile)
{
    struct ddp *d = handle();
    ck_assert_int_eq(save(d, 1), 0);
    ck_assert_int_eq(save(d, 2), 0);
    damage("s");
    ck_assert_int_eq(save(d, 3), 0);
    ck_assert_int_eq(load(d, "s"), 3);
    ck_assert_int_eq(load(d, "s.prev"), 1);
    ddp_free(d);
}

/* What is no snapshot at all is kept too, if nothing better is there. */
TEST(test_snapshot_save_keeps_a_strange_file)
{
    struct ddp *d = handle();
    int fd = openat(AT_FDCWD, "s", O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(pwrite(fd, "mine", 4, 0), 4);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(save(d, 1), 0);
    struct stat st;
    ck_assert_int_eq(stat("s.prev", &st), 0);
    ck_assert_int_eq(st.st_size, 4);
    ddp_free(d);
}

SUITE("snapshot_save",
      "strokes",
      .tags = "many-forks",
      .limit_s = 120,
      FIXTURE(make_dir, drop_dir))
