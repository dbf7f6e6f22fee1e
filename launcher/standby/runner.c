/* The assembler reads the files: the Makefile says that this depends on them.
 */
#include "launcher/standby/runner.h"

#define TEXT(name, files)                                                      \
    __asm__(".pushsection .rodata\n"                                           \
            ".global " #name "\n"                                              \
            ".type " #name ", %object\n" #name ":\n" files ".byte 0\n"         \
            ".size " #name ", . - " #name "\n"                                 \
            ".popsection\n")

TEXT(standby_start, ".incbin \"launcher/standby/start.py\"\n");
TEXT(standby_runner,
     ".incbin \"launcher/standby/imports.py\"\n"
     ".incbin \"launcher/standby/replay.py\"\n"
     ".incbin \"launcher/standby/runner.py\"\n");
