/*
 * launcher/proc/launch_lock: proof that another launch of this host and user is
 * dead. Each launch of several nodes holds a lock on a file of its own, as long
 * as its guard, its agent or its janitor lives; the kernel lets go of it,
 * whatever killed them. The file says which agent it was and what round it
 * held, so that a launch of the same run can tell the rendezvous.
 *
 * Best effort: where no file can be made, nothing is proven and all waits for
 * leases. The files lie in /dev/shm and nowhere else: on a file system of the
 * network a lock may be lost while its holder lives.
 */
#ifndef LAUNCHER_PROC_LAUNCH_LOCK_H
#define LAUNCHER_PROC_LAUNCH_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCH_LOCK_DEAD_MAX 8

/* What is known of one launch. */
struct launch_record {
    char agent[33]; /* its id */
    char name[65];  /* of its node */
    char instance[33];
    int64_t round;  /* the last one that it had workers of, 0: none */
    int group_rank; /* in that */
    bool held;      /* its workers of that ran, or had all exited 0 */
    bool hosts;     /* its launcher served the rendezvous that it was with */
    /* The last round that it accepted as a voter, 0: it tells of no vote. */
    int64_t voted;
    int64_t voted_epoch;
    char voted_epoch_id[17];
};

/* Takes the lock of this process, which children inherit and programs do not.
 * Launches of the same run and endpoint find each other. Removes what dead
 * launches of other runs left, an hour after it was seen first. Once, before
 * guard_split. */
void launch_lock_take(const char *run, const char *host, int port);

/* What others will find if this launch dies. */
void launch_lock_write(const struct launch_record *mine);

/* Whether another launch of the same run and endpoint lives. */
bool launch_lock_has_others(void);

/* The launches of the same run and endpoint that are dead, LAUNCH_LOCK_DEAD_MAX
 * at most. Returns how many. */
int launch_lock_dead(struct launch_record dead[LAUNCH_LOCK_DEAD_MAX]);

/* Removes their files: nobody needs to be told of them any more. */
void launch_lock_clear(void);

/* Removes the own file: this launch ends in order. */
void launch_lock_drop(void);

#endif
