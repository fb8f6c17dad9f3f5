"""The harness of timings: intervals, what a spread hides, exponents, and that every case runs."""

import contextlib
import inspect
import io
import itertools
import json
import re

import numpy as np
import pytest
import torch
from scipy.stats import binom

from test_bench import LIMITS, run
from torsor.bench.catalogue import CASES
from torsor.bench.clock import take_turns
from torsor.bench.depth_sampling import ALL
from torsor.bench.depth_sampling import measure as depth_sampling
from torsor.bench.floors import measure as floors
from torsor.bench.harness import Case, compare, grown, growths
from torsor.bench.intervals import growth, interval_of_median
from torsor.bench.jobs import JOBS, find_job, group_transformer_training, looped_training, streaming_tracking
from torsor.bench.limits import Limits, cpu_name, measure_limits
from torsor.bench.looped import training_update, useful_flops, word_model
from torsor.bench.peak_memory import peak_bytes
from torsor.bench.products import Product
from torsor.bench.read_out import language_model, one_pass, passes
from torsor.bench.training_memory import measure as training_memory
from torsor.cli.bench_content import print_case, print_machine
from torsor.cli.bench_options import OPTIONS
from torsor.training.optimizer import adamw


def a_clock(*seconds):
    """A clock that shows each call of a case, in the order of the rounds, so many seconds; the warm-up first."""
    times = [0.0]
    for each in seconds:
        times += [times[-1], times[-1] + each]
    return iter(times[1:]).__next__


def rows_of(ours, reference, **options):
    """Rows of two cases that take turns, the clock showing these seconds; the warm-up takes 99."""
    seconds = [99.0, 99.0, *itertools.chain(*zip(reference, ours, strict=True))]
    calls = []
    cases = {
        "reference": Case(lambda: calls.append("A")),
        "ours": Case(lambda: calls.append("B"), operations=50, moved=20, items=8, unit="tokens", reference="reference"),
    }
    rows = compare(cases, LIMITS, len(ours), clock=a_clock(*seconds), **options)
    assert "".join(calls) == "AB" * (len(ours) + 1)
    return {row["case"]: row for row in rows}


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    generator = np.random.default_rng(0)
    for count in (5, 6, 12, 15, 30):
        found = [interval_of_median(generator.exponential(size=count).tolist()) for _ in range(400)]
        covered = np.mean([each.low <= np.log(2) <= each.high for each in found])
        assert covered == pytest.approx(found[0].coverage, abs=0.04)
        assert found[0].coverage >= (0.95 if count > 5 else 0.9)


def test_the_interval_of_a_median_is_the_narrowest_of_the_binomial_ones():
    for count in range(6, 40):
        found = interval_of_median(list(range(count)))
        inner = int(found.low) + 1
        assert found.middle == (count - 1) / 2
        assert found.high == count - 1 - found.low
        assert 1 - 2 * binom.cdf(inner, count, 0.5) < 0.95 <= found.coverage
    assert interval_of_median([3.0]).coverage == 0
    with pytest.raises(ValueError, match="at least one number, got none"):
        interval_of_median([])


def test_a_ratio_is_taken_round_by_round_and_the_warm_up_counts_for_nothing():
    drift = np.array([1.0, 5.0, 2.0, 9.0, 3.0, 7.0])  # the machine's, which falls on both alike
    rows = rows_of(list(2 * drift), list(6 * drift))
    assert rows["ours"]["times_as_fast"] == pytest.approx(3)
    assert rows["ours"]["ratio_interval"] == pytest.approx([3, 3])
    assert rows["ours"]["seconds"] == pytest.approx(8)
    assert rows["ours"]["seconds_interval"] == pytest.approx([2, 18])


def test_a_share_is_of_the_measured_limit():
    row = rows_of([4.0] * 6, [4.0] * 6)["ours"]
    assert row["share_of_peak"] == pytest.approx(50 / 4 / 100)
    assert row["share_of_bandwidth"] == pytest.approx(20 / 4 / 10)
    assert (row["per_second"], row["unit"]) == (2, "tokens")
    assert LIMITS.seconds(50, 20) == 2
    assert LIMITS.seconds(500, 20) == 5


def test_a_ratio_that_its_spread_hides_is_not_given():
    noisy = rows_of([1.0] * 6, [0.8, 1.0, 1.1, 1.0, 1.2, 1.3])["ours"]
    assert noisy["times_as_fast"] is None
    assert noisy["ratio_interval"] == pytest.approx([0.8, 1.3])
    assert rows_of([1.0] * 6, [0.8, 1.0, 1.1, 1.0, 1.2, 1.3], spread=2)["ours"]["times_as_fast"] == pytest.approx(1.05)
    quiet = rows_of([1.0] * 6, [1.0, 1.0, 1.1, 1.0, 1.2, 1.2])["ours"]
    assert quiet["times_as_fast"] == pytest.approx(1.05)


def test_a_ratio_of_few_rounds_is_not_given():
    assert rows_of([1.0] * 4, [2.0] * 4)["ours"]["times_as_fast"] is None
    assert rows_of([1.0] * 5, [2.0] * 5)["ours"]["times_as_fast"] == 2


def test_a_turn_is_the_mean_of_its_repeats():
    timings = take_turns({"a": lambda: None}, 2, repeats=4, clock=a_clock(99.0, 4.0, 8.0))
    assert timings.seconds["a"] == (1.0, 2.0)


def test_an_exponent_is_found_with_its_error():
    sizes = [8, 16, 32, 64, 128, 256]
    exact = growth(sizes, [3 * size**1.5 for size in sizes])
    assert exact.exponent == pytest.approx(1.5, abs=1e-12)
    assert exact.exponent_error < 1e-9
    noise = np.exp(0.05 * np.random.default_rng(0).standard_normal(6))
    noisy = growth(sizes, [3 * size**1.5 * each for size, each in zip(sizes, noise, strict=True)])
    assert 0.001 < noisy.exponent_error < 0.05
    assert abs(noisy.exponent - 1.5) < 3 * noisy.exponent_error
    line = growth(sizes, [7 + 2 * size for size in sizes])
    assert (line.slope, line.exponent < 1) == (pytest.approx(2), True)
    assert grown("time", "width", sizes, sizes)["exponent"] == pytest.approx(1)
    assert growths("time", "width", {size: size for size in sizes})[0]["exponent"] == pytest.approx(1)
    assert growths("time", "width", {1: 1, 2: 2, 3: 3, 4: 4}) == []
    flat = growth(sizes, [7] * 6)
    assert (flat.exponent, flat.exponent_error, flat.slope, flat.slope_error) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("sizes", "costs", "words"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], "at least 5 different ones"),
        ([1, 2, 3, 4, 4], [1, 2, 3, 4, 5], "at least 5 different ones"),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4], "4 costs"),
        ([1, 2, 3, 4, 5], [0, 2, 3, 4, 5], "must be positive, got 0"),
    ],
)
def test_an_exponent_is_refused_where_it_would_say_nothing(sizes, costs, words):
    with pytest.raises(ValueError, match=words):
        growth(sizes, costs)


def test_cases_that_cannot_be_compared_are_refused():
    for cases, options, words in (
        ({"a": Case(print, reference="b")}, {"rounds": 1}, "reference of 'a' must be one of"),
        ({"a": Case(print)}, {"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"a": Case(print)}, {"rounds": 1, "repeats": 0}, "repeats must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=words):
            compare(cases, LIMITS, **options)


def test_the_machine_is_named_and_its_limits_are_measured():
    limits = measure_limits(rounds=2, size=16, numbers=1024)
    assert limits.cpu == cpu_name() != ""
    assert limits.threads == torch.get_num_threads()
    assert min(limits.gemm, limits.bandwidth) > 0
    json.dumps(limits.to_json())
    with pytest.raises(ValueError, match="numbers must be at least 1, got 0"):
        measure_limits(numbers=0)


def test_useful_operations_are_linear_in_the_loops_and_a_third_of_them_outside_the_gradient():
    model = word_model(8)
    counts = [useful_flops(model, 2, 5, steps) for steps in (1, 2, 3)]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0
    loop = (counts[1] - counts[0]) // 6
    assert useful_flops(model, 2, 5, 9, grad_steps=4) == counts[0] + 3 * 6 * loop + 5 * 2 * loop
    assert useful_flops(model, 2, 5, 3, training=False) * 3 == counts[2]
    assert useful_flops(model, 2, 5, 3, grad_steps=8) == counts[2]


def test_both_forms_of_sampled_depth_take_the_same_draws_and_compaction_costs_fewer_operations():
    content = depth_sampling(LIMITS, rounds=1, widths=(8,), batch=3, length=4)
    reference, ours = content["rows"]
    assert reference["case"] == f"width 8, {ALL}" == ours["reference"]
    assert ours["operations"] == reference["operations"]  # those that are useful
    model = word_model(8, 4)
    largest = int(content["settings"]["largest of a batch, mean"])
    assert ours["operations"] < useful_flops(model, 3, 4, largest, 4)


def test_one_pass_reads_out_what_a_pass_for_each_depth_does():
    model = language_model(8, 16).eval()
    tokens = torch.randint(16, (2, 5))
    torch.testing.assert_close(one_pass(model, tokens, (1, 3)), passes(model, tokens, (1, 3)), rtol=0, atol=1e-12)


def test_the_language_model_has_the_60m_preset_s_parameters():
    with torch.device("meta"):
        assert sum(p.numel() for p in language_model().parameters()) == pytest.approx(60.3e6, rel=1e-3)


def test_memory_of_training_grows_with_the_loops_in_the_gradient_and_hardly_with_those_executed():
    gradients, executed = (1, 2, 4, 8, 16), (4, 8, 16, 32, 64)
    content = training_memory(LIMITS, 1, 16, 4, 8, gradients=gradients, executed=executed)
    slopes = {row["over"]: row["slope"] for row in content["growth"] if row["what"] == "memory"}
    assert slopes["loops in the gradient"] > 50 * abs(slopes["loops executed"])
    exponents = {row["over"]: row["exponent"] for row in content["growth"] if row["what"] == "memory"}
    assert abs(exponents["loops executed"]) < 0.02


def test_a_step_whose_gradient_passes_all_loops_holds_more_than_one_that_does_not():
    held = []
    for grad_steps in (2, None):
        model = word_model(8, grad_steps)
        held.append(peak_bytes(training_update(model, adamw(model, 1e-3), 4, 8, lambda _: 12), model.parameters()))
    assert held[1] > 2 * held[0]


def test_the_floors_of_the_jobs_follow_from_their_sizes():
    looped = looped_training(8, 2, 3, 4)
    assert looped.operations == useful_flops(word_model(8), 2, 3, 4)
    assert looped.parts[-1].moved == 2 * 4 * (2 * 3) * 8 * 4
    group = group_transformer_training(4, 2, 3)
    assert group.tokens == 6
    by_name = {part.name: part for part in group.parts}
    # 3 passes, 2 layers, 6 tokens: two exponentials of three products and one to move, each of 2 * 4^3 operations
    assert by_name["exponentials and moves"].operations == 3 * 2 * 6 * 2 * 4 * 128
    assert by_name["mixings"].operations == 3 * 2 * 6 * 2 * 2 * 6**2
    assert by_name["causal scores and means"].operations == 3 * 2 * (2 * 2 * 16 * 2 * 6)
    streaming = streaming_tracking(2, 5, 4, 4)
    assert streaming.operations == 12 * (2 * 4 * 16 + 2 * 4 * 60)
    assert streaming.moved == 12 * (2 * 8 + 2 * 4 * 60)
    assert 0 <= streaming.call() <= 10
    with pytest.raises(ValueError, match="there is no job 'x'; there are: looped, osmformer, streaming"):
        find_job("x")
    assert set(JOBS) == {"looped", "osmformer", "streaming"}


def test_a_product_and_those_of_its_gradient_have_equal_operations_and_its_call_computes_it():
    product = Product(2, 3, 5, batch=4)
    assert product.operations == 2 * 4 * 2 * 3 * 5
    assert product.backwards() == (product, Product(2, 5, 3, 4), Product(3, 2, 5, 4))
    assert {each.operations for each in product.backwards()} == {product.operations}
    assert torch.equal(product.make()(), torch.full((4, 2, 5), 3.0, dtype=torch.float32))
    assert torch.equal(Product(2, 3, 5).make()(), torch.full((2, 5), 3.0, dtype=torch.float32))


def test_the_reach_of_a_job_is_its_operations_at_the_rates_of_its_own_products(monkeypatch):
    torch.set_default_dtype(torch.float32)
    rates = {}

    def at_known_rates(products, rounds):
        return rates.setdefault("known", {each: 1e6 * (1 + each.inner) for each in products})

    monkeypatch.setattr("torsor.bench.floors._rates", at_known_rates)
    sizes = {"looped": {"width": 8, "batch": 2, "length": 3, "steps": 2}}
    sizes |= {"osmformer": {"width": 3, "batch": 2, "context": 3}}
    sizes |= {"streaming": {"words": 2, "length": 8, "hidden": 4, "chunk": 4}}
    content = floors(LIMITS, 1, sizes)
    row = content["rows"][2]
    own = streaming_tracking(**sizes["streaming"])
    assert row["reach_seconds"] == pytest.approx(own.operations / 5e6)
    assert row["over_reach"] == pytest.approx(row["seconds"] / row["reach_seconds"])
    named = {part["name"]: part for part in content["parts"] if part["case"] == "osmformer"}
    assert named["relative elements"]["rate_of_peak"] == pytest.approx(4e6 / LIMITS.gemm)
    # equal operations at 4, 4 and 7 million in a second: the tangents of O(3) have 3 numbers, six tokens are read
    assert named["mixings"]["reach_seconds"] == pytest.approx(named["mixings"]["operations"] / 3 * (2 / 4e6 + 1 / 7e6))
    assert "reach_seconds" not in named["parameters, gradients and moments"]


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory):
    """What a quick run of all cases prints and writes, and its folder."""
    folder, printed = tmp_path_factory.mktemp("bench"), io.StringIO()
    torch.set_default_dtype(torch.float32)
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        assert run("bench all --quick --threads 1 --out found.json") == 0
    return printed.getvalue(), json.loads((folder / "found.json").read_text()), folder


def test_every_case_runs_and_all_of_it_is_one_json(all_cases, capsys):
    printed, content, folder = all_cases
    assert (content["format"], content["quick"], content["machine"]["threads"]) == (2, True, 1)
    assert list(content["cases"]) == list(CASES)
    for words in ("spread hides it", "exponent", *CASES):
        assert words in printed
    for words in ("matrix peak", "GFLOP/s", "of bandwidth", "of floor", "of reach"):  # sizes do not reach them
        assert words not in printed
    print_machine(content["machine"])
    for name in CASES:
        print_case(name, content["cases"][name])
    printed = capsys.readouterr().out
    for words in ("matrix peak", "bandwidth", "of floor"):
        assert words in printed
    assert [each.name for each in folder.iterdir()] == ["found.json"]  # nothing else is left behind


@pytest.mark.parametrize("name", CASES)
def test_rows_of_every_case_are_the_harness_s_and_of_less_than_five_rounds_no_ratio_is_printed(name, all_cases, capsys):
    content = all_cases[1]["cases"][name]
    assert content["rows"]
    for row in content["rows"]:
        low, high = row["seconds_interval"]
        assert 0 < low <= row["seconds"] <= high
        assert ("reference" in row) == ("times_as_fast" in row)
        assert row.get("times_as_fast") is None
    print_case(name, content)
    ratios = sum("reference" in row for row in content["rows"]) + len(content.get("stalls", []))
    assert capsys.readouterr().out.count("spread hides it") == ratios


def test_the_options_of_a_command_are_arguments_of_its_case_with_the_same_defaults():
    for name, options in OPTIONS.items():
        arguments = inspect.signature(CASES[name].find()).parameters
        for option, said in inspect.signature(options).parameters.items():
            if option != "threads":
                assert said.default == arguments[option].default, f"{name} --{option}"


def test_what_is_typed_goes_before_the_sizes_of_a_quick_run(capsys):
    assert run("bench linear-scan --quick --length 6 --head-dim 4 --threads 1 --json") == 0
    settings = json.loads(capsys.readouterr().out)["cases"]["linear-scan"]["settings"]
    assert settings == {"batch": 1, "length": 6, "heads": 1, "head_dim": 4}


def test_a_quick_start_tells_its_time_and_no_limit_that_it_has_not_measured(monkeypatch, capsys):
    limits = Limits("a processor", 2, 1, "2", gemm=1e7, bandwidth=1e6)  # as they come out where others are busy
    monkeypatch.setattr("torsor.bench.session.measure_limits", lambda *_: limits)
    assert run("bench start --quick --threads 1") == 0
    machine, empty, name, heads, row = (line.strip() for line in capsys.readouterr().out.splitlines())
    assert machine == (
        "a processor, 2 cores, 1 threads, torch 2: its limits are not told, since --quick's sizes do not reach them"
    )
    assert (empty, name.partition(":")[0], heads.split()) == ("", "start", ["case", "median"])
    seconds = re.fullmatch(r"import torsor  ([\d.]+) m?s", row)
    assert seconds, row
    assert float(seconds[1]) > 0
    print_machine(limits.to_json() | {"gemm": 9e10, "bandwidth": 2e10})
    assert capsys.readouterr().out.endswith(": matrix peak 90 GFLOP/s, bandwidth 20.0 GB/s\n")


@pytest.mark.parametrize("command", ["all", "start", "profile looped"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path, monkeypatch, capsys, command):
    def measured(*_):
        raise AssertionError("something was measured")

    monkeypatch.setattr("torsor.bench.session.measure_limits", measured)
    monkeypatch.setattr("torsor.bench.profile_of_job.table_of", measured)
    for place in (tmp_path, tmp_path / "no" / "found.json"):
        assert run(f"bench {command} --threads 1 --out {place}") == 2
        assert capsys.readouterr().err.startswith(f"torsor: cannot write {place}: ")
    assert list(tmp_path.iterdir()) == []


def test_without_a_name_the_cases_are_listed(capsys):
    assert run("bench") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in CASES)


def test_a_case_has_a_command_of_its_own(capsys):
    torch.set_default_dtype(torch.float32)
    assert run("bench conformal-growth --quick --threads 1 --json") == 0
    content = json.loads(capsys.readouterr().out)
    assert list(content["cases"]) == ["conformal-growth"]
    assert {row["over"] for row in content["cases"]["conformal-growth"]["growth"]} == {"width"}


def test_a_profile_is_text_that_goes_to_a_file(tmp_path, monkeypatch, capsys):
    torch.set_default_dtype(torch.float32)
    small = {"looped": lambda: looped_training(8, 2, 3, 2)}
    monkeypatch.setattr("torsor.bench.jobs.JOBS", small)
    out = tmp_path / "profile.txt"
    assert run(f"bench profile looped --calls 1 --rows 3 --threads 1 --out {out}") == 0
    assert "Self CPU" in out.read_text()
    assert out.read_text().startswith("looped: width 8, batch 2, length 3, 2 loops")
    assert out.read_text() in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("nothing", "nothing"),
        ("all nothing", "there is no case 'nothing'; there are: looped, "),
        ("all start --rounds 0", "rounds must be at least 1, got 0"),
        ("start --threads 0", "threads must be at least 1, got 0"),
        ("profile nothing", "there is no job 'nothing'; there are: looped, osmformer, streaming"),
        ("start --quick --out no/such/folder.json", "cannot write no/such/folder.json"),
    ],
)
def test_what_cannot_be_timed_is_one_line(arguments, words, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(f"bench {arguments}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
