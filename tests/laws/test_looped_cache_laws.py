"""The laws of the cache of a looped transformer: its memory is a formula, and its rows can be used again."""

import pytest
import torch

from cases import MODELS, looped
from refusal import refused
from register import concrete_subclasses
from torsor.generation import Budget, CachePolicy, Full, LastLoop, LoopedCache, LoopedReader, Prompts
from torsor.transitions import BlockConformal

POLICIES = {"full": (Full(6), 6), "last loop": (LastLoop(), 1), "budget": (Budget(3), 3)}


def test_every_policy_is_tested():
    assert concrete_subclasses(CachePolicy) == {type(policy) for policy, _ in POLICIES.values()}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("dtype", "size", "wide"), [(torch.float64, 8, 8), (torch.float32, 4, 4), (torch.bfloat16, 2, 4)]
)
def test_the_memory_is_the_formula_before_and_after_reading(policy, name, dtype, size, wide):
    policy, slots = POLICIES[policy]
    model = MODELS[name]().to(dtype)
    prelude, core, coda = (len(each.blocks) for each in (model.prelude.blocks, model.core, model.coda.blocks))
    cache = LoopedCache(model, 3, 11, policy)
    head_dim = 16 if model.head_dim == 16 else 8
    formula = 2 * size * 3 * 11 * 16 * (prelude + slots * core + coda) + wide * 3 * 16 + wide * 11 * head_dim
    for _ in range(2):
        held = [each for each in vars(cache).values() if isinstance(each, torch.Tensor)]
        assert cache.bytes == sum(each.untyped_storage().nbytes() for each in held) == formula
        LoopedReader(model).read(Prompts.of([[0, 1], [2], [1, 1, 1]]), cache, 4)


def test_a_row_that_is_reset_is_as_if_it_had_never_been_read():
    reader = LoopedReader(looped(BlockConformal(16, groups=2)))
    cache, fresh = (reader.cache(2, 8, Full(3)) for _ in range(2))
    reader.read(Prompts.of([[2, 0, 1], [2, 1]]), cache, 3)
    reader.read(Prompts.of([[2, 0, 1], [2, 1]]), fresh, 3)
    cache.keys_values[:, :, 0, :, :3] = float("nan")  # as a model leaves it that diverged
    cache.reset([0])
    assert cache.lengths == [0, 2]
    assert cache.steps == [0, 3]
    assert not cache.keys_values[:, :, 0].any()
    assert torch.equal(cache.keys_values[:, :, 1], fresh.keys_values[:, :, 1])
    cache.reset()
    assert torch.equal(
        reader.read(Prompts.of([[0], [1, 1]]), cache, 2).logits,
        reader.read(Prompts.of([[0], [1, 1]]), reader.cache(2, 8, Full(3)), 2).logits,
    )


def test_a_row_that_is_copied_goes_on_as_the_one_it_was_copied_from_and_a_larger_capacity_changes_nothing_else():
    reader = LoopedReader(looped(BlockConformal(16, groups=2)))
    cache, fresh = (reader.cache(2, 3, Full(3)) for _ in range(2))
    for each in (cache, fresh):
        reader.read(Prompts.of([[2, 0, 1], [2, 1]]), each, 3)
    before = cache.bytes
    cache.take([1, 0, 1])
    assert (cache.batch, cache.lengths, cache.steps) == (3, [2, 3, 2], [3, 3, 3])
    assert cache.bytes - reader.cache(3, 3, Full(3)).bytes == before - reader.cache(2, 3, Full(3)).bytes == 0
    cache.grow(5)
    assert cache.bytes == reader.cache(3, 5, Full(3)).bytes
    found = reader.read(Prompts.of([[0, 1], [0], [1]]), cache, 3).logits
    for row, tokens in enumerate(([2, 1, 0, 1], [2, 0, 1, 0], [2, 1, 1])):
        alone = reader.read(Prompts.of([tokens]), reader.cache(1, 4, Full(3)), 3).logits[0]
        torch.testing.assert_close(found[row], alone, rtol=1e-12, atol=1e-12)


def test_virtual_layers_run_through_prelude_loops_and_coda():
    cache = LoopedCache(looped(BlockConformal(16, groups=2), layers=(1, 2, 1)), 1, 4, Budget(3))
    assert list(cache.prelude_layers()) == [0]
    assert [cache.first_core_layer(step) for step in range(5)] == [1, 3, 5, 1, 3]
    assert list(cache.coda_layers()) == [7]
    assert [Full(4).slot(step) for step in range(4)] == [0, 1, 2, 3]
    assert [LastLoop().slot(step) for step in range(4)] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Full(0), "steps must be at least 1, got 0"),
        (lambda: Budget(0), "slots must be at least 1, got 0"),
        (lambda: LoopedCache(looped(BlockConformal(16, 2)), 0, 4, LastLoop()), "batch must be at least 1, got 0"),
        (lambda: LoopedCache(looped(BlockConformal(16, 2)), 1, 0, LastLoop()), "capacity must be at least 1, got 0"),
        (lambda: LoopedCache(looped(BlockConformal(16, 2)), 1, 4, LastLoop()).reset([1]), r"0 .. 0, got 1"),
        (lambda: LoopedCache(looped(BlockConformal(16, 2)), 2, 4, LastLoop()).reset([1, 1]), "rows must be different"),
        (lambda: LoopedCache(looped(BlockConformal(16, 2)), 2, 4, LastLoop()).take([2]), r"0 .. 1, got 2"),
        (lambda: LoopedCache(looped(BlockConformal(16, 2)), 2, 4, LastLoop()).take([]), "batch must be at least 1"),
        (
            lambda: LoopedCache(looped(BlockConformal(16, 2)), 2, 4, LastLoop()).grow(3),
            "capacity must be at least what it is, 4, got 3",
        ),
    ],
)
def test_what_cannot_be_a_cache_is_refused(make, message):
    with refused(message):
        make()
