from .looped_transformer import Coda as Coda
from .looped_transformer import LoopedTransformer as LoopedTransformer
from .looped_transformer import Prelude as Prelude
from .oracle import Oracle as Oracle
from .parcae import parcae_transformer as parcae_transformer
