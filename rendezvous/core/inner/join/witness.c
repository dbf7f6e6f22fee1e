/*
 * A witness says whom it speaks for while all is well, and proves its death by
 * how its connection ends. It knows all digits of the run's instance, which
 * nobody but members does. Most often no node of the run is here then: what is
 * proven is kept until they come.
 */
#include "rendezvous/core/inner/join/witness.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/join/takeover.h"

#define WITNESSES_MAX 64
#define KEPT_US       (600 * MONO_S)

struct witness_heard {
    enum {
        WITNESS_FREE,
        WITNESS_HERE,
        WITNESS_DEAD
    } state;
    int conn;
    int64_t kept_until_us;
    char run[129];
    char instance[RNG_ID_LEN + 1];
    char agent[RNG_ID_LEN + 1];
    char server[MSG_VOTER_LEN + 1];
};

struct witnesses {
    int dead;
    struct witness_heard all[WITNESSES_MAX];
};

struct witnesses *witness_new(void)
{
    return calloc(1, sizeof(struct witnesses));
}

void witness_del(struct witnesses *w)
{
    free(w);
}

static void forget_old(struct rdzv *r)
{
    for (int i = 0; i < WITNESSES_MAX; i++) {
        struct witness_heard *w = &r->witnesses->all[i];
        if (w->state != WITNESS_DEAD || r->now_us < w->kept_until_us)
            continue;
        w->state = WITNESS_FREE;
        r->witnesses->dead--;
    }
}

/* In that state, NULL: there is none; of those that are HERE on `conn`. */
static struct witness_heard *find(const struct rdzv *r, int state, int conn)
{
    for (int i = 0; i < WITNESSES_MAX; i++) {
        struct witness_heard *w = &r->witnesses->all[i];
        if ((int)w->state == state && (conn < 0 || w->conn == conn))
            return w;
    }
    return NULL;
}

void witness_hello(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_witness *m = &ev->msg->witness;
    forget_old(r);
    struct witness_heard *w = find(r, WITNESS_HERE, ev->conn);
    if (w == NULL)
        w = find(r, WITNESS_FREE, -1);
    if (w == NULL || m->version != MSG_VERSION) {
        reply_drop(r, ev->conn);
        return;
    }
    *w = (struct witness_heard){.state = WITNESS_HERE, .conn = ev->conn};
    msg_set(w->run, m->run);
    msg_set(w->instance, m->instance);
    msg_set(w->agent, m->agent);
    msg_set(w->server, m->epoch_id);
}

void witness_closed(struct rdzv *r, int conn, bool farewell)
{
    struct witness_heard *w = find(r, WITNESS_HERE, conn);
    if (w == NULL)
        return;
    w->state = farewell ? WITNESS_DEAD : WITNESS_FREE;
    w->conn = -1;
    w->kept_until_us = mono_after(r->now_us, KEPT_US);
    r->witnesses->dead += farewell;
    struct run *run = run_find(r, w->run);
    if (run != NULL)
        rdzv_touch(r, run);
}

int rdzv_witnesses(const struct rdzv *r)
{
    int n = 0;
    for (int i = 0; i < WITNESSES_MAX; i++) {
        const struct witness_heard *w = &r->witnesses->all[i];
        n += w->state == WITNESS_HERE ||
             (w->state == WITNESS_DEAD && r->now_us < w->kept_until_us);
    }
    return n;
}

void witness_tell(struct rdzv *r, struct run *run)
{
    if (r->witnesses->dead == 0 || !run->failover || !run_is_live(run))
        return;
    const char *instance =
        run->state == RUN_CANDIDATE ? run->takeover.instance : run->instance;
    for (int i = 0; i < WITNESSES_MAX && run_is_live(run); i++) {
        const struct witness_heard *w = &r->witnesses->all[i];
        if (w->state == WITNESS_DEAD && strcmp(w->run, run->id) == 0 &&
            w->instance[0] != '\0' && strcmp(w->instance, instance) == 0)
            takeover_excuse(r, run, w->agent, w->server);
    }
}
