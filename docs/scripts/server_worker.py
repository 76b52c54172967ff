"""sentence-transformers behind FastAPI, as its users write it: POST /v1/embeddings.      server_worker.py FOLDER PORT THREADS"""
import sys

import torch
import uvicorn
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer

torch.set_num_threads(int(sys.argv[3]))
model = SentenceTransformer(sys.argv[1], device="cpu")
app = FastAPI()


@app.post("/v1/embeddings")
def embeddings(body: dict):  # no async: FastAPI runs it in a pool of threads
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return {"object": "list", "model": "st", "data": [{"object": "embedding", "index": i, "embedding": r.tolist()} for i, r in enumerate(rows)]}


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
