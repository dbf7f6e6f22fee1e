/*
 * Each function here has the name of one of libc's, by an asm label, and takes
 * what that one takes: six words at most, in registers, whatever their types
 * are (x86-64, aarch64; also where libc's has "..."). So one macro makes all of
 * them, and no header is in the way. What it returns is libc's as well: -1,
 * NULL or an error number.
 *
 * Counts and the plan lie in a page that all processes share. Nothing here
 * allocates, and the log is opened for each line: a process may close whatever
 * it does not know.
 */
#include "tests/lib/fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/fault_priv.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
/* The same on every architecture; older headers lack them. */
#define NR_PIDFD_SIGNAL 424
#define NR_PIDFD_OPEN   434

/* -- the tables ------------------------------------------------------------ */

/* clang-format off */
static const struct {
    int number;
    const char *name;
} errors[] = {
#define X(name) {name, #name},
    X(EPERM) X(ENOENT) X(ESRCH) X(EINTR) X(EIO) X(EAGAIN) X(ENOMEM) X(EACCES)
    X(EINVAL) X(ENFILE) X(EMFILE) X(EFBIG) X(ENOSPC) X(ENOSYS) X(EDQUOT)
    X(ENOLCK) X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENOBUFS) X(ECONNABORTED)
    X(ECONNREFUSED)
#undef X
};
/* clang-format on */

static const struct {
    const char *name;
    int errors[FAULT_ERRORS_MAX];
} kinds[FAULT_KIND_COUNT] = {
#define X(name, ...) [FAULT_##name] = {#name, {__VA_ARGS__}},
    FAULT_KINDS(X)
#undef X
};

enum role {
    TEST,
    GUARD,
    SPLIT,
    AGENT,
    JANITOR,
    CHILD,
    WORKER,
    HELPER,
    ROLES = HELPER + 9,
};

static const char *const roles[ROLES] = {
    "test",    "guard",   "split",   "agent",   "janitor", "child",
    "worker",  "helper1", "helper2", "helper3", "helper4", "helper5",
    "helper6", "helper7", "helper8", "helper9",
};

enum symbol {
#define X(symbol, kind, fails_with) SYMBOL_##symbol,
    FAULT_SYMBOLS(X)
#undef X
    SYMBOL_fork,
    SYMBOL_setsid,
    SYMBOL_prctl,
    SYMBOL_syscall,
    SYMBOLS
};

static const char *const symbols[SYMBOLS] = {
#define X(symbol, kind, fails_with) [SYMBOL_##symbol] = #symbol,
    FAULT_SYMBOLS(X)
#undef X
        [SYMBOL_fork] = "fork",
    [SYMBOL_setsid] = "setsid",
    [SYMBOL_prctl] = "prctl",
    [SYMBOL_syscall] = "syscall",
};

/* -- what processes share -------------------------------------------------- */

struct shared {
    atomic_int calls[ROLES][FAULT_KIND_COUNT];
    atomic_int struck;
    atomic_int helpers;
    atomic_uintptr_t helper_site; /* where an agent forks them; 0: not yet */
    enum role role;               /* the plan */
    enum fault_kind kind;
    int n; /* 0: nothing fails */
    int error;
    bool onwards;
    bool logs_all;
    char log[256];
};

static struct shared *shared;
static enum role own;
static pid_t own_pid;
static bool counts; /* this process takes part */
static int helper;  /* which one of its parent's, from 0; -1: not known */

typedef long (*call_fn)(long a, long b, long c, long d, long e, long f, long g);

static call_fn real(enum symbol symbol)
{
    static call_fn found[SYMBOLS];
    if (found[symbol] == NULL) {
        void *address = dlsym(RTLD_NEXT, symbols[symbol]);
        if (address == NULL)
            abort();
        memcpy(&found[symbol], &address, sizeof(address));
    }
    return found[symbol];
}

static long raw(long number, long a, long b, long c, long d)
{
    return real(SYMBOL_syscall)(number, a, b, c, d, 0, 0);
}

static void write_log(const char *line)
{
    int saved = errno;
    long fd = raw(SYS_openat, AT_FDCWD, (long)(intptr_t)shared->log,
                  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) {
        (void)raw(SYS_write, fd, (long)(intptr_t)line, (long)strlen(line), 0);
        (void)raw(SYS_close, fd, 0, 0, 0);
    }
    errno = saved;
}

static const char *error_name(int number)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].number == number)
            return errors[i].name;
    return "?";
}

static void log_call(enum fault_kind kind, int n)
{
    char line[256];
    int len = snprintf(line, sizeof(line), "%s %s %d ", roles[own],
                       kinds[kind].name, n);
    for (int i = 0; i < FAULT_ERRORS_MAX && kinds[kind].errors[i] != 0; i++)
        len += snprintf(line + len, sizeof(line) - (size_t)len, "%s%s",
                        i > 0 ? "," : "", error_name(kinds[kind].errors[i]));
    (void)snprintf(line + len, sizeof(line) - (size_t)len, "\n");
    write_log(line);
}

static void log_strike(int n)
{
    char line[128];
    (void)snprintf(line, sizeof(line), "failed %s:%s:%d:%s %d\n", roles[own],
                   kinds[shared->kind].name, n, error_name(shared->error),
                   (int)getpid());
    write_log(line);
}

/* -- roles ----------------------------------------------------------------- */

/* At the latest when a child makes its first call. */
static void become_child(void)
{
    if (own_pid == getpid())
        return;
    own_pid = getpid();
    static const enum role child_of[HELPER] = {
        [TEST] = CHILD,  [GUARD] = JANITOR, [JANITOR] = SPLIT, [SPLIT] = SPLIT,
        [AGENT] = CHILD, [CHILD] = CHILD,   [WORKER] = WORKER,
    };
    own = own < HELPER ? child_of[own] : own;
}

static void become_leader(void)
{
    if (own == SPLIT)
        own = AGENT;
    else if (own == CHILD)
        own = WORKER;
}

static void become_helper(void)
{
    if (own != CHILD || !counts)
        return;
    int n = helper >= 0 ? helper : atomic_fetch_add(&shared->helpers, 1);
    own = HELPER + n < ROLES ? (enum role)(HELPER + n) : ROLES - 1;
}

/* Counts a call. Whether it fails; then errno is set. */
static bool strikes(enum fault_kind kind)
{
    if (!counts)
        return false;
    if (getpid() != own_pid)
        become_child(); /* what pthread_atfork(3) calls comes before we do */
    int n = atomic_fetch_add(&shared->calls[own][kind], 1) + 1;
    if (shared->logs_all && shared->log[0] != '\0')
        log_call(kind, n);
    if (shared->n == 0 || shared->role != own || shared->kind != kind ||
        n < shared->n || (n > shared->n && !shared->onwards))
        return false;
    if (atomic_fetch_add(&shared->struck, 1) == 0 && shared->log[0] != '\0')
        log_strike(n);
    errno = shared->error;
    return true;
}

/* -- the calls ------------------------------------------------------------- */

#define MINUS  return -1
#define NIL    return 0
#define NUMBER return errno

#define X(symbol, kind, fails_with)                                            \
    long fault_##symbol(long a, long b, long c, long d, long e,                \
                        long f) __asm__(#symbol);                              \
    long fault_##symbol(long a, long b, long c, long d, long e, long f)        \
    {                                                                          \
        if (strikes(FAULT_##kind))                                             \
            fails_with;                                                        \
        return real(SYMBOL_##symbol)(a, b, c, d, e, f, 0);                     \
    }
FAULT_SYMBOLS(X)
#undef X

/* An agent's first child is a helper, and so are all that it forks at the same
 * place: they are numbered here, since it is chance which of them runs first.
 */
static int number_helper(uintptr_t site)
{
    uintptr_t none = 0;
    if (!counts || own != AGENT)
        return -1;
    (void)atomic_compare_exchange_strong(&shared->helper_site, &none, site);
    return atomic_load(&shared->helper_site) == site
               ? atomic_fetch_add(&shared->helpers, 1)
               : -1;
}

int fault_fork(void) __asm__("fork");
int fault_fork(void)
{
    if (strikes(FAULT_fork))
        return -1;
    helper = number_helper((uintptr_t)__builtin_return_address(0));
    int pid = (int)real(SYMBOL_fork)(0, 0, 0, 0, 0, 0, 0);
    if (pid == 0)
        become_child();
    return pid;
}

int fault_setsid(void) __asm__("setsid");
int fault_setsid(void)
{
    if (strikes(FAULT_setsid))
        return -1;
    int sid = (int)real(SYMBOL_setsid)(0, 0, 0, 0, 0, 0, 0);
    if (sid > 0)
        become_leader();
    return sid;
}

int fault_prctl(long a, long b, long c, long d, long e) __asm__("prctl");
int fault_prctl(long a, long b, long c, long d, long e)
{
    if ((int)a == PR_SET_CHILD_SUBREAPER && (int)b == 0)
        become_helper(); /* also if it fails: it is one */
    if (strikes(FAULT_prctl))
        return -1;
    return (int)real(SYMBOL_prctl)(a, b, c, d, e, 0, 0);
}

static bool syscall_strikes(long number)
{
    switch (number) {
    case SYS_clone3:
        return strikes(FAULT_clone3);
    case SYS_close_range:
        return strikes(FAULT_close_range);
    case NR_PIDFD_OPEN:
        return strikes(FAULT_pidfd_open);
    case NR_PIDFD_SIGNAL:
        return strikes(FAULT_pidfd_send_signal);
    default:
        return false;
    }
}

long fault_syscall(long number,
                   long a,
                   long b,
                   long c,
                   long d,
                   long e,
                   long f) __asm__("syscall");
long fault_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (syscall_strikes(number))
        return -1;
    long rc = real(SYMBOL_syscall)(number, a, b, c, d, e, f);
    if (number == SYS_clone3 && rc == 0)
        become_child();
    return rc;
}

/* -- plans ----------------------------------------------------------------- */

__attribute__((noreturn)) static void no_plan(const char *plan, const char *why)
{
    fprintf(stderr, "fault: '%s': %s\n", plan, why);
    abort();
}

static void find_role(const char *plan, const char *name, enum role *out)
{
    for (int i = 0; i < ROLES; i++)
        if (strcmp(roles[i], name) == 0) {
            *out = (enum role)i;
            return;
        }
    no_plan(plan, "no such role");
}

static void find_kind(const char *plan, const char *name)
{
    for (int i = 0; i < FAULT_KIND_COUNT; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            shared->kind = (enum fault_kind)i;
            return;
        }
    no_plan(plan, "no such call");
}

static void find_error(const char *plan, const char *name)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (strcmp(errors[i].name, name) == 0) {
            shared->error = errors[i].number;
            return;
        }
    no_plan(plan, "no such errno");
}

static void read_plan(const char *plan)
{
    char role[16], call[32], more[2], error[16];
    int n;
    if (sscanf(plan, "%15[^:]:%31[^:]:%d%1[+]:%15s", role, call, &n, more,
               error) == 5)
        shared->onwards = true;
    else if (sscanf(plan, "%15[^:]:%31[^:]:%d:%15s", role, call, &n, error) !=
             4)
        no_plan(plan, "is not ROLE:CALL:N:ERRNO");
    if (n < 1)
        no_plan(plan, "calls are counted from 1");
    find_role(plan, role, &shared->role);
    find_kind(plan, call);
    find_error(plan, error);
    shared->n = n;
}

void fault_share(void)
{
    if (shared == NULL) {
        void *page = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            abort();
        shared = page;
    }
    memset(shared, 0, sizeof(*shared));
}

void fault_plan_as(const char *role, const char *plan, const char *log)
{
    counts = false;
    fault_share();
    find_role(plan, role, &own);
    own_pid = getpid();
    if (log != NULL)
        (void)snprintf(shared->log, sizeof(shared->log), "%s", log);
    shared->logs_all = strcmp(plan, "count") == 0;
    if (!shared->logs_all)
        read_plan(plan);
    counts = true;
}

void fault_plan(const char *plan)
{
    fault_plan_as("test", plan, NULL);
}

void fault_end(void)
{
    counts = false;
    if (shared != NULL)
        shared->n = 0;
}

void fault_hold(bool held)
{
    counts = !held && shared != NULL;
}

int fault_calls(const char *role, enum fault_kind kind)
{
    enum role which;
    find_role(role, role, &which);
    return shared != NULL ? atomic_load(&shared->calls[which][kind]) : 0;
}

int fault_struck(void)
{
    return shared != NULL ? atomic_load(&shared->struck) : 0;
}

/* -- what fault_each needs ------------------------------------------------- */

const char *fault_error_of(enum fault_kind kind, int i)
{
    if (i >= FAULT_ERRORS_MAX || kinds[kind].errors[i] == 0)
        return NULL;
    return error_name(kinds[kind].errors[i]);
}

int fault_error_named(const char *name)
{
    find_error(name, name);
    return shared->error;
}

const char *fault_name_of(enum fault_kind kind)
{
    return kinds[kind].name;
}

int fault_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += raw(SYS_fcntl, fd, F_GETFD, 0, 0) >= 0;
    return n;
}
