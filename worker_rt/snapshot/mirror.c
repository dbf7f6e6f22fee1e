/*
 * worker_rt/snapshot/mirror: the way of an image to another node.
 *
 * Happy path: the sender sends the label; the receiver makes room in that of
 * the sender's two slots that is not kept, and answers that it takes the image;
 * the sender sends it, one piece after the other, right from its slot; the
 * receiver reads right into the other, compares all checksums, puts the label
 * there, and answers that it has it. After each piece the sender rests as long
 * as the piece took.
 *
 * Failure modes. Either side dies at any moment: the receiver's slot has no
 * label, and the mirror before stands in the other one. The image comes
 * damaged: there is no label, and the sender is told; the next one may be
 * whole. The receiver has too little memory: it refuses, and that is the end,
 * as the next image would be as long. A connection breaks: the end, too. The
 * next save tells all ranks (commit), and training goes on.
 */
#include "worker_rt/snapshot/mirror.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "worker_rt/rt.h"
#include "worker_rt/snapshot/snapshot.h"

#define SENDER   0 /* its rank in a communicator of two .. */
#define RECEIVER 1 /* .. and the other's */
#define NICENESS 10

/* What the receiver answers: to the label, and to the image. */
enum mirror_answer {
    MIRROR_REFUSES = 1,
    MIRROR_TAKES,
    MIRROR_DAMAGED,
    MIRROR_HAS
};

/* What comes from one rank. */
struct mirror_in {
    struct mirror *m;
    struct ddp_comm *from;
    int rank; /* the sender's */
    pthread_t thread;
    int slots; /* the first of its two */

    /* Under the lock of `m`. */
    int kept;     /* the slot of the mirror that is needed; -1: none */
    int got;      /* the slot of the one that came last; -1: none */
    uint64_t len; /* of that one, or of the one that comes; 0: not known yet */
};

struct mirror {
    struct mem_slots *memory;
    struct ddp_comm *to;
    struct slot_label like; /* see struct mirror_ways */
    uint8_t *last_piece;    /* SNAPSHOT_PIECE bytes: see send_image */
    pthread_t sender;
    struct mirror_in in[SNAPSHOT_MIRRORED_MAX];
    int nin;
    int receivers; /* so many of their threads were started */

    /* Under `lock`; each change is signalled by `changed`. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool quit;
    enum mirror_state state;
    struct ddp_err why; /* why it ended */
    int order;          /* the slot to be sent; -1: none */
    int64_t number;     /* of the save that is on its way on all ranks .. */
    uint64_t own_len;   /* .. and how long this rank's image of it is */
};

/* -- both ------------------------------------------------------------------ */

/* What is not told: that this rank ends it, or was asked to stop, when waits
 * are cut short. */
static void end(struct mirror *m, const struct ddp_err *why)
{
    bool leaves = rt_stop_since_us() != MONO_NEVER;
    (void)pthread_mutex_lock(&m->lock);
    if (m->state != MIRROR_ENDED && why != NULL && !m->quit && !leaves)
        m->why = *why;
    m->state = MIRROR_ENDED;
    (void)pthread_mutex_unlock(&m->lock);
}

static int answer(struct mirror_in *in, int64_t what, struct ddp_err *err)
{
    return comm_broadcast(in->from, &what, sizeof(what), RECEIVER, err);
}

static int hear(struct mirror *m, int64_t *what, struct ddp_err *err)
{
    return comm_broadcast(m->to, what, sizeof(*what), RECEIVER, err);
}

static size_t piece_at(uint64_t at, uint64_t len)
{
    return len - at < SNAPSHOT_PIECE ? (size_t)(len - at) : SNAPSHOT_PIECE;
}

/* -- to the other node ----------------------------------------------------- */

/* For so long, or until the end. */
static void rest(struct mirror *m, int64_t us)
{
    struct timespec then;
    (void)clock_gettime(CLOCK_MONOTONIC, &then); /* that of `changed` */
    int64_t ns = then.tv_nsec + us % MONO_S * 1000;
    then.tv_sec += us / MONO_S + ns / 1000000000;
    then.tv_nsec = ns % 1000000000;
    (void)pthread_mutex_lock(&m->lock);
    while (!m->quit &&
           pthread_cond_timedwait(&m->changed, &m->lock, &then) != ETIMEDOUT)
        ;
    (void)pthread_mutex_unlock(&m->lock);
}

static int send_image(struct mirror *m,
                      const uint8_t *image,
                      uint64_t len,
                      struct ddp_err *err)
{
    for (uint64_t at = 0; at < len; at += SNAPSHOT_PIECE) {
        int64_t began_us = mono_now_us();
        size_t n = piece_at(at, len);
        void *data = comm_unconst(image + at);
        /* A short broadcast writes to the root's buffer what stands there
         * already. That must not be a slot that others read. */
        if (n < SNAPSHOT_PIECE)
            data = memcpy(m->last_piece, data, n);
        if (comm_broadcast(m->to, data, n, SENDER, err) != 0)
            return -1;
        rest(m, mono_now_us() - began_us);
    }
    return 0;
}

/* What the receiver says at last. A label that is damaged is sent to nobody. */
static int offer(struct mirror *m, int slot, int64_t *said, struct ddp_err *err)
{
    struct slot_label label;
    *said = MIRROR_DAMAGED;
    if (!mem_slots_read(m->memory, slot, &label))
        return 0;
    uint64_t len = label.len;
    if (comm_broadcast(m->to, &label, sizeof(label), SENDER, err) != 0 ||
        hear(m, said, err) != 0)
        return -1;
    if (*said != MIRROR_TAKES)
        return 0;
    if (send_image(m, mem_slots_image(m->memory, slot), len, err) != 0)
        return -1;
    return hear(m, said, err);
}

static void send_one(struct mirror *m, int slot)
{
    struct ddp_err why;
    int64_t said;
    if (offer(m, slot, &said, &why) != 0) {
        end(m, &why);
        return;
    }
    if (said == MIRROR_REFUSES) { /* the receiver says why */
        end(m, NULL);
        return;
    }
    (void)pthread_mutex_lock(&m->lock);
    if (m->state == MIRROR_BUSY)
        m->state = said == MIRROR_HAS ? MIRROR_DONE : MIRROR_FREE;
    (void)pthread_mutex_unlock(&m->lock);
}

/* Training comes first. Best effort. */
static void be_nice(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS);
}

static void *sender_main(void *arg)
{
    struct mirror *m = arg;
    be_nice();
    (void)pthread_mutex_lock(&m->lock);
    while (!m->quit) {
        if (m->order < 0) {
            (void)pthread_cond_wait(&m->changed, &m->lock);
            continue;
        }
        int slot = m->order;
        m->order = -1;
        (void)pthread_mutex_unlock(&m->lock);
        send_one(m, slot);
        (void)pthread_mutex_lock(&m->lock);
    }
    (void)pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* -- from the other node --------------------------------------------------- */

/* The sender's words. What a worker before left is never sent (commit). */
static int check_label(const struct mirror_in *in,
                       const struct slot_label *l,
                       struct ddp_err *err)
{
    const struct slot_label *like = &in->m->like;
    bool sound =
        memcmp(l->instance, like->instance, sizeof(l->instance)) == 0 &&
        l->round == like->round && l->world == like->world &&
        l->rank == in->rank && l->len <= INT64_MAX && l->step >= 0 &&
        l->save > 0;
    return sound ? 0
                 : ddp_err_set(err, DDP_E_PROTO,
                               "what rank %d sends is no snapshot of its own "
                               "of this round",
                               in->rank);
}

/* What the mirrors here take with this one; whose length is not known yet
 * counts as this one. */
static uint64_t mirrors_need(struct mirror_in *in, uint64_t len, uint64_t *own)
{
    struct mirror *m = in->m;
    uint64_t need = 0;
    (void)pthread_mutex_lock(&m->lock);
    in->len = len;
    for (int i = 0; i < m->nin; i++)
        need += SNAPSHOT_SLOTS_MIRROR *
                mem_slots_need(m->in[i].len > 0 ? m->in[i].len : len);
    *own = m->own_len;
    (void)pthread_mutex_unlock(&m->lock);
    return need;
}

static int refuse(const struct mirror *m,
                  uint64_t own,
                  uint64_t theirs,
                  uint64_t need,
                  struct ddp_err *err)
{
    const char *whose =
        m->nin > 1 ? "each worker that sends its own here" : "another node";
    return ddp_err_set(
        err, DDP_E_NOMEM,
        "three snapshots of %.1f MB and two of %s, %.1f MB in all, do not fit "
        "into the %.1f MB that ddprun holds for each worker: start it with "
        "--snapshot_memory=%lluM or more",
        (double)own / 1e6, whose, (double)theirs / 1e6,
        (double)mem_slots_allowed(m->memory) / 1e6,
        (unsigned long long)(mem_slots_budget(m->memory, need) >> 20) + 1);
}

/* Memory for it, beside this rank's own images. */
static int
make_room(struct mirror_in *in, int slot, uint64_t len, struct ddp_err *err)
{
    struct mem_slots *memory = in->m->memory;
    uint64_t own, theirs = mirrors_need(in, len, &own);
    uint64_t need = SNAPSHOT_SLOTS_NEEDED * mem_slots_need(own) + theirs;
    uint64_t alike = SNAPSHOT_SLOTS_NEEDED * mem_slots_need(len);
    need = alike > need ? alike : need; /* all slots are of one length */
    if (len > mem_slots_room(memory) || need > mem_slots_allowed(memory))
        return refuse(in->m, own, theirs, need, err);
    return mem_slots_reserve(memory, slot, len, err);
}

/* The sender may have heard what all ranks know before this one has: until then
 * it is open which mirror is needed. -1: it ends. */
static int free_slot(struct mirror_in *in, int64_t number, struct ddp_err *err)
{
    struct mirror *m = in->m;
    (void)pthread_mutex_lock(&m->lock);
    while (!m->quit && m->number < number)
        (void)pthread_cond_wait(&m->changed, &m->lock);
    bool quit = m->quit;
    int slot = in->kept == in->slots ? in->slots + 1 : in->slots;
    in->got = -1;
    (void)pthread_mutex_unlock(&m->lock);
    if (!quit)
        return slot;
    return ddp_err_set(err, DDP_E_ABORTED, "this rank ends its mirrors");
}

static int receive_image(struct mirror_in *in,
                         uint8_t *image,
                         uint64_t len,
                         struct ddp_err *err)
{
    for (uint64_t at = 0; at < len; at += SNAPSHOT_PIECE)
        if (comm_broadcast(in->from, image + at, piece_at(at, len), SENDER,
                           err) != 0)
            return -1;
    return 0;
}

/* Every byte stands under a checksum, and it is what the label says. */
static bool is_whole(const struct slot_label *l, uint8_t *image)
{
    struct snapshot_opened o;
    struct snapshot_fence f;
    struct ddp_err why;
    snapshot_open_memory(&o, image, l->len);
    return snapshot_read(&o.from, &f, &why) == 0 && f.round == l->round &&
           f.step == l->step && strcmp(f.instance, l->instance) == 0;
}

/* -1: nothing more can come, `err` says why. */
static int receive_one(struct mirror_in *in, struct ddp_err *err)
{
    struct mirror *m = in->m;
    struct slot_label label;
    struct ddp_err lost;
    if (comm_broadcast(in->from, &label, sizeof(label), SENDER, err) != 0)
        return -1;
    int slot = -1, rc = check_label(in, &label, err);
    if (rc == 0)
        rc = slot = free_slot(in, label.save, err);
    if (rc >= 0)
        rc = make_room(in, slot, label.len, err);
    if (rc != 0) {
        (void)answer(in, MIRROR_REFUSES, &lost); /* it ends in either case */
        return -1;
    }
    uint8_t *image = mem_slots_image(m->memory, slot);
    if (answer(in, MIRROR_TAKES, err) != 0 ||
        receive_image(in, image, label.len, err) != 0)
        return -1;
    if (!is_whole(&label, image))
        return answer(in, MIRROR_DAMAGED, err);
    mem_slots_label(m->memory, slot, &label);
    (void)pthread_mutex_lock(&m->lock);
    in->got = slot;
    (void)pthread_mutex_unlock(&m->lock);
    return answer(in, MIRROR_HAS, err);
}

static void *receiver_main(void *arg)
{
    struct mirror_in *in = arg;
    struct ddp_err why;
    be_nice();
    while (receive_one(in, &why) == 0)
        ;
    end(in->m, &why);
    return NULL;
}

/* -- begin and end --------------------------------------------------------- */

/* The sender's, and as many of the receivers' as were started. */
static void stop_threads(struct mirror *m)
{
    (void)pthread_mutex_lock(&m->lock);
    m->quit = true;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
    m->to->ops->abort(m->to);
    for (int i = 0; i < m->nin; i++)
        m->in[i].from->ops->abort(m->in[i].from);
    (void)pthread_join(m->sender, NULL);
    for (int i = 0; i < m->receivers; i++)
        (void)pthread_join(m->in[i].thread, NULL);
}

void mirror_ways_leave(const struct mirror_ways *ways)
{
    if (ways->to != NULL)
        ways->to->ops->del(ways->to);
    for (int i = 0; i < ways->nfrom; i++)
        ways->from[i].comm->ops->del(ways->from[i].comm);
}

static void del(struct mirror *m)
{
    m->to->ops->del(m->to);
    for (int i = 0; i < m->nin; i++)
        m->in[i].from->ops->del(m->in[i].from);
    (void)pthread_cond_destroy(&m->changed);
    (void)pthread_mutex_destroy(&m->lock);
    free(m->last_piece);
    free(m);
}

static int start_threads(struct mirror *m, struct ddp_err *err)
{
    int rc = rt_start_thread(&m->sender, sender_main, m);
    bool sends = rc == 0;
    for (int i = 0; rc == 0 && i < m->nin; i++) {
        rc = rt_start_thread(&m->in[i].thread, receiver_main, &m->in[i]);
        m->receivers += rc == 0;
    }
    if (rc != 0 && sends)
        stop_threads(m);
    if (rc == 0)
        return 0;
    return ddp_err_set(err, DDP_E_NOMEM,
                       "cannot start a thread that mirrors snapshots: %s",
                       strerror(rc));
}

static void take_ways(struct mirror *m, const struct mirror_ways *ways)
{
    m->to = ways->to;
    m->like = ways->like;
    m->nin = ways->nfrom;
    /* Between two images, and for a slow link, they wait as long as it takes.
     */
    m->to->timeout_us = MONO_NEVER;
    for (int i = 0; i < m->nin; i++) {
        m->in[i] = (struct mirror_in){.m = m,
                                      .from = ways->from[i].comm,
                                      .rank = ways->from[i].rank,
                                      .slots = mirror_slot(i),
                                      .kept = ways->from[i].keep,
                                      .got = -1};
        m->in[i].from->timeout_us = MONO_NEVER;
    }
}

struct mirror *mirror_new(struct mem_slots *memory,
                          const struct mirror_ways *ways,
                          struct ddp_err *err)
{
    pthread_condattr_t attr;
    struct mirror *m = calloc(1, sizeof(*m));
    uint8_t *piece = malloc(SNAPSHOT_PIECE);
    ddp_assert(ways->nfrom <= SNAPSHOT_MIRRORED_MAX);
    if (m == NULL || piece == NULL) {
        free(m);
        free(piece);
        mirror_ways_leave(ways);
        (void)snapshot_no_memory(err);
        return NULL;
    }
    m->memory = memory;
    m->last_piece = piece;
    m->order = -1;
    take_ways(m, ways);
    (void)pthread_mutex_init(&m->lock, NULL); /* these cannot fail here */
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&m->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (start_threads(m, err) == 0)
        return m;
    del(m);
    return NULL;
}

void mirror_free(struct mirror *m)
{
    if (m == NULL)
        return;
    stop_threads(m);
    del(m);
}

/* -- the caller's thread --------------------------------------------------- */

void mirror_send(struct mirror *m, int slot, int64_t number, uint64_t own_len)
{
    (void)pthread_mutex_lock(&m->lock);
    ddp_assert(m->state != MIRROR_BUSY && m->order < 0);
    m->number = number;
    m->own_len = own_len;
    if (m->state != MIRROR_ENDED) {
        m->state = slot < 0 ? MIRROR_DONE : MIRROR_BUSY;
        m->order = slot;
    }
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

enum mirror_state mirror_look(struct mirror *m, struct ddp_err *why)
{
    (void)pthread_mutex_lock(&m->lock);
    enum mirror_state state = m->state;
    *why = m->why;
    (void)pthread_mutex_unlock(&m->lock);
    return state;
}

void mirror_settle(struct mirror *m, bool done)
{
    (void)pthread_mutex_lock(&m->lock);
    ddp_assert(m->state != MIRROR_BUSY);
    for (int i = 0; i < m->nin; i++) {
        struct mirror_in *in = &m->in[i];
        if (done && in->got >= 0)
            in->kept = in->got;
        in->got = -1;
    }
    if (m->state == MIRROR_DONE)
        m->state = MIRROR_FREE;
    (void)pthread_mutex_unlock(&m->lock);
}
