# Benches. Included by the Makefile, whose lists, flags and functions it uses.

.PHONY: bench bench-start bench-rdzv bench-store bench-snapshot bench-python-snapshot bench-train \
	bench-python bench-mpi

BENCH_RDZV := $(addprefix $(B)/bench/rdzv/,load floor)
$(BENCH_RDZV): $(B)/bench/rdzv/%: $$(call obj,tests/bench/rdzv/$$* \
		$(TLS) rendezvous/proto/msg rendezvous/proto/term $$(addprefix rendezvous/base/,err mono buf \
		json utf8))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -luv -lcjson -lm -ldl $(BENCH_RDZV_LIBS)
$(B)/bench/rdzv/load: $(call obj,$(addprefix tests/bench/rdzv/,generator speak))
$(B)/bench/rdzv/floor: BENCH_RDZV_LIBS := -lssl -lcrypto
bench-rdzv: $(B)/ddprdzvd $(BENCH_RDZV)
	tests/bench/rdzv/run $(B) $(BENCH_ARGS)

BENCH_STORE := $(addprefix $(B)/bench/store/,load floor)
$(B)/bench/store/load: $(call obj,tests/bench/store/load)
$(B)/bench/store/floor: $(call obj,tests/bench/store/floor)
$(BENCH_STORE):
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^)
bench-store: all $(BENCH_STORE)
	tests/bench/store/run $(B) $(BENCH_ARGS)

BENCH_SNAPSHOT := $(B)/bench/snapshot/save
$(BENCH_SNAPSHOT): $(call obj,tests/bench/snapshot/save) $(B)/libddp.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcjson -lxxhash -lm
# What nobody builds breaks unseen.
e2e-programs: $(BENCH_RDZV) $(BENCH_STORE) $(BENCH_SNAPSHOT)
bench-snapshot: $(BENCH_SNAPSHOT)
	tests/bench/snapshot/run $(B) $(BENCH_ARGS)

# DDPRUN_TORCH=PYTHON, BENCH_ARGS=LAYERS (GPT-2 has 12)
bench-python-snapshot: export PYTHONPATH := python
bench-python-snapshot: export DDPRUN_LIBDDP := $(CURDIR)/$(B)/libddp.so
bench-python-snapshot: export PYTHON_EXEC := \
	$(or $(DDPRUN_TORCH),$(CURDIR)/build-torch/bin/python)
bench-python-snapshot: all
	$(B)/ddprun --standalone --snapshot_memory=50% \
		tests/bench/snapshot/stall.py $(BENCH_ARGS)
	tests/bench/snapshot/sharded $(B) $(BENCH_ARGS)

# The parts have tables of their own with more rows; BENCH_ARGS=--markdown writes
# them all as docs/performance-full.md, and of that docs/performance.md: two hours,
# on a clean commit.
bench: all $(BENCH_RDZV) $(BENCH_STORE) $(BENCH_SNAPSHOT)
	tests/bench/run $(B) $(BENCH_ARGS)

# BENCH_ARGS=--keep at a release
bench-start: all
	tests/bench/start $(B) $(BENCH_ARGS)

# DDPRUN_TORCH=PYTHON, BENCH_ARGS='--turns=5 --cold', with the PATH of a Python that
# has transformers as DDPRUN_FRAMEWORKS (build-frameworks/, of make check-frameworks)
bench-python: all
	tests/bench/python/run $(B) $(BENCH_ARGS)

# BENCH_ARGS='--runs=20 --places=4,2x8 --libraries=mpich5 --where=cgroup'
bench-mpi: all
	tests/bench/mpi/run $(B) $(BENCH_ARGS)

bench-train: all
	tests/bench/train/run $(B) $(BENCH_ARGS)
