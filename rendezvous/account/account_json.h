/*
 * account/account_json: goodput as all show it: /status, the report of a
 * launcher, ddpctl report.
 */
#ifndef RENDEZVOUS_ACCOUNT_ACCOUNT_JSON_H
#define RENDEZVOUS_ACCOUNT_ACCOUNT_JSON_H

#include "rendezvous/account/account.h"
#include "rendezvous/base/json.h"

/*
 * An object "goodput": the age, its parts, "share" if time has passed, whether
 * the program's own start is known and counts as restart ("knows_start"), and
 * what was repeated if anything was. As long as the run lives it has "phase":
 * the part that grows.
 */
void account_json(struct json *j, const struct account *a, int64_t now_us);

/* The same of a run that is over, of which the sums are known. */
void account_json_sums(struct json *j, const struct goodput_sums *sums);

/* The four parts, as members of an object that is open. */
void account_json_parts(struct json *j, const struct goodput_parts *parts);

#endif
