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

#define FLAG_EXITING 4u /* PF_EXITING of linux/sched.h, the same since 2.6 */

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

bool procfs_read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* only read */
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

bool procfs_read_text(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return procfs_read_file(path, text, size);
}

bool procfs_has_mapped(pid_t pid, const char *const *names, size_t n)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid); /* fits */
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && getline(&line, &room, f) > 0)
        for (size_t i = 0; i < n; i++)
            found |= strstr(line, names[i]) != NULL;
    free(line);
    if (f != NULL)
        (void)fclose(f); /* only read */
    return found;
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

static bool read_stat(pid_t pid, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid); /* fits */
    return slurp(path, text, size);
}

bool procfs_read(pid_t pid, struct procfs_process *out)
{
    char text[1024];
    return read_stat(pid, text, sizeof(text)) && procfs_parse_stat(text, out);
}

/* proc(5): the seventh field behind the name is the flags, the last one the
 * status. */
bool procfs_is_ending(pid_t pid, int *wait_status)
{
    char text[1024], *rest;
    unsigned flags;
    if (!read_stat(pid, text, sizeof(text)) ||
        (rest = strrchr(text, ')')) == NULL ||
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
        return false;
    *wait_status = (int)strtol(strrchr(text, ' '), NULL, 10);
    return (flags & FLAG_EXITING) != 0;
}
