/* The text is in the object; the build computes the hashes (scripts/page-hash).
 */
#include "rendezvous/http/page.h"

__asm__(".pushsection .rodata\n"
        ".global page_html\n"
        ".type page_html, %object\n"
        "page_html:\n"
        ".incbin \"rendezvous/http/page.html\"\n"
        ".byte 0\n"
        ".size page_html, . - page_html\n"
        ".popsection\n");

#define HASH_SIZE sizeof("sha256-0123456789abcdef0123456789abcdef0123456789ab")
_Static_assert(sizeof(PAGE_SCRIPT_HASH) == HASH_SIZE &&
                   sizeof(PAGE_STYLE_HASH) == HASH_SIZE,
               "scripts/page-hash has failed");

/* The empty icon keeps the browser from asking for one. */
#define POLICY                                                                 \
    "default-src 'none'; script-src '" PAGE_SCRIPT_HASH                        \
    "'; style-src '" PAGE_STYLE_HASH                                           \
    "'; img-src data:; base-uri 'none'; form-action 'none'"

const char page_policy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"" POLICY "\">\n"
    "<meta name=\"referrer\" content=\"no-referrer\">\n";

const char page_headers[] = "Content-Security-Policy: " POLICY
                            "; connect-src 'self'; frame-ancestors 'none'\r\n"
                            "Referrer-Policy: no-referrer\r\n"
                            "X-Frame-Options: DENY\r\n"
                            "Vary: Accept\r\n";
