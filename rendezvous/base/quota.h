/*
 * base/quota: where peers come from, and how many from each place, so that
 * what is scarce can be shared between places and not between connections: of
 * these anybody can make as many as he likes.
 *
 * A source is an IPv4 address, also where one of IPv6 stands for it (mapped,
 * translated, 6to4), the /64 of another IPv6 address (who has one address there
 * has them all), or all of loopback. Pure; no allocation after
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

/* Room for `holders_max` who hold one at a time. Owned by the caller. Aborts
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
bool quota_is_modest(const struct quota *s, const char *addr);

/* Whether one of `count` may be taken for one who has `have`: he does not have
 * more than that one then. */
bool quota_may_take(int have, int count);

/*
 * The source that has to give way to one more of `addr`: the one of which there
 * are most, where that may be taken from it. -1: none. Takes time only for who
 * is modest: who floods does not make it slow.
 */
int quota_greediest(const struct quota *s, const char *addr);

#endif
