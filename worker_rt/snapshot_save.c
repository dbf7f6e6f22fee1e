/*
 * worker_rt/snapshot_save: files that are never torn.
 *
 * Everything goes into <path>.tmp.<random>, which is locked for as long as its
 * writer lives; then fsync, <path> gets the second name <path>.prev, and the
 * new file is renamed over <path>. Whenever the writer or the machine stops,
 * <path> is the old snapshot or the new one, whole. A writer that is killed
 * leaves its temporary file; the next writer finds it unlocked and removes it.
 *
 * What stands at <path> may have been damaged since. Then it must not take the
 * place of the .prev that a load would fall back on: until the last rename
 * there would be no whole one. So it is looked at first.
 */
#include "worker_rt/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "worker_rt/rt.h"
#include "worker_rt/safetensors.h"

#define RANDOM_LEN 16 /* hexadecimal digits of a temporary name */
#define TEMP_MARK  ".tmp."
#define NAME_ROOM  (NAME_MAX + sizeof(TEMP_MARK) + RANDOM_LEN)

/* -- the folder ------------------------------------------------------------ */

/* A path as its folder, opened, and the name in it. */
struct place {
    int dir; /* -1: not opened */
    char base[NAME_MAX + 1];
};

static int open_place(struct place *p, const char *path, struct ddp_err *err)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    size_t dir_len = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char *dir = dir_len == 0 ? strdup(".") : strndup(path, dir_len);
    p->dir = -1;
    if (dir == NULL)
        return snapshot_no_memory(err);
    if (*base == '\0' || strlen(base) > NAME_MAX) {
        free(dir);
        return ddp_err_set(err, DDP_E_USAGE, "this is no name of a file");
    }
    memcpy(p->base, base, strlen(base) + 1);
    p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc =
        p->dir >= 0 ? 0 : ddp_err_sys(err, DDP_E_IO, "folder '%.200s'", dir);
    free(dir);
    return rc;
}

static void close_place(struct place *p)
{
    if (p->dir >= 0)
        (void)close(p->dir); /* nothing was written through it */
}

static void temp_name(char out[NAME_ROOM], const struct place *p)
{
    (void)snprintf(out, /* the room is made for it */
                   NAME_ROOM, "%s" TEMP_MARK "%016llx", p->base,
                   (unsigned long long)rng_seed());
}

static bool is_temp(const struct place *p, const char *name)
{
    size_t base_len = strlen(p->base);
    size_t mark_len = sizeof(TEMP_MARK) - 1;
    if (strncmp(name, p->base, base_len) != 0 ||
        strncmp(name + base_len, TEMP_MARK, mark_len) != 0)
        return false;
    const char *random = name + base_len + mark_len;
    return strlen(random) == RANDOM_LEN &&
           strspn(random, "0123456789abcdef") == RANDOM_LEN;
}

/* Removes what killed writers left: nobody holds a lock on it any more. Best
 * effort: leftovers cost space, nothing else. */
static void sweep(const struct place *p)
{
    int fd = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0)
        (void)close(fd);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (!is_temp(p, e->d_name))
            continue;
        int old = openat(p->dir, e->d_name,
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (old >= 0 && flock(old, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(p->dir, e->d_name, 0);
        if (old >= 0)
            (void)close(old);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

/* -- the file -------------------------------------------------------------- */

/* A tensor's checksum as a pair. */
struct sum {
    char key[SNAPSHOT_KEY_MAX];
    char digits[SNAPSHOT_DIGITS + 1];
};

struct save {
    const struct ddp *d;
    const struct ddp_tensor *from; /* the caller's */
    const struct ddp_kv *meta;
    size_t ntensors;
    size_t nmeta;
    struct place place;
    char temp[NAME_ROOM];
    int fd;                     /* -1: there is no temporary file */
    struct stat written;        /* the new file, whole */
    struct safetensor *tensors; /* in the order of the file .. */
    size_t *order;              /* .. each one's index in `from` */
    struct sum *sums;
    struct safetensors_pair *pairs;
    size_t npairs;
    char round[24];
    struct buf header;
    XXH3_state_t *state;
};

static int check_meta(const struct ddp_kv *meta, size_t n, struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (meta[i].key == NULL || strlen(meta[i].key) >= DDP_NAME_MAX ||
            strncmp(meta[i].key, "ddp.", 4) == 0)
            return ddp_err_set(err, DDP_E_USAGE, "a bad key among the pairs");
        if (memchr(meta[i].value, '\0', sizeof(meta[i].value)) == NULL)
            return ddp_err_set(err, DDP_E_USAGE, "the value of %s has no end",
                               meta[i].key);
    }
    return 0;
}

static int reserve(struct save *s, struct ddp_err *err)
{
    size_t n = s->ntensors + 1; /* a size of 0 might give NULL */
    s->tensors = calloc(n, sizeof(*s->tensors));
    s->order = calloc(n, sizeof(*s->order));
    s->sums = calloc(n, sizeof(*s->sums));
    s->pairs = calloc(n + s->nmeta + 2, sizeof(*s->pairs));
    s->state = XXH3_createState();
    if (s->tensors == NULL || s->order == NULL || s->sums == NULL ||
        s->pairs == NULL || s->state == NULL)
        return snapshot_no_memory(err);
    return 0;
}

static int place_tensors(struct save *s, struct ddp_err *err)
{
    for (size_t i = 0; i < s->ntensors; i++) {
        const struct ddp_tensor *t = &s->from[i];
        s->tensors[i] = (struct safetensor){
            .name = t->name, .dtype = t->dtype, .dims = t->dims};
        memcpy(s->tensors[i].shape, t->shape, sizeof(t->shape));
    }
    return safetensors_place(s->tensors, s->order, s->ntensors, err);
}

static void add_pair(struct save *s, const char *key, const char *value)
{
    s->pairs[s->npairs++] = (struct safetensors_pair){key, value};
}

static void fill_pairs(struct save *s)
{
    (void)snprintf(s->round, sizeof(s->round), "%lld",
                   (long long)s->d->round); /* fits */
    add_pair(s, SNAPSHOT_HEADER_KEY, SNAPSHOT_NO_DIGITS);
    add_pair(s, "ddp.instance", s->d->instance);
    add_pair(s, "ddp.round", s->round);
    for (size_t i = 0; i < s->nmeta; i++)
        add_pair(s, s->meta[i].key, s->meta[i].value);
    for (size_t i = 0; i < s->ntensors; i++) {
        struct sum *sum = &s->sums[i];
        (void)snprintf(sum->key, /* fits: snapshot_check_tensors */
                       sizeof(sum->key), SNAPSHOT_DATA_KEY "%s",
                       s->tensors[i].name);
        memcpy(sum->digits, SNAPSHOT_NO_DIGITS, sizeof(sum->digits));
        add_pair(s, sum->key, sum->digits);
    }
}

/* The header as the checksums stand now: its length never depends on them. */
static int make_header(struct save *s, struct ddp_err *err)
{
    buf_free(&s->header);
    return safetensors_write(&s->header, s->tensors, s->ntensors, s->pairs,
                             s->npairs, err);
}

static int prepare(struct save *s, struct ddp_err *err)
{
    if (check_meta(s->meta, s->nmeta, err) != 0 ||
        snapshot_check_tensors(s->from, s->ntensors, err) != 0 ||
        reserve(s, err) != 0 || place_tensors(s, err) != 0)
        return -1;
    fill_pairs(s);
    return make_header(s, err);
}

static int create_temp(struct save *s, struct ddp_err *err)
{
    temp_name(s->temp, &s->place);
    s->fd = openat(s->place.dir, s->temp,
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return ddp_err_sys(err, DDP_E_IO, "cannot create %.100s", s->temp);
    /* Where locks do not work, sweep gets none and removes nothing. */
    (void)flock(s->fd, LOCK_EX | LOCK_NB);
    return 0;
}

static int write_at(
    int fd, const uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ddp_err_sys(err, DDP_E_IO, "cannot write");
        data += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int
write_tensor(struct save *s, size_t i, const uint8_t *data, struct ddp_err *err)
{
    const struct safetensor *t = &s->tensors[i];
    uint64_t left = t->end - t->begin;
    uint64_t at = buf_len(&s->header) + t->begin;
    (void)XXH3_128bits_reset(s->state);
    while (left > 0) {
        size_t n = left < SNAPSHOT_PIECE ? (size_t)left : SNAPSHOT_PIECE;
        (void)XXH3_128bits_update(s->state, data, n);
        if (write_at(s->fd, data, n, at, err) != 0)
            return -1;
        data += n;
        at += n;
        left -= n;
    }
    snapshot_hex(s->sums[i].digits, XXH3_128bits_digest(s->state));
    return 0;
}

static int write_header(struct save *s, struct ddp_err *err)
{
    size_t len = buf_len(&s->header);
    if (make_header(s, err) != 0)
        return -1;
    ddp_assert(buf_len(&s->header) == len);
    uint8_t *header = s->header.data + s->header.start;
    char digits[SNAPSHOT_DIGITS + 1];
    ddp_assert(memcmp(header + 8, SNAPSHOT_BEGIN, SNAPSHOT_BEGIN_LEN) == 0);
    snapshot_header_hex(digits, s->state, header, len);
    memcpy(header + SNAPSHOT_DIGITS_AT, digits, SNAPSHOT_DIGITS);
    return write_at(s->fd, header, len, 0, err);
}

/* The data first: their checksums go into the header. */
static int write_file(struct save *s, struct ddp_err *err)
{
    for (size_t i = 0; i < s->ntensors; i++)
        if (write_tensor(s, i, s->from[s->order[i]].data, err) != 0)
            return -1;
    if (write_header(s, err) != 0)
        return -1;
    if (fsync(s->fd) != 0 || fstat(s->fd, &s->written) != 0)
        return ddp_err_sys(err, DDP_E_IO, "cannot sync");
    return 0;
}

/* -- its place ------------------------------------------------------------- */

/*
 * <path>.prev becomes a second name of what <path> is now. Through a temporary
 * name, since link(2) replaces nothing; and rename(2) does nothing where both
 * names are the same file already, which is so after a save that was killed
 * half way: hence the unlink.
 */
static int keep_prev(const struct save *s, struct ddp_err *err)
{
    const struct place *p = &s->place;
    char temp[NAME_ROOM];
    char prev[NAME_MAX + sizeof(SNAPSHOT_PREV)];
    temp_name(temp, p);
    (void)snprintf(prev, sizeof(prev), "%s" SNAPSHOT_PREV, p->base); /* fits */
    /* Only a whole one may take the place of another. */
    if (faccessat(p->dir, prev, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
        !snapshot_is_whole(s->d, p->dir, p->base))
        return 0;
    if (linkat(p->dir, p->base, p->dir, temp, 0) != 0) {
        bool none = errno == ENOENT || errno == EPERM || errno == EOPNOTSUPP ||
                    errno == ENOSYS || errno == EMLINK || errno == EXDEV;
        return none ? 0 : ddp_err_sys(err, DDP_E_IO, "cannot keep the old one");
    }
    int rc = renameat(p->dir, temp, p->dir, prev);
    if (rc != 0)
        (void)ddp_err_sys(err, DDP_E_IO, "cannot keep the old one");
    (void)unlinkat(p->dir, temp, 0); /* mostly gone already */
    return rc;
}

static int put_in_place(struct save *s, struct ddp_err *err)
{
    if (keep_prev(s, err) != 0)
        return -1;
    if (renameat(s->place.dir, s->temp, s->place.dir, s->place.base) != 0)
        return ddp_err_sys(err, DDP_E_IO, "cannot put it in its place");
    (void)close(s->fd); /* synced */
    s->fd = -1;
    /* EINVAL: a file system that has no such thing, and needs none. */
    if (fsync(s->place.dir) != 0 && errno != EINVAL)
        return ddp_err_sys(err, DDP_E_IO, "cannot sync its folder");
    return 0;
}

static void save_free(struct save *s)
{
    if (s->fd >= 0) {
        (void)unlinkat(s->place.dir, s->temp, 0); /* of a failed save */
        (void)close(s->fd);
    }
    close_place(&s->place);
    buf_free(&s->header);
    (void)XXH3_freeState(s->state);
    free(s->tensors);
    free(s->order);
    free(s->sums);
    free(s->pairs);
}

int ddp_snapshot_save(struct ddp *d,
                      const char *path,
                      const struct ddp_tensor *tensors,
                      size_t ntensors,
                      const struct ddp_kv *meta,
                      size_t nmeta,
                      struct ddp_error *err)
{
    struct ddp_err why;
    struct save s = {.d = d,
                     .from = tensors,
                     .meta = meta,
                     .ntensors = ntensors,
                     .nmeta = nmeta,
                     .place.dir = -1,
                     .fd = -1};
    int rc = -1;
    buf_init(&s.header, SAFETENSORS_HEADER_MAX);
    if (prepare(&s, &why) != 0 || open_place(&s.place, path, &why) != 0)
        goto out;
    sweep(&s.place);
    if (create_temp(&s, &why) != 0 || write_file(&s, &why) != 0 ||
        put_in_place(&s, &why) != 0)
        goto out;
    snapshot_remember(d, &s.written);
    rc = 0;
out:
    save_free(&s);
    if (rc == 0)
        return 0;
    (void)ddp_err_wrap(&why, "snapshot '%.200s'", path);
    return rt_fail(err, &why);
}
