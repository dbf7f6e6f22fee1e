/* links: worker_rt/comm/reduce rendezvous/base/{err,rng} */
/*
 * Each operation on each type, beside a reference that knows the formats by
 * their definition only: a value is decoded with ldexp, and the nearest one is
 * searched for among all codes. All pairs of F8, many of the wider ones.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/reduce.h"
#include "worker_rt/ddp.h"

/* -- the reference --------------------------------------------------------- */

struct format {
    enum ddp_dtype dtype;
    int bits;
    int fraction;
    int bias;
    unsigned top;  /* the largest finite code */
    bool has_inf;  /* the code behind it */
    bool keeps_it; /* what is too large becomes infinite, not the largest */
};

static const struct format formats[] = {
    {DDP_F8_E4M3, 8, 3, 7, 0x7e, false, false},
    {DDP_F8_E5M2, 8, 2, 15, 0x7b, true, false},
    {DDP_F16, 16, 10, 15, 0x7bff, true, true},
    {DDP_BF16, 16, 7, 127, 0x7f7f, true, true},
};
#define FORMATS (int)(sizeof(formats) / sizeof(formats[0]))

static double decode(const struct format *f, unsigned code)
{
    unsigned sign = 1u << (f->bits - 1), rest = code & (sign - 1);
    int exponent = (int)(rest >> f->fraction);
    double fraction = rest & ((1u << f->fraction) - 1);
    double x = exponent == 0 ? ldexp(fraction, 1 - f->bias - f->fraction)
                             : ldexp(fraction + (1 << f->fraction),
                                     exponent - f->bias - f->fraction);
    if (rest > f->top)
        x = f->has_inf && rest == f->top + 1 ? HUGE_VAL : (double)NAN;
    return (code & sign) != 0 ? -x : x;
}

/* The code nearest to x, which is no NaN; half to even. */
static unsigned encode(const struct format *f, double x)
{
    unsigned sign = signbit(x) ? 1u << (f->bits - 1) : 0;
    unsigned low = 0, high = f->top;
    double size = fabs(x);
    double beyond =
        decode(f, f->top) + (decode(f, f->top) - decode(f, f->top - 1)) / 2;
    if (size >= beyond)
        return sign | (f->keeps_it ? f->top + 1 : f->top);
    while (low < high) { /* the last one that is not larger */
        unsigned middle = (low + high + 1) / 2;
        if (decode(f, middle) <= size)
            low = middle;
        else
            high = middle - 1;
    }
    if (low == f->top)
        return sign | low;
    double below = size - decode(f, low), above = decode(f, low + 1) - size;
    bool up = above < below || (!(below < above) && low % 2 == 1);
    return sign | (up ? low + 1 : low);
}

/* In F32, as ddp.h says; it holds all values of these formats. */
static double combined(enum ddp_op op, double x, double y)
{
    float a = (float)x, b = (float)y;
    float result = op == DDP_MAX    ? fmaxf(a, b)
                   : op == DDP_MIN  ? fminf(a, b)
                   : op == DDP_PROD ? a * b
                                    : a + b;
    return (double)result;
}

static unsigned
combine(const struct format *f, enum ddp_op op, unsigned x, unsigned y)
{
    unsigned char a1 = (unsigned char)x, b1 = (unsigned char)y, to1 = 0xee;
    uint16_t a2 = (uint16_t)x, b2 = (uint16_t)y, to2 = 0xeeee;
    reduce_fn *fn = reduce_find(f->dtype, op);
    if (f->bits == 8)
        fn(&to1, &a1, &b1, 1);
    else
        fn(&to2, &a2, &b2, 1);
    return f->bits == 8 ? to1 : to2;
}

/* Each ck_assert is a write(2), so nothing is asserted that is right. */
static void
compare(const struct format *f, enum ddp_op op, unsigned x, unsigned y)
{
    double a = decode(f, x), b = decode(f, y), result = combined(op, a, b);
    unsigned got = combine(f, op, x, y), sign = 1u << (f->bits - 1);
    if (isnan(result) && isnan(decode(f, got)))
        return;
    unsigned wanted = isnan(result) ? f->top + 2 : encode(f, result);
    /* Which of two zeros is larger is nowhere said. */
    bool zeros = fabs(result) <= 0 && (op == DDP_MAX || op == DDP_MIN);
    if (got == wanted || (zeros && (got & ~sign) == 0))
        return;
    ck_abort_msg("%s: %s of %g (%x) and %g (%x) is %x (%g), should be %x (%g)",
                 reduce_dtype_name(f->dtype), reduce_op_name(op), a, x, b, y,
                 got, decode(f, got), wanted, decode(f, wanted));
}

/* -- small floating-point numbers ------------------------------------------ */

static const enum ddp_op pairwise[] = {DDP_SUM, DDP_AVG, DDP_MAX, DDP_MIN,
                                       DDP_PROD};

/* All pairs of eight bits; of sixteen the neighbourhood of each power of two,
 * and 40,000 more. */
TEST_LOOP(test_reduce_small_floats_are_the_nearest, 0, FORMATS)
{
    const struct format *f = &formats[_i];
    struct rng r;
    rng_init(&r, (uint64_t)_i);
    for (unsigned k = 0; k < 5; k++) {
        for (unsigned i = 0; f->bits == 8 && i < 65536; i++)
            compare(f, pairwise[k], i & 255, i >> 8);
        for (unsigned i = 0; f->bits == 16 && i < 40000; i++)
            compare(f, pairwise[k], (unsigned)rng_below(&r, 65536),
                    (unsigned)rng_below(&r, 65536));
        for (unsigned i = 0; f->bits == 16 && i < 65536; i++) {
            unsigned near = i ^ (unsigned)rng_below(&r, 1u << f->fraction);
            compare(f, pairwise[k], i, near);
            compare(f, pairwise[k], i, near ^ 0x8000);
        }
    }
}

/* Every code, divided by one and by three. */
TEST_LOOP(test_reduce_small_floats_are_divided, 0, FORMATS)
{
    const struct format *f = &formats[_i];
    for (int world = 1; world <= 3; world += 2)
        for (unsigned i = 0; i < 1u << f->bits; i++) {
            unsigned char one = (unsigned char)i;
            uint16_t two = (uint16_t)i;
            reduce_divide(f->dtype, f->bits == 8 ? (void *)&one : &two, 1,
                          world);
            unsigned got = f->bits == 8 ? one : two;
            double x = (double)((float)decode(f, i) / (float)world);
            bool right = isnan(x) ? isnan(decode(f, got)) : got == encode(f, x);
            if (!right)
                ck_abort_msg("%x / %d: %x", i, world, got);
        }
}

/* -- whole numbers --------------------------------------------------------- */

#define ONE(T, dtype, op, x, y, wanted)                                        \
    do {                                                                       \
        T a_ = (T)(x), b_ = (T)(y), to_ = 1;                                   \
        reduce_find(dtype, op)(&to_, &a_, &b_, 1);                             \
        ck_assert_msg(to_ == (T)(wanted), "line %d", __LINE__);                \
    } while (0)

#define DIV(T, dtype, x, world, wanted)                                        \
    do {                                                                       \
        T a_ = (T)(x);                                                         \
        reduce_divide(dtype, &a_, 1, world);                                   \
        ck_assert_msg(a_ == (T)(wanted), "line %d", __LINE__);                 \
    } while (0)

/* Sums and products wrap around; larger and smaller mind the sign. */
TEST(test_reduce_whole_numbers_wrap_around)
{
    ONE(int64_t, DDP_I64, DDP_SUM, INT64_MAX, 2, INT64_MIN + 1);
    ONE(int64_t, DDP_I64, DDP_PROD, INT64_MAX, 2, -2);
    ONE(int32_t, DDP_I32, DDP_SUM, INT32_MIN, -1, INT32_MAX);
    ONE(int32_t, DDP_I32, DDP_PROD, 65536, 65537, 65536);
    ONE(int8_t, DDP_I8, DDP_SUM, 127, 1, -128);
    ONE(int8_t, DDP_I8, DDP_PROD, -128, -1, -128);
    ONE(uint64_t, DDP_U64, DDP_SUM, UINT64_MAX, 3, 2);
    ONE(uint64_t, DDP_U64, DDP_PROD, UINT64_MAX, UINT64_MAX, 1);
    ONE(uint32_t, DDP_U32, DDP_SUM, UINT32_MAX, 3, 2);
    ONE(uint32_t, DDP_U32, DDP_PROD, 65537, 65537, 131073);
    ONE(uint8_t, DDP_U8, DDP_SUM, 200, 100, 44);
    ONE(uint8_t, DDP_U8, DDP_PROD, 20, 20, 144);
    ONE(int64_t, DDP_I64, DDP_MAX, -1, 1, 1);
    ONE(int64_t, DDP_I64, DDP_MIN, -1, 1, -1);
    ONE(int8_t, DDP_I8, DDP_MAX, -1, 1, 1);
    ONE(uint64_t, DDP_U64, DDP_MAX, UINT64_MAX, 1, UINT64_MAX);
    ONE(uint32_t, DDP_U32, DDP_MIN, UINT32_MAX, 1, 1);
    ONE(uint8_t, DDP_U8, DDP_MIN, 255, 1, 1);
}

TEST(test_reduce_averages_of_whole_numbers_are_cut)
{
    DIV(int64_t, DDP_I64, -7, 2, -3);
    DIV(int64_t, DDP_I64, INT64_MIN, 1, INT64_MIN);
    DIV(int32_t, DDP_I32, 7, 2, 3);
    DIV(int8_t, DDP_I8, -7, 300, 0);
    DIV(uint64_t, DDP_U64, UINT64_MAX, 2, UINT64_MAX / 2);
    DIV(uint32_t, DDP_U32, UINT32_MAX, 2, UINT32_MAX / 2);
    DIV(uint8_t, DDP_U8, 255, 300, 0);
}

/* -- floating-point numbers of the processor's ----------------------------- */

TEST(test_reduce_a_number_goes_before_a_nan)
{
    float x = NAN, y = -2, to = 0;
    double a = (double)NAN, b = -2, into = 0;
    for (int i = 0; i < 2; i++) {
        enum ddp_op op = i == 0 ? DDP_MAX : DDP_MIN;
        reduce_find(DDP_F32, op)(&to, &x, &y, 1);
        ck_assert(to <= -2 && to >= -2);
        reduce_find(DDP_F32, op)(&to, &y, &x, 1);
        ck_assert(to <= -2 && to >= -2);
        reduce_find(DDP_F64, op)(&into, &a, &b, 1);
        ck_assert(into <= -2 && into >= -2);
        reduce_find(DDP_F64, op)(&into, &b, &a, 1);
        ck_assert(into <= -2 && into >= -2);
    }
    reduce_find(DDP_F32, DDP_MAX)(&to, &x, &x, 1);
    ck_assert(isnan(to));
}

/* -- the table ------------------------------------------------------------- */

TEST(test_reduce_what_there_is_not)
{
    static const int none[] = {0, DDP_I16, DDP_U16, DDP_BOOL, 16, 99, -1};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        ck_assert(reduce_find((enum ddp_dtype)none[i], DDP_SUM) == NULL);
    ck_assert(reduce_find(DDP_F32, (enum ddp_op)5) == NULL);
    ck_assert(reduce_find(DDP_F32, (enum ddp_op) - 1) == NULL);
    ck_assert_str_eq(reduce_dtype_name(0), "");
    ck_assert_str_eq(reduce_dtype_name(99), "unknown");
    ck_assert_str_eq(reduce_op_name(-1), "unknown");
    ck_assert_str_eq(reduce_dtype_name(DDP_F8_E5M2), "F8_E5M2");
}

SUITE("comm_reduce", "all", .limit_s = 60)
