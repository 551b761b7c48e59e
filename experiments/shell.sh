# shellcheck shell=sh disable=SC2154
# What the scripts that drive the program share. Sourced by demo.sh and by tests/claims; needs `schedtwin`, the
# program, and `root`, the source tree. Sets `work`, a folder that goes away at the end, and `conv`.
LC_ALL=C # decimal points
export LC_ALL

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The Azure conversation trace, or its synthetic twin where the file is not there.
conv_file=${SCHEDTWIN_DATA:-$root/../shared/data}/traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv
conv=synth:azure_conv
[ ! -f "$conv_file" ] || conv=$conv_file

# number NAME TEXT: the first number of that name in one line of JSON.
number() {
  found=$(printf '%s' "$2" | grep -o "\"$1\":[-0-9.e+]*" | head -n 1 | cut -d: -f2)
  [ -n "$found" ] || { echo "no number '$1' in: $2" >&2; return 1; }
  echo "$found"
}
# calculate EXPRESSION [DIGITS]
calculate() { awk "BEGIN { printf \"%.${2:-3}f\", $1 }"; }

# sustains POLICY PROFILE: requests a second, from a thousand at once. Lengths are a tenth of the service's, for
# small models.
sustains() {
  report=$("$schedtwin" sim --db "$work/scratch.db" --json --policy "$1" --profile "$2" --trace "$conv" \
    --length-scale 0.1 --rate-scale 1000 --limit 1000) || return
  number throughput_rps "$report"
}
# scale_to RPS COUNT: the --rate-scale at which the first COUNT requests come at that rate.
scale_to() {
  report=$("$schedtwin" trace info "$conv" --limit "$2" --json) || return
  rate=$(number rate_rps "$report") || return
  calculate "$1 / $rate"
}
