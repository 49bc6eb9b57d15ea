"""The dicts that the package gives, with the types of their members: those of the structs of qinfer.h."""

from typing import TypedDict


class CpuInfo(TypedDict):
    """Cores, bytes of caches (0: not known), and the kernel set that is chosen by default."""

    n_physical_cores: int
    n_logical_cores: int
    n_numa_nodes: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    target: str
    model_name: str
    features: str


class RuntimeInfo(TypedDict):
    """Threads, and the kernel set."""

    n_threads: int
    target: str


class ModelDetails(TypedDict):
    """What the headers of a model say (qinfer.h)."""

    flags: int
    architecture: str
    name: str
    weight_types: str
    n_params: int
    n_active_params: int
    file_bytes: int
    n_vocab: int
    n_layers: int
    n_window_layers: int
    window_tokens: int
    n_embd: int
    n_ffn: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    context_tokens: int
    max_token_bytes: int
    bos_token: int
    n_experts: int
    n_active_experts: int
    n_expert_layers: int
    expert_ffn: int
    shared_ffn: int


class ModelInfo(TypedDict):
    """A loaded model. n_vocab and so on are those of its files; kernel_set is what it runs on."""

    flags: int
    architecture: str
    name: str
    weight_format: str
    n_params: int
    file_bytes: int
    n_vocab: int
    n_layers: int
    n_embd: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    context_tokens: int
    max_token_bytes: int
    bos_token: int
    n_active_params: int
    n_experts: int
    n_active_experts: int
    n_expert_layers: int
    expert_ffn: int
    kernel_set: str
    embedding_dims: int
    embedding_tokens: int
    pooling: int
    scoring: int
    first_layer: int
    n_model_layers: int


class EncodingInfo(TypedDict):
    """Matrices of one encoding: parameters, and bytes in the files and in memory."""

    n_tensors: int
    name: str
    n_params: int
    file_bytes: int
    memory_bytes: int


class Memory(TypedDict):
    """Bytes, as planned or in use (qinfer.h: qinfer_memory)."""

    weights_mapped: int
    weights_private: int
    tables: int
    scratch: int
    kv_per_block: int
    kv_cache_bytes: int
    per_session: int
    load_peak: int
    total: int
    kv_lists: int
    kv_per_token: int
    kv_per_session: int
    system_limit: int
    system_available: int
    active_weight_bytes: int
    expert_weight_bytes: int


class CacheStats(TypedDict):
    """Blocks of a cache, and bytes."""

    block_tokens: int
    blocks_total: int
    blocks_used: int
    blocks_shared: int
    blocks_cached: int
    bytes_reserved: int
    bytes_committed: int
    bytes_resident: int


class StoreStats(TypedDict):
    """Files and bytes that are there; files written, read, removed for others and damaged since it was opened."""

    n_files: int
    bytes: int
    written: int
    read: int
    removed: int
    damaged: int


class SessionInfo(TypedDict):
    """Limits of a session, and what it holds now."""

    flags: int
    max_tokens: int
    max_logits: int
    n_tokens: int
    n_evaluated: int
    n_logits: int
    n_bias: int
    has_logits_hook: int
    max_draft: int


class SessionMemory(TypedDict):
    """Bytes that a session holds."""

    kv_private: int
    kv_shared: int
    kv_reserved: int
    other: int


class Metrics(TypedDict):
    """Totals since creation."""

    prefill_tokens: int
    decode_tokens: int
    evals: int
    cached_tokens: int
    prefill_ns: int
    decode_ns: int
    sample_ns: int
    wait_ns: int
    drafted: list[int]
    accepted: list[int]


class EngineStats(TypedDict):
    """Requests that wait, run and are parked, steps and rows so far, and the memory that the scheduler takes."""

    parked: int
    waiting: int
    running: int
    promised_bytes: int
    submitted: int
    ended: int
    steps: int
    decode_rows: int
    prompt_rows: int
    last_step_ns: int
    parked_bytes: int
    times_parked: int
    memory_bytes: int
