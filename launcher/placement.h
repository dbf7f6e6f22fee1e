/*
 * launcher/placement: what this machine has for workers to sit on.
 */
#ifndef PLACEMENT_H
#define PLACEMENT_H

/* CPUs that this process may use, at least 1, at most `max`. */
int placement_count_cpus(int max);

/*
 * GPUs that a worker could see: the device nodes DEV/nvidia0.. where there are
 * any, else the entries of PROC/driver/nvidia/gpus, both then limited by
 * `visible` (the value of CUDA_VISIBLE_DEVICES; NULL when unset) and `max`.
 * The roots are "/proc" and "/dev"; tests give others.
 */
int placement_count_gpus(const char *proc,
                         const char *dev,
                         const char *visible,
                         int max);

#endif
