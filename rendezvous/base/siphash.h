/*
 * base/siphash: a sum of bytes under a secret key (Aumasson and Bernstein,
 * "SipHash: a fast short-input PRF", 2012). Without the key nobody can tell
 * which sum a text has, and no sum tells the key.
 */
#ifndef RENDEZVOUS_BASE_SIPHASH_H
#define RENDEZVOUS_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4, for what strangers see. `data` may be NULL if `len` is 0. */
uint64_t siphash(const uint64_t key[2], const void *data, size_t len);

/* SipHash-1-3, in a third of the time, for hash tables: strangers choose what
 * is put into them, and never see a sum. */
uint64_t siphash_table(const uint64_t key[2], const void *data, size_t len);

#endif
