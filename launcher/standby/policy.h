/*
 * launcher/standby/policy: when standbys are made, and when never again. Pure:
 * time comes in.
 *
 *     NONE ──due──► IMPORTING ──ready──► READY
 *       ▲              │                  │
 *       ├──────────────┴─ short, outgrown ┤
 *       └────────────── gave up ──────────┴───► OFF
 *
 * They are made once in a round: when it has made progress, or has run for
 * STANDBY_AFTER_US, so that the round's own start gets the CPUs. If memory gets
 * short they end, and may be made again in the next round.
 *
 * In the first one the imports are learnt. They are complete if the worker says
 * so (it has made progress, or an optimizer has made a step), and count as
 * complete for now if none has come for as long as all took. If more come after
 * that, the importer is ended and begins again: a standby that lacks some is
 * right, too, so nothing depends on it but time.
 */
#ifndef LAUNCHER_STANDBY_POLICY_H
#define LAUNCHER_STANDBY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANDBY_AFTER_US   INT64_C(5000000)
#define STANDBY_SOON_US    INT64_C(1000000)
#define STANDBY_SUSPECT_US INT64_C(10000000)

enum standby_state {
    STANDBY_NONE,      /* no importer runs */
    STANDBY_IMPORTING, /* it imports */
    STANDBY_READY,     /* it forks when it is asked */
    STANDBY_OFF,       /* for the rest of the launch: fresh starts */
};

enum standby_want {
    STANDBY_WANT_NOTHING,
    STANDBY_WANT_IMPORTER, /* start it; the state is IMPORTING now */
    STANDBY_WANT_FORKS,    /* ask it for those that are missing */
    STANDBY_WANT_NONE,     /* end it; the state is NONE now */
};

struct standby_policy {
    enum standby_state state;
    bool made; /* asked for in this round already */
    bool progressed;
    int used; /* standbys that this round's workers came from */
    int64_t round_us;
    int64_t grown_us; /* when the record was longer than before */
    bool soon;        /* another worker than the recorded one has begun */
    size_t learnt;    /* bytes of the record */
    size_t imported;  /* bytes of that from which the importer was started */
};

/* A round begins; `used` of its workers were standbys. */
void standby_policy_round(struct standby_policy *p, int used, int64_t now_us);

/* The first worker of the round on this node has made progress. */
enum standby_want standby_policy_progress(struct standby_policy *p);

/* The round has run for STANDBY_AFTER_US. */
enum standby_want standby_policy_late(struct standby_policy *p);

/* The worker is importing now. */
void standby_policy_imports(struct standby_policy *p, int64_t now_us);

/* The record of the worker's imports has so many bytes now. */
enum standby_want standby_policy_learnt(struct standby_policy *p,
                                        size_t len,
                                        bool complete,
                                        int64_t now_us);

/* The importer is ready. Must be IMPORTING. */
enum standby_want standby_policy_ready(struct standby_policy *p);

void standby_policy_give_up(struct standby_policy *p);

/* Memory got short: there are none until the next round. */
void standby_policy_short(struct standby_policy *p);

/*
 * A worker of the round failed by itself (it was not killed). True: its start
 * is suspect (it was a standby's round, early, without progress), so there
 * shall be fresh starts from now on, which is the state already.
 */
bool standby_policy_failed(struct standby_policy *p, int64_t now_us);

#endif
