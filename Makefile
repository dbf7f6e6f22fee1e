# ddprun: one Makefile, non-recursive. `make` builds the programs in build/;
# `make help` lists what else there is. Tests are in tests/tests.mk, benches in
# tests/bench/bench.mk.
#
#   V=1            show the commands
#   DEV=1          warnings are errors
#   SAN=address    build with ASan and UBSan, in build-address/; or thread,
#                  coverage (scripts/sanitize, scripts/coverage)
#   CUDA=0         leave the CUDA half out even where nvcc is found
#   CUDA_HOME, NCCL_HOME   where they are, else toolkit/ (made by
#                  scripts/setup.sh --cuda), /usr/local/cuda and nvcc's place
#   PREFIX, LIBDIR, DESTDIR  for `make install`

comma  := ,
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
CC     ?= cc
OBJCOPY ?= objcopy
Q      := $(if $(V),,@)
B      := build$(if $(SAN),-$(SAN))

# -- flags -------------------------------------------------------------------

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wcast-qual -Wcast-align -Wwrite-strings -Wvla -Wundef -Wformat=2 \
	-Wconversion -Wsign-conversion -Wimplicit-fallthrough \
	-Wdouble-promotion -Wnull-dereference
ifneq ($(findstring clang,$(shell $(CC) --version 2>/dev/null)),)
WARN += -Wcomma -Wunreachable-code -Wconditional-uninitialized
else
WARN += -Wlogical-op -Wduplicated-cond -Wduplicated-branches \
	-Wformat-overflow=2 -Wformat-truncation=2 -Walloca -Wjump-misses-init
endif

# Bound at the start also where SAN is set: what binds a function at its first
# call saves all registers on the stack, with what was secret in them.
OPT := -O2 -g -fstack-protector-strong
ifeq ($(SAN),)
OPT += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
LDSAN := -Wl,-z,relro,-z,now
else ifeq ($(SAN),address)
OPT := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=all
LDSAN := -fsanitize=address,undefined -Wl,-z,relro,-z,now
else ifeq ($(SAN),fuzz)
OPT := -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all \
	-fsanitize=fuzzer-no-link,address,undefined \
	-DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION # so libFuzzer keeps the input
LDSAN := -fsanitize=address,undefined -Wl,-z,relro,-z,now
else ifeq ($(SAN),coverage)
OPT := -O0 -g --coverage -fprofile-update=atomic
LDSAN := --coverage
else
OPT := -O1 -g -fno-omit-frame-pointer -fsanitize=$(SAN)
LDSAN := -fsanitize=$(SAN) -Wl,-z,relro,-z,now
endif

# What sanitizers build also checks the rendezvous core's states after each step.
CPPFLAGS += $(if $(SAN),-DDDP_DEBUG)

VERSION  := 0.3.0
CPPFLAGS += -D_GNU_SOURCE -I. -DDDPRUN_VERSION='"$(VERSION)"'
CFLAGS   += -std=c11 $(WARN) $(if $(DEV),-Werror) $(OPT) -fPIC -MMD -MP
LDFLAGS  += -pie -pthread $(LDSAN)

# A launcher runs with the stack that its user allows it: ulimit -s 128 is
# enough. Sanitizers make frames larger.
ifeq ($(SAN),)
$(B)/obj/launcher/%.o $(B)/obj/rendezvous/%.o: CFLAGS += \
	-Wframe-larger-than=24576
endif

# -- CUDA and NCCL, where they are found --------------------------------------
#
# libddp loads both at run time and needs only nccl.h here. The kernels of
# ddptrain are compiled by nvcc; the CUDA runtime is linked statically, so that
# the program starts where there is none.

HAVE_CXX := $(shell command -v $(CXX) 2>/dev/null)
ifneq ($(CUDA),0)
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(wildcard \
	$(CURDIR)/toolkit/bin/nvcc /usr/local/cuda/bin/nvcc) \
	$(shell command -v nvcc 2>/dev/null)))
NVCC   := $(if $(CUDA_HOME),$(if $(HAVE_CXX),$(wildcard $(CUDA_HOME)/bin/nvcc)))
NCCL_H := $(if $(NVCC),$(firstword $(wildcard $(addsuffix /include/nccl.h, \
	$(NCCL_HOME) $(CUDA_HOME) /usr))))
endif
# What this nvcc knows of these, and the newest as PTX for what comes later.
ARCHS := $(if $(NVCC),$(filter 75 80 90 100,$(patsubst compute_%,%, \
	$(shell $(NVCC) --list-gpu-arch))))
NVCCFLAGS := -O2 -g -std=c++17 --extended-lambda --forward-unknown-to-host-compiler -ccbin $(CXX) \
	-Xcompiler -Wall,-Wextra,-fPIC,-fno-exceptions,-fno-threadsafe-statics \
	$(if $(DEV),-Werror all-warnings) \
	$(foreach a,$(ARCHS),-gencode arch=compute_$a,code=sm_$a) \
	$(foreach a,$(lastword $(ARCHS)),-gencode arch=compute_$a,code=compute_$a)
CUDA_LIBS := $(if $(NVCC),$(firstword $(wildcard $(addsuffix \
	/libcudart_static.a,$(CUDA_HOME)/lib64 $(CUDA_HOME)/lib))) -lrt -lpthread \
	$(if $(filter $(CURDIR)/%,$(CUDA_HOME)),-Wl$(comma)-rpath$(comma)$(CUDA_HOME)/lib))
NCCL_CPPFLAGS := $(if $(NCCL_H),-DDDP_NCCL -isystem $(NCCL_H:/nccl.h=) \
	-isystem $(CUDA_HOME)/include)

# -- what each program is made of --------------------------------------------

# A folder is its list: what stands in it is compiled and linked.
#
# in FOLDER...: all units of these folders. of FOLDER, FILE...: some units of one.
in = $(patsubst %.c,%,$(wildcard $(addsuffix /*.c,$(1))))
of = $(addprefix $(1)/,$(2))

BASE   := $(call in,rendezvous/base)
OPTS   := $(call of,rendezvous/base,opts opts_help opts_complete)
PROTO  := $(call in,rendezvous/proto)
CORE   := $(call in,rendezvous/core rendezvous/core/inner \
	$(wildcard rendezvous/core/inner/*)) rendezvous/base/signals_name
ACCOUNT := $(call in,rendezvous/account)
TLS    := $(call of,rendezvous/net,tls tls_key token openssl)
CONN   := $(call of,rendezvous/net,conn conn_in conn_out farewell_frame)
NET    := $(call in,rendezvous/net)
CLIENT := $(call in,rendezvous/client) rendezvous/base/dial
STORE  := $(call in,rendezvous/store) rendezvous/proto/c10d \
	rendezvous/net/allow $(call of,rendezvous/base,log_limit open_files)
# Of the program ddprdzvd alone; the rest of its folder serves in ddprun as well.
DAEMON := $(call of,rendezvous/daemon,main sd store_supervisor)
SERVER := $(CORE) $(ACCOUNT) $(call in,rendezvous/http) \
	$(filter-out $(DAEMON),$(call in,rendezvous/daemon)) \
	$(call of,rendezvous/base,log_limit open_files)
CTL    := $(call in,rendezvous/ctl rendezvous/past) rendezvous/http/page rendezvous/http/http \
	$(ACCOUNT)

CLUSTER  := $(call in,launcher/cluster)
LAUNCHER := $(call in,launcher $(wildcard launcher/*))

RT      := $(call in,worker_rt worker_rt/comm worker_rt/snapshot \
	worker_rt/keeper) $(CLIENT) \
	rendezvous/proto/c10d \
	$(call of,rendezvous/base,err mono rng buf json utf8 signals_name siphash)
TRAINER := $(filter-out $(if $(NVCC),trainer/ops/cuda_none), \
	$(call in,trainer trainer/ops))
# The CUDA half: objects of nvcc's.
CUDA_HALF := $(call of,trainer/ops,cuda cuda_linear cuda_conv cuda_optim)
TRAINER_CUDA := $(if $(NVCC),$(CUDA_HALF))

PROGRAMS := ddprun ddprdzvd ddpctl ddptrain
LIBS     := libddp.a libddp.so

ddprun_OBJS   := $(LAUNCHER) $(CLIENT) $(SERVER) $(STORE) $(NET) $(PROTO) $(BASE)
ddprun_LIBS   := -luv -lcjson -lm -ldl
ddprdzvd_OBJS := $(DAEMON) $(SERVER) $(STORE) $(NET) $(PROTO) $(BASE)
ddprdzvd_LIBS := -luv -lcjson -lm -ldl
ddpctl_OBJS   := $(CTL) $(TLS) rendezvous/net/addr $(PROTO) $(BASE)
ddpctl_LIBS   := -lcjson -lm -ldl
ddptrain_OBJS := $(TRAINER)
ddptrain_LIBS := $(addprefix $(B)/obj/,$(addsuffix .cu.o,$(TRAINER_CUDA))) \
	$(B)/libddp.a -lcjson -lxxhash -lz -lm -ldl $(CUDA_LIBS)

obj = $(addprefix $(B)/obj/,$(addsuffix .o,$(1)))

.PHONY: all help setup demo man install uninstall wheel dist site clean FORCE
.DEFAULT_GOAL := all

all: $(addprefix $(B)/,$(PROGRAMS) $(LIBS))
	@$(if $(NVCC),,echo 'built without CUDA: \
	$(if $(filter 0,$(CUDA)),CUDA=0,no nvcc was found, see CUDA_HOME above)')
	@$(if $(NCCL_H),,echo 'built without NCCL: \
	$(if $(filter 0,$(CUDA)),CUDA=0,no nccl.h was found, see NCCL_HOME above)')

help:
	@echo 'make            build the programs and libddp in $(B)/'
	@echo 'make demo       set up, build, and run the main job on this machine'
	@echo 'make check      set up, build, and run every test that needs no GPU'
	@echo 'make check-unit, check-sim, check-e2e, check-tree   one layer of them'
	@echo 'make fuzz       build the fuzz targets (clang): scripts/fuzz runs them'
	@echo 'make check-fuzz, check-model     their corpora, played; the model, by spin'
	@echo 'make check-long  all of that at length, sanitizers, valgrind, aarch64: hours'
	@echo 'make prove      60 kills of a training run, 10,000 faults of a disk; SEED=S'
	@echo 'make soak       train for MINUTES=N under random faults, SEED=S; root'
	@echo 'make chaos      EPISODES=40 of random faults on jobs in namespaces, from SEED=1 on; root'
	@echo 'make check-interop   real PyTorch, 1.13 and 2: fetches 560 MB, once'
	@echo 'make check-frameworks  accelerate, Lightning, transformers and others: 45 minutes'
	@echo 'make check-manifests  examples/k8s against schemas from PyPI: fetches 25 MB, once'
	@echo 'make check-page  the page in a real Chromium, the dashboard with a real Prometheus: scripts/setup.sh --page'
	@echo 'make check-clusters  ddprun under a real Slurm: scripts/setup.sh --clusters, root'
	@echo 'make check-gridengine  ddprun under a real Grid Engine: root'
	@echo 'make check-mpi  programs of several MPI libraries: scripts/setup.sh --mpi, root'
	@echo 'make check-gpu  kernels, NCCL and snapshots on a GPU, where there is one'
	@echo 'make bench      ddprun beside torchrun, hydra and Redis, in one table; --markdown'
	@echo 'make bench-start  starts and ends beside hydra and the last release, half a minute'
	@echo 'make bench-rdzv  10,000 agents on one rendezvous, beside a bare server'
	@echo 'make bench-store  the c10d store beside PyTorch'"'"'s own and Redis'
	@echo 'make bench-train  train beside PyTorch over gloo, DDPRUN_TORCH=PYTHON'
	@echo 'make bench-python  kill -9 to the next step beside torchrun, DDPRUN_TORCH=PYTHON'
	@echo 'make bench-mpi   MPI_Init beside hydra: scripts/setup.sh --mpi'
	@echo 'make bench-snapshot  snapshots to memory and disk, beside dd'
	@echo 'make bench-python-snapshot  ddprun.snapshot, sharded too, beside async_save'
	@echo 'make man        write the options into the manual pages'
	@echo 'make wheel      the Python package for x86_64 and aarch64, in build-wheel/dist'
	@echo 'make check-python   its wheels, its module beside PyTorch'
	@echo 'make dist       what each user installs, in dist/: scripts/setup.sh --dist'
	@echo 'make site       the docs as a site, in build-site/site: mkdocs-material from PyPI'
	@echo 'make install    PREFIX=$(PREFIX), LIBDIR=$(LIBDIR), DESTDIR='
	@echo 'make uninstall  removes what make install puts there, with the same words'
	@echo 'make clean'

# Sources are compiled again when the flags change.
FLAGS := $(CC) $(CPPFLAGS) $(filter-out -Werror,$(CFLAGS)) $(LDFLAGS) \
	$(NCCL_CPPFLAGS) $(NVCC)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
FORCE:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	@$(if $(V),,echo '  CC    $<')
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(B)/obj/%.cu.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	@$(if $(V),,echo '  NVCC  $<')
	$(Q)$(NVCC) $(NVCCFLAGS) -I. -MD -MP -MF $(@:.o=.d) -c -o $@ $<

# The text is in the object.
$(B)/obj/launcher/standby/runner.o: $(addprefix launcher/standby/,start.py imports.py replay.py runner.py)
$(B)/obj/launcher/hang/flight.o: launcher/hang/flight.py
PAGE := rendezvous/http/page.html
$(B)/obj/rendezvous/http/page.o: $(PAGE) scripts/page-hash
$(B)/obj/rendezvous/http/page.o: CPPFLAGS += \
	-DPAGE_SCRIPT_HASH='"$(shell scripts/page-hash script $(PAGE))"' \
	-DPAGE_STYLE_HASH='"$(shell scripts/page-hash style $(PAGE))"'

$(B)/obj/worker_rt/%.o: CFLAGS += -fvisibility=hidden

# Loops over pixels and parameters: -O2 leaves most of them as they are.
$(addprefix $(B)/obj/trainer/ops/,cpu.o conv.o device.o): CFLAGS += -O3

# Loops over elements.
$(B)/obj/worker_rt/comm/reduce.o: CFLAGS += -O3

$(addprefix $(B)/obj/worker_rt/comm/,nccl.o nccl_lib.o nccl_wait.o): \
	CPPFLAGS += $(NCCL_CPPFLAGS)

.SECONDEXPANSION:
$(B)/ddptrain: $(B)/libddp.a \
	$(addprefix $(B)/obj/,$(addsuffix .cu.o,$(TRAINER_CUDA)))
$(addprefix $(B)/,$(PROGRAMS)): $(B)/%: $$(call obj,$$($$*_OBJS))
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter-out %.cu.o,$(filter %.o,$^)) \
		$($*_LIBS)

# One object, in which only the names of the map are global.
$(B)/libddp.a: $(call obj,$(RT)) worker_rt/libddp.map
	@$(if $(V),,echo '  AR    $@')
	$(Q)rm -f $@
	$(Q)sed -n 's/^ *\(ddp_[a-z0-9_]*\);.*/\1/p' worker_rt/libddp.map > $(B)/libddp.names
	$(Q)$(LD) -r -o $(B)/libddp.o $(filter %.o,$^)
	$(Q)$(OBJCOPY) --keep-global-symbols=$(B)/libddp.names $(B)/libddp.o
	$(Q)$(AR) rcs $@ $(B)/libddp.o
$(B)/libddp.so: $(call obj,$(RT)) worker_rt/libddp.map
	@$(if $(V),,echo '  LD    $@')
	$(Q)$(CC) -shared -pthread $(LDSAN) -Wl,-soname,libddp.so.1 \
		-Wl,--version-script=worker_rt/libddp.map \
		-o $@ $(filter %.o,$^) -lcjson -lxxhash -ldl

# -- tests, benches ----------------------------------------------------------

include tests/tests.mk tests/bench/bench.mk

setup:
	scripts/setup.sh

demo: setup
	$(Q)$(MAKE) --no-print-directory -j $(shell nproc) all
	@scripts/demo $(B)

# -- manual pages, installation ----------------------------------------------

man:
	scripts/man-options man/*.[1-8]

COMPLETIONS := $(addprefix $(DESTDIR)$(PREFIX)/share/, \
	bash-completion/completions/ddprun zsh/site-functions/_ddprun \
	fish/vendor_completions.d/ddprun.fish)
# So that programs on libddp find it: outside /usr its folder stands in them,
# and where the loader looks through its cache that is renewed.
RPATH := $(if $(filter /usr,$(PREFIX)),,-Wl$(comma)-rpath$(comma)$${libdir} )
CACHE := $(if $(DESTDIR),,$(filter /usr /usr/local,$(PREFIX)))

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR) \
		$(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include \
		$(foreach n,1 3 5 7 8,$(DESTDIR)$(PREFIX)/share/man/man$(n))
	install $(addprefix $(B)/,$(PROGRAMS)) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(B)/libddp.a $(DESTDIR)$(LIBDIR)
	install $(B)/libddp.so $(DESTDIR)$(LIBDIR)/libddp.so.1
	ln -sf libddp.so.1 $(DESTDIR)$(LIBDIR)/libddp.so
	$(if $(CACHE),PATH="$$PATH:/usr/sbin:/sbin" ldconfig 2>/dev/null || true)
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@RPATH@|$(RPATH)|' \
		-e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' \
		worker_rt/ddp.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/ddp.pc
	install -m 644 worker_rt/ddp.h worker_rt/ddp_*.h \
		$(DESTDIR)$(PREFIX)/include
	for n in 1 3 5 7 8; do install -m 644 man/*.$$n \
		$(DESTDIR)$(PREFIX)/share/man/man$$n || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/share/doc/ddprun
	install -m 644 README.md CHANGELOG.md SECURITY.md docs/* \
		$(DESTDIR)$(PREFIX)/share/doc/ddprun
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's,@BINDIR@,$(PREFIX)/bin,' scripts/ddprdzvd.service.in \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/ddprdzvd.service
	install -m 644 scripts/ddprdzvd.socket \
		$(DESTDIR)$(PREFIX)/lib/systemd/system
	install -d $(dir $(COMPLETIONS))
	$(B)/ddprun --print_completion=bash > $(word 1,$(COMPLETIONS))
	$(B)/ddprun --print_completion=zsh > $(word 2,$(COMPLETIONS))
	$(B)/ddprun --print_completion=fish > $(word 3,$(COMPLETIONS))
	chmod 644 $(COMPLETIONS)

# What an installation into an empty folder puts there; and folders below bin, lib,
# share that are empty then, but for share/man, which a bare system has.
uninstall:
	@top=$$(realpath -m "$(or $(DESTDIR),/)") && new=$$(mktemp -d) && trap 'rm -rf "$$new"' EXIT && \
	$(MAKE) -s --no-print-directory install DESTDIR="$$new" >/dev/null && \
	cd "$$new" && \
	find . ! -type d | while IFS= read -r file; do \
		rm -f "$$top/$$file" || exit 1; \
	done && \
	find ".$(PREFIX)" -mindepth 2 -depth -type d ! -path '*/share/man' | \
	while IFS= read -r folder; do \
		rmdir "$$top/$$folder" 2>/dev/null || :; \
	done
	$(if $(CACHE),PATH="$$PATH:/usr/sbin:/sbin" ldconfig 2>/dev/null || true)

wheel:
	scripts/wheel

dist:
	packaging/dist

site:
	packaging/site

clean:
	rm -rf build build-address build-thread build-leaks build-fuzz \
		build-coverage build-aarch64 build-glibc build-wheel \
		build-dist build-try build-site dist

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
