/*
 * tests/fuzz/fuzz: what the targets share: bytes that are taken one after the
 * other as numbers and texts. When they are used up all is 0 and "", so that
 * every input is a whole one. Each target is a file fuzz_NAME.c with
 * libFuzzer's entry point, links what its first lines name, and has its seeds
 * in make-corpus or corpus/NAME. A target fails by ddp_assert, like the code
 * that it tests.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fuzz_in {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t fuzz_u8(struct fuzz_in *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static inline uint16_t fuzz_u16(struct fuzz_in *in)
{
    unsigned low = fuzz_u8(in);
    return (uint16_t)(low | (unsigned)fuzz_u8(in) << 8);
}

/* Up to `want` bytes, borrowed; `*got` says how many there are. */
static inline const uint8_t *
fuzz_bytes(struct fuzz_in *in, size_t want, size_t *got)
{
    const uint8_t *p = in->at;
    *got = want < in->left ? want : in->left;
    in->at += *got;
    in->left -= *got;
    return p;
}

/* libFuzzer's name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
