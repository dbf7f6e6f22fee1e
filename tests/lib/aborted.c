/*
 * A program on libddp whose communicator is aborted: it says so, and ends with
 * the number of the error, as programs on libddp do.
 */
#include <stdio.h>

#include "worker_rt/ddp.h"

int main(void)
{
    struct ddp_error err = {0};
    struct ddp *d = ddp_init(&err);
    struct ddp_comm *c = d != NULL ? ddp_comm_new(d, NULL, &err) : NULL;
    if (c != NULL) {
        ddp_comm_abort(c);
        (void)ddp_comm_barrier(c, &err); /* its error is the answer */
    }
    (void)fprintf(stderr, "aborted: %s\n", err.text);
    ddp_comm_free(c);
    ddp_free(d);
    return err.code;
}
