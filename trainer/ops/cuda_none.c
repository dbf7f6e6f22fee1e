/* trainer/ops/cuda_none: instead of cuda*.cu, if the Makefile found no nvcc. */
#include "trainer/ops/device.h"
#include "trainer/ops/fail.h"

const struct device *device_cuda(int local_rank, struct ddp_error *err)
{
    (void)local_rank;
    (void)fail_set(err, DDP_ERR_CONFIG,
                   "this ddptrain was built without CUDA, since nvcc was not "
                   "found: run 'scripts/setup.sh --cuda' and build it again");
    return NULL;
}

bool device_cuda_use_library(bool use)
{
    (void)use;
    return false;
}
