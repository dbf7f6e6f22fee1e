#!/bin/sh
# ddprun that pip put into a virtual environment, and is called by its path: does
# it take the environment's Python if the environment is not active? And not that
# of an environment of a tool's own (pipx, uv), which lacks the job's packages,
# nor that beside a ddprun in an ordinary bin/, nor if another one is active?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

mkdir -p venv/bin active/bin bin path
cp "$DDPRUN_FILE" venv/bin/ddprun && cp "$DDPRUN_FILE" bin/ddprun || fail 'no copy'
: >train.py
for at in venv/bin active/bin bin path; do
    printf '#!/bin/sh\necho %s >>said\n' "${at%/*}" >$at/python3
    chmod +x $at/python3
done
unset VIRTUAL_ENV CONDA_PREFIX PYTHON_EXEC

# python_is NAME COMMAND...: that one's Python has run.
python_is()
{
    want=$1
    shift
    rm -f said
    env PATH="$PWD/path:$PATH" "$@" train.py 2>err || fail "status $? from $*"
    [ "$(cat said)" = "$want" ] || fail "$*: $(cat said) instead of $want"
}

python_is path venv/bin/ddprun
: >venv/pyvenv.cfg
python_is venv venv/bin/ddprun
ln -s venv/bin/ddprun linked
python_is venv ./linked
python_is active env VIRTUAL_ENV="$PWD/active" venv/bin/ddprun
python_is venv env CONDA_PREFIX="$PWD/active" venv/bin/ddprun
python_is path bin/ddprun
for receipt in pipx_metadata.json uv-receipt.toml; do
    : >venv/$receipt
    python_is path venv/bin/ddprun
    rm venv/$receipt
done
rm venv/bin/python3
python_is path venv/bin/ddprun
