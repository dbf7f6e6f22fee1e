#include "rendezvous/past/line.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rendezvous/base/mono.h"

static const char *const kinds[] = {
    [PAST_OTHER] = "",          [PAST_CONNECTING] = "connecting",
    [PAST_JOINED] = "joined",   [PAST_SEALED] = "sealed",
    [PAST_STARTED] = "started", [PAST_NEW_STEP] = "new_step",
    [PAST_EXITED] = "exited",   [PAST_FAILED] = "failed",
    [PAST_STOPPED] = "stopped", [PAST_FENCED] = "fenced",
    [PAST_DONE] = "done",       [PAST_TAKEN_OVER] = "taken_over",
    [PAST_LEAVING] = "leaving", [PAST_END] = "end",
};

/* -- fields ---------------------------------------------------------------- */

static const char *text_of(const cJSON *obj, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static void copy(const cJSON *obj, const char *name, char *to, size_t size)
{
    (void)snprintf(to, size, "%s", text_of(obj, name)); /* may be cut */
}

/* The end of it, if it is too long. */
static void copy_end(const cJSON *obj, const char *name, char *to, size_t size)
{
    const char *text = text_of(obj, name);
    size_t len = strlen(text);
    (void)snprintf(to, size, "%s", len < size ? text : text + len + 1 - size);
}

static double number_of(const cJSON *obj, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(obj, name);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static int64_t whole_of(const cJSON *obj, const char *name)
{
    double d = number_of(obj, name);
    return d >= 0 && d <= 1e15 ? (int64_t)d : -1;
}

/* Seconds, up to some decades, as microseconds. */
static int64_t span_of(const cJSON *obj, const char *name)
{
    double d = number_of(obj, name);
    return d >= 0 && d <= 1e9 ? (int64_t)(d * MONO_S + 0.5) : -1;
}

/* 2026-11-22T14:32:53.123456Z (base/utc). */
static bool read_time(const char *text, int64_t *us)
{
    struct tm tm = {.tm_isdst = 0};
    int micros, end = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%6dZ%n", &tm.tm_year, &tm.tm_mon,
               &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &micros,
               &end) != 7 ||
        end != 27 || text[end] != '\0' || micros < 0)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *us = (int64_t)timegm(&tm) * MONO_S + micros;
    return *us > 0;
}

static enum past_kind kind_of(const char *name)
{
    for (size_t i = 1; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i], name) == 0)
            return (enum past_kind)i;
    return PAST_OTHER;
}

/* -- a line ---------------------------------------------------------------- */

static bool take(const cJSON *json, struct past_line *out)
{
    *out = (struct past_line){
        .kind = kind_of(text_of(json, "event")),
        .up_us = span_of(json, "up_s"),
        .round = whole_of(json, "round"),
        .rank = whole_of(json, "rank"),
        .group_rank = whole_of(json, "group_rank"),
        .nodes = whole_of(json, "nodes"),
        .world_size = whole_of(json, "world_size"),
        .restarts = whole_of(json, "restarts"),
        .exit_code = whole_of(json, "exit_code"),
        .step = whole_of(json, "step"),
        .detect_us = span_of(json, "detect_s"),
        .epoch = whole_of(json, "epoch"),
        .gap_us = span_of(json, "gap_s"),
    };
    copy(json, "run", out->run, sizeof(out->run));
    copy(json, "node", out->node, sizeof(out->node));
    copy(json, "text", out->text, sizeof(out->text));
    copy_end(json, "tail", out->tail, sizeof(out->tail));
    copy(json, "spent", out->spent, sizeof(out->spent));
    copy(json, "server", out->server, sizeof(out->server));
    copy(json, "before", out->before, sizeof(out->before));
    return text_of(json, "event")[0] != '\0' && out->run[0] != '\0' &&
           out->node[0] != '\0' && out->up_us >= 0 &&
           read_time(text_of(json, "time"), &out->time_us);
}

bool past_line_read(const char *line, size_t len, struct past_line *out)
{
    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts(line, len, &end, 0);
    bool good = cJSON_IsObject(json) && take(json, out);
    cJSON_Delete(json);
    return good;
}
