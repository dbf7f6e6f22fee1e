/*
 * core/goodput_json: goodput as all show it: /status, the report of a launcher,
 * ddpctl report.
 */
#ifndef RENDEZVOUS_CORE_GOODPUT_JSON_H
#define RENDEZVOUS_CORE_GOODPUT_JSON_H

#include "rendezvous/base/json.h"
#include "rendezvous/core/goodput.h"

/*
 * An object "goodput": the age, its parts, "share" if time has passed, and
 * what was repeated if anything was. `phase`: the part that grows
 * (goodput_grows), a member of that name; "": none.
 */
void goodput_json(struct json *j,
                  const struct goodput_parts *parts,
                  const char *phase);

/* The four parts, as members of an object that is open. */
void goodput_json_parts(struct json *j, const struct goodput_parts *parts);

#endif
