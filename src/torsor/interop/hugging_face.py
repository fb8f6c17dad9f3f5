"""Importing this module lets the Auto classes of transformers load exported models."""

from torsor.interop.missing import hugging_face_needed

with hugging_face_needed():
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification

    from torsor.interop.hugging_face_config import MODEL_TYPE, TorsorConfig
    from torsor.interop.hugging_face_model import TorsorForCausalLM, TorsorForTokenClassification

AutoConfig.register(MODEL_TYPE, TorsorConfig, exist_ok=True)
AutoModelForCausalLM.register(TorsorConfig, TorsorForCausalLM, exist_ok=True)
AutoModelForTokenClassification.register(TorsorConfig, TorsorForTokenClassification, exist_ok=True)
