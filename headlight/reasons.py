"""Reasons of refusals, and parts of their sentences, in the words of the contract.

A sentence follows the name of the field. A name in braces is a number or a name that the refusal
holds; one in capitals is a part, which an edge may word otherwise (`headlight.refusals.Edge`). The
names of reasons are sent to clients: one is never renamed, and never gets another meaning.
"""

from __future__ import annotations

import enum

Reason = enum.Enum(
    "Reason",
    {
        # Texts and ids
        "EMPTY_TEXT": "is empty; give at least one character",
        "NO_TEXTS": "no text was given; give at least one",
        "NO_KNOWN_TOKEN": "has no token that the model knows; give another text",
        "BEYOND_PATTERNS": "is more than the tokenizer's patterns can read; shorten it",
        "LONE_SURROGATE": (
            "holds a lone surrogate, which UTF-8 cannot express; decode the text properly"
        ),
        "ONE_TOKEN_EACH": "every text has one token; give a text of two tokens or more",
        "TOO_MANY_TOKENS": "have more than {most} tokens together; {SPLIT}",
        "TOO_LARGE": "takes {size} bytes, and a request at most {most}; shorten it",
        "NOT_TAKEN": "this model takes {names}",
        "IDS": "has {count} ids; give 1 to {most}",
        "NOT_AN_INTEGER": "holds something that is not a 64-bit integer",
        "NO_SEGMENTS": "this model was trained without segments; leave it empty",
        "SEGMENTS": "has {segments} entries for {ids} ids; give one of each, or none",
        "NO_INPUT": "is empty; set {names}",
        "PAIR_COMPARED": "is a pair of texts; give a text or ids",
        # Lists
        "NO_ENTRIES": "is empty; give at least one",
        "ENTRIES": "has {count} entries; give 1 to {most}",
        "TOO_MANY_ENTRIES": "has {count} entries; give at most {most}",
        "MORE_THAN_THE_MODEL": (
            "has {count} entries, and the model has at most {most}; name each once"
        ),
        "ONE_FOR_EACH_INPUT": "has {count} entries; give one for each input",
        "ENTRIES_FOR_INPUTS": "has {lists} entries for {inputs} inputs; give one for each",
        "LISTS_FOR_TEXTS": "has {count} lists for {inputs} texts; give one for each",
        "LISTS_FOR_PASSAGES": "has {count} lists for {passages} passages; give one for each",
        "TWICE": "names one twice; name each once",
        "TWICE_FROM_THE_END": "names one twice (negative ones count from the end); name each once",
        "TWICE_OF": "names one twice (negative ones count from the end); name each of {count} once",
        "TWICE_AMONG": "names one twice: {names}; name each once",
        "REQUESTED_TWICE": "{method} is requested twice; ask for each method once",
        "NAMES_NONE": "must name at least one; None means all",
        "NO_TOKEN_NAMED": "names no token; name at least one, or leave it out for all",
        "STEP": "has the step {step}; name each one",
        "A_RUN": "is a Run; Runs name layers or heads. Name tokens by range({ends})",
        "SET_TWICE": "is set, and so is {other}; send one",
        # Values
        "MUST_BE": "must be {kind}",
        "IS_AND_MUST_BE": "is {value}; must be {kind}",
        "MUST_BE_OR_NULL": "must be {kind}, or null",
        "MUST_BE_ONE_OF": "must be one of {names}",
        "NOT_ONE_OF": "is {value}; must be one of {names}",
        "NONE_OF": "must be None, {names}",
        "NO_NAME": "must be None, {names}, not {value}",
        "NOT_WHOLE": "holds {value}; name whole numbers",
        "OUT_OF_RANGE": "is {value}; valid are {least} .. {last}",
        "NOT_IN_RANGE": "is out of range; send an integer from {least} to {most}",
        "NOT_FINITE": "has a number that is not finite; give finite ones",
        "TARGET_NUMBERS": "has {count} numbers; give the {width} of a pooled vector",
        "NOT_KNOWN": "{number} is not known to this server; {LEAVE_FIELD}",
        "NO_KIND": "has no kind; set given, sentences or windows",
        "NO_TOKENS_CHOSEN": "is empty; set named, indices or span, or leave it out for all tokens",
        "ID_BYTES": "must have 1 to {most} bytes",
        "ID_IN_USE": "is that of a request still unanswered; use each id once at a time",
        # Prompts
        "NO_PROMPT_FOR": (
            "a prompt is put before a text, but {what} are used unchanged; leave it out"
        ),
        "TWO_PROMPTS": "and prompt_name are both given; give one of them",
        "TWO_PROMPTS_SET": "and prompt_text are both set; send one of them",
        "PROMPT_NOT_UTF8": "and prompt_name must be texts that UTF-8 can express",
        "NO_SUCH_PROMPT": "is not a prompt of this model; choose {names}, or {USE_PROMPT}",
        "LONG_PROMPT": "has {count} characters; at most {most} are taken",
        # Vectors
        "DIMENSIONS": "is {value}; this model's vectors have 1 .. {width}",
        "TERMS": "is {value}; this model's vocabulary has 1 .. {most} terms",
        "MIN_WEIGHT": "must be a number of at least 0, and finite",
        "NO_PIECES": "this model has no tokenizer, which spells terms; leave it out",
        "NO_POOLED_METHOD": (
            "is {method}, whose weights are those of a text's vector, and this model gives none: "
            "use {instead} or occlusion"
        ),
        "POOLS_OTHERWISE": (
            "is {method}, which needs a model that averages its token vectors, and this one's "
            "pooling is {pooling}; use occlusion"
        ),
        "DENSE_UNKNOWN": (
            "is {method}, which needs the layers behind pooling, and this bundle lacks them; "
            "export the model again, or use occlusion"
        ),
        "NOT_ADDITIVE": (
            "is contributions, whose sum is the score, and {why} of this model is no sum over "
            "tokens; use span or occlusion"
        ),
        "NO_SUMS": (
            "weights of {method} are no sums over tokens; leave it out, or use one of {names}"
        ),
        "NO_QUERY_UNITS": "{method} has no weights of the query's units; use one of {names}",
        "NOT_DISTINCT": (
            "{method} does not weigh down what passages share; leave it out, or use one of {names}"
        ),
        "ONLY_OF_OCCLUSION": "is only of occlusion, of words or tokens; leave it out",
        "FEW_ENCODINGS": "is {value}; hide at least 2 units of each passage",
        "NO_VECTOR": (
            "no token of this input has a vector: the model skips them all; write a word"
        ),
        "BITS_OF_WIDTH": (
            "{dtype} packs 8 numbers into a byte, and this model's vectors have {width}; "
            "choose another type"
        ),
        "NOT_A_MULTIPLE": "is {width}; {dtype} packs 8 into a byte, ask for a multiple of 8",
        "INT8_CALIBRATED": "int8 was calibrated on vectors {form}; {LEAVE_NORMALIZE}",
        "INT8_RANGES": (
            "int8 of {width} dimensions needs their ranges, and this bundle has {have}; "
            "export it with `headlight export --calibration TEXTS`"
        ),
        "SEVERAL_TYPES": "names several types; use encode_with_info(...).by_type",
        "WIDTHS_DIFFER": "has vectors of {width} numbers, and a of {other}; cut both alike",
        "NOT_VECTORS": (
            "is {dtype} of {axes} axes; must be float vectors [N, D] or [D], as encode returns them"
        ),
        "HEAD_MASK_SHAPE": "has the shape {shape}; this model has {layers} layers of {heads} heads",
        "HEAD_MASK_VALUES": "has {count} values; give {layers} x {heads}, heads within layers",
        "HEAD_MASK_RANGE": "has a value outside 0 to 1; 1 keeps a head, 0 removes it",
        # Attention and hidden states
        "ATTENTION_OFF": "this server runs with --attention off; {SEE_OUTPUTS}",
        "GIVES_NO": "this model gives no {what}; it gives {names}",
        "OPENED_WITHOUT": (
            "this runtime was opened with attend=False; leave it out, or open another without"
        ),
        "NO_STATISTICS": (
            "hold no statistics; ask for them by AttentionSpec(reduce=('statistics',))"
        ),
        "TWO_PARTS": "with uint8 or top_k comes in two parts; use `attention`, or leave these out",
        "ROLLOUT_LAYERS": (
            "rollout multiplies all layers from the first to the last; leave it empty"
        ),
        "NO_RANGE_OF_8_BITS": "hidden states have no range that 8 bits could cover; use float16",
        "EMPTY_RUN": "is the run {begin}:{end}, which holds none or leaves 0 .. {last}",
        "TOO_MANY_KEYS": "chooses among at most {most} keys; choose fewer keys",
        "POOLED_TOKEN_DROPPED": (
            "would drop the pooled token, but its row is requested; set drop_special to false"
        ),
        "SPECIAL_UNKNOWN": "special tokens are known only for texts; give texts instead of ids",
        "ALL_SKIPPED": "skips every token of this input; skip fewer",
        "MORE_THAN_TOKENS": "names {count} tokens; this input has {tokens}, name each once",
        "NO_SUCH_TOKEN": "is {value}; this input has tokens 0 .. {last}",
        "NO_SPECIAL_TOKEN": "this input has no special token",
        "NONE_LEFT": "drop_special leaves no token of this input; leave it out",
        "POOLED_TOKEN_HIDDEN": "token {token} is the pooled vector; hide others",
        "NOTHING_LEFT": "hiding these tokens would leave nothing of the input; choose fewer tokens",
        # Spans
        "EMPTY_SPAN": (
            "is the span {start} .. {end}, which holds no character; end it behind its start"
        ),
        "SPAN_WITHOUT_TOKEN": (
            "no token of this input lies in characters {start} .. {last} of text {text}; "
            "offsets count code points"
        ),
        "MORE_SPANS_THAN_TOKENS": "has {count} spans; this input has {tokens} tokens",
        "OVERLAP": "has two that overlap: {both}; ask for them one after the other",
        "SPAN_NOT_CHOSEN": "contains none of the chosen tokens; leave the span out",
        "SPANS_FOR_PASSAGE": "has {count} spans; give 1 to {tokens}, as this passage has tokens",
        "SPAN_WITHOUT_WEIGHT": (
            "{start} .. {end} holds the last character of no token that can be weighed; "
            "extend it, or leave it out"
        ),
        "SPAN_OUTSIDE_PASSAGE": (
            "is {start} .. {end} of text {text}; it must hold a character, and lie in the "
            "passage, characters 0 .. {characters} of text 0"
        ),
        "SPANS_AND_TOKENS": "has {count} spans, and a request at most {most} tokens",
        "ALONE_WITH_TOKENS": (
            "takes no other outputs than token_info: they need one encoding of the whole "
            "text; ask for them apart"
        ),
        "UNKNOWN_DENSE": (
            "an earlier export does not say whether this model has Dense layers; export it "
            "again: headlight export MODEL --out BUNDLE"
        ),
        "NO_HEAD_GRAPH": (
            "needs the graph `head` of the layers behind pooling, which this bundle lacks; "
            "write it with this version: headlight export MODEL --out BUNDLE"
        ),
        "SPANS_ARE_MEANS": (
            "vectors of spans are means of tokens, and this model pools by {pooling}; ask for"
            ' "mean" if that is meant'
        ),
        "WINDOW_SIZE": "is {size}; must be at least 1",
        "WINDOW_OVERLAP": "is {overlap}; must be from 0 to {most}, below size",
        "NO_ROOM_BESIDE_PROMPT": (
            "its prompt and special tokens are {tokens} tokens, the model takes {most}; "
            "shorten the prompt"
        ),
        "ONLY_SPECIAL_TOKENS": "has only special tokens and its prompt; give a text",
        "SPANS_OF_AN_INPUT": (
            "has {count} spans; 1 to {most} are answered, split the text or ask less"
        ),
        "SPANS_OF_A_REQUEST": "has {count} spans; at most {most} a request, split it",
        "SPAN_BETWEEN_TOKENS": (
            "shares no character with a token ({start} .. {end}); leave it out, or truncate less"
        ),
        # Comparison
        "ONLY_OF_ATTENTION": "are of attention alone; leave them out",
        "ONLY_OF_SPANS": 'are of unit "span" alone; leave them out',
        "NO_TOP_K": "is {value}; ask for at least 1, or leave it out",
        "NO_MATRIX": "is set, and no matrix is requested; leave it out",
        "SINGLE_UNIT": (
            "is a single unit, and hiding it leaves nothing to pool; choose smaller units"
        ),
        "NO_PASSAGES": (
            "cannot be sent: a request has at most {items} items, the query included; the "
            "service must be started with --max-items 2 or more"
        ),
        "MATRICES_BYTES": (
            "the matrices have {size} bytes, over the {most} allowed; {FEWER_PASSAGES}"
        ),
        "PASSAGES_BYTES": (
            "their vectors and the answer would take {size} bytes, over {most}; give fewer "
            "passages per request"
        ),
        "COMPARISON_BYTES": (
            "the answer may have {size} bytes, over {most}; give fewer than these {passages},"
            " or ask for top_k, larger units or no matrix"
        ),
        # Answers
        "OUTPUT_BYTES": (
            "{output} would have {size} bytes, over the {most} allowed{fits}; ask for less, "
            "or allow more"
        ),
        "ANSWER_BYTES": "the answer would have {size} bytes, over {most}{fits}; {remedy}",
        "ANSWER_BYTES_OF_JSON": (
            "the answer would have up to {size} bytes of JSON, over {most}{fits}; {remedy}"
        ),
        "TOKENS_BYTES": (
            "the answer to the first {done} of {inputs} would have {size} bytes, over {most};"
            " {FEWER_OR_SHORTER}"
        ),
        "TOKEN_INFO_BYTES": "would have {size} bytes; {FEWER_INPUTS}",
        # Messages
        "NEWER": "asks for something that this server does not know; {OLDER_THAN_CLIENT}",
        "BODY_NO_OBJECT": "the body must be a JSON object, as {{...}}",
        "BODY_NESTING": (
            "the body is not valid JSON here: it has {levels} levels of lists and objects; at"
            " most {most} are read"
        ),
        "BODY_LISTS": (
            "the body has {count} lists and objects; at most {most} are read: send less at once"
        ),
        "BODY_VALUES": (
            "the body has {count} JSON values; at most {most} are read: send less at once"
        ),
        "NO_ENCODING": 'is not an encoding of numbers; send "list" or "base64"',
        "NO_SUCH_VALUE": "is no {name}; send one of {names}",
        "TIMEOUT_RANGE": "must be seconds, above 0 and at most {most}",
        # Public protocols
        "IDS_NOT_TAKEN": (
            "token ids are not taken here: nothing in a request says which vocabulary they "
            "are of. Send texts; LangChain does with "
            "OpenAIEmbeddings(check_embedding_ctx_length=False)"
        ),
        "TEXTS_ALONE": "must be a text; a list holds texts alone",
        "EMPTY_LIST": "is an empty list; send at least one text",
        "NESTED_LIST": 'is a list; send one list of texts, as ["a", "b"], without further ones',
        "NO_TOKEN_ID": "holds a number that is no token id",
        "ONE_FOR_EACH": "has {count} entries for {first}; send one for each, or one first text",
        "NOT_APPLIED": "is not applied here; leave it out",
        "MISSING_INPUT": "is missing; send a text, or a list of texts",
        "ONLY_FLOAT": "must be float; POST /v1/embeddings has base64",
        "OTHER_POOLING": (
            "is not the pooling of this model, which is {pooling}; set poolingStrategy: {name} in"
            " the collection's module configuration"
        ),
        "UNKNOWN_DIRECTION": "is unknown; send RIGHT or LEFT",
        # The Open Inference Protocol
        "TOO_MANY_OUTPUTS": "names {count}; name at most {most}",
        "LAYER_TWICE": 'an output as "attention.0" chooses a layer; leave out attention_layers',
        "MIXED_LAYERS": (
            'name either outputs as "attention.0" or outputs as "attention.0.3", which choose'
            " a layer and a head; the latter without attention_heads"
        ),
        "NOT_NUMBERS": "has {text}; write whole numbers, as 0 or -1 or 0,3",
        "WHOLE_TENSORS": "is not served; leave it out: tensors come whole",
        "TWO_OF_PROMPT": "comes with prompt_name; send one of them",
        "LONG_PARAMETER": "has {count} characters; at most {most} are read",
        "NO_STATE": "this model keeps no state between requests; leave it out",
        "NEGATIVE_TIMEOUT": "is negative; send microseconds, or 0 for none",
        "NEGATIVE_PRIORITY": "is negative; 1 is the highest, 0 the default",
        "NO_OPTION": (
            "is not an option of this model, whose options are {names}; for more, use {method}"
        ),
        "PADDED_BYTES": (
            "the padded answer would have {size} bytes, over {most}; send fewer texts, or "
            "texts of one length; of attention, choose attention_layers, attention_heads or "
            "attention_reduce, or allow more by attention_max_bytes; {method}Stream does not "
            "pad"
        ),
        "TENSOR_TWICE": "two have one name; send each tensor once",
        "NO_TENSOR": "has no texts and no ids; send a BYTES tensor, or {ids}",
        "TENSORS": "has {count} tensors; send one BYTES tensor of texts, or {ids} with {mask}",
        "RAW_ENTRIES": "has {count} entries for {inputs} inputs; send one for each, or none",
        "SHAPE_OF_TEXTS": "has the shape {shape}; send texts as [N] or [N, 1]",
        "SHAPE_OF_IDS": "has the shape {shape}; send ids as [N, T]",
        "SHAPE_OF_TENSOR": "has the shape {shape}; send {expected}, as {ids}",
        "BYTES_BEHIND": "has {size} bytes behind its {count} elements; is the shape right?",
        "MASK_RUN": "must be 1 for one run of tokens, and 0 before and behind it",
        "TENSOR_TYPE": "has the type {datatype}; send INT64, or texts as BYTES",
        "TENSOR_CONTENTS": (
            "has {given} entries in contents.{name} for {count} elements; send all there, or "
            "all inputs as raw_input_contents"
        ),
        "ROWS": "has {count} rows; send 1 to {most}",
        "NO_SUCH_INPUT": (
            "is not an input; send one BYTES tensor of texts, or {names} of type INT64; pairs"
            " of texts: {method}"
        ),
        "SHARED_MEMORY": "is in shared memory; send it in the message",
        "CONTENTS_TWICE": "has contents beside raw_input_contents; send one of them",
        "TENSOR_ENDS": (
            "the buffer of {count} bytes ends within it; write each element as its length in "
            "4 bytes, little-endian, and its bytes"
        ),
        "NOT_UTF8": "is not UTF-8; encode it so",
        # Tables and clients
        "COLUMN_TOO_LONG": "has {count} entries in one column of lists; use fewer rows a batch",
        "NO_COLUMN": "there is no column {name}; there are {names}",
        "COLUMN_TYPE": "{name} is {type}; name a column of strings, or cast it",
        "NO_TABLE": 'is {type}, not an Arrow table; give batch_format="pyarrow" to map_batches',
        "COLUMN_TAKEN": "has a column {name} already; drop it, or give another prefix",
        "OTHER_DIGEST": (
            "the service serves {name} {version} with the digest {sha256}, expected "
            "{expected}; serve that bundle"
        ),
        "TOO_LARGE_FOR_GRPC": "{message}; {LESS_AT_ONCE}",
        # Lengths
        "TOO_LONG": "has {tokens} tokens, the model takes {most}; {SHORTEN_OR_CUT}",
        "TOO_LONG_WITH_PROMPT": (
            "has {tokens} tokens with its prompt, the model takes {most}; {SHORTEN_OR_CUT}"
        ),
        "NO_ROOM_BESIDE_SPECIAL": (
            "its special tokens are {tokens} tokens, the model takes {most}; give one text"
        ),
        "NO_ROOM_BESIDE_FIRST": (
            "has {tokens} tokens with special tokens, the model takes {most}, and nothing is left "
            "for the other text; shorten it"
        ),
        "TERMS_WITHOUT_UNITS": "evidence by terms has no units; leave it out",
        "READS_PAIRS": (
            "needs vectors of the query alone, and this model reads it together with each passage; "
            'leave it out, and ask for evidence by "occlusion" or "attention"'
        ),
        "PART_OF_PAIR": "is not a text; this model reads a query and a passage as a pair of texts",
        "MASK_OF_QUERY": (
            "masks the query alone, which this model reads together with each passage; "
            "give a mask with each passage"
        ),
        "NO_ATTENDING_TOKENS": "has no token but special ones, and attention is that of its tokens",
        "QUERIES_DIFFER": (
            "has other units of the query: the query was cut, or top_k left some out; "
            'compare without top_k, and with truncate="only_second"'
        ),
        "NO_RERANKER": "gives {labels} scores, and reranking takes one; call classify or scores",
        "CLASSIFIES_TOKENS": "has scores of each token, not of a text; call scores",
        "CLASSIFIES_TEXTS": "this model has scores of a text, not of each token; ask for classify",
        "OTHER_WIDTH": "is {value}; these vectors have {width}, and are not cut: leave it out",
        "CHARACTERS": "has {characters} characters; at most {most} are read; {remedy}",
        "CHARACTERS_WITH_PROMPT": (
            "has {characters} characters, {prompt} of them its prompt; at most {most} are "
            "read; {remedy}"
        ),
        "CUT_AT_END_UNKNOWN": (
            "has {characters} characters; the first {most}, which are read, do not show where"
            " to cut it; {SHORTEN_OR_SPLIT}"
        ),
        "CUT_AT_START_UNKNOWN": (
            "has {characters} characters; the last {most}, which are read, do not show where "
            "to cut it; {SHORTEN_OR_SPLIT}"
        ),
        "ID_RANGE": "the id at {place} is not in 0 .. {last}; give ids of this model",
        "SEGMENT_RANGE": "the segment at {place} is not in 0 .. {last}; give ids of this model",
        # Lists of texts
        "ONLY_KEYS": "is a {type}, of which only the keys would be read; give list(texts.values())",
        "NO_ORDER": "is a {type}, which has no order; give a list",
        "ONLY_COLUMNS": (
            "is a {type}, of which only the names of columns would be read; give one column"
        ),
        "ONLY_NUMBERS": "must hold numbers alone",
        "NO_TARGET": 'is {target}; name a service as "host:port"',
        "PORT": "is {target}; a port is a number from 1 to {most}",
        "A_URL": (
            'is {target}; name a service as "host:port", without what a URL has; TLS is asked'
            " for by itself"
        ),
        "BARE_IPV6": (
            'is {target}; name a service as "host:port", an address of IPv6 in brackets: '
            '"[::1]:50051"'
        ),
        "NO_LIST": "is {type}; must be a text, or a list of texts, pairs or ids",
        "NO_SPEC": "is a {type}; must be a headlight.AttentionSpec",
        # Prompts of models that have none
        "TAKES_IDS": "this model takes ids",
        "NO_PROMPTS": "is not a prompt of this model; it has none; {USE_PROMPT}",
        # Rules of attention
        "POOLING_WEIGHTS": (
            "this model pools by {pooling}: no one token is its vector; use reduce pooling_weights"
        ),
        "NOT_ONE_TOKEN": (
            "this model pools by {pooling}: no one token is its vector; name other tokens"
        ),
        "NO_WEIGHTS": "this model pools by max, where no token has a weight; leave it out",
        "PAIRS_ALONE": "stands for layers and heads; leave those empty",
        "TWO_REDUCTIONS": "has two reductions for one axis: {names}; choose one for each",
        "STATISTICS_ALONE": "statistics are of single heads; leave out the others",
        "SCORES_REDUCED": "scores cannot be reduced; request weights",
        "PAIRS_REDUCED": (
            "cannot be combined with pairs, which select single heads; use layers and heads"
        ),
        "ROWS_OF_ALL": "pooled_row and pooling_weights are of all tokens; leave it out",
        "STATISTICS_OF_ROWS": "statistics are of whole rows of tokens; leave out top_k, keys, unit",
        "STATISTICS_TYPE": "statistics are float32",
        "SCORES_RANGE": "scores have no range that 8 bits could cover; use float16 or float32",
        "SCORES_SUM": "scores have no sum to restore; choose queries and keys instead",
        "SCORES_UNITS": "scores cannot be summed; ask for weights",
        "UNIT_SPAN": "unit span needs at least one, and no other unit takes any",
        "TOKENS_UNKNOWN": (
            "special tokens, words and spans are known only for texts; give texts instead of ids"
        ),
        "NO_UNITS_OF_IDS": (
            "a passage of ids has no words, sentences or spans; give texts, or ask for tokens"
        ),
        "NOT_A_SINGLE_TEXT": "needs a single text; give the text instead of ids or of a pair",
        "SPAN_RANGE": (
            "is {start} .. {end}; the text has characters 0 .. {last}, and a span starts "
            "before its end"
        ),
        "SPAN_RANGE_OF_TEXT": (
            "is {start} .. {end} of text {text}; the text has characters 0 .. {last}, and a "
            "span starts before its end"
        ),
        # Messages as JSON
        "ALL_TOKENS_BYTES": "the answer would have {size} bytes, over {most}; {FEWER_OR_SHORTER}",
        "NO_SUCH_FIELD_NEAR": "is no field of {name}; did you mean {near}?",
        "NO_SUCH_FIELD": "is no field of {name}; there is {names}",
        "NO_SUCH_VALUE_NEAR": "is no {name}; did you mean {near}? Accepted: {names}",
        "IS_OF_TYPE": "is {type}; send {kind}",
        "BODY_OF_TYPE": "the body is {type}; send {kind}",
        "BODY_NOT_UTF8": "the body is not valid UTF-8 (at {where}); encode it as UTF-8",
        "BODY_SURROGATE": (
            "the body has a lone surrogate, half of a UTF-16 pair (at {where}), which is no "
            "character; cut texts between characters, or replace it by U+FFFD"
        ),
        "BODY_NO_JSON": "the body is not valid JSON in UTF-8 (at {where}); NaN is not JSON either",
        "UNDECODABLE": "the message cannot be decoded; {ONE_VERSION}",
        "NO_MESSAGE": "the call ended without a message; send one",
        # The Open Inference Protocol, outputs
        "NO_OUTPUT": "{name} is not an output; there is {names}; other outputs: {method}",
        "NO_OUTPUT_OF_ATTENTION": (
            '{name} is not an output; there is {names} and, without "attention", as '
            "attention.LAYER or attention.LAYER.HEAD; other outputs: {method}"
        ),
        "TENSOR_BYTES": (
            "has {size} bytes for {datatype} of the shape {shape}; send {itemsize} bytes for "
            "each element"
        ),
        "TENSOR_WITHOUT_BYTES": (
            "has no buffer for {datatype} of the shape {shape}; send {itemsize} bytes for "
            "each element"
        ),
        # Changes of the served models
        "UNNAMED": "is empty; name a model, as name or name@version",
        "LAST_MODEL": "is the last model; load another one first",
        "ALIAS_FORM": "must be 1 to 200 printable characters, without a comma",
        "NOT_LOADED": "was not loaded, and what was served stays: {problem}",
        # Models, tokens and load: not invalid input
        "NOT_SERVED": "not served here; there is {names}",
        "OTHER_VERSION": "{name} has only version {version}; leave it out",
        "NO_SERVICE": "no such service; there are {names}, or leave the name out",
        "NO_MODEL": "no model is served here any more; load one",
        "LOADING": "the model is still being loaded; {TRY_SOON}",
        "REPLACED": "the model was replaced before the request was admitted; repeat the request",
        "ENDING": "{THIS_REPLICA} is shutting down; {TRY_LATER}",
        "STREAM_ENDING": "{THIS_REPLICA} is shutting down; {RESEND}",
        "NO_TOKEN": "the call has no token; {SEND_TOKEN}",
        "WRONG_TOKEN": "the token is not one of this server's; {TOKEN_REPLACED}",
        "TWO_TOKENS": "the call has two authorization entries; send one",
        "REQUEST_BYTES_OF_CLIENT": (
            "{size} bytes of requests arrive from this client alone; {WAIT_OR_ANOTHER}"
        ),
        "REQUEST_BYTES": (
            "requests of {held} bytes are held, over {limit} with these {size}; {WAIT_OR_ANOTHER}"
        ),
        "QUEUE_FULL": (
            "the queue is full ({held} of {limit} tokens, {tokens} asked for); {WAIT_OR_ANOTHER}"
        ),
        "QUEUE_FULL_FOR_BULK": (
            "the queue is full for bulk ({held} of {limit} tokens, {tokens} asked for); "
            "{WAIT_OR_ANOTHER}"
        ),
        "QUEUE_FULL_FOR_MODEL": (
            "the model's part of the queue is full ({held} of {limit} tokens, {tokens} asked for); "
            "{WAIT_OR_ANOTHER}"
        ),
        "OTHERS_WAIT": (
            "other requests wait for the queue ({held} of {limit} tokens, {tokens} asked "
            "for); {WAIT_OR_ANOTHER}"
        ),
        "ANSWERS_HELD": (
            "the answer would have {size} bytes; {held} of {limit} are in use{fits}; "
            "{WAIT_OR_ANOTHER}"
        ),
        "WAIT_BEYOND_DEADLINE": (
            "with the current queue, this may take {wait} s, and the deadline is in {left} s;"
            " {WAIT_OR_ANOTHER}"
        ),
        "ALONE_BEYOND_DEADLINE": (
            "alone this may take {wait} s, and the deadline is in {left} s; allow more time, "
            "or ask for less"
        ),
        "QUOTA": "the quota of {rate} tokens a second is used up; wait {wait} s, or ask for less",
        "INTERNAL": "internal error; see error id {id} in the server's log",
        "STALLED": "too little was read for {seconds} s; {RESEND}",
        "NOT_READ": "the answer was not read",
        "TOO_MANY_CALLS": "too many calls are open on {THIS_REPLICA}; {CLOSE_OR_ANOTHER}",
        "TOO_MANY_WATCHERS": "{count} callers watch already; ask with Check",
        "MEMORY": (
            "there is not enough memory for this request; ask for less at once: fewer texts, "
            "shorter texts or less attention, or allow the service more memory"
        ),
        "DEVICE_MEMORY": (
            "the memory of the GPU is full; ask for less at once: fewer outputs, shorter texts"
        ),
        "EXPIRED": "the deadline passed in the queue; inputs that had not started are discarded",
        "EXPIRED_IN_PART": "the deadline passed while a part waited for the queue",
        "EXPIRED_BEFORE_QUEUE": "the deadline has passed before the work was queued",
        "EXPIRED_WHILE_SENT": "the deadline passed while the request was sent",
        "EXPIRED_OVER_HTTP": (
            "the deadline has passed; allow more time in X-Request-Timeout, or ask for less"
        ),
        "NOT_IMPLEMENTED": "the server does not have this method; {OLDER_THAN_CONTRACT}",
        "ARRIVED_TOO_SLOWLY": "the request did not arrive within {seconds} s; {LESS_OR_SLOWER}",
        "MIXED_WEIGHTS": (
            "replicas answered one call with different weights ({models}); call again when "
            "the roll-out has ended"
        ),
        "MIXED_IN_A_JOB": "replicas answered one call with different weights ({models})",
        # Words of another program, which are passed on
        "AS_IS": "{problem}",
    },
    module=__name__,
)

Phrase = enum.Enum(
    "Phrase",
    {
        # Remedies
        "SPLIT": "split the request",
        "SHORTEN_OR_CUT": "shorten it or ask for truncation, {TRUNCATE_BY}",
        "SHORTEN_OR_SPLIT": "shorten it, or split it into several texts",
        "TRUNCATE_BY": (
            'as truncate="end"; for all requests of a service: headlight serve --truncation end'
        ),
        "USE_PROMPT": "use prompt_text",
        "LEAVE_FIELD": "see the contract, or leave the field out",
        "LEAVE_NORMALIZE": "leave normalize out",
        "SEE_OUTPUTS": "the model's description lists the outputs",
        "FEWER_DOCUMENTS": "give a smaller top_n, or leave out return_documents",
        "FEWER_INPUTS": "send fewer inputs per request",
        "FEWER_INPUTS_OR_LESS": "send fewer inputs per request, or ask for less",
        "FEWER_OR_SHORTER": "send fewer or shorter inputs",
        "FEWER_LABELS": "give a smaller top_n, or fewer inputs per request",
        "FEWER_PASSAGES": "give fewer passages, ask for float16, or allow more",
        "LESS_OF_ONE_MESSAGE": (
            "ask for fewer layers or inputs, reduce attention, or use EncodeStream"
        ),
        "LESS_OF_A_REQUEST": "ask for fewer layers or inputs per request, or reduce attention",
        "LESS_OR_BASE64": (
            'ask for "encoding": "base64", or fewer layers or inputs, reduce attention, or '
            "use EncodeStream"
        ),
        "SHORTER_TEXT": "send a shorter text",
        "SHORTEN_OR_STREAM": "shorten the text, or use EncodeStream of headlight.v1",
        "LESS_AT_ONCE": "send or ask for less at once",
        "OLDER_THAN_CONTRACT": "is it older than the contract of the client?",
        "OLDER_THAN_CLIENT": "it is older than the client",
        "ONE_VERSION": "is the client built from this server's .proto?",
        "SEND_TOKEN": "send it as metadata or a header, `authorization: Bearer TOKEN`",
        "TOKEN_REPLACED": "was it replaced?",
        "WAIT_OR_ANOTHER": "wait, or ask another replica",
        "TRY_SOON": "try again soon, or another replica",
        "TRY_LATER": "try another, or this one later",
        "RESEND": "resend unanswered requests on a new stream",
        "CLOSE_OR_ANOTHER": "close idle streams, or try another replica",
        "THIS_REPLICA": "this replica",
        "LESS_OR_SLOWER": "send less at once, or ask for a longer --stall-seconds",
        # What would fit
        "LAYERS_FIT": "; {fitting} of these {among} layers would fit",
        "PAIRS_FIT": "; {fitting} of these {among} pairs would fit",
        "INPUTS_FIT": "; the first {fitting} of these {among} inputs would fit",
        "FLOAT16_FITS": "; dtype float16 would fit",
        "HEAD_MEAN_FITS": "; reduce head_mean would fit",
        "TOP_K_FITS": "; top_k 8 would fit",
        "SMALL_HEAD_MEAN_FITS": "; reduce head_mean with dtype float16 would fit",
        "STATISTICS_FIT": "; reduce statistics would fit",
        # Kinds of values
        "TEXT": "a text",
        "TEXT_OR_TEXTS": "a text, or a list of texts",
        "TEXTS": "a list of texts",
        "TWO_TEXTS": "a list of two texts",
        "ONE_OR_TWO_TEXTS": "a text, or a list of one or two texts",
        "DOCUMENT": 'a text, or an object as {{"text": "..."}}',
        "DOCUMENTS": 'a list of texts, or of objects as {{"text": "..."}}',
        "INPUT": "a text, a pair of texts (a tuple), or a sequence of integer ids (at least one)",
        "TEXT_OR_IDS": "a text, or a list of token ids",
        "TEXT_CONTENT": 'an object as {{"content": [{{"type": "text", "text": "..."}}]}}',
        "OBJECT": "an object",
        "FLAG": "True or False",
        "FLAG_OR_NONE": "True, False or None",
        "TRUE_OR_FALSE": "true or false",
        "WHOLE": "a whole number",
        "FLOAT": "float",
        "FLOAT_OR_BASE64": "float or base64",
        "RIGHT_OR_LEFT": "right or left",
        "ENDS": "none, start or end",
        "PRIORITY": "interactive or bulk",
        "BYTES": "a number of bytes above 0",
        "SECONDS": "a number of seconds",
        "SECONDS_FROM_0": "a number of seconds from 0",
        "MODEL_NAME": "a text that UTF-8 can express, or empty for the default model",
        "VECTOR": "a text, or a vector of finite numbers, as encode returns it",
        "VECTOR_OF": "a text, or a vector of {width} finite numbers, as encode returns it",
        "EVIDENCE": "a method's name, an EvidenceSpec, or a list of them",
        "TUPLE_OF": "a tuple of {names}",
        "WIDTH": "a whole number from 1 to the width of the vectors, and is {value}",
        "WINDOWS": "Windows of whole numbers from 0",
        "SPAN_KINDS": '"sentences", Windows, or for each text a list of (start, end)',
        "PAIRS": "a list of (layer, head), two whole numbers each",
        "SPANS": "Spans, each with a start, an end and a text that are whole numbers from 0",
        "SPAN": "a Span with a start, an end and a text that are whole numbers from 0",
        "TOKENS": "one of {names}, a list of whole numbers, or a Span",
        "INDICES": "whole numbers (of 32 bits) or runs of them",
        "WHOLE_NUMBERS": "whole numbers of 32 bits",
        "WHOLE_FROM_0": "a whole number from 0",
        "WHOLE_FROM_1": "a whole number from 1 to 4294967295",
        "NAMES": "a list of names",
        "LAYERS_AND_HEADS": "a list of (layer, head)",
        "STARTS_AND_ENDS": "a list of (start, end) or (start, end, text)",
        "A_STRING": "a string",
        "A_BOOLEAN": "a boolean",
        "A_NUMBER": "a number",
        "A_LIST": "a list",
        "AN_INTEGER": "an integer from {least} to {most}",
        "STRING_OF": "a string, one of {names}",
        "SPANS_OF_PASSAGES": "a list of Spans for each passage",
    },
    module=__name__,
)
