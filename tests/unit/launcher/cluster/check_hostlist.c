/* links: launcher/cluster/{hosts,hostlist} */
/* links: rendezvous/base/{opts,opts_help,opts_complete,err} */
/* libs: -lcjson */
/*
 * Lists of hosts: Slurm's brackets, and the other forms.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cluster/hosts.h"
#include "tests/lib/suite.h"

struct names {
    char text[4096];
    int stop_at; /* 0: never */
    int n;
};

static bool take(void *ctx, const char *name)
{
    struct names *t = ctx;
    size_t used = strlen(t->text);
    ck_assert_uint_lt(used + strlen(name) + 2, sizeof(t->text));
    (void)snprintf(t->text + used, sizeof(t->text) - used, "%s%s",
                   used > 0 ? " " : "", name);
    return ++t->n != t->stop_at;
}

static const struct {
    const char *list;
    const char *names; /* NULL: wrong, and `why` is a part of the error */
    const char *why;
} lists[] = {
    {"n1", "n1", NULL},
    {"n[1-3]", "n1 n2 n3", NULL},
    {"n[1-3,7,09-11]", "n1 n2 n3 n7 n09 n10 n11", NULL},
    {"n[1-2],gpu-[8-10]-ib,x", "n1 n2 gpu-8-ib gpu-9-ib gpu-10-ib x", NULL},
    {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02", NULL},
    {"n[5]", "n5", NULL},
    {"n[000-001]", "n000 n001", NULL},
    {"n[999999999]", "n999999999", NULL},
    {"[1-2]", "1 2", NULL},
    {"a.b-c_d[0-1].site", "a.b-c_d0.site a.b-c_d1.site", NULL},
    {"n[1-2]a[1-2]b[1-2]c[1]",
     "n1a1b1c1 n1a1b2c1 n1a2b1c1 n1a2b2c1 "
     "n2a1b1c1 n2a1b2c1 n2a2b1c1 n2a2b2c1",
     NULL},
    {"", NULL, "the name of a host is missing"},
    {",n1", NULL, "the name of a host is missing"},
    {"n1,", NULL, "the name of a host is missing"},
    {"n1,,n2", NULL, "the name of a host is missing"},
    {"n[1-2", NULL, "'[1-2': a ']' is missing"},
    {"n[1-2,m1", NULL, "a ']' is missing"},
    {"n1-2]", NULL, "a name must have letters"},
    {"n[]", NULL, "brackets must have numbers"},
    {"n[a-b]", NULL, "brackets must have numbers"},
    {"n[1-]", NULL, "a range must be FIRST-LAST"},
    {"n[-3]", NULL, "brackets must have numbers"},
    {"n[3-1]", NULL, "a range must be FIRST-LAST"},
    {"n[1,]", NULL, "brackets must have numbers"},
    {"n[1;2]", NULL, "',' or ']' must stand behind"},
    {"n[[1]]", NULL, "brackets must have numbers"},
    {"n[1234567890]", NULL, "numbers of up to 9 digits"},
    {"n[1-1234567890]", NULL, "a range must be FIRST-LAST"},
    {"n 1", NULL, "a name must have letters"},
    {"n\t", NULL, "a name must have letters"},
    {"n/1", NULL, "a name must have letters"},
    {"n[1]a[1]b[1]c[1]d[1]", NULL, "more than 4 brackets"},
    {"(null)", NULL, "a name must have letters"},
};

TEST_EACH(test_hostlist_expands_as_slurm_does, lists)
{
    struct names t = {.n = 0};
    struct ddp_err err = {.text = ""};
    int n = hostlist_walk(lists[_i].list, take, &t, &err);
    if (lists[_i].names != NULL) {
        ck_assert_int_eq(n, t.n);
        ck_assert_str_eq(t.text, lists[_i].names);
        return;
    }
    ck_assert_int_eq(n, -1);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_msg(strstr(err.text, lists[_i].why) != NULL, "%s", err.text);
}

static bool count(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return true;
}

/* However a list multiplies, it costs no more than the largest job. */
TEST(test_hostlist_is_bounded)
{
    static char large[HOSTLIST_TEXT_MAX + 2], name[400];
    struct ddp_err err;
    int n = 0;
    ck_assert_int_eq(hostlist_walk("n[0-99999]", count, &n, &err), 100000);
    ck_assert_int_eq(n, 100000);
    n = 0;
    ck_assert_int_eq(hostlist_walk("n[0-100000]", count, &n, &err), -1);
    ck_assert_int_eq(n, 100000);
    n = 0;
    ck_assert_int_eq(hostlist_walk("a[0-999999999]b[0-999999999]c[0-999999999]",
                                   count, &n, &err),
                     -1);
    ck_assert_ptr_nonnull(strstr(err.text, "more than 100000 hosts"));
    memset(name, 'x', 255);
    ck_assert_int_eq(hostlist_walk(name, count, &n, &err), 1);
    memset(name, 'x', 256);
    ck_assert_int_eq(hostlist_walk(name, count, &n, &err), -1);
    memcpy(name + 250, "[100000]", 9);
    ck_assert_int_eq(hostlist_walk(name, count, &n, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "longer than 255"));
    memset(large, 'x', sizeof(large) - 1);
    ck_assert_int_eq(hostlist_walk(large, count, &n, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "longer than 1000000"));
}

TEST(test_hostlist_ends_when_it_is_told)
{
    struct names t = {.stop_at = 3};
    struct ddp_err err;
    ck_assert_int_eq(hostlist_walk("n[1-9],m[1-9]", take, &t, &err), 3);
    ck_assert_str_eq(t.text, "n1 n2 n3");
}

/* -- other forms ----------------------------------------------------------- */

static const struct {
    enum hosts_form form;
    const char *text;
    const char *hosts; /* "name*slots ..."; else a part of the error */
} forms[] = {
    {HOSTS_SLURM, "n[1-2]", "n1*1 n2*1"},
    {HOSTS_SLURM, "n1,N1", "the host n1 is there twice"},
    {HOSTS_COMMAS, "b,a", "b*1 a*1"},
    {HOSTS_COMMAS, "b, a ", "b*1 a*1"},
    {HOSTS_COMMAS, "a,b,a", "the host a is there twice"},
    {HOSTS_COMMAS, "a,b[1]", "'b[1]' is not a host name"},
    {HOSTS_JSON, "[\"b\", \"a\"]", "b*1 a*1"},
    {HOSTS_JSON, "[\"b\", null]", "must be a JSON list"},
    {HOSTS_JSON, "\"b\"", "must be a JSON list"},
    {HOSTS_LINES, "b\na\nb\nb\n", "b*3 a*1"},
    {HOSTS_LINES, "b 7 x\n\n  a\r\n", "b*1 a*1"},
    {HOSTS_LINES, "b\n$\n", "line 2: '$' is not a host name"},
    {HOSTS_LINES, "", "must name at least one host"},
    {HOSTS_PAIRS, "b 2 a 3 b 1", "b*3 a*3"},
    {HOSTS_PAIRS, "b 2 a", "behind the host a"},
    {HOSTS_PAIRS, "b 2 a -1", "behind the host a"},
    {HOSTS_PAIRS, "b 1000000 b 1000000", "b*1000000"},
    {HOSTS_PAIRS, "b 1000001", "behind the host b"},
    {HOSTS_SLOTS, "b 2 q\na 1 q\n", "b*2 a*1"},
    {HOSTS_SLOTS, "b\n", "line 1: a number of slots"},
};

TEST_EACH(test_hosts_reads_each_form, forms)
{
    struct hosts h = {.n = 0};
    struct ddp_err err = {.text = ""};
    char got[256] = "";
    size_t used = 0;
    int rc = hosts_read(&h, forms[_i].form, forms[_i].text, &err);
    for (int i = 0; rc == 0 && i < h.n; i++)
        used +=
            (size_t)snprintf(got + used, sizeof(got) - used, "%s%s*%d",
                             i > 0 ? " " : "", h.host[i].name, h.host[i].slots);
    if (rc == 0)
        ck_assert_str_eq(got, forms[_i].hosts);
    else
        ck_assert_msg(strstr(err.text, forms[_i].hosts) != NULL, "%s",
                      err.text);
    hosts_free(&h);
}

TEST(test_hosts_finds_this_one)
{
    struct hosts h = {.n = 0};
    struct ddp_err err;
    ck_assert_int_eq(hosts_read(&h, HOSTS_COMMAS, "n1.a,n2.a,n2.b,n3", &err),
                     0);
    ck_assert_int_eq(hosts_find(&h, "n1.a"), 0);
    ck_assert_int_eq(hosts_find(&h, "N1"), 0);
    ck_assert_int_eq(hosts_find(&h, "n1.other"), 0);
    ck_assert_int_eq(hosts_find(&h, "n2.b"), 2);
    ck_assert_int_eq(hosts_find(&h, "n2"), -1);
    ck_assert_int_eq(hosts_find(&h, "n3.site.org"), 3);
    ck_assert_int_eq(hosts_find(&h, "n"), -1);
    ck_assert_int_eq(hosts_find(&h, ""), -1);
    hosts_free(&h);
}

SUITE("hostlist", "hostlist", .tags = "fast")
