/*
 * launcher/agent/agent_priv: what the files of this folder share. agent.c takes
 * events and what the server says, session.c is the session with the server,
 * tell.c says things to the server and to people, work.c is about the workers,
 * end.c about the run's end, vote.c about rounds and leaders, candidates.c
 * about the places of leaders, search.c finds one, state.c has the state and
 * what is possible in it. All of it is pure: see launcher/agent/agent.h.
 */
#ifndef LAUNCHER_AGENT_AGENT_PRIV_H
#define LAUNCHER_AGENT_AGENT_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/agent/agent.h"
#include "rendezvous/base/mono.h"

#define AGENT_PAUSE_FIRST_US (20 * MONO_MS) /* between two tries to connect */

/* One event in hand; lives for one call of agent_step. */
struct step {
    struct agent *a;
    const struct agent_actions *out;
    int64_t now_us;
};

/* -- tell.c ---------------------------------------------------------------- */

/* Hands an action to the shell, which borrows it for the call. */
void agent_emit(struct step *s, const struct agent_action *action);
/* What happened, for people and for traces; the text may be cut. */
__attribute__((format(printf, 3, 4))) void
agent_note(struct step *s, enum note_kind kind, const char *fmt, ...);
/* NOTE_stopping, for what the server says. */
void agent_note_stop(struct step *s, const struct msg_stop *stop);

/* A connection is up. */
bool agent_is_open(const struct agent *a);

/* Each tells the server. Without a connection nothing is sent: what still
 * counts is said again after the next join. */
void agent_send(struct step *s, const struct msg *m);
/* Has the guard know what it is to say should the agent die now, if that is not
 * what it was. Before all that binds this node is said; and after each step. */
void agent_record(struct step *s);
void agent_send_join(struct step *s);
/* Only a voter says this one, and `accept` only if it waits for `go`. */
void agent_send_vote(struct step *s);
void agent_send_accept(struct step *s);
void agent_send_promise(struct step *s);
void agent_send_failed(struct step *s);
void agent_send_ready(struct step *s, int64_t round);
void agent_send_done(struct step *s);
void agent_send_leave(struct step *s);
void agent_send_bye(struct step *s);

/* -- session.c: the connection and the lease ------------------------------- */

/* The first try, and what is counted from it. */
void agent_seek_server(struct step *s);
void agent_connect_now(struct step *s);
void agent_send_beat(struct step *s);
/* One more, for its news; the next one is due as before, so that the nodes of a
 * round do not all beat at the same time. */
void agent_send_beat_between(struct step *s);
/* `own`: to this launcher's own server. */
void agent_on_connected(struct step *s, bool own);
void agent_on_disconnected(struct step *s, const char *why);
/* Ends a connection that is of no use; the next try comes as after any other.
 */
void agent_break_off(struct step *s, const char *why);
/* The server there refuses this node: goes on to another place if there is one.
 */
void agent_go_elsewhere(struct step *s, const char *why);
/* Ends the connection, or the try, and goes to the place that is in hand by
 * now, if `pause` after a pause. */
void agent_go_there(struct step *s, const char *why, bool pause);
/* Nothing comes from the place in hand. */
void agent_take_silence(struct step *s);
/* A search for a leader is on from now on, if there are several places; or
 * over.
 */
void agent_seek(struct step *s);
void agent_seek_over(struct agent *a);
/* The voters' addresses, as in msg_voters.addrs. */
void agent_learn_places(struct step *s, const char *addrs);
/* The place to join by what is known, -1: none is known, or it does not look.
 */
int agent_found(const struct agent *a);
/* Whether it has anything to say to a server. */
bool agent_needs_session(const struct agent *a);
/* Something came, so that a server is there. */
void agent_hear(struct step *s);
void agent_on_lease(struct step *s, const struct msg_lease *l);
/* When the agent gives up if no server is HEARD by then and no worker runs:
 * join_timeout after its first try, or reconnect_timeout after it lost a
 * server. Without a round it waits for no more than join_timeout in all, but
 * looks for the next server for a lease. */
int64_t agent_patient_until_us(const struct agent *a);
/* When the connection counts as broken, since nothing comes. */
int64_t agent_silent_at_us(const struct agent *a);
/* Tells the user that the server cannot be reached. */
void agent_complain(struct step *s);
/* A server answers that cannot serve, and says why. True: it is time to tell
 * the user of it. */
bool agent_is_answered_in_vain(struct step *s, const char *why);

/* -- search.c -------------------------------------------------------------- */

/* `answer` NULL: it is not reached. */
void agent_on_seen(struct step *s, int place, const struct msg *answer);
/* When the next thing of the search is due. */
int64_t agent_search_at_us(const struct agent *a);
/* Behind each event: begins a search, asks, goes where a leader is, ends it. */
void agent_search_go_on(struct step *s);

/* -- state.c --------------------------------------------------------------- */

/* Whether a server has ever answered. */
bool agent_was_heard(const struct agent *a);
/* Rounds are ordered by their term, then by number. */
int agent_ballot_order(const struct agent_ballot *x,
                       const struct agent_ballot *y);
/* The run's instance of the round that it accepted, or else holds; "": none, or
 * not known yet. */
const char *agent_instance(const struct agent *a);
/* Whether it accepted a round, so that it has a say in who leads. */
bool agent_has_vote(const struct agent *a);
/* Nobody counts on what it promised: it has accepted no round, and runs none.
 */
bool agent_is_free(const struct agent *a);
/* Whether this agent's vote stands in `ids` (as in msg_voters.ids). */
bool agent_is_among(const struct agent *a, const char *ids);

/* -- vote.c ---------------------------------------------------------------- */

void agent_on_prepare(struct step *s, const struct msg_prepare *prepare);
void agent_on_voters(struct step *s, const struct msg_voters *voters);
void agent_on_world(struct step *s, const struct msg_world *w);
void agent_on_go(struct step *s, const struct msg_go *go);
void agent_on_serves(struct step *s, const struct msg_serves *to);
/* The server reaches too few of the last round's voters. */
void agent_on_missing_voters(struct step *s, const struct msg_waiting *w);

/* -- work.c: the workers --------------------------------------------------- */

/* Starts those of the world that the agent holds. */
void agent_spawn(struct step *s);
void agent_kill_workers(struct step *s, int signo);
/* Asks the workers to go by `signo`, with the long grace; SIGKILL leaves them
 * none. Those that have the signal already are told by SIGKILL only. */
void agent_stop_workers(struct step *s, int signo);
/* ... by SIGTERM, with the short grace: a worker or a node failed. */
void agent_stop_after_failure(struct step *s);
/* ... by SIGTERM, with the grace of a death: a worker, here or elsewhere, is
 * dead or stands still without a word of its own. The others most likely wait
 * for it in a collective, where Python hears of no signal. */
void agent_stop_after_death(struct step *s);
/* How long the workers have between the signal and SIGKILL, and the option that
 * says so, for people. */
int64_t agent_grace_us(const struct agent *a);
const char *agent_grace_option(const struct agent *a);
/* Asks them to leave at a step first; those that cannot be asked get SIGTERM.
 */
void agent_ask_workers(struct step *s, enum msg_graceful graceful);
/* The lease is over: kills them. */
void agent_fence(struct step *s);
/* Has the shell look whether the node is fit. */
void agent_look_at_health(struct step *s);

void agent_on_worker_exit(struct step *s, const struct agent_worker *w);
void agent_on_worker_hung(struct step *s, const struct agent_event *ev);
void agent_on_worker_failed(struct step *s, const struct agent_worker *w);
void agent_on_asked(struct step *s, int attached);
void agent_on_spawn_failed(struct step *s, const struct agent_event *ev);

/* -- work.c: going --------------------------------------------------------- */

/* It goes for `why`, with `status` if it was to stay until now. */
void agent_decide(struct agent *a, enum agent_exit why, int status);
/* ... and exits once no worker is left; those that live get `signo`. */
void agent_go(struct step *s, enum agent_exit why, int status, int signo);
/* GAVE_UP, with the status of `code` and a sentence. */
__attribute__((format(printf, 3, 4))) void
agent_give_up(struct step *s, enum ddp_code code, const char *fmt, ...);
/* Exits now. */
void agent_finish(struct step *s);
/* The same while workers live that SIGKILL does not end. Nothing is said of
 * them: the server takes them for dead once the lease is over. */
void agent_abandon(struct step *s);
/* The end that it was told of is none for this node, which gives up (LOST).
 * False: it goes for a reason of its own. */
bool agent_forget_end(struct agent *a);

/* -- end.c: what is known of the run's end --------------------------------- */

void agent_on_end(struct step *s, const struct msg_end *end);
/* The end that it holds did not come about: the others went on. Nothing if it
 * holds none. */
void agent_drop_end(struct step *s);
/* A server refuses it. True: it had an end to tell. */
bool agent_lets_go(struct step *s);
/* The rendezvous stays away for too long. */
void agent_lose_patience(struct step *s);

#endif
