/*
 * launcher/preflight/data: what the probes of a preflight find out and exchange
 * through the store, as JSON. Texts that were read are cut to their fields and
 * have no control characters; numbers are within bounds.
 */
#ifndef LAUNCHER_PREFLIGHT_DATA_H
#define LAUNCHER_PREFLIGHT_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

/* The networks by which workers will reach each other. */
enum preflight_net {
    PREFLIGHT_MASTER, /* the address that would be MASTER_ADDR */
    PREFLIGHT_NCCL,   /* NCCL_SOCKET_IFNAME's, if that is another one */
    PREFLIGHT_NETS
};

/* One address of a node. */
struct preflight_place {
    char addr[64]; /* numeric; "": the node has none of this kind */
    char iface[16];
    int64_t mtu; /* of the interface; 0 not known */
};

/* One node. What it does not have is "". */
struct preflight_node {
    int64_t rank;  /* GROUP_RANK */
    char name[64]; /* of the host */
    int64_t port;  /* that its responder listens on, on all addresses */
    struct preflight_place place[PREFLIGHT_NETS];
    char version[24];  /* of ddprun */
    char kernel[64];   /* uname -r */
    char driver[32];   /* NVIDIA's */
    char nccl[16];     /* by the loader's path */
    char gpus[112];    /* "8 x NVIDIA H100 80GB" */
    char ifname[64];   /* NCCL_SOCKET_IFNAME */
    char problem[320]; /* found before the nodes met: no program, no GPU */
    int64_t files;     /* RLIMIT_NOFILE that workers get */
    int64_t shm;       /* bytes free in /dev/shm, -1 none */
};

enum preflight_state {
    PREFLIGHT_OK,
    PREFLIGHT_NO,    /* no connection: `reason`, sys_errno in `code` */
    PREFLIGHT_MUTE,  /* connected, but no probe of ours answers */
    PREFLIGHT_STUCK, /* small packets pass, large ones do not */
};

/* The link from one node to another, in this direction. */
struct preflight_link {
    int64_t from, to; /* ranks */
    int64_t net;      /* enum preflight_net */
    int64_t state;    /* enum preflight_state */
    int64_t code;     /* errno, for PREFLIGHT_NO */
    int64_t rtt_us;   /* median */
    int64_t rate;     /* bit/s, one connection; 0 not measured */
    int64_t mtu;      /* of the path, as the kernel knows it */
    int64_t clock_us; /* how far the other's clock is ahead */
    char reason[96];
};

/* As text, which the caller frees with free(3). NULL: no memory. */
char *preflight_node_text(const struct preflight_node *n);
char *preflight_links_text(const struct preflight_link *links, int n);

#define PREFLIGHT_ANY INT64_C(-1)

/* From text. False: the functions above do not write such a text. The second
 * appends at most `max` links, all from node `from` (or from any node:
 * PREFLIGHT_ANY), to `links`, and adds their number to *n. */
bool preflight_node_read(struct preflight_node *n, const char *text);
bool preflight_links_read(struct preflight_link *links,
                          int *n,
                          int max,
                          int64_t from,
                          const char *text);

#endif
