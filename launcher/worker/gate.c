/*
 * Happy path: a page of shared anonymous memory. The word is 1 while the gate
 * is open.
 *
 * Failure modes: the agent dies before it opens the gate; then the children die
 * as well (PR_SET_PDEATHSIG of spawn.h). A futex is refused: the child goes on.
 */
#include "launcher/worker/gate.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct gate {
    _Atomic uint32_t is_open;
};

_Static_assert(sizeof(struct gate) == sizeof(uint32_t),
               "futex(2) wants a word of 32 bits");

struct gate *gate_new(void)
{
    struct gate *gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (gate == MAP_FAILED)
        return NULL;
    gate_open(gate);
    return gate;
}

void gate_close(struct gate *gate)
{
    if (gate != NULL)
        atomic_store(&gate->is_open, 0);
}

void gate_open(struct gate *gate)
{
    if (gate == NULL)
        return;
    atomic_store(&gate->is_open, 1);
    (void)syscall(SYS_futex, &gate->is_open, FUTEX_WAKE, INT_MAX, NULL, NULL,
                  0); /* if it is refused, so was the wait */
}

void gate_pass(struct gate *gate)
{
    while (gate != NULL && atomic_load(&gate->is_open) == 0)
        if (syscall(SYS_futex, &gate->is_open, FUTEX_WAIT, 0, NULL, NULL, 0) !=
                0 &&
            errno != EINTR && errno != EAGAIN)
            return;
}
