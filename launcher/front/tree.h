/*
 * launcher/front/tree: a link to another host, by which a front end executes
 * the commands for several hosts there: those of one branch
 * (launcher/front/fan).
 *
 *     front end -- ssh n0 ~~~~ hub -+------------- proxy -- launcher on n0
 *                                     |-- ssh n1 ~~~ proxy -- launcher on n1
 *                                     `-- ssh n2 ~~~ proxy -- launcher on n2
 *
 * What goes through a link is only carried: orders, output and marks are those
 * between the front end and the proxies, as without one. A child whose link
 * breaks ends with LINK_BROKEN; its owner can start it again from here.
 */
#ifndef LAUNCHER_FRONT_TREE_H
#define LAUNCHER_FRONT_TREE_H

#include "launcher/front/child.h"

#define LINK_BROKEN 255 /* as ssh ends then */

enum link_state {
    LINK_WAITS,    /* not started */
    LINK_STARTING, /* its hub has not said hello */
    LINK_UP,
    LINK_BROKE, /* or was given up */
};

struct front_link {
    enum link_state state;
    struct front_child via;     /* ssh to the first host */
    struct front_child *member; /* len of them; that host's own is the first.
                                   Borrowed */
    int len;
    const char *mark;  /* borrowed */
    struct buf in[2];  /* of its stdout and stderr: what is no whole frame */
    bool told;         /* that it has broken. The caller's */
    int64_t killed_us; /* when a member was killed that still lives; 0: none */
};

/* Makes these the members of it. */
void front_link_init(struct front_link *l,
                     struct front_child *member,
                     int len,
                     const char *mark);

/* Executes `w`, which reaches the hub there, and tells it the folder. What
 * else is as with front_child_start. */
int front_link_start(struct front_link *l,
                     const struct command *w,
                     const char *folder,
                     const sigset_t *mask,
                     struct console *out,
                     struct console *err_to,
                     struct ddp_err *err);

/* Executes `w` there for `k`, a member that waits. LINK_UP. */
int front_link_execute(struct front_link *l,
                       struct front_child *k,
                       const struct command *w,
                       struct console *out,
                       struct console *err_to,
                       uint64_t id,
                       struct ddp_err *err);

/* Reads what is there: of its stdout (0) or stderr (1). */
void front_link_read(struct front_link *l, int which, int64_t now_us);

/* To be called in each turn: writes what waits, and sees whether it has broken;
 * then all members end that live. */
void front_link_look(struct front_link *l, int64_t now_us);

/* Breaks it. */
void front_link_cut(struct front_link *l);

void front_link_free(struct front_link *l);

/* As front_child_write and front_child_kill, wherever it is executed. */
void front_tree_write(struct front_child *k);
void front_tree_kill(struct front_child *k);

#endif
