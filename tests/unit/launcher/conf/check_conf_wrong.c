/* links: tests/lib/conf_line */
/* libs: -lcjson -ldl */
/* Command lines of ddprun that are wrong: a table of line → error, and each
 * option of the table with a value that it cannot have. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/conf/conf.h"
#include "launcher/conf/options.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

/* 65 bytes */
#define LONG_NAME                                                              \
    "a-pod-of-a-job-0.a-service-of-a-job.a-team.svc.cluster.a-domain.x"

static const struct {
    const char *env;
    const char *line;
    enum ddp_code code;
    const char *text; /* the error begins so */
} bad[] = {
    /* the program */
    {"", "", DDP_E_USAGE,
     "no program is given: its name comes after the options"},
    {"", "''", DDP_E_USAGE, "no program"},
    {"", "--nnodes=1", DDP_E_USAGE, "no program"},
    {"", "nowhere", DDP_E_NOTFOUND, "nowhere: not found in PATH"},
    {"PATH=bin", "here", DDP_E_NOTFOUND,
     "here: not found in PATH; did you mean ./here?"},
    {"PATH=bin", "data", DDP_E_NOTFOUND,
     "data: not found in PATH; did you mean ./data, or --run_path?"},
    {"PATH=bin", "mod", DDP_E_NOTFOUND,
     "mod: not found in PATH; did you mean ./mod, or --run_path?"},
    {"", "./mod", DDP_E_NOTEXEC,
     "./mod: this is a folder with a __main__.py: to run it with Python add "
     "--run_path"},
    {"", "./nowhere", DDP_E_NOTFOUND, "./nowhere: No such file or directory"},
    {"", "data/x", DDP_E_NOTFOUND, "data/x: Not a directory"},
    {"PATH=bin", "notexec", DDP_E_NOTEXEC, "bin/notexec: not executable"},
    {"", "./data", DDP_E_NOTEXEC,
     "./data: not executable; run chmod +x on it, put its interpreter before "
     "it, or add --run_path if Python is to run it"},
    {"", "./bin", DDP_E_NOTEXEC, "./bin: this is a folder, not a program"},
    {"", "gone.py", DDP_E_NOTFOUND, "gone.py: No such file or directory"},
    {"PATH=none", "train.py", DDP_E_NOTFOUND,
     "cannot find a Python interpreter: python3: not found in PATH"},
    {"PYTHON_EXEC=data/", "train.py", DDP_E_NOTFOUND, "PYTHON_EXEC: data/: "},
    {"PYTHON_EXEC=./data", "train.py", DDP_E_NOTEXEC,
     "PYTHON_EXEC: ./data: not executable"},
    {"", "--no_python -m prog", DDP_E_USAGE,
     "--module cannot be used with --no_python"},
    {"", "--no_python ./train.py", DDP_E_NOTEXEC, "./train.py: not executable"},
    /* nodes and workers */
    {"", "--nnodes=0 prog", DDP_E_USAGE,
     "--nnodes=0: must be N or MIN:MAX, whole numbers from 1 to 100000"},
    {"", "--nnodes=100001 prog", DDP_E_USAGE, "--nnodes=100001: must be N or"},
    {"", "--nnodes=two prog", DDP_E_USAGE, "--nnodes=two: must be N or MIN"},
    {"", "--nnodes=1:2:3 prog", DDP_E_USAGE, "--nnodes=1:2:3: must be N or"},
    {"", "--nnodes=:2 prog", DDP_E_USAGE, "--nnodes=:2: must be N or MIN:MAX"},
    {"", "--nnodes=2: prog", DDP_E_USAGE, "--nnodes=2:: must be N or MIN:MAX"},
    {"", "--nnodes=0000000000000000001:2 prog", DDP_E_USAGE,
     "--nnodes=0000000000000000001:2: must be N or MIN:MAX"},
    {"", "--nnodes=3:2 prog", DDP_E_USAGE,
     "--nnodes=3:2: MIN must not be more than MAX"},
    {"PET_NNODES=x", "prog", DDP_E_USAGE, "PET_NNODES=x: must be N or MIN:MAX"},
    {"", "--nproc=0 prog", DDP_E_USAGE,
     "--nproc_per_node=0: must be a whole number from 1 to 4096, cpu, gpu, "
     "gpu-or-1 or auto"},
    {"", "--nproc=xpu prog", DDP_E_USAGE, "--nproc_per_node=xpu: must be"},
    {"CUDA_VISIBLE_DEVICES=", "--nproc=gpu prog", DDP_E_CONFIG,
     "--nproc_per_node=gpu: this machine has no GPU of NVIDIA's or AMD's "},
    {"", "--node_rank=-1 prog", DDP_E_USAGE,
     "--node_rank=-1: must be a whole number from 0 to 99999"},
    {"", "--node_rank=1 prog", DDP_E_USAGE,
     "--node_rank=1: must be below the number of nodes, 1"},
    {"", "--nnodes=2 --node_rank=2 --master_addr=h prog", DDP_E_USAGE,
     "--node_rank=2: must be below the number of nodes, 2"},
    {"", "--rdzv_id=a/b prog", DDP_E_USAGE,
     "--rdzv_id=a/b: must have only printable characters, and no /"},
    {"", "--role=a\x07 prog", DDP_E_USAGE,
     "--role=a\x07: must have only printable characters"},
    {"",
     "--role=0123456789012345678901234567890123456789012345678901234567890"
     "1234 prog",
     DDP_E_USAGE,
     "--role=01234567890123456789012345678901234567890123456789012345678901234:"
     " must be at most 64 bytes long"},
    {"", "--local_addr=a:b prog", DDP_E_USAGE,
     "--local_addr=a:b: 'a:b' is not a host name"},
    {"", "--local_addr=" LONG_NAME " prog", DDP_E_USAGE,
     "--local_addr=" LONG_NAME ": other nodes can be told 64 bytes of a name"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7," LONG_NAME ":7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7," LONG_NAME ":7: nodes tell each other 64 bytes"},
    {"", "--local_addr=[::1]:5 prog", DDP_E_USAGE,
     "--local_addr=[::1]:5: must be an address without a port"},
    /* where to meet */
    {"", "--nnodes=2 prog", DDP_E_USAGE,
     "--nnodes=2: several nodes need an endpoint: add "
     "--rdzv_endpoint=HOST:PORT"},
    {"", "--nnodes=1:2 --rdzv_backend=c10d prog", DDP_E_USAGE,
     "--nnodes=1:2: several nodes need an endpoint"},
    {"", "--nnodes=2 --node_rank=0 --master_port=1 prog", DDP_E_USAGE,
     "--nnodes=2: several nodes need an endpoint"},
    {"PET_MASTER_ADDR=", "--nnodes=2 --node_rank=0 prog", DDP_E_USAGE,
     "--nnodes=2: several nodes need an endpoint"},
    {"", "--standalone --nnodes=2 prog", DDP_E_USAGE,
     "--standalone is for one node, but --nnodes asks for 2"},
    {"", "--nnodes=2 --rdzv_endpoint=h:0 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:0: port 0 (a free port) is for one node"},
    {"", "--rdzv_endpoint=h:x prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:x: the port 'x' must be a number from 0 to 65535"},
    {"", "--rdzv_endpoint=h: prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:: the port '' must be a number from 0 to 65535"},
    {"", "--rdzv_endpoint=h:65536 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:65536: the port '65536' must be a number from 0 to "
     "65535"},
    {"PET_RDZV_ENDPOINT=h:-1", "prog", DDP_E_USAGE,
     "PET_RDZV_ENDPOINT=h:-1: the port '-1' must be a number from 0 to 65535"},
    {"", "--rdzv_endpoint=http://h:1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=http://h:1: 'http://h' is not a host name"},
    {"", "--rdzv_endpoint=h/x:1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h/x:1: 'h/x' is not a host name"},
    {"", "--rdzv_endpoint=::1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=::1: an IPv6 address must be in brackets: [::1]:PORT"},
    {"", "--nnodes=2 --rdzv_endpoint=::1:29500 prog", DDP_E_USAGE,
     "--rdzv_endpoint=::1:29500: an IPv6 address must be in brackets: "
     "[::1]:29500"},
    {"", "--rdzv_endpoint=fd00::1:29400 prog", DDP_E_USAGE,
     "--rdzv_endpoint=fd00::1:29400: an IPv6 address must be in brackets: "
     "[fd00::1]:29400"},
    {"", "--rdzv_endpoint=fd00::1:2940 prog", DDP_E_USAGE,
     "--rdzv_endpoint=fd00::1:2940: an IPv6 address must be in brackets: "
     "[fd00::1]:2940, or [fd00::1:2940]:PORT"},
    {"", "--rdzv_endpoint=fe80::1%eth0:29400 prog", DDP_E_USAGE,
     "--rdzv_endpoint=fe80::1%eth0:29400: an IPv6 address must be in "
     "brackets: [fe80::1%eth0]:29400"},
    {"", "--nnodes=2 --rdzv_endpoint=::29500 prog", DDP_E_USAGE,
     "--rdzv_endpoint=::29500: ':' is not a host name"},
    {"", "--nnodes=2 --rdzv_endpoint=0.0.0.0:29500 prog", DDP_E_USAGE,
     "--rdzv_endpoint=0.0.0.0:29500: no node can connect to 0.0.0.0: a server "
     "that listens there listens on all of its addresses"},
    {"PET_RDZV_ENDPOINT=[::]:7", "prog", DDP_E_USAGE,
     "PET_RDZV_ENDPOINT=[::]:7: no node can connect to ::: a server"},
    {"", "--rdzv_endpoint=[::ffff:0.0.0.0]:7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=[::ffff:0.0.0.0]:7: no node can connect to"},
    {"", "--nnodes=2 --node_rank=1 --master_addr=0 prog", DDP_E_USAGE,
     "--master_addr=0: no node can connect to 0: a server"},
    {"", "--local_addr=0.0.0.0 prog", DDP_E_USAGE,
     "--local_addr=0.0.0.0: no other node can connect to this address"},
    {"", "--rdzv_endpoint=[::1 prog", DDP_E_USAGE,
     "--rdzv_endpoint=[::1: must be [ADDRESS] or [ADDRESS]:PORT"},
    {"", "--rdzv_endpoint=[::1]5 prog", DDP_E_USAGE,
     "--rdzv_endpoint=[::1]5: must be [ADDRESS] or [ADDRESS]:PORT"},
    {"", "--rdzv_endpoint=[h]:5 prog", DDP_E_USAGE,
     "--rdzv_endpoint=[h]:5: 'h' is not an IPv6 address"},
    {"", "--rdzv_backend=etcd-v2 prog", DDP_E_USAGE,
     "--rdzv_backend=etcd-v2: must be c10d or static; ddprun needs no etcd"},
    {"", "--rdzv_backend=mpi prog", DDP_E_USAGE,
     "--rdzv_backend=mpi: must be c10d or static"},
    {"", "--master_port=x prog", DDP_E_USAGE,
     "--master_port=x: must be a whole number from 0 to 65535"},
    {"", "--nnodes=2 --master_addr=h:1 prog", DDP_E_USAGE,
     "--master_addr=h:1: 'h:1' is not a host name"},
    /* --rdzv_conf */
    {"", "--rdzv_conf='join_timeout' prog", DDP_E_USAGE,
     "--rdzv_conf: 'join_timeout' is not KEY=VALUE"},
    {"", "--rdzv_conf=join_timeout prog", DDP_E_USAGE,
     "--rdzv_conf: 'join_timeout' is not KEY=VALUE"},
    {"", "--rdzv_conf=join_timeout=1, prog", DDP_E_USAGE,
     "--rdzv_conf: '' is not KEY=VALUE"},
    {"PET_RDZV_CONF=join_timeout=0", "prog", DDP_E_USAGE,
     "PET_RDZV_CONF: join_timeout=0: must be a number of seconds from 0.001 to "
     "31536000"},
    {"", "--rdzv_conf=heartbeat_timeout=0.29 prog", DDP_E_USAGE,
     "--rdzv_conf: heartbeat_timeout=0.29: must be a number of seconds from "
     "0.3 to"},
    {"", "--rdzv_conf=read_timeout=-1 prog", DDP_E_USAGE,
     "--rdzv_conf: read_timeout=-1: must be a number of seconds from"},
    {"", "--rdzv_conf=is_host=maybe prog", DDP_E_USAGE,
     "--rdzv_conf: is_host=maybe: must be 0 or 1"},
    {"", "--rdzv_conf=is_host=0 prog", DDP_E_USAGE,
     "--rdzv_conf: is_host=0: no other node can serve"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7,g:7 --rdzv_conf=is_host=1 prog",
     DDP_E_USAGE, "--rdzv_conf: is_host=1 cannot be used with a list of"},
    /* a list of endpoints */
    {"", "--nnodes=2 --rdzv_endpoint=h:7, prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7,: an address is missing beside a comma"},
    {"", "--nnodes=2 --rdzv_endpoint=,h:7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=,h:7: an address is missing beside a comma"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7,:8 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7,:8: the host before the colon is missing"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7,g:x prog", DDP_E_USAGE,
     "--rdzv_endpoint=g:x: the port 'x' must be a number from 0 to 65535"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7,H:7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7,H:7: an address is in the list twice"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7,localhost:7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7,localhost:7: localhost and other hosts cannot be in"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7,g:0 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7,g:0: each address of a list needs a port"},
    {"", "--nnodes=2 --rdzv_endpoint=h:0,g:7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:0,g:7: each address of a list needs a port"},
    {"", "--nnodes=2 --rdzv_endpoint=h:7,0.0.0.0:7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7,0.0.0.0:7: no node can connect to 0.0.0.0"},
    {"", "--nnodes=2 --node_rank=0 --rdzv_endpoint=h:7,g:7 prog", DDP_E_USAGE,
     "--rdzv_endpoint=h:7,g:7: a list is for c10d"},
    {"",
     "--nnodes=2 --rdzv_endpoint=a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1,j:1,k:1,"
     "l:1,m:1,n:1,o:1,p:1,q:1 prog",
     DDP_E_USAGE,
     "--rdzv_endpoint=a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1,j:1,k:1,l:1,m:1,n:1,"
     "o:1,p:1,q:1: a list has at most 16 addresses"},
    {"", "--rdzv_conf=store_type=file prog", DDP_E_USAGE,
     "--rdzv_conf: store_type=file: must be tcp"},
    {"",
     "--nnodes=2 --rdzv_conf=store_type=file --rdzv_endpoint=/shared/x prog",
     DDP_E_USAGE,
     "--rdzv_conf: store_type=file: must be tcp; the nodes meet at "
     "--rdzv_endpoint=HOST:PORT"},
    /* the rest */
    {"", "--max_restarts=-1 prog", DDP_E_USAGE,
     "--max_restarts=-1: must be a whole number from 0 to 1000000, or N/WIND"},
    {"", "--max_restarts=1000001 prog", DDP_E_USAGE,
     "--max_restarts=1000001: must be a whole number"},
    {"", "--max_restarts=65/1h prog", DDP_E_USAGE,
     "--max_restarts=65/1h: must be a whole number"},
    {"", "--max_restarts=3/ prog", DDP_E_USAGE, "--max_restarts=3/: must be"},
    {"", "--max_restarts=3/h prog", DDP_E_USAGE, "--max_restarts=3/h: must"},
    {"", "--max_restarts=3/0s prog", DDP_E_USAGE, "--max_restarts=3/0s: must"},
    {"", "--max_restarts=3/1y prog", DDP_E_USAGE, "--max_restarts=3/1y: must"},
    {"", "--max_restarts=3/366d prog", DDP_E_USAGE, "--max_restarts=3/366d:"},
    {"", "--max_restarts=/1h prog", DDP_E_USAGE, "--max_restarts=/1h: must"},
    {"", "--node_strikes=-1 prog", DDP_E_USAGE, "--node_strikes=-1: must be"},
    {"", "--node_strikes=3/ prog", DDP_E_USAGE, "--node_strikes=3/: must be"},
    {"", "--node_strikes=/1h prog", DDP_E_USAGE, "--node_strikes=/1h: must"},
    {"", "--node_strikes=3/x prog", DDP_E_USAGE, "--node_strikes=3/x: must"},
    {"", "--crash_loop=-1 prog", DDP_E_USAGE, "--crash_loop=-1: must be"},
    {"", "--snapshot_memory= prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=91% prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=1.5G prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=-1 prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=2000T prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--snapshot_memory=4X prog", DDP_E_USAGE, "--snapshot_memory="},
    {"", "--mpi=pmi2 prog", DDP_E_USAGE,
     "--mpi=pmi2: must be none, pmi1, pmix or auto"},
    {"", "--mpi=pmi1 --worker_store=none --nnodes=2 --rdzv_endpoint=a prog",
     DDP_E_USAGE, "--mpi=pmi1: needs the workers' store on several nodes"},
    {"", "--standby= prog", DDP_E_USAGE, "--standby=: must be auto, none or"},
    {"", "--standby=a, prog", DDP_E_USAGE, "--standby=a,: must be auto, none"},
    {"", "--standby=.a prog", DDP_E_USAGE, "--standby=.a: must be auto, none"},
    {"", "--standby=a.1 prog", DDP_E_USAGE, "--standby=a.1: must be auto, no"},
    {"", "--standby=a-b prog", DDP_E_USAGE, "--standby=a-b: must be auto"},
    {"", "--scale_interval=x prog", DDP_E_USAGE, "--scale_interval=x: must"},
    {"", "--nnodes=1:2 --rdzv_endpoint=:29500 prog", DDP_E_USAGE,
     "--rdzv_endpoint=:29500: the host before the colon is missing"},
    {"PET_RDZV_ENDPOINT=: PET_NNODES=2", "prog", DDP_E_USAGE,
     "PET_RDZV_ENDPOINT=:: the host before the colon is missing"},
    {"", "--nnodes=2 --node_rank=0 --master_addr=h --master_port=0 prog",
     DDP_E_USAGE, "--master_port=0: port 0 (a free port) is for one node"},
    {"", "--health_check=x@86401 prog", DDP_E_USAGE,
     "--health_check=x@86401: the seconds behind @ must be a number from 1 "
     "to 86400"},
    {"", "--drain_check=@5 prog", DDP_E_USAGE,
     "--drain_check=@5: there is no command before @"},
    {"", "--health_timeout=5 prog", DDP_E_USAGE,
     "option --health_timeout is gone: write it behind the check"},
    {"PET_GPU_HEALTH_CHECK=1", "prog", DDP_E_USAGE,
     "PET_GPU_HEALTH_CHECK is set, but option --gpu_health_check is gone"},
    {"", "--drain_interval=5 prog", DDP_E_USAGE,
     "option --drain_interval is gone: write it behind the check"},
    {"", "--beat_timeout=5 prog", DDP_E_USAGE,
     "option --beat_timeout is gone: write it behind the other time"},
    {"PET_BEAT_TIMEOUT=5", "prog", DDP_E_USAGE,
     "PET_BEAT_TIMEOUT is set, but option --beat_timeout is gone"},
    {"", "--hang_timeout=soon prog", DDP_E_USAGE,
     "--hang_timeout=soon: must be tell, auto, a number of seconds"},
    {"", "--hang_timeout=1,2,3 prog", DDP_E_USAGE,
     "--hang_timeout=1,2,3: must be tell, auto"},
    {"", "--hang_timeout=86401 prog", DDP_E_USAGE,
     "--hang_timeout=86401: must be tell, auto"},
    {"", "--hang_cpu_counts prog", DDP_E_USAGE,
     "option --hang_cpu_counts is gone: a program that computes in silence"},
    {"", "--launch_fanout=4 prog", DDP_E_USAGE,
     "option --launch_fanout is gone: leave it out"},
    {"", "--rdzv_conf=heartbeat_timeout=3601 prog", DDP_E_USAGE,
     "--rdzv_conf: heartbeat_timeout=3601: must be a number of seconds from "
     "0.3 to 3600"},
    {"", "--rdzv_conf=keep_alive_max_attempt=0 prog", DDP_E_USAGE,
     "--rdzv_conf: keep_alive_max_attempt=0: must be a whole number"},
    {"", "--monitor_interval=0 prog", DDP_E_USAGE,
     "--monitor_interval=0: must be a number of seconds from 0.001 to 86400"},
    {"", "--shutdown_timeout=x prog", DDP_E_USAGE,
     "--shutdown_timeout=x: must be a number of seconds from 0 to 86400"},
    {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x", "prog", DDP_E_USAGE,
     "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x: must be a number of seconds from 0 to "
     "86400"},
    {"", "--worker_store=both prog", DDP_E_USAGE,
     "--worker_store=both: must be agent or none"},
    {"", "--stdout=inherited prog", DDP_E_USAGE,
     "--stdout=inherited: must be lines or inherit"},
    {"PET_STDOUT=3", "prog", DDP_E_USAGE,
     "PET_STDOUT=3: must be lines or inherit"},
    {"", "--start_method=thread prog", DDP_E_USAGE,
     "--start_method=thread: must be spawn, fork or forkserver"},
    {"", "--log_dir=data prog", DDP_E_USAGE,
     "--log_dir=data: must be a folder, and this is a file"},
    {"", "--numa-binding=near prog", DDP_E_USAGE,
     "--numa_binding=near: must be node, socket, exclusive or core-complex"},
    {"", "--gpus=a prog", DDP_E_USAGE,
     "--gpus=a: must be a list of numbers, ranges and UUIDs"},
    {"", "--gpus=1,,2 prog", DDP_E_USAGE, "--gpus=1,,2: must be a list"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--gpus=0-1,1 prog", DDP_E_USAGE,
     "--gpus=0-1,1: must not name a GPU twice"},
    {"", "--gpus=3-1 prog", DDP_E_USAGE, "--gpus=3-1: must be a list"},
    {"", "--gpus=-1 prog", DDP_E_USAGE, "--gpus=-1: must be a list"},
    {"PET_GPUS=9999", "prog", DDP_E_USAGE, "PET_GPUS=9999: must be a list"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--gpus=0-2 prog", DDP_E_USAGE,
     "--gpus=0-2: there is no GPU 2 in CUDA_VISIBLE_DEVICES=4,5"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--nproc=3 --virtual-local-rank prog",
     DDP_E_USAGE,
     "--virtual_local_rank: there is no GPU for local rank 2 in "
     "CUDA_VISIBLE_DEVICES=4,5"},
    {"CUDA_VISIBLE_DEVICES=4,5", "--nproc=2 --gpus=1 --virtual prog",
     DDP_E_USAGE,
     "--virtual_local_rank: there is no GPU for local rank 1 in --gpus=5"},
    {"", "--signals_to_handle=SIGKILL,FOO prog", DDP_E_USAGE,
     "--signals_to_handle=SIGKILL,FOO: must be a list of signals that can be"},
    {"", "--signals-to-handle= prog", DDP_E_USAGE,
     "--signals_to_handle=: must be a list of signals"},
    {"", "--notice_signal=SIGKILL prog", DDP_E_USAGE,
     "--notice_signal=SIGKILL: must be none, or a signal that can be handled"},
    {"", "--notice_signal=TERM prog", DDP_E_USAGE,
     "--notice_signal=TERM: must be none, or a signal that can be handled and"},
    {"", "--notice_signal=USR1,USR2 prog", DDP_E_USAGE,
     "--notice_signal=USR1,USR2: must be none, or a signal"},
    {"PET_NOTICE_SIGNAL=USR1,FOO", "prog", DDP_E_USAGE,
     "PET_NOTICE_SIGNAL=USR1,FOO: must be none, or a signal"},
    {"", "--requeue prog", DDP_E_USAGE,
     "--requeue: this is no Slurm job, SLURM_JOB_ID is not set"},
    {"PET_REQUEUE=1 SLURM_JOB_ID=", "prog", DDP_E_USAGE,
     "--requeue: this is no Slurm job"},
    {"SLURM_JOB_ID=17", "--cluster=none --requeue --hosts=a prog", DDP_E_USAGE,
     "--requeue cannot be used with a list of hosts"},
    {"", "--tee=4 prog", DDP_E_USAGE, "--tee=4: must be 0 (none), 1 (stdout"},
    {"", "-r x prog", DDP_E_USAGE, "--redirects=x: must be 0 (none)"},
    {"", "-r 0:3, prog", DDP_E_USAGE, "--redirects=0:3,: must be 0"},
    {"", "-r 0:4 prog", DDP_E_USAGE, "--redirects=0:4: must be 0"},
    {"PET_TEE=0=1", "prog", DDP_E_USAGE, "PET_TEE=0=1: must be 0"},
    {"", "--local_ranks_filter=0,x prog", DDP_E_USAGE,
     "--local_ranks_filter=0,x: must be a list of local ranks"},
    {"", "--log_rotate=10 prog", DDP_E_USAGE, "--log_rotate=10: must be SIZE"},
    {"", "--log_rotate=1M,0 prog", DDP_E_USAGE, "--log_rotate=1M,0: must be"},
    {"", "--log_rotate=1X prog", DDP_E_USAGE, "--log_rotate=1X: must be"},
    {"", "--log_rotate=9999999T prog", DDP_E_USAGE, "--log_rotate=9999999T:"},
    {"", "--help=1 prog", DDP_E_USAGE, "--help=1: --help takes no value"},
    {"", "--version=x", DDP_E_USAGE, "--version=x: --version takes no value"},
    {"", "--he= prog", DDP_E_USAGE, "--help=: --help takes no value"},
    {"", "-h=1 prog", DDP_E_USAGE, "-h=1: -h takes no value"},
    {"", "--rdzv prog", DDP_E_USAGE,
     "--rdzv is ambiguous: it could be --rdzv_endpoint, --rdzv_backend, "
     "--rdzv_id, "
     "--rdzv_conf"},
    {"", "--nnode_rank=1 prog", DDP_E_USAGE,
     "unknown option --nnode_rank; did you mean --node_rank?"},
    {"", "--join_timeout=3 prog", DDP_E_USAGE,
     "unknown option --join_timeout; write --rdzv_conf=join_timeout=VALUE"},
};

/* Each wrong value is named with what is allowed, and has its status. */
TEST_EACH(test_conf_wrong_value_is_told, bad)
{
    struct conf c;
    struct ddp_err err = {.text = ""};
    ck_assert_int_eq(conf_line_conf(&c, bad[_i].env, bad[_i].line, &err), -1);
    ck_assert_msg(strncmp(err.text, bad[_i].text, strlen(bad[_i].text)) == 0,
                  "%s: got \"%s\", want \"%s\"", bad[_i].line, err.text,
                  bad[_i].text);
    ck_assert_int_eq(err.code, bad[_i].code);
}

/*
 * Every option of the table refuses what it cannot be: a number that is none,
 * a flag's variable that is no number, and for the others a value from here. A
 * new SPEC needs one. STR takes any text, but for the few that are here too.
 */
static const struct {
    int id;
    const char *value;
} nonsense[] = {
    {OPTIONS_nnodes, "none"},
    {OPTIONS_nproc_per_node, "tpu"},
    {OPTIONS_gpus, "all"},
    {OPTIONS_numa_binding, "near"},
    {OPTIONS_role, "a\tb"},
    {OPTIONS_local_addr, "a/b"},
    {OPTIONS_rdzv_endpoint, "host:port"},
    {OPTIONS_rdzv_backend, "mpi"},
    {OPTIONS_rdzv_id, "a/b"},
    {OPTIONS_rdzv_conf, "timeout"},
    {OPTIONS_rdzv_token_file, ""},
    {OPTIONS_worker_store, "redis"},
    {OPTIONS_stdout, "none"},
    {OPTIONS_max_restarts, "many"},
    {OPTIONS_signals_to_handle, "SIGKILL"},
    {OPTIONS_notice_signal, "SIGKILL"},
    {OPTIONS_log_dir, "data"},
    {OPTIONS_redirects, "4"},
    {OPTIONS_tee, "x"},
    {OPTIONS_local_ranks_filter, "0,x"},
    {OPTIONS_log_rotate, "1X"},
    {OPTIONS_duplicate_stdout_filters, NULL}, /* any text is one */
    {OPTIONS_duplicate_stderr_filters, NULL},
    {OPTIONS_cgroup, "old"},
    {OPTIONS_standby, "a..b"},
    {OPTIONS_mpi, "pmi2"},
    {OPTIONS_start_method, "thread"},
    {OPTIONS_hosts, "a:x"},
    {OPTIONS_launch_with, NULL}, /* with a list of hosts only: */
    {OPTIONS_export, NULL},      /* check_front_command */
};

static const char *nonsense_for(int id)
{
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
        if (nonsense[i].id == id)
            return nonsense[i].value;
    switch (options_table.rows[id].kind) {
    case OPTS_INT:
    case OPTS_SECONDS:
        return "1x";
    case OPTS_FLAG:
        return "yes";
    case OPTS_SPEC:
        /* Answered by main: tests/e2e/terminal/do-shells-complete-options. */
        return id == OPTIONS_print_completion ? NULL : "";
    case OPTS_STR:
    case OPTS_LATER:
        return NULL;
    }
    return NULL;
}

TEST_LOOP(test_conf_every_option_refuses_nonsense, 0, OPTIONS_COUNT)
{
    const struct opts_row *row = &options_table.rows[_i];
    const char *value = nonsense_for(_i);
    char line[256];
    struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    if (value == NULL)
        return;
    (void)snprintf(line, sizeof(line), "--%s=%s", row->name, value);
    char word[256], prog[] = "prog", ddprun[] = "ddprun";
    memcpy(word, line, sizeof(word));
    char *argv[] = {ddprun, word, prog, NULL};
    conf_line_env("");
    ck_assert_msg(opts_parse(&o, &options_table, 3, argv, &err) != 0 ||
                      conf_init(&c, &o, argv + o.rest, &err) != 0,
                  "%s is taken", line);
    ck_assert_int_eq(err.code, DDP_E_USAGE);
    ck_assert_msg(strstr(err.text, row->name) != NULL &&
                      (strstr(err.text, "must ") != NULL ||
                       strstr(err.text, "is not a host name") != NULL ||
                       strstr(err.text, "takes no value") != NULL),
                  "%s: %s", line, err.text);
    if (row->env == NULL || value[0] == '\0')
        return;
    /* The same by the environment, under the name of the variable. */
    char name[64];
    size_t len = strcspn(row->env, " ");
    ck_assert_uint_lt(len, sizeof(name));
    memcpy(name, row->env, len);
    name[len] = '\0';
    ck_assert_int_eq(setenv(name, value, 1), 0);
    char *bare[] = {ddprun, prog, NULL};
    ck_assert_msg(opts_parse(&o, &options_table, 2, bare, &err) != 0 ||
                      conf_init(&c, &o, bare + o.rest, &err) != 0,
                  "%s=%s is taken", name, value);
    ck_assert_msg(strstr(err.text, name) != NULL, "%s", err.text);
}

/* What is too long for its place is refused. */
TEST(test_conf_long_values_are_refused)
{
    static const char *const names[] = {
        "--rdzv_id=", "--rdzv_endpoint=", "--local_addr=",
        "--log_dir=", "--rdzv_conf=",     "./"};
    static char word[9000];
    char prog[] = "prog", ddprun[] = "ddprun";
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        memset(word, 'x', sizeof(word) - 1);
        memcpy(word, names[i], strlen(names[i]));
        char *argv[] = {ddprun, word, prog, NULL};
        struct opts o;
        struct conf c;
        struct ddp_err err = {.text = ""};
        ck_assert_int_eq(opts_parse(&o, &options_table, 3, argv, &err), 0);
        ck_assert_int_eq(conf_init(&c, &o, argv + o.rest, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.text, "long"));
    }
}

SUITE("conf_wrong",
      "conf_wrong",
      .tags = "fast",
      FIXTURE_ONCE(conf_line_setup, scratch_leave))
