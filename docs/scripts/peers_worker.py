#!/usr/bin/env python3
"""One contender in a process of its own, driven by bench_peers.py: the protocol of mra-bench model --worker.

    python docs/scripts/peers_worker.py torch-fp32|torch-bf16|torch-int8|openvino|openvino-int8|onnxruntime-int8|llama MODEL TOKENS THREADS mean|cls

Standard input has a job per line, {"ids": [...]}; standard output first says what runs, then {"seconds", "peak_mb", "embedding"} per
job: the mean of the last hidden states, or the first of them. TOKENS: the length that memory is set up for.
"""
from __future__ import annotations

import json
import os
import sys
import time
import warnings


def peak_mb() -> float:
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in f if line.startswith("VmHWM"))


def torch_model(folder: str, threads: int, cls: bool, numbers: str):
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    dtype = torch.bfloat16 if numbers == "bf16" else torch.float32
    pooler = {} if transformers.AutoConfig.from_pretrained(folder).model_type == "modernbert" else {"add_pooling_layer": False}
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa", dtype=dtype, **pooler).eval()
    if numbers == "int8":
        warnings.simplefilter("ignore")  # quantize_dynamic is deprecated, and still what torch itself has for this
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)

    def run(ids):
        with torch.inference_mode():
            x = torch.tensor([ids])
            t0 = time.perf_counter()
            hidden = model(x).last_hidden_state[0]
            out = (hidden[0] if cls else hidden.mean(0)).float()
            return time.perf_counter() - t0, out.tolist()

    engine = f", {torch.backends.quantized.engine}" if numbers == "int8" else ""
    return run, f"torch {torch.__version__}, transformers {transformers.__version__} ({torch.backends.cpu.get_cpu_capability()}{engine})"


def openvino_model(path: str, threads: int, cls: bool):
    import numpy as np
    import openvino as ov

    core = ov.Core()
    model = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
    request = model.create_infer_request()

    def run(ids):
        x = np.array([ids], dtype=np.int64)
        t0 = time.perf_counter()
        hidden = request.infer({0: x})[0][0]
        out = hidden[0] if cls else hidden.mean(0)
        return time.perf_counter() - t0, out.tolist()

    precision = model.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    return run, f"openvino {ov.__version__} ({precision} where it is not int8)"


def onnxruntime_model(path: str, threads: int, cls: bool):
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(ids):
        x = np.array([ids], dtype=np.int64)
        t0 = time.perf_counter()
        hidden = session.run(None, {"input_ids": x})[0][0]
        out = hidden[0] if cls else hidden.mean(0)
        return time.perf_counter() - t0, out.tolist()

    return run, f"onnxruntime {ort.__version__}"


def dies(run) -> bool:
    """whether run() ends its process, as an instruction that is not there does; tried in another one"""
    pid = os.fork()
    if pid == 0:
        try:
            run()
        except Exception:
            pass  # the same will be heard of in this process
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def llama_model(path: str, tokens: int, threads: int, cls: bool):
    """With llama.cpp's own layouts of weights for this CPU, or without them where they end the process."""
    if not dies(lambda: llama_with(path, 64, threads, cls, True)[0]([10] * 64)):
        return llama_with(path, tokens, threads, cls, True)
    run, about = llama_with(path, tokens, threads, cls, False)
    return run, about + ", without its own layouts of weights: with them it ends with an illegal instruction here"


def llama_with(path: str, tokens: int, threads: int, cls: bool, layouts: bool):
    import ctypes

    import llama_cpp as ll

    quiet = ll.llama_log_callback(lambda level, text, user: None)
    ll.llama_log_set(quiet, ctypes.c_void_p(0))
    of_model = ll.llama_model_default_params()
    of_model.use_extra_bufts = layouts
    model = ll.llama_model_load_from_file(path.encode(), of_model)
    if not model:
        raise OSError(f"llama.cpp does not load {path}")
    p = ll.llama_context_default_params()
    p.n_ctx = p.n_batch = p.n_ubatch = tokens
    p.n_threads = p.n_threads_batch = threads
    p.embeddings = True
    p.pooling_type = ll.LLAMA_POOLING_TYPE_CLS if cls else ll.LLAMA_POOLING_TYPE_MEAN
    p.flash_attn_type = ll.LLAMA_FLASH_ATTN_TYPE_ENABLED
    ctx = ll.llama_init_from_model(model, p)
    batch = ll.llama_batch_init(tokens, 0, 1)
    n_embd = ll.llama_model_n_embd(model)

    def run(ids):
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        t0 = time.perf_counter()
        if ll.llama_encode(ctx, batch) != 0:
            raise RuntimeError("llama_encode failed")
        out = ll.llama_get_embeddings_seq(ctx, 0)
        seconds = time.perf_counter() - t0
        return seconds, [out[i] for i in range(n_embd)]

    run.keep = quiet  # ctypes frees what nobody refers to
    return run, f"llama-cpp-python {ll.__version__} ({ll.llama_print_system_info().decode().strip()})"


def load(kind: str, model: str, tokens: int, threads: int, cls: bool):
    if kind == "llama":
        return llama_model(model, tokens, threads, cls)
    if kind == "onnxruntime-int8":
        return onnxruntime_model(model, threads, cls)
    if kind.startswith("openvino"):
        return openvino_model(model, threads, cls)
    return torch_model(model, threads, cls, kind.removeprefix("torch-"))


def main() -> int:
    kind, model, tokens, threads, pooling = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not belong among the answers

    def answer(x):
        print(json.dumps(x), file=answers, flush=True)

    try:
        run, about = load(kind, model, tokens, threads, pooling == "cls")
        answer({"about": about})
        for line in sys.stdin:
            seconds, embedding = run(json.loads(line)["ids"])
            answer({"seconds": seconds, "peak_mb": peak_mb(), "embedding": embedding})
    except Exception as e:  # whatever a library raises: the other side must hear of it
        answer({"error": f"{type(e).__name__}: {e}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
