/*
 * worker_rt/snapshot/pieces: parts of tensors that the job has as a whole:
 * where a part lies, what two of them have in common, how they are named in an
 * image, and which rank of a node stores which. Pure: no I/O, no state.
 *
 * Coordinates count elements, in the whole tensor. A tensor without dims is one
 * element, and has no other part than itself. A part with a dim of 0 has no
 * elements.
 */
#ifndef WORKER_RT_SNAPSHOT_PIECES_H
#define WORKER_RT_SNAPSHOT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "worker_rt/ddp.h"

/* -- where a piece lies ---------------------------------------------------- */

/* What two pieces have in common. */
struct piece_box {
    int dims;
    uint64_t offset[DDP_DIMS_MAX];
    uint64_t shape[DDP_DIMS_MAX];
};

/* USAGE: no dtype, too many dims, a whole of more bytes than can be counted, or
 * the piece reaches beyond its whole. All below take pieces that passed. */
int piece_check(const struct ddp_piece *p, struct ddp_err *err);

/* Of that tensor all there is: as a piece. */
struct ddp_piece piece_of_tensor(const struct ddp_tensor *t);
bool piece_is_whole(const struct ddp_piece *p);

/* The ranks of a node share what they all have piece by piece, so a large
 * tensor is several: whole rows of it, of about that many bytes. How many, and
 * the i-th. Any tensor will do: one that is no tensor is one piece. */
#define PIECE_PART_MAX ((uint64_t)64 << 20)
size_t piece_parts(const struct ddp_tensor *t);
struct ddp_piece piece_part(const struct ddp_tensor *t, size_t i);

/* Elements. */
uint64_t piece_count(const struct ddp_piece *p);

/* Whether both are of one tensor: dtype and whole; the names count as equal.
 * Whether they are the same part of it. */
bool piece_same_whole(const struct ddp_piece *a, const struct ddp_piece *b);
bool piece_same_part(const struct ddp_piece *a, const struct ddp_piece *b);

/* Their intersection; false: they have no element in common. Both are of one
 * tensor, as in all below. */
bool piece_meet(const struct ddp_piece *a,
                const struct ddp_piece *b,
                struct piece_box *both);

/* Copies `both` from the data of `from` to that of `to`. */
void piece_copy(const struct ddp_piece *to,
                const struct ddp_piece *from,
                const struct piece_box *both);

/* The order of the pieces of one tensor, < 0: `a` comes first; 0: they are the
 * same part. */
int piece_order(const struct ddp_piece *a, const struct ddp_piece *b);

/*
 * How many elements of `want` none of the `n` parts has, which stand in that
 * order; the same part may be there several times. CORRUPT: two different parts
 * overlap, so nobody knows which of them is right.
 */
int piece_missing(const struct ddp_piece *want,
                  const struct ddp_piece *const *parts,
                  size_t n,
                  uint64_t *missing,
                  struct ddp_err *err);

/* -- in the header of an image --------------------------------------------- */

/*
 * A tensor of an image that is no whole one has a pair "ddp.whole.<its name>".
 * The value is the whole shape and the offset, "64,128@0,32". In an image no
 * two tensors have one name. So further pieces of a tensor have a name with
 * "#1", "#2" and so on behind it, and the same behind the value,
 * "64,128@0,64#1", since a program may have a tensor that is called so.
 */
#define PIECE_WHOLE_KEY "ddp.whole."
#define PIECE_TEXT_MAX  ((size_t)400) /* bytes of the value with its NUL */

/* The pair with the rank whose pieces an image has, and how many there were,
 * "3/8"; an image of a whole state has none. */
#define PIECE_RANK_KEY "ddp.rank"

/* `nth` 0: no suffix. */
void piece_write(char text[PIECE_TEXT_MAX],
                 const struct ddp_piece *p,
                 unsigned nth);

/*
 * `p->local` is what the image has: its name, dtype and shape. `text` NULL: it
 * is a whole tensor. The rest of `p` is filled in; `*name_len` becomes how much
 * of the name is that of the tensor. CORRUPT: such a piece there is not.
 */
int piece_read(struct ddp_piece *p,
               const char *text,
               size_t *name_len,
               struct ddp_err *err);

/* -- who stores what ------------------------------------------------------- */

/* What ranks tell each other of a piece. It travels: 64-bit members only. */
struct piece_key {
    uint64_t name;    /* hash of the name, .. */
    uint64_t whole;   /* .. with dtype and whole shape, .. */
    uint64_t part[2]; /* .. and with offset and shape: which piece it is */
    uint64_t len;     /* bytes */
};

struct piece_key piece_key_of(const struct ddp_piece *p);

/* Some order of two `part`s; 0: they are the same piece. */
static inline int piece_part_order(const uint64_t a[2], const uint64_t b[2])
{
    if (a[0] != b[0])
        return a[0] < b[0] ? -1 : 1;
    return (a[1] > b[1]) - (a[1] < b[1]);
}

/*
 * Of the pieces of all ranks: `*bad` becomes the index of the first with whose
 * tensor (dtype, whole) another piece of that name does not agree, `n` if there
 * is none. `*names` becomes a hash of the tensors that they are of, whatever
 * their order and however often each is there. NOMEM.
 */
int pieces_survey(const struct piece_key *keys,
                  size_t n,
                  size_t *bad,
                  uint64_t *names,
                  struct ddp_err *err);

/* The pair with that hash, PIECE_NAMES_DIGITS hexadecimal digits: whoever
 * knows some images of a save can tell whether they know of all tensors. */
#define PIECE_NAMES_KEY    "ddp.names"
#define PIECE_NAMES_DIGITS 16

/*
 * Each distinct piece of a node is stored by one of its ranks that hold it: the
 * one with the fewest bytes so far; a hash decides between equals. `keys` are
 * those of the node's `ranks`, `counts[r]` of rank r, one rank behind the
 * other. `stores[i]` becomes whether the i-th of them is stored by its rank:
 * the same on all ranks that ask. NOMEM.
 */
int pieces_choose(const struct piece_key *keys,
                  const size_t *counts,
                  int ranks,
                  bool *stores,
                  struct ddp_err *err);

/*
 * Which pieces are on one node only: `alone[i]` becomes whether no other node
 * than nodes[i] has the i-th piece. NOMEM.
 */
int pieces_find_alone(const struct piece_key *keys,
                      const int64_t *nodes,
                      size_t n,
                      bool *alone,
                      struct ddp_err *err);

/* Whether those of the `n` keys that `which` says are all among the others,
 * which are sorted by it. */
bool pieces_within(const struct piece_key *keys,
                   const bool *which,
                   size_t n,
                   struct piece_key *among,
                   size_t namong);

#endif
