#!/bin/sh
# A launch has a temporary folder for its workers' error files. Is it gone when
# the workers are done, and when agent, guard, or both at once are killed? Where
# the janitor is killed with them, is what stays one empty folder? Does one that
# has a file in it stay, and that of a launch that lives?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

mkdir tmp
export TMPDIR="$E2E_DIR/tmp"

folders()
{
    find tmp -maxdepth 1 -name 'ddprun_*' | wc -l
}

# start: a launch, and its folder is there.
start()
{
    : >started
    node "$1" "$WORKER" hold
    wait_round 1 1
}

launch 0 true
same 0 "$(folders)" 'folders after a success'
both_of()
{
    pid_of "$1"
    agent_of "$1"
}

for victim in pid_of agent_of both_of; do
    start it
    same 1 "$(folders)" 'folders of a launch'
    # shellcheck disable=SC2046 # pids
    kill -KILL $($victim it)
    end_of it
    nothing_left it
    same 0 "$(folders)" "folders after kill -9 of $victim"
done

# All three at once: nobody is left to remove it, and a later launch looks at
# none but its own.
start other
start it
all="$(pid_of it) $(first_child "$(pid_of it)") $(agent_of it)"
# shellcheck disable=SC2086 # pids
kill -STOP $all && kill -KILL $all # so that none sees another's end
end_of it
nothing_left it
same 2 "$(folders)" 'folders after kill -9 of all three'
mkdir tmp/ddprun_kept00 && echo '{}' >tmp/ddprun_kept00/error.json
touch -d '2 minutes ago' tmp/ddprun_*
launch 0 sleep 1.2
same 3 "$(folders)" 'folders that are not of the last launch'
kill -TERM "$(pid_of other)"
ends_with 143 other
same 2 "$(folders)" 'what is left'
same '' "$(find tmp -name 'ddprun_*' ! -name ddprun_kept00 ! -empty)" 'what is not empty'
