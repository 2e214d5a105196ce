"""The names and sizes of the models of the study; needs no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from eddyscope.errors import UsageError

PUBLISHED_GATES = ("ega-1", "ega-2", "ega-4", "ega-c")
CAUSAL_GATES = tuple(f"{name}-causal" for name in PUBLISHED_GATES)
VARIANTS = ("base", *PUBLISHED_GATES, *CAUSAL_GATES)

BUNDLED = Path(__file__).parent / "weights"


def names() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/config.json"))


@dataclass(frozen=True)
class GPTConfig:
    """Everything that fixes the architecture of a :class:`~eddyscope.models.gpt.GPT`.

    Parameters
    ----------
    variant : str
        ``base`` or the name of an energy gate, one of :data:`VARIANTS`.
    vocab_size : int
        Number of distinct characters.
    context : int
        Longest sequence, in tokens (characters).
    layers, heads, width : int
        Number of blocks, heads of each, and width of the residual stream; the width is a multiple of the heads.
    dropout : float
        Probability of dropping an entry, in training only.

    Raises
    ------
    UsageError
        For an unknown variant or sizes that do not fit together.
    """

    variant: str = "base"
    vocab_size: int = 65
    context: int = 256
    layers: int = 6
    heads: int = 8
    width: int = 256
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise UsageError(
                f"Unknown model variant '{self.variant}'; expected one of {', '.join(VARIANTS)}.",
                "Choose one of these names.",
            )
        for name in ("vocab_size", "context", "layers", "heads", "width"):
            value = getattr(self, name)
            if type(value) is bool or not isinstance(value, Integral) or value < 1:
                raise UsageError(f"The model's {name} is {value!r:.40}; expected a whole number of at least 1.")
        if self.width % self.heads:
            raise UsageError(
                f"The model's width {self.width} is not a multiple of its {self.heads} heads.",
                "Choose a width that the number of heads divides.",
            )
        if not 0.0 <= self.dropout < 1.0:
            raise UsageError(f"The model's dropout is {self.dropout}; expected at least 0 and below 1.")

    @property
    def sees_later_tokens(self) -> bool:
        """Whether the attention of a token depends on tokens after it.

        True for the published gates, which normalise energies over the whole sequence; False for ``base`` and the
        causal forms. A causality check is expected to fail where this is True.
        """
        return self.variant in PUBLISHED_GATES

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary that JSON can hold."""
        return asdict(self)
