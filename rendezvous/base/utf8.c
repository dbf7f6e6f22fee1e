#include "rendezvous/base/utf8.h"

/* The second byte's range is narrower behind some first ones: no overlong
 * forms, no surrogates, nothing above U+10FFFF. */
static bool second_fits(unsigned char first, unsigned char second)
{
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high;
}

size_t utf8_char(const char *text, bool *control)
{
    const unsigned char *p = (const unsigned char *)text;
    *control = (p[0] > 0 && p[0] < 0x20) || p[0] == 0x7f ||
               (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0);
    if (p[0] < 0x80)
        return p[0] != '\0';
    if (p[0] < 0xc2 || p[0] > 0xf4 || !second_fits(p[0], p[1]))
        return 0;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0u) != 0x80u) /* also where the text ends */
            return 0;
    return len;
}
