/*
 * What is wrong, in as few sentences as possible. One bad cable or firewall
 * makes many links bad, and 30 sentences about links would hide it.
 *
 * For each kind of fault, the worst first: if all links have it, there is one
 * sentence. Else a node to which all links have it is blamed, then a node from
 * which all links have it, and only the links that are left are named pair by
 * pair. `told` marks the links that are in a sentence.
 *
 * Then what differs between nodes (MTU, versions, limits, clocks). What only
 * might cause trouble is a note; only a problem makes the preflight fail.
 *
 * There are no errors: findings that do not fit into the list are counted.
 */
#include "launcher/preflight/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define NAMES_MAX  6     /* in a sentence */
#define VALUES_MAX 6     /* of one fact */
#define IP_MAX     65535 /* loopback's MTU is more than a packet has */
#define CLOCK_US   MONO_S
#define FILES_FEW  4096
#define SHM_FEW    (INT64_C(1) << 30)

/* -- sentences ------------------------------------------------------------- */

struct judge {
    const struct preflight_report *r;
    struct preflight_findings *f;
    enum preflight_net net;
    int64_t good_rate;
    const struct fault *fault;
    bool *told; /* by link: it is in a sentence already */
};

__attribute__((format(printf, 3, 4))) static void
find(struct preflight_findings *f, bool problem, const char *fmt, ...)
{
    ddp_assert(f->n >= 0 && f->n <= PREFLIGHT_FINDINGS_MAX);
    f->problems += problem;
    f->notes += !problem;
    if (f->n == PREFLIGHT_FINDINGS_MAX)
        return;
    va_list ap;
    va_start(ap, fmt);
    f->at[f->n].problem = problem;
    (void)vsnprintf(f->at[f->n++].text, /* a long one is cut */
                    sizeof(f->at[0].text), fmt, ap);
    va_end(ap);
}

struct names {
    char text[240];
    int n;
};

static void add_text(struct names *names, const char *name)
{
    size_t used = strlen(names->text);
    if (names->n++ < NAMES_MAX)
        (void)snprintf(names->text + used, sizeof(names->text) - used,
                       "%s%.32s", used > 0 ? ", " : "", name);
}

static void
add_node(struct names *names, const struct preflight_report *r, int64_t rank)
{
    char label[80] = "";
    if (names->n < NAMES_MAX)
        preflight_label(r, rank, label);
    add_text(names, label);
}

static const char *end_names(struct names *names)
{
    size_t used = strlen(names->text);
    if (names->n > NAMES_MAX)
        (void)snprintf(names->text + used, sizeof(names->text) - used,
                       " and %d more", names->n - NAMES_MAX);
    return names->text;
}

/* -- bad links ------------------------------------------------------------- */

/* A way in which links are bad, and the words for all links, all links to a
 * node, all links from it, and both or one direction of a pair. */
struct fault {
    enum preflight_state state; /* PREFLIGHT_OK: connected, and slow */
    const char *all, *to, *from, *both, *one;
    const char *hint;
};

/* Links were read with both ends checked, so the node is there. */
static const struct preflight_node *target(const struct judge *j,
                                           const struct preflight_link *l)
{
    int at = preflight_find(j->r, l->to);
    ddp_assert(at >= 0);
    return &j->r->nodes[at];
}

static const char *target_addr(const struct judge *j,
                               const struct preflight_link *l)
{
    const struct preflight_node *n = target(j, l);
    const char *addr = n->place[j->net].addr;
    return addr[0] != '\0' ? addr : n->place[PREFLIGHT_MASTER].addr;
}

static bool is_bad(const struct judge *j, const struct preflight_link *l)
{
    if (j->fault->state == PREFLIGHT_OK)
        return preflight_is_slow(l, j->good_rate);
    return l->state == (int64_t)j->fault->state;
}

/* What was measured on this link. */
static void
clause(const struct judge *j, const struct preflight_link *l, char text[160])
{
    char is[PREFLIGHT_CELL], good[PREFLIGHT_CELL];
    int port = (int)target(j, l)->port;
    switch (j->fault->state) {
    case PREFLIGHT_NO:
        (void)snprintf(text, 160, "TCP to %s port %d: %.60s", target_addr(j, l),
                       port, l->reason);
        return;
    case PREFLIGHT_MUTE:
        (void)snprintf(text, 160, "at %s port %d: %.60s", target_addr(j, l),
                       port, l->reason);
        return;
    case PREFLIGHT_STUCK:
        (void)snprintf(text, 160,
                       "small packets to %s arrive, those of the MTU of %d "
                       "bytes do not",
                       target_addr(j, l), (int)l->mtu);
        return;
    case PREFLIGHT_OK:
        preflight_rate_text(l->rate, is);
        preflight_rate_text(j->good_rate, good);
        (void)snprintf(text, 160, "%s, while better links have %s", is, good);
        return;
    }
    DDP_WRONG("state of a link");
}

/* The worst first: a link is blamed for one fault only. */
static const struct fault faults[] = {
    {PREFLIGHT_NO, "no node can connect to another",
     "no node can connect to it", "it cannot connect to any node",
     "cannot connect to each other", "cannot connect", ""},
    {PREFLIGHT_MUTE, "no probe answers", "its probe does not answer",
     "no probe answers it", "get no answer from each other", "no answer",
     "check whether two hosts have this address"},
    {PREFLIGHT_STUCK, "large packets are lost", "large packets to it are lost",
     "its large packets are lost", "lose each other's large packets",
     "large packets are lost",
     "a switch or an interface on the way has a smaller MTU and drops them "
     "silently"},
    {PREFLIGHT_OK, "all links are slow", "all links to it are slow",
     "all links from it are slow", "have slow links to each other", "slow",
     "look for a bad cable, a busy link or a rate limit"},
};
#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* What to look for. A connection that times out was dropped, one that is
 * refused was answered: by a firewall, or by another machine with the same
 * address. */
static const char *hint_of(const struct judge *j,
                           const struct preflight_link *l)
{
    if (j->fault->hint[0] != '\0')
        return j->fault->hint;
    if (l->code == ETIMEDOUT)
        return "check the firewall: workers use such ports";
    if (l->code == ECONNREFUSED)
        return "check whether a firewall rejects it, or two hosts have this "
               "address";
    return "check the route; --local_addr sets another address of a node";
}

/* Which network is meant, if there are two. */
static const char *way(const struct judge *j)
{
    return j->net == PREFLIGHT_NCCL ? " (by NCCL_SOCKET_IFNAME)" : "";
}

static bool
is_open(const struct judge *j, int i, enum preflight_net net, bool *bad)
{
    const struct preflight_link *l = &j->r->links[i];
    *bad = l->net == (int64_t)net && !j->told[i] && is_bad(j, l);
    return l->net == (int64_t)net;
}

/* The node that a link leads to, or comes from. */
static int64_t end_of(const struct preflight_link *l, bool to)
{
    return to ? l->to : l->from;
}

/* One sentence about all bad links to (or from) a node. */
static void blame(struct judge *j, int64_t rank, bool to)
{
    const struct preflight_link *first = NULL;
    struct names names = {.n = 0};
    char label[80], what[160];
    for (int i = 0; i < j->r->links_len; i++) {
        const struct preflight_link *l = &j->r->links[i];
        bool bad;
        if (!is_open(j, i, j->net, &bad) || !bad || end_of(l, to) != rank)
            continue;
        j->told[i] = true;
        first = first == NULL ? l : first;
        add_node(&names, j->r, end_of(l, !to));
    }
    ddp_assert(first != NULL);
    clause(j, first, what);
    find(j->f, true, "node %s: %s%s: %s%s, %s %s; %s",
         preflight_label(j->r, rank, label), to ? j->fault->to : j->fault->from,
         way(j), to ? "" : "for example ", what, to ? "from" : "to",
         end_names(&names), hint_of(j, first));
}

/* Blames the nodes to which (or from which) all links are bad. */
static void blame_nodes(struct judge *j, bool to)
{
    int *all = calloc((size_t)j->r->n + 1, sizeof(*all));
    int *bads = calloc((size_t)j->r->n + 1, sizeof(*bads));
    ddp_assert(all != NULL && bads != NULL);
    for (int i = 0; i < j->r->links_len; i++) {
        bool bad;
        int at = preflight_find(j->r, end_of(&j->r->links[i], to));
        if (!is_open(j, i, j->net, &bad) || at < 0 || j->told[i])
            continue; /* it has a worse fault, and no verdict on this one */
        all[at]++;
        bads[at] += bad;
    }
    for (int i = 0; i < j->r->n; i++)
        if (bads[i] >= 2 && bads[i] == all[i])
            blame(j, j->r->nodes[i].rank, to);
    free(all);
    free(bads);
}

/* The bad link in the other direction, so that one sentence has both; -1: none.
 */
static int find_back(const struct judge *j, int i)
{
    const struct preflight_link *l = &j->r->links[i];
    for (int k = i + 1; k < j->r->links_len; k++) {
        const struct preflight_link *back = &j->r->links[k];
        bool bad;
        if (back->from == l->to && back->to == l->from &&
            is_open(j, k, j->net, &bad) && bad)
            return k;
    }
    return -1;
}

static void blame_pair(struct judge *j, int i)
{
    const struct preflight_link *l = &j->r->links[i];
    int back = find_back(j, i);
    char from[80], to[80], what[160];
    preflight_label(j->r, l->from, from);
    preflight_label(j->r, l->to, to);
    clause(j, l, what);
    j->told[i] = true;
    if (back >= 0)
        j->told[back] = true;
    if (back >= 0)
        find(j->f, true, "%s and %s %s%s: %s; %s", from, to, j->fault->both,
             way(j), what, hint_of(j, l));
    else
        find(j->f, true, "%s -> %s: %s%s: %s; %s", from, to, j->fault->one,
             way(j), what, hint_of(j, l));
}

/* If all links are bad in the same way: one sentence, with an example. */
static bool blame_all(struct judge *j)
{
    const struct preflight_link *first = NULL;
    int n = 0;
    for (int i = 0; i < j->r->links_len; i++) {
        bool bad;
        if (!is_open(j, i, j->net, &bad))
            continue;
        if (!bad)
            return false;
        n++;
        first = first == NULL ? &j->r->links[i] : first;
    }
    if (n <= 2)
        return false;
    char from[80], what[160];
    clause(j, first, what);
    find(j->f, true, "%s%s: for example from %s: %s; %s", j->fault->all, way(j),
         preflight_label(j->r, first->from, from), what, hint_of(j, first));
    return true;
}

static void judge_fault(struct judge *j)
{
    if (blame_all(j))
        return;
    blame_nodes(j, true);
    blame_nodes(j, false);
    for (int i = 0; i < j->r->links_len; i++) {
        bool bad;
        if (!is_open(j, i, j->net, &bad) || !bad)
            continue;
        if (j->f->n == PREFLIGHT_FINDINGS_MAX)
            j->f->problems++; /* counted only: the list is full */
        else
            blame_pair(j, i);
    }
}

static void judge_links(const struct preflight_report *r,
                        struct preflight_findings *f)
{
    ddp_assert(r->links_len >= 0 && (r->links != NULL || r->links_len == 0));
    struct judge j = {.r = r, .f = f};
    j.told = calloc((size_t)r->links_len + 1, sizeof(*j.told));
    ddp_assert(j.told != NULL);
    for (size_t k = 0; k < FAULTS; k++)
        for (int net = 0; net < PREFLIGHT_NETS; net++) {
            j.fault = &faults[k];
            j.net = (enum preflight_net)net;
            j.good_rate = preflight_good_rate(r, j.net);
            judge_fault(&j);
        }
    free(j.told);
}

/* -- nodes ----------------------------------------------------------------- */

/* Nodes of the round that never reached the store. Only their rank is known
 * here: their names would have come through the store. */
static void judge_missing(const struct preflight_report *r,
                          struct preflight_findings *f)
{
    struct names names = {.n = 0};
    char text[PREFLIGHT_CELL];
    for (int64_t rank = 0; r->n < r->world && rank < r->world; rank++) {
        if (preflight_find(r, rank) >= 0)
            continue;
        (void)snprintf(text, sizeof(text), "%" PRId64, rank);
        add_text(&names, text);
    }
    if (names.n > 0)
        find(f, true,
             "node%s %s (by rank) reached the rendezvous, but not the store at "
             "MASTER_ADDR %s port %d; check the firewall of this node; %s own "
             "output says more",
             names.n > 1 ? "s" : "", end_names(&names), r->master_addr,
             r->master_port, names.n > 1 ? "their" : "its");
}

/* Different MTUs in one network lose large packets in one direction. */
static void judge_mtu(const struct preflight_report *r,
                      struct preflight_findings *f,
                      enum preflight_net net)
{
    int64_t most = 0; /* the MTU of most nodes; the larger one if two tie */
    int votes = 0;
    for (int i = 0; i < r->n; i++) {
        int64_t mtu = r->nodes[i].place[net].mtu;
        int same = 0;
        for (int k = 0; mtu > 0 && k < r->n; k++)
            same += r->nodes[k].place[net].mtu == mtu;
        if (same > votes || (same == votes && mtu > most)) {
            votes = same;
            most = mtu;
        }
    }
    for (int i = 0; i < r->n; i++) {
        const struct preflight_place *p = &r->nodes[i].place[net];
        char label[80];
        if (p->mtu > 0 && p->mtu != most)
            find(f, true,
                 "node %s: the MTU of %s is %" PRId64 ", on %s it is %" PRId64
                 "; make them equal",
                 preflight_label(r, r->nodes[i].rank, label), p->iface, p->mtu,
                 votes > 1 ? "the others" : "another node", most);
    }
}

static int64_t own_mtu(const struct preflight_report *r,
                       const struct preflight_link *l)
{
    ddp_assert(preflight_find(r, l->from) >= 0);
    ddp_assert(l->net >= 0 && l->net < PREFLIGHT_NETS);
    return r->nodes[preflight_find(r, l->from)].place[l->net].mtu;
}

/* The kernel has learned that the path has a smaller MTU than the interface. */
static void judge_path(const struct preflight_report *r,
                       struct preflight_findings *f)
{
    const struct preflight_link *first = NULL;
    int n = 0;
    for (int i = 0; i < r->links_len; i++) {
        const struct preflight_link *l = &r->links[i];
        if (l->state != PREFLIGHT_OK || l->mtu <= 0 || l->mtu >= IP_MAX ||
            own_mtu(r, l) <= l->mtu)
            continue;
        first = first == NULL ? l : first;
        n++;
    }
    char from[80], to[80];
    if (first != NULL)
        find(f, false,
             "%s -> %s: only packets up to %" PRId64 " bytes pass, but the MTU "
             "of the interface is %" PRId64 "%s",
             preflight_label(r, first->from, from),
             preflight_label(r, first->to, to), first->mtu, own_mtu(r, first),
             n > 1 ? "; other links have the same problem" : "");
}

/* A note only: ddprun compares no clocks of hosts, but logs do. If no link saw
 * a difference nothing is computed. */
static void judge_clocks(const struct preflight_report *r,
                         struct preflight_findings *f)
{
    bool off = false;
    for (int i = 0; i < r->links_len; i++)
        off |= llabs(r->links[i].clock_us) >= CLOCK_US;
    for (int i = 0; off && i < r->n; i++) {
        int64_t ahead_us = 0;
        char label[80];
        if (preflight_clock(r, r->nodes[i].rank, &ahead_us) &&
            llabs(ahead_us) >= CLOCK_US)
            find(f, false,
                 "node %s: its clock is %.1f s %s the others'; check that NTP "
                 "runs",
                 preflight_label(r, r->nodes[i].rank, label),
                 (double)llabs(ahead_us) / MONO_S,
                 ahead_us > 0 ? "ahead of" : "behind");
    }
}

/* -- what should be the same ----------------------------------------------- */

#define FACT(field)                                                            \
    static const char *text_of_##field(const struct preflight_node *n,         \
                                       char scratch[64])                       \
    {                                                                          \
        (void)scratch;                                                         \
        return n->field;                                                       \
    }
FACT(version)
FACT(kernel)
FACT(driver)
FACT(nccl)
FACT(gpus)
FACT(ifname)

static const char *text_of_files(const struct preflight_node *n,
                                 char scratch[64])
{
    if (n->files < 0)
        return "unlimited";
    (void)snprintf(scratch, 64, "%" PRId64, n->files);
    return scratch;
}

const struct preflight_fact preflight_facts[] = {
    {"ddprun", true, text_of_version},
    {"kernel", false, text_of_kernel},
    {"driver", false, text_of_driver},
    {"NCCL", true, text_of_nccl},
    {"GPUs", false, text_of_gpus},
    {"open files", false, text_of_files},
    {"NCCL_SOCKET_IFNAME", false, text_of_ifname},
};
const int preflight_facts_len =
    (int)(sizeof(preflight_facts) / sizeof(preflight_facts[0]));

/* Appends one value and the nodes that have it. */
static void add_value(const struct preflight_report *r,
                      const struct preflight_fact *fact,
                      const char *value,
                      char *text,
                      size_t size)
{
    struct names names = {.n = 0};
    char scratch[64];
    size_t used = strlen(text);
    for (int i = 0; i < r->n; i++)
        if (strcmp(fact->text(&r->nodes[i], scratch), value) == 0)
            add_node(&names, r, r->nodes[i].rank);
    (void)snprintf(text + used, size - used, "%s%s", used > 0 ? "; " : "",
                   value[0] != '\0' ? value : "none");
    used = strlen(text);
    if (names.n < r->n)
        (void)snprintf(text + used, size - used, " on %s", end_names(&names));
}

int preflight_spread(const struct preflight_report *r,
                     const struct preflight_fact *fact,
                     char *text,
                     size_t size)
{
    char values[VALUES_MAX][128];
    int n = 0, some = 0;
    text[0] = '\0';
    for (int i = 0; i < r->n && n < VALUES_MAX; i++) {
        char scratch[64];
        const char *value = fact->text(&r->nodes[i], scratch);
        bool known = false;
        for (int k = 0; k < n; k++)
            known |= strcmp(values[k], value) == 0;
        if (known)
            continue;
        (void)snprintf(values[n], sizeof(values[n]), "%s", value);
        add_value(r, fact, values[n++], text, size);
        some += value[0] != '\0';
    }
    return some;
}

static void judge_facts(const struct preflight_report *r,
                        struct preflight_findings *f)
{
    for (int i = 0; i < preflight_facts_len; i++) {
        const struct preflight_fact *fact = &preflight_facts[i];
        char text[360];
        int values = preflight_spread(r, fact, text, sizeof(text));
        if (values > 1 || (values == 1 && strchr(text, ';') != NULL))
            find(f, fact->problem && values > 1,
                 "%s: not the same on all nodes: %s", fact->title, text);
    }
}

/* Limits that are large enough to start and too small for a real job. */
static void judge_limits(const struct preflight_report *r,
                         struct preflight_findings *f)
{
    struct names files = {.n = 0}, shm = {.n = 0};
    for (int i = 0; i < r->n; i++) {
        const struct preflight_node *n = &r->nodes[i];
        if (n->files >= 0 && n->files < FILES_FEW)
            add_node(&files, r, n->rank);
        if (n->shm < SHM_FEW)
            add_node(&shm, r, n->rank);
    }
    if (files.n > 0)
        find(f, false, /* messages: ok, FILES_FEW is 4096 */
             "workers can open fewer than %d files on %s; raise ulimit -n, or "
             "LimitNOFILE= of the service that starts ddprun",
             FILES_FEW, end_names(&files));
    if (shm.n > 0)
        find(f, false,
             "less than 1 GiB of /dev/shm is free on %s; NCCL and data loaders "
             "need it (docker: --shm-size or --ipc=host)",
             end_names(&shm));
}

void preflight_judge(const struct preflight_report *r,
                     struct preflight_findings *f)
{
    ddp_assert(r->n >= 0 && r->n <= r->world);
    f->n = f->problems = f->notes = 0;
    judge_missing(r, f);
    for (int i = 0; i < r->n; i++) {
        char label[80];
        if (r->nodes[i].problem[0] != '\0')
            find(f, true, "node %s: %s",
                 preflight_label(r, r->nodes[i].rank, label),
                 r->nodes[i].problem);
    }
    judge_links(r, f);
    for (int net = 0; net < PREFLIGHT_NETS; net++)
        judge_mtu(r, f, (enum preflight_net)net);
    judge_facts(r, f);
    judge_path(r, f);
    judge_clocks(r, f);
    judge_limits(r, f);
    ddp_assert(f->n <= f->problems + f->notes);
}
