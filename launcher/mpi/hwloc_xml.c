/*
 * Happy path: a child loads libhwloc, looks at the machine with its devices,
 * and writes what it found into a memfd, which is sealed then. The ranks open
 * it by /proc/PID/fd/N of this process, as the progress files
 * (worker/mailbox): nothing is left behind, however the launch ends.
 *
 * Failure modes:
 *  - There is no libhwloc, memfd_create is refused, no process can be had:
 *    NONE, and nothing is said, since it only saves time.
 *  - The library hangs or crashes: its process ends, by the alarm if need be.
 *  - A rank cannot open the path (another PID namespace): it looks itself.
 */
#include "launcher/mpi/hwloc_xml.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/procfs.h"
#include "rendezvous/base/err.h"
#include "rendezvous/net/helper.h"

#define LIBRARY "libhwloc.so.15" /* of hwloc 2, which writes what 2 reads */
/* HWLOC_TYPE_FILTER_KEEP_ALL: MPICH looks for network devices. */
#define KEEP_ALL 0

/* What is used of it; `t` is its hwloc_topology_t. */
#define FUNCTIONS(X)                                                           \
    X(hwloc_topology_init, (void **t))                                         \
    X(hwloc_topology_set_io_types_filter, (void *t, int filter))               \
    X(hwloc_topology_load, (void *t))                                          \
    X(hwloc_topology_export_xmlbuffer,                                         \
      (void *t, char **xml, int *size, unsigned long flags))

struct hwloc_functions {
#define MEMBER(symbol, arguments) int(*symbol) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

/* -- in the child ---------------------------------------------------------- */

static bool open_library(struct hwloc_functions *f)
{
    void *found, *library = dlopen(LIBRARY, RTLD_NOW);
    if (library == NULL)
        return false;
/* As in hw/nvml: ISO C has no cast from what dlsym returns to a function. */
#define LOAD(symbol, arguments)                                                \
    found = dlsym(library, #symbol);                                           \
    if (found == NULL)                                                         \
        return false;                                                          \
    memcpy(&f->symbol, &found, sizeof(found));
    FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

static bool write_all(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool make(int fd)
{
    struct hwloc_functions f;
    void *t = NULL;
    char *xml = NULL;
    int size = 0; /* with the NUL behind it */
    if (!open_library(&f) || f.hwloc_topology_init(&t) != 0 ||
        f.hwloc_topology_set_io_types_filter(t, KEEP_ALL) != 0 ||
        f.hwloc_topology_load(t) != 0 ||
        f.hwloc_topology_export_xmlbuffer(t, &xml, &size, 0) != 0 || size < 2)
        return false;
    return write_all(fd, xml, (size_t)size - 1) &&
           fcntl(fd, F_ADD_SEALS,
                 F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
}

static void run(const struct helper_fds *fds, const void *arg)
{
    (void)arg;
    helper_take_signals();
    (void)alarm(HWLOC_XML_S);
    (void)prctl(PR_SET_NAME, "ddprun-hwloc"); /* for ps(1) */
    /* No plugins, which open displays and the GPUs that the workers need; and
     * no complaint about the machine's firmware. */
    (void)setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0);
    (void)setenv("HWLOC_COMPONENTS", "-gl,-cuda,-nvml,-opencl,-rsmi,-levelzero",
                 0);
    (void)setenv("HWLOC_HIDE_ERRORS", "2", 0);
    _exit(make(fds->listener) ? 0 : ddp_code_exit(DDP_E_CONFIG));
}

/* -- in the launcher ------------------------------------------------------- */

static void give_up(struct hwloc_xml *x)
{
    (void)close(x->fd); /* memory, nothing to lose */
    x->state = HWLOC_XML_NONE;
}

void hwloc_xml_begin(struct hwloc_xml *x)
{
    struct ddp_err err;
    if (x->state != HWLOC_XML_NEW)
        return;
    x->state = HWLOC_XML_NONE;
    x->fd = memfd_create("ddprun-hwloc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (x->fd < 0)
        return;
    struct helper_fds fds = {.listener = x->fd, .chan = -1};
    if (procfs_self() != 0 && helper_start(&x->pid, &fds, run, NULL, &err) == 0)
        x->state = HWLOC_XML_BEGUN;
    else
        give_up(x);
}

void hwloc_xml_ended(struct hwloc_xml *x)
{
    ddp_assert(x->state == HWLOC_XML_BEGUN);
    int status = helper_reap(&x->pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        x->state = HWLOC_XML_MADE;
    else
        give_up(x);
}

void hwloc_xml_path(const struct hwloc_xml *x, char path[HWLOC_XML_PATH_MAX])
{
    path[0] = '\0';
    if (x->state == HWLOC_XML_MADE)
        (void)snprintf(path, HWLOC_XML_PATH_MAX, "/proc/%d/fd/%d", /* fits */
                       (int)procfs_self(), x->fd);
}
