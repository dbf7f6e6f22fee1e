/*
 * ctl/document: the daemon's document, as it came: parsed, and printed for a
 * terminal. Pure. What reads its fields is ctl/fields.
 */
#ifndef RENDEZVOUS_CTL_DOCUMENT_H
#define RENDEZVOUS_CTL_DOCUMENT_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "rendezvous/base/err.h"
#include "rendezvous/ctl/text.h"

/* Parses the daemon's answer. The caller frees it with cJSON_Delete. NULL:
 * DDP_E_PROTO. */
cJSON *ctl_document_parse(const char *json, size_t len, struct ddp_err *err);

/* Writes it, indented and cleaned for a terminal. -1: no memory. */
int ctl_document_json(const struct ctl_style *style,
                      const cJSON *document,
                      FILE *f);

#endif
