"""The signature of KIE's callbacks: base64(HMAC-SHA256(key, taskId + "." + timestamp)).

It covers the task's id and the time, and nothing else of the body. So the body must be read for the id before it can be
verified, and nothing else in it can be trusted: ask recordInfo.
"""

from raceproof.webhooks import BadJson, Hmac, Secret, parse


def kie_signature(*keys: Secret) -> Hmac:
    """The scheme of `X-Webhook-Signature` and `X-Webhook-Timestamp`; several keys while one is replaced by another."""
    return Hmac(
        *keys,
        header="X-Webhook-Signature",
        encoding="base64",
        timestamp_header="X-Webhook-Timestamp",
        signed=_task_and_time,
    )


def task_id(body: object) -> str | None:
    """The id of the task, under either of its names; of two that differ, one could be signed and the other one used."""
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, dict):
        return None
    ids = [data[name] for name in ("taskId", "task_id") if name in data]
    if not ids or not isinstance(ids[0], str) or ids[-1] != ids[0]:
        return None
    return ids[0] or None


def _task_and_time(body: bytes, timestamp: str) -> bytes | None:
    try:
        task = task_id(parse(body))
    except BadJson:
        return None
    return f"{task}.{timestamp}".encode() if task else None
