/*
 * Happy path: the run's folder is made at the start, or with the first worker
 * if it is a temporary one. Each worker gets a path in it, and when one failed
 * its file is read, at most FILE_MAX bytes of a plain file.
 *
 * Failure modes: none of them stops training once it has begun.
 * - The folder of log files cannot be made at the start: an error.
 * - A folder cannot be made later: said once; the worker has no files, and its
 *   streams stay on the console (launcher/output/relay). The next one tries
 *   again.
 * - An earlier round of the same attempt left a file: it is moved aside, so
 *   that the failure of that round is not told again for this one.
 * - A worker writes something else than @record does, or too much, or puts a
 *   FIFO or a device there: the message says so, or nothing is read; opening
 *   never waits.
 * - Python writes what JSON does not allow: NaN, and half a surrogate pair for
 *   each byte of a name that is no UTF-8. See mend.
 * - The file that the launcher's own TORCHELASTIC_ERROR_FILE names cannot be
 *   written: said, and the exit status tells the failure nevertheless.
 */
#include "launcher/worker/errfile.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/proc/tmpfolder.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/proto/msg.h"

#define FILE_MAX (1024 * 1024)

/* There is a folder in the states TEMPORARY and KEPT only. */
static void check(const struct errfile *e)
{
    bool files = e->state == ERRFILE_TEMPORARY || e->state == ERRFILE_KEPT;
    ddp_assert(files == (e->base[0] != '\0'));
}

static int cannot_make(const char *path, struct ddp_err *err)
{
    return ddp_err_sys(err, DDP_E_CONFIG, "cannot make the folder %s", path);
}

static int make_dir(const char *path, struct ddp_err *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    return cannot_make(path, err);
}

/* A path that does not fit becomes "", which no call accepts. */
__attribute__((format(printf, 3, 4))) static void
set_path(char *path, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(path, size, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= size)
        path[0] = '\0';
}

/* As torchrun does: all folders on the way are made too. */
static int make_way(const char *path, struct ddp_err *err)
{
    char part[PATH_MAX];
    set_path(part, sizeof(part), "%s", path);
    for (char *p = part; *p != '\0'; p++) {
        if (*p != '/' || p == part)
            continue;
        *p = '\0';
        (void)mkdir(part, 0777); /* a failure shows at the last one */
        *p = '/';
    }
    return make_dir(path, err);
}

static bool has_log_dir(const struct errfile *e)
{
    return e->conf->log_dir[0] != '\0';
}

static int make_temporary(const struct errfile *e,
                          char path[PATH_MAX],
                          struct ddp_err *err)
{
    if (tmpfolder_make(path, PATH_MAX))
        return 0;
    (void)ddp_err_sys(err, DDP_E_CONFIG, "cannot make a folder in %s", path);
    return e->conf->output.files
               ? ddp_err_wrap(err, "the log files (-r, -t, filters) need a "
                                   "--log_dir or another TMPDIR")
               : -1;
}

/* The folder in which the run's folder is made. */
static int
find_parent(const struct errfile *e, char parent[PATH_MAX], struct ddp_err *err)
{
    const char *log_dir = e->conf->log_dir;
    if (!has_log_dir(e))
        return make_temporary(e, parent, err);
    if (make_way(log_dir, err) != 0)
        return -1;
    return realpath(log_dir, parent) != NULL ? 0 : cannot_make(log_dir, err);
}

/* NEW: makes the run's folder. */
static int begin(struct errfile *e, struct ddp_err *err)
{
    char parent[PATH_MAX], path[PATH_MAX], id[RNG_ID_LEN + 1];
    ddp_assert(e->state == ERRFILE_NEW && e->base[0] == '\0');
    if (find_parent(e, parent, err) != 0)
        return -1;
    bool temporary = !has_log_dir(e) && !e->conf->output.files;
    rng_id(id);
    if (temporary)
        set_path(path, sizeof(e->base), "%s", parent);
    else
        set_path(path, sizeof(e->base), "%s/%.80s_%.8s", parent,
                 e->conf->run_id, id);
    if (!temporary && make_dir(path, err) != 0)
        return -1;
    memcpy(e->base, path, strlen(path) + 1);
    e->state = temporary ? ERRFILE_TEMPORARY : ERRFILE_KEPT;
    return 0;
}

int errfile_init(struct errfile *e,
                 const struct conf *conf,
                 struct ddp_err *err)
{
    *e = (struct errfile){.conf = conf, .state = ERRFILE_NEW, .made = -1};
    if (strcmp(conf->log_dir, "/dev/null") == 0)
        e->state = ERRFILE_NONE;
    bool now = has_log_dir(e) || conf->output.files;
    if (!now || e->state != ERRFILE_NEW || begin(e, err) == 0)
        return 0;
    return has_log_dir(e) ? ddp_err_wrap(err, "--log_dir=%s", conf->log_dir)
                          : -1;
}

/* Somebody may have removed it, such as one who cleans up in /tmp. In a folder
 * that all may write to it is not made anew under a name that all know. */
static int make_base(struct errfile *e, struct ddp_err *err)
{
    if (e->state != ERRFILE_NEW && access(e->base, F_OK) == 0)
        return 0;
    e->made = -1;
    if (e->state == ERRFILE_KEPT && has_log_dir(e))
        return make_way(e->base, err);
    e->state = ERRFILE_NEW;
    e->base[0] = '\0';
    return begin(e, err);
}

/* The folders of torchrun's layout. */
static int make_folders(struct errfile *e,
                        long long attempt,
                        int local_rank,
                        struct ddp_err *err)
{
    char path[ERRFILE_PATH_MAX];
    if (make_base(e, err) != 0)
        return -1;
    if (e->state != ERRFILE_KEPT)
        return 0;
    if (e->made != attempt) {
        set_path(path, sizeof(path), "%s/attempt_%lld", e->base, attempt);
        if (make_dir(path, err) != 0)
            return -1;
    }
    set_path(path, sizeof(path), "%s/attempt_%lld/%d", e->base, attempt,
             local_rank);
    return make_dir(path, err);
}

static void go_without(struct errfile *e, const struct ddp_err *err)
{
    if (!e->told)
        log_warnx("%s; the workers run without error files%s", err->text,
                  e->conf->output.files
                      ? " and log files, their output goes to the console"
                      : "");
    e->told = true;
}

void errfile_prepare(struct errfile *e,
                     long long attempt,
                     int local_rank,
                     char *path,
                     char *folder)
{
    char aside[ERRFILE_PATH_MAX + 8];
    struct ddp_err err;
    path[0] = folder[0] = '\0';
    check(e);
    ddp_assert(local_rank >= 0 && local_rank < e->conf->nproc);
    if (e->state == ERRFILE_NONE)
        return;
    if (make_folders(e, attempt, local_rank, &err) != 0) {
        go_without(e, &err);
        return;
    }
    e->told = false;
    switch (e->state) {
    case ERRFILE_TEMPORARY:
        set_path(path, ERRFILE_PATH_MAX, "%s/attempt_%lld.%d." ERRFILE_NAME,
                 e->base, attempt, local_rank);
        break;
    case ERRFILE_KEPT:
        set_path(folder, ERRFILE_PATH_MAX, "%s/attempt_%lld/%d", e->base,
                 attempt, local_rank);
        set_path(path, ERRFILE_PATH_MAX, "%s/attempt_%lld/%d/" ERRFILE_NAME,
                 e->base, attempt, local_rank);
        break;
    case ERRFILE_NEW:
    case ERRFILE_NONE:
        DDP_WRONG("error files that were not begun");
    }
    set_path(aside, sizeof(aside), "%s.old", path);
    if (e->made == attempt && local_rank < e->places)
        (void)rename(path, aside); /* ENOENT, as a rule */
    else
        e->places = local_rank + 1;
    e->made = attempt;
}

/* -- reading --------------------------------------------------------------- */

static const char *text_of(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* {"message": "text"} or {"message": {"message": "text", ...}}: torch,
 * distributed/elastic/multiprocessing/errors/error_handler.py. */
static const char *find_text(const cJSON *root)
{
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(root, "message");
    if (cJSON_IsObject(message))
        message = cJSON_GetObjectItemCaseSensitive(message, "message");
    return text_of(message);
}

/* Whether "\\uXXXX" stands there; its number comes to `unit`. */
static bool read_unit(const char *at, unsigned *unit)
{
    char digits[5] = "";
    char *end;
    if (at[0] != '\\' || at[1] != 'u')
        return false;
    (void)snprintf(digits, sizeof(digits), "%.4s", at + 2);
    *unit = (unsigned)strtoul(digits, &end, 16);
    return end == digits + 4;
}

/* What stands for itself of an escape within a string: its length. 0: a half
 * of a pair, or a NUL, which no text of ours can hold. */
static size_t good_escape(const char *at)
{
    unsigned unit, second;
    if (!read_unit(at, &unit))
        return at[1] != '\0' ? 2 : 1;
    if (unit == 0 || (unit >= 0xdc00 && unit < 0xe000))
        return 0;
    if (unit < 0xd800 || unit >= 0xe000)
        return 6;
    return read_unit(at + 6, &second) && second >= 0xdc00 && second < 0xe000
               ? 12
               : 0;
}

/* Python's json writes these for numbers that are none. */
static size_t odd_number(const char *at)
{
    static const char *const odd[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (strncmp(at, odd[i], strlen(odd[i])) == 0)
            return strlen(odd[i]);
    return 0;
}

/* A copy with U+FFFD for half a pair, and null for a number that is none; at
 * most twice as long. NULL: no memory. */
static char *mend(const char *json)
{
    char *good = malloc(2 * strlen(json) + 1), *to = good;
    bool inside = false; /* a string */
    while (good != NULL && *json != '\0') {
        size_t len = 1, odd = inside ? 0 : odd_number(json);
        const char *instead = odd > 0 ? "null" : NULL;
        if (inside && *json == '\\') {
            len = good_escape(json);
            instead = len == 0 ? "\\ufffd" : NULL;
            odd = 6;
        }
        inside ^= *json == '"';
        if (instead != NULL) {
            to = stpcpy(to, instead);
            json += odd;
            continue;
        }
        memcpy(to, json, len);
        to += len;
        json += len;
    }
    if (good != NULL)
        *to = '\0';
    return good;
}

/* The file as JSON can be read; NULL: there is none that can, and then `size`
 * is that of a plain file which is too large, else 0. */
static char *slurp(const char *path, int64_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *size = 0;
    if (fd < 0)
        return NULL;
    struct stat st;
    char *text = NULL, *good = NULL;
    bool plain = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (plain && st.st_size > FILE_MAX)
        *size = st.st_size;
    else if (plain && st.st_size > 0)
        text = calloc((size_t)st.st_size + 1, 1);
    if (text != NULL && read(fd, text, (size_t)st.st_size) < 0)
        text[0] = '\0';
    if (text != NULL)
        good = mend(text);
    free(text);
    (void)close(fd); /* read only */
    return good;
}

/* The traceback that @record writes beside its message. */
static void take_trace(const cJSON *root, char *trace, size_t size)
{
    const cJSON *at = cJSON_GetObjectItemCaseSensitive(root, "message");
    at = cJSON_GetObjectItemCaseSensitive(at, "extraInfo");
    const char *found =
        text_of(cJSON_GetObjectItemCaseSensitive(at, "py_callstack"));
    size_t len = found != NULL ? strlen(found) : 0;
    if (len >= size) { /* the end of it, not from within a character */
        found += len - size + 1;
        while (((unsigned char)*found & 0xC0u) == 0x80u)
            found++;
    }
    if (found != NULL)
        msg_set_text(trace, size, found);
}

void errfile_read(const char *path,
                  char text[ERRFILE_TEXT_MAX + 1],
                  char *trace,
                  size_t size)
{
    ddp_assert(size > 0);
    text[0] = trace[0] = '\0';
    int64_t size_of_it = 0;
    char *json = path[0] != '\0' ? slurp(path, &size_of_it) : NULL;
    if (size_of_it > 0)
        (void)snprintf(text, ERRFILE_TEXT_MAX + 1,
                       "its error file of %lld bytes is too large to be read "
                       "here, see %.300s",
                       (long long)size_of_it, path);
    if (json == NULL)
        return;
    cJSON *root = cJSON_Parse(json);
    const char *found = find_text(root);
    if (found != NULL) {
        msg_set_text(text, ERRFILE_TEXT_MAX + 1, found);
        for (char *p = text; *p != '\0'; p++)
            if ((unsigned char)*p < ' ' || *p == 0x7f)
                *p = ' ';
    } else {
        (void)snprintf(text, ERRFILE_TEXT_MAX + 1,
                       "its error file is not what @record writes: %.200s",
                       path);
    }
    take_trace(root, trace, size);
    cJSON_Delete(root);
    free(json);
}

/* -- passing on ------------------------------------------------------------ */

/* In place: it may be a mount, such as a container's /dev/termination-log. */
static bool write_whole(const char *path, const char *text)
{
    int fd = open(
        path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        0666);
    size_t len = strlen(text);
    if (fd < 0)
        return false;
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        text += n;
        len -= (size_t)n;
    }
    int error = errno;
    bool good = close(fd) == 0 && len == 0;
    errno = len > 0 ? error : errno;
    return good;
}

void errfile_pass_on(const char *path, int code)
{
    const char *to = getenv("TORCHELASTIC_ERROR_FILE");
    if (to == NULL || to[0] == '\0' || path[0] == '\0')
        return;
    int64_t size = 0;
    char *json = slurp(path, &size);
    if (size > 0)
        log_warnx("the error file %s of %lld bytes is too large to be copied "
                  "to %s (TORCHELASTIC_ERROR_FILE)",
                  path, (long long)size, to);
    cJSON *root = json != NULL ? cJSON_Parse(json) : NULL;
    cJSON *message = cJSON_GetObjectItemCaseSensitive(root, "message");
    if (cJSON_IsObject(message)) {
        cJSON_DeleteItemFromObjectCaseSensitive(message, "errorCode");
        (void)cJSON_AddNumberToObject(message, "errorCode", code);
    }
    char *text = message != NULL ? cJSON_PrintUnformatted(root) : NULL;
    if (text != NULL && !write_whole(to, text))
        log_warn("cannot write to %s (TORCHELASTIC_ERROR_FILE), which should "
                 "get the error of the worker that failed first",
                 to);
    cJSON_free(text);
    cJSON_Delete(root);
    free(json);
}

const char *errfile_folder(const struct errfile *e)
{
    return e->state == ERRFILE_KEPT ? e->base : "";
}

const char *errfile_temporary(const struct errfile *e)
{
    return e->state == ERRFILE_TEMPORARY ? e->base : "";
}

void errfile_clean(const struct errfile *e)
{
    check(e);
    if (e->state == ERRFILE_TEMPORARY)
        tmpfolder_remove(e->base);
    else if (e->state == ERRFILE_KEPT && e->made < 0)
        (void)rmdir(e->base); /* empty, or somebody's */
}
