/* links: rendezvous/store/{store,table,wait} rendezvous/proto/c10d */
/* links: rendezvous/base/{err,buf,siphash} */
#include "tests/lib/store_talk.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sent sent;

void on_send(void *ctx, uint32_t conn, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    if (ctx != &sent || len > sizeof(sent.byte) - sent.len)
        ck_abort_msg("a reply of %zu bytes behind %zu", len, sent.len);
    for (size_t i = 0; i < len; i++, sent.len++) {
        sent.conn[sent.len] = conn;
        sent.byte[sent.len] = bytes[i];
    }
}

struct store *new_store(size_t byte_max)
{
    struct store_config cf = {.conn_max = CONNS,
                              .byte_max = byte_max,
                              .hash_key = {1, 2},
                              .send = on_send,
                              .ctx = &sent};
    struct store *s = store_new(&cf, NULL);
    ck_assert_ptr_nonnull(s);
    sent.len = 0;
    return s;
}

/* -- requests and replies as text ------------------------------------------ */

struct parsed {
    uint32_t conn;
    bool gone;
    struct c10d_request req;
    char text[160]; /* what the slices borrow from */
    uint8_t items[320];
};

static enum c10d_family family_of(uint32_t conn)
{
    return conn < 5 ? C10D_NEW : C10D_OLD;
}

static enum c10d_op op_named(const char *name)
{
    for (unsigned op = 0; op < C10D_OPS; op++)
        if (strcmp(c10d_op_name(op), name) == 0)
            return op;
    ck_abort_msg("no operation is called %s", name);
    return C10D_OPS;
}

static struct c10d_slice word(char **rest)
{
    const char *w = strtok_r(NULL, " ", rest);
    if (w == NULL || strcmp(w, "-") == 0)
        w = "";
    return (struct c10d_slice){(const uint8_t *)w, strlen(w)};
}

static void parse_items(struct parsed *p, char **rest)
{
    size_t at = 0;
    while (*rest != NULL && **rest != '\0') {
        struct c10d_slice s = word(rest);
        ck_assert_uint_le(at + 8 + s.len, sizeof(p->items));
        c10d_pack_u64(p->items + at, s.len);
        if (s.len > 0)
            memcpy(p->items + at + 8, s.data, s.len);
        at += 8 + s.len;
        p->req.count++;
    }
    if (p->req.op == C10D_MULTI_SET)
        p->req.count /= 2;
    p->req.items = (struct c10d_slice){p->items, at};
}

static void parse(struct parsed *p, const char *text)
{
    char *rest = NULL;
    *p = (struct parsed){.conn = 0};
    ck_assert_int_lt(snprintf(p->text, sizeof(p->text), "%s", text),
                     (int)sizeof(p->text));
    p->conn = (uint32_t)atoi(strtok_r(p->text, " ", &rest));
    const char *name = strtok_r(NULL, " ", &rest);
    p->gone = strcmp(name, "GONE") == 0;
    if (p->gone)
        return;
    p->req.op = op_named(name);
    if (p->req.op == C10D_CHECK || p->req.op == C10D_WAIT ||
        p->req.op == C10D_MULTI_GET || p->req.op == C10D_MULTI_SET) {
        parse_items(p, &rest);
        return;
    }
    if (p->req.op != C10D_PING)
        p->req.key = word(&rest);
    if (p->req.op == C10D_ADD || p->req.op == C10D_PING ||
        p->req.op == C10D_BARRIER)
        p->req.number = strtoll((const char *)word(&rest).data, NULL, 10);
    else
        p->req.value = word(&rest);
    p->req.desired = word(&rest);
}

static void put(struct sent *w, uint32_t conn, uint64_t n, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++, w->len++) {
        w->conn[w->len] = conn;
        w->byte[w->len] = (uint8_t)(n >> (8 * i));
    }
}

static void expand(struct sent *w, const char *text)
{
    char copy[160], *rest = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    w->len = 0;
    for (char *s = strtok_r(copy, " ", &rest); s != NULL;
         s = strtok_r(NULL, " ", &rest)) {
        uint32_t conn = (uint32_t)(s[0] - '0');
        const char *arg = s + 4;
        uint64_t n = (uint64_t)strtoll(arg, NULL, 10);
        ck_assert(s[1] == '=' && s[3] == ':');
        if (s[2] == 'b')
            put(w, conn, n, 1);
        else if (s[2] == 'u')
            put(w, conn, n, 4);
        else if (s[2] == 'i')
            put(w, conn, n, 8);
        else
            put(w, conn, strlen(arg), 8);
        for (; s[2] == 'v' && *arg != '\0'; arg++)
            put(w, conn, (uint8_t)*arg, 1);
    }
}

void expect_sent(const char *want, const char *after)
{
    static struct sent w;
    expand(&w, want);
    ck_assert_msg(sent.len == w.len && memcmp(sent.byte, w.byte, w.len) == 0 &&
                      memcmp(sent.conn, w.conn, w.len * sizeof(w.conn[0])) == 0,
                  "after \"%s\": not what was expected (%s): %zu bytes", after,
                  want, sent.len);
    sent.len = 0;
}

int step(struct store *s, const char *text, struct ddp_err *err)
{
    struct parsed p;
    parse(&p, text);
    if (p.gone) {
        store_gone(s, p.conn);
        return 0;
    }
    return store_step(s, p.conn, family_of(p.conn), &p.req, err);
}
