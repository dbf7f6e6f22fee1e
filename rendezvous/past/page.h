/*
 * past/page: a run's past as one HTML page, which needs nothing else: no
 * script, no other file. Whatever a run said is text there and nothing more.
 * Pure.
 */
#ifndef RENDEZVOUS_PAST_PAGE_H
#define RENDEZVOUS_PAST_PAGE_H

#include <stdio.h>

#include "rendezvous/past/past_json.h"

/* How many of each are on a page, which stays below some 100 kB so. */
#define PAGE_ROUNDS_MAX   100
#define PAGE_NODES_MAX    60
#define PAGE_BARS_MAX     250
#define PAGE_FAILURES_MAX 100
#define PAGE_TAILS_MAX    20 /* failures with last lines */
#define PAGE_TAKEN_MAX    50

/* After past_finish. */
void page_print(const struct past *p, const struct past_files *files, FILE *f);

#endif
