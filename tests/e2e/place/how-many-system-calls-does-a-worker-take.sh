#!/bin/sh
# How many system calls does a launcher make for a worker, from its start to its end,
# in all processes but the worker's program? Does each worker make the same ones
# before it executes its program? Does a start look through a folder of others?
# alone: a launcher that is held up renews its lease more often
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v strace >/dev/null || skip 'needs strace'
strace -o calls true 2>/dev/null || skip 'no process can be traced here'

# count WORKERS: `counted` gets the calls of all processes of the launcher, then how many
# each worker made before its program. Until the last worker is made folders are looked
# through that are the kernel's alone; others make cgroups, too.
count()
{
    strace -f -y -qq -e signal=none -o calls "$DDPRUN" --nproc_per_node="$1" \
        --rdzv_conf=heartbeat_timeout=60 true >it.out 2>it.err ||
        fail "ddprun ended with $?"
    awk '
        NR == 1 { launcher = $1 }
        program[$1] { next }
        !/resumed>/ { all++; own[$1]++ }
        / clone3?\(/ { printf "%s", looks; looks = "" }
        / getdents64\(/ && (!/<\/(proc|sys)\// || /<\/sys\/fs\/cgroup/) {
            looks = looks $0 "\n"
        }
        /execve(\(| resumed>).* = 0$/ && $1 != launcher {
            program[$1] = 1
            each[own[$1]]++
        }
        END {
            print all >"counted"
            for (n in each)
                print n, each[n] >"counted"
        }' calls >looked
    same '' "$(cat looked)" 'folders that a start looks through'
}

count 4
few=$(head -n 1 counted)
own=$(sed -n '2s/ .*//p' counted)
same "$own 4" "$(sed 1d counted)" 'calls before the program, and of how many workers'
count 36
same "$own 36" "$(sed 1d counted)" 'calls before the program, and of how many workers'
each=$((($(head -n 1 counted) - few) / 32))
measured "system calls for each worker: $each, $own of them its own"
[ $each -le 100 ] || fail "$each system calls for each worker"
