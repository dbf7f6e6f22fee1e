/* Prints the name of the first GPU; status 77 and why if there is none. */
#include "tests/gpu/card.h"

int main(void)
{
    card_open();
    puts(card.name);
    return 0;
}
