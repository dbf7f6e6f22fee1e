/*
 * tests/lib/elf_image: as much of a program's file as tells its libraries: libc
 * and one other. It cannot be executed.
 */
#ifndef ELF_IMAGE_H
#define ELF_IMAGE_H

#include <elf.h>
#include <stdio.h>

struct elf_image {
    unsigned char head[EI_NIDENT];
    char texts[64]; /* "", libc's name, the other's; they end the file */
};

static inline struct elf_image elf_image_of(const char *library)
{
    struct elf_image m = {.head = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3}};
    (void)snprintf(m.texts + 1, sizeof(m.texts) - 1, "libc.so.6%c%s", '\0',
                   library);
    return m;
}

#endif
