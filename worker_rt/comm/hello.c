#include "worker_rt/comm/hello.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/siphash.h"

static const uint8_t magic[8] = {0xdd, 'd', 'd', 'p', 'c', 'p', 'u', 6};

/* What a proof is made of. The side comes first, so that neither side's proof
 * is the other one's. */
struct proven {
    char side[8];
    struct hello hello;
    uint64_t nonce[2]; /* the listener's */
};
_Static_assert(sizeof(struct proven) == 112, "no padding in a sum");

static uint64_t prove(const struct comm_place *place,
                      const char side[8],
                      const struct hello *h,
                      const struct hello_reply *r)
{
    struct proven all = {.hello = *h, .nonce = {r->nonce[0], r->nonce[1]}};
    memcpy(all.side, side, sizeof(all.side));
    return siphash(place->key, &all, sizeof(all));
}

uint64_t hello_proof(const struct comm_place *place,
                     const struct hello *h,
                     const struct hello_reply *r)
{
    return prove(place, "caller\0", h, r);
}

uint64_t
hello_sign_address(const struct comm_place *place, int rank, const char *text)
{
    struct {
        char what[8];
        uint32_t comm;
        uint32_t rank;
        uint64_t text;
    } all = {.what = "address",
             .comm = place->id,
             .rank = (uint32_t)rank,
             .text = siphash(place->key, text, strlen(text))};
    _Static_assert(sizeof(all) == 24, "no padding in a sum");
    return siphash(place->key, &all, sizeof(all));
}

bool hello_unsign_address(const struct comm_place *place, int rank, char *text)
{
    char *sign = strrchr(text, ' ');
    if (sign == NULL)
        return false;
    *sign = '\0';
    return strtoull(sign + 1, NULL, 16) ==
           hello_sign_address(place, rank, text);
}

bool hello_begins(const struct hello *h, size_t have)
{
    return memcmp(h->magic, magic,
                  have < sizeof(magic) ? have : sizeof(magic)) == 0;
}

static void make_nonce(uint64_t nonce[2])
{
    nonce[0] = rng_seed();
    nonce[1] = rng_seed();
}

void hello_make(struct hello *h,
                const struct comm_place *place,
                uint32_t to,
                uint32_t lane)
{
    *h = (struct hello){.round = place->round,
                        .comm = place->id,
                        .world = (uint32_t)place->world,
                        .from = (uint32_t)place->rank,
                        .to = to,
                        .lane = lane};
    memcpy(h->magic, magic, sizeof(magic));
    memcpy(h->instance, place->instance, sizeof(h->instance));
    make_nonce(h->nonce);
}

enum hello_answer hello_check(const struct comm_place *place,
                              const struct hello *h)
{
    if (!hello_begins(h, sizeof(*h)))
        return HELLO_OTHER_PROTOCOL;
    if (memcmp(h->instance, place->instance, sizeof(h->instance)) != 0)
        return HELLO_OTHER_INSTANCE;
    if (h->round != place->round)
        return HELLO_OTHER_ROUND;
    if (h->comm != place->id)
        return HELLO_OTHER_COMM;
    if (h->world != (uint32_t)place->world)
        return HELLO_OTHER_WORLD;
    return h->to == (uint32_t)place->rank ? HELLO_TAKEN : HELLO_NO_SUCH_PLACE;
}

void hello_reply_make(struct hello_reply *r,
                      const struct comm_place *place,
                      const struct hello *h,
                      enum hello_answer answer)
{
    *r = (struct hello_reply){.answer = answer};
    memcpy(r->magic, magic, sizeof(magic));
    if (answer != HELLO_TAKEN)
        return;
    make_nonce(r->nonce);
    r->proof = prove(place, "listener", h, r);
}

enum hello_answer hello_reply_check(const struct comm_place *place,
                                    const struct hello *h,
                                    const struct hello_reply *r)
{
    if (memcmp(r->magic, magic, sizeof(magic)) != 0 ||
        r->answer < HELLO_TAKEN || r->answer > HELLO_NO_SUCH_PLACE)
        return HELLO_OTHER_PROTOCOL;
    if (r->answer != HELLO_TAKEN)
        return (enum hello_answer)r->answer;
    return r->proof == prove(place, "listener", h, r) ? HELLO_TAKEN
                                                      : HELLO_OTHER_KEY;
}

const char *hello_answer_text(enum hello_answer answer)
{
    switch (answer) {
    case HELLO_OTHER_INSTANCE:
        return "it belongs to another run";
    case HELLO_OTHER_ROUND:
        return "it is in another round";
    case HELLO_OTHER_COMM:
        return "it is making another communicator";
    case HELLO_OTHER_WORLD:
        return "its world has another size";
    case HELLO_NO_SUCH_PLACE:
        return "it does not expect this rank, or is connected to it already";
    case HELLO_OTHER_KEY:
        return "what answers there has not the key of this round";
    case HELLO_OTHER_PROTOCOL:
        return "what answers there speaks another protocol";
    case HELLO_TAKEN:
        break;
    }
    DDP_WRONG("an answer that is no refusal");
}
