# What scenarios share that start a job from one machine on others.
# shellcheck shell=sh disable=SC2154

# make_into: ./into MACHINE COMMAND... stands in for ssh. It executes COMMAND on a
# machine of network(), in / and without the variables of this scenario but for
# those that name its files; MACHINE is written to `asked`.
make_into()
{
    for _machine in "$@"; do
        mkdir -p "$E2E_DIR/shm.$_machine"
    done
    cat >into <<INTO
#!/bin/sh
machine=\$1
shift
echo "\$machine" >>"$E2E_DIR/asked"
exec env -i "PATH=\$PATH" "E2E_DIR=$E2E_DIR" "E2E_LIB=$E2E_LIB" \\
    "E2E_MARK=$E2E_DIR:\$machine" ip netns exec "dpe$$-\$machine" \\
    unshare --uts --mount sh -c '
        hostname "\$1" && mount --bind "$E2E_DIR/hosts" /etc/hosts &&
            mount --bind "$E2E_DIR/shm.\$1" /dev/shm && cd / || exit
        shift
        exec "\$@"' sh "\$machine" "\$@"
INTO
    chmod +x into
}

# front [OPTION...] PROGRAM...: the front end in the background, as node `front`.
front()
{
    node front --launch_with="$E2E_DIR/into" "$@"
}

# on_machine COUNT MACHINE: so many workers of the first round have started there.
on_machine()
{
    lines "$1" "^round=1 .* node=$2 " started
}
