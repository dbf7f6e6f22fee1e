/*
 * launcher/conf/output: where the workers' output goes, and which files the
 * launcher writes: a part of struct conf, checked once and then frozen.
 */
#ifndef LAUNCHER_CONF_OUTPUT_H
#define LAUNCHER_CONF_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/opts.h"

#define CONF_OUTPUT_RANKS   4096 /* as CONF_NPROC_MAX */
#define CONF_OUTPUT_FILTERS 64

/* The prefix, if the option does not say it. */
#define CONF_PREFIX_VARIABLE "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"

/* What is replaced in a prefix, as ${rank} or $rank. */
#define CONF_PREFIX_NAMES(NAME)                                                \
    NAME(role_name)                                                            \
    NAME(local_rank)                                                           \
    NAME(rank)                                                                 \
    NAME(hostname)

/* A worker's streams, by the bits of -r and -t. As an index: the bit less 1. */
enum conf_stream {
    CONF_STDOUT = 1,
    CONF_STDERR = 2,
};

/* A line that has one of these texts is copied; ends with NULL. */
struct conf_filters {
    char *text[CONF_OUTPUT_FILTERS + 1]; /* owned */
    int len;
};

struct conf_output {
    uint8_t redirects[CONF_OUTPUT_RANKS]; /* bits of enum conf_stream */
    uint8_t tee[CONF_OUTPUT_RANKS];
    bool files;                    /* a stream of this node goes to a file */
    bool some_ranks;               /* the console shows only those in `shown` */
    bool inherits;                 /* stdout, if nothing else is done with it */
    bool timestamps;               /* the time before each line */
    bool shown[CONF_OUTPUT_RANKS]; /* by local rank */
    struct conf_filters filters[2]; /* of stdout and of stderr */
    int64_t rotate_size;            /* bytes, 0: files just grow */
    int rotate_keep;                /* how many older ones are kept */
    char prefix[256];               /* template of tee'd lines */
    char report[4096];              /* file of the report, "" none */
    char events[4096];              /* file of events, "" none */
};

/* What becomes of one stream of one worker. If it is neither piped nor null the
 * worker inherits it from the launcher. */
struct conf_plan {
    bool piped;   /* it passes through the launcher */
    bool file;    /* and goes to its log file */
    bool console; /* and to the launcher's own stream */
    bool shown;   /* ... or would, if it had no log file */
    bool prefix;  /* there with the prefix before each line */
    bool null;    /* it goes to /dev/null */
};

/*
 * Fills `c`, which is all 0, for a node with `nproc` workers. Reads
 * TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE of the environment. Errors:
 * DDP_E_USAGE, with the option, its value and what is allowed; DDP_E_NOMEM.
 * Free `c` after an error, too.
 */
int conf_output_init(struct conf_output *c,
                     const struct opts *o,
                     int nproc,
                     struct ddp_err *err);
void conf_output_free(struct conf_output *c);

/* Whether a valid value of -r or -t says anything about a node with `nproc`
 * workers: false if all local ranks that it names are beyond. */
bool conf_output_is_for(const char *text, int nproc);

/* Finds "$name" or "${name}" in a prefix that is no name to be replaced.
 * Returns its length, and in *at where it begins; 0: there is none. */
size_t conf_output_odd_name(const char *prefix, const char **at);

struct conf_plan conf_output_plan(const struct conf_output *c,
                                  int local_rank,
                                  enum conf_stream stream);

#endif
