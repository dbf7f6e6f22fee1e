/* links: tests/lib/bad_disk */
/* links: worker_rt/snapshot/{snapshot_dir,atomic_file} */
/* links: rendezvous/base/{err,rng,mono} */
/*
 * A file that is put into a folder of snapshots, struck at each system call in
 * turn: the call fails, or the process ends there. Whatever the folder held
 * before is there after it, whole, the new file is whole or not there, and the
 * next put leaves nothing over.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/bad_disk.h"
#include "tests/lib/suite.h"
#include "worker_rt/snapshot/snapshot_dir.h"

#define INSTANCE "0123456789abcdef0123456789abcdef"
#define LEN      ((size_t)(4 * 4096 + 100)) /* blocks, and some more */

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

/* -- a folder -------------------------------------------------------------- */

static char root[64];
static char folder[16]; /* below it: another one for each stroke */

/* In memory where that can be: thousands of files are made here. */
static void make_root(void)
{
    const char *at = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(root, sizeof(root), "%s/check_put.XXXXXX", at); /* fits */
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(chdir(root), 0);
}

static void drop_root(void)
{
    char line[80];
    (void)snprintf(line, sizeof(line), "rm -rf %s", root); /* fits */
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(system(line), 0);
}

/* What is there before step 2 is put. */
enum before {
    NOTHING,
    ANOTHER_STEP,
    THE_SAME_STEP, /* it stays as .prev */
    BEFORES
};
#define OLD 1 /* the bytes of what was there before */
#define NEW 2

static void open_dir(struct snapshot_dir *s)
{
    struct ddp_err err;
    int64_t ignored;
    ck_assert_int_eq(snapshot_dir_open(s, folder, INSTANCE, 1, &err), 0);
    ck_assert_int_eq(snapshot_dir_own(s, &ignored, &err), 0);
}

static int
put(const struct snapshot_dir *s, int64_t step, bool keep_before, int bytes)
{
    static _Alignas(4096) uint8_t data[LEN];
    struct ddp_err err;
    memset(data, bytes, sizeof(data));
    return snapshot_dir_put(s, step, 0, 1, keep_before, data, sizeof(data),
                            NULL, &err);
}

static void set_up(enum before before)
{
    static int number;
    struct snapshot_dir s;
    (void)snprintf(folder, sizeof(folder), "s%d", ++number); /* fits */
    open_dir(&s);
    if (before != NOTHING)
        ck_assert_int_eq(put(&s, before == THE_SAME_STEP ? 2 : 1, false, OLD),
                         0);
    snapshot_dir_close(&s);
}

/* What all of a file's bytes are; fails the test if it is not whole. */
static int bytes_of(const struct snapshot_dir *s, const char *name)
{
    uint8_t data[LEN + 1];
    int fd = openat(s->fd, name, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, data, sizeof(data), 0), (ssize_t)LEN);
    ck_assert_int_eq(close(fd), 0);
    for (size_t i = 1; i < LEN; i++)
        ck_assert_int_eq(data[i], data[0]);
    return data[0];
}

/* How many temporary files are left, in the folder of step 2 as well. */
static int leftovers(void)
{
    char step[64];
    int n = 0;
    (void)snprintf(step, sizeof(step), "%s/step-000000000002.r1.01234567",
                   folder); /* fits */
    for (int i = 0; i < 2; i++) {
        DIR *list = opendir(i == 0 ? folder : step);
        const struct dirent *e;
        while (list != NULL && (e = readdir(list)) != NULL)
            n += strstr(e->d_name, ".tmp.") != NULL;
        if (list != NULL)
            ck_assert_int_eq(closedir(list), 0);
    }
    return n;
}

/* -- all strokes ----------------------------------------------------------- */

/* In a child: the put, struck at its n-th call. Exit status: 0 done, 1 it
 * failed, BAD_DIED, or 2: it was over before the stroke. */
static int strike(enum before before, int n)
{
    pid_t pid = fork();
    int status;
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct snapshot_dir s;
        open_dir(&s);
        bad_disk = strike_once;
        strikes_in = n;
        int rc = put(&s, 2, before == THE_SAME_STEP, NEW);
        _exit(strikes_in > 0 ? 2 : rc == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_after(enum before before, int n, int status)
{
    struct snapshot_dir s;
    struct snapshot_file *files;
    struct ddp_err err;
    size_t nfiles;
    bool has[3] = {false};
    open_dir(&s);
    ck_assert_int_eq(snapshot_dir_list(&s, &files, &nfiles, &err), 0);
    for (size_t i = 0; i < nfiles; i++)
        has[bytes_of(&s, files[i].name)] = true;
    free(files);
    ck_assert_msg((has[OLD] || before == NOTHING) && (has[NEW] || status != 0),
                  "before %d, stroke %d at call %d, status %d: old %d, new %d",
                  before, stroke, n, status, has[OLD], has[NEW]);
    ck_assert_int_eq(leftovers(), 0);
    ck_assert_int_eq(put(&s, 2, false, NEW), 0);
    ck_assert_int_eq(leftovers(), 0);
    snapshot_dir_close(&s);
}

/* Every call of a put, struck in every way. */
TEST_LOOP(test_snapshot_dir_put_struck_anywhere_loses_nothing, 0, BEFORES)
{
    int strokes = 0;
    enum before before = (enum before)_i;
    struck = mmap(NULL, BAD_CALLS, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(struck, MAP_FAILED);
    for (int k = BAD_FAIL; k < BAD_FAULTS; k++) {
        int n = 0, status;
        stroke = (enum bad_fault)k;
        do {
            set_up(before);
            status = strike(before, ++n);
            check_after(before, n, status == 2 ? 0 : status);
        } while (status != 2);
        strokes += n - 1;
    }
    printf("check_snapshot_put: %d strokes\n", strokes);
    for (int c = 0; c < BAD_CALLS; c++) {
        /* What only others do, or only after another stroke; and not every
         * file system has direct writes. */
        bool others = c == BAD_LIST || c == BAD_MEMORY || c == BAD_UNLINK ||
                      c == BAD_DIRECT;
        ck_assert_msg(struck[c] || others, "never struck: %s",
                      bad_disk_names[c]);
    }
}

SUITE("snapshot_put",
      "strokes",
      .tags = "many-forks",
      .limit_s = 120,
      FIXTURE(make_root, drop_root))
