/*
 * launcher/rdzv/farewell_places: what guard and janitor say once this node is
 * dead (launcher/proc/farewell_page), and where: at the server that the agent
 * is connected to; should that be dead as well, at the next places where the
 * run may be served.
 */
#ifndef LAUNCHER_RDZV_FAREWELL_PLACES_H
#define LAUNCHER_RDZV_FAREWELL_PLACES_H

#include "launcher/conf/conf.h"
#include "launcher/proc/farewell_page.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/proto/msg.h"

/* The caller's storage, for the life of the process; the fields are the unit's
 * own. */
struct farewell_places {
    const struct conf *conf;
    struct sockaddr_storage server; /* AF_UNSPEC: our own, or none yet */
    const struct addr_list *endpoints[CONF_ENDPOINTS_MAX];
    struct msg_voters voters;
    struct msg_vote said; /* version 0: nothing */
    struct farewell_page page;
};

/* Borrows `conf` for its life. */
void farewell_places_init(struct farewell_places *p, const struct conf *conf);

/* Where endpoint `which` of the list is, as far as that is known by now.
 * Borrowed for its life. */
void farewell_places_endpoint(struct farewell_places *p,
                              int which,
                              const struct addr_list *at);

/* More of these is known now. */
void farewell_places_update(struct farewell_places *p);

/* The agent is connected to a server there; `own`: to this launcher's. */
void farewell_places_connected(struct farewell_places *p,
                               const struct sockaddr_storage *server,
                               bool own);

/* What came from it. */
void farewell_places_hear(struct farewell_places *p, const struct msg *m);

/* The agent's AGENT_RECORD: it is on the page when this returns. */
void farewell_places_record(struct farewell_places *p,
                            const struct msg_vote *said);

#endif
