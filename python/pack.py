"""Packs a wheel from a staged folder; the standard library is all it needs.

usage: pack.py PROJECT VERSION STAGE OUT PLATFORM

PROJECT has the pyproject.toml with the metadata. STAGE has what goes into the
wheel: scripts/ (onto PATH), data/ (into the environment's own folder, man pages
for example), licenses/, and any other folder is a package. Times, modes and
order are fixed, so the same files give the same wheel.

It is also the build backend of `pip install ./python`: then scripts/wheel
builds for this machine.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

# The oldest that a zip file can tell.
TIME = (1980, 1, 1, 0, 0, 0)


def project_of(folder: Path) -> dict[str, Any]:
    """The table [project] of a pyproject.toml."""
    import tomllib  # not there before Python 3.11

    with open(folder / "pyproject.toml", "rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def pinned(requirement: str, version: str) -> str:
    """Packages of this tree want each other in the same version."""
    ours = re.fullmatch(r"ddprun(-\w+)?", requirement)
    return f"{requirement}=={version}" if ours else requirement


def metadata(project: dict[str, Any], version: str, folder: Path, licences: list[str]) -> str:
    """The file METADATA."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {name}" for name in licences),
        f"Requires-Python: {project['requires-python']}",
        *([f"Keywords: {','.join(project['keywords'])}"] if "keywords" in project else []),
        *(f"Classifier: {name}" for name in project.get("classifiers", [])),
        *(f"Requires-Dist: {pinned(name, version)}" for name in project.get("dependencies", [])),
    ]
    for extra, wanted in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {pinned(name, version)}; extra == "{extra}"' for name in wanted]
    readme = folder / "README.md"
    if readme.exists():
        lines += ["Description-Content-Type: text/markdown", "", readme.read_text().rstrip()]
    return "\n".join(lines) + "\n"


def arranged(stage: Path, stem: str) -> dict[str, tuple[bytes, int]]:
    """Name in the wheel -> content and mode."""
    special = {
        "scripts": f"{stem}.data/scripts",
        "data": f"{stem}.data/data",
        "licenses": f"{stem}.dist-info/licenses",
    }
    found = {}
    for path in sorted(stage.rglob("*")):
        if path.is_file():
            top, *rest = path.relative_to(stage).parts
            name = "/".join([special.get(top, top), *rest])
            found[name] = path.read_bytes(), 0o755 if top == "scripts" else 0o644
    return found


def record_line(name: str, content: bytes) -> str:
    """A line of RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"{name},sha256={digest.rstrip(b'=').decode()},{len(content)}"


def pack(folder: Path, version: str, stage: Path, out: Path, machine: str) -> Path:
    """Writes the wheel into `out` and returns its path."""
    project = project_of(folder)
    stem = f"{project['name'].replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    files = arranged(stage, stem)
    licences = [name.split("/licenses/")[1] for name in files if name.startswith(f"{info}/")]
    tag = f"py3-none-{machine}"
    wheel = f"Wheel-Version: 1.0\nGenerator: ddprun\nRoot-Is-Purelib: {str(machine == 'any').lower()}\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = wheel.encode(), 0o644
    files[f"{info}/METADATA"] = metadata(project, version, folder, licences).encode(), 0o644
    lines = [record_line(name, content) for name, (content, _) in files.items()]
    lines.append(f"{info}/RECORD,,")
    files[f"{info}/RECORD"] = ("\n".join(lines) + "\n").encode(), 0o644

    path = out / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.create_system = 3  # Unix: the mode counts
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return path


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """PEP 517, from a checkout: the wheel for this machine."""
    script = Path(__file__).resolve().parent.parent / "scripts" / "wheel"
    out = Path(wheel_directory).resolve()
    subprocess.run([str(script), "--out", str(out), platform.machine()], check=True, stdout=sys.stderr)
    return next(out.glob("ddprun-*.whl")).name


def main() -> int:
    if len(sys.argv) != 6:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    folder, version, stage, out, machine = sys.argv[1:]
    path = pack(Path(folder), version, Path(stage), Path(out), machine)
    print(f"{os.path.relpath(path)}: {path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
