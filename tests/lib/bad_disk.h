/*
 * tests/lib/bad_disk: a disk that fails. Stands between libddp and the calls
 * with which it reads and writes snapshots; a test says which of them fails,
 * and how. It links the calls of the table as `-Wl,--wrap=openat` and so on.
 */
#ifndef BAD_DISK_H
#define BAD_DISK_H

/* All ways to a file that worker_rt takes. A way of others is no way at all:
 * the process aborts, so that no writer gets past this unnoticed. */
/* clang-format off */
#define BAD_DISK_CALLS(X)                                                      \
    X(MAKE,      "create a file")                                              \
    X(OPEN,      "open a file")                                                \
    X(FOLDER,    "open a folder")                                              \
    X(LIST,      "list a folder")                                              \
    X(LOCK,      "lock")                                                       \
    X(MODE,      "change to direct writes or back")                            \
    X(DIRECT,    "write past the cache")                                       \
    X(CACHED,    "write into the cache")                                       \
    X(RANGE,     "begin to sync")                                              \
    X(SYNC,      "sync a file")                                                \
    X(SYNC_DIR,  "sync a folder")                                              \
    X(RENAME,    "rename")                                                     \
    X(UNLINK,    "unlink")                                                     \
    X(READ,      "read")                                                       \
    X(LOOK,      "look at a file")                                             \
    X(MEMORY,    "get memory for it")
/* clang-format on */

enum bad_call {
#define X(name, text) BAD_##name,
    BAD_DISK_CALLS(X)
#undef X
    BAD_CALLS
};

extern const char *const bad_disk_names[BAD_CALLS];

enum bad_fault {
    BAD_NONE,
    BAD_FAIL,       /* nothing is done */
    BAD_FAIL_DONE,  /* it is done and said to have failed */
    BAD_HALF,       /* a part of a write or read; else as BAD_FAIL */
    BAD_FLIP,       /* what is read has another bit; else as BAD_FAIL */
    BAD_DIE_BEFORE, /* the process ends before the call .. */
    BAD_DIE_HALF,   /* .. in the middle of a write .. */
    BAD_DIE_BEHIND, /* .. or after it */
    BAD_FAULTS
};
#define BAD_DIED 42 /* its exit status */

/* What becomes of this call; with `reason` as errno where it fails. NULL: all
 * goes well. May be called by several threads. */
extern enum bad_fault (*bad_disk)(enum bad_call call, int *reason);

#endif
