"""Reads what PyTorch's flight recorder dumped, and says who did not come.

usage: python -I -S -c THIS HOST PORT PREFIX WORLD FIRST COUNT OWN_S OTHERS_S
           RANK=FILE...

This node has COUNT of the WORLD ranks, from FIRST on.

Run by ddprun for a hang, with the workers' interpreter. Happy path: wait until
each FILE is whole, reduce it to what its rank last did in each process group,
exchange that with the other nodes through the workers' store (HOST PORT), and
print one sentence: the collective that does not end, the ranks that wait in it
and those that did not come; these again in a line "away 2 5-7", if they wait
nowhere else.

Failure modes: a file that stays away or cannot be read, and a node that says
nothing, are named in the sentence as ranks of which there is no dump. Without a
store this node's ranks are judged alone. If nothing can be said, nothing is
printed. Nothing in a dump is executed: the unpickler refuses one with a class.
"""

import io
import json
import pickle
import socket
import struct
import sys
import time

FILE_MAX = 256 << 20
VALUE_MAX = 1 << 20
MAGIC = 0x3C85F7CE  # c10d: TCPStoreBackend.hpp, validationMagicNumber
OP_VALIDATE, OP_SET, OP_GET, OP_CHECK = 0, 1, 3, 5


class Refused(Exception):
    """It is no dump, and never becomes one."""


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise Refused


# -- one dump ------------------------------------------------------------------


def load(path):
    """The dump; None: not (wholly) there yet. Whatever is wrong with a half of
    one, its unpickler has an exception for it."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_MAX)
        return Plain(io.BytesIO(data)).load()
    except Refused:
        raise
    except Exception:
        return None


def is_over(entry, status):
    """A state of "scheduled" says little: gloo's never changes. What has ended
    is told by the group's status, since version 2.3."""
    done = status.get(str(entry.get("pg_id")), {}).get("last_completed_collective")
    if entry.get("state") == "completed":
        return True
    if done is None:
        return bool(entry.get("retired"))
    return entry["collective_seq_id"] <= done


def reduce_dump(dump):
    """{group: [name, ranks or None for all, last, pending or None, what]}: the
    number of the last collective that this rank began, and of the first that has
    not ended."""
    groups = {}
    status = dump.get("pg_status") or {}
    members = {}
    for config in (dump.get("pg_config") or {}).values():
        try:
            ranks = json.loads(config.get("ranks") or "")
            if config.get("desc") != "default_pg" and all(isinstance(r, int) for r in ranks):
                members[config["name"]] = ranks
        except (ValueError, TypeError):
            pass
    for entry in dump["entries"]:
        if entry.get("is_p2p"):
            continue
        name, desc = entry["process_group"]
        seq = int(entry["collective_seq_id"])
        group = groups.setdefault(str(name), [str(desc)[:40], members.get(name), 0, None, ""])
        group[2] = max(group[2], seq)
        if not is_over(entry, status) and (group[3] is None or seq < group[3]):
            group[3] = seq
            group[4] = str(entry.get("profiling_name", "")).split(":")[-1][:40]
    return groups


def read_own(files, until):
    own = {}
    while files and time.monotonic() < until:
        for rank, path in list(files.items()):
            try:
                dump = load(path)
                if dump is None:
                    continue
                own[rank] = reduce_dump(dump)
            except Exception:
                pass  # no dump, or of a version to come: as if it were not there
            del files[rank]
        if files:
            time.sleep(0.1)
    return own


# -- the other nodes -----------------------------------------------------------


class Store:
    """A client of c10d's TCPStore, as small as it can be."""

    def __init__(self, host, port, prefix):
        self.prefix = prefix
        self.sock = socket.create_connection((host, port), timeout=3)
        self.sock.sendall(struct.pack("<BI", OP_VALIDATE, MAGIC))

    def _key(self, first):
        """Of the node whose first rank this is."""
        key = f"/{self.prefix}/{first}".encode()
        return struct.pack("<Q", len(key)) + key

    def _take(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise OSError("the store has closed the connection")
            data += more
        return data

    def set(self, first, value):
        self.sock.sendall(struct.pack("<B", OP_SET) + self._key(first)
                          + struct.pack("<Q", len(value)) + value)

    def get(self, first):
        """None: it is not there."""
        self.sock.sendall(struct.pack("<BQ", OP_CHECK, 1) + self._key(first))
        if self._take(1) != b"\0":
            return None
        self.sock.sendall(struct.pack("<B", OP_GET) + self._key(first))
        (size,) = struct.unpack("<Q", self._take(8))
        if size > VALUE_MAX:
            raise OSError("a value is too large")
        return self._take(size)


def take_node(store, first, known, others):
    """What a node told of its ranks, if this is the first of them."""
    value = store.get(first)
    if value is None:
        return
    node = json.loads(value)
    known.update((int(rank), groups) for rank, groups in node["ranks"].items())
    others.difference_update(range(first, first + node["count"]))


def exchange(own, host, port, prefix, here, others, wait_s):
    """What all ranks did, of the nodes that tell it in time."""
    known = dict(own)
    if not others:
        return known
    try:
        store = Store(host, port, prefix)
        node = {"count": len(here), "ranks": own}
        store.set(here[0], json.dumps(node).encode())
        until = time.monotonic() + wait_s
        while others and time.monotonic() < until:
            for rank in sorted(others):
                if rank in others and time.monotonic() < until:
                    take_node(store, rank, known, others)
            time.sleep(0.1)
    except Exception:
        pass  # no store, or what is there is no such summary
    return known


# -- the verdict ---------------------------------------------------------------


def pieces_of(ranks):
    """[first, last] of each unbroken row."""
    pieces = []
    for rank in sorted(ranks):
        if pieces and rank == pieces[-1][1] + 1:
            pieces[-1][1] = rank
        else:
            pieces.append([rank, rank])
    return pieces


def ranks_text(ranks):
    """"rank 3", "ranks 0, 2-5": at most six pieces."""
    pieces = pieces_of(ranks)
    texts = [str(a) if a == b else f"{a}{'-' if b > a + 1 else ', '}{b}" for a, b in pieces]
    more = ", ..." if len(texts) > 6 else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(texts[:6])}{more}"


def judge_group(group, known, world):
    """(weight, sentence, ranks that are its cause) of the first collective that
    does not end; None."""
    mine = {r: g[group] for r, g in known.items() if group in g}
    pending = {r: g[3] for r, g in mine.items() if g[3] is not None}
    if not pending:
        return None
    desc = next(iter(mine.values()))[0]
    members = next((set(g[1]) for g in mine.values() if g[1]), None)
    if members is None:
        members = set(range(world)) if desc == "default_pg" else set(mine)
    seq = min(pending.values())
    wait = [r for r in pending if pending[r] == seq]
    away = [r for r in members if r in known and (r not in mine or mine[r][2] < seq)]
    silent = [r for r in members if r not in known]
    names = {mine[r][4]: r for r in sorted(wait, reverse=True)}
    what = f"{mine[min(wait)][4]} (number {seq} of group {desc or group})"
    verb = "waits" if len(wait) == 1 else "wait"
    if len(names) > 1:
        text = (f"collective number {seq} of group {desc or group} differs: "
                + ", ".join(f"rank {r} calls {n}" for n, r in sorted(names.items())[:3]))
    elif away:
        text = f"{ranks_text(away)} did not come to {what}; {ranks_text(wait)} {verb}"
    elif silent:
        text = f"{ranks_text(wait)} {verb} in {what}"
    else:
        text = f"all ranks of the group came to {what}, which does not end"
    if silent:
        text += f"; no dump from {ranks_text(silent)}"
    # The cause is where all that are away wait nowhere else.
    idle = [r for r in away if all(g[3] is None for g in known[r].values())]
    weight = 3 if away and len(idle) == len(away) else 2 if idle else 1 if away else 0
    return (4, text, []) if len(names) > 1 else (weight, text, idle)


def judge(known, world):
    groups = sorted({name for g in known.values() for name in g})
    found = [v for v in (judge_group(g, known, world) for g in groups) if v]
    return max(found, key=lambda v: v[0])[1:] if found else ("", [])


def main(host, port, prefix, world, first, count, own_s, others_s, *files):
    paths = {int(f.split("=", 1)[0]): f.split("=", 1)[1] for f in files}
    here = range(int(first), int(first) + int(count))
    others = {r for r in range(int(world)) if r not in here}
    own = read_own(paths, time.monotonic() + float(own_s))
    if own:
        known = exchange(own, host, int(port), prefix, here, others, float(others_s))
        try:
            text, away = judge(known, int(world))
        except Exception:  # what another wrote there is no such summary
            text, away = judge(own, int(world))
        rows = [f"{a}-{b}" if b > a else f"{a}" for a, b in pieces_of(away)]
        print(text)
        print(" ".join(["away", *rows[:200]]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
