/*
 * tests/lib/elf_image: the file of a program that is linked with libc and one
 * other library. It cannot be executed.
 */
#ifndef ELF_IMAGE_H
#define ELF_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ELF_IMAGE_BASE 0x400000u /* where the file is in memory */

struct elf_image {
    Elf64_Ehdr head;
    Elf64_Phdr load;
    Elf64_Phdr dynamic;
    Elf64_Dyn libc;
    Elf64_Dyn other;
    Elf64_Dyn texts_at;
    Elf64_Dyn texts_len;
    Elf64_Dyn end;
    char texts[64]; /* "", libc's name, the other's; they end the file */
};

static inline struct elf_image elf_image_of(const char *library)
{
    struct elf_image m = {
        .head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                 .e_type = ET_DYN,
                 .e_phoff = offsetof(struct elf_image, load),
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = 2},
        .load = {.p_type = PT_LOAD,
                 .p_vaddr = ELF_IMAGE_BASE,
                 .p_filesz = sizeof(struct elf_image)},
        .dynamic = {.p_type = PT_DYNAMIC,
                    .p_offset = offsetof(struct elf_image, libc),
                    .p_filesz = 5 * sizeof(Elf64_Dyn)},
        .libc = {DT_NEEDED, {1}},
        .other = {DT_NEEDED, {11}},
        .texts_at = {DT_STRTAB,
                     {ELF_IMAGE_BASE + offsetof(struct elf_image, texts)}},
        .texts_len = {DT_STRSZ, {sizeof(m.texts)}},
        .end = {DT_NULL, {0}},
    };
    const uint16_t one = 1;
    m.head.e_ident[EI_DATA] =
        *(const uint8_t *)&one == 1 ? ELFDATA2LSB : ELFDATA2MSB;
    (void)snprintf(m.texts + 1, sizeof(m.texts) - 1, "libc.so.6%c%s", '\0',
                   library);
    return m;
}

#endif
