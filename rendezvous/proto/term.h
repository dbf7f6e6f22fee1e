/*
 * proto/term: the term of a leader, as a value, and as messages, variables and
 * the simulator's trace write it. Pure.
 *
 * A term begins whenever a server is elected; no two are equal: of one count
 * there are as many as servers.
 */
#ifndef RENDEZVOUS_PROTO_TERM_H
#define RENDEZVOUS_PROTO_TERM_H

#include <stdbool.h>
#include <stdint.h>

#define TERM_ID_LEN    16
#define TERM_COUNT_MAX INT64_C(1000000000000000)

struct term {
    int64_t count;            /* 0: none */
    char id[TERM_ID_LEN + 1]; /* the server; of none "", or who would lead */
};

/* An id that is longer is cut. */
struct term term_make(int64_t count, const char *id);

/* < 0, 0, > 0: by count, then by server. */
int term_cmp(const struct term *x, const struct term *y);

/* The same of rounds: by the term in which they were proposed, then by number.
 */
int round_cmp(const struct term *x,
              int64_t x_round,
              const struct term *y,
              int64_t y_round);

/* COUNT.ID, such as 3.0123456789abcdef. */
#define TERM_TEXT_SIZE (21 + TERM_ID_LEN + 1)
void term_print(const struct term *t, char text[TERM_TEXT_SIZE]);

/* False, and `t` is undefined: not in that form, or the count is more than
 * TERM_COUNT_MAX. Any bytes are an id. */
bool term_parse(struct term *t, const char *text);

#endif
