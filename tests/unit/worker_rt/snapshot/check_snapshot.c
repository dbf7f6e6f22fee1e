/* links: worker_rt/snapshot/{snapshot,load,save,image,atomic_file} */
/* links: worker_rt/snapshot/safetensors */
/* links: rendezvous/base/{utf8,dial,err,mono,rng,buf,json} */
/* links: worker_rt/{env,proof,fork,abi,death_sign} rendezvous/proto/c10d */
/* links: rendezvous/client/store worker_rt/comm/reduce */
/* libs: -lcjson -lxxhash -Wl,--wrap=flock */
/*
 * Snapshots: whole or refused, the one before kept, nothing left over.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/snapshot/snapshot.h"

/* The rules of NFS (flock(2)): an exclusive lock is a lock for writing. */
static bool nfs;

int __real_flock(int fd, int op);
int __wrap_flock(int fd, int op);

int __wrap_flock(int fd, int op)
{
    struct flock lock = {.l_type = F_WRLCK};
    if (!nfs)
        return __real_flock(fd, op);
    if ((op & LOCK_EX) == 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return -1;
    }
    return fcntl(fd, F_OFD_SETLK, &lock);
}

static char dir[64];
static struct ddp *d;

static void make_dir(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/check_snapshot.XXXXXX"); /* fits */
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(
        setenv("DDP_INSTANCE", "000102030405060708090a0b0c0d0e0f", 1), 0);
    ck_assert_int_eq(setenv("DDP_ROUND", "3", 1), 0);
    ck_assert_int_eq(setenv("RANK", "0", 1), 0);
    ck_assert_int_eq(setenv("WORLD_SIZE", "1", 1), 0);
    ck_assert_int_eq(setenv("LOCAL_RANK", "0", 1), 0);
    ck_assert_int_eq(setenv("LOCAL_WORLD_SIZE", "1", 1), 0);
    d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
}

/* Removes what the test is known to leave; rmdir finds anything else. */
static void drop_dir(void)
{
    (void)unlink("s");
    (void)unlink("s.prev");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(dir), 0);
    ddp_free(d);
}

/* -- a small model --------------------------------------------------------- */

struct model {
    float w[5][3];
    double bias;
    int64_t ids[4];
    uint8_t bytes[7];
    struct ddp_tensor t[5];
    struct ddp_kv kv[3];
};
#define TENSORS 5

static void shape_model(struct model *m)
{
    memset(m, 0, sizeof(*m));
    m->t[0] = (struct ddp_tensor){"bytes", DDP_U8, 1, {7}, m->bytes};
    m->t[1] = (struct ddp_tensor){"w", DDP_F32, 2, {5, 3}, m->w};
    m->t[2] = (struct ddp_tensor){"bias", DDP_F64, 0, {0}, &m->bias};
    m->t[3] = (struct ddp_tensor){"ids \"x\"", DDP_I64, 1, {4}, m->ids};
    m->t[4] = (struct ddp_tensor){"none", DDP_F32, 1, {0}, NULL};
    m->kv[0].key = "step";
    m->kv[1].key = "epoch";
    m->kv[2].key = "note";
}

static void fill_model(struct model *m, int seed)
{
    shape_model(m);
    for (int i = 0; i < 15; i++)
        m->w[i / 3][i % 3] = (float)(seed * 100 + i) / 7;
    m->bias = seed;
    for (int i = 0; i < 4; i++)
        m->ids[i] = seed - i;
    memset(m->bytes, seed, sizeof(m->bytes));
    ddp_kv_set_i64(&m->kv[0], "step", INT64_C(4111120135943610118) + seed);
    ddp_kv_set_i64(&m->kv[1], "epoch", -seed);
    (void)snprintf(m->kv[2].value, DDP_KV_MAX, "\"quoted\" %d", seed);
}

static void save(int seed)
{
    struct model m;
    struct ddp_error e;
    fill_model(&m, seed);
    ck_assert_msg(ddp_snapshot_save(d, "s", m.t, TENSORS, m.kv, 3, &e) == 0,
                  "%s", e.text);
}

/* Fails the test unless `path` holds the model of `seed`. */
static struct ddp_snapshot_info expect(const char *path, int seed)
{
    struct model want, got;
    struct ddp_error e;
    struct ddp_snapshot_info info = {.size = 0};
    int64_t step, epoch;
    fill_model(&want, seed);
    shape_model(&got);
    ck_assert_msg(
        ddp_snapshot_load(d, path, got.t, TENSORS, got.kv, 3, &info, &e) == 0,
        "%s", e.text);
    ck_assert_mem_eq(got.w, want.w, sizeof(got.w));
    ck_assert_mem_eq(&got.bias, &want.bias, sizeof(got.bias));
    ck_assert_mem_eq(got.ids, want.ids, sizeof(got.ids));
    ck_assert_mem_eq(got.bytes, want.bytes, sizeof(got.bytes));
    ck_assert_int_eq(ddp_kv_get_i64(&got.kv[0], &step, NULL), 0);
    ck_assert_int_eq(ddp_kv_get_i64(&got.kv[1], &epoch, NULL), 0);
    ck_assert_int_eq(step, INT64_C(4111120135943610118) + seed);
    ck_assert_int_eq(epoch, -seed);
    ck_assert_str_eq(got.kv[2].value, want.kv[2].value);
    ck_assert_str_eq(info.instance, "000102030405060708090a0b0c0d0e0f");
    ck_assert_int_eq(info.round, 3);
    return info;
}

static int load_code(const char *path, struct ddp_error *e)
{
    struct model got;
    shape_model(&got);
    if (ddp_snapshot_load(d, path, got.t, TENSORS, got.kv, 3, NULL, e) == 0)
        return 0;
    return e->code;
}

static size_t slurp(const char *path, uint8_t *data, size_t cap)
{
    int fd = open(path, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ssize_t n = read(fd, data, cap);
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, (ssize_t)cap);
    ck_assert_int_eq(close(fd), 0);
    return (size_t)n;
}

static void spill(const char *path, const uint8_t *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    ck_assert_int_eq(close(fd), 0);
}

/* How many files the folder has. */
static int files(void)
{
    int n = 0;
    DIR *list = opendir(".");
    ck_assert_ptr_nonnull(list);
    for (const struct dirent *e; (e = readdir(list)) != NULL;)
        n += e->d_name[0] != '.';
    ck_assert_int_eq(closedir(list), 0);
    return n;
}

/* -- save and load --------------------------------------------------------- */

/* What was saved comes back, and the folder has one file. */
TEST(test_snapshot_saved_model_comes_back)
{
    save(1);
    struct ddp_snapshot_info info = expect("s", 1);
    ck_assert(!info.from_prev && !info.foreign);
    ck_assert_str_eq(info.why, "");
    ck_assert_int_eq(files(), 1);
}

/* The second save keeps the first as .prev, the third the second. */
TEST(test_snapshot_next_save_keeps_the_one_before)
{
    for (int i = 1; i < 5; i++) {
        save(i);
        expect("s", i);
        if (i > 1)
            expect("s.prev", i - 1);
    }
    ck_assert_int_eq(files(), 2);
}

/* A save that was killed between its link and its rename leaves two names of
 * one file: the next one leaves no third. */
TEST(test_snapshot_save_after_a_killed_one_leaves_nothing)
{
    save(1);
    ck_assert_int_eq(link("s", "s.prev"), 0);
    save(2);
    expect("s", 2);
    expect("s.prev", 1);
    ck_assert_int_eq(files(), 2);
}

/* Some tensors only, into a shape that the caller names. */
TEST(test_snapshot_load_of_some_tensors)
{
    struct model m, want;
    struct ddp_error e;
    save(4);
    fill_model(&want, 4);
    shape_model(&m);
    struct ddp_kv none = {.key = "absent", .value = "x"};
    int64_t n;
    ck_assert_int_eq(ddp_snapshot_load(d, "s", &m.t[1], 1, &none, 1, NULL, &e),
                     0);
    ck_assert_mem_eq(m.w, want.w, sizeof(m.w));
    ck_assert_int_eq(m.bytes[0], 0);
    ck_assert_str_eq(none.value, "");
    ck_assert_int_eq(ddp_kv_get_i64(&none, &n, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
}

/* A pair without a key is the program's error, and no crash. */
TEST(test_snapshot_load_of_a_pair_without_key_is_refused)
{
    struct ddp_error e;
    struct ddp_kv kv[2] = {{.key = "step"}, {.key = NULL}};
    save(1);
    ck_assert_int_eq(ddp_snapshot_load(d, "s", NULL, 0, kv, 2, NULL, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "key 1 "));
    ck_assert_int_eq(
        ddp_snapshot_load_into(d, "s", NULL, NULL, kv, 2, NULL, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
}

/* Missing, other dtype, other shape, other dims, twice: USAGE, no damage. */
TEST(test_snapshot_load_into_another_model_is_refused)
{
    struct model m;
    struct ddp_error e;
    save(1);
    save(2);
    for (int k = 0; k < 5; k++) {
        shape_model(&m);
        if (k == 0)
            m.t[1].name = "v";
        if (k == 1)
            m.t[1].dtype = DDP_I32;
        if (k == 2) {
            m.t[1].shape[0] = 3;
            m.t[1].shape[1] = 5;
        }
        if (k == 3) {
            m.t[1].dims = 1;
            m.t[1].shape[0] = 15;
        }
        if (k == 4)
            m.t[0] = m.t[1];
        ck_assert_int_eq(
            ddp_snapshot_load(d, "s", m.t, TENSORS, NULL, 0, NULL, &e), -1);
        ck_assert_int_eq(e.code, DDP_ERR_USAGE);
        ck_assert_ptr_nonnull(strstr(e.text, k == 0 ? "'v'" : "'w'"));
    }
    ck_assert_int_eq(load_code("gone", &e), DDP_ERR_NOINPUT);
    ck_assert_int_eq(load_code("s/x", &e), DDP_ERR_IO);
    ck_assert_int_eq(load_code(".", &e), DDP_ERR_CORRUPT);
}

/* Another instance's snapshot is loaded and said to be foreign. */
TEST(test_snapshot_of_another_instance_is_foreign)
{
    save(1);
    ddp_free(d);
    ck_assert_int_eq(
        setenv("DDP_INSTANCE", "ffffffffffffffffffffffffffffffff", 1), 0);
    d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
    ck_assert(expect("s", 1).foreign);
}

/* Arguments that make no file. */
TEST(test_snapshot_save_refuses_bad_arguments)
{
    struct ddp_error e;
    for (int k = 0; k < 9; k++) {
        struct model m;
        char longer[DDP_NAME_MAX + 1];
        fill_model(&m, 1);
        memset(longer, 'n', DDP_NAME_MAX);
        longer[DDP_NAME_MAX] = '\0';
        if (k == 0)
            m.t[0].name = longer;
        if (k == 1)
            m.t[0].name = "w";
        if (k == 2)
            m.t[0].dims = 9;
        if (k == 3)
            m.t[0].data = NULL;
        if (k == 4)
            m.kv[0].key = "ddp.round";
        if (k == 5)
            m.kv[0].key = "epoch";
        if (k == 6)
            memset(m.kv[0].value, 'v', DDP_KV_MAX);
        if (k == 7)
            m.t[0].dtype = (enum ddp_dtype)0;
        if (k == 8)
            m.t[0].name = "ddp.ranks";
        ck_assert_int_eq(ddp_snapshot_save(d, "s", m.t, TENSORS, m.kv, 3, &e),
                         -1);
        ck_assert_msg(e.code == DDP_ERR_USAGE, "case %d: %s", k, e.text);
    }
    struct model m;
    fill_model(&m, 1);
    ck_assert_int_eq(ddp_snapshot_save(d, "", m.t, 1, NULL, 0, &e), -1);
    ck_assert_int_eq(ddp_snapshot_save(d, "no/s", m.t, 1, NULL, 0, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_IO);
    ck_assert_int_eq(files(), 0);
}

/* -- damage ---------------------------------------------------------------- */

/* Cut at every length: refused, with the file's name in the text. */
TEST(test_snapshot_truncated_anywhere_is_refused)
{
    static uint8_t data[16384];
    struct ddp_error e;
    save(1);
    size_t len = slurp("s", data, sizeof(data));
    for (size_t n = 0; n < len; n++) {
        ck_assert_int_eq(truncate("s", (off_t)(len - n - 1)), 0);
        ck_assert_int_eq(load_code("s", &e), DDP_ERR_CORRUPT);
        ck_assert_ptr_nonnull(strstr(e.text, "'s'"));
    }
    spill("s", data, len);
    expect("s", 1);
    data[len] = 0; /* and one byte too many */
    spill("s", data, len + 1);
    ck_assert_int_eq(load_code("s", &e), DDP_ERR_CORRUPT);
}

/* Every single bit, in header and data: refused. */
TEST(test_snapshot_any_flipped_bit_is_refused)
{
    static uint8_t data[16384];
    struct ddp_error e;
    save(1);
    size_t len = slurp("s", data, sizeof(data));
    int fd = open("s", O_WRONLY);
    ck_assert_int_ge(fd, 0);
    for (size_t i = 0; i < len * 8; i++) {
        uint8_t bad = (uint8_t)(data[i / 8] ^ (1u << (i % 8)));
        ck_assert_int_eq(pwrite(fd, &bad, 1, (off_t)(i / 8)), 1);
        ck_assert_int_eq(load_code("s", &e), DDP_ERR_CORRUPT);
        ck_assert_int_eq(pwrite(fd, &data[i / 8], 1, (off_t)(i / 8)), 1);
    }
    ck_assert_int_eq(close(fd), 0);
    expect("s", 1);
}

/* The text names the tensor whose data is damaged. */
TEST(test_snapshot_damaged_tensor_is_named)
{
    static uint8_t data[16384];
    struct ddp_error e;
    save(1);
    size_t len = slurp("s", data, sizeof(data));
    data[len - 7 - 30] ^= 4; /* behind w come the 7 bytes */
    spill("s", data, len);
    ck_assert_int_eq(load_code("s", &e), DDP_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "tensor 'w' has a wrong checksum"));
}

/* The one before is taken, and the reason told; with both bad, both are named;
 * the next save brings all in order again. */
TEST(test_snapshot_damaged_falls_back_to_prev)
{
    static uint8_t data[16384];
    struct ddp_error e;
    save(1);
    save(2);
    size_t len = slurp("s", data, sizeof(data));
    data[len - 1] ^= 1;
    spill("s", data, len);
    struct ddp_snapshot_info info = expect("s", 1);
    ck_assert(info.from_prev);
    ck_assert_ptr_nonnull(strstr(info.why, "'bytes' has a wrong checksum"));
    ck_assert_int_eq(truncate("s.prev", 20), 0);
    ck_assert_int_eq(load_code("s", &e), DDP_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "'s'"));
    ck_assert_ptr_nonnull(strstr(e.text, "'s.prev'"));
    save(3);
    ck_assert(!expect("s", 3).from_prev);
}

/* A file that was removed is a fresh start, whatever .prev is. */
TEST(test_snapshot_removed_is_a_fresh_start)
{
    struct ddp_error e;
    save(1);
    save(2);
    ck_assert_int_eq(unlink("s"), 0);
    ck_assert_int_eq(load_code("s", &e), DDP_ERR_NOINPUT);
}

/* -- trouble while saving -------------------------------------------------- */

/* A disk that fills up at any byte: an error with the reason, the old snapshot
 * untouched, nothing left over. */
TEST(test_snapshot_full_disk_changes_nothing)
{
    static uint8_t data[16384];
    struct ddp_error e;
    struct model m;
    struct rlimit old, limit;
    save(1);
    save(2);
    size_t len = slurp("s", data, sizeof(data));
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    fill_model(&m, 3);
    for (size_t n = 0; n < len; n += 37) {
        limit = (struct rlimit){.rlim_cur = n, .rlim_max = old.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        int rc = ddp_snapshot_save(d, "s", m.t, TENSORS, m.kv, 3, &e);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
        ck_assert_int_eq(rc, -1);
        ck_assert_int_eq(e.code, DDP_ERR_IO);
        ck_assert_int_eq(e.sys_errno, EFBIG);
        ck_assert_int_eq(files(), 2);
        expect("s", 2);
        expect("s.prev", 1);
    }
    save(3);
}

/* Writers killed at any moment: whatever is there is whole, never older than
 * the last that was reported, and the next save cleans up. */
TEST(test_snapshot_killed_writers_leave_a_whole_one)
{
    int seed = 1;
    save(seed);
    for (int run = 0; run < 40; run++) {
        int told[2], done = seed;
        ck_assert_int_eq(pipe(told), 0);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        while (pid == 0) {
            save(++seed);
            ck_assert_int_eq(write(told[1], &seed, sizeof(seed)),
                             (ssize_t)sizeof(seed));
        }
        (void)usleep((useconds_t)(1000 + run * 211));
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        ck_assert_int_eq(close(told[1]), 0);
        while (read(told[0], &done, sizeof(done)) == (ssize_t)sizeof(done))
            ;
        ck_assert_int_eq(close(told[0]), 0);
        struct model m;
        int64_t step;
        struct ddp_snapshot_info info = {.size = 0};
        shape_model(&m);
        ck_assert_int_eq(
            ddp_snapshot_load(d, "s", m.t, TENSORS, m.kv, 3, &info, NULL), 0);
        ck_assert(!info.from_prev);
        ck_assert_int_eq(ddp_kv_get_i64(&m.kv[0], &step, NULL), 0);
        int found = (int)(step - INT64_C(4111120135943610118));
        ck_assert(found == done || found == done + 1);
        seed = found;
    }
    save(++seed);
    ck_assert_int_eq(files(), 2);
}

/* Puts `to` in the place of `from`, which is as long, into the header of "s",
 * whose sum is right again. */
static void edit_header(const char *from, const char *to)
{
    uint8_t bytes[8192];
    char digits[SNAPSHOT_DIGITS + 1];
    FILE *f = fopen("s", "r+e");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(bytes, 1, sizeof(bytes), f);
    size_t len = 8 + (size_t)bytes[0] + ((size_t)bytes[1] << 8);
    ck_assert_uint_lt(len, n);
    uint8_t *at = memmem(bytes, len, from, strlen(from));
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(from));
    memcpy(bytes + SNAPSHOT_DIGITS_AT, SNAPSHOT_NO_DIGITS, SNAPSHOT_DIGITS);
    XXH3_state_t *state = XXH3_createState();
    snapshot_header_hex(digits, state, bytes, len);
    (void)XXH3_freeState(state);
    memcpy(bytes + SNAPSHOT_DIGITS_AT, digits, SNAPSHOT_DIGITS);
    rewind(f);
    ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
}

/* A file of a newer format is refused, and no older one is taken for it; one
 * from before there was a version is read. */
TEST(test_snapshot_format_is_asked_for)
{
    struct model m;
    struct ddp_error e;
    save(1);
    save(2);
    edit_header("\"ddp.format\":\"1\"", "\"xxx.format\":\"1\"");
    (void)expect("s", 2);
    edit_header("\"xxx.format\":\"1\"", "\"ddp.format\":\"2\"");
    shape_model(&m);
    ck_assert_int_eq(ddp_snapshot_load(d, "s", m.t, TENSORS, m.kv, 3, NULL, &e),
                     -1);
    ck_assert_int_eq(e.code, DDP_ERR_CONFIG);
    ck_assert_str_eq(e.text,
                     "snapshot 's': it has format 2, and this libddp reads "
                     "format 1: use the version that wrote it, or a newer one");
}

/* What a living writer has under its lock stays, and so does what is no
 * temporary file of this snapshot. */
TEST_LOOP(test_snapshot_sweep_takes_only_what_is_left_over, 0, 2)
{
    static const char *const names[] = {
        "s.tmp.0123456789abcdef", "s.tmp.0123456789abcde0",
        "s.tmp.0123456789abcdeg", "s.tmp.0123", "t.tmp.0123456789abcdef"};
    const struct timespec old[2] = {{.tv_sec = 0}, {.tv_sec = 0}};
    for (int i = 0; i < 5; i++) {
        spill(names[i], (const uint8_t *)"x", 1);
        ck_assert_int_eq(utimensat(AT_FDCWD, names[i], old, 0), 0);
    }
    nfs = _i == 1;
    int fd = open(names[0], O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    save(1);
    ck_assert_int_eq(close(fd), 0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(unlink(names[i]), i == 1 ? -1 : 0);
}

/* -- numbers as text ------------------------------------------------------- */

static const struct {
    const char *text;
    bool good;
    int64_t value;
} numbers[] = {
    {"0", true, 0},
    {"-5", true, -5},
    {"9223372036854775807", true, INT64_MAX},
    {"-9223372036854775808", true, INT64_MIN},
    {"9223372036854775808", false, 0},
    {"", false, 0},
    {"-", false, 0},
    {" 1", false, 0},
    {"+1", false, 0},
    {"1x", false, 0},
    {"0x10", false, 0},
};

CASE("numbers")

/* All 64 bits and nothing else. */
TEST_EACH(test_snapshot_kv_numbers, numbers)
{
    struct ddp_kv kv = {.key = "k"};
    struct ddp_error e;
    int64_t value = 0;
    (void)snprintf(kv.value, DDP_KV_MAX, "%s", numbers[_i].text); /* fits */
    int rc = ddp_kv_get_i64(&kv, &value, &e);
    ck_assert_int_eq(rc, numbers[_i].good ? 0 : -1);
    if (rc == 0)
        ck_assert_int_eq(value, numbers[_i].value);
    else
        ck_assert_int_eq(e.code, DDP_ERR_USAGE);
}

SUITE("snapshot", "files", .limit_s = 60, FIXTURE(make_dir, drop_dir))
