/*
 * launcher/preflight/facts: what a probe tells of its node, and of the links to
 * other nodes; and how both go through the store, as lists of JSON. Texts that
 * were read are cut to their room and have no control characters; numbers are
 * within bounds.
 */
#ifndef LAUNCHER_PREFLIGHT_FACTS_H
#define LAUNCHER_PREFLIGHT_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

/* The networks by which workers will reach each other. */
enum preflight_net {
    PREFLIGHT_MASTER, /* the address that would be MASTER_ADDR */
    PREFLIGHT_NCCL,   /* NCCL_SOCKET_IFNAME's, if that is another one */
    PREFLIGHT_NETS
};

/* What is known of a node, as text; "": the node does not have it. */
enum preflight_fact {
    FACT_NAME,    /* of the host */
    FACT_PORT,    /* at which its probe answers, on all addresses */
    FACT_PROBLEM, /* found before the nodes met: no program, no GPU */
    FACT_ADDR,    /* numeric; of each network, as are the next two */
    FACT_IFACE = FACT_ADDR + PREFLIGHT_NETS,
    FACT_MTU = FACT_IFACE + PREFLIGHT_NETS,
    FACT_SHM = FACT_MTU + PREFLIGHT_NETS, /* MiB free in /dev/shm */
    FACT_FILES,                           /* RLIMIT_NOFILE that workers get */
    FACT_VERSION, /* of ddprun; from here on nodes should have the same */
    FACT_NCCL,    /* by the loader's path */
    FACT_KERNEL,
    FACT_DRIVER, /* NVIDIA's */
    FACT_GPUS,   /* "8 x NVIDIA H100 80GB" */
    FACT_IFNAME, /* NCCL_SOCKET_IFNAME */
    FACTS
};

#define FACT_MAX 224 /* bytes of each, its NUL included */

struct preflight_node {
    int rank; /* GROUP_RANK */
    char fact[FACTS][FACT_MAX];
};

enum preflight_state {
    PREFLIGHT_OK,
    PREFLIGHT_NO,    /* no connection: errno in `code` */
    PREFLIGHT_MUTE,  /* connected, but no probe of ours answers: the same */
    PREFLIGHT_STUCK, /* small packets pass, large ones do not */
    PREFLIGHT_STATES
};

/* The link from one node to another, in this direction. */
struct preflight_link {
    int64_t from, to; /* ranks */
    int64_t net;      /* enum preflight_net */
    int64_t state;    /* enum preflight_state */
    int64_t code;     /* an errno, 0: the peer closed the connection */
    int64_t clock_us; /* how far the other's clock is ahead */
};

/* As text, which the caller frees with free(3). NULL: no memory. */
char *preflight_node_text(const struct preflight_node *n);
char *preflight_links_text(const struct preflight_link *links, int n);

/* From text, of this rank. False: the functions above do not write such a text.
 * The second appends at most `max` links to `links`, and adds their number to
 * *n. */
bool preflight_node_read(struct preflight_node *n, int rank, const char *text);
bool preflight_links_read(
    struct preflight_link *links, int *n, int max, int rank, const char *text);

/* The port at which a node's probe answers. */
int preflight_port(const struct preflight_node *n);

/* The address of a node in a network: that of the first one, if it has one
 * only. */
const char *preflight_addr(const struct preflight_node *n,
                           enum preflight_net net);

#endif
