/* The endpoints of the rendezvous as texts. A file of its own, since reports
 * need nothing else of this folder. */
#include <stdio.h>
#include <string.h>

#include "launcher/conf/conf.h"

#define MORE_MAX 32 /* of ", and N more" */

void conf_endpoints_text(const struct conf *c,
                         char text[CONF_ENDPOINTS_TEXT_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < c->endpoints_len; i++) {
        char one[sizeof(c->endpoints[0].host) + 24];
        const struct conf_endpoint *e = &c->endpoints[i];
        int len = e->port == 0 ? snprintf(one, sizeof(one), /* fits */
                                          "a free port of %s", e->host)
                               : snprintf(one, sizeof(one), /* fits */
                                          "%s%s port %d", i > 0 ? ", " : "",
                                          e->host, e->port);
        if (used + (size_t)len + MORE_MAX > CONF_ENDPOINTS_TEXT_MAX) {
            (void)snprintf(text + used, CONF_ENDPOINTS_TEXT_MAX - used,
                           ", and %d more", c->endpoints_len - i); /* fits */
            return;
        }
        memcpy(text + used, one, (size_t)len + 1);
        used += (size_t)len;
    }
}

void conf_place_text(const struct conf *c,
                     const char *target,
                     int which,
                     char text[CONF_PLACE_MAX])
{
    const struct conf_endpoint *e =
        &c->endpoints[which < c->endpoints_len ? which : 0];
    if (target[0] != '\0')
        (void)snprintf(text, CONF_PLACE_MAX, /* may be cut */ "%s", target);
    else
        (void)snprintf(text, CONF_PLACE_MAX, /* fits */ "%s:%d", e->host,
                       e->port);
}
