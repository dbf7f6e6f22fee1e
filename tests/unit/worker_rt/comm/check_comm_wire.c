/* links: tests/lib/{rt_world,rt_comm} */
/* libs: -luv -Wl,--wrap=send -Wl,--wrap=recv -Wl,--wrap=getsockopt */
/*
 * Who is blamed: when ranks of a ring fail one after the other, all of them
 * must name the one that failed first, not their neighbour.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/wire.h"
#include "worker_rt/ddp.h"

#define RANKS       8
#define DEADLINE_MS 20000
#define SOON_MS     100 /* ddp.h: for all survivors' errors */

/* -- words that get lost --------------------------------------------------- */

/* What becomes of the words that this process says. */
enum mischief {
    WHOLE,
    CUT,
    LOST,
    NONSENSE,
    MISCHIEFS
};

static enum mischief mischief;

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    static const struct wire_blame nonsense = {.why = 77, .rank = 1};
    if (len != sizeof(struct wire_blame) || mischief == WHOLE)
        return __real_send(fd, data, len, flags);
    if (mischief == CUT)
        (void)__real_send(fd, data, 5, flags);
    if (mischief == NONSENSE)
        (void)__real_send(fd, &nonsense, len, flags);
    return (ssize_t)len;
}

/* -- a world that fails ---------------------------------------------------- */

/* What all ranks share with the test. */
struct board {
    int steps;
    size_t count; /* elements of the all-reduce that goes on and on */
    int busy;     /* a rank that computes while the others fail, or -1 */
    int muddler;  /* a rank whose words get lost, or -1 */
    enum mischief mischief; /* what becomes of them */
    int calls_off;          /* a rank that aborts after a while, or -1 */
    int leaves;             /* a rank that frees it after a while, or -1 */
    unsigned killed;        /* a mask of ranks: they wait for it if need be */
    int code[RANKS];
    char text[RANKS][512];
    int64_t at_us[RANKS];
    int64_t waited_us[RANKS]; /* for a CPU, until then */
};

static struct board *new_board(size_t count)
{
    struct board *b = rt_shared(sizeof(*b));
    b->count = count;
    b->busy = b->muddler = b->calls_off = b->leaves = -1;
    return b;
}

static int until_error(int rank, void *arg)
{
    struct board *b = arg;
    struct ddp_error e = {0};
    struct ddp *d = rt_init();
    struct ddp_comm *c = rt_join(d, 0);
    float *data = calloc(b->count, sizeof(*data));
    int rc = 0;
    RT_CHECK(data != NULL);
    if (rank == b->muddler)
        mischief = b->mischief;
    for (int i = 0; rc == 0; i++) {
        if (i == 20 && rank == b->leaves)
            break;
        if (i == 20 && rank == b->calls_off)
            ddp_comm_abort(c);
        rc = ddp_comm_allreduce(c, data, b->count, DDP_F32, &e);
        if (rank == 0 && rc == 0)
            b->steps++;
        if (i == 20 && rank == b->busy)
            (void)usleep(400000);
    }
    b->at_us[rank] = mono_now_us();
    b->waited_us[rank] = rt_cpu_wait_us(getpid());
    b->code[rank] = e.code;
    (void)snprintf(b->text[rank], sizeof(b->text[0]), "%s", e.text);
    while ((b->killed & 1u << rank) != 0)
        (void)pause();
    ddp_comm_free(c);
    ddp_free(d);
    free(data);
    return 0;
}

/*
 * Runs the world until it has failed on all ranks but those of `killed`, a mask
 * of ranks that are killed at once after the third step. The time from then to
 * the last survivor's error, in us, without that for which a survivor had no
 * CPU.
 */
static int64_t run(struct board *b, unsigned killed)
{
    uint16_t port;
    pid_t store = rt_store_start(&port), pids[RANKS];
    int64_t last_us = 0, without_us = 0, waited_us[RANKS];
    b->killed = killed;
    for (int i = 0; i < RANKS; i++)
        pids[i] = rt_rank_start(i, RANKS, port, 1, until_error, b);
    int steps = b->busy < 0 ? 3 : 20;
    for (int i = 0; i < 30000 && b->steps < steps; i++)
        (void)usleep(1000);
    ck_assert_int_ge(b->steps, steps);
    for (int i = 0; i < RANKS; i++)
        waited_us[i] = rt_cpu_wait_us(pids[i]);
    int64_t killed_us = mono_now_us();
    for (int i = 0; i < RANKS; i++)
        if ((killed & 1u << i) != 0)
            (void)kill(pids[i], SIGKILL); /* a child that was not reaped */
    for (int i = 0; i < RANKS; i++) {
        bool dead = (killed & 1u << i) != 0;
        ck_assert_int_eq(rt_wait(pids[i], DEADLINE_MS), dead ? 128 + 9 : 0);
        if (dead)
            continue;
        int64_t us = b->waited_us[i] - waited_us[i];
        last_us = b->at_us[i] > last_us ? b->at_us[i] : last_us;
        without_us = us > without_us ? us : without_us;
    }
    rt_kill(store);
    return last_us - killed_us - without_us;
}

static bool is_blamed(const struct board *b, int by, int rank, const char *what)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "all-reduce: rank %d %s", rank, what);
    return strcmp(b->text[by], text) == 0;
}

/* -- one died -------------------------------------------------------------- */

/* All survivors name the rank that was killed, soon, wherever it stood. */
TEST(test_wire_killed_rank_is_named_by_all)
{
    static const size_t counts[] = {10, 5000, 100003, 1000000};
    int64_t max_us = 0;
    for (int k = 0; k < 16; k++) {
        struct board *b = new_board(counts[k % 4]);
        int victim = (k + k / 8) % RANKS;
        int64_t us = run(b, 1u << victim);
        max_us = us > max_us ? us : max_us;
        for (int r = 0; r < RANKS; r++) {
            if (r == victim)
                continue;
            ck_assert_int_eq(b->code[r], DDP_ERR_PEER);
            ck_assert_msg(is_blamed(b, r, victim, "died"),
                          "%d was killed, %d says: %s", victim, r, b->text[r]);
        }
    }
    printf("check_comm_wire: killed one of %d ranks 16 times, the last "
           "survivor's error came after %.1f ms on a CPU at most\n",
           RANKS, (double)max_us / 1000);
    ck_assert_int_le(max_us, suite_room_us(SOON_MS * MONO_MS));
}

/* A rank that computes while all others fail and end hears the truth when it
 * comes back, from those that are gone themselves. */
TEST(test_wire_busy_rank_is_told_later)
{
    for (int k = 0; k < 2; k++) {
        struct board *b = new_board(k == 0 ? 100 : 100003);
        b->busy = 2;
        (void)run(b, 1u << 5); /* no neighbour of 2 */
        for (int r = 0; r < RANKS; r++)
            ck_assert_msg(r == 5 || is_blamed(b, r, 5, "died"), "%d: %s", r,
                          b->text[r]);
    }
}

/* -- several died ---------------------------------------------------------- */

/* Nobody blames a living one. */
TEST(test_wire_several_killed_only_dead_are_named)
{
    static const unsigned masks[] = {0x03, 0x24, 0x92, 0x6d, 0x7f, 0xfe};
    for (size_t k = 0; k < sizeof(masks) / sizeof(masks[0]); k++) {
        struct board *b = new_board(k % 2 == 0 ? 10 : 100003);
        int64_t us = run(b, masks[k]);
        ck_assert_int_le(us, suite_room_us(SOON_MS * MONO_MS));
        for (int r = 0; r < RANKS; r++) {
            bool right = (masks[k] & 1u << r) != 0;
            for (int v = 0; v < RANKS && !right; v++)
                right = (masks[k] & 1u << v) != 0 && is_blamed(b, r, v, "died");
            ck_assert_msg(right, "mask %x, %d: %s", masks[k], r, b->text[r]);
        }
    }
}

/* A word that is cut, lost or nonsense: its speaker counts as dead, and nobody
 * else is blamed. */
TEST(test_wire_lost_words_blame_their_speaker)
{
    for (int k = 0; k < 3 * (MISCHIEFS - 1); k++) {
        struct board *b = new_board(k % 2 == 0 ? 10 : 100003);
        b->muddler = 4 + k / (MISCHIEFS - 1); /* 5 has it from itself */
        b->mischief = (enum mischief)(CUT + k % (MISCHIEFS - 1));
        int victim = b->muddler == 5 ? 4 : 5;
        int64_t us = run(b, 1u << victim);
        ck_assert_int_le(us, suite_room_us(SOON_MS * MONO_MS));
        for (int r = 0; r < RANKS; r++)
            ck_assert_msg(r == victim || is_blamed(b, r, victim, "died") ||
                              is_blamed(b, r, b->muddler, "died"),
                          "%d: %s", r, b->text[r]);
        ck_assert(is_blamed(b, b->muddler, victim, "died"));
    }
}

/* -- nobody died ----------------------------------------------------------- */

/* An abort is told as one, with the rank that called it off. */
TEST(test_wire_abort_is_told_as_such)
{
    for (int k = 0; k < 2; k++) {
        struct board *b = new_board(k == 0 ? 10 : 100003);
        b->calls_off = 3;
        (void)run(b, 0);
        for (int r = 0; r < RANKS; r++) {
            if (r == 3) {
                ck_assert_int_eq(b->code[r], DDP_ERR_ABORTED);
                continue;
            }
            ck_assert_int_eq(b->code[r], DDP_ERR_PEER);
            ck_assert_msg(is_blamed(b, r, 3, "aborted it"), "%d: %s", r,
                          b->text[r]);
        }
    }
}

/* So is a rank that frees the communicator too early. */
TEST(test_wire_leaving_early_is_told_as_such)
{
    for (int k = 0; k < 2; k++) {
        struct board *b = new_board(k == 0 ? 10 : 100003);
        b->leaves = 6;
        (void)run(b, 0);
        for (int r = 0; r < RANKS; r++) {
            if (r == 6)
                continue;
            ck_assert_int_eq(b->code[r], DDP_ERR_PEER);
            ck_assert_msg(is_blamed(b, r, 6, "left early"), "%d: %s", r,
                          b->text[r]);
        }
    }
}

/* -- one's own fault ------------------------------------------------------- */

/* A buffer that the kernel cannot read, as a GPU's memory that is taken for the
 * program's: that is no rank's silence. */
static int send_unreadable(int rank, void *arg)
{
    struct ddp_error e;
    size_t len = 1 << 20;
    (void)arg;
    struct ddp_comm *c = rt_join(rt_init(), 0);
    void *data = mmap(NULL, len, rank == 0 ? PROT_NONE : PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RT_CHECK(data != MAP_FAILED);
    RT_OK(ddp_comm_barrier(c, &e), e); /* all have met */
    RT_CHECK(ddp_comm_broadcast(c, data, len, 0, &e) != 0);
    RT_CHECK(e.code == (rank == 0 ? DDP_ERR_IO : DDP_ERR_PEER));
    RT_CHECK(strcmp(e.text, rank == 0
                                ? "broadcast: cannot send the data of this "
                                  "rank: Bad address"
                                : "broadcast: rank 0 failed") == 0);
    return 0;
}

TEST(test_wire_own_fault_blames_no_peer)
{
    rt_world_run(3, send_unreadable, NULL, DEADLINE_MS);
}

/* A rank that was asked to stop waits for a step of the others for half of the
 * time that it has, not for two seconds. */
static int stop_slowly(int rank, void *arg)
{
    struct ddp_error e;
    float x = 1;
    (void)arg;
    RT_CHECK(setenv("DDP_SHUTDOWN_TIMEOUT", "12.000", 1) == 0);
    struct ddp *d = rt_init();
    struct ddp_comm *c = rt_join(d, 0);
    RT_OK(ddp_stop_on_signal(d, SIGUSR1, &e), e);
    if (rank == 0)
        RT_CHECK(raise(SIGUSR1) == 0);
    else
        (void)usleep(3 * 1000 * 1000);
    RT_OK(ddp_comm_allreduce(c, &x, 1, DDP_F32, &e), e);
    return 0;
}

TEST(test_wire_stop_leaves_time_for_a_step)
{
    rt_world_run(2, stop_slowly, NULL, DEADLINE_MS);
}

/* -- looks at peers -------------------------------------------------------- */

static int looks;

ssize_t __real_recv(int fd, void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
    looks++;
    return __real_recv(fd, data, len, flags);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    looks++;
    return __real_getsockopt(fd, level, name, value, len);
}

static int watch_often(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp_err why;
    struct ddp *d = rt_init();
    struct ddp_comm *c = rt_join(d, 0);
    struct wire *w = comm_cpu_wire(c);
    (void)rank, (void)arg;
    RT_OK(wire_attend(w, MONO_NEVER, &why), why);
    looks = 0;
    for (int i = 0; i < 1000; i++)
        RT_OK(wire_watch(w, &why), why);
    RT_CHECK(looks < 200);
    RT_OK(ddp_comm_barrier(c, &e), e);
    ddp_comm_free(c);
    ddp_free(d);
    return 0;
}

/* A rank that waits for NCCL looks at its peers a thousand times a second, and
 * a large world has thirty of them: it does not ask each of them each time. */
TEST(test_wire_watch_does_not_ask_each_peer)
{
    rt_world_run(4, watch_often, NULL, DEADLINE_MS);
}

SUITE("comm_wire", "blame", .limit_s = 60)
