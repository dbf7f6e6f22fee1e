#include "rendezvous/net/tls_hello.h"

#include "rendezvous/net/tls_record.h"

#define HELLO_MAX  2048u /* ours has about 300 */
#define HELLOS_MAX 2

_Static_assert(TLS_HELLO_HEAD == RECORD_HEAD_LEN + 4, "type and length");

/* A record's head is there: may it come from one of ours? */
static bool is_plausible_head(struct tls_hello *h)
{
    const uint8_t *r = h->head;
    size_t len = (size_t)r[3] << 8 | r[4];
    size_t message = (size_t)r[6] << 16 | (size_t)r[7] << 8 | r[8];
    if (r[0] != RECORD_HANDSHAKE)
        return true; /* it is sealed */
    return h->hellos++ < HELLOS_MAX && r[1] == 3 && len <= HELLO_MAX &&
           r[5] == 1 && message + 4 == len;
}

bool tls_hello_is_plausible(struct tls_hello *h,
                            const uint8_t *data,
                            size_t len)
{
    while (len > 0) {
        size_t n = h->skip < len ? h->skip : len;
        h->skip -= n;
        data += n;
        len -= n;
        if (len == 0)
            return true;
        h->head[h->head_len++] = *data++;
        len--;
        bool hello = h->head[0] == RECORD_HANDSHAKE;
        if (!hello && h->hellos == 0)
            return false;
        if (h->head_len < (hello ? sizeof(h->head) : RECORD_HEAD_LEN))
            continue;
        if (!is_plausible_head(h))
            return false;
        h->skip = (size_t)h->head[3] << 8 | h->head[4];
        h->skip -= h->head_len - RECORD_HEAD_LEN;
        h->head_len = 0;
    }
    return true;
}

bool tls_hello_is_whole(const struct tls_hello *h)
{
    return h->hellos > 0 && h->skip == 0 && h->head_len == 0;
}
