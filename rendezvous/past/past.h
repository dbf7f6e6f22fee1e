/*
 * past/past: what the events of all nodes of a run say together: when each
 * round began, ran and ended, why, and where the time went. Pure.
 *
 * A launch is one launcher's life on a node; a file can have several. Its clock
 * is the node's at its first event, and from then on the time since its start,
 * so a clock that is set meanwhile does no harm. Clocks of two nodes are
 * compared by the rounds that both saw sealed, and corrected if they differ by
 * more than PAST_SKEW_US.
 *
 * What the time went to is counted by the same account as in a server
 * (account/account), of notes that are made of these events. What only the
 * server knew is in the events: the sums up to each round, the sums of the
 * whole run with the end, and the last word of a node that was lost, which the
 * server tells with the stop.
 */
#ifndef RENDEZVOUS_PAST_PAST_H
#define RENDEZVOUS_PAST_PAST_H

#include "rendezvous/base/err.h"
#include "rendezvous/account/account.h"
#include "rendezvous/past/line.h"

#define PAST_SKEW_US      50000 /* how long a message may take */
#define PAST_LAUNCHES_MAX 20000
#define PAST_SPANS_MAX    1000000 /* a launch in a round */
#define PAST_FAILURES_MAX 1000
#define PAST_TAKEN_MAX    200

struct past_launch {
    char node[65];
    int file;
    int64_t base_us;  /* the node's clock at its start */
    int64_t ahead_us; /* of the other clocks; it is taken off */
    int64_t joined_us, first_us, last_us; /* since 1970, as are all below */
    int64_t exit_code;                    /* -1: no word of its end */
    int64_t group_rank;                   /* the last one; -1 */
    int64_t span;                         /* the open one's index; -1 */
    int older; /* one before it with the same place in the table; -1 */
};

struct past_span {
    int launch;
    int64_t round;
    int64_t sealed_us, started_us; /* started: its last worker */
    int64_t end_us;                /* 0: none was told */
    int64_t sign_us;               /* the first one that all is not well, as
                                      the server told; 0: it did not */
    int64_t exited_us;             /* its last worker; 0: none did */
    struct past_step {
        int64_t at_us, step; /* at_us 0: none was told */
    } fresh;                 /* the first new one of the round */
    bool failed;             /* a worker of this node failed */
    bool done;
    int64_t nodes, world_size, restarts;
    char spent[PAST_SUMS_SIZE]; /* up to the seal, as the server told it; "" */
};

struct past_failure {
    int launch;
    int64_t round, rank, at_us;
    char text[256];
    char tail[PAST_TAIL_SIZE];
};

struct past_taken {
    int launch;
    int64_t at_us, epoch, gap_us;
    char server[160], before[160];
};

/* A round, of all its nodes; made by past_finish. */
struct past_round {
    int64_t round;
    int64_t sealed_us, all_run_us; /* all_run: 0, not all ranks ran */
    int64_t sign_us, end_us;       /* 0: it had not ended */
    int64_t stopped_us;            /* its last worker ended */
    int64_t nodes, world_size, restarts;
    int seen;        /* nodes of it of which there are events */
    bool failed;     /* else a node came, left or was lost, or it is done */
    bool done;       /* all its workers succeeded */
    char why[256];   /* in words; "" not known */
    size_t from, to; /* its spans */
    struct goodput_parts cost; /* as that of struct timeline_round */
};

/* Why a round ended, from what its first launch was told. */
struct past_why {
    int launch;
    int64_t round, at_us;
    bool failed;
    char text[256];
};

struct past {
    char run[129];
    struct past_launch *launches;
    int *table; /* the newest launch of each hash of a file and node, plus 1 */
    struct past_span *spans;
    struct past_failure *failures;
    struct past_taken *taken;
    struct past_why *whys;
    struct past_round *rounds; /* in order */
    size_t n_launches, n_spans, n_failures, n_taken, n_whys, n_rounds;
    int64_t left_out; /* launches and spans above the limits: sums are wrong */
    int64_t untold;   /* failures, reasons and take-overs above them */

    /* By past_finish: */
    int64_t start_us, end_us;
    struct account account; /* what the time went to, of the last rounds ... */
    struct goodput_parts sum; /* ... and of all */
    int64_t nodes;            /* the most of a round */
    int64_t restarts;         /* used */
    int64_t earlier; /* jobs of the same id, before this one: left out */
    char spent[PAST_SUMS_SIZE]; /* of all, as the server told it with the end;
                                   "" */
    int64_t status; /* the greatest exit status that was told; -1: none */
};

void past_init(struct past *h);
void past_free(struct past *h);

/* Adds an event of file number `file`: file by file, in their order. Borrows
 * `e` for the call. Ends the process if memory runs out. */
void past_add(struct past *h, int file, const struct past_line *e);

/* Compares the clocks, puts the rounds together and sums them up; after the
 * last event. Errors: DDP_E_NOINPUT, no launch joined. */
int past_finish(struct past *h, struct ddp_err *err);

#endif
