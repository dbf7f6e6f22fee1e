#include "launcher/rdzv/endpoint.h"

#include <ctype.h>
#include <string.h>

static bool read_port(const char *text, size_t len, int *port)
{
    int n = 0;
    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        n = 10 * n + (text[i] - '0');
    }
    *port = n;
    return n > 0 && n <= 65535;
}

static bool is_host(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) &&
            (text[i] == '\0' || strchr(".:%_-", text[i]) == NULL))
            return false;
    return len > 0 && len < sizeof(((struct conf_endpoint *)0)->host);
}

bool endpoint_read(const char *text, size_t len, struct conf_endpoint *at)
{
    const char *colon = memrchr(text, ':', len);
    int port;
    if (colon == NULL)
        return false;
    size_t host_len = (size_t)(colon - text);
    if (!read_port(colon + 1, len - host_len - 1, &port))
        return false;
    const char *host = text;
    if (host_len >= 2 && text[0] == '[' && text[host_len - 1] == ']') {
        host++;
        host_len -= 2;
    }
    if (!is_host(host, host_len))
        return false;
    *at = (struct conf_endpoint){.port = port};
    memcpy(at->host, host, host_len);
    return true;
}

/* What a zone ends with: a port may follow in "[ADDR%ZONE]:PORT",
 * "ADDR%ZONE:PORT" and "ADDR%ZONE". */
#define ZONE_ENDS "]: "

/* Puts the zone in place of the one at `at`. Returns what is behind it, NULL:
 * it has no room. */
static char *
replace_zone(char *text, size_t size, char *at, const char *zone, size_t len)
{
    char *end = at + strcspn(at, ZONE_ENDS);
    size_t used = strlen(text);
    if (used - (size_t)(end - at) + len >= size)
        return NULL;
    memmove(at + len, end, strlen(end) + 1);
    memcpy(at, zone, len);
    return at + len;
}

void endpoint_own_zone(char *text, size_t size, const char *here)
{
    const char *zone = strchr(here, '%');
    char *at = text;
    if (zone == NULL)
        return;
    while (at != NULL && (at = strchr(at, '%')) != NULL)
        at = replace_zone(text, size, at + 1, zone + 1, strlen(zone + 1));
}
