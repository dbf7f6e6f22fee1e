/*
 * launcher/preflight/report: what a preflight found, judged and printed. Pure
 * but for the FILE that it prints to: the same findings give the same lines.
 */
#ifndef LAUNCHER_PREFLIGHT_REPORT_H
#define LAUNCHER_PREFLIGHT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "launcher/preflight/facts.h"

/* All data. The arrays are the caller's. */
struct preflight_report {
    const char *run;
    const char *master_addr; /* where the store is */
    int master_port;
    int world;                    /* nodes of the round */
    struct preflight_node *nodes; /* that reached the store, by rank */
    int n;
    struct preflight_link *links;
    int links_len;
    bool cut; /* ended before all links were tried */
    double took_s;
};

/* A sentence for people. A problem makes the preflight fail, a note does not.
 */
struct preflight_finding {
    bool problem;
    char text[400];
};

#define PREFLIGHT_FINDINGS_MAX 48

struct preflight_findings {
    struct preflight_finding at[PREFLIGHT_FINDINGS_MAX];
    int n;
    int problems; /* also those that did not fit into `at` */
    int notes;
};

/* Judges. The first problem is the most important one. */
void preflight_judge(const struct preflight_report *r,
                     struct preflight_findings *f);

/* The index of a rank in r->nodes; -1: it did not come. */
int preflight_find(const struct preflight_report *r, int64_t rank);

/* A node for people: its name, and its rank behind a slash if two have it.
 * Returns `label`. */
const char *
preflight_label(const struct preflight_report *r, int64_t rank, char label[80]);

/* The facts that should be the same on all nodes, in their order. */
struct preflight_title {
    int fact; /* enum preflight_fact, or a network behind one */
    const char *title;
    bool problem; /* if nodes differ: a problem, or else a note */
};
#define PREFLIGHT_TITLES 9
extern const struct preflight_title preflight_titles[PREFLIGHT_TITLES];

/* "6.1.0 on n1, n2; 5.10.0 on n3", or the value alone if all nodes have the
 * same. Returns the number of different values, without "none". */
int preflight_spread(const struct preflight_report *r,
                     int fact,
                     char *text,
                     size_t size);

/* The nodes, what they have in common, the findings, the verdict; in lines of
 * 80 columns at most. */
void preflight_print(const struct preflight_report *r,
                     const struct preflight_findings *f,
                     FILE *out);

#endif
