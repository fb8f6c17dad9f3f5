"""Solve a word problem in S3 with a looped transformer: train, score at three depths."""

import argparse

import torch

from torsor.groups import symmetric
from torsor.models import parcae_transformer
from torsor.tasks import WordProblem, score
from torsor.training import LengthCurriculum, Plan, Schedule, TrainState, adamw, train
from torsor.transitions import BlockConformal


def main(updates: int) -> None:
    """Train for so many updates and print the joint accuracy."""
    task = WordProblem(symmetric(3), length=8)
    model = parcae_transformer(
        BlockConformal(dim=64, groups=2), vocabulary=task.vocabulary, classes=task.classes, heads=4
    )
    plan = Plan(
        updates=updates,
        batch=128,
        schedule=Schedule(warmup=20, decay=0.3),
        curriculum=LengthCurriculum(lengths=(2, 3, 4, 5, 6, 7, 8)),
    )
    state = TrainState(model, adamw(model, 3e-3, betas=(0.9, 0.98), weight_decay=0.01))
    for record in train(state, task, plan, forward=lambda model, tokens, update, rows: model(tokens, steps=4)):
        if record.update % 50 == 0:
            print(f"update {record.update}  loss {record.loss:.3f}  length {record.length}")

    batch = task.evaluation(1000)
    with torch.no_grad():
        for steps, logits in zip((2, 4, 6), model(batch.tokens, steps=(2, 4, 6)), strict=True):
            print(f"{steps} loops: joint accuracy {score(logits, batch.targets).joint.value:.3f}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=400)
    main(arguments.parse_args().updates)
