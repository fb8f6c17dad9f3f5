from .continuations import Continuations as Continuations
from .continuations import for_lm_eval as for_lm_eval
from .hugging_face_folder import from_hugging_face as from_hugging_face
from .hugging_face_folder import to_hugging_face as to_hugging_face
from .hugging_face_tokenizer import PlainCharacters as PlainCharacters
from .seeded_draws import SeededDraws as SeededDraws
