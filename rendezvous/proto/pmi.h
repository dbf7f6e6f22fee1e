/*
 * proto/pmi: the wire protocol of PMI-1, by which an MPI library talks to what
 * started it, as a codec: no I/O, no allocation.
 *
 * A command is a line of words NAME=VALUE with blanks between them, of which
 * the first is cmd=COMMAND. Only spawn is longer: from mcmd=spawn to endcmd, a
 * word in each line. Each command has one line as its answer, but abort, which
 * has none.
 *
 * Both ends of the socket are this machine's, but a worker may write anything
 * there: lengths are bounded, and what is no command is PMI_BAD.
 */
#ifndef RENDEZVOUS_PROTO_PMI_H
#define RENDEZVOUS_PROTO_PMI_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

/* What the clients are told (get_maxes), NUL included. */
#define PMI_KVSNAME_MAX 256
#define PMI_KEY_MAX     64
#define PMI_VALUE_MAX   4096

#define PMI_LINE_MAX  8192 /* of one line, the newline included */
#define PMI_LINES_MAX 8192 /* of one spawn */

enum pmi_op {
    PMI_INIT,
    PMI_GET_MAXES,
    PMI_GET_APPNUM,
    PMI_GET_UNIVERSE_SIZE,
    PMI_GET_MY_KVSNAME,
    PMI_CREATE_KVS,
    PMI_DESTROY_KVS,
    PMI_PUT,
    PMI_GET,
    PMI_GETBYIDX,
    PMI_BARRIER_IN,
    PMI_PUBLISH_NAME,
    PMI_UNPUBLISH_NAME,
    PMI_LOOKUP_NAME,
    PMI_ABORT,
    PMI_FINALIZE,
    PMI_SPAWN,
};
#define PMI_OPS 17

/* For messages: "init", "get_maxes" and so on. */
const char *pmi_op_name(enum pmi_op op);

/* Borrowed text without a NUL behind it. */
struct pmi_text {
    const char *at;
    size_t len;
};

/* One command. What it does not have is empty, or 0. The texts borrow from the
 * bytes given to pmi_decode. */
struct pmi_request {
    enum pmi_op op;
    struct pmi_text kvsname; /* of all with a key; may be missing */
    struct pmi_text key;     /* put, get: 1 to PMI_KEY_MAX - 1 bytes */
    struct pmi_text value;   /* put: up to PMI_VALUE_MAX - 1 bytes */
    struct pmi_text service; /* of names: 1 to PMI_KVSNAME_MAX - 1 bytes */
    struct pmi_text port;    /* publish_name: as a value */
    int64_t number; /* init: version; getbyidx: index, 0 or more; abort: code */
};

/* The place within a spawn. Starts as {0}. */
struct pmi_decoder {
    size_t scanned; /* bytes of the first line that have no newline */
    int lines;      /* of the spawn so far; 0: not within one */
    int64_t of;     /* how many such commands this spawn has ... */
    int64_t number; /* ... and which of them this is, from 1 */
};

enum pmi_status {
    PMI_MORE, /* not complete: call again with more bytes */
    PMI_DONE,
    PMI_BAD, /* the peer broke the protocol: close the connection */
};

/*
 * Looks at `data`, all that came and was not dropped. In each case `*used`
 * bytes are to be dropped before the next call, after those that `req` borrows
 * are used; after PMI_MORE the rest is passed again with more behind it.
 * PMI_DONE: `req` is filled. PMI_BAD: `err` says why (DDP_E_PROTO); the decoder
 * is not used again. A caller that passes PMI_LINE_MAX bytes never gets
 * PMI_MORE with `*used` 0.
 */
enum pmi_status pmi_decode(struct pmi_decoder *d,
                           const char *data,
                           size_t len,
                           struct pmi_request *req,
                           size_t *used,
                           struct ddp_err *err);

/* -- answers --------------------------------------------------------------- */

/* An answer, to be sent as it is. */
struct pmi_answer {
    char line[PMI_LINE_MAX];
    size_t len;
};

/*
 * The answers, by what they are for; a reason has no blanks in it. "Not" is an
 * answer as well: the MPI library returns an error to the program.
 *   init          the version is the only one there is, or -1
 *   number        get_appnum, get_universe_size
 *   kvsname       get_my_kvsname
 *   done          put, destroy_kvs, barrier_in, finalize, publish_name,
 *                 unpublish_name; why NULL: it is done
 *   text          get, lookup_name: the value, or why there is none
 *   pair          getbyidx: a pair; key NULL: there are no more
 *   refuse        create_kvs, spawn
 */
void pmi_answer_init(struct pmi_answer *a, int64_t version);
void pmi_answer_maxes(struct pmi_answer *a);
void pmi_answer_number(struct pmi_answer *a, enum pmi_op op, int64_t number);
void pmi_answer_kvsname(struct pmi_answer *a, const char *name);
void pmi_answer_done(struct pmi_answer *a, enum pmi_op op, const char *why);
void pmi_answer_text(struct pmi_answer *a,
                     enum pmi_op op,
                     struct pmi_text text,
                     const char *why);
void pmi_answer_pair(struct pmi_answer *a,
                     int64_t index,
                     const char *key,
                     struct pmi_text value);
void pmi_answer_refuse(struct pmi_answer *a, enum pmi_op op);

#endif
