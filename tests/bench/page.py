"""The short page of the benches, docs/performance.md, made of the full one,
docs/performance-full.md: what a user asks, one row each, with the peers beside it;
then what was missed, what was noisy, what was left out. Nobody edits either.
"""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FULL, SHORT = ROOT / "docs/performance-full.md", ROOT / "docs/performance.md"
MOST_LINES = 120  # of the short page


class Wrong(Exception):
    """The full page lacks something, or the short one is not what it should be."""


# -- the full page, read ------------------------------------------------------


@dataclasses.dataclass
class Full:
    head: list  # the lines behind "- ": machine, versions, what was left out
    rows: list  # {section, column: cell, ...} of all tables


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read(text):
    head, rows, section, columns = [], [], "", None
    for line in text.splitlines():
        if line.startswith("## "):
            section, columns = line[3:], None
        elif line.startswith("- ") and not section:
            head.append(line[2:])
        elif not line.startswith("|"):
            columns = None
        elif columns is None:
            columns = cells_of(line)
        elif not line.startswith("|--"):
            rows.append({"section": section, **dict(zip(columns, cells_of(line)))})
    return Full(head, rows)


def split_unit(title):
    """"start, 1 worker (ms)" as ("start, 1 worker", "ms"); no unit: ""."""
    found = re.fullmatch(r"(.*) \(([^()]*)\)", title)
    return found.groups() if found else (title, "")


def number_of(row):
    """Its median without the mark of a noisy one; None: it has none."""
    found = re.match(r"-?[\d.]+", row["median"])
    return float(found[0]) if found else None


def with_unit(row):
    """8.00 ms ~; a sentence (not in 10 s) has none."""
    if number_of(row) is None:
        return row["median"]
    number, *mark = row["median"].split(" ")
    unit = split_unit(row["what"])[1]
    times = "× " if unit[:1].isdigit() else ""  # of 1000/s
    return " ".join([f"{number} {times}{unit}".strip(), *mark])


# -- what is asked ------------------------------------------------------------

TOKEN, AGENTS = "The same with a token", "Agents on one rendezvous"
KILLS = "From a kill to the next step"
TORCHRUN, HYDRA = "torchrun 2", "hydra"


@dataclasses.dataclass
class Ask:
    """A row: the title of its rows in the full page, ours, and who is beside it."""

    title: str
    ours: str = "ddprun"
    peers: tuple = (TORCHRUN,)
    section: str = None
    shown: str = None  # the title on the short page, if it is another one


DAEMON, BARE = "ddprdzvd", "bare server"
ASKED = {
    "Start and end": (
        Ask("start to the last worker's main, 4 workers", peers=(HYDRA, TORCHRUN)),
        Ask("start to the last worker's main, 64 workers", peers=(HYDRA, TORCHRUN)),
        Ask("4 workers' end to the launcher's exit", peers=(HYDRA, TORCHRUN)),
        Ask("the launcher killed: nothing is left", peers=(HYDRA, TORCHRUN)),
    ),
    "A worker, a node, the endpoint's host is lost": (
        Ask("PyTorch DDP jobs that survive kill -9 of a worker"),
        Ask("a worker killed: all 4 run again, one node"),
        Ask("a worker killed: all 4 run again, two nodes"),
        Ask("a node killed, 1:2: the other's workers run again"),
        Ask("a node silent, heartbeat_timeout 5 (default): the same"),
        Ask("the serving host killed, 2:3: the others' workers run again"),
        Ask("the serving host killed, 3:5: the others' workers run again"),
        Ask("a third node starts, 2:3: all three nodes' workers run"),
    ),
    "Ten thousand nodes": (
        Ask("10,000 agents: first connect to last world", DAEMON, (BARE,), AGENTS),
        Ask("one of 10,000 lost: the others told; p99", DAEMON, (BARE,), AGENTS),
        Ask("server of 10,000 killed: all have a lease at the next", DAEMON, (BARE,), AGENTS),
        Ask("10,000 agents: first connect to last world", DAEMON, ("bare TLS server",),
            TOKEN, "10,000 agents with a token: first connect to last world"),
        Ask("100 agents: first connect to last rank", DAEMON, ("torch 2",)),
    ),
    "Memory": (
        Ask("memory (PSS) of the idle launcher of 4 workers", peers=(HYDRA, TORCHRUN)),
        Ask("memory (PSS) at 10,000 agents", DAEMON, (BARE,), AGENTS),
        Ask("memory (PSS) at 10,000 agents", DAEMON, ("bare TLS server",), TOKEN,
            "memory (PSS) at 10,000 agents with a token"),
    ),
    "Output": (
        Ask("4 x 200 MB of lines, tee'd into files and a console"),
        Ask("4 x 200 MB of lines, redirected into log files"),
    ),
    "Snapshots and training": (
        Ask("PyTorch, 1.5 GB of state: a step waits for its save", "ddprun.snapshot, overlap",
            ("async_save", "torch.save")),
        Ask("PyTorch, 1.5 GB of state: a step waits for its save", "ddprun.snapshot",
            ("async_save", "torch.save")),
        Ask("snapshot of 1500 MB: on the disk after", "launcher's memory", ("dd conv=fsync",)),
        Ask("cnn, batch 64", "ddptrain", ("PyTorch 2",)),
    ),
    "The workers' store": (
        Ask("get 64B, 64 connections", peers=("2.15 uv", "Redis")),
        Ask("storm of 2,048: all woken", peers=("2.15 uv",)),
    ),
}


def exact(full, title, who, section):
    """One contender; of several versions of it the newest. None: not measured."""
    named = [
        row
        for row in full.rows
        if "what" in row
        and split_unit(row["what"])[0] == title
        and section in (None, row["section"])
        and (row["of"] == who or re.fullmatch(re.escape(who) + r"[.\d]*", row["of"]))
    ]
    return named[-1] if named else None


def is_first(full, row):
    """Of its title in its table: the ratios of the others are to that one."""
    title = (row["section"], row["what"])
    same = (r for r in full.rows if (r["section"], r.get("what")) == title)
    return next(same) is row


def asked_row(full, ask):
    """(line, row) of the short page; None where ours was not measured."""
    mine = exact(full, ask.title, ask.ours, ask.section)
    if mine is None:
        return None
    beside = []
    for peer in ask.peers:
        its = exact(full, ask.title, peer, ask.section)
        if its is not None:
            times = its["ddprun is better by"]
            has_ratio = times != "–" and is_first(full, mine)
            ratio = f" ({times} ×)" if has_ratio else ""
            beside.append(f"{its['of']} {with_unit(its)}{ratio}")
    verdict = mine["verdict"].replace("–", "").replace("**", "")
    goal = f"{mine['target']}, {verdict}" if verdict else "–"
    title = (ask.shown or ask.title).replace(" x ", " × ")
    who = "" if mine["of"] == "ddprun" else f", {mine['of']}"
    cells = [f"{title}{who}", with_unit(mine), "; ".join(beside) or "–", goal]
    return "| " + " | ".join(cells) + " |", mine


# -- the short page -----------------------------------------------------------

INTRO = """\
`make bench BENCH_ARGS=--markdown` writes this page, and
[performance-full.md](performance-full.md) with all rows, contenders, spreads and
legends. Neither is edited; `tests/bench/pages --check` holds that, and that README
says the same. Medians; (N ×): ddprun is better by that; ~ noisy: the middle half of
the runs spans more than a quarter of the median.
"""
HEAD = "| what | ddprun | beside it | target |\n|---|--:|---|---|"


def kill_lines(full):
    """From kill -9 of a worker to the next step, plain DDP: a row for each launcher."""
    rows = [r for r in full.rows if r["section"] == KILLS and r.get("program") == "DDP"]
    if not rows:
        return
    yield f"\n## {KILLS}\n"
    yield ("PyTorch's DDP over gloo: from kill -9 of one of two workers to the first optimizer "
           "step\nafter it; back: within 20 s. Nodes × workers.\n")
    yield "| launcher | nodes | back | next step after | steps lost |\n|---|---|--:|--:|--:|"
    for r in rows:
        after = f"{r['all, ms']} ms" if r.get("all, ms") else "–"
        lost = r.get("steps lost") or "–"
        yield f"| {r['launcher']} | {r['nodes']} | {r['back']} | {after} | {lost} |"


def missed(full):
    for row in full.rows:
        if "MISSED" in row.get("verdict", ""):
            yield f"{row['what']}, {row['of']}: {row['median']}, wanted {row['target']}"


def listed(title, texts):
    if texts:
        yield f"\n## {title}\n"
        yield from (f"- {text}" for text in texts)


def short(text):
    """The page, of the full one's text."""
    full = read(text)
    if not full.head or not full.rows:
        raise Wrong("the full page has no head or no rows")
    lines = ["# Performance\n", INTRO.rstrip(), ""]
    lines += [f"- {text}" for text in full.head]
    noisy = []
    for section, asked in ASKED.items():
        found = [row for row in (asked_row(full, ask) for ask in asked) if row]
        if found:
            lines += [f"\n## {section}\n", HEAD, *(line for line, _ in found)]
            noisy += [row["what"] for _, row in found if "~" in row["median"]]
        if section.startswith("A worker"):
            lines += kill_lines(full)
    gone = [
        ask.shown or ask.title
        for asked in ASKED.values()
        for ask in asked
        if not asked_row(full, ask)
    ]
    gone = list(dict.fromkeys(gone))
    lines += listed("Targets that were missed", list(missed(full)))
    lines += listed("Noisy on this page", noisy)
    lines += listed("Asked, and not measured in this run", gone)
    page = "\n".join(lines) + "\n"
    if page.count("\n") > MOST_LINES:
        raise Wrong(f"the short page has {page.count(chr(10))} lines, {MOST_LINES} at most")
    return page
