/*
 * Who waits for a key is in a list of that key's entry, in the order of coming;
 * a WAIT is one array with a node per missing key, freed when the last node was
 * served or when the wait is dropped. A BARRIER that is not full is such a wait
 * with one node: whatever is written to a key ends all waits for it, and a
 * BARRIER alone writes without that until it is full.
 *
 * A push to a queue ends one wait only, since there is one item. If who was
 * woken does not pop it next (the wait was cancelled meanwhile, or the client
 * died), the wake-up is passed on, or the item would lie there with others
 * waiting for it.
 */
#include "rendezvous/core/store_wait.h"

#include <string.h>

#include "rendezvous/base/err.h"

/* -- replies --------------------------------------------------------------- */

void reply_bytes(struct store *s, uint32_t conn, const void *p, size_t n)
{
    if (n > 0)
        s->cf.send(s->cf.ctx, conn, p, n);
}

void reply_byte(struct store *s, uint32_t conn, uint8_t byte)
{
    reply_bytes(s, conn, &byte, 1);
}

void reply_number(struct store *s, uint32_t conn, int64_t n)
{
    uint8_t bytes[8];
    c10d_pack_u64(bytes, (uint64_t)n);
    reply_bytes(s, conn, bytes, sizeof(bytes));
}

void reply_value(struct store *s, uint32_t conn, struct c10d_slice value)
{
    reply_number(s, conn, (int64_t)value.len);
    reply_bytes(s, conn, value.data, value.len);
}

struct c10d_slice wait_value_of(const struct entry *e)
{
    return (struct c10d_slice){e->value, e->value_len};
}

/* -- waits ----------------------------------------------------------------- */

static void link_wait(struct wait *w, struct entry *e, uint32_t conn)
{
    *w = (struct wait){.entry = e, .conn = conn, .prev = e->wait_last};
    if (w->prev != NULL)
        w->prev->next = w;
    else
        e->wait_first = w;
    e->wait_last = w;
}

static void unlink_wait(struct wait *w)
{
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        w->entry->wait_first = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    else
        w->entry->wait_last = w->prev;
    w->entry = NULL;
}

int wait_begin(struct store *s, uint32_t conn, size_t count)
{
    struct client *c = &s->clients[conn];
    ddp_assert(c->waits == NULL && count > 0);
    c->waits = table_take(&s->t, count * sizeof(*c->waits));
    if (c->waits == NULL)
        return -1;
    memset(c->waits, 0, count * sizeof(*c->waits));
    c->count = count;
    return 0;
}

void wait_add(struct store *s, uint32_t conn, struct entry *e)
{
    struct client *c = &s->clients[conn];
    ddp_assert(c->missing < c->count);
    link_wait(&c->waits[c->missing++], e, conn);
}

static void end_wait(struct store *s, struct client *c)
{
    table_give(&s->t, c->waits, c->count * sizeof(*c->waits));
    c->waits = NULL;
    c->count = c->missing = 0;
}

void wait_drop(struct store *s, struct client *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct entry *e = c->waits[i].entry;
        if (e == NULL)
            continue;
        unlink_wait(&c->waits[i]);
        table_prune(&s->t, e);
    }
    end_wait(s, c);
}

/* The key has come for the first that waits for it. The client whose wait has
 * ended with that, or NULL. */
static struct client *serve_first(struct store *s, struct entry *e)
{
    struct wait *w = e->wait_first;
    uint32_t conn = w->conn;
    struct client *c = &s->clients[conn];
    unlink_wait(w);
    ddp_assert(c->missing > 0);
    if (--c->missing > 0)
        return NULL;
    end_wait(s, c);
    reply_byte(s, conn, C10D_STOP_WAITING);
    return c;
}

void wait_wake_all(struct store *s, struct entry *e)
{
    while (e->wait_first != NULL)
        (void)serve_first(s, e); /* all the same who it was */
}

void wait_wake_one(struct store *s, struct entry *e)
{
    while (e->wait_first != NULL) {
        struct client *c = serve_first(s, e);
        if (c == NULL)
            continue;
        c->woken = true;
        c->woken_hash = e->hash;
        return;
    }
}

void wait_pass_on(struct store *s, struct client *c)
{
    struct entry *e = table_find_hash(&s->t, c->woken_hash);
    c->woken = false;
    if (e != NULL && e->items > 0)
        wait_wake_one(s, e);
}

/* -- watches --------------------------------------------------------------- */

void watch_tell(struct store *s,
                const struct entry *e,
                uint8_t what,
                struct c10d_slice now)
{
    struct c10d_slice key = {e->key, e->key_len};
    for (const struct watch *w = e->watches; w != NULL; w = w->next) {
        reply_byte(s, w->conn, what);
        reply_value(s, w->conn, key);
        reply_value(s, w->conn, wait_value_of(e));
        reply_value(s, w->conn, now);
    }
}

void watch_drop_all(struct store *s, struct client *c)
{
    struct watch *w;
    while ((w = c->watches) != NULL) {
        struct entry *e = w->entry;
        c->watches = w->mine;
        if (w->prev != NULL)
            w->prev->next = w->next;
        else
            e->watches = w->next;
        if (w->next != NULL)
            w->next->prev = w->prev;
        table_give(&s->t, w, sizeof(*w));
        table_prune(&s->t, e);
    }
}

int watch_add(struct store *s, uint32_t conn, struct entry *e)
{
    struct client *c = &s->clients[conn];
    struct watch *w = table_take(&s->t, sizeof(*w));
    if (w == NULL)
        return -1;
    *w = (struct watch){
        .next = e->watches, .mine = c->watches, .entry = e, .conn = conn};
    if (w->next != NULL)
        w->next->prev = w;
    e->watches = c->watches = w;
    return 0;
}
