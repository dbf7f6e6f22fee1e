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
