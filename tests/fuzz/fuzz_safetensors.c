/* links: worker_rt/snapshot/safetensors */
/* links: rendezvous/base/{buf,utf8,err,rng,json} worker_rt/comm/reduce */
/* libs: -lcjson */
/*
 * The header of a safetensors file. The first two bytes are the length of the
 * file's data, the others its JSON. What is accepted must be whole (no gap, no
 * overlap, no name twice), and once written must read as the same.
 */
#include "tests/fuzz/fuzz.h"
#include "worker_rt/snapshot/safetensors.h"

static void check_whole(const struct safetensors *st, uint64_t data_len)
{
    uint64_t at = 0;
    for (size_t i = 0; i < st->ntensors; i++) {
        const struct safetensor *t = &st->tensors[i];
        uint64_t len;
        ddp_assert(t->dims >= 0 && t->dims <= DDP_DIMS_MAX);
        ddp_assert(safetensors_len(t->dtype, t->dims, t->shape, &len) == 0);
        ddp_assert(t->begin == at && t->end - t->begin == len);
        for (size_t j = 0; j < i; j++)
            ddp_assert(strcmp(st->tensors[j].name, t->name) != 0);
        ddp_assert(strcmp(t->name, "__metadata__") != 0);
        at = t->end;
    }
    ddp_assert(at == data_len);
    for (size_t i = 0; i < st->npairs; i++)
        ddp_assert(safetensors_value(st, st->pairs[i].key) ==
                   st->pairs[i].value);
}

static void check_same(const struct safetensors *a, const struct safetensors *b)
{
    ddp_assert(a->ntensors == b->ntensors && a->npairs == b->npairs);
    for (size_t i = 0; i < a->ntensors; i++) {
        const struct safetensor *t = &a->tensors[i];
        const struct safetensor *u = &b->tensors[i];
        ddp_assert(strcmp(u->name, t->name) == 0 && u->dtype == t->dtype &&
                   u->dims == t->dims && u->begin == t->begin &&
                   u->end == t->end);
        for (int d = 0; d < t->dims; d++)
            ddp_assert(t->shape[d] == u->shape[d]);
    }
    for (size_t i = 0; i < a->npairs; i++) {
        const char *value = safetensors_value(b, a->pairs[i].key);
        ddp_assert(value != NULL && strcmp(value, a->pairs[i].value) == 0);
    }
}

static void check_again(const struct safetensors *st, uint64_t data_len)
{
    struct safetensors again;
    struct ddp_err err;
    struct buf out;
    buf_init(&out, SAFETENSORS_HEADER_MAX);
    ddp_assert(safetensors_write(&out, st->tensors, st->ntensors, st->pairs,
                                 st->npairs, &err) == 0);
    ddp_assert(buf_len(&out) % SAFETENSORS_ALIGN == 0);
    ddp_assert(safetensors_parse(buf_head(&out) + 8, buf_len(&out) - 8,
                                 data_len, &again, &err) == 0);
    check_whole(&again, data_len);
    check_same(st, &again);
    safetensors_free(&again);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    struct safetensors st;
    struct ddp_err err;
    if (size < 2)
        return 0;
    uint64_t data_len = fuzz_u16(&in);
    if (safetensors_parse(in.at, in.left, data_len, &st, &err) != 0) {
        ddp_assert(err.code == DDP_E_CORRUPT || err.code == DDP_E_CONFIG);
        ddp_assert(err.text[0] != '\0');
        return 0;
    }
    check_whole(&st, data_len);
    check_again(&st, data_len);
    safetensors_free(&st);
    return 0;
}
