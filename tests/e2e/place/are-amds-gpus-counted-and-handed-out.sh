#!/bin/sh
# Are AMD's GPUs counted by the kernel's files, and is each worker given its own
# by the variables that ROCm reads? The files are stand-ins, in a mount namespace
# of its own.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

need_namespace_root 'to mount stand-ins over /sys/class'
[ ! -e /proc/driver/nvidia ] || skip 'this machine has GPUs of NVIDIA'
unset CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES
cat >amd <<'AMD'
#!/bin/sh
# Runs the command where there are a CPU and three GPUs.
mount -t tmpfs none /sys/class || exit 99
nodes=/sys/class/kfd/kfd/topology/nodes
for node in 0 1 2 3; do
    mkdir -p $nodes/$node
    { [ $node = 0 ] && echo simd_count 0 || echo simd_count 304
      echo "gfx_target_version 90402"
      echo "unique_id $((node * 255))"; } >$nodes/$node/properties
done
exec "$@"
AMD
chmod +x amd
unshare --mount ./amd true || skip 'no file system can be mounted here'

# seen OPTION...: what the workers see, in the order of ranks.
seen()
{
    # shellcheck disable=SC2016 # for the worker
    unshare --mount ./amd "$DDPRUN" "$@" sh -c 'echo "$LOCAL_RANK \
hip=${HIP_VISIBLE_DEVICES-all} cuda=${CUDA_VISIBLE_DEVICES-all} \
rocr=${ROCR_VISIBLE_DEVICES-all}"' >it.out 2>it.err || fail "$* failed"
    sort it.out | tr '\n' ';'
}

same '0 hip=all cuda=all rocr=all;1 hip=all cuda=all rocr=all;2 hip=all cuda=all rocr=all;' \
    "$(seen --nproc_per_node=gpu)" 'one for each GPU'
same '0 hip=2,0 cuda=2,0 rocr=all;' "$(seen --gpus=2,0)" '--gpus'
same '0 hip=0 cuda=0 rocr=2,1;0 hip=1 cuda=1 rocr=2,1;' \
    "$(ROCR_VISIBLE_DEVICES=2,1 seen --nproc_per_node=gpu \
        --virtual_local_rank)" 'ROCR_VISIBLE_DEVICES'
same '0 hip=2 cuda=2 rocr=all;0 hip=1 cuda=1 rocr=all;' \
    "$(HIP_VISIBLE_DEVICES=2,1 CUDA_VISIBLE_DEVICES=0 \
        seen --nproc_per_node=auto --virtual_local_rank | tr ';' '\n' |
        sort -r | tr '\n' ';')" 'HIP_VISIBLE_DEVICES'
same '0 hip=1 cuda=1 rocr=GPU-00000000000002fd,0;' \
    "$(ROCR_VISIBLE_DEVICES=GPU-00000000000002fd,0 seen --gpus=1)" \
    '--gpus within ROCR_VISIBLE_DEVICES'
ROCR_VISIBLE_DEVICES=0 unshare --mount ./amd "$DDPRUN" --gpus=1 true 2>it.err
same 2 $? 'status of a GPU that ROCR_VISIBLE_DEVICES hides'
has 'there is no GPU 1: workers can see 1 of 3' it.err
unshare --mount ./amd "$DDPRUN" --dry_run --nproc_per_node=gpu true >it.out
lines 3 'gpu         [012] (gfx942 at ' it.out
nothing_left
