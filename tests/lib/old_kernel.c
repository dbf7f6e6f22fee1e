/*
 * Runs a program under a kernel that lacks system calls: a seccomp filter
 * answers them with an error number. It holds for all that the program starts.
 * usage: old_kernel WHAT PROGRAM [ARGUMENT...]
 *
 * WHAT is a version, as 4.18: all calls of the table that came later are not
 * there. Or ENOSYS:CALL,... or EPERM:CALL,... for calls of the table; EPERM is
 * what old container runtimes say to calls that their list does not name. An
 * option of a call that is there (waitid_pidfd) is unknown: EINVAL.
 *
 * A file that came later (cgroup.kill) cannot be taken away by a filter.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEN(array) (sizeof(array) / sizeof((array)[0]))
#define ANY        (-1) /* first argument */
#define STEPS_MAX  512
#define P_PIDFD_   3 /* P_PIDFD of <sys/wait.h>, which older headers lack */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "which AUDIT_ARCH is this machine's?"
#endif

struct call {
    const char *name;
    int number;
    int first_arg;
    int since; /* Linux MAJOR * 100 + MINOR */
};

/* The numbers of calls from 424 on are the same on all machines. */
static const struct call calls[] = {
    {"prctl_subreaper", SYS_prctl, PR_SET_CHILD_SUBREAPER, 304},
    {"renameat2", SYS_renameat2, ANY, 315},
    {"getrandom", SYS_getrandom, ANY, 317},
    {"memfd_create", SYS_memfd_create, ANY, 317},
    {"membarrier", SYS_membarrier, ANY, 403},
    {"copy_file_range", SYS_copy_file_range, ANY, 405},
    {"preadv2", SYS_preadv2, ANY, 406},
    {"pwritev2", SYS_pwritev2, ANY, 406},
    {"statx", SYS_statx, ANY, 411},
    {"pidfd_send_signal", 424, ANY, 501},
    {"io_uring_setup", 425, ANY, 501},
    {"io_uring_enter", 426, ANY, 501},
    {"io_uring_register", 427, ANY, 501},
    {"pidfd_open", 434, ANY, 503},
    {"clone3", 435, ANY, 503},
    {"waitid_pidfd", SYS_waitid, P_PIDFD_, 504},
    {"openat2", 437, ANY, 506},
    {"pidfd_getfd", 438, ANY, 506},
    {"faccessat2", 439, ANY, 508},
    {"close_range", 436, ANY, 509},
    {"process_madvise", 440, ANY, 510},
    {"epoll_pwait2", 441, ANY, 511},
    {"process_mrelease", 448, ANY, 515},
    {"futex_waitv", 449, ANY, 516},
    {"cachestat", 451, ANY, 605},
    {"fchmodat2", 452, ANY, 606},
};

struct filter {
    struct sock_filter code[STEPS_MAX];
    unsigned short len;
};

__attribute__((noreturn)) static void refuse(const char *what, const char *why)
{
    fprintf(stderr, "old_kernel: %s: %s\n", what, why);
    exit(125);
}

static void put(struct filter *f, struct sock_filter step)
{
    if (f->len == LEN(f->code))
        refuse("filter", "too many calls");
    f->code[f->len++] = step;
}

static void load(struct filter *f, size_t offset)
{
    put(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                        (uint32_t)offset));
}

/* If what was loaded is `value`, the next step is taken, else `skip` steps are
 * left out. */
static void only_if(struct filter *f, uint32_t value, uint8_t skip)
{
    put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0,
                                        skip));
}

static void answer(struct filter *f, uint32_t action)
{
    put(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* The low half of an argument comes first on both machines. */
static void deny(struct filter *f, const struct call *c, int error)
{
    bool any = c->first_arg == ANY;
    load(f, offsetof(struct seccomp_data, nr));
    only_if(f, (uint32_t)c->number, any ? 1 : 3);
    if (!any) {
        load(f, offsetof(struct seccomp_data, args));
        only_if(f, (uint32_t)c->first_arg, 1);
    }
    answer(f, SECCOMP_RET_ERRNO | (uint32_t)(any ? error : EINVAL));
}

static const struct call *find(const char *name)
{
    for (size_t i = 0; i < LEN(calls); i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    refuse(name, "no such call in the table");
}

static void deny_list(struct filter *f, char *list, int error)
{
    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ","))
        deny(f, find(name), error);
}

static void deny_later(struct filter *f, const char *version)
{
    int major, minor;
    char more;
    if (sscanf(version, "%d.%d%c", &major, &minor, &more) != 2)
        refuse(version, "is neither a version nor ENOSYS:... nor EPERM:...");
    for (size_t i = 0; i < LEN(calls); i++)
        if (calls[i].since > major * 100 + minor)
            deny(f, &calls[i], ENOSYS);
}

int main(int argc, char **argv)
{
    static struct filter f;
    if (argc < 3)
        refuse("usage", "old_kernel VERSION|ENOSYS:CALL,...|EPERM:CALL,... "
                        "PROGRAM [ARGUMENT...]");
    load(&f, offsetof(struct seccomp_data, arch));
    only_if(&f, ARCH, 1);
    put(&f, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
    answer(&f, SECCOMP_RET_ALLOW); /* numbers of another machine */
    if (strncmp(argv[1], "ENOSYS:", 7) == 0)
        deny_list(&f, argv[1] + 7, ENOSYS);
    else if (strncmp(argv[1], "EPERM:", 6) == 0)
        deny_list(&f, argv[1] + 6, EPERM);
    else
        deny_later(&f, argv[1]);
    answer(&f, SECCOMP_RET_ALLOW);

    struct sock_fprog program = {.len = f.len, .filter = f.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        refuse("seccomp", strerror(errno));
    execvp(argv[2], argv + 2);
    refuse(argv[2], strerror(errno));
}
