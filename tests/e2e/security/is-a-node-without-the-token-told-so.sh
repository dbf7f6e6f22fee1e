#!/bin/sh
# A daemon with a token, and one without: is every launcher that does not fit
# told why, in a sentence with the word token, and does a run stay as it is?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

umask 077
make_token token
make_token other
echo short >short
echo 'a sentence is no secret, however long it may be' >weak
cp token open && chmod 644 open
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token
wait_for 'serving on port' d.err
has 'token required' d.err
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
has 'the rendezvous server requires a token: give --rdzv_token_file' without.err
join wrong 78 --rdzv_token_file=other
has 'the token of this launcher differs from' wrong.err
has_not 'certificate' wrong.err
join short 78 --rdzv_token_file=short
has 'too short' short.err
join weak 78 --rdzv_token_file=weak
has 'too easy to guess.*openssl rand -hex 32' weak.err
join open 78 --rdzv_token_file=open
has 'chmod 600' open.err
join absent 66 --rdzv_token_file=absent
join empty 2 --rdzv_token_file=
in_time 4000 "$(took)" 'six refusals'
has 'the peer has no token' d.err
has "the peer's token differs from the token of this server" d.err
has_not joined d.err
# Who has it meets there.
nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_token_file=token "$WORKER" gate
wait_round 1 2
# The daemon dies, and the one that comes in its place has another token: the
# run goes on, and is not ended by what nobody has proved.
kill -KILL "$(pid_of d)"
end_of d
background e "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=other
wait_for "the peer's token differs from the token of this server" e.err
kill -KILL "$(pid_of e)"
end_of e
background f env DDPRUN_TOKEN_FILE=token "$DDPRDZVD" \
    --listen="127.0.0.1:$port"
wait_for ': moved: ' f.err 30 # it is told where the run is
lines 2 '^round=' started
open_gate
all_end 0 a b
kill -TERM "$(pid_of f)"
ends_with 0 f
# The other way round: no fall-back to plain text.
daemon g "$port"
has 'open to all who can connect' g.err
join ahead 78 --rdzv_token_file=token
has 'the rendezvous server has no token, and this launcher has one' ahead.err
# The daemon is as strict about the file.
background h "$DDPRDZVD" --listen="127.0.0.1:0" --token_file=open
ends_with 78 h
has 'chmod 600' h.err
