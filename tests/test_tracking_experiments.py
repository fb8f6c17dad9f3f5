"""Experiments of learned trackers: every model is trained a little and examined, and one is proven."""

import json
from itertools import islice

import pytest
import torch

from refusal import refused
from torsor.experiments.catalogue import find, find_table
from torsor.experiments.run import carry_out
from torsor.experiments.tracker_kinds import DEFAULTS
from torsor.experiments.tracking_examination import TrackingExamination
from torsor.experiments.tracking_readings import ProvenAndRight
from torsor.groups import named
from torsor.tasks import WordProblem
from torsor.tracking import HeldOutPairs, evaluate, prove_closure

TINY = {"group": "S3", "length": 8, "words": 20, "stream_length": 40, "stream_words": 3, "batch": 8, "updates": 2}


@pytest.fixture(autouse=True)
def as_in_a_run():
    torch.set_default_dtype(torch.float32)


def run(path, experiment="tracking/a5", **arguments):
    chosen = find(experiment)
    for _ in carry_out(chosen, chosen.arguments(**{**TINY, **arguments}), path):
        pass
    return json.loads((path / "evaluation.json").read_text())


@pytest.mark.parametrize("kind", DEFAULTS)
def test_every_model_is_trained_and_examined(kind, tmp_path):
    width = {"width": 8} if DEFAULTS[kind].width > 12 else {}
    found = run(tmp_path / "run", model=kind, **width)
    assert [each["length"] for each in found["lengths"]] == [8, 16, 32]
    assert found["held_out"]["pairs"] == 2
    assert found["held_out"]["forced"]["words"] == 20
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["evaluation"]["stage"]["scored"] > 0
    if kind == "transformer":
        assert "stream" not in found
        assert "closure" not in found
    else:
        assert found["stream"]["length"] == 40
        assert found["closure"]["verdict"] in {"refuted", "not finite"}


def test_a_tracker_that_snaps_learns_s3_without_some_pairs_and_its_run_says_that_it_is_proven(tmp_path):
    found = run(tmp_path / "run", updates=120, batch=64, width=16)
    assert found["closure"]["proven"]
    assert found["closure"]["states"] == 7
    assert found["held_out"]["forced"]["joint"] == found["stream"]["joint"] == 1
    proof, *shown = ProvenAndRight().cells(tmp_path / "run")
    assert (proof.values["right"], proof.here) == (1, "proven")
    assert [cell.values["right"] for cell in shown] == [1] * 5
    assert len(shown) + 1 == len(find_table("tracking/learned-a5").columns)


def test_a_run_that_is_broken_off_and_goes_on_is_the_run_in_one_to_the_last_byte(tmp_path):
    chosen = find("tracking/a5")
    arguments = chosen.arguments(**TINY | {"updates": 30})
    for _ in carry_out(chosen, arguments, tmp_path / "one"):
        pass
    broken = carry_out(chosen, arguments, tmp_path / "two", checkpoint_every=4)
    assert len(list(islice(broken, 17))) == 17
    broken.close()
    for _ in carry_out(chosen, arguments, tmp_path / "two", checkpoint_every=4):
        pass
    for name in ("metrics.jsonl", "evaluation.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


class KnowsTheSign(torch.nn.Module):
    """Answers any element of the right coset of A3 in S3."""

    def __init__(self, task):
        super().__init__()
        self.task, self.none = task, torch.nn.Parameter(torch.zeros(()))
        self.inside = torch.tensor(task.group.normal_subgroups()[1])

    def forward(self, tokens):
        chance = torch.Generator().manual_seed(0)
        states = self.task.label(tokens).clamp(min=0)
        inside = self.inside[torch.randint(3, states.shape, generator=chance)]
        answers = torch.from_numpy(self.task.group.table.astype("int64"))[inside, states]
        return torch.nn.functional.one_hot(answers, 6).float()


def test_the_stages_that_lasted_are_evaluated_and_a_run_that_goes_on_remembers_those_before():
    task = WordProblem(named("S3"), length=16, alphabet="all")
    model = KnowsTheSign(task)

    def examination():
        return TrackingExamination(task, None, words=60, stream_length=1, stream_words=1, carries_state=False)

    whole, broken = examination(), examination()
    glances = [(update, json.loads(json.dumps(whole.glance(model, update)))) for update in (100, 250, 400)]
    broken.recall(glances[:2])
    broken.glance(model, 400)
    found = whole.evaluate(model, 400)
    (stage,) = found["stages"]["stages"]
    assert (stage["order"], stage["normal"], stage["first"], stage["last"]) == (3, True, 100, 400)
    assert found == broken.evaluate(model, 400)
    (quotient,) = found["cosets"]["quotients"]
    low, high = (quotient["exact_given_coset"][end] for end in ("low", "high"))
    assert low < 1 / 3 < high  # the plateau law: one over the order of the commutator subgroup
    assert quotient["joint"] == 1


def test_training_never_has_a_held_out_pair_and_the_pairs_are_those_of_every_seed():
    tasks = [find("tracking/a5").build(**TINY | {"seed": seed}).task for seed in (0, 1)]
    assert all(isinstance(task, HeldOutPairs) for task in tasks)
    assert tasks[0].pairs == tasks[1].pairs
    assert isinstance(find("tracking/a5").build(**TINY | {"held_out": 0.0}).task, WordProblem)


@pytest.mark.parametrize("experiment", ["tracking/a5", "cosets/plateau"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"words": 1}, "words must be an integer of at least 2, got 1"),
        ({"stream_length": 0}, "stream_length must be at least 1, got 0"),
        ({"stream_words": 0}, "stream_words must be at least 1, got 0"),
        ({"width": 0}, "must be"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
    ],
)
def test_what_the_examination_or_the_model_cannot_take_is_refused_before_the_training(experiment, wrong, message):
    with refused(message):
        find(experiment).build(**find(experiment).arguments(**TINY | wrong))


class Elsewhere(torch.nn.Module):
    """Lies on no CPU; of what it reads it wants the shape alone."""

    def __init__(self, classes):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1, device="meta"))
        self.classes = classes

    def forward(self, tokens, state=None):
        return torch.eye(self.classes)[0].expand(*tokens.shape, -1), torch.zeros(len(tokens), 2)

    step = forward


@pytest.mark.parametrize("carries_state", [True, False])
def test_a_tracker_is_examined_where_it_lies(carries_state, monkeypatch):
    asked = []

    def noted(examine):
        def on(*given, device="cpu", **options):
            asked.append(str(device))
            return examine(*given, **options)  # on the CPU: what lies on "meta" has no numbers

        return on

    module = "torsor.experiments.tracking_examination"
    monkeypatch.setattr(f"{module}.evaluate", noted(evaluate))
    monkeypatch.setattr(f"{module}.prove_closure", noted(prove_closure))
    task = WordProblem(named("S3"), 8, alphabet="all")
    examination = TrackingExamination(task, None, 20, 40, 3, carries_state=carries_state)
    examination.evaluate(Elsewhere(task.classes), 0)
    assert asked == ["meta"] * (1 + carries_state)


def test_a_transformer_of_more_classes_than_tokens_is_refused():
    with refused("a transformer must have as many tokens as classes = 6, got 3"):
        find("cosets/plateau").build(**TINY | {"alphabet": "generators"})
