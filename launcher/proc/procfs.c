/*
 * /proc/self is this process in every /proc, under its number in the namespace
 * that this /proc shows. So the number has to be getpid(). That is not enough:
 * a process may by chance have the same number in two namespaces. "NSpid" in
 * /proc/PID/status has a number for each namespace from that of this /proc down
 * to the process's own (proc(5)): one, if they are the same.
 */
#include "launcher/proc/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NSPID "\nNSpid:"

static bool slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    ssize_t n;
    while ((n = read(fd, text + len, size - 1 - len)) > 0)
        len += (size_t)n;
    (void)close(fd); /* only read */
    text[len] = '\0';
    return n == 0 && len > 0;
}

pid_t procfs_self(void)
{
    char text[16], *end;
    ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    long pid = strtol(text, &end, 10);
    return *end == '\0' && pid > 0 ? (pid_t)pid : 0;
}

bool procfs_parse_status(const char *text, pid_t pid)
{
    char *end;
    const char *at = strstr(text, NSPID);
    if (at == NULL)
        return true;
    long first = strtol(at + strlen(NSPID), &end, 10);
    return first == pid && *end == '\n';
}

/* A device number is of one /proc, which is of one namespace: what was proven
 * once holds until another one is mounted. */
bool procfs_is_ours(void)
{
    static bool known;
    static dev_t device;
    char text[8192];
    struct stat st;
    pid_t pid = getpid();
    if (procfs_self() != pid || stat("/proc", &st) != 0)
        return false;
    if (known && st.st_dev == device)
        return true;
    known = slurp("/proc/self/status", text, sizeof(text)) &&
            procfs_parse_status(text, pid);
    device = st.st_dev;
    return known;
}

/* The second field is a name that may hold anything, blanks and brackets too.
 */
bool procfs_parse_stat(const char *text, struct procfs_process *out)
{
    int parent, group;
    const char *rest = strrchr(text, ')');
    if (rest == NULL ||
        sscanf(rest, ") %c %d %d ", &out->state, &parent, &group) != 3)
        return false;
    out->parent = parent;
    out->group = group;
    return true;
}

bool procfs_read(pid_t pid, struct procfs_process *out)
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid); /* fits */
    return slurp(path, text, sizeof(text)) && procfs_parse_stat(text, out);
}
