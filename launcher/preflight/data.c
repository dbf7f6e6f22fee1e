/* Nodes and links as JSON, and back: one table of fields serves both ways. What
 * is read comes from other nodes, so each field is checked: its type, its
 * range, and that a text can be printed in a table. */
#include "launcher/preflight/data.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <string.h>

/* Beyond 2^53 a double is not exact; nothing here is so large. */
#define NUMBER_MAX 9.0e15

struct json_field {
    const char *name;
    size_t at;
    size_t size; /* of a text; 0: an int64_t */
    double min;
};

#define TEXT(type, name)                                                       \
    {                                                                          \
#name, offsetof(struct type, name), sizeof(((struct type *)0)->name),  \
            0                                                                  \
    }
#define NUMBER(type, name, min)                                                \
    {                                                                          \
#name, offsetof(struct type, name), 0, min                             \
    }
#define PLACE(i)                                                               \
    TEXT(preflight_node, place[i].addr), TEXT(preflight_node, place[i].iface), \
        NUMBER(preflight_node, place[i].mtu, 0)

static const struct json_field node_fields[] = {
    NUMBER(preflight_node, rank, 0),
    TEXT(preflight_node, name),
    NUMBER(preflight_node, port, 1),
    PLACE(PREFLIGHT_MASTER),
    PLACE(PREFLIGHT_NCCL),
    TEXT(preflight_node, version),
    TEXT(preflight_node, kernel),
    TEXT(preflight_node, driver),
    TEXT(preflight_node, nccl),
    TEXT(preflight_node, gpus),
    TEXT(preflight_node, ifname),
    TEXT(preflight_node, problem),
    NUMBER(preflight_node, files, -1),
    NUMBER(preflight_node, shm, -1),
};

static const struct json_field link_fields[] = {
    NUMBER(preflight_link, from, 0),
    NUMBER(preflight_link, to, 0),
    NUMBER(preflight_link, net, 0),
    NUMBER(preflight_link, state, 0),
    NUMBER(preflight_link, code, 0),
    NUMBER(preflight_link, rtt_us, 0),
    NUMBER(preflight_link, rate, 0),
    NUMBER(preflight_link, mtu, 0),
    NUMBER(preflight_link, clock_us, -NUMBER_MAX),
    TEXT(preflight_link, reason),
};

#define NODE_FIELDS (sizeof(node_fields) / sizeof(node_fields[0]))
#define LINK_FIELDS (sizeof(link_fields) / sizeof(link_fields[0]))

/* -- writing --------------------------------------------------------------- */

static cJSON *write_all(const void *from, const struct json_field *f, size_t n)
{
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; object != NULL && i < n; i++) {
        const char *at = (const char *)from + f[i].at;
        int64_t number;
        if (f[i].size > 0) {
            (void)cJSON_AddStringToObject(object, f[i].name, at);
            continue; /* without memory it is left out: the reader refuses it */
        }
        memcpy(&number, at, sizeof(number));
        (void)cJSON_AddNumberToObject(object, f[i].name, (double)number);
    }
    return object;
}

static char *print(cJSON *json)
{
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return text;
}

char *preflight_node_text(const struct preflight_node *n)
{
    return print(write_all(n, node_fields, NODE_FIELDS));
}

char *preflight_links_text(const struct preflight_link *links, int n)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; array != NULL && i < n; i++)
        (void)cJSON_AddItemToArray(
            array, write_all(&links[i], link_fields, LINK_FIELDS));
    return print(array);
}

/* -- reading --------------------------------------------------------------- */

static void copy_text(char *to, size_t size, const char *from)
{
    ddp_assert(size > 0);
    size_t n = strnlen(from, size - 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)from[i];
        to[i] = from[i];
        if (ch < ' ' || ch >= 0x7f) /* the table counts columns */
            to[i] = '?';
    }
    to[n] = '\0';
}

static bool
read_all(void *to, const struct json_field *f, size_t n, const cJSON *json)
{
    if (!cJSON_IsObject(json))
        return false;
    for (size_t i = 0; i < n; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, f[i].name);
        char *at = (char *)to + f[i].at;
        if (f[i].size > 0) {
            if (!cJSON_IsString(item))
                return false;
            copy_text(at, f[i].size, item->valuestring);
            continue;
        }
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= f[i].min) ||
            !(item->valuedouble <= NUMBER_MAX))
            return false;
        int64_t number = (int64_t)item->valuedouble;
        memcpy(at, &number, sizeof(number));
    }
    return true;
}

bool preflight_node_read(struct preflight_node *n, const char *text)
{
    cJSON *json = cJSON_Parse(text);
    bool good = read_all(n, node_fields, NODE_FIELDS, json) && n->port <= 65535;
    cJSON_Delete(json);
    return good;
}

_Static_assert(sizeof(int64_t) <= sizeof(double), "as JSON's numbers");

static bool is_sound(const struct preflight_link *l, int64_t from)
{
    return (from == PREFLIGHT_ANY || l->from == from) &&
           l->net < PREFLIGHT_NETS && l->state <= PREFLIGHT_STUCK;
}

bool preflight_links_read(struct preflight_link *links,
                          int *n,
                          int max,
                          int64_t from,
                          const char *text)
{
    cJSON *json = cJSON_Parse(text);
    bool good = cJSON_IsArray(json);
    const cJSON *item = good ? json->child : NULL;
    for (; good && item != NULL && max > 0; item = item->next, max--) {
        good = read_all(&links[*n], link_fields, LINK_FIELDS, item) &&
               is_sound(&links[*n], from);
        *n += good;
    }
    cJSON_Delete(json);
    return good && item == NULL;
}
