/*
 * ctl/here: the rendezvous servers that this user runs on this machine, such as
 * a job on one node, which takes any free port.
 */
#ifndef RENDEZVOUS_CTL_HERE_H
#define RENDEZVOUS_CTL_HERE_H

#include <stdbool.h>
#include <stdint.h>

#define CTL_HERE_MAX 64

/* Whether something takes connections at this port of the loopback address. */
bool ctl_here_answers(int port, int64_t deadline_us);

/* The ports of those that take connections there, in order; returns how many.
 * The deadline is mono_now_us time. */
int ctl_here_ports(int ports[CTL_HERE_MAX], int64_t deadline_us);

#endif
