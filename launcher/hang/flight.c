/*
 * Happy path: for each worker of this node the old dump is removed, and its
 * pipe gets a byte. Then Python reads the dumps: they are pickles, and only
 * Python's own reader of these is worth trusting.
 *
 * Failure modes: none of them delays the hang's end by more than the stacks
 * may take (hang_watch).
 * - The file system of the pipes does not answer (NFS): it holds a process of
 *   its own, which is given up.
 * - A worker has no pipe (no NCCL, a recorder that is off): it is not asked.
 *   Without any, no Python is started.
 * - A pipe that no process reads, or a file that is no pipe: not asked. Opening
 *   and writing never wait.
 * - There is no Python, or it fails: no sentence. The dumps stay.
 */
#include "launcher/hang/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/hang/stacks.h"
#include "launcher/worker/env.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

#define OWN_S    "8"           /* for this node's dumps */
#define OTHERS_S "5"           /* for the other nodes' */
#define ASKER_US (20 * MONO_S) /* the life of all that at most */

#define ARGS_FIXED 12 /* before the files */
#define ARG_MAX    (WORKERS_PATH_MAX + 32)

/* The Makefile says that this object depends on the file. */
extern const char flight_reader[];
__asm__(".pushsection .rodata\n"
        ".global flight_reader\n"
        ".type flight_reader, %object\n"
        "flight_reader:\n"
        ".incbin \"launcher/hang/flight.py\"\n"
        ".byte 0\n"
        ".size flight_reader, . - flight_reader\n"
        ".popsection\n");

/* Where the worker's file lies: what the user has set is the user's. */
static void find_path(const struct flight_of *of,
                      int local_rank,
                      const char *variable,
                      const char *end,
                      char path[ARG_MAX])
{
    char own[WORKERS_PATH_MAX];
    const char *stem = getenv(variable);
    if (stem == NULL) {
        workers_path(of->workers, local_rank, FLIGHT_NAME, own);
        stem = own;
    }
    int n = snprintf(path, ARG_MAX, "%s%lld%s", stem,
                     (long long)(of->base_rank + local_rank), end);
    if (stem[0] == '\0' || n >= ARG_MAX)
        path[0] = '\0';
}

/* Whether the process will see it. */
static bool write_wish(const char *pipe, const char *dump)
{
    struct stat st;
    int fd = open(pipe, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && (errno == ENOENT || errno == ENXIO))
        return false; /* there is none, or no process reads it */
    bool is_pipe = fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
    if (is_pipe)
        (void)unlink(dump); /* an old one; PyTorch would overwrite it */
    bool good = is_pipe && write(fd, "\n", 1) == 1;
    if (!good)
        log_warn("cannot ask PyTorch's flight recorder through %s", pipe);
    if (fd >= 0)
        (void)close(fd); /* of a pipe: nothing is lost */
    return good;
}

/* Returns "RANK=FILE", malloc'd; NULL: this worker cannot be asked. */
static char *ask_one(const struct flight_of *of, int local_rank)
{
    char pipe[ARG_MAX], dump[ARG_MAX], *arg;
    const char *variable =
        getenv(FLIGHT_DUMP_VAR) != NULL || getenv(FLIGHT_DUMP_OLD_VAR) == NULL
            ? FLIGHT_DUMP_VAR
            : FLIGHT_DUMP_OLD_VAR;
    if (workers_pid(of->workers, local_rank) == 0)
        return NULL;
    find_path(of, local_rank, FLIGHT_PIPE_VAR, ".pipe", pipe);
    find_path(of, local_rank, variable, "", dump);
    if (pipe[0] == '\0' || dump[0] == '\0' || !write_wish(pipe, dump))
        return NULL;
    long long rank = (long long)(of->base_rank + local_rank);
    return asprintf(&arg, "%lld=%s", rank, dump) < 0 ? NULL : arg;
}

/* The Python that a worker runs; that of PATH if none does. */
static void find_python(const struct flight_of *of, char exe[STACKS_EXE_MAX])
{
    for (int i = 0; i < of->n; i++) {
        pid_t pid = workers_pid(of->workers, i);
        if (pid > 0 && stacks_find_python(pid, exe))
            return;
    }
    (void)snprintf(exe, STACKS_EXE_MAX, "python3");
}

__attribute__((noreturn)) static void exec_reader(int fd, char **argv)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    helper_take_signals();
    (void)dup2(null, STDIN_FILENO);
    if (dup2(fd, STDOUT_FILENO) < 0) {
        log_warn("cannot have PyTorch's flight recorder read");
        _exit(1);
    }
    (void)dup2(null, STDERR_FILENO);
    (void)execvp(argv[0], argv);
    char other[] = "python3"; /* its file was replaced since it began */
    argv[0] = other;
    (void)execvp(argv[0], argv);
    _exit(127);
}

static void start_reader(int fd, const struct flight_of *of, char **argv)
{
    char exe[STACKS_EXE_MAX], addr[sizeof(of->master_addr)], prefix[48];
    char port[24], world[24], first[24], count[24];
    find_python(of, exe);
    (void)snprintf(port, sizeof(port), "%lld", (long long)of->master_port);
    (void)snprintf(prefix, sizeof(prefix), "ddprun/flight/%lld",
                   (long long)of->round);
    (void)snprintf(world, sizeof(world), "%lld", (long long)of->world_size);
    (void)snprintf(first, sizeof(first), "%lld", (long long)of->base_rank);
    (void)snprintf(count, sizeof(count), "%d", of->n);
    char isolated[] = "-IS", code[] = "-c", own[] = OWN_S, others[] = OTHERS_S;
    (void)snprintf(addr, sizeof(addr), "%s", of->master_addr);
    /* execvp's type is older than const. */
    char *text = strdup(flight_reader);
    char *fixed[ARGS_FIXED] = {exe,    isolated, code,  text,  addr, port,
                               prefix, world,    first, count, own,  others};
    memcpy(argv, fixed, sizeof(fixed));
    if (text != NULL)
        exec_reader(fd, argv);
}

/* In a process of its own: what it allocates goes with it. */
static void ask_all(int fd, const struct flight_of *of)
{
    size_t asked = 0, room = ARGS_FIXED + (size_t)of->n + 1;
    char **argv = calloc(room, sizeof(*argv));
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; argv != NULL && i < of->n; i++) {
        char *arg = ask_one(of, i);
        if (arg != NULL)
            argv[ARGS_FIXED + asked++] = arg;
    }
    if (asked > 0)
        start_reader(fd, of, argv);
    _exit(1);
}

pid_t flight_ask(int fd, const struct flight_of *of)
{
    pid_t asker = fd >= 0 ? fork() : -1;
    if (asker == 0)
        ask_all(fd, of);
    if (asker < 0 && fd >= 0)
        log_warn("cannot start a process that asks PyTorch's flight recorder");
    return asker > 0 ? asker : 0;
}

void flight_wait(pid_t asker, int64_t started_us)
{
    helper_wait(&asker, mono_after(started_us, ASKER_US));
}

void flight_text(int fd, char text[FLIGHT_TEXT_MAX + 1])
{
    ssize_t n = fd < 0 ? 0 : pread(fd, text, FLIGHT_TEXT_MAX, 0);
    if (n < 0)
        log_warn("cannot read what PyTorch's flight recorder said");
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    for (char *at = text; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

/* The line behind the sentence: "away 2 5-7", of 4000 bytes at most. */
bool flight_is_away(int fd, int64_t rank)
{
    char text[FLIGHT_TEXT_MAX + 4096];
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, "\naway ");
    if (at == NULL)
        return false;
    for (at += 6; *at >= '0' && *at <= '9'; at += *at == ' ') {
        char *end;
        int64_t first = strtoll(at, &end, 10), last = first;
        if (*end == '-')
            last = strtoll(end + 1, &end, 10);
        if (rank >= first && rank <= last)
            return true;
        at = end;
    }
    return false;
}
