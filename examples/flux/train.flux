#!/bin/sh
# Two hosts, one worker for each GPU. Flux tells a task its rank, and no host of the
# others: the endpoint is on the first one.
#     flux batch train.flux
#flux: --nodes=2
#flux: --exclusive

flux run --nodes=2 --tasks-per-node=1 --exclusive \
    ddprun --rdzv_endpoint="$(flux hostlist --nth=0 local):29500" train.py
