"""A program with transformers.Trainer and ddprun.transformers.Snapshot, and other
callbacks, whose evaluation is best at step 15. usage: STEPS [FOLDER]; STRATEGY=fsdp2
shards."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from typing import Any

import torch
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments

from ddprun.transformers import Snapshot

SHARDED = os.environ.get("STRATEGY") == "fsdp2"
if SHARDED:
    from accelerate_on_cpus import let_accelerate_shard

    let_accelerate_shard()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        time.sleep(float(os.environ.get("PAUSE", 0)) if self.training else 0)
        out = self.net(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


class Counts(TrainerCallback):
    """Before Snapshot in the list. The numbers of its own events."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("epochs", "steps", "evaluations"), 0)

    def on_epoch_begin(self, *_: Any, **parts: Any) -> None:
        self.counts["epochs"] += 1

    def on_step_begin(self, *_: Any, **parts: Any) -> None:
        self.counts["steps"] += 1

    def on_evaluate(self, *_: Any, **parts: Any) -> None:
        self.counts["evaluations"] += 1

    def state_dict(self) -> "dict[str, Any]":
        return {"counts": dict(self.counts)}

    def load_state_dict(self, state: "dict[str, Any]") -> None:
        self.counts = state["counts"]


class Told(Snapshot):
    def on_train_begin(self, *args: object, **parts: object) -> None:
        super().on_train_begin(*args, **parts)  # type: ignore[arg-type]
        os.write(1, f"began {self.snapshot.step} pid {os.getpid()} rank {os.environ['RANK']}\n".encode())

    def on_step_end(self, args: object, state: object, *more: object, **parts: object) -> None:
        super().on_step_end(args, state, *more, **parts)  # type: ignore[arg-type]
        os.write(1, f"step {state.global_step}\n".encode())
        if state.global_step == state.max_steps:
            tell("last", digest())


def tell(*words: str) -> None:
    if trainer.state.is_world_process_zero:
        os.write(1, f"{' '.join(words)}\n".encode())


def digest() -> str:
    """Of the whole model. Collective."""
    whole = [p.full_tensor() if SHARDED else p for p in trainer.model.parameters()]
    total = b"".join(p.detach().numpy().tobytes() for p in whole)
    return hashlib.sha256(total).hexdigest()[:16]


torch.manual_seed(1)
counts, stopping = Counts(), EarlyStoppingCallback(early_stopping_patience=50)
data = [{"x": torch.rand(8), "labels": torch.rand(1)} for _ in range(61)]
trainer = Trainer(
    model=Model(),
    args=TrainingArguments(
        output_dir=os.environ.get("BEST", "best"),
        max_steps=int(sys.argv[1]),
        per_device_train_batch_size=4,
        use_cpu=True,
        fsdp=SHARDED,  # type: ignore[arg-type]
        fsdp_config={"version": 2, "auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 50} if SHARDED else None,
        eval_strategy="steps",
        eval_steps=5,
        eval_on_start=True,
        save_strategy="no" if SHARDED else "best",
        metric_for_best_model="quality",
        greater_is_better=True,
        load_best_model_at_end=not SHARDED,
        logging_steps=5,
        report_to=[],
        disable_tqdm=True,
    ),
    train_dataset=data,
    eval_dataset=data[:8],
    compute_metrics=lambda _: {"quality": 0.9 - abs(trainer.state.global_step - 15) / 100},
    callbacks=[counts, Told(folder=sys.argv[2] if len(sys.argv) > 2 else None), stopping],
)
result = trainer.train()
os.write(1, b"train has returned\n")
tell("digest", digest())
if trainer.state.is_world_process_zero:
    state = trainer.state
    known = {
        "best": [state.best_metric, state.best_global_step, os.path.basename(state.best_model_checkpoint or "")],
        "stopping": stopping.early_stopping_patience_counter,
        "losses": [entry["loss"] for entry in state.log_history if "loss" in entry],
        "qualities": [entry["eval_quality"] for entry in state.log_history if "eval_quality" in entry],
        "loss": result.training_loss,
        **counts.counts,
    }
    tell("known", json.dumps(known))
    tell(f"ended at {state.global_step}, epoch {state.epoch:.3f}")
