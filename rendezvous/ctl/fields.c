#include "rendezvous/ctl/fields.h"

#include <string.h>

const cJSON *field_of(const cJSON *obj, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(obj, name);
}

double field_number(const cJSON *obj, const char *name, double none)
{
    const cJSON *item = field_of(obj, name);
    return cJSON_IsNumber(item) ? item->valuedouble : none;
}

int64_t field_whole(const cJSON *obj, const char *name, int64_t none)
{
    double d = field_number(obj, name, (double)none);
    return d >= -1e15 && d <= 1e15 ? (int64_t)d : none;
}

const char *field_text(const cJSON *obj, const char *name)
{
    const cJSON *item = field_of(obj, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

bool field_is(const cJSON *obj, const char *name, const char *value)
{
    return strcmp(field_text(obj, name), value) == 0;
}

bool field_true(const cJSON *obj, const char *name)
{
    return cJSON_IsTrue(field_of(obj, name));
}

size_t field_count(const cJSON *list)
{
    size_t n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) n++;
    return n;
}
