/*
 * daemon/store_io: how the store's server moves bytes. Two ways behind one
 * table: libuv, and io_uring where the kernel has it and the machine allows it
 * (containers often do not). By io_uring, what all connections of a turn sent
 * is read, and what they are answered is written, in one system call.
 *
 * The server owns the streams' storage, one within each connection, and what
 * it writes; the way owns sockets and what it reads.
 */
#ifndef STORE_IO_H
#define STORE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "rendezvous/base/err.h"

#define STORE_IO_READ_MAX ((size_t)128 << 10) /* at once: a SET of 64 KiB */
#define STORE_IO_BACKLOG  4096

struct store_io;
struct store_uring;

/* One connection's socket. The fields are the way's own. */
struct store_stream {
    struct store_io *io;
    union {
        struct {
            uv_tcp_t tcp;
            uv_write_t req;
        } uv;
        struct {
            int fd;
            unsigned pending; /* requests that the kernel may still answer */
            bool closing;
            bool reset;
            bool bulk;           /* large values come: it is read as they do */
            unsigned small;      /* reads since the last large one */
            const uint8_t *data; /* what is being written */
            size_t len;
            int res;                   /* of a write that was tried */
            struct store_stream *next; /* of those that write, or close */
        } ring;
    };
};

/* What the server is told. All but `room`, `refused`, `turn` and `gone` are
 * about a stream that was opened and is not closed yet. */
struct store_io_calls {
    /* Storage for one more; NULL: it is turned away. */
    struct store_stream *(*room)(void *ctx);
    /* Somebody has connected. */
    void (*came)(struct store_stream *st);
    /* Nobody can be accepted now; it goes on by itself. */
    void (*refused)(void *ctx, const char *why);
    /* Where the next bytes go: *len of them, NULL: anywhere. A way need not
     * ask. */
    void *(*wanted)(struct store_stream *st, size_t *len);
    /* Bytes came; borrowed for the call, or where they were wanted. */
    void (*bytes)(struct store_stream *st, const uint8_t *data, size_t len);
    /* The peer's end, or an error: to be closed. */
    void (*ended)(struct store_stream *st);
    /* What `write` kept is written; else the connection is to be closed. */
    void (*written)(struct store_stream *st, bool whole);
    /* The storage may be used again. */
    void (*closed)(struct store_stream *st);
    /* All that came was read: now is the time to write. */
    void (*turn)(void *ctx);
    /* After `close`: nothing of the way is left; it may be freed. */
    void (*gone)(void *ctx);
};

struct store_io_way {
    const char *name;
    /* -1: this way is not to be had here, and nothing is left of it. */
    int (*prepare)(struct store_io *io);
    /* Serves behind `listen_fd`, which is bound; -1 is none. Owns it from here
     * on, also when it fails. Errors: IO where the descriptor cannot be used;
     * `close` is due all the same. */
    int (*open)(struct store_io *io, int listen_fd, struct ddp_err *err);
    /* Runs the loop until nothing is left of it. */
    void (*run)(struct store_io *io);
    /* Stops to accept; `gone` follows once the streams are closed as well. */
    void (*close)(struct store_io *io);
    /* A socket that somebody else accepted; owns `fd`. -1: it is of no use,
     * and the stream is to be closed. Within `run` only. */
    int (*adopt)(struct store_stream *st, int fd);
    /* What the socket takes at once, 0 also on an error, which comes again
     * later. Nothing that `write` kept may be under way. */
    size_t (*try_write)(struct store_stream *st,
                        const uv_buf_t *bufs,
                        unsigned count);
    /*
     * How much of it is written already; -1: the peer is gone. What is less
     * than `len` stays where it is until `written`, or `closed`.
     */
    int64_t (*write)(struct store_stream *st, const uint8_t *data, size_t len);
    /* `closed` follows, not before the caller has returned. By a reset, the
     * kernel keeps nothing for the peer. */
    void (*shut)(struct store_stream *st, bool reset);
    /* The peer's or the listener's own address. Returns 0, or -1. */
    int (*peer)(const struct store_stream *st, struct sockaddr_storage *sa);
    int (*name_of)(const struct store_io *io, struct sockaddr_storage *sa);
};

/* In the server's storage; the first four are its to fill. */
struct store_io {
    const struct store_io_way *way;
    const struct store_io_calls *calls;
    void *ctx;
    uv_loop_t *loop;
    union {
        struct {
            uv_tcp_t listener; /* opened only where there is one */
            uv_check_t after;  /* all reads of a turn of the loop */
            unsigned handles;  /* of these two, not closed yet */
            bool paused;       /* a connection waits in libuv for memory */
        } uv;
        struct store_uring *ring;
    };
};

extern const struct store_io_way store_io_uv;
/* Not to be had either where it was left out of the build. */
extern const struct store_io_way store_io_uring;

#endif
