/* links: rendezvous/store/volley rendezvous/base/err rendezvous/base/mono */
/*
 * Volleys on pairs of sockets: what is fired arrives, each once and whole,
 * whoever sends it, and threads are there only when they are of use.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/store/volley.h"
#include "tests/lib/suite.h"

#define MANY    64   /* shots: enough for the hand to be wanted */
#define WAIT_MS 3000 /* for what must come */

/* -- sockets --------------------------------------------------------------- */

struct range {
    int here[VOLLEY_MAX];
    int there[VOLLEY_MAX];
    char text[VOLLEY_MAX][64];
    struct volley_shot shots[VOLLEY_MAX];
};

static struct range range;

static void range_open(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        range.here[i] = pair[0];
        range.there[i] = pair[1];
    }
}

/* Shot i says which one of which volley it is. */
static void aim(size_t count, int number)
{
    for (size_t i = 0; i < count; i++) {
        int len = snprintf(range.text[i], sizeof(range.text[i]),
                           "volley %d shot %zu", number, i);
        range.shots[i] = (struct volley_shot){
            .fd = range.here[i],
            .data = range.text[i],
            .len = (size_t)len,
            .sent = 1 << 20,
        };
    }
}

/* It comes, once: nothing is behind it. */
static void expect_hit(size_t i)
{
    char got[64];
    size_t len = strlen(range.text[i]);
    struct pollfd p = {.fd = range.there[i], .events = POLLIN};
    ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "shot %zu has not arrived", i);
    ck_assert_int_eq(recv(p.fd, got, sizeof(got), MSG_DONTWAIT), (int)len);
    ck_assert_mem_eq(got, range.text[i], len);
    ck_assert_int_eq(recv(p.fd, got, sizeof(got), MSG_DONTWAIT), -1);
}

static void expect_hits(size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_hit(i);
}

/* -- threads --------------------------------------------------------------- */

/* How many hands there are; `look` sees what /proc says of each. */
static int hands(void (*look)(const char *status))
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *d; (d = readdir(tasks)) != NULL;) {
        char path[300], text[4096] = "";
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/status",
                       d->d_name);
        FILE *f = fopen(path, "r");
        if (f == NULL)
            continue; /* it is about to be gone */
        size_t len = fread(text, 1, sizeof(text) - 1, f);
        (void)fclose(f); /* only read */
        if (len == 0 || strstr(text, "Name:\tvolley\n") == NULL)
            continue;
        count++;
        if (look != NULL)
            look(text);
    }
    (void)closedir(tasks);
    return count;
}

/* A thread has its name when it runs, and the kernel lists one that was joined
 * for a moment. */
static void expect_hands(int count)
{
    for (int ms = 0; ms < WAIT_MS && hands(NULL) != count; ms++)
        usleep(1000);
    ck_assert_int_eq(hands(NULL), count);
}

static double cpu_ms(void)
{
    struct timespec t;
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* From here on no thread can be started: clone(2) fails with EAGAIN, as where a
 * limit of processes is reached. A filter cannot see what clone3 is asked for,
 * without which glibc does. */
static void forbid_threads(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* -- tests ----------------------------------------------------------------- */

/* With a hand and without, volleys of all sizes one right behind the other. */
START_TEST(test_every_shot_arrives_once)
{
    struct volley *v = volley_new(_i == 1);
    unsigned seed = 5;
    ck_assert_ptr_nonnull(v);
    range_open(VOLLEY_MAX);
    for (int n = 0; n < 100; n++) {
        size_t count = (size_t)rand_r(&seed) % (n % 2 ? 24 : VOLLEY_MAX + 1);
        aim(count, n);
        bool aloft = volley_fire(v, range.shots, count);
        ck_assert(!aloft || _i == 1);
        volley_land(v);
        for (size_t i = 0; i < count; i++)
            ck_assert_int_eq(range.shots[i].sent, (int)strlen(range.text[i]));
        expect_hits(count);
    }
    volley_del(v);
}
END_TEST

/* The hand sends by itself, also when it must be woken. */
START_TEST(test_hand_sends_while_nobody_lands)
{
    struct volley *v = volley_new(true);
    range_open(MANY);
    for (int n = 0; n < 5; n++) {
        aim(MANY, n);
        ck_assert(volley_fire(v, range.shots, MANY));
        expect_hits(MANY);
        volley_land(v);
        usleep(20000); /* it sleeps now */
    }
    volley_del(v);
}
END_TEST

/* A socket that is full, one that takes a part, one whose peer is gone, and
 * what is no socket: each shot has its own result, the others arrive. */
START_TEST(test_each_shot_has_its_own_result)
{
    static char large[8 << 20];
    struct volley *v = volley_new(_i == 1);
    range_open(MANY);
    aim(MANY, 0);
    while (send(range.here[10], large, sizeof(large), MSG_DONTWAIT) > 0)
        ;
    range.shots[20].data = large;
    range.shots[20].len = sizeof(large);
    (void)close(range.there[30]);
    range.shots[40].fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(range.shots[40].fd, 0);
    (void)volley_fire(v, range.shots, MANY);
    volley_land(v);
    ck_assert_int_eq(range.shots[10].sent, -EAGAIN);
    ck_assert_int_gt(range.shots[20].sent, 0);
    ck_assert_int_lt(range.shots[20].sent, (int)sizeof(large));
    ck_assert_int_eq(range.shots[30].sent, -EPIPE);
    ck_assert_int_eq(range.shots[40].sent, -ENOTSOCK);
    for (size_t i = 0; i < MANY; i++)
        if (i % 10 != 0 || i > 40)
            expect_hit(i);
    volley_del(v);
}
END_TEST

/* Few replies at a time, as in most jobs, cost no thread. */
START_TEST(test_hand_starts_with_the_first_large_volley)
{
    struct volley *v = volley_new(true);
    range_open(MANY);
    for (int n = 0; n < 100; n++) {
        aim(2, n);
        ck_assert(!volley_fire(v, range.shots, 2));
        expect_hits(2);
    }
    ck_assert_int_eq(hands(NULL), 0);
    aim(MANY, 0);
    ck_assert(volley_fire(v, range.shots, MANY));
    volley_land(v);
    expect_hands(1);
    volley_del(v);
    expect_hands(0);
}
END_TEST

/* Where nothing is to be sent, nobody works. */
START_TEST(test_idle_hand_takes_no_time)
{
    struct volley *v = volley_new(true);
    range_open(MANY);
    aim(MANY, 0);
    (void)volley_fire(v, range.shots, MANY);
    volley_land(v);
    usleep(50000);
    double before_ms = cpu_ms();
    usleep(200000);
    ck_assert_double_lt(cpu_ms() - before_ms, 5);
    volley_del(v);
}
END_TEST

static void expect_deaf(const char *status)
{
    static const int signals[] = {SIGTERM, SIGINT,  SIGHUP, SIGCHLD,
                                  SIGUSR1, SIGPIPE, SIGALRM};
    const char *at = strstr(status, "SigBlk:");
    ck_assert_ptr_nonnull(at);
    unsigned long long blocked = strtoull(at + strlen("SigBlk:"), NULL, 16);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        ck_assert_uint_eq(blocked >> (signals[i] - 1) & 1, 1);
}

/* Signals are the loop's. */
START_TEST(test_hand_blocks_signals)
{
    struct volley *v = volley_new(true);
    sigset_t before, after;
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    range_open(MANY);
    aim(MANY, 0);
    (void)volley_fire(v, range.shots, MANY);
    volley_land(v);
    expect_hands(1);
    ck_assert_int_eq(hands(expect_deaf), 1);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int signo = 1; signo < 32; signo++)
        ck_assert_int_eq(sigismember(&before, signo),
                         sigismember(&after, signo));
    volley_del(v);
}
END_TEST

/* The one that fires sends alone. */
START_TEST(test_goes_on_where_no_thread_can_start)
{
    struct volley *v = volley_new(true);
    forbid_threads();
    range_open(MANY);
    for (int n = 0; n < 3; n++) {
        aim(MANY, n);
        ck_assert(!volley_fire(v, range.shots, MANY));
        expect_hits(MANY);
    }
    volley_del(v);
}
END_TEST

/* It would take the CPU from the one that fires. */
START_TEST(test_hand_does_not_pay_on_one_cpu)
{
    cpu_set_t all, some;
    unsigned used = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&some);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && used < 2; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_SET(cpu, &some);
        used++;
        ck_assert_int_eq(sched_setaffinity(0, sizeof(some), &some), 0);
        ck_assert_int_eq(volley_pays(), used > 1);
    }
    ck_assert_uint_gt(used, 0);
}
END_TEST

/* What is in the air lands first. */
START_TEST(test_end_with_a_volley_in_the_air)
{
    range_open(MANY);
    for (int n = 0; n < 20; n++) {
        struct volley *v = volley_new(true);
        aim(MANY, n);
        (void)volley_fire(v, range.shots, MANY);
        volley_del(v);
        expect_hits(MANY);
    }
    volley_del(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("volley");
    TCase *t = tcase_create("shots");
    tcase_add_loop_test(t, test_every_shot_arrives_once, 0, 2);
    tcase_add_test(t, test_hand_sends_while_nobody_lands);
    tcase_add_loop_test(t, test_each_shot_has_its_own_result, 0, 2);
    tcase_add_test(t, test_end_with_a_volley_in_the_air);
    suite_add_tcase(s, t);
    t = tcase_create("hand");
    tcase_add_test(t, test_hand_starts_with_the_first_large_volley);
    tcase_add_test(t, test_idle_hand_takes_no_time);
    tcase_add_test(t, test_hand_blocks_signals);
    tcase_add_test(t, test_goes_on_where_no_thread_can_start);
    tcase_add_test(t, test_hand_does_not_pay_on_one_cpu);
    suite_add_tcase(s, t);
    return suite_run(s);
}
