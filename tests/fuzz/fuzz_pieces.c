/* links: RT */
/* libs: -lcjson -lxxhash */
/*
 * Two images of pieces in the memory of a rank that is alone, and a load of
 * them. The first byte says whether they are of whole states. Before each image
 * stand five bytes: rank, world less one, the length of the data, which is all
 * zeros, in units of 8 bytes, and in two bytes that of the header. The
 * checksums are put right, or no image would get any further. What is loaded
 * must be zeros, without a hole.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/keeper/keeper_gather.h"

#define INSTANCE   "0123456789abcdef0123456789abcdef"
#define ROOM       ((size_t)1 << 15) /* of an image */
#define HEADER_MAX 20000
#define WANTED     ((size_t)1 << 20) /* bytes in all */
#define STEP       5

/* -- a world of one -------------------------------------------------------- */

static int call_alone(struct ddp_comm *c,
                      const struct comm_call *call,
                      struct ddp_err *err)
{
    (void)c;
    (void)err;
    if (call->kind == WIRE_ALLGATHER)
        memcpy(call->out, call->in, comm_call_len(call));
    return 0;
}

static const struct comm_ops alone = {.call = call_alone};

/* -- images ---------------------------------------------------------------- */

/* The digits behind the key of a pair, as far as the text has them. */
static char *find_digits(char *text, const char *name)
{
    char key[SNAPSHOT_KEY_MAX + 8];
    (void)snprintf(key, sizeof(key), "\"" SNAPSHOT_DATA_KEY "%s\":\"",
                   name); /* fits: the caller looks */
    char *at = strstr(text, key);
    if (at == NULL || strlen(at + strlen(key)) < SNAPSHOT_DIGITS)
        return NULL;
    return at + strlen(key);
}

static void put_sums(char *text, size_t len, uint64_t data_len)
{
    static const uint8_t zeros[ROOM];
    struct safetensors st;
    struct ddp_err err;
    if (safetensors_parse((uint8_t *)text, len, data_len, &st, &err) != 0)
        return;
    for (size_t i = 0; i < st.ntensors; i++) {
        const struct safetensor *t = &st.tensors[i];
        char digits[SNAPSHOT_DIGITS + 1];
        char *at =
            strlen(t->name) < DDP_NAME_MAX ? find_digits(text, t->name) : NULL;
        snapshot_hex(digits, XXH3_128bits(zeros, (size_t)(t->end - t->begin)));
        if (at != NULL)
            memcpy(at, digits, SNAPSHOT_DIGITS);
    }
    safetensors_free(&st);
}

/* An image in slot i; false: there is no more. Both are of one save. */
static bool
put_image(struct mem_slots *m, int i, bool whole, struct fuzz_in *in)
{
    struct slot_label label = {
        .step = STEP, .round = 1, .save = !whole, .instance = INSTANCE};
    char digits[SNAPSHOT_DIGITS + 1];
    struct ddp_err err;
    size_t got;
    label.rank = fuzz_u8(in);
    label.world = fuzz_u8(in);
    label.world = whole ? 0 : label.world + 1;
    label.rank = whole ? 0 : label.rank % label.world;
    uint64_t data_len = fuzz_u8(in) * UINT64_C(8);
    const uint8_t *rest = fuzz_bytes(in, fuzz_u16(in) % HEADER_MAX, &got);
    uint8_t *image = mem_slots_image(m, i);
    if (got == 0)
        return false;
    ddp_assert(mem_slots_reserve(m, i, ROOM, &err) == 0);
    memset(image, 0, ROOM);
    char *text = (char *)image + 8;
    memcpy(text, SNAPSHOT_BEGIN SNAPSHOT_NO_DIGITS,
           SNAPSHOT_BEGIN_LEN + SNAPSHOT_DIGITS);
    memcpy(text + SNAPSHOT_BEGIN_LEN + SNAPSHOT_DIGITS, rest, got);
    uint64_t len = SNAPSHOT_BEGIN_LEN + SNAPSHOT_DIGITS + got;
    for (size_t b = 0; b < 8; b++)
        image[b] = (uint8_t)(len >> (8 * b));
    put_sums(text, len, data_len);
    XXH3_state_t *state = XXH3_createState();
    ddp_assert(state != NULL);
    snapshot_header_hex(digits, state, image, 8 + len);
    (void)XXH3_freeState(state); /* cannot fail */
    memcpy(image + SNAPSHOT_DIGITS_AT, digits, SNAPSHOT_DIGITS);
    label.len = 8 + len + data_len;
    mem_slots_label(m, i, &label);
    return true;
}

/* -- what is wanted -------------------------------------------------------- */

struct wanted {
    uint8_t *data; /* WANTED bytes of 0xee .. */
    size_t used;   /* .. of which so many are wanted */
};

/* The tensor's first and last corner, all of it if it is small. */
static bool
want(void *ctx, const struct ddp_tensor *whole, size_t i, struct ddp_piece *w)
{
    struct wanted *all = ctx;
    for (int d = 0; d < whole->dims; d++) {
        uint64_t most = i == 0 ? 5 : 3, n = whole->shape[d];
        w->local.shape[d] = n < most ? n : most;
        w->offset[d] = i == 0 ? 0 : n - w->local.shape[d];
    }
    uint64_t len = ddp_tensor_len(&w->local);
    if (i > 1 || len > WANTED - all->used)
        return false;
    w->local.data = all->data + all->used;
    all->used += (size_t)len;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    struct ddp d = {.world = 1,
                    .local_world = 1,
                    .memory_fd = -1,
                    .fence = 1,
                    .instance = INSTANCE};
    struct ddp_comm comm = {.ops = &alone, .world = 1};
    struct ddp_keeper k = {.d = &d, .comm = &comm};
    struct ddp_kv kv = {.key = "step"};
    const struct snapshot_wanted whole = {.meta = &kv, .nmeta = 1};
    struct wanted wanted = {.data = malloc(WANTED)};
    const struct gather_wanted w = {&whole, want, &wanted};
    struct ddp_kept info = {.size = 0};
    struct ddp_err err = {.code = DDP_E_OK};
    k.dir.fd = -1;
    ddp_assert(wanted.data != NULL);
    ddp_assert(mem_slots_make(&k.memory, ROOM, &err) == 0);
    memset(wanted.data, 0xee, WANTED);
    bool is_whole = fuzz_u8(&in) % 2 == 1;
    for (int i = 0; i < k.memory.count; i++)
        if (!put_image(&k.memory, i, is_whole, &in))
            break;
    int rc = keeper_gather(&k, &w, &info, &err);
    ddp_assert(rc == 0 || err.code == DDP_E_CORRUPT ||
               err.code == DDP_E_CONFIG || err.code == DDP_E_NOINPUT);
    for (size_t i = 0; rc == 0 && i < wanted.used; i++)
        ddp_assert(wanted.data[i] == 0);
    ddp_assert(rc != 0 || info.step == STEP);
    mem_slots_close(&k.memory);
    free(wanted.data);
    return 0;
}
