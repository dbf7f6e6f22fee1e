/* clang-format off */
/* links: worker_rt/snapshot worker_rt/snapshot_load worker_rt/snapshot_save worker_rt/image worker_rt/folder worker_rt/safetensors worker_rt/env worker_rt/store rendezvous/proto/c10d rendezvous/base/err rendezvous/base/mono rendezvous/base/rng rendezvous/base/buf */
/* libs: -lcjson -lxxhash -Wl,--wrap=openat,--wrap=pread,--wrap=pwrite,--wrap=fsync,--wrap=linkat,--wrap=renameat,--wrap=unlinkat */
/* clang-format on */
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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker_rt/ddp.h"

#define ELEMS 1000

/* -- the stroke ------------------------------------------------------------ */

enum stroke {
    FAIL,       /* the call does nothing and fails */
    FAIL_DONE,  /* it is done, and reported as failed */
    HALF,       /* a write or read is cut short; other calls fail */
    DIE_BEFORE, /* the process ends before the call .. */
    DIE_HALF,   /* .. in the middle of a write .. */
    DIE_BEHIND, /* .. or after it */
    STROKES
};

#define DIED 42 /* exit status */

static enum stroke stroke;
static int strikes_in; /* calls until then; 0: never, or it is over */

/* Whether it strikes now. */
static bool struck(void)
{
    return strikes_in > 0 && --strikes_in == 0;
}

/* Before and after the call itself; the first says whether it is made. */
static bool goes_on(bool now)
{
    if (now && stroke == DIE_BEFORE)
        _exit(DIED);
    return !now || stroke == FAIL_DONE || stroke == DIE_BEHIND;
}

static long result(bool now, long rc)
{
    if (now && (stroke == DIE_BEHIND || stroke == DIE_HALF))
        _exit(DIED);
    if (!now)
        return rc;
    errno = EIO;
    return -1;
}

int __real_openat(int dir, const char *name, int flags, ...);
ssize_t __real_pread(int fd, void *data, size_t len, off_t at);
ssize_t __real_pwrite(int fd, const void *data, size_t len, off_t at);
int __real_linkat(int a, const char *from, int b, const char *to, int flags);
int __real_renameat(int a, const char *from, int b, const char *to);
int __real_unlinkat(int dir, const char *name, int flags);

int __wrap_openat(int dir, const char *name, int flags, ...);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at);
int __wrap_fsync(int fd);
int __wrap_linkat(int a, const char *from, int b, const char *to, int flags);
int __wrap_renameat(int a, const char *from, int b, const char *to);
int __wrap_unlinkat(int dir, const char *name, int flags);

int __wrap_openat(int dir, const char *name, int flags, ...)
{
    bool now = struck();
    mode_t mode = 0;
    int fd = -1;
    if ((flags & O_CREAT) != 0) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    if (goes_on(now))
        fd = __real_openat(dir, name, flags, mode);
    return (int)result(now, fd);
}

ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at)
{
    bool now = struck();
    ssize_t n = -1;
    if (now && stroke == HALF)
        return __real_pread(fd, data, (len + 1) / 2, at);
    if (goes_on(now))
        n = __real_pread(fd, data, len, at);
    return result(now, n);
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at)
{
    bool now = struck();
    ssize_t n = -1;
    if (now && (stroke == HALF || stroke == DIE_HALF))
        n = __real_pwrite(fd, data, (len + 1) / 2, at);
    if (now && stroke == HALF)
        return n;
    if (goes_on(now))
        n = __real_pwrite(fd, data, len, at);
    return result(now, n);
}

/* No power is cut here, so nothing need be on the disk. */
int __wrap_fsync(int fd)
{
    bool now = struck();
    (void)fd;
    (void)goes_on(now);
    return (int)result(now, 0);
}

int __wrap_linkat(int a, const char *from, int b, const char *to, int flags)
{
    bool now = struck();
    int rc = -1;
    if (goes_on(now))
        rc = __real_linkat(a, from, b, to, flags);
    return (int)result(now, rc);
}

int __wrap_renameat(int a, const char *from, int b, const char *to)
{
    bool now = struck();
    int rc = -1;
    if (goes_on(now))
        rc = __real_renameat(a, from, b, to);
    return (int)result(now, rc);
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
    bool now = struck();
    int rc = -1;
    if (goes_on(now))
        rc = __real_unlinkat(dir, name, flags);
    return (int)result(now, rc);
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
        n += unlink(e->d_name) == 0; /* not "." and ".." */
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
    int fd = open(path, O_WRONLY);
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
 * failed, DIED, or 2: it was over before the stroke. */
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
START_TEST(test_snapshot_save_struck_anywhere_leaves_the_newest)
{
    int strokes = 0;
    enum past past = (enum past)_i;
    for (int before = 0; before < BEFORES; before++) {
        if (befores[before].pasts <= past)
            continue;
        for (int k = 0; k < STROKES; k++) {
            int n = 0, status;
            stroke = (enum stroke)k;
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
    ck_assert_int_gt(strokes, 60);
}
END_TEST

/* A file that is damaged between two saves of one process does not push the
 * good .prev out. */
START_TEST(test_snapshot_save_finds_damage_done_meanwhile)
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
END_TEST

/* What is no snapshot at all is kept too, if nothing better is there. */
START_TEST(test_snapshot_save_keeps_a_strange_file)
{
    struct ddp *d = handle();
    int fd = open("s", O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, "mine", 4), 4);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(save(d, 1), 0);
    struct stat st;
    ck_assert_int_eq(stat("s.prev", &st), 0);
    ck_assert_int_eq(st.st_size, 4);
    ddp_free(d);
}
END_TEST

static Suite *snapshot_save_suite(void)
{
    Suite *s = suite_create("snapshot_save");
    TCase *t = tcase_create("strokes");
    tcase_add_checked_fixture(t, make_dir, drop_dir);
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, test_snapshot_save_struck_anywhere_leaves_the_newest,
                        0, PASTS);
    tcase_add_test(t, test_snapshot_save_finds_damage_done_meanwhile);
    tcase_add_test(t, test_snapshot_save_keeps_a_strange_file);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(snapshot_save_suite());
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
