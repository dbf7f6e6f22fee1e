/* Look-ups in the report of a preflight: nodes, clocks, good rates, and how
 * they are written. */
#include "launcher/preflight/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define SLOW_FACTOR 4

int preflight_find(const struct preflight_report *r, int64_t rank)
{
    ddp_assert(r->n >= 0);
    int low = 0, high = r->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (r->nodes[mid].rank < rank)
            low = mid + 1;
        else
            high = mid;
    }
    ddp_assert(low >= 0 && low <= r->n);
    return low < r->n && r->nodes[low].rank == rank ? low : -1;
}

const char *
preflight_label(const struct preflight_report *r, int64_t rank, char label[80])
{
    int at = preflight_find(r, rank);
    int same = 0;
    for (int i = 0; at >= 0 && i < r->n; i++)
        same += strcmp(r->nodes[i].name, r->nodes[at].name) == 0;
    if (at < 0)
        (void)snprintf(label, 80, "node %" PRId64, rank);
    else if (same == 1)
        (void)snprintf(label, 80, "%s", r->nodes[at].name);
    else
        (void)snprintf(label, 80, "%.50s/%" PRId64, r->nodes[at].name, rank);
    return label;
}

static int by_size(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static int64_t *numbers(int n)
{
    int64_t *all = calloc((size_t)n + 1, sizeof(*all));
    ddp_assert(all != NULL);
    return all;
}

int64_t preflight_good_rate(const struct preflight_report *r,
                            enum preflight_net net)
{
    int64_t *rates = numbers(r->links_len);
    int n = 0;
    for (int i = 0; i < r->links_len; i++)
        if (r->links[i].net == (int64_t)net && r->links[i].rate > 0)
            rates[n++] = r->links[i].rate;
    qsort(rates, (size_t)n, sizeof(*rates), by_size);
    int64_t good = n > 0 ? rates[n - 1 - n / 4] : 0;
    free(rates);
    return good;
}

bool preflight_is_slow(const struct preflight_link *link, int64_t good_rate)
{
    return link->state == PREFLIGHT_OK && link->rate > 0 &&
           link->rate < good_rate / SLOW_FACTOR;
}

/* The median; of two middle ones that nearer to 0, so that with one wrong clock
 * among three nodes the other two count as right. */
bool preflight_clock(const struct preflight_report *r,
                     int64_t rank,
                     int64_t *ahead_us)
{
    int64_t *ahead = numbers(r->links_len);
    int n = 0;
    for (int i = 0; i < r->links_len; i++) {
        const struct preflight_link *l = &r->links[i];
        if (l->state != PREFLIGHT_OK && l->state != PREFLIGHT_STUCK)
            continue;
        if (l->from == rank)
            ahead[n++] = -l->clock_us;
        else if (l->to == rank)
            ahead[n++] = l->clock_us;
    }
    qsort(ahead, (size_t)n, sizeof(*ahead), by_size);
    if (n > 0)
        *ahead_us = ahead[n / 2];
    if (n > 0 && n % 2 == 0 && llabs(ahead[n / 2 - 1]) < llabs(*ahead_us))
        *ahead_us = ahead[n / 2 - 1];
    free(ahead);
    return n > 0;
}

static int64_t rounded(int64_t rate, int64_t unit)
{
    return rate <= 0 ? 0 : rate / unit + (rate % unit >= unit / 2 ? 1 : 0);
}

void preflight_rate_text(int64_t rate, char text[PREFLIGHT_CELL])
{
    const int64_t kilo = 1000, mega = 1000000, giga = 1000000000;
    int64_t tenths = rounded(rate, giga / 10);
    if (rate >= 10 * giga)
        (void)snprintf(text, PREFLIGHT_CELL, "%" PRId64 " Gbit/s",
                       rounded(rate, giga));
    else if (rate >= giga)
        (void)snprintf(text, PREFLIGHT_CELL, "%" PRId64 ".%d Gbit/s",
                       tenths / 10, (int)(tenths % 10));
    else if (rate >= mega)
        (void)snprintf(text, PREFLIGHT_CELL, "%" PRId64 " Mbit/s",
                       rounded(rate, mega));
    else
        (void)snprintf(text, PREFLIGHT_CELL, "%" PRId64 " kbit/s",
                       rounded(rate, kilo));
}
