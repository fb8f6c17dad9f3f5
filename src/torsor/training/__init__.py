"""Training: how parameters move, and the folder that a run leaves behind."""

# Eager, unlike most faces: `train` is also a file's name, and a lazy face would hand out the file.
from torsor.training.checkpoint import CheckpointDigest
from torsor.training.curriculum import Curriculum, CurriculumState, LengthCurriculum, WholeSequence
from torsor.training.durable import RunFolderError
from torsor.training.engine import Engine, SingleProcess
from torsor.training.muon import muon
from torsor.training.optimizer import adamw, decays, parameter_groups
from torsor.training.plan import Plan
from torsor.training.record import Record
from torsor.training.run_description import RunDescription, read_run
from torsor.training.run_folder import RunFolder, default_path
from torsor.training.schedule import Schedule
from torsor.training.state import TrainState
from torsor.training.train import NonFiniteLoss, train
from torsor.training.trained_weights import load_weights

__all__ = [
    "CheckpointDigest",
    "Curriculum",
    "CurriculumState",
    "Engine",
    "LengthCurriculum",
    "NonFiniteLoss",
    "Plan",
    "Record",
    "RunDescription",
    "RunFolder",
    "RunFolderError",
    "Schedule",
    "SingleProcess",
    "TrainState",
    "WholeSequence",
    "adamw",
    "decays",
    "default_path",
    "load_weights",
    "muon",
    "parameter_groups",
    "read_run",
    "train",
]
