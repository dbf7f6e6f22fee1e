#include "tests/lib/tls_end.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char token[33] = "0123456789abcdef0123456789abcdef";

void end_open(struct end *e, struct tls_key *key, bool accepts)
{
    buf_init(&e->out, TLS_END_OUT_MAX);
    buf_init(&e->got, 8u << 20);
    e->tls = tls_new(key, accepts, &e->out);
    ck_assert_ptr_nonnull(e->tls);
}

void end_close(struct end *e)
{
    tls_free(e->tls);
    buf_free(&e->out);
    buf_free(&e->got);
}

void give(struct end *e, const uint8_t *data, size_t len)
{
    uint8_t room[1000]; /* smaller than a record */
    size_t n;
    tls_give(e->tls, data, len);
    while ((n = tls_take(e->tls, room, sizeof(room))) > 0)
        ck_assert_int_eq(buf_put(&e->got, room, n), 0);
}

void pair_open(struct pair *p, const char *client, const char *server)
{
    p->keys[0] = key_of(client);
    p->keys[1] = key_of(server);
    end_open(&p->client, p->keys[0], false);
    end_open(&p->server, p->keys[1], true);
}

void pair_close(struct pair *p)
{
    end_close(&p->client);
    end_close(&p->server);
    tls_key_free(p->keys[0]);
    tls_key_free(p->keys[1]);
}

bool carry(struct end *from, struct end *to, size_t piece)
{
    bool some = buf_len(&from->out) > 0;
    while (buf_len(&from->out) > 0) {
        size_t n = buf_len(&from->out) < piece ? buf_len(&from->out) : piece;
        uint8_t *data = malloc(n); /* so that a late reader is seen */
        ck_assert_ptr_nonnull(data);
        memcpy(data, buf_head(&from->out), n);
        buf_take(&from->out, n);
        give(to, data, n);
        free(data);
    }
    return some;
}

void settle(struct pair *p, size_t piece)
{
    bool some = true;
    for (int i = 0; some && i < 100; i++) {
        some = carry(&p->client, &p->server, piece);
        some |= carry(&p->server, &p->client, piece);
    }
    ck_assert(!some);
}

void pair_up(struct pair *p)
{
    pair_open(p, token, token);
    settle(p, 4096);
    ck_assert_int_eq(tls_state(p->client.tls), TLS_UP);
    ck_assert_int_eq(tls_state(p->server.tls), TLS_UP);
}
