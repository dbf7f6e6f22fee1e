/*
 * base/quota: where peers come from, and how many from each place. What is
 * scarce is shared between places, not between connections: any host can open
 * as many connections as it likes.
 *
 * A source is an IPv4 address, also where one of IPv6 stands for it (mapped,
 * translated, 6to4), the /64 of another IPv6 address (a host with one address
 * of it can use them all), or all of loopback. Pure; no allocation after
 * quota_new. For the core, and for the shells that share out connections.
 */
#ifndef RENDEZVOUS_BASE_QUOTA_H
#define RENDEZVOUS_BASE_QUOTA_H

#include <stdbool.h>

#define SOURCE_TEXT_MAX 48

/* The source of a numeric address, as people read it: "10.0.0.1",
 * "2001:db8:0:1::/64", "loopback"; of what is no address, that text, cut. */
void quota_source_of(const char *addr, char text[SOURCE_TEXT_MAX]);

struct quota;

/* For at most `holders_max` holders at a time. Owned by the caller. Aborts
 * when out of memory. */
struct quota *quota_new(int holders_max);
void quota_del(struct quota *s); /* NULL is fine */

/* Counts one more of that address's source, and returns its number, which is
 * to be given back by quota_drop: one less. Numbers are used again. */
int quota_take(struct quota *s, const char *addr);
void quota_drop(struct quota *s, int source);

/* How many there are of it; 0 of an address that nobody holds. The text is
 * borrowed, and stays until the source is taken by another one. */
int quota_count(const struct quota *s, int source);
int quota_count_of(const struct quota *s, const char *addr);
int quota_find(const struct quota *s, const char *addr); /* -1: nobody's */
const char *quota_text(const struct quota *s, int source);

/* Whether `addr` has less than an equal share of what there is. */
bool quota_within_share(const struct quota *s, const char *addr);

/* Whether one may be taken from a source that has `count` for one that has
 * `have`: the taker then has no more than the other. */
bool quota_may_take(int have, int count);

/*
 * The source that has to give way to one more of `addr`: the one that holds the
 * most, if one may be taken from it. -1: none. The search is made only for an
 * address within its share, so that a flood does not make it slow.
 */
int quota_largest(const struct quota *s, const char *addr);

#endif
