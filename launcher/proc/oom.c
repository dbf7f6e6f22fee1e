/*
 * A worker that ends by SIGKILL was killed by a person, by us, or by the kernel
 * because memory ran out. The kernel counts the last, for a cgroup and for the
 * machine: both counts are read at the start and after each such end, and a
 * difference is taken for that worker.
 *
 * The count of the cgroup is the worker's as far as the worker is alone there.
 * The count of the machine can be any process's: it says what is likely. Only
 * the machine's is there if the worker is in a cgroup of its own (v1 counts for
 * each by itself), if there is no cgroup, or if the machine's memory ran out,
 * and no limit's, on a kernel that does not count such a kill for the cgroup.
 * If no file can be read nothing is said.
 */
#include "launcher/proc/oom.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

static bool slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 0;
    while (fd >= 0 && (n = read(fd, text + len, size - 1 - len)) > 0)
        len += (size_t)n;
    if (fd >= 0)
        (void)close(fd); /* read only */
    text[len] = '\0';
    return n >= 0;
}

/* The rest of the line that begins with `head`, or has it behind its number. */
static bool line_of(const char *text, const char *head, char *rest, size_t size)
{
    const char *at = strstr(text, head);
    if (at == NULL)
        return false;
    at += strlen(head);
    size_t len = strcspn(at, "\n");
    if (len >= size)
        return false;
    memcpy(rest, at, len);
    rest[len] = '\0';
    return true;
}

/* cgroups(7): "0::PATH" is v2; "N:memory:PATH" is v1's memory controller. */
bool oom_find(const char *cgroups, const char *root, char *path, int size)
{
    char own[400];
    ddp_assert(root[0] == '/');
    if (line_of(cgroups, ":memory:", own, sizeof(own))) {
        (void)snprintf(path, (size_t)size, "%s/memory%s/memory.oom_control",
                       root, own);
        if (access(path, R_OK) == 0)
            return true;
        (void)snprintf(path, (size_t)size, "%s/memory/memory.oom_control",
                       root); /* in a container it is mounted at its own */
        if (access(path, R_OK) == 0)
            return true;
    }
    if (line_of(cgroups, "0::", own, sizeof(own))) {
        (void)snprintf(path, (size_t)size, "%s%s/memory.events", root, own);
        if (access(path, R_OK) == 0)
            return true;
        (void)snprintf(path, (size_t)size, "%s/memory.events", root);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

int64_t oom_read(const char *text)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "oom_kill ", 9) == 0)
            return strtoll(line + 9, NULL, 10);
    }
    return -1;
}

/* Whether it counts more than before. */
static bool has_grown(struct oom_count *c)
{
    char text[16384];
    int64_t before = c->count;
    c->count = c->path[0] != '\0' && slurp(c->path, text, sizeof(text))
                   ? oom_read(text)
                   : -1;
    return before >= 0 && c->count > before;
}

void oom_init(struct oom *o)
{
    char text[4096];
    *o = (struct oom){.cgroup.count = -1, .machine.count = -1};
    (void)snprintf(o->machine.path, sizeof(o->machine.path), "/proc/vmstat");
    if (!slurp("/proc/self/cgroup", text, sizeof(text)) ||
        !oom_find(text, "/sys/fs/cgroup", o->cgroup.path,
                  sizeof(o->cgroup.path)))
        o->cgroup.path[0] = '\0';
    (void)oom_happened(o); /* what was before */
}

enum oom_kill oom_happened(struct oom *o)
{
    bool here = has_grown(&o->cgroup);
    bool somewhere = has_grown(&o->machine);
    return here ? OOM_KILLED : somewhere ? OOM_LIKELY : OOM_NOT;
}
