/*
 * launcher/health/gpu_health: whether the GPUs that workers of this node could
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
 * A line of /dev/kmsg: whether it tells of an Xid after which a GPU is not to
 * be used before it was reset or replaced ("XID Errors", NVIDIA), at or after
 * `since_us` of the kernel's clock. Then `pci` is the GPU ("0000:3b:00").
 */
bool gpu_health_xid(const char *line, int64_t since_us, int *xid, char pci[16]);

/*
 * Looks at all of them; waits, GPU_HEALTH_DRAIN_S at most, until none of the
 * dead processes pids[0..n) holds memory of one. `visible` is
 * CUDA_VISIBLE_DEVICES or NULL. True where nothing is wrong, or where there is
 * no GPU and no `some`; else `why` is the reason. Blocks: not for the agent.
 */
bool gpu_health(const char *visible,
                bool some,
                int64_t since_us,
                const pid_t *pids,
                int n,
                char *why,
                size_t size);

#endif
