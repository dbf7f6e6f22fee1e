/*
 * rendezvous/base/signals_name: names of signals, for messages. A table of our
 * own: sigabbrev_np is not in the C library before glibc 2.32, and has no names
 * for real-time signals.
 */
#ifndef RENDEZVOUS_BASE_SIGNALS_NAME_H
#define RENDEZVOUS_BASE_SIGNALS_NAME_H

/* "SIGTERM", "SIGRTMIN+3"; "SIG?" if there is no such signal. Never NULL, and
 * valid for ever. */
const char *signals_name(int signo);

#endif
