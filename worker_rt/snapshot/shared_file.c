/*
 * worker_rt/snapshot/shared_file: how the ranks of a node share one file.
 *
 * Happy path. The leader opens the file: it notes name, slot and length on the
 * board, and puts the file's number there last. The others, who look at the
 * board every millisecond, say that they are at work, and open it by name. Each
 * rank takes the next piece until there is none, and syncs the file. The leader
 * takes the number away, and waits until nobody is at work.
 *
 * Nobody waits for a rank that has not begun: a rank that comes late, or cannot
 * open the file, takes no piece, and the others have done it all.
 *
 * Failure modes. A write or read of any rank fails: the first such error stands
 * on the board, no rank takes another piece, and the leader returns it. A rank
 * dies over a piece: its lock on the memory is gone, which the leader sees. The
 * leader dies: the same, on the others. A rank that only stops holds up the
 * others, as a slow disk does, until it goes on or `stop` becomes true.
 */
#include "worker_rt/snapshot/shared_file.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker_rt/snapshot/atomic_file.h"
#include "worker_rt/snapshot/snapshot.h"

#define LOOKS 16 /* at the board, until it is asked who lives */

size_t shared_file_piece = (size_t)16 << 20;

/* In memory that all ranks of the node have. */
struct shared_file_board {
    _Atomic uint64_t file; /* the number of the one that is open; 0: none */
    _Atomic uint64_t next; /* the first byte that no rank has taken */
    uint64_t len;
    int32_t slot;
    int32_t writes;
    char name[ATOMIC_FILE_NAME_MAX];
    _Atomic uint32_t failed; /* one more than the rank that did so first .. */
    struct ddp_err why;      /* .. and why */
    _Atomic uint64_t ended;  /* the newest session that did .. */
    struct ddp_err end;      /* .. and how */
    atomic_bool left;        /* there will be no more of them */
    struct {
        atomic_bool locked; /* it holds a lock for as long as it lives */
        atomic_bool works;  /* it may have a piece */
    } ranks[SHARED_FILE_RANKS];
};
_Static_assert(2 * sizeof(struct shared_file_board) <= MEM_SLOTS_BOARD,
               "both have room");

static struct shared_file_board *board_of(const struct mem_slots *m,
                                          enum shared_file_use use)
{
    void *at = mem_slots_board(m);
    return (struct shared_file_board *)at + (use == SHARED_FILE_READS);
}

static void nap(void)
{
    const struct timespec ms = {.tv_nsec = 1000 * 1000};
    (void)nanosleep(&ms, NULL); /* a signal may cut it short */
}

/* -- who lives ------------------------------------------------------------- */

/* Each rank's byte of the memory, for as long as it has the board open: of this
 * process's own descriptor, so that no other one's end touches it. */
static bool lock(const struct shared_file *s, short type)
{
    struct flock f = {.l_type = type,
                      .l_whence = SEEK_SET,
                      .l_start = s->lock_at + s->rank,
                      .l_len = 1};
    return fcntl(s->fd, F_OFD_SETLK, &f) == 0;
}

static bool is_dead(const struct shared_file *s, int rank)
{
    struct flock f = {.l_type = F_WRLCK,
                      .l_whence = SEEK_SET,
                      .l_start = s->lock_at + rank,
                      .l_len = 1};
    return atomic_load(&s->board->ranks[rank].locked) &&
           fcntl(s->fd, F_OFD_GETLK, &f) == 0 && f.l_type == F_UNLCK;
}

/* -- open and close -------------------------------------------------------- */

void shared_file_clear(const struct mem_slots *m)
{
    memset(mem_slots_board(m), 0, MEM_SLOTS_BOARD);
}

void shared_file_open(struct shared_file *s,
                      const struct mem_slots *m,
                      enum shared_file_use use,
                      int rank,
                      int ranks,
                      int first)
{
    *s = (struct shared_file){.fd = m->fd,
                              .lock_at = (int)use * SHARED_FILE_RANKS,
                              .rank = rank,
                              .ranks = ranks,
                              .first = first};
    ddp_assert(rank >= 0 && rank < ranks && m->count > 0);
    if (ranks > SHARED_FILE_RANKS)
        return;
    s->board = board_of(m, use);
    atomic_store(&s->board->ranks[rank].locked, lock(s, F_WRLCK));
}

void shared_file_close(struct shared_file *s)
{
    if (s->board == NULL)
        return;
    if (s->rank == 0)
        atomic_store(&s->board->left, true);
    atomic_store(&s->board->ranks[s->rank].locked, false);
    (void)lock(s, F_UNLCK); /* the next one of this process is let in too */
    *s = (struct shared_file){0};
}

/* -- a file ---------------------------------------------------------------- */

/* What is done to it, by this rank. */
struct shared_work {
    struct shared_file_board *board;
    uint8_t *data; /* of the whole file */
    int fd;
    const atomic_bool *stop;
};

static int move_piece(const struct shared_work *w,
                      size_t n,
                      uint64_t at,
                      struct ddp_err *err)
{
    if (w->stop != NULL && atomic_load(w->stop))
        return ddp_err_set(err, DDP_E_ABORTED, "the write was given up");
    if (w->board->writes)
        return atomic_file_write_piece(w->fd, w->data + at, n, at, err);
    int fd = w->fd;
    return snapshot_read_fd(&fd, w->data + at, n, at, err);
}

static int work(const struct shared_work *w, struct ddp_err *err)
{
    struct shared_file_board *b = w->board;
    for (;;) {
        uint64_t at = atomic_fetch_add(&b->next, shared_file_piece);
        if (at >= b->len)
            break;
        uint64_t left = b->len - at;
        size_t n = left < shared_file_piece ? (size_t)left : shared_file_piece;
        if (move_piece(w, n, at, err) != 0)
            return -1;
    }
    return b->writes ? atomic_file_sync(w->fd, err) : 0;
}

/* The first one that fails says why, and nobody goes on. */
static void tell_failure(struct shared_file *s, const struct ddp_err *why)
{
    struct shared_file_board *b = s->board;
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&b->failed, &none,
                                       (uint32_t)s->rank + 1))
        b->why = *why;
    atomic_store(&b->next, UINT64_MAX / 2);
}

/* -- the leader ------------------------------------------------------------ */

/* Until no other rank is at work. */
static int wait_idle(const struct shared_file *s,
                     const atomic_bool *stop,
                     struct ddp_err *err)
{
    int rc = 0;
    for (int r = 1; r < s->ranks; r++)
        for (int i = 1; atomic_load(&s->board->ranks[r].works); i++) {
            if (stop != NULL && atomic_load(stop))
                return ddp_err_set(err, DDP_E_ABORTED,
                                   "the write was given up");
            if (i % LOOKS == 0 && is_dead(s, r)) {
                atomic_store(&s->board->ranks[r].works, false);
                rc = ddp_err_set(err, DDP_E_PEER,
                                 "rank %d died over its part of the file",
                                 s->first + r);
            }
            nap();
        }
    return rc;
}

/* `failed` is set before a rank says that it is idle, and so is `why`. */
static int take_failure(const struct shared_file *s, struct ddp_err *err)
{
    uint32_t failed = atomic_load(&s->board->failed);
    if (failed == 0)
        return 0;
    *err = s->board->why;
    err->text[sizeof(err->text) - 1] = '\0';
    if (failed > 1)
        (void)ddp_err_wrap(err, "rank %d", s->first + (int)failed - 1);
    return -1;
}

int shared_file_lead(struct shared_file *s,
                     const struct mem_slots *m,
                     int slot,
                     uint64_t len,
                     int fd,
                     const char *name,
                     const atomic_bool *stop,
                     struct ddp_err *err)
{
    struct shared_file_board *b = s->board;
    struct ddp_err why;
    ddp_assert(s->rank == 0 && len <= mem_slots_room(m));
    ddp_assert(strlen(name) < sizeof(b->name));
    /* One that was given up may be in the hands of a slow rank still. */
    if (wait_idle(s, stop, err) != 0)
        return -1;
    const struct shared_work w = {b, mem_slots_image(m, slot), fd, stop};
    b->len = len;
    b->slot = slot;
    b->writes = b == board_of(m, SHARED_FILE_WRITES);
    memcpy(b->name, name, strlen(name) + 1);
    atomic_store(&b->failed, 0);
    atomic_store(&b->next, 0);
    atomic_store(&b->file, ++s->files);
    if (work(&w, &why) != 0)
        tell_failure(s, &why);
    atomic_store(&b->file, 0);
    if (wait_idle(s, stop, err) != 0)
        return -1;
    return take_failure(s, err);
}

void shared_file_end(struct shared_file *s,
                     uint64_t session,
                     int rc,
                     const struct ddp_err *err)
{
    struct shared_file_board *b = s->board;
    ddp_assert(s->rank == 0);
    if (rc == 0)
        b->end = (struct ddp_err){.code = DDP_E_OK};
    else
        b->end = *err;
    atomic_store(&b->ended, session);
}

/* -- the others ------------------------------------------------------------ */

/* It opens nothing that has gone, or that it cannot see: others do it then. */
static void help_with(struct shared_file *s,
                      const struct mem_slots *m,
                      uint64_t file,
                      int dir,
                      const atomic_bool *stop)
{
    struct shared_file_board *b = s->board;
    struct ddp_err why;
    atomic_store(&b->ranks[s->rank].works, true);
    bool open = atomic_load(&b->file) == file;
    /* A rank of this job said so; a wrong one must not hurt this one. */
    if (open && b->slot >= 0 && b->slot < m->count &&
        b->len <= mem_slots_room(m) &&
        memchr(b->name, '\0', sizeof(b->name)) != NULL) {
        int flags = (b->writes ? O_WRONLY : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC;
        const struct shared_work w = {b, mem_slots_image(m, b->slot),
                                      openat(dir, b->name, flags), stop};
        if (w.fd >= 0 && work(&w, &why) != 0)
            tell_failure(s, &why);
        if (w.fd >= 0)
            (void)close(w.fd); /* synced, or given up */
    }
    atomic_store(&b->ranks[s->rank].works, false);
}

int shared_file_help(struct shared_file *s,
                     const struct mem_slots *m,
                     uint64_t session,
                     int dir,
                     const atomic_bool *stop,
                     struct ddp_err *err)
{
    struct shared_file_board *b = s->board;
    uint64_t done = 0;
    ddp_assert(s->rank > 0);
    for (int i = 1; atomic_load(&b->ended) < session; i++) {
        uint64_t file = atomic_load(&b->file);
        if (file != 0 && file != done) {
            done = file;
            help_with(s, m, file, dir, stop);
            continue;
        }
        if (stop != NULL && atomic_load(stop))
            return ddp_err_set(err, DDP_E_ABORTED, "the write was given up");
        if (atomic_load(&b->left) && atomic_load(&b->ended) < session)
            return ddp_err_set(err, DDP_E_ABORTED,
                               "rank %d gave up its snapshots", s->first);
        if (i % LOOKS == 0 && is_dead(s, 0))
            return ddp_err_set(err, DDP_E_PEER,
                               "rank %d died over a snapshot's file", s->first);
        nap();
    }
    /* If a later one has ended as well, how this one did is not known here. */
    if (atomic_load(&b->ended) != session || b->end.code == DDP_E_OK)
        return 0;
    *err = b->end;
    err->text[sizeof(err->text) - 1] = '\0';
    return -1;
}
