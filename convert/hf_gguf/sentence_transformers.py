"""sentence-transformers folders: modules.json says how token vectors become one embedding."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .checkpoint import Tensor, open_checkpoint
from .errors import ConvertError, read_json, read_json_if, shown

MODES = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "mean_sqrt_len_tokens": "mean_sqrt_len", "lasttoken": "last"}
DENSE_ACTIVATIONS = {"Tanh": "tanh", "Identity": "", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}
POOLING_TYPES = {"mean": 1, "cls": 2, "last": 3}      # bert.pooling_type has no number for the others


@dataclass
class Embedding:
    pooling: str = ""
    normalize: bool = False
    max_length: int = 0        # texts are cut here, in tokens; 0: not said
    prompts: dict = field(default_factory=dict)    # name -> text that is put before every text
    default_prompt: str = ""   # its name; "": none
    dense: list = field(default_factory=list)      # Dense of each dense layer behind the pooling


@dataclass
class Dense:
    activation: str            # ours; "": none
    weight: Tensor
    bias: Tensor | None


def read_modules(folder: Path) -> Embedding | None:
    """None where the folder is not one of sentence-transformers."""
    path = folder / "modules.json"
    if not path.is_file():
        return None
    result = Embedding()
    _prompts(result, folder / "config_sentence_transformers.json")
    for module in read_json(path, list):
        if not isinstance(module, dict) or not isinstance(module.get("type"), str):
            raise ConvertError(f"{path}: an entry has no type")
        kind = module["type"].rsplit(".", 1)[-1]
        where = str(module.get("path", ""))
        if kind == "Pooling":
            result.pooling = _pooling(folder / where / "config.json", result.prompts)
        elif kind == "Dense" and result.pooling and not result.normalize:
            result.dense.append(_dense(folder / where))
        elif kind == "Normalize":
            result.normalize = True
        elif kind != "Transformer":
            raise ConvertError(f"{path}: module {kind} is not supported")
        elif where not in ("", "."):
            raise ConvertError(f"{path}: the model lies in {where}: convert that folder with modules.json beside it")
    length = read_json_if(folder / "sentence_bert_config.json").get("max_seq_length")
    if isinstance(length, int) and length > 0:
        result.max_length = length
    return result


def _dense(folder: Path) -> Dense:
    settings = read_json(folder / "config.json")
    name = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")).rsplit(".", 1)[-1]
    if name not in DENSE_ACTIVATIONS:
        raise ConvertError(f"{folder / 'config.json'}: activation_function {shown(name)} is not supported")
    tensors = open_checkpoint(folder)
    n_in, n_out = settings.get("in_features"), settings.get("out_features")
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    if weight is None or weight.shape != (n_out, n_in) or (bias is not None and bias.shape != (n_out,)):
        raise ConvertError(f"{folder}: no linear.weight of shape {[n_out, n_in]}, or a bias of another")
    return Dense(DENSE_ACTIVATIONS[name], weight, bias)


def _prompts(result: Embedding, path: Path) -> None:
    settings = read_json_if(path)
    prompts, default = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str) and "\0" not in name + text for name, text in prompts.items()):
        raise ConvertError(f"{path}: prompts = {shown(prompts)} does not map names to texts")
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise ConvertError(f"{path}: default_prompt_name = {shown(default)} is none of the prompts")
    result.prompts, result.default_prompt = prompts, default or ""


def _pooling(path: Path, prompts: dict) -> str:
    settings = read_json(path)
    if settings.get("include_prompt", True) is not True and any(prompts.values()):
        raise ConvertError(f"{path}: include_prompt = {shown(settings['include_prompt'])} is not supported")
    on = [key[len("pooling_mode_"):] for key, value in settings.items() if key.startswith("pooling_mode_") and value is True]
    if isinstance(settings.get("pooling_mode"), str):  # newer folders
        on = [key for key, mode in MODES.items() if settings["pooling_mode"] in (key, mode)] or [settings["pooling_mode"]]
    if len(on) != 1 or on[0] not in MODES:
        raise ConvertError(f"{path}: pooling {' + '.join(on) or 'by nothing'} is not supported")
    return MODES[on[0]]
