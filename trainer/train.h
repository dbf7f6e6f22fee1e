/*
 * trainer/train: the steps and epochs of training. Errors that all ranks find
 * alike are marked as trainer/peers says.
 */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/trainer.h"

/*
 * Collective: trains from `at` to the end of the last epoch, or to the end of
 * the step at which some rank was asked to stop (`stopped`). Saves on the way,
 * beats, draws and tells. Errors: those of collectives; USAGE (the loss is no
 * number any more), CONFLICT (train_compare), IO (a device; the file of
 * --samples_taken cannot be opened).
 */
int train(struct trainer *t, struct ddp_error *err);

/* Closes the files of train(), whether it was called or not. */
void train_close(struct trainer *t);

/* Collective: all ranks must hold the same parameters, to the bit: CONFLICT. */
int train_compare(struct trainer *t, struct ddp_error *err);

/* Of parameters and running statistics. On a GPU they are copied to model.host
 * for it. */
uint64_t train_fingerprint(struct trainer *t);

#endif
