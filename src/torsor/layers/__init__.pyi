from .attention import Attention as Attention
from .block import Block as Block
from .block import Stack as Stack
from .feedforward import FeedForward as FeedForward
from .norm import RMSNorm as RMSNorm
from .value_gate import ValueGate as ValueGate
