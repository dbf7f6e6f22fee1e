/* net/allow: the addresses that may connect. */
/* links: rendezvous/net/{allow,addr} rendezvous/base/{err,log,utf8} */
/* links: tests/lib/interfaces */
/* libs: -ldl */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/net/allow.h"
#include "tests/lib/interfaces.h"
#include "tests/lib/suite.h"

static bool has(struct allow *a, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return allow_has(a, (const struct sockaddr *)&v4);
    ck_assert_int_eq(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return allow_has(a, (const struct sockaddr *)&v6);
}

static const struct {
    const char *net;
    const char *addr;
    bool in;
} nets[] = {
    {"198.51.100.0/24", "198.51.100.255", true},
    {"198.51.100.0/24", "198.51.101.0", false},
    {"198.51.100.128/25", "198.51.100.127", false},
    {"198.51.100.128/25", "198.51.100.128", true},
    {"198.51.100.7", "198.51.100.7", true},
    {"198.51.100.7", "198.51.100.6", false},
    {"198.51.100.7/32", "::ffff:198.51.100.7", true},
    {"0.0.0.0/0", "203.0.113.9", true},
    {"0.0.0.0/0", "2001:db8::1", false},
    {"::/0", "203.0.113.9", true},
    {"2001:db8::/33", "2001:db8:7fff::1", true},
    {"2001:db8::/33", "2001:db8:8000::1", false},
    {"2001:db8::/32", "2001:db9::", false},
};

/* Networks of both families, at the edges of their prefixes. */
TEST_EACH(test_allow_networks, nets)
{
    struct allow *a = allow_new();
    struct ddp_err err;
    ck_assert_int_eq(allow_add_net(a, nets[_i].net, &err), 0);
    ck_assert_int_eq(has(a, nets[_i].addr), nets[_i].in);
    allow_free(a);
}

static const char *const wrong[] = {"",
                                    "/8",
                                    "host",
                                    "10.0.0.0/",
                                    "10.0.0.0/33",
                                    "10.0.0.0/-1",
                                    "10.0.0.0/8x",
                                    "10.0.0.1/8",
                                    "10.0.0/8",
                                    "fd00::/129",
                                    "fd00::1/8",
                                    "10.0.0.0/0000008"};

/* What is no network is refused with a sentence that shows it. */
TEST_EACH(test_allow_wrong_networks_are_refused, wrong)
{
    struct allow *a = allow_new();
    struct ddp_err err;
    ck_assert_int_eq(allow_add_net(a, wrong[_i], &err), -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_ptr_nonnull(strstr(err.text, wrong[_i]));
    ck_assert(!has(a, "10.0.0.1"));
    allow_free(a);
}

/* Thousands of single addresses, given in no order and twice; a copy has none
 * of them, but the networks. This machine itself may always. */
TEST(test_allow_addresses)
{
    struct allow *a = allow_new();
    struct ddp_err err;
    char text[64];
    for (int i = 0; i < 10000; i++) {
        int n = i * 7919 % 5000;
        (void)snprintf(text, sizeof(text), "198.18.%d.%d", n / 250, n % 250);
        ck_assert_int_eq(allow_add_addr(a, text, &err), 0);
    }
    ck_assert_int_eq(allow_add_addr(a, "2001:db8::5", &err), 0);
    ck_assert_int_eq(allow_add_net(a, "203.0.113.0/24", &err), 0);
    ck_assert_int_eq(allow_add_addr(a, "fe80::7%lan0", &err), 0);
    ck_assert_int_eq(allow_add_addr(a, "node7", &err), -1);
    ck_assert(has(a, "fe80::7"));
    ck_assert(has(a, "198.18.0.0"));
    ck_assert(has(a, "198.18.19.249"));
    ck_assert(!has(a, "198.18.20.0"));
    ck_assert(!has(a, "198.18.0.250"));
    ck_assert(has(a, "2001:db8::5"));
    ck_assert(!has(a, "2001:db8::6"));
    ck_assert(has(a, "127.0.0.1"));
    ck_assert(has(a, "::1"));
    struct allow *b = allow_copy_nets(a);
    allow_free(a);
    ck_assert(has(b, "203.0.113.1"));
    ck_assert(!has(b, "198.18.0.0"));
    allow_free(b);
}

/* Which addresses are this machine's is not known: none that is not listed is
 * let in, and that is said once. */
TEST(test_allow_says_that_own_addresses_are_not_known)
{
    struct allow *a = allow_new();
    struct ddp_err err;
    char told[600] = "";
    int kept = dup(STDERR_FILENO);
    FILE *to = tmpfile();
    ck_assert(kept >= 0 && to != NULL);
    ck_assert_int_eq(allow_add_addr(a, "198.18.0.1", &err), 0);
    interfaces_errno = EMFILE;
    ck_assert_int_eq(dup2(fileno(to), STDERR_FILENO), STDERR_FILENO);
    bool listed = has(a, "198.18.0.1"), local = has(a, "127.0.0.1");
    bool other = has(a, "198.18.0.2") || has(a, "198.18.0.3");
    ck_assert_int_eq(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    ck_assert(listed && local && !other);
    rewind(to);
    (void)!fread(told, 1, sizeof(told) - 1, to);
    ck_assert_str_eq(told, "ddprun: cannot find out whether 198.18.0.2 is an "
                           "address of this machine, so a connection from it "
                           "is refused: getifaddrs: Too many open files\n");
    ck_assert_int_eq(fclose(to) + close(kept), 0);
    allow_free(a);
}

SUITE("allow", "allow", .tags = "fast")
