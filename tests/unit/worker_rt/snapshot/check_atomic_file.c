/* links: tests/lib/scratch worker_rt/snapshot/atomic_file */
/* links: rendezvous/base/{err,rng,mono} */
/* libs: -Wl,--wrap=flock -Wl,--wrap=gethostname */
/*
 * Whose a temporary file is, and when a sweep may remove it: at once, if its
 * writer is known to be dead; later, if it cannot be known; never, if it holds
 * its lock.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "worker_rt/snapshot/atomic_file.h"

/* -- locks and hosts ------------------------------------------------------- */

static enum locks {
    LOCK_REAL,
    LOCK_HELD, /* by a writer that lives */
    LOCK_FREE,
    LOCK_NONE /* locks do not work */
} locks;

int __real_flock(int fd, int op);
int __wrap_flock(int fd, int op);

int __wrap_flock(int fd, int op)
{
    /* The rule of NFS (flock(2)): an exclusive lock is one for writing. */
    if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return -1;
    }
    if (locks == LOCK_REAL)
        return __real_flock(fd, op);
    errno = locks == LOCK_HELD ? EWOULDBLOCK : ENOLCK;
    return locks == LOCK_FREE ? 0 : -1;
}

static const char *host = "node-17.example.org"; /* NULL: it has none */

int __wrap_gethostname(char *name, size_t size);

int __wrap_gethostname(char *name, size_t size)
{
    if (host == NULL)
        return -1;
    (void)snprintf(name, size, "%s", host); /* as the kernel cuts it */
    return 0;
}

/* -- files ----------------------------------------------------------------- */

static int dir;

static void make_dir(void)
{
    scratch_enter();
    dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir, 0);
}

static void drop_dir(void)
{
    ck_assert_int_eq(close(dir), 0);
    scratch_leave();
}

/* Makes it, last written so many seconds ago. */
static void put_file(const char *name, int age_s)
{
    struct timespec times[2];
    ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &times[0]), 0);
    times[0].tv_sec -= age_s;
    times[1] = times[0];
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(futimens(fd, times), 0);
    ck_assert_int_eq(close(fd), 0);
}

static bool is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

/* A process that has ended. */
static pid_t dead_pid(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

enum owner {
    DEAD,        /* it ran here */
    ALIVE,       /* it runs here */
    OTHER_SPACE, /* in another pid namespace of this kernel */
    OTHER_BOOT,  /* on another host, or here before a reboot */
    UNKNOWN      /* its name does not say */
};

/* The name of a file that such a writer left. */
static void name_for(enum owner owner, char out[ATOMIC_FILE_NAME_MAX])
{
    char own[ATOMIC_FILE_NAME_MAX], boot[16], space[16];
    int pid;
    atomic_file_temp_name(own, "s");
    ck_assert_msg(sscanf(own, "s.tmp.node-17.%d.%12[0-9a-f].%8[0-9a-f].", &pid,
                         boot, space) == 3,
                  "%s", own);
    ck_assert_int_eq(pid, getpid());
    if (owner == DEAD)
        pid = dead_pid();
    if (owner == OTHER_SPACE)
        space[0] = space[0] == '7' ? '8' : '7';
    if (owner == OTHER_BOOT)
        boot[0] = boot[0] == '7' ? '8' : '7';
    (void)snprintf(out, ATOMIC_FILE_NAME_MAX,
                   "s.tmp.node-17.%d.%s.%s.0123456789abcdef", pid, boot,
                   space); /* fits */
    if (owner == UNKNOWN)
        (void)snprintf(out, ATOMIC_FILE_NAME_MAX, "s.tmp.0123456789abcdef");
}

#define NEW 10
#define OLD (ATOMIC_FILE_AGE_S + 10)

static const struct {
    enum owner owner;
    enum locks locks;
    bool new_goes;
    bool old_goes;
} cases[] = {
    {DEAD, LOCK_HELD, false, false},
    {DEAD, LOCK_FREE, true, true},
    {DEAD, LOCK_NONE, true, true},
    {ALIVE, LOCK_HELD, false, false},
    {ALIVE, LOCK_FREE, true, true},
    {ALIVE, LOCK_NONE, false, true},
    {OTHER_SPACE, LOCK_HELD, false, false},
    {OTHER_SPACE, LOCK_FREE, true, true},
    {OTHER_SPACE, LOCK_NONE, false, true},
    {OTHER_BOOT, LOCK_HELD, false, false},
    {OTHER_BOOT, LOCK_FREE, false, true}, /* the mount keeps its locks */
    {OTHER_BOOT, LOCK_NONE, false, true},
    {UNKNOWN, LOCK_HELD, false, false},
    {UNKNOWN, LOCK_FREE, false, true},
    {UNKNOWN, LOCK_NONE, false, true},
};
#define CASES ((int)(sizeof(cases) / sizeof(cases[0])))

TEST_LOOP(test_atomic_file_sweep_knows_the_owner, 0, CASES)
{
    char name[ATOMIC_FILE_NAME_MAX];
    name_for(cases[_i].owner, name);
    for (int old = 0; old < 2; old++) {
        bool goes = old ? cases[_i].old_goes : cases[_i].new_goes;
        locks = LOCK_REAL;
        put_file(name, old ? OLD : NEW);
        locks = cases[_i].locks;
        atomic_file_sweep(dir, NULL);
        ck_assert_msg(is_there(name) != goes, "%s, %s", name,
                      old ? "old" : "new");
        (void)unlink(name);
    }
}

/* A folder in which nothing has happened since: its clock stands still, and
 * what is in it may be new. */
TEST(test_atomic_file_sweep_goes_by_the_clock_of_the_folder)
{
    char name[ATOMIC_FILE_NAME_MAX];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = 0}};
    name_for(OTHER_BOOT, name);
    put_file(name, OLD);
    ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &times[1]), 0);
    times[1].tv_sec -= OLD - NEW;
    ck_assert_int_eq(futimens(dir, times), 0);
    atomic_file_sweep(dir, NULL);
    ck_assert(is_there(name));
    put_file("other", 0);
    atomic_file_sweep(dir, NULL);
    ck_assert(!is_there(name));
}

/* What is no temporary file of ours is nobody's business; of another name only
 * if all are asked for. */
TEST(test_atomic_file_sweep_leaves_strangers)
{
    static const char *const names[] = {
        "s.tmp.0123456789abcdeg",
        "s.tmp.0123",
        ".tmp.0123456789abcdef",
        "0123456789abcdef",
        "s.tmp.host.12.0123456789ab.f0000001.0123456789abcde",
        "s.tmp.host.0.0123456789ab.f0000001.0123456789abcdef",
        "s.tmp.host.-2.0123456789ab.f0000001.0123456789abcdef",
        "s.tmp.host.012.0123456789ab.f0000001.0123456789abcdef",
        "s.tmp.ho st.12.0123456789ab.f0000001.0123456789abcdef",
        "s.tmp.host.12.0123456789a.f0000001.0123456789abcdef",
        "s.tmp.host.12.0123456789ab.f000001.0123456789abcdef",
        "s.tmp.host.12.0123456789ab.f0000001.x.0123456789abcdef",
        "t.tmp.host.12.0123456789ab.f0000001.0123456789abcdef",
        "s.tmp.tmp.12.0123456789ab.f0000001.0123456789abcdef",
    };
    int n = (int)(sizeof(names) / sizeof(names[0]));
    for (int i = 0; i < n; i++)
        put_file(names[i], OLD);
    atomic_file_sweep(dir, "s");
    for (int i = 0; i < n; i++)
        ck_assert_msg(is_there(names[i]) == (i < n - 1), "%s", names[i]);
    atomic_file_sweep(dir, NULL);
    ck_assert(!is_there(names[n - 2]) && is_there(names[n - 3]));
}

static const char *const hosts[] = {
    "node-17.example.org",
    "tmp.tmp",
    "tmp",
    "NODE_1 \xc3\xa4",
    "a-host-with-a-name-that-is-longer-than-its-room.example.org",
    "",
    NULL,
};

/* Whatever the host is called, and however the writer ends: while it lives its
 * file stays, then it goes. */
TEST_EACH(test_atomic_file_of_a_killed_writer_goes, hosts)
{
    char temp[ATOMIC_FILE_NAME_MAX] = "";
    int pipe_fds[2];
    host = hosts[_i];
    ck_assert_int_eq(pipe(pipe_fds), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int fd = atomic_file_create(dir, "s", temp, NULL);
        ssize_t n = write(pipe_fds[1], temp, sizeof(temp));
        while (fd >= 0 && n == (ssize_t)sizeof(temp))
            (void)pause();
        _exit(1);
    }
    ck_assert_int_eq(read(pipe_fds[0], temp, sizeof(temp)),
                     (ssize_t)sizeof(temp));
    char part[16];
    (void)snprintf(part, sizeof(part), ".%d.", (int)pid); /* fits */
    ck_assert_msg(strstr(temp, part) != NULL, "%s", temp);
    atomic_file_sweep(dir, "s");
    ck_assert(is_there(temp));
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    atomic_file_sweep(dir, "s");
    ck_assert_msg(!is_there(temp), "%s", temp);
}

/* A long name has no room for the owner: then it is not told. */
TEST(test_atomic_file_with_a_long_name_is_made)
{
    char name[NAME_MAX + 1], temp[ATOMIC_FILE_NAME_MAX];
    struct ddp_err err;
    for (size_t len = 150; len <= NAME_MAX - 21; len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        int fd = atomic_file_create(dir, name, temp, &err);
        ck_assert_msg(fd >= 0, "%s", err.text);
        ck_assert_int_eq(close(fd), 0);
        ck_assert_int_eq(unlink(temp), 0);
    }
    ck_assert_uint_eq(strlen(temp), NAME_MAX);
}

SUITE("atomic_file", "all", FIXTURE(make_dir, drop_dir))
