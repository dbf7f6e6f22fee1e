/*
 * launcher/front/hub: the process on the first host of a branch, which
 * executes commands there that the front end names, and carries bytes between
 * them and it: the other end of launcher/front/tree.
 */
#ifndef LAUNCHER_FRONT_HUB_H
#define LAUNCHER_FRONT_HUB_H

/* The only argument of a hub. */
#define HUB_OPTION "--front_end_hub"

/* The first line on its stdin: the mark of the frames behind it, and the folder
 * to be in, if it is there. */
#define HUB_WORD     "ddprun-hub 1 "
#define HUB_FORMAT   HUB_WORD "%.32s %s\n"
#define HUB_LINE_MAX 4200

/* The main function of the process; returns its exit status. */
int hub_main(void);

#endif
