/*
 * trainer/ops/cpu: the operations that the models are made of, forward and
 * backward, in plain C and f32. They are the reference that other devices are
 * checked against, so every sum is taken in one fixed order: the same program
 * and input give the same bits on every run and every rank.
 *
 * Legend:  B  samples in the batch
 *          I  inputs of a layer
 *          O  outputs of a layer
 *          C  classes
 *
 * All matrices are row-major and dense. Nothing is allocated, nothing fails;
 * outputs must not overlap inputs. Backward functions overwrite their
 * outputs (no += into gradients: each parameter is used once per step).
 */
#ifndef TRAINER_OPS_CPU_H
#define TRAINER_OPS_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Looks for oneDNN (libdnnl) at run time and, where it is there, lets it do the
 * sums of linear layers from now on: several times as fast, and as much the
 * same on every run on one kind of processor. Not for two threads at once.
 * Returns whether it is there.
 */
bool ops_use_library(void);

/* out (B,O) = x (B,I) times w (O,I) transposed, plus b (O) for each row. */
void ops_linear_forward(float *out,
                        const float *x,
                        const float *w,
                        const float *b,
                        size_t B,
                        size_t I,
                        size_t O);

/*
 * From dout (B,O): dw (O,I), db (O), and dx (B,I), which may be NULL where
 * nobody needs it, as in the first layer.
 */
void ops_linear_backward(float *dx,
                         float *dw,
                         float *db,
                         const float *dout,
                         const float *x,
                         const float *w,
                         size_t B,
                         size_t I,
                         size_t O);

/* out (n) = max(x (n), 0). */
void ops_relu_forward(float *out, const float *x, size_t n);

/* dx (n) = dout (n) where out (n) > 0, else 0. */
void ops_relu_backward(float *dx,
                       const float *dout,
                       const float *out,
                       size_t n);

/* What a batch gave, summed over its samples, not averaged. */
struct ops_score {
    double loss;
    size_t correct; /* rows whose largest logit is the label's */
};

/*
 * Cross-entropy of softmax(logits (B,C)) against labels (B), each < C, and,
 * where dlogits (B,C) is not NULL, its derivative times `scale`: with 1/B the
 * gradient is that of the mean. The first of equal logits counts as largest.
 */
struct ops_score ops_softmax_xent(float *dlogits,
                                  const float *logits,
                                  const uint8_t *labels,
                                  float scale,
                                  size_t B,
                                  size_t C);

/*
 * Squared error of out (B,O) against y (B,O), averaged over O, and, where
 * dout (B,O) is not NULL, its derivative times `scale`. `correct` is 0.
 */
struct ops_score ops_mse(float *dout,
                         const float *out,
                         const float *y,
                         float scale,
                         size_t B,
                         size_t O);

#endif
