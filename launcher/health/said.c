#include "launcher/health/said.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void said_read(int fd, char text[SAID_MAX + 1])
{
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > SAID_MAX ? size - SAID_MAX : 0;
    ssize_t n;
    do
        n = pread(fd, text, SAID_MAX, from);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        (void)snprintf(text, SAID_MAX + 1, "cannot read its output: %s",
                       strerror(errno));
        return;
    }
    text[n] = '\0';
    for (size_t len = strlen(text);
         len > 0 && (unsigned char)text[len - 1] <= ' '; len--)
        text[len - 1] = '\0'; /* bytes of other alphabets are above 0x7f */
    const char *last = strrchr(text, '\n');
    if (last != NULL)
        memmove(text, last + 1, strlen(last));
}
