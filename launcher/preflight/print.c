/* What a preflight prints, in 80 columns: the nodes, up to NODES_MAX of them,
 * what they have in common, the findings and the verdict. */
#include <stdlib.h>
#include <string.h>

#include "launcher/preflight/report.h"

#define COLUMNS   80
#define NODES_MAX 16
#define CELL      32 /* a number with its unit */

/* -- nodes ----------------------------------------------------------------- */

/* One row for each address of a node; its second one has no name. */
static void print_place(const struct preflight_report *r,
                        const struct preflight_node *n,
                        enum preflight_net net,
                        int width,
                        FILE *out)
{
    char number[CELL] = "", label[80] = "";
    const char *mtu = n->fact[FACT_MTU + (int)net];
    if (net == PREFLIGHT_MASTER) {
        (void)snprintf(number, sizeof(number), "%d", n->rank);
        preflight_label(r, n->rank, label);
    }
    fprintf(out, "%3s  %-14.14s %-*.*s %-10.10s %6.6s\n", number, label, width,
            width, n->fact[FACT_ADDR + (int)net],
            n->fact[FACT_IFACE + (int)net], mtu[0] != '\0' ? mtu : "?");
}

static void print_nodes(const struct preflight_report *r, FILE *out)
{
    int width = 15, shown = r->n < NODES_MAX ? r->n : NODES_MAX;
    for (int i = 0; i < shown; i++)
        for (int net = 0; net < PREFLIGHT_NETS; net++) {
            int len = (int)strlen(r->nodes[i].fact[FACT_ADDR + net]);
            width = len > width ? len : width;
        }
    width = width > 39 ? 39 : width;
    fprintf(out, "\n%3s  %-14s %-*s %-10s %6s\n", "#", "node", width, "address",
            "interface", "MTU");
    for (int i = 0; i < shown; i++)
        for (int net = 0; net < PREFLIGHT_NETS; net++)
            if (net == 0 || r->nodes[i].fact[FACT_ADDR + net][0] != '\0')
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

/* What no node has is left out. */
static void print_facts(const struct preflight_report *r, FILE *out)
{
    int64_t least = INT64_MAX;
    fputc('\n', out);
    for (int i = 0; i < PREFLIGHT_TITLES; i++) {
        char text[360], head[CELL];
        if (preflight_spread(r, preflight_titles[i].fact, text, sizeof(text)) ==
            0)
            continue;
        (void)snprintf(head, sizeof(head), "%-18.18s ",
                       preflight_titles[i].title);
        print_wrapped(head, text, out);
    }
    for (int i = 0; i < r->n; i++) {
        int64_t mib = strtoll(r->nodes[i].fact[FACT_SHM], NULL, 10);
        least = mib < least ? mib : least;
    }
    fprintf(out, "%-18s at least %.1f GiB free\n", "/dev/shm",
            (double)least / 1024);
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
        fprintf(out, "preflight: ended before all links were tried; ");
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

static int count_good(const struct preflight_report *r)
{
    int good = 0;
    for (int i = 0; i < r->links_len; i++)
        good += r->links[i].state == PREFLIGHT_OK;
    return good;
}

void preflight_print(const struct preflight_report *r,
                     const struct preflight_findings *f,
                     FILE *out)
{
    ddp_assert(r->n > 0);
    fprintf(out,
            "preflight of run '%.40s': %d node%s, %d of %d link%s good, in "
            "%.1f s\n",
            r->run, r->n, r->n == 1 ? "" : "s", count_good(r), r->links_len,
            r->links_len == 1 ? "" : "s", r->took_s);
    if (r->n > NODES_MAX)
        fprintf(out, "the first %d nodes:\n", NODES_MAX); /* messages: ok */
    print_nodes(r, out);
    print_facts(r, out);
    print_findings(f, out);
    print_verdict(r, f, out);
}
