"""The families of models: what their classes are called, which GGUF architecture they become, and how checkpoints spell their tensors.

A family may come in two spellings: that of the code its authors put beside the model, and transformers' own. The one whose token
embeddings are in the checkpoint counts; every tensor of a layer must then have its place.
"""
from __future__ import annotations

from dataclasses import dataclass

ALWAYS, NEVER = "always", "never"    # of biases; otherwise the Config field that says whether there is one


@dataclass(frozen=True)
class Part:
    """A dense layer or a norm: the rows of `source` are those of each of `names` in turn. n_in None: a norm."""
    names: tuple
    source: str
    rows: tuple                  # Config fields, one for each name
    n_in: str | None = None
    bias: str = ALWAYS
    first_layer: bool = True     # False: layer 0 has none
    by_head: bool = False        # the rows of the names alternate head by head


def dense(name: str, source: str, n_out: str, n_in: str, bias: str = ALWAYS) -> Part:
    return Part((name,), source, (n_out,), n_in, bias)


def norm(name: str, source: str, bias: str = ALWAYS, **options) -> Part:
    return Part((name,), source, ("n_embd",), None, bias, **options)


@dataclass(frozen=True)
class Spelling:
    token: str                   # tail of the token embeddings' name; what stands before it is the prefix of all others
    layer: str                   # "encoder.layer.{}.": of layer i
    parts: tuple                 # Part of each layer
    types: str = ""              # token types
    norm: str = ""               # of the embeddings
    out_norm: str = ""           # behind the last layer
    out_norm_name: str = "output_norm"
    norm_bias: str = ALWAYS      # of these two
    mlm: tuple = ()              # dense, norm, bias, decoder; none of the first two: ""
    cls: tuple = ()              # dense, norm, output; "": none
    mark: str = ""               # a tensor of a layer that other spellings do not have


_BERT_ATTENTION = (
    dense("attn_q", "attention.self.query", "n_embd", "n_embd"),
    dense("attn_k", "attention.self.key", "n_embd", "n_embd"),
    dense("attn_v", "attention.self.value", "n_embd", "n_embd"),
    dense("attn_output", "attention.output.dense", "n_embd", "n_embd"),
)
_CLS_PREDICTIONS = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias", "cls.predictions.decoder")
_LM_HEAD = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder")


def _bert(mlm: tuple, cls: tuple) -> Spelling:
    return Spelling("embeddings.word_embeddings.weight", "encoder.layer.{}.", _BERT_ATTENTION + (
        norm("attn_output_norm", "attention.output.LayerNorm"),
        dense("ffn_up", "intermediate.dense", "n_ff", "n_embd"),
        dense("ffn_down", "output.dense", "n_embd", "n_ff"),
        norm("layer_output_norm", "output.LayerNorm"),
    ), "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm", mlm=mlm, cls=cls)


# BERT's pooler is what RoBERTa calls classifier.dense: the same formula, so the same name
BERT = _bert(_CLS_PREDICTIONS, ("{}pooler.dense", "", "classifier"))
ROBERTA = _bert(_LM_HEAD, ("classifier.dense", "", "classifier.out_proj"))
MRA = _bert(_CLS_PREDICTIONS, ("classifier.dense", "", "classifier.out_proj"))

DISTILBERT = Spelling("embeddings.word_embeddings.weight", "transformer.layer.{}.", (
    dense("attn_q", "attention.q_lin", "n_embd", "n_embd"),
    dense("attn_k", "attention.k_lin", "n_embd", "n_embd"),
    dense("attn_v", "attention.v_lin", "n_embd", "n_embd"),
    dense("attn_output", "attention.out_lin", "n_embd", "n_embd"),
    norm("attn_output_norm", "sa_layer_norm"),
    dense("ffn_up", "ffn.lin1", "n_ff", "n_embd"),
    dense("ffn_down", "ffn.lin2", "n_embd", "n_ff"),
    norm("layer_output_norm", "output_layer_norm"),
), "", "embeddings.LayerNorm", mlm=("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector"),
    cls=("pre_classifier", "", "classifier"))

MODERNBERT = Spelling("embeddings.tok_embeddings.weight", "layers.{}.", (
    norm("attn_norm", "attn_norm", "norm_bias", first_layer=False),
    dense("attn_qkv", "attn.Wqkv", "n_qkv", "n_embd", "attn_bias"),
    dense("attn_output", "attn.Wo", "n_embd", "n_embd", "attn_bias"),
    norm("ffn_norm", "mlp_norm", "norm_bias"),
    dense("ffn_up", "mlp.Wi", "n_ff_2", "n_embd", "mlp_bias"),
    dense("ffn_down", "mlp.Wo", "n_embd", "n_ff", "mlp_bias"),
), "", "embeddings.norm", "final_norm", norm_bias="norm_bias", mlm=("head.dense", "head.norm", "decoder.bias", "decoder"),
    cls=("head.dense", "head.norm", "classifier"))


def _llama(attention: str, mlp: str, down: str) -> tuple:
    """transformers' names for q, k, v, o and a gated feed-forward; whether each has a bias."""
    return (
        dense("attn_q", "self_attn.q_proj", "n_embd", "n_embd", attention),
        dense("attn_k", "self_attn.k_proj", "n_kv", "n_embd", attention),
        dense("attn_v", "self_attn.v_proj", "n_kv", "n_embd", attention),
        dense("attn_output", "self_attn.o_proj", "n_embd", "n_embd", attention),
        dense("ffn_gate", "mlp.gate_proj", "n_ff", "n_embd", mlp),
        dense("ffn_up", "mlp.up_proj", "n_ff", "n_embd", mlp),
        dense("ffn_down", "mlp.down_proj", "n_embd", "n_ff", down),
    )


_POST_NORMS = (norm("attn_output_norm", "post_attention_layernorm"), norm("layer_output_norm", "post_mlp_layernorm"))
_QKV = ("attn_q", "attn_k", "attn_v")

EUROBERT = Spelling("embed_tokens.weight", "layers.{}.", _llama("attn_bias", "mlp_bias", "mlp_bias") + (
    norm("attn_norm", "input_layernorm", NEVER),
    norm("ffn_norm", "post_attention_layernorm", NEVER),
), out_norm="norm", norm_bias=NEVER, mlm=("", "", "lm_head.bias", "lm_head"), cls=("dense", "", "classifier"))

_TYPES = "embeddings.token_type_embeddings.weight"
_NOMIC_HEADS = dict(mlm=("cls.predictions.transform.dense", "cls.predictions.transform.layer_norm", "cls.predictions.bias", "cls.predictions.decoder"),
                    cls=("{}pooler.dense", "", "classifier"))
NOMIC = Spelling("embeddings.word_embeddings.weight", "layers.{}.", _llama(NEVER, NEVER, NEVER) + _POST_NORMS, _TYPES, "embeddings.LayerNorm",
                 **_NOMIC_HEADS)
NOMIC_OWN = Spelling("embeddings.word_embeddings.weight", "encoder.layers.{}.", (
    Part(_QKV, "attn.Wqkv", ("n_embd", "n_kv", "n_kv"), "n_embd", NEVER),
    dense("attn_output", "attn.out_proj", "n_embd", "n_embd", NEVER),
    norm("attn_output_norm", "norm1"),
    dense("ffn_up", "mlp.fc11", "n_ff", "n_embd", NEVER),
    dense("ffn_gate", "mlp.fc12", "n_ff", "n_embd", NEVER),
    dense("ffn_down", "mlp.fc2", "n_embd", "n_ff", NEVER),
    norm("layer_output_norm", "norm2"),
), _TYPES, "emb_ln", **_NOMIC_HEADS)

GTE = Spelling("embeddings.word_embeddings.weight", "layers.{}.", _llama(ALWAYS, NEVER, ALWAYS) + _POST_NORMS, _TYPES, "embeddings.LayerNorm",
               mlm=("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder.bias", "lm_head.decoder"), cls=("{}pooler.dense", "", "classifier"))
GTE_OWN = Spelling("embeddings.word_embeddings.weight", "encoder.layer.{}.", (
    Part(_QKV, "attention.qkv_proj", ("n_embd", "n_kv", "n_kv"), "n_embd"),
    dense("attn_output", "attention.o_proj", "n_embd", "n_embd"),
    norm("attn_output_norm", "attn_ln"),
    Part(("ffn_up", "ffn_gate"), "mlp.up_gate_proj", ("n_ff", "n_ff"), "n_embd", NEVER),
    dense("ffn_down", "mlp.down_proj", "n_embd", "n_ff"),
    norm("layer_output_norm", "mlp_ln"),
), mlm=("lm_head.dense", "lm_head.norm", "lm_head.decoder.bias", "lm_head.decoder"), cls=("{}pooler.dense", "", "classifier"),
    types=_TYPES, norm="embeddings.LayerNorm")

_PLAIN_FFN = (dense("ffn_up", "mlp.fc1", "n_ff", "n_embd"), dense("ffn_down", "mlp.fc2", "n_embd", "n_ff"))
JINA_V3 = Spelling("embeddings.word_embeddings.weight", "layers.{}.",
                   _llama(ALWAYS, ALWAYS, ALWAYS)[:4] + _PLAIN_FFN + _POST_NORMS,
                   "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm", mlm=_LM_HEAD,
                   cls=("classifier.dense", "", "classifier.out_proj"))
JINA_V3_OWN = Spelling("embeddings.word_embeddings.weight", "encoder.layers.{}.", (
    Part(_QKV, "mixer.Wqkv", ("n_embd", "n_kv", "n_kv"), "n_embd"),
    dense("attn_output", "mixer.out_proj", "n_embd", "n_embd"),
    norm("attn_output_norm", "norm1"),
) + _PLAIN_FFN + (norm("layer_output_norm", "norm2"),), "embeddings.token_type_embeddings.weight", "emb_ln", mlm=_LM_HEAD,
    cls=("classifier.dense", "", "classifier.out_proj"))


_BERT_HEADS = dict(mlm=_CLS_PREDICTIONS, cls=("{}pooler.dense", "", "classifier"))
JINA_V2 = Spelling("embeddings.word_embeddings.weight", "encoder.layer.{}.", _BERT_ATTENTION + (
    norm("attn_output_norm", "attention.output.LayerNorm"),
    Part(("ffn_gate", "ffn_up"), "mlp.gated_layers", ("n_ff", "n_ff"), "n_embd", NEVER),
    dense("ffn_down", "mlp.wo", "n_embd", "n_ff"),
    norm("layer_output_norm", "mlp.layernorm"),
), _TYPES, "embeddings.LayerNorm", mark="mlp.gated_layers.", **_BERT_HEADS)
JINA_V2_CODE = Spelling("embeddings.word_embeddings.weight", "encoder.layer.{}.", _BERT_ATTENTION + (
    norm("attn_q_norm", "attention.self.layer_norm_q"),
    norm("attn_k_norm", "attention.self.layer_norm_k"),
    norm("attn_output_norm", "attention.output.LayerNorm"),
    norm("attn_norm_2", "layer_norm_1"),
    Part(("ffn_up", "ffn_gate"), "mlp.up_gated_layer", ("n_ff", "n_ff"), "n_embd", NEVER),
    dense("ffn_down", "mlp.down_layer", "n_embd", "n_ff"),
    norm("layer_output_norm", "layer_norm_2"),
), _TYPES, "embeddings.LayerNorm", mark="mlp.up_gated_layer.", **_BERT_HEADS)

NEOBERT = Spelling("encoder.weight", "transformer_encoder.{}.", (
    norm("attn_norm", "attention_norm", NEVER),
    Part(_QKV, "qkv", ("n_embd", "n_kv", "n_kv"), "n_embd", NEVER, by_head=True),
    dense("attn_output", "wo", "n_embd", "n_embd", NEVER),
    norm("ffn_norm", "ffn_norm", NEVER),
    dense("ffn_up", "ffn.w12", "n_ff_2", "n_embd", NEVER),
    dense("ffn_down", "ffn.w3", "n_embd", "n_ff", NEVER),
), out_norm="layer_norm", out_norm_name="enc.output_norm", norm_bias=NEVER, mlm=("", "", "decoder.bias", "decoder"), cls=("dense", "", "classifier"))


@dataclass(frozen=True)
class Family:
    name: str                        # mra.family
    arch: str                        # general.architecture
    spellings: tuple
    position: str = "learnt"         # or rope, alibi
    gated: bool = False


# class name without its head -> family. Longer names first where one begins another
FAMILIES = {
    "Roberta": Family("roberta", "bert", (ROBERTA,)),
    "XLMRoberta": Family("xlm-roberta", "bert", (ROBERTA,)),
    "Camembert": Family("camembert", "bert", (ROBERTA,)),
    "Bert": Family("bert", "bert", (BERT,)),
    "Mra": Family("mra", "bert", (MRA,)),
    "DistilBert": Family("distilbert", "bert", (DISTILBERT,)),
    "ModernBert": Family("modernbert", "modern-bert", (MODERNBERT,), "rope", True),
    "NomicBert": Family("nomic-bert", "nomic-bert", (NOMIC, NOMIC_OWN), "rope", True),
    "EuroBert": Family("eurobert", "eurobert", (EUROBERT,), "rope", True),
    "Gte": Family("gte", "gte", (GTE, GTE_OWN), "rope", True),
    "New": Family("gte", "gte", (GTE, GTE_OWN), "rope", True),
    "JinaEmbeddingsV3": Family("jina-v3", "jina-bert-v3", (JINA_V3, JINA_V3_OWN), "rope"),
    "JinaBert": Family("jina-v2", "jina-bert-v2", (JINA_V2, JINA_V2_CODE), "alibi", True),
    "NeoBert": Family("neobert", "neo-bert", (NEOBERT,), "rope", True),
}
# classes that are called otherwise
ALIASES = {"NeoBERT": "NeoBertModel", "NeoBERTLMHead": "NeoBertForMaskedLM", "NeoBERTForSequenceClassification": "NeoBertForSequenceClassification"}
# what people will try, and why it does not work
REFUSED = {
    "MPNet": "its relative position bias, a table added to the scores, has no place in the attention here",
    "Deberta": "its attention adds products with relative positions to the scores",
    "DebertaV2": "its attention adds products with relative positions to the scores",
    "Longformer": "its attention has queries of their own for global tokens",
    "BigBird": "its attention looks at random blocks",
    "Electra": "its embeddings may have a width of their own",
    "Albert": "its layers share their weights",
    "T5Encoder": "its relative position bias, a table added to the scores, has no place in the attention here",
}
