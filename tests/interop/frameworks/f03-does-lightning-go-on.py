# A worker and a node of a job with lightning are killed: does the job go on from
# lightning's own checkpoint, to the result of an undisturbed run?
# limit: 3600
from frameworks.scenario import *

play_all(version("lightning"), by_ddprun(JOBS / "lightning_job.py"))
