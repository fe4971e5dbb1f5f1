#!/bin/sh
# Files number i, i + SHARDS, i + 2 SHARDS ... of DATA/in (sorted by name, counted from 0) to DATA/out, where i is JOB_COMPLETION_INDEX.
# Arguments are handed on to `headlight embed`: --tls, say, or --dtype float16.
# Ends with 2 where a file can never be embedded (an empty line, not UTF-8), or an argument is wrong, after the others; with 1, at once, where
# the service failed, is away, or does not know the token or the model, or the volume is full: another try may find it otherwise.
set -eu
: "${JOB_COMPLETION_INDEX:?is set by an Indexed Job}" "${SHARDS:?how many workers share the files}" "${DATA:=/data}"
trap 'exit 143' TERM # after the file at hand, or killed within it, which loses nothing; a shell that is process 1 would ignore it

mkdir -p "$DATA/out"
number=0
code=0
for input in "$DATA"/in/*.txt; do
  [ -e "$input" ] || { echo "$DATA/in has no *.txt" >&2; exit 2; }
  shard=$((number % SHARDS))
  number=$((number + 1))
  [ "$shard" -eq "$JOB_COMPLETION_INDEX" ] || continue
  output="$DATA/out/$(basename "$input" .txt).npz"
  [ ! -e "$output" ] || continue
  # It appears when it is whole. What came of it until then is in $output.partial, from where the next try goes on.
  if python -m headlight embed --file "$input" --priority bulk --format npz --out "$output" "$@"; then
    echo "$output"
  else
    code=$?
    [ "$code" -eq 2 ] || exit "$code"
  fi
done
exit "$code"
