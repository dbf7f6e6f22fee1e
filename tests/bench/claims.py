"""What README and the first sentences of docs/ claim, beside the full page of the
benches: each number of theirs that is from a bench is found here, with the row that
it is from. A number of README that is in no claim has to be in OTHERS.
"""

import dataclasses
import re
import typing

import page


def rounded(shown, measured):
    """Shown with fewer digits: 8.9 for 8.91."""
    digits = len(shown.partition(".")[2])
    return abs(float(shown) - measured) <= 0.5001 * 10**-digits


def at_most(shown, measured):
    """The figure keeps what is shown, which is not more than 2.5 times of it."""
    return measured <= float(shown) <= 2.5 * measured


def about(shown, measured):
    """Within a quarter."""
    return 0.75 * measured <= float(shown) <= 1.25 * measured


def at_least(shown, measured):
    """The other way round."""
    return 0.4 * measured <= float(shown) <= measured


@dataclasses.dataclass
class Claim:
    """pattern: matched in the file with its line breaks as blanks; its group is the
    number. row: of the full page, a function of that."""

    file: str
    pattern: str
    row: typing.Callable
    fits: typing.Callable = rounded


def median(title, who="ddprun", section=None, scale=1):
    """scale: of what is shown, to the unit of the row."""

    def measured(full):
        row = page.exact(full, title, who, section)
        return row and scale * page.number_of(row)

    return measured


def ratio(title, who, section=None):
    """How many times better ours is."""

    def measured(full):
        row = page.exact(full, title, who, section)
        return row and float(row["ddprun is better by"])

    return measured


def kill(launcher, column="all, ms", nodes="1 × 2", scale=1, program="DDP"):
    def measured(full):
        for row in full.rows:
            has = (row["section"], row.get("launcher"), row.get("nodes"), row.get("program"))
            if has == (page.KILLS, launcher, nodes, program) and row.get(column):
                return float(row[column].split()[0]) / scale
        return None

    return measured


def kill_ratio(other, mine):
    """What part of the other's time ours takes."""

    def measured(full):
        return kill(mine)(full) / kill(other)(full)

    return measured


def kill_table(shown, launcher):
    """The two figures of a row of README's table of kills."""
    row = rf"\| {re.escape(shown)} \| "
    yield Claim("README.md", row + r"(\d+) of 10", kill(launcher, "back"))
    yield Claim("README.md", row + r"\d+ of 10 \| ([\d.]+) s", kill(launcher, scale=1000))


TEE = "4 x 200 MB of lines, tee'd into files and a console"
STALL = "PyTorch, 1.5 GB of state: a step waits for its save"
HOST3 = "the serving host killed, 2:3: the others' workers run again"
HOST5 = "the serving host killed, 3:5: the others' workers run again"
JOIN = "10,000 agents: first connect to last world"
AUTO, SHARED_NOT = "ddprun --standby=auto", "torchrun, store not shared"

CLAIMS = (
    Claim("README.md", r"within (\d+) ms of a kill", median(HOST5), at_most),
    Claim("README.md", r"at (ten) times torchrun's speed", ratio(TEE, "torchrun 2"), at_least),
    Claim("README.md", r"in (a tenth) of the time", kill_ratio("ddprun", AUTO), at_most),
    *kill_table("torchrun 2.15", "torchrun"),
    *kill_table("the same, with a store of each round's own", SHARED_NOT),
    *kill_table("ddprun", "ddprun"),
    *kill_table("ddprun --standby=auto", AUTO),
    Claim("docs/python-standby.md", r"2\.15 on the CPU: (\d+) ms", kill(AUTO)),
    Claim("docs/python-standby.md", r"without standbys takes (\d+) ms", kill("ddprun")),
    Claim("docs/python-standby.md", r"each round's own (\d+) ms", kill(SHARED_NOT)),
    Claim("docs/python.md", r"waits ([\d.]+) s for its save,", median(STALL, "ddprun.snapshot")),
    Claim("docs/python.md", r"([\d.]+) s with `overlap=True`,",
          median(STALL, "ddprun.snapshot, overlap")),
    Claim("docs/python.md", r"([\d.]+) s for torch.distributed", median(STALL, "async_save")),
    Claim("docs/python.md", r"([\d.]+) s for `torch.save`", median(STALL, "torch.save")),
    Claim("docs/torchrun.md", r"10,000 nodes in (half) a second",
          median(JOIN, "ddprdzvd", page.AGENTS, 1e-3), at_most),
    Claim("docs/limits.md", r"need some (\d+) s to join",
          median(JOIN, "ddprdzvd", page.TOKEN, 1e-3)),
    Claim("docs/python.md", r"ddprun needs (a tenth) of a second",
          kill("ddprun", "respawn", scale=1000), about),
)
WORDS = {"ten": "10", "a tenth": "0.1", "half": "0.5"}

# README's numbers with a unit that no bench has measured: defaults, sizes, a demo.
OTHERS = (
    r"4 s; 480 s after SIGTERM",
)


def unwrapped(text):
    return re.sub(r"\s+", " ", text)


def wrong_claim(claim, text, full):
    """What is wrong with it, or None."""
    found = re.search(claim.pattern, unwrapped(text))
    if not found:
        return f"{claim.file}: no sentence has {claim.pattern!r}; tests/bench/claims.py lists it"
    shown = WORDS.get(found[1], found[1])
    measured = claim.row(full)
    if measured is None:
        return f"{claim.file}: {found[0]!r}: docs/performance-full.md has no such row"
    if not claim.fits(shown, measured):
        return f"{claim.file}: {found[0]!r}: docs/performance-full.md has {measured:.4g}"
    return None


# -- README's tables ----------------------------------------------------------

OF_COLUMN = {"ddprun": "ddprun", "hydra": "hydra", "torchrun 2.15": "torchrun 2"}


def readme_tables(text):
    """(columns, cells) of each row of README's tables of figures."""
    columns = None
    for line in text.splitlines():
        if not line.startswith("|"):
            columns = None
        elif columns is None:
            columns = page.cells_of(line)
        elif not line.startswith("|--") and "ddprun" in columns:
            yield columns, page.cells_of(line)


def wrong_row(columns, cells, full):
    """What is wrong with a row of figures, or None: each cell is what the row of
    that title says, with its unit, "–" if it has no such contender."""
    title = cells[0].replace(" × ", " x ")
    for column, cell in list(zip(columns, cells))[1:]:
        row = page.exact(full, title, OF_COLUMN.get(column, column), None)
        want = page.with_unit(row).removesuffix(" ~") if row else "–"
        if cell.replace("**", "") != want:
            return f"README.md: {cells[0]}: {column} is {cell}, docs/performance-full.md has {want}"
    return None


def unclaimed(text):
    """Numbers with a unit in README's prose that nothing here explains."""
    prose = re.sub(r"^(    |\|).*$", "", text, flags=re.M)  # no code, no tables
    prose = unwrapped(re.sub(r"```.*?```", "", prose, flags=re.S))
    for pattern in OTHERS + tuple(c.pattern for c in CLAIMS if c.file == "README.md"):
        prose = re.sub(pattern, "", prose)
    unit = r"\b[\d.,]+ (?:ms|s|seconds?|minutes?|times|MB|MiB|%)(?![\w/])"
    return [f"README.md: {found!r} is in no claim of tests/bench/claims.py"
            for found in re.findall(unit, prose)]


def wrong(texts, full):
    """All that is wrong; texts: {file: text}."""
    found = [wrong_claim(claim, texts[claim.file], full) for claim in CLAIMS]
    found += [wrong_row(*row, full) for row in readme_tables(texts["README.md"])]
    return [text for text in found if text] + unclaimed(texts["README.md"])


def files():
    return {c.file for c in CLAIMS} | {"README.md"}
