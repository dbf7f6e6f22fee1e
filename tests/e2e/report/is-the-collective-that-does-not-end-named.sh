#!/bin/sh
# Four ranks on two nodes; rank 2 does not come to the seventh all_reduce. Is
# PyTorch's flight recorder (here a stand-in, lib/recorder.py) asked before the
# workers are ended, does the report of each node name the collective and the
# rank, and do the dumps lie beside the log files, without the pipes?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

python=$(command -v python3) && command -v cc >/dev/null ||
    skip 'needs python3 and a C compiler'
python=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
# Without a debugger, which takes seconds for each worker.
ddprun()
{
    _node=$1
    shift
    background "$_node" env PATH=/nowhere "$DDPRUN" --hang_timeout=0,1 "$@"
}
cat >train.sh <<END
#!/bin/sh
last=7
[ "\$RANK" != 2 ] || last=6
exec "$python" "$E2E_LIB/recorder.py" \$last slowly
END
chmod +x train.sh

port=$(free_port)
for name in a b; do
    ddprun $name --nnodes=2 --nproc_per_node=2 --log_dir="$LOG_DIR" \
        --rdzv_endpoint="127.0.0.1:$port" --redirects=3 ./train.sh
done
ends_with 82 a 30
ends_with 82 b 30
said='no beat for .* (--hang_timeout=0,1), its last beat was of step 1; its stacks are in '
# Those that wait for it sleep or wait, as each was found.
others='ranks\{0,1\} [0-9][a-z0-9, ;]*'
who='rank 2 did not come to all_reduce (number 7 of group default_pg); ranks 0, 1, 3 wait'
for name in a b; do
    has 'first failure *rank 2 on .*: made no progress: it is away from its peers' $name.err
    has "^ddprun:   error  *$others; $said.* on its node; $who" $name.err
    stacks=$(sed -n "s/^ddprun:   error .*$said\(.*\) on its node; .*/\1/p" $name.err)
    [ -s "$stacks" ] || fail "no stacks in '$stacks'"
done
for rank in 0 1 2 3; do
    n=$(find "$LOG_DIR" -type f -name "nccl_trace_rank_$rank" -size +1 | wc -l)
    [ "$n" = 1 ] || fail "$n dumps of rank $rank: $(find "$LOG_DIR")"
done
[ -z "$(find "$LOG_DIR" -type p)" ] || fail "a pipe is left: $(find "$LOG_DIR")"
nothing_left

# Nothing in a dump is executed, and what is not there is named.
cat >alone.sh <<END
#!/bin/sh
[ "\$RANK" = 0 ] || exec "$python" "$E2E_LIB/recorder.py" 7 evil
exec "$python" "$E2E_LIB/recorder.py" 7
END
chmod +x alone.sh
ddprun c --nproc_per_node=2 ./alone.sh
ends_with 82 c 30
has 'error .*; rank 0 waits in all_reduce (number 7 of .*); no dump from rank 1$' c.err
[ ! -e executed ] || fail 'a dump was executed'
nothing_left

# What the user has set is the user's.
export TORCH_FR_DUMP_TEMP_FILE="$E2E_DIR/mine_"
ddprun d --log_dir="$LOG_DIR" ./train.sh
ends_with 82 d 30
has 'all ranks of the group came to all_reduce (number 7 of' d.err
[ -s mine_0 ] || fail 'no dump where the user wants it'
nothing_left

# PyTorch throws where it cannot make its pipe: it is not told to, then.
cat >no_pipe.c <<'C'
#include <errno.h>
#include <sys/stat.h>
int mkfifo(const char *path, mode_t mode)
{
    (void)path, (void)mode;
    errno = EPERM;
    return -1;
}
C
cc -shared -fPIC -o no_pipe.so no_pipe.c || fail 'no_pipe.c cannot be compiled'
background e env LD_PRELOAD="$E2E_DIR/no_pipe.so" "$DDPRUN" --hang_timeout=60 env
ends_with 0 e
lines 1 'cannot make a pipe such as .*: Operation not permitted' e.err
has '^TORCHELASTIC_ERROR_FILE=' e.out
has_not TORCH_NCCL_DEBUG_INFO_PIPE_FILE e.out
background f "$DDPRUN" --hang_timeout=60 env
ends_with 0 f
has '^TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/.*[.]nccl_trace_rank_$' f.out
nothing_left
