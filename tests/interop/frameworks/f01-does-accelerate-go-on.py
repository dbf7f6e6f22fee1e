# A worker and a node of a job with accelerate are killed: does the job go on from
# accelerate's own checkpoint, to the result of an undisturbed run?
# limit: 3600
from frameworks.scenario import *

play_all(version("accelerate"), by_ddprun(JOBS / "accelerate_job.py"))
