# A worker under @record that raises: is its message in ddprun's report, and the
# status the worker's? Also as python -m.
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
    start(name, DDPRUN, "--nproc_per_node=2", *options)
    ends_with(1, name)
    has("ValueError: the loss is not a number", name)
    has("rank 1", name)
done()
