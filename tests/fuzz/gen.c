#include "tests/fuzz/gen.h"

#include <stdio.h>

#define RAW 250

static bool ends_in(const char *text, const char *tail)
{
    size_t len = strlen(text), tail_len = strlen(tail);
    return len >= tail_len && strcmp(text + len - tail_len, tail) == 0;
}

static int64_t gen_int(struct fuzz_in *in,
                       const char *field,
                       int64_t min,
                       int64_t max,
                       const struct gen_hints *hints)
{
    uint8_t how = fuzz_u8(in);
    int64_t v = how;
    if (how == 255)
        v = max;
    else if (how == 254)
        v = min;
    else if (strcmp(field, "round") == 0)
        v = how < 200 ? hints->round + how % 4 - 1 : how - 200;
    else if (strcmp(field, "version") == 0)
        v = MSG_VERSION;
    else if (strcmp(field, "seq") == 0 || strcmp(field, "heard") == 0)
        v = how < 200 ? hints->seq + how % 3 - 1 : how - 201;
    else if (ends_in(field, "_ms"))
        v = how * 300;
    else if (ends_in(field, "_us"))
        v = how * INT64_C(10000);
    else if (min < 0)
        v = how - 1;
    return v < min ? min : v > max ? max : v;
}

/* Some of the agents 0 to 7, as voters: a bit for each. */
static void gen_voters(uint8_t how, char *text, size_t size)
{
    size_t len = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < 8 && len + 18 < size; i++)
        if ((how >> i & 1) != 0)
            len += (size_t)snprintf(text + len, size - len, "%016x ", i);
}

/* Ids that are told apart by their first 16 digits, as long as they fit. True:
 * it is one. */
static bool gen_id(uint8_t how, const char *field, char *text, size_t size)
{
    char id[33];
    if (strcmp(field, "voters") == 0 || strcmp(field, "before") == 0 ||
        strcmp(field, "ids") == 0) {
        gen_voters(how, text, size);
        return true;
    }
    if (strcmp(field, "agent") == 0)
        (void)snprintf(id, sizeof(id), "%016x%016x", how % 8u, how % 8u);
    else if (strcmp(field, "term_id") == 0)
        (void)snprintf(id, sizeof(id), "%016x", how % 4u);
    else
        return false;
    msg_set_text(text, size, id);
    return true;
}

static void gen_str(struct fuzz_in *in,
                    const char *field,
                    char *text,
                    size_t size,
                    const struct gen_hints *hints)
{
    uint8_t how = fuzz_u8(in);
    char word[32];
    size_t len;
    if (strcmp(field, "instance") == 0 && how < 128) {
        msg_set_text(text, size, how < 64 ? hints->instance : "");
        return;
    }
    if (how < 250 && gen_id(how, field, text, size))
        return;
    if (how >= 250) { /* any bytes, up to all of the field */
        const uint8_t *p = fuzz_bytes(in, how == 255 ? size - 1 : how, &len);
        len = len < size ? len : size - 1;
        memset(text, 0, size);
        memcpy(text, p, len);
        return;
    }
    if (strcmp(field, "node") == 0)
        field = "name"; /* as those are called that joined */
    (void)snprintf(word, sizeof(word), "%s%d", how % 8 == 0 ? "" : field,
                   how % 8);
    msg_set_text(text, size, how == 0 ? "0" : word);
}

static void gen_term(struct fuzz_in *in,
                     struct term *t,
                     int64_t min,
                     const struct gen_hints *hints)
{
    t->count = gen_int(in, "term", min, TERM_COUNT_MAX, hints);
    gen_str(in, "term_id", t->id, sizeof(t->id), hints);
}

static void fill(struct fuzz_in *in,
                 enum msg_kind kind,
                 const struct gen_hints *hints,
                 struct msg *m)
{
    /* clang-format off */
    switch (kind) {
#define MSG_BEGIN(name, sender, meaning) case MSG_KIND_##name:
#define MSG_STR(name, field, longest, needed, meaning)                         \
        gen_str(in, #field, m->name.field, sizeof(m->name.field), hints);
#define MSG_INT(name, field, min, max, needed, meaning)                        \
        m->name.field = gen_int(in, #field, min, max, hints);
#define MSG_TERM(name, field, needed, meaning)                                 \
        gen_term(in, &m->name.field, needed, hints);
#define MSG_END(name) return;
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END
    case MSG_KIND_COUNT:
        break;
    }
    /* clang-format on */
    DDP_WRONG("message kind");
}

bool gen_msg(struct fuzz_in *in,
             enum msg_kind kind,
             const struct gen_hints *hints,
             struct msg *out)
{
    char json[MSG_JSON_MAX];
    if (in->left > 0 && *in->at == RAW) {
        size_t len;
        (void)fuzz_u8(in);
        const uint8_t *text = fuzz_bytes(in, fuzz_u16(in), &len);
        return msg_decode(text, len, out, NULL) == 0;
    }
    struct msg m = {.kind = kind};
    fill(in, kind, hints, &m);
    int n = msg_encode(&m, json, sizeof(json));
    ddp_assert(n > 0);
    /* A text may be no JSON (a control character is escaped, but a NUL ends
     * it), so this is no assertion. */
    return msg_decode(json, (size_t)n, out, NULL) == 0;
}

enum msg_kind gen_kind(enum msg_sender sender, uint8_t byte)
{
    enum msg_kind kinds[MSG_KIND_COUNT];
    size_t n = 0;
    for (int k = 0; k < MSG_KIND_COUNT; k++)
        if (msg_is_from((enum msg_kind)k, sender))
            kinds[n++] = (enum msg_kind)k;
    return kinds[byte % n];
}

void gen_check_sent(const struct msg *m)
{
    char json[MSG_JSON_MAX];
    static struct msg again;
    struct ddp_err err = {.text = ""};
    int n = msg_encode(m, json, sizeof(json));
    ddp_assert(n > 0);
    if (msg_decode(json, (size_t)n, &again, &err) != 0) {
        (void)fprintf(stderr, "%s\n%.*s\n", err.text, n, json);
        DDP_WRONG("a message that the other side refuses");
    }
}
