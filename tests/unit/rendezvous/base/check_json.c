/* links: rendezvous/base/{json,utf8,buf,err} */
/* The writer of JSON: structure, numbers, and texts that want to be more than
 * texts. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/json.h"
#include "rendezvous/base/utf8.h"
#include "tests/lib/suite.h"

static struct buf out;
static struct json j;

static void setup(void)
{
    buf_init(&out, 4096);
    json_init(&j, &out);
}

static void teardown(void)
{
    buf_free(&out);
}

static const char *written(void)
{
    ck_assert_int_eq(buf_put(&out, "", 1), 0);
    return (const char *)buf_head(&out);
}

TEST(test_json_nests)
{
    json_open(&j, NULL, '{');
    json_open(&j, "a", '[');
    json_int(&j, NULL, 1);
    json_open(&j, NULL, '{');
    json_close(&j, '}');
    json_open(&j, NULL, '[');
    json_close(&j, ']');
    json_close(&j, ']');
    json_bool(&j, "b", true);
    json_bool(&j, "c", false);
    json_close(&j, '}');
    ck_assert(!j.full);
    ck_assert_str_eq(written(), "{\"a\":[1,{},[]],\"b\":true,\"c\":false}");
}

/* As texts are. */
TEST(test_json_keys_are_escaped)
{
    json_open(&j, NULL, '{');
    json_int(&j, "a\"b\\\n", 1);
    json_close(&j, '}');
    ck_assert_str_eq(written(), "{\"a\\\"b\\\\\\n\":1}");
}

/* The same for people. */
TEST(test_json_lines)
{
    j.lines = true;
    json_open(&j, NULL, '{');
    json_open(&j, "a", '[');
    json_int(&j, NULL, 1);
    json_open(&j, NULL, '{');
    json_close(&j, '}');
    json_close(&j, ']');
    json_null(&j, "b");
    json_close(&j, '}');
    ck_assert_str_eq(written(), "{\n"
                                "  \"a\": [\n"
                                "    1,\n"
                                "    {}\n"
                                "  ],\n"
                                "  \"b\": null\n"
                                "}");
}

TEST(test_json_numbers)
{
    json_open(&j, NULL, '[');
    json_int(&j, NULL, 0);
    json_int(&j, NULL, -1);
    json_int(&j, NULL, INT64_MAX);
    json_int(&j, NULL, INT64_MIN);
    json_seconds(&j, NULL, 0);
    json_seconds(&j, NULL, -5);
    json_seconds(&j, NULL, 999);
    json_seconds(&j, NULL, 1050000);
    json_seconds(&j, NULL, INT64_MAX);
    json_micros(&j, NULL, -5);
    json_micros(&j, NULL, 1000005);
    json_close(&j, ']');
    ck_assert_str_eq(written(), "[0,-1,9223372036854775807,"
                                "-9223372036854775808,0.000,0.000,0.000,1.050,"
                                "9223372036854.775,0.000000,1.000005]");
}

static const struct {
    const char *text, *json;
} texts[] = {
    {"", ""},
    {"node-1", "node-1"},
    {"a\"b\\c", "a\\\"b\\\\c"},
    {"\x01\n\r\t\x1b[2J\x7f", "\\u0001\\n\\r\\t\\u001b[2J\\u007f"},
    {"\xc2\x9b", "\\u009b"}, /* CSI of eight bits */
    {"\xc2\x80|\xc2\x9f|\xc2\xa0", "\\u0080|\\u009f|\xc2\xa0"},
    {"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80",
     "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xff", "\\ufffd"},
    {"a\xc3", "a\\ufffd"},
    {"\xe2\x82", "\\ufffd\\ufffd"},
    {"\xc0\xaf", "\\ufffd\\ufffd"},            /* an overlong slash */
    {"\xe0\x80\xaf", "\\ufffd\\ufffd\\ufffd"}, /* and another */
    {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"}, /* a surrogate */
    {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
    {"</script>", "</script>"},
};

TEST_EACH(test_json_texts, texts)
{
    char want[100];
    (void)snprintf(want, sizeof(want), "\"%s\"", texts[_i].json);
    json_text(&j, NULL, texts[_i].text);
    ck_assert_str_eq(written(), want);
}

/* A buffer that is full says so, wherever it happened. */
TEST(test_json_full_is_told)
{
    buf_free(&out);
    buf_init(&out, 10);
    json_open(&j, NULL, '[');
    json_text(&j, NULL, "12345678");
    ck_assert(j.full);
    json_close(&j, ']');
    ck_assert(j.full);
    ck_assert_uint_le(buf_len(&out), 10);
}

SUITE("json", "fast", FIXTURE(setup, teardown))
