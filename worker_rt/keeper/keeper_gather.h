/*
 * worker_rt/keeper/keeper_gather: how the ranks of any world load what the
 * ranks of another one saved. Three stories:
 *
 *     keeper_images: which images there are, and where: in the memory of a
 *     node, in a folder; who can open which of them.
 *     keeper_headers, keeper_plan: what is in the images of one save, what this
 *     rank wants, whether the images have it.
 *     keeper_fetch: the bytes.
 *
 * keeper_gather.c tells them together.
 */
#ifndef WORKER_RT_KEEPER_KEEPER_GATHER_H
#define WORKER_RT_KEEPER_KEEPER_GATHER_H

#include "worker_rt/keeper/keeper.h"
#include "worker_rt/snapshot/pieces.h"

/* -- images ---------------------------------------------------------------- */

/* An image, as the label or the name of one says that a rank holds. It travels:
 * no gaps. */
struct image_offer {
    int32_t memory; /* 1: it lies in memory; 0: it is a file */
    int32_t before; /* 1: a file of a save before of that step */
    int64_t round;
    int64_t step;
    int64_t save;  /* see slot_label */
    int64_t rank;  /* whose pieces they are .. */
    int64_t world; /* .. of how many ranks; 0: it is a whole state */
    int64_t len;
    char who[SNAPSHOT_DIR_WHO]; /* the writer */
};
_Static_assert(sizeof(struct image_offer) == 64, "no gaps");

struct image_copy {
    struct image_offer offer;
    int holder;  /* the rank that offers it */
    int class;   /* by the writer, 0: this instance; the lower comes first */
    bool struck; /* it is damaged: for all ranks */
};

/* A copy that proved damaged. It travels. */
struct image_strike {
    int64_t copy; /* its index */
    char why[248];
};

struct keeper_images {
    struct ddp_keeper *k;
    struct image_copy *list; /* the same on all ranks: the best save first, in
                              * it by rank, in that memory first */
    size_t n;
    struct mem_slots *regions;    /* (local_world): the node's, opened when they
                                   * are needed; count 0: not */
    struct image_strike *strikes; /* found by this rank, not told yet */
    size_t nstrikes, strikes_cap;
    size_t struck; /* in all */
    char why[512]; /* the first */
};

/* Collective: what all ranks hold. IO, NOMEM, the errors of the collectives;
 * keeper_images_free in any case. */
int keeper_images_find(struct keeper_images *all,
                       struct ddp_keeper *k,
                       struct ddp_err *err);
void keeper_images_free(struct keeper_images *all);

/* How many copies from the i-th on are of one save. */
size_t keeper_images_of_save(const struct keeper_images *all, size_t i);

/* Whether two copies are of the same image: the same bytes. */
bool keeper_images_same(const struct image_copy *a, const struct image_copy *b);

/* Opens a copy, if this rank can: 1: it cannot. -1: it should, and `err` says
 * what is wrong: NOINPUT, IO, CORRUPT. `o` must stay where it is until
 * snapshot_close. */
int keeper_images_open(struct keeper_images *all,
                       size_t copy,
                       struct snapshot_opened *o,
                       struct ddp_err *err);

/* Whether a header is that of the image that was offered. CORRUPT. */
int keeper_images_check(const struct image_offer *o,
                        const struct snapshot_header *h,
                        struct ddp_err *err);

/* Whether a copy that cannot be read for that reason is damaged: another one
 * may be whole. */
static inline bool keeper_images_is_damage(const struct ddp_err *why)
{
    return why->code == DDP_E_CORRUPT || why->code == DDP_E_IO ||
           why->code == DDP_E_NOINPUT;
}

/* Notes that a copy is damaged, to be told to all. NOMEM. */
int keeper_images_strike(struct keeper_images *all,
                         size_t copy,
                         const struct ddp_err *why,
                         struct ddp_err *err);

/* Collective: all are told which copies this rank found damaged. `*more`: there
 * were some. PROTO, NOMEM, the errors of the collectives. */
int keeper_images_tell(struct keeper_images *all,
                       bool *more,
                       struct ddp_err *err);

/* -- the plan -------------------------------------------------------------- */

/* What a rank wants: the two ways of the public calls. */
struct gather_wanted {
    const struct snapshot_wanted *whole; /* whole tensors, and pairs */
    ddp_want_fn *fn;                     /* NULL: no pieces */
    void *ctx;
};

/* A piece that an image has. */
struct plan_piece {
    struct ddp_piece piece; /* the first member; without data */
    size_t image;
    size_t at;    /* its index in the image's header */
    uint64_t sum; /* a hash of its checksum; 0: it has none */
    bool asked;   /* the program was asked about its tensor */
};

/* An image of the save. */
struct plan_image {
    size_t first, copies; /* in the list of all */
    int64_t rank, world;
    size_t near; /* the copy that this rank reads; SIZE_MAX: none */
    bool known;  /* its header has been read */
    struct plan_piece *pieces;
    size_t n;
    char *names;        /* of the pieces */
    uint64_t all_names; /* of the tensors of the save; see PIECE_NAMES_KEY */
    char sum[SNAPSHOT_DIGITS];
};

/* A piece that this rank wants. */
struct plan_want {
    struct ddp_piece piece;
    bool optional; /* without data: it is not there, and no more wanted */
};

/* A tensor that the program names itself. */
struct plan_named {
    const struct ddp_tensor *tensor;
    bool found; /* among those of the save */
};

/* What is read from where: of the piece `from` of an image the part that the
 * want has. */
struct plan_fetch {
    const struct plan_piece *from;
    size_t want;
    struct piece_box box;
};

struct keeper_plan {
    struct keeper_images *all;
    const struct gather_wanted *wanted;
    size_t first, n; /* the save's copies in the list of all */
    struct plan_image *images;
    size_t nimages;
    const struct ddp_piece **sorted; /* all known pieces, by name and order */
    size_t nsorted;
    const struct ddp_piece **usable; /* room for as many */
    struct plan_named *named;        /* by name */
    struct plan_want *wants;
    size_t nwants, wants_cap;
    struct plan_fetch *fetches; /* by image and place in it */
    size_t nfetches, fetches_cap;
    uint8_t *room; /* for the longest part that does not go as it is */
    size_t room_len;
    struct snapshot_fence fence; /* of the image of the lowest rank known .. */
    struct ddp_kv *meta;         /* .. and what its pairs say */
    int64_t meta_rank;
};

/* For the save of which the first copy is `first`. NOMEM; keeper_plan_free in
 * any case. */
int keeper_plan_init(struct keeper_plan *p,
                     struct keeper_images *all,
                     const struct gather_wanted *wanted,
                     size_t first,
                     struct ddp_err *err);
void keeper_plan_free(struct keeper_plan *p);

/* Reads the headers of the images that this rank can open; those that are
 * damaged are struck. NOMEM, CONFIG (of a newer libddp). */
int keeper_headers_look(struct keeper_plan *p, struct ddp_err *err);

/* Collective: the headers of all images for all ranks. NOMEM, CONFIG, the
 * errors of the collectives. */
int keeper_headers_exchange(struct keeper_plan *p, struct ddp_err *err);

/* Asks the program what it wants of the tensors that are known now. USAGE,
 * NOMEM; CORRUPT: the images do not agree about a tensor. */
int keeper_plan_ask(struct keeper_plan *p, struct ddp_err *err);

/*
 * Decides what is read from where. With `near_only` from what this rank can
 * open alone. NOINPUT: the images do not have all that is wanted. CORRUPT:
 * different pieces overlap. USAGE: a wanted tensor is not among those of the
 * save. NOMEM.
 */
int keeper_plan_make(struct keeper_plan *p,
                     bool near_only,
                     struct ddp_err *err);

/* Of all that is read where, which bytes: equal on ranks that want the same and
 * find equal copies of it. */
uint64_t keeper_plan_digest(const struct keeper_plan *p);

/* How many fetches from the i-th on are of one piece of an image. Whether the
 * i-th is the only one, and that part of the piece goes as it is where it is
 * wanted. The rows of the piece that these fetches have, from the first to the
 * last: what is sent of it. `*begin`: the bytes before them. */
size_t keeper_plan_same(const struct keeper_plan *p, size_t i);
bool keeper_plan_is_straight(const struct keeper_plan *p,
                             size_t i,
                             const struct ddp_piece *part);
struct ddp_piece
keeper_plan_rows(const struct keeper_plan *p, size_t i, uint64_t *begin);

/* Where an image is read that this rank cannot open: its first copy; SIZE_MAX:
 * all of them are damaged. The same on all ranks. */
size_t keeper_plan_far(const struct keeper_plan *p, const struct plan_image *m);

/* -- the bytes ------------------------------------------------------------- */

/* Collective. What the plan says into the wanted buffers; images that prove
 * damaged are struck. NOMEM, and the errors of the collectives, not on all
 * ranks. */
int keeper_fetch(struct keeper_plan *p, bool near_only, struct ddp_err *err);

/* -- all of it ------------------------------------------------------------- */

/* Collective. As ddp_keeper_load_pieces; `info` is filled in. */
int keeper_gather(struct ddp_keeper *k,
                  const struct gather_wanted *wanted,
                  struct ddp_kept *info,
                  struct ddp_err *err);

#endif
