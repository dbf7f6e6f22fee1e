/*
 * worker_rt/snapshot/save: files that are never torn.
 *
 * Everything goes into a temporary file (atomic_file), which is locked for as
 * long as its writer lives; then fsync, <path> gets the second name
 * <path>.prev, and the new file is renamed over <path>. Whenever the writer or
 * the machine stops, <path> is the old snapshot or the new one, whole. A writer
 * that is killed leaves its temporary file; the next writer finds it unlocked
 * and removes it.
 *
 * Failure modes: the disk is full or fails (IO: the temporary file goes, <path>
 * is what it was); the file system has no hard links (no .prev is kept); the
 * last fsync fails (IO, with the new file in place).
 *
 * What stands at <path> may have been damaged since. Then it must not take the
 * place of the .prev that a load would fall back on: until the last rename
 * there would be no whole one. So it is looked at first.
 */
#include "worker_rt/snapshot/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker_rt/rt.h"
#include "worker_rt/snapshot/atomic_file.h"
#include "worker_rt/snapshot/image.h"

struct save {
    const struct ddp *d;
    const struct ddp_tensor *from; /* the caller's */
    int dir;                       /* its folder; -1: not opened */
    char base[NAME_MAX + 1];       /* the name in it */
    char temp[ATOMIC_FILE_NAME_MAX];
    int fd;              /* -1: there is no temporary file */
    struct stat written; /* the new file, whole */
    struct image image;
};

/* -- the file -------------------------------------------------------------- */

static int open_folder(struct save *s, const char *path, struct ddp_err *err)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    size_t dir_len = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char *dir = dir_len == 0 ? strdup(".") : strndup(path, dir_len);
    if (dir == NULL)
        return snapshot_no_memory(err);
    if (*base == '\0' || strlen(base) > NAME_MAX) {
        free(dir);
        return ddp_err_set(err, DDP_E_USAGE,
                           "the path does not end with the name of a file");
    }
    memcpy(s->base, base, strlen(base) + 1);
    s->dir = atomic_file_open_dir(dir, err);
    free(dir);
    return s->dir >= 0 ? 0 : -1;
}

static int
write_tensor(struct save *s, size_t i, const uint8_t *data, struct ddp_err *err)
{
    struct image *m = &s->image;
    uint64_t left = image_size(m, i);
    uint64_t at = image_at(m, i);
    image_hash_begin(m);
    while (left > 0) {
        size_t n = left < SNAPSHOT_PIECE ? (size_t)left : SNAPSHOT_PIECE;
        image_hash(m, data, n);
        if (atomic_file_write(s->fd, data, n, at, err) != 0)
            return -1;
        data += n;
        at += n;
        left -= n;
    }
    image_hash_end(m, i);
    return 0;
}

/* The data first: their checksums go into the header. */
static int write_file(struct save *s, struct ddp_err *err)
{
    struct image *m = &s->image;
    for (size_t i = 0; i < m->ntensors; i++)
        if (write_tensor(s, i, s->from[m->order[i]].data, err) != 0)
            return -1;
    const uint8_t *header = image_header(m, err);
    if (header == NULL ||
        atomic_file_write(s->fd, header, m->header_len, 0, err) != 0)
        return -1;
    if (fsync(s->fd) != 0 || fstat(s->fd, &s->written) != 0)
        return ddp_err_sys(err, DDP_E_IO, "cannot sync the file");
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
    char temp[ATOMIC_FILE_NAME_MAX];
    char prev[NAME_MAX + sizeof(SNAPSHOT_PREV)];
    atomic_file_temp_name(temp, s->base);
    (void)snprintf(prev, sizeof(prev), "%s" SNAPSHOT_PREV, s->base); /* fits */
    /* Only a whole one may take the place of another, and one that cannot be
     * looked at may be there. */
    bool none = faccessat(s->dir, prev, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
                errno == ENOENT;
    if (!none && !snapshot_is_whole(s->d, s->dir, s->base))
        return 0;
    if (linkat(s->dir, s->base, s->dir, temp, 0) != 0) {
        bool cannot = errno == ENOENT || errno == EPERM ||
                      errno == EOPNOTSUPP || errno == ENOSYS ||
                      errno == EMLINK || errno == EXDEV;
        return cannot ? 0
                      : ddp_err_sys(err, DDP_E_IO,
                                    "cannot keep the old snapshot as .prev");
    }
    int rc = renameat(s->dir, temp, s->dir, prev);
    if (rc != 0)
        (void)ddp_err_sys(err, DDP_E_IO,
                          "cannot keep the old snapshot as .prev");
    (void)unlinkat(s->dir, temp, 0); /* mostly gone already */
    return rc;
}

static int put_in_place(struct save *s, struct ddp_err *err)
{
    ddp_assert(s->fd >= 0 && s->dir >= 0);
    if (keep_prev(s, err) != 0)
        return -1;
    if (renameat(s->dir, s->temp, s->dir, s->base) != 0)
        return ddp_err_sys(err, DDP_E_IO,
                           "cannot rename the new file into place");
    (void)close(s->fd); /* synced */
    s->fd = -1;
    return atomic_file_sync_dir(s->dir, err);
}

static void save_free(struct save *s)
{
    if (s->fd >= 0) {
        (void)unlinkat(s->dir, s->temp, 0); /* of a failed save */
        (void)close(s->fd);
    }
    if (s->dir >= 0)
        (void)close(s->dir); /* nothing was written through it */
    image_free(&s->image);
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
    const struct image_about about = {.step = -1};
    struct save s = {.d = d, .from = tensors, .dir = -1, .fd = -1};
    int rc = -1;
    if (proof_settle(&d->proof, &why) != 0 ||
        snapshot_check_names(tensors, ntensors, &why) != 0 ||
        image_init(&s.image, d, &about, tensors, ntensors, meta, nmeta, &why) !=
            0 ||
        open_folder(&s, path, &why) != 0)
        goto out;
    atomic_file_sweep(s.dir, s.base);
    s.fd = atomic_file_create(s.dir, s.base, s.temp, &why);
    if (s.fd < 0 || write_file(&s, &why) != 0 || put_in_place(&s, &why) != 0)
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
