/* links: rendezvous/net/addr rendezvous/base/err tests/lib/interfaces */
/* libs: -ldl */
/*
 * Addresses and listening sockets of this machine; nothing goes over a network.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rendezvous/net/addr.h"
#include "tests/lib/interfaces.h"
#include "tests/lib/suite.h"

/* A numeric address as a sockaddr. */
static struct sockaddr_storage at(const char *text, int port)
{
    struct addr_list list;
    struct ddp_err err;
    ck_assert_int_eq(addr_resolve(text, port, &list, &err), 0);
    ck_assert_int_eq(list.n, 1);
    return list.at[0];
}

static const struct {
    const char *text;
    const char *shown;
    bool loopback;
    bool local;
} cases[] = {
    {"127.0.0.1", "127.0.0.1", true, true},
    {"127.8.9.10", "127.8.9.10", true, true},
    {"::1", "::1", true, true},
    {"::ffff:127.0.0.1", "127.0.0.1", true, true},
    {"192.0.2.1", "192.0.2.1", false, false}, /* for documentation */
    {"2001:db8::1", "2001:db8::1", false, false},
    {"::ffff:192.0.2.1", "192.0.2.1", false, false},
};

TEST_EACH(test_addr_kinds, cases)
{
    char text[ADDR_TEXT_MAX];
    struct sockaddr_storage ss = at(cases[_i].text, 4711);
    const struct sockaddr *sa = (const struct sockaddr *)&ss;
    addr_text(sa, text);
    ck_assert_str_eq(text, cases[_i].shown);
    ck_assert_int_eq(addr_port(sa), 4711);
    ck_assert(addr_is_loopback(sa) == cases[_i].loopback);
    ck_assert_int_eq(addr_is_local(sa),
                     cases[_i].local ? ADDR_HERE : ADDR_ELSEWHERE);
    ck_assert(addr_is_number(cases[_i].text));
}

/* If the interfaces cannot be listed, only loopback is known to be here. */
TEST(test_addr_without_a_list_of_interfaces_is_not_known)
{
    struct sockaddr_storage there = at("192.0.2.1", 1), here = at("::1", 1);
    interfaces_errno = EMFILE;
    ck_assert_int_eq(addr_is_local((const struct sockaddr *)&there),
                     ADDR_UNKNOWN);
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(addr_is_local((const struct sockaddr *)&here), ADDR_HERE);
}

/* It says which limit is to be raised. */
TEST(test_addr_listen_without_a_descriptor_names_the_limit)
{
    struct sockaddr_storage here = at("127.0.0.1", 0);
    struct rlimit some, none;
    struct ddp_err err;
    int fd;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &some), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = some.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&here, &fd, &err),
                     -1);
    /* What looks for leaks at the end needs some. */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &some), 0);
    ck_assert_int_eq(err.code, DDP_E_NOMEM);
    ck_assert_str_eq(err.text,
                     "cannot make a socket (ulimit -n): Too many open files");
}

TEST(test_addr_names_are_no_numbers)
{
    ck_assert(!addr_is_number("localhost"));
    ck_assert(!addr_is_number("a.b"));
    ck_assert(!addr_is_number(""));
}

/* IPv4 first, and no more than there is room for. */
TEST(test_addr_list_is_sorted_and_bounded)
{
    static struct sockaddr_storage ss[2];
    struct addrinfo all[ADDR_LIST_MAX + 4] = {{.ai_flags = 0}};
    struct addr_list list;
    ss[0] = at("::1", 1);
    ss[1] = at("127.0.0.1", 1);
    for (int i = 0; i < ADDR_LIST_MAX + 4; i++) {
        struct sockaddr_storage *s = &ss[i % 2];
        all[i].ai_addr = (struct sockaddr *)s;
        all[i].ai_family = s->ss_family;
        all[i].ai_addrlen = i % 2 == 0 ? sizeof(struct sockaddr_in6)
                                       : sizeof(struct sockaddr_in);
        all[i].ai_next = i + 1 < ADDR_LIST_MAX + 4 ? &all[i + 1] : NULL;
    }
    addr_list_fill(&list, all);
    ck_assert_int_eq(list.n, ADDR_LIST_MAX);
    ck_assert_int_eq(list.at[0].ss_family, AF_INET);
    ck_assert_int_eq(list.at[ADDR_LIST_MAX / 2 + 1].ss_family, AF_INET);
    ck_assert_int_eq(list.at[ADDR_LIST_MAX - 1].ss_family, AF_INET6);
}

/* A port that is taken is an error, and errno tells that it is taken; the
 * socket is close-on-exec and does not block. */
TEST(test_addr_listen_on_a_taken_port_fails)
{
    struct ddp_err err;
    int fd, other;
    struct sockaddr_storage ss = at("127.0.0.1", 0);
    ck_assert_int_eq(addr_listen((struct sockaddr *)&ss, &fd, &err), 0);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    int port = addr_fd_port(fd);
    ss = at("127.0.0.1", port);
    ck_assert_int_eq(addr_listen((struct sockaddr *)&ss, &other, &err), -1);
    ck_assert_int_eq(err.sys_errno, EADDRINUSE);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot listen on 127.0.0.1 port"));
    ck_assert_int_eq(addr_listen_any(port, &other, &err), -1);
    ck_assert_int_eq(err.sys_errno, EADDRINUSE);
    ck_assert_int_eq(addr_listen_any(port, &other, NULL), -1);
    ck_assert_int_eq(close(fd), 0);
}

/* A port that is taken on IPv6 is taken: half of "every address" is not
 * enough. */
TEST(test_addr_listen_any_needs_all_of_it)
{
    struct ddp_err err;
    int fd, other;
    struct sockaddr_storage ss = at("::1", 0);
    if (addr_listen((struct sockaddr *)&ss, &fd, &err) != 0)
        return; /* a machine without IPv6 */
    ck_assert_int_eq(addr_listen_any(addr_fd_port(fd), &other, &err), -1);
    ck_assert_int_eq(err.sys_errno, EADDRINUSE);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(addr_listen_any(0, &fd, &err), 0);
    ck_assert_int_gt(addr_fd_port(fd), 0);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("addr", "fast")
