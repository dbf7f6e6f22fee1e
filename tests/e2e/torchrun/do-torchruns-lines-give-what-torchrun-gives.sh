#!/bin/sh
# Do workers get the same places, names and arguments from the command lines of
# torchrun.recorded and torchrun2.recorded as torchrun gave them, and is what it
# refused refused?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

recorded=$E2E_LIB/../torchrun
cp "$recorded/show" . && : >train.py && mkdir got
unset OMP_NUM_THREADS CUDA_VISIBLE_DEVICES
export PYTHON_EXEC=./show SHOWN="$E2E_DIR/shown"

# play LINE: writes down what it comes to, as record-torchrun does.
play()
{
    rm -f shown
    _vars=${1%%-- *}
    _words=${1#"$_vars"}
    _words=${_words#--}
    eval "env ${_vars% } \"\$DDPRUN\" $_words" >out.out 2>out.err
    _status=$?
    if [ $_status -eq 0 ]; then
        sed -E 's/run=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12} /run=RANDOM /' \
            shown | sort
    else
        # Usage, all of it: the line is named, and nothing was started.
        [ $_status -eq 2 ] && [ ! -e shown ] || echo "status $_status"
        echo refused
    fi
}

# What we do otherwise, on purpose; why stands in torchrun.otherwise.
otherwise()
{
    grep -Fqx "\$ $1" "$recorded/torchrun.otherwise"
}

lines=0 differ=0 renamed=0
cat "$recorded/torchrun.recorded" "$recorded/torchrun2.recorded" >theirs
while read -r first rest; do
    [ "$first" = "\$" ] || continue
    lines=$((lines + 1))
    printf '$ %s\n' "$rest"
    play "$rest"
    echo
done <theirs >ours

# block FILE LINE: what stands below it.
block()
{
    awk -v line="\$ $2" '$0 == line { on = 1; next }
        on && (/^#/ || $0 == "") { exit } on { print }' "$1"
}

# ours LINE WANTED: torchrun 2 gives a run that meets nobody a random name,
# ours stays "none" as in torchrun 1.
ours()
{
    case $2 in
    *run=RANDOM*) block ours "$1" | sed 's/ run=none / run=RANDOM /' ;;
    *) block ours "$1" ;;
    esac
}

while read -r first rest; do
    [ "$first" = "\$" ] || continue
    file=theirs
    ! otherwise "$rest" || file=$recorded/torchrun.otherwise
    wanted=$(block "$file" "$rest")
    got=$(ours "$rest" "$wanted")
    [ "$got" = "$(block ours "$rest")" ] || renamed=$((renamed + 1))
    if [ "$got" != "$wanted" ]; then
        printf '%s\n' "--- $rest" "wanted:" "$wanted" "got:" "$got"
        differ=$((differ + 1))
    fi
done <theirs
[ "$lines" -ge 100 ] || fail "only $lines lines are recorded"
measured "$renamed of $lines lines are the same but for the run's name, which" \
    'torchrun 2 makes up and ours is none'
[ $differ -eq 0 ] || fail "$differ of $lines lines differ"
