# Tests and what they are made of. Included by the Makefile, whose lists, flags
# and functions it uses.
#
# The first lines of a test program say what it links, nothing else is linked:
#     /* links: rendezvous/base/{err,log} rendezvous/proto/frame */
#     /* libs: -lcjson */
# What a helper in tests/ says so of itself is linked with it. Of what is never
# linked in part the list above is named: CORE, SERVER, CONN, TLS ...

# The folders of tests/unit are the product's; the programs are all in one.
UNIT_FILES := $(wildcard $(addsuffix check_*.c,tests/unit/ tests/unit/*/ tests/unit/*/*/))
UNIT := $(sort $(basename $(notdir $(UNIT_FILES))))
UNIT := $(filter-out $(if $(NCCL_H),,check_comm_nccl check_comm_nccl_calls \
	check_label) $(if $(HAVE_CXX),,check_ops_cuda),$(UNIT))
SIM_FILES := $(wildcard tests/sim/check_*.c)
SIM  := $(basename $(notdir $(SIM_FILES)))
ALL_TESTS := $(addprefix $(B)/tests/unit/,$(UNIT)) \
	$(addprefix $(B)/tests/sim/,$(SIM))
named = $(shell sed -n -f tests/lib/links.sed $(1))
# AGENT: all of ddprun but its main.
AGENT := $(filter-out launcher/main,$(ddprun_OBJS))
LISTS := CORE ACCOUNT SERVER CONN TLS STORE NET PROTO BASE CLIENT OPTS CLUSTER AGENT RT
whole = $(filter-out $(LISTS),$(1)) \
	$(foreach list,$(filter $(LISTS),$(1)),$($(list)))
links = $(sort $(call whole,$(call named,$(1)) $(foreach helper, \
	$(filter tests/%,$(call named,$(1))),$(call named,$(helper).c))))
libs  = $(shell sed -n 's,^/\* libs: \(.*\) \*/$$,\1,p' $(1))
# A test with a bad disk gets all of its calls wrapped.
BAD_DISK := $(shell sed -n 's/^NOBODY./x__wrap_/; s/^[a-z].*__wrap_//; T; \
	s/[^a-z0-9_].*//p' tests/lib/bad_disk.c)
wraps = $(if $(filter tests/lib/bad_disk,$(call links,$(1))),$(addprefix \
	-Wl$(comma)--wrap=,$(BAD_DISK)))

# unit/NAME or sim/NAME: its file.
test = $(or $(filter tests/$(1).c,$(SIM_FILES)),\
	$(filter %/$(notdir $(1)).c,$(UNIT_FILES)))
$(ALL_TESTS): $(B)/tests/%: $$(call obj,$$(basename $$(call test,$$*)) \
		$$(call links,$$(call test,$$*)))
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call libs,$(call test,$*)) \
		$(call wraps,$(call test,$*)) -lcheck -lsubunit -lrt -lm

# What stands in for a library: NVIDIA's where there is no GPU, libpmix, libhwloc.
FAKE_NVML := $(B)/tests/lib/libnvidia-ml.so.1
FAKE_PMIX := $(B)/tests/lib/libpmix.so.2
FAKE_HWLOC := $(B)/tests/lib/libhwloc.so.15
$(FAKE_NVML): $(call obj,tests/lib/fake_nvml)
$(FAKE_PMIX): $(call obj,tests/lib/fake_pmix)
$(FAKE_HWLOC): $(call obj,tests/lib/fake_hwloc)
$(FAKE_NVML) $(FAKE_PMIX) $(FAKE_HWLOC):
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) -shared -pthread $(LDSAN) -Wl,-soname,$(@F) -o $@ $^
$(addprefix $(B)/tests/unit/,check_gpus check_gpu_health check_conf_workers): | \
	$(FAKE_NVML)
$(B)/tests/unit/check_pmix: | $(FAKE_PMIX)
$(addprefix $(B)/tests/unit/,check_hwloc_xml check_mpi): | $(FAKE_HWLOC)

# Plain programs: what runs a program as under an older kernel; what prints what a
# list of nodes has, to compare with Slurm's own answer; the worker of tests/chaos.
OLD_KERNEL_TOOL := $(B)/tests/lib/old_kernel
HOSTLIST := $(B)/tests/lib/hostlist
BEATS := $(B)/tests/chaos/beats
$(OLD_KERNEL_TOOL): $(call obj,tests/lib/old_kernel)
$(HOSTLIST): $(call obj,tests/lib/hostlist launcher/cluster/hostlist \
		rendezvous/base/err)
$(BEATS): $(call obj,tests/chaos/beats)
$(OLD_KERNEL_TOOL) $(HOSTLIST) $(BEATS):
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) -o $@ $^

# Programs on libddp, which say in their heads what they do: workers of scenarios.
DDP_WORKERS := $(addprefix $(B)/tests/lib/,aborted away trains sharded sleepers \
	resubmitted)
$(DDP_WORKERS): $(B)/%: $(B)/obj/%.o $(B)/libddp.a
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) -pthread -o $@ $^ -lcjson -lxxhash -lm -ldl

# Calls that a sanitizer makes before it has begun come here as well.
$(B)/obj/tests/lib/fault.o: CFLAGS += -fno-sanitize=all

# Preloaded into a launcher, it makes system calls fail.
FAULT_LIB := $(B)/tests/lib/libfault.so
$(FAULT_LIB): $(call obj,tests/lib/fault tests/lib/fault_preload)
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) -shared $(LDSAN) -Wl,-soname,$(@F) -o $@ $^ -ldl

# In place of the driver and NCCL. A test that has this folder in its run path
# loads them.
FAKE_CUDA := $(B)/tests/lib/libcuda.so.1
FAKE_NCCL := $(B)/tests/lib/libnccl.so.2
$(FAKE_CUDA): $(call obj,tests/lib/fake_cuda)
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) -shared -pthread $(LDSAN) -Wl,-soname,$(@F) -o $@ $^
$(B)/obj/tests/lib/fake_nccl.o: CPPFLAGS += $(NCCL_CPPFLAGS)
$(FAKE_NCCL): $(call obj,tests/lib/fake_nccl worker_rt/comm/reduce \
		rendezvous/base/err) $(FAKE_CUDA)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) -shared $(LDSAN) -Wl,-soname,$(@F),-rpath,'$$ORIGIN' -o $@ $^
$(addprefix $(B)/tests/unit/,check_comm_nccl check_comm_nccl_calls check_label): | \
	$(FAKE_CUDA) $(FAKE_NCCL)
$(addprefix $(B)/tests/unit/,check_keeper_cuda check_keeper_same): | \
	$(FAKE_CUDA)
$(B)/tests/unit/check_abi: | $(B)/libddp.so

# The kernels for tests on machines without a GPU: see tests/gpu/emulate.h.
$(B)/obj/%.emulated.o: %.cu tests/gpu/emulate.h $(B)/flags
	@mkdir -p $(@D)
	@$(if $(V),,echo '  CXX   $< (emulated)')
	$(Q)$(CXX) -I. -D_GNU_SOURCE -O2 -g -std=c++17 -fPIC -fno-exceptions \
		-fno-threadsafe-statics -Wall -Wextra $(if $(DEV),-Werror) \
		-include tests/gpu/emulate.h -MMD -MP -x c++ -c -o $@ $<

# ddptrain on emulated kernels, that driver and that NCCL.
EMULATED := $(if $(NCCL_H),$(if $(HAVE_CXX),$(B)/tests/lib/ddptrain-emulated))
$(B)/tests/lib/ddptrain-emulated: $(call obj,$(filter-out trainer/ops/cuda_none, \
		$(TRAINER)) $(addsuffix .emulated,$(CUDA_HALF))) $(B)/libddp.a \
		$(FAKE_CUDA) | $(FAKE_NCCL)
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN' -o $@ $^ \
		-lcjson -lxxhash -lz -lm -ldl

# Programs for a machine with a GPU; elsewhere they say that they are skipped.
# Those that measure need no toolkit, and run on the stand-ins, too.
GPU_BENCH := $(addprefix $(B)/tests/gpu/,card bench_snapshot bench_restart \
	$(if $(NCCL_H),bench_allreduce))
GPU_TESTS := $(GPU_BENCH) $(if $(NVCC),$(B)/tests/gpu/check_ops_cuda)
$(B)/tests/gpu/check_ops_cuda: $(call obj,tests/unit/trainer/ops/check_ops_cuda \
		trainer/model $(call of,trainer/ops,optim device cpu conv random)) \
		$(addprefix $(B)/obj/,$(addsuffix .cu.o,$(CUDA_HALF)))
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(CUDA_LIBS) -ldl -lcheck -lsubunit -lrt -lm
$(GPU_BENCH): $(B)/%: $(B)/obj/%.o $(B)/libddp.a
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcjson -lxxhash -ldl -lm
$(B)/obj/tests/gpu/bench_allreduce.o: CPPFLAGS += $(NCCL_CPPFLAGS)
.PHONY: check-gpu
check-gpu: all $(GPU_TESTS)
	tests/gpu/run $(B)

tests: $(ALL_TESTS)
# Of what is in a wheel, so not of ddptrain; and by zig, for glibc 2.28: its linker
# has no --wrap, and that library no mallinfo2.
wheel-tests: $(addprefix $(B)/tests/unit/,$(filter-out $(basename $(notdir \
	$(shell grep -lE -e '^/\* links:.* (trainer/|.*bad_disk)' \
	-e '^/\* libs:.*--wrap' -e 'mallinfo2' $(UNIT_FILES)))),$(UNIT)))
.PHONY: tests wheel-tests e2e-programs

# Fuzz targets name what they link in the same way. They are built by clang with
# libFuzzer into build-fuzz/, by a second make; in any other build they get a
# main that plays files, and nothing more.
FUZZ_CC ?= clang
FUZZ_MAIN := $(if $(filter fuzz,$(SAN)),,tests/fuzz/replay)
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_PROGRAMS := $(addprefix $(B)/tests/fuzz/,$(FUZZ))

$(FUZZ_PROGRAMS): $(B)/tests/%: $$(call obj,tests/$$* $(FUZZ_MAIN) \
		$$(call links,tests/$$*.c))
	@mkdir -p $(@D)
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) -o $@ $^ \
		$(call libs,tests/$*.c)

.PHONY: prove soak chaos fuzz fuzz-programs
fuzz-programs: $(FUZZ_PROGRAMS)
fuzz:
	$(Q)$(MAKE) SAN=fuzz CC=$(FUZZ_CC) fuzz-programs

.PHONY: check-clusters check check-all check-long check-unit check-sim check-e2e \
	check-interop check-interop-old check-interop-new check-frameworks check-tree \
	check-manifests check-gridengine check-python check-mpi check-page \
	check-circles check-install check-build check-fuzz check-model
check-unit: $(addprefix $(B)/tests/unit/,$(UNIT))
	scripts/run-tests $^
	@$(if $(NCCL_H),,scripts/skip unit/check_comm_nccl 'no nccl.h was found')
	@$(if $(NCCL_H),,scripts/skip unit/check_comm_nccl_calls 'no nccl.h was found')
	@$(if $(NCCL_H),,scripts/skip unit/check_label 'no nccl.h was found')
	@$(if $(HAVE_CXX),,scripts/skip unit/check_ops_cuda 'there is no $(CXX)')
check-sim: $(addprefix $(B)/tests/sim/,$(SIM))
	scripts/run-tests $^
check-e2e: e2e-programs
	tests/e2e/run $(B)
e2e-programs: all $(FAKE_NVML) $(FAKE_PMIX) $(FAKE_HWLOC) $(EMULATED) $(GPU_BENCH) \
		$(OLD_KERNEL_TOOL) $(DDP_WORKERS) $(FAULT_LIB) $(HOSTLIST) $(BEATS)
check-clusters: all $(HOSTLIST)
	tests/clusters/run $(B)
# MINUTES=, SEED=, MTBF= (tests/ci/soak)
soak: all
	tests/ci/soak $(B)
# EPISODES=, SEED=, JOBS= (tests/chaos/run)
chaos: all $(BEATS)
	tests/chaos/run --self-test $(B)
	tests/chaos/run $(B) $(or $(SEED),1) $(or $(EPISODES),40)
prove: all $(addprefix $(B)/tests/unit/,check_keeper_step check_keeper_faults \
		check_keeper_bits $(filter check_label,$(UNIT)))
	tests/ci/prove $(B) $(SEED)
check-mpi: all
	tests/mpi/run $(B)
check-interop: all
	tests/interop/check $(B) all
check-interop-old check-interop-new: check-interop-%: all
	tests/interop/check $(B) $*

check-frameworks: all
	tests/interop/frameworks/check $(B)
check-gridengine: all
	tests/gridengine/run $(B)
check-page: all
	tests/page/run $(B)
check-manifests:
	tests/manifests/check
check-python: all $(FAKE_NVML)
	tests/tree/check-python $(B)
check-tree:
	tests/tree/check-words
	tests/tree/check-includes --self-test
	tests/tree/check-includes
	tests/tree/check-linked --self-test
	tests/tree/check-linked
	tests/tree/check-man
	scripts/dashboard --check
	tests/tree/check-format
	scripts/run-tests --self-test
	scripts/tally --self-test
	tests/e2e/lib/check-run
	scripts/skip --self-test
	scripts/messages --self-test
	scripts/messages --check
	scripts/mutations --check
	scripts/meter --self-test
	packaging/site --links
	tests/bench/start --self-test
	tests/tree/check-english --self-test
	tests/bench/pages --check
check-install: all
	tests/tree/check-install $(B)
	tests/tree/check-symbols --self-test
	tests/tree/check-symbols $(B)
check-circles: all
	tests/tree/check-circles --self-test
	tests/tree/check-circles $(B)
# What broke something once, and the seeds: no input is drawn.
check-fuzz:
	$(Q)$(MAKE) SAN=address fuzz-programs
	tests/fuzz/replay build-address
check-model:
	scripts/model --check

# The setup comes first, so that a bare machine gets its compiler; the rest is a
# second make, which looks for the tools afresh. With CI=true or SKIPS=fail what
# is left out must be in tests/allowed-skips.
check:
	scripts/setup.sh --check
	@scripts/tally --list 'make check' scripts/skip --list \
		$(MAKE) --no-print-directory check-all; \
	status=$$?; [ -n "$${TALLY:-}" ] || tests/ci/slices --left; exit $$status
# Everything, whole: hours. What continuous integration has in slices, and what
# is too slow or hangs too much on luck for it (tests/ci/slices).
check-long:
	scripts/setup.sh --long --interop --clusters --mpi
	scripts/skip --list tests/ci/check-long
# All parts, also after one that failed.
check-all:
	@status=0; for part in $(CHECK_PARTS); do \
		scripts/tally part $$part $(MAKE) check-$$part || status=1; \
	done; exit $$status
CHECK_PARTS := build tree circles unit sim fuzz model install e2e
check-build:
	$(Q)$(MAKE) --no-print-directory -j $(shell nproc) all tests e2e-programs
