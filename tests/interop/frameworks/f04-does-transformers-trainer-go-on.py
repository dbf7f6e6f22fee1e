# A worker and a node of a job with transformers are killed: does the job go on from
# transformers's own checkpoint, to the result of an undisturbed run?
# limit: 3600
from frameworks.scenario import *

play_all(version("transformers"), by_ddprun(JOBS / "transformers_job.py"))
