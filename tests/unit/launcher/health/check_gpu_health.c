/* links: launcher/health/gpu_health */
/* links: launcher/hw/{gpus,nvml,kfd,topology,cpus} rendezvous/base/err */
/* libs: -ldl -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * Which GPUs are fit, by a library that tests/lib/fake_nvml.c is made into, and
 * by lines as the driver writes them into the kernel's log.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/health/gpu_health.h"
#include "tests/lib/suite.h"

#define FIT "GPU-aa 0:1b:0;"

static bool look(const char *gpus, const char *visible, char *why)
{
    static const pid_t pids[] = {41, 42};
    ck_assert_int_eq(setenv("FAKE_NVML", gpus, 1), 0);
    why[0] = '\0';
    return gpu_health(visible, true, INT64_MAX, pids, 2, why, 300);
}

TEST_LOOP(test_gpu_health_says_what_is_wrong, 0, 13)
{
    static const struct {
        const char *gpus, *visible, *why; /* NULL: nothing */
    } cases[] = {
        {FIT "GPU-bb 0:c3:0", NULL, NULL},
        {FIT "GPU-bb 0:c3:0 lost", NULL, "1 of 2 GPUs are there"},
        {FIT "GPU-bb 0:c3:0 lost", "0", NULL},
        {"GPU-bb 0:c3:0 lost;" FIT, "1", NULL},
        {"GPU-bb 0:c3:0 lost;" FIT, "0", "no GPU was found"},
        {FIT "GPU-bb 0:c3:0 mig=MIG-1,MIG-2 pages;GPU-cc 0:c4:0", "2", NULL},
        {FIT "GPU-bb 0:c3:0 mig=MIG-1,MIG-2;GPU-cc 0:c4:0 pages", "2",
         "memory pages wait"},
        {FIT "GPU-bb 0:c3:0 pages", NULL, "memory pages wait"},
        {FIT "GPU-bb 0:c3:0 rows", NULL, "memory rows wait"},
        {FIT "GPU-bb 0:c3:0 failed", NULL, "could not be remapped"},
        {FIT "GPU-bb 0:c3:0 pids=7:100", NULL, NULL},
        {FIT, "0,GPU-cc", "1 of 2 GPUs are there"},
        {FIT, "", "no GPU was found"},
    };
    char why[300];
    bool fit = look(cases[_i].gpus, cases[_i].visible, why);
    ck_assert_msg(fit == (cases[_i].why == NULL), "%s", why);
    if (!fit)
        ck_assert_msg(strstr(why, cases[_i].why) != NULL, "%s", why);
}

CASE("slow", .limit_s = 3 * GPU_HEALTH_DRAIN_S)

/* The check waits for the memory of a dead worker, for a bounded time. */
TEST(test_gpu_health_waits_for_the_memory_of_the_dead)
{
    char why[300];
    ck_assert(!look(FIT "GPU-bb 0:c3:0 pids=7:100,42:9000", NULL, why));
    ck_assert_msg(strstr(why, "dead process 42") != NULL, "%s", why);
}

CASE("gpu_health")

TEST_LOOP(test_gpu_health_reads_xids, 0, 8)
{
    static const struct {
        const char *line;
        int xid; /* 0: none that matters */
    } cases[] = {
        {"4,1,500,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=9, GPU has fallen", 79},
        {"4,1,499,-;NVRM: Xid (PCI:0000:3b:00): 79, it came before", 0},
        {"4,1,501,-;NVRM: Xid (PCI:0000:3b:00): 31, a program's fault", 0},
        {"4,1,501,-;NVRM: Xid (PCI:0000:3b:00): 4800, there is none", 0},
        {"4,1,501,-;NVRM: Xid (PCI:0000:3b:00):", 0},
        {"NVRM: Xid (PCI:0000:3b:00): 79", 0},
        {"4,1,501,-;usb 1-1: Xid 79", 0},
        {"", 0},
    };
    char pci[16];
    int xid = 0;
    bool found = gpu_health_xid(cases[_i].line, 500, &xid, pci);
    ck_assert_int_eq(found, cases[_i].xid != 0);
    if (found) {
        ck_assert_int_eq(xid, cases[_i].xid);
        ck_assert_str_eq(pci, "0000:3b:00");
    }
}

SUITE("gpu_health", "gpu_health")
