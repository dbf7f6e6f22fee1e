# A worker and a node of a job with DeepSpeed (ZeRO stage 1 on CPUs) are killed:
# does the job go on from DeepSpeed's own checkpoint, to the result of an
# undisturbed run?
# limit: 4500
from frameworks.scenario import *

title = version("deepspeed")
# DeepSpeed compiles its communication for CPUs, once, by ninja of this Python.
os.environ["PATH"] = (f"{pathlib.Path(sys.executable).parent}:"
                      f"{os.environ['PATH']}")
job = JOBS / "deepspeed_job.py"
start("compiled", DDPRUN, "--standalone", job)
ends_with(0, "compiled", 900)
play_all(title, by_ddprun(job))
