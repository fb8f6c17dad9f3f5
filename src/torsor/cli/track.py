"""``torsor track``: what a model has really learnt about a group."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

from torsor.cli.run_folder import require_run
from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole
from torsor.experiments.group_names import require_group

LENGTHS = (16, 32, 64, 256, 1024)  # of a model whose trained length nobody has said


def _whole_numbers(_: Any, tokens: Sequence[Token]) -> tuple[int, ...]:
    found = []
    for part in (part for token in tokens for part in token.value.split(",")):
        try:
            found.append(int(part))
        except ValueError:
            raise ValueError(f"unable to convert {part!r} into a whole number") from None
    return tuple(found)


def track(
    run: Path | None = None,
    /,
    *,
    model: str | None = None,
    group: str | None = None,
    alphabet: Literal["generators", "all"] | None = None,
    lengths: Annotated[
        tuple[int, ...], Parameter(converter=_whole_numbers, consume_multiple=True, negative=(), show_default=False)
    ] = (),
    stream: MaybeWhole = None,
    words: Whole = 500,
    seed: MaybeWhole = None,
    out: Path | None = None,
    device: str = "cpu",
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
) -> None:
    """Examine a run's model, or one of your own, on the words of a group, to a million letters.

    Args:
        run: run folder of a word problem, which names group, alphabet and trained length; the run may be going on.
        model: your own model in its place, pkg.module:factory; it gives tokens -> logits, or has step(tokens, state).
        group: the finite group of your own model: S3, A5, S5, D4, C6, S3xS3, ...
        alphabet: its letters: the standard generators, the default, or all elements.
        lengths: letters of a word; 1, 2, 4, 16 and 64 times the trained length, or of 16, by default.
        stream: letters of each word that is read on to its first error; 1048576 where there is a state, 0 for none.
        words: how many of each length; of those that are read on, as many but at most 100.
        seed: of the words; for a run, by default, that of its own evaluation.
        out: folder for tracking.json and its tables; the run's own by default.
        device: where the model is asked: cpu, cuda or cuda:N; auto takes the first GPU if there is one.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.

    Raises:
        ValueError: when nothing is named or both are, an argument is wrong, or a file in the folder is another's.
    """
    if (run is None) == (model is None):
        raise ValueError(
            "name a run folder, torsor track RUN, or your own model, torsor track --model pkg.module:factory"
        )
    if run is not None and not run.exists() and re.fullmatch(r"[\w.]+:[\w.]+", str(run)):
        own = f"torsor track --model {run} --group {group or 'S5'}"
        raise ValueError(f"{run} is no run folder; a model of your own is named so: {own}")
    if run is not None and (group is not None or alphabet is not None):
        raise ValueError(f"{run} names its group and its alphabet: leave --group and --alphabet out")
    if run is None and group is None:
        raise ValueError("name the group of your model: --group S5")
    if run is None:
        require_group(str(group))
    else:
        require_run(run)
    from torsor.cli.track_table import print_tracked
    from torsor.cli.train import typed_command
    from torsor.cli.work_left import shown_work
    from torsor.experiments.examined_run import examined_run
    from torsor.experiments.machine import find_device, prepare_machine
    from torsor.experiments.model_factory import examined_model
    from torsor.experiments.results_folder import require_own_results, save_tracked
    from torsor.tracking.tracked import portions
    from torsor.tracking.tracked import track as examine

    prepare_machine(threads, run or Path())
    folder = out or run
    if folder is not None:
        require_own_results(folder)  # before the work
    chosen = find_device(device)
    if run is not None:
        examined = examined_run(run, seed, chosen)
    else:
        lengths = lengths or LENGTHS
        examined = examined_model(str(model), str(group), alphabet or "generators", lengths[0], seed or 0)
    suite, streamed = examined.suite(words, lengths), examined.stream(words, stream)
    with shown_work(portions(examined.subject, suite, streamed), str(run or model)) as watch:
        tracked = examine(examined.subject, suite, streamed, device=chosen, watch=watch)
    saved = None if folder is None else save_tracked(tracked, folder, typed_command())
    if as_json:
        print(json.dumps(tracked.to_json()))
        return
    print_tracked(tracked)
    if saved is None:
        print("\nno file was written; --out FOLDER keeps this, and torsor report FOLDER makes a page of it")
    else:
        print(f"\nfiles:        {saved} and its tables\na page of it: torsor report {folder}")
