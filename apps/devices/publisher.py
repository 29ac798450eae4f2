"""The connection on which commands are published, and what is known when a publish does not come back."""

import asyncio
from typing import Any

import aiomqtt

from appkit.loops import Loop
from raceproof.deliveries import NotSent


class NoAcknowledgement(Exception):
    """The broker has not said that it has the message: it may have it or not."""


class Publisher:
    """Keeps one connection to the broker; publishes at QoS 1."""

    def __init__(self, options: dict[str, Any], identifier: str, seconds: float) -> None:
        self._options = options
        self._identifier = identifier
        self._seconds = seconds
        self._client: aiomqtt.Client | None = None

    @property
    def connected(self) -> bool:
        return self._client is not None

    async def run(self, loop: Loop) -> None:
        """Stay connected; raises when the connection breaks, so that the caller starts it again."""
        client = aiomqtt.Client(
            **self._options,
            identifier=self._identifier,
            clean_session=True,
            max_inflight_messages=1000,
            keepalive=15,
        )
        client.pending_calls_threshold = 10_000
        async with client:
            self._client = client
            try:
                async with asyncio.TaskGroup() as group:
                    beating = group.create_task(loop.beating())
                    async for _ in client.messages:  # there are none: this ends when the connection does
                        pass
                    beating.cancel()
            finally:
                self._client = None

    async def publish(self, topic: str, payload: bytes) -> None:
        """Returns when the broker has it. `NotSent` if it was never given to the broker."""
        client = self._client
        if client is None:
            raise NotSent("there is no connection to the broker")
        try:
            await client.publish(topic, payload, qos=1, timeout=self._seconds)
        except aiomqtt.MqttCodeError as error:
            raise NotSent(f"the message was not taken: {error}") from error
        except aiomqtt.MqttError as error:
            raise NoAcknowledgement(f"no PUBACK: {error}") from error
