/*
 * trainer/trainer: one rank's training run: the value that main, setup, train
 * and peers work on. Nothing of it is there yet where all is zero but taken.fd,
 * which is -1.
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
#include "trainer/plot.h"
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
    bool common;           /* the error is every rank's: one of them tells it */

    /* setup's. */
    const struct device *dev;
    struct data data;
    struct model model;
    struct optim optim;
    struct ddp_sampler *sampler;
    uint32_t *index;         /* (batch_size) samples of the batch */
    struct data_batch batch; /* room for batch_size samples */

    /* train's. */
    struct plot plot;
    struct taken taken; /* samples, where somebody wants to know */
    bool stopped;       /* left at the end of a step because it was asked to */
};

#endif
