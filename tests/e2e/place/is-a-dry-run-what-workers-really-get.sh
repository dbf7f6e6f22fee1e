#!/bin/sh
# Does --dry_run print for each worker what a run then gives it, and start
# nothing? What only the rendezvous knows stands in angle brackets.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -f "$E2E_BIN/libnvidia-ml.so.1" ] ||
    skip 'needs the stand-in for NVML, which make check-e2e builds'
unset OMP_NUM_THREADS CUDA_VISIBLE_DEVICES
export KEPT=value
export LD_LIBRARY_PATH="$E2E_BIN"
export FAKE_NVML='GPU-0 0:10:0;GPU-1 0:11:0;GPU-2 0:12:0;GPU-3 0:13:0'
FAKE_NVML="$FAKE_NVML;GPU-4 0:14:0;GPU-5 0:15:0;GPU-6 0:16:0"
# shellcheck disable=SC2016 # for the worker
set -- --nproc_per_node=3 --role='a role' --rdzv_id=job --max_restarts=2 --hang_timeout=60 \
    --virtual_local_rank --gpus=4,GPU-5,6 \
    sh -c 'env >"$E2E_DIR/env.$RANK"; echo "[$*]" >"$E2E_DIR/args.$RANK"' \
    sh 'shard ${rank}/${world_size}' "it's"
launch 0 --dry_run "$@"
[ ! -e env.0 ] || fail 'a worker was started'
has_not . it.err
has '^workers     3 on this node$' it.out
lines 3 '^rank [012] (local rank [012])$' it.out
has '^    command     sh -c .* sh .shard 1/3. ' it.out
has_not KEPT it.out
cp it.out dry

launch 0 "$@"
for rank in 0 1 2; do
    # Common entries, then those below the rank's own line.
    awk -v rank=$rank '
        /^every worker/ { on = 1; next }
        /^rank / { on = $2 == rank; next }
        on && /^    [A-Z_]+=/ { print substr($0, 5) }' dry >dry.$rank
    [ "$(wc -l <dry.$rank)" -ge 20 ] || fail "few variables of rank $rank"
    while IFS= read -r entry; do
        case $entry in
        *'=<'*) # only its name is known before
            grep -q "^${entry%%=*}=" env.$rank || fail "no ${entry%%=*}"
            ;;
        *)
            entry=$(eval "printf %s ${entry%%=*}=${entry#*=}")
            grep -Fqx "$entry" env.$rank ||
                fail "rank $rank has no '$entry': $(grep "^${entry%%=*}" \
                    env.$rank)"
            ;;
        esac
    done <dry.$rank
    same "[shard $rank/3 it's]" "$(cat args.$rank)" arguments
done
has '^CUDA_VISIBLE_DEVICES=GPU-5$' env.1
has '^LOCAL_RANK=0$' env.1

launch 0 --dry_run --snapshot_memory=0 true
has "^    DDP_SNAPSHOT_MEMORY=''$" it.out

# Several nodes: nobody is met, also where nobody would answer.
launch 0 --dry_run --nnodes=2:4 --rdzv_endpoint=nowhere.invalid:1 \
    --nproc_per_node=2 true '${rank}' '${master_addr}'
has '^nodes       2 to 4$' it.out
has '^rendezvous  at nowhere.invalid port 1, c10d$' it.out
has '^rank base+1 (local rank 1)$' it.out
has '^    RANK=<base+1>$' it.out
has '^    WORLD_SIZE=<told by the rendezvous>$' it.out
has "^    command     true '<base+1>' '<told by the rendezvous>'$" it.out
has '^    LOCAL_RANK=1$' it.out
launch 0 --dry_run --nnodes=2 --node_rank=1 --master_addr=h true
has '^    GROUP_RANK=1$' it.out
has '^    GROUP_WORLD_SIZE=2$' it.out

# What is wrong is wrong here as well.
launch 127 --dry_run ./is-not-there
launch 2 --dry_run --nnodes=0 true
"$DDPRUN" --dry_run true >/dev/full 2>full.err
same 74 $? 'status when nothing can be written'
nothing_left
