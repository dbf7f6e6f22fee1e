/*
 * worker_rt/snapshot/snapshot_dir: which run may write into a folder, in which
 * order its files are tried, and which of them are removed.
 *
 * Happy path: open sweeps what killed writers left; own puts this instance on
 * top of the file `owner`; put looks whether it is still there, and writes a
 * file under a name that no other rank, round or instance uses; prune removes
 * the owners' oldest steps, when it is known what all ranks have written.
 *
 * Failure modes. Another run takes the folder over: its instance is the owner
 * then, and put refuses (CONFLICT), before it has written anything. The folder
 * is removed or emptied meanwhile: it is made again and taken. Files of other
 * instances, files with names that are not ours, a damaged `owner`: left alone;
 * a list that cannot be read to its end is an error, since what it lacks may be
 * the newest. Removing fails: the files stay, and cost space only.
 */
#include "worker_rt/snapshot/snapshot_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/access.h"
#include "worker_rt/snapshot/atomic_file.h"

#define OWNER     "owner"
#define MARK      "mark"
#define MARK_LEN  (sizeof(MARK ATOMIC_FILE_MARK) - 1)
#define FILES_MAX ((size_t)65536) /* in a list; more steps are none of ours */
#define STEP_MAX  INT64_C(999999999999999999)

_Static_assert((FILES_MAX & (FILES_MAX - 1)) == 0, "see make_room");

/* -- names ----------------------------------------------------------------- */

#define SUFFIX    ".safetensors"
#define BEFORE    ".prev" /* behind that */
#define IS_FOLDER (-1)    /* `world` of the folder of a step, in here only */

/* 18 digits of a step and of a round, 10 of a rank: it fits. */
static void name_of(char name[SNAPSHOT_DIR_NAME_MAX],
                    int64_t step,
                    int64_t round,
                    const char *who,
                    const char *suffix)
{
    ddp_assert(step >= 0 && round >= 0);
    (void)snprintf(name, SNAPSHOT_DIR_NAME_MAX, "step-%012lld.r%lld.%.8s%s",
                   (long long)step, (long long)round, who, suffix);
}

static void
part_name(char name[SNAPSHOT_DIR_NAME_MAX], int rank, int world, bool before)
{
    ddp_assert(rank >= 0 && rank < world);
    (void)snprintf(name, SNAPSHOT_DIR_NAME_MAX,
                   "shard-%05d-of-%05d" SUFFIX "%s", rank + 1, world,
                   before ? BEFORE : "");
}

/* Only what name_of would have made: a file, or the folder of a step. */
static bool read_name(const char *name, struct snapshot_file *f)
{
    long long step, round;
    char again[SNAPSHOT_DIR_NAME_MAX];
    *f = (struct snapshot_file){.world = IS_FOLDER};
    if (sscanf(name, "step-%18lld.r%18lld.%8[0-9a-f]", &step, &round, f->who) !=
            3 ||
        step < 0 || round < 0)
        return false;
    name_of(again, step, round, f->who, "");
    if (strcmp(again, name) != 0) {
        f->world = 0;
        name_of(again, step, round, f->who, SUFFIX);
    }
    if (strcmp(again, name) != 0)
        return false;
    memcpy(f->name, again, sizeof(again));
    f->step = step;
    f->round = round;
    return true;
}

void snapshot_dir_file_name(struct snapshot_file *f)
{
    char folder[SNAPSHOT_DIR_NAME_MAX], part[SNAPSHOT_DIR_NAME_MAX];
    if (f->world == 0) {
        name_of(f->name, f->step, f->round, f->who, SUFFIX);
        return;
    }
    name_of(folder, f->step, f->round, f->who, "");
    part_name(part, f->rank, f->world, f->before);
    (void)snprintf(f->name, sizeof(f->name), "%.54s/%.45s", folder, part);
}

/* The same of a file in the folder `of`; only what part_name would have made.
 */
static bool read_part_name(const char *name,
                           const struct snapshot_file *of,
                           struct snapshot_file *f)
{
    char again[SNAPSHOT_DIR_NAME_MAX];
    int nth, world;
    if (sscanf(name, "shard-%9d-of-%9d", &nth, &world) != 2 || nth < 1 ||
        nth > world)
        return false;
    *f = *of;
    part_name(again, nth - 1, world, false);
    f->before = strlen(name) > strlen(again);
    if (f->before)
        part_name(again, nth - 1, world, true);
    if (strcmp(again, name) != 0)
        return false;
    f->rank = nth - 1;
    f->world = world;
    snapshot_dir_file_name(f);
    return true;
}

#define NO_INSTANCE "00000000"

static bool is_none(const char *instance)
{
    return strspn(instance, "0") >= SNAPSHOT_DIR_WHO;
}

int snapshot_dir_newer(const char *instance,
                       int64_t a_round,
                       int64_t a_step,
                       int64_t b_round,
                       int64_t b_step)
{
    int by_round = (b_round > a_round) - (b_round < a_round);
    int by_step = (b_step > a_step) - (b_step < a_step);
    if (is_none(instance))
        return by_step != 0 ? by_step : by_round;
    return by_round != 0 ? by_round : by_step;
}

/* -- the owner ------------------------------------------------------------- */

/* As the file says: it is read for each use, since others write it. */
struct owners {
    char ids[SNAPSHOT_DIR_OWNERS][RNG_ID_LEN + 1];
    int n;
    long long found; /* the newest step when the first of them came, -1: none */
    long long barren; /* owners before that one that had found the same */
};

#define NOT_KNOWN  (-2) /* of a step */
#define FOUND      "found"
#define FOUND_MAX  64 /* bytes of that line */
#define BARREN_MAX 1000000
#define OWNERS_MAX (SNAPSHOT_DIR_OWNERS * (RNG_ID_LEN + 1) + FOUND_MAX)

/* What is no list of instances is no owner. A libddp of before has no line
 * behind the list, and does not read it. */
static void parse_owners(struct owners *o, const char *text)
{
    size_t len;
    while (o->n < SNAPSHOT_DIR_OWNERS &&
           (len = strspn(text, "0123456789abcdef")) == RNG_ID_LEN &&
           text[len] == '\n') {
        memcpy(o->ids[o->n], text, RNG_ID_LEN);
        o->ids[o->n++][RNG_ID_LEN] = '\0';
        text += len + 1;
    }
    if (sscanf(text, FOUND " %18lld %9lld", &o->found, &o->barren) != 2 ||
        o->barren < 0)
        o->found = NOT_KNOWN;
}

/* No owner: no run owns the folder yet. */
static int
read_owners(const struct snapshot_dir *s, struct owners *o, struct ddp_err *err)
{
    char text[OWNERS_MAX];
    int fd = openat(s->fd, OWNER, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *o = (struct owners){.found = NOT_KNOWN};
    if (fd < 0 && errno == ENOENT)
        return 0;
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
    int rc = n < 0 ? ddp_err_sys(err, DDP_E_IO,
                                 "cannot read the folder's file '" OWNER "'")
                   : 0;
    if (fd >= 0)
        (void)close(fd); /* only read */
    if (rc == 0) {
        text[n] = '\0';
        parse_owners(o, text);
    }
    return rc;
}

/* -- open ------------------------------------------------------------------ */

/* A list that breaks off is none: what it lacks may be the newest. The next
 * entry, NULL at the end, or where `rc` says so. */
static const struct dirent *next_entry(DIR *list, int *rc, struct ddp_err *err)
{
    errno = 0;
    const struct dirent *e = readdir(list);
    if (e == NULL && errno != 0)
        *rc = ddp_err_sys(err, DDP_E_IO, "cannot list the snapshots");
    return e;
}

/* NULL: it cannot be opened, see errno. */
static DIR *open_list(const struct snapshot_dir *s, const char *name)
{
    int fd =
        openat(s->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL && fd >= 0)
        (void)close(fd); /* nothing was read */
    return list;
}

/* Removes what killed writers left, here and in the folders of steps. */
static void sweep(const struct snapshot_dir *s)
{
    struct ddp_err ignored;
    struct snapshot_file f;
    const struct dirent *e;
    int rc = 0;
    DIR *list = open_list(s, ".");
    atomic_file_sweep(s->fd, NULL);
    while (list != NULL && (e = next_entry(list, &rc, &ignored)) != NULL) {
        DIR *step = read_name(e->d_name, &f) && f.world == IS_FOLDER
                        ? open_list(s, f.name)
                        : NULL;
        if (step == NULL)
            continue;
        atomic_file_sweep(dirfd(step), NULL);
        (void)closedir(step);
    }
    if (list != NULL)
        (void)closedir(list);
}

int snapshot_dir_open(struct snapshot_dir *s,
                      const char *path,
                      const char *instance,
                      int64_t round,
                      struct ddp_err *err)
{
    *s = (struct snapshot_dir){.fd = -1, .path = path, .round = round};
    ddp_assert(strlen(instance) == RNG_ID_LEN);
    memcpy(s->instance, instance, sizeof(s->instance));
    struct stat st;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return ddp_err_sys(err, DDP_E_IO, "cannot create the folder '%.200s'",
                           path);
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return ddp_err_set(err, DDP_E_CONFLICT,
                           "'%.200s' is a file, but snapshots need a folder: "
                           "move the file away or choose another folder",
                           path);
    s->fd = atomic_file_open_dir(path, err);
    if (s->fd < 0)
        return -1;
    if (access_at(s->fd, ".", W_OK | X_OK, 0) != 0) {
        (void)ddp_err_sys(err, DDP_E_IO,
                          "cannot write snapshots to the folder '%.200s'",
                          path);
        snapshot_dir_close(s);
        return -1;
    }
    sweep(s);
    return 0;
}

void snapshot_dir_close(struct snapshot_dir *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* nothing was written through it */
    s->fd = -1;
}

/* -- list ------------------------------------------------------------------ */

static int by_worth(const void *a, const void *b)
{
    const struct snapshot_file *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    int newer = snapshot_dir_newer(x->by_step ? NO_INSTANCE : "1", x->round,
                                   x->step, y->round, y->step);
    return newer != 0 ? newer : strcmp(x->name, y->name);
}

/* What a listing gathers. */
struct listing {
    const struct snapshot_dir *s;
    const struct owners *owners;
    struct snapshot_file *files;
    size_t n, cap;
    bool full; /* there are more */
};

/* For one more. */
static int make_room(struct listing *l, struct ddp_err *err)
{
    if (l->n < l->cap)
        return 0;
    l->full = l->n == FILES_MAX;
    if (l->full)
        return ddp_err_set(err, DDP_E_IO, /* messages: ok, 65536 */
                           "the folder has more than %zu snapshots: remove old "
                           "ones",
                           FILES_MAX);
    l->cap = l->cap == 0 ? 16 : 2 * l->cap; /* FILES_MAX is a power of 2 too */
    struct snapshot_file *more = realloc(l->files, l->cap * sizeof(*more));
    if (more == NULL)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for the list of snapshots");
    l->files = more;
    return 0;
}

static int
add(struct listing *l, const struct snapshot_file *file, struct ddp_err *err)
{
    if (make_room(l, err) != 0)
        return -1;
    struct snapshot_file *f = &l->files[l->n++];
    const struct owners *o = l->owners;
    int i = 0;
    *f = *file;
    while (i < o->n && strncmp(o->ids[i], f->who, SNAPSHOT_DIR_WHO) != 0)
        i++;
    f->owner = i < o->n ? i : SNAPSHOT_DIR_OWNERS;
    bool mine = strncmp(f->who, l->s->instance, SNAPSHOT_DIR_WHO) == 0;
    f->class = mine ? 0 : 1 + f->owner;
    f->by_step = is_none(f->who) || (f->owner == SNAPSHOT_DIR_OWNERS && !mine);
    return 0;
}

/* One that has gone meanwhile is empty; what is no folder is none of ours. */
static int read_parts(struct listing *l,
                      const struct snapshot_file *of,
                      struct ddp_err *err)
{
    int rc = 0;
    const struct dirent *e;
    struct snapshot_file file;
    DIR *list = open_list(l->s, of->name);
    if (list == NULL)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : ddp_err_sys(err, DDP_E_IO, "cannot list '%s'", of->name);
    while (rc == 0 && (e = next_entry(list, &rc, err)) != NULL)
        if (read_part_name(e->d_name, of, &file))
            rc = add(l, &file, err);
    (void)closedir(list);
    return rc;
}

/* Steps: folders as they are, and files of whole states. */
static int read_steps(struct listing *l, struct ddp_err *err)
{
    int rc = 0;
    const struct dirent *e;
    struct snapshot_file file;
    DIR *list = open_list(l->s, ".");
    if (list == NULL)
        return ddp_err_sys(err, DDP_E_IO, "cannot list the snapshots");
    while (rc == 0 && (e = next_entry(list, &rc, err)) != NULL)
        if (read_name(e->d_name, &file))
            rc = add(l, &file, err);
    (void)closedir(list);
    return rc;
}

/* The files of these steps, the best first. What FILES_MAX leaves out is worth
 * less than all that is listed. */
static int read_files(struct listing *l,
                      const struct snapshot_file *steps,
                      size_t n,
                      struct ddp_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t before = l->n;
        rc = steps[i].world == IS_FOLDER ? read_parts(l, &steps[i], err)
                                         : add(l, &steps[i], err);
        if (rc == 0 || !l->full || before == 0)
            continue;
        l->n = before; /* no step in part */
        return 0;
    }
    return rc;
}

static void end_list(struct listing *l, int rc)
{
    if (rc != 0) {
        free(l->files);
        l->files = NULL;
    } else if (l->n > 0) {
        qsort(l->files, l->n, sizeof(*l->files), by_worth);
    }
    ddp_assert(rc != 0 || (l->n == 0) == (l->files == NULL));
}

/* Lists the steps, and the owners by which they are sorted. */
static int list_steps(const struct snapshot_dir *s,
                      struct owners *o,
                      struct snapshot_file **steps,
                      size_t *n,
                      struct ddp_err *err)
{
    struct listing l = {.s = s, .owners = o};
    int rc = read_owners(s, o, err);
    if (rc == 0)
        rc = read_steps(&l, err);
    end_list(&l, rc);
    *steps = l.files;
    *n = l.n;
    return rc;
}

int snapshot_dir_list(const struct snapshot_dir *s,
                      struct snapshot_file **files,
                      size_t *n,
                      struct ddp_err *err)
{
    struct owners o;
    struct snapshot_file *steps;
    struct listing l = {.s = s, .owners = &o};
    size_t nsteps;
    int rc = list_steps(s, &o, &steps, &nsteps, err);
    if (rc == 0)
        rc = read_files(&l, steps, nsteps, err);
    free(steps);
    end_list(&l, rc);
    *files = l.files;
    *n = l.n;
    return rc;
}

static long long newest_step(const struct snapshot_file *files, size_t n)
{
    long long step = -1;
    for (size_t i = 0; i < n; i++)
        step = files[i].step > step ? files[i].step : step;
    return step;
}

/* How many owners in a row found this step and left no newer one, if the next
 * one finds it as well. */
static long long count_barren(const struct owners *o, long long newest)
{
    bool same = o->n > 0 && o->found != NOT_KNOWN && newest <= o->found;
    return same && o->barren < BARREN_MAX ? o->barren + 1 : 0;
}

/* This instance, those before it as long as they have files, and what it found.
 */
static int write_owners(const struct snapshot_dir *s,
                        const struct owners *o,
                        const struct snapshot_file *files,
                        size_t n,
                        struct ddp_err *err)
{
    char text[OWNERS_MAX];
    int len = snprintf(text, sizeof(text), "%s\n", s->instance);
    long long newest = newest_step(files, n);
    for (int i = 0, kept = 1; i < o->n && kept < SNAPSHOT_DIR_OWNERS; i++) {
        size_t k = 0;
        while (k < n && files[k].owner != i)
            k++;
        if (k == n || strcmp(o->ids[i], s->instance) == 0)
            continue;
        len +=
            snprintf(text + len, sizeof(text) - (size_t)len, "%s\n", o->ids[i]);
        kept++;
    }
    len += snprintf(text + len, sizeof(text) - (size_t)len,
                    FOUND " %lld %lld\n", newest, count_barren(o, newest));
    ddp_assert(len > 0 && (size_t)len < sizeof(text));
    if (atomic_file_put(s->fd, OWNER, (const uint8_t *)text, (size_t)len, NULL,
                        err) != 0)
        return ddp_err_wrap(err, "cannot take the folder over");
    return 0;
}

int snapshot_dir_own(const struct snapshot_dir *s,
                     int64_t *barren,
                     struct ddp_err *err)
{
    struct owners o;
    struct snapshot_file *files;
    size_t n;
    if (list_steps(s, &o, &files, &n, err) != 0)
        return -1;
    bool mine = o.n > 0 && strcmp(o.ids[0], s->instance) == 0;
    long long newest = newest_step(files, n);
    if (!mine)
        *barren = count_barren(&o, newest);
    else
        *barren = o.found != NOT_KNOWN && newest <= o.found ? o.barren : 0;
    int rc = mine ? 0 : write_owners(s, &o, files, n, err);
    free(files);
    return rc;
}

/* -- put ------------------------------------------------------------------- */

/* A folder goes with what killed writers left there, unless something else is
 * in it. One that is removed in part lacks pieces, and is not loaded. */
static void remove_step(const struct snapshot_dir *s,
                        const struct snapshot_file *f)
{
    struct ddp_err ignored;
    const struct dirent *e;
    int rc = 0;
    DIR *list = f->world == IS_FOLDER ? open_list(s, f->name) : NULL;
    while (list != NULL && (e = next_entry(list, &rc, &ignored)) != NULL)
        if (strncmp(e->d_name, "shard-", 6) == 0)
            (void)unlinkat(dirfd(list), e->d_name, 0);
    if (list != NULL)
        (void)closedir(list);
    (void)unlinkat(s->fd, f->name, f->world == IS_FOLDER ? AT_REMOVEDIR : 0);
}

static bool is_gone(const struct snapshot_dir *s)
{
    struct stat st;
    return fstat(s->fd, &st) == 0 ? st.st_nlink == 0 : errno == ESTALE;
}

/* The folder was removed. The descriptor keeps its number: another thread may
 * be listing. */
static int make_again(const struct snapshot_dir *s, struct ddp_err *err)
{
    struct snapshot_dir again;
    int rc = snapshot_dir_open(&again, s->path, s->instance, s->round, err);
    if (rc == 0 && dup3(again.fd, s->fd, O_CLOEXEC) < 0)
        rc = ddp_err_sys(err, DDP_E_IO, "cannot open the new folder");
    snapshot_dir_close(&again);
    return rc == 0
               ? 0
               : ddp_err_wrap(
                     err, "the folder was removed while this run wrote to it");
}

/* Whether we are still the owner: others may have taken the folder over. Where
 * it was removed, or emptied, it is made again and taken. */
static int check_owner(const struct snapshot_dir *s, struct ddp_err *err)
{
    struct owners o;
    int64_t ignored;
    if (is_gone(s) && make_again(s, err) != 0)
        return -1;
    if (read_owners(s, &o, err) != 0)
        return -1;
    if (o.n == 0)
        return snapshot_dir_own(s, &ignored, err);
    if (strcmp(o.ids[0], s->instance) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "another run (instance %s) has taken the folder over",
                       o.ids[0]);
}

/* The folder of a step, made if it is not there; -1: IO. */
static int
open_step(const struct snapshot_dir *s, const char *name, struct ddp_err *err)
{
    bool made = mkdirat(s->fd, name, 0777) == 0;
    if (!made && errno != EEXIST)
        return ddp_err_sys(err, DDP_E_IO, "cannot create the folder");
    if (made && atomic_file_sync_dir(s->fd, err) != 0)
        return -1;
    int fd =
        openat(s->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : ddp_err_sys(err, DDP_E_IO, "cannot open the folder");
}

int snapshot_dir_put(const struct snapshot_dir *s,
                     int64_t step,
                     int rank,
                     int world,
                     bool keep_before,
                     const uint8_t *data,
                     size_t len,
                     const atomic_bool *stop,
                     struct ddp_err *err)
{
    char folder[SNAPSHOT_DIR_NAME_MAX], name[SNAPSHOT_DIR_NAME_MAX];
    char before[SNAPSHOT_DIR_NAME_MAX];
    ddp_assert(s->fd >= 0);
    if (step < 0 || step > STEP_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the step is %lld, must be from 0 to %lld",
                           (long long)step, (long long)STEP_MAX);
    if (check_owner(s, err) != 0)
        return -1;
    name_of(folder, step, s->round, s->instance, "");
    part_name(name, rank, world, false);
    part_name(before, rank, world, true);
    int fd = open_step(s, folder, err);
    int rc = fd < 0 ? -1 : 0;
    if (rc == 0 && keep_before && renameat(fd, name, fd, before) != 0 &&
        errno != ENOENT)
        rc = ddp_err_sys(err, DDP_E_IO, "cannot keep the file of before");
    if (rc == 0)
        rc = atomic_file_put(fd, name, data, len, stop, err);
    if (fd >= 0)
        (void)close(fd); /* atomic_file_put has synced it */
    if (rc == 0)
        return 0;
    /* A full disk must not get a folder for each step; with another rank's
     * file in it the folder stays. */
    (void)unlinkat(s->fd, folder, AT_REMOVEDIR);
    return ddp_err_wrap(err, "%s/%s", folder, name);
}

/* One without any file was begun by a writer that was killed. One that cannot
 * be looked at may have some. */
static bool has_files(const struct snapshot_dir *s,
                      const struct snapshot_file *f)
{
    struct ddp_err ignored;
    struct snapshot_file part;
    const struct dirent *e = NULL;
    int rc = 0;
    DIR *list = f->world == IS_FOLDER ? open_list(s, f->name) : NULL;
    if (list == NULL)
        return true;
    do
        e = next_entry(list, &rc, &ignored);
    while (e != NULL && !read_part_name(e->d_name, f, &part));
    (void)closedir(list);
    return e != NULL || rc != 0;
}

/*
 * What is too many costs space, nothing else. Files of unknown instances are
 * not ours to remove. What passes for newer than that step was refused at the
 * start or bears a false name: it takes no other step's place, and goes when
 * its turn comes.
 */
void snapshot_dir_prune(const struct snapshot_dir *s,
                        const struct snapshot_file *whole,
                        int keep)
{
    struct owners o;
    struct ddp_err ignored;
    struct snapshot_file *files;
    size_t n, i = 0;
    ddp_assert(keep > 0);
    if (list_steps(s, &o, &files, &n, &ignored) == 0)
        while (i < n && (files[i].step != whole->step ||
                         files[i].round != whole->round ||
                         strcmp(files[i].who, whole->who) != 0))
            i++;
    for (int seen = 0; files != NULL && i < n; i++)
        if (files[i].owner < SNAPSHOT_DIR_OWNERS &&
            (!has_files(s, &files[i]) || ++seen > keep))
            remove_step(s, &files[i]);
    free(files);
    /* What another host left is old enough at some later time only. */
    sweep(s);
}

/* -- marks ----------------------------------------------------------------- */

int snapshot_dir_mark(struct snapshot_dir *s,
                      struct snapshot_mark *mark,
                      int *fd,
                      struct ddp_err *err)
{
    char name[ATOMIC_FILE_NAME_MAX];
    *fd = atomic_file_create(s->fd, MARK, name, err);
    if (*fd < 0)
        return -1;
    ddp_assert(strlen(name) < sizeof(mark->name));
    *mark = (struct snapshot_mark){.name = ""};
    memcpy(mark->name, name, strlen(name));
    return 0;
}

/* A peer's name that is no mark is none that this process sees. */
bool snapshot_dir_sees(const struct snapshot_dir *s,
                       const struct snapshot_mark *mark)
{
    const char *name = mark->name;
    return memchr(name, '\0', sizeof(mark->name)) != NULL &&
           strncmp(name, MARK ATOMIC_FILE_MARK, MARK_LEN) == 0 &&
           strchr(name, '/') == NULL && access_at(s->fd, name, F_OK, 0) == 0;
}

void snapshot_dir_unmark(struct snapshot_dir *s,
                         const struct snapshot_mark *mark,
                         int fd)
{
    (void)unlinkat(s->fd, mark->name, 0); /* or the next sweep does */
    (void)close(fd);                      /* empty */
}
