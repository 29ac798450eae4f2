"""The short scenes of the demo: each a race of few processes, arranged so that it happens in every run.

`scene` says what a scene is made of and `stage` plays one; `relay` arranges that a process is paused (SIGSTOP) at its work
until another has taken over. The scenes: `pictures` (callback against poller), `slots` (deploy overlap), `jobs` (stale
worker). Each has its tables in an SQL file beside it; `page` shows them all.
"""

from raceproof.ops.demo.scenes.jobs import STALE_WORKER
from raceproof.ops.demo.scenes.pictures import CALLBACK_POLLER
from raceproof.ops.demo.scenes.scene import Scene
from raceproof.ops.demo.scenes.slots import DEPLOY_OVERLAP

SCENES = {scene.name: scene for scene in (CALLBACK_POLLER, DEPLOY_OVERLAP, STALE_WORKER)}

__all__ = ["SCENES", "Scene"]
