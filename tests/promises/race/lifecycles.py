"""The lifecycles of the notes, as far as their statuses go: the ones that every pair of moves is raced on."""

from typing import Any

_OPEN = ["QUEUED", "SENT", "ACK"]

COMMAND: dict[str, Any] = {
    "name": "Command",
    "statuses": [
        *_OPEN,
        *("DONE", "NO_EFFECT", "ERROR", "INVALID", "BUSY", "TIMEOUT", "SEND_FAILED"),
    ],
    "moves": {
        "send": {"from": ["QUEUED", "SEND_FAILED"], "to": "SENT"},
        "ack": {"from": ["QUEUED", "SENT"], "to": "ACK"},
        "done": {"from": _OPEN, "to": "DONE"},
        "no_effect": {"from": _OPEN, "to": "NO_EFFECT"},
        "failed": {"from": _OPEN, "to": "ERROR"},
        "invalid": {"from": _OPEN, "to": "INVALID"},
        "busy": {"from": _OPEN, "to": "BUSY"},
        "timeout": {"from": _OPEN, "to": "TIMEOUT"},
        "send_failed": {"from": ["QUEUED"], "to": "SEND_FAILED"},
    },
}

GENERATION: dict[str, Any] = {
    "name": "Generation",
    "statuses": ["held", "waiting", "generating", "success", "delivered", "failed", "refunded"],
    "moves": {
        "submit": {"from": ["held"], "to": "waiting"},
        "generate": {"from": ["waiting"], "to": "generating"},
        "succeed": {"from": ["waiting", "generating"], "to": "success"},
        "deliver": {"from": ["success"], "to": "delivered"},
        "fail": {"from": ["held", "waiting", "generating", "success"], "to": "failed"},
        "refund": {"from": ["failed"], "to": "refunded"},
    },
}

DISCOVERY: dict[str, Any] = {
    "name": "Discovery",
    "statuses": ["pending", "in_progress", "completed", "failed"],
    "moves": {
        "begin": {"from": ["pending", "failed"], "to": "in_progress"},
        "complete": {"from": ["in_progress"], "to": "completed"},
        "fail": {"from": ["in_progress"], "to": "failed"},
        "put_back": {"from": ["in_progress"], "to": "pending"},
    },
}

_TRYING = ["pending", "qr_rendered", "scanned", "authorized", "session_saved"]

ATTEMPT: dict[str, Any] = {
    "name": "Attempt",
    "statuses": [*_TRYING, "done", "expired", "failed", "superseded"],
    "moves": {
        "render": {"from": ["pending"], "to": "qr_rendered"},
        "scan": {"from": ["qr_rendered"], "to": "scanned"},
        "authorize": {"from": ["scanned"], "to": "authorized"},
        "save": {"from": ["authorized"], "to": "session_saved"},
        "finish": {"from": ["session_saved"], "to": "done"},
        "expire": {"from": ["pending"], "to": "expired"},
        "fail": {"from": _TRYING, "to": "failed"},
        "supersede": {"from": _TRYING, "to": "superseded"},
    },
}

ALL = (COMMAND, GENERATION, DISCOVERY, ATTEMPT)
