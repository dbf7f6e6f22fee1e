/*
 * A worker that ends by SIGKILL was killed by a person, by us, or by the kernel
 * because memory ran out. The kernel counts the last: the count is read at the
 * start and after each such end, and a difference is taken for that worker.
 *
 * That can be wrong in two ways, and is told as a hint for that reason: the
 * kernel killed another process of the same cgroup at that time, or there is no
 * count but the whole machine's. If no file can be read nothing is said.
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

static int64_t look(const struct oom *o)
{
    char text[16384];
    ddp_assert(o->path[0] == '/'); /* oom_init has found one */
    return slurp(o->path, text, sizeof(text)) ? oom_read(text) : -1;
}

void oom_init(struct oom *o)
{
    char text[4096];
    *o = (struct oom){.count = -1};
    if (slurp("/proc/self/cgroup", text, sizeof(text)) &&
        oom_find(text, "/sys/fs/cgroup", o->path, sizeof(o->path)))
        o->count = look(o);
    if (o->count >= 0)
        return;
    (void)snprintf(o->path, sizeof(o->path), "/proc/vmstat");
    o->count = look(o);
}

bool oom_happened(struct oom *o)
{
    int64_t before = o->count;
    o->count = look(o);
    return before >= 0 && o->count > before;
}
