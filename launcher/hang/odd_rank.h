/*
 * launcher/hang/odd_rank: of ranks that all stand still, the one that the
 * others wait for. Pure: what is known of each rank goes in, a rank and the
 * words for people come out.
 *
 * A rank that does not come leaves its peers waiting in their next collective,
 * and silence alone does not tell the one from the others. What each of them
 * does tells it: a rank that is stopped waits for nobody, one that waits in a
 * collective does. enum rank_doing has the order.
 */
#ifndef LAUNCHER_HANG_ODD_RANK_H
#define LAUNCHER_HANG_ODD_RANK_H

#include <stddef.h>
#include <stdint.h>

/* What the main thread of a rank does. An earlier one is the cause of a later
 * one, down to RANK_ELSEWHERE; none of the last three is a cause. */
enum rank_doing {
    RANK_STOPPED,       /* state T: SIGSTOP, or a debugger */
    RANK_DEFUNCT,       /* state Z: the thread has ended, others have not */
    RANK_IN_KERNEL,     /* state D: waits for a disk or a device */
    RANK_AWAY,          /* the flight recorder says that it did not come */
    RANK_SLEEPS,        /* waits for a time to pass, in no collective */
    RANK_COMPUTES,      /* uses a CPU, in no collective */
    RANK_ELSEWHERE,     /* waits, and its stack shows no collective */
    RANK_WAITS,         /* waits; for what is not known */
    RANK_IN_COLLECTIVE, /* waits for its peers */
    RANK_UNSEEN,        /* there is no /proc of it */
    RANK_DOINGS
};

#define RANK_WHERE_MAX 48 /* with NUL */
#define RANK_LOOKS_MAX 64 /* of one node; further ranks are not looked at */

struct rank_look {
    int64_t rank; /* global */
    enum rank_doing doing;
    int64_t step;               /* of its last beat, -1: none */
    char where[RANK_WHERE_MAX]; /* a function, printable; "": not known */
};

#define ODD_RANK_NONE     (-1)
#define ODD_RANK_TEXT_MAX 160 /* with NUL */

/*
 * The place in `looks` of the rank that the others wait for; ODD_RANK_NONE if
 * nothing tells them apart. Of several ranks that do the same, the first.
 *
 * A rank that does less than all others (enum rank_doing) is the one. Else, if
 * more than half of the ranks stand in one place, it is the first that does
 * not; else the only one with the fewest steps, if all have told theirs.
 */
int odd_rank_find(const struct rank_look *looks, int n);

/*
 * What the rank at `blamed` does, "it ..." up to the first semicolon, and then
 * what the others do, those that do the same together. `odd` is what
 * odd_rank_find returned; `blamed` is another rank than that if there is none,
 * or if another node tells of it. May be cut.
 */
void odd_rank_tell(const struct rank_look *looks,
                   int n,
                   int odd,
                   int blamed,
                   char text[ODD_RANK_TEXT_MAX]);

#endif
