#include "tests/lib/scratch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char scratch[SCRATCH_MAX];

void scratch_enter(void)
{
    (void)snprintf(scratch, sizeof(scratch), "/tmp/ddprun-test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    ck_assert_int_eq(chdir(scratch), 0);
}

void scratch_leave(void)
{
    char line[SCRATCH_MAX + 16];
    (void)snprintf(line, sizeof(line), "rm -rf '%s'", scratch); /* fits */
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(system(line), 0);
}
