/* links: launcher/preflight/{judge,print,facts,look} */
/* links: launcher/hw/{gpus,kfd,nvml,topology,cpus} rendezvous/net/addr */
/* links: rendezvous/base/{err,mono,utf8,opts,opts_help,log,opts_complete} */
/* libs: -lcjson -ldl */
/* What a preflight says about what it found: made-up clusters in, sentences and
 * tables out. */
#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/preflight/look.h"
#include "launcher/preflight/report.h"
#include "tests/lib/suite.h"

#define MOST  40
#define PORT0 40000

static struct preflight_node nodes[MOST];
static struct preflight_link links[2 * MOST * MOST];
static struct preflight_report r;
static struct preflight_findings f;

static struct preflight_link *to_link(int from, int to)
{
    for (int i = 0; i < r.links_len; i++)
        if (links[i].from == from && links[i].to == to)
            return &links[i];
    ck_abort_msg("no link from %d to %d", from, to);
}

__attribute__((format(printf, 3, 4))) static void
set(int node, int fact, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(nodes[node].fact[fact], FACT_MAX, fmt, ap);
    va_end(ap);
}

/* n nodes n1, n2, ... without a fault. */
static void make_cluster(int n)
{
    memset(nodes, 0, sizeof(nodes));
    memset(links, 0, sizeof(links));
    r = (struct preflight_report){.run = "job",
                                  .master_addr = "10.0.0.1",
                                  .master_port = 4711,
                                  .world = n,
                                  .nodes = nodes,
                                  .n = n,
                                  .links = links};
    for (int i = 0; i < n; i++) {
        nodes[i].rank = i;
        set(i, FACT_NAME, "n%d", i + 1);
        set(i, FACT_PORT, "%d", PORT0 + i);
        set(i, FACT_ADDR, "10.0.0.%d", i + 1);
        set(i, FACT_IFACE, "eth%d", 0);
        set(i, FACT_MTU, "%d", 1500);
        set(i, FACT_SHM, "%d", 65536);
        set(i, FACT_FILES, "%d", 65536);
        set(i, FACT_VERSION, "0.%d.0", 1);
        set(i, FACT_KERNEL, "6.%d.0", 1);
        for (int k = 0; k < n; k++)
            if (k != i)
                links[r.links_len++] =
                    (struct preflight_link){.from = i, .to = k};
    }
}

static void block(int from, int to)
{
    struct preflight_link *l = to_link(from, to);
    l->state = PREFLIGHT_NO;
    l->code = ETIMEDOUT;
}

/* Judges, and has exactly this problem as the only one. */
static void only_problem(const char *text)
{
    preflight_judge(&r, &f);
    ck_assert_int_eq(f.problems, 1);
    ck_assert_str_eq(f.at[0].text, text);
    ck_assert(f.at[0].problem);
}

/* -- judging --------------------------------------------------------------- */

/* Nothing is found wrong with good clusters of any size. */
TEST(test_good_cluster_has_no_finding)
{
    for (int n = 1; n <= MOST; n++) {
        make_cluster(n);
        preflight_judge(&r, &f);
        ck_assert_int_eq(f.problems + f.notes + f.n, 0);
    }
}

/* One direction of one pair. */
TEST(test_blocked_link_is_named)
{
    make_cluster(3);
    block(0, 2);
    only_problem("n1 -> n3: cannot connect: TCP to 10.0.0.3 port 40002: timed "
                 "out; check the firewall: workers use such ports");
}

/* Each node that others do not reach has a sentence, with all of them. */
TEST(test_node_that_some_do_not_reach_is_blamed_once)
{
    make_cluster(5);
    block(1, 2);
    block(3, 2);
    only_problem("node n3: some nodes cannot connect to it: TCP to 10.0.0.3 "
                 "port 40002: timed out, from n2, n4; check the firewall: "
                 "workers use such ports");
}

/* All links to a node are the node's fault, not that of the others. */
TEST(test_node_that_nobody_reaches_is_blamed)
{
    make_cluster(4);
    for (int i = 0; i < 3; i++)
        block(i, 3);
    only_problem(
        "node n4: no node can connect to it: TCP to 10.0.0.4 port 40003: timed "
        "out, from n1, n2, n3; check the firewall: workers use such ports");
}

/* All links from a node are its fault, also beside a node that nobody
 * reaches. */
TEST(test_node_that_reaches_nobody_is_blamed)
{
    make_cluster(5);
    for (int i = 0; i < 4; i++) {
        block(4, i);
        if (i != 2)
            block(i, 2);
    }
    preflight_judge(&r, &f);
    ck_assert_int_eq(f.problems, 2);
    ck_assert_ptr_nonnull(strstr(
        f.at[0].text, "node n5: it reaches no other node: for example "));
    ck_assert_ptr_nonnull(strstr(f.at[0].text, "to n1, n2, n3, n4;"));
    ck_assert_ptr_nonnull(
        strstr(f.at[1].text, "node n3: no node can connect to it"));
    ck_assert_ptr_nonnull(strstr(f.at[1].text, "from n1, n2, n4;"));
}

/* Where nothing passes at all, one sentence is enough. */
TEST(test_all_blocked_is_one_problem)
{
    make_cluster(5);
    for (int i = 0; i < r.links_len; i++)
        block((int)links[i].from, (int)links[i].to);
    only_problem(
        "no node reaches another: for example from n1: TCP to 10.0.0.2 "
        "port 40001: timed out; check the firewall: workers use such ports");
}

/* Another host has its address, or another program its port. */
TEST(test_probe_that_does_not_answer_is_named)
{
    make_cluster(3);
    to_link(0, 1)->state = PREFLIGHT_MUTE;
    only_problem("n1 -> n2: no answer: at 10.0.0.2 port 40001: the peer closed "
                 "the connection; check whether two hosts have this address");
}

/* Of two MTUs the one that fewer have is wrong. */
TEST(test_odd_mtu_is_named)
{
    make_cluster(3);
    set(1, FACT_MTU, "%d", 9000);
    only_problem("MTU: not the same on all nodes: 1500 on n1, n3; 9000 on n2");
}

TEST(test_lost_large_packets_are_named)
{
    make_cluster(3);
    to_link(0, 1)->state = PREFLIGHT_STUCK;
    only_problem(
        "n1 -> n2: large packets are lost: small packets to 10.0.0.2 arrive, "
        "those of the MTU of 1500 bytes do not; a switch or an interface on "
        "the way has a smaller MTU and drops them silently");
}

/* Of three clocks the wrong one is found, not those that differ from it. */
TEST(test_wrong_clock_is_noted)
{
    make_cluster(3);
    for (int i = 0; i < 2; i++) {
        to_link(i, 2)->clock_us = -90 * INT64_C(1000000);
        to_link(2, i)->clock_us = 90 * INT64_C(1000000);
    }
    preflight_judge(&r, &f);
    ck_assert_int_eq(f.problems, 0);
    ck_assert_int_eq(f.notes, 1);
    ck_assert_str_eq(
        f.at[0].text,
        "node n3: its clock is 90.0 s behind the others'; check that NTP runs");
}

/* Other versions of ddprun and of NCCL are problems; of the kernel, a note; and
 * NCCL that is missing somewhere, too. */
TEST(test_versions_that_differ_are_told)
{
    make_cluster(3);
    set(2, FACT_VERSION, "0.%d.0", 2);
    set(1, FACT_KERNEL, "5.%d.0", 10);
    set(0, FACT_NCCL, "2.28.%d", 9);
    preflight_judge(&r, &f);
    ck_assert_int_eq(f.problems, 1);
    ck_assert_int_eq(f.notes, 2);
    ck_assert_str_eq(
        f.at[0].text,
        "ddprun: not the same on all nodes: 0.1.0 on n1, n2; 0.2.0 on n3");
    ck_assert_str_eq(
        f.at[1].text,
        "kernel: not the same on all nodes: 6.1.0 on n1, n3; 5.10.0 on n2");
    ck_assert_str_eq(
        f.at[2].text,
        "NCCL: not the same on all nodes: 2.28.9 on n1; none on n2, n3");
}

TEST(test_missing_nodes_are_numbered)
{
    make_cluster(3);
    r.world = 5;
    only_problem("nodes 3, 4 (by rank) reached the rendezvous, but not the "
                 "store at MASTER_ADDR 10.0.0.1 port 4711; check the "
                 "firewall of this node; their own output says more");
}

/* Two launchers on one host are told apart. */
TEST(test_equal_names_get_their_rank)
{
    char label[80];
    make_cluster(3);
    set(1, FACT_NAME, "n%d", 1);
    ck_assert_str_eq(preflight_label(&r, 0, label), "n1/0");
    ck_assert_str_eq(preflight_label(&r, 1, label), "n1/1");
    ck_assert_str_eq(preflight_label(&r, 2, label), "n3");
    ck_assert_str_eq(preflight_label(&r, 7, label), "node 7");
}

/* More findings than there is room for are still counted. */
TEST(test_too_many_problems_are_counted)
{
    make_cluster(MOST);
    for (int i = 0; i < MOST; i++) {
        block(i, (i + 1) % MOST);
        set(i, FACT_PROBLEM, "no GPU %d", i);
    }
    preflight_judge(&r, &f);
    ck_assert_int_eq(f.n, PREFLIGHT_FINDINGS_MAX);
    ck_assert_int_eq(f.problems, 2 * MOST);
}

/* -- printing -------------------------------------------------------------- */

static char *printed(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    preflight_judge(&r, &f);
    preflight_print(&r, &f, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

CASE("printing")

TEST(test_table_of_two_nodes)
{
    make_cluster(2);
    block(1, 0);
    r.took_s = 1.25;
    char *text = printed();
    ck_assert_str_eq(
        text,
        "preflight of run 'job': 2 nodes, 1 of 2 links good, in 1.2 s\n\n  #  "
        "node           address         interface     MTU\n  0  n1             "
        "10.0.0.1        eth0         1500\n  1  n2             10.0.0.2       "
        " "
        "eth0         1500\n\nMTU                1500\nddprun             "
        "0.1.0\nkernel             6.1.0\nopen files         65536\n/dev/shm   "
        "        at least 64.0 GiB free\n\nPROBLEM  n2 -> n1: cannot connect: "
        "TCP to 10.0.0.1 port 40000: timed out; check\n         the firewall: "
        "workers use such ports\n\npreflight: 1 problem\n");
    free(text);
}

/* Whatever the cluster, no line is longer than 80 columns. */
TEST(test_lines_have_80_columns)
{
    static const int64_t times[] = {1, 999, 1000, 99499, 99500, 3000000};
    for (int n = 1; n <= MOST; n++) {
        make_cluster(n);
        for (int i = 0; i < r.links_len; i++) {
            links[i].clock_us = (i % 7 - 3) * times[i % 6] * 1000000;
            links[i].state = i % PREFLIGHT_STATES;
        }
        for (int i = 0; i < n; i++) {
            memset(nodes[i].fact[FACT_NAME], 'a' + i % 26, 60);
            memset(nodes[i].fact[FACT_KERNEL], 'A' + i % 26, 60);
            set(i, FACT_ADDR + PREFLIGHT_NCCL,
                "fd00:1234:5678:9abc:def0:1234:5678:%04x", i);
            set(i, FACT_IFACE + PREFLIGHT_NCCL, "enp129s0f0np%d", i % 100);
            set(i, FACT_MTU + PREFLIGHT_NCCL, "%d", 65536);
        }
        char *text = printed();
        for (char *save, *line = strtok_r(text, "\n", &save); line != NULL;
             line = strtok_r(NULL, "\n", &save))
            if (strlen(line) > 80)
                ck_abort_msg("%d nodes: %s", n, line);
        free(text);
    }
}

/* -- data ------------------------------------------------------------------ */

CASE("data")

/* What is written is read again, without what a terminal would obey. */
TEST(test_data_round_trip)
{
    static struct preflight_node back;
    make_cluster(3);
    set(1, FACT_PROBLEM, "a\033[2J\n\"b\"%d", 1);
    char *text = preflight_node_text(&nodes[1]);
    ck_assert(preflight_node_read(&back, 1, text));
    ck_assert_str_eq(back.fact[FACT_PROBLEM], "a?[2J?\"b\"1");
    memcpy(back.fact[FACT_PROBLEM], nodes[1].fact[FACT_PROBLEM], FACT_MAX);
    ck_assert_mem_eq(&back, &nodes[1], sizeof(back));
    free(text);
    struct preflight_link got[4] = {{.from = 0}};
    int n = 0;
    links[0].clock_us = -5;
    text = preflight_links_text(links, 2);
    ck_assert(preflight_links_read(got, &n, 4, 0, text));
    ck_assert_int_eq(n, 2);
    ck_assert_mem_eq(got, links, 2 * sizeof(links[0]));
    free(text);
}

/* Nothing that a stranger puts into the store gets further. */
TEST(test_bad_data_is_refused)
{
    static const char *const bad[] = {
        "",
        "{}",
        "nonsense",
        "[1,0]",
        "[\"a\"]",
        "[1,0,0,0,{}]",
        "[1e300,0,0,0,0]",
        "[1,0,0,0,0,7]",
        "[1,2,0,0,0]",
        "[1,0,4,0,0]",
        "[1,0,0,-1,0]",
        "[1,0,0,9999,0]",
    };
    static struct preflight_node node;
    struct preflight_link got[2];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int n = 0;
        ck_assert(!preflight_node_read(&node, 0, bad[i]));
        ck_assert_msg(!preflight_links_read(got, &n, 2, 0, bad[i]), "%s",
                      bad[i]);
    }
    make_cluster(4);
    int n = 0;
    char *text = preflight_links_text(links, 3); /* one too many */
    ck_assert(!preflight_links_read(got, &n, 2, 0, text));
    ck_assert_int_eq(n, 2);
    free(text);
    set(0, FACT_PORT, "%d", 65536);
    text = preflight_node_text(&nodes[0]);
    ck_assert(!preflight_node_read(&node, 0, text));
    free(text);
}

TEST(test_ifname_matches_as_in_nccl)
{
    static const struct {
        const char *list, *iface;
        bool matches;
    } cases[] = {
        {"eth", "eth0", true},       {"eth", "ib0", false},
        {"ib,eth", "eth1", true},    {"=eth", "eth0", false},
        {"=eth0", "eth0", true},     {"=ib0,eth0", "eth0", true},
        {"^docker", "eth0", true},   {"^docker", "docker0", false},
        {"^lo,docker", "lo", false}, {"^=eth", "eth0", true},
        {"^=eth0", "eth0", false},   {",", "eth0", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_msg(preflight_ifname_matches(cases[i].list, cases[i].iface) ==
                          cases[i].matches,
                      "%s, %s", cases[i].list, cases[i].iface);
}

SUITE("preflight", "judging")
