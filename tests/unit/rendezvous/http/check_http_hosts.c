/* links: rendezvous/http/http_hosts rendezvous/base/err */
/* By which names HTTP may ask: a page elsewhere cannot use its own. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/http/http_hosts.h"
#include "tests/lib/suite.h"

static const struct {
    const char *host;
    bool is_ours;
} cases[] = {
    {"", true}, /* HTTP/1.0 */
    {"127.0.0.1", true},
    {"10.0.0.1:29400", true},
    {"[::1]:29400", true},
    {"[fd00::1]", true},
    {"[fe80::1%25eth0]:80", true},
    {"localhost", true},
    {"LocalHost.:29400", true},
    {"node.localhost:1", true},
    {"head", true},
    {"HEAD:29400", true},
    {"head.cluster.example.", true},
    {"metrics.example", true},
    {"Scrape.Example:443", true},
    {"localhost.evil.example", false},
    {"notlocalhost", false},
    {".localhost.", true},
    {"evil.example", false},
    {"evil.example:29400", false},
    {"head.evil.example", false},
    {"head.cluster", false},
    {"127.0.0.1.evil.example", false},
    {"1.2.3", false},
    {"0x7f000001", false},
    {"127.0.0.1%25x", false},
    {"[::1", false},
    {"[::1]x", false},
    {"[localhost]", false},
    {"[]", false},
    {"127.0.0.1:80:80", false},
    {"127.0.0.1:x", false},
    {"user@127.0.0.1", false},
    {"metrics.example,evil.example", false},
    {",", false},
    {".", false},
    {" ", false},
    {":29400", false},
    {"scrape", false},
};

TEST_EACH(test_http_host_is_ours_or_not, cases)
{
    struct http_hosts h;
    http_hosts_init(&h, "metrics.example,scrape.example.");
    (void)snprintf(h.own, sizeof(h.own), "head.cluster.example");
    ck_assert_int_eq(http_hosts_has(&h, cases[_i].host), cases[_i].is_ours);
}

/* This machine's own name is known; without one nothing else is. */
TEST(test_http_host_of_this_machine)
{
    struct http_hosts h;
    char host[300];
    http_hosts_init(&h, "");
    ck_assert_uint_gt(strlen(h.own), 0);
    (void)snprintf(host, sizeof(host), "%s:29400", h.own);
    ck_assert(http_hosts_has(&h, host));
    h.own[0] = '\0';
    ck_assert(!http_hosts_has(&h, "head"));
    ck_assert(!http_hosts_has(&h, "."));
    ck_assert(http_hosts_has(&h, "127.0.0.1"));
}

TEST(test_http_hosts_list_is_checked)
{
    static const struct {
        const char *list;
        int rc;
    } lists[] = {
        {"head", 0},  {"a.example,b_c-d.example.,e", 0},
        {"", -1},     {",", -1},
        {"a:80", -1}, {"http://a", -1},
        {"a,*", -1},  {"[::1]", -1},
    };
    char text[2 * HTTP_HOSTS_MAX];
    struct ddp_err err;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        ck_assert_msg(http_hosts_check(lists[i].list, &err) == lists[i].rc,
                      "%s", lists[i].list);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = i % 2 == 0 ? 'a' : ',';
    text[sizeof(text) - 1] = '\0';
    ck_assert_int_eq(http_hosts_check(text, &err), -1);
    text[HTTP_HOSTS_MAX - 1] = '\0';
    ck_assert_int_eq(http_hosts_check(text, &err), 0);
}

SUITE("http_hosts", "names", .tags = "fast")
