/*
 * launcher/conf/output: where the workers' output goes, what is told beside
 * the terminal, checked once and then frozen: a part of struct conf.
 */
#ifndef LAUNCHER_CONF_OUTPUT_H
#define LAUNCHER_CONF_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/opts.h"

#define CONF_OUTPUT_RANKS   4096 /* as CONF_NPROC_MAX */
#define CONF_OUTPUT_FILTERS 64

/* A worker's streams, as the bits of -r and -t name them (and its number less
 * one where one is an index). */
enum conf_stream {
    CONF_STDOUT = 1,
    CONF_STDERR = 2,
};

/* Texts of which a line must have one, to be copied; ends with NULL. */
struct conf_filters {
    char *text[CONF_OUTPUT_FILTERS + 1]; /* owned */
    int len;
};

struct conf_output {
    uint8_t redirects[CONF_OUTPUT_RANKS]; /* bits of enum conf_stream */
    uint8_t tee[CONF_OUTPUT_RANKS];
    bool files;                     /* some stream of this node goes to one */
    bool some_ranks;                /* only some ranks are on the console: */
    bool shown[CONF_OUTPUT_RANKS];  /* these */
    struct conf_filters filters[2]; /* of stdout and of stderr */
    int64_t rotate_size;            /* bytes, 0: files just grow */
    int rotate_keep;                /* how many older ones are kept */
    char prefix[256];               /* template of tee'd lines */
    char report[4096];              /* file of the report, "" none */
    char events[4096];              /* file of events, "" none */
};

/* What becomes of one stream of one worker. Neither piped nor null: it is
 * inherited from the launcher. */
struct conf_plan {
    bool piped;   /* it goes through us: */
    bool file;    /* ... to its log file */
    bool console; /* ... to the launcher's own stream */
    bool prefix;  /* ... with the prefix before each line */
    bool null;    /* it goes nowhere */
};

/*
 * Fills `c` for a node with `nproc` workers. Reads the environment
 * (TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE). Errors: DDP_E_USAGE, with the
 * option, its value and what is allowed; DDP_E_NOMEM. What was filled is to be
 * freed also after an error.
 */
int conf_output_init(struct conf_output *c,
                     const struct opts *o,
                     int nproc,
                     struct ddp_err *err);
void conf_output_free(struct conf_output *c);

struct conf_plan conf_output_plan(const struct conf_output *c,
                                  int local_rank,
                                  enum conf_stream stream);

#endif
