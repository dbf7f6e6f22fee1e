/*
 * tests/lib/fault_priv: the calls that tests/lib/fault.c makes fail, and what
 * tests/lib/fault_each.c has to know of them.
 */
#ifndef FAULT_PRIV_H
#define FAULT_PRIV_H

#define FAULT_ERRORS_MAX 4

/* Each kind of call, and with which errno it may fail on a machine of a user:
 * out of something, forbidden, not there, interrupted. */
/* clang-format off */
#define FAULT_KINDS(X)                                                         \
    X(fork,              EAGAIN, ENOMEM)                                       \
    X(clone3,            ENOSYS, EAGAIN, EPERM)                                \
    X(setsid,            EPERM)                                                \
    X(prctl,             EPERM)                                                \
    X(execve,            EACCES, ENOMEM, ENOENT)                               \
    X(waitid,            EINTR)                                                \
    X(waitpid,           EINTR)                                                \
    X(kill,              EPERM)                                                \
    X(pidfd_open,        EMFILE, ENOSYS, ENOMEM)                               \
    X(pidfd_send_signal, EPERM, ENOSYS)                                        \
    X(close_range,       ENOSYS, EPERM)                                        \
    X(pthread_create,    EAGAIN)                                               \
    X(nanosleep,         EINTR)                                                \
    X(pipe2,             EMFILE, ENFILE)                                       \
    X(socketpair,        EMFILE, ENOBUFS)                                      \
    X(socket,            EMFILE, ENOBUFS)                                      \
    X(accept4,           EMFILE, ECONNABORTED)                                 \
    X(bind,              EADDRINUSE, EACCES)                                   \
    X(listen,            EADDRINUSE)                                           \
    X(connect,           EADDRNOTAVAIL, ECONNREFUSED)                          \
    X(setsockopt,        ENOBUFS)                                              \
    X(getsockopt,        ENOBUFS)                                              \
    X(getsockname,       ENOBUFS)                                              \
    X(getpeername,       ENOBUFS)                                              \
    X(send,              EINTR, ENOBUFS)                                       \
    X(sendmsg,           EINTR, ENOBUFS)                                       \
    X(recv,              EINTR)                                                \
    X(recvmsg,           EINTR)                                                \
    X(open,              EMFILE, EACCES, ENOENT)                               \
    X(openat,            EMFILE, EACCES, ENOENT)                               \
    X(fopen,             EMFILE, EACCES)                                       \
    X(setmntent,         EMFILE)                                               \
    X(fdopen,            ENOMEM)                                               \
    X(opendir,           EMFILE, EACCES)                                       \
    X(fdopendir,         ENOMEM)                                               \
    X(dup,               EMFILE)                                               \
    X(dup2,              EMFILE, EINTR)                                        \
    X(dup3,              EMFILE, EINTR)                                        \
    X(fcntl,             EMFILE, EPERM)                                        \
    X(ioctl,             EPERM)                                                \
    X(ftruncate,         ENOSPC, EFBIG, EINTR)                                 \
    X(memfd_create,      EMFILE, ENOSYS, ENOMEM)                               \
    X(mmap,              ENOMEM, EPERM)                                        \
    X(epoll_create1,     EMFILE)                                               \
    X(epoll_ctl,         ENOMEM, ENOSPC)                                       \
    X(epoll_wait,        EINTR)                                                \
    X(eventfd,           EMFILE)                                               \
    X(timerfd_create,    EMFILE, ENOSYS)                                       \
    X(timerfd_settime,   EINVAL)                                               \
    X(signalfd,          EMFILE, ENOMEM)                                       \
    X(inotify_init1,     EMFILE)                                               \
    X(inotify_add_watch, ENOSPC)                                               \
    X(poll,              EINTR, ENOMEM)                                        \
    X(read,              EINTR, EIO)                                           \
    X(pread,             EINTR, EIO)                                           \
    X(readlink,          EACCES)                                               \
    X(write,             ENOSPC, EINTR, EIO, EDQUOT)                           \
    X(pwrite,            ENOSPC, EINTR)                                        \
    X(splice,            EINTR, ENOMEM)                                        \
    X(mkdir,             EACCES, ENOSPC)                                       \
    X(mkdtemp,           EACCES, ENOSPC)                                       \
    X(rmdir,             EACCES)                                               \
    X(unlink,            EACCES)                                               \
    X(rename,            EACCES, ENOSPC)                                       \
    X(flock,             ENOLCK, EINTR)                                        \
    X(stat,              EACCES)                                               \
    X(fstat,             ENOMEM)                                               \
    X(access,            EACCES)                                               \
    X(getrlimit,         EPERM)                                                \
    X(setrlimit,         EPERM)                                                \
    X(sched_getaffinity, EINVAL)                                               \
    X(sched_setaffinity, EINVAL)                                               \
    X(getrandom,         ENOSYS, EINTR)                                        \
    X(getpgid,           EPERM)                                                \
    X(getsid,            EPERM)                                                \
    X(gethostname,       EPERM)                                                \
    X(getifaddrs,        EMFILE)

/* The names in libc, the kind of each, and what it returns on a failure. */
#define FAULT_SYMBOLS(X)                                                       \
    X(execve,            execve,            MINUS)                             \
    X(waitid,            waitid,            MINUS)                             \
    X(waitpid,           waitpid,           MINUS)                             \
    X(kill,              kill,              MINUS)                             \
    X(pthread_create,    pthread_create,    NUMBER)                            \
    X(nanosleep,         nanosleep,         MINUS)                             \
    X(pipe2,             pipe2,             MINUS)                             \
    X(socketpair,        socketpair,        MINUS)                             \
    X(socket,            socket,            MINUS)                             \
    X(accept4,           accept4,           MINUS)                             \
    X(bind,              bind,              MINUS)                             \
    X(listen,            listen,            MINUS)                             \
    X(connect,           connect,           MINUS)                             \
    X(setsockopt,        setsockopt,        MINUS)                             \
    X(getsockopt,        getsockopt,        MINUS)                             \
    X(getsockname,       getsockname,       MINUS)                             \
    X(getpeername,       getpeername,       MINUS)                             \
    X(send,              send,              MINUS)                             \
    X(sendmsg,           sendmsg,           MINUS)                             \
    X(recv,              recv,              MINUS)                             \
    X(recvmsg,           recvmsg,           MINUS)                             \
    X(open,              open,              MINUS)                             \
    X(open64,            open,              MINUS)                             \
    X(__open_2,          open,              MINUS)                             \
    X(__open64_2,        open,              MINUS)                             \
    X(openat,            openat,            MINUS)                             \
    X(openat64,          openat,            MINUS)                             \
    X(fopen,             fopen,             NIL)                               \
    X(fopen64,           fopen,             NIL)                               \
    X(setmntent,         setmntent,         NIL)                               \
    X(fdopen,            fdopen,            NIL)                               \
    X(opendir,           opendir,           NIL)                               \
    X(fdopendir,         fdopendir,         NIL)                               \
    X(dup,               dup,               MINUS)                             \
    X(dup2,              dup2,              MINUS)                             \
    X(dup3,              dup3,              MINUS)                             \
    X(fcntl,             fcntl,             MINUS)                             \
    X(fcntl64,           fcntl,             MINUS)                             \
    X(ioctl,             ioctl,             MINUS)                             \
    X(ftruncate,         ftruncate,         MINUS)                             \
    X(ftruncate64,       ftruncate,         MINUS)                             \
    X(memfd_create,      memfd_create,      MINUS)                             \
    X(mmap,              mmap,              MINUS)                             \
    X(mmap64,            mmap,              MINUS)                             \
    X(epoll_create1,     epoll_create1,     MINUS)                             \
    X(epoll_ctl,         epoll_ctl,         MINUS)                             \
    X(epoll_wait,        epoll_wait,        MINUS)                             \
    X(epoll_pwait,       epoll_wait,        MINUS)                             \
    X(eventfd,           eventfd,           MINUS)                             \
    X(timerfd_create,    timerfd_create,    MINUS)                             \
    X(timerfd_settime,   timerfd_settime,   MINUS)                             \
    X(signalfd,          signalfd,          MINUS)                             \
    X(inotify_init1,     inotify_init1,     MINUS)                             \
    X(inotify_add_watch, inotify_add_watch, MINUS)                             \
    X(poll,              poll,              MINUS)                             \
    X(ppoll,             poll,              MINUS)                             \
    X(read,              read,              MINUS)                             \
    X(readv,             read,              MINUS)                             \
    X(pread,             pread,             MINUS)                             \
    X(pread64,           pread,             MINUS)                             \
    X(readlink,          readlink,          MINUS)                             \
    X(write,             write,             MINUS)                             \
    X(writev,            write,             MINUS)                             \
    X(pwrite,            pwrite,            MINUS)                             \
    X(pwrite64,          pwrite,            MINUS)                             \
    X(splice,            splice,            MINUS)                             \
    X(mkdir,             mkdir,             MINUS)                             \
    X(mkdirat,           mkdir,             MINUS)                             \
    X(mkdtemp,           mkdtemp,           NIL)                               \
    X(rmdir,             rmdir,             MINUS)                             \
    X(unlink,            unlink,            MINUS)                             \
    X(unlinkat,          unlink,            MINUS)                             \
    X(rename,            rename,            MINUS)                             \
    X(flock,             flock,             MINUS)                             \
    X(stat,              stat,              MINUS)                             \
    X(stat64,            stat,              MINUS)                             \
    X(lstat,             stat,              MINUS)                             \
    X(fstatat,           stat,              MINUS)                             \
    X(fstat,             fstat,             MINUS)                             \
    X(fstat64,           fstat,             MINUS)                             \
    X(access,            access,            MINUS)                             \
    X(faccessat,         access,            MINUS)                             \
    X(getrlimit,         getrlimit,         MINUS)                             \
    X(setrlimit,         setrlimit,         MINUS)                             \
    X(sched_getaffinity, sched_getaffinity, MINUS)                             \
    X(sched_setaffinity, sched_setaffinity, MINUS)                             \
    X(getrandom,         getrandom,         MINUS)                             \
    X(getpgid,           getpgid,           MINUS)                             \
    X(getsid,            getsid,            MINUS)                             \
    X(gethostname,       gethostname,       MINUS)                             \
    X(getifaddrs,        getifaddrs,        MINUS)
/* clang-format on */

enum fault_kind {
#define X(name, ...) FAULT_##name,
    FAULT_KINDS(X)
#undef X
    FAULT_KIND_COUNT
};

/* Makes the page that processes share, or empties it. */
void fault_share(void);

/* How many calls of a kind processes of a role have made. */
int fault_calls(const char *role, enum fault_kind kind);

/* NULL: the kind has no more than i. */
const char *fault_error_of(enum fault_kind kind, int i);

/* The errno of that name. */
int fault_error_named(const char *name);

const char *fault_name_of(enum fault_kind kind);

#endif
