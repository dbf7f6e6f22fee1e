/*
 * tests/lib/interfaces: a getifaddrs(3) that can fail. Tests with it link -ldl.
 */
#ifndef INTERFACES_H
#define INTERFACES_H

extern int interfaces_errno; /* it fails with this; 0: it works */

#endif
