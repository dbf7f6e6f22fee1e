/* The assembler reads the files: the Makefile says that this depends on them.
 */
#include "launcher/standby/runner.h"

__asm__(".pushsection .rodata\n"
        ".global standby_runner\n"
        ".type standby_runner, %object\n"
        "standby_runner:\n"
        ".incbin \"launcher/standby/imports.py\"\n"
        ".incbin \"launcher/standby/runner.py\"\n"
        ".byte 0\n"
        ".size standby_runner, . - standby_runner\n"
        ".popsection\n");
