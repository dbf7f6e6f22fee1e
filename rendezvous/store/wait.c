/*
 * The waits for a key are a list of that key's entry, in the order of coming. A
 * WAIT is one array with a node per missing key, freed when the last node was
 * served or when the wait is dropped. A BARRIER that is not full is such a wait
 * with one node: a write to a key ends all waits for it, and only a BARRIER
 * writes without that until it is full.
 *
 * A push to a queue ends one wait only, since there is one item. If the woken
 * connection does not pop it with its next request (it cancelled its wait, or
 * died), the wake-up is passed on: otherwise the item would stay there while
 * others wait for it.
 */
#include "rendezvous/store/wait.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

struct key_wait {
    struct key_wait *prev;
    struct key_wait *next;
    struct table_entry *entry; /* NULL: it has come */
    uint32_t conn;
};

struct key_watch {
    struct key_watch *prev; /* of the key's */
    struct key_watch *next;
    struct key_watch *mine; /* the connection's next one */
    struct table_entry *entry;
    uint32_t conn;
};

struct store_waiter {
    struct key_wait *waits; /* NULL: it waits for nothing */
    size_t count;
    size_t missing;
    struct key_watch *watches;
    uint64_t woken_hash; /* of the queue for whose item it was woken */
    bool woken;
};

/* -- waits ----------------------------------------------------------------- */

static void link_wait(struct key_wait *w, struct table_entry *e, uint32_t conn)
{
    *w = (struct key_wait){.entry = e, .conn = conn, .prev = e->wait_last};
    if (w->prev != NULL)
        w->prev->next = w;
    else
        e->wait_first = w;
    e->wait_last = w;
}

static void unlink_wait(struct key_wait *w)
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

int wait_begin(struct waiting *w, uint32_t conn, size_t count)
{
    struct store_waiter *c = &w->clients[conn];
    ddp_assert(c->waits == NULL && count > 0);
    c->waits = table_take(w->table, count * sizeof(*c->waits));
    if (c->waits == NULL)
        return -1;
    memset(c->waits, 0, count * sizeof(*c->waits));
    c->count = count;
    return 0;
}

void wait_add(struct waiting *w, uint32_t conn, struct table_entry *e)
{
    struct store_waiter *c = &w->clients[conn];
    ddp_assert(c->missing < c->count);
    link_wait(&c->waits[c->missing++], e, conn);
}

static void end_wait(struct waiting *w, struct store_waiter *c)
{
    table_give(w->table, c->waits, c->count * sizeof(*c->waits));
    c->waits = NULL;
    c->count = c->missing = 0;
}

bool wait_is_pending(const struct waiting *w, uint32_t conn)
{
    return w->clients[conn].waits != NULL;
}

void wait_drop(struct waiting *w, uint32_t conn)
{
    struct store_waiter *c = &w->clients[conn];
    for (size_t i = 0; i < c->count; i++) {
        struct table_entry *e = c->waits[i].entry;
        if (e == NULL)
            continue;
        unlink_wait(&c->waits[i]);
        table_prune(w->table, e);
    }
    end_wait(w, c);
}

/* The key has come for the first that waits for it. The client whose wait has
 * ended with that, or NULL. */
static struct store_waiter *serve_first(struct waiting *w,
                                        struct table_entry *e)
{
    struct key_wait *first = e->wait_first;
    uint32_t conn = first->conn;
    struct store_waiter *c = &w->clients[conn];
    unlink_wait(first);
    ddp_assert(c->missing > 0);
    if (--c->missing > 0)
        return NULL;
    end_wait(w, c);
    reply_byte(&w->way, conn, C10D_STOP_WAITING);
    return c;
}

void wait_wake_all(struct waiting *w, struct table_entry *e)
{
    while (e->wait_first != NULL)
        (void)serve_first(w, e); /* whichever it was */
}

void wait_wake_one(struct waiting *w, struct table_entry *e)
{
    while (e->wait_first != NULL) {
        struct store_waiter *c = serve_first(w, e);
        if (c == NULL)
            continue;
        c->woken = true;
        c->woken_hash = e->hash;
        return;
    }
}

bool wait_take_wake(struct waiting *w, uint32_t conn, uint64_t *hash)
{
    struct store_waiter *c = &w->clients[conn];
    bool woken = c->woken;
    c->woken = false;
    *hash = c->woken_hash;
    return woken;
}

void wait_pass_on(struct waiting *w, uint64_t hash)
{
    struct table_entry *e = table_find_hash(w->table, hash);
    if (e != NULL && e->items > 0)
        wait_wake_one(w, e);
}

/* -- watches --------------------------------------------------------------- */

void watch_tell(struct waiting *w,
                const struct table_entry *e,
                uint8_t what,
                struct c10d_slice now)
{
    struct c10d_slice key = {e->key, e->key_len};
    for (const struct key_watch *it = e->watches; it != NULL; it = it->next) {
        reply_byte(&w->way, it->conn, what);
        reply_value(&w->way, it->conn, key);
        reply_value(&w->way, it->conn, entry_value(e));
        reply_value(&w->way, it->conn, now);
    }
}

void watch_drop_all(struct waiting *w, uint32_t conn)
{
    struct store_waiter *c = &w->clients[conn];
    struct key_watch *it;
    while ((it = c->watches) != NULL) {
        struct table_entry *e = it->entry;
        c->watches = it->mine;
        if (it->prev != NULL)
            it->prev->next = it->next;
        else
            e->watches = it->next;
        if (it->next != NULL)
            it->next->prev = it->prev;
        table_give(w->table, it, sizeof(*it));
        table_prune(w->table, e);
    }
}

int watch_add(struct waiting *w, uint32_t conn, struct table_entry *e)
{
    struct store_waiter *c = &w->clients[conn];
    struct key_watch *it = table_take(w->table, sizeof(*it));
    if (it == NULL)
        return -1;
    *it = (struct key_watch){
        .next = e->watches, .mine = c->watches, .entry = e, .conn = conn};
    if (it->next != NULL)
        it->next->prev = it;
    e->watches = c->watches = it;
    return 0;
}

/* -- life ------------------------------------------------------------------ */

int waiting_init(struct waiting *w,
                 struct table *table,
                 struct reply_way way,
                 uint32_t conn_max)
{
    *w = (struct waiting){.table = table, .way = way, .conn_max = conn_max};
    w->clients = calloc(conn_max, sizeof(*w->clients));
    return w->clients != NULL ? 0 : -1;
}

void waiting_free(struct waiting *w)
{
    if (w->clients == NULL)
        return;
    for (uint32_t i = 0; i < w->conn_max; i++) {
        wait_drop(w, i);
        watch_drop_all(w, i);
    }
    free(w->clients);
    w->clients = NULL;
}
