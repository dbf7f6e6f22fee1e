/* links: worker_rt/snapshot/mem_slots rendezvous/base/err */
/* libs: -lxxhash */
/*
 * The launcher's memory, whole or in parts: what one rank does in its part
 * touches no other one's, and two that would write to the same bytes are told.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "worker_rt/snapshot/mem_slots.h"

#define LEN   (1 << 20)
#define PARTS 3

static int memory;

static void enter(void)
{
    memory = memfd_create("slots", 0);
    ck_assert_int_ge(memory, 0);
    ck_assert_int_eq(ftruncate(memory, (off_t)snapshot_slots_length(LEN)), 0);
}

static void leave(void)
{
    ck_assert_int_eq(close(memory), 0);
}

/* As another process opens it: with locks of its own. */
static int open_again(void)
{
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", memory); /* fits */
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Neighbours do not meet, the whole meets each of them, and a lock ends with
 * its descriptor. */
TEST(test_mem_slots_lock_is_for_one_part)
{
    int fds[PARTS], whole = open_again(), again = open_again();
    for (int i = 0; i < PARTS; i++) {
        fds[i] = open_again();
        ck_assert(mem_slots_lock(fds[i], i, PARTS));
    }
    ck_assert(!mem_slots_lock(again, 1, PARTS));
    for (int i = 0; i < PARTS; i++) {
        ck_assert(!mem_slots_lock(whole, 0, 1));
        ck_assert_int_eq(close(fds[i]), 0);
    }
    ck_assert(mem_slots_lock(whole, 0, 1));
    ck_assert(!mem_slots_lock(again, 2, PARTS));
    ck_assert_int_eq(close(whole), 0);
    ck_assert(mem_slots_lock(again, 2, PARTS));
    ck_assert_int_eq(close(again), 0);
}

static void fill(struct mem_slots *s, int part, int i)
{
    struct ddp_err err;
    const struct slot_label label = {.len = mem_slots_room(s),
                                     .round = 1,
                                     .step = 10 * part + i,
                                     .rank = part,
                                     .world = PARTS,
                                     .save = 7,
                                     .instance = "0123"};
    ck_assert_int_eq(mem_slots_reserve(s, i, label.len, &err), 0);
    memset(mem_slots_image(s, i), 10 * part + i + 1, label.len);
    mem_slots_label(s, i, &label);
}

/* All slots of all parts are filled to the end, and each has what it had. */
TEST(test_mem_slots_parts_do_not_overlap)
{
    struct mem_slots s[PARTS];
    struct slot_label label;
    struct ddp_err err;
    uint64_t all = 0;
    for (int p = 0; p < PARTS; p++) {
        ck_assert_int_eq(mem_slots_open(&s[p], memory, p, PARTS, &err), 0);
        for (int i = 0; i < s[p].count; i++)
            fill(&s[p], p, i);
        all += s[p].each * SNAPSHOT_SLOTS_NEEDED;
    }
    ck_assert_uint_le(all, LEN);
    ck_assert_uint_gt(all, LEN / 10 * 9);
    for (int p = 0; p < PARTS; p++) {
        for (int i = 0; i < s[p].count; i++) {
            const uint8_t *image = mem_slots_image(&s[p], i);
            ck_assert(mem_slots_read(&s[p], i, &label));
            ck_assert_int_eq(label.step, 10 * p + i);
            ck_assert_int_eq(label.rank, p);
            ck_assert_int_eq(label.world, PARTS);
            ck_assert_int_eq(label.save, 7);
            for (uint64_t at = 0; at < label.len; at += 511)
                ck_assert_int_eq(image[at], 10 * p + i + 1);
            ck_assert_int_eq(image[label.len - 1], 10 * p + i + 1);
        }
        mem_slots_close(&s[p]);
    }
}

/* With so much each part may use what it needs, and with a byte less it may
 * not. */
TEST(test_mem_slots_budget_is_what_suffices)
{
    struct mem_slots s;
    struct ddp_err err;
    const uint64_t need = 5 * mem_slots_need(30000);
    ck_assert_int_eq(mem_slots_open(&s, memory, 0, PARTS, &err), 0);
    uint64_t budget = mem_slots_budget(&s, need);
    mem_slots_close(&s);
    for (uint64_t less = 0; less < 2; less++) {
        off_t len = (off_t)snapshot_slots_length(budget - less);
        ck_assert_int_eq(ftruncate(memory, len), 0);
        ck_assert_int_eq(mem_slots_open(&s, memory, 0, PARTS, &err), 0);
        ck_assert_int_eq(mem_slots_allowed(&s) >= need, less == 0);
        mem_slots_close(&s);
    }
}

/* The text tells what a rank has. */
TEST(test_mem_slots_part_may_be_too_small)
{
    struct mem_slots s;
    struct ddp_err err;
    ck_assert_int_eq(mem_slots_open(&s, memory, 0, 50, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text, "only 20889 bytes for each rank"));
    ck_assert_int_eq(mem_slots_open(&s, memory, 0, 1, &err), 0);
    mem_slots_close(&s);
}

SUITE("mem_slots", "parts", FIXTURE(enter, leave))
