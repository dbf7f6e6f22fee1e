/*
 * ctl/facts: what the daemon's JSON says of a run or a node, in words: cells of
 * tables, and sentences. They come from peers and are not clean yet
 * (ctl_clean). Pure.
 */
#ifndef RENDEZVOUS_CTL_FACTS_H
#define RENDEZVOUS_CTL_FACTS_H

#include "rendezvous/ctl/fields.h"
#include "rendezvous/ctl/text.h"

struct fact {
    char text[1024]; /* cut if there is more to say */
    enum ctl_tint tint;
};

/* -- cells: always something ----------------------------------------------- */

void fact_state(const cJSON *run, struct fact *out);
void fact_nodes(const cJSON *run, struct fact *out);    /* "3 of 2:4" */
void fact_world(const cJSON *run, struct fact *out);    /* "32"; "-" */
void fact_restarts(const cJSON *run, struct fact *out); /* "1 of 3 in 1 h" */
void fact_rate(const cJSON *run, struct fact *out);     /* steps a second */
void fact_share(const cJSON *run, struct fact *out);    /* goodput; "97.7 %" */
void fact_agent(const cJSON *node, struct fact *out);   /* 8 digits */
void fact_ranks(const cJSON *node, struct fact *out);   /* "8-15"; "-" */

/* Whether two nodes of a list have one name: their agents tell them apart. */
bool fact_namesakes(const cJSON *nodes);
enum ctl_tint fact_node_tint(const cJSON *node);
const char *fact_plural(int64_t n);

/* -- sentences: false if there is nothing to say --------------------------- */

/* Program, round, spares, master, who serves. */
bool fact_what(const cJSON *run, struct fact *out);
/* Who has the authority. Nothing is amiss as long as it may act.
 */
bool fact_authority(const cJSON *run, struct fact *out);
/* Where the nodes would go on if this server were lost. */
bool fact_successors(const cJSON *run, struct fact *out);
/* Of a run of so many nodes that the document has counts of them, by state. */
bool fact_groups(const cJSON *run, struct fact *out);
bool fact_waiting(const cJSON *run, struct fact *out);
bool fact_stands(const cJSON *run, struct fact *out);
bool fact_failure(const cJSON *run, struct fact *out);
bool fact_end(const cJSON *run, struct fact *out);
/* Steps, steps a second, the slowest ranks. */
bool fact_progress(const cJSON *run, struct fact *out);
/* The newest step on two nodes; nothing of a run that keeps no steps in memory,
 * or is on one node. */
bool fact_mirrored(const cJSON *run, struct fact *out);

/* Which ranks are slower than the others, and since when. */
bool fact_slow(const cJSON *run, struct fact *out);
/* The share of its life in which all its ranks ran, once they have, and where
 * the rest went. */
bool fact_goodput(const cJSON *run, struct fact *out);
/* Steps that were done twice; or that no steps are told, and what that means.
 */
bool fact_repeated(const cJSON *run, struct fact *out);
/* How the round before this one ended, and what that cost. */
bool fact_last_round(const cJSON *run, struct fact *out);

#endif
