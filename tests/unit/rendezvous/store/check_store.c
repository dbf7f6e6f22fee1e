/* links: tests/lib/store_talk */
/*
 * What the store means, as a table of conversations, and as a comparison with
 * a model that is too simple to be wrong.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/store_talk.h"
#include "tests/lib/suite.h"

#define MODEL_KEYS 4

/* -- conversations --------------------------------------------------------- */

struct line {
    const char *request;
    const char *want; /* or "CLOSE reason": refused, the reason has this */
};

static const struct conversation {
    const char *name;
    struct line lines[14];
} conversations[] = {
    {"set and get",
     {{"0 SET /k v", ""},
      {"0 GET /k", "0=v:v"},
      {"0 SET /k longer", ""},
      {"1 GET /k", "1=v:longer"},
      {"0 SET /k -", ""},
      {"5 GET /k", "5=v:"},
      {"5 SET /k old", ""},
      {"0 GET /k", "0=v:old"}}},
    {"an empty key is a key", {{"0 SET - v", ""}, {"0 GET -", "0=v:v"}}},
    {"get of nothing is empty", {{"0 GET /k", "0=v:"}, {"5 GET /k", "5=v:"}}},
    {"add stores text",
     {{"0 ADD /n 3", "0=i:3"},
      {"0 GET /n", "0=v:3"},
      {"1 ADD /n -5", "1=i:-2"},
      {"5 GET /n", "5=v:-2"},
      {"5 ADD /n 0", "5=i:-2"},
      {"0 SET /n 40", ""},
      {"0 ADD /n 2", "0=i:42"},
      {"0 ADD /n 99999", "0=i:100041"},
      {"0 GET /n", "0=v:100041"}}},
    {"add reads numbers as strtoll does",
     {{"0 SET /a \t7x9", ""},
      {"0 ADD /a 1", "0=i:8"},
      {"0 SET /a +5", ""},
      {"0 ADD /a 1", "0=i:6"},
      {"0 SET /a -", ""},
      {"0 ADD /a 1", "CLOSE not a number"}}},
    {"add to what is no number",
     {{"0 SET /a abc", ""},
      {"0 ADD /a 1", "CLOSE not a number"},
      {"1 SET /b -x", ""},
      {"1 ADD /b 1", "CLOSE not a number"},
      {"2 GET /a", "2=v:abc"}}},
    {"add at the ends of its range",
     {{"0 ADD /n 9223372036854775807", "0=i:9223372036854775807"},
      {"0 ADD /n 1", "CLOSE range"},
      {"1 SET /n -9223372036854775808", ""},
      {"1 ADD /n 0", "1=i:-9223372036854775808"},
      {"1 ADD /n -1", "CLOSE range"},
      {"2 SET /n 9223372036854775808", ""},
      {"2 ADD /n 0", "CLOSE not a number"}}},
    {"compare and set, with its odd answer",
     {{"0 COMPARE_SET /k expected new", "0=v:expected"}, /* and yet: */
      {"0 CHECK /k", "0=b:1"},
      {"0 GETNUMKEYS", "0=i:0"},
      {"0 COMPARE_SET /k - first", "0=v:first"},
      {"0 GET /k", "0=v:first"},
      {"1 COMPARE_SET /k - second", "1=v:first"},
      {"1 COMPARE_SET /k firs second", "1=v:first"},
      {"5 COMPARE_SET /k first second", "5=v:second"},
      {"0 GET /k", "0=v:second"},
      {"0 SET /e -", ""},
      {"0 COMPARE_SET /e - full", "0=v:full"}}},
    {"check",
     {{"0 CHECK", "0=b:0"},
      {"0 CHECK /a", "0=b:1"},
      {"0 SET /a 1", ""},
      {"0 CHECK /a", "0=b:0"},
      {"0 CHECK /a /b", "0=b:1"},
      {"1 WAIT /b", ""},
      {"0 CHECK /a /b", "0=b:1"},
      {"0 SET /b 1", "1=b:0"},
      {"0 CHECK /a /b", "0=b:0"}}},
    {"a wait for what is there ends at once",
     {{"0 WAIT", "0=b:0"},
      {"0 SET /a 1", ""},
      {"0 WAIT /a /a", "0=b:0"},
      {"5 WAIT /a", "5=b:0"}}},
    {"set wakes, once",
     {{"0 WAIT /a", ""},
      {"1 WAIT /a", ""},
      {"5 WAIT /a", ""},
      {"2 SET /b 1", ""},
      {"2 SET /a 1", "0=b:0 1=b:0 5=b:0"},
      {"2 SET /a 2", ""},
      {"2 ADD /a 2", "2=i:4"}}},
    {"add answers first and then wakes",
     {{"0 WAIT /n", ""},
      {"1 ADD /n 1", "1=i:1 0=b:0"},
      {"1 ADD /n 1", "1=i:2"}}},
    {"append wakes",
     {{"0 WAIT /a", ""},
      {"1 APPEND /a x", "0=b:0"},
      {"1 APPEND /a yz", ""},
      {"1 APPEND /a -", ""},
      {"0 GET /a", "0=v:xyz"}}},
    {"compare and set wakes when it stores",
     {{"0 WAIT /a", ""},
      {"1 COMPARE_SET /a x y", "1=v:x"},
      {"1 COMPARE_SET /a - y", "0=b:0 1=v:y"}}},
    {"many keys at once",
     {{"0 WAIT /a /c", ""},
      {"1 MULTI_SET /a 1 /b 2", ""},
      {"1 MULTI_SET /b 3 /c 4", "0=b:0"},
      {"1 MULTI_SET", ""},
      {"1 MULTI_GET", ""},
      {"5 MULTI_GET /c /x /a /b", "5=v:4 5=v: 5=v:1 5=v:3"}}},
    {"a wait for several keys ends with the last",
     {{"0 SET /b 1", ""},
      {"0 WAIT /a /b /c", ""},
      {"1 SET /c 1", ""},
      {"1 SET /c 2", ""},
      {"1 SET /a 1", "0=b:0"}}},
    {"a key named twice counts as come twice",
     {{"0 WAIT /a /b /a", ""}, {"1 SET /a 1", ""}, {"1 SET /b 1", "0=b:0"}}},
    {"a deleted key is not awaited again",
     {{"0 WAIT /a /b", ""},
      {"1 SET /a 1", ""},
      {"1 DELETE_KEY /a", "1=i:1"},
      {"1 SET /b 1", "0=b:0"}}},
    {"cancelled",
     {{"0 WAIT /a /b", ""},
      {"1 SET /a 1", ""},
      {"0 CANCEL_WAIT", "0=b:1"},
      {"1 SET /b 1", ""},
      {"0 WAIT /c", ""},
      {"1 SET /c 1", "0=b:0"}}},
    {"cancelled too late: both bytes come",
     {{"0 WAIT /a", ""},
      {"1 SET /a 1", "0=b:0"},
      {"0 CANCEL_WAIT", "0=b:1"},
      {"5 CANCEL_WAIT", "5=b:1"}}},
    {"who is gone is not woken",
     {{"0 WAIT /a /b", ""},
      {"1 WAIT /a", ""},
      {"0 GONE", ""},
      {"2 SET /a 1", "1=b:0"},
      {"0 WAIT /b", ""},
      {"2 SET /b 1", "0=b:0"}}},
    {"an old client's wait is dropped by its next request",
     {{"5 WAIT /a", ""},
      {"5 ADD /n 1", "5=i:1"},
      {"0 SET /a 1", ""},
      {"5 WAIT /b", ""},
      {"5 WAIT /c", ""},
      {"0 SET /b 1", ""},
      {"0 SET /c 1", "5=b:0"}}},
    {"an old client of 2.0 cancels",
     {{"5 WAIT /a", ""}, {"5 CANCEL_WAIT", "5=b:1"}, {"0 SET /a 1", ""}}},
    {"a new client's next request must wait",
     {{"0 WAIT /a", ""},
      {"0 GET /a", "CLOSE GET while its WAIT is pending"},
      {"0 GONE", ""},
      {"1 SET /a 1", ""}}},
    {"delete and count",
     {{"0 DELETE_KEY /a", "0=i:0"},
      {"0 MULTI_SET /a 1 /b 2 init/ 3", ""},
      {"0 GETNUMKEYS", "0=i:3"},
      {"1 WAIT /missing", ""},
      {"5 GETNUMKEYS", "5=i:3"},
      {"0 DELETE_KEY /a", "0=i:1"},
      {"0 DELETE_KEY /a", "0=i:0"},
      {"0 DELETE_KEY /missing", "0=i:0"},
      {"0 GETNUMKEYS", "0=i:2"},
      {"0 GET /a", "0=v:"},
      {"0 ADD /a 1", "0=i:1"},
      {"0 SET /missing 1", "1=b:0"}}},
    {"the list of keys",
     {{"0 LIST_KEYS", "0=i:0"},
      {"1 WAIT /b", ""},
      {"0 SET /a 1", ""},
      {"0 LIST_KEYS", "0=i:1 0=v:/a"}}},
    {"the list of keys that come and go",
     {{"0 MULTI_SET /a 1 /b 1 /c 1 /e 1", ""},
      {"0 LIST_KEYS", "0=i:4 0=v:/e 0=v:/c 0=v:/b 0=v:/a"},
      {"0 SET /b 2", ""},
      {"0 DELETE_KEY /c", "0=i:1"},
      {"0 LIST_KEYS", "0=i:3 0=v:/e 0=v:/b 0=v:/a"},
      {"0 DELETE_KEY /e", "0=i:1"},
      {"0 DELETE_KEY /a", "0=i:1"},
      {"0 LIST_KEYS", "0=i:1 0=v:/b"},
      {"0 DELETE_KEY /b", "0=i:1"},
      {"0 LIST_KEYS", "0=i:0"}}},
    {"hello and ping", {{"0 VALIDATE", ""}, {"0 PING 12345", "0=u:12345"}}},
    {"a queue gives what was pushed first",
     {{"0 QUEUE_LEN /q", "0=i:0"},
      {"0 QUEUE_POP /q", "0=i:0"},
      {"0 QUEUE_PUSH /q one", ""},
      {"1 QUEUE_PUSH /q -", ""},
      {"0 QUEUE_LEN /q", "0=i:2"},
      {"0 QUEUE_POP /q", "0=i:2 0=v:one"},
      {"1 QUEUE_POP /q", "1=i:1 1=v:"},
      {"1 QUEUE_POP /q", "1=i:0"}}},
    {"a queue is no value, but it has come",
     {{"0 QUEUE_PUSH /q v", ""},
      {"0 CHECK /q", "0=b:0"},
      {"0 WAIT /q", "0=b:0"},
      {"0 GET /q", "0=v:"},
      {"0 GETNUMKEYS", "0=i:0"},
      {"0 LIST_KEYS", "0=i:0"},
      {"0 DELETE_KEY /q", "0=i:0"},
      {"0 SET /q value", ""},
      {"0 QUEUE_POP /q", "0=i:1 0=v:v"},
      {"0 GET /q", "0=v:value"},
      {"0 QUEUE_LEN /q", "0=i:0"},
      {"0 DELETE_KEY /q", "0=i:1"}}},
    {"a push wakes one, in the order of coming",
     {{"0 WAIT /q", ""},
      {"1 WAIT /q", ""},
      {"2 WAIT /q /a", ""},
      {"4 QUEUE_PUSH /q x", "0=b:0"},
      {"4 QUEUE_PUSH /q y", "1=b:0"},
      {"4 QUEUE_PUSH /q z", ""},
      {"4 SET /a 1", "2=b:0"},
      {"0 QUEUE_POP /q", "0=i:3 0=v:x"},
      {"1 QUEUE_POP /q", "1=i:2 1=v:y"},
      {"2 QUEUE_POP /q", "2=i:1 2=v:z"}}},
    {"a wake-up that is not used is passed on",
     {{"0 WAIT /q", ""},
      {"1 WAIT /q", ""},
      {"2 WAIT /q", ""},
      {"4 QUEUE_PUSH /q x", "0=b:0"},
      {"0 CANCEL_WAIT", "0=b:1 1=b:0"},
      {"1 GONE", "2=b:0"},
      {"2 QUEUE_POP /q", "2=i:1 2=v:x"},
      {"2 QUEUE_LEN /q", "2=i:0"}}},
    {"a value wakes all who wait for a queue",
     {{"0 WAIT /q", ""}, {"1 WAIT /q", ""}, {"4 SET /q v", "0=b:0 1=b:0"}}},
    {"a barrier lets go when all have come",
     {{"0 BARRIER /b 3", ""},
      {"1 BARRIER /b 3", ""},
      {"4 GET /b", "4=v:2"},
      {"2 BARRIER /b 3", "0=b:0 1=b:0 2=b:0"},
      {"3 BARRIER /b 3", "3=b:0"},
      {"4 GET /b", "4=v:4"},
      {"4 GETNUMKEYS", "4=i:1"}}},
    {"a barrier of one, of none, and of a text",
     {{"0 BARRIER /a 1", "0=b:0"},
      {"0 BARRIER /b 0", "0=b:0"},
      {"0 BARRIER /b -5", "0=b:0"},
      {"0 SET /c text", ""},
      {"0 BARRIER /c 1", "CLOSE BARRIER: the value is not a number"}}},
    {"a barrier that is left still counts",
     {{"0 BARRIER /b 3", ""},
      {"0 CANCEL_WAIT", "0=b:1"},
      {"1 BARRIER /b 3", ""},
      {"1 GONE", ""},
      {"2 BARRIER /b 3", "2=b:0"}}},
    {"what is written to a barrier's key ends it",
     {{"3 WAIT /b", ""},
      {"0 BARRIER /b 3", ""},
      {"1 ADD /b 0", "1=i:1 3=b:0 0=b:0"},
      {"0 BARRIER /b 3", ""},
      {"0 GET /b", "CLOSE GET while its WAIT is pending"},
      {"1 DELETE_KEY /b", "1=i:1"},
      {"1 SET /b 1", "0=b:0"}}},
    {"who watches is told what was and what is",
     {{"5 WATCH_KEY /a", "5=b:3"},
      {"0 SET /a x", "5=b:1 5=v:/a 5=v: 5=v:x"},
      {"0 SET /a y", "5=b:0 5=v:/a 5=v:x 5=v:y"},
      {"0 APPEND /a z", "5=b:4 5=v:/a 5=v:y 5=v:yz"},
      {"0 COMPARE_SET /a x w", "0=v:yz"},
      {"0 COMPARE_SET /a yz 7", "5=b:0 5=v:/a 5=v:yz 5=v:7 0=v:7"},
      {"0 ADD /a 1", "5=b:0 5=v:/a 5=v:7 5=v:8 0=i:8"},
      {"0 DELETE_KEY /a", "5=b:2 5=v:/a 5=v:8 5=v: 0=i:1"},
      {"0 DELETE_KEY /a", "0=i:0"},
      {"0 QUEUE_PUSH /a q", ""},
      {"0 QUEUE_POP /a", "0=i:1 0=v:q"},
      {"5 GONE", ""},
      {"0 SET /a z", ""}}},
    {"watches of several keys and several watchers",
     {{"5 WATCH_KEY /a", "5=b:3"},
      {"5 WATCH_KEY /b", "5=b:3"},
      {"6 WATCH_KEY /a", "6=b:3"},
      {"6 WATCH_KEY /a", "6=b:3"},
      {"0 SET /b 1", "5=b:1 5=v:/b 5=v: 5=v:1"},
      {"6 GONE", ""},
      {"0 SET /a 1", "5=b:1 5=v:/a 5=v: 5=v:1"},
      {"0 WAIT /c", ""},
      {"5 SET /c 1", "0=b:0"}}},
};
#define CONVERSATIONS (int)(sizeof(conversations) / sizeof(conversations[0]))

/* Line by line; afterwards nothing is left but the keys. */
TEST_LOOP(test_conversation_goes_as_written, 0, CONVERSATIONS)
{
    const struct conversation *c = &conversations[_i];
    struct store *s = new_store(1 << 20);
    size_t empty = store_bytes(s);
    for (const struct line *l = c->lines; l->request != NULL; l++) {
        struct ddp_err err = {0};
        int rc = step(s, l->request, &err);
        bool closes = strncmp(l->want, "CLOSE ", 6) == 0;
        ck_assert_msg(rc == (closes ? -1 : 0), "%s: %s", c->name, l->request);
        expect_sent(closes ? "" : l->want, l->request);
        if (closes)
            ck_assert_msg(strstr(err.text, l->want + 6) != NULL, "%s: %s",
                          l->request, err.text);
    }
    for (uint32_t i = 0; i < CONNS; i++)
        store_gone(s, i);
    static const char *const all[] = {"/k", "-",  "/a",    "/b",       "/c",
                                      "/e", "/n", "init/", "/missing", "/q"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "0 DELETE_KEY %s", all[i]);
        ck_assert_int_eq(step(s, text, NULL), 0);
    }
    ck_assert_uint_eq(store_keys(s), 0);
    ck_assert_uint_eq(store_bytes(s), empty);
    store_del(s);
}

/* -- the model ------------------------------------------------------------- */

/* A store of four keys: who is there, and what each connection waits for. */
struct model {
    bool there[MODEL_KEYS];
    unsigned missing[CONNS][MODEL_KEYS];
};

static unsigned missing_of(const struct model *m, uint32_t conn)
{
    unsigned n = 0;
    for (int k = 0; k < MODEL_KEYS; k++)
        n += m->missing[conn][k];
    return n;
}

static void model_drop(struct model *m, uint32_t conn)
{
    memset(m->missing[conn], 0, sizeof(m->missing[conn]));
}

/* Sets a key and checks that exactly those whose last key it was are told. */
static void model_set(struct model *m, struct store *s, int key)
{
    bool told[CONNS] = {false};
    char text[32];
    (void)snprintf(text, sizeof(text), "0 SET k%d v", key);
    ck_assert_int_eq(step(s, text, NULL), 0);
    for (size_t i = 0; i < sent.len; i++) {
        ck_assert(sent.byte[i] == C10D_STOP_WAITING && !told[sent.conn[i]]);
        told[sent.conn[i]] = true;
    }
    sent.len = 0;
    m->there[key] = true;
    for (uint32_t c = 0; c < CONNS; c++) {
        bool waited = missing_of(m, c) > 0;
        m->missing[c][key] = 0;
        ck_assert(told[c] == (waited && missing_of(m, c) == 0));
    }
}

static void
model_wait(struct model *m, struct store *s, uint32_t conn, unsigned *seed)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "%u WAIT", (unsigned)conn);
    int count = rand_r(seed) % 5;
    for (int i = 0; i < count; i++) {
        int key = rand_r(seed) % MODEL_KEYS;
        len += snprintf(text + len, sizeof(text) - (size_t)len, " k%d", key);
        m->missing[conn][key] += !m->there[key];
    }
    ck_assert_int_eq(step(s, text, NULL), 0);
    ck_assert_uint_eq(sent.len, missing_of(m, conn) == 0);
    sent.len = 0;
}

/* Sets, deletions, waits, cancels and losses in a random order. Connection 0
 * sets and never waits. */
TEST_LOOP(test_random_waits_follow_the_model, 0, 5)
{
    struct store *s = new_store(1 << 20);
    struct model m = {.there = {false}};
    unsigned seed = 7 + (unsigned)_i;
    char text[32];
    for (int i = 0; i < 3000; i++) {
        uint32_t conn = 1 + (uint32_t)rand_r(&seed) % (CONNS - 1);
        int key = rand_r(&seed) % MODEL_KEYS;
        switch (rand_r(&seed) % 5) {
        case 0:
            model_set(&m, s, key);
            break;
        case 1:
            (void)snprintf(text, sizeof(text), "0 DELETE_KEY k%d", key);
            ck_assert_int_eq(step(s, text, NULL), 0);
            ck_assert_uint_eq(sent.byte[0], m.there[key]);
            m.there[key] = false;
            break;
        case 2:
            (void)snprintf(text, sizeof(text), "%u CANCEL_WAIT", conn);
            ck_assert_int_eq(step(s, text, NULL), 0);
            model_drop(&m, conn);
            break;
        case 3:
            store_gone(s, conn);
            model_drop(&m, conn);
            break;
        case 4:
            if (missing_of(&m, conn) == 0)
                model_wait(&m, s, conn, &seed);
            break;
        }
        sent.len = 0;
    }
    store_del(s);
}

SUITE("store", "semantics")
