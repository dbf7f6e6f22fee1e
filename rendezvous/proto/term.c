#include "rendezvous/proto/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct term term_make(int64_t count, const char *id)
{
    struct term t = {.count = count};
    (void)snprintf(t.id, sizeof(t.id), "%s", id); /* may be cut */
    return t;
}

int term_cmp(const struct term *x, const struct term *y)
{
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return strcmp(x->id, y->id);
}

int round_cmp(const struct term *x,
              int64_t x_round,
              const struct term *y,
              int64_t y_round)
{
    int order = term_cmp(x, y);
    if (order != 0 || x_round == y_round)
        return order;
    return x_round < y_round ? -1 : 1;
}

void term_print(const struct term *t, char text[TERM_TEXT_SIZE])
{
    (void)snprintf(text, TERM_TEXT_SIZE, "%lld.%s", /* fits */
                   (long long)t->count, t->id);
}

bool term_parse(struct term *t, const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 16 || text[digits] != '.' ||
        strlen(text + digits + 1) > TERM_ID_LEN)
        return false;
    *t = term_make(strtoll(text, NULL, 10), text + digits + 1);
    return t->count <= TERM_COUNT_MAX;
}
