#include "launcher/preflight/pairing.h"

#include "rendezvous/base/err.h"
#include "rendezvous/base/rng.h"

/* The circle has an even number of places: with odd n one is empty. */
static int places(int n)
{
    return n + n % 2;
}

int pairing_rounds(int n)
{
    if (n < 2)
        return 0;
    return n <= PAIRING_ALL_MAX ? places(n) - 1 : PAIRING_FEW;
}

void pairing_order(int *order, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    if (n <= PAIRING_ALL_MAX)
        return;
    struct rng rng;
    rng_init(&rng, seed);
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(&rng, (uint32_t)i + 1);
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* The last place stays where it is, the others turn: those two meet in round r
 * whose places add up to 2r, and place r meets the last one. */
int pairing_partner(int n, int round, int place)
{
    ddp_assert(round >= 0 && round < pairing_rounds(n));
    ddp_assert(place >= 0 && place < n);
    int last = places(n) - 1;
    int other;
    if (place == last)
        other = round;
    else if (place == round)
        other = last;
    else
        other = (2 * round - place + last) % last;
    return other < n ? other : -1;
}
