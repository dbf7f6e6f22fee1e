/*
 * launcher/front/fan: which hosts of a list are started through which: a tree
 * of two levels. The front end connects to the first host of each branch, and
 * that one to the others of its branch. Pure.
 */
#ifndef LAUNCHER_FRONT_FAN_H
#define LAUNCHER_FRONT_FAN_H

/* A branch is of neighbours in the list, host number first and len - 1 more. */
struct fan_branch {
    int first;
    int len;
};

/*
 * How many branches `hosts` have, 0: none, all are started from here. `from` is
 * the number of hosts from which there are any; 0: there are never.
 */
int fan_branches(int hosts, int from);

/* Branch number i of so many. They differ by one host at most. */
struct fan_branch fan_branch(int hosts, int branches, int i);

#endif
