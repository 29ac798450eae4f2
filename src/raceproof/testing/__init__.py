"""What the tests of raceproof stand on, and those of applications built on it: real servers, and faults on demand.

Nothing here is for production: the servers come from third-party rebuilds and trust every local connection.
"""

from raceproof.testing.binaries import ServerMissing
from raceproof.testing.explorer import (
    Connection,
    Effect,
    EffectRefused,
    EffectUnknown,
    ExplorationFailed,
    Explorer,
    Limits,
    Moment,
    StoreUnreachable,
    Verdict,
    World,
    explore,
    explored,
)
from raceproof.testing.proxy import Proxy
from raceproof.testing.servers import (
    MqttServer,
    PostgresServer,
    Server,
    ServerFailed,
    ValkeyServer,
    mqtt,
    postgres,
    valkey,
)

__all__ = [
    "Connection",
    "Effect",
    "EffectRefused",
    "EffectUnknown",
    "ExplorationFailed",
    "Explorer",
    "Limits",
    "Moment",
    "MqttServer",
    "PostgresServer",
    "Proxy",
    "Server",
    "ServerFailed",
    "ServerMissing",
    "StoreUnreachable",
    "ValkeyServer",
    "Verdict",
    "World",
    "explore",
    "explored",
    "mqtt",
    "postgres",
    "valkey",
]
