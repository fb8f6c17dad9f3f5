"""A sample of what a trained model of texts writes, for whoever looks at its run."""

from typing import Any

from torsor.experiments.generated_text import Loops, generated_text
from torsor.experiments.listening import tell
from torsor.experiments.study import Study
from torsor.experiments.text_model import model_of_texts
from torsor.generation import Full, Sampling

FORMAT = 1
PROMPT_TOKENS, TOKENS, TEMPERATURE = 32, 300, 1.0


def text_sample(study: Study, arguments: dict[str, Any]) -> dict[str, Any]:
    """Continue the beginning of the held-out text, drawn by the run's seed: equal weights give an equal sample.

    Args:
        study: of a model of texts on the CPU, its weights trained.
        arguments: of its experiment.

    Returns:
        What ``generated.json`` holds: the prompt, the text, and how it was drawn. A model whose logits are not finite
        on the way leaves what it wrote before, and says so under "ended".
    """
    was_training = study.model.training
    text = model_of_texts(study, arguments)
    prompt = text.decode(study.task.evaluation(1).tokens[0, :PROMPT_TOKENS].tolist())
    loops = Loops(text.trained_steps, Full(text.trained_steps)) if text.trained_steps else None
    pieces, ended = [], None
    try:
        for piece in generated_text(text, prompt, TOKENS, Sampling(TEMPERATURE), study.seed, loops):
            pieces.append(piece)
            tell("writing a sample", len(pieces), TOKENS)
    except ArithmeticError as error:
        ended = str(error)
    finally:
        study.model.train(was_training)
    return {
        "format": FORMAT,
        "prompt": prompt,
        "text": "".join(pieces),
        "tokens": TOKENS,
        "temperature": TEMPERATURE,
        "seed": study.seed,
        "steps": text.trained_steps or None,
        "ended": ended,
    }
