#!/usr/bin/env python3
"""GETs what a daemon on this machine shows, by Python's own HTTP client.

usage: get.py PORT TARGET [EXPRESSION...]
Without an expression prints the status and the body; with some, the body is
JSON, `it`, and each one's value is a line. `run` is its first run, `nodes` that
run's list. Ends with 0 where the status is 200.
"""
import http.client
import json
import sys

if len(sys.argv) < 3 or not sys.argv[1].isdigit():
    sys.stderr.write(__doc__)
    sys.exit(2)
port, target, expressions = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
link.request("GET", target)
answer = link.getresponse()
body = answer.read().decode()
if expressions:
    it = json.loads(body)
    run = it["runs"][0] if it["runs"] else None
    nodes = run["nodes_list"] if run else None
    for expression in expressions:
        print(eval(expression, {"it": it, "run": run, "nodes": nodes}))
else:
    print(answer.status)
    print(body, end="")
sys.exit(0 if answer.status == 200 else 1)
