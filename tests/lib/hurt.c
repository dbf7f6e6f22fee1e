/* links: tests/lib/{fault,fault_each} rendezvous/base/err */
#include "tests/lib/hurt.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <uv.h>

#include "rendezvous/base/err.h"

int hurt_told(const char *text)
{
    (void)fprintf(stderr, "%s\n", text);
    return HURT_TOLD;
}

int hurt_wrong(const char *text)
{
    (void)fprintf(stderr, "wrong: %s\n", text);
    return HURT_WRONG;
}

/* -- judging --------------------------------------------------------------- */

struct hurt {
    int (*run)(void *ctx);
    void *ctx;
    const char *must;
    unsigned seen; /* bit i: the call that is the word i of `must` */
    int wounds;    /* failures in the unit */
};

static int errno_of(const char *plan)
{
    static const struct {
        const char *name;
        int value;
    } names[] = {
        {"EMFILE", EMFILE},
        {"ENFILE", ENFILE},
        {"ENOMEM", ENOMEM},
        {"EAGAIN", EAGAIN},
        {"EINTR", EINTR},
        {"ENOSPC", ENOSPC},
        {"EDQUOT", EDQUOT},
        {"EPERM", EPERM},
        {"EACCES", EACCES},
        {"ENOSYS", ENOSYS},
        {"EINVAL", EINVAL},
        {"EADDRINUSE", EADDRINUSE},
        {"EIO", EIO},
        {"ENOENT", ENOENT},
        {"ENOBUFS", ENOBUFS},
        {"EPIPE", EPIPE},
        {"EFBIG", EFBIG},
        {"EROFS", EROFS},
        {"ENOLCK", ENOLCK},
        {"ECONNABORTED", ECONNABORTED},
        {"ECONNREFUSED", ECONNREFUSED},
        {"EADDRNOTAVAIL", EADDRNOTAVAIL},
    };
    const char *name = strrchr(plan, ':');
    for (size_t i = 0; name != NULL && i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i].name, name + 1) == 0)
            return names[i].value;
    return 0;
}

/* The call of "ROLE:CALL:N:ERRNO" is the word i of `must`; -1: it is none. */
static int word_of(const char *must, const char *plan)
{
    const char *call = strchr(plan, ':');
    size_t len = call != NULL ? strcspn(++call, ":") : 0;
    for (int i = 0; *must != '\0' && len > 0; i++) {
        size_t n = strcspn(must, " ");
        if (n == len && strncmp(must, call, n) == 0)
            return i;
        must += n;
        must += strspn(must, " ");
    }
    return -1;
}

static int words_in(const char *text)
{
    int n = 0;
    for (; *text != '\0'; n++) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return n;
}

static bool is_verdict(int status)
{
    for (int code = 1; code < DDP_E_COUNT; code++)
        if (ddp_code_exit((enum ddp_code)code) == status &&
            status != ddp_code_exit(DDP_E_BUG))
            return true;
    return false;
}

/* The text says what the kernel said, in libc's words or libuv's. */
static bool is_true(const struct fault_run *r)
{
    int error = errno_of(r->plan);
    ck_assert_msg(error != 0, "%s: no such errno in tests/lib/hurt", r->plan);
    return strstr(r->err, strerror(error)) != NULL ||
           strstr(r->err, uv_strerror(uv_translate_sys_error(error))) != NULL;
}

/* libuv ends the process (abort) if the kernel has no memory for what epoll
 * watches, but for uv_poll_init's own call, and if a pipe or eventfd of its own
 * cannot be made (at its first loop, and again in each fork), written to or
 * read. A guard says so of an agent, and an agent of its helper. An assertion
 * of ours says "does not hold". */
static bool is_libuvs(const struct fault_run *r)
{
    static const char *const calls[] = {
        ":epoll_ctl:", ":pipe2:", ":read:", ":write:"};
    bool one_of_them = false;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        one_of_them |= strstr(r->plan, calls[i]) != NULL;
    bool killed = WIFSIGNALED(r->status) && WTERMSIG(r->status) == SIGABRT;
    return one_of_them && (killed || strstr(r->err, "SIGABRT") != NULL) &&
           strstr(r->err, "does not hold") == NULL;
}

static void judge(const struct fault_run *r, void *ctx)
{
    struct hurt *h = ctx;
    int status = WIFEXITED(r->status) ? WEXITSTATUS(r->status) : -1;
    ck_assert_msg(!r->late, "%s: it hangs\n%s", r->plan, r->err);
    ck_assert_msg(r->left == 0, "%s: %d processes are left\n%s", r->plan,
                  r->left, r->err);
    if (is_libuvs(r))
        return;
    ck_assert_msg(status >= 0, "%s: killed by signal %d\n%s", r->plan,
                  WTERMSIG(r->status), r->err);
    if (!r->struck) {
        ck_assert_msg(status == HURT_DONE, "nothing failed: status %d\n%s",
                      status, r->err);
        return;
    }
    if (status == HURT_TEST)
        return;
    ck_assert_msg(status == HURT_DONE || status == HURT_TOLD ||
                      is_verdict(status),
                  "%s: status %d\n%s", r->plan, status, r->err);
    ck_assert_msg(status == HURT_DONE || is_true(r),
                  "%s: status %d, and it does not say why\n%s", r->plan, status,
                  r->err);
    h->wounds++;
    int i = word_of(h->must, r->plan);
    h->seen |= i >= 0 ? 1u << i : 0;
}

static int run_it(void *ctx)
{
    const struct hurt *h = ctx;
    return h->run(h->ctx);
}

void hurt_each(const char *role,
               int n_max,
               int (*run)(void *ctx),
               void *ctx,
               const char *must)
{
    struct hurt h = {.run = run, .ctx = ctx, .must = must};
    int n = fault_each(role, n_max, run_it, judge, &h);
    ck_assert_int_gt(n, 0);
    ck_assert_msg(h.seen == (1u << words_in(must)) - 1,
                  "not all of these failed in it: %s (%#x of %d)", must, h.seen,
                  h.wounds);
}
