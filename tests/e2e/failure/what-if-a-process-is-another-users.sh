#!/bin/sh
# A worker starts a program that becomes another user's, as sudo does, and that
# ddprun may not kill. Does the end of the launcher wait for it, is it said, and
# is everything else dead?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

need_root 'to have two users'
command -v setpriv >/dev/null || skip 'needs setpriv'
cp "$DDPRUN_FILE" ddprun # the folder above is root's
cp "$(command -v setpriv)" become
chown root become && chmod 4755 become
as_nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
[ "$($as_nobody ./become --ruid=0 id -ru)" = 0 ] ||
    skip 'set-uid programs do not work in this folder'
chown 65534 "$E2E_DIR"

cat >job <<'EOF'
#!/bin/sh
./become --reuid=0 --regid=0 --clear-groups sleep 300 &
sleep 300 &
until pgrep -U 0 -P $$ -x sleep >root; do sleep 0.02; done
>up
wait
EOF
chmod 755 job

# begin: a launch of nobody's, with one process of root's.
begin()
{
    rm -f up
    # shellcheck disable=SC2086 # words
    background it $as_nobody ./ddprun "$@" ./job
    eventually 30 test -e up || fail 'no start'
    began=$(now_ms)
}

# is_told STATUS: it ends soon, and says what is left, which is one process.
is_told()
{
    ends_with "$1" it
    in_time 4500 "$(took)" 'the end'
    has 'cannot kill 1 process of this run; ps shows why (state D: it waits in the kernel; another user: only that user and root may kill it)' \
        it.err
    same "$(cat root)" "$(marked)" 'what is left'
    kill -KILL "$(cat root)"
    nothing_left
}

begin
kill -KILL "$(agent_of it)"
is_told 137
begin --shutdown_timeout=1
kill -TERM "$(pid_of it)"
is_told 143
