#!/bin/sh
# Does the store answer each request with the same bytes as PyTorch's own server?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# beside PYTHON KIND: that python's torch has this kind of server.
beside()
{
    node "$2" --no_python "$1" "$E2E_LIB/store_beside.py" "$2"
    end_of "$2" 60
    has 'the same [1-9][0-9]* times' "$2.out"
    same 0 "$STATUS" "status of $1 $2"
    played="$played $2"
}

# with_torch PYTHON
with_torch()
{
    "$1" -c 'import importlib.util as u
raise SystemExit(u.find_spec("torch") is None)' 2>/dev/null
}

played=
if with_torch /usr/bin/python3; then
    beside /usr/bin/python3 classic
fi
if [ -n "${DDPRUN_TORCH:-}" ] && with_torch "$DDPRUN_TORCH"; then
    beside "$DDPRUN_TORCH" uv
fi
[ -n "$played" ] || skip 'needs torch: apt install python3-torch'
