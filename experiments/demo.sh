#!/bin/sh
# The main job: real conversation traffic and ResNet-50 traffic under several policies in the simulator,
# comparisons, and a what-if sweep of 40 settings; all in one results file. `./dev demo` builds the program
# and calls this with SCHEDTWIN set to it. DEMO_DB names another results file.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
schedtwin=${SCHEDTWIN:-$root/build/release/schedtwin}
[ -x "$schedtwin" ] || { echo "demo: no program $schedtwin; run ./dev demo, or set SCHEDTWIN" >&2; exit 2; }

# A file of the demo's own in build/ starts afresh; any other is only added to.
if [ -n "${DEMO_DB:-}" ]; then
  db=$DEMO_DB
elif [ -d "$root/build" ]; then
  db=$root/build/schedtwin-demo.db
  rm -f "$db" "$db-wal" "$db-shm"
else
  db=schedtwin-demo.db
fi

conv=${SCHEDTWIN_DATA:-$root/../shared/data}/traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv
if [ -f "$conv" ]; then
  what="the real trace, $conv"
else
  what="its synthetic twin (no file $conv; set SCHEDTWIN_DATA to use the real trace)"
  conv=synth:azure_conv
fi
images=synth:poisson:rate=180,count=20000

say() { printf '\n== %s\n\n' "$*"; }
# Kept in a variable first, for a pipe would hide that the program failed.
sim() {
  report=$("$schedtwin" sim --db "$db" "$@")
  printf '%s\n' "$report" | grep -v '^  stored in '
}
compare() { "$schedtwin" compare --db "$db" "$@"; }

say "1. One hour of the Azure conversation service on Llama-3-8B, one A100: $what"
for policy in fifo static_batch vllm_v1; do
  sim --trace "$conv" --policy $policy --profile llama3-8b-a100 --slo ttft=1s,tpot=100ms
done

echo
echo "static_batch against vllm_v1:"
compare latest-1 latest

say "2. ResNet-50 on a T4: 180 images/s, Poisson arrivals"
for policy in immediate dynamic_batch; do
  sim --trace "$images" --policy $policy --profile resnet50-t4 --slo e2e=100ms
done

echo
echo "immediate against dynamic_batch:"
compare latest-1 latest

say "3. What if? vllm_v1 with 5 batch limits at 8 rates: 40 runs of the hour, on all cores"
"$schedtwin" sweep --db "$db" --trace "$conv" --policy vllm_v1 --profile llama3-8b-a100 \
  --set policy.max_num_seqs=16,32,64,128,256 --rate-scale 0.25,0.5,0.75,0.9,1,1.1,1.25,1.5 \
  --slo ttft=1s,tpot=100ms

"$schedtwin" db check --db "$db" >/dev/null

say "Done. All of it is in $db"
cat <<END
Try next:
  $schedtwin db list --db '$db'
  $schedtwin sim --trace synth:azure_conv --policy vllm_v1 --devices 2 --rate-scale 2
  $schedtwin policies vllm_v1          what can be set, with --set policy.PARAMETER=VALUE
  $schedtwin sweep --help              your own what-if
  $schedtwin db show latest --db '$db'
END
