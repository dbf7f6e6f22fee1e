/*
 * worker_rt/snapshot: files that are never torn.
 *
 * Save: everything goes into <path>.tmp.<random>, which is locked for as long
 * as its writer lives; then fsync, <path> gets the second name <path>.prev,
 * and the new file is renamed over <path>. Whenever the machine stops, <path>
 * is the old snapshot or the new one, whole. A writer that is killed leaves
 * its temporary file; the next writer finds it unlocked and removes it.
 *
 * Load: every byte is read once, into the caller's buffer where the tensor is
 * wanted, and its checksum compared. So a damaged file is found at the end at
 * the latest; the one before it then overwrites what was read.
 */
#include "worker_rt/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "worker_rt/rt.h"
#include "worker_rt/safetensors.h"

#define CHUNK      ((size_t)1 << 20) /* hashed while it is in the cache */
#define KEY_MAX    (sizeof(SNAPSHOT_DATA_KEY) + DDP_NAME_MAX)
#define RANDOM_LEN 16 /* hexadecimal digits of a temporary name */
#define TEMP_MARK  ".tmp."
#define PREV_MARK  ".prev"
#define NAME_ROOM  (NAME_MAX + sizeof(TEMP_MARK) + RANDOM_LEN)
#define DIGITS_AT  (8 + sizeof(SNAPSHOT_BEGIN) - 1)

static const char no_digits[] = "00000000000000000000000000000000";
_Static_assert(sizeof(no_digits) == SNAPSHOT_DIGITS + 1, "as many digits");

static void hex(char out[SNAPSHOT_DIGITS + 1], XXH128_hash_t hash)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, hash);
    for (size_t i = 0; i < sizeof(c.digest); i++)
        (void)snprintf(out + 2 * i, 3, "%02x", c.digest[i]); /* two digits */
}

/* A header's checksum: see snapshot.h. `data` begins with the 8 bytes. */
static void header_digits(char out[SNAPSHOT_DIGITS + 1],
                          XXH3_state_t *state,
                          const uint8_t *data,
                          size_t len)
{
    size_t behind = DIGITS_AT + SNAPSHOT_DIGITS;
    (void)XXH3_128bits_reset(state); /* these cannot fail on valid memory */
    (void)XXH3_128bits_update(state, data, DIGITS_AT);
    (void)XXH3_128bits_update(state, no_digits, SNAPSHOT_DIGITS);
    (void)XXH3_128bits_update(state, data + behind, len - behind);
    hex(out, XXH3_128bits_digest(state));
}

static int no_memory(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_NOMEM, "no memory for a snapshot's header");
}

/* -- pairs ----------------------------------------------------------------- */

void ddp_kv_set_i64(struct ddp_kv *kv, const char *key, int64_t value)
{
    kv->key = key;
    (void)snprintf(kv->value, /* 20 digits */
                   sizeof(kv->value), "%lld", (long long)value);
}

int ddp_kv_get_i64(const struct ddp_kv *kv,
                   int64_t *value,
                   struct ddp_error *err)
{
    char *end;
    errno = 0;
    const char *text = kv->value;
    bool begins = *text == '-' || (*text >= '0' && *text <= '9');
    long long n = strtoll(text, &end, 10);
    if (begins && errno == 0 && *end == '\0' && end != text) {
        *value = n;
        return 0;
    }
    struct ddp_err why;
    (void)ddp_err_set(&why, DDP_E_USAGE, "%s is '%.64s', which is no number",
                      kv->key, text);
    return rt_fail(err, &why);
}

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
        return no_memory(err);
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

/* -- save ------------------------------------------------------------------ */

/* A tensor's checksum as a pair. */
struct sum {
    char key[KEY_MAX];
    char digits[SNAPSHOT_DIGITS + 1];
};

struct save {
    struct place place;
    char temp[NAME_ROOM];
    int fd; /* -1: there is no temporary file */
    struct safetensor *tensors;
    size_t *order; /* of the caller's tensors in the file */
    struct sum *sums;
    struct safetensors_pair *pairs;
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

static int
check_tensors(const struct ddp_tensor *t, size_t n, struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (t[i].name == NULL || strlen(t[i].name) >= DDP_NAME_MAX)
            return ddp_err_set(err, DDP_E_USAGE,
                               "tensor %zu has no name or too long a one", i);
        if (t[i].data == NULL && ddp_tensor_len(&t[i]) > 0)
            return ddp_err_set(err, DDP_E_USAGE, "tensor '%.80s' has no data",
                               t[i].name);
    }
    return 0;
}

static int prepare(struct save *s,
                   const struct ddp_tensor *tensors,
                   size_t n,
                   size_t nmeta,
                   struct ddp_err *err)
{
    s->tensors = calloc(n + 1, sizeof(*s->tensors));
    s->order = calloc(n + 1, sizeof(*s->order));
    s->sums = calloc(n + 1, sizeof(*s->sums));
    s->pairs = calloc(n + nmeta + 3, sizeof(*s->pairs));
    s->state = XXH3_createState();
    if (s->tensors == NULL || s->order == NULL || s->sums == NULL ||
        s->pairs == NULL || s->state == NULL)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        s->tensors[i] = (struct safetensor){.name = tensors[i].name,
                                            .dtype = tensors[i].dtype,
                                            .dims = tensors[i].dims};
        memcpy(s->tensors[i].shape, tensors[i].shape,
               sizeof(s->tensors[i].shape));
    }
    return safetensors_place(s->tensors, s->order, n, err);
}

static void fill_pairs(struct save *s,
                       const struct ddp *d,
                       size_t n,
                       const struct ddp_kv *meta,
                       size_t nmeta)
{
    struct safetensors_pair *p = s->pairs;
    (void)snprintf(s->round, sizeof(s->round), "%lld",
                   (long long)d->round); /* fits */
    *p++ = (struct safetensors_pair){SNAPSHOT_HEADER_KEY, no_digits};
    *p++ = (struct safetensors_pair){"ddp.instance", d->instance};
    *p++ = (struct safetensors_pair){"ddp.round", s->round};
    for (size_t i = 0; i < nmeta; i++)
        *p++ = (struct safetensors_pair){meta[i].key, meta[i].value};
    for (size_t i = 0; i < n; i++) {
        struct sum *sum = &s->sums[i];
        (void)snprintf(sum->key, /* fits: check_tensors */
                       sizeof(sum->key), SNAPSHOT_DATA_KEY "%s",
                       s->tensors[i].name);
        memcpy(sum->digits, no_digits, sizeof(sum->digits));
        *p++ = (struct safetensors_pair){sum->key, sum->digits};
    }
}

/* The header as the checksums stand now: its length never depends on them. */
static int
make_header(struct save *s, size_t n, size_t nmeta, struct ddp_err *err)
{
    buf_free(&s->header);
    return safetensors_write(&s->header, s->tensors, n, s->pairs, n + nmeta + 3,
                             err);
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
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        (void)XXH3_128bits_update(s->state, data, n);
        if (write_at(s->fd, data, n, at, err) != 0)
            return -1;
        data += n;
        at += n;
        left -= n;
    }
    hex(s->sums[i].digits, XXH3_128bits_digest(s->state));
    return 0;
}

/* The data first: their checksums go into the header. */
static int write_file(struct save *s,
                      const struct ddp_tensor *tensors,
                      size_t n,
                      size_t nmeta,
                      struct ddp_err *err)
{
    size_t len = buf_len(&s->header);
    for (size_t i = 0; i < n; i++)
        if (write_tensor(s, i, tensors[s->order[i]].data, err) != 0)
            return -1;
    if (make_header(s, n, nmeta, err) != 0)
        return -1;
    ddp_assert(buf_len(&s->header) == len);
    uint8_t *header = s->header.data + s->header.start;
    char digits[SNAPSHOT_DIGITS + 1];
    ddp_assert(memcmp(header + 8, SNAPSHOT_BEGIN, DIGITS_AT - 8) == 0);
    header_digits(digits, s->state, header, len);
    memcpy(header + DIGITS_AT, digits, SNAPSHOT_DIGITS);
    if (write_at(s->fd, header, len, 0, err) != 0)
        return -1;
    return fsync(s->fd) == 0 ? 0 : ddp_err_sys(err, DDP_E_IO, "cannot sync");
}

/*
 * <path>.prev becomes a second name of what <path> is now. Through a temporary
 * name, since link(2) replaces nothing; and rename(2) does nothing where both
 * names are the same file already, which is so after a save that was killed
 * half way: hence the unlink.
 */
static int keep_prev(const struct place *p, struct ddp_err *err)
{
    char temp[NAME_ROOM];
    char prev[NAME_MAX + sizeof(PREV_MARK)];
    temp_name(temp, p);
    (void)snprintf(prev, sizeof(prev), "%s" PREV_MARK, p->base); /* fits */
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
    if (keep_prev(&s->place, err) != 0)
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

int ddp_snapshot_save(const struct ddp *d,
                      const char *path,
                      const struct ddp_tensor *tensors,
                      size_t ntensors,
                      const struct ddp_kv *meta,
                      size_t nmeta,
                      struct ddp_error *err)
{
    struct ddp_err why;
    struct save s = {.fd = -1, .place.dir = -1};
    int rc = -1;
    buf_init(&s.header, SAFETENSORS_HEADER_MAX);
    if (check_meta(meta, nmeta, &why) != 0 ||
        check_tensors(tensors, ntensors, &why) != 0 ||
        prepare(&s, tensors, ntensors, nmeta, &why) != 0)
        goto out;
    fill_pairs(&s, d, ntensors, meta, nmeta);
    if (make_header(&s, ntensors, nmeta, &why) != 0 ||
        open_place(&s.place, path, &why) != 0)
        goto out;
    sweep(&s.place);
    if (create_temp(&s, &why) == 0 &&
        write_file(&s, tensors, ntensors, nmeta, &why) == 0 &&
        put_in_place(&s, &why) == 0)
        rc = 0;
out:
    save_free(&s);
    if (rc == 0)
        return 0;
    (void)ddp_err_wrap(&why, "snapshot '%.200s'", path);
    return rt_fail(err, &why);
}

/* -- load ------------------------------------------------------------------ */

struct load {
    int fd; /* -1: not opened */
    uint64_t size;
    uint8_t *header; /* with its 8 bytes .. */
    size_t header_len;
    struct safetensors st;
    uint8_t *scratch; /* for what nobody asked for */
    XXH3_state_t *state;
};

static int
read_at(int fd, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    while (len > 0) {
        ssize_t n = pread(fd, data, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ddp_err_sys(err, DDP_E_IO, "cannot read");
        if (n == 0)
            return ddp_err_set(err, DDP_E_CORRUPT, "it ends too early");
        data += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int open_file(struct load *l, const char *path, struct ddp_err *err)
{
    struct stat st;
    l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (l->fd < 0)
        return ddp_err_sys(err, errno == ENOENT ? DDP_E_NOINPUT : DDP_E_IO,
                           "cannot open it");
    if (fstat(l->fd, &st) != 0)
        return ddp_err_sys(err, DDP_E_IO, "cannot look at it");
    if (!S_ISREG(st.st_mode))
        return ddp_err_set(err, DDP_E_CORRUPT, "it is no regular file");
    l->size = (uint64_t)st.st_size;
    return 0;
}

static int read_header(struct load *l, struct ddp_err *err)
{
    uint8_t size[8];
    uint64_t len = 0;
    if (l->size < sizeof(size))
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "it has %llu bytes, too few for a snapshot",
                           (unsigned long long)l->size);
    if (read_at(l->fd, size, sizeof(size), 0, err) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(size); i++)
        len |= (uint64_t)size[i] << (8 * i);
    if (len > l->size - sizeof(size) || len > SAFETENSORS_HEADER_MAX ||
        len < DIGITS_AT + SNAPSHOT_DIGITS)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: a length of %llu in a file of %llu bytes",
                           (unsigned long long)len,
                           (unsigned long long)l->size);
    l->header_len = sizeof(size) + (size_t)len;
    l->header = malloc(l->header_len);
    if (l->header == NULL)
        return no_memory(err);
    return read_at(l->fd, l->header, l->header_len, 0, err);
}

static int check_header(struct load *l, struct ddp_err *err)
{
    char digits[SNAPSHOT_DIGITS + 1];
    if (memcmp(l->header + 8, SNAPSHOT_BEGIN, DIGITS_AT - 8) != 0)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: libddp did not write it, or its beginning "
                           "is damaged");
    header_digits(digits, l->state, l->header, l->header_len);
    if (memcmp(digits, l->header + DIGITS_AT, SNAPSHOT_DIGITS) != 0)
        return ddp_err_set(err, DDP_E_CORRUPT, "header: wrong checksum");
    return safetensors_parse(l->header + 8, l->header_len - 8,
                             l->size - l->header_len, &l->st, err);
}

static const struct ddp_tensor *
wanted(const struct ddp_tensor *tensors, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return &tensors[i];
    return NULL;
}

static int check_wanted(const struct load *l,
                        const struct ddp_tensor *tensors,
                        size_t n,
                        struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct ddp_tensor *t = &tensors[i];
        const struct safetensor *have = safetensors_find(&l->st, t->name);
        if (have == NULL)
            return ddp_err_set(err, DDP_E_USAGE, "tensor '%.80s' is not in it",
                               t->name);
        if (wanted(tensors, n, t->name) != t)
            return ddp_err_set(err, DDP_E_USAGE,
                               "tensor '%.80s' is asked for twice", t->name);
        if (have->dtype != t->dtype || have->dims != t->dims ||
            memcmp(have->shape, t->shape,
                   (size_t)t->dims * sizeof(t->shape[0])) != 0)
            return ddp_err_set(err, DDP_E_USAGE,
                               "tensor '%.80s' has another dtype or shape in "
                               "the file than in the program",
                               t->name);
    }
    return 0;
}

/* Into `to`, or through the scratch where nobody wants it. */
static int read_tensor(struct load *l,
                       const struct safetensor *t,
                       uint8_t *to,
                       struct ddp_err *err)
{
    char key[KEY_MAX], digits[SNAPSHOT_DIGITS + 1];
    uint64_t at = l->header_len + t->begin;
    uint64_t left = t->end - t->begin;
    (void)XXH3_128bits_reset(l->state);
    while (left > 0) {
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        uint8_t *piece = to == NULL ? l->scratch : to;
        if (read_at(l->fd, piece, n, at, err) != 0)
            return -1;
        (void)XXH3_128bits_update(l->state, piece, n);
        to = to == NULL ? NULL : to + n;
        at += n;
        left -= n;
    }
    hex(digits, XXH3_128bits_digest(l->state));
    int len = snprintf(key, sizeof(key), SNAPSHOT_DATA_KEY "%s", t->name);
    const char *sum = len < 0 || (size_t)len >= sizeof(key)
                          ? NULL
                          : safetensors_value(&l->st, key);
    if (sum != NULL && strcmp(sum, digits) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CORRUPT, "tensor '%.80s' has %s checksum",
                       t->name, sum == NULL ? "no" : "a wrong");
}

static int read_tensors(struct load *l,
                        const struct ddp_tensor *tensors,
                        size_t n,
                        struct ddp_err *err)
{
    for (size_t i = 0; i < l->st.ntensors; i++) {
        const struct safetensor *t = &l->st.tensors[i];
        const struct ddp_tensor *to = wanted(tensors, n, t->name);
        if (read_tensor(l, t, to == NULL ? NULL : to->data, err) != 0)
            return -1;
    }
    return 0;
}

static int read_meta(const struct load *l,
                     struct ddp_kv *meta,
                     size_t n,
                     struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = safetensors_value(&l->st, meta[i].key);
        size_t len = value == NULL ? 0 : strlen(value);
        if (len >= sizeof(meta[i].value))
            return ddp_err_set(err, DDP_E_CORRUPT,
                               "the value of %.80s has %zu bytes", meta[i].key,
                               len);
        memcpy(meta[i].value, value == NULL ? "" : value, len + 1);
    }
    return 0;
}

static int read_fence(const struct load *l,
                      const struct ddp *d,
                      struct ddp_snapshot_info *info,
                      struct ddp_err *err)
{
    const char *instance = safetensors_value(&l->st, "ddp.instance");
    const char *round = safetensors_value(&l->st, "ddp.round");
    struct ddp_kv kv = {.key = "ddp.round"};
    if (instance == NULL || strlen(instance) != RNG_ID_LEN || round == NULL ||
        strlen(round) >= sizeof(kv.value))
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: it does not say who wrote it");
    memcpy(kv.value, round, strlen(round) + 1);
    memcpy(info->instance, instance, RNG_ID_LEN + 1);
    info->foreign = strcmp(instance, d->instance) != 0;
    if (ddp_kv_get_i64(&kv, &info->round, NULL) == 0)
        return 0;
    return ddp_err_set(err, DDP_E_CORRUPT, "header: ddp.round is no number");
}

static int load_file(struct load *l,
                     const char *path,
                     const struct ddp_tensor *tensors,
                     size_t n,
                     struct ddp_err *err)
{
    l->state = XXH3_createState();
    l->scratch = malloc(CHUNK);
    if (l->state == NULL || l->scratch == NULL)
        return no_memory(err);
    if (open_file(l, path, err) != 0 || read_header(l, err) != 0 ||
        check_header(l, err) != 0 || check_wanted(l, tensors, n, err) != 0)
        return -1;
    return read_tensors(l, tensors, n, err);
}

static int load_one(const struct ddp *d,
                    const char *path,
                    const struct ddp_tensor *tensors,
                    size_t n,
                    struct ddp_kv *meta,
                    size_t nmeta,
                    struct ddp_snapshot_info *info,
                    struct ddp_err *err)
{
    struct load l = {.fd = -1};
    int rc = load_file(&l, path, tensors, n, err);
    if (rc == 0)
        rc = read_fence(&l, d, info, err);
    if (rc == 0)
        rc = read_meta(&l, meta, nmeta, err);
    if (l.fd >= 0)
        (void)close(l.fd); /* only read */
    safetensors_free(&l.st);
    (void)XXH3_freeState(l.state);
    free(l.scratch);
    free(l.header);
    return rc == 0 ? 0 : ddp_err_wrap(err, "snapshot '%.200s'", path);
}

static bool tries_prev(enum ddp_code code)
{
    return code == DDP_E_CORRUPT || code == DDP_E_IO;
}

static int load(const struct ddp *d,
                const char *path,
                const struct ddp_tensor *tensors,
                size_t n,
                struct ddp_kv *meta,
                size_t nmeta,
                struct ddp_snapshot_info *info,
                struct ddp_err *err)
{
    if (load_one(d, path, tensors, n, meta, nmeta, info, err) == 0)
        return 0;
    if (!tries_prev(err->code))
        return -1;
    size_t len = strlen(path);
    char *prev = malloc(len + sizeof(PREV_MARK));
    struct ddp_err second;
    if (prev == NULL)
        return -1; /* with the first error */
    memcpy(prev, path, len);
    memcpy(prev + len, PREV_MARK, sizeof(PREV_MARK));
    int rc = load_one(d, prev, tensors, n, meta, nmeta, info, &second);
    free(prev);
    if (rc == 0) {
        info->from_prev = true;
        memcpy(info->why, err->text, sizeof(info->why));
    } else if (second.code == DDP_E_USAGE) {
        *err = second; /* it is whole, and not what the program wants */
    } else if (second.code != DDP_E_NOINPUT) {
        struct ddp_err first = *err;
        (void)ddp_err_set(err, /* cut if long */
                          first.code, "%.240s; and %.240s", first.text,
                          second.text);
    }
    return rc;
}

int ddp_snapshot_load(const struct ddp *d,
                      const char *path,
                      const struct ddp_tensor *tensors,
                      size_t ntensors,
                      struct ddp_kv *meta,
                      size_t nmeta,
                      struct ddp_snapshot_info *info,
                      struct ddp_error *err)
{
    struct ddp_err why;
    struct ddp_snapshot_info unseen;
    if (info == NULL)
        info = &unseen;
    memset(info, 0, sizeof(*info));
    if (check_tensors(tensors, ntensors, &why) == 0 &&
        load(d, path, tensors, ntensors, meta, nmeta, info, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}
