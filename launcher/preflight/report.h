/*
 * launcher/preflight/report: what a preflight found, judged and printed. Pure
 * but for the FILE that it prints to: the same findings give the same lines.
 */
#ifndef LAUNCHER_PREFLIGHT_REPORT_H
#define LAUNCHER_PREFLIGHT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "launcher/preflight/data.h"

/* All that is known; arrays are the caller's. */
struct preflight_report {
    const char *run;
    const char *master_addr; /* where the store is */
    int master_port;
    int world;                    /* nodes of the round */
    struct preflight_node *nodes; /* those that came to the store, by rank */
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
    int problems; /* also those that found no place in `at` */
    int notes;
};

/* Judges. The first problem is the one to name where there is one line only. */
void preflight_judge(const struct preflight_report *r,
                     struct preflight_findings *f);

/* What the better quarter of the links of a net carries at least, in bit/s; a
 * link is slow that carries less than a quarter of it. 0: none was measured. */
int64_t preflight_good_rate(const struct preflight_report *r,
                            enum preflight_net net);
bool preflight_is_slow(const struct preflight_link *link, int64_t good_rate);

/* The place of the node with this rank in r->nodes, -1: it did not come. */
int preflight_find(const struct preflight_report *r, int64_t rank);

/* Its host's name, with its rank where two have the same; "node 3" where it did
 * not come. */
const char *
preflight_label(const struct preflight_report *r, int64_t rank, char label[80]);

/* How far the node's clock is ahead of those that it met, their median. False:
 * it met nobody. */
bool preflight_clock(const struct preflight_report *r,
                     int64_t rank,
                     int64_t *ahead_us);

/* What a node says about one thing, such as its kernel. */
struct preflight_fact {
    const char *title;
    bool problem; /* where they differ */
    const char *(*text)(const struct preflight_node *n, char scratch[64]);
};
extern const struct preflight_fact preflight_facts[];
extern const int preflight_facts_len;

/* "6.1.0 on n1, n2; 5.10.0 on n3", or only the value where it is one. Returns
 * how many values there are, those who have none not counted. */
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
