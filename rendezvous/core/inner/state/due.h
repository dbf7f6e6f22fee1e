/*
 * core/inner/state/due: inside the rendezvous core: which run has to be looked
 * at first, and when. An event changes one run, or a few: so the others are not
 * asked again. Nothing outside rendezvous/core includes this.
 *
 * The caller says which runs an event may have changed (due_touch), and after
 * the event asks each of them anew (due_take_touched, due_set).
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_DUE_H
#define RENDEZVOUS_CORE_INNER_STATE_DUE_H

#include <stdint.h>

struct due;

/* For n things, 0 to n-1, none of which is ever due. Owned by the caller; NULL:
 * no memory. */
struct due *due_new(int n);
void due_del(struct due *d);

/* When thing i is due; MONO_NEVER: never. Takes time for the logarithm of n. */
void due_set(struct due *d, int i, int64_t at_us);
int64_t due_at(const struct due *d, int i);

/* When the first of all is due. Takes no time. */
int64_t due_first(const struct due *d);

/* Thing i may be due at another time by now. */
void due_touch(struct due *d, int i);

/* One that was touched since it was taken last; -1: there is none. */
int due_take_touched(struct due *d);

#endif
