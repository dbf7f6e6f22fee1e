# A worker under @record that raises: is its message in ddprun's report, the
# traceback once, and the status the worker's? Also as python -m. Is whoever
# started ddprun told in the error file that they named, as by torchrun?
# limit: 600
import json

from interop import *

pathlib.Path("job").mkdir()
pathlib.Path("job/__init__.py").touch()
pathlib.Path("job/main.py").write_text('''
import os
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if os.environ["RANK"] == "1":
        raise ValueError("the loss is not a number")
    import time
    time.sleep(60)

main()
''')
for name, options in (("script", ["job/main.py"]), ("module", ["-m",
                                                               "job.main"])):
    start(name, DDPRUN, "--nproc_per_node=2", f"--report={name}.json",
          *options)
    ends_with(1, name)
    has("ValueError: the loss is not a number", name)
    has("rank 1", name)
    has("its last lines, on stderr and in its error file:", name)
    same(log(name).count("| ValueError: the loss"), 1, "tracebacks told")
    report = json.loads(pathlib.Path(f"{name}.json").read_text())
    first = report["first_failure"]
    for text in first["stderr"], first["traceback"]:
        assert 'raise ValueError("the loss' in text, report
    same([c["rank"] for c in report["consequences"]], [0], "consequences")

os.environ["TORCHELASTIC_ERROR_FILE"] = os.path.abspath("told.json")
start("told", DDPRUN, "--nproc_per_node=2", "job/main.py")
ends_with(1, "told")
told = json.loads(pathlib.Path("told.json").read_text())["message"]
assert told["message"] == "ValueError: the loss is not a number", told
assert told["errorCode"] == 1, told
assert "in main" in told["extraInfo"]["py_callstack"], told
done()
