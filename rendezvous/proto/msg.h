/*
 * proto/msg: the messages of messages.def as structs, and their codec (JSON;
 * cJSON stays inside msg.c). Decoding is strict: every text and integer has a
 * bound, what is needed must be there, nothing may follow. Unknown fields are
 * ignored, unknown kinds are refused.
 */
#ifndef RENDEZVOUS_PROTO_MSG_H
#define RENDEZVOUS_PROTO_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "rendezvous/proto/term.h"

#define MSG_VERSION 2

/* What the workers of a round do on a node (join.state). */
enum msg_state {
    MSG_STATE_NONE,    /* it is in no round */
    MSG_STATE_RUNNING, /* they run */
    MSG_STATE_STOPPED, /* they are being stopped */
    MSG_STATE_DONE,    /* all exited 0 */
    MSG_STATE_READY,   /* they are dead */
};

/* Whether workers have time, and what for (stop.graceful). */
enum msg_graceful {
    MSG_AT_ONCE,
    MSG_SCALE_UP,    /* nothing failed: nodes join */
    MSG_SCALE_DOWN,  /* nothing failed: a node leaves */
    MSG_AFTER_DEATH, /* at once: a signal killed a worker, or one hangs. Only
                        in a message: a round has MSG_AT_ONCE then */
};

/* What a node waits for (waiting.what_for). */
enum msg_what_for {
    MSG_FOR_NODES,     /* more must come */
    MSG_FOR_LAST_CALL, /* enough came: more may come until it ends */
    MSG_FOR_A_PLACE,   /* a round runs without this node, a spare ... */
    MSG_FOR_GROWTH,    /* ... and that round can grow */
};

/* What an operator orders (order.verb). */
enum msg_verb {
    MSG_ORDER_DRAIN, /* a node is to leave its run, gracefully */
    MSG_ORDER_END,   /* the run is to end on all its nodes */
    MSG_ORDER_GO_ON, /* the nodes that are missing are dead: the server is to go
                        on with those it has */
    MSG_ORDER_STACKS, /* a worker's stacks are to be shown */
};

/* What is known of a worker that failed (failed.how, end.how). */
enum msg_failed_how {
    MSG_FAILED_ENDED,
    MSG_FAILED_HUNG,     /* it is alive, but makes no progress */
    MSG_FAILED_OOM,      /* memory ran out, and the kernel killed it */
    MSG_FAILED_FOR_GOOD, /* starting it again is useless */
};

/* Who goes, and why (leave.what). */
enum msg_leave_what {
    MSG_LEAVE_NODE,  /* this node */
    MSG_LEAVE_ALL,   /* the run ends on every node */
    MSG_LEAVE_ASKS,  /* this node, if the run can go on without it */
    MSG_LEAVE_ENDED, /* it knows that the run is over */
};

/* Voters of a round at most, and how many digits of an agent's id name one. */
#define MSG_VOTERS_MAX 31
#define MSG_VOTER_LEN  16

/*
 * The instance of a run is 32 hexadecimal digits. The first 16 are its name,
 * which tells it from others and is shown to everybody. All of them are the
 * secret of its members: who says them is believed to have been one. Workers
 * are given other ones behind the name (launcher/worker/env).
 */
#define MSG_INSTANCE_LEN  32
#define MSG_INSTANCE_NAME 16

/* Whether it is more than a name. */
bool msg_is_whole(const char *instance);

/* Whether these are of one instance, as far as both are known. Also of "". */
bool msg_same_instance(const char *x, const char *y);

/* Sets the field of a message that is for others than members. */
void msg_set_name(char field[MSG_INSTANCE_LEN + 1], const char *instance);

enum msg_sender {
    MSG_AGENT,
    MSG_SERVER,
    MSG_CTL, /* an operator: one order on a connection of its own */
    MSG_BOTH /* agents and servers */
};

/* One struct per message: struct msg_join, struct msg_beat, ... */
/* clang-format off */
#define MSG_BEGIN(name, sender, meaning)             struct msg_##name {
#define MSG_STR(name, field, longest, needed, text)      char field[longest + 1];
#define MSG_INT(name, field, min, max, needed, text)     int64_t field;
#define MSG_TERM(name, field, needed, text)              struct term field;
#define MSG_END(name)                                };
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END

#define MSG_STR(name, field, longest, needed, text)
#define MSG_INT(name, field, min, max, needed, text)
#define MSG_TERM(name, field, needed, text)
#define MSG_END(name)

/* MSG_KIND_join, MSG_KIND_beat, ... */
enum msg_kind {
#define MSG_BEGIN(name, sender, meaning) MSG_KIND_##name,
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
    MSG_KIND_COUNT
};

struct msg {
    enum msg_kind kind;
    union {
#define MSG_BEGIN(name, sender, meaning) struct msg_##name name;
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
    };
};
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END
/* clang-format on */

const char *msg_name(enum msg_kind kind);
bool msg_is_from(enum msg_kind kind, enum msg_sender sender); /* not BOTH */

/*
 * Decodes one payload. Errors: DDP_E_PROTO, with what is wrong; `*out` is
 * undefined then. Borrows `json` for the call.
 */
int msg_decode(const void *json,
               size_t len,
               struct msg *out,
               struct ddp_err *err);

/*
 * Encodes `m` as JSON into `json`; returns the length, or -1 where `cap` is
 * too small. MSG_JSON_MAX is enough for any message, and FRAME_AGENT_MAX for
 * any that an agent sends.
 */
int msg_encode(const struct msg *m, char *json, size_t cap);

#define MSG_JSON_MAX (64 * 1024)

/* Copies text into a field, cut to its size at a UTF-8 boundary. */
#define msg_set(field, text) msg_set_text((field), sizeof(field), (text))
void msg_set_text(char *field, size_t size, const char *text);

#endif
