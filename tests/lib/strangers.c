/* links: worker_rt/comm/hello rendezvous/base/{siphash,rng} */
/* links: worker_rt/store_ops */
#include "tests/lib/strangers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/hello.h"
#include "worker_rt/comm/meet.h"
#include "worker_rt/rt.h"

#define CALLS      3
#define SILENT     300 /* more than a listener hears at once, by far */
#define HANG_UP_MS 4000

static const struct {
    const char *why;
    int calls;
} sorts[STRANGERS_SORTS] = {
    [STRANGERS_LOOK] = {NULL, CALLS},
    [STRANGERS_SILENT] = {"said nothing", SILENT},
    [STRANGERS_NONSENSE] = {"speaks another protocol", SILENT},
    [STRANGERS_CUT] = {"left in the middle of a word", CALLS},
    [STRANGERS_HALF] = {"said nothing", CALLS},
    [STRANGERS_ROUND] = {"is in another round", CALLS},
    [STRANGERS_NO_PROOF] = {"left without a proof", CALLS},
    [STRANGERS_OTHER_KEY] = {"has not the key", CALLS},
    [STRANGERS_REPLAYED] = {"has not the key", CALLS},
    [STRANGERS_REFLECTED] = {"has not the key", CALLS},
};

const char *strangers_why(enum strangers_sort sort)
{
    return sorts[sort].why;
}

/* Of a rank of two, on that communicator of the handle's round. */
static struct comm_place place_of(const struct ddp *d, uint32_t comm, int rank)
{
    return (struct comm_place){.instance = d->instance,
                               .round = d->round,
                               .key = {d->round_key[0], d->round_key[1]},
                               .id = comm,
                               .rank = rank,
                               .world = 2};
}

/* -- callers --------------------------------------------------------------- */

/* The first address that stands under the key, and the port behind the last. */
static struct sockaddr_in look_up(struct ddp *d, const char *key)
{
    struct ddp_error e;
    char text[1024];
    size_t len;
    struct sockaddr_in sin = {.sin_family = AF_INET};
    RT_OK(ddp_store_get(d, key, text, sizeof(text) - 1, &len, 10000, &e), e);
    text[len] = '\0';
    char *sign = strrchr(text, ' ');
    RT_CHECK(sign != NULL);
    *sign = '\0';
    sin.sin_port = htons((uint16_t)strtoul(strrchr(text, ' ') + 1, NULL, 10));
    text[strcspn(text, " ")] = '\0';
    RT_CHECK(inet_pton(AF_INET, text, &sin.sin_addr) == 1);
    return sin;
}

static void say(int fd, const void *words, size_t len)
{
    (void)send(fd, words, len, MSG_NOSIGNAL); /* it may have hung up */
}

static void hear(int fd, void *words, size_t len)
{
    RT_CHECK(recv(fd, words, len, MSG_WAITALL) == (ssize_t)len);
}

/* Not a byte comes before the listener hangs up. */
static void is_hung_up_on(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    RT_CHECK(poll(&p, 1, HANG_UP_MS * suite_slow()) == 1);
    RT_CHECK(recv(fd, &byte, 1, 0) <= 0);
}

/* A hello that the listener takes, and its reply; the proof is what it sends.
 */
static void
prove_wrongly(int fd, struct comm_place place, enum strangers_sort sort)
{
    struct hello hello;
    struct hello_reply reply, before;
    hello_make(&hello, &place, 0, 0);
    say(fd, &hello, sizeof(hello));
    hear(fd, &reply, sizeof(reply));
    RT_CHECK(hello_reply_check(&place, &hello, &reply) == HELLO_TAKEN);
    uint64_t proof = reply.proof;
    if (sort == STRANGERS_REPLAYED) {
        hello_reply_make(&before, &place, &hello, HELLO_TAKEN);
        proof = hello_proof(&place, &hello, &before);
    }
    if (sort == STRANGERS_OTHER_KEY) {
        place.key[1]++;
        proof = hello_proof(&place, &hello, &reply);
    }
    if (sort == STRANGERS_NO_PROOF)
        return;
    say(fd, &proof, sizeof(proof));
    is_hung_up_on(fd);
}

static void come_from_another_round(int fd, struct comm_place place)
{
    struct hello hello;
    struct hello_reply reply;
    static const uint64_t none[2] = {0, 0};
    place.round++;
    place.key[0]++;
    hello_make(&hello, &place, 0, 0);
    say(fd, &hello, sizeof(hello));
    hear(fd, &reply, sizeof(reply));
    RT_CHECK(reply.answer == HELLO_OTHER_ROUND && reply.proof == 0);
    RT_CHECK(memcmp(reply.nonce, none, sizeof(none)) == 0);
    is_hung_up_on(fd);
}

/* True: it stays. */
static bool
call(int fd, struct comm_place place, enum strangers_sort sort, int i)
{
    char noise[4096];
    struct hello hello;
    memset(noise, 'G', sizeof(noise));
    hello_make(&hello, &place, 0, 0);
    switch (sort) {
    case STRANGERS_LOOK:
        return false;
    case STRANGERS_SILENT:
        return true;
    case STRANGERS_NONSENSE:
        say(fd, noise, i % 3 == 0 ? 3 : sizeof(noise));
        return i % 4 != 0;
    case STRANGERS_CUT:
        say(fd, &hello, sizeof(hello) / 2);
        return false;
    case STRANGERS_HALF:
        say(fd, &hello, sizeof(hello) - 1);
        return true;
    case STRANGERS_ROUND:
        come_from_another_round(fd, place);
        return false;
    case STRANGERS_NO_PROOF:
    case STRANGERS_OTHER_KEY:
    case STRANGERS_REPLAYED:
    case STRANGERS_REFLECTED:
        prove_wrongly(fd, place, sort);
        return false;
    case STRANGERS_SORTS:
        break;
    }
    DDP_WRONG("a sort of strangers");
}

void strangers_call(struct ddp *d, const char *key, enum strangers_sort sort)
{
    const struct sockaddr_in at = look_up(d, key);
    const char *comm = strstr(key, "/comm");
    RT_CHECK(comm != NULL);
    const struct comm_place place =
        place_of(d, (uint32_t)strtoul(comm + strlen("/comm"), NULL, 10), 1);
    for (int i = 0; i < sorts[sort].calls; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) != 0)
            rt_wrong(__FILE__, __LINE__, "connect", strerror(errno));
        if (!call(fd, place, sort, i))
            (void)close(fd); /* the others end with this process */
    }
}

/* -- a listener ------------------------------------------------------------ */

/* As rank 0; `hosts` has 127.0.0.1, where it listens. */
static int publish(struct ddp *d,
                   const char *key,
                   struct comm_place place,
                   const char *hosts)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    struct ddp_error e;
    char plain[64], text[96];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    RT_CHECK(bind(listener, (struct sockaddr *)&sin, len) == 0);
    RT_CHECK(listen(listener, 8) == 0);
    RT_CHECK(getsockname(listener, (struct sockaddr *)&sin, &len) == 0);
    (void)snprintf(plain, sizeof(plain), "%s %u", hosts, /* fits */
                   ntohs(sin.sin_port));
    (void)snprintf(text, sizeof(text), "%s %016llx", plain, /* fits */
                   (unsigned long long)hello_sign_address(&place, 0, plain));
    RT_OK(ddp_store_set(d, key, text, strlen(text), 10000, &e), e);
    return listener;
}

void strangers_answer(struct ddp *d, const char *key)
{
    const struct comm_place place = place_of(d, 0, 0);
    struct hello hello;
    struct hello_reply reply;
    int listener = publish(d, key, place, "127.0.0.1");
    int fd = accept(listener, NULL, NULL);
    RT_CHECK(fd >= 0);
    hear(fd, &hello, sizeof(hello));
    RT_CHECK(hello_check(&place, &hello) == HELLO_TAKEN);
    struct comm_place without = place;
    without.key[0]++;
    hello_reply_make(&reply, &without, &hello, HELLO_TAKEN);
    say(fd, &reply, sizeof(reply));
    is_hung_up_on(fd);
}

/* -- ranks ----------------------------------------------------------------- */

/* Of a call that may have been left: false. */
static bool meet_one(int fd, const struct comm_place *place)
{
    struct hello hello;
    struct hello_reply reply;
    uint64_t proof;
    hear(fd, &hello, sizeof(hello));
    RT_CHECK(hello_check(place, &hello) == HELLO_TAKEN);
    hello_reply_make(&reply, place, &hello, HELLO_TAKEN);
    say(fd, &reply, sizeof(reply));
    if (recv(fd, &proof, sizeof(proof), MSG_WAITALL) != sizeof(proof))
        return false;
    RT_CHECK(proof == hello_proof(place, &hello, &reply));
    return true;
}

void strangers_come_late(struct ddp *d, const char *key, bool behind, int ms)
{
    const struct comm_place place = place_of(d, 0, 0);
    int listener = publish(
        d, key, place, behind ? "127.0.0.1 127.0.0.2" : "127.0.0.2 127.0.0.1");
    (void)usleep(1000 * (useconds_t)ms);
    for (int met = 0; met < COMM_LANES;) {
        int fd = accept(listener, NULL, NULL);
        RT_CHECK(fd >= 0);
        met += meet_one(fd, &place); /* it stays open */
    }
}

void strangers_speak_late(struct ddp *d, const char *key, int ms)
{
    const struct sockaddr_in at = look_up(d, key);
    const struct comm_place place = place_of(d, 0, 1);
    struct hello hello;
    struct hello_reply reply;
    int fds[COMM_LANES];
    for (int i = 0; i < COMM_LANES; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        RT_CHECK(connect(fds[i], (const struct sockaddr *)&at, sizeof(at)) ==
                 0);
    }
    for (int i = 0; i < COMM_LANES; i++) {
        (void)usleep(i == 0 ? 1000 * (useconds_t)ms : 0);
        hello_make(&hello, &place, 0, (uint32_t)i);
        say(fds[i], &hello, sizeof(hello));
        hear(fds[i], &reply, sizeof(reply));
        RT_CHECK(hello_reply_check(&place, &hello, &reply) == HELLO_TAKEN);
        uint64_t proof = hello_proof(&place, &hello, &reply);
        (void)usleep(i == 0 ? 0 : 1000 * (useconds_t)ms);
        say(fds[i], &proof, sizeof(proof));
    }
}
