/* links: tests/lib/scratch */
/* links: launcher/hw/gpus launcher/hw/nvml launcher/hw/topology */
/* links: launcher/hw/cpus */
/* links: rendezvous/base/err */
/* libs: -ldl -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * GPUs by a library that tests/lib/fake_nvml.c is made into, and by the
 * driver's files in a folder of the test's own.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/hw/gpus.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#define TWO "GPU-aa 0:1b:0;GPU-bb 1:c3:0"

static struct gpus g;

static void put(const char *name, const char *text)
{
    FILE *f = fopen(name, "we");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void make(const char *dir)
{
    char command[512];
    (void)snprintf(command, sizeof(command), "mkdir -p '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static void setup(void)
{
    scratch_enter();
    make("dev");
    make("proc/driver/nvidia/gpus");
    make("sys/bus/pci/devices/0000:1b:00.0");
    make("sys/bus/pci/devices/0001:c3:00.0");
    put("sys/bus/pci/devices/0000:1b:00.0/numa_node", "0\n");
    put("sys/bus/pci/devices/0001:c3:00.0/numa_node", "1\n");
}

static const struct gpus_roots with = {"proc", "dev", "sys", true};
static const struct gpus_roots without = {"proc", "dev", "sys", false};

/* Ids in a row, "?" behind one whose UUID is not known. */
static const char *ids(void)
{
    static char text[512];
    text[0] = '\0';
    for (int i = 0; i < g.n; i++) {
        (void)strcat(text, i > 0 ? " " : "");
        (void)strcat(text, g.gpu[i].id);
        (void)strcat(text, g.gpu[i].uuid[0] == '\0' ? "?" : "");
    }
    return text;
}

/* -- the library ----------------------------------------------------------- */

START_TEST(test_nvml_tells_what_gpus_there_are)
{
    ck_assert_int_eq(setenv("FAKE_NVML", TWO, 1), 0);
    gpus_find(&g, &with, NULL);
    ck_assert_str_eq(ids(), "0 1");
    ck_assert_str_eq(g.gpu[1].uuid, "GPU-bb");
    ck_assert_str_eq(g.gpu[1].pci, "0001:c3:00.0");
    ck_assert_str_eq(g.gpu[1].name, "Fake GPU");
    ck_assert_int_eq(g.gpu[0].numa_node, 0);
    ck_assert_int_eq(g.gpu[1].numa_node, 1);
}
END_TEST

/* A divided GPU's parts stand in its place; a lost one is left out, and those
 * behind it keep their numbers. */
START_TEST(test_nvml_parts_and_lost_gpus)
{
    ck_assert_int_eq(
        setenv("FAKE_NVML",
               "GPU-a 0:1:0 mig=MIG-a1,MIG-a2;GPU-b 0:2:0 lost;GPU-c 0:3:0", 1),
        0);
    gpus_find(&g, &with, NULL);
    ck_assert_str_eq(ids(), "MIG-a1 MIG-a2 2");
    ck_assert(g.gpu[0].instance && !g.gpu[2].instance);
    ck_assert_str_eq(g.gpu[1].pci, "0000:01:00.0");
}
END_TEST

/* CUDA's rules. */
START_TEST(test_visible_devices_limit_the_list)
{
    static const struct {
        const char *visible, *ids;
    } cases[] = {
        {"0", "0"},
        {"1,0", "1 0"},
        {" 1 , 0 ", "1 0"},
        {"1,2,0", "1"},
        {"", ""},
        {"-1", ""},
        {"0,-1,1", "0"},
        {"NoDevFiles", ""},
        {"0,0", ""},
        {"0,00", ""},
        {"1,GPU-bb", ""},
        {"GPU-", ""},
        {"GPU-bb", "GPU-bb"},
        {"GPU-b,0", "GPU-b 0"},
        {"GPU-cc,0", ""},
        {"0,x", "0"},
        {"1,", "1"},
    };
    ck_assert_int_eq(setenv("FAKE_NVML", TWO, 1), 0);
    gpus_find(&g, &with, cases[_i].visible);
    ck_assert_str_eq(ids(), cases[_i].ids);
    if (strncmp(cases[_i].visible, "GPU-b", 5) == 0)
        ck_assert_int_eq(g.gpu[0].numa_node, 1);
}
END_TEST

/* The health of a GPU, and who uses it. */
START_TEST(test_nvml_health_and_processes)
{
    struct nvml_health h;
    struct nvml_process p[2];
    ck_assert_int_eq(setenv("FAKE_NVML",
                            "GPU-a 0:1:0 used=512 pids=7:100,8:?,9:1;"
                            "GPU-b 0:2:0 lost;GPU-c 0:3:0 pages;"
                            "GPU-d 0:4:0 rows failed",
                            1),
                     0);
    struct nvml *n = nvml_open(NULL);
    ck_assert_ptr_nonnull(n);
    ck_assert_int_eq(nvml_count(n), 4);
    ck_assert_int_eq(nvml_health(n, 0, &h, NULL), 0);
    ck_assert(!h.lost && !h.pages_pending && !h.rows_pending && !h.rows_failed);
    ck_assert_uint_eq(h.memory_used, 512u << 20);
    ck_assert_uint_eq(h.memory_total, UINT64_C(1) << 34);
    ck_assert_int_eq(nvml_health(n, 1, &h, NULL), 0);
    ck_assert(h.lost);
    ck_assert_int_eq(nvml_health(n, 2, &h, NULL), 0);
    ck_assert(h.pages_pending && !h.rows_failed);
    ck_assert_int_eq(nvml_health(n, 3, &h, NULL), 0);
    ck_assert(h.rows_pending && h.rows_failed && !h.pages_pending);
    ck_assert_int_eq(nvml_processes(n, 0, p, 2, NULL), 2);
    ck_assert_int_eq(p[0].pid, 7);
    ck_assert_uint_eq(p[0].memory, 100u << 20);
    ck_assert_int_eq(p[1].pid, 8);
    ck_assert_uint_eq(p[1].memory, 0);
    struct ddp_err err;
    ck_assert_int_eq(nvml_processes(n, 1, p, 2, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_IO);
    ck_assert_str_eq(err.text, "GPU 1: GPU is lost");
    nvml_close(n);
}
END_TEST

START_TEST(test_nvml_without_a_driver_says_so)
{
    struct ddp_err err;
    ck_assert_int_eq(setenv("FAKE_NVML", "broken", 1), 0);
    ck_assert_ptr_null(nvml_open(&err));
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_str_eq(err.text, "libnvidia-ml.so.1: Driver Not Loaded");
    gpus_find(&g, &with, "0");
    ck_assert_int_eq(g.n, 0);
    ck_assert_str_eq(g.why, "libnvidia-ml.so.1: Driver Not Loaded");
    ck_assert_int_eq(setenv("FAKE_NVML", TWO, 1), 0);
    gpus_find(&g, &with, "2");
    ck_assert_str_eq(
        g.why, "CUDA_VISIBLE_DEVICES=2 selects no GPU; this machine has 2");
}
END_TEST

/* -- the driver's files ---------------------------------------------------- */

START_TEST(test_driver_files_tell_where_there_is_no_library)
{
    gpus_find(&g, &without, NULL);
    ck_assert_int_eq(g.n, 0);
    put("dev/nvidiactl", "");
    put("dev/nvidia-uvm", "");
    put("dev/nvidia0", "");
    put("dev/nvidia10", "");
    gpus_find(&g, &without, NULL); /* device nodes only */
    ck_assert_str_eq(ids(), "0? 1?");
    gpus_find(&g, &without, "GPU-unknown,1");
    ck_assert_str_eq(ids(), "GPU-unknown? 1?");
    make("proc/driver/nvidia/gpus/0000:1b:00.0");
    make("proc/driver/nvidia/gpus/0000:1c:00.0");
    make("proc/driver/nvidia/gpus/0001:c3:00.0");
    put("proc/driver/nvidia/gpus/0000:1b:00.0/information",
        "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 100\n"
        "GPU UUID: \t GPU-11\nDevice Minor: \t 0\n");
    put("proc/driver/nvidia/gpus/0000:1c:00.0/information",
        "GPU UUID: \t GPU-??????\nDevice Minor: \t 1\n");
    put("proc/driver/nvidia/gpus/0001:c3:00.0/information",
        "GPU UUID: \t GPU-??????\nDevice Minor: \t 10\n");
    gpus_find(&g, &without, NULL); /* this container was not given minor 1 */
    ck_assert_str_eq(ids(), "0 1?");
    ck_assert_str_eq(g.gpu[0].name, "NVIDIA H100 80GB HBM3");
    ck_assert_str_eq(g.gpu[0].uuid, "GPU-11");
    ck_assert_int_eq(g.gpu[1].numa_node, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gpus");
    TCase *t = tcase_create("fast");
    tcase_add_checked_fixture(t, setup, scratch_leave);
    tcase_add_test(t, test_nvml_tells_what_gpus_there_are);
    tcase_add_test(t, test_nvml_parts_and_lost_gpus);
    tcase_add_loop_test(t, test_visible_devices_limit_the_list, 0, 17);
    tcase_add_test(t, test_nvml_health_and_processes);
    tcase_add_test(t, test_nvml_without_a_driver_says_so);
    tcase_add_test(t, test_driver_files_tell_where_there_is_no_library);
    suite_add_tcase(s, t);
    return suite_run(s);
}
