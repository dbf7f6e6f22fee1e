/* links: launcher/hang/stack_place */
/* Stacks as py-spy, gdb, eu-stack and Python write them: where the main thread
 * stands, and whether that is in a collective. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/hang/stack_place.h"
#include "tests/lib/suite.h"

static const struct {
    const char *stack; /* of process 77 */
    const char *where;
    bool collective, device;
} cases[] = {
    {"Process 77: python train.py\n"
     "Thread 81 (idle): \"Thread-1\"\n"
     "    wait (threading.py:324)\n"
     "Thread 77 (idle): \"MainThread\"\n"
     "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n"
     "    wrapper (torch/distributed/c10d_logger.py:81)\n"
     "    <module> (train.py:10)\n"
     "Thread 82 (idle): \"Thread-2\"\n"
     "    barrier (torch/distributed/distributed_c10d.py:4)\n",
     "all_reduce", true, false},
    {"Thread 0x7F3C (idle): \"MainThread\"\n"
     "    nap (train.py:3)\n"
     "    <module> (train.py:10)\n",
     "nap", false, false},
    /* With native frames between those of Python. */
    {"Thread 77 (idle): \"MainThread\"\n"
     "    __futex_wait (nptl/futex-internal.c:57)\n"
     "    c10d::Work::wait(std::chrono::duration<long>) (libtorch_cpu.so)\n"
     "    _engine_run_backward (torch/autograd/graph.py:3)\n",
     "c10d::Work::wait", true, false},
    {"Thread 77 (idle): \"MainThread\"\n"
     "    clock_nanosleep (libc.so.6)\n"
     "    pysleep (Modules/timemodule.c:2000)\n"
     "    nap (train.py:3)\n"
     "    <module> (train.py:10)\n",
     "nap", false, false},
    {"Thread 77 (active): \"MainThread\"\n"
     "    cudaStreamSynchronize (libcudart.so.12)\n"
     "    item (train.py:9)\n",
     "item", false, true},
    /* Python's own: the main thread is the last one. gdb's frames follow. */
    {"Thread 0x00007f3c (most recent call first):\n"
     "  File \"torch/distributed/distributed_c10d.py\", line 9 in barrier\n"
     "Thread 0x00007f3d (most recent call first):\n"
     "  File \"train.py\", line 3 in step\n"
     "  File \"train.py\", line 5 in <module>\n"
     "\n"
     "Thread 1 (Thread 0x7f3c (LWP 77) \"python3\"):\n"
     "#0  0x00007f3c in poll () from /lib/libc.so.6\n",
     "step", false, false},
    {"Thread 0x00007f3d (most recent call first):\n"
     "  File \"torch/autograd/graph.py\", line 3 in _engine_run_backward\n"
     "Thread 1 (Thread 0x7f3c (LWP 77) \"python3\"):\n"
     "#0  0x00007f3c in __futex_wait (a=1) at futex.c:9\n"
     "#1  0x00007f3c in c10d::Work::wait (this=0x1) at Work.cpp:9\n"
     "#2  0x00007f3c in c10d::Reducer::finalize_backward() () from x.so\n",
     "c10d::Work::wait", true, false},
    {"Thread 1 (process 77 \"prog\"):\n"
     "#0  0x00007f3c in poll () from /lib/libc.so.6\n"
     "#1  ddp_comm_all_reduce (c=0x1) at comm.c:9\n"
     "Thread 2 (Thread 0x7f3c (LWP 78) \"prog\"):\n"
     "#0  0x00007f3c in gloo::transport::tcp::Loop::run () from x.so\n",
     "ddp_comm_all_reduce", true, false},
    {"Thread 1 (Thread 0x7f3c (LWP 77) \"prog\"):\n"
     "#0  clock_nanosleep (clock_id=1) at c.c:48\n"
     "Thread 2 (Thread 0x7f3c (LWP 78) \"prog\"):\n"
     "#0  0x00007f3c in gloo::transport::tcp::Loop::run () from x.so\n",
     "clock_nanosleep", false, false},
    {"PID 77 - process\n"
     "TID 77:\n"
     "#0  0x00007f3c poll\n"
     "#1  0x00007f3d PMPI_Allreduce\n"
     "TID 78:\n"
     "#0  0x00007f3c nap\n",
     "PMPI_Allreduce", true, false},
    {"Thread 77 (active): \"MainThread\"\n"
     "    item (train.py:9)\n"
     "Thread 1 (Thread 0x7f3c (LWP 77) \"python3\"):\n"
     "#0  0x00007f3c in cuStreamSynchronize () from libcuda.so.1\n"
     "#1  0x00007f3c in cudaStreamSynchronize () from libcudart.so\n",
     "item", false, true},
    {"  no stacks: why (not: at all)\n", "", false, false},
    {"    all_reduce (torch/distributed/distributed_c10d.py:2806)\n", "", false,
     false},
    {"Thread 77 (idle): \"MainThread\"\n    a;b\x01 (x:1)\n", "a?b?", false,
     false},
    {"Thread 1 (process 77):\n#\n#1\n#2  0x1\n", "", false, false},
};

TEST_EACH(test_stack_place_is_the_main_threads, cases)
{
    char line[200];
    struct stack_place p;
    stack_place_init(&p, 77);
    for (const char *at = cases[_i].stack; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        ck_assert_uint_lt(len, sizeof(line));
        memcpy(line, at, len);
        line[len] = '\0';
        stack_place_take(&p, line);
        at += len + (at[len] == '\n');
    }
    ck_assert_str_eq(p.where, cases[_i].where);
    ck_assert_int_eq(p.collective, cases[_i].collective);
    ck_assert_int_eq(p.device, cases[_i].device);
}

TEST(test_stack_place_cuts_a_long_name)
{
    struct stack_place p;
    char line[400], name[300];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    (void)snprintf(line, sizeof(line), "#0  0x7f in %s (a=1) at f.c:1", name);
    stack_place_init(&p, 77);
    stack_place_take(&p, "TID 77:");
    stack_place_take(&p, line);
    ck_assert_uint_eq(strlen(p.where), STACK_PLACE_MAX - 1);
}

SUITE("stack_place", "stacks", .tags = "fast")
