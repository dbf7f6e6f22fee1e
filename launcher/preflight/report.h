/*
 * launcher/preflight/report: what a preflight found, judged and printed. Pure
 * but for the FILE that it prints to: the same findings give the same lines.
 */
#ifndef LAUNCHER_PREFLIGHT_REPORT_H
#define LAUNCHER_PREFLIGHT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "launcher/preflight/data.h"

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
    bool cut; /* ended before all was measured */
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

/* The rate in bit/s that the best quarter of a network's links reaches; 0: none
 * was measured. A link with less than a quarter of this is slow. */
int64_t preflight_good_rate(const struct preflight_report *r,
                            enum preflight_net net);
bool preflight_is_slow(const struct preflight_link *link, int64_t good_rate);

/* The index in r->nodes of the node with this rank; -1: it did not come. */
int preflight_find(const struct preflight_report *r, int64_t rank);

/* The node's host name, with its rank if two nodes have the same name; "node 3"
 * if it did not come. */
const char *
preflight_label(const struct preflight_report *r, int64_t rank, char label[80]);

/* How far the node's clock is ahead of those of the nodes that it met (the
 * median). False: it met none. */
bool preflight_clock(const struct preflight_report *r,
                     int64_t rank,
                     int64_t *ahead_us);

/* One property of nodes, such as the kernel. */
struct preflight_fact {
    const char *title;
    bool problem; /* if nodes differ: a problem, or else a note */
    const char *(*text)(const struct preflight_node *n, char scratch[64]);
};
extern const struct preflight_fact preflight_facts[];
extern const int preflight_facts_len;

/* "6.1.0 on n1, n2; 5.10.0 on n3", or the value alone if all nodes have the
 * same. Returns the number of different values, without "none". */
int preflight_spread(const struct preflight_report *r,
                     const struct preflight_fact *fact,
                     char *text,
                     size_t size);

#define PREFLIGHT_CELL 32 /* a number with its unit, and NUL */

/* "9.4 Gbit/s" */
void preflight_rate_text(int64_t rate, char text[PREFLIGHT_CELL]);

/* The tables, the findings, the verdict; lines of 80 columns at most. */
void preflight_print(const struct preflight_report *r,
                     const struct preflight_findings *f,
                     FILE *out);

#endif
