/*
 * trainer/cut: from each element on the largest box that begins there. If a run
 * begins in the midst of a row, that is the rest of the row, then come all
 * whole rows, then the beginning of the last one; and so in each dimension.
 */
#include "trainer/cut.h"

#include <string.h>

/* Shape and offset of the largest box of elements [from, to) that begins with
 * `from`; returns its elements. */
static uint64_t place_box(struct ddp_piece *p, uint64_t from, uint64_t to)
{
    int d = p->local.dims - 1;
    uint64_t row = 1; /* elements of one index of dimension d */
    while (d > 0 && from % (row * p->whole[d]) == 0 &&
           to - from >= row * p->whole[d])
        row *= p->whole[d--];
    uint64_t at = from / row, most = p->whole[d] - at % p->whole[d];
    uint64_t n = (to - from) / row;
    p->local.shape[d] = n < most ? n : most;
    uint64_t len = row * p->local.shape[d];
    for (int i = d; i >= 0; i--) {
        if (i < d)
            p->local.shape[i] = 1;
        p->offset[i] = at % p->whole[i];
        at /= p->whole[i];
    }
    return len;
}

size_t cut_pieces(const struct ddp_tensor *whole,
                  uint64_t from,
                  uint64_t to,
                  struct ddp_piece *pieces)
{
    char *data = whole->data;
    size_t n = 0;
    while (from < to) {
        struct ddp_piece *p = &pieces[n++];
        *p = (struct ddp_piece){.local = *whole};
        memcpy(p->whole, whole->shape, sizeof(p->whole));
        p->local.data = data;
        from += place_box(p, from, to);
        data += ddp_tensor_len(&p->local);
    }
    return n;
}
