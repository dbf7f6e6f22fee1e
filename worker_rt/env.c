/*
 * worker_rt/env: the place of this process, read from its environment. A
 * variable that is there but wrong is an error, never a default: a worker that
 * guesses its rank destroys its peers' work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "worker_rt/rt.h"

#define WORLD_LIMIT (1 << 24) /* more workers than any job has */

/* Digits only: strtoll alone would take blanks, signs and hexadecimal. */
static int parse(const char *text, int64_t max, int64_t *value)
{
    if (*text < '0' || *text > '9')
        return -1;
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || n > max)
        return -1;
    *value = n;
    return 0;
}

/* A number from `min` to `max`; if the variable is not set, `fallback`, or
 * an error if that is negative. */
static int number(const char *name,
                  int64_t min,
                  int64_t max,
                  int64_t fallback,
                  int64_t *value,
                  struct ddp_err *err)
{
    const char *text = getenv(name);
    if (text == NULL && fallback >= 0) {
        *value = fallback;
        return 0;
    }
    if (text == NULL)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s is not set, but other variables of a launcher "
                           "are",
                           name);
    if (parse(text, max, value) != 0 || *value < min)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s=%.64s: must be a whole number from %lld to "
                           "%lld",
                           name, text, (long long)min, (long long)max);
    return 0;
}

static int small(const char *name,
                 int64_t min,
                 int64_t max,
                 int64_t fallback,
                 int *value,
                 struct ddp_err *err)
{
    int64_t n;
    if (number(name, min, max, fallback, &n, err) != 0)
        return -1;
    *value = (int)n;
    return 0;
}

static int read_ranks(struct ddp *d, struct ddp_err *err)
{
    if (small("WORLD_SIZE", 1, WORLD_LIMIT, -1, &d->world, err) != 0 ||
        small("RANK", 0, d->world - 1, -1, &d->rank, err) != 0 ||
        small("LOCAL_WORLD_SIZE", 1, d->world, -1, &d->local_world, err) != 0 ||
        small("LOCAL_RANK", 0, d->local_world - 1, -1, &d->local_rank, err) !=
            0)
        return -1;
    /* With --virtual_local_rank LOCAL_RANK is 0 in all of a node's workers. */
    if (small("DDP_LOCAL_RANK", 0, d->local_world - 1, d->local_rank,
              &d->node_rank, err) != 0)
        return -1;
    return small("GROUP_RANK", 0, d->world - 1, 0, &d->group_rank, err);
}

static bool is_id(const char *text)
{
    return strlen(text) == RNG_ID_LEN &&
           strspn(text, "0123456789abcdef") == RNG_ID_LEN;
}

/* Where no instance tells the launches of a job apart, their saves must have
 * different numbers, or a step of which each wrote some ranks' files would pass
 * for one. The ranks agree about the number (commit). */
static int64_t first_save(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
    return now.tv_sec * MONO_S + now.tv_nsec / 1000;
}

static int read_instance(struct ddp *d, struct ddp_err *err)
{
    const char *text = getenv("DDP_INSTANCE");
    memset(d->instance, '0', RNG_ID_LEN);
    if (text == NULL) {
        d->saves = first_save();
        return 0;
    }
    if (!is_id(text))
        return ddp_err_set(err, DDP_E_USAGE, /* messages: ok, it is 32 */
                           "DDP_INSTANCE=%.64s: must be %d hexadecimal "
                           "digits (0-9, a-f)",
                           text, RNG_ID_LEN);
    memcpy(d->instance, text, RNG_ID_LEN);
    return 0;
}

/* "0", or the count of an epoch, a point, and the id of its server. A round of
 * more digits than ddprun's have is no epoch's. */
static int read_epoch(struct ddp *d, struct ddp_err *err)
{
    const char *text = getenv("DDP_EPOCH");
    char count[20] = "";
    int64_t epoch;
    size_t len = text == NULL ? 0 : strcspn(text, ".");
    d->fence = d->round;
    if (text == NULL)
        return 0;
    if (len < sizeof(count))
        memcpy(count, text, len);
    if (parse(count, INT64_MAX, &epoch) != 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "DDP_EPOCH=%.64s: must be 0, or a whole number, a "
                           "point, and the id of a server",
                           text);
    if (epoch >= RT_FENCE_LINE)
        epoch = RT_FENCE_LINE + epoch / RT_FENCE_LINE;
    if (epoch > RT_FENCE_EPOCH_MAX)
        epoch = RT_FENCE_EPOCH_MAX;
    if (epoch > 1 && d->round < RT_FENCE_EPOCH)
        d->fence += (epoch - 1) * RT_FENCE_EPOCH;
    return 0;
}

static uint64_t half_of(const char *digits)
{
    char half[RNG_ID_LEN / 2 + 1];
    (void)snprintf(half, sizeof(half), "%.*s", RNG_ID_LEN / 2, digits);
    return strtoull(half, NULL, 16);
}

/* Its value is in no error: these are read by many. */
static int read_round_key(struct ddp *d, struct ddp_err *err)
{
    const char *text = getenv("DDP_ROUND_KEY");
    if (text == NULL)
        return 0;
    if (!is_id(text))
        return ddp_err_set(err, DDP_E_USAGE, /* messages: ok, it is 32 */
                           "DDP_ROUND_KEY must be %d hexadecimal digits (0-9, "
                           "a-f)",
                           RNG_ID_LEN);
    d->round_key[0] = half_of(text);
    d->round_key[1] = half_of(text + RNG_ID_LEN / 2);
    return 0;
}

/* A launcher that knows no rounds (torchrun) counts restarts: as good to tell
 * one attempt's messages from another's. */
static int read_fence(struct ddp *d, struct ddp_err *err)
{
    if (small("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX - 1, 0,
              &d->restart_count, err) != 0)
        return -1;
    if (read_instance(d, err) != 0 || read_round_key(d, err) != 0)
        return -1;
    int64_t guess = (int64_t)d->restart_count + 1;
    if (number("DDP_ROUND", 1, INT64_MAX, guess, &d->round, err) != 0)
        return -1;
    return read_epoch(d, err);
}

static int read_run_id(struct ddp *d, struct ddp_err *err)
{
    const char *text = getenv("TORCHELASTIC_RUN_ID");
    if (text == NULL)
        text = "none";
    if (strlen(text) >= sizeof(d->run_id))
        return ddp_err_set(err, DDP_E_USAGE,
                           "TORCHELASTIC_RUN_ID is longer than %zu bytes",
                           sizeof(d->run_id) - 1);
    memcpy(d->run_id, text, strlen(text) + 1);
    return 0;
}

static int read_master(struct ddp *d, struct ddp_err *err)
{
    const char *host = getenv("MASTER_ADDR");
    const char *port = getenv("MASTER_PORT");
    if (d->world == 1 && (host == NULL || port == NULL))
        return 0;
    if (host == NULL || *host == '\0' || strlen(host) >= STORE_CLIENT_HOST_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "MASTER_ADDR is %s, but the ranks need the address "
                           "of their store",
                           host == NULL    ? "not set"
                           : *host == '\0' ? "empty"
                                           : "too long for a host name");
    int port_number;
    if (small("MASTER_PORT", 1, 65535, -1, &port_number, err) != 0)
        return -1;
    store_client_init(&d->store, host, (uint16_t)port_number);
    return 0;
}

/* Whether a path of /proc led to the launcher's memfd. In another PID namespace
 * than the launcher's it leads nowhere, or to another file. */
static bool is_memfd(int fd, const char *name)
{
    char path[32], wanted[64], link[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);    /* fits */
    int len = snprintf(wanted, sizeof(wanted), "/memfd:%s", name); /* fits */
    ssize_t n = readlink(path, link, sizeof(link));
    return n >= len && strncmp(link, wanted, (size_t)len) == 0;
}

static bool is_of_launcher(const char *path)
{
    return strncmp(path, "/proc/", strlen("/proc/")) == 0;
}

/* Where it cannot be had, signals do as well. */
static void open_stop(struct ddp *d)
{
    const char *path = getenv("DDP_STOP_FILE");
    if (path == NULL || !is_of_launcher(path))
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    struct stat st;
    void *page = MAP_FAILED;
    off_t at = (off_t)stop_page_at(d->node_rank);
    if (is_memfd(fd, MEMFD_STOP) && fstat(fd, &st) == 0 &&
        st.st_size >= at + (off_t)sizeof(*d->stop_page))
        page = mmap(NULL, sizeof(*d->stop_page), PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, at);
    if (page != MAP_FAILED) {
        d->stop_page = page;
        rt_sign_death(fd, (size_t)at);
    }
    (void)close(fd); /* the mapping stays */
}

/* Where it cannot be had, the disk does as well. */
static void open_memory(struct ddp *d)
{
    const char *path = getenv("DDP_SNAPSHOT_MEMORY");
    if (path == NULL || !is_of_launcher(path))
        return;
    d->memory_fd = open(path, O_RDWR | O_CLOEXEC);
    if (d->memory_fd >= 0 && !is_memfd(d->memory_fd, MEMFD_SNAPSHOTS)) {
        (void)close(d->memory_fd); /* not the launcher's */
        d->memory_fd = -1;
    }
}

static int open_progress(struct ddp *d, struct ddp_err *err)
{
    const char *path = getenv("DDP_PROGRESS_FILE");
    if (path == NULL || *path == '\0')
        return 0;
    bool ours = is_of_launcher(path);
    int flags = O_WRONLY | O_CLOEXEC | (ours ? 0 : O_CREAT);
    d->progress_fd = open(path, flags, 0600);
    if (ours && d->progress_fd >= 0 &&
        !is_memfd(d->progress_fd, MEMFD_PROGRESS)) {
        (void)close(d->progress_fd); /* not the launcher's */
        d->progress_fd = -1;
    }
    if (d->progress_fd < 0 && !ours)
        return ddp_err_sys(err, DDP_E_CONFIG,
                           "cannot open DDP_PROGRESS_FILE '%.200s'", path);
    return 0;
}

/* One for the process, as its environment is. */
static _Atomic int64_t stop_patience_us = 2 * MONO_S;

int64_t rt_stop_patience_us(void)
{
    return atomic_load(&stop_patience_us);
}

/* "SECONDS.mmm", from SIGTERM to SIGKILL. Another launcher does not say it. */
static int read_grace(struct ddp_err *err)
{
    const char *text = getenv("DDP_SHUTDOWN_TIMEOUT");
    int64_t s, ms;
    char whole[24] = "";
    if (text == NULL)
        return 0;
    size_t len = strcspn(text, ".");
    if (len < sizeof(whole))
        memcpy(whole, text, len);
    if (parse(whole, INT32_MAX, &s) != 0 || text[len] != '.' ||
        strlen(text + len + 1) != 3 || parse(text + len + 1, 999, &ms) != 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "DDP_SHUTDOWN_TIMEOUT=%.64s: must be seconds with "
                           "three decimals, such as 30.000",
                           text);
    atomic_store(&stop_patience_us, (s * 1000 + ms) * MONO_MS / 2);
    return 0;
}

static bool launched(void)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE", "GROUP_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL)
            return true;
    return false;
}

static int read_place(struct ddp *d, struct ddp_err *err)
{
    if (launched() && (read_ranks(d, err) != 0 || read_fence(d, err) != 0 ||
                       read_run_id(d, err) != 0 || read_master(d, err) != 0 ||
                       read_grace(err) != 0))
        return -1;
    open_stop(d);
    open_memory(d);
    return open_progress(d, err);
}

struct ddp *ddp_init(struct ddp_error *err)
{
    struct ddp_err why;
    struct ddp *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        (void)ddp_err_set(&why, DDP_E_NOMEM, "no memory for a handle");
        (void)rt_fail(err, &why);
        return NULL;
    }
    proof_init(&d->proof);
    d->world = d->local_world = 1;
    d->progress_fd = d->memory_fd = -1;
    memset(d->instance, '0', RNG_ID_LEN);
    memcpy(d->run_id, "none", sizeof("none"));
    store_client_init(&d->store, "", 0);
    if (read_place(d, &why) != 0) {
        (void)rt_fail(err, &why);
        ddp_free(d);
        return NULL;
    }
    fork_watch(&d->forks[0], &d->store.fd, 1, 0);
    fork_watch(&d->forks[1], &d->memory_fd, 1, 0);
    ddp_assert(d->rank >= 0 && d->rank < d->world);
    ddp_assert(d->local_rank >= 0 && d->local_rank < d->local_world);
    ddp_assert(d->node_rank >= 0 && d->node_rank < d->local_world);
    ddp_assert(d->local_world <= d->world && d->round >= 0);
    ddp_assert(strlen(d->instance) == RNG_ID_LEN);
    return d;
}

void ddp_free(struct ddp *d)
{
    if (d == NULL)
        return;
    fork_forget(&d->forks[0]);
    fork_forget(&d->forks[1]);
    store_client_free(&d->store);
    if (d->stop_page != NULL && !d->stop_page_stays)
        (void)munmap(d->stop_page, sizeof(*d->stop_page)); /* cannot fail */
    if (d->memory_fd >= 0)
        (void)close(d->memory_fd); /* the launcher holds it */
    if (d->progress_fd >= 0)
        (void)close(d->progress_fd); /* a lost beat is no loss */
    proof_free(&d->proof);
    free(d);
}

int ddp_rank(const struct ddp *d)
{
    return d->rank;
}

int ddp_world(const struct ddp *d)
{
    return d->world;
}

int ddp_local_rank(const struct ddp *d)
{
    return d->local_rank;
}

int ddp_local_world(const struct ddp *d)
{
    return d->local_world;
}

int ddp_group_rank(const struct ddp *d)
{
    return d->group_rank;
}

int ddp_restart_count(const struct ddp *d)
{
    return d->restart_count;
}

int64_t ddp_round(const struct ddp *d)
{
    return d->round;
}

const char *ddp_instance(const struct ddp *d)
{
    return d->instance;
}

const char *ddp_run_id(const struct ddp *d)
{
    return d->run_id;
}

const char *ddp_strangers(struct ddp *d)
{
    const struct rt_strangers *s = &d->strangers;
    d->strangers_text[0] = '\0';
    if (s->n > 0)
        (void)snprintf(d->strangers_text, sizeof(d->strangers_text), /* fits */
                       "connections to rank %d that were no rank's of its "
                       "round: %lld, the first of them from %s",
                       d->rank, (long long)s->n, s->first);
    return d->strangers_text;
}
