"""A real Prometheus scrapes a real daemon with a real run: is what it reads well
formed, also as OpenMetrics, and does each panel of docs/grafana.json draw something?

usage: prometheus.py BUILD"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from prometheus_client.openmetrics import parser

BUILD = os.path.abspath(sys.argv[1])
TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
LIMIT_S = 80
# Steps; the first round of rank 1 ends by a failure.
WORKER = """
# line AT WORD NUMBER: as libddp writes it (rendezvous/base/stop_page.h).
line()
{
    printf '%s %20d\\n' "$2" "$3" |
        dd of="$DDP_PROGRESS_FILE" bs=1 seek="$1" conv=notrunc 2>/dev/null
}
step=0
while [ ! -e enough ]; do
    echo $step >"$DDP_PROGRESS_FILE"
    line 32 mirrored $step
    line 64 own $((100000 + 50000 * RANK)) # rank 1 is the slower one
    line 96 noise 1000
    [ "$RANK.$DDP_ROUND.$step" != 1.1.15 ] || exit 1
    sleep 0.1
    step=$((step + 1))
done
"""
CONFIG = """
global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [%s/docs/alerts.yml]
scrape_configs:
  - job_name: ddprun
    static_configs: [{targets: ["127.0.0.1:%d"]}]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        return answer.read()


def until(what, look):
    """The first answer of look() that is not empty."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        try:
            found = look()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not in {LIMIT_S} s: {what}")


def promtool(*words, **how):
    done = subprocess.run(("promtool",) + words, capture_output=True,
                          text=True, check=False, **how)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"promtool {' '.join(words)}:\n{said}"


def ask(port, path, **words):
    query = urllib.parse.urlencode(words)
    answer = json.loads(get(f"http://127.0.0.1:{port}/api/v1/{path}?{query}"))
    assert answer["status"] == "success", answer
    return answer["data"]


def look_at_panels(port):
    with open(TREE + "/docs/grafana.json", encoding="utf-8") as f:
        panels = json.load(f)["panels"]
    assert len(panels) == 9, len(panels)
    for panel in panels:
        for target in panel["targets"]:
            expr = target["expr"].replace("$run", ".+")
            until(f"{panel['title']}: {expr}",
                  lambda e=expr: ask(port, "query", query=e)["result"])
    return len(panels)


def look_at_rules(port):
    rules = [r for g in ask(port, "rules")["groups"] for r in g["rules"]]
    assert len(rules) == 3, rules
    until("each rule was evaluated", lambda: all(
        r["health"] == "ok"
        for g in ask(port, "rules")["groups"] for r in g["rules"]))


def look_at_openmetrics(port):
    ask_for = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={
        "Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(ask_for, timeout=LIMIT_S) as answer:
        kind, text = answer.headers["Content-Type"], answer.read().decode()
    assert kind.startswith("application/openmetrics-text; version=1.0.0"), kind
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    for name, kind, labels in (
            ("ddprun_build_info", "gauge", {"version"}),
            ("ddprun_joins", "counter", set()),
            ("ddprun_tick_lag_seconds", "counter", set()),
            ("ddprun_run_world_size", "gauge", {"run"}),
            ("ddprun_run_seconds", "gauge", {"run", "part"})):
        family = families[name]
        assert family.type == kind and family.documentation, family
        assert family.samples, family
        for sample in family.samples:
            assert set(sample.labels) == labels, sample
    assert families["ddprun_joins"].samples[0].value >= 1


def look(folder, processes):
    daemon, server = free_port(), free_port()

    def start(*command):
        with open(folder + "/out", "ab") as out:
            processes.append(subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out))

    with open(folder + "/worker", "w", encoding="utf-8") as f:
        f.write(WORKER)
    with open(folder + "/config.yml", "w", encoding="utf-8") as f:
        f.write(CONFIG % (TREE, daemon))
    start(BUILD + "/ddprdzvd", f"--listen=127.0.0.1:{daemon}")
    start("prometheus", "--config.file=config.yml", "--storage.tsdb.path=data",
          f"--web.listen-address=127.0.0.1:{server}")
    start(BUILD + "/ddprun", "--nproc_per_node=2", "--max_restarts=1",
          "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{daemon}",
          "sh", "worker")
    panels = look_at_panels(server)
    look_at_rules(server)
    metrics = get(f"http://127.0.0.1:{daemon}/metrics").decode()
    promtool("check", "metrics", input=metrics)
    look_at_openmetrics(daemon)
    return panels


def main():
    processes = []
    promtool("check", "rules", TREE + "/docs/alerts.yml")
    promtool("test", "rules", "alerts_test.yml", cwd=TREE + "/tests/page")
    with tempfile.TemporaryDirectory(prefix="prometheus-") as folder:
        try:
            panels = look(folder, processes)
        except AssertionError:
            with open(folder + "/out", encoding="utf-8",
                      errors="replace") as f:
                print(f.read()[-4000:])
            raise
        finally:
            for p in processes[::-1]:
                p.terminate()
            for p in processes:
                p.wait()
    print(f"prometheus: {panels} panels have data, the alerts are as meant")


main()
