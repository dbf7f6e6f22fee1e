#!/bin/sh
# Two and three ranks, on one node and on two; one, be it the first or the last, is
# stopped, sleeps, computes or reads in place of coming to a collective, and the
# others wait for it there. All are silent for as long: does the report name the one
# that did not come, and say what it does? If all wait alike, does it say that?
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/away" ] || skip 'needs away: make e2e-programs'
begin_hang()
{
    _name=$1
    shift
    background "$_name" env PATH="$path" "$DDPRUN" --hang_timeout=1.5 "$@"
}

# is_blamed NAME RANK DOES OTHERS: by the report of this node.
is_blamed()
{
    ends_with 82 "$1" 60
    has "first failure *rank $2 on .*: made no progress: it $3\$" "$1.err"
    has "^ddprun:   error *$4; no progress for .* (--hang_timeout=1.5)" "$1.err"
}

stopped='is stopped (state T: SIGSTOP, or a debugger)'

# Without a debugger: what /proc shows.
path=/nowhere
for world in 2 3; do
    for rank in $(seq 0 $((world - 1))); do
        for how in stop nap; do
            begin_hang "w${world}_${rank}_$how" --nproc_per_node="$world" \
                "$E2E_BIN/away" "$rank" "$how"
        done
        others=$(seq 0 $((world - 1)) | grep -vx "$rank" | paste -sd,)
        case $others in
        *,*) others="ranks $(echo "$others" | sed 's/,/, /') wait" ;;
        *) others="rank $others waits" ;;
        esac
        is_blamed "w${world}_${rank}_stop" "$rank" "$stopped" "$others"
        is_blamed "w${world}_${rank}_nap" "$rank" sleeps "$others"
    done
done
begin_hang compute --nproc_per_node=2 "$E2E_BIN/away" 1 compute
begin_hang none --nproc_per_node=3 "$E2E_BIN/away" 9 none
is_blamed compute 1 computes 'rank 0 waits'
ends_with 82 none
has 'first failure .*: made no progress: it waits, as all ranks do$' none.err
nothing_left

# Two nodes put together what each of them sees: one has the cause, the other not.
for ranks in 1 2; do
    port=$(free_port)
    for name in a b; do
        begin_hang "$name$ranks" --nnodes=2 --nproc_per_node="$ranks" \
            --rdzv_endpoint="127.0.0.1:$port" "$E2E_BIN/away" "$ranks" stop
    done
done
for name in a b; do
    is_blamed "${name}1" 1 "$stopped" 'rank 0 waits'
    is_blamed "${name}2" 2 "$stopped" 'ranks 0, 1, 3 wait'
done
nothing_left

# With a debugger: where each stands.
command -v gdb >/dev/null || exit 0
path=$PATH
begin_hang read --nproc_per_node=3 "$E2E_BIN/away" 1 read
begin_hang none --nproc_per_node=2 "$E2E_BIN/away" 9 none
is_blamed read 1 'stands in [A-Za-z_]*read, in no collective' \
    'ranks 0, 2 wait in ddp_comm_barrier'
ends_with 82 none 60
has 'made no progress: it waits in ddp_store_wait, as all ranks do$' none.err
nothing_left
