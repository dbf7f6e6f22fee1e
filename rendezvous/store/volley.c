/*
 * One word says which shot is next and how many there are, so that who takes a
 * ticket from it cannot mistake one volley for another: a hand that comes late
 * finds a volley that has none left, or the next one, whole. `landed` counts
 * the shots that were sent; a new volley is fired only when it has reached the
 * last one's count, so that no hand is in the middle of anything then.
 *
 * Whoever waits does so first with its eyes open, since the next volley or the
 * last shot is often microseconds away, then on a condition variable. Both
 * sleeps are entered in the same way: say so under the lock, look again, sleep;
 * who brings news changes the word first and then looks for sleepers.
 */
#include "rendezvous/store/volley.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define WORTH       8u  /* shots, for the hand if it is awake */
#define WORTH_START 16u /* shots, to wake or start it */
#define WATCH_US    10  /* with open eyes */
#define WATCH_LOOKS 32  /* between two looks at the clock */
#define STACK_BYTES ((size_t)64 << 10)
#define CACHE_LINE  64

struct volley {
    _Alignas(CACHE_LINE) _Atomic uint64_t tickets; /* count << 32 | next */
    _Alignas(CACHE_LINE) _Atomic uint32_t landed;
    _Alignas(CACHE_LINE) struct volley_shot *shots;
    bool aloft;
    bool wanted; /* the hand, which is not started yet */
    bool started;
    _Atomic bool asleep; /* the hand */
    _Atomic bool lander_asleep;
    _Atomic bool over;
    pthread_mutex_t lock;
    pthread_cond_t fired;
    pthread_cond_t done;
    pthread_t hand;
};

static uint32_t next_of(uint64_t tickets)
{
    return (uint32_t)tickets;
}

static uint32_t count_of(uint64_t tickets)
{
    return (uint32_t)(tickets >> 32);
}

static bool some_left(const struct volley *v)
{
    uint64_t t = atomic_load(&v->tickets);
    return next_of(t) < count_of(t);
}

static bool all_landed(const struct volley *v)
{
    return atomic_load(&v->landed) == count_of(atomic_load(&v->tickets));
}

static void breathe(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Looks for a while; whether it has seen it. */
static bool watch(bool (*seen)(const struct volley *v), const struct volley *v)
{
    int64_t until_us = mono_now_us() + WATCH_US;
    do {
        for (int i = 0; i < WATCH_LOOKS; i++) {
            if (seen(v))
                return true;
            breathe();
        }
    } while (mono_now_us() < until_us);
    return false;
}

/* -- shots ----------------------------------------------------------------- */

static void shoot(struct volley_shot *s)
{
    ssize_t n = send(s->fd, s->data, s->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    s->sent = n < 0 ? -errno : n;
}

static void wake_lander(struct volley *v)
{
    (void)pthread_mutex_lock(&v->lock); /* none of these can fail */
    (void)pthread_cond_signal(&v->done);
    (void)pthread_mutex_unlock(&v->lock);
}

/* Until no ticket is left. */
static void take_part(struct volley *v)
{
    while (some_left(v)) {
        uint64_t t = atomic_fetch_add(&v->tickets, 1);
        if (next_of(t) >= count_of(t))
            return;
        shoot(&v->shots[next_of(t)]);
        uint32_t landed = atomic_fetch_add(&v->landed, 1) + 1;
        if (landed == count_of(t) && atomic_load(&v->lander_asleep))
            wake_lander(v);
    }
}

/* -- the hand -------------------------------------------------------------- */

static bool has_news(const struct volley *v)
{
    return some_left(v) || atomic_load(&v->over);
}

static void sleep_until_news(struct volley *v)
{
    (void)pthread_mutex_lock(&v->lock);
    atomic_store(&v->asleep, true);
    while (!has_news(v))
        (void)pthread_cond_wait(&v->fired, &v->lock);
    atomic_store(&v->asleep, false);
    (void)pthread_mutex_unlock(&v->lock);
}

static void *hand_main(void *arg)
{
    struct volley *v = arg;
    (void)prctl(PR_SET_NAME, "volley"); /* for those who look: cannot fail */
    while (!atomic_load(&v->over)) {
        take_part(v);
        if (!watch(has_news, v))
            sleep_until_news(v);
    }
    return NULL;
}

/* Nobody misses it if it cannot be started. */
static void start_hand(struct volley *v)
{
    pthread_attr_t attr;
    sigset_t all, before;
    v->wanted = false;
    if (pthread_attr_init(&attr) != 0)
        return;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES); /* else the usual */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* it inherits this */
    v->started = pthread_create(&v->hand, &attr, hand_main, v) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr); /* cannot fail */
}

static void wake_hand(struct volley *v)
{
    (void)pthread_mutex_lock(&v->lock); /* or it looks, and is not asleep yet */
    (void)pthread_cond_signal(&v->fired);
    (void)pthread_mutex_unlock(&v->lock);
}

/* -- for the thread that fires --------------------------------------------- */

bool volley_pays(void)
{
    cpu_set_t set; /* one that is too small: there are very many */
    return sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) > 1;
}

struct volley *volley_new(bool hand)
{
    struct volley *v = aligned_alloc(CACHE_LINE, sizeof(*v));
    if (v == NULL)
        return NULL;
    *v = (struct volley){.wanted = hand};
    /* On Linux these three cannot fail: pthread_mutex_init(3). */
    (void)pthread_mutex_init(&v->lock, NULL);
    (void)pthread_cond_init(&v->fired, NULL);
    (void)pthread_cond_init(&v->done, NULL);
    return v;
}

void volley_del(struct volley *v)
{
    if (v == NULL)
        return;
    volley_land(v);
    atomic_store(&v->over, true);
    if (v->started) {
        wake_hand(v);
        (void)pthread_join(v->hand, NULL); /* cannot fail for this one */
    }
    (void)pthread_mutex_destroy(&v->lock);
    (void)pthread_cond_destroy(&v->fired);
    (void)pthread_cond_destroy(&v->done);
    free(v);
}

/* Whether the hand is there to take part, or will be. */
static bool is_worth_it(struct volley *v, size_t count)
{
    if (count >= WORTH_START && v->wanted)
        start_hand(v);
    return v->started && (count >= WORTH_START ||
                          (count >= WORTH && !atomic_load(&v->asleep)));
}

bool volley_fire(struct volley *v, struct volley_shot *shots, size_t count)
{
    ddp_assert(!v->aloft && count <= VOLLEY_MAX);
    if (!is_worth_it(v, count)) {
        for (size_t i = 0; i < count; i++)
            shoot(&shots[i]);
        return false;
    }
    v->aloft = true;
    v->shots = shots;
    atomic_store(&v->landed, 0);
    atomic_store(&v->tickets, (uint64_t)count << 32);
    if (atomic_load(&v->asleep))
        wake_hand(v);
    return true;
}

void volley_land(struct volley *v)
{
    if (!v->aloft)
        return;
    take_part(v);
    if (!watch(all_landed, v)) {
        (void)pthread_mutex_lock(&v->lock);
        atomic_store(&v->lander_asleep, true);
        while (!all_landed(v))
            (void)pthread_cond_wait(&v->done, &v->lock);
        atomic_store(&v->lander_asleep, false);
        (void)pthread_mutex_unlock(&v->lock);
    }
    v->aloft = false;
}
