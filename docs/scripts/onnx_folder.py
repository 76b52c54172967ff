"""Weights out of an ONNX file, by the names they had in PyTorch: {name: float32 array}. Nothing of the file is run.

Quantized tables are (integers - zero point)*scale. An exporter keeps the names of biases and of what is not multiplied; a matrix lost its
own and is called X.weight if its product meets X.bias in a sum. It is stored transposed.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

PASSED = ("Cast", "Mul")  # between a product of integers and the sum


def weights(path: Path) -> dict:
    graph = onnx.load(path).graph
    given = {x.name: numpy_helper.to_array(x) for x in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}
    out = {name: np.float32(x) for name, x in given.items() if name.endswith((".weight", ".bias")) and x.dtype == np.float32}
    for name in given:
        if name.endswith(".weight_quantized"):
            out[name.removesuffix("_quantized")] = dequantized(given, name)
    for node in graph.node:
        bias = [name for name in node.input if name.endswith(".bias")]
        product = product_of(made_by, [name for name in node.input if name not in bias]) if node.op_type == "Add" and bias else None
        if product is not None:
            matrix = product.input[1]
            values = dequantized(given, matrix) if matrix.endswith("_quantized") else given[matrix]
            out[bias[0].removesuffix("bias") + "weight"] = np.ascontiguousarray(values.T, np.float32)
    return out


def product_of(made_by: dict, names: list):
    """the product a sum's other input comes from, or None"""
    node = made_by.get(names[0]) if names else None
    while node is not None and node.op_type in PASSED:
        node = made_by.get(node.input[0])
    return node if node is not None and node.op_type.startswith("MatMul") else None


def dequantized(given: dict, name: str) -> np.ndarray:
    stem = name.removesuffix("_quantized")
    return (given[name].astype(np.float32) - given[stem + "_zero_point"].astype(np.float32)) * given[stem + "_scale"]
