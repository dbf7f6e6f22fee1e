#include "launcher/conf/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/access.h"

static bool has_file(const char *folder, const char *name)
{
    char path[4096 + 32];
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

/* Whether the file at `path` can be executed; `name` is what to call it. */
static int
check_executable(const char *path, const char *name, struct ddp_err *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        bool gone = errno == ENOENT || errno == ENOTDIR;
        return ddp_err_sys(err, gone ? DDP_E_NOTFOUND : DDP_E_NOTEXEC, "%.300s",
                           name);
    }
    if (S_ISDIR(st.st_mode))
        return ddp_err_set(
            err, DDP_E_NOTEXEC, "%.300s: this is a folder%s", name,
            has_file(path, "__main__.py") ? " with a __main__.py: to run it "
                                            "with Python add --run_path"
                                          : ", not a program");
    if (!S_ISREG(st.st_mode) || access_at(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
        return ddp_err_set(err, DDP_E_NOTEXEC,
                           "%.200s: not executable; run chmod +x on it, put "
                           "its interpreter before it, or add --run_path if "
                           "Python is to run it",
                           name);
    return 0;
}

static int too_long(const char *name, struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_NOTFOUND, "%.200s: the name is too long",
                       name);
}

/* Tries DIR/NAME; an empty DIR is the current folder. */
static int try_path(const char *dir,
                    size_t dir_len,
                    const char *name,
                    char *path,
                    size_t cap,
                    struct ddp_err *err)
{
    ddp_assert(strchr(name, '/') == NULL);
    if (dir_len == 0)
        return try_path(".", 1, name, path, cap, err);
    size_t name_len = strlen(name);
    if (name_len >= cap || dir_len + 1 >= cap - name_len)
        return too_long(name, err);
    memcpy(path, dir, dir_len);
    path[dir_len] = '/';
    memcpy(path + dir_len + 1, name, name_len + 1);
    return check_executable(path, path, err);
}

/* Finds the first in PATH that is executable, as execvp(3) does. A file that is
 * not executable does not end the search; it becomes the error if nothing
 * better is found. */
static int
search_path(const char *name, char *path, size_t cap, struct ddp_err *err)
{
    const char *dirs = getenv("PATH");
    if (dirs == NULL)
        dirs = "/usr/local/bin:/usr/bin:/bin";
    struct ddp_err first = {.code = DDP_E_OK};
    for (;;) {
        size_t len = strcspn(dirs, ":");
        struct ddp_err e;
        if (try_path(dirs, len, name, path, cap, &e) == 0)
            return 0;
        if (e.code == DDP_E_NOTEXEC && first.code == DDP_E_OK)
            first = e;
        if (dirs[len] == '\0')
            break;
        dirs += len + 1;
    }
    if (first.code != DDP_E_OK)
        return ddp_err_set(err, first.code, "%s", first.text);
    if (access(name, F_OK) != 0)
        return ddp_err_set(err, DDP_E_NOTFOUND, "%.150s: not found in PATH",
                           name);
    return ddp_err_set(
        err, DDP_E_NOTFOUND,
        "%.150s: not found in PATH; did you mean ./%.150s%s?", name, name,
        check_executable(name, name, NULL) == 0 ? "" : ", or --run_path");
}

int program_find(const char *name, char *path, size_t cap, struct ddp_err *err)
{
    if (strchr(name, '/') == NULL)
        return search_path(name, path, cap, err);
    size_t len = strlen(name);
    if (len >= cap)
        return too_long(name, err);
    memcpy(path, name, len + 1);
    return check_executable(path, name, err);
}

/* The python of an environment: DIR/bin/NAME; there may be no DIR. */
static bool
find_env_python(const char *dir, const char *name, char *path, size_t cap)
{
    if (dir == NULL || dir[0] == '\0')
        return false;
    int n = snprintf(path, cap, "%s/bin/%s", dir, name);
    return n > 0 && (size_t)n < cap && check_executable(path, path, NULL) == 0;
}

/*
 * The virtual environment in whose bin/ this program lies: pip put it there,
 * with the packages of the job. NULL: it lies elsewhere, or pipx or uv made the
 * environment for this one tool, without those packages.
 */
static const char *own_environment(char *dir, size_t cap)
{
    static const char in_bin[] = "/bin/ddprun";
    ssize_t n = readlink("/proc/self/exe", dir, cap);
    size_t tail = sizeof(in_bin) - 1;
    if (n <= (ssize_t)tail || (size_t)n >= cap)
        return NULL;
    char *end = dir + n - tail;
    if (memcmp(end, in_bin, tail) != 0)
        return NULL;
    *end = '\0';
    bool of_a_tool =
        has_file(dir, "pipx_metadata.json") || has_file(dir, "uv-receipt.toml");
    return has_file(dir, "pyvenv.cfg") && !of_a_tool ? dir : NULL;
}

int program_find_python(char *path, size_t cap, struct ddp_err *err)
{
    const char *named = getenv("PYTHON_EXEC");
    if (named != NULL && named[0] != '\0') {
        if (program_find(named, path, cap, err) < 0)
            return ddp_err_wrap(err, "PYTHON_EXEC");
        return 0;
    }
    char own[4096];
    if (find_env_python(getenv("VIRTUAL_ENV"), "python3", path, cap) ||
        find_env_python(getenv("VIRTUAL_ENV"), "python", path, cap) ||
        find_env_python(own_environment(own, sizeof(own)), "python3", path,
                        cap) ||
        find_env_python(getenv("CONDA_PREFIX"), "python", path, cap))
        return 0;
    if (program_find("python3", path, cap, err) < 0)
        return ddp_err_wrap(err, "cannot find a Python interpreter");
    return 0;
}

int program_check_script(const char *script, struct ddp_err *err)
{
    struct stat st;
    if (stat(script, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return ddp_err_sys(err, DDP_E_NOTFOUND, "%.300s", script);
    if (access_at(AT_FDCWD, script, R_OK, AT_EACCESS) < 0)
        return ddp_err_sys(err, DDP_E_NOINPUT, "%.300s", script);
    return 0;
}

bool program_is_script(const char *name)
{
    size_t len = strlen(name);
    return len > 3 && strcmp(name + len - 3, ".py") == 0;
}
