/*
 * A libhwloc.so.15 for tests: the machine is what the variable FAKE_HWLOC says,
 * but for "load=-1", "export=-1" (what these calls return) and "die" (it
 * crashes). Once it is loaded there is the file that FAKE_HWLOC_LOADED names.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int hwloc_topology_init(void **t);
int hwloc_topology_set_io_types_filter(void *t, int filter);
int hwloc_topology_load(void *t);
int hwloc_topology_export_xmlbuffer(void *t,
                                    char **xml,
                                    int *size,
                                    unsigned long flags);

static int told, filtered; /* a topology is this variable's address */

static const char *says(void)
{
    const char *text = getenv("FAKE_HWLOC");
    return text == NULL ? "<topology/>" : text;
}

__attribute__((constructor)) static void on_load(void)
{
    const char *path = getenv("FAKE_HWLOC_LOADED");
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT, 0600);
    if (path != NULL && (fd < 0 || close(fd) != 0))
        abort();
}

int hwloc_topology_init(void **t)
{
    *t = &told;
    return 0;
}

int hwloc_topology_set_io_types_filter(void *t, int filter)
{
    filtered = t == &told && filter == 0;
    return filtered ? 0 : -1;
}

int hwloc_topology_load(void *t)
{
    if (strcmp(says(), "die") == 0)
        (void)raise(SIGSEGV);
    return t == &told && filtered && strcmp(says(), "load=-1") != 0 ? 0 : -1;
}

int hwloc_topology_export_xmlbuffer(void *t,
                                    char **xml,
                                    int *size,
                                    unsigned long flags)
{
    if (t != &told || flags != 0 || strcmp(says(), "export=-1") == 0)
        return -1;
    *xml = strdup(says());
    *size = (int)strlen(says()) + 1;
    return *xml == NULL ? -1 : 0;
}
