"""Text written by a model, one character at a time."""

from __future__ import annotations

import torch

from eddyscope.errors import UsageError
from eddyscope.models.gpt import GPT


@torch.inference_mode()
def sample(model: GPT, length: int = 500, *, prompt: str = "\n", temperature: float = 0.8, seed: int = 0) -> str:
    """Return text that a model writes after a prompt.

    Parameters
    ----------
    model : GPT
        With a vocabulary.
    length : int
        Number of characters to write.
    prompt : str
        Text to go on from, not part of the result; characters outside the vocabulary are replaced.
    temperature : float
        Divides the logits; 0 takes the most likely character.
    seed : int
        Seed of the draws.

    Returns
    -------
    str
        ``length`` characters. The model sees the last ``context`` characters at each step. The published gates
        normalise over the whole sequence, so their earlier attention changes as the text grows; each step is computed
        afresh, as in training.

    Raises
    ------
    UsageError
        For a negative length or temperature, or an empty prompt.
    """
    if length < 0 or temperature < 0:
        raise UsageError(f"length is {length} and temperature {temperature}; expected 0 or more.")
    if not prompt:
        raise UsageError("The prompt is empty; expected at least one character.", "Use a line break to start afresh.")
    device = model.tokens.weight.device
    was_training = model.training
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    ids = model.encode(prompt)
    for _ in range(length):
        window = torch.tensor([ids[-model.config.context :]], device=device)
        logits = model(window)[0, -1].cpu()
        if temperature == 0:
            ids.append(int(logits.argmax()))
        else:
            chances = (logits.double() / temperature).softmax(-1)
            ids.append(int(torch.multinomial(chances, 1, generator=generator)))
    model.train(was_training)
    return model.decode(ids[len(ids) - length :])
