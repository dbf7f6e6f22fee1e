/*
 * Happy path: the first worker that starts makes the folder (begin), each
 * worker gets a path in it, and when one failed its file is read, at most
 * FILE_MAX bytes of a plain file.
 *
 * Failure modes: none of them stops training.
 * - No folder can be made: said once, and the state is ERRFILE_NONE from then
 *   on.
 * - An earlier round of the same attempt left a file: it is moved aside, so
 *   that the failure of that round is not told again for this one.
 * - A worker writes something else than @record does, or puts a FIFO or a
 *   device there: the message says so, or nothing is read; opening never waits.
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

static void give_up(struct errfile *e, const char *path)
{
    log_warnx("cannot make the folder %s: %s; the workers run without error "
              "files%s",
              path, strerror(errno),
              e->conf->output.files
                  ? " and log files, and redirected output is lost"
                  : "");
    e->state = ERRFILE_NONE;
    e->base[0] = '\0';
}

static bool make_dir(struct errfile *e, const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    give_up(e, path);
    return false;
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
static bool make_way(struct errfile *e, const char *path)
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
    return make_dir(e, path);
}

void errfile_init(struct errfile *e, const struct conf *conf)
{
    *e = (struct errfile){.conf = conf, .state = ERRFILE_NEW, .made = -1};
}

/* Finds the folder in which the run's folder is made. False: the run needs
 * none, since it has the temporary folder, or gets none. */
static bool find_parent(struct errfile *e, char parent[PATH_MAX])
{
    const char *log_dir = e->conf->log_dir;
    if (log_dir[0] == '\0') {
        if (!tmpfolder_make(e->base, sizeof(e->base)))
            give_up(e, e->base);
        else
            e->state = ERRFILE_TEMPORARY;
        set_path(parent, PATH_MAX, "%s", e->base);
        return e->state == ERRFILE_TEMPORARY && e->conf->output.files;
    }
    if (!make_way(e, log_dir))
        return false;
    if (realpath(log_dir, parent) != NULL)
        return true;
    give_up(e, log_dir);
    return false;
}

static void begin(struct errfile *e)
{
    char parent[PATH_MAX], id[RNG_ID_LEN + 1];
    ddp_assert(e->state == ERRFILE_NEW);
    if (strcmp(e->conf->log_dir, "/dev/null") == 0)
        e->state = ERRFILE_NONE;
    if (e->state == ERRFILE_NONE || !find_parent(e, parent))
        return;
    e->state = ERRFILE_KEPT;
    rng_id(id);
    set_path(e->base, sizeof(e->base), "%s/%.80s_%.8s", parent, e->conf->run_id,
             id);
    (void)make_dir(e, e->base);
}

/* The folders of torchrun's layout; false: they cannot be made. */
static bool make_folders(struct errfile *e, long long attempt, int local_rank)
{
    char path[ERRFILE_PATH_MAX];
    if (e->made != attempt) {
        set_path(path, sizeof(path), "%s/attempt_%lld", e->base, attempt);
        if (!make_dir(e, path))
            return false;
    }
    set_path(path, sizeof(path), "%s/attempt_%lld/%d", e->base, attempt,
             local_rank);
    return make_dir(e, path);
}

void errfile_prepare(struct errfile *e,
                     long long attempt,
                     int local_rank,
                     char *path,
                     char *folder)
{
    char aside[ERRFILE_PATH_MAX + 8];
    path[0] = folder[0] = '\0';
    if (e->state == ERRFILE_NEW)
        begin(e);
    check(e);
    ddp_assert(local_rank >= 0 && local_rank < e->conf->nproc);
    if (e->state == ERRFILE_KEPT && !make_folders(e, attempt, local_rank))
        return;
    switch (e->state) {
    case ERRFILE_NONE:
        return;
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
        DDP_WRONG("error files that were not begun");
    }
    set_path(aside, sizeof(aside), "%s.old", path);
    (void)rename(path, aside); /* ENOENT, as a rule */
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

static void one_line(const char *text, char out[ERRFILE_TEXT_MAX + 1])
{
    msg_set_text(out, ERRFILE_TEXT_MAX + 1, text);
    for (char *p = out; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = ' ';
}

static char *slurp(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    struct stat st;
    char *text = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= FILE_MAX)
        text = calloc((size_t)st.st_size + 1, 1);
    if (text != NULL && read(fd, text, (size_t)st.st_size) < 0)
        text[0] = '\0';
    (void)close(fd); /* read only */
    return text;
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
    char *json = path[0] != '\0' ? slurp(path) : NULL;
    if (json == NULL)
        return;
    cJSON *root = cJSON_Parse(json);
    const char *found = find_text(root);
    if (found != NULL)
        one_line(found, text);
    else
        (void)snprintf(text, ERRFILE_TEXT_MAX + 1,
                       "its error file is not what @record writes: %.200s",
                       path);
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
    char *json = slurp(path);
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
}
