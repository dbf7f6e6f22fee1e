/*
 * worker_rt/comm/reduce: five operations on twelve types.
 *
 * The types that C has are combined as they are, whole numbers as unsigned ones
 * so that they wrap around. The small floating-point types are widened to F32,
 * which holds each of their values, combined there and rounded back. None of
 * this is left to the compiler's or the processor's own small types, which not
 * all have, and whose NaNs differ.
 *
 * The formats: F16 is IEEE's binary16; BF16 the upper half of an F32; F8_E5M2
 * has infinities, F8_E4M3 has none and one NaN. A result that no F8 can hold
 * becomes the largest one, as in CUDA's conversions, which NCCL uses.
 */
#include "worker_rt/comm/reduce.h"

#include <math.h>
#include <string.h>

#include "rendezvous/base/err.h"

/* -- small floating-point numbers ------------------------------------------ */

/* Codes without the sign. */
struct format {
    int fraction;  /* bits */
    int bias;      /* of the exponent */
    uint32_t sign; /* this bit */
    uint32_t top;  /* the largest number */
    uint32_t over; /* what is beyond it */
    uint32_t inf;  /* 0: there is none */
    uint32_t nan;  /* one of them */
    float least;   /* the smallest number above zero */
};

static const struct format f16 = {10,     15,     0x8000, 0x7bff,
                                  0x7c00, 0x7c00, 0x7e00, 0x1p-24f};
static const struct format e4m3 = {3, 7, 0x80, 0x7e, 0x7e, 0, 0x7f, 0x1p-9f};
static const struct format e5m2 = {2,    15,   0x80, 0x7b,
                                   0x7b, 0x7c, 0x7f, 0x1p-16f};

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* As c ? a : b, of which compilers make a branch if one of them comes from
 * floating-point arithmetic, as that may trap. */
static inline uint32_t pick(bool c, uint32_t a, uint32_t b)
{
    uint32_t mask = 0u - (uint32_t)c;
    return (a & mask) | (b & ~mask);
}

/* Neither of these two has a branch, so that loops over them are vectorised:
 * with branches that nobody can predict an element took 17 ns, not 2. */
static inline float widen(const struct format *f, uint32_t code)
{
    uint32_t sign = pick((code & f->sign) != 0, 0x80000000u, 0);
    uint32_t rest = code & (f->sign - 1);
    int cut = 23 - f->fraction;
    uint32_t offset = (uint32_t)(127 - f->bias) << 23;
    uint32_t normal = (rest << cut) + offset;
    uint32_t small = bits_of((float)(int32_t)rest * f->least);
    uint32_t special = pick(rest == f->inf, 0x7f800000u, 0x7fc00000u);
    uint32_t bits = pick(rest >> f->fraction == 0, small, normal);
    return float_of(sign | pick(rest > f->top, special, bits));
}

/*
 * Rounds half to even. What is added before the cut makes a fraction that is
 * rounded up overflow into the exponent, which is right. A number below the
 * normal ones is added to one whose last bit stands for the smallest number, so
 * that the processor rounds it there.
 */
static inline uint32_t narrow(const struct format *f, float x)
{
    uint32_t bits = bits_of(x), rest = bits & 0x7fffffffu;
    uint32_t sign = pick(bits != rest, f->sign, 0);
    int cut = 23 - f->fraction;
    uint32_t offset = (uint32_t)(127 - f->bias) << 23;
    uint32_t odd = rest >> cut & 1, half = (1u << (cut - 1)) - 1;
    uint32_t normal = (rest - offset + half + odd) >> cut;
    float shift = f->least * 0x1p23f;
    uint32_t small = bits_of(float_of(rest) + shift) - bits_of(shift);
    uint32_t code = pick(rest < offset + (1u << 23), small, normal);
    code = pick(code > f->top, f->over, code);
    return sign | pick(rest > 0x7f800000u, f->nan, code);
}

static inline float get_f16(uint16_t code)
{
    return widen(&f16, code);
}

static inline uint16_t put_f16(float x)
{
    return (uint16_t)narrow(&f16, x);
}

static inline float get_bf16(uint16_t code)
{
    return float_of((uint32_t)code << 16);
}

static inline uint16_t put_bf16(float x)
{
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u); /* it stays a NaN */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float get_e4m3(uint8_t code)
{
    return widen(&e4m3, code);
}

static inline uint8_t put_e4m3(float x)
{
    return (uint8_t)narrow(&e4m3, x);
}

static inline float get_e5m2(uint8_t code)
{
    return widen(&e5m2, code);
}

static inline uint8_t put_e5m2(float x)
{
    return (uint8_t)narrow(&e5m2, x);
}

/* -- the operations -------------------------------------------------------- */

static inline float most_float(float x, float y)
{
    return isnan(x) || x < y ? y : x;
}

static inline float least_float(float x, float y)
{
    return isnan(x) || y < x ? y : x;
}

static inline double most_double(double x, double y)
{
    return isnan(x) || x < y ? y : x;
}

static inline double least_double(double x, double y)
{
    return isnan(x) || y < x ? y : x;
}

/* A function over arrays of T, where x and y are the elements. */
#define LOOP(name, T, result)                                                  \
    static void name(void *dst, const void *a, const void *b, size_t n)        \
    {                                                                          \
        T *to = dst;                                                           \
        const T *left = a, *right = b;                                         \
        for (size_t i = 0; i < n; i++) {                                       \
            T x = left[i], y = right[i];                                       \
            to[i] = (result);                                                  \
        }                                                                      \
    }

#define DIVIDE(name, T, result)                                                \
    static void name(void *data, size_t n, int world)                          \
    {                                                                          \
        T *to = data;                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            T x = to[i];                                                       \
            to[i] = (result);                                                  \
        }                                                                      \
    }

/* clang-format off */
#define OWN(sfx, T)                                                            \
    LOOP(sum_##sfx, T, x + y)                                                  \
    LOOP(prod_##sfx, T, x * y)                                                 \
    LOOP(max_##sfx, T, most_##T(x, y))                                         \
    LOOP(min_##sfx, T, least_##T(x, y))                                        \
    DIVIDE(div_##sfx, T, x / (T)world)
OWN(f32, float)
OWN(f64, double)

#define SMALL(sfx, T)                                                          \
    LOOP(sum_##sfx, T, put_##sfx(get_##sfx(x) + get_##sfx(y)))                 \
    LOOP(prod_##sfx, T, put_##sfx(get_##sfx(x) * get_##sfx(y)))                \
    LOOP(max_##sfx, T, put_##sfx(most_float(get_##sfx(x), get_##sfx(y))))      \
    LOOP(min_##sfx, T, put_##sfx(least_float(get_##sfx(x), get_##sfx(y))))     \
    DIVIDE(div_##sfx, T, put_##sfx(get_##sfx(x) / (float)world))
SMALL(f16, uint16_t)
SMALL(bf16, uint16_t)
SMALL(e4m3, uint8_t)
SMALL(e5m2, uint8_t)

/* W is the unsigned type in which the result wraps around, S one in which the
 * world size keeps the sign of the quotient. */
#define WHOLE(sfx, T, W, S)                                                    \
    LOOP(sum_##sfx, T, (T)((W)x + (W)y))                                       \
    LOOP(prod_##sfx, T, (T)((W)x * (W)y))                                      \
    LOOP(max_##sfx, T, x < y ? y : x)                                          \
    LOOP(min_##sfx, T, y < x ? y : x)                                          \
    DIVIDE(div_##sfx, T, (T)(x / (S)world))
WHOLE(i64, int64_t, uint64_t, int64_t)
WHOLE(i32, int32_t, uint32_t, int32_t)
WHOLE(i8, int8_t, uint32_t, int32_t)
WHOLE(u64, uint64_t, uint64_t, uint64_t)
WHOLE(u32, uint32_t, uint32_t, uint32_t)
WHOLE(u8, uint8_t, uint32_t, uint32_t)
/* clang-format on */

void reduce_merge(void *dst, const void *a, const void *b, size_t n)
{
    uint8_t *to = dst;
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(x[i] | y[i]);
}

/* -- the table ------------------------------------------------------------- */

typedef void divide_fn(void *data, size_t n, int world);

#define OPS 5

/* The enum begins at 1: the row 0 is empty. Its names are those of the format
 * safetensors. */
#define ROW(name, size, sfx)                                                   \
    {                                                                          \
        name, size, {sum_##sfx, sum_##sfx, max_##sfx, min_##sfx, prod_##sfx},  \
            div_##sfx                                                          \
    }
static const struct row {
    const char *name;
    size_t size;
    reduce_fn *fn[OPS]; /* in the order of enum ddp_op */
    divide_fn *divide;
} rows[] = {
    [0] = {.name = ""},
    [DDP_F64] = ROW("F64", 8, f64),
    [DDP_F32] = ROW("F32", 4, f32),
    [DDP_F16] = ROW("F16", 2, f16),
    [DDP_BF16] = ROW("BF16", 2, bf16),
    [DDP_I64] = ROW("I64", 8, i64),
    [DDP_I32] = ROW("I32", 4, i32),
    [DDP_I16] = {.name = "I16", .size = 2},
    [DDP_I8] = ROW("I8", 1, i8),
    [DDP_U8] = ROW("U8", 1, u8),
    [DDP_BOOL] = {.name = "BOOL", .size = 1},
    [DDP_F8_E4M3] = ROW("F8_E4M3", 1, e4m3),
    [DDP_F8_E5M2] = ROW("F8_E5M2", 1, e5m2),
    [DDP_U64] = ROW("U64", 8, u64),
    [DDP_U32] = ROW("U32", 4, u32),
    [DDP_U16] = {.name = "U16", .size = 2},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const op_names[OPS] = {
    [DDP_SUM] = "SUM", [DDP_AVG] = "AVG",   [DDP_MAX] = "MAX",
    [DDP_MIN] = "MIN", [DDP_PROD] = "PROD",
};

reduce_fn *reduce_find(enum ddp_dtype dtype, enum ddp_op op)
{
    if ((size_t)dtype >= ROWS || (size_t)op >= OPS)
        return NULL;
    return rows[dtype].fn[op];
}

void reduce_divide(enum ddp_dtype dtype, void *data, size_t n, int world)
{
    ddp_assert((size_t)dtype < ROWS && rows[dtype].divide != NULL);
    ddp_assert(world > 0);
    rows[dtype].divide(data, n, world);
}

size_t ddp_dtype_size(enum ddp_dtype dtype)
{
    return (size_t)dtype < ROWS ? rows[dtype].size : 0;
}

const char *reduce_dtype_name(int64_t dtype)
{
    return dtype >= 0 && dtype < (int64_t)ROWS ? rows[dtype].name : "unknown";
}

const char *reduce_op_name(int64_t op)
{
    return op >= 0 && op < OPS ? op_names[op] : "unknown";
}
