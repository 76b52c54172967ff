"""The C library through ctypes: its structs, functions and errors (mra-encoder.h, mra-tokenizer.h, mra-error.h).

ctypes lets go of the interpreter's lock while C computes. The structs here are compared with what the C compiler made of them
when the package is imported: a difference is an ImportError, never a wrong number.
"""
from __future__ import annotations

import ctypes as c
import os
from pathlib import Path

from ._errors import raise_status


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("msg", c.c_char * 256)]


class ModelParams(c.Structure):
    _fields_ = [("device", c.c_char_p), ("no_mmap", c.c_bool)]


class AttnParams(c.Structure):
    _fields_ = [("frame", c.c_int), ("type", c.c_int), ("scale", c.c_float), ("budget", c.c_float), ("counts", c.c_int * 5),
                ("sizes", c.c_int * 5), ("rule", c.c_int), ("block", c.c_int), ("first_n", c.c_int), ("diag_n", c.c_int),
                ("finest_only", c.c_bool), ("n_threads", c.c_int), ("shares", c.c_void_p)]


class ModelInfo(c.Structure):
    _fields_ = [("name", c.c_char_p), ("family", c.c_char_p), ("type", c.c_char_p), ("device", c.c_char_p), ("n_layer", c.c_int),
                ("n_embd", c.c_int), ("n_head", c.c_int), ("n_ff", c.c_int), ("n_vocab", c.c_int), ("n_types", c.c_int),
                ("n_ctx", c.c_int), ("max_length", c.c_int), ("pooling", c.c_int), ("normalize", c.c_bool), ("has_mlm", c.c_bool),
                ("n_class", c.c_int), ("n_tag", c.c_int), ("n_pooled", c.c_int), ("n_colbert", c.c_int), ("has_sparse", c.c_bool),
                ("note", c.c_char_p), ("problem", c.c_int), ("has_mra", c.c_bool), ("attn", AttnParams),
                ("n_bytes", c.c_size_t), ("n_params", c.c_int64), ("load_ms", c.c_double)]


class ContextParams(c.Structure):
    _fields_ = [("n_threads", c.c_int), ("attention", c.c_int), ("attention_type", c.c_int), ("attn", AttnParams),
                ("plan", c.c_void_p), ("no_plan", c.c_bool), ("n_batch", c.c_int), ("n_ffn_rows", c.c_int), ("max_bytes", c.c_size_t),
                ("n_error_rows", c.c_int), ("max_error", c.c_float), ("profile", c.c_bool), ("ggml_dense", c.c_bool),
                ("stop", c.c_void_p), ("stop_user", c.c_void_p), ("on_weight", c.c_void_p), ("on_weight_user", c.c_void_p),
                ("on_attention", c.c_void_p), ("on_attention_user", c.c_void_p)]


class AttentionChoice(c.Structure):
    _fields_ = [("exact", c.c_bool), ("trained", c.c_bool), ("attn", AttnParams), ("work", c.c_double), ("plan", c.c_void_p),
                ("text", c.c_char * 64), ("exact_up_to", c.c_int)]


class Token(c.Structure):
    _fields_ = [("id", c.c_int32), ("start", c.c_uint32), ("end", c.c_uint32), ("text", c.c_int16), ("segment", c.c_int16)]


class TokenList(c.Structure):
    _fields_ = [("data", c.POINTER(Token)), ("n", c.c_size_t), ("cap", c.c_size_t)]

    def __del__(self) -> None:
        if self.data:
            lib.mra_token_list_free(c.byref(self))


class Seq(c.Structure):
    _fields_ = [("n", c.c_int), ("tokens", c.POINTER(Token)), ("ids", c.POINTER(c.c_int32)), ("types", c.POINTER(c.c_int32))]


class At(c.Structure):
    _fields_ = [("seq", c.c_int), ("token", c.c_int)]


class Output(c.Structure):
    _fields_ = [("kind", c.c_int), ("pooling", c.c_int), ("normalize", c.c_int), ("n_dims", c.c_int), ("at", c.POINTER(At)),
                ("n_at", c.c_int), ("spans", c.c_void_p), ("n_span", c.c_int)]


class Result(c.Structure):
    _fields_ = [("data", c.POINTER(c.c_float)), ("n_rows", c.c_int64), ("n_cols", c.c_int64)]


class AttnError(c.Structure):
    _fields_ = [("error", c.c_double), ("low", c.c_double), ("high", c.c_double)]


class ErrorSummary(c.Structure):
    _fields_ = [("n_heads", c.c_int), ("mean", c.c_double), ("worst_head", AttnError), ("layer", c.c_int), ("head", c.c_int),
                ("all", AttnError)]


class Layout(c.Structure):  # of layout.c, which every other struct is compared with
    _fields_ = [("name", c.c_char_p), ("size", c.c_size_t), ("at", c.c_size_t)]


STRUCTS = {"mra_error": Error, "mra_model_params": ModelParams, "mra_attn_params": AttnParams, "mra_model_info": ModelInfo,
           "mra_context_params": ContextParams, "mra_attention_choice": AttentionChoice, "mra_token": Token,
           "mra_token_list": TokenList, "mra_seq": Seq, "mra_at": At, "mra_output": Output, "mra_result": Result,
           "mra_attn_error": AttnError, "mra_error_summary": ErrorSummary}

# values of the header's constants; compared as well
CONSTANTS = {
    "MRA_OK": 0, "MRA_ERR_ARG": 1, "MRA_ERR_SHAPE": 2, "MRA_ERR_IO": 3, "MRA_ERR_FORMAT": 4, "MRA_ERR_UNSUPPORTED": 5,
    "MRA_ERR_TOO_LONG": 6, "MRA_ERR_MEMORY": 7, "MRA_ERR_BACKEND": 8, "MRA_ERR_DEVICE": 9, "MRA_ERR_STOPPED": 10,
    "MRA_POOLING_DEFAULT": 0, "MRA_POOLING_MEAN": 1, "MRA_POOLING_CLS": 2, "MRA_POOLING_LAST": 3, "MRA_POOLING_MAX": 4,
    "MRA_POOLING_MEAN_SQRT": 5, "MRA_PROBLEM_SINGLE": 0, "MRA_PROBLEM_MULTI": 1, "MRA_PROBLEM_REGRESSION": 2,
    "MRA_ATTENTION_AUTO": 0, "MRA_ATTENTION_EXACT": 1, "MRA_ATTENTION_MRA": 2, "MRA_ATTENTION_TYPE_AUTO": 0,
    "MRA_ATTENTION_TYPE_FLOAT": 1, "MRA_ATTENTION_TYPE_INT8": 2, "MRA_OUTPUT_TOKENS": 0, "MRA_OUTPUT_POOLED": 1,
    "MRA_OUTPUT_CLASS": 2, "MRA_OUTPUT_MLM": 3, "MRA_TOKENIZE_ADD_SPECIAL": 1, "MRA_DEFAULT_BATCH": 8192, "MRA_MAX_LEVELS": 5,
}

_P, _ERR, _LIST = c.c_void_p, c.POINTER(Error), c.POINTER(TokenList)
# name: (result, arguments); pointers to models, contexts and tokenizers are opaque. exports.txt has the same names
FUNCTIONS = {
    "mra_python_layout": (c.POINTER(Layout), []),
    "mra_isa": (c.c_char_p, []),
    "mra_model_load": (_P, [c.c_char_p, c.POINTER(ModelParams), _ERR]),
    "mra_model_free": (None, [_P]),
    "mra_model_info": (ModelInfo, [_P]),
    "mra_model_label": (c.c_char_p, [_P, c.c_int]),
    "mra_model_prompt": (c.c_char_p, [_P, c.c_char_p]),
    "mra_model_prompt_name": (c.c_char_p, [_P, c.c_int]),
    "mra_model_tokenizer": (_P, [_P]),
    "mra_model_tokenize": (c.c_int, [_P, c.c_char_p, c.c_size_t, c.c_char_p, c.c_size_t, c.c_int, _LIST, _ERR]),
    "mra_attn_params_parse": (c.c_int, [c.POINTER(AttnParams), c.c_char_p, _ERR]),
    "mra_context_params_default": (ContextParams, []),
    "mra_attention_of": (AttentionChoice, [_P, c.POINTER(ContextParams), c.c_int]),
    "mra_context_new": (_P, [_P, c.POINTER(ContextParams), _ERR]),
    "mra_context_free": (None, [_P]),
    "mra_context_note": (c.c_char_p, [_P]),
    "mra_encode": (c.c_int, [_P, c.POINTER(Seq), c.c_int, c.POINTER(Output), c.POINTER(Result), _ERR]),
    "mra_context_errors": (c.POINTER(c.c_double), [_P, c.c_int]),
    "mra_error_summary_of": (ErrorSummary, [c.POINTER(c.c_double), c.c_int, c.c_int]),
    "mra_token_list_free": (None, [_LIST]),
    "mra_tokenize": (c.c_int, [_P, c.c_char_p, c.c_size_t, c.c_char_p, c.c_size_t, c.c_uint, _LIST, _ERR]),
    "mra_tokenizer_n_tokens": (c.c_int32, [_P]),
    "mra_tokenizer_find": (c.c_int32, [_P, c.c_char_p, c.c_size_t]),
    "mra_tokenizer_text": (c.c_size_t, [_P, c.c_int32, c.c_char_p, c.c_size_t]),
}


def differences(table, structs: dict = STRUCTS, constants: dict = CONSTANTS) -> list[str]:
    """What of the structs and constants here is not as in `table`, the C compiler's list of (name, size, at)."""
    theirs = {name: (size, at) for name, size, at in table}
    ours = {name: (0, value) for name, value in constants.items()}
    for name, struct in structs.items():
        ours[name] = (c.sizeof(struct), 0)
        for member, *_ in struct._fields_:
            field = getattr(struct, member)
            ours[f"{name}.{member}"] = (field.size, field.offset)
    return [f"{name} (size, place): C {theirs.get(name)}, Python {ours.get(name)}"
            for name in sorted(theirs.keys() | ours.keys()) if theirs.get(name) != ours.get(name)]


def read_layout(entries) -> list[tuple[str, int, int]]:
    table = []
    while entries[len(table)].name:
        e = entries[len(table)]
        table.append((e.name.decode(), e.size, e.at))
    return table


def load() -> c.CDLL:
    # MRA_PYTHON_LIBRARY: another build of the library, to try it without a new wheel
    path = os.environ.get("MRA_PYTHON_LIBRARY") or Path(__file__).with_name("libmra-python.so")
    try:
        library = c.CDLL(os.fspath(path))
    except OSError as e:
        raise ImportError(f"ggml_mra: cannot load its library {path}: {e}") from e
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError as e:
            raise ImportError(f"ggml_mra: {path} has no {name}: it belongs to another version of the package") from e
        function.restype, function.argtypes = result, arguments
    wrong = differences(read_layout(library.mra_python_layout()))
    if wrong:
        raise ImportError(f"ggml_mra: {path} belongs to another version of the package: {'; '.join(wrong[:3])}")
    return library


lib = load()


def call(name: str, *arguments, about: str = ""):
    """A function with an error at its end: its result, or the exception for that error. `about` says what failed."""
    err = Error()
    result = getattr(lib, name)(*arguments, c.byref(err))
    if FUNCTIONS[name][0] is _P:
        failed = not result
    else:
        failed = result != 0
    if failed:
        raise_status(err.code, about + err.msg.decode("utf-8", "replace"))
    return result
