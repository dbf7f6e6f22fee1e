/*
 * net/server_mark: the files by which the rendezvous servers of this user are
 * found on this machine. daemon/act_mark makes and locks them, one for each
 * port; some are left by dead servers, for an hour or so.
 */
#ifndef RENDEZVOUS_NET_SERVER_MARK_H
#define RENDEZVOUS_NET_SERVER_MARK_H

#define SERVER_MARK_PATH_SIZE 48

/* Where the mark of a server at this port is. */
void server_mark_path(char path[SERVER_MARK_PATH_SIZE], int port);

/* Calls `see` for the port of each mark that there is, in no order. */
void server_mark_each(void (*see)(void *ctx, int port), void *ctx);

#endif
