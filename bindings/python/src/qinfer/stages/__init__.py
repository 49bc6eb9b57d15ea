"""A model in stages on several machines: servers of ranges of layers, and the head that sends tokens through them.

`python -m qinfer.stages MODEL --layers 0:14 --port 7000 --key-file key` is a stage; docs/stages.md says more."""

from ._frames import BrokenConnectionError
from ._link import StageError
from ._pipeline import Pipeline
from ._server import StageServer
from ._session import PipelineSession
from ._split import split

__all__ = ["BrokenConnectionError", "Pipeline", "PipelineSession", "StageError", "StageServer", "split"]
