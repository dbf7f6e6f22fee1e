/*
 * launcher/health/gpu_health: whether the GPUs that workers of this node can
 * see are fit for work, by NVML and the kernel's log.
 */
#ifndef LAUNCHER_HEALTH_GPU_HEALTH_H
#define LAUNCHER_HEALTH_GPU_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GPU_HEALTH_DRAIN_S 10

/*
 * Whether a line of /dev/kmsg reports an Xid error after which the GPU must be
 * reset or replaced ("XID Errors", NVIDIA), at or after `since_us` of the
 * kernel's clock. Then `pci` is the GPU ("0000:3b:00").
 */
bool gpu_health_xid(const char *line, int64_t since_us, int *xid, char pci[16]);

/*
 * Checks all of them. Waits, at most GPU_HEALTH_DRAIN_S, until none of the dead
 * processes pids[0..n) holds memory of a GPU. `visible` is CUDA_VISIBLE_DEVICES
 * or NULL. True if nothing is wrong; without a GPU, if `some` is false. Else
 * `why` is the reason. Blocks, so it is not for the agent's process.
 */
bool gpu_health(const char *visible,
                bool some,
                int64_t since_us,
                const pid_t *pids,
                int n,
                char *why,
                size_t size);

#endif
