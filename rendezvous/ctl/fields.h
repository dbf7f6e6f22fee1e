/*
 * ctl/fields: reads the daemon's JSON. What is missing there, or has another
 * type, has the value that the caller names; so wrong JSON can make an odd
 * picture, and nothing worse. Pure.
 */
#ifndef RENDEZVOUS_CTL_FIELDS_H
#define RENDEZVOUS_CTL_FIELDS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL: there is none. `obj` may be NULL, here and below. */
const cJSON *field_of(const cJSON *obj, const char *name);

/* A number; `none` if there is none. */
double field_number(const cJSON *obj, const char *name, double none);

/* A whole number, within what an int64_t, and a column, can take. */
int64_t field_whole(const cJSON *obj, const char *name, int64_t none);

/* A text, borrowed from `obj`; "" if there is none. */
const char *field_text(const cJSON *obj, const char *name);
bool field_is(const cJSON *obj, const char *name, const char *value);
bool field_true(const cJSON *obj, const char *name);

/* Values in a list. */
size_t field_count(const cJSON *list);

#endif
