/*
 * base/utf8: the one reader of UTF-8: which bytes of a text from a peer, a user
 * or a file are well-formed, and which of them may be shown.
 */
#ifndef RENDEZVOUS_BASE_UTF8_H
#define RENDEZVOUS_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The length of the well-formed character (RFC 3629: no overlong form, no
 * surrogate, nothing above U+10FFFF) at `text`, which ends with a NUL: 1 to 4;
 * 0 if there is none. *control: it is one of U+0001 to U+001F, U+007F to
 * U+009F, which no terminal should be sent.
 */
size_t utf8_char(const char *text, bool *control);

#endif
