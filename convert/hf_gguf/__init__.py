"""Hugging Face folder -> GGUF for BERT-family encoders: numpy and gguf only, no torch, nothing in a checkpoint is executed."""
