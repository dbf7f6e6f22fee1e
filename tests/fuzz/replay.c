/*
 * In place of libFuzzer's main: plays files to a fuzz target, one after the
 * other, and says how many there were. For builds that libFuzzer does not do:
 * coverage, gcc, other machines. Folders are not searched.
 * usage: fuzz_TARGET FILE...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (1 << 20) /* bytes; libFuzzer's own limit on a seed */

/* In memory of the exact size, so that ASan sees one byte too many. */
static int play(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL)
        return -1;
    for (size_t i = 0; i < len; i++)
        copy[i] = bytes[i];
    (void)LLVMFuzzerTestOneInput(copy, len); /* 0, or -1: not for the corpus */
    free(copy);
    return 0;
}

static int play_file(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    int failed = ferror(file);
    (void)fclose(file); /* read only */
    if (failed != 0) {
        (void)fprintf(stderr, "%s: could not be read\n", path);
        return -1;
    }
    return play(bytes, len);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++)
        if (play_file(argv[i]) != 0)
            return 1;
    (void)printf("%d inputs\n", argc - 1);
    return 0;
}
