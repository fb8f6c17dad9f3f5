"""At one number of threads results are equal bit for bit; at another they stay within the stated bound."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from closeness import assert_close
from tolerances import FLOAT32, FLOAT64, GRADIENTS, THREADS
from torsor.groups import symmetric
from torsor.models import parcae_transformer
from torsor.tasks import WordProblem
from torsor.training import Plan, TrainState, adamw, train
from torsor.transitions import BlockConformal

TASK = WordProblem(symmetric(3), length=16)


def model():
    """Large enough that torch divides its sums and products between threads."""
    torch.manual_seed(0)
    return parcae_transformer(BlockConformal(64, groups=2), vocabulary=TASK.vocabulary, classes=6, heads=2)


def slopes(threads):
    """A loss and its gradients."""
    torch.set_num_threads(threads)
    built, batch = model(), TASK.batch(0, 64)
    loss = cross_entropy(built(batch.tokens, steps=3).flatten(0, 1), batch.targets.flatten())
    loss.backward()
    return [loss.detach(), *[parameter.grad for parameter in built.parameters() if parameter.grad is not None]]


def trained(threads, updates=2):
    """Losses and weights of a short training."""
    torch.set_num_threads(threads)
    built = model()
    state = TrainState(built, adamw(built, 1e-3))
    losses = [
        record.loss
        for record in train(
            state, TASK, Plan(updates=updates, batch=64), forward=lambda m, tokens, update, rows: m(tokens, steps=3)
        )
    ]
    return [torch.tensor(losses), *[parameter.detach().clone() for parameter in built.parameters()]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_at_another_number_of_threads_losses_and_gradients_stay_within_the_bound(dtype):
    torch.set_default_dtype(dtype)
    of_loss, of_gradient = (
        (FLOAT32.bound, THREADS.bound) if dtype == torch.float32 else (FLOAT64.bound, GRADIENTS[0].bound)
    )
    (loss, *gradients), (other_loss, *other_gradients) = slopes(1), slopes(2)
    assert_close(other_loss, loss, of_loss)
    for one, other in zip(gradients, other_gradients, strict=True):
        assert_close(other, one, of_gradient)


def test_at_one_thread_losses_and_weights_are_equal_bit_for_bit():
    torch.set_default_dtype(torch.float32)
    for one, other in zip(trained(1), trained(1), strict=True):
        assert torch.equal(one, other)
