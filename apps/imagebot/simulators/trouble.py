"""What goes wrong, as shares of all requests; nothing unless it is asked for."""

import random
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Trouble:
    """Each is a share between 0 and 1."""

    too_many: float = 0.0
    """Requests that are answered with 429."""
    vanish: float = 0.0
    """Requests that are acted on and never answered: the connection ends."""
    refuse_urls: float = 0.0
    """Pictures that Telegram cannot fetch by their address."""
    duplicate: float = 0.0
    """Updates and callbacks that come twice."""
    late: float = 0.0
    """Callbacks that come long after the task has ended."""
    lost: float = 0.0
    """Callbacks that never come."""
    fail: float = 0.0
    """Tasks that fail."""

    @classmethod
    def parsed(cls, text: str) -> "Trouble":
        """`duplicate=0.3,fail=0.02`, or `storm`."""
        if text == "storm":
            return STORM
        known = {one.name for one in fields(cls)}
        told: dict[str, float] = {}
        for part in filter(None, (one.strip() for one in text.split(","))):
            name, _, share = part.partition("=")
            if name not in known:
                raise ValueError(f"unknown trouble {name!r}; choose from {', '.join(sorted(known))}")
            told[name] = float(share or 1)
            if not 0 <= told[name] <= 1:
                raise ValueError(f"{name} is a share between 0 and 1")
        return replace(cls(), **told)

    def strikes(self, name: str) -> bool:
        """Whether it happens this time."""
        share: float = getattr(self, name)
        return share > 0 and random.random() < share


STORM = Trouble(too_many=0.02, vanish=0.01, refuse_urls=0.05, duplicate=0.3, late=0.05, lost=0.1, fail=0.03)
