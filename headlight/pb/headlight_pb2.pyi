from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InputRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INPUT_ROLE_UNSPECIFIED: _ClassVar[InputRole]
    INPUT_ROLE_QUERY: _ClassVar[InputRole]
    INPUT_ROLE_DOCUMENT: _ClassVar[InputRole]

class EmptyTexts(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EMPTY_TEXTS_UNSPECIFIED: _ClassVar[EmptyTexts]
    EMPTY_TEXTS_REFUSE: _ClassVar[EmptyTexts]
    EMPTY_TEXTS_ENCODE: _ClassVar[EmptyTexts]

class SpecialTokens(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPECIAL_TOKENS_UNSPECIFIED: _ClassVar[SpecialTokens]
    SPECIAL_TOKENS_PARSE: _ClassVar[SpecialTokens]
    SPECIAL_TOKENS_TEXT: _ClassVar[SpecialTokens]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_INTERACTIVE: _ClassVar[Priority]
    PRIORITY_BULK: _ClassVar[Priority]

class Truncation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRUNCATION_UNSPECIFIED: _ClassVar[Truncation]
    TRUNCATION_REFUSE: _ClassVar[Truncation]
    TRUNCATION_CUT_END: _ClassVar[Truncation]
    TRUNCATION_CUT_START: _ClassVar[Truncation]
    TRUNCATION_CUT_SECOND: _ClassVar[Truncation]

class Reduction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REDUCTION_UNSPECIFIED: _ClassVar[Reduction]
    REDUCTION_HEAD_MEAN: _ClassVar[Reduction]
    REDUCTION_HEAD_MAX: _ClassVar[Reduction]
    REDUCTION_LAYER_MEAN: _ClassVar[Reduction]
    REDUCTION_ROLLOUT: _ClassVar[Reduction]
    REDUCTION_POOLED_ROW: _ClassVar[Reduction]
    REDUCTION_POOLING_WEIGHTS: _ClassVar[Reduction]
    REDUCTION_STATISTICS: _ClassVar[Reduction]

class Unit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNIT_UNSPECIFIED: _ClassVar[Unit]
    UNIT_TOKEN: _ClassVar[Unit]
    UNIT_WORD: _ClassVar[Unit]
    UNIT_SPAN: _ClassVar[Unit]
    UNIT_SENTENCE: _ClassVar[Unit]

class NamedTokens(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NAMED_TOKENS_UNSPECIFIED: _ClassVar[NamedTokens]
    NAMED_TOKENS_ALL: _ClassVar[NamedTokens]
    NAMED_TOKENS_POOLED: _ClassVar[NamedTokens]
    NAMED_TOKENS_FIRST: _ClassVar[NamedTokens]
    NAMED_TOKENS_SPECIAL: _ClassVar[NamedTokens]

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNSPECIFIED: _ClassVar[DataType]
    DATA_TYPE_FLOAT32: _ClassVar[DataType]
    DATA_TYPE_FLOAT16: _ClassVar[DataType]
    DATA_TYPE_UINT8: _ClassVar[DataType]
    DATA_TYPE_UINT16: _ClassVar[DataType]
    DATA_TYPE_INT8: _ClassVar[DataType]
    DATA_TYPE_BINARY: _ClassVar[DataType]
    DATA_TYPE_UBINARY: _ClassVar[DataType]
    DATA_TYPE_UINT32: _ClassVar[DataType]

class OutputKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_KIND_UNSPECIFIED: _ClassVar[OutputKind]
    OUTPUT_KIND_POOLED: _ClassVar[OutputKind]
    OUTPUT_KIND_TOKENS: _ClassVar[OutputKind]
    OUTPUT_KIND_ATTENTION: _ClassVar[OutputKind]
    OUTPUT_KIND_HIDDEN: _ClassVar[OutputKind]
    OUTPUT_KIND_ATTENTION_INDICES: _ClassVar[OutputKind]
    OUTPUT_KIND_ATTENTION_SCALES: _ClassVar[OutputKind]
    OUTPUT_KIND_SPANS: _ClassVar[OutputKind]
    OUTPUT_KIND_SCORES: _ClassVar[OutputKind]
    OUTPUT_KIND_SPARSE: _ClassVar[OutputKind]
    OUTPUT_KIND_SPARSE_INDICES: _ClassVar[OutputKind]
    OUTPUT_KIND_MULTI_VECTOR: _ClassVar[OutputKind]

class EvidenceMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVIDENCE_METHOD_UNSPECIFIED: _ClassVar[EvidenceMethod]
    EVIDENCE_METHOD_LATE_INTERACTION: _ClassVar[EvidenceMethod]
    EVIDENCE_METHOD_OCCLUSION: _ClassVar[EvidenceMethod]
    EVIDENCE_METHOD_ATTENTION: _ClassVar[EvidenceMethod]
    EVIDENCE_METHOD_TERMS: _ClassVar[EvidenceMethod]
    EVIDENCE_METHOD_SPAN: _ClassVar[EvidenceMethod]
    EVIDENCE_METHOD_CONTRIBUTIONS: _ClassVar[EvidenceMethod]

class MatrixKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MATRIX_KIND_UNSPECIFIED: _ClassVar[MatrixKind]
    MATRIX_KIND_COSINE: _ClassVar[MatrixKind]
    MATRIX_KIND_CONTRIBUTION: _ClassVar[MatrixKind]
INPUT_ROLE_UNSPECIFIED: InputRole
INPUT_ROLE_QUERY: InputRole
INPUT_ROLE_DOCUMENT: InputRole
EMPTY_TEXTS_UNSPECIFIED: EmptyTexts
EMPTY_TEXTS_REFUSE: EmptyTexts
EMPTY_TEXTS_ENCODE: EmptyTexts
SPECIAL_TOKENS_UNSPECIFIED: SpecialTokens
SPECIAL_TOKENS_PARSE: SpecialTokens
SPECIAL_TOKENS_TEXT: SpecialTokens
PRIORITY_UNSPECIFIED: Priority
PRIORITY_INTERACTIVE: Priority
PRIORITY_BULK: Priority
TRUNCATION_UNSPECIFIED: Truncation
TRUNCATION_REFUSE: Truncation
TRUNCATION_CUT_END: Truncation
TRUNCATION_CUT_START: Truncation
TRUNCATION_CUT_SECOND: Truncation
REDUCTION_UNSPECIFIED: Reduction
REDUCTION_HEAD_MEAN: Reduction
REDUCTION_HEAD_MAX: Reduction
REDUCTION_LAYER_MEAN: Reduction
REDUCTION_ROLLOUT: Reduction
REDUCTION_POOLED_ROW: Reduction
REDUCTION_POOLING_WEIGHTS: Reduction
REDUCTION_STATISTICS: Reduction
UNIT_UNSPECIFIED: Unit
UNIT_TOKEN: Unit
UNIT_WORD: Unit
UNIT_SPAN: Unit
UNIT_SENTENCE: Unit
NAMED_TOKENS_UNSPECIFIED: NamedTokens
NAMED_TOKENS_ALL: NamedTokens
NAMED_TOKENS_POOLED: NamedTokens
NAMED_TOKENS_FIRST: NamedTokens
NAMED_TOKENS_SPECIAL: NamedTokens
DATA_TYPE_UNSPECIFIED: DataType
DATA_TYPE_FLOAT32: DataType
DATA_TYPE_FLOAT16: DataType
DATA_TYPE_UINT8: DataType
DATA_TYPE_UINT16: DataType
DATA_TYPE_INT8: DataType
DATA_TYPE_BINARY: DataType
DATA_TYPE_UBINARY: DataType
DATA_TYPE_UINT32: DataType
OUTPUT_KIND_UNSPECIFIED: OutputKind
OUTPUT_KIND_POOLED: OutputKind
OUTPUT_KIND_TOKENS: OutputKind
OUTPUT_KIND_ATTENTION: OutputKind
OUTPUT_KIND_HIDDEN: OutputKind
OUTPUT_KIND_ATTENTION_INDICES: OutputKind
OUTPUT_KIND_ATTENTION_SCALES: OutputKind
OUTPUT_KIND_SPANS: OutputKind
OUTPUT_KIND_SCORES: OutputKind
OUTPUT_KIND_SPARSE: OutputKind
OUTPUT_KIND_SPARSE_INDICES: OutputKind
OUTPUT_KIND_MULTI_VECTOR: OutputKind
EVIDENCE_METHOD_UNSPECIFIED: EvidenceMethod
EVIDENCE_METHOD_LATE_INTERACTION: EvidenceMethod
EVIDENCE_METHOD_OCCLUSION: EvidenceMethod
EVIDENCE_METHOD_ATTENTION: EvidenceMethod
EVIDENCE_METHOD_TERMS: EvidenceMethod
EVIDENCE_METHOD_SPAN: EvidenceMethod
EVIDENCE_METHOD_CONTRIBUTIONS: EvidenceMethod
MATRIX_KIND_UNSPECIFIED: MatrixKind
MATRIX_KIND_COSINE: MatrixKind
MATRIX_KIND_CONTRIBUTION: MatrixKind

class EncodeRequest(_message.Message):
    __slots__ = ("model", "inputs", "outputs", "truncation", "dry_run", "prompt_name", "prompt_text", "priority", "special_tokens", "empty_texts", "role")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_TEXTS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    model: str
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    outputs: Outputs
    truncation: Truncation
    dry_run: bool
    prompt_name: str
    prompt_text: str
    priority: Priority
    special_tokens: SpecialTokens
    empty_texts: EmptyTexts
    role: InputRole
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., outputs: _Optional[_Union[Outputs, _Mapping]] = ..., truncation: _Optional[_Union[Truncation, str]] = ..., dry_run: bool = ..., prompt_name: _Optional[str] = ..., prompt_text: _Optional[str] = ..., priority: _Optional[_Union[Priority, str]] = ..., special_tokens: _Optional[_Union[SpecialTokens, str]] = ..., empty_texts: _Optional[_Union[EmptyTexts, str]] = ..., role: _Optional[_Union[InputRole, str]] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("text", "pair", "ids", "head_mask")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    HEAD_MASK_FIELD_NUMBER: _ClassVar[int]
    text: str
    pair: TextPair
    ids: TokenIds
    head_mask: HeadMask
    def __init__(self, text: _Optional[str] = ..., pair: _Optional[_Union[TextPair, _Mapping]] = ..., ids: _Optional[_Union[TokenIds, _Mapping]] = ..., head_mask: _Optional[_Union[HeadMask, _Mapping]] = ...) -> None: ...

class HeadMask(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class TextPair(_message.Message):
    __slots__ = ("first", "second")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids", "segments")
    IDS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    segments: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., segments: _Optional[_Iterable[int]] = ...) -> None: ...

class Outputs(_message.Message):
    __slots__ = ("pooled", "tokens", "attention", "hidden", "token_info", "spans", "scores", "sparse", "multi_vector")
    POOLED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_INFO_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    SPARSE_FIELD_NUMBER: _ClassVar[int]
    MULTI_VECTOR_FIELD_NUMBER: _ClassVar[int]
    pooled: PooledOutput
    tokens: TokensOutput
    attention: AttentionOutput
    hidden: HiddenOutput
    token_info: TokenInfoOutput
    spans: SpansOutput
    scores: ScoresOutput
    sparse: SparseOutput
    multi_vector: MultiVectorOutput
    def __init__(self, pooled: _Optional[_Union[PooledOutput, _Mapping]] = ..., tokens: _Optional[_Union[TokensOutput, _Mapping]] = ..., attention: _Optional[_Union[AttentionOutput, _Mapping]] = ..., hidden: _Optional[_Union[HiddenOutput, _Mapping]] = ..., token_info: _Optional[_Union[TokenInfoOutput, _Mapping]] = ..., spans: _Optional[_Union[SpansOutput, _Mapping]] = ..., scores: _Optional[_Union[ScoresOutput, _Mapping]] = ..., sparse: _Optional[_Union[SparseOutput, _Mapping]] = ..., multi_vector: _Optional[_Union[MultiVectorOutput, _Mapping]] = ...) -> None: ...

class PooledOutput(_message.Message):
    __slots__ = ("dimensions", "normalize", "dtypes")
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    DTYPES_FIELD_NUMBER: _ClassVar[int]
    dimensions: int
    normalize: bool
    dtypes: _containers.RepeatedScalarFieldContainer[DataType]
    def __init__(self, dimensions: _Optional[int] = ..., normalize: bool = ..., dtypes: _Optional[_Iterable[_Union[DataType, str]]] = ...) -> None: ...

class TokensOutput(_message.Message):
    __slots__ = ("skip_special", "skip_prompt", "normalize", "dtype")
    SKIP_SPECIAL_FIELD_NUMBER: _ClassVar[int]
    SKIP_PROMPT_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    skip_special: bool
    skip_prompt: bool
    normalize: bool
    dtype: DataType
    def __init__(self, skip_special: bool = ..., skip_prompt: bool = ..., normalize: bool = ..., dtype: _Optional[_Union[DataType, str]] = ...) -> None: ...

class ScoresOutput(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SparseOutput(_message.Message):
    __slots__ = ("top_k", "min_weight", "pieces")
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    top_k: int
    min_weight: float
    pieces: bool
    def __init__(self, top_k: _Optional[int] = ..., min_weight: _Optional[float] = ..., pieces: bool = ...) -> None: ...

class MultiVectorOutput(_message.Message):
    __slots__ = ("dtype",)
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    dtype: DataType
    def __init__(self, dtype: _Optional[_Union[DataType, str]] = ...) -> None: ...

class SpansOutput(_message.Message):
    __slots__ = ("given", "sentences", "windows", "include_special", "pooling", "dimensions", "normalize", "dtype", "beyond_max_length")
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SPECIAL_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    BEYOND_MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    given: GivenSpans
    sentences: SentenceSpans
    windows: TokenWindows
    include_special: bool
    pooling: str
    dimensions: int
    normalize: bool
    dtype: DataType
    beyond_max_length: bool
    def __init__(self, given: _Optional[_Union[GivenSpans, _Mapping]] = ..., sentences: _Optional[_Union[SentenceSpans, _Mapping]] = ..., windows: _Optional[_Union[TokenWindows, _Mapping]] = ..., include_special: bool = ..., pooling: _Optional[str] = ..., dimensions: _Optional[int] = ..., normalize: bool = ..., dtype: _Optional[_Union[DataType, str]] = ..., beyond_max_length: bool = ...) -> None: ...

class GivenSpans(_message.Message):
    __slots__ = ("inputs",)
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[TextSpans]
    def __init__(self, inputs: _Optional[_Iterable[_Union[TextSpans, _Mapping]]] = ...) -> None: ...

class TextSpans(_message.Message):
    __slots__ = ("spans",)
    SPANS_FIELD_NUMBER: _ClassVar[int]
    spans: _containers.RepeatedCompositeFieldContainer[TextSpan]
    def __init__(self, spans: _Optional[_Iterable[_Union[TextSpan, _Mapping]]] = ...) -> None: ...

class SentenceSpans(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TokenWindows(_message.Message):
    __slots__ = ("size", "overlap")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    size: int
    overlap: int
    def __init__(self, size: _Optional[int] = ..., overlap: _Optional[int] = ...) -> None: ...

class AttentionOutput(_message.Message):
    __slots__ = ("layers", "heads", "layer_runs", "head_runs", "pairs", "reduce", "queries", "keys", "unit", "spans", "top_k", "dtype", "scores", "drop_special", "max_bytes")
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    LAYER_RUNS_FIELD_NUMBER: _ClassVar[int]
    HEAD_RUNS_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    REDUCE_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    DROP_SPECIAL_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    layers: _containers.RepeatedScalarFieldContainer[int]
    heads: _containers.RepeatedScalarFieldContainer[int]
    layer_runs: _containers.RepeatedCompositeFieldContainer[IndexRun]
    head_runs: _containers.RepeatedCompositeFieldContainer[IndexRun]
    pairs: _containers.RepeatedCompositeFieldContainer[LayerHead]
    reduce: _containers.RepeatedScalarFieldContainer[Reduction]
    queries: TokenSelector
    keys: TokenSelector
    unit: Unit
    spans: _containers.RepeatedCompositeFieldContainer[TextSpan]
    top_k: int
    dtype: DataType
    scores: bool
    drop_special: bool
    max_bytes: int
    def __init__(self, layers: _Optional[_Iterable[int]] = ..., heads: _Optional[_Iterable[int]] = ..., layer_runs: _Optional[_Iterable[_Union[IndexRun, _Mapping]]] = ..., head_runs: _Optional[_Iterable[_Union[IndexRun, _Mapping]]] = ..., pairs: _Optional[_Iterable[_Union[LayerHead, _Mapping]]] = ..., reduce: _Optional[_Iterable[_Union[Reduction, str]]] = ..., queries: _Optional[_Union[TokenSelector, _Mapping]] = ..., keys: _Optional[_Union[TokenSelector, _Mapping]] = ..., unit: _Optional[_Union[Unit, str]] = ..., spans: _Optional[_Iterable[_Union[TextSpan, _Mapping]]] = ..., top_k: _Optional[int] = ..., dtype: _Optional[_Union[DataType, str]] = ..., scores: bool = ..., drop_special: bool = ..., max_bytes: _Optional[int] = ...) -> None: ...

class IndexRun(_message.Message):
    __slots__ = ("begin", "end")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class LayerHead(_message.Message):
    __slots__ = ("layer", "head")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    layer: int
    head: int
    def __init__(self, layer: _Optional[int] = ..., head: _Optional[int] = ...) -> None: ...

class TokenSelector(_message.Message):
    __slots__ = ("named", "indices", "span")
    NAMED_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    named: NamedTokens
    indices: TokenIndices
    span: TextSpan
    def __init__(self, named: _Optional[_Union[NamedTokens, str]] = ..., indices: _Optional[_Union[TokenIndices, _Mapping]] = ..., span: _Optional[_Union[TextSpan, _Mapping]] = ...) -> None: ...

class TokenIndices(_message.Message):
    __slots__ = ("indices",)
    INDICES_FIELD_NUMBER: _ClassVar[int]
    indices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, indices: _Optional[_Iterable[int]] = ...) -> None: ...

class TextSpan(_message.Message):
    __slots__ = ("start", "end", "text")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    text: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., text: _Optional[int] = ...) -> None: ...

class HiddenOutput(_message.Message):
    __slots__ = ("layers", "layer_runs", "tokens", "dtype")
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    LAYER_RUNS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    layers: _containers.RepeatedScalarFieldContainer[int]
    layer_runs: _containers.RepeatedCompositeFieldContainer[IndexRun]
    tokens: TokenSelector
    dtype: DataType
    def __init__(self, layers: _Optional[_Iterable[int]] = ..., layer_runs: _Optional[_Iterable[_Union[IndexRun, _Mapping]]] = ..., tokens: _Optional[_Union[TokenSelector, _Mapping]] = ..., dtype: _Optional[_Union[DataType, str]] = ...) -> None: ...

class TokenInfoOutput(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class RaggedTensor(_message.Message):
    __slots__ = ("dtype", "layers", "offsets", "data", "shapes")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SHAPES_FIELD_NUMBER: _ClassVar[int]
    dtype: DataType
    layers: _containers.RepeatedScalarFieldContainer[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    shapes: _containers.RepeatedCompositeFieldContainer[Extents]
    def __init__(self, dtype: _Optional[_Union[DataType, str]] = ..., layers: _Optional[_Iterable[int]] = ..., offsets: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ..., shapes: _Optional[_Iterable[_Union[Extents, _Mapping]]] = ...) -> None: ...

class Extents(_message.Message):
    __slots__ = ("sizes",)
    SIZES_FIELD_NUMBER: _ClassVar[int]
    sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class AttentionMap(_message.Message):
    __slots__ = ("axes", "heads", "reduce", "statistics", "places", "scores", "drop_special")
    AXES_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    REDUCE_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    DROP_SPECIAL_FIELD_NUMBER: _ClassVar[int]
    axes: _containers.RepeatedScalarFieldContainer[str]
    heads: _containers.RepeatedScalarFieldContainer[int]
    reduce: _containers.RepeatedScalarFieldContainer[Reduction]
    statistics: _containers.RepeatedScalarFieldContainer[str]
    places: _containers.RepeatedCompositeFieldContainer[AttentionPlaces]
    scores: bool
    drop_special: bool
    def __init__(self, axes: _Optional[_Iterable[str]] = ..., heads: _Optional[_Iterable[int]] = ..., reduce: _Optional[_Iterable[_Union[Reduction, str]]] = ..., statistics: _Optional[_Iterable[str]] = ..., places: _Optional[_Iterable[_Union[AttentionPlaces, _Mapping]]] = ..., scores: bool = ..., drop_special: bool = ...) -> None: ...

class AttentionPlaces(_message.Message):
    __slots__ = ("queries", "keys")
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    queries: Units
    keys: Units
    def __init__(self, queries: _Optional[_Union[Units, _Mapping]] = ..., keys: _Optional[_Union[Units, _Mapping]] = ...) -> None: ...

class Units(_message.Message):
    __slots__ = ("tokens", "starts")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    starts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tokens: _Optional[_Iterable[int]] = ..., starts: _Optional[_Iterable[int]] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("token_count", "original_token_count", "truncated", "tokens", "prompt_token_count", "terms")
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    token_count: int
    original_token_count: int
    truncated: bool
    tokens: TokenInfo
    prompt_token_count: int
    terms: TermInfo
    def __init__(self, token_count: _Optional[int] = ..., original_token_count: _Optional[int] = ..., truncated: bool = ..., tokens: _Optional[_Union[TokenInfo, _Mapping]] = ..., prompt_token_count: _Optional[int] = ..., terms: _Optional[_Union[TermInfo, _Mapping]] = ...) -> None: ...

class TermInfo(_message.Message):
    __slots__ = ("pieces",)
    PIECES_FIELD_NUMBER: _ClassVar[int]
    pieces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, pieces: _Optional[_Iterable[str]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("token_count", "prompt_token_count", "original_token_count")
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    token_count: int
    prompt_token_count: int
    original_token_count: int
    def __init__(self, token_count: _Optional[int] = ..., prompt_token_count: _Optional[int] = ..., original_token_count: _Optional[int] = ...) -> None: ...

class TokenInfo(_message.Message):
    __slots__ = ("ids", "pieces", "starts", "ends", "special", "segments", "prompt")
    IDS_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    pieces: _containers.RepeatedScalarFieldContainer[str]
    starts: _containers.RepeatedScalarFieldContainer[int]
    ends: _containers.RepeatedScalarFieldContainer[int]
    special: _containers.RepeatedScalarFieldContainer[bool]
    segments: _containers.RepeatedScalarFieldContainer[int]
    prompt: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., pieces: _Optional[_Iterable[str]] = ..., starts: _Optional[_Iterable[int]] = ..., ends: _Optional[_Iterable[int]] = ..., special: _Optional[_Iterable[bool]] = ..., segments: _Optional[_Iterable[int]] = ..., prompt: _Optional[_Iterable[bool]] = ...) -> None: ...

class ModelRef(_message.Message):
    __slots__ = ("name", "version", "bundle_sha256", "provider", "precision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_SHA256_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    bundle_sha256: str
    provider: str
    precision: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., bundle_sha256: _Optional[str] = ..., provider: _Optional[str] = ..., precision: _Optional[str] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("tokenize_ns", "queue_ns", "infer_ns", "total_ns")
    TOKENIZE_NS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_NS_FIELD_NUMBER: _ClassVar[int]
    INFER_NS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_NS_FIELD_NUMBER: _ClassVar[int]
    tokenize_ns: int
    queue_ns: int
    infer_ns: int
    total_ns: int
    def __init__(self, tokenize_ns: _Optional[int] = ..., queue_ns: _Optional[int] = ..., infer_ns: _Optional[int] = ..., total_ns: _Optional[int] = ...) -> None: ...

class EncodeResponse(_message.Message):
    __slots__ = ("model", "items", "pooled", "tokens", "attention", "hidden", "timings", "attention_map", "attention_indices", "attention_scales", "hidden_tokens", "data_bytes", "kept_tokens", "usage", "spans", "span_places", "scores", "sparse", "sparse_indices", "multi_vector", "multi_vector_tokens")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    POOLED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_MAP_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_INDICES_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_SCALES_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    SPAN_PLACES_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    SPARSE_FIELD_NUMBER: _ClassVar[int]
    SPARSE_INDICES_FIELD_NUMBER: _ClassVar[int]
    MULTI_VECTOR_FIELD_NUMBER: _ClassVar[int]
    MULTI_VECTOR_TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    items: _containers.RepeatedCompositeFieldContainer[Item]
    pooled: _containers.RepeatedCompositeFieldContainer[Tensor]
    tokens: RaggedTensor
    attention: RaggedTensor
    hidden: RaggedTensor
    timings: Timings
    attention_map: AttentionMap
    attention_indices: RaggedTensor
    attention_scales: RaggedTensor
    hidden_tokens: _containers.RepeatedCompositeFieldContainer[TokenIndices]
    data_bytes: int
    kept_tokens: _containers.RepeatedCompositeFieldContainer[TokenIndices]
    usage: Usage
    spans: RaggedTensor
    span_places: _containers.RepeatedCompositeFieldContainer[SpanPlaces]
    scores: RaggedTensor
    sparse: RaggedTensor
    sparse_indices: RaggedTensor
    multi_vector: RaggedTensor
    multi_vector_tokens: _containers.RepeatedCompositeFieldContainer[TokenIndices]
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ..., pooled: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., tokens: _Optional[_Union[RaggedTensor, _Mapping]] = ..., attention: _Optional[_Union[RaggedTensor, _Mapping]] = ..., hidden: _Optional[_Union[RaggedTensor, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., attention_map: _Optional[_Union[AttentionMap, _Mapping]] = ..., attention_indices: _Optional[_Union[RaggedTensor, _Mapping]] = ..., attention_scales: _Optional[_Union[RaggedTensor, _Mapping]] = ..., hidden_tokens: _Optional[_Iterable[_Union[TokenIndices, _Mapping]]] = ..., data_bytes: _Optional[int] = ..., kept_tokens: _Optional[_Iterable[_Union[TokenIndices, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., spans: _Optional[_Union[RaggedTensor, _Mapping]] = ..., span_places: _Optional[_Iterable[_Union[SpanPlaces, _Mapping]]] = ..., scores: _Optional[_Union[RaggedTensor, _Mapping]] = ..., sparse: _Optional[_Union[RaggedTensor, _Mapping]] = ..., sparse_indices: _Optional[_Union[RaggedTensor, _Mapping]] = ..., multi_vector: _Optional[_Union[RaggedTensor, _Mapping]] = ..., multi_vector_tokens: _Optional[_Iterable[_Union[TokenIndices, _Mapping]]] = ...) -> None: ...

class SpanPlaces(_message.Message):
    __slots__ = ("characters", "token_starts", "token_ends", "window_starts")
    CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_STARTS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ENDS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_STARTS_FIELD_NUMBER: _ClassVar[int]
    characters: _containers.RepeatedCompositeFieldContainer[TextSpan]
    token_starts: _containers.RepeatedScalarFieldContainer[int]
    token_ends: _containers.RepeatedScalarFieldContainer[int]
    window_starts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, characters: _Optional[_Iterable[_Union[TextSpan, _Mapping]]] = ..., token_starts: _Optional[_Iterable[int]] = ..., token_ends: _Optional[_Iterable[int]] = ..., window_starts: _Optional[_Iterable[int]] = ...) -> None: ...

class EncodeStreamRequest(_message.Message):
    __slots__ = ("id", "encode", "compare")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENCODE_FIELD_NUMBER: _ClassVar[int]
    COMPARE_FIELD_NUMBER: _ClassVar[int]
    id: str
    encode: EncodeRequest
    compare: CompareRequest
    def __init__(self, id: _Optional[str] = ..., encode: _Optional[_Union[EncodeRequest, _Mapping]] = ..., compare: _Optional[_Union[CompareRequest, _Mapping]] = ...) -> None: ...

class EncodeStreamResponse(_message.Message):
    __slots__ = ("id", "response", "header", "chunk", "end", "error", "comparison")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    id: str
    response: EncodeResponse
    header: EncodeResponse
    chunk: Chunk
    end: StreamEnd
    error: Status
    comparison: CompareResponse
    def __init__(self, id: _Optional[str] = ..., response: _Optional[_Union[EncodeResponse, _Mapping]] = ..., header: _Optional[_Union[EncodeResponse, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ..., error: _Optional[_Union[Status, _Mapping]] = ..., comparison: _Optional[_Union[CompareResponse, _Mapping]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("output", "item", "layer", "head_begin", "head_end", "row_begin", "row_end", "offset_bytes", "data")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    HEAD_BEGIN_FIELD_NUMBER: _ClassVar[int]
    HEAD_END_FIELD_NUMBER: _ClassVar[int]
    ROW_BEGIN_FIELD_NUMBER: _ClassVar[int]
    ROW_END_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    output: OutputKind
    item: int
    layer: int
    head_begin: int
    head_end: int
    row_begin: int
    row_end: int
    offset_bytes: int
    data: bytes
    def __init__(self, output: _Optional[_Union[OutputKind, str]] = ..., item: _Optional[int] = ..., layer: _Optional[int] = ..., head_begin: _Optional[int] = ..., head_end: _Optional[int] = ..., row_begin: _Optional[int] = ..., row_end: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class StreamEnd(_message.Message):
    __slots__ = ("chunks", "data_bytes")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    chunks: int
    data_bytes: int
    def __init__(self, chunks: _Optional[int] = ..., data_bytes: _Optional[int] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("code", "message", "retry_after_ms", "reason", "field", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    retry_after_ms: int
    reason: str
    field: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., reason: _Optional[str] = ..., field: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ("model", "inputs", "prompt_name", "prompt_text", "special_tokens", "role")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    model: str
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    prompt_name: str
    prompt_text: str
    special_tokens: SpecialTokens
    role: InputRole
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., prompt_name: _Optional[str] = ..., prompt_text: _Optional[str] = ..., special_tokens: _Optional[_Union[SpecialTokens, str]] = ..., role: _Optional[_Union[InputRole, str]] = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ("model", "items")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    items: _containers.RepeatedCompositeFieldContainer[TokenInfo]
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., items: _Optional[_Iterable[_Union[TokenInfo, _Mapping]]] = ...) -> None: ...

class OccludeRequest(_message.Message):
    __slots__ = ("model", "input", "truncation", "tokens", "prompt_name", "prompt_text", "priority", "special_tokens", "target_text", "target_vector")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TARGET_TEXT_FIELD_NUMBER: _ClassVar[int]
    TARGET_VECTOR_FIELD_NUMBER: _ClassVar[int]
    model: str
    input: Input
    truncation: Truncation
    tokens: TokenSelector
    prompt_name: str
    prompt_text: str
    priority: Priority
    special_tokens: SpecialTokens
    target_text: str
    target_vector: TargetVector
    def __init__(self, model: _Optional[str] = ..., input: _Optional[_Union[Input, _Mapping]] = ..., truncation: _Optional[_Union[Truncation, str]] = ..., tokens: _Optional[_Union[TokenSelector, _Mapping]] = ..., prompt_name: _Optional[str] = ..., prompt_text: _Optional[str] = ..., priority: _Optional[_Union[Priority, str]] = ..., special_tokens: _Optional[_Union[SpecialTokens, str]] = ..., target_text: _Optional[str] = ..., target_vector: _Optional[_Union[TargetVector, _Mapping]] = ...) -> None: ...

class TargetVector(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class OccludeResponse(_message.Message):
    __slots__ = ("model", "item", "tokens", "moved", "fall", "similarity")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    FALL_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    item: Item
    tokens: _containers.RepeatedScalarFieldContainer[int]
    moved: Tensor
    fall: Tensor
    similarity: float
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., item: _Optional[_Union[Item, _Mapping]] = ..., tokens: _Optional[_Iterable[int]] = ..., moved: _Optional[_Union[Tensor, _Mapping]] = ..., fall: _Optional[_Union[Tensor, _Mapping]] = ..., similarity: _Optional[float] = ...) -> None: ...

class CompareRequest(_message.Message):
    __slots__ = ("model", "query", "passages", "truncation", "dry_run", "query_prompt_name", "query_prompt_text", "passage_prompt_name", "passage_prompt_text", "priority", "special_tokens", "sort", "late_interaction", "evidence", "matrix")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    LATE_INTERACTION_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    MATRIX_FIELD_NUMBER: _ClassVar[int]
    model: str
    query: Input
    passages: _containers.RepeatedCompositeFieldContainer[Input]
    truncation: Truncation
    dry_run: bool
    query_prompt_name: str
    query_prompt_text: str
    passage_prompt_name: str
    passage_prompt_text: str
    priority: Priority
    special_tokens: SpecialTokens
    sort: bool
    late_interaction: LateInteraction
    evidence: _containers.RepeatedCompositeFieldContainer[EvidenceRequest]
    matrix: SimilarityMatrix
    def __init__(self, model: _Optional[str] = ..., query: _Optional[_Union[Input, _Mapping]] = ..., passages: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., truncation: _Optional[_Union[Truncation, str]] = ..., dry_run: bool = ..., query_prompt_name: _Optional[str] = ..., query_prompt_text: _Optional[str] = ..., passage_prompt_name: _Optional[str] = ..., passage_prompt_text: _Optional[str] = ..., priority: _Optional[_Union[Priority, str]] = ..., special_tokens: _Optional[_Union[SpecialTokens, str]] = ..., sort: bool = ..., late_interaction: _Optional[_Union[LateInteraction, _Mapping]] = ..., evidence: _Optional[_Iterable[_Union[EvidenceRequest, _Mapping]]] = ..., matrix: _Optional[_Union[SimilarityMatrix, _Mapping]] = ...) -> None: ...

class LateInteraction(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EvidenceRequest(_message.Message):
    __slots__ = ("method", "unit", "spans", "top_k", "layers", "heads", "per_token", "max_encodings", "query_units", "distinct")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    QUERY_UNITS_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FIELD_NUMBER: _ClassVar[int]
    method: EvidenceMethod
    unit: Unit
    spans: _containers.RepeatedCompositeFieldContainer[TextSpans]
    top_k: int
    layers: _containers.RepeatedScalarFieldContainer[int]
    heads: _containers.RepeatedScalarFieldContainer[int]
    per_token: bool
    max_encodings: int
    query_units: bool
    distinct: bool
    def __init__(self, method: _Optional[_Union[EvidenceMethod, str]] = ..., unit: _Optional[_Union[Unit, str]] = ..., spans: _Optional[_Iterable[_Union[TextSpans, _Mapping]]] = ..., top_k: _Optional[int] = ..., layers: _Optional[_Iterable[int]] = ..., heads: _Optional[_Iterable[int]] = ..., per_token: bool = ..., max_encodings: _Optional[int] = ..., query_units: bool = ..., distinct: bool = ...) -> None: ...

class SimilarityMatrix(_message.Message):
    __slots__ = ("dtype", "max_bytes", "kind")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    dtype: DataType
    max_bytes: int
    kind: MatrixKind
    def __init__(self, dtype: _Optional[_Union[DataType, str]] = ..., max_bytes: _Optional[int] = ..., kind: _Optional[_Union[MatrixKind, str]] = ...) -> None: ...

class CompareResponse(_message.Message):
    __slots__ = ("model", "similarity", "query", "query_tokens", "passages", "usage", "timings", "data_bytes")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    QUERY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    similarity: str
    query: Item
    query_tokens: _containers.RepeatedScalarFieldContainer[int]
    passages: _containers.RepeatedCompositeFieldContainer[PassageComparison]
    usage: Usage
    timings: Timings
    data_bytes: int
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., similarity: _Optional[str] = ..., query: _Optional[_Union[Item, _Mapping]] = ..., query_tokens: _Optional[_Iterable[int]] = ..., passages: _Optional[_Iterable[_Union[PassageComparison, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., data_bytes: _Optional[int] = ...) -> None: ...

class PassageComparison(_message.Message):
    __slots__ = ("index", "item", "score", "max_sim_mean", "evidence", "tokens", "matrix")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIM_MEAN_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    MATRIX_FIELD_NUMBER: _ClassVar[int]
    index: int
    item: Item
    score: float
    max_sim_mean: float
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    matrix: Tensor
    def __init__(self, index: _Optional[int] = ..., item: _Optional[_Union[Item, _Mapping]] = ..., score: _Optional[float] = ..., max_sim_mean: _Optional[float] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., tokens: _Optional[_Iterable[int]] = ..., matrix: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("method", "units", "characters", "weights", "matched_tokens", "matched_cosines", "query", "special", "terms")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_COSINES_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    method: EvidenceMethod
    units: Units
    characters: _containers.RepeatedCompositeFieldContainer[TextSpan]
    weights: Tensor
    matched_tokens: _containers.RepeatedScalarFieldContainer[int]
    matched_cosines: Tensor
    query: UnitWeights
    special: UnitWeights
    terms: MatchedTerms
    def __init__(self, method: _Optional[_Union[EvidenceMethod, str]] = ..., units: _Optional[_Union[Units, _Mapping]] = ..., characters: _Optional[_Iterable[_Union[TextSpan, _Mapping]]] = ..., weights: _Optional[_Union[Tensor, _Mapping]] = ..., matched_tokens: _Optional[_Iterable[int]] = ..., matched_cosines: _Optional[_Union[Tensor, _Mapping]] = ..., query: _Optional[_Union[UnitWeights, _Mapping]] = ..., special: _Optional[_Union[UnitWeights, _Mapping]] = ..., terms: _Optional[_Union[MatchedTerms, _Mapping]] = ...) -> None: ...

class MatchedTerms(_message.Message):
    __slots__ = ("terms", "pieces", "query", "passage")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_FIELD_NUMBER: _ClassVar[int]
    terms: _containers.RepeatedScalarFieldContainer[int]
    pieces: _containers.RepeatedScalarFieldContainer[str]
    query: Tensor
    passage: Tensor
    def __init__(self, terms: _Optional[_Iterable[int]] = ..., pieces: _Optional[_Iterable[str]] = ..., query: _Optional[_Union[Tensor, _Mapping]] = ..., passage: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class UnitWeights(_message.Message):
    __slots__ = ("units", "characters", "weights")
    UNITS_FIELD_NUMBER: _ClassVar[int]
    CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    units: Units
    characters: _containers.RepeatedCompositeFieldContainer[TextSpan]
    weights: Tensor
    def __init__(self, units: _Optional[_Union[Units, _Mapping]] = ..., characters: _Optional[_Iterable[_Union[TextSpan, _Mapping]]] = ..., weights: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...

class RerankRequest(_message.Message):
    __slots__ = ("model", "query", "documents", "top_n", "return_documents", "truncation", "dry_run", "priority", "special_tokens", "empty_texts", "prompt_name", "prompt_text")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    TOP_N_FIELD_NUMBER: _ClassVar[int]
    RETURN_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_TEXTS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    model: str
    query: str
    documents: _containers.RepeatedScalarFieldContainer[str]
    top_n: int
    return_documents: bool
    truncation: Truncation
    dry_run: bool
    priority: Priority
    special_tokens: SpecialTokens
    empty_texts: EmptyTexts
    prompt_name: str
    prompt_text: str
    def __init__(self, model: _Optional[str] = ..., query: _Optional[str] = ..., documents: _Optional[_Iterable[str]] = ..., top_n: _Optional[int] = ..., return_documents: bool = ..., truncation: _Optional[_Union[Truncation, str]] = ..., dry_run: bool = ..., priority: _Optional[_Union[Priority, str]] = ..., special_tokens: _Optional[_Union[SpecialTokens, str]] = ..., empty_texts: _Optional[_Union[EmptyTexts, str]] = ..., prompt_name: _Optional[str] = ..., prompt_text: _Optional[str] = ...) -> None: ...

class RerankResponse(_message.Message):
    __slots__ = ("model", "results", "usage", "timings")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    results: _containers.RepeatedCompositeFieldContainer[RankedDocument]
    usage: Usage
    timings: Timings
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., results: _Optional[_Iterable[_Union[RankedDocument, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ...) -> None: ...

class RankedDocument(_message.Message):
    __slots__ = ("index", "score", "logit", "item", "document")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    LOGIT_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    index: int
    score: float
    logit: float
    item: Item
    document: str
    def __init__(self, index: _Optional[int] = ..., score: _Optional[float] = ..., logit: _Optional[float] = ..., item: _Optional[_Union[Item, _Mapping]] = ..., document: _Optional[str] = ...) -> None: ...

class ClassifyRequest(_message.Message):
    __slots__ = ("model", "inputs", "top_n", "truncation", "dry_run", "priority", "special_tokens", "empty_texts", "prompt_name", "prompt_text", "role")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    TOP_N_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_TEXTS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEXT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    model: str
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    top_n: int
    truncation: Truncation
    dry_run: bool
    priority: Priority
    special_tokens: SpecialTokens
    empty_texts: EmptyTexts
    prompt_name: str
    prompt_text: str
    role: InputRole
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., top_n: _Optional[int] = ..., truncation: _Optional[_Union[Truncation, str]] = ..., dry_run: bool = ..., priority: _Optional[_Union[Priority, str]] = ..., special_tokens: _Optional[_Union[SpecialTokens, str]] = ..., empty_texts: _Optional[_Union[EmptyTexts, str]] = ..., prompt_name: _Optional[str] = ..., prompt_text: _Optional[str] = ..., role: _Optional[_Union[InputRole, str]] = ...) -> None: ...

class ClassifyResponse(_message.Message):
    __slots__ = ("model", "results", "usage", "timings")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    results: _containers.RepeatedCompositeFieldContainer[Classification]
    usage: Usage
    timings: Timings
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., results: _Optional[_Iterable[_Union[Classification, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ...) -> None: ...

class Classification(_message.Message):
    __slots__ = ("labels", "item")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[LabelScore]
    item: Item
    def __init__(self, labels: _Optional[_Iterable[_Union[LabelScore, _Mapping]]] = ..., item: _Optional[_Union[Item, _Mapping]] = ...) -> None: ...

class LabelScore(_message.Message):
    __slots__ = ("label", "score", "logit")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    LOGIT_FIELD_NUMBER: _ClassVar[int]
    label: str
    score: float
    logit: float
    def __init__(self, label: _Optional[str] = ..., score: _Optional[float] = ..., logit: _Optional[float] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("model", "info", "limits", "variants", "parity", "quality", "names")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    PARITY_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    info: ModelInfo
    limits: Limits
    variants: _containers.RepeatedCompositeFieldContainer[Variant]
    parity: _containers.RepeatedCompositeFieldContainer[Parity]
    quality: _containers.RepeatedCompositeFieldContainer[Quality]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., info: _Optional[_Union[ModelInfo, _Mapping]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., variants: _Optional[_Iterable[_Union[Variant, _Mapping]]] = ..., parity: _Optional[_Iterable[_Union[Parity, _Mapping]]] = ..., quality: _Optional[_Iterable[_Union[Quality, _Mapping]]] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ListedModel]
    def __init__(self, models: _Optional[_Iterable[_Union[ListedModel, _Mapping]]] = ...) -> None: ...

class ListedModel(_message.Message):
    __slots__ = ("model", "names", "task", "default")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    model: ModelRef
    names: _containers.RepeatedScalarFieldContainer[str]
    task: str
    default: bool
    def __init__(self, model: _Optional[_Union[ModelRef, _Mapping]] = ..., names: _Optional[_Iterable[str]] = ..., task: _Optional[str] = ..., default: bool = ...) -> None: ...

class ModelInfo(_message.Message):
    __slots__ = ("positions", "layers", "heads", "dim", "vocab_size", "trained_length", "max_length", "pooling", "normalized", "accepts", "outputs", "pooled_dim", "prompts", "default_prompt", "include_prompt", "trained_dimensions", "similarity", "pooled_dtypes", "int8_dimensions", "special_tokens", "truncation", "task", "labels", "activation", "token_labels", "multi_vector_dim", "query_tokens")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    TRAINED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    POOLED_DIM_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_PROMPT_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_PROMPT_FIELD_NUMBER: _ClassVar[int]
    TRAINED_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    POOLED_DTYPES_FIELD_NUMBER: _ClassVar[int]
    INT8_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LABELS_FIELD_NUMBER: _ClassVar[int]
    MULTI_VECTOR_DIM_FIELD_NUMBER: _ClassVar[int]
    QUERY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    positions: str
    layers: int
    heads: int
    dim: int
    vocab_size: int
    trained_length: int
    max_length: int
    pooling: str
    normalized: bool
    accepts: _containers.RepeatedScalarFieldContainer[str]
    outputs: _containers.RepeatedScalarFieldContainer[str]
    pooled_dim: int
    prompts: _containers.RepeatedCompositeFieldContainer[NamedPrompt]
    default_prompt: str
    include_prompt: bool
    trained_dimensions: _containers.RepeatedScalarFieldContainer[int]
    similarity: str
    pooled_dtypes: _containers.RepeatedScalarFieldContainer[DataType]
    int8_dimensions: _containers.RepeatedScalarFieldContainer[int]
    special_tokens: SpecialTokens
    truncation: Truncation
    task: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    activation: str
    token_labels: bool
    multi_vector_dim: int
    query_tokens: int
    def __init__(self, positions: _Optional[str] = ..., layers: _Optional[int] = ..., heads: _Optional[int] = ..., dim: _Optional[int] = ..., vocab_size: _Optional[int] = ..., trained_length: _Optional[int] = ..., max_length: _Optional[int] = ..., pooling: _Optional[str] = ..., normalized: bool = ..., accepts: _Optional[_Iterable[str]] = ..., outputs: _Optional[_Iterable[str]] = ..., pooled_dim: _Optional[int] = ..., prompts: _Optional[_Iterable[_Union[NamedPrompt, _Mapping]]] = ..., default_prompt: _Optional[str] = ..., include_prompt: bool = ..., trained_dimensions: _Optional[_Iterable[int]] = ..., similarity: _Optional[str] = ..., pooled_dtypes: _Optional[_Iterable[_Union[DataType, str]]] = ..., int8_dimensions: _Optional[_Iterable[int]] = ..., special_tokens: _Optional[_Union[SpecialTokens, str]] = ..., truncation: _Optional[_Union[Truncation, str]] = ..., task: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., activation: _Optional[str] = ..., token_labels: bool = ..., multi_vector_dim: _Optional[int] = ..., query_tokens: _Optional[int] = ...) -> None: ...

class NamedPrompt(_message.Message):
    __slots__ = ("name", "text")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_items", "max_request_bytes", "max_unary_response_bytes", "max_stream_output_bytes", "max_stream_in_flight", "max_request_tokens")
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_UNARY_RESPONSE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_STREAM_OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_STREAM_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_REQUEST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    max_items: int
    max_request_bytes: int
    max_unary_response_bytes: int
    max_stream_output_bytes: int
    max_stream_in_flight: int
    max_request_tokens: int
    def __init__(self, max_items: _Optional[int] = ..., max_request_bytes: _Optional[int] = ..., max_unary_response_bytes: _Optional[int] = ..., max_stream_output_bytes: _Optional[int] = ..., max_stream_in_flight: _Optional[int] = ..., max_request_tokens: _Optional[int] = ...) -> None: ...

class Variant(_message.Message):
    __slots__ = ("provider", "precision")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    provider: str
    precision: str
    def __init__(self, provider: _Optional[str] = ..., precision: _Optional[str] = ...) -> None: ...

class Parity(_message.Message):
    __slots__ = ("output", "provider", "precision", "max_error", "tolerance")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    MAX_ERROR_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    output: str
    provider: str
    precision: str
    max_error: float
    tolerance: float
    def __init__(self, output: _Optional[str] = ..., provider: _Optional[str] = ..., precision: _Optional[str] = ..., max_error: _Optional[float] = ..., tolerance: _Optional[float] = ...) -> None: ...

class Quality(_message.Message):
    __slots__ = ("provider", "precision", "texts", "count", "real_text", "cosine_mean", "cosine_p1", "cosine_min", "nearest_kept", "ten_nearest_kept", "batch_drift", "kendall_tau", "ndcg_at_10")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REAL_TEXT_FIELD_NUMBER: _ClassVar[int]
    COSINE_MEAN_FIELD_NUMBER: _ClassVar[int]
    COSINE_P1_FIELD_NUMBER: _ClassVar[int]
    COSINE_MIN_FIELD_NUMBER: _ClassVar[int]
    NEAREST_KEPT_FIELD_NUMBER: _ClassVar[int]
    TEN_NEAREST_KEPT_FIELD_NUMBER: _ClassVar[int]
    BATCH_DRIFT_FIELD_NUMBER: _ClassVar[int]
    KENDALL_TAU_FIELD_NUMBER: _ClassVar[int]
    NDCG_AT_10_FIELD_NUMBER: _ClassVar[int]
    provider: str
    precision: str
    texts: str
    count: int
    real_text: bool
    cosine_mean: float
    cosine_p1: float
    cosine_min: float
    nearest_kept: float
    ten_nearest_kept: float
    batch_drift: float
    kendall_tau: float
    ndcg_at_10: float
    def __init__(self, provider: _Optional[str] = ..., precision: _Optional[str] = ..., texts: _Optional[str] = ..., count: _Optional[int] = ..., real_text: bool = ..., cosine_mean: _Optional[float] = ..., cosine_p1: _Optional[float] = ..., cosine_min: _Optional[float] = ..., nearest_kept: _Optional[float] = ..., ten_nearest_kept: _Optional[float] = ..., batch_drift: _Optional[float] = ..., kendall_tau: _Optional[float] = ..., ndcg_at_10: _Optional[float] = ...) -> None: ...
