/*
 * worker_rt/comm/reduce: elements of all types, and how two of them become one.
 * The result depends on nothing but the operands, on every machine, so ranks
 * that combine the same operands in the same order have the same bits.
 */
#ifndef WORKER_RT_COMM_REDUCE_H
#define WORKER_RT_COMM_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker_rt/ddp.h"

/* dst = a and b combined, for n elements; dst may be one of them. */
typedef void reduce_fn(void *dst, const void *a, const void *b, size_t n);

/* NULL: there is none for this dtype (I16, U16, BOOL), or no such dtype or
 * operation. That of DDP_AVG adds; see reduce_divide. */
reduce_fn *reduce_find(enum ddp_dtype dtype, enum ddp_op op);

/* Makes the sums of `world` operands averages. There must be a function for
 * this dtype. */
void reduce_divide(enum ddp_dtype dtype, void *data, size_t n, int world);

/* Bitwise or of bytes: for what only one rank has, and the others have zeros.
 */
void reduce_merge(void *dst, const void *a, const void *b, size_t n);

/* Of any number, as in messages and in the headers of safetensors files; "" for
 * 0 and "unknown" if there is none. */
const char *reduce_dtype_name(int64_t dtype);
const char *reduce_op_name(int64_t op);

#endif
