/* links: launcher/hang/stack_line */
/* Lines as gdb, eu-stack and Python write them. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/hang/stack_line.h"
#include "tests/lib/suite.h"

static const struct {
    const char *line, *shown; /* NULL: nothing of it is shown */
} cases[] = {
    {"#0  0x00007fb6aaced545 in __GI___clock_nanosleep (clock_id=1, "
     "req=@entry=0x7ffc) at ../sysdeps/clock_nanosleep.c:48",
     "#0  __GI___clock_nanosleep at ../sysdeps/clock_nanosleep.c:48"},
    {"#2  time_sleep (self=<optimized out>) at ./Modules/timemodule.c:383",
     "#2  time_sleep at ./Modules/timemodule.c:383"},
    {"#1  0x00007f in read () from /lib/x86_64-linux-gnu/libc.so.6",
     "#1  read from /lib/x86_64-linux-gnu/libc.so.6"},
    {"#23 0x0000559f in _start ()", "#23 _start"},
    {"#4  f (text=\"a) at b\", n=1) at f.c:1", "#4  f at f.c:1"},
    {"#5  0x00007f in std::vector<int (*)(int)>::at (n=1) at v.h:7",
     "#5  std::vector<int (*)(int)>::at at v.h:7"},
    {"#0  0x00007f36 clock_nanosleep", "#0  0x00007f36 clock_nanosleep"},
    {"  File \"train.py\", line 3 in f (x)",
     "  File \"train.py\", line 3 in f (x)"},
    {"rank 0\t(pid 7): stacks", "rank 0 (pid 7): stacks"},
    {"  no stacks: why (not)", "  no stacks: why (not)"},
    {"Couldn't write extended state status: Bad address.",
     "  no Python lines: gdb before version 14 cannot call into a process on "
     "this CPU; py-spy reads them (pip install 'ddprun[debug]')"},
    {"#", "#"},
    {"", NULL},
    {"[New LWP 25616]", NULL},
    {"Using host libthread_db library \"/lib/libthread_db.so.1\".", NULL},
    {"0x00007fb6aaced545 in __GI___clock_nanosleep (flags=1) at c.c:48", NULL},
    {"__GI___clock_nanosleep (clock_id=0) at ../sysdeps/c.c:71", NULL},
    {"read () from /lib/x86_64-linux-gnu/libc.so.6", NULL},
    {"Thread 1 (Thread 0x7f1e (LWP 1296) \"sleep\"):",
     "Thread 1 (Thread 0x7f1e (LWP 1296) \"sleep\"):"},
    {"    f (train.py:3)", "    f (train.py:3)"},
    {"warning: Target and debugger are in different PID namespaces", NULL},
};

TEST_EACH(test_stack_line_is_shown_as_it_should, cases)
{
    char line[200];
    (void)snprintf(line, sizeof(line), "%s", cases[_i].line);
    ck_assert_pstr_eq(stack_line_for_people(line), cases[_i].shown);
}

SUITE("stack_line", "lines", .tags = "fast")
