/* links: tests/lib/scratch launcher/hw/{gpus,kfd,nvml,topology,cpus} */
/* links: rendezvous/base/err */
/* libs: -ldl -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * GPUs by a library that tests/lib/fake_nvml.c is made into, and by the files
 * of both vendors' drivers in a folder of the test's own.
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

/* With this CUDA_VISIBLE_DEVICES. */
static void see(const struct gpus_roots *roots, const char *cuda)
{
    gpus_find(&g, roots, &(struct gpus_visible){.cuda = cuda});
}

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

TEST(test_nvml_tells_what_gpus_there_are)
{
    ck_assert_int_eq(setenv("FAKE_NVML", TWO, 1), 0);
    see(&with, NULL);
    ck_assert_str_eq(ids(), "0 1");
    ck_assert_str_eq(g.gpu[1].uuid, "GPU-bb");
    ck_assert_str_eq(g.gpu[1].pci, "0001:c3:00.0");
    ck_assert_str_eq(g.gpu[1].name, "Fake GPU");
    ck_assert_int_eq(g.gpu[0].numa_node, 0);
    ck_assert_int_eq(g.gpu[1].numa_node, 1);
}

/* A divided GPU's parts stand in its place; a lost one is left out, and those
 * behind it keep their numbers. */
TEST(test_nvml_parts_and_lost_gpus)
{
    ck_assert_int_eq(
        setenv("FAKE_NVML",
               "GPU-a 0:1:0 mig=MIG-a1,MIG-a2;GPU-b 0:2:0 lost;GPU-c 0:3:0", 1),
        0);
    see(&with, NULL);
    ck_assert_str_eq(ids(), "MIG-a1 MIG-a2 2");
    ck_assert(g.gpu[0].instance && !g.gpu[2].instance);
    ck_assert_str_eq(g.gpu[1].pci, "0000:01:00.0");
}

/* CUDA's rules. */
TEST_LOOP(test_visible_devices_limit_the_list, 0, 17)
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
    see(&with, cases[_i].visible);
    ck_assert_str_eq(ids(), cases[_i].ids);
    if (strncmp(cases[_i].visible, "GPU-b", 5) == 0)
        ck_assert_int_eq(g.gpu[0].numa_node, 1);
}

/* A number is the driver's, whatever is lost or divided before it. */
TEST_LOOP(test_visible_devices_count_lost_and_divided_gpus, 0, 8)
{
    static const struct {
        const char *gpus, *visible, *uuids;
    } cases[] = {
        {"GPU-a 0:1:0;GPU-b 0:2:0 lost;GPU-c 0:3:0", "0,2", "GPU-a GPU-c"},
        {"GPU-a 0:1:0;GPU-b 0:2:0 lost;GPU-c 0:3:0", "2", "GPU-c"},
        {"GPU-a 0:1:0;GPU-b 0:2:0 lost;GPU-c 0:3:0", "0,1,2", "GPU-a"},
        {"GPU-a 0:1:0;GPU-b 0:2:0 lost;GPU-c 0:3:0", "3", ""},
        {"GPU-a 0:1:0 mig=MIG-1,MIG-2;GPU-b 0:2:0", "1", "GPU-b"},
        {"GPU-a 0:1:0 mig=MIG-1,MIG-2;GPU-b 0:2:0", "MIG-1,MIG-2,1",
         "MIG-1 MIG-2 GPU-b"},
        {"GPU-a 0:1:0 mig=MIG-1,MIG-2;GPU-b 0:2:0", "1,0", "GPU-b MIG-1"},
        {"GPU-a 0:1:0 mig=MIG-1,MIG-2;GPU-b 0:2:0", "0,MIG-1", ""},
    };
    char text[64] = "";
    ck_assert_int_eq(setenv("FAKE_NVML", cases[_i].gpus, 1), 0);
    see(&with, cases[_i].visible);
    for (int i = 0; i < g.n; i++) {
        (void)strcat(text, i > 0 ? " " : "");
        (void)strcat(text, g.gpu[i].uuid);
    }
    ck_assert_str_eq(text, cases[_i].uuids);
}

/* A part by its number, and the UUID of the divided GPU, which is its first. */
TEST_LOOP(test_visible_devices_may_name_parts, 0, 9)
{
    static const struct {
        const char *visible, *ids, *first;
    } cases[] = {
        {"MIG-GPU-aa/1/0,MIG-GPU-aa/2/0", "MIG-GPU-aa/1/0 MIG-GPU-aa/2/0",
         "MIG-1"},
        {"MIG-GPU-aa/2/0", "MIG-GPU-aa/2/0", "MIG-2"},
        {"MIG-GPU-aa/3/0", "", ""},
        {"MIG-GPU-aa/1/1", "", ""},
        {"MIG-1,MIG-GPU-aa/1/0", "", ""},
        {"GPU-aa", "GPU-aa", "MIG-1"},
        {"GPU-a,GPU-bb", "GPU-a GPU-bb", "MIG-1"},
        {"GPU-", "", ""},
        {"GPU-aa,MIG-2", "GPU-aa MIG-2", "MIG-1"},
    };
    ck_assert_int_eq(
        setenv("FAKE_NVML", "GPU-aa 0:1:0 mig=MIG-1,MIG-2;GPU-bb 0:2:0", 1), 0);
    see(&with, cases[_i].visible);
    ck_assert_str_eq(ids(), cases[_i].ids);
    ck_assert_str_eq(g.n > 0 ? g.gpu[0].uuid : "", cases[_i].first);
}

/* The health of a GPU, and who uses it. */
TEST(test_nvml_health_and_processes)
{
    struct nvml_health h;
    struct nvml_process p[2];
    ck_assert_int_eq(setenv("FAKE_NVML",
                            "GPU-a 0:1:0 pids=7:100,8:?,9:1;"
                            "GPU-b 0:2:0 lost;GPU-c 0:3:0 pages;"
                            "GPU-d 0:4:0 rows failed",
                            1),
                     0);
    struct nvml *n = nvml_open(NULL);
    ck_assert_ptr_nonnull(n);
    ck_assert_int_eq(nvml_count(n), 4);
    ck_assert_int_eq(nvml_health(n, 0, &h, NULL), 0);
    ck_assert(!h.lost && !h.pages_pending && !h.rows_pending && !h.rows_failed);
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

/* None is left out while there is room; then none is told. */
TEST_LOOP(test_nvml_lists_many_processes_or_fails, 0, 3)
{
    static const int counts[] = {300, NVML_PROCESSES_MAX,
                                 NVML_PROCESSES_MAX + 1};
    static struct nvml_process p[NVML_PROCESSES_MAX + 1];
    static char text[16384];
    struct ddp_err err = {.text = ""};
    int n = counts[_i], len = snprintf(text, sizeof(text), "GPU-a 0:1:0 pids=");
    for (int i = 1; i < n; i++, len += 2)
        (void)strcpy(text + len, "8,"); /* fits */
    (void)strcpy(text + len, "7:1");    /* fits */
    ck_assert_int_eq(setenv("FAKE_NVML", text, 1), 0);
    struct nvml *nvml = nvml_open(NULL);
    ck_assert_ptr_nonnull(nvml);
    int found = nvml_processes(nvml, 0, p, NVML_PROCESSES_MAX + 1, &err);
    ck_assert_int_eq(found, n <= NVML_PROCESSES_MAX ? n : -1);
    if (found > 0)
        ck_assert_int_eq(p[n - 1].pid, 7);
    else
        ck_assert_int_eq(err.code, DDP_E_IO);
    nvml_close(nvml);
}

TEST(test_nvml_without_a_driver_says_so)
{
    struct ddp_err err;
    ck_assert_int_eq(setenv("FAKE_NVML", "broken", 1), 0);
    ck_assert_ptr_null(nvml_open(&err));
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_str_eq(err.text, "libnvidia-ml.so.1: Driver Not Loaded");
    see(&with, "0");
    ck_assert_int_eq(g.n, 0);
    ck_assert_str_eq(g.why, "libnvidia-ml.so.1: Driver Not Loaded");
    ck_assert_int_eq(setenv("FAKE_NVML", TWO, 1), 0);
    see(&with, "2");
    ck_assert_str_eq(
        g.why, "CUDA_VISIBLE_DEVICES=2 selects no GPU; this machine has 2");
}

/* -- the driver's files ---------------------------------------------------- */

TEST(test_driver_files_tell_where_there_is_no_library)
{
    see(&without, NULL);
    ck_assert_int_eq(g.n, 0);
    put("dev/nvidiactl", "");
    put("dev/nvidia-uvm", "");
    put("dev/nvidia0", "");
    put("dev/nvidia10", "");
    see(&without, NULL); /* device nodes only */
    ck_assert_str_eq(ids(), "0? 1?");
    see(&without, "GPU-unknown,1");
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
    see(&without, NULL); /* this container was not given minor 1 */
    ck_assert_str_eq(ids(), "0 1?");
    ck_assert_str_eq(g.gpu[0].name, "NVIDIA H100 80GB HBM3");
    ck_assert_str_eq(g.gpu[0].uuid, "GPU-11");
    ck_assert_int_eq(g.gpu[1].numa_node, 1);
}

/* -- AMD's ----------------------------------------------------------------- */

/* Node `node` of the kernel's topology, with `simds` SIMD units. */
static void put_node(int node, int simds, const char *rest)
{
    char dir[128], name[160], text[512];
    (void)snprintf(dir, sizeof(dir), "sys/class/kfd/kfd/topology/nodes/%d",
                   node);
    make(dir);
    (void)snprintf(name, sizeof(name), "%s/properties", dir);
    (void)snprintf(text, sizeof(text), "cpu_cores_count %d\nsimd_count %d\n%s",
                   simds > 0 ? 0 : 64, simds, rest);
    put(name, text);
}

/* One CPU, and GPUs at nodes 1, 2, 3 and 10; that of node 3 has no UUID. */
static void put_four(void)
{
    put_node(0, 0, "location_id 0\n");
    put_node(1, 304,
             "location_id 6912\ndomain 0\nunique_id 255\n"
             "gfx_target_version 90402\ndrm_render_minor 128\n");
    put_node(2, 304, "location_id 49920\ndomain 1\nunique_id 4095\n");
    put_node(3, 304, "unique_id 0\n");
    put_node(10, 304, "unique_id 18446744073709551615\n");
    make("dev/dri");
    put("dev/dri/renderD128", "");
}

TEST(test_amd_gpus_are_counted_by_the_kernels_files)
{
    put_four();
    see(&without, NULL);
    ck_assert_int_eq(g.vendor, GPUS_AMD);
    ck_assert_int_eq(g.all, 4);
    ck_assert_str_eq(ids(), "0 1 2? 3");
    ck_assert_str_eq(g.gpu[0].uuid, "GPU-00000000000000ff");
    ck_assert_str_eq(g.gpu[0].name, "gfx942");
    ck_assert_str_eq(g.gpu[0].pci, "0000:1b:00.0");
    ck_assert_int_eq(g.gpu[0].numa_node, 0);
    ck_assert_str_eq(g.gpu[1].pci, "0001:c3:00.0");
    ck_assert_int_eq(g.gpu[1].numa_node, 1);
    ck_assert_str_eq(g.gpu[3].uuid, "GPU-ffffffffffffffff"); /* node 10 */
}

/* A container has the files of all GPUs, and nodes in /dev of its own only. */
TEST(test_amd_gpus_of_other_containers_are_left_out)
{
    put_four();
    ck_assert_int_eq(unlink("dev/dri/renderD128"), 0);
    put_node(11, 304, "drm_render_minor 129\n");
    put("dev/dri/renderD129", "");
    see(&without, NULL);
    ck_assert_int_eq(g.all, 4);
    ck_assert_str_eq(g.gpu[0].pci, "0001:c3:00.0");
    put_node(1, 0, "");
    see(&without, NULL);
    ck_assert_int_eq(g.all, 4);
}

/* NVIDIA's go first, where a machine has both. */
TEST(test_amd_gpus_beside_nvidias_are_not_counted)
{
    put_four();
    ck_assert_int_eq(setenv("FAKE_NVML", TWO, 1), 0);
    gpus_find(&g, &with, &(struct gpus_visible){.hip = "1", .rocr = ""});
    ck_assert_int_eq(g.vendor, GPUS_NVIDIA);
    ck_assert_str_eq(ids(), "0 1");
}

/* ROCR selects among all and what it leaves is numbered anew; then HIP, or CUDA
 * if HIP is not set. */
TEST_LOOP(test_amd_gpus_are_selected_twice, 0, 16)
{
    static const struct {
        const char *rocr, *hip, *cuda;
        const char *ids, *first; /* and the UUID of the first */
    } cases[] = {
        {"3,1", NULL, NULL, "0 1", "GPU-ffffffffffffffff"},
        {"3,1", "1", NULL, "1", "GPU-0000000000000fff"},
        {"3,1", "2", NULL, "", ""},
        {"3,1", NULL, "1,0", "1 0", "GPU-0000000000000fff"},
        {NULL, "1", "0", "1", "GPU-0000000000000fff"},
        {NULL, NULL, "1", "1", "GPU-0000000000000fff"},
        {"", NULL, NULL, "", ""},
        {NULL, "", "0", "", ""},
        {"GPU-FFFFF,gpu-0", NULL, NULL, "0", "GPU-ffffffffffffffff"},
        {"GPU-FFFFF,GPU-00000000000000FF", NULL, NULL, "0 1",
         "GPU-ffffffffffffffff"},
        {"GPU-0", NULL, NULL, "", ""}, /* of two */
        {"1,1,0", NULL, NULL, "0", "GPU-0000000000000fff"},
        {"1,9,0", NULL, NULL, "0", "GPU-0000000000000fff"},
        {NULL, "1,1,0", NULL, "1 0", "GPU-0000000000000fff"},
        {NULL, "GPU-00000000000000ff", NULL, "GPU-00000000000000ff",
         "GPU-00000000000000ff"},
        {NULL, "GPU-none", NULL, "", ""},
    };
    put_four();
    struct gpus_visible v = {
        .cuda = cases[_i].cuda, .hip = cases[_i].hip, .rocr = cases[_i].rocr};
    gpus_find(&g, &without, &v);
    ck_assert_str_eq(ids(), cases[_i].ids);
    ck_assert_str_eq(g.n > 0 ? g.gpu[0].uuid : "", cases[_i].first);
    ck_assert_int_eq(g.all, 4);
}

/* Which list a worker's GPU is told in. */
TEST(test_the_list_is_hips_or_cudas)
{
    const char *name;
    struct gpus_visible v = {.cuda = "4", .hip = "5"};
    ck_assert_str_eq(gpus_list(&v, GPUS_AMD, &name), "5");
    ck_assert_str_eq(name, "HIP_VISIBLE_DEVICES");
    ck_assert_str_eq(gpus_list(&v, GPUS_NONE, &name), "5");
    ck_assert_str_eq(gpus_list(&v, GPUS_NVIDIA, &name), "4");
    ck_assert_str_eq(name, "CUDA_VISIBLE_DEVICES");
    v.hip = "";
    ck_assert_str_eq(gpus_list(&v, GPUS_AMD, &name), "4");
    v.cuda = NULL;
    ck_assert_ptr_null(gpus_list(&v, GPUS_AMD, &name));
}

TEST(test_amd_why_there_is_none)
{
    put_four();
    gpus_find(&g, &without, &(struct gpus_visible){.rocr = "7", .hip = "0"});
    ck_assert_str_eq(
        g.why, "ROCR_VISIBLE_DEVICES=7 selects no GPU; this machine has 4");
    gpus_find(&g, &without, &(struct gpus_visible){.rocr = "2", .hip = "1"});
    ck_assert_str_eq(
        g.why, "HIP_VISIBLE_DEVICES=1 selects no GPU; this machine has 4");
}

SUITE("gpus", "fast", FIXTURE(setup, scratch_leave))
