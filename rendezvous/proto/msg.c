/*
 * cJSON accepts more than a protocol should (trailing bytes, duplicate keys,
 * numbers that lose digits, texts cut at an embedded NUL), so its result is
 * checked here before anything is believed.
 */
#include "rendezvous/proto/msg.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/json.h"

enum field_type {
    FIELD_STR,
    FIELD_INT,
    FIELD_TERM /* a text, as term_print has it */
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset; /* in the message's struct */
    size_t size;   /* of a text's array, NUL included */
    int64_t min, max;
    bool needed;
};

/* clang-format off */
#define MSG_BEGIN(name, sender, meaning) static const struct field name##_fields[] = {
#define MSG_STR(name, field, longest, needed, text) \
    {#field, FIELD_STR, offsetof(struct msg_##name, field), longest + 1, 0, 0, needed},
#define MSG_INT(name, field, min, max, needed, text) \
    {#field, FIELD_INT, offsetof(struct msg_##name, field), 0, min, max, needed},
#define MSG_TERM(name, field, needed, text) \
    {#field, FIELD_TERM, offsetof(struct msg_##name, field), 0, needed, 0, needed},
#define MSG_END(name) };
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END

struct kind {
    const char *name;
    enum msg_sender sender;
    const struct field *fields;
    size_t n_fields;
};

static const struct kind kinds[] = {
#define MSG_BEGIN(name, sender, meaning) \
    {#name, MSG_##sender, name##_fields, sizeof(name##_fields) / sizeof(name##_fields[0])},
#define MSG_STR(name, field, longest, needed, text)
#define MSG_INT(name, field, min, max, needed, text)
#define MSG_TERM(name, field, needed, text)
#define MSG_END(name)
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END
};
#define MSG_BEGIN(name, sender, meaning)                                       \
    _Static_assert(sizeof(name##_fields) / sizeof(name##_fields[0]) <= 64,     \
                   "take_fields keeps a bit for each");
#define MSG_STR(name, field, longest, needed, text)
#define MSG_INT(name, field, min, max, needed, text)
#define MSG_TERM(name, field, needed, text)
#define MSG_END(name)
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END
/* clang-format on */
_Static_assert(sizeof(kinds) / sizeof(kinds[0]) == MSG_KIND_COUNT,
               "one row for each message");

const char *msg_name(enum msg_kind kind)
{
    ddp_assert(kind < MSG_KIND_COUNT);
    return kinds[kind].name;
}

bool msg_is_from(enum msg_kind kind, enum msg_sender sender)
{
    ddp_assert(kind < MSG_KIND_COUNT && sender != MSG_BOTH);
    return kinds[kind].sender == sender ||
           (kinds[kind].sender == MSG_BOTH && sender != MSG_CTL);
}

/* The body of a message starts where its union does, whatever its kind. */
static uint8_t *body(struct msg *m)
{
    return (uint8_t *)m + offsetof(struct msg, join);
}

static int take_str(const struct field *f,
                    const cJSON *item,
                    uint8_t *at,
                    struct ddp_err *err)
{
    if (!cJSON_IsString(item))
        return ddp_err_set(err, DDP_E_PROTO, "%s is not a text", f->name);
    size_t len = strlen(item->valuestring);
    if (len >= f->size)
        return ddp_err_set(err, DDP_E_PROTO,
                           "%s has %zu bytes, %zu are allowed", f->name, len,
                           f->size - 1);
    memcpy(at, item->valuestring, len + 1);
    return 0;
}

static int take_int(const struct field *f,
                    const cJSON *item,
                    uint8_t *at,
                    struct ddp_err *err)
{
    if (!cJSON_IsNumber(item))
        return ddp_err_set(err, DDP_E_PROTO, "%s is not a number", f->name);
    double d = item->valuedouble;
    if (!(d >= (double)f->min && d <= (double)f->max) || d != floor(d))
        return ddp_err_set(err, DDP_E_PROTO,
                           "%s is %g, allowed are whole numbers from %lld to "
                           "%lld",
                           f->name, d, (long long)f->min, (long long)f->max);
    int64_t v = (int64_t)d;
    memcpy(at, &v, sizeof(v));
    return 0;
}

/* One that is needed counts from 1. */
static int take_term(const struct field *f,
                     const cJSON *item,
                     uint8_t *at,
                     struct ddp_err *err)
{
    struct term t;
    if (!cJSON_IsString(item) || !term_parse(&t, item->valuestring) ||
        t.count < f->min)
        return ddp_err_set(err, DDP_E_PROTO, "%s is not a term", f->name);
    memcpy(at, &t, sizeof(t));
    return 0;
}

/* The only member of that name; a second one is an error, not a choice. */
static int find_only(const cJSON *obj,
                     const char *name,
                     const cJSON **found,
                     struct ddp_err *err)
{
    *found = NULL;
    for (const cJSON *c = obj->child; c != NULL; c = c->next) {
        if (c->string == NULL || strcmp(c->string, name) != 0)
            continue;
        if (*found != NULL)
            return ddp_err_set(err, DDP_E_PROTO, "%s is there twice", name);
        *found = c;
    }
    return 0;
}

static int take_value(const struct field *f,
                      const cJSON *item,
                      uint8_t *base,
                      struct ddp_err *err)
{
    switch (f->type) {
    case FIELD_STR:
        return take_str(f, item, base + f->offset, err);
    case FIELD_INT:
        return take_int(f, item, base + f->offset, err);
    case FIELD_TERM:
        return take_term(f, item, base + f->offset, err);
    }
    DDP_WRONG("field type");
}

/* The field of that name, n_fields if none. They come in the table's order from
 * our own encoder, so that the first look, at `expected`, finds nearly all. */
static size_t
find_field(const struct kind *k, const char *name, size_t expected)
{
    for (size_t n = 0; n < k->n_fields; n++) {
        size_t i = (expected + n) % k->n_fields;
        if (strcmp(k->fields[i].name, name) == 0)
            return i;
    }
    return k->n_fields;
}

static int take_fields(const struct kind *k,
                       const cJSON *obj,
                       uint8_t *base,
                       struct ddp_err *err)
{
    uint64_t seen = 0;
    size_t next = 0;
    for (const cJSON *c = obj->child; c != NULL; c = c->next) {
        size_t i = find_field(k, c->string, next);
        if (i == k->n_fields)
            continue;
        if ((seen >> i & 1) != 0)
            return ddp_err_set(err, DDP_E_PROTO, "%s is there twice",
                               c->string);
        if (take_value(&k->fields[i], c, base, err) != 0)
            return -1;
        seen |= UINT64_C(1) << i;
        next = i + 1;
    }
    for (size_t i = 0; i < k->n_fields; i++)
        if (k->fields[i].needed && (seen >> i & 1) == 0)
            return ddp_err_set(err, DDP_E_PROTO, "%s is missing",
                               k->fields[i].name);
    return 0;
}

static int take_kind(const cJSON *obj, enum msg_kind *kind, struct ddp_err *err)
{
    const cJSON *item;
    if (find_only(obj, "kind", &item, err) != 0)
        return -1;
    if (item == NULL || !cJSON_IsString(item))
        return ddp_err_set(err, DDP_E_PROTO, "the message has no kind");
    for (*kind = 0; *kind < MSG_KIND_COUNT; (*kind)++)
        if (strcmp(kinds[*kind].name, item->valuestring) == 0)
            return 0;
    return ddp_err_set(err, DDP_E_PROTO, "there is no message '%.40s'",
                       item->valuestring);
}

static int take_object(const cJSON *obj, struct msg *out, struct ddp_err *err)
{
    if (!cJSON_IsObject(obj))
        return ddp_err_set(err, DDP_E_PROTO,
                           "the message is not a JSON object");
    memset(out, 0, sizeof(*out));
    if (take_kind(obj, &out->kind, err) != 0)
        return -1;
    const struct kind *k = &kinds[out->kind];
    if (take_fields(k, obj, body(out), err) != 0)
        return ddp_err_wrap(err, "%s", k->name);
    return 0;
}

/*
 * Whether there is a NUL, raw or escaped: it would cut a text short unseen. A
 * backslash that is itself escaped escapes nothing: "\\u0000" is a text of
 * six characters.
 */
static bool has_nul(const char *json, size_t len)
{
    if (memchr(json, 0, len) != NULL)
        return true;
    for (size_t i = 0; i + 1 < len; i++) {
        if (json[i] != '\\')
            continue;
        if (len - i >= 6 && memcmp(json + i, "\\u0000", 6) == 0)
            return true;
        i++; /* what is escaped is not looked at */
    }
    return false;
}

int msg_decode(const void *json,
               size_t len,
               struct msg *out,
               struct ddp_err *err)
{
    if (has_nul(json, len))
        return ddp_err_set(err, DDP_E_PROTO, "a NUL in a message");
    const char *text = json;
    const char *end = NULL;
    cJSON *obj = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (obj == NULL)
        return ddp_err_set(err, DDP_E_PROTO, "the message is not JSON");
    int rc = end == text + len ? take_object(obj, out, err)
                               : ddp_err_set(err, DDP_E_PROTO,
                                             "bytes after the end of a "
                                             "message");
    cJSON_Delete(obj);
    return rc;
}

/* -- encoding: direct, since our own texts need little escaping ------------ */

struct writer {
    char *at;
    size_t left;
    bool full;
};

static void put(struct writer *w, const char *text, size_t len)
{
    if (w->full || len >= w->left) {
        w->full = true;
        return;
    }
    memcpy(w->at, text, len);
    w->at += len;
    w->left -= len;
}

/* What is no UTF-8 goes as it is: a name of a file or a host may be any bytes,
 * and comes out of the other end's parser unchanged. */
static void put_text(struct writer *w, const char *text)
{
    put(w, "\"", 1);
    while (*text != '\0') {
        char esc[JSON_ESCAPE_SIZE];
        size_t len = json_plain(text);
        if (len > 0) {
            put(w, text, len);
        } else if ((len = json_escape(text, esc)) > 0) {
            put(w, esc, strlen(esc));
        } else {
            len = 1;
            put(w, text, len);
        }
        text += len;
    }
    put(w, "\"", 1);
}

static void put_name(struct writer *w, const char *name)
{
    put(w, "\"", 1);
    put(w, name, strlen(name));
    put(w, "\":", 2);
}

static bool is_zero(const struct field *f, const uint8_t *at)
{
    struct term t;
    int64_t v;
    switch (f->type) {
    case FIELD_STR:
        return *at == '\0';
    case FIELD_INT:
        memcpy(&v, at, sizeof(v));
        return v == 0;
    case FIELD_TERM:
        memcpy(&t, at, sizeof(t));
        return t.count == 0 && t.id[0] == '\0';
    }
    DDP_WRONG("field type");
}

static void
put_field(struct writer *w, const struct field *f, const uint8_t *base)
{
    const uint8_t *at = base + f->offset;
    if (!f->needed && is_zero(f, at))
        return; /* what is left out decodes as this */
    put(w, ",", 1);
    put_name(w, f->name);
    switch (f->type) {
    case FIELD_STR:
        put_text(w, (const char *)at);
        return;
    case FIELD_INT: {
        char num[24];
        int64_t v;
        memcpy(&v, at, sizeof(v));
        int n = snprintf(num, sizeof(num), "%lld", (long long)v);
        put(w, num, (size_t)n);
        return;
    }
    case FIELD_TERM: {
        struct term t;
        char text[TERM_TEXT_SIZE];
        memcpy(&t, at, sizeof(t));
        term_print(&t, text);
        put_text(w, text);
        return;
    }
    }
    DDP_WRONG("field type");
}

int msg_encode(const struct msg *m, char *json, size_t cap)
{
    ddp_assert(m->kind < MSG_KIND_COUNT);
    const struct kind *k = &kinds[m->kind];
    const uint8_t *base = (const uint8_t *)m + offsetof(struct msg, join);
    struct writer w = {.at = json, .left = cap};
    put(&w, "{", 1);
    put_name(&w, "kind");
    put_text(&w, k->name);
    for (size_t i = 0; i < k->n_fields; i++)
        put_field(&w, &k->fields[i], base);
    put(&w, "}", 1);
    return w.full ? -1 : (int)(w.at - json);
}

void msg_set_text(char *field, size_t size, const char *text)
{
    size_t len = strlen(text);
    if (len >= size) {
        len = size - 1;
        while (len > 0 && ((unsigned char)text[len] & 0xC0u) == 0x80u)
            len--;
    }
    memcpy(field, text, len);
    memset(field + len, 0, size - len);
}

/* -- instances ------------------------------------------------------------- */

bool msg_is_whole(const char *instance)
{
    return strlen(instance) == MSG_INSTANCE_LEN;
}

bool msg_same_instance(const char *x, const char *y)
{
    bool whole = msg_is_whole(x) && msg_is_whole(y);
    return strncmp(x, y, whole ? MSG_INSTANCE_LEN : MSG_INSTANCE_NAME) == 0;
}

void msg_set_name(char field[MSG_INSTANCE_LEN + 1], const char *instance)
{
    msg_set_text(field, MSG_INSTANCE_LEN + 1, "");
    msg_set_text(field, MSG_INSTANCE_NAME + 1, instance);
}
