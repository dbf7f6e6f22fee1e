/*
 * trainer/ops/conv: the operations of models on images, forward and backward,
 * in plain C and f32. Images lie with their channels last, (B,H,W,C), so that
 * every inner loop runs over channels; a convolution is a gathering of patches
 * and a linear layer over them (ops/cpu).
 *
 * Legend:  B    samples in the batch
 *          H W  rows and columns of the input
 *          C    its channels
 *          O    channels of the output
 *          N    rows of channels: B*H*W
 *
 * As in ops/cpu nothing is allocated, nothing fails, outputs do not overlap
 * inputs and are overwritten, and every sum is taken in one fixed order.
 */
#ifndef TRAINER_OPS_CONV_H
#define TRAINER_OPS_CONV_H

#include <stddef.h>
#include <stdint.h>

/* Of a convolution: rows and columns of its window; no padding, step 1. */
#define OPS_WINDOW ((size_t)3)
#define OPS_PATCH  (OPS_WINDOW * OPS_WINDOW)

/* patches (B*(H-2)*(W-2), 9*C): what each window of x (B,H,W,C) sees. */
void ops_patches(
    float *patches, const float *x, size_t B, size_t H, size_t W, size_t C);

/* dx (B,H,W,C): the sums of what each pixel gave to dpatches. */
void ops_patches_backward(
    float *dx, const float *dpatches, size_t B, size_t H, size_t W, size_t C);

#define OPS_NORM_EPS 1e-5f

/*
 * Batch norm while training: out (N,C) = gamma * xhat + beta with xhat (N,C)
 * the input less its mean, over its deviation, for each channel. scale (C) is 1
 * over the deviation; stats (2*C) is the batch's mean and its variance with
 * N - 1, for the running ones. N > 1.
 */
void ops_norm_forward(float *out,
                      float *xhat,
                      float *scale,
                      float *stats,
                      const float *x,
                      const float *gamma,
                      const float *beta,
                      size_t N,
                      size_t C);
void ops_norm_backward(float *dx,
                       float *dgamma,
                       float *dbeta,
                       const float *dout,
                       const float *xhat,
                       const float *scale,
                       const float *gamma,
                       size_t N,
                       size_t C);

/* When it does not train: by running stats (2*C). */
void ops_norm_infer(float *out,
                    const float *x,
                    const float *stats,
                    const float *gamma,
                    const float *beta,
                    size_t N,
                    size_t C);

/* out (B,H/2,W/2,C): the largest of each 2 x 2 pixels; an odd row or column at
 * the end is left out. which (as out) tells which of the four, the first of
 * equals. */
void ops_pool_forward(float *out,
                      uint8_t *which,
                      const float *x,
                      size_t B,
                      size_t H,
                      size_t W,
                      size_t C);
void ops_pool_backward(float *dx,
                       const float *dout,
                       const uint8_t *which,
                       size_t B,
                       size_t H,
                       size_t W,
                       size_t C);

/* (B,P,C) to (B,C,P), as PyTorch flattens an image of P pixels; with P and C
 * exchanged it is its own inverse. So also the weight of a convolution, (O,C,9)
 * with PyTorch, comes to (O,9,C) as patches have it. */
void ops_transpose(float *out, const float *x, size_t B, size_t P, size_t C);

#endif
