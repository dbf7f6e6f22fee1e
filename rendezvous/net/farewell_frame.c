#include "rendezvous/net/farewell_frame.h"

#include <string.h>

#include "rendezvous/proto/frame.h"

#define JSON_MAX 4000
#define HEAD_LEN 4u

_Static_assert(sizeof(((struct msg_vote *)0)->mac) == TLS_MAC_LEN + 1,
               "messages.def");

/* What the proof is about: all that is said, by the one codec. The length, or
 * -1.
 */
static int encode(const struct msg_vote *f, const char *mac, char *json)
{
    struct msg m = {.kind = MSG_KIND_vote, .vote = *f};
    msg_set(m.vote.mac, mac);
    return msg_encode(&m, json, JSON_MAX);
}

size_t farewell_frame(const struct msg_vote *f,
                      const struct tls_key *key,
                      uint8_t *out,
                      size_t cap)
{
    char json[JSON_MAX], mac[TLS_MAC_LEN + 1] = "";
    int len = encode(f, "", json);
    if (len > 0 && key != NULL) {
        if (tls_key_sign(key, json, (size_t)len, mac) != 0)
            return 0;
        len = encode(f, mac, json);
    }
    size_t size = FRAME_HELLO_LEN + HEAD_LEN + (size_t)(len > 0 ? len : 0);
    if (len <= 0 || size > cap)
        return 0;
    memcpy(out, FRAME_HELLO, FRAME_HELLO_LEN);
    for (unsigned i = 0; i < HEAD_LEN; i++)
        out[FRAME_HELLO_LEN + i] = (uint8_t)((unsigned)len >> (8 * i));
    memcpy(out + FRAME_HELLO_LEN + HEAD_LEN, json, (size_t)len);
    return size;
}

bool farewell_is_genuine(const struct msg_vote *f, const struct tls_key *key)
{
    char json[JSON_MAX];
    int len = encode(f, "", json);
    return len > 0 && tls_key_signed(key, json, (size_t)len, f->mac);
}
