// clang-format off
/* links: worker_rt/snapshot/{snapshot_dir,atomic_file} */
/* links: rendezvous/base/{err,rng,mono} */
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
static int64_t barren; /* of the last that took the folder over */

static void setup(void)
{
    struct ddp_err err;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(snapshot_dir_open(&dir, folder, INSTANCE, 1, &err), 0);
    ck_assert_int_eq(snapshot_dir_own(&dir, &barren, &err), 0);
}

static void teardown(void)
{
    char command[80];
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder); /* fits */
    ck_assert_int_eq(system(command), 0);
    snapshot_dir_close(&dir);
}

static void prune(int64_t step, int keep)
{
    struct snapshot_file whole = {.round = 1, .step = step};
    memcpy(whole.who, INSTANCE, SNAPSHOT_DIR_WHO);
    snapshot_dir_prune(&dir, &whole, keep);
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
TEST(test_snapshot_dir_list_does_not_disturb_who_writes)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    pthread_t lister;
    int strange = 0;
    ck_assert_int_eq(pthread_create(&lister, NULL, list_on, &strange), 0);
    int refused = 0;
    for (int64_t step = 1; step <= PUTS; step++) {
        struct ddp_err err;
        refused += snapshot_dir_put(&dir, step, 0, 1, false, bytes,
                                    sizeof(bytes), &stop, &err) != 0;
        prune(step, KEEP);
    }
    atomic_store(&over, true);
    ck_assert_int_eq(pthread_join(lister, NULL), 0);
    ck_assert_int_eq(refused, 0);
    ck_assert_int_eq(strange, 0);
}

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
TEST(test_snapshot_dir_open_does_not_remove_what_others_begin)
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

/* A process that was killed before it took its mark away left it for ever: a
 * mark did not say whose it was, and a folder that nobody writes to any more
 * does not become an hour older. */
TEST(test_snapshot_dir_mark_of_a_killed_process_goes)
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

/* What a peer says is a mark is no way to ask for other files. */
TEST(test_snapshot_dir_sees_nothing_but_marks)
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

static void own_by(const char *instance)
{
    struct ddp_err err;
    struct snapshot_dir other;
    ck_assert_int_eq(snapshot_dir_open(&other, folder, instance, 1, &err), 0);
    ck_assert_int_eq(snapshot_dir_own(&other, &barren, &err), 0);
    snapshot_dir_close(&other);
}

/* The newest are kept; the folder is another's as soon as that one owns it,
 * and may be taken back. */
TEST(test_snapshot_dir_prune_keeps_the_newest_of_its_own_folder)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    for (int64_t step = 1; step <= 5; step++) {
        ck_assert_int_eq(
            snapshot_dir_put(&dir, step, 0, 1, false, bytes, 64, &stop, &err),
            0);
        prune(step, KEEP);
    }
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_uint_eq(n, KEEP);
    ck_assert_int_eq(files[0].step, 5);
    ck_assert_int_eq(files[1].step, 4);
    free(files);
    own_by(BEFORE);
    ck_assert_int_eq(
        snapshot_dir_put(&dir, 6, 0, 1, false, bytes, 64, &stop, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.text, BEFORE));
    ck_assert_int_eq(snapshot_dir_own(&dir, &barren, &err), 0);
    ck_assert_int_eq(
        snapshot_dir_put(&dir, 6, 0, 1, false, bytes, 64, &stop, &err), 0);
}

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
    return snapshot_dir_put(&dir, step, 0, 1, false, bytes, sizeof(bytes), NULL,
                            err);
}

/* The folder of that step, of this instance and round. */
static void step_name(int64_t step, char name[SNAPSHOT_DIR_NAME_MAX])
{
    (void)snprintf(name, SNAPSHOT_DIR_NAME_MAX, "step-%012lld.r1.%.8s",
                   (long long)step, INSTANCE); /* fits */
}

static void remove_step(int at, int64_t step)
{
    char name[SNAPSHOT_DIR_NAME_MAX], file[2 * SNAPSHOT_DIR_NAME_MAX];
    step_name(step, name);
    (void)snprintf(file, sizeof(file), "%s/shard-00001-of-00001.safetensors",
                   name); /* fits */
    ck_assert_int_eq(unlinkat(at, file, 0), 0);
    ck_assert_int_eq(unlinkat(at, name, AT_REMOVEDIR), 0);
}

/* A user who clears the folder makes room: it is taken again, and made again
 * where it is gone. Where that cannot be, why is told. */
TEST(test_snapshot_dir_put_into_a_removed_folder_makes_it_again)
{
    struct ddp_err err;
    char name[SNAPSHOT_DIR_NAME_MAX];
    ck_assert_int_eq(unlinkat(dir.fd, "owner", 0), 0);
    ck_assert_int_eq(put(1, &err), 0);
    ck_assert_int_eq(unlinkat(dir.fd, "owner", 0), 0);
    remove_step(dir.fd, 1);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(put(2, &err), 0);
    ck_assert_uint_eq(list_names(&name, 1), 1);
    int again = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(again, 0);
    ck_assert_int_eq(faccessat(again, name, F_OK, 0), 0);
    ck_assert_int_eq(unlinkat(again, "owner", 0), 0);
    remove_step(again, 2);
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

/* A folder that was removed and made by another run is that one's. */
TEST(test_snapshot_dir_put_into_a_folder_that_another_made_is_refused)
{
    struct ddp_err err;
    ck_assert_int_eq(unlinkat(dir.fd, "owner", 0), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    own_by(BEFORE);
    ck_assert_int_eq(put(1, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.text, BEFORE));
}

/* Names that pass for newer, as damaged files do that were refused at the
 * start: what was just written was the first to go, with all that was whole. */
TEST(test_snapshot_dir_prune_keeps_what_was_written_beside_false_names)
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
    for (int64_t step = 1; step <= 5; step++) {
        ck_assert_int_eq(put(step, &err), 0);
        prune(step, KEEP);
    }
    ck_assert_uint_eq(list_names(names, 5), 5);
    for (int i = 0; i < KEEP; i++) {
        step_name(5 - i, name);
        ck_assert_int_eq(strncmp(names[3 + i], name, strlen(name)), 0);
    }
}

/* More than anybody keeps; a list that is cut could lack the newest. */
TEST(test_snapshot_dir_list_of_too_many_is_refused)
{
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    char name[SNAPSHOT_DIR_NAME_MAX], file[SNAPSHOT_DIR_NAME_MAX];
    for (int64_t step = 0; step <= 65536; step++) {
        step_name(step, name);
        (void)strcat(name, ".safetensors"); /* fits */
        if (step % 32000 != 0) {            /* a link is cheaper than a file */
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

/* Until the step goes. */
TEST(test_snapshot_dir_put_keeps_the_file_of_before)
{
    const uint8_t bytes[64] = {1};
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(
            snapshot_dir_put(&dir, 1, 0, 1, true, bytes, 60 + i, NULL, &err),
            0);
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_uint_eq(n, 2);
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        ck_assert_int_eq(fstatat(dir.fd, files[i].name, &st, 0), 0);
        ck_assert_int_eq(st.st_size, files[i].before ? 61 : 62);
        ck_assert(files[0].before != files[1].before);
    }
    free(files);
    ck_assert_int_eq(put(2, &err), 0);
    prune(2, 1);
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(files[0].step, 2);
    free(files);
}

#define PARTS 22000 /* ranks of a large job */

/* What may be saved may be loaded: the newest steps, as whole as they are. */
TEST(test_snapshot_dir_list_of_large_steps_has_the_newest)
{
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    char name[SNAPSHOT_DIR_NAME_MAX], part[SNAPSHOT_DIR_NAME_MAX];
    for (int64_t step = 1; step <= 3; step++) {
        step_name(step, name);
        ck_assert_int_eq(mkdirat(dir.fd, name, 0700), 0);
        int at = openat(dir.fd, name, O_RDONLY | O_DIRECTORY);
        int fd = openat(at, "file", O_WRONLY | O_CREAT, 0600);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(close(fd), 0);
        for (int i = 1; i <= PARTS; i++) { /* a link is cheaper than a file */
            (void)snprintf(part, sizeof(part), "shard-%05d-of-%05d.safetensors",
                           i, PARTS); /* fits */
            ck_assert_int_eq(linkat(at, "file", at, part, 0), 0);
        }
        ck_assert_int_eq(close(at), 0);
    }
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_uint_eq(n, 2 * PARTS);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(files[i].step, i < PARTS ? 3 : 2);
    free(files);
}

/* -- pieces ---------------------------------------------------------------- */

#define RANKS 3

static void put_parts(int64_t step, int ranks)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = false;
    struct ddp_err err;
    for (int r = 0; r < ranks; r++)
        ck_assert_int_eq(snapshot_dir_put(&dir, step, r, RANKS, false, bytes,
                                          sizeof(bytes), &stop, &err),
                         0);
}

/* The listed files' steps, one character each: 'a' + step, in upper case if it
 * is a whole state. */
static const char *list_steps(void)
{
    static char text[64];
    struct snapshot_file *files;
    struct ddp_err err;
    size_t n;
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    ck_assert_int_lt((int)n, (int)sizeof(text));
    for (size_t i = 0; i < n; i++) {
        ck_assert(files[i].world == 0 || files[i].world == RANKS);
        text[i] = (char)((files[i].world == 0 ? 'A' : 'a') + files[i].step);
    }
    text[n] = '\0';
    free(files);
    return text;
}

/* Each file of a step is listed, in the order of the ranks, among files with
 * whole states, as they were written once;
 * names that no rank gives are not. */
TEST(test_snapshot_dir_lists_the_files_of_a_step)
{
    struct ddp_err err;
    struct snapshot_file *files;
    size_t n;
    int whole = openat(dir.fd, "step-000000000002.r1.01234567.safetensors",
                       O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(whole, 0);
    ck_assert_int_eq(close(whole), 0);
    put_parts(1, RANKS);
    put_parts(3, RANKS);
    ck_assert_str_eq(list_steps(), "dddCbbb");
    ck_assert_int_eq(snapshot_dir_list(&dir, &files, &n, &err), 0);
    for (int r = 0; r < RANKS; r++) {
        struct stat st;
        ck_assert_int_eq(files[r].rank, r);
        ck_assert_int_eq(fstatat(dir.fd, files[r].name, &st, 0), 0);
        ck_assert_int_eq(st.st_size, 64);
    }
    ck_assert_str_eq(files[1].name, "step-000000000003.r1.01234567/"
                                    "shard-00002-of-00003.safetensors");
    free(files);
    static const char *const strange[] = {
        "shard-00000-of-00003.safetensors", "shard-00004-of-00003.safetensors",
        "shard-2-of-3.safetensors", "shard-00001-of-00003.safetensors.tmp.x"};
    for (int i = 0; i < 4; i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "step-000000000003.r1.01234567/%s",
                       strange[i]); /* fits */
        int fd = openat(dir.fd, path, O_CREAT | O_WRONLY, 0600);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(close(fd), 0);
    }
    ck_assert_str_eq(list_steps(), "dddCbbb");
    prune(3, 1); /* with all that is in it */
    ck_assert_str_eq(list_steps(), "ddd");
    put_parts(4, RANKS);
    prune(4, 1);
    ck_assert_int_ne(
        faccessat(dir.fd, "step-000000000003.r1.01234567", F_OK, 0), 0);
    prune(9, 1); /* not there: nothing is known of any */
    ck_assert_str_eq(list_steps(), "eee");
}

/* What cannot be written leaves no folder, but for what another rank has. */
TEST(test_snapshot_dir_part_that_fails_leaves_no_empty_folder)
{
    const uint8_t bytes[64] = {1};
    atomic_bool stop = true;
    struct ddp_err err;
    for (int ranks = 0; ranks < 2; ranks++) {
        put_parts(1, ranks);
        ck_assert_int_ne(snapshot_dir_put(&dir, 1, RANKS - 1, RANKS, false,
                                          bytes, sizeof(bytes), &stop, &err),
                         0);
        int left = faccessat(dir.fd, "step-000000000001.r1.01234567", F_OK, 0);
        ck_assert_int_eq(left, ranks == 0 ? -1 : 0);
    }
    ck_assert_str_eq(list_steps(), "b");
}

/* What is newer than the step that all have written stays, whole or not, and
 * as many before it as are asked for; what another run left is not ours. */
TEST(test_snapshot_dir_prunes_before_what_all_have_written)
{
    static const char other[] = "step-000000000001.r1.aaaaaaaa";
    ck_assert_int_eq(mkdirat(dir.fd, other, 0700), 0);
    for (int step = 1; step < 5; step++)
        put_parts(step, step == 4 ? 1 : RANKS);
    prune(3, 2);
    ck_assert_str_eq(list_steps(), "edddccc");
    prune(3, 1);
    ck_assert_str_eq(list_steps(), "eddd");
    ck_assert_int_eq(faccessat(dir.fd, other, F_OK, 0), 0);
    ck_assert_int_eq(unlinkat(dir.fd, other, AT_REMOVEDIR), 0);
    put_parts(5, RANKS);
    prune(5, 1);
    ck_assert_str_eq(list_steps(), "fff");
}

/* An instance takes the folder over, and writes a step; -1: none. */
static void launch(int number, int64_t step)
{
    const uint8_t bytes[64] = {1};
    char instance[RNG_ID_LEN + 1];
    struct ddp_err err;
    struct snapshot_dir other;
    (void)snprintf(instance, sizeof(instance), "%08x%024d", number, 0);
    ck_assert_int_eq(snapshot_dir_open(&other, folder, instance, 1, &err), 0);
    ck_assert_int_eq(snapshot_dir_own(&other, &barren, &err), 0);
    if (step >= 0)
        ck_assert_int_eq(
            snapshot_dir_put(&other, step, 0, 1, false, bytes, 64, NULL, &err),
            0);
    snapshot_dir_close(&other);
}

/* Those in a row that found a step and left no newer one. Its restarts find the
 * same as the launch itself, until it has written one. */
TEST(test_snapshot_dir_counts_launches_in_vain)
{
    ck_assert_int_eq(barren, 0); /* of the first, which has written nothing */
    launch(1, 7);
    ck_assert_int_eq(barren, 1);
    launch(2, -1);
    ck_assert_int_eq(barren, 0);
    launch(2, -1); /* again: it is the same launch */
    ck_assert_int_eq(barren, 0);
    for (int i = 3; i < 20; i++) {
        launch(i, -1);
        ck_assert_int_eq(barren, i - 2);
    }
    launch(19, 7); /* the same step is none */
    launch(20, 8);
    ck_assert_int_eq(barren, 18);
    launch(20, -1); /* what it has written counts */
    ck_assert_int_eq(barren, 0);
    launch(21, -1);
    ck_assert_int_eq(barren, 0);
}

static void write_owner(const char *text)
{
    int fd = openat(dir.fd, "owner", O_WRONLY | O_TRUNC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(close(fd), 0);
}

/* As an older libddp, or anybody, has left it. */
TEST_LOOP(test_snapshot_dir_owner_without_what_it_found, 0, 6)
{
    static const char *const tails[] = {
        "", "found\n", "found 7\n", "found x 3\n", "found 7 -3\n", "lost 7 3\n",
    };
    char text[100];
    (void)snprintf(text, sizeof(text), BEFORE "\n%s", tails[_i]);
    write_owner(text);
    launch(1, -1);
    ck_assert_int_eq(barren, 0);
    launch(2, -1);
    ck_assert_int_eq(barren, 1);
}

SUITE("snapshot_dir", "fast", .limit_s = 60, FIXTURE(setup, teardown))
