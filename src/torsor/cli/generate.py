"""``torsor generate``: text from a trained character model, as it is drawn."""

from pathlib import Path

from torsor.cli.whole import MaybeWhole, Whole


def generate(
    run: Path | None = None,
    /,
    *,
    prompt: str = "\n",
    characters: Whole = 500,
    temperature: float = 1.0,
    top: MaybeWhole = None,
    seed: Whole = 0,
    threads: MaybeWhole = None,
) -> None:
    """Continue a prompt with the model of a run, character by character.

    Args:
        run: run folder of a character model; the run may be going on.
        prompt: what is read first.
        characters: how many to draw.
        temperature: of the draws; 0 takes the most probable character.
        top: draw among so many most probable characters; all by default.
        seed: of the draws.
        threads: threads of PyTorch; those of the machine by default.

    Raises:
        ValueError: when no run is named.
    """
    if run is None:
        raise ValueError("name a run folder: torsor generate RUN")
    from torsor.experiments.generated_text import generated_text
    from torsor.experiments.machine import prepare_machine
    from torsor.generation import Sampling

    prepare_machine(threads, run)
    drawn = generated_text(run, prompt, characters, Sampling(temperature, top), seed)
    print(prompt, end="", flush=True)
    for character in drawn:
        print(character, end="", flush=True)
    print()
