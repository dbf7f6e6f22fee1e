/*
 * What is wrong, in as few sentences as possible. One bad cable or firewall
 * makes many links bad, and 30 sentences about links would hide it.
 *
 * If no link of a network is good, there is one sentence. Else a node that
 * reaches no other one is blamed, then each node that others do not reach, with
 * the first of their reasons.
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
#include "rendezvous/base/opts.h"

#define NAMES_MAX  6 /* in a sentence */
#define VALUES_MAX 6 /* of one fact */
#define CLOCK_US   MONO_S
#define FILES_FEW  4096
#define SHM_FEW    1024 /* MiB */
#define NOBODY     (-1)

/* -- look-ups -------------------------------------------------------------- */

int preflight_find(const struct preflight_report *r, int64_t rank)
{
    ddp_assert(r->n >= 0);
    int low = 0, high = r->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (r->nodes[mid].rank < rank)
            low = mid + 1;
        else
            high = mid;
    }
    ddp_assert(low >= 0 && low <= r->n);
    return low < r->n && r->nodes[low].rank == rank ? low : -1;
}

const char *
preflight_label(const struct preflight_report *r, int64_t rank, char label[80])
{
    int at = preflight_find(r, rank);
    int same = 0;
    for (int i = 0; at >= 0 && i < r->n; i++)
        same += strcmp(r->nodes[i].fact[FACT_NAME],
                       r->nodes[at].fact[FACT_NAME]) == 0;
    if (at < 0)
        (void)snprintf(label, 80, "node %" PRId64, rank);
    else if (same == 1)
        (void)snprintf(label, 80, "%.60s", r->nodes[at].fact[FACT_NAME]);
    else
        (void)snprintf(label, 80, "%.50s/%" PRId64,
                       r->nodes[at].fact[FACT_NAME], rank);
    return label;
}

/* -- sentences ------------------------------------------------------------- */

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

/* Of one node: its links of which no sentence tells. */
struct tally {
    int out, out_bad, in, in_bad;
};

/* The links of one network. */
struct judge {
    const struct preflight_report *r;
    struct preflight_findings *f;
    enum preflight_net net;
    bool *told;          /* by link: a sentence tells of it */
    struct tally *tally; /* by node */
};

/* What is said of a bad link, of several that lead to one node, and of all of
 * them; and what to look for, "": that depends on the errno. */
static const struct {
    const char *one, *some, *all, *hint;
} words[PREFLIGHT_STATES] = {
    [PREFLIGHT_NO] = {"cannot connect", "some nodes cannot connect to it",
                      "no node can connect to it", ""},
    [PREFLIGHT_MUTE] = {"no answer", "its probe does not answer",
                        "its probe does not answer",
                        "check whether two hosts have this address"},
    [PREFLIGHT_STUCK] = {"large packets are lost",
                         "large packets to it are lost",
                         "large packets to it are lost",
                         "a switch or an interface on the way has a smaller "
                         "MTU and drops them silently"},
};

/* A connection that times out was dropped, one that is refused was answered: by
 * a firewall, or by another machine with the same address. */
static const char *hint_of(const struct preflight_link *l)
{
    if (words[l->state].hint[0] != '\0')
        return words[l->state].hint;
    return l->code == ETIMEDOUT ? "check the firewall: workers use such ports"
           : l->code == ECONNREFUSED
               ? "check whether a firewall rejects it, or two hosts have this "
                 "address"
               : "check the route; --local_addr sets another address of a node";
}

static const char *reason_of(const struct preflight_link *l)
{
    return l->code == ETIMEDOUT      ? "timed out"
           : l->code == ECONNREFUSED ? "refused"
           : l->code == 0            ? "the peer closed the connection"
                                     : strerror((int)l->code);
}

/* What was seen of a link. Both ends of each link came. */
static void
clause(const struct judge *j, const struct preflight_link *l, char text[160])
{
    const struct preflight_node *n = &j->r->nodes[preflight_find(j->r, l->to)];
    const char *addr = preflight_addr(n, j->net);
    if (l->state == PREFLIGHT_STUCK)
        (void)snprintf(text, 160,
                       "small packets to %.64s arrive, those of the MTU of "
                       "%.8s bytes do not",
                       addr, n->fact[FACT_MTU + (int)j->net]);
    else
        (void)snprintf(text, 160, "%s %.64s port %d: %.60s",
                       l->state == PREFLIGHT_NO ? "TCP to" : "at", addr,
                       preflight_port(n), reason_of(l));
}

/* Which network is meant, if there are two. */
static const char *way(const struct judge *j)
{
    return j->net == PREFLIGHT_NCCL ? " (by NCCL_SOCKET_IFNAME)" : "";
}

/* Counts a link in, or with -1 out. */
static void count(struct judge *j, const struct preflight_link *l, int by)
{
    struct tally *from = &j->tally[preflight_find(j->r, l->from)];
    struct tally *to = &j->tally[preflight_find(j->r, l->to)];
    bool bad = l->state != PREFLIGHT_OK;
    from->out += by;
    from->out_bad += bad ? by : 0;
    to->in += by;
    to->in_bad += bad ? by : 0;
}

/* The next bad link behind link `i`, from or to this rank, of which no sentence
 * tells; the caller's sentence does so now. NULL: there is none. */
static const struct preflight_link *
next_bad(struct judge *j, int *i, int64_t from, int64_t to)
{
    while (++*i < j->r->links_len) {
        const struct preflight_link *l = &j->r->links[*i];
        if (l->net != (int64_t)j->net || l->state == PREFLIGHT_OK ||
            j->told[*i] || (l->from != from && l->to != to))
            continue;
        j->told[*i] = true;
        count(j, l, -1);
        return l;
    }
    return NULL;
}

static void blame_source(struct judge *j, int64_t rank)
{
    char label[80], what[160];
    struct names names = {.n = 0};
    int i = -1;
    const struct preflight_link *first = next_bad(j, &i, rank, NOBODY), *l;
    clause(j, first, what);
    for (l = first; l != NULL; l = next_bad(j, &i, rank, NOBODY))
        add_node(&names, j->r, l->to);
    find(j->f, true,
         "node %s: it reaches no other node%s: for example %s, to %s; %s",
         preflight_label(j->r, rank, label), way(j), what, end_names(&names),
         hint_of(first));
}

static void blame_target(struct judge *j, int64_t rank, const struct tally *t)
{
    char label[80], what[160];
    struct names names = {.n = 0};
    bool all = t->in == t->in_bad;
    int i = -1, n = t->in_bad;
    const struct preflight_link *first = next_bad(j, &i, NOBODY, rank), *l;
    clause(j, first, what);
    preflight_label(j->r, rank, label);
    for (l = first; l != NULL; l = next_bad(j, &i, NOBODY, rank))
        add_node(&names, j->r, l->from);
    if (n == 1)
        find(j->f, true, "%s -> %s: %s%s: %s; %s", end_names(&names), label,
             words[first->state].one, way(j), what, hint_of(first));
    else
        find(j->f, true, "node %s: %s%s: %s, from %s; %s", label,
             all ? words[first->state].all : words[first->state].some, way(j),
             what, end_names(&names), hint_of(first));
}

/* If no link is good: one sentence, with an example. */
static bool blame_all(struct judge *j)
{
    char from[80], what[160];
    const struct preflight_link *first = NULL;
    int bad = 0;
    for (int i = 0; i < j->r->links_len; i++) {
        const struct preflight_link *l = &j->r->links[i];
        if (l->net != (int64_t)j->net)
            continue;
        if (l->state == PREFLIGHT_OK)
            return false;
        first = bad++ == 0 ? l : first;
    }
    if (bad <= 2)
        return false;
    clause(j, first, what);
    find(j->f, true, "no node reaches another%s: for example from %s: %s; %s",
         way(j), preflight_label(j->r, first->from, from), what,
         hint_of(first));
    return true;
}

static void judge_net(struct judge *j)
{
    if (blame_all(j))
        return;
    memset(j->tally, 0, (size_t)j->r->n * sizeof(*j->tally));
    for (int i = 0; i < j->r->links_len; i++)
        if (j->r->links[i].net == (int64_t)j->net)
            count(j, &j->r->links[i], 1);
    for (int i = 0; i < j->r->n; i++)
        if (j->tally[i].out >= 2 && j->tally[i].out_bad == j->tally[i].out)
            blame_source(j, j->r->nodes[i].rank);
    for (int i = 0; i < j->r->n; i++)
        if (j->tally[i].in_bad > 0)
            blame_target(j, j->r->nodes[i].rank, &j->tally[i]);
}

static void judge_links(const struct preflight_report *r,
                        struct preflight_findings *f)
{
    struct judge j = {.r = r, .f = f};
    ddp_assert(r->links_len >= 0 && (r->links != NULL || r->links_len == 0));
    j.told = calloc((size_t)r->links_len + 1, sizeof(*j.told));
    j.tally = calloc((size_t)r->n + 1, sizeof(*j.tally));
    ddp_assert(j.told != NULL && j.tally != NULL);
    for (int net = 0; net < PREFLIGHT_NETS; net++) {
        j.net = (enum preflight_net)net;
        judge_net(&j);
    }
    free(j.told);
    free(j.tally);
}

/* -- nodes ----------------------------------------------------------------- */

/* Nodes of the round that never reached the store. Only their rank is known
 * here: their names would have come through the store. */
static void judge_missing(const struct preflight_report *r,
                          struct preflight_findings *f)
{
    struct names names = {.n = 0};
    char text[24];
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

/* A note only: ddprun compares no clocks of hosts, but logs do. A clock is off
 * if more than half of the nodes that its node reached have another time: of
 * three clocks the wrong one is told, not the two that differ from it. */
static void judge_clock(const struct preflight_report *r,
                        struct preflight_findings *f,
                        int64_t rank)
{
    char label[80];
    int64_t ahead_us = 0;
    int reached = 0, off = 0;
    for (int i = 0; i < r->links_len; i++) {
        const struct preflight_link *l = &r->links[i];
        bool told = l->state == PREFLIGHT_OK || l->state == PREFLIGHT_STUCK;
        if (l->from != rank || !told)
            continue;
        reached++;
        if (llabs(l->clock_us) < CLOCK_US)
            continue;
        off++;
        ahead_us = -l->clock_us;
    }
    if (2 * off > reached)
        find(f, false,
             "node %s: its clock is %.1f s %s the others'; check that NTP runs",
             preflight_label(r, rank, label), (double)llabs(ahead_us) / MONO_S,
             ahead_us > 0 ? "ahead of" : "behind");
}

static bool is_any_clock_off(const struct preflight_report *r)
{
    for (int i = 0; i < r->links_len; i++)
        if (llabs(r->links[i].clock_us) >= CLOCK_US)
            return true;
    return false;
}

/* -- what should be the same ----------------------------------------------- */

const struct preflight_title preflight_titles[PREFLIGHT_TITLES] = {
    {FACT_MTU + PREFLIGHT_MASTER, "MTU", true},
    {FACT_MTU + PREFLIGHT_NCCL, "MTU of NCCL's way", true},
    {FACT_VERSION, "ddprun", true},
    {FACT_KERNEL, "kernel", false},
    {FACT_DRIVER, "driver", false},
    {FACT_NCCL, "NCCL", true},
    {FACT_GPUS, "GPUs", false},
    {FACT_FILES, "open files", false},
    {FACT_IFNAME, "NCCL_SOCKET_IFNAME", false},
};

/* Appends one value and the nodes that have it. */
static void add_value(const struct preflight_report *r,
                      int fact,
                      const char *value,
                      char *text,
                      size_t size)
{
    struct names names = {.n = 0};
    size_t used = strlen(text);
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->nodes[i].fact[fact], value) == 0)
            add_node(&names, r, r->nodes[i].rank);
    (void)snprintf(text + used, size - used, "%s%.120s", used > 0 ? "; " : "",
                   value[0] != '\0' ? value : "none");
    used = strlen(text);
    if (names.n < r->n)
        (void)snprintf(text + used, size - used, " on %s", end_names(&names));
}

int preflight_spread(const struct preflight_report *r,
                     int fact,
                     char *text,
                     size_t size)
{
    const char *values[VALUES_MAX];
    int n = 0, some = 0;
    text[0] = '\0';
    for (int i = 0; i < r->n && n < VALUES_MAX; i++) {
        const char *value = r->nodes[i].fact[fact];
        bool known = false;
        for (int k = 0; k < n; k++)
            known |= strcmp(values[k], value) == 0;
        if (known)
            continue;
        add_value(r, fact, value, text, size);
        some += value[0] != '\0';
        values[n++] = value;
    }
    return some;
}

static void judge_facts(const struct preflight_report *r,
                        struct preflight_findings *f)
{
    for (int i = 0; i < PREFLIGHT_TITLES; i++) {
        const struct preflight_title *t = &preflight_titles[i];
        char text[360];
        int values = preflight_spread(r, t->fact, text, sizeof(text));
        if (values > 1 || (values == 1 && strchr(text, ';') != NULL))
            find(f, t->problem && values > 1,
                 "%s: not the same on all nodes: %s", t->title, text);
    }
}

/* Whether the node has a number there, and one that is less. */
static bool
is_below(const struct preflight_node *n, enum preflight_fact fact, int64_t most)
{
    int64_t number;
    return opts_read_int(n->fact[fact], 0, INT64_MAX, &number) && number < most;
}

/* Limits that are large enough to start and too small for a real job. */
static void judge_limits(const struct preflight_report *r,
                         struct preflight_findings *f)
{
    struct names files = {.n = 0}, shm = {.n = 0};
    for (int i = 0; i < r->n; i++) {
        const struct preflight_node *n = &r->nodes[i];
        if (is_below(n, FACT_FILES, FILES_FEW))
            add_node(&files, r, n->rank);
        if (n->fact[FACT_SHM][0] == '\0' || is_below(n, FACT_SHM, SHM_FEW))
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
        if (r->nodes[i].fact[FACT_PROBLEM][0] != '\0')
            find(f, true, "node %s: %s",
                 preflight_label(r, r->nodes[i].rank, label),
                 r->nodes[i].fact[FACT_PROBLEM]);
    }
    judge_links(r, f);
    judge_facts(r, f);
    bool off = is_any_clock_off(r);
    for (int i = 0; off && i < r->n; i++)
        judge_clock(r, f, r->nodes[i].rank);
    judge_limits(r, f);
    ddp_assert(f->n <= f->problems + f->notes);
}
