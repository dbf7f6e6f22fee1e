/*
 * launcher/mpi/hwloc_xml: this node's topology as XML of hwloc's, in memory.
 * MPICH 5 asks for the path of such a file by PMI, and reads it instead of
 * looking itself in each rank. It is made once for all rounds, by a process of
 * its own, since libhwloc may be slow or faulty. Without libhwloc there is
 * none, and the ranks look themselves.
 */
#ifndef LAUNCHER_MPI_HWLOC_XML_H
#define LAUNCHER_MPI_HWLOC_XML_H

#include <sys/types.h>

#define HWLOC_XML_PATH_MAX 48
#define HWLOC_XML_S        10 /* then its process is killed */

/* The caller's storage, {0} at the start, for the life of the process. */
struct hwloc_xml {
    enum {
        HWLOC_XML_NEW,
        HWLOC_XML_BEGUN,
        HWLOC_XML_MADE,
        HWLOC_XML_NONE, /* it cannot be had */
    } state;
    pid_t pid; /* of the process that makes it; 0: there is none */
    int fd;    /* BEGUN, MADE */
};

/* Begins, unless it has. BEGUN ends with hwloc_xml_ended. */
void hwloc_xml_begin(struct hwloc_xml *x);

/* `pid` has ended, and is to be reaped: MADE, or NONE. */
void hwloc_xml_ended(struct hwloc_xml *x);

/* Where our children can read it; "": nowhere, or not yet. */
void hwloc_xml_path(const struct hwloc_xml *x, char path[HWLOC_XML_PATH_MAX]);

#endif
