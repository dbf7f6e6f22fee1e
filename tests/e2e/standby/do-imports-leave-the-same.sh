#!/bin/sh
# Modules of the standard library, or what PACKAGES names in the folder PACKAGES_IN, are
# imported in a first life and in one from a standby. Both have the same modules of the
# same files, with the same values, functions and classes, and the same variables, path,
# folder, threads, descriptors, handlers of signals and filters of warnings. A generator
# of random numbers has its constant seed, or one by chance in each process.
# limit: 400
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"
cp "$E2E_LIB/what_imports_leave.py" .
PACKAGES=${PACKAGES:-argparse array ast asyncio base64 bisect bz2 calendar codecs \
collections.abc concurrent.futures configparser contextvars copy csv ctypes dataclasses \
datetime decimal difflib email.message enum fractions functools getpass glob gzip heapq \
hmac html.parser http.client inspect ipaddress json locale logging.handlers lzma mimetypes \
multiprocessing.pool numbers pathlib pickle platform pprint queue secrets selectors shelve \
shutil sqlite3 ssl statistics subprocess tempfile textwrap timeit traceback typing unittest \
urllib.request uuid wave weakref xml.etree.ElementTree zipfile zoneinfo}
export PACKAGES
[ -z "${PACKAGES_IN:-}" ] || PYTHONPATH=$PACKAGES_IN:$PYTHONPATH

node it --nproc_per_node=2 --max_restarts=1 --standby=auto what_imports_leave.py
ends_with 0 it 300
has '2 of 2 workers started from a standby' it.err
python3 - <<'END' || fail 'a life from a standby has something else'
import json, os, sys

# What differs between any two processes: the clock and the process number.
APART = {"logging": ["_startTime"], "uuid": ["_node"], "__mp_main__": None}
# What the runner imports, and what the importer needs.
RUNNER = "ast _ast ctypes ctypes._endian _ctypes runpy random bisect _bisect _random \
hashlib _hashlib _blake2 _sha512 _sha2 math _math _socket gc pkgutil importlib.util importlib._abc \
importlib.machinery importlib.abc operator _operator".split()
packages = os.environ["PACKAGES"].split()
bad, ahead, left_out = [], set(), set()
lives = {n + r: json.load(open(f"left.{n}.{r}")) for n in "01" for r in "01"}
for rank in "01":
    (began, first), (again, second) = lives["0" + rank], lives["1" + rank]
    ahead = set(again) - set(began)
    left_out |= set(packages) - set(again)
    for key in first:
        if key not in ("modules", "values", "generators") and first[key] != second[key]:
            bad.append(f"{key}: {first[key]}\n  then {second[key]}")
    for name, origin in first["modules"].items():
        if second["modules"].get(name, "none") != origin:
            bad.append(f"module {name}: {origin}, then {second['modules'].get(name)}")
    for name in second["modules"].keys() - first["modules"].keys() - set(RUNNER):
        if name.split(".")[0] not in ("ctypes", "concurrent"):
            bad.append(f"module {name} is there only from a standby")
    for name, were in first["values"].items():
        are = second["values"].get(name, {})
        for key in were:
            if were[key] != are.get(key) and key not in (APART.get(name, []) or [key]):
                bad.append(f"{name}.{key}: {were[key]}, then {are.get(key)}")
    if first["failed"]:
        bad.append(f"failed: {first['failed']}")
for name in lives["00"][1]["generators"]:
    states = [seen["generators"].get(name) for _, seen in lives.values()]
    is_constant = states[0] == states[1]
    if None in states or len(set(states)) != (1 if is_constant else 4):
        bad.append(f"generator {name}: {states}, of rank 0 and 1, then 0 and 1")
print(
    f"measured: {len(ahead)} modules are imported ahead, and of {len(packages)} that "
    f"are named all but {' '.join(sorted(left_out)) or 'none'}"
)
print("\n".join(bad))
sys.exit(bool(bad) or 4 * len(left_out) > len(packages))
END
