#!/bin/sh
# Are GPUs counted by NVIDIA's library, handed out as told, and do bound workers
# run on CPUs of their own? The library is a stand-in.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -f "$E2E_BIN/libnvidia-ml.so.1" ] ||
    skip 'needs the stand-in for NVML, which make check-e2e builds'
unset CUDA_VISIBLE_DEVICES
export LD_LIBRARY_PATH="$E2E_BIN"
export FAKE_NVML='GPU-a 0:1b:0;GPU-b 0:1c:0;GPU-c 0:1d:0'

# seen OPTION...: what the workers see, in the order of ranks.
seen()
{
    # shellcheck disable=SC2016 # for the worker
    launch 0 "$@" sh -c 'echo "$RANK/$WORLD_SIZE local=$LOCAL_RANK \
gpus=${CUDA_VISIBLE_DEVICES-all}"'
    sort it.out | tr '\n' ';'
}

same '0/3 local=0 gpus=all;1/3 local=1 gpus=all;2/3 local=2 gpus=all;' \
    "$(seen --nproc_per_node=gpu)" 'one for each GPU'
same '0/2 local=0 gpus=2,0;1/2 local=1 gpus=2,0;' \
    "$(seen --nproc_per_node=gpu --gpus=2,0)" '--gpus'
same '0/2 local=0 gpus=GPU-c;1/2 local=0 gpus=0;' \
    "$(seen --nproc_per_node=auto --gpus=GPU-c,0 --virtual_local_rank)" \
    '--virtual_local_rank'
same '0/2 local=0 gpus=1;1/2 local=0 gpus=2;' \
    "$(CUDA_VISIBLE_DEVICES=1,2,7 seen --nproc-per-node=gpu \
        --virtual-local-rank)" 'CUDA_VISIBLE_DEVICES'
same '0/2 local=0 gpus=MIG-1;1/2 local=0 gpus=MIG-2;' \
    "$(FAKE_NVML='GPU-a 0:1:0 mig=MIG-1,MIG-2' seen --nproc_per_node=gpu \
        --virtual_local_rank)" 'parts of a divided GPU'
launch 2 --gpus=3 true
has 'there is no GPU 3: this machine has 3 GPUs' it.err
launch 2 --nproc_per_node=4 --gpus=0-2 --virtual_local_rank true
has 'no GPU for local rank 3 in --gpus=0,1,2' it.err
launch 2 --nproc_per_node=4 --virtual_local_rank true
has 'no GPU for local rank 3: workers can see 3' it.err
launch 2 --gpus=GPU-d true
has 'gpus=GPU-d: GPU-d is not the UUID of one GPU of this machine' it.err
launch 2 --gpus=GPU- true
# The health of the GPUs that workers see counts, not that of the others.
FAKE_NVML='GPU-a 0:1:0;GPU-b 0:2:0 rows' \
    launch 0 --gpus=0 --health_check=gpu true
FAKE_NVML='GPU-a 0:1:0;GPU-b 0:2:0 rows' \
    launch 81 --gpus=1 --health_check=gpu true
# Without --virtual_local_rank a part is used by all workers of its GPU.
FAKE_NVML='GPU-a 0:1:0 mig=MIG-1,MIG-2' launch 0 --nproc_per_node=gpu true
has 'divided (MIG).*add --virtual_local_rank' it.err
same '0/2 local=0 gpus=MIG-GPU-a/2/0;1/2 local=0 gpus=GPU-b;' \
    "$(CUDA_VISIBLE_DEVICES=MIG-GPU-a/2/0,GPU-b \
        FAKE_NVML='GPU-a 0:1:0 mig=MIG-1,MIG-2;GPU-b 0:2:0 mig=MIG-3' \
        seen --nproc_per_node=gpu --virtual_local_rank)" 'parts by number'
if ! ls /dev/nvidia0 >/dev/null 2>&1; then
    export FAKE_NVML=broken
    launch 78 --nproc_per_node=gpu true
    has "no GPU of NVIDIA's or AMD's that workers can see: .*Not Loaded" it.err
    launch 78 --gpus=0 true
    has "gpus=0: this machine has no GPU of NVIDIA's or AMD's" it.err
    same '0/1 local=0 gpus=5;' "$(CUDA_VISIBLE_DEVICES=4,5 seen --gpus=1)" \
        'a list that cannot be checked'
    same '0/1 local=0 gpus=0;' "$(seen --virtual_local_rank)" 'as torchrun'
    has 'virtual_local_rank: no GPU was found that the workers could see' it.err
    # Without GPUs auto is the number of CPUs.
    launch 0 --nproc_per_node=auto true
    launch 0 --dry_run --nproc_per_node=auto true
    cpus=$(sed -n 's/^workers     \([0-9]*\) .*/\1/p' it.out)
    [ "$cpus" -ge 1 ] && [ "$cpus" -le "$(nproc)" ] || fail "$cpus CPUs"
fi
one=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' \
    /proc/self/status)
command -v taskset >/dev/null || skip 'needs taskset for the rest'
same '0/1 local=0 gpus=all;' "$(FAKE_NVML=broken taskset -c "$one" \
    "$DDPRUN" --nproc_per_node=cpu sh -c \
    'echo "$RANK/$WORLD_SIZE local=$LOCAL_RANK gpus=all"' | tr '\n' ';')" \
    'CPUs by affinity'

# The CPUs that --dry_run tells are those that the workers then have.
unset FAKE_NVML
for how in node socket exclusive core-complex; do
    [ $how != exclusive ] || [ "$(nproc)" -ge 4 ] || continue
    launch 0 --dry_run --nproc_per_node=2 --numa_binding=$how true
    sed -n 's/^    cpus        \([0-9,-]*\) .*/\1/p' it.out | sort >told
    launch 0 --nproc_per_node=2 --numa-binding $how \
        grep Cpus_allowed_list: /proc/self/status
    sed 's/.*:[[:space:]]*//' it.out | sort >had
    lines 2 . told
    cmp -s told had || fail "$how: told $(cat told), had $(cat had)"
    if [ $how = exclusive ]; then
        same 2 "$(sort -u told | wc -l)" 'different lists'
    fi
done
launch 78 --nproc_per_node=2000 --numa_binding=exclusive true
has 'usable cores\{0,1\} for 2000 workers' it.err
nothing_left
