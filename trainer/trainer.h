/*
 * trainer/trainer: the state of one rank's training run, which main, setup,
 * train and peers share. All zero, with taken.fd = -1, it is empty: tear_down
 * in main may be called on it at any stage of the start.
 */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/data.h"
#include "trainer/keep.h"
#include "trainer/model.h"
#include "trainer/ops/device.h"
#include "trainer/ops/optim.h"
#include "trainer/options.h"
#include "trainer/progress.h"
#include "trainer/resume.h"
#include "trainer/taken.h"
#include "worker_rt/ddp.h"

struct trainer {
    /* main's. */
    struct options o;
    struct ddp *ddp;
    struct ddp_comm *comm;
    struct ddp_comm *nccl; /* for gradients on GPUs; NULL: comm does it */
    int rank;
    int world;
    struct progress progress;
    struct keep keep;      /* its snapshots */
    struct train_place at; /* train moves it */
    bool common; /* all ranks found this error: only rank 0 prints it */

    /* setup's. */
    const struct device *dev;
    struct data data;
    struct model model;
    struct optim optim;
    struct ddp_sampler *sampler;
    uint32_t *index;         /* (batch_size) samples of the batch */
    struct data_batch batch; /* room for batch_size samples */

    /* train's. */
    struct taken taken; /* of --samples_taken */
    bool stopped;       /* left at the end of a step because it was asked to */
    bool all_wrote;     /* the last snapshot to the disk, when the last step's
                         * gradients were summed */
};

#endif
