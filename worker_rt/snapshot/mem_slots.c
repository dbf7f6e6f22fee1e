/*
 * worker_rt/snapshot/mem_slots: images that survive their worker.
 *
 * Happy path: reserve takes the label away and makes sure of the pages, the
 * caller writes the image, label sums up what is known of it and puts the magic
 * number last. A reader believes a label whose magic and sum are right.
 *
 * Failure modes. A worker is killed while it writes an image: there is no
 * label, and the slot is empty. It is killed while it writes the label: the
 * magic is missing or the sum is wrong. The machine has too little memory:
 * reserve says so before it takes any, as a write to a page that cannot be had
 * would kill the worker (SIGBUS). Anything else in a slot, such as bytes of
 * another version, is no label.
 */
#include "worker_rt/snapshot/mem_slots.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define PAGE  UINT64_C(4096) /* a label's room, before the image */
#define MAGIC UINT64_C(0x646470736c6f7432)

/* A label where it lies. */
struct stamp {
    uint64_t magic;
    struct slot_label label;
    uint64_t sum; /* over all before it */
};
_Static_assert(sizeof(struct stamp) == 104, "no gaps: all of it is summed");

/* What holds for slots that are open, or closed. */
static void check(const struct mem_slots *s)
{
    ddp_assert(s->count >= 0 && s->count <= MEM_SLOTS_MAX);
    ddp_assert((s->count == 0) == (s->map == NULL));
    ddp_assert(s->count == 0 || (s->each > PAGE && s->each % PAGE == 0));
}

static int map(struct mem_slots *s, int fd, int count, struct ddp_err *err)
{
    size_t len = (size_t)count * (size_t)s->each;
    void *p =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)s->at);
    if (p == MAP_FAILED)
        return ddp_err_sys(err, DDP_E_CONFIG,
                           "cannot map the memory for snapshots");
    /* A child would keep the file open, and so its lock, for the next worker.
     * Where this is refused, it does. */
    (void)madvise(p, len, MADV_DONTFORK);
    s->map = p;
    s->count = count;
    check(s);
    return 0;
}

/* Where a part of the memfd begins, and how many bytes it has. */
static int find_part(int fd, int part, int parts, uint64_t *at, uint64_t *len)
{
    struct stat st;
    ddp_assert(part >= 0 && part < parts);
    if (fstat(fd, &st) != 0)
        return -1;
    *len = (uint64_t)st.st_size / (uint64_t)parts / PAGE * PAGE;
    *at = (uint64_t)part * *len;
    return 0;
}

bool mem_slots_lock(int fd, int part, int parts)
{
    uint64_t at, len;
    if (find_part(fd, part, parts, &at, &len) != 0 || len == 0)
        return true;
    struct flock f = {.l_type = F_WRLCK,
                      .l_whence = SEEK_SET,
                      .l_start = (off_t)at,
                      .l_len = (off_t)len};
    return fcntl(fd, F_OFD_SETLK, &f) == 0 ||
           (errno != EAGAIN && errno != EACCES);
}

int mem_slots_open(
    struct mem_slots *s, int fd, int part, int parts, struct ddp_err *err)
{
    uint64_t len;
    *s = (struct mem_slots){.fd = -1, .parts = parts};
    s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (s->fd < 0 || find_part(fd, part, parts, &s->at, &len) != 0) {
        (void)ddp_err_sys(err, DDP_E_CONFIG,
                          "cannot open the memory for snapshots");
        mem_slots_close(s);
        return -1;
    }
    s->each = len / MEM_SLOTS_MAX / PAGE * PAGE;
    if (s->each < 2 * PAGE)
        (void)ddp_err_set(
            err, DDP_E_CONFIG, "the memory for snapshots has only %llu bytes%s",
            (unsigned long long)(len / MEM_SLOTS_MAX * SNAPSHOT_SLOTS_NEEDED),
            parts > 1 ? " for each rank" : "");
    else if (map(s, s->fd, MEM_SLOTS_MAX, err) == 0)
        return 0;
    mem_slots_close(s);
    return -1;
}

/* A sandbox may refuse memfd_create (Linux 3.17); a file without a name in
 * /dev/shm is as good, as far as that is large enough. */
static int open_memory(void)
{
    int fd = memfd_create("ddp-snapshots", MFD_CLOEXEC);
    if (fd < 0)
        fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd;
}

int mem_slots_make(struct mem_slots *s, uint64_t len, struct ddp_err *err)
{
    *s = (struct mem_slots){.fd = -1, .parts = 1};
    if (len > UINT64_MAX / 8)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for snapshots");
    s->each = mem_slots_need(len);
    s->fd = open_memory();
    if (s->fd < 0 || ftruncate(s->fd, (off_t)(s->each * MEM_SLOTS_OWN)) != 0)
        (void)ddp_err_sys(err, DDP_E_NOMEM, "no memory for snapshots");
    else if (map(s, s->fd, MEM_SLOTS_OWN, err) == 0)
        return 0;
    mem_slots_close(s);
    return -1;
}

void mem_slots_close(struct mem_slots *s)
{
    check(s);
    if (s->map != NULL)
        (void)munmap(s->map, (size_t)s->count * (size_t)s->each);
    if (s->fd >= 0)
        (void)close(s->fd); /* memory, nothing to lose */
    *s = (struct mem_slots){.fd = -1};
}

uint64_t mem_slots_room(const struct mem_slots *s)
{
    return s->count == 0 ? 0 : s->each - PAGE;
}

uint64_t mem_slots_need(uint64_t len)
{
    return PAGE + (len + PAGE - 1) / PAGE * PAGE;
}

uint64_t mem_slots_allowed(const struct mem_slots *s)
{
    ddp_assert(s->count == MEM_SLOTS_MAX);
    return s->each * SNAPSHOT_SLOTS_NEEDED;
}

uint64_t mem_slots_budget(const struct mem_slots *s, uint64_t need)
{
    uint64_t each = (need + SNAPSHOT_SLOTS_NEEDED - 1) / SNAPSHOT_SLOTS_NEEDED;
    uint64_t whole = (each + PAGE - 1) / PAGE * PAGE; /* pages */
    return whole * SNAPSHOT_SLOTS_NEEDED * (uint64_t)s->parts;
}

/* What the kernel would give before it has to take from others; 0 if it
 * does not say. */
static uint64_t available(void)
{
    char text[2048];
    uint64_t kib = 0;
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        (void)close(fd); /* only read */
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *line = strstr(text, "MemAvailable:");
    if (line == NULL || sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
        return 0;
    return kib * 1024;
}

/* The workers of a node take theirs at the same time. */
static bool is_too_much(const struct mem_slots *s, uint64_t more, uint64_t left)
{
    return left > 0 && more > left / 2 / (uint64_t)s->parts;
}

/* Pages are taken now, when it can be refused; a write to memory that cannot
 * be had would kill us. */
static int take(struct mem_slots *s, int i, uint64_t need, struct ddp_err *err)
{
    uint64_t left = available();
    ddp_assert(need > s->held[i] && need <= s->each);
    if (is_too_much(s, need - s->held[i], left))
        return ddp_err_set(err, DDP_E_NOMEM,
                           "a snapshot needs %" PRIu64 " MB of memory%s, and "
                           "this machine has %" PRIu64 " MB left",
                           need >> 20, s->parts > 1 ? " on each worker" : "",
                           left >> 20);
    int rc;
    do
        rc = fallocate(s->fd, 0, (off_t)(s->at + (uint64_t)i * s->each),
                       (off_t)need);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot get %" PRIu64 " MB of memory", need >> 20);
    s->held[i] = need;
    return 0;
}

/* Best effort: where it is refused the pages stay, no more. */
static void give_back(struct mem_slots *s, int i, uint64_t from)
{
    (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)(s->at + (uint64_t)i * s->each + from),
                    (off_t)(s->each - from));
}

static struct stamp *stamp_of(const struct mem_slots *s, int i)
{
    ddp_assert(i >= 0 && i < s->count);
    return (struct stamp *)(void *)(s->map + (uint64_t)i * s->each);
}

int mem_slots_reserve(struct mem_slots *s,
                      int i,
                      uint64_t len,
                      struct ddp_err *err)
{
    uint64_t need = mem_slots_need(len);
    ddp_assert(i < s->count && len <= mem_slots_room(s));
    bool first = s->held[i] == 0;
    if (need > s->held[i] && take(s, i, need, err) != 0)
        return -1;
    if (first && need < s->each)
        give_back(s, i, need);
    stamp_of(s, i)->magic = 0;
    atomic_thread_fence(memory_order_seq_cst); /* before the image changes */
    return 0;
}

bool mem_slots_fits(const struct mem_slots *s, int i, uint64_t len)
{
    uint64_t need = mem_slots_need(len);
    return need <= s->held[i] ||
           !is_too_much(s, need - s->held[i], available());
}

void mem_slots_drop(struct mem_slots *s, int i)
{
    stamp_of(s, i)->magic = 0;
    atomic_thread_fence(memory_order_seq_cst);
    give_back(s, i, 0);
    s->held[i] = 0;
}

uint8_t *mem_slots_image(const struct mem_slots *s, int i)
{
    ddp_assert(i >= 0 && i < s->count);
    return s->map + (uint64_t)i * s->each + PAGE;
}

static uint64_t sum_of(const struct stamp *stamp)
{
    return XXH3_64bits(stamp, offsetof(struct stamp, sum));
}

void mem_slots_label(struct mem_slots *s, int i, const struct slot_label *label)
{
    struct stamp made = {.magic = MAGIC, .label = *label};
    ddp_assert(PAGE + label->len <= s->held[i]); /* reserved */
    ddp_assert(label->round >= 0 && label->step >= 0);
    ddp_assert(label->world == 0
                   ? label->rank == 0 && label->save == 0
                   : label->rank >= 0 && label->rank < label->world);
    ddp_assert(memchr(label->instance, 0, sizeof(label->instance)) != NULL);
    made.sum = sum_of(&made);
    struct stamp *at = stamp_of(s, i);
    atomic_thread_fence(memory_order_seq_cst); /* after the image */
    at->label = made.label;
    at->sum = made.sum;
    atomic_thread_fence(memory_order_seq_cst);
    at->magic = MAGIC;
}

bool mem_slots_read(const struct mem_slots *s, int i, struct slot_label *label)
{
    struct stamp got;
    memcpy(&got, stamp_of(s, i), sizeof(got));
    if (got.magic != MAGIC || got.sum != sum_of(&got) ||
        got.label.len > mem_slots_room(s))
        return false;
    *label = got.label;
    label->instance[sizeof(label->instance) - 1] = '\0';
    return true;
}
