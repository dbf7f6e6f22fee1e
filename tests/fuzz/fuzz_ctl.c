/* links: rendezvous/ctl/{http,document,picture,line,table,facts,fields,text} */
/* links: rendezvous/net/addr TLS rendezvous/proto/frame */
/* links: rendezvous/base/{opts,err,buf,mono,log,dial,signals_name,utf8} */
/* libs: -lcjson -ldl */
/*
 * What a daemon, or whatever answers in its place, sends to ddpctl: the first
 * byte says how it is shown, the rest is the answer. Whatever it is, the page
 * has no line that is too long, and no byte that a terminal could take for more
 * than a letter.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/ctl/http.h"
#include "rendezvous/ctl/document.h"
#include "rendezvous/ctl/picture.h"
#include "tests/fuzz/fuzz.h"

/* `page` is taken to pieces. */
static void check_page(const struct ctl_style *style, char *page, bool bounded)
{
    for (char *save, *at = strtok_r(page, "\n", &save); at != NULL;
         at = strtok_r(NULL, "\n", &save)) {
        ddp_assert(!bounded || ctl_columns(style, at) <= style->width);
        for (const unsigned char *p = (unsigned char *)at; *p != '\0'; p++) {
            ddp_assert(*p >= ' ' && *p != 0x7f);
            ddp_assert(style->utf8 || *p < 0x80);
            ddp_assert(*p != 0xc2 || p[1] >= 0xa0); /* no C1 */
        }
    }
}

static void show(struct picture *p, const cJSON *status, bool json)
{
    char *page = NULL;
    size_t size;
    FILE *f = open_memstream(&page, &size);
    ddp_assert(f != NULL);
    if (json)
        (void)ctl_document_json(&p->style, status, f);
    else
        picture_draw(p, status, f);
    ddp_assert(fclose(f) == 0 && strlen(page) == size);
    check_page(&p->style, page, !json);
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool once;
    struct fuzz_in in = {data, size};
    uint8_t how = fuzz_u8(&in);
    struct ddp_err err = {.text = ""};
    struct picture p = {
        .style = {.utf8 = how % 2 == 1, .width = how & 16 ? 40 : 80},
        .where = "host:1",
        .run = "r",
        .one = (how & 2) != 0,
        .rows = how & 4 ? 24 : 0,
    };
    if (!once) /* glibc has it built in */
        ddp_assert(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
    once = true;
    const char *body;
    size_t body_len;
    int code;
    if (ctl_http_parse((const char *)in.at, in.left, &code, &body, &body_len,
                       &err) != 0) {
        ddp_assert(err.text[0] != '\0');
        return 0;
    }
    ddp_assert(code >= 0 && code <= 999);
    ddp_assert(body + body_len <= (const char *)in.at + in.left);
    cJSON *status = ctl_document_parse(body, body_len, &err);
    if (status == NULL)
        return 0;
    show(&p, status, (how & 8) != 0);
    cJSON_Delete(status);
    return 0;
}
