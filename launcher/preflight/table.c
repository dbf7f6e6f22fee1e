/* The tables of a preflight, in 80 columns: up to TABLE_MAX nodes a matrix of
 * all links, for more nodes the worst links only. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/preflight/report.h"
#include "rendezvous/base/mono.h"

#define COLUMNS   80
#define WIDE_MAX  8  /* nodes whose cells have room for a unit */
#define TABLE_MAX 16 /* more nodes get the worst links instead */
#define WORST     10

/* -- numbers --------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void
put(char text[PREFLIGHT_CELL], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, PREFLIGHT_CELL, fmt,
                    ap); /* numbers of peers are bounded */
    va_end(ap);
}

/* Three digits are enough: a measurement differs by more from run to run. */
static void time_text(int64_t us, char text[PREFLIGHT_CELL])
{
    double t = (double)us;
    if (us < 1000)
        put(text, "%" PRId64 " us", us);
    else if (us < 10000)
        put(text, "%.1f ms", t / 1e3);
    else if (us < 1000000)
        put(text, "%.0f ms", t / 1e3);
    else
        put(text, "%.1f s", t / 1e6);
}

static void clock_text(int64_t us, char text[PREFLIGHT_CELL])
{
    double t = (double)us;
    if (llabs(us) < 10 * MONO_MS)
        put(text, "%+.2f ms", t / 1e3);
    else if (llabs(us) < MONO_S)
        put(text, "%+.0f ms", t / 1e3);
    else if (llabs(us) < 10000 * MONO_S)
        put(text, "%+.1f s", t / 1e6);
    else
        put(text, "%+.0f h", t / 3.6e9);
}

/* A rate in three columns. */
static void narrow_rate(int64_t rate, char text[PREFLIGHT_CELL])
{
    double g = (double)rate / 1e9;
    if (g >= 9.95)
        put(text, "%.0f", g);
    else if (g >= 0.995)
        put(text, "%.1f", g);
    else if (g >= 0.0995)
        put(text, ".%02d", (int)(g * 100 + 0.5));
    else
        put(text, "%.0fM", g * 1e3);
}

static void narrow_time(int64_t us, char text[PREFLIGHT_CELL])
{
    if (us < 1000)
        put(text, "%" PRId64, us);
    else if (us < 99500)
        put(text, "%" PRId64 "m", (us + 500) / 1000);
    else if (us < 950000)
        put(text, ".%" PRId64 "s", (us + 50000) / 100000);
    else
        put(text, "%" PRId64 "s", (us + 500000) / 1000000);
}

/* Without the blank and the end of its unit: "9.4 Gbit/s" is "9.4G". */
static void squeeze(char *text)
{
    char *blank = strchr(text, ' ');
    if (blank == NULL)
        return;
    memmove(blank, blank + 1, strlen(blank));
    char *rest = strstr(text, "bit/s");
    if (rest != NULL)
        *rest = '\0';
}

/* -- nodes ----------------------------------------------------------------- */

/* One row for each address of a node; its second one has no name. */
static void print_place(const struct preflight_report *r,
                        const struct preflight_node *n,
                        enum preflight_net net,
                        int width,
                        FILE *out)
{
    const struct preflight_place *p = &n->place[net];
    char clock[PREFLIGHT_CELL] = "", number[PREFLIGHT_CELL] = "",
         label[80] = "", mtu[PREFLIGHT_CELL] = "?";
    int64_t ahead_us;
    if (net == PREFLIGHT_MASTER) {
        (void)snprintf(number, sizeof(number), "%" PRId64, n->rank);
        preflight_label(r, n->rank, label);
        if (preflight_clock(r, n->rank, &ahead_us))
            clock_text(ahead_us, clock);
    }
    if (p->mtu > 0)
        (void)snprintf(mtu, sizeof(mtu), "%" PRId64, p->mtu);
    fprintf(out, "%3s  %-14.14s %-*.*s %-10.10s %6s  %s\n", number, label,
            width, width, p->addr, p->iface, mtu, clock);
}

static void print_nodes(const struct preflight_report *r, FILE *out)
{
    int width = 15;
    for (int i = 0; i < r->n; i++)
        for (int net = 0; net < PREFLIGHT_NETS; net++) {
            int len = (int)strlen(r->nodes[i].place[net].addr);
            width = len > width ? len : width;
        }
    width = width > 31 ? 31 : width;
    fprintf(out, "\n%3s  %-14s %-*s %-10s %6s  %s\n", "#", "node", width,
            "address", "interface", "MTU", "clock");
    for (int i = 0; i < r->n; i++)
        for (int net = 0; net < PREFLIGHT_NETS; net++)
            if (net == 0 || r->nodes[i].place[net].addr[0] != '\0')
                print_place(r, &r->nodes[i], (enum preflight_net)net, width,
                            out);
}

/* -- words into lines ------------------------------------------------------ */

/* Prints `text` behind `head`, broken at blanks, under itself. */
static void print_wrapped(const char *head, const char *text, FILE *out)
{
    int indent = (int)strlen(head), at = indent;
    fputs(head, out);
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        if (at + len > COLUMNS && at > indent) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        fprintf(out, "%.*s", len, text);
        text += len;
        at += len;
        if (*text == ' ' && at + 1 + (int)strcspn(text + 1, " ") <= COLUMNS) {
            fputc(' ', out);
            at++;
        } else if (*text == ' ') {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        text += *text == ' ';
    }
    fputc('\n', out);
}

/* Properties that no node has are left out. */
static void print_facts(const struct preflight_report *r, FILE *out)
{
    fputc('\n', out);
    for (int i = 0; i < preflight_facts_len; i++) {
        char text[360], head[PREFLIGHT_CELL];
        if (preflight_spread(r, &preflight_facts[i], text, sizeof(text)) == 0)
            continue;
        (void)snprintf(head, sizeof(head), "%-18.18s ",
                       preflight_facts[i].title);
        print_wrapped(head, text, out);
    }
    int64_t least = INT64_MAX;
    for (int i = 0; i < r->n; i++)
        least = r->nodes[i].shm < least ? r->nodes[i].shm : least;
    if (least >= 0)
        fprintf(out, "%-18s at least %.1f GiB free\n", "/dev/shm",
                (double)least / (double)(1 << 30));
}

/* -- pairs ----------------------------------------------------------------- */

enum what {
    WHAT_RTT,
    WHAT_RATE,
};

static const struct preflight_link *link_of(const struct preflight_report *r,
                                            enum preflight_net net,
                                            int64_t from,
                                            int64_t to)
{
    for (int i = 0; i < r->links_len; i++) {
        const struct preflight_link *l = &r->links[i];
        if (l->net == (int64_t)net && l->from == from && l->to == to)
            return l;
    }
    return NULL;
}

static void number(const struct preflight_link *l,
                   enum what what,
                   char text[PREFLIGHT_CELL])
{
    if (what == WHAT_RTT)
        time_text(l->rtt_us, text);
    else
        preflight_rate_text(l->rate, text);
}

/* "" for a pair that was not measured (of many nodes), "no" for a bad link. */
static void cell_text(const struct preflight_link *l,
                      enum what what,
                      bool wide,
                      char text[PREFLIGHT_CELL])
{
    bool has_rtt = l != NULL && l->rtt_us > 0 &&
                   (l->state == PREFLIGHT_OK || l->state == PREFLIGHT_STUCK);
    bool has_rate = l != NULL && l->state == PREFLIGHT_OK;
    text[0] = '\0';
    if (l == NULL)
        return;
    if (what == WHAT_RTT ? !has_rtt : !has_rate) {
        put(text, "no");
    } else if (!wide && what == WHAT_RTT) {
        narrow_time(l->rtt_us, text);
    } else if (!wide) {
        narrow_rate(l->rate, text);
    } else {
        number(l, what, text);
        squeeze(text);
    }
}

/* One row for each node, one column for each node. Up to WIDE_MAX nodes cells
 * have units; 16 nodes of 4 columns are all that 80 columns hold. */
static void print_matrix(const struct preflight_report *r,
                         enum preflight_net net,
                         enum what what,
                         FILE *out)
{
    ddp_assert(r->n <= TABLE_MAX);
    bool wide = r->n <= WIDE_MAX;
    int width = wide ? 7 : 4, names = wide ? 14 : 11;
    const char *title = what == WHAT_RTT
                            ? (wide ? "round trip" : "round trip in us (m: ms)")
                            : (wide ? "bandwidth of one connection, bit/s"
                                    : "bandwidth of one connection in Gbit/s "
                                      "(M: Mbit/s)");
    fprintf(out, "\n%s, from the node in the row%s\n%3s  %-*s", title,
            net == PREFLIGHT_NCCL ? ", NCCL_SOCKET_IFNAME" : "", "#", names,
            "node");
    for (int k = 0; k < r->n; k++)
        fprintf(out, "%*" PRId64, width, r->nodes[k].rank);
    fputc('\n', out);
    for (int i = 0; i < r->n; i++) {
        char label[80], cell[PREFLIGHT_CELL];
        fprintf(out, "%3" PRId64 "  %-*.*s", r->nodes[i].rank, names, names,
                preflight_label(r, r->nodes[i].rank, label));
        for (int k = 0; k < r->n; k++) {
            cell_text(link_of(r, net, r->nodes[i].rank, r->nodes[k].rank), what,
                      wide, cell);
            fprintf(out, "%*s", width, i == k ? "-" : cell);
        }
        fputc('\n', out);
    }
}

/* -- many nodes ------------------------------------------------------------ */

static int by_rate(const void *a, const void *b)
{
    const struct preflight_link *x = *(const struct preflight_link *const *)a;
    const struct preflight_link *y = *(const struct preflight_link *const *)b;
    return (x->rate > y->rate) - (x->rate < y->rate);
}

static int by_rtt(const void *a, const void *b)
{
    const struct preflight_link *x = *(const struct preflight_link *const *)a;
    const struct preflight_link *y = *(const struct preflight_link *const *)b;
    return (x->rtt_us < y->rtt_us) - (x->rtt_us > y->rtt_us);
}

/* The worst first. */
static void print_worst(const struct preflight_link *const *sorted,
                        int n,
                        const struct preflight_report *r,
                        const char *title,
                        enum what what,
                        FILE *out)
{
    ddp_assert(n > 0);
    char best[PREFLIGHT_CELL], median[PREFLIGHT_CELL], worst[PREFLIGHT_CELL];
    number(sorted[n - 1], what, best);
    number(sorted[n / 2], what, median);
    number(sorted[0], what, worst);
    fprintf(out, "\n%s: best %s, median %s, worst %s\n", title, best, median,
            worst);
    for (int i = 0; i < n && i < WORST; i++) {
        char from[80], to[80], text[PREFLIGHT_CELL];
        number(sorted[i], what, text);
        fprintf(out, "  %-28.28s -> %-28.28s %12s\n",
                preflight_label(r, sorted[i]->from, from),
                preflight_label(r, sorted[i]->to, to), text);
    }
}

/* Best, median and worst of a network's good links, and the WORST of them by
 * name. Links that do not work are in the findings. */
static void print_summary(const struct preflight_report *r,
                          enum preflight_net net,
                          FILE *out)
{
    const struct preflight_link **good =
        calloc((size_t)r->links_len + 1, sizeof(*good));
    int n = 0;
    for (int i = 0; good != NULL && i < r->links_len; i++)
        if (r->links[i].net == (int64_t)net &&
            r->links[i].state == PREFLIGHT_OK)
            good[n++] = &r->links[i];
    const char *title = net == PREFLIGHT_NCCL ? " (NCCL_SOCKET_IFNAME)" : "";
    char head[64];
    if (n > 0) {
        (void)snprintf(head, sizeof(head), "round trip%s", title);
        qsort(good, (size_t)n, sizeof(*good), by_rtt);
        print_worst(good, n, r, head, WHAT_RTT, out);
        (void)snprintf(head, sizeof(head), "bandwidth of one connection%s",
                       title);
        qsort(good, (size_t)n, sizeof(*good), by_rate);
        print_worst(good, n, r, head, WHAT_RATE, out);
    }
    free(good);
}

static bool has_links(const struct preflight_report *r, enum preflight_net net)
{
    for (int i = 0; i < r->links_len; i++)
        if (r->links[i].net == (int64_t)net)
            return true;
    return false;
}

/* -- the whole ------------------------------------------------------------- */

/* Problems first, then notes. */
static void print_findings(const struct preflight_findings *f, FILE *out)
{
    if (f->n > 0)
        fputc('\n', out);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < f->n; i++)
            if (f->at[i].problem == (pass == 0))
                print_wrapped(pass == 0 ? "PROBLEM  " : "note     ",
                              f->at[i].text, out);
    int more = f->problems + f->notes - f->n;
    if (more > 0)
        fprintf(out, "         and %d more\n", more);
}

static void print_verdict(const struct preflight_report *r,
                          const struct preflight_findings *f,
                          FILE *out)
{
    fputc('\n', out);
    if (r->cut)
        fprintf(out, "preflight: ended before all was measured; ");
    else
        fprintf(out, "preflight: ");
    if (f->problems == 0 && r->n > 1)
        fprintf(out, "%s\n", r->cut ? "no problem so far" : "passed");
    else if (f->problems == 0)
        fprintf(out, "passed on this one node\n");
    else
        fprintf(out, "%d problem%s\n", f->problems,
                f->problems == 1 ? "" : "s");
}

void preflight_print(const struct preflight_report *r,
                     const struct preflight_findings *f,
                     FILE *out)
{
    struct preflight_report head = *r;
    head.n = r->n <= TABLE_MAX ? r->n : TABLE_MAX;
    fprintf(out, "preflight of run '%.40s': %d node%s, %d link%s in %.1f s\n",
            r->run, r->n, r->n == 1 ? "" : "s", r->links_len,
            r->links_len == 1 ? "" : "s", r->took_s);
    if (head.n < r->n) /* messages: ok, TABLE_MAX is 16 */
        fprintf(out, "the first %d nodes:\n", head.n);
    print_nodes(&head, out);
    print_facts(r, out);
    for (int net = 0; net < PREFLIGHT_NETS; net++) {
        enum preflight_net which = (enum preflight_net)net;
        if (!has_links(r, which))
            continue;
        if (r->n > TABLE_MAX) {
            print_summary(r, which, out);
        } else {
            print_matrix(r, which, WHAT_RTT, out);
            print_matrix(r, which, WHAT_RATE, out);
        }
    }
    print_findings(f, out);
    print_verdict(r, f, out);
}
