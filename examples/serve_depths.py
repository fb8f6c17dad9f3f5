"""Answer requests of different depths in one batch: every turn applies the core once, to each at its own loop."""

import argparse

from torsor.generation import Generator, LastLoop, Request, Sampling
from torsor.models import parcae_transformer
from torsor.text import CharacterTokenizer
from torsor.transitions import BlockConformal

TEXTS = {1: "a quick answer", 4: "a longer thought", 8: "the deepest one"}


def main(tokens: int) -> None:
    """Serve three texts, each at a depth of its own, and one more that comes while they run."""
    tokenizer = CharacterTokenizer(" abcdefghijklmnopqrstuvwxyz")
    # an untrained model stands in: torsor.experiments.run.load("runs/...").model is a trained one
    model = parcae_transformer(BlockConformal(dim=64, groups=2), vocabulary=tokenizer.vocabulary, heads=4)
    generator = Generator(model, rows=3, capacity=64, policy=LastLoop())
    print(f"{generator.bytes / 1e6:.1f} MB for weights and cache, from now on")

    def ask(text, steps):
        prompt = [tokenizer.begin, *tokenizer.encode(text)]
        sampling = Sampling(temperature=0.8, nucleus=0.95)
        return generator.submit(Request(prompt, tokens, steps, sampling=sampling, seed=steps))

    answers = {steps: ask(text, steps) for steps, text in TEXTS.items()}
    turns = 0
    while generator.turn():  # a server would have a thread do this, or let whoever waits for an answer do it
        turns += 1
        for steps, answer in list(answers.items()):
            if answer.ended:
                print(f"turn {turns}: {steps} loops, {TEXTS[steps]!r} -> {tokenizer.decode(list(answer))!r}")
                del answers[steps]
        if turns == tokens:  # the shallow one has ended, and its place is free for another
            TEXTS[2] = "one that came late"
            answers[2] = ask(TEXTS[2], 2)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokens", type=int, default=20)
    main(arguments.parse_args().tokens)
