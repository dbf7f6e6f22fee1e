/*
 * past/past_json: a run's past as JSON: a document as that of /status
 * (http/overview), of one run, for programs and for the page. Pure.
 */
#ifndef RENDEZVOUS_PAST_PAST_JSON_H
#define RENDEZVOUS_PAST_PAST_JSON_H

#include "rendezvous/base/buf.h"
#include "rendezvous/past/past.h"

/* How many of each are told, so that the document stays below some 100 kB. */
#define PAST_JSON_ROUNDS_MAX   100
#define PAST_JSON_LAUNCHES_MAX 60
#define PAST_JSON_SPANS_MAX    250 /* of all launches, if they had all rounds */
#define PAST_JSON_FAILURES_MAX 100
#define PAST_JSON_TAILS_MAX    20 /* failures with last lines */
#define PAST_JSON_TAKEN_MAX    50

/* What was odd about the files. */
struct past_files {
    int files;
    int64_t torn; /* last lines that are not whole */
    int64_t bad;  /* other lines that are no events */
};

/* Appends the document to `out`, after past_finish. False: `out` is full, or
 * there is no memory. */
bool past_json(const struct past *p,
               const struct past_files *files,
               struct buf *out);

#endif
