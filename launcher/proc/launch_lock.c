/*
 * Happy path: a file with a random name is made and locked (flock), and the
 * descriptor is inherited by guard, janitor and agent: the lock belongs to the
 * open file, and is free when all three are gone. Helpers close it, programs
 * never get it. Who looks for the dead tries the lock of each file of the same
 * run: it is free only if that launch is dead.
 *
 * Each of the three kills the workers before it ends. If all are killed at
 * once, the workers' parent-death signal does, at the same moment.
 *
 * Failure modes: no /dev/shm, or it is of the network: nothing is done. A file
 * of somebody else, a link, one of another size or with strange contents: it is
 * ignored, since everybody may write into that folder. A launch that was killed
 * leaves a page of memory. The next launch of the run removes the page; so does
 * any launch that begins an hour after another launch saw the dead one. Files
 * of other runs are not opened in a restart: there may be thousands.
 */
#include "launcher/proc/launch_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/access.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/rng.h"

#define FOLDER      "/dev/shm"
#define PREFIX      "ddprun-launch_"
#define RECORD_SIZE 512
#define LOOKED_MAX  65536 /* entries of the folder; no more are looked at */
#define OLD_S       3600

static struct {
    int fd;        /* of the own file, -1: none */
    char key[64];  /* how names of the same run begin */
    char name[96]; /* of the own file; "": none */
} own = {.fd = -1};

/* -- names ----------------------------------------------------------------- */

/* FNV-1a; launches that are not alike but have the same sum are told apart by
 * what the rendezvous knows of them. */
static uint64_t add_sum(uint64_t h, const char *text)
{
    do
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    while (*text++ != '\0');
    return h;
}

static void make_names(const char *run, const char *host, int port)
{
    char id[RNG_ID_LEN + 1], number[16];
    uint64_t h = add_sum(UINT64_C(14695981039346656037), run);
    (void)snprintf(number, sizeof(number), "%d", port); /* fits */
    h = add_sum(add_sum(h, host), number);
    rng_id(id);
    (void)snprintf(own.key, sizeof(own.key), /* fits */ PREFIX "%u_%016llx_",
                   (unsigned)geteuid(), (unsigned long long)h);
    (void)snprintf(own.name, sizeof(own.name), /* fits */ "%s%.16s", own.key,
                   id);
}

static int open_folder(void)
{
    int fd = open(FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && !access_is_local(fd)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* -- the folder ------------------------------------------------------------ */

/* What to do with an entry of the folder; true: go on. */
typedef bool visit(int folder, const char *name, void *ctx);

/* Those whose names begin so, but for the own one. */
static void visit_names(const char *begins, visit *f, void *ctx)
{
    int folder = open_folder();
    DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
    bool go_on = true;
    if (dir == NULL && folder >= 0)
        (void)close(folder);
    if (dir == NULL)
        return;
    for (int i = 0; i < LOOKED_MAX && go_on; i++) {
        const struct dirent *e = readdir(dir);
        if (e == NULL)
            break;
        if (strncmp(e->d_name, begins, strlen(begins)) == 0 &&
            strcmp(e->d_name, own.name) != 0)
            go_on = f(folder, e->d_name, ctx);
    }
    (void)closedir(dir);
}

static bool is_record(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
           st->st_nlink == 1 && st->st_size == RECORD_SIZE;
}

/* The file of a launch of this user, of which nobody holds the lock; -1: it is
 * another one. */
static int open_dead(int folder, const char *name)
{
    struct stat st;
    int fd =
        openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !is_record(&st) ||
                    flock(fd, LOCK_SH | LOCK_NB) != 0)) {
        (void)close(fd); /* nothing was written */
        fd = -1;
    }
    return fd;
}

/* Goes an hour after it was seen dead first, which is its time of access then:
 * what it proves is worth no more than a lease. */
static bool remove_old(int folder, const char *name, void *ctx)
{
    struct stat st;
    const struct timespec seen[2] = {{.tv_nsec = UTIME_NOW},
                                     {.tv_nsec = UTIME_OMIT}};
    (void)ctx;
    if (strncmp(name, own.key, strlen(own.key)) == 0 || /* it will be asked */
        fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !is_record(&st))
        return true;
    bool was_seen = st.st_atim.tv_sec > st.st_mtim.tv_sec;
    if (was_seen && time(NULL) - st.st_atim.tv_sec < OLD_S)
        return true;
    int fd = open_dead(folder, name);
    if (fd < 0)
        return true;
    if (was_seen)
        (void)unlinkat(folder, name, 0); /* another launch may have */
    else
        (void)futimens(fd, seen); /* best effort: it stays */
    (void)close(fd);
    return true;
}

/* -- the own one ----------------------------------------------------------- */

void launch_lock_take(const char *run, const char *host, int port)
{
    ddp_assert(own.fd < 0);
    make_names(run, host, port);
    int folder = open_folder();
    if (folder >= 0)
        own.fd =
            openat(folder, own.name,
                   O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (own.fd >= 0 && flock(own.fd, LOCK_EX | LOCK_NB) != 0) {
        (void)unlinkat(folder, own.name, 0); /* best effort, as all of this */
        (void)close(own.fd);
        own.fd = -1;
    }
    if (folder >= 0)
        (void)close(folder);
    visit_names(PREFIX, remove_old, NULL);
}

void launch_lock_drop(void)
{
    int folder = own.fd >= 0 ? open_folder() : -1;
    if (folder < 0)
        return;
    (void)unlinkat(folder, own.name, 0); /* perhaps somebody has */
    (void)close(folder);
}

/* An empty line would be none. */
static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

/* As text, so that a person can read it. */
void launch_lock_write(const struct launch_record *mine)
{
    char text[RECORD_SIZE] = "";
    if (own.fd < 0)
        return;
    (void)snprintf(text, sizeof(text), /* fits */
                   "%s\n%s\n%s\n%s\n%lld %d %d %d %lld %lld\n", mine->agent,
                   mine->name, or_dash(mine->instance),
                   or_dash(mine->voted_epoch_id), (long long)mine->round,
                   mine->group_rank, mine->held, mine->hosts,
                   (long long)mine->voted, (long long)mine->voted_epoch);
    if (pwrite(own.fd, text, sizeof(text), 0) == (ssize_t)sizeof(text))
        return;
    launch_lock_drop(); /* half of it, or what was true before, is worse */
    (void)close(own.fd);
    own.fd = -1;
}

/* -- those of others ------------------------------------------------------- */

/* One line into `to`; false: it is too long, or there is none. */
static bool take_line(char **text, char *to, size_t size)
{
    size_t len = strcspn(*text, "\n");
    if ((*text)[len] != '\n' || len == 0 || len >= size)
        return false;
    memcpy(to, *text, len);
    to[len] = '\0';
    *text += len + 1;
    return true;
}

static bool is_round(long long number)
{
    return number >= 0 && number <= 1000000000;
}

static bool parse(char *text, struct launch_record *r)
{
    int held, hosts;
    long long round, voted, voted_epoch;
    *r = (struct launch_record){.round = 0};
    if (!take_line(&text, r->agent, sizeof(r->agent)) ||
        !take_line(&text, r->name, sizeof(r->name)) ||
        !take_line(&text, r->instance, sizeof(r->instance)) ||
        !take_line(&text, r->voted_epoch_id, sizeof(r->voted_epoch_id)) ||
        sscanf(text, "%lld %d %d %d %lld %lld", &round, &r->group_rank, &held,
               &hosts, &voted, &voted_epoch) != 6)
        return false;
    if (strcmp(r->instance, "-") == 0)
        r->instance[0] = '\0';
    if (strcmp(r->voted_epoch_id, "-") == 0)
        r->voted_epoch_id[0] = '\0';
    r->round = round;
    r->held = held != 0;
    r->hosts = hosts != 0;
    r->voted = voted;
    r->voted_epoch = voted_epoch;
    return is_round(round) && is_round(voted) && r->group_rank >= -1 &&
           r->group_rank <= 99999 && voted_epoch >= 0 &&
           voted_epoch <= INT64_C(1000000000000);
}

/* The lock of this user's file is held. */
static bool find_alive(int folder, const char *name, void *ctx)
{
    struct stat st;
    bool *alive = ctx;
    int fd =
        openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return true;
    *alive = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
             st.st_uid == geteuid() && flock(fd, LOCK_SH | LOCK_NB) != 0 &&
             errno == EWOULDBLOCK;
    (void)close(fd);
    return !*alive;
}

bool launch_lock_has_others(void)
{
    bool alive = false;
    if (own.fd >= 0)
        visit_names(own.key, find_alive, &alive);
    return alive;
}

struct found_dead {
    struct launch_record *dead;
    int n;
};

static bool take_record(int folder, const char *name, void *ctx)
{
    struct found_dead *found = ctx;
    char text[RECORD_SIZE + 1];
    int fd = open_dead(folder, name);
    if (fd < 0)
        return true;
    ssize_t n = pread(fd, text, RECORD_SIZE, 0);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    if (parse(text, &found->dead[found->n]))
        found->n++;
    return found->n < LAUNCH_LOCK_DEAD_MAX;
}

int launch_lock_dead(struct launch_record dead[LAUNCH_LOCK_DEAD_MAX])
{
    struct found_dead found = {.dead = dead};
    if (own.fd >= 0)
        visit_names(own.key, take_record, &found);
    return found.n;
}

static bool remove_dead(int folder, const char *name, void *ctx)
{
    (void)ctx;
    int fd = open_dead(folder, name);
    if (fd < 0)
        return true;
    (void)unlinkat(folder, name, 0); /* another launch may have been faster */
    (void)close(fd);
    return true;
}

void launch_lock_clear(void)
{
    if (own.fd >= 0)
        visit_names(own.key, remove_dead, NULL);
}
