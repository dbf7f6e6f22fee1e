/*
 * A frame is the length of its data (4 bytes), its kind (1), rank (4) and
 * number (8), in the order of this machine, and its data.
 */
#include "launcher/mpi/pmix_frame.h"

#include <string.h>

#include "rendezvous/base/err.h"

#define HEAD 17

int pmix_frame_put(struct buf *out, const struct pmix_frame *f)
{
    ddp_assert(f->len <= PMIX_FRAME_MAX && f->kind < PMIX_KINDS);
    uint32_t len = (uint32_t)f->len;
    uint8_t *at = buf_reserve(out, HEAD + f->len);
    if (at == NULL)
        return -1;
    memcpy(at, &len, 4);
    at[4] = (uint8_t)f->kind;
    memcpy(at + 5, &f->rank, 4);
    memcpy(at + 9, &f->number, 8);
    if (len > 0)
        memcpy(at + HEAD, f->data, len);
    buf_commit(out, HEAD + f->len);
    return 0;
}

enum pmix_frame_result
pmix_frame_get(const void *in, size_t have, struct pmix_frame *f, size_t *used)
{
    const uint8_t *at = in;
    uint32_t len;
    if (have < HEAD)
        return PMIX_FRAME_MORE;
    memcpy(&len, at, 4);
    if (len > PMIX_FRAME_MAX || at[4] >= PMIX_KINDS)
        return PMIX_FRAME_BAD;
    if (have - HEAD < len)
        return PMIX_FRAME_MORE;
    *f = (struct pmix_frame){.kind = (enum pmix_kind)at[4],
                             .data = (const char *)at + HEAD,
                             .len = len};
    memcpy(&f->rank, at + 5, 4);
    memcpy(&f->number, at + 9, 8);
    *used = HEAD + len;
    return PMIX_FRAME_DONE;
}

int64_t pmix_frame_pair(int64_t small, uint32_t other)
{
    ddp_assert(small >= 0 && small <= INT32_MAX);
    return (int64_t)((uint64_t)small << 32 | other);
}

int64_t pmix_frame_small(int64_t pair)
{
    return (int64_t)((uint64_t)pair >> 32);
}

uint32_t pmix_frame_other(int64_t pair)
{
    return (uint32_t)((uint64_t)pair & UINT32_MAX);
}

bool pmix_frame_name(const struct pmix_frame *f,
                     const char **name,
                     size_t *name_len,
                     const char **value,
                     size_t *value_len)
{
    const char *nul = f->len == 0 ? NULL : memchr(f->data, '\0', f->len);
    if (nul == NULL || nul == f->data)
        return false;
    *name = f->data;
    *name_len = (size_t)(nul - f->data);
    *value = nul + 1;
    *value_len = f->len - *name_len - 1;
    return true;
}
