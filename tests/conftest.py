"""Strict numerics for every test: float64, one seed, one thread, no network, deterministic Hypothesis."""

import os
import socket

import pytest
import torch
from hypothesis import HealthCheck, settings

from tolerances import FLOAT32, FLOAT64

settings.register_profile(
    "deterministic",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# A long search for what the few examples of every day do not meet: HYPOTHESIS_PROFILE=campaign
settings.register_profile(
    "campaign", settings.get_profile("deterministic"), derandomize=False, max_examples=2000, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deterministic"))

# Read when Triton is first imported: its kernels then run in Python, on any machine.
os.environ["TRITON_INTERPRET"] = "1"

# One tolerance for each type, relative to the size of what is compared; no switch loosens it.
TOLERANCE = {torch.float64: FLOAT64.bound, torch.float32: FLOAT32.bound}

SAMPLED = 40


@pytest.fixture(autouse=True)
def strict_numerics():
    """Mathematics is tested in float64 with one seed; a test of a narrower type asks for it by name."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True, scope="session")
def a_short_sample_of_text():
    """What every run of texts draws at its end is 300 tokens long, each by calls that are type-checked here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torsor.experiments.text_sample.TOKENS", SAMPLED)
        yield


@pytest.fixture(autouse=True)
def no_line_on_a_slow_machine(monkeypatch):
    """What a command says while one waits depends on the clock; a test of that sets the clock itself."""
    monkeypatch.setattr("torsor.cli.shown_left.PATIENCE", 3600.0)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A test that reaches for the network fails at once."""

    def refuse(*_args, **_kwargs):
        raise RuntimeError("the tests must not touch the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
