/* Lists of texts and of numbers. What is read comes from other nodes, so each
 * item is checked: its type, its range, and that a text can be printed in a
 * table. */
#include "launcher/preflight/facts.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "rendezvous/base/opts.h"

#define NUMBER_MAX 9.0e15 /* exact in a double, and more than any of ours */
#define NUMBERS    5      /* of a link: all but `from` */

static char *print(cJSON *json)
{
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return text;
}

/* An item that there is no memory for is left out: the reader refuses it. */
char *preflight_node_text(const struct preflight_node *n)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; array != NULL && i < FACTS; i++)
        (void)cJSON_AddItemToArray(array, cJSON_CreateString(n->fact[i]));
    return print(array);
}

char *preflight_links_text(const struct preflight_link *links, int n)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; array != NULL && i < n; i++) {
        const int64_t number[NUMBERS] = {links[i].to, links[i].net,
                                         links[i].state, links[i].code,
                                         links[i].clock_us};
        for (int k = 0; k < NUMBERS; k++)
            (void)cJSON_AddItemToArray(array,
                                       cJSON_CreateNumber((double)number[k]));
    }
    return print(array);
}

/* -- reading --------------------------------------------------------------- */

static void copy_text(char to[FACT_MAX], const char *from)
{
    size_t n = strnlen(from, FACT_MAX - 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)from[i];
        to[i] =
            ch < ' ' || ch >= 0x7f ? '?' : from[i]; /* columns are counted */
    }
    to[n] = '\0';
}

bool preflight_node_read(struct preflight_node *n, int rank, const char *text)
{
    cJSON *json = cJSON_Parse(text);
    const cJSON *item;
    int have = 0;
    bool good = cJSON_IsArray(json);
    n->rank = rank;
    cJSON_ArrayForEach(item, json)
    {
        good = good && have < FACTS && cJSON_IsString(item);
        if (good)
            copy_text(n->fact[have++], item->valuestring);
    }
    cJSON_Delete(json);
    return good && have == FACTS && preflight_port(n) > 0;
}

/* The next number of a list; false: there is none within these bounds. */
static bool take(const cJSON **item, double min, double max, int64_t *number)
{
    const cJSON *i = *item;
    if (!cJSON_IsNumber(i) || !(i->valuedouble >= min) ||
        !(i->valuedouble <= max))
        return false;
    *number = (int64_t)i->valuedouble;
    *item = i->next;
    return true;
}

static bool read_link(struct preflight_link *l, const cJSON **item)
{
    return take(item, 0, NUMBER_MAX, &l->to) &&
           take(item, 0, PREFLIGHT_NETS - 1, &l->net) &&
           take(item, 0, PREFLIGHT_STATES - 1, &l->state) &&
           take(item, 0, 4095, &l->code) &&
           take(item, -NUMBER_MAX, NUMBER_MAX, &l->clock_us);
}

bool preflight_links_read(
    struct preflight_link *links, int *n, int max, int rank, const char *text)
{
    cJSON *json = cJSON_Parse(text);
    bool good = cJSON_IsArray(json);
    const cJSON *item = good ? json->child : NULL;
    for (; good && item != NULL && max > 0; max--) {
        struct preflight_link l = {.from = rank};
        good = read_link(&l, &item);
        if (good)
            links[(*n)++] = l;
    }
    good = good && item == NULL;
    cJSON_Delete(json);
    return good;
}

int preflight_port(const struct preflight_node *n)
{
    int64_t port;
    return opts_read_int(n->fact[FACT_PORT], 1, 65535, &port) ? (int)port : 0;
}

const char *preflight_addr(const struct preflight_node *n,
                           enum preflight_net net)
{
    const char *own = n->fact[FACT_ADDR + (int)net];
    return own[0] != '\0' ? own : n->fact[FACT_ADDR + PREFLIGHT_MASTER];
}
