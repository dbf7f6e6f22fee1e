/* links: launcher/cluster/{hostfile,hostlist} */
/* links: rendezvous/base/{opts,opts_help,opts_complete,err,mono,log,utf8} */
/*
 * Lists of hosts that a user writes: the formats that are read, and what is
 * said of each line that is wrong.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cluster/hostfile.h"
#include "tests/lib/suite.h"

/* "a=4 b=0": each target with its slots. */
static void describe(const struct listed_hosts *l, char *out, size_t cap)
{
    FILE *f = fmemopen(out, cap, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < l->n; i++)
        fprintf(f, "%s%s=%d", i > 0 ? " " : "", l->host[i].target,
                l->host[i].slots);
    ck_assert_int_eq(fclose(f), 0);
}

static const struct {
    const char *text;
    const char *want; /* as described, or a part of the error */
} files[] = {
    /* -- Open MPI, DeepSpeed ---- */
    {"a slots=4\nb slots=2\n", "a=4 b=2"},
    {"a slots=4 max_slots=8\nb max-slots=2 slots=1", "a=4 b=1"},
    {"# all\n\n  a\tslots=4 # the first\r\n\tb\n", "a=4 b=0"},
    {"user@a slots=1\nb.example.org\n10.0.0.3",
     "user@a=1 b.example.org=0 10.0.0.3=0"},
    {"a slots=4096", "a=4096"},
    {"\xef\xbb\xbf"
     "a slots=4\n",
     "a=4"}, /* a byte order mark */
    /* -- MPICH ---- */
    {"a:4\nb:1\nc\n", "a=4 b=1 c=0"},
    /* -- Grid Engine ---- */
    {"a 4 main.q@a UNDEFINED\nb 2 main.q@b <NULL>\n", "a=4 b=2"},
    {"a 4 main.q@a UNDEFINED\na 2 other.q@a UNDEFINED\n",
     "F:2: the host a is there twice"},
    {"a 0 main.q@a UNDEFINED\n", "F:1: '0' is not understood"},
    {"a 4 main.q@a\n", "F:1: '4' is not understood"},
    {"a 4 main.q@a UNDEFINED more\n", "F:1: '4' is not understood"},
    /* -- IPv6 ---- */
    {"[fd00::1]:2\nfd00::2\n[fd00::3]\nme@[::1] slots=3\n",
     "fd00::1=2 fd00::2=0 fd00::3=0 me@::1=3"},
    {"fd00::1\n[fd00::1]\n", "fd00::1=2"},
    {"[fd00::1]:x\n", "F:1: 'x' is no number of slots"},
    {"[fd00::1\n", "F:1: '[fd00::1' is not a host name"},
    {"[fd00::1]2\n", "F:1: '[fd00::1]2' is not a host name"},
    {"[a]:2\n", "F:1: '[a]' is not a host name"},
    {"[]:2\n", "F:1: '[]' is not a host name"},
    {"fe80::1%eth0\n", "F:1: 'fe80::1%eth0' is not a host name"},
    {"a:2:3\n", "F:1: 'a:2:3' is not a host name"},
    /* -- PBS ---- */
    {"a\na\na\nb\nb\nc\n", "a=3 b=2 c=0"},
    {"a\nb\nA\n", "a=2 b=0"},
    /* -- what is wrong ---- */
    {"", "F: no host is in it; a line must be HOST, HOST:N or HOST slots=N"},
    {"# a\n\n", "F: no host is in it"},
    {"a\nb slots=0\n",
     "F:2: '0' is no number of slots: must be a whole number from 1 to 4096"},
    {"a slots=4097", "F:1: '4097' is no number of slots"},
    {"a slots=", "F:1: '' is no number of slots"},
    {"a slots=4x", "F:1: '4x' is no number"},
    {"a slots=99999999999999999999",
     "F:1: '99999999999999999999' is no number"},
    {"a max_slots=none", "F:1: 'none' is no number"},
    {"a:", "F:1: '' is no number"},
    {"a:-1", "F:1: '-1' is no number"},
    {"a:4 slots=4", "F:1: the number of slots is there twice"},
    {"a slots=4 slots=4", "F:1: the number of slots is there twice"},
    {"a 4",
     "F:1: '4' is not understood: a line must be HOST, HOST:N or HOST slots=N"},
    {"a\n\nb cores=4", "F:3: 'cores=4' is not understood"},
    {"a slots", "F:1: 'slots' is not understood"},
    {"a slots=2\nb\na slots=2\n",
     "F:3: the host a is there twice (first as number 1)"},
    {"a\na slots=2\n", "F:2: the host a is there twice"},
    {"a:2\na\n", "F:2: the host a is there twice"},
    {"x@a\ny@a:2\n", "F:2: the host a is there twice"},
    {"-oProxyCommand=x", "F:1: '-oProxyCommand=x' is not a host name"},
    {"x@-a", "F:1: 'x@-a' is not a host name"},
    {"@a", "F:1: '@a' is not a host name"},
    {"a;b", "F:1: 'a;b' is not a host name"},
    {"$(x)@a", "F:1: '$(x)@a' is not a host name"},
    {"a@b@c", "F:1: 'a@b@c' is not a host name"},
    {"slots=4", "F:1: 'slots=4' is not a host name"},
};

TEST_EACH(test_hostfile_reads_each_format_or_names_the_line, files)
{
    struct listed_hosts l = {.n = 0};
    struct ddp_err err = {.text = ""};
    char got[512];
    if (hostfile_read(&l, files[_i].text, "F", &err) < 0) {
        ck_assert_msg(strstr(err.text, files[_i].want) == err.text, "%s",
                      err.text);
        ck_assert_int_eq(err.code, DDP_E_USAGE);
    } else {
        describe(&l, got, sizeof(got));
        ck_assert_str_eq(got, files[_i].want);
    }
    hostfile_free(&l);
}

static const struct {
    const char *text, *want;
} lists[] = {
    {"a", "a=0"},
    {"a,b", "a=0 b=0"},
    {"a:4,b:2", "a=4 b=2"},
    {" a:4 , me@b ", "a=4 me@b=0"},
    {"[::1]:2,fd00::7", "::1=2 fd00::7=0"},
    {"", "'' is not a host name"},
    {"a,", "'' is not a host name"},
    {"a,,b", "'' is not a host name"},
    {"a,a", "the host a is there twice; HOST:N gives a host several workers"},
    {"a:2,b,A:2", "the host a is there twice (first as number 1)"},
    {"a:x", "'x' is no number of slots"},
    {"a slots=2", "'a slots=2' is not a host name"},
};

TEST_EACH(test_hostfile_reads_lists_with_commas, lists)
{
    struct listed_hosts l = {.n = 0};
    struct ddp_err err = {.text = ""};
    char got[512];
    if (hostfile_read_list(&l, lists[_i].text, &err) < 0) {
        ck_assert_msg(strstr(err.text, lists[_i].want) == err.text, "%s",
                      err.text);
        ck_assert_int_eq(err.code, DDP_E_USAGE);
    } else {
        describe(&l, got, sizeof(got));
        ck_assert_str_eq(got, lists[_i].want);
    }
    hostfile_free(&l);
}

/* `n` lines of `name`, each with its number behind it if `numbered`. */
static char *many(const char *name, bool numbered, int n)
{
    size_t cap = (size_t)n * (strlen(name) + 20) + 1, used = 0;
    char *text = malloc(cap), number[16];
    ck_assert_ptr_nonnull(text);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        (void)snprintf(number, sizeof(number), "%d", i);
        used += (size_t)snprintf(text + used, cap - used, "%s%s\n", name,
                                 numbered ? number : "");
    }
    return text;
}

TEST(test_hostfile_keeps_its_bounds)
{
    static char long_line[HOSTFILE_LINE_MAX + 2];
    static const struct {
        const char *name;
        bool numbered;
        int n, hosts;
        const char *err;
    } bounds[] = {
        {"n", true, HOSTFILE_HOSTS_MAX, HOSTFILE_HOSTS_MAX, NULL},
        {"n", true, HOSTFILE_HOSTS_MAX + 1, 0, "F:513: more than 512 hosts"},
        {"n", false, HOSTFILE_SLOTS_MAX, 1, NULL},
        {"n", false, HOSTFILE_SLOTS_MAX + 1, 0, "F:4097: the host n is there"},
        {"#", false, HOSTFILE_LINES_MAX + 1, 0, "F: more than 100000 lines"},
        {long_line, false, 1, 0, "F:1: longer than 1000 bytes"},
    };
    memset(long_line, '#', HOSTFILE_LINE_MAX + 1);
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        struct listed_hosts l = {.n = 0};
        struct ddp_err err = {.text = ""};
        char *text = many(bounds[i].name, bounds[i].numbered, bounds[i].n);
        int rc = hostfile_read(&l, text, "F", &err);
        if (bounds[i].err == NULL)
            ck_assert_msg(rc == 0 && l.n == bounds[i].hosts, "%s", err.text);
        else
            ck_assert_msg(rc < 0 && strstr(err.text, bounds[i].err) == err.text,
                          "%s", err.text);
        hostfile_free(&l);
        free(text);
    }
}

SUITE("hostfile", "hostfile")
