/*
 * worker_rt/keeper/keeper_headers: what is in the images of one save, by their
 * headers.
 *
 * Happy path: look reads the headers of the images at hand. If that is not
 * enough, exchange brings those of all images to all ranks: a rank that holds
 * the first copy of an image sends its header as it is, so that the header
 * comes with its checksum.
 *
 * Failure modes. A header is damaged: its copy is struck, and the image counts
 * as lost if it has no other one. What a rank sends makes no sense: that image
 * stays unknown here, and counts as lost, too. A newer libddp wrote an image:
 * CONFIG, since no older save may be taken for that one.
 */
#include "worker_rt/keeper/keeper_gather.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker_rt/comm/comm.h"

/* -- one header ------------------------------------------------------------ */

/* One tensor of the header, as a piece; its name goes to `*names`. */
static int read_piece(const struct snapshot_header *h,
                      size_t i,
                      struct ddp_piece *piece,
                      char **names,
                      struct ddp_err *err)
{
    char key[sizeof(PIECE_WHOLE_KEY) + DDP_NAME_MAX];
    size_t len;
    piece->local = snapshot_tensor(&h->parsed.tensors[i]);
    const char *name = piece->local.name;
    if (strlen(name) >= DDP_NAME_MAX)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: the name '%.80s' is too long", name);
    (void)snprintf(key, sizeof(key), PIECE_WHOLE_KEY "%s", name); /* fits */
    if (piece_read(piece, safetensors_value(&h->parsed, key), &len, err) != 0)
        return -1;
    memcpy(*names, name, len);
    (*names)[len] = '\0';
    piece->local.name = *names;
    *names += len + 1;
    return 0;
}

static uint64_t read_sum(const struct snapshot_header *h, size_t i)
{
    char key[SNAPSHOT_KEY_MAX];
    (void)snprintf(key, sizeof(key), SNAPSHOT_DATA_KEY "%s",
                   h->parsed.tensors[i].name); /* fits: read_piece */
    const char *digits = safetensors_value(&h->parsed, key);
    return digits == NULL ? 0 : XXH3_64bits(digits, strlen(digits));
}

/* The hash of all names of the save. A whole state has no such pair: it has
 * them all. */
static int read_names(struct plan_image *m,
                      const struct snapshot_header *h,
                      struct ddp_err *err)
{
    char *end;
    const char *text = safetensors_value(&h->parsed, PIECE_NAMES_KEY);
    m->all_names = 0;
    for (size_t i = 0; m->world == 0 && i < m->n; i++)
        m->all_names ^= piece_key_of(&m->pieces[i].piece).whole;
    if (m->world == 0)
        return 0;
    if (text != NULL &&
        strspn(text, "0123456789abcdef") == PIECE_NAMES_DIGITS) {
        m->all_names = strtoull(text, &end, 16);
        if (*end == '\0')
            return 0;
    }
    return ddp_err_set(err, DDP_E_CORRUPT,
                       "header: " PIECE_NAMES_KEY " is missing or wrong");
}

static int read_pieces(struct plan_image *m,
                       size_t image,
                       const struct snapshot_header *h,
                       struct ddp_err *err)
{
    size_t n = h->parsed.ntensors, bytes = 1;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(h->parsed.tensors[i].name) + 1;
    m->pieces = calloc(n + 1, sizeof(*m->pieces));
    m->names = malloc(bytes);
    if (m->pieces == NULL || m->names == NULL)
        return snapshot_no_memory(err);
    char *names = m->names;
    for (m->n = 0; m->n < n; m->n++) {
        struct plan_piece *piece = &m->pieces[m->n];
        *piece = (struct plan_piece){.image = image, .at = m->n};
        if (read_piece(h, m->n, &piece->piece, &names, err) != 0)
            return -1;
        piece->sum = read_sum(h, m->n);
    }
    return read_names(m, h, err);
}

/* What a header says becomes known. The lowest rank's pairs count. */
static int take_header(struct keeper_plan *p,
                       size_t image,
                       const struct snapshot_header *h,
                       struct ddp_err *err)
{
    struct plan_image *m = &p->images[image];
    const struct image_copy *c = &p->all->list[m->first];
    ddp_assert(!m->known);
    int rc = keeper_images_check(&c->offer, h, err);
    if (rc == 0)
        rc = read_pieces(m, image, h, err);
    if (rc == 0 && m->rank < p->meta_rank) {
        rc = snapshot_read_meta(h, p->meta, p->wanted->whole->nmeta, err);
        p->meta_rank = m->rank;
        p->fence = h->fence;
    }
    if (rc != 0) {
        free(m->pieces);
        free(m->names);
        m->pieces = NULL;
        m->names = NULL;
        m->n = 0;
        return -1;
    }
    memcpy(m->sum, h->fence.sum, sizeof(m->sum));
    m->known = true;
    return 0;
}

/* -- headers at hand ------------------------------------------------------- */

/* 0: this rank reads that copy. 1: not, or it is damaged. */
static int
look_at(struct keeper_plan *p, size_t image, size_t copy, struct ddp_err *err)
{
    struct snapshot_opened o;
    struct snapshot_header h;
    int rc = keeper_images_open(p->all, copy, &o, err);
    if (rc == 0 && !p->images[image].known) {
        rc = snapshot_header_read(&h, &o.from, err);
        if (rc == 0) {
            rc = take_header(p, image, &h, err);
            snapshot_header_free(&h);
        }
    }
    snapshot_close(&o);
    if (rc >= 0 || !keeper_images_is_damage(err))
        return rc;
    /* What another rank offers it looks at by itself. */
    struct ddp_err why = *err;
    if (p->all->list[copy].holder == p->all->k->comm->rank &&
        keeper_images_strike(p->all, copy, &why, err) != 0)
        return -1;
    return 1;
}

int keeper_headers_look(struct keeper_plan *p, struct ddp_err *err)
{
    for (size_t i = 0; i < p->nimages; i++) {
        struct plan_image *m = &p->images[i];
        m->near = SIZE_MAX;
        for (size_t c = m->first;
             m->near == SIZE_MAX && c < m->first + m->copies; c++) {
            int rc = p->all->list[c].struck ? 1 : look_at(p, i, c, err);
            if (rc < 0)
                return -1;
            if (rc == 0)
                m->near = c;
        }
    }
    return 0;
}

/* -- headers of others ----------------------------------------------------- */

/* Before each header that is sent. */
struct sent_header {
    int64_t image;
    int64_t size; /* of the whole image */
    int64_t len;
};

/* A header in memory, which its own length must not lead out of. */
struct header_bytes {
    const uint8_t *data;
    uint64_t len;
};

static int read_header_bytes(
    void *ctx, uint8_t *data, size_t len, uint64_t at, struct ddp_err *err)
{
    const struct header_bytes *b = ctx;
    if (at > b->len || len > b->len - at)
        return ddp_err_set(err, DDP_E_CORRUPT, "the header ends too early");
    memcpy(data, b->data + at, len);
    return 0;
}

/* A copy whose header cannot be read any more is struck; nothing is sent. */
static int put_header(struct keeper_plan *p,
                      size_t image,
                      size_t copy,
                      struct buf *out,
                      struct ddp_err *err)
{
    struct snapshot_opened o;
    struct snapshot_header h;
    struct ddp_err why;
    int rc = keeper_images_open(p->all, copy, &o, &why);
    if (rc == 1)
        (void)ddp_err_set(&why, DDP_E_CORRUPT, "it has gone");
    if (rc == 0)
        rc = snapshot_header_read(&h, &o.from, &why);
    if (rc == 0) {
        const struct sent_header before = {.image = (int64_t)image,
                                           .size = (int64_t)o.from.size,
                                           .len = (int64_t)h.len};
        if (buf_put(out, &before, sizeof(before)) != 0 ||
            buf_put(out, h.bytes, h.len) != 0)
            rc = snapshot_no_memory(err);
        snapshot_header_free(&h);
        snapshot_close(&o);
        return rc;
    }
    snapshot_close(&o);
    if (keeper_images_is_damage(&why))
        return keeper_images_strike(p->all, copy, &why, err);
    *err = why;
    return -1;
}

/* Of each image that this rank holds the first copy of. */
static int
put_headers(struct keeper_plan *p, struct buf *out, struct ddp_err *err)
{
    for (size_t i = 0; i < p->nimages; i++) {
        size_t copy = keeper_plan_far(p, &p->images[i]);
        if (copy == SIZE_MAX ||
            p->all->list[copy].holder != p->all->k->comm->rank)
            continue;
        if (put_header(p, i, copy, out, err) != 0)
            return -1;
    }
    return 0;
}

/* What makes no sense leaves its image unknown: it counts as lost. */
static int take_words(struct keeper_plan *p,
                      const uint8_t *words,
                      uint64_t left,
                      struct ddp_err *err)
{
    struct sent_header s;
    for (; left >= sizeof(s); words += s.len, left -= (uint64_t)s.len) {
        memcpy(&s, words, sizeof(s));
        words += sizeof(s);
        left -= sizeof(s);
        if (s.image < 0 || (uint64_t)s.image >= p->nimages || s.size < 0 ||
            s.len < 0 || (uint64_t)s.len > left)
            return 0;
        if (p->images[s.image].known)
            continue;
        struct header_bytes b = {words, (uint64_t)s.len};
        struct snapshot_source from = {read_header_bytes, &b, (uint64_t)s.size};
        struct snapshot_header h;
        int rc = snapshot_header_read(&h, &from, err);
        if (rc == 0) {
            rc = take_header(p, (size_t)s.image, &h, err);
            snapshot_header_free(&h);
        }
        if (rc != 0 && !keeper_images_is_damage(err))
            return -1;
    }
    return 0;
}

int keeper_headers_exchange(struct keeper_plan *p, struct ddp_err *err)
{
    struct ddp_comm *comm = p->all->k->comm;
    struct buf mine;
    struct keeper_words w;
    buf_init(&mine, (size_t)1 << 32);
    int rc = put_headers(p, &mine, err);
    rc = keeper_collect(comm, rc, buf_head(&mine), buf_len(&mine), &w, err);
    if (rc == 0) {
        uint64_t at = 0;
        for (int r = 0; rc == 0 && r < comm->world; at += w.lens[r++])
            if (w.lens[r] > 0)
                rc = take_words(p, w.all + at, w.lens[r], err);
        rc = keeper_agree(comm, rc, err);
    }
    buf_free(&mine);
    keeper_words_free(&w);
    return rc;
}
