"""Model types that people try and that are not read: what each has that our encoder lacks."""

from __future__ import annotations

RECURRENT = "its layers are recurrent, without attention"
PARTLY_RECURRENT = "its layers are recurrent in part"
EXPERTS = "its layers choose among experts"
PARALLEL = "a layer's attention and feed-forward network run side by side"
WRITES = "it is an encoder and a decoder that writes texts, and its encoder is not read"
IMAGES = "it reads images"
PER_LAYER = "each of its layers has embeddings of its own"
SOUND = "it reads sound"
PAGE = "it reads the places of words on a page"

# model_type: why it is no family; it follows a colon.
CAUSES: dict[str, str] = {
    "albert": "its layers share weights",
    "big_bird": "its attention is sparse, in part over random blocks",
    "bidirectional_pplx_qwen3": "it quantizes vectors inside the model",
    "canine": "it reads characters, of which its layers make fewer",
    "convbert": "part of its attention is a convolution",
    "deberta": "version 1 has no buckets of distances, and other projections; 2 and 3 are read",
    "fnet": "it has no attention: Fourier transforms mix the tokens",
    "funnel": "its layers make fewer tokens",
    "gemma": "of Gemma, only version 3 is read",
    "gemma2": "it caps the scores of attention",
    "gemma3": "it reads images, too; save its language model alone, which is a gemma3_text",
    "jina_embeddings_v3": "it has adapters for each task (LoRA)",
    "longformer": "its attention mixes windows and global tokens",
    "mobilebert": "its layers have bottlenecks",
    "model2vec": "it is a table of vectors, without attention",
    "nvembed": "it pools by an attention of its own (latent attention)",
    "nystromformer": "its attention is approximated, from a few landmarks",
    "reformer": "its attention is sparse, by hashes",
    "xlnet": "its positions are relative, as in Transformer-XL",
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"), RECURRENT),
    **dict.fromkeys(
        ("bamba", "falcon_h1", "jamba", "nemotron_h", "qwen3_next", "recurrent_gemma", "zamba2"),
        PARTLY_RECURRENT,
    ),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "gpt_oss", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe"),
        EXPERTS,
    ),
    **dict.fromkeys(("codegen", "cohere", "cohere2", "gpt_neox", "gptj", "phi"), PARALLEL),
    **dict.fromkeys(("bart", "led", "m2m_100", "marian", "mbart", "pegasus"), WRITES),
    **dict.fromkeys(
        ("blip", "clip", "colpali", "colqwen2", "dinov2", "idefics3", "llava"),
        IMAGES,
    ),
    **dict.fromkeys(
        ("mllama", "paligemma", "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "siglip", "siglip2", "vit"),
        IMAGES,
    ),
    **dict.fromkeys(
        ("embedding_gemma2", "embedding_gemma2_text", "gemma3n", "gemma3n_text"), PER_LAYER
    ),
    **dict.fromkeys(("clap", "hubert", "wav2vec2", "whisper"), SOUND),
    **dict.fromkeys(("layoutlm", "layoutlmv2", "layoutlmv3", "lilt"), PAGE),
}
