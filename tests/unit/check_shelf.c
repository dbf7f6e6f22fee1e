// clang-format off
/* links: worker_rt/shelf worker_rt/folder rendezvous/base/err rendezvous/base/rng rendezvous/base/mono */
// clang-format on
/*
 * A folder of snapshots that one thread writes while another one lists it, as
 * ddp_keeper_load does while the keeper's writer is at work.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker_rt/shelf.h"

#define INSTANCE "0123456789abcdef0123456789abcdef"
#define BEFORE   "fedcba9876543210fedcba9876543210"
#define PUTS     150
#define KEEP     2
#define MARKS    6000

static char folder[] = "/tmp/check_shelf.XXXXXX";
static struct shelf shelf;
static atomic_bool over;

static void setup(void)
{
    struct ddp_err err;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(shelf_open(&shelf, folder, INSTANCE, 1, &err), 0);
    ck_assert_int_eq(shelf_own(&shelf, &err), 0);
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
    shelf_close(&shelf);
}

/* How many files it saw that were not the owner's: none is. */
static void *list_on(void *arg)
{
    int *strange = arg;
    while (!atomic_load(&over)) {
        struct ddp_err err;
        struct shelf_file *files;
        size_t n;
        if (shelf_list(&shelf, &files, &n, &err) != 0)
            (*strange)++;
        for (size_t i = 0; i < n; i++)
            *strange += files[i].owner != 0;
        free(files);
    }
    return NULL;
}

/* Found by TSan: each cleared, for a moment, who the other thought the owner
 * was. "Another run has taken the folder over", said the writer. */
START_TEST(test_shelf_list_does_not_disturb_who_writes)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    pthread_t lister;
    int strange = 0;
    ck_assert_int_eq(pthread_create(&lister, NULL, list_on, &strange), 0);
    int refused = 0;
    for (int64_t step = 1; step <= PUTS; step++) {
        struct ddp_err err;
        refused += shelf_put(&shelf, step, bytes, sizeof(bytes), KEEP, &stop,
                             &err) != 0;
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
        struct shelf other;
        if (shelf_open(&other, folder, BEFORE, 1, &err) == 0)
            shelf_close(&other);
        else
            (*failed)++;
    }
    return NULL;
}

/* Two ranks wrote to one folder: a third had opened it, and swept away the mark
 * of the first in the moment between its making and its lock. */
START_TEST(test_shelf_open_does_not_remove_what_others_begin)
{
    pthread_t opener[2];
    int failed[2] = {0}, gone = 0;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&opener[i], NULL, open_on, &failed[i]),
                         0);
    for (int i = 0; i < MARKS; i++) {
        struct ddp_err err;
        uint64_t mark;
        int fd;
        ck_assert_int_eq(shelf_mark(&shelf, &mark, &fd, &err), 0);
        gone += !shelf_sees(&shelf, mark);
        shelf_unmark(&shelf, mark, fd);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(opener[i], NULL), 0);
    ck_assert_int_eq(gone, 0);
    ck_assert_int_eq(failed[0] + failed[1], 0);
}
END_TEST

static void own_by(const char *instance)
{
    struct ddp_err err;
    struct shelf other;
    ck_assert_int_eq(shelf_open(&other, folder, instance, 1, &err), 0);
    ck_assert_int_eq(shelf_own(&other, &err), 0);
    shelf_close(&other);
}

/* The newest are kept; the folder is another's as soon as that one owns it,
 * and may be taken back. */
START_TEST(test_shelf_put_keeps_the_newest_of_its_own_folder)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    struct ddp_err err;
    struct shelf_file *files;
    size_t n;
    for (int64_t step = 1; step <= 5; step++)
        ck_assert_int_eq(shelf_put(&shelf, step, bytes, 64, KEEP, &stop, &err),
                         0);
    ck_assert_int_eq(shelf_list(&shelf, &files, &n, &err), 0);
    ck_assert_uint_eq(n, KEEP);
    ck_assert_int_eq(files[0].step, 5);
    ck_assert_int_eq(files[1].step, 4);
    free(files);
    own_by(BEFORE);
    ck_assert_int_eq(shelf_put(&shelf, 6, bytes, 64, KEEP, &stop, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.text, BEFORE));
    ck_assert_int_eq(shelf_own(&shelf, &err), 0);
    ck_assert_int_eq(shelf_put(&shelf, 6, bytes, 64, KEEP, &stop, &err), 0);
}
END_TEST

/* A folder that is removed under the writer is called that, and so is its list
 * of owners. */
START_TEST(test_shelf_put_into_a_removed_folder_says_so)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    struct ddp_err err;
    ck_assert_int_eq(unlinkat(shelf.dir, "owner", 0), 0);
    ck_assert_int_eq(shelf_put(&shelf, 1, bytes, 64, KEEP, &stop, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "file 'owner' was removed"));
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(shelf_put(&shelf, 1, bytes, 64, KEEP, &stop, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "the folder was removed"));
    ck_assert_int_eq(mkdir(folder, 0700), 0); /* for the teardown */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shelf");
    TCase *tc = tcase_create("fast");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_shelf_list_does_not_disturb_who_writes);
    tcase_add_test(tc, test_shelf_open_does_not_remove_what_others_begin);
    tcase_add_test(tc, test_shelf_put_keeps_the_newest_of_its_own_folder);
    tcase_add_test(tc, test_shelf_put_into_a_removed_folder_says_so);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
