/*
 * worker_rt/snapshot/safetensors: cJSON, kept on a short lead. It takes
 * trailing garbage, keys that come twice, \u0000 in the middle of a string, and
 * numbers with more digits than a double holds; and it spends some 64 bytes on
 * each value of the text. So the text is looked at before it is parsed, and
 * what comes out is looked at after.
 *
 * Happy path of a parse: look_over, parse_text, read_all, check_places,
 * check_names. Of a write: place decides where each tensor lies, write makes
 * the header.
 *
 * Failure modes: a header that is cut, damaged or made by an enemy (CORRUPT,
 * with the name of the tensor); a dtype that is not known (CONFIG); names that
 * no header can have (USAGE, in write only); no memory.
 */
#include "worker_rt/snapshot/safetensors.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/json.h"
#include "rendezvous/base/utf8.h"
#include "worker_rt/comm/reduce.h"

#define META      "__metadata__"
#define EXACT_MAX 9007199254740992.0 /* 2^53: a double counts up to here */

/* A header's values: at most DDP_DIMS_MAX + 8 for each tensor. At 64 bytes each
 * cJSON then holds 64 MiB at most, whatever the text is. */
#define VALUES_MAX (SAFETENSORS_TENSORS_MAX * (DDP_DIMS_MAX + 8))

/* A product that overflows is refused, also if a dimension of 0 comes behind:
 * the order of dimensions must not matter. A quarter of the range leaves room
 * to add such lengths up. */
int safetensors_len(enum ddp_dtype dtype,
                    int dims,
                    const uint64_t *shape,
                    uint64_t *len)
{
    uint64_t n = ddp_dtype_size(dtype);
    bool empty = false;
    if (n == 0 || dims < 0 || dims > DDP_DIMS_MAX)
        return -1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] == 0)
            empty = true;
        else if (n > (UINT64_MAX >> 2) / shape[i])
            return -1;
        else
            n *= shape[i];
    }
    *len = empty ? 0 : n;
    return 0;
}

uint64_t ddp_tensor_len(const struct ddp_tensor *t)
{
    uint64_t len;
    return safetensors_len(t->dtype, t->dims, t->shape, &len) == 0 ? len : 0;
}

/* -- text ------------------------------------------------------------------ */

/* As JSON must be. Control characters may come: the writer escapes them. */
static bool is_utf8(const char *text)
{
    bool control;
    size_t n;
    do {
        while (*text != '\0' && (*text & 0x80) == 0) /* nearly all of it */
            text++;
        n = utf8_char(text, &control);
        text += n;
    } while (n > 0);
    return *text == '\0';
}

/* -- reading --------------------------------------------------------------- */

static int bad(struct ddp_err *err, const char *what, const char *name)
{
    return ddp_err_set(err, DDP_E_CORRUPT, "header: %s%s%.80s%s", what,
                       name[0] == '\0' ? "" : " '", name,
                       name[0] == '\0' ? "" : "'");
}

/* Before the parser: what it would mistake, or spend too much on. */
static int look_over(const uint8_t *text, size_t len, struct ddp_err *err)
{
    size_t values = 0;
    if (len == 0 || len > SAFETENSORS_HEADER_MAX)
        return bad(err, "it is empty or longer than 100 MB", "");
    if (text[0] != '{')
        return bad(err, "it does not begin with '{'", "");
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ',' || text[i] == '[' || text[i] == '{')
            values++;
        if (text[i] == '\0' || (text[i] == '\\' && len - i >= 6 &&
                                memcmp(text + i, "\\u0000", 6) == 0))
            return bad(err, "it contains a NUL", "");
    }
    if (values > VALUES_MAX)
        return bad(err, "it has too many values", "");
    return 0;
}

static cJSON *parse_text(const uint8_t *text, size_t len, struct ddp_err *err)
{
    /* Behind the text cJSON wants a NUL, or it takes garbage there. */
    char *copy = malloc(len + 1);
    if (copy == NULL) {
        (void)ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
        return NULL;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    ddp_assert(strlen(copy) == len); /* look_over */
    cJSON *json = NULL;
    if (!is_utf8(copy))
        (void)bad(err, "it is not UTF-8", "");
    else if ((json = cJSON_ParseWithLengthOpts(copy, len + 1, NULL, 1)) == NULL)
        (void)bad(err, "it is not JSON", "");
    free(copy);
    return json;
}

/* cJSON has all numbers as doubles: a whole one, and not one that was rounded.
 */
static int exact(const cJSON *item, uint64_t *value)
{
    if (!cJSON_IsNumber(item))
        return -1;
    double n = item->valuedouble;
    if (!(n >= 0 && n <= EXACT_MAX) || n != (double)(uint64_t)n)
        return -1;
    *value = (uint64_t)n;
    return 0;
}

/* One that is not known is no damage: what wrote it is newer than this, or
 * another program. */
static int
read_dtype(const cJSON *name, struct safetensor *t, struct ddp_err *err)
{
    if (!cJSON_IsString(name))
        return bad(err, "a dtype that is not a string for", t->name);
    for (int i = 1; ddp_dtype_size((enum ddp_dtype)i) > 0; i++)
        if (strcmp(name->valuestring, reduce_dtype_name(i)) == 0) {
            t->dtype = (enum ddp_dtype)i;
            return 0;
        }
    return ddp_err_set(err, DDP_E_CONFIG,
                       "tensor '%.80s' has the dtype '%.16s', which this "
                       "libddp does not know: use a newer one",
                       t->name, name->valuestring);
}

/* An empty list is a scalar; a dimension may be 0. */
static int
read_shape(const cJSON *list, struct safetensor *t, struct ddp_err *err)
{
    const cJSON *item;
    if (!cJSON_IsArray(list))
        return bad(err, "a shape that is not a list for", t->name);
    cJSON_ArrayForEach(item, list)
    {
        if (t->dims == DDP_DIMS_MAX)
            return bad(err, "more dimensions than libddp supports for",
                       t->name);
        if (exact(item, &t->shape[t->dims++]) != 0)
            return bad(err, "a bad number in the shape of", t->name);
    }
    return 0;
}

/* Nothing is believed twice: the length by the offsets must be that by dtype
 * and shape. */
static int
read_offsets(const cJSON *list, struct safetensor *t, struct ddp_err *err)
{
    uint64_t len;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 2 ||
        exact(list->child, &t->begin) != 0 ||
        exact(list->child->next, &t->end) != 0 || t->begin > t->end)
        return bad(err, "bad offsets for", t->name);
    if (safetensors_len(t->dtype, t->dims, t->shape, &len) != 0 ||
        len != t->end - t->begin)
        return bad(err, "offsets that do not fit dtype and shape for", t->name);
    return 0;
}

/* Exactly the three fields; a fourth, or one twice, is refused. */
static int
read_tensor(const cJSON *item, struct safetensor *t, struct ddp_err *err)
{
    const cJSON *dtype = NULL, *shape = NULL, *offsets = NULL, *field;
    int fields = 0;
    t->name = item->string;
    if (!cJSON_IsObject(item))
        return bad(err, "a description that is not an object for", t->name);
    cJSON_ArrayForEach(field, item)
    {
        fields++;
        if (strcmp(field->string, "dtype") == 0)
            dtype = field;
        else if (strcmp(field->string, "shape") == 0)
            shape = field;
        else if (strcmp(field->string, "data_offsets") == 0)
            offsets = field;
    }
    if (fields != 3 || dtype == NULL || shape == NULL || offsets == NULL)
        return bad(err, "other fields than dtype, shape and data_offsets for",
                   t->name);
    if (read_dtype(dtype, t, err) != 0 || read_shape(shape, t, err) != 0)
        return -1;
    return read_offsets(offsets, t, err);
}

static int by_key(const void *a, const void *b)
{
    const struct safetensors_pair *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static int by_name(const void *a, const void *b)
{
    const struct safetensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Empty tensors may share an offset with another's begin: they come first. */
static int by_place(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* -1 with `code` if a name is there twice. */
static int check_names(const struct safetensor *tensors,
                       size_t n,
                       enum ddp_code code,
                       struct ddp_err *err)
{
    int rc = 0;
    const struct safetensor **sorted = calloc(n + 1, sizeof(*sorted));
    if (sorted == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
    for (size_t i = 0; i < n; i++)
        sorted[i] = &tensors[i];
    qsort(sorted, n, sizeof(*sorted), by_name);
    for (size_t i = 1; i < n && rc == 0; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            rc = ddp_err_set(err, code, "tensor '%.80s' is there twice",
                             sorted[i]->name);
    free(sorted);
    return rc;
}

/* Sorts the pairs by key, too: safetensors_value looks them up. */
static int check_keys(struct safetensors_pair *pairs,
                      size_t n,
                      enum ddp_code code,
                      struct ddp_err *err)
{
    qsort(pairs, n, sizeof(*pairs), by_key);
    for (size_t i = 1; i < n; i++)
        if (strcmp(pairs[i - 1].key, pairs[i].key) == 0)
            return ddp_err_set(err, code, "key '%.80s' is there twice",
                               pairs[i].key);
    return 0;
}

/* The format allows strings only, so a number there is damage. */
static int
read_pairs(const cJSON *map, struct safetensors *st, struct ddp_err *err)
{
    const cJSON *item;
    if (!cJSON_IsObject(map))
        return bad(err, "a value that is not an object for", META);
    size_t n = (size_t)cJSON_GetArraySize(map);
    st->pairs = calloc(n + 1, sizeof(*st->pairs));
    if (st->pairs == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
    cJSON_ArrayForEach(item, map)
    {
        if (!cJSON_IsString(item))
            return bad(err, "a value that is not a string in " META " for",
                       item->string);
        st->pairs[st->npairs++] =
            (struct safetensors_pair){item->string, item->valuestring};
    }
    return check_keys(st->pairs, n, DDP_E_CORRUPT, err);
}

/* From 0 to the data's end without a hole, as the format wants it: so a file
 * has no bytes that no checksum covers. */
static int
check_places(struct safetensors *st, uint64_t data_len, struct ddp_err *err)
{
    uint64_t at = 0;
    qsort(st->tensors, st->ntensors, sizeof(*st->tensors), by_place);
    for (size_t i = 0; i < st->ntensors; i++) {
        if (st->tensors[i].begin != at)
            return bad(err, "a hole or an overlap in the data before",
                       st->tensors[i].name);
        at = st->tensors[i].end;
    }
    if (at != data_len)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "the file has %" PRIu64 " bytes of data, but its "
                           "header says %" PRIu64,
                           data_len, at);
    return 0;
}

/* All tensors, and the pairs wherever they stand. The strings stay cJSON's. */
static int read_all(struct safetensors *st, struct ddp_err *err)
{
    const cJSON *json = st->json, *item;
    size_t n = (size_t)cJSON_GetArraySize(json);
    if (!cJSON_IsObject(json) || n > SAFETENSORS_TENSORS_MAX)
        return bad(err, "it is not an object, or has too many tensors", "");
    st->tensors = calloc(n + 1, sizeof(*st->tensors));
    if (st->tensors == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
    cJSON_ArrayForEach(item, json)
    {
        if (strcmp(item->string, META) != 0) {
            if (read_tensor(item, &st->tensors[st->ntensors], err) != 0)
                return -1;
            st->ntensors++;
        } else if (st->pairs != NULL) {
            return ddp_err_set(err, DDP_E_CORRUPT,
                               "header: " META " is there twice");
        } else if (read_pairs(item, st, err) != 0) {
            return -1;
        }
    }
    return 0;
}

int safetensors_parse(const uint8_t *json,
                      size_t len,
                      uint64_t data_len,
                      struct safetensors *out,
                      struct ddp_err *err)
{
    *out = (struct safetensors){0};
    if (look_over(json, len, err) != 0)
        return -1;
    out->json = parse_text(json, len, err);
    if (out->json == NULL)
        return -1;
    if (read_all(out, err) == 0 && check_places(out, data_len, err) == 0 &&
        check_names(out->tensors, out->ntensors, DDP_E_CORRUPT, err) == 0)
        return 0;
    safetensors_free(out);
    return -1;
}

void safetensors_free(struct safetensors *st)
{
    cJSON_Delete(st->json);
    free(st->tensors);
    free(st->pairs);
    *st = (struct safetensors){0};
}

const char *safetensors_value(const struct safetensors *st, const char *key)
{
    struct safetensors_pair wanted = {.key = key};
    const struct safetensors_pair *found =
        st->npairs == 0 ? NULL
                        : bsearch(&wanted, st->pairs, st->npairs,
                                  sizeof(*st->pairs), by_key);
    return found == NULL ? NULL : found->value;
}

/* -- writing --------------------------------------------------------------- */

static void
put_list(struct json *j, const char *key, const uint64_t *n, int len)
{
    json_open(j, key, '[');
    for (int i = 0; i < len; i++)
        json_int(j, NULL, (int64_t)n[i]); /* below 2^62: safetensors_len */
    json_close(j, ']');
}

/* The pairs before all tensors, in the caller's order: the header's checksum
 * must be found at a fixed place before anything is parsed (snapshot.h). False:
 * the buffer is full, or there is no memory. */
static bool put_all(struct buf *out,
                    const struct safetensor *tensors,
                    size_t ntensors,
                    const struct safetensors_pair *pairs,
                    size_t npairs)
{
    struct json j;
    json_init(&j, out);
    json_open(&j, NULL, '{');
    json_open(&j, META, '{');
    for (size_t i = 0; i < npairs; i++)
        json_text(&j, pairs[i].key, pairs[i].value);
    json_close(&j, '}');
    for (size_t i = 0; i < ntensors; i++) {
        const struct safetensor *t = &tensors[i];
        const uint64_t place[2] = {t->begin, t->end};
        ddp_assert(ddp_dtype_size(t->dtype) > 0 && t->dims <= DDP_DIMS_MAX);
        ddp_assert(t->begin <= t->end);
        json_open(&j, t->name, '{');
        json_text(&j, "dtype", reduce_dtype_name((int64_t)t->dtype));
        put_list(&j, "shape", t->shape, t->dims);
        put_list(&j, "data_offsets", place, 2);
        json_close(&j, '}');
    }
    json_close(&j, '}');
    return !j.full;
}

static int check_text(const char *what, const char *s, struct ddp_err *err)
{
    if (s != NULL && is_utf8(s))
        return 0;
    return ddp_err_set(err, DDP_E_USAGE, "%s is not valid UTF-8", what);
}

int safetensors_check_name(const char *name, struct ddp_err *err)
{
    if (check_text("a tensor's name", name, err) != 0)
        return -1;
    if (strcmp(name, META) == 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "a tensor must not be named " META);
    return 0;
}

/* What the program passed: everything that our own reader would refuse. */
static int check_what(const struct safetensor *tensors,
                      size_t ntensors,
                      const struct safetensors_pair *pairs,
                      size_t npairs,
                      struct ddp_err *err)
{
    if (ntensors >= SAFETENSORS_TENSORS_MAX)
        return ddp_err_set(err, DDP_E_USAGE, "too many tensors");
    for (size_t i = 0; i < npairs; i++)
        if (check_text("a key", pairs[i].key, err) != 0 ||
            check_text("a value", pairs[i].value, err) != 0)
            return -1;
    for (size_t i = 0; i < ntensors; i++)
        if (safetensors_check_name(tensors[i].name, err) != 0)
            return -1;
    int rc = check_names(tensors, ntensors, DDP_E_USAGE, err);
    struct safetensors_pair *keys = calloc(npairs + 1, sizeof(*keys));
    if (rc == 0 && keys == NULL)
        rc = ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
    for (size_t i = 0; i < npairs && rc == 0; i++)
        keys[i] = pairs[i];
    if (rc == 0)
        rc = check_keys(keys, npairs, DDP_E_USAGE, err);
    free(keys);
    return rc;
}

int safetensors_write(struct buf *out,
                      const struct safetensor *tensors,
                      size_t ntensors,
                      const struct safetensors_pair *pairs,
                      size_t npairs,
                      struct ddp_err *err)
{
    static const char spaces[] = "                                "
                                 "                                ";
    uint8_t size[8] = {0}; /* filled in at the end */
    size_t before = buf_len(out);
    if (check_what(tensors, ntensors, pairs, npairs, err) != 0)
        return -1;
    if (buf_put(out, size, sizeof(size)) != 0 ||
        !put_all(out, tensors, ntensors, pairs, npairs))
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
    /* Blanks behind the JSON are part of the header, and the data is aligned.
     */
    size_t over = (buf_len(out) - before) % SAFETENSORS_ALIGN;
    if (over > 0 && buf_put(out, spaces, SAFETENSORS_ALIGN - over) != 0)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
    uint64_t len = buf_len(out) - before - sizeof(size);
    ddp_assert((len + sizeof(size)) % SAFETENSORS_ALIGN == 0);
    for (size_t i = 0; i < sizeof(size); i++)
        out->data[out->start + before + i] = (uint8_t)(len >> (8 * i));
    return 0;
}

struct placed {
    struct safetensor tensor;
    size_t index;
};

/* The widest elements first: as the data begins at a multiple of 64 and there
 * are no holes, each tensor is aligned to its elements, and can be mapped. */
static int by_size(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    size_t xs = ddp_dtype_size(x->tensor.dtype);
    size_t ys = ddp_dtype_size(y->tensor.dtype);
    if (xs != ys)
        return xs > ys ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

int safetensors_place(struct safetensor *tensors,
                      size_t *order,
                      size_t n,
                      struct ddp_err *err)
{
    uint64_t at = 0;
    struct placed *list = calloc(n + 1, sizeof(*list));
    if (list == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a header");
    for (size_t i = 0; i < n; i++)
        list[i] = (struct placed){tensors[i], i};
    qsort(list, n, sizeof(*list), by_size);
    for (size_t i = 0; i < n; i++) {
        struct safetensor *t = &list[i].tensor;
        uint64_t len;
        if (safetensors_len(t->dtype, t->dims, t->shape, &len) != 0 ||
            len > (UINT64_MAX >> 2) - at) {
            (void)ddp_err_set(err, DDP_E_USAGE,
                              "tensor '%.80s' has a bad dtype or shape",
                              t->name);
            free(list);
            return -1;
        }
        t->begin = at;
        t->end = at += len;
        ddp_assert(t->begin <= t->end);
        tensors[i] = *t;
        order[i] = list[i].index;
    }
    free(list);
    return 0;
}
