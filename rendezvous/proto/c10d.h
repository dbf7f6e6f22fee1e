/*
 * proto/c10d: the wire protocol of PyTorch's TCPStore, as a codec: no I/O, no
 * allocation but in the `struct buf` that an encoder is given.
 *
 * Integers are little-endian, requests are not framed and follow each other
 * without a gap, replies come in the order of the requests. A string is a u64
 * length and its bytes. Two families number their operations differently (the
 * old one: PyTorch up to 2.0; the new one since); the first bytes of a
 * connection tell which. Servers here speak both, clients the new one.
 *
 * Keys are as on the wire: PyTorch's clients put a '/' before the user's key. A
 * client that shares keys with them must do the same.
 */
#ifndef RENDEZVOUS_PROTO_C10D_H
#define RENDEZVOUS_PROTO_C10D_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

/* What PyTorch's libuv store enforces; a request beyond one is refused. */
#define C10D_KEY_MAX   ((size_t)8192)
#define C10D_VALUE_MAX ((size_t)8 << 20)
#define C10D_KEYS_MAX  UINT64_C(131072) /* of one CHECK, WAIT or MULTI_* */

/* Our own limit: the bytes of one whole request, many values included. */
#define C10D_REQUEST_MAX ((size_t)64 << 20)

/* Borrowed bytes, no NUL behind them. */
struct c10d_slice {
    const uint8_t *data;
    size_t len;
};

enum c10d_family {
    C10D_UNDECIDED, /* too few bytes yet */
    C10D_OLD,
    C10D_NEW,
};

/* Independent of the family; the codes on the wire are a table in c10d.c. */
enum c10d_op {
    C10D_VALIDATE,
    C10D_SET,
    C10D_COMPARE_SET,
    C10D_GET,
    C10D_ADD,
    C10D_CHECK,
    C10D_WAIT,
    C10D_GETNUMKEYS,
    C10D_WATCH_KEY, /* the old family only */
    C10D_DELETE_KEY,
    C10D_APPEND,
    C10D_MULTI_GET,
    C10D_MULTI_SET,
    C10D_CANCEL_WAIT,
    C10D_PING, /* this and what follows: the new family only */
    C10D_QUEUE_PUSH,
    C10D_QUEUE_POP,
    C10D_QUEUE_LEN,
    C10D_LIST_KEYS,
    C10D_BARRIER,
};
#define C10D_OPS 20

/* For messages: "SET", "COMPARE_SET" and so on. */
const char *c10d_op_name(enum c10d_op op);

/* The single byte that answers CHECK, WAIT and CANCEL_WAIT. */
enum {
    C10D_READY = 0, /* CHECK: all keys are there */
    C10D_NOT_READY = 1,
    C10D_STOP_WAITING = 0,  /* WAIT: all keys are there */
    C10D_WAIT_CANCELED = 1, /* CANCEL_WAIT, always */
};

/* Sent to a watcher of a key (the old family's WATCH_KEY). REGISTERED comes
 * first; the others are followed by the key, the old value and the new one. */
enum {
    C10D_KEY_UPDATED = 0,
    C10D_KEY_CREATED = 1,
    C10D_KEY_DELETED = 2,
    C10D_KEY_CALLBACK_REGISTERED = 3,
    C10D_KEY_APPENDED = 4,
};

enum c10d_status {
    C10D_MORE, /* not complete: call again with more bytes */
    C10D_DONE,
    C10D_BAD, /* the peer broke the protocol: close the connection */
};

/*
 * One complete request. Fields that the operation does not have are empty. The
 * slices of a decoded one borrow from the bytes given to c10d_decode.
 */
struct c10d_request {
    enum c10d_op op;
    struct c10d_slice key;
    struct c10d_slice value;   /* SET, APPEND, QUEUE_PUSH; COMPARE_SET: what is
                                  expected */
    struct c10d_slice desired; /* COMPARE_SET */
    int64_t number;            /* ADD: delta; PING: nonce; BARRIER: world */
    uint64_t count;            /* CHECK, WAIT, MULTI_*: how many in `items` */
    struct c10d_slice items;   /* to be walked with c10d_next: `count` keys,
                                  for MULTI_SET `count` times key and value */
    const struct c10d_slice *list; /* the same, to be encoded */
};

/* -- server: requests ------------------------------------------------------ */

/*
 * The decoder's place in the current request, so that bytes that come one by
 * one are looked at once. Starts as {0}.
 */
struct c10d_decoder {
    enum c10d_family family;
    enum c10d_op op;
    unsigned step;       /* 0: the operation's byte; else its field, from 1 */
    uint64_t left;       /* strings of the list still to come */
    size_t scan;         /* bytes of this request understood so far */
    size_t need;         /* bytes of it that the next step needs, as far as
                            that is known; 0: unknown */
    int64_t number;      /* the fields, as in the request */
    uint64_t count;      /* .. */
    size_t items_at;     /* offsets from the request's first byte .. */
    size_t string_at[3]; /* .. */
    size_t string_len[3];
    unsigned strings;
};

/*
 * Looks at `data`, which starts with the first byte of a request and has all
 * that came since: after C10D_MORE the caller passes the same bytes again
 * (they may have moved) with more behind them. C10D_DONE: `req` is filled and
 * `*used` bytes are to be dropped before the next call. C10D_BAD: `err` says
 * why (DDP_E_PROTO); the decoder is not used again. Limits are checked as
 * soon as a length is there, before the bytes that it announces.
 * d->family says the family once it is known.
 */
enum c10d_status c10d_decode(struct c10d_decoder *d,
                             const uint8_t *data,
                             size_t len,
                             struct c10d_request *req,
                             size_t *used,
                             struct ddp_err *err);

/* Takes the next string off the front of a decoded request's `items`. */
struct c10d_slice c10d_next(struct c10d_slice *items);

/* Little-endian integers, for replies. */
void c10d_pack_u32(uint8_t out[4], uint32_t n);
void c10d_pack_u64(uint8_t out[8], uint64_t n);

/* -- client: requests of the new family ------------------------------------ */

/*
 * Appends a request to `b`: the fields that its operation has, for CHECK, WAIT
 * and MULTI_* `list`. Errors: -1 with nothing appended: USAGE, a length or a
 * number of keys is over its limit (the store would close the connection);
 * NOMEM, `b` is full or there is no memory.
 *
 * VALIDATE goes first on every connection and has no answer. The replies:
 *   SET            none            WAIT         byte C10D_STOP_WAITING
 *   GET            value           CANCEL_WAIT  byte C10D_WAIT_CANCELED
 *   ADD            number          CHECK        byte C10D_READY, _NOT_READY
 *   COMPARE_SET    value: what is stored now
 *   DELETE_KEY     number: 1 if it was there, else 0
 *   GETNUMKEYS     number          PING         number: the nonce, of 4 bytes
 *   APPEND         none            BARRIER      byte C10D_STOP_WAITING
 *   MULTI_SET      none            QUEUE_PUSH   none
 *   MULTI_GET      as many values as keys, one behind the other
 *   QUEUE_POP      number: the length before; if that is not 0, a value
 *   QUEUE_LEN      number
 *   LIST_KEYS      number, and as many values, the keys
 * A GET of a key that does not exist answers an empty value (PyTorch's older
 * servers close the connection): wait first. After CANCEL_WAIT, the byte of a
 * wait that ended in the same moment may come before the cancel's own.
 */
int c10d_put(struct buf *b,
             const struct c10d_request *req,
             struct ddp_err *err);

/* -- client: replies ------------------------------------------------------- */

/*
 * Each looks at `data`, which starts with the first byte of the reply that is
 * due. C10D_DONE: the result is there and `*used` bytes are to be dropped.
 * C10D_MORE: `*used` bytes are needed in all, as far as is known yet. C10D_BAD
 * (PROTO): a value longer than C10D_VALUE_MAX, a byte that no server sends.
 * `*value` borrows from `data`.
 */
enum c10d_status c10d_reply_value(const uint8_t *data,
                                  size_t len,
                                  struct c10d_slice *value,
                                  size_t *used,
                                  struct ddp_err *err);
enum c10d_status c10d_reply_number(const uint8_t *data,
                                   size_t len,
                                   int64_t *number,
                                   size_t *used);
enum c10d_status c10d_reply_byte(const uint8_t *data,
                                 size_t len,
                                 uint8_t *byte,
                                 size_t *used,
                                 struct ddp_err *err);

#endif
