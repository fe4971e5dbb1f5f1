#!/bin/sh
# Embeds files number i, i + SHARDS, i + 2 SHARDS ... of DATA/in (sorted by name, counted from 0)
# into DATA/out; i is JOB_COMPLETION_INDEX. The files are *.txt, one text per line. With TEXT_COLUMN
# they are *.parquet; ID_COLUMN is a column that the output keeps. Arguments are passed to
# `headlight embed`: --tls, for example, or --dtype float16, or --local /mnt/models. Exits with 2,
# after the other files, if a file can never be embedded (an empty line, not UTF-8, no such column)
# or an argument is wrong. Exits with 1, at once, if the service fails, is unavailable, or rejects
# the token or the model, or if the volume is full: a retry may succeed.
set -eu
: "${JOB_COMPLETION_INDEX:?is set by an Indexed Job}" "${SHARDS:?how many workers share the files}" "${DATA:=/data}"
: "${TEXT_COLUMN:=}" "${ID_COLUMN:=}"
# A shell that is process 1 ignores TERM without a trap. It exits after the current file; being
# killed during a file loses nothing.
trap 'exit 143' TERM

kind=txt result=npz option=--file
if [ -n "$TEXT_COLUMN" ]; then
  kind=parquet result=parquet option=
  set -- --text-column "$TEXT_COLUMN" ${ID_COLUMN:+--id-column "$ID_COLUMN"} "$@"
fi
mkdir -p "$DATA/out"
number=0
code=0
for input in "$DATA"/in/*."$kind"; do
  [ -e "$input" ] || { echo "$DATA/in has no *.$kind" >&2; exit 2; }
  shard=$((number % SHARDS))
  number=$((number + 1))
  [ "$shard" -eq "$JOB_COMPLETION_INDEX" ] || continue
  output="$DATA/out/$(basename "$input" ".$kind").$result"
  [ ! -e "$output" ] || continue
  # $output appears when it is complete; until then its results are in $output.partial, from which a
  # retry resumes.
  # shellcheck disable=SC2086  # a table has no option before its name
  embedded=0
  python -m headlight embed "$@" --priority bulk --format "$result" --out "$output" $option "$input" || embedded=$?
  case $embedded in
    0 | 4) echo "$output" ;; # 4: complete, except what cannot be embedded; the log says where that is listed
    2) code=2 ;;
    *) exit "$embedded" ;;
  esac
done
exit "$code"
