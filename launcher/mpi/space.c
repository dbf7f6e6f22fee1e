/*
 * Happy path: init, what the library asks of its place, put, barrier_in of all,
 * get, finalize. On one node nothing leaves the process; over several nodes the
 * new keys do with each barrier, and names do.
 *
 * Failure modes:
 *  - A worker breaks the protocol: it is LOST. If it had called MPI_Init the
 *    others count on it, so it has failed.
 *  - A worker ends with 0 between MPI_Init and MPI_Finalize, or before MPI_Init
 *    while others have called it: it has failed, or they would wait for ever.
 *    Workers that end otherwise are the agent's matter.
 *  - A worker will never come, and only those of other nodes wait: this node
 *    brings REFUSAL to the first barrier, and the first that waits has failed.
 *  - The other nodes cannot be reached, or say what cannot be: the first worker
 *    that waits for them has failed.
 *  - Memory, or a bound: a put or a publish is answered with an error, which
 *    the library tells the program. A failure ends the round, so only the first
 *    one is told.
 */
#include "launcher/mpi/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define CODE_OF_ABORT_0 1    /* MPI_Abort(comm, 0) is a failure as well */
#define REFUSAL         '\n' /* in place of the new keys: an empty line */
#define TOPOLOGY_KEY    "PMI_hwloc_xmlfile" /* MPICH 5's name for it */
#define ENDED_WITHOUT_INIT                                                     \
    "it ended with 0 and without MPI_Init, for which other ranks wait"

static struct space_client *client_of(struct space *s, int local_rank)
{
    ddp_assert(local_rank >= 0 && local_rank < s->nproc);
    return &s->clients[local_rank];
}

static bool same(struct pmi_text t, const char *text)
{
    return t.len == strlen(text) && memcmp(t.at, text, t.len) == 0;
}

static void fail(struct space *s, int local_rank, int code, const char *why)
{
    ddp_assert(code >= 1 && code <= 255);
    if (s->failed)
        return;
    s->failed = true;
    s->handler->fail(s->ctx, local_rank, code, why);
}

/* The reasons for `warn`. */
enum reason {
    REASON_SPAWN,
    REASON_KEY,
    REASON_ROOM,
};

static void warn(struct space *s, int local_rank, enum reason reason)
{
    static const char *const whys[] = {
        [REASON_SPAWN] = SPACE_NO_SPAWN,
        [REASON_KEY] = "a key of PMI is refused: it has a '='",
        [REASON_ROOM] = "a key or a name of PMI is refused: the new keys of a "
                        "node between two barriers have 4 MiB, all keys of a "
                        "round 256 MiB",
    };
    if ((s->warned & 1u << reason) == 0)
        s->handler->warn(s->ctx, local_rank, whys[reason]);
    s->warned |= 1u << reason;
}

/* -- a round --------------------------------------------------------------- */

int space_init(struct space *s,
               int nproc,
               const struct space_handler *handler,
               void *ctx)
{
    ddp_assert(nproc >= 1);
    ddp_assert(handler->say != NULL && handler->fail != NULL &&
               handler->warn != NULL && handler->fence != NULL &&
               handler->name != NULL && handler->look != NULL);
    *s = (struct space){.handler = handler, .ctx = ctx, .nproc = nproc};
    buf_init(&s->fresh, SPACE_FRESH_MAX);
    s->clients = calloc((size_t)nproc, sizeof(*s->clients));
    return s->clients == NULL ? -1 : 0;
}

void space_free(struct space *s)
{
    kvs_free(&s->keys);
    kvs_free(&s->names);
    buf_free(&s->fresh);
    free(s->clients);
    s->clients = NULL;
}

void space_begin(struct space *s,
                 const char *instance,
                 int64_t round,
                 int64_t nodes,
                 int64_t world_size)
{
    ddp_assert(nodes >= 1 && world_size >= s->nproc);
    kvs_free(&s->keys);
    kvs_free(&s->names);
    buf_take(&s->fresh, buf_len(&s->fresh));
    for (int i = 0; i < s->nproc; i++)
        s->clients[i] = (struct space_client){.uninit = true};
    s->nodes = nodes;
    s->world_size = world_size;
    s->waiting = s->inside = s->absent = 0;
    s->fencing = s->fenced = s->failed = false;
    s->warned = 0;
    s->cut_off[0] = '\0';
    (void)snprintf(s->kvsname, sizeof(s->kvsname), /* fits */
                   "ddprun_%.16s_%lld", instance, (long long)round);
    s->mapped = nodes == 1;
    if (s->mapped)
        (void)snprintf(s->mapping, sizeof(s->mapping), "(vector,(0,1,%d))",
                       s->nproc);
}

/* -- failures -------------------------------------------------------------- */

static bool is_inside(enum space_client_state state)
{
    return state == SPACE_IDLE || state == SPACE_BARRIER ||
           state == SPACE_ASKING || state == SPACE_LOOKING;
}

static void
enter(struct space *s, struct space_client *c, enum space_client_state to)
{
    s->inside += is_inside(to) - is_inside(c->state);
    c->state = to;
    c->uninit = c->uninit && !is_inside(to);
}

static bool ended_without_init(const struct space_client *c)
{
    return c->ended && c->uninit;
}

/* Others count on a worker that will never come. */
static void blame_absent(struct space *s)
{
    if (s->absent == 0 || s->inside == 0)
        return;
    for (int i = 0; i < s->nproc; i++)
        if (ended_without_init(&s->clients[i])) {
            fail(s, i, SPACE_CODE_EARLY, ENDED_WITHOUT_INIT);
            return;
        } else if (s->clients[i].state == SPACE_LOST && s->waiting > 0) {
            fail(s, i, ddp_code_exit(DDP_E_PROTO),
                 "other ranks wait for this one in a barrier of PMI, which it "
                 "can reach no more");
            return;
        }
}

/* This node's part of a barrier, in which the other nodes may wait. */
static void bring(struct space *s, const void *fresh, size_t len)
{
    s->fenced = true;
    s->handler->fence(s->ctx, fresh, len);
}

/* A worker never comes: the other nodes hear of it. After the first barrier
 * they need not, since all workers have called MPI_Init. */
static void refuse_barrier(struct space *s)
{
    const char refusal = REFUSAL;
    if (s->nodes > 1 && !s->fenced)
        bring(s, &refusal, 1);
}

void space_broke(struct space *s, int local_rank, const char *why)
{
    struct space_client *c = client_of(s, local_rank);
    enum space_client_state was = c->state;
    if (was == SPACE_LOST)
        return;
    s->waiting -= was == SPACE_BARRIER;
    s->absent += !ended_without_init(c);
    enter(s, c, SPACE_LOST);
    if (was != SPACE_NEW && was != SPACE_FINAL) {
        fail(s, local_rank, ddp_code_exit(DDP_E_PROTO), why);
        return;
    }
    blame_absent(s);
    refuse_barrier(s);
}

bool space_is_lost(const struct space *s, int local_rank)
{
    ddp_assert(local_rank >= 0 && local_rank < s->nproc);
    return s->clients[local_rank].state == SPACE_LOST;
}

bool space_is_new(const struct space *s, int local_rank)
{
    ddp_assert(local_rank >= 0 && local_rank < s->nproc);
    return s->clients[local_rank].state == SPACE_NEW;
}

const char *space_ended(struct space *s, int local_rank)
{
    struct space_client *c = client_of(s, local_rank);
    c->ended = true;
    switch (c->state) {
    case SPACE_FINAL:
        return NULL;
    case SPACE_NEW:
    case SPACE_LOST:
        if (!c->uninit)
            return NULL;
        s->absent += c->state == SPACE_NEW;
        refuse_barrier(s);
        return s->inside == 0 || s->failed ? NULL : ENDED_WITHOUT_INIT;
    case SPACE_IDLE:
    case SPACE_BARRIER:
    case SPACE_ASKING:
    case SPACE_LOOKING:
        return s->failed ? NULL
                         : "it ended with 0 after MPI_Init, but without "
                           "MPI_Finalize";
    }
    DDP_WRONG("state of a client");
}

static void on_abort(struct space *s, int local_rank, int64_t code)
{
    char why[SPACE_WHY_MAX];
    int status = (int)((uint64_t)code & 255u);
    (void)snprintf(why, sizeof(why), "MPI_Abort was called with code %lld",
                   (long long)code);
    fail(s, local_rank, status == 0 ? CODE_OF_ABORT_0 : status, why);
}

/* Who waits for nodes that cannot be reached has failed. */
static void blame_cut_off(struct space *s)
{
    for (int i = 0; i < s->nproc && s->cut_off[0] != '\0'; i++)
        if (s->clients[i].state == SPACE_ASKING ||
            (s->fencing && s->clients[i].state == SPACE_BARRIER)) {
            fail(s, i, ddp_code_exit(DDP_E_LOST), s->cut_off);
            return;
        }
}

void space_cut_off(struct space *s, const char *why)
{
    (void)snprintf(s->cut_off, sizeof(s->cut_off), "%s", why); /* may be cut */
    blame_cut_off(s);
}

/* -- keys ------------------------------------------------------------------ */

static void
say_text(struct space *s, int local_rank, enum pmi_op op, struct pmi_text value)
{
    struct pmi_answer a;
    pmi_answer_text(&a, op, value, NULL);
    s->handler->say(s->ctx, local_rank, &a);
}

static void
say_missing(struct space *s, int local_rank, enum pmi_op op, const char *why)
{
    struct pmi_answer a;
    pmi_answer_text(&a, op, (struct pmi_text){"", 0}, why);
    s->handler->say(s->ctx, local_rank, &a);
}

static void
say_done(struct space *s, int local_rank, enum pmi_op op, const char *why)
{
    struct pmi_answer a;
    pmi_answer_done(&a, op, why);
    s->handler->say(s->ctx, local_rank, &a);
}

/* Of another key space than the round's, perhaps of a round before. */
static bool is_foreign(const struct space *s, const struct pmi_request *req)
{
    return req->kvsname.len > 0 && !same(req->kvsname, s->kvsname);
}

/* For the other nodes. -1: there is no room, and nothing has changed. */
static int
add_fresh(struct space *s, struct pmi_text key, struct pmi_text value)
{
    size_t len = key.len + value.len + 2;
    uint8_t *at = s->nodes == 1 ? NULL : buf_reserve(&s->fresh, len);
    if (at == NULL)
        return s->nodes == 1 ? 0 : -1;
    memcpy(at, key.at, key.len);
    at[key.len] = '=';
    if (value.len > 0)
        memcpy(at + key.len + 1, value.at, value.len);
    at[len - 1] = '\n';
    return 0;
}

static void
on_put(struct space *s, int local_rank, const struct pmi_request *req)
{
    const char *why = NULL;
    if (is_foreign(s, req)) {
        why = "unknown_kvsname";
    } else if (memchr(req->key.at, '=', req->key.len) != NULL) {
        why = "bad_key"; /* other nodes would read another one: take_pair */
        warn(s, local_rank, REASON_KEY);
    } else if (add_fresh(s, req->key, req->value) != 0 ||
               kvs_put(&s->keys, req->key, req->value) != 0) {
        why = "no_room_for_more_keys";
        warn(s, local_rank, REASON_ROOM);
    } else if (s->nodes > 1) {
        buf_commit(&s->fresh, req->key.len + req->value.len + 2);
    }
    say_done(s, local_rank, PMI_PUT, why);
}

/* A value of ours; "": there is none. */
static void say_own(struct space *s, int local_rank, const char *value)
{
    struct pmi_text t = {value, strlen(value)};
    if (t.len > 0)
        say_text(s, local_rank, PMI_GET, t);
    else
        say_missing(s, local_rank, PMI_GET, "no_such_key");
}

/* What the launcher knows, and no rank has put. */
static void
say_known(struct space *s, int local_rank, const struct pmi_request *req)
{
    struct space_client *c = client_of(s, local_rank);
    if (same(req->key, TOPOLOGY_KEY)) {
        enter(s, c, SPACE_LOOKING);
        s->handler->look(s->ctx);
    } else if (!same(req->key, MAPPING_KEY)) {
        say_own(s, local_rank, "");
    } else if (s->mapped) {
        say_own(s, local_rank, s->mapping);
    } else {
        enter(s, c, SPACE_ASKING);
        c->asks = PMI_GET;
        blame_cut_off(s);
    }
}

void space_told_topology(struct space *s, const char *path)
{
    for (int i = 0; i < s->nproc; i++)
        if (s->clients[i].state == SPACE_LOOKING) {
            enter(s, &s->clients[i], SPACE_IDLE);
            say_own(s, i, path);
        }
}

static void
on_get(struct space *s, int local_rank, const struct pmi_request *req)
{
    const struct kvs_entry *e = kvs_get(&s->keys, req->key);
    if (is_foreign(s, req))
        say_missing(s, local_rank, PMI_GET, "unknown_kvsname");
    else if (e != NULL)
        say_text(s, local_rank, PMI_GET,
                 (struct pmi_text){e->value, e->value_len});
    else
        say_known(s, local_rank, req);
}

static void
on_getbyidx(struct space *s, int local_rank, const struct pmi_request *req)
{
    struct pmi_answer a;
    struct pmi_text none = {"", 0};
    size_t i = (size_t)req->number;
    if (is_foreign(s, req) || i >= s->keys.n)
        pmi_answer_pair(&a, req->number, NULL, none);
    else
        pmi_answer_pair(&a, req->number, s->keys.entries[i].key,
                        (struct pmi_text){s->keys.entries[i].value,
                                          s->keys.entries[i].value_len});
    s->handler->say(s->ctx, local_rank, &a);
}

void space_told_nodes(struct space *s, const char *lines, size_t len)
{
    ddp_assert(!s->mapped);
    if (!mapping_read(lines, len, s->nodes, s->world_size, s->mapping)) {
        fail(s, 0, ddp_code_exit(DDP_E_PROTO),
             "the nodes do not agree on who has which ranks; is --mpi the same "
             "on all of them?");
        return;
    }
    s->mapped = true;
    for (int i = 0; i < s->nproc; i++)
        if (s->clients[i].state == SPACE_ASKING &&
            s->clients[i].asks == PMI_GET) {
            enter(s, &s->clients[i], SPACE_IDLE);
            say_own(s, i, s->mapping);
        }
}

/* -- the barrier ----------------------------------------------------------- */

static void release(struct space *s)
{
    s->waiting = 0;
    s->fencing = false;
    for (int i = 0; i < s->nproc; i++)
        if (s->clients[i].state == SPACE_BARRIER)
            enter(s, &s->clients[i], SPACE_IDLE);
        else
            ddp_assert(s->clients[i].state == SPACE_LOST);
    for (int i = 0; i < s->nproc; i++)
        if (s->clients[i].state == SPACE_IDLE)
            say_done(s, i, PMI_BARRIER_IN, NULL);
}

static void on_barrier(struct space *s, int local_rank)
{
    enter(s, client_of(s, local_rank), SPACE_BARRIER);
    s->waiting++;
    if (s->waiting < s->nproc) {
        blame_absent(s);
    } else if (s->nodes == 1) {
        release(s);
    } else {
        s->fencing = true;
        bring(s, buf_head(&s->fresh), buf_len(&s->fresh));
        buf_take(&s->fresh, buf_len(&s->fresh));
        blame_cut_off(s);
    }
}

/* Takes "KEY=VALUE\n" off the front. */
static bool take_pair(const char **at,
                      const char *end,
                      struct pmi_text *key,
                      struct pmi_text *value)
{
    size_t left = (size_t)(end - *at);
    const char *newline = memchr(*at, '\n', left);
    const char *eq =
        newline == NULL ? NULL : memchr(*at, '=', (size_t)(newline - *at));
    if (eq == NULL)
        return false;
    *key = (struct pmi_text){*at, (size_t)(eq - *at)};
    *value = (struct pmi_text){eq + 1, (size_t)(newline - eq) - 1};
    *at = newline + 1;
    return key->len > 0 && key->len < PMI_KEY_MAX &&
           value->len < PMI_VALUE_MAX &&
           memchr(key->at, '\0', key->len) == NULL;
}

void space_fenced(struct space *s, const char *fresh, size_t len)
{
    const char *at = fresh, *end = fresh + len;
    struct pmi_text key, value;
    ddp_assert(s->fenced);
    if (!s->fencing)
        return; /* this node has refused */
    while (at < end) {
        if (*at == REFUSAL) {
            space_cut_off(s, "a rank of another node ended without MPI_Init");
            return;
        }
        if (!take_pair(&at, end, &key, &value) ||
            kvs_put(&s->keys, key, value) != 0) {
            space_cut_off(s, "the keys of the other nodes cannot be read, or "
                             "are too many");
            return;
        }
    }
    release(s);
}

/* -- names ----------------------------------------------------------------- */

static void say_named(struct space *s,
                      int local_rank,
                      enum pmi_op op,
                      bool found,
                      struct pmi_text value)
{
    const char *why = found ? NULL : "no_such_name";
    if (op == PMI_LOOKUP_NAME && found)
        say_text(s, local_rank, op, value);
    else if (op == PMI_LOOKUP_NAME)
        say_missing(s, local_rank, op, why);
    else
        say_done(s, local_rank, op, why);
}

/* The store may say anything: whoever reaches its port may set a value. */
static bool is_value(struct pmi_text t)
{
    return t.len == 0 ||
           (t.len < PMI_VALUE_MAX && memchr(t.at, '\n', t.len) == NULL &&
            memchr(t.at, '\0', t.len) == NULL);
}

void space_named(struct space *s,
                 int local_rank,
                 bool found,
                 struct pmi_text value)
{
    struct space_client *c = client_of(s, local_rank);
    if (c->state != SPACE_ASKING)
        return; /* LOST meanwhile */
    enter(s, c, SPACE_IDLE);
    say_named(s, local_rank, c->asks, found && is_value(value), value);
}

static void
on_name(struct space *s, int local_rank, const struct pmi_request *req)
{
    struct space_client *c = client_of(s, local_rank);
    const struct kvs_entry *e = kvs_get(&s->names, req->service);
    if (s->nodes > 1) {
        enter(s, c, SPACE_ASKING);
        c->asks = req->op;
        s->handler->name(s->ctx, local_rank, req->op, req->service, req->port);
        blame_cut_off(s);
    } else if (req->op == PMI_LOOKUP_NAME) {
        say_named(s, local_rank, req->op, e != NULL,
                  e == NULL ? (struct pmi_text){"", 0}
                            : (struct pmi_text){e->value, e->value_len});
    } else if (req->op == PMI_UNPUBLISH_NAME) {
        say_named(s, local_rank, req->op, kvs_remove(&s->names, req->service),
                  req->port);
    } else if (kvs_put(&s->names, req->service, req->port) == 0) {
        say_done(s, local_rank, req->op, NULL);
    } else {
        warn(s, local_rank, REASON_ROOM);
        say_done(s, local_rank, req->op, "no_room_for_more_names");
    }
}

/* -- commands -------------------------------------------------------------- */

static void on_init(struct space *s, int local_rank, int64_t version)
{
    struct pmi_answer a;
    enter(s, client_of(s, local_rank), SPACE_IDLE);
    pmi_answer_init(&a, version);
    s->handler->say(s->ctx, local_rank, &a);
    blame_absent(s);
}

/* What needs no state at all. */
static void on_question(struct space *s, int local_rank, enum pmi_op op)
{
    struct pmi_answer a;
    if (op == PMI_GET_MAXES)
        pmi_answer_maxes(&a);
    else if (op == PMI_GET_MY_KVSNAME)
        pmi_answer_kvsname(&a, s->kvsname);
    else
        pmi_answer_number(&a, op,
                          op == PMI_GET_UNIVERSE_SIZE ? s->world_size : 0);
    s->handler->say(s->ctx, local_rank, &a);
}

static void refuse(struct space *s, int local_rank, enum pmi_op op)
{
    struct pmi_answer a;
    if (op == PMI_SPAWN)
        warn(s, local_rank, REASON_SPAWN);
    pmi_answer_refuse(&a, op);
    s->handler->say(s->ctx, local_rank, &a);
}

static void
answer(struct space *s, int local_rank, const struct pmi_request *req)
{
    switch (req->op) {
    case PMI_INIT:
        on_init(s, local_rank, req->number);
        return;
    case PMI_GET_MAXES:
    case PMI_GET_APPNUM:
    case PMI_GET_UNIVERSE_SIZE:
    case PMI_GET_MY_KVSNAME:
        on_question(s, local_rank, req->op);
        return;
    case PMI_CREATE_KVS:
    case PMI_SPAWN:
        refuse(s, local_rank, req->op);
        return;
    case PMI_DESTROY_KVS:
        say_done(s, local_rank, req->op, "not_supported");
        return;
    case PMI_PUT:
        on_put(s, local_rank, req);
        return;
    case PMI_GET:
        on_get(s, local_rank, req);
        return;
    case PMI_GETBYIDX:
        on_getbyidx(s, local_rank, req);
        return;
    case PMI_BARRIER_IN:
        on_barrier(s, local_rank);
        return;
    case PMI_PUBLISH_NAME:
    case PMI_UNPUBLISH_NAME:
    case PMI_LOOKUP_NAME:
        on_name(s, local_rank, req);
        return;
    case PMI_ABORT:
        on_abort(s, local_rank, req->number);
        return;
    case PMI_FINALIZE:
        enter(s, client_of(s, local_rank), SPACE_FINAL);
        say_done(s, local_rank, req->op, NULL);
        return;
    }
    DDP_WRONG("command");
}

static bool may_come(const struct space_client *c, enum pmi_op op)
{
    switch (c->state) {
    case SPACE_NEW:
    case SPACE_FINAL:
        return op == PMI_INIT || op == PMI_ABORT;
    case SPACE_IDLE:
        return op != PMI_INIT;
    case SPACE_BARRIER:
    case SPACE_ASKING:
    case SPACE_LOOKING:
        return op == PMI_ABORT; /* of another thread */
    case SPACE_LOST:
        return false;
    }
    DDP_WRONG("state of a client");
}

void space_request(struct space *s,
                   int local_rank,
                   const struct pmi_request *req)
{
    char why[SPACE_WHY_MAX];
    if (may_come(client_of(s, local_rank), req->op)) {
        answer(s, local_rank, req);
        return;
    }
    (void)snprintf(why, sizeof(why),
                   "the PMI command %s came out of turn: before init, after "
                   "finalize, or before the answer to another one",
                   pmi_op_name(req->op));
    space_broke(s, local_rank, why);
}
