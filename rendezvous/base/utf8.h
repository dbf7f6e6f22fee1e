/*
 * base/utf8: which bytes of a text that comes from a peer may be shown.
 */
#ifndef RENDEZVOUS_BASE_UTF8_H
#define RENDEZVOUS_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The length of the well-formed character (RFC 3629) at `text`, which ends with
 * a NUL: 1 to 4; 0 where there is none. *control: it is one of U+0001 to
 * U+001F, U+007F to U+009F, which no terminal should be sent.
 */
size_t utf8_char(const char *text, bool *control);

#endif
