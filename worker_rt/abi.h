/*
 * worker_rt/abi: structs of programs that were built for another version.
 */
#ifndef WORKER_RT_ABI_H
#define WORKER_RT_ABI_H

#include <stddef.h>

#include "rendezvous/base/err.h"

/* Bytes of each in version 0.3.0: what a size of 0 means. They never change. */
#define ABI_COMM_OPTS_MIN    48
#define ABI_KEEPER_CONF_MIN  80
#define ABI_SAMPLER_CONF_MIN 40
#define ABI_KEPT_MIN         576

/*
 * Copies a struct of the program, which begins with its size, to ours of `len`
 * bytes; what the program does not know is zero. USAGE: the size makes no
 * sense, or something is set that this library does not know.
 */
int abi_take(
    void *to, size_t len, const void *from, size_t least, struct ddp_err *err);

/* The other way: what the program does not know is left out, what we do not
 * know is left alone, and so is the size. */
void abi_give(void *to, const void *from, size_t len, size_t least);

#endif
