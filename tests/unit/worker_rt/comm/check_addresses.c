/* links: worker_rt/comm/addresses rendezvous/base/err */
/*
 * Under which addresses a rank can be called, and which of them a caller takes.
 */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "worker_rt/comm/addresses.h"

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage s = {0};
    struct sockaddr_in *four = (struct sockaddr_in *)&s;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&s;
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
    } else {
        six->sin6_family = AF_INET6;
        ck_assert_int_eq(inet_pton(AF_INET6, text, &six->sin6_addr), 1);
    }
    return s;
}

static const struct {
    const char *published;
    const char *seen;  /* the caller, by the store */
    const char *taken; /* NULL: it is damaged */
} reads[] = {
    {"10.0.0.1 4000", "10.0.0.2", "10.0.0.1 4000"},
    {"127.0.0.1 10.0.0.1 4000", "10.0.0.2", "10.0.0.1 4000"},
    {"127.0.1.1 10.0.0.1 10.1.0.1 9", "10.0.0.2", "10.0.0.1 10.1.0.1 9"},
    {"127.0.0.1 10.0.0.1 4000", "127.0.0.1", "127.0.0.1 10.0.0.1 4000"},
    {"127.0.0.1 4000", "10.0.0.2", "127.0.0.1 4000"},
    {"10.0.0.1 10.0.0.1 4000", "10.0.0.2", "10.0.0.1 4000"},
    {"::1 2001:db8::7 4000", "2001:db8::8", "2001:db8::7 4000"},
    {"", "10.0.0.2", NULL},
    {"4000", "10.0.0.2", NULL},
    {"10.0.0.1", "10.0.0.2", NULL},
    {"10.0.0.1 ", "10.0.0.2", NULL},
    {"host 4000", "10.0.0.2", NULL},
    {"10.0.0.1 port", "10.0.0.2", NULL},
};

TEST_EACH(test_addresses_caller_passes_over_foreign_loopback, reads)
{
    struct addresses a;
    struct sockaddr_storage seen = address(reads[_i].seen);
    char text[ADDRESSES_TEXT];
    int rc = addresses_read(&a, reads[_i].published, &seen);
    ck_assert_int_eq(rc == 0, reads[_i].taken != NULL);
    if (rc != 0)
        return;
    const char *port = strrchr(reads[_i].taken, ' ') + 1;
    addresses_write(&a, (unsigned)atoi(port), text);
    ck_assert_str_eq(text, reads[_i].taken);
}

/* One too long, and one with too many: no more is read than fits. */
TEST(test_addresses_long_text_is_bounded)
{
    struct addresses a;
    struct sockaddr_storage seen = address("10.0.0.1");
    char text[2 * ADDRESSES_TEXT] = "";
    for (int i = 1; i <= 40; i++)
        (void)snprintf(text + strlen(text), 16, "10.0.0.%d ", i);
    (void)strcat(text, "80");
    ck_assert_int_eq(addresses_read(&a, text, &seen), 0);
    ck_assert_int_eq(a.n, ADDRESSES_MAX);
    memset(text, '1', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ck_assert_int_eq(addresses_read(&a, text, &seen), -1);
}

TEST(test_addresses_own_is_where_the_store_sees_us)
{
    struct ddp_err e;
    struct addresses a;
    struct sockaddr_storage where, seen = address("10.9.8.7");
    ck_assert_int_eq(addresses_own(&a, &seen, true, &e), 0);
    ck_assert_int_eq(a.n, 1);
    seen = address("127.0.0.1");
    ck_assert_int_eq(addresses_own(&a, &seen, false, &e), 0);
    ck_assert_int_eq(a.n, 1);
    ck_assert_int_eq(addresses_own(&a, &seen, true, &e), 0);
    ck_assert_int_ge(a.n, 1);
    ck_assert(addresses_is_loopback(&a.at[0]));
    for (int i = 1; i < a.n; i++)
        ck_assert(!addresses_is_loopback(&a.at[i]));
    /* Who can be called at several listens to all. */
    (void)addresses_listen(&a, &where);
    ck_assert_int_eq(addresses_is_loopback(&where), a.n == 1);
}

TEST(test_addresses_environment_is_obeyed)
{
    struct ddp_err e;
    struct addresses a;
    char text[ADDRESSES_TEXT];
    struct sockaddr_storage seen = address("10.9.8.7");
    ck_assert_int_eq(setenv("DDP_SOCKET_IFNAME", "none,lo", 1), 0);
    ck_assert_int_eq(addresses_own(&a, &seen, true, &e), 0);
    addresses_write(&a, 5, text);
    ck_assert_str_eq(text, "127.0.0.1 5");
    ck_assert_int_eq(setenv("DDP_SOCKET_IFNAME", "nosuch0", 1), 0);
    ck_assert_int_eq(addresses_own(&a, &seen, true, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_USAGE);
    ck_assert_int_eq(setenv("DDP_LOCAL_ADDR", "127.0.0.5", 1), 0);
    ck_assert_int_eq(addresses_own(&a, &seen, true, &e), 0);
    addresses_write(&a, 5, text);
    ck_assert_str_eq(text, "127.0.0.5 5");
    ck_assert_int_eq(setenv("DDP_LOCAL_ADDR", "host.example", 1), 0);
    ck_assert_int_eq(addresses_own(&a, &seen, true, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_USAGE);
}

SUITE("addresses", "all")
