#include "launcher/errfile.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/rng.h"

#define FILE_MAX (1024 * 1024)

static void give_up(struct errfile *e, const char *path)
{
    if (!e->complained)
        log_warn("workers get no error files: cannot make the folder %s", path);
    e->complained = true;
    e->base[0] = '\0';
}

static bool make_dir(struct errfile *e, const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    give_up(e, path);
    return false;
}

static bool make_tmp(struct errfile *e)
{
    const char *root = getenv("TMPDIR");
    if (root == NULL || root[0] != '/' || strlen(root) > 40)
        root = "/tmp";
    (void)snprintf(e->tmp, sizeof(e->tmp), "%s/ddprun_XXXXXX", root);
    if (mkdtemp(e->tmp) != NULL)
        return true;
    give_up(e, root);
    e->tmp[0] = '\0';
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

void errfile_init(struct errfile *e, const struct conf *conf)
{
    *e = (struct errfile){.complained = false};
    if (strcmp(conf->log_dir, "/dev/null") == 0)
        return;
    if (conf->log_dir[0] == '\0' && !make_tmp(e))
        return;
    const char *root = conf->log_dir[0] != '\0' ? conf->log_dir : e->tmp;
    char whole[PATH_MAX];
    if (!make_dir(e, root))
        return;
    if (realpath(root, whole) == NULL) {
        give_up(e, root);
        return;
    }
    char id[RNG_ID_LEN + 1];
    rng_id(id);
    set_path(e->base, sizeof(e->base), "%s/%.80s_%.8s", whole, conf->run_id,
             id);
    (void)make_dir(e, e->base);
}

void errfile_prepare(struct errfile *e,
                     long long attempt,
                     int local_rank,
                     char *path)
{
    char aside[ERRFILE_PATH_MAX + 8];
    size_t size = ERRFILE_PATH_MAX;
    path[0] = '\0';
    if (e->base[0] == '\0')
        return;
    set_path(path, size, "%s/attempt_%lld", e->base, attempt);
    if (make_dir(e, path)) {
        set_path(path, size, "%s/attempt_%lld/%d", e->base, attempt,
                 local_rank);
        (void)make_dir(e, path);
    }
    if (e->base[0] == '\0') {
        path[0] = '\0';
        return;
    }
    set_path(path, size, "%s/attempt_%lld/%d/error.json", e->base, attempt,
             local_rank);
    set_path(aside, sizeof(aside), "%s.old", path);
    (void)rename(path, aside); /* ENOENT, as a rule */
}

/* -- reading
 * ----------------------------------------------------------------------- */

static const char *text_of(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* {"message": "text"} or {"message": {"message": "text", ...}}, TORCHRUN.md 3
 */
static const char *find_text(const cJSON *root)
{
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(root, "message");
    if (cJSON_IsObject(message))
        message = cJSON_GetObjectItemCaseSensitive(message, "message");
    return text_of(message);
}

static void one_line(const char *text, char out[ERRFILE_TEXT_MAX + 1])
{
    size_t n = 0;
    for (; *text != '\0' && n < ERRFILE_TEXT_MAX; text++) {
        unsigned char c = (unsigned char)*text;
        out[n++] = c < 0x20 || c == 0x7f ? ' ' : *text;
    }
    out[n] = '\0';
}

static char *slurp(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

void errfile_read(const char *path, char text[ERRFILE_TEXT_MAX + 1])
{
    text[0] = '\0';
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
    cJSON_Delete(root);
    free(json);
}

/* rmdir only: whatever a worker wrote stays. */
static int remove_if_empty(const char *path,
                           const struct stat *st,
                           int type,
                           struct FTW *at)
{
    (void)st;
    (void)at;
    if (type == FTW_DP)
        (void)rmdir(path);
    return 0;
}

void errfile_clean(const struct errfile *e)
{
    if (e->tmp[0] != '\0')
        (void)nftw(e->tmp, remove_if_empty, 8, FTW_DEPTH | FTW_PHYS);
}
