/*
 * worker_rt/snapshot/snapshot: what making and reading an image share, and
 * numbers as text.
 */
#include "worker_rt/snapshot/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_rt/rt.h"

_Static_assert(sizeof(SNAPSHOT_NO_DIGITS) == SNAPSHOT_DIGITS + 1,
               "as many digits");
_Static_assert(sizeof(XXH128_canonical_t) * 2 == SNAPSHOT_DIGITS, "of a sum");

void snapshot_hex(char out[SNAPSHOT_DIGITS + 1], XXH128_hash_t hash)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, hash);
    for (size_t i = 0; i < sizeof(c.digest); i++)
        (void)snprintf(out + 2 * i, 3, "%02x", c.digest[i]); /* two digits */
}

/* The sum cannot cover its own digits: it is taken with zeros in their place.
 */
void snapshot_header_hex(char out[SNAPSHOT_DIGITS + 1],
                         XXH3_state_t *state,
                         const uint8_t *data,
                         size_t len)
{
    size_t behind = SNAPSHOT_DIGITS_AT + SNAPSHOT_DIGITS;
    ddp_assert(len > behind);
    (void)XXH3_128bits_reset(state); /* these cannot fail on valid memory */
    (void)XXH3_128bits_update(state, data, SNAPSHOT_DIGITS_AT);
    (void)XXH3_128bits_update(state, SNAPSHOT_NO_DIGITS, SNAPSHOT_DIGITS);
    (void)XXH3_128bits_update(state, data + behind, len - behind);
    snapshot_hex(out, XXH3_128bits_digest(state));
}

int snapshot_no_memory(struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_NOMEM, "no memory for a snapshot");
}

int snapshot_grow(
    void *list, size_t n, size_t *cap, size_t each, struct ddp_err *err)
{
    size_t more = *cap == 0 ? 16 : 2 * *cap;
    void *grown;
    if (n < *cap)
        return 0;
    memcpy(&grown, list, sizeof(grown)); /* of whatever type it points to */
    grown = realloc(grown, more * each);
    if (grown == NULL)
        return snapshot_no_memory(err);
    memcpy(list, &grown, sizeof(grown));
    *cap = more;
    return 0;
}

struct ddp_tensor snapshot_tensor(const struct safetensor *t)
{
    struct ddp_tensor made = {
        .name = t->name, .dtype = t->dtype, .dims = t->dims};
    _Static_assert(sizeof(made.shape) == sizeof(t->shape), "all dims");
    memcpy(made.shape, t->shape, sizeof(made.shape));
    return made;
}

int snapshot_check_names(const struct ddp_tensor *t,
                         size_t n,
                         struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (t[i].name != NULL && strcmp(t[i].name, SNAPSHOT_RANKS) == 0)
            return ddp_err_set(err, DDP_E_USAGE,
                               "tensor %zu has the name '%s', which is "
                               "libddp's own: choose another one",
                               i, t[i].name);
    return 0;
}

int snapshot_check_tensors(const struct ddp_tensor *t,
                           size_t n,
                           struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (t[i].name == NULL || strlen(t[i].name) >= DDP_NAME_MAX)
            return ddp_err_set(
                err, DDP_E_USAGE,
                "tensor %zu has no name, or its name is too long", i);
        if (t[i].data == NULL && ddp_tensor_len(&t[i]) > 0)
            return ddp_err_set(err, DDP_E_USAGE, "tensor '%.80s' has no data",
                               t[i].name);
    }
    return 0;
}

/* -- pairs ----------------------------------------------------------------- */

void ddp_kv_set_i64(struct ddp_kv *kv, const char *key, int64_t value)
{
    kv->key = key;
    (void)snprintf(kv->value, /* 20 digits */
                   sizeof(kv->value), "%lld", (long long)value);
}

/* The whole text or nothing: no blank before it, nothing behind it. */
int ddp_kv_get_i64(const struct ddp_kv *kv,
                   int64_t *value,
                   struct ddp_error *err)
{
    char *end;
    errno = 0;
    const char *text = kv->value;
    bool begins = *text == '-' || (*text >= '0' && *text <= '9');
    long long n = strtoll(text, &end, 10);
    if (begins && errno == 0 && *end == '\0' && end != text) {
        *value = n;
        return 0;
    }
    struct ddp_err why;
    (void)ddp_err_set(&why, DDP_E_USAGE, "%s is '%.64s', which is not a number",
                      kv->key, text);
    return rt_fail(err, &why);
}
