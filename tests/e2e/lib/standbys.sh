# What scenarios share whose Python modules are imported ahead: an interpreter, and
# a folder for modules of theirs, site-packages. To be sourced after lib.sh.
command -v python3 >/dev/null || skip 'needs python3'
# The interpreter itself, not a script that starts it.
PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
PYTHONPATH=$E2E_DIR/site-packages
export PYTHONPATH
cp "$E2E_LIB/standbys.py" .
mkdir site-packages
