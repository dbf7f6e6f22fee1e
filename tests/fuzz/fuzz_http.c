/* links: rendezvous/http/http rendezvous/base/{json,utf8,buf,err} */
/* libs: -lcjson */
/*
 * The bytes of an HTTP request as they come from a peer. How they come (all at
 * once, or cut at any place) must not matter; what is understood must be
 * understood again when it is said in the simplest way; and what a peer calls
 * something must be one JSON text, without a control character in it.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/json.h"
#include "rendezvous/http/http.h"
#include "tests/fuzz/fuzz.h"

/* As ddpctl page reads it, which asks for most. */
static bool feed(struct http *h, const uint8_t *data, size_t size, size_t step)
{
    static struct http_field fields[2];
    fields[0] = (struct http_field){.name = "Origin"};
    fields[1] = (struct http_field){.name = "Accept"};
    http_init(h);
    h->fields = fields;
    h->n_fields = 2;
    h->takes_post = true;
    for (size_t at = 0; at < size; at += step)
        if (http_feed(h, data + at, size - at < step ? size - at : step))
            return true;
    return false;
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_json(const char *text)
{
    struct buf out;
    struct json j;
    buf_init(&out, 65536);
    json_init(&j, &out);
    json_text(&j, NULL, text);
    ddp_assert(!j.full && buf_put(&out, "", 1) == 0);
    const char *json = (const char *)buf_head(&out);
    for (const char *p = json; *p != '\0'; p++)
        ddp_assert((unsigned char)*p >= ' ' && *p != 0x7f);
    cJSON *item = cJSON_Parse(json);
    ddp_assert(cJSON_IsString(item));
    cJSON_Delete(item);
    buf_free(&out);
}

static void check_fields(const struct http *h)
{
    for (int i = 0; i < h->n_fields; i++) {
        const char *value = h->fields[i].value;
        size_t len = strnlen(value, HTTP_FIELD_MAX + 1);
        ddp_assert(len <= HTTP_FIELD_MAX);
        for (size_t k = 0; k < len; k++)
            ddp_assert((unsigned char)value[k] >= ' ' || value[k] == '\t');
    }
}

static void check_request(const struct http *h)
{
    static struct http again;
    char plain[HTTP_TARGET_MAX + 64], value[64];
    ddp_assert(h->path[0] == '/');
    ddp_assert(strnlen(h->host, sizeof(h->host)) <= HTTP_HOST_MAX);
    ddp_assert(h->path >= h->target &&
               h->path + strlen(h->path) <= h->target + HTTP_TARGET_MAX);
    int n = snprintf(plain, sizeof(plain), "%s %s%s%s HTTP/1.0\r\n\r\n",
                     h->is_head   ? "HEAD"
                     : h->is_post ? "POST"
                                  : "GET",
                     h->path, h->query != NULL ? "?" : "",
                     h->query != NULL ? h->query : "");
    ddp_assert(n > 0 && (size_t)n < sizeof(plain));
    ddp_assert(feed(&again, (const uint8_t *)plain, (size_t)n, 1));
    ddp_assert(again.status == 0 && again.is_head == h->is_head &&
               again.is_post == h->is_post);
    ddp_assert(same_text(again.path, h->path) &&
               same_text(again.query, h->query));
    if (http_query(h, "run", value, sizeof(value)) > 0) {
        ddp_assert(strlen(value) < sizeof(value));
        check_json(value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t steps[] = {1, 3, 64};
    static struct http h, other;
    char line[HTTP_LINE_MAX], text[256];
    bool done = feed(&h, data, size, size > 0 ? size : 1);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        ddp_assert(feed(&other, data, size, steps[i]) == done);
        ddp_assert(other.status == h.status && other.bytes == h.bytes);
    }
    ddp_assert(done || h.bytes <= HTTP_HEAD_MAX);
    ddp_assert(done || h.bytes == size);
    if (done && h.status != 0)
        (void)http_head(line, h.status, "text/plain", size, ""); /* knows it */
    if (done && h.status == 0) {
        check_fields(&h);
        check_request(&h);
    }
    size_t len = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, len);
    text[len] = '\0';
    check_json(text);
    return 0;
}
