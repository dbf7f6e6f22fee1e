/* links: launcher/mpi/hwloc_xml launcher/proc/procfs tests/lib/hurt NET */
/* links: PROTO BASE */
/* libs: -luv -lcjson -ldl -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * The topology of a node, of a library that tests/lib/fake_hwloc is made into.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/mpi/hwloc_xml.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/suite.h"

/* As the launcher's loop does once its child has ended. */
static void make(struct hwloc_xml *x)
{
    siginfo_t info;
    hwloc_xml_begin(x);
    if (x->state != HWLOC_XML_BEGUN)
        return;
    ck_assert_int_gt(x->pid, 0);
    while (waitid(P_PID, (id_t)x->pid, &info, WEXITED | WNOWAIT) != 0)
        ck_assert_int_eq(errno, EINTR);
    hwloc_xml_ended(x);
    ck_assert_int_eq(x->pid, 0);
}

/* Another process reads it, and cannot change it for the others. */
TEST(test_hwloc_xml_is_read_by_path)
{
    struct hwloc_xml x = {0};
    char path[HWLOC_XML_PATH_MAX], text[100];
    hwloc_xml_path(&x, path);
    ck_assert_str_eq(path, "");
    ck_assert_int_eq(setenv("FAKE_HWLOC", "<a machine/>", 1), 0);
    make(&x);
    ck_assert_int_eq(x.state, HWLOC_XML_MADE);
    hwloc_xml_path(&x, path);
    for (int i = 0; i < 2; i++) { /* each reads from the start */
        int fd = open(path, O_RDWR);
        ck_assert_int_eq(read(fd, text, sizeof(text)), 12);
        ck_assert_int_eq(strncmp(text, "<a machine/>", 12), 0);
        ck_assert_int_lt(write(fd, "x", 1), 0);
        ck_assert_int_eq(errno, EPERM);
        ck_assert_int_eq(ftruncate(fd, 0), -1);
        (void)close(fd);
    }
    hwloc_xml_begin(&x); /* it is there */
    ck_assert_int_eq(x.pid, 0);
    ck_assert_int_eq(x.state, HWLOC_XML_MADE);
}

static const char *const bad[] = {"load=-1", "export=-1", "die", ""};

/* Whatever the library does, and it is not tried again. */
TEST_EACH(test_hwloc_xml_that_cannot_be_had, bad)
{
    struct hwloc_xml x = {0};
    char path[HWLOC_XML_PATH_MAX];
    ck_assert_int_eq(setenv("FAKE_HWLOC", bad[_i], 1), 0);
    for (int i = 0; i < 2; i++) {
        make(&x);
        ck_assert_int_eq(x.state, HWLOC_XML_NONE);
        hwloc_xml_path(&x, path);
        ck_assert_str_eq(path, "");
    }
    ck_assert_int_eq(fcntl(x.fd, F_GETFD), -1); /* nothing is left */
}

/* -- faults ---------------------------------------------------------------- */

/* It only saves time: nothing is said. */
static int run(void *ctx)
{
    struct hwloc_xml x = {0};
    char path[HWLOC_XML_PATH_MAX];
    (void)ctx;
    make(&x);
    hwloc_xml_path(&x, path);
    if ((x.state == HWLOC_XML_MADE) != (path[0] != '\0'))
        return hurt_wrong("a path and no topology, or none");
    if (x.state == HWLOC_XML_MADE)
        (void)close(x.fd);
    return x.state == HWLOC_XML_BEGUN ? HURT_LATE : HURT_DONE;
}

CASE("faults", FAULT_CASE(60))

TEST(test_hwloc_xml_faults)
{
    hurt_each("test", 4, run, NULL, "memfd_create fork");
}

SUITE("hwloc_xml", "made")
