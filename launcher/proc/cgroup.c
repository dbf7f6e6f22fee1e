/*
 * Happy path: find the cgroup that this process is in, make one below it.
 * Workers are put into the group when they start (cgroup_fd). At the end
 * janitor or guard kill what is in it and remove it.
 *
 * Failure modes:
 *   - No cgroup2 mount, no right to write there, Linux before 5.14: there is no
 *     group, and everything works without.
 *   - Workers made groups below it, as a ddprun of their own does: what lives
 *     there is killed with the rest, and those go first. If they are too deep
 *     or another user's, the group stays.
 *   - Guard, agent and janitor were killed at once: the next launch removes the
 *     empty group (cgroup_sweep).
 */
#include "launcher/proc/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/access.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/rng.h"

#define NAME_PREFIX  "ddprun-"
#define NAME_MAX_LEN 48
#define REMOVE_TRIES 200 /* of 10 ms */
#define DEPTH_MAX    16  /* a container's are about 6 */

_Static_assert(sizeof(NAME_PREFIX "2147483647-12345678") <= NAME_MAX_LEN,
               "a name would be cut");

static int parent_fd = -1; /* the one that we are in */
static int own_fd = -1;
static char own_name[NAME_MAX_LEN];

/* -- where ----------------------------------------------------------------- */

/* Where the tree is mounted; the first one counts. */
static bool find_mount(char *path, size_t size)
{
    bool found = false;
    struct mntent *m;
    FILE *f = setmntent("/proc/self/mounts", "re");
    while (f != NULL && !found && (m = getmntent(f)) != NULL)
        if (strcmp(m->mnt_type, "cgroup2") == 0)
            found = (size_t)snprintf(path, size, "%s", m->mnt_dir) < size;
    if (f != NULL)
        (void)endmntent(f); /* only read */
    return found;
}

/* "0::/a/b" in /proc/self/cgroup (cgroups(7)). */
static bool find_own(char *path, size_t size)
{
    char line[4096];
    bool found = false;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            found = (size_t)snprintf(path, size, "%s", line + 3) < size;
        }
    if (f != NULL)
        (void)fclose(f); /* only read */
    return found;
}

static int open_parent(void)
{
    char mount[2048], own[4096], path[6200];
    if (!find_mount(mount, sizeof(mount)) || !find_own(own, sizeof(own)))
        return -1;
    (void)snprintf(path, sizeof(path), "%s%s", mount, own); /* it fits */
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* -- ending ---------------------------------------------------------------- */

static bool write_one(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, "1", 1) == 1;
    if (fd >= 0)
        (void)close(fd); /* the write has told */
    return done;
}

int cgroup_fd(void)
{
    return own_fd;
}

void cgroup_kill(void)
{
    if (own_fd >= 0)
        (void)write_one(own_fd, "cgroup.kill"); /* it is empty or gone */
}

/* Whether nothing lives in the group or below it. */
static bool is_empty(int dir_fd, const char *name)
{
    char path[NAME_MAX + sizeof("/cgroup.events")], text[256] = "";
    (void)snprintf(path, sizeof(path), "%s/cgroup.events", name); /* fits */
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    bool told = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0;
    if (fd >= 0)
        (void)close(fd); /* only read */
    return told && strstr(text, "populated 0") != NULL;
}

static bool is_group(const char *name)
{
    return name[0] != '.'; /* this folder, and the one above */
}

static bool remove_group(int dir_fd, const char *name, int depth);

/* Removes those groups in a folder that are so named, and are empty. */
static void remove_each(int dir_fd,
                        const char *name,
                        bool (*is_named)(const char *name),
                        int depth)
{
    struct dirent *e;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL && fd >= 0)
        (void)close(fd); /* a folder */
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_type == DT_DIR && is_named(e->d_name))
            (void)remove_group(dirfd(dir), e->d_name, depth); /* or not */
    if (dir != NULL)
        (void)closedir(dir); /* only read */
}

/* Removes an empty group, and first those below it, `depth` levels down. False:
 * something may live there, of which nothing is touched. */
static bool remove_group(int dir_fd, const char *name, int depth)
{
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
        return true;
    if (!is_empty(dir_fd, name))
        return false;
    if (depth > 0)
        remove_each(dir_fd, name, is_group, depth - 1);
    (void)unlinkat(dir_fd, name, AT_REMOVEDIR); /* too deep, or not ours */
    return true;
}

void cgroup_remove(void)
{
    for (int i = 0; own_fd >= 0 && i < REMOVE_TRIES; i++) {
        if (remove_group(parent_fd, own_name, DEPTH_MAX))
            break;
        cgroup_kill();
        (void)usleep(i < 10 ? 1000 : 10000);
    }
    if (own_fd >= 0)
        (void)close(own_fd); /* a folder */
    own_fd = -1;
}

/* -- what others left ------------------------------------------------------ */

/* "ddprun-PID-..." of a launch that is no more. */
static bool is_left_behind(const char *name)
{
    char *end;
    if (strncmp(name, NAME_PREFIX, sizeof(NAME_PREFIX) - 1) != 0)
        return false;
    long pid = strtol(name + sizeof(NAME_PREFIX) - 1, &end, 10);
    return *end == '-' && pid > 1 && pid <= INT_MAX &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* A launch of which all was killed leaves its group. Only an empty group is
 * removed, so nothing that lives is touched. If another pid namespace is
 * about to use it, that launch does without. */
void cgroup_sweep(void)
{
    if (parent_fd >= 0)
        remove_each(parent_fd, ".", is_left_behind, DEPTH_MAX);
}

bool cgroup_make(void)
{
    char id[RNG_ID_LEN + 1];
    ddp_assert(parent_fd < 0 && own_fd < 0); /* called once */
    parent_fd = open_parent();
    if (parent_fd < 0)
        return false;
    rng_id(id);
    (void)snprintf(own_name, sizeof(own_name), NAME_PREFIX "%d-%.8s",
                   (int)getpid(), id);
    if (mkdirat(parent_fd, own_name, 0755) != 0)
        return false;
    own_fd = openat(parent_fd, own_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own_fd >= 0 && access_at(own_fd, "cgroup.kill", W_OK, 0) == 0)
        return true;
    (void)unlinkat(parent_fd, own_name, AT_REMOVEDIR);
    if (own_fd >= 0)
        (void)close(own_fd); /* a folder */
    own_fd = -1;
    return false;
}
