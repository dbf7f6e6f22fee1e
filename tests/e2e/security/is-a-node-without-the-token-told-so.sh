#!/bin/sh
# A daemon with a token, and one without: is every launcher that does not fit
# told why, in a sentence with the word token, and does a run stay as it is?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

umask 077
head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >token
head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >other
echo short >short
cp token open && chmod 644 open
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token
wait_for 'serving on port' d.err
has 'to those who have the token' d.err
# join NAME STATUS [OPTION...]: a launcher that does not get in.
join()
{
    name=$1 status=$2
    shift 2
    node "$name" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$@" \
        "$WORKER" gate
    ends_with "$status" "$name" 5
    has token "$name.err"
}
# No job of a scenario is to wait: who is not let in is told at once.
began=$(now_ms)
join without 78
has 'it wants a token: give --rdzv_token_file' without.err
join wrong 78 --rdzv_token_file=other
has 'the token of this launcher is not' wrong.err
has_not 'certificate' wrong.err
join short 78 --rdzv_token_file=short
has 'too short' short.err
join open 78 --rdzv_token_file=open
has 'chmod 600' open.err
join absent 66 --rdzv_token_file=absent
join empty 2 --rdzv_token_file=
took=$(took)
[ "$took" -lt 4000 ] || fail "six refusals took $took ms"
has 'it has no token' d.err
has "its token is not the rendezvous's" d.err
has_not joined d.err
# Who has it meets there.
for name in a b; do
    node $name --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_token_file=token "$WORKER" gate
done
wait_round 1 2
# The daemon dies, and the one that comes in its place has another token: the
# run goes on, and is not ended by what nobody has proved.
kill -KILL "$(pid_of d)"
end_of d
background e "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=other
wait_for "its token is not the rendezvous's" e.err
kill -KILL "$(pid_of e)"
end_of e
background f env DDPRUN_TOKEN_FILE=token "$DDPRDZVD" \
    --listen="127.0.0.1:$port"
wait_lines 2 back f.err 15
lines 2 '^round=' started
open_gate
ends_with 0 a
ends_with 0 b
kill -TERM "$(pid_of f)"
ends_with 0 f
# The other way round: no fall-back to plain text.
daemon g "$port"
has 'open to whoever' g.err
join ahead 78 --rdzv_token_file=token
has 'the rendezvous has no token, and this launcher has one' ahead.err
# The daemon is as strict about the file.
background h "$DDPRDZVD" --listen="127.0.0.1:0" --token_file=open
ends_with 78 h
has 'chmod 600' h.err
