#!/bin/sh
# An environment of Python is active where the line is typed, or PYTHON_EXEC names
# one: do the workers of all hosts run that Python, and the programs beside it?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b
make_into
mkdir -p active/bin other/bin
for program in active/bin/python3 active/bin/python active/bin/tool other/bin/tool; do
    printf '#!/bin/sh\necho "%s of rank $RANK"\n' $program >$program
    chmod +x $program
done
: >train.py

# runs WHAT VARIABLE... -- PROGRAM: it, by the worker of each host.
runs()
{
    what=$1
    shift
    vars=
    while [ "$1" != -- ]; do
        vars="$vars $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # words
    env $vars "$DDPRUN" --launch_with="$E2E_DIR/into" --hosts=a,b "$1" \
        >out 2>front.err || fail "$what: status $?"
    lines 1 "^$what of rank 0" out
    lines 1 "^$what of rank 1" out
}

unset VIRTUAL_ENV CONDA_PREFIX PYTHON_EXEC
runs active/bin/python3 VIRTUAL_ENV="$PWD/active" -- train.py
runs active/bin/python CONDA_PREFIX="$PWD/active" -- train.py
runs active/bin/python3 PYTHON_EXEC="$PWD/active/bin/python3" -- train.py
active=VIRTUAL_ENV=$PWD/active
runs active/bin/tool "$active" "PATH=$PWD/active/bin:$PATH" -- tool
runs active/bin/tool "$active" CONDA_PREFIX="$PWD/other" \
    "PATH=$PWD/active/bin:$PATH" -- tool
runs other/bin/tool CONDA_PREFIX="$PWD/other" "PATH=$PWD/other/bin:$PATH" -- tool
nothing_left
