/* links: rendezvous/net/pool rendezvous/base/err tests/lib/fault */
/* libs: -luv -ldl */
/*
 * Jobs that other threads do: all of them, once, and the rest of the world goes
 * on if there are no threads.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "rendezvous/net/pool.h"
#include "tests/lib/fault.h"
#include "tests/lib/suite.h"

#define JOBS    100
#define THREADS 2

struct count {
    struct pool_job job;
    pthread_t by;
    int worked, done;
};

static struct {
    uv_loop_t loop;
    struct pool *pool;
    pthread_t main;
    pthread_mutex_t gate; /* held: no job gets on */
    int n_done;
    int close_at; /* the pool is closed when so many are done */
    struct count counts[JOBS];
} w;

static struct count *count_of(struct pool_job *job)
{
    return (void *)((char *)job - offsetof(struct count, job));
}

static void work(struct pool_job *job)
{
    struct count *c = count_of(job);
    (void)pthread_mutex_lock(&w.gate);
    (void)pthread_mutex_unlock(&w.gate);
    c->by = pthread_self();
    c->worked++;
}

static void on_done(struct pool_job *job)
{
    struct count *c = count_of(job);
    ck_assert(pthread_equal(pthread_self(), w.main));
    ck_assert(!pthread_equal(c->by, w.main));
    c->done++;
    if (++w.n_done == w.close_at)
        pool_close(w.pool);
    memset(job, 0xff, sizeof(*job)); /* it is ours again */
}

static void open_world(int threads, int waiting_max)
{
    memset(&w, 0, sizeof(w));
    w.main = pthread_self();
    (void)pthread_mutex_init(&w.gate, NULL);
    ck_assert_int_eq(uv_loop_init(&w.loop), 0);
    w.pool = pool_open(&w.loop, threads, waiting_max);
    ck_assert_ptr_nonnull(w.pool);
}

/* Gives it jobs from w.counts[from] on; returns how many it has taken. */
static int give(int from, int n)
{
    int taken = 0;
    for (int i = from; i < from + n; i++) {
        w.counts[i].job = (struct pool_job){.work = work, .done = on_done};
        if (!pool_take(w.pool, &w.counts[i].job))
            break;
        taken++;
    }
    return taken;
}

static void run_until_done(int n)
{
    while (w.n_done < n)
        (void)uv_run(&w.loop, UV_RUN_ONCE);
}

static void close_world(void)
{
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&w.loop), 0);
}

/* Is each job done once, by another thread, and told in the loop's? */
START_TEST(test_pool_does_each_job_once)
{
    open_world(THREADS, JOBS);
    ck_assert_int_eq(give(0, JOBS / 2), JOBS / 2);
    run_until_done(JOBS / 2);
    ck_assert_int_eq(give(JOBS / 2, JOBS / 2), JOBS / 2);
    run_until_done(JOBS);
    for (int i = 0; i < JOBS; i++) {
        ck_assert_int_eq(w.counts[i].worked, 1);
        ck_assert_int_eq(w.counts[i].done, 1);
    }
    pool_close(w.pool);
    close_world();
}
END_TEST

/* Does it take no more than may wait, and more once those are done? */
START_TEST(test_full_pool_takes_no_more)
{
    const int waiting_max = 3;
    open_world(THREADS, waiting_max);
    (void)pthread_mutex_lock(&w.gate);
    int taken = give(0, JOBS);
    ck_assert_int_ge(taken, waiting_max); /* each thread may have one besides */
    ck_assert_int_le(taken, waiting_max + THREADS);
    ck_assert_int_eq(w.counts[taken].worked, 0);
    (void)pthread_mutex_unlock(&w.gate);
    run_until_done(taken);
    ck_assert_int_eq(w.counts[taken].worked, 0);
    ck_assert_int_eq(give(taken, 1), 1);
    run_until_done(taken + 1);
    pool_close(w.pool);
    close_world();
}
END_TEST

/* Are jobs that were taken done if the pool is closed meanwhile: at once, or in
 * the call that tells of one? */
START_TEST(test_closed_pool_does_what_it_has_taken)
{
    open_world(THREADS, JOBS);
    w.close_at = _i == 0 ? -1 : JOBS / 2;
    (void)pthread_mutex_lock(&w.gate);
    ck_assert_int_eq(give(0, JOBS - 1), JOBS - 1);
    if (_i == 0)
        pool_close(w.pool);
    if (_i == 0)
        ck_assert_int_eq(give(JOBS - 1, 1), 0);
    (void)pthread_mutex_unlock(&w.gate);
    close_world();
    ck_assert_int_eq(w.n_done, JOBS - 1);
}
END_TEST

/* Does a pool without threads take nothing, whether none were wanted or none
 * can be had; and do with the one that it could have? */
START_TEST(test_pool_does_with_the_threads_that_there_are)
{
    static const char *const plans[] = {NULL, "test:pthread_create:1+:EAGAIN",
                                        "test:pthread_create:2:EAGAIN"};
    const bool has_one = _i == 2;
    open_world(_i == 0 ? 0 : THREADS, JOBS);
    if (plans[_i] != NULL)
        fault_plan(plans[_i]);
    int taken = give(0, JOBS);
    ck_assert_int_eq(taken, has_one ? JOBS : 0);
    ck_assert_int_eq(fault_struck(), _i == 0 ? 0 : 1);
    fault_end();
    run_until_done(taken);
    pool_close(w.pool);
    close_world();
}
END_TEST

/* Is no thread worth it on one CPU? */
START_TEST(test_one_cpu_needs_no_thread)
{
    cpu_set_t one;
    int here = sched_getcpu();
    ck_assert_int_ge(here, 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)here, &one);
    ck_assert_int_ge(pool_threads(), 0);
    ck_assert_int_le(pool_threads(), POOL_THREADS_MAX);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    ck_assert_int_eq(pool_threads(), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *tc = tcase_create("pool");
    tcase_add_test(tc, test_pool_does_each_job_once);
    tcase_add_test(tc, test_full_pool_takes_no_more);
    tcase_add_loop_test(tc, test_closed_pool_does_what_it_has_taken, 0, 2);
    tcase_add_loop_test(tc, test_pool_does_with_the_threads_that_there_are, 0,
                        3);
    tcase_add_test(tc, test_one_cpu_needs_no_thread);
    suite_add_tcase(s, tc);
    return suite_run(s);
}
