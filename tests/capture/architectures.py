"""Tiny random models of many architectures, by a table, and what a capture makes of each.

``docs/make_architectures.py`` writes ``docs/architectures.md`` from the same table.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from eddyscope.capture import capture
from eddyscope.errors import CaptureError, CheckError

VOCABULARY = 64
TOKENS = 24
DOCUMENTS = 2
TOLERANCE = 1e-5

Options = dict[str, Any]

_SIZES: Options = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED: Options = {"num_key_value_heads": 2}
_WIDE: Options = _GROUPED | {"head_dim": 8}
_WINDOW: Options = _WIDE | {"sliding_window": 6}
_EXPERTS: Options = {"num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
_MAMBA: Options = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8}
_PAIR: Options = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
_T5: Options = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
_XLM: Options = {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}
_IMAGE: Options = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 4,
}
_SWIN: Options = {
    "image_size": 16,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 2],
    "window_size": 4,
}
_WAVE: Options = _SIZES | {
    "conv_dim": [16, 16],
    "conv_kernel": [4, 3],
    "conv_stride": [3, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}


def _without(options: Options, *names: str) -> Options:
    return {name: value for name, value in options.items() if name not in names}


@dataclass(frozen=True)
class Architecture:
    """One row of the table.

    Parameters
    ----------
    name : str
        Model type, with what is special about the config.
    group : str
    model, config : str
        Classes of transformers.
    options : dict
        Of the config.
    refused : str
        Pattern of the message, where it is refused.
    without : int
        Attentions of ``output_attentions=True`` that no layer of the capture has, as they are not between positions.
    """

    name: str
    group: str
    model: str
    config: str
    options: Options = field(default_factory=dict)
    refused: str = ""
    without: int = 0


def _rows(group: str, *rows: tuple[Any, ...]) -> list[Architecture]:
    """Rows of a group: name, model class, config class, options, and where needed what is expected."""
    return [Architecture(r[0], group, r[1], r[2], r[3], **(r[4] if len(r) > 4 else {})) for r in rows]


_NO_MAP = "show no softmax map"

DECODERS = _rows(
    "decoder",
    ("gpt2", "GPT2LMHeadModel", "GPT2Config", _SIZES | {"n_inner": 48}),
    ("gptj", "GPTJForCausalLM", "GPTJConfig", _SIZES | {"n_inner": 48, "rotary_dim": 4}),
    ("codegen", "CodeGenForCausalLM", "CodeGenConfig", _SIZES | {"n_inner": 48, "rotary_dim": 4}),
    (
        "gpt_neo",
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        _SIZES | {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 6},
    ),
    ("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", _SIZES),
    ("gpt_neox_japanese", "GPTNeoXJapaneseForCausalLM", "GPTNeoXJapaneseConfig", _SIZES),
    ("gpt_bigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", _SIZES | {"n_inner": 48}),
    ("openai-gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", _SIZES | {"n_positions": 64}),
    ("ctrl", "CTRLLMHeadModel", "CTRLConfig", _SIZES | {"dff": 48}),
    ("opt", "OPTForCausalLM", "OPTConfig", _SIZES | {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    ("bloom", "BloomForCausalLM", "BloomConfig", _SIZES | {"n_layer": 2, "n_head": 4}),
    ("falcon", "FalconForCausalLM", "FalconConfig", _SIZES),
    ("mpt", "MptForCausalLM", "MptConfig", _SIZES | {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    (
        "xglm",
        "XGLMForCausalLM",
        "XGLMConfig",
        _SIZES | {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4},
    ),
    ("biogpt", "BioGptForCausalLM", "BioGptConfig", _SIZES),
    (
        "trocr",
        "TrOCRForCausalLM",
        "TrOCRConfig",
        _SIZES | {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48},
    ),
    ("imagegpt", "ImageGPTModel", "ImageGPTConfig", _SIZES | {"n_positions": 64, "n_embd": 32, "n_layer": 2}),
    ("llama", "LlamaForCausalLM", "LlamaConfig", _SIZES | _GROUPED),
    ("mistral", "MistralForCausalLM", "MistralConfig", _SIZES | _GROUPED | {"sliding_window": 6}),
    ("mixtral", "MixtralForCausalLM", "MixtralConfig", _SIZES | _GROUPED | _EXPERTS),
    ("qwen2", "Qwen2ForCausalLM", "Qwen2Config", _SIZES | _GROUPED),
    (
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        _SIZES | _GROUPED | _EXPERTS | {"shared_expert_intermediate_size": 16},
    ),
    ("qwen3", "Qwen3ForCausalLM", "Qwen3Config", _SIZES | _WIDE),
    (
        "qwen3_next",
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        _SIZES
        | _WIDE
        | _EXPERTS
        | {
            "shared_expert_intermediate_size": 16,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
    ),
    ("gemma", "GemmaForCausalLM", "GemmaConfig", _SIZES | _WIDE),
    ("gemma2", "Gemma2ForCausalLM", "Gemma2Config", _SIZES | _WINDOW),
    (
        "gemma3_text",
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        _SIZES | _WINDOW | {"layer_types": ["sliding_attention", "full_attention"]},
    ),
    ("phi", "PhiForCausalLM", "PhiConfig", _SIZES),
    ("phi3", "Phi3ForCausalLM", "Phi3Config", _SIZES | _GROUPED),
    ("phimoe", "PhimoeForCausalLM", "PhimoeConfig", _SIZES | _GROUPED | _EXPERTS),
    ("olmo", "OlmoForCausalLM", "OlmoConfig", _SIZES | _GROUPED),
    ("olmo2", "Olmo2ForCausalLM", "Olmo2Config", _SIZES | _GROUPED),
    ("olmoe", "OlmoeForCausalLM", "OlmoeConfig", _SIZES | _GROUPED | _EXPERTS),
    ("granite", "GraniteForCausalLM", "GraniteConfig", _SIZES | _GROUPED),
    ("granitemoe", "GraniteMoeForCausalLM", "GraniteMoeConfig", _SIZES | _GROUPED | _EXPERTS),
    (
        "granitemoehybrid",
        "GraniteMoeHybridForCausalLM",
        "GraniteMoeHybridConfig",
        _SIZES | _GROUPED | _EXPERTS | _MAMBA | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 16},
    ),
    ("stablelm", "StableLmForCausalLM", "StableLmConfig", _SIZES | _GROUPED),
    ("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", _SIZES | _GROUPED),
    ("cohere", "CohereForCausalLM", "CohereConfig", _SIZES | _GROUPED),
    ("cohere2", "Cohere2ForCausalLM", "Cohere2Config", _SIZES | _GROUPED | {"sliding_window": 6}),
    ("persimmon", "PersimmonForCausalLM", "PersimmonConfig", _SIZES),
    ("nemotron", "NemotronForCausalLM", "NemotronConfig", _SIZES | _GROUPED),
    ("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", _SIZES | _GROUPED),
    ("glm", "GlmForCausalLM", "GlmConfig", _SIZES | _WIDE),
    ("glm4", "Glm4ForCausalLM", "Glm4Config", _SIZES | _WIDE),
    ("helium", "HeliumForCausalLM", "HeliumConfig", _SIZES | _WIDE),
    ("exaone4", "Exaone4ForCausalLM", "Exaone4Config", _SIZES | _GROUPED),
    ("ernie4_5", "Ernie4_5ForCausalLM", "Ernie4_5Config", _SIZES | _GROUPED),
    ("seed_oss", "SeedOssForCausalLM", "SeedOssConfig", _SIZES | _WIDE),
    (
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        _SIZES
        | _EXPERTS
        | {
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 8,
            "n_routed_experts": 2,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 1,
        },
    ),
    ("diffllama", "DiffLlamaForCausalLM", "DiffLlamaConfig", _SIZES | _GROUPED),
    ("doge", "DogeForCausalLM", "DogeConfig", _SIZES | _GROUPED),
    ("gpt_oss", "GptOssForCausalLM", "GptOssConfig", _SIZES | _WINDOW | _EXPERTS | {"intermediate_size": 32}),
    ("modernbert-decoder", "ModernBertDecoderForCausalLM", "ModernBertDecoderConfig", _SIZES),
    (
        "jamba",
        "JambaForCausalLM",
        "JambaConfig",
        _SIZES
        | _GROUPED
        | _EXPERTS
        | {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 4}
        | {"use_mamba_kernels": False},
    ),
    ("lfm2", "Lfm2ForCausalLM", "Lfm2Config", _SIZES | _GROUPED | {"layer_types": ["conv", "full_attention"]}),
    ("bamba", "BambaForCausalLM", "BambaConfig", _SIZES | _GROUPED | _MAMBA | {"attn_layer_indices": [1]}),
    (
        "falcon_h1",
        "FalconH1ForCausalLM",
        "FalconH1Config",
        _SIZES | _GROUPED | _MAMBA | {"mamba_d_ssm": 32, "mamba_d_head": 8},
    ),
    (
        "zamba2",
        "Zamba2ForCausalLM",
        "Zamba2Config",
        _SIZES
        | {"mamba_d_state": 8, "n_mamba_heads": 4, "hybrid_layer_ids": [1], "num_mem_blocks": 1}
        | {"layers_block_type": ["mamba", "hybrid"]},
    ),
    (
        "recurrent_gemma",
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        _SIZES
        | {"num_key_value_heads": 1, "attention_window_size": 6, "lru_width": 32}
        | {"block_types": ["recurrent", "attention"]},
    ),
    ("mamba", "MambaForCausalLM", "MambaConfig", _SIZES, {"refused": rf"MambaMixer.* {_NO_MAP}"}),
    (
        "mamba2",
        "Mamba2ForCausalLM",
        "Mamba2Config",
        _SIZES | {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1},
        {"refused": rf"Mamba2Mixer.* {_NO_MAP}"},
    ),
    (
        "falcon_mamba",
        "FalconMambaForCausalLM",
        "FalconMambaConfig",
        _SIZES,
        {"refused": rf"FalconMambaMixer.* {_NO_MAP}"},
    ),
    ("rwkv", "RwkvForCausalLM", "RwkvConfig", _SIZES, {"refused": r"RwkvSelfAttention\) give shape \(1, 16, 32\)"}),
    (
        "xlnet",
        "XLNetLMHeadModel",
        "XLNetConfig",
        _without(_SIZES, "max_position_embeddings") | {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
        {"refused": r"XLNetRelativeAttention\) give shape .*, made by no module"},
    ),
    (
        "reformer",
        "ReformerModelWithLMHead",
        "ReformerConfig",
        _without(_SIZES, "max_position_embeddings", "intermediate_size", "num_hidden_layers")
        | {
            "attention_head_size": 8,
            "attn_layers": ["local", "local"],
            "axial_pos_shape": [8, 8],
            "axial_pos_embds_dim": [16, 16],
            "is_decoder": True,
            "local_attn_chunk_length": 8,
            "feed_forward_size": 48,
        },
        {"refused": r"LocalSelfAttention\) give shape \(1, 4, 2, 8, 16\)"},
    ),
)

ENCODERS = _rows(
    "encoder",
    ("bert", "BertModel", "BertConfig", _SIZES),
    ("bert-generation", "BertGenerationEncoder", "BertGenerationConfig", _SIZES),
    ("roberta", "RobertaForMaskedLM", "RobertaConfig", _SIZES),
    ("roberta-prelayernorm", "RobertaPreLayerNormForMaskedLM", "RobertaPreLayerNormConfig", _SIZES),
    ("xlm-roberta", "XLMRobertaForMaskedLM", "XLMRobertaConfig", _SIZES),
    ("xlm-roberta-xl", "XLMRobertaXLForMaskedLM", "XLMRobertaXLConfig", _SIZES),
    ("camembert", "CamembertForMaskedLM", "CamembertConfig", _SIZES),
    ("data2vec-text", "Data2VecTextForMaskedLM", "Data2VecTextConfig", _SIZES),
    (
        "distilbert",
        "DistilBertModel",
        "DistilBertConfig",
        _SIZES | {"dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 48},
    ),
    ("albert", "AlbertModel", "AlbertConfig", _SIZES | {"embedding_size": 16}),
    ("electra", "ElectraModel", "ElectraConfig", _SIZES | {"embedding_size": 16}),
    ("ernie", "ErnieModel", "ErnieConfig", _SIZES),
    (
        "modernbert",
        "ModernBertModel",
        "ModernBertConfig",
        _SIZES | {"local_attention": 8, "global_attn_every_n_layers": 2},
    ),
    ("nomic_bert", "NomicBertModel", "NomicBertConfig", _SIZES),
    ("eurobert", "EuroBertModel", "EuroBertConfig", _SIZES | _GROUPED),
    ("esm", "EsmModel", "EsmConfig", _SIZES | {"position_embedding_type": "rotary", "mask_token_id": 4}),
    ("layoutlm", "LayoutLMModel", "LayoutLMConfig", _SIZES),
    ("splinter", "SplinterModel", "SplinterConfig", _SIZES),
    ("megatron-bert", "MegatronBertModel", "MegatronBertConfig", _SIZES),
    (
        "rembert",
        "RemBertModel",
        "RemBertConfig",
        _SIZES | {"input_embedding_size": 16, "output_embedding_size": 16},
    ),
    (
        "mobilebert",
        "MobileBertModel",
        "MobileBertConfig",
        _SIZES | {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    ),
    ("deberta", "DebertaModel", "DebertaConfig", _SIZES | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    ("deberta-v2", "DebertaV2Model", "DebertaV2Config", _SIZES),
    ("mpnet", "MPNetModel", "MPNetConfig", _SIZES),
    ("roformer", "RoFormerModel", "RoFormerConfig", _SIZES | {"embedding_size": 32}),
    ("convbert", "ConvBertModel", "ConvBertConfig", _SIZES | {"embedding_size": 16}),
    ("ibert", "IBertModel", "IBertConfig", _SIZES),
    ("xlm", "XLMModel", "XLMConfig", _XLM),
    ("flaubert", "FlaubertModel", "FlaubertConfig", _XLM),
    ("luke", "LukeModel", "LukeConfig", _SIZES | {"entity_vocab_size": 16, "entity_emb_size": 16}),
    ("tapas", "TapasModel", "TapasConfig", _SIZES),
    ("clip_text_model", "CLIPTextModel", "CLIPTextConfig", _SIZES),
    ("siglip_text_model", "SiglipTextModel", "SiglipTextConfig", _SIZES),
    ("big_bird (original_full)", "BigBirdModel", "BigBirdConfig", _SIZES | {"attention_type": "original_full"}),
    (
        "funnel",
        "FunnelModel",
        "FunnelConfig",
        {"vocab_size": VOCABULARY, "d_model": 32, "d_head": 8, "n_head": 4, "d_inner": 48}
        | {"block_sizes": [1, 1], "num_decoder_layers": 1},
        {"without": 1},
    ),
    (
        "canine",
        "CanineModel",
        "CanineConfig",
        _SIZES | {"num_hash_buckets": VOCABULARY, "local_transformer_stride": 8},
        {"without": 3},
    ),
    (
        "big_bird",
        "BigBirdModel",
        "BigBirdConfig",
        _SIZES | {"block_size": 4, "num_random_blocks": 1},
        {"refused": r"BigBirdBlockSparseAttention.* ran\..*attention_type='original_full'"},
    ),
    (
        "squeezebert",
        "SqueezeBertModel",
        "SqueezeBertConfig",
        _SIZES
        | {"embedding_size": 32, "q_groups": 2, "k_groups": 2, "v_groups": 2}
        | {"post_attention_groups": 2, "intermediate_groups": 2, "output_groups": 2},
        {"refused": r"SqueezeBertSelfAttention\) give shape .*, made by no module"},
    ),
    (
        "longformer",
        "LongformerModel",
        "LongformerConfig",
        _SIZES | {"attention_window": 8},
        {"refused": r"LongformerSelfAttention\) give shape \(1, 4, 16, 9\)"},
    ),
    (
        "nystromformer",
        "NystromformerModel",
        "NystromformerConfig",
        _SIZES | {"num_landmarks": 8, "segment_means_seq_len": TOKENS},
        {"refused": r"NystromformerSelfAttention\) give it is found by .*, which failed"},
    ),
    ("yoso", "YosoModel", "YosoConfig", _SIZES, {"refused": r"YosoSelfAttention\) give shape \(1, 16, 32\)"}),
    ("mra", "MraModel", "MraConfig", _SIZES, {"refused": rf"MraSelfAttention\) {_NO_MAP}"}),
    ("fnet", "FNetModel", "FNetConfig", _SIZES, {"refused": rf"none that mixes tokens by attention\) {_NO_MAP}"}),
)

_ENCODER_DECODER_PART: Options = _SIZES | _WINDOW

PAIRS = _rows(
    "encoder-decoder",
    ("t5", "T5ForConditionalGeneration", "T5Config", _T5),
    ("mt5", "MT5ForConditionalGeneration", "MT5Config", _T5),
    ("umt5", "UMT5ForConditionalGeneration", "UMT5Config", _T5),
    (
        "switch_transformers",
        "SwitchTransformersForConditionalGeneration",
        "SwitchTransformersConfig",
        _T5 | {"num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    ),
    (
        "t5gemma",
        "T5GemmaForConditionalGeneration",
        "T5GemmaConfig",
        {"encoder": _ENCODER_DECODER_PART, "decoder": _ENCODER_DECODER_PART, "vocab_size": VOCABULARY},
    ),
    ("bart", "BartForConditionalGeneration", "BartConfig", _PAIR),
    ("mbart", "MBartForConditionalGeneration", "MBartConfig", _PAIR),
    ("plbart", "PLBartForConditionalGeneration", "PLBartConfig", _PAIR),
    ("pegasus", "PegasusForConditionalGeneration", "PegasusConfig", _PAIR),
    ("marian", "MarianMTModel", "MarianConfig", _PAIR),
    ("blenderbot", "BlenderbotForConditionalGeneration", "BlenderbotConfig", _PAIR),
    ("blenderbot-small", "BlenderbotSmallForConditionalGeneration", "BlenderbotSmallConfig", _PAIR),
    ("m2m_100", "M2M100ForConditionalGeneration", "M2M100Config", _PAIR),
    ("nllb-moe", "NllbMoeForConditionalGeneration", "NllbMoeConfig", _PAIR | {"num_experts": 2}),
    (
        "fsmt",
        "FSMTForConditionalGeneration",
        "FSMTConfig",
        _without(_PAIR, "vocab_size")
        | {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "langs": ["en", "de"]},
    ),
    (
        "bigbird_pegasus",
        "BigBirdPegasusForConditionalGeneration",
        "BigBirdPegasusConfig",
        _PAIR | {"block_size": 4, "num_random_blocks": 1},
    ),
    (
        "longt5",
        "LongT5ForConditionalGeneration",
        "LongT5Config",
        _T5 | {"local_radius": 4},
        {"without": 2},
    ),
    (
        "led",
        "LEDForConditionalGeneration",
        "LEDConfig",
        _without(_PAIR, "max_position_embeddings")
        | {"attention_window": 8, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
        {"without": 2},
    ),
    (
        "prophetnet",
        "ProphetNetForConditionalGeneration",
        "ProphetNetConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
        | {"decoder_start_token_id": 3}
        | {"num_encoder_layers": 2, "num_decoder_layers": 2, "max_position_embeddings": 64}
        | {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4},
        {"without": 6},
    ),
)

SPEECH = _rows(
    "speech",
    (
        "whisper",
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        _PAIR | {"num_mel_bins": 8, "max_source_positions": TOKENS, "max_target_positions": 64},
    ),
    (
        "speech_to_text",
        "Speech2TextForConditionalGeneration",
        "Speech2TextConfig",
        _PAIR
        | {"input_feat_per_channel": 8, "conv_channels": 16, "max_source_positions": 64, "max_target_positions": 64}
        | {"num_conv_layers": 1, "conv_kernel_sizes": [3]},
    ),
    ("wav2vec2", "Wav2Vec2Model", "Wav2Vec2Config", _WAVE),
    ("hubert", "HubertModel", "HubertConfig", _WAVE),
    ("wavlm", "WavLMModel", "WavLMConfig", _WAVE),
    (
        "audio-spectrogram-transformer",
        "ASTModel",
        "ASTConfig",
        _without(_IMAGE, "image_size") | {"max_length": 16, "num_mel_bins": 8, "frequency_stride": 4, "time_stride": 4},
    ),
)

VISION = _rows(
    "vision",
    ("vit", "ViTModel", "ViTConfig", _IMAGE),
    ("deit", "DeiTModel", "DeiTConfig", _IMAGE),
    ("beit", "BeitModel", "BeitConfig", _IMAGE),
    ("dinov2", "Dinov2Model", "Dinov2Config", _IMAGE),
    ("dinov2_with_registers", "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", _IMAGE),
    ("dinov3_vit", "DINOv3ViTModel", "DINOv3ViTConfig", _IMAGE),
    ("clip_vision_model", "CLIPVisionModel", "CLIPVisionConfig", _IMAGE),
    ("siglip_vision_model", "SiglipVisionModel", "SiglipVisionConfig", _IMAGE),
    ("vit_mae", "ViTMAEModel", "ViTMAEConfig", _IMAGE | {"mask_ratio": 0.5}),
    ("vit_msn", "ViTMSNModel", "ViTMSNConfig", _IMAGE),
    ("ijepa", "IJepaModel", "IJepaConfig", _IMAGE),
    ("yolos", "YolosModel", "YolosConfig", _IMAGE | {"image_size": [16, 16], "num_detection_tokens": 4}),
    ("videomae", "VideoMAEModel", "VideoMAEConfig", _IMAGE | {"num_frames": 2, "tubelet_size": 1}),
    ("swin", "SwinModel", "SwinConfig", _SWIN, {"without": 1}),
    ("swinv2", "Swinv2Model", "Swinv2Config", _SWIN, {"without": 1}),
    (
        "segformer",
        "SegformerModel",
        "SegformerConfig",
        {"hidden_sizes": [16, 16], "depths": [1, 1], "num_attention_heads": [2, 2], "num_encoder_blocks": 2}
        | {"sr_ratios": [2, 1], "patch_sizes": [3, 3], "strides": [2, 2], "decoder_hidden_size": 16},
        {"without": 1},
    ),
    (
        "data2vec-vision (loaded with eager)",
        "Data2VecVisionModel",
        "Data2VecVisionConfig",
        _IMAGE | {"attn_implementation": "eager"},
    ),
    (
        "data2vec-vision",
        "Data2VecVisionModel",
        "Data2VecVisionConfig",
        _IMAGE,
        {"refused": r"Data2VecVisionSdpaSelfAttention\) give none.*attn_implementation='eager'"},
    ),
    (
        "sam_vision_model",
        "SamVisionModel",
        "SamVisionConfig",
        _IMAGE | {"window_size": 2, "output_channels": 8, "global_attn_indexes": [1], "num_pos_feats": 16},
        {"refused": r"SamVisionSdpaAttention gave NoneType.*attn_implementation='eager'"},
    ),
    (
        "convnext",
        "ConvNextModel",
        "ConvNextConfig",
        {"hidden_sizes": [8, 8], "depths": [1, 1], "num_stages": 2},
        {"refused": _NO_MAP},
    ),
)

ARCHITECTURES = {row.name: row for row in [*DECODERS, *ENCODERS, *PAIRS, *SPEECH, *VISION]}


def make(row: Architecture, **more: Any) -> Any:
    """The model of a row, the same every time."""
    torch.manual_seed(0)
    config = getattr(transformers, row.config)(**(row.options | more))
    model = getattr(transformers, row.model)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Larger than usual, so that attention is far from uniform and mistakes show.
            if parameter.dim() > 1 and 0 < float(parameter.std()) < 0.1:
                parameter.mul_(6)
    return model


def documents_for(model: Any) -> dict[str, torch.Tensor]:
    """Made-up documents that a model can read."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn((DOCUMENTS, *shape), generator=generator)

    tokens = torch.randint(5, VOCABULARY, (DOCUMENTS, TOKENS), generator=generator)
    kind, main = model.config.model_type, model.main_input_name
    if main == "pixel_values":
        size = getattr(model.config, "image_size", 32)
        sides = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        images = {main: noise(2, 3, *sides) if kind == "videomae" else noise(3, *sides)}
        return images | ({"noise": noise(16).abs()} if kind == "vit_mae" else {})
    if main == "input_values":
        return {main: noise(16, 8) if kind == "audio-spectrogram-transformer" else noise(150)}
    if main == "input_features":
        return {main: noise(8, 48) if kind == "whisper" else noise(48, 8), "decoder_input_ids": tokens}
    return {"input_ids": tokens}


def reference(row: Architecture) -> list[NDArray[np.float32]]:
    """What ``output_attentions=True`` gives under eager."""
    model = make(row, attn_implementation="eager")
    taken = inspect.signature(model.forward).parameters
    inputs = documents_for(model)
    beside: dict[str, Any] = {"use_cache": False} if "use_cache" in taken else {}
    for ids, mask in (("input_ids", "attention_mask"), ("decoder_input_ids", "decoder_attention_mask")):
        if ids == "decoder_input_ids" and ids in taken and ids not in inputs:
            start = next(
                value
                for owner in (model.config, getattr(model.config, "decoder", None))
                for name in ("decoder_start_token_id", "bos_token_id")
                if isinstance(value := getattr(owner, name, None), int)
            )
            first = torch.full((DOCUMENTS, 1), start)
            inputs[ids] = torch.cat([first, inputs["input_ids"][:, :-1]], dim=1)
        if mask in taken and ids in inputs:
            beside[mask] = torch.ones_like(inputs[ids])
    with torch.inference_mode():
        output = model(**inputs, **beside, output_attentions=True)
    given = [value for key in output if key.endswith("attentions") for value in output[key] or ()]
    return [value.float().numpy() if isinstance(value, torch.Tensor) else np.empty(0, np.float32) for value in given]


@dataclass(frozen=True)
class Outcome:
    """What became of one architecture.

    Parameters
    ----------
    captured : int
        Layers that were captured and equal an attention of ``output_attentions=True``.
    unequal : tuple of str
        Layers that equal none.
    left : int
        Attentions of the model that no layer equals.
    way : str
    others : dict
        Layers without attention, and what stands there.
    refusal : str
        Message, where it was refused.
    """

    captured: int = 0
    unequal: tuple[str, ...] = ()
    left: int = 0
    way: str = ""
    others: dict[str, str] = field(default_factory=dict)
    refusal: str = ""


@cache
def outcome(name: str) -> Outcome:
    """Capture an architecture, and compare it with the model's own attention."""
    row = ARCHITECTURES[name]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        model = make(row)
        try:
            ensemble = capture(model, documents_for(model), heads="each", batch=DOCUMENTS)
        except (CaptureError, CheckError) as error:
            return Outcome(refusal=str(error))
        left = reference(row)
    unequal = []
    for layer, captured in ensemble.fields.items():
        dense = captured.dense()
        same = [i for i, a in enumerate(left) if a.shape == dense.shape and np.abs(a - dense).max() <= TOLERANCE]
        if same:
            del left[same[0]]
        else:
            unequal.append(layer)
    provenance = ensemble.provenance
    return Outcome(
        captured=len(ensemble.layers) - len(unequal),
        unequal=tuple(unequal),
        left=len(left),
        way=provenance["way"],
        others=provenance["layers_without_attention"],
    )
