/* links: rendezvous/proto/{msg,term} rendezvous/base/{err,json,utf8,buf} */
/* libs: -lcjson */
/*
 * Each message there and back with its fields at their limits, and each way in
 * which a peer may send something else.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/proto/frame.h"
#include "rendezvous/proto/msg.h"
#include "tests/lib/suite.h"

/* What texts are filled with: each a different burden for the encoder. */
static const char *const patterns[] = {"x",        "\"",      "\\",      "\x01",
                                       "\xc3\xa9", "\\u0000", "/<&>\x7f"};
#define PATTERNS (int)(sizeof(patterns) / sizeof(patterns[0]))

static void fill_text(char *field, size_t longest, const char *pattern)
{
    size_t len = strlen(pattern);
    size_t at = 0;
    while (at + len <= longest) {
        memcpy(field + at, pattern, len);
        at += len;
    }
    field[at] = '\0';
}

static void fill_term(struct term *t, const char *pattern, int64_t count)
{
    t->count = count;
    fill_text(t->id, TERM_ID_LEN, pattern);
}

/* Fills all fields of a message: numbers with their largest or smallest. */
static void fill(struct msg *m, enum msg_kind kind, int pattern, int largest)
{
    memset(m, 0, sizeof(*m));
    m->kind = kind;
    switch (kind) {
/* clang-format off */
#define MSG_BEGIN(name, sender, meaning) case MSG_KIND_##name:
#define MSG_STR(name, field, longest, needed, text) \
        fill_text(m->name.field, longest, patterns[pattern]);
#define MSG_INT(name, field, min, max, needed, text) \
        m->name.field = largest ? max : min;
#define MSG_TERM(name, field, needed, text) \
        fill_term(&m->name.field, patterns[pattern], largest ? TERM_COUNT_MAX : needed);
#define MSG_END(name) return;
#include "rendezvous/proto/messages.def"
#undef MSG_BEGIN
#undef MSG_STR
#undef MSG_INT
#undef MSG_TERM
#undef MSG_END
    /* clang-format on */
    case MSG_KIND_COUNT:
        break;
    }
    ck_abort_msg("no such message");
}

/* MSG_JSON_MAX holds the worst of them, FRAME_AGENT_MAX the worst that agents
 * send, and each comes back as it went. */
TEST_LOOP(test_msg_each_comes_back_as_it_went, 0, MSG_KIND_COUNT)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        for (int largest = 0; largest < 2; largest++) {
            static struct msg sent, got;
            static char json[MSG_JSON_MAX];
            struct ddp_err err;
            fill(&sent, (enum msg_kind)_i, pattern, largest);
            int len = msg_encode(&sent, json, sizeof(json));
            ck_assert_int_gt(len, 0);
            if (msg_is_from(sent.kind, MSG_AGENT) ||
                msg_is_from(sent.kind, MSG_CTL))
                ck_assert_int_le(len, FRAME_AGENT_MAX);
            int rc = msg_decode(json, (size_t)len, &got, &err);
            ck_assert_msg(rc == 0, "%s: %s", msg_name(sent.kind), err.text);
            ck_assert_mem_eq(&sent, &got, sizeof(sent));
        }
    }
}

/* Fields that may be left out decode as 0 and "". */
TEST(test_msg_what_is_left_out_is_nothing)
{
    static const char json[] = "{\"kind\":\"leave\",\"what\":1}";
    struct msg m;
    ck_assert_int_eq(msg_decode(json, strlen(json), &m, NULL), 0);
    ck_assert_int_eq(m.kind, MSG_KIND_leave);
    ck_assert_int_eq(m.leave.what, MSG_LEAVE_ALL);
    ck_assert_int_eq(m.leave.signal, 0);
}

TEST(test_msg_unknown_fields_are_ignored)
{
    static const char json[] =
        "{\"new\":[{\"kind\":\"end\"}],\"seq\":7,\"heard\":-1,"
        "\"kind\":\"beat\",\"x\":null,\"x\":1.5}";
    struct msg m;
    ck_assert_int_eq(msg_decode(json, strlen(json), &m, NULL), 0);
    ck_assert_int_eq(m.kind, MSG_KIND_beat);
    ck_assert_int_eq(m.beat.seq, 7);
}

/* An escaped backslash before "u0000" makes no NUL of it. */
TEST(test_msg_text_that_looks_like_an_escape_is_a_text)
{
    static const char json[] =
        "{\"kind\":\"stop\",\"round\":1,\"text\":\"a\\\\u0000b\"}";
    struct msg m;
    ck_assert_int_eq(msg_decode(json, strlen(json), &m, NULL), 0);
    ck_assert_str_eq(m.stop.text, "a\\u0000b");
}

struct bad {
    const char *json;
    const char *why; /* stands in the error */
};

#define BEAT "{\"kind\":\"beat\",\"heard\":0,"
#define STOP "{\"kind\":\"stop\",\"round\":1,"
static const struct bad bads[] = {
    {"", "not JSON"},
    {"{", "not JSON"},
    {"nonsense", "not JSON"},
    {BEAT "\"seq\":1", "not JSON"},
    {"[]", "not a JSON object"},
    {"7", "not a JSON object"},
    {"null", "not a JSON object"},
    {"{}", "no kind"},
    {"{\"kind\":1}", "no kind"},
    {"{\"kind\":\"hello\"}", "'hello'"},
    {"{\"kind\":\"Beat\",\"seq\":1,\"heard\":0}", "'Beat'"},
    {"{\"kind\":\"beat\",\"kind\":\"leave\",\"seq\":1}", "kind is there twice"},
    {BEAT "\"seq\":1,\"seq\":1}", "seq is there twice"},
    {BEAT "\"seq\":1}{}", "after the end"},
    {BEAT "\"seq\":1}\n", "after the end"},
    {BEAT "\"seq\":1} x", "after the end"},
    {"{\"kind\":\"beat\"}", "seq is missing"},
    {BEAT "\"seq\":\"1\"}", "not a number"},
    {BEAT "\"seq\":null}", "not a number"},
    {BEAT "\"seq\":true}", "not a number"},
    {BEAT "\"seq\":[1]}", "not a number"},
    {BEAT "\"seq\":1.5}", "whole numbers"},
    {BEAT "\"seq\":-1}", "whole numbers"},
    {BEAT "\"seq\":9000000000001}", "whole numbers"},
    {BEAT "\"seq\":1e999}", "whole numbers"},
    {BEAT "\"seq\":-1e999}", "whole numbers"},
    {BEAT "\"seq\":18446744073709551616}", "whole numbers"},
    {BEAT "\"seq\":1,\"mirrored\":-1}", "mirrored is -1"},
    {BEAT "\"seq\":1,\"mirrored\":9000000000000002}", "whole numbers"},
    {BEAT "\"seq\":1,\"own\":-1}", "own is -1"},
    {BEAT "\"seq\":1,\"own_rank\":4096}", "own_rank is 4096"},
    {STOP "\"text\":1}", "not a text"},
    {STOP "\"text\":null}", "not a text"},
    {STOP "\"text\":{}}", "not a text"},
    {STOP "\"text\":\"a\\u0000b\"}", "NUL"},
    {STOP "\"text\":\"\\\\\\u0000\"}", "NUL"},
    {STOP "\"text\":\"\\uD800\"}", "not JSON"},
    {STOP "\"text\":\"unended}", "not JSON"},
};
#define BADS (int)(sizeof(bads) / sizeof(bads[0]))

CASE("bad", .tags = "fast")

TEST_LOOP(test_msg_malformed_is_refused_and_says_why, 0, BADS)
{
    struct msg m;
    struct ddp_err err = {.text = ""};
    const struct bad *bad = &bads[_i];
    ck_assert_int_eq(msg_decode(bad->json, strlen(bad->json), &m, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_PROTO);
    ck_assert_msg(strstr(err.text, bad->why) != NULL, "%s: '%s' lacks '%s'",
                  bad->json, err.text, bad->why);
}

TEST(test_msg_raw_nul_is_refused)
{
    static const char json[] = "{\"kind\":\"leave\",\"what\":3}\0";
    struct msg m;
    ck_assert_int_eq(msg_decode(json, sizeof(json) - 1, &m, NULL), -1);
    ck_assert_int_eq(msg_decode(json, sizeof(json) - 2, &m, NULL), 0);
}

/* A text of the longest length passes, one byte more does not. */
TEST(test_msg_text_is_bounded)
{
    static char json[1000];
    struct msg m;
    struct ddp_err err;
    for (int len = 400; len <= 401; len++) {
        char text[402];
        fill_text(text, (size_t)len, "y");
        int n = snprintf(json, sizeof(json), STOP "\"text\":\"%s\"}", text);
        ck_assert_int_eq(msg_decode(json, (size_t)n, &m, &err),
                         len == 400 ? 0 : -1);
    }
    ck_assert_ptr_nonnull(strstr(err.text, "401 bytes"));
}

/* Every prefix of a message is refused, and read no further than it goes. */
TEST(test_msg_cut_short_is_refused)
{
    static struct msg sent, got;
    static char json[MSG_JSON_MAX];
    fill(&sent, MSG_KIND_join, 4, 1);
    int len = msg_encode(&sent, json, sizeof(json));
    for (int i = 0; i < len; i++) {
        char *copy = malloc((size_t)i + 1); /* exact, for ASan */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, json, (size_t)i);
        ck_assert_int_eq(msg_decode(copy, (size_t)i, &got, NULL), -1);
        free(copy);
    }
}

TEST(test_msg_deep_nesting_is_refused)
{
    static char json[16000];
    memset(json, '[', sizeof(json));
    struct msg m;
    ck_assert_int_eq(msg_decode(json, sizeof(json), &m, NULL), -1);
}

CASE("good")

TEST(test_msg_encode_says_when_there_is_no_room)
{
    static struct msg m;
    static char json[MSG_JSON_MAX];
    fill(&m, MSG_KIND_end, 0, 1);
    int len = msg_encode(&m, json, sizeof(json));
    ck_assert_int_gt(len, 0);
    for (int cap = 0; cap <= len; cap++)
        ck_assert_int_eq(msg_encode(&m, json, (size_t)cap), -1);
    ck_assert_int_eq(msg_encode(&m, json, (size_t)len + 1), len);
}

/* Never in the middle of a character. */
TEST(test_msg_set_cuts_between_characters)
{
    char field[6];
    msg_set(field, "abcde");
    ck_assert_str_eq(field, "abcde");
    msg_set(field, "abcdef");
    ck_assert_str_eq(field, "abcde");
    msg_set(field, "abcd\xc3\xa9");
    ck_assert_str_eq(field, "abcd");
    msg_set(field, "ab\xe2\x82\xac\xe2\x82\xac");
    ck_assert_str_eq(field, "ab\xe2\x82\xac");
    memset(field, 'x', sizeof(field));
    msg_set(field, "");
    ck_assert_mem_eq(field, "\0\0\0\0\0\0", 6);
}

/* Found by fuzzing: a worker of a large world could not be reported. */
TEST(test_msg_any_rank_of_a_world_can_be_said_to_have_failed)
{
    static const char worlds[] =
        "{\"kind\":\"world\",\"instance\":\"i\",\"round\":1,\"restarts\":0,"
        "\"group_rank\":99999,\"group_world\":100000,\"base_rank\":409595904,"
        "\"world_size\":409600000,\"role_rank\":0,\"role_world\":1,"
        "\"master_addr\":\"a\",\"master_port\":1}";
    static struct msg world, failed, end, got;
    char json[MSG_JSON_MAX];
    ck_assert_int_eq(msg_decode(worlds, sizeof(worlds) - 1, &world, NULL), 0);
    failed.kind = MSG_KIND_failed;
    failed.failed.round = 1;
    failed.failed.rank = world.world.base_rank + 4095;
    int len = msg_encode(&failed, json, sizeof(json));
    ck_assert_int_eq(msg_decode(json, (size_t)len, &got, NULL), 0);
    ck_assert_int_eq(got.failed.rank, 409599999);
    end.kind = MSG_KIND_end;
    end.end.rank = got.failed.rank;
    len = msg_encode(&end, json, sizeof(json));
    ck_assert_int_eq(msg_decode(json, (size_t)len, &got, NULL), 0);
}

/* What a join of version 1 had to have, and what it may have had. */
static const char first_join[] =
    "{\"kind\":\"join\",\"version\":1,\"run\":\"r\",\"agent\":\"a\",\"name\":"
    "\"n\","
    "\"nodes_min\":1,\"nodes_max\":2,\"nproc\":1,\"max_restarts\":0,"
    "\"join_ms\":1,\"last_call_ms\":0,\"heartbeat_ms\":300,\"reconnect_ms\":0";

/* A server refuses it in words, and so does an old one ours, if each can read
 * the other's join up to its version. */
TEST(test_msg_join_of_another_version_can_be_read)
{
    static struct msg m;
    char json[MSG_JSON_MAX];
    int len = snprintf(json, sizeof(json), "%s,\"members\":1,\"boot\":\"x\"}",
                       first_join);
    ck_assert_int_eq(msg_decode(json, (size_t)len, &m, NULL), 0);
    ck_assert_int_eq(m.join.version, 1);
    (void)snprintf(json, sizeof(json), "%s}", first_join);
    ck_assert_int_eq(msg_decode(json, strlen(json), &m, NULL), 0);
    len = msg_encode(&m, json, sizeof(json) - 1);
    json[len] = '\0';
    ck_assert_ptr_nonnull(strstr(json, first_join));
}

TEST(test_msg_names_and_senders)
{
    ck_assert_str_eq(msg_name(MSG_KIND_world), "world");
    ck_assert(msg_is_from(MSG_KIND_world, MSG_SERVER));
    ck_assert(!msg_is_from(MSG_KIND_world, MSG_AGENT));
    ck_assert(msg_is_from(MSG_KIND_serves, MSG_SERVER));
    ck_assert(msg_is_from(MSG_KIND_serves, MSG_AGENT));
    ck_assert(!msg_is_from(MSG_KIND_serves, MSG_CTL));
    ck_assert(msg_is_from(MSG_KIND_order, MSG_CTL));
}

SUITE("msg", "good", .tags = "fast")
