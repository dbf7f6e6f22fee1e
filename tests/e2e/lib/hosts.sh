# What scenarios share that start a job from one machine on others.
# shellcheck shell=sh disable=SC2154

# make_into: ./into MACHINE COMMAND... stands in for ssh. It executes COMMAND on a
# machine of network(), in / and without the variables of this scenario but for
# those that name its files; MACHINE is written to `asked`.
make_into()
{
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

# make_commands: bin/ssh and bin/blaunch, which do what these do by make_into's.
make_commands()
{
    mkdir -p bin
    cat >bin/ssh <<'SSH'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec "$E2E_DIR/into" "$host" sh -c "cd '$E2E_DIR' && $*"
SSH
    cat >bin/blaunch <<'BLAUNCH'
#!/bin/sh
host=$1
shift
exec "$E2E_DIR/into" "$host" env --chdir="$E2E_DIR" LSF_PM_TASKID=1 "$@"
BLAUNCH
    chmod +x bin/ssh bin/blaunch
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

# need_sshd: that OpenSSH is here.
need_sshd()
{
    PATH=$PATH:/usr/sbin
    for _tool in sshd ssh ssh-keygen; do
        command -v $_tool >/dev/null ||
            skip "needs $_tool: scripts/setup.sh --check installs it"
    done
    need_root 'for sshd, which gives up its privileges'
}

# start_sshd MACHINE...: one on each machine of network(), and `ssh`, the command
# that comes to them.
start_sshd()
{
    ssh-keygen -q -t ed25519 -N '' -f key &&
        ssh-keygen -q -t ed25519 -N '' -f host_key || fail 'no keys'
    for _machine in "$@"; do
        cat >"sshd.$_machine" <<CONFIG
ListenAddress 0.0.0.0
HostKey $E2E_DIR/host_key
AuthorizedKeysFile $E2E_DIR/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv E2E_MARK=$E2E_DIR:$_machine E2E_DIR=$E2E_DIR E2E_LIB=$E2E_LIB
CONFIG
        (in_machine "$_machine" env "E2E_MARK=$E2E_DIR:sshd" sh -c '
            # It writes over its own mark: it ends with this shell, which has one.
            mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd &&
                setpriv --pdeathsig KILL /usr/sbin/sshd -D -e -f "$E2E_DIR/sshd.$1"
            :' \
            sh "$_machine") >"sshd.$_machine.out" 2>"sshd.$_machine.err" 9<&- &
        wait_for 'Server listening' "sshd.$_machine.err"
    done
    # shellcheck disable=SC2034 # the scenario's
    ssh="ssh -F none -i $E2E_DIR/key -oUserKnownHostsFile=$E2E_DIR/known \
-oStrictHostKeyChecking=accept-new -oLogLevel=ERROR"
}
