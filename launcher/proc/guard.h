/*
 * launcher/proc/guard: the process whose pid the user knows. It does very
 * little, so that very little can go wrong in it: it passes the user's signals
 * on, and when the agent has ended it ends whatever the agent left behind.
 *
 *     ddprun (guard) -- janitor -- agent -- workers
 *                                       \-- server, store
 *
 * All three are child subreapers, and guard and agent hold the two ends of a
 * socketpair: an agent that sees the other end closed ends everything. When the
 * agent is dead the janitor does (launcher/proc/janitor), then the guard, which
 * then says farewell for the whole node (launcher/proc/farewell_page).
 *
 * A frozen agent (SIGSTOP, a stuck disk) cannot kill its workers when its lease
 * is over. The guard knows the lease from a page that they share, and kills
 * the workers instead. An agent that wakes takes part again.
 *
 * Ctrl-Z (SIGTSTP) stops the guard, as the shell expects, and the workers; the
 * agent goes on with its beats. SIGCONT continues both.
 */
#ifndef LAUNCHER_PROC_GUARD_H
#define LAUNCHER_PROC_GUARD_H

#include <stddef.h>
#include <stdint.h>

/* What travels over the socketpair, one datagram each. */
enum guard_msg_kind {
    GUARD_SIGNAL, /* guard to agent: the user sent `signo` */
    GUARD_PAUSE,  /* guard to agent: stop the workers ... */
    GUARD_RESUME, /* ... and continue them */
    GUARD_LEASE,  /* agent to guard: look at the lease, it ends earlier now */
};

struct guard_msg {
    uint32_t kind;
    int32_t signo;
    int32_t sender; /* of GUARD_SIGNAL: the process, 0: not of ours */
};

/* What the guard does last, when all of this launch is dead and the server
 * knows: it ends with `status`, and was sent `signals`. */
typedef void (*guard_end)(int status, uint64_t signals);

/*
 * Forks. In the agent it returns the agent's end of the socketpair. In guard
 * and janitor it never returns; the guard ends with the agent's status (137 if
 * the agent was killed, that of DDP_E_BUG if a fault of its own killed it).
 * Called once, before any thread or loop exists. `end` may be NULL.
 *
 * `signals` (launcher/proc/signals.h), SIGUSR1, SIGUSR2, SIGWINCH and SIGTSTP
 * are passed on. Any other signal has its usual effect; if that is the guard's
 * death, everything ends at once.
 *
 * All ignore SIGPIPE and SIGXFSZ, the guard ignores SIGTTOU as well. In the
 * agent, and so in its helpers, the signals that the guard passes on stay
 * blocked: they come over the socketpair only, also if every process of that
 * name is signalled.
 */
int guard_split(uint64_t signals, guard_end end);

/* In the agent: until when the workers may run (mono; MONO_NEVER: there are
 * none). Costs no system call if it is later than it was. */
void guard_lease(int guard_fd, int64_t until_us);

/* In the agent, before it starts workers: waits while the guard kills those of
 * a lease that is over, which it may find out late. Mostly it does not wait, at
 * most for 200 ms. Only after guard_lease has told of another lease, or of
 * none. */
void guard_wait(void);

#endif
