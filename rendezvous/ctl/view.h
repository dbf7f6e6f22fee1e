/*
 * ctl/view: the daemon's status as a listing for people. Pure: JSON in, text
 * out. What is missing in the JSON, or has another type, is left out; wrong
 * JSON can make an odd listing, and nothing worse.
 */
#ifndef RENDEZVOUS_CTL_VIEW_H
#define RENDEZVOUS_CTL_VIEW_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "rendezvous/base/err.h"
#include "rendezvous/ctl/text.h"

struct ctl_view {
    struct ctl_style style;
    const char *where; /* HOST:PORT, clean */
    const char *run;   /* only this one; NULL: all */
    bool all;          /* every node */
};

/* Parses the daemon's answer. The caller frees it with cJSON_Delete. NULL:
 * DDP_E_PROTO. */
cJSON *ctl_view_parse(const char *json, size_t len, struct ddp_err *err);

/* Writes the listing; returns how many runs are in it. */
int ctl_view_print(const struct ctl_view *v, const cJSON *status, FILE *f);

/* Writes the JSON itself, indented and cleaned for a terminal. -1: no memory.
 */
int ctl_view_json(const struct ctl_style *style, const cJSON *status, FILE *f);

#endif
