/*
 * The lines, and what each tool writes before the frames of a thread:
 *
 *     py-spy    Thread 77 (idle): "MainThread"
 *                   c10d::Work::wait (libtorch_cpu.so)      with --native
 *                   all_reduce (torch/distributed/distributed_c10d.py:2806)
 *     Python    Thread 0x00007f3c (most recent call first):
 *                 File "train.py", line 3 in step
 *     gdb       Thread 1 (Thread 0x7f3c (LWP 77) "python3"):
 *               #3  0x00007f3c in c10d::Work::wait (this=...) at Work.cpp:9
 *     eu-stack  TID 77:
 *               #3  0x00007f3c poll
 *
 * Python numbers its threads by their addresses, and writes the main thread
 * last: each of its headings begins anew. The frames go from the innermost
 * outwards, so that the first match is the nearest.
 */
#include "launcher/hang/stack_place.h"

#include <stdlib.h>
#include <string.h>

void stack_place_init(struct stack_place *p, pid_t pid)
{
    *p = (struct stack_place){.pid = pid};
}

/* -- headings -------------------------------------------------------------- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool take_heading(struct stack_place *p, const char *line)
{
    if (strstr(line, "most recent call first") != NULL) {
        stack_place_init(p, p->pid);
        p->in_main = true;
        return true;
    }
    if (begins(line, "TID ")) {
        p->in_main = strtol(line + 4, NULL, 10) == p->pid;
        return true;
    }
    if (!begins(line, "Thread "))
        return false;
    if (strstr(line, "(LWP ") != NULL || strstr(line, "(process ") != NULL)
        p->in_main = begins(line, "Thread 1 ");
    else
        p->in_main = strtol(line + 7, NULL, 10) == p->pid ||
                     strstr(line, "\"MainThread\"") != NULL;
    return true;
}

/* -- frames ---------------------------------------------------------------- */

struct frame {
    const char *function;
    size_t len;
    const char *file; /* of Python, and what follows; "": a native frame */
    bool between;     /* a native one among those of Python */
};

/* It has no line, or a language that is compiled. */
static bool is_native_file(const char *file)
{
    static const char *const ends[] = {
        ".c:",   ".cc:", ".cpp:", ".cxx:", ".cu:",
        ".cuh:", ".h:",  ".hpp:", ".S:",   ".rs:"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strstr(file, ends[i]) != NULL)
            return true;
    return strrchr(file, ':') == NULL;
}

/* "func (file:9)", indented. */
static bool parse_py_spy(const char *line, struct frame *f)
{
    const char *name = line + strspn(line, " ");
    const char *open = strstr(name, " (");
    if (!begins(line, "    ") || open == NULL)
        return false;
    if (is_native_file(open))
        *f = (struct frame){name, strcspn(name, " (<@"), "", true};
    else
        *f = (struct frame){name, (size_t)(open - name), open + 2, false};
    return true;
}

/* "  File "file", line 3 in func" */
static bool parse_python(const char *line, struct frame *f)
{
    const char *in = strstr(line, " in ");
    if (!begins(line, "  File \"") || in == NULL)
        return false;
    *f = (struct frame){in + 4, strlen(in + 4), line + 8, false};
    return true;
}

/* "#3  0x00007f3c in func (args) at file:9"; without the address, the
 * arguments, or the word in. A version of the function follows an '@'. */
static bool parse_native(const char *line, struct frame *f)
{
    if (line[0] != '#')
        return false;
    const char *name = line + 1 + strspn(line + 1, "0123456789");
    name += strspn(name, " ");
    if (begins(name, "0x"))
        name += strcspn(name, " ");
    name += strspn(name, " ");
    if (begins(name, "in "))
        name += 3;
    *f = (struct frame){name, strcspn(name, " (<@"), "", false};
    return f->len > 0;
}

/* -- what they mean -------------------------------------------------------- */

/* Of PyTorch: the functions that call each other there are all such waits. */
static bool is_python_collective(const struct frame *f)
{
    return strstr(f->file, "torch/distributed/distributed_c10d.py") != NULL ||
           strstr(f->file, "torch/distributed/rendezvous.py") != NULL;
}

/* Functions that wait for other ranks begin so. */
static bool is_native_collective(const struct frame *f)
{
    static const char *const names[] = {
        "c10d::", "gloo::", "nccl",  "pnccl",     "MPI_",       "PMPI_",
        "MPIR_",  "ompi_",  "PMIx_", "ddp_comm_", "ddp_store_", "ddp_keeper_"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (begins(f->function, names[i]))
            return true;
    return false;
}

static bool is_device_wait(const struct frame *f)
{
    static const char *const names[] = {
        "cudaStreamSynchronize", "cudaDeviceSynchronize",
        "cudaEventSynchronize",  "cuStreamSynchronize",
        "cuCtxSynchronize",      "cuEventSynchronize",
        "hipStreamSynchronize",  "hipDeviceSynchronize",
        "hipEventSynchronize"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (begins(f->function, names[i]))
            return true;
    return false;
}

static void keep(struct stack_place *p, const struct frame *f)
{
    size_t len = f->len < sizeof(p->where) ? f->len : sizeof(p->where) - 1;
    for (size_t i = 0; i < len; i++) {
        char c = f->function[i];
        p->where[i] = c < ' ' || c > '~' || c == ';' ? '?' : c;
    }
    p->where[len] = '\0';
}

void stack_place_take(struct stack_place *p, const char *line)
{
    struct frame f;
    if (take_heading(p, line) || !p->in_main || p->collective ||
        !(parse_py_spy(line, &f) || parse_python(line, &f) ||
          parse_native(line, &f)))
        return;
    bool native = f.file[0] == '\0';
    p->device |= native && is_device_wait(&f);
    p->collective =
        native ? is_native_collective(&f) : is_python_collective(&f);
    if (p->collective || (p->where[0] == '\0' && !f.between))
        keep(p, &f);
}
