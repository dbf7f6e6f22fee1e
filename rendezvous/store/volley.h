/*
 * store/volley: many small sends at once, on two CPUs. On a loopback and on
 * most networks a send(2) takes the kernel's time of the whole way out, several
 * times what the request behind it took; nothing of it depends on what the
 * others send. So the thread of a loop collects what it has to send, fires it
 * as a volley, may do something else, and lands it: a thread of the volley,
 * here called the hand, takes one shot after the other, and so does whoever
 * lands.
 *
 * Between a landing and the next fire the hand touches nothing, and during a
 * flight only the shots and what these borrow; all that is meant by the bytes
 * stays with the one thread that fires. A hand that is not there, or is late,
 * costs time and nothing else: the landing does what is left.
 *
 * The hand is started with the first volley that is worth it, sleeps while
 * there is none, blocks every signal, and is gone with volley_del. A process
 * that forks gives its child a volley that must not be used.
 */
#ifndef RENDEZVOUS_STORE_VOLLEY_H
#define RENDEZVOUS_STORE_VOLLEY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define VOLLEY_MAX 256u /* shots */

struct volley;

struct volley_shot {
    int fd;           /* a socket */
    const void *data; /* borrowed until the landing, as is the descriptor */
    size_t len;
    ssize_t sent; /* after the landing: bytes taken, or -errno. It never blocks:
                     -EAGAIN of a socket that is full */
};

/* Whether a hand pays where this process may run: not on one CPU. */
bool volley_pays(void);

/* With a hand or without; it is not started yet. NULL if there is no memory. */
struct volley *volley_new(bool hand);

/* Lands what is in the air, and ends the hand. Nothing for NULL. */
void volley_del(struct volley *v);

/*
 * Begins to send; nothing may be in the air. `count` is VOLLEY_MAX at most;
 * borrows `shots` until the landing. Returns whether there is anything in the
 * air: if it is not worth the hand, all was sent already, and has landed.
 */
bool volley_fire(struct volley *v, struct volley_shot *shots, size_t count);

/* Returns when every shot has its `sent`. Nothing if nothing is in the air. */
void volley_land(struct volley *v);

#endif
