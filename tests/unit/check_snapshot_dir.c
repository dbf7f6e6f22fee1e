// clang-format off
/* links: worker_rt/snapshot/snapshot_dir worker_rt/snapshot/atomic_file */
/* links: rendezvous/base/err rendezvous/base/rng rendezvous/base/mono */
// clang-format on
/*
 * A folder of snapshots that one thread writes while another one lists it, as
 * ddp_keeper_load does while the keeper's writer is at work.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "worker_rt/snapshot/snapshot_dir.h"

#define INSTANCE "0123456789abcdef0123456789abcdef"
#define BEFORE   "fedcba9876543210fedcba9876543210"
#define PUTS     150
#define KEEP     2
#define MARKS    6000

static char folder[] = "/tmp/check_snapshot_dir.XXXXXX";
static struct snapshot_dir dir;
static atomic_bool over;

static void setup(void)
{
    struct ddp_err err;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(snapshot_dir_open(&dir, folder, INSTANCE, 1, &err), 0);
    ck_assert_int_eq(snapshot_dir_own(&dir, &err), 0);
}

static void teardown(void)
{
    const struct dirent *e;
    DIR *list = opendir(folder);
    while (list != NULL && (e = readdir(list)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(dirfd(list), e->d_name, 0);
    if (list != NULL)
        (void)closedir(list);
    (void)rmdir(folder); /* in /tmp */
    snapshot_dir_close(&dir);
}

/* How many files it saw that were not the owner's: none is. */
static void *list_on(void *arg)
{
    int *strange = arg;
    while (!atomic_load(&over)) {
        struct ddp_err err;
        struct snapshot_file *files;
        size_t n;
        if (snapshot_dir_list(&dir, &files, &n, &err) != 0)
            (*strange)++;
        for (size_t i = 0; i < n; i++)
            *strange += files[i].owner != 0;
        free(files);
    }
    return NULL;
}

/* Found by TSan: each cleared, for a moment, who the other thought the owner
 * was. "Another run has taken the folder over", said the writer. */
START_TEST(test_snapshot_dir_list_does_not_disturb_who_writes)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    pthread_t lister;
    int strange = 0;
    ck_assert_int_eq(pthread_create(&lister, NULL, list_on, &strange), 0);
    int refused = 0;
    for (int64_t step = 1; step <= PUTS; step++) {
        struct ddp_err err;
        refused += snapshot_dir_put(&dir, step, bytes, sizeof(bytes), KEEP,
                                    &stop, &err) != 0;
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(lister, NULL), 0);
    ck_assert_int_eq(refused, 0);
    ck_assert_int_eq(strange, 0);
}
END_TEST

static void *open_on(void *arg)
{
    int *failed = arg;
    while (!atomic_load(&over)) {
        struct ddp_err err;
        struct snapshot_dir other;
        if (snapshot_dir_open(&other, folder, BEFORE, 1, &err) == 0)
            snapshot_dir_close(&other);
        else
            (*failed)++;
    }
    return NULL;
}

/* Two ranks wrote to one folder: a third had opened it, and swept away the mark
 * of the first in the moment between its making and its lock. */
START_TEST(test_snapshot_dir_open_does_not_remove_what_others_begin)
{
    pthread_t opener[2];
    int failed[2] = {0}, gone = 0;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&opener[i], NULL, open_on, &failed[i]),
                         0);
    for (int i = 0; i < MARKS; i++) {
        struct ddp_err err;
        struct snapshot_mark mark;
        int fd;
        ck_assert_int_eq(snapshot_dir_mark(&dir, &mark, &fd, &err), 0);
        gone += !snapshot_dir_sees(&dir, &mark);
        snapshot_dir_unmark(&dir, &mark, fd);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(opener[i], NULL), 0);
    ck_assert_int_eq(gone, 0);
    ck_assert_int_eq(failed[0] + failed[1], 0);
}
END_TEST

/* A process that was killed before it took its mark away left it for ever: a
 * mark did not say whose it was, and a folder that nobody writes to any more
 * does not become an hour older. */
START_TEST(test_snapshot_dir_mark_of_a_killed_process_goes)
{
    struct ddp_err err;
    struct snapshot_dir other;
    struct snapshot_mark *mark =
        mmap(NULL, sizeof(*mark), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(mark, MAP_FAILED);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int fd;
        _exit(snapshot_dir_mark(&dir, mark, &fd, &err) == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert(snapshot_dir_sees(&dir, mark));
    ck_assert_int_eq(snapshot_dir_open(&other, folder, BEFORE, 1, &err), 0);
    snapshot_dir_close(&other);
    ck_assert(!snapshot_dir_sees(&dir, mark));
    ck_assert_int_eq(munmap(mark, sizeof(*mark)), 0);
}
END_TEST

/* What a peer says is a mark is no way to ask for other files. */
START_TEST(test_snapshot_dir_sees_nothing_but_marks)
{
    static const char *const names[] = {"", "owner", "mark.tmp.", "mark.tmp./",
                                        "mark.tmp./../owner"};
    struct snapshot_mark mark;
    ck_assert_int_eq(mkdirat(dir.fd, "mark.tmp.", 0700), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(mark.name, sizeof(mark.name), "%s", names[i]); /* fits */
        ck_assert_msg(snapshot_dir_sees(&dir, &mark) == (i == 2), "%s",
                      names[i]);
    }
    memset(mark.name, 'm', sizeof(mark.name));
    ck_assert(!snapshot_dir_sees(&dir, &mark));
    ck_assert_int_eq(unlinkat(dir.fd, "mark.tmp.", AT_REMOVEDIR), 0);
}
END_TEST

static void own_by(const char *instance)
{
    struct ddp_err err;
    struct snapshot_dir other;
    ck_assert_int_eq(snapshot_dir_open(&other, folder, instance, 1, &err), 0);
    ck_assert_int_eq(snapshot_dir_own(&other, &err), 0);
    snapshot_dir_close(&other);
}

/* The newest are kept; the folder is another's as soon as that one owns it,
 * and may be taken back. */
START_TEST(test_snapshot_dir_put_keeps_the_newest_of_its_own_folder)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    for (int64_t step = 1; step <= 5; step++)
        ck_assert_int_eq(
            snapshot_dir_put(&dir, step, bytes, 64, KEEP, &stop, &err), 0);
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_uint_eq(n, KEEP);
    ck_assert_int_eq(files[0].step, 5);
    ck_assert_int_eq(files[1].step, 4);
    free(files);
    own_by(BEFORE);
    ck_assert_int_eq(snapshot_dir_put(&dir, 6, bytes, 64, KEEP, &stop, &err),
                     -1);
    ck_assert_int_eq(err.code, DDP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.text, BEFORE));
    ck_assert_int_eq(snapshot_dir_own(&dir, &err), 0);
    ck_assert_int_eq(snapshot_dir_put(&dir, 6, bytes, 64, KEEP, &stop, &err),
                     0);
}
END_TEST

static size_t list_names(char names[][SNAPSHOT_DIR_NAME_MAX], size_t max)
{
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_uint_le(n, max);
    for (size_t i = 0; i < n; i++)
        memcpy(names[i], files[i].name, SNAPSHOT_DIR_NAME_MAX);
    free(files);
    return n;
}

static int put(int64_t step, struct ddp_err *err)
{
    const uint8_t bytes[64] = {1};
    return snapshot_dir_put(&dir, step, bytes, sizeof(bytes), KEEP, NULL, err);
}

/* A user who clears the folder makes room: it is taken again, and made again
 * where it is gone. Where that cannot be, why is told. */
START_TEST(test_snapshot_dir_put_into_a_removed_folder_makes_it_again)
{
    struct ddp_err err;
    char name[SNAPSHOT_DIR_NAME_MAX];
    ck_assert_int_eq(unlinkat(dir.fd, "owner", 0), 0);
    ck_assert_int_eq(put(1, &err), 0);
    snapshot_dir_name(&dir, 1, name);
    ck_assert_int_eq(unlinkat(dir.fd, "owner", 0), 0);
    ck_assert_int_eq(unlinkat(dir.fd, name, 0), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(put(2, &err), 0);
    ck_assert_uint_eq(list_names(&name, 1), 1);
    int again = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(again, 0);
    ck_assert_int_eq(faccessat(again, name, F_OK, 0), 0);
    ck_assert_int_eq(unlinkat(again, "owner", 0), 0);
    ck_assert_int_eq(unlinkat(again, name, 0), 0);
    ck_assert_int_eq(close(again), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    int file = open(folder, O_WRONLY | O_CREAT, 0600);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(close(file), 0);
    ck_assert_int_eq(put(3, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.text, "the folder was removed"));
    ck_assert_ptr_nonnull(strstr(err.text, "is a file"));
    ck_assert_int_eq(unlink(folder), 0);
    ck_assert_int_eq(put(3, &err), 0); /* there may be room again */
}
END_TEST

/* A folder that was removed and made by another run is that one's. */
START_TEST(test_snapshot_dir_put_into_a_folder_that_another_made_is_refused)
{
    struct ddp_err err;
    ck_assert_int_eq(unlinkat(dir.fd, "owner", 0), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    own_by(BEFORE);
    ck_assert_int_eq(put(1, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.text, BEFORE));
}
END_TEST

/* Names that pass for newer, as damaged files do that were refused at the
 * start: what was just written was the first to go, with all that was whole. */
START_TEST(test_snapshot_dir_put_keeps_what_it_wrote_beside_false_names)
{
    static const char *const false_names[] = {
        "step-000000000900.r1.01234567.safetensors", /* a folder */
        "step-000000000800.r1.01234567.safetensors", /* a FIFO */
        "step-000000000700.r9.01234567.safetensors", /* a link to nowhere */
    };
    char names[5][SNAPSHOT_DIR_NAME_MAX], name[SNAPSHOT_DIR_NAME_MAX];
    struct ddp_err err;
    ck_assert_int_eq(mkdirat(dir.fd, false_names[0], 0700), 0);
    ck_assert_int_eq(mkfifoat(dir.fd, false_names[1], 0600), 0);
    ck_assert_int_eq(symlinkat("/no/where", dir.fd, false_names[2]), 0);
    for (int64_t step = 1; step <= 5; step++)
        ck_assert_int_eq(put(step, &err), 0);
    ck_assert_uint_eq(list_names(names, 5), 5);
    for (int i = 0; i < KEEP; i++) {
        snapshot_dir_name(&dir, 5 - i, name);
        ck_assert_str_eq(names[3 + i], name);
    }
    ck_assert_int_eq(unlinkat(dir.fd, false_names[0], AT_REMOVEDIR), 0);
}
END_TEST

/* More than anybody keeps; a list that is cut could lack the newest. */
START_TEST(test_snapshot_dir_list_of_too_many_is_refused)
{
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    char name[SNAPSHOT_DIR_NAME_MAX], file[SNAPSHOT_DIR_NAME_MAX];
    for (int64_t step = 0; step <= 65536; step++) {
        snapshot_dir_name(&dir, step, name);
        if (step % 32000 != 0) { /* a link is cheaper than a file */
            ck_assert_int_eq(linkat(dir.fd, file, dir.fd, name, 0), 0);
            continue;
        }
        int fd = openat(dir.fd, name, O_WRONLY | O_CREAT, 0600);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(close(fd), 0);
        memcpy(file, name, sizeof(file));
    }
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "more than 65536"));
    ck_assert_int_eq(unlinkat(dir.fd, name, 0), 0);
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_uint_eq(n, 65536);
    ck_assert_int_eq(files[0].step, 65535);
    free(files);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("snapshot_dir");
    TCase *tc = tcase_create("fast");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_snapshot_dir_list_does_not_disturb_who_writes);
    tcase_add_test(tc,
                   test_snapshot_dir_open_does_not_remove_what_others_begin);
    tcase_add_test(tc, test_snapshot_dir_mark_of_a_killed_process_goes);
    tcase_add_test(tc, test_snapshot_dir_sees_nothing_but_marks);
    tcase_add_test(tc,
                   test_snapshot_dir_put_keeps_the_newest_of_its_own_folder);
    tcase_add_test(tc,
                   test_snapshot_dir_put_into_a_removed_folder_makes_it_again);
    tcase_add_test(
        tc, test_snapshot_dir_put_into_a_folder_that_another_made_is_refused);
    tcase_add_test(
        tc, test_snapshot_dir_put_keeps_what_it_wrote_beside_false_names);
    tcase_add_test(tc, test_snapshot_dir_list_of_too_many_is_refused);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
