#!/bin/sh
# Nobody reads the console of a front end for longer than a silent one is believed
# to be alive: does the job on the hosts go on, and does all of its output come
# once the console is read?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b
make_into
cat >many <<'MANY'
#!/bin/sh
echo "round=$DDP_ROUND rank=$RANK " >>"$E2E_DIR/started"
seq -f "rank $RANK line %.0f" 200000
MANY
chmod +x many
mkfifo console
(exec 3<console && sleep 25 && cat <&3 >all) &
reader=$!
env "E2E_MARK=$E2E_DIR:front" "$DDPRUN" --launch_with="$E2E_DIR/into" \
    --hosts=a,b ./many >console 2>front.err || fail "status $?"
wait $reader
for rank in 0 1; do
    same 200000 "$(grep -c "^rank $rank line [0-9]*$" all)" "lines of rank $rank"
done
same 400000 "$(sort -u all | wc -l)" 'different lines'
has_not 'front end is gone' front.err
nothing_left
