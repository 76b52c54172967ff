"""ggml-mra: BERT-family models from GGUF files, quantized too, over long texts on a CPU.

    import ggml_mra
    encoder = ggml_mra.Encoder("model.gguf")
    encoder.similarity(encoder.encode_query("how?"), encoder.encode_document(["like this", "or this"]))
"""
from importlib.metadata import PackageNotFoundError, version

from ._encoder import Encoder
from ._errors import (ArgumentError, DeviceError, FileError, FormatError, MraError, OutOfMemoryError, TooLongError,
                      UnsupportedError)
from ._heads import Classifier, CrossEncoder, FillMask
from ._library import lib as _lib
from ._model import AttentionError
from ._quantize import quantize_embeddings
from ._tokenizer import Encoding, Tokenizer

try:
    __version__ = version("ggml-mra")
except PackageNotFoundError:  # straight from the source folder
    __version__ = "0"


def kernels() -> str:
    """Which of the compiled kernels this CPU gets, such as "v3" (AVX2)."""
    return _lib.mra_isa().decode()


__all__ = ["ArgumentError", "AttentionError", "Classifier", "CrossEncoder", "DeviceError", "Encoder", "Encoding", "FileError",
           "FillMask", "FormatError", "MraError", "OutOfMemoryError", "TooLongError", "Tokenizer", "UnsupportedError", "kernels",
           "quantize_embeddings"]
