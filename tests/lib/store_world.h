/*
 * tests/lib/store_world: a store on a real socket, in a thread with its own
 * loop, and clients that are plain blocking sockets. Names here are short.
 */
#ifndef STORE_WORLD_H
#define STORE_WORLD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/proto/c10d.h"
#include "rendezvous/store/server.h"

struct world {
    uv_loop_t loop;
    uv_async_t stop, pause;
    sem_t paused, go;
    struct store_server *server;
    pthread_t thread;
    uint16_t port;
    int log_fd; /* what went to stderr */
    int stderr_fd;
};

/* A listening socket of loopback, and its port. */
int listen_loopback(uint16_t *port);

/* NULL: the usual limits. The other one closes the server, and finds that
 * nothing is left in its loop. */
void world_open(struct world *w, const struct store_server_limits *limits);
void world_close(struct world *w);

/* The server does nothing from the one to the other: then it finds at once what
 * came meanwhile. */
void world_pause(struct world *w);
void world_go_on(struct world *w);

/* How many lines of the log have `what` in them. */
int log_lines(const struct world *w, const char *what);

/* -- clients --------------------------------------------------------------- */

/* SET, ADD, GET and WAIT as PyTorch 1.13 puts them on the wire; the NUL behind
 * each is no part of it. */
#define OLD_SET   "\x00\x02\0\0\0\0\0\0\0/a\x03\0\0\0\0\0\0\0old"
#define OLD_ADD   "\x03\x02\0\0\0\0\0\0\0/n\x05\0\0\0\0\0\0\0"
#define OLD_GET   "\x02\x02\0\0\0\0\0\0\0/n"
#define OLD_GET_K "\x02\x02\0\0\0\0\0\0\0/k"
#define OLD_WAIT  "\x05\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/w"

int dial(uint16_t port);

/* Of the new family, its hello said. */
int dial_new(uint16_t port);

/* Closes with a reset, as a killed process whose bytes were not read. */
void vanish(int fd);

struct c10d_slice slice(const char *s);

/* Appends a request to `b`, whose fields come last. */
#define PUT(b, err, ...) c10d_put(b, &(struct c10d_request){__VA_ARGS__}, err)

void send_bytes(int fd, const void *data, size_t len);

/* To a server that may close while this is under way. */
void send_doomed(int fd, const void *data, size_t len);

/* All that is in it, and frees it. */
void send_buf(int fd, struct buf *b);
void send_set(int fd, const char *key, const char *value);
void send_get(int fd, const char *key);
void send_wait(int fd, const char *key);

bool readable(int fd, int timeout_ms);

/* What must come, within WAIT_MS; a value with its length before it. */
#define WAIT_MS 15000 /* emulated and on a busy machine, too */
void expect_bytes(int fd, const void *want, size_t len);
void expect_value(int fd, const char *want);

/* Nothing, for a moment. */
void expect_silence(int fd);

/* The server's end or a reset, behind whatever there still is; closes. */
void expect_closed(int fd);

/* The server lives: a client of its own sets and gets. */
void expect_service(uint16_t port);

#endif
