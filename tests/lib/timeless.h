/*
 * tests/lib/timeless: texts that bear times, to be compared.
 */
#ifndef TESTS_LIB_TIMELESS_H
#define TESTS_LIB_TIMELESS_H

/* Puts TIME, in place, for each time as rendezvous/base/utc writes it with
 * milliseconds. Returns `text`. */
char *timeless(char *text);

#endif
