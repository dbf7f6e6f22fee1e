/*
 * worker_rt/snapshot/snapshot_dir: which run may write into a folder, in which
 * order its files are tried, and which of them are removed.
 *
 * Happy path: open sweeps what killed writers left; own puts this instance on
 * top of the file `owner`; put looks whether it is still there, writes a file
 * under a name that no other round or instance uses, and removes the owners'
 * oldest.
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
#define FILES_MAX ((size_t)65536) /* of a folder; more is no folder of ours */
#define STEP_MAX  INT64_C(999999999999999999)

_Static_assert((FILES_MAX & (FILES_MAX - 1)) == 0, "see make_room");

/* -- names ----------------------------------------------------------------- */

static void name_of(char name[SNAPSHOT_DIR_NAME_MAX],
                    int64_t step,
                    int64_t round,
                    const char *who)
{
    ddp_assert(step >= 0 && round >= 0);
    (void)snprintf(name, SNAPSHOT_DIR_NAME_MAX, /* 19 digits each: it fits */
                   "step-%012lld.r%lld.%.8s.safetensors", (long long)step,
                   (long long)round, who);
}

void snapshot_dir_name(const struct snapshot_dir *s,
                       int64_t step,
                       char name[SNAPSHOT_DIR_NAME_MAX])
{
    name_of(name, step, s->round, s->instance);
}

/* Only what name_of would have made. */
static bool read_name(const char *name, struct snapshot_file *f)
{
    long long step, round;
    char again[SNAPSHOT_DIR_NAME_MAX];
    if (sscanf(name, "step-%18lld.r%18lld.%8[0-9a-f]", &step, &round, f->who) !=
            3 ||
        step < 0 || round < 0)
        return false;
    name_of(again, step, round, f->who);
    if (strcmp(again, name) != 0)
        return false;
    memcpy(f->name, again, sizeof(again));
    f->step = step;
    f->round = round;
    return true;
}

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
};

/* What is no list of instances is no owner. */
static void parse_owners(struct owners *o, const char *text)
{
    while (o->n < SNAPSHOT_DIR_OWNERS) {
        size_t len = strspn(text, "0123456789abcdef");
        if (len != RNG_ID_LEN || text[len] != '\n')
            return;
        memcpy(o->ids[o->n], text, RNG_ID_LEN);
        o->ids[o->n++][RNG_ID_LEN] = '\0';
        text += len + 1;
    }
}

/* No owner: no run owns the folder yet. */
static int
read_owners(const struct snapshot_dir *s, struct owners *o, struct ddp_err *err)
{
    char text[SNAPSHOT_DIR_OWNERS * (RNG_ID_LEN + 1) + 1];
    int fd = openat(s->fd, OWNER, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    o->n = 0;
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

static int find_owner(const struct owners *o, const char *who)
{
    for (int i = 0; i < o->n; i++)
        if (strncmp(o->ids[i], who, SNAPSHOT_DIR_WHO) == 0)
            return i;
    return SNAPSHOT_DIR_OWNERS;
}

/* -- open ------------------------------------------------------------------ */

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
    atomic_file_sweep(s->fd, NULL);
    return 0;
}

void snapshot_dir_close(struct snapshot_dir *s)
{
    if (s->fd >= 0)
        (void)close(s->fd); /* nothing was written through it */
    s->fd = -1;
}

/* -- list ------------------------------------------------------------------ */

/* qsort has no room for the folder. */
struct snapshot_entry {
    struct snapshot_file file;
    int class;        /* 0: ours */
    const char *rule; /* an instance, for snapshot_dir_newer */
};

static int by_worth(const void *a, const void *b)
{
    const struct snapshot_entry *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return snapshot_dir_newer(x->rule, x->file.round, x->file.step,
                              y->file.round, y->file.step);
}

static void classify(const struct snapshot_dir *s,
                     const struct owners *o,
                     struct snapshot_entry *e)
{
    static const char by_step[] = "00000000"; /* an instance that is none */
    struct snapshot_file *f = &e->file;
    f->owner = find_owner(o, f->who);
    bool mine = strncmp(f->who, s->instance, SNAPSHOT_DIR_WHO) == 0;
    e->class = mine ? 0 : 1 + f->owner;
    e->rule = f->owner == SNAPSHOT_DIR_OWNERS && !mine ? by_step
              : is_none(f->who)                        ? by_step
                                                       : "1";
}

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

/* For one more. */
static int make_room(struct snapshot_entry **entries,
                     size_t n,
                     size_t *cap,
                     struct ddp_err *err)
{
    if (n < *cap)
        return 0;
    if (n == FILES_MAX)
        return ddp_err_set(err, DDP_E_IO, /* messages: ok, 65536 */
                           "the folder has more than %zu snapshots: remove old "
                           "ones",
                           FILES_MAX);
    *cap = *cap == 0 ? 16 : 2 * *cap; /* FILES_MAX is a power of 2 too */
    struct snapshot_entry *more = realloc(*entries, *cap * sizeof(*more));
    if (more == NULL)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for the list of snapshots");
    *entries = more;
    return 0;
}

static int read_folder(const struct snapshot_dir *s,
                       const struct owners *o,
                       struct snapshot_entry **entries,
                       size_t *n,
                       struct ddp_err *err)
{
    size_t cap = 0;
    int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL) {
        (void)ddp_err_sys(err, DDP_E_IO, "cannot list the snapshots");
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    int rc = 0;
    const struct dirent *e;
    struct snapshot_file file;
    while (rc == 0 && (e = next_entry(list, &rc, err)) != NULL) {
        if (!read_name(e->d_name, &file))
            continue;
        rc = make_room(entries, *n, &cap, err);
        if (rc == 0) {
            (*entries)[*n].file = file;
            classify(s, o, &(*entries)[(*n)++]);
        }
    }
    (void)closedir(list);
    return rc;
}

/* Lists the files, and the owners by which they are sorted. */
static int list_files(const struct snapshot_dir *s,
                      struct owners *o,
                      struct snapshot_file **files,
                      size_t *n,
                      struct ddp_err *err)
{
    struct snapshot_entry *entries = NULL;
    *files = NULL;
    *n = 0;
    int rc = read_owners(s, o, err);
    if (rc == 0)
        rc = read_folder(s, o, &entries, n, err);
    if (rc == 0 && *n > 0) {
        qsort(entries, *n, sizeof(*entries), by_worth);
        *files = calloc(*n, sizeof(**files));
        if (*files == NULL)
            rc = ddp_err_set(err, DDP_E_NOMEM,
                             "no memory for the list of snapshots");
    }
    for (size_t i = 0; rc == 0 && i < *n; i++)
        (*files)[i] = entries[i].file;
    ddp_assert(rc != 0 || (*n == 0) == (*files == NULL));
    free(entries);
    return rc;
}

int snapshot_dir_list(const struct snapshot_dir *s,
                      struct snapshot_file **files,
                      size_t *n,
                      struct ddp_err *err)
{
    struct owners o;
    return list_files(s, &o, files, n, err);
}

int snapshot_dir_own(const struct snapshot_dir *s, struct ddp_err *err)
{
    struct owners o;
    struct snapshot_file *files;
    size_t n;
    char text[SNAPSHOT_DIR_OWNERS * (RNG_ID_LEN + 1) + 1];
    if (list_files(s, &o, &files, &n, err) != 0)
        return -1;
    int len = snprintf(text, sizeof(text), "%s\n", s->instance);
    bool mine = o.n > 0 && strcmp(o.ids[0], s->instance) == 0;
    /* Those before us as long as they have files. */
    for (int i = 0, kept = 1; i < o.n && kept < SNAPSHOT_DIR_OWNERS; i++) {
        size_t k = 0;
        while (k < n && files[k].owner != i)
            k++;
        if (k == n || strcmp(o.ids[i], s->instance) == 0)
            continue;
        len +=
            snprintf(text + len, sizeof(text) - (size_t)len, "%s\n", o.ids[i]);
        kept++;
    }
    ddp_assert(len > 0 && (size_t)len < sizeof(text));
    free(files);
    if (mine)
        return 0;
    if (atomic_file_put(s->fd, OWNER, (const uint8_t *)text, (size_t)len, NULL,
                        err) != 0)
        return ddp_err_wrap(err, "cannot take the folder over");
    return 0;
}

/* -- put ------------------------------------------------------------------- */

/*
 * Best effort: what is too many costs space, nothing else. Files of
 * unknown instances are not ours to remove. What passes for newer than what has
 * just been written was refused at the start or bears a false name: it takes no
 * other file's place, and goes when its turn comes.
 */
static void prune(const struct snapshot_dir *s, const char *written, int keep)
{
    struct snapshot_file *files;
    size_t n, i = 0;
    if (snapshot_dir_list(s, &files, &n, NULL) != 0)
        return;
    while (i < n && strcmp(files[i].name, written) != 0)
        i++;
    for (int seen = 0; i < n; i++)
        if (files[i].owner < SNAPSHOT_DIR_OWNERS && ++seen > keep)
            (void)unlinkat(s->fd, files[i].name, 0);
    free(files);
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
    if (is_gone(s) && make_again(s, err) != 0)
        return -1;
    if (read_owners(s, &o, err) != 0)
        return -1;
    if (o.n == 0)
        return snapshot_dir_own(s, err);
    if (strcmp(o.ids[0], s->instance) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "another run (instance %s) has taken the folder over",
                       o.ids[0]);
}

/* Of a step that a name can have, in a folder that is ours: its name. */
static int begin_put(const struct snapshot_dir *s,
                     int64_t step,
                     char name[SNAPSHOT_DIR_NAME_MAX],
                     struct ddp_err *err)
{
    ddp_assert(s->fd >= 0);
    if (step < 0 || step > STEP_MAX)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the step is %lld, must be from 0 to %lld",
                           (long long)step, (long long)STEP_MAX);
    if (check_owner(s, err) != 0)
        return -1;
    snapshot_dir_name(s, step, name);
    return 0;
}

static int end_put(const struct snapshot_dir *s,
                   int rc,
                   const char *name,
                   int keep,
                   struct ddp_err *err)
{
    ddp_assert(keep > 0);
    if (rc != 0)
        return ddp_err_wrap(err, "%s", name);
    prune(s, name, keep);
    /* What another host left is old enough at some later time only. */
    atomic_file_sweep(s->fd, NULL);
    return 0;
}

int snapshot_dir_put(const struct snapshot_dir *s,
                     int64_t step,
                     const uint8_t *data,
                     size_t len,
                     int keep,
                     const atomic_bool *stop,
                     struct ddp_err *err)
{
    char name[SNAPSHOT_DIR_NAME_MAX];
    if (begin_put(s, step, name, err) != 0)
        return -1;
    int rc = atomic_file_put(s->fd, name, data, len, stop, err);
    return end_put(s, rc, name, keep, err);
}

int snapshot_dir_put_by(const struct snapshot_dir *s,
                        int64_t step,
                        int keep,
                        atomic_file_fill_fn *fill,
                        void *ctx,
                        struct ddp_err *err)
{
    char name[SNAPSHOT_DIR_NAME_MAX];
    if (begin_put(s, step, name, err) != 0)
        return -1;
    int rc = atomic_file_put_by(s->fd, name, fill, ctx, err);
    return end_put(s, rc, name, keep, err);
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
