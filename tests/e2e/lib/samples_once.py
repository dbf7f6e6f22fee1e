"""Whether each sample of each epoch counted once.
usage: samples_once.py SAMPLES EPOCHS FILE...
FILE is the name given to ddptrain's --samples_taken, one for each launch, in
their order. What a later round or launch takes again, from its first step on,
counts there only. The end of an epoch is filled up with less than a sample for
each rank, as DistributedSampler does; nothing else may be there twice. Ends
with 1 and says what is wrong, or says what was counted.
"""
import collections
import glob
import sys

samples, epochs = int(sys.argv[1]), int(sys.argv[2])
lines = []  # ((launch, round), epoch, step, samples)
for launch, name in enumerate(sys.argv[3:]):
    for path in glob.glob(glob.escape(name) + ".[0-9]*"):
        for line in open(path):
            numbers = [int(word) for word in line.split()]
            lines.append(((launch, numbers[0]), *numbers[1:3], numbers[3:]))

first = {}  # of a round: its first step
for when, _, step, _ in lines:
    first[when] = min(step, first.get(when, step))
# From which step on a round's lines count no more.
limit = {
    when: min((first[w] for w in first if w > when), default=sys.maxsize)
    for when in first
}

ranks = collections.Counter()  # (epoch, step): how many took it
last = collections.defaultdict(int)  # epoch: its last step
took = collections.defaultdict(list)  # (epoch, sample): the steps
again = 0
for when, epoch, step, taken in lines:
    if step >= limit[when]:
        again += 1
        continue
    ranks[epoch, step] += 1
    last[epoch] = max(last[epoch], step)
    for sample in taken:
        took[epoch, sample].append(step)

wrong = []
if sorted(last) != list(range(1, epochs + 1)):
    wrong.append(f"epochs {sorted(last)} of {epochs}")
for epoch in sorted(last):
    lost = [s for s in range(samples) if (epoch, s) not in took]
    twice = [s for s in range(samples) if len(took[epoch, s]) > 1]
    filled = [s for s in twice if max(took[epoch, s]) == last[epoch]]
    if lost:
        wrong.append(f"epoch {epoch}: {len(lost)} lost, {lost[:5]} ..")
    if len(filled) < len(twice) or len(filled) >= ranks[epoch, last[epoch]]:
        wrong.append(f"epoch {epoch}: {len(twice)} twice, {twice[:5]} ..")
strange = [key for key in took if took[key] and key[1] >= samples]
if strange:
    wrong.append(f"there are no samples {strange[:5]}")

print(
    *wrong or [f"each of {samples} samples once in {epochs} epochs"],
    f"{len(first)} rounds of {sorted({n for n in ranks.values()})} ranks, "
    f"{again} lines of steps that were taken again",
    sep="\n",
)
sys.exit(bool(wrong))
